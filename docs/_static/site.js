// Names for two controls of the theme that screen readers could not name, or named other than what they show.
document.addEventListener("DOMContentLoaded", () => {
  for (const toggle of document.querySelectorAll("summary:has(.toctree-toggle)")) {
    const page = toggle.closest("li")?.querySelector("a")?.textContent.trim();
    toggle.setAttribute("aria-label", `Pages of ${page}`);
  }
  for (const button of document.querySelectorAll(".search-button-field")) button.setAttribute("aria-label", button.innerText.trim() || "Search");
});
