"use strict";
// What follows the dial or a click: looked up in the page's data, never made here. Text from the data only ever
// becomes textContent.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const views = {};
  if (location.hash === "#paper") document.documentElement.classList.add("paper");

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    for (const child of children) element.append(child);
    return element;
  };
  const minus = (text) => text.replace("-", "\u2212");
  const percent = (share, digits = 1) => (share === null ? "–" : minus(`${(100 * share).toFixed(digits)}%`));
  const fixed = (value, digits = 3) => (value === null ? "–" : minus(value.toFixed(digits)));
  const clamp = (value) => Math.min(Math.max(value, 0), 1);

  const turns = {};

  const draw = async (element) => {
    const spec = data.specs[element.id];
    if (!spec || element.dataset.drawn) return;
    element.dataset.drawn = "yes";
    try {
      const result = await window.vegaEmbed(element, spec, { renderer: "svg", actions: false });
      views[element.id] = result.view;
      const svg = element.querySelector("svg");
      if (svg) svg.setAttribute("aria-hidden", "true");
      element.setAttribute("role", "img");  // Vega made it a document, whose parts are hidden
      element.removeAttribute("aria-roledescription");
      element.dataset.drawn = "done";
      if (element.closest(".dial")) turns[element.closest("section.comparison").dataset.place]();
    } catch (error) {
      element.textContent = "This figure could not be drawn; its numbers are below.";
      console.error(error);
    }
  };

  const drawAll = () => Promise.all([...document.querySelectorAll(".drawing")].map(draw));

  // One picture after the other, while the page is idle: all are there when it is printed.
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 20));
  const drawNext = (waiting) => {
    if (waiting.length) idle(async () => { await draw(waiting[0]); drawNext(waiting.slice(1)); });
  };

  const shareTrack = (value, low, high) => {
    const track = make("span", { class: "track", "aria-hidden": "true" });
    const range = make("i"); range.style.left = `${100 * low}%`; range.style.width = `${100 * (high - low)}%`;
    const middle = make("b"); middle.style.left = `${100 * value}%`;
    track.append(range, middle);
    return track;
  };

  const dialShares = (section, part, position) => {
    const t = part.dial[position].position;
    const body = section.querySelector(".dial-shares tbody");
    body?.replaceChildren(...part.features.filter((feature) => feature.shares).map((feature) => {
      const [value, low, high] = feature.shares[position];
      const name = make("bdi", { title: feature.name }, feature.label);
      return make("tr", {},
        make("th", { scope: "row" }, name),
        make("td", { "data-value": value }, low === 0 && high === 1 ? "not determined" : percent(value)),
        low === null ? make("td", {}, "–")
          : make("td", { "data-low": low, "data-high": high }, shareTrack(value, low, high), `${percent(low)} to ${percent(high)}`));
    }));
    const words = `λ2 = ${fixed(1 - t, 2)} on inputs, λ4 = ${fixed(t, 2)} on outputs.`;
    section.querySelector(".position").textContent = words;
    section.querySelector('input[type="range"]').setAttribute("aria-valuetext", words);
  };

  const dialDistribution = (place, part, position) => {
    const view = views[`correction-${place}`];
    if (!view) return;
    const bins = part.correction[position];
    // Only what was given: a spread would copy Vega's hidden identity, and the old rows would stay.
    const rows = view.data("table").map((row, i) => ({
      ...Object.fromEntries(Object.entries(row)), share: bins[i], withheld: bins[i] === null,
      shown: bins[i] === null ? data.withheld : percent(bins[i]),
    }));
    view.data("table", rows).run();
  };

  const meanCorrection = (value, position) => (value.mean_correction?.[position] ?? null);

  const place4 = (x) => `${100 * clamp((x + 4) / 8)}%`;
  const box = (value, position) => {
    const track = make("span", { class: "track", "aria-hidden": "true" });
    const zero = make("u"); zero.style.left = "50%"; track.append(zero);
    const spread = value.quantiles ? value.quantiles[position] : [null, null, null, null, null];
    const span = (low, high, name) => {
      if (low === null || high === null) return;
      const part = make("i", name ? { class: name } : {});
      part.style.left = place4(low); part.style.width = `${100 * (clamp((high + 4) / 8) - clamp((low + 4) / 8))}%`;
      track.append(part);
    };
    span(spread[0], spread[4]); span(spread[1], spread[3], "half");
    const mean = meanCorrection(value, position);
    if (mean !== null) { const mark = make("b"); mark.style.left = place4(mean); track.append(mark); }
    return track;
  };

  const people = (share, count, kind) => {
    const bar = make("span", { class: `bar ${kind}`, "aria-hidden": "true" });
    bar.style.width = `${share === null ? 0 : Math.round(100 * share)}px`;
    const text = share === null ? "suppressed (fewer than 10 people, or derivable)" : `${percent(share)} (${count.toLocaleString("en")})`;
    return make("div", {}, bar, ` ${text}`);
  };

  const showProfile = (section, part, index, position) => {
    const feature = part.features[index];
    const panel = section.querySelector(".profile");
    const heading = make("h4"); heading.append("Profile of ", make("bdi", {}, feature.name));
    const close = make("button", { type: "button", class: "close" }, "Close");
    close.addEventListener("click", () => {
      panel.hidden = true; delete section.dataset.feature;
      const pressed = section.querySelector('button.feature[aria-pressed="true"]');
      if (pressed) { pressed.setAttribute("aria-pressed", "false"); pressed.focus(); }
    });
    const hasMoved = feature.values.some((value) => value.share_moved !== null);
    const head = ["value", `${part.audited} (filled) and ${part.reference} (outlined)`, part.mean, "correction: mean, half and nine tenths of people (−4 to 4)"];
    if (hasMoved) head.push("share after the least change");
    const rows = feature.values.map((value) => {
      const mean = meanCorrection(value, position);
      const label = make("bdi"); label.textContent = value.value;
      const cells = [
        make("th", { scope: "row" }, label),
        make("td", { class: "pair" }, people(value.share_audited, value.n, "audited"), people(value.share_reference, value.n_reference, "reference")),
        make("td", {}, value.score_text),
        make("td", { class: "expert", "data-mean": mean === null ? "" : mean }, box(value, position), mean === null ? "–" : `mean ${fixed(mean, 2)}`),
      ];
      if (hasMoved) cells.push(make("td", { class: "expert" }, percent(value.share_moved)));
      return make("tr", {}, ...cells);
    });
    if (!rows.length) rows.push(make("tr", {}, make("td", { colspan: head.length }, "left out to keep this page small")));
    const table = make("table", {},
      make("thead", {}, make("tr", {}, ...head.map((text, i) => make("th", i > 2 ? { scope: "col", class: "expert" } : { scope: "col" }, text)))),
      make("tbody", {}, ...rows));
    const direction = make("p"); direction.textContent = `${feature.direction}; ${feature.reason}${feature.notes ? ` (${feature.notes})` : ""}`;
    panel.replaceChildren(make("header", {}, heading, close), direction,
      make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Profile" }, table));
    panel.hidden = false;
  };

  // Folded parts keep their width, so that pictures in them are drawn as they will be seen, and print unfolded.
  document.documentElement.classList.add("folding");
  const unfold = (fold, isOpen) => {
    fold.classList.toggle("open", isOpen);
    fold.querySelector(".folder").setAttribute("aria-expanded", isOpen);
  };
  for (const fold of document.querySelectorAll(".fold"))
    fold.querySelector(".folder").addEventListener("click", () => unfold(fold, !fold.classList.contains("open")));
  const unfoldTarget = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target?.matches(".fold")) unfold(target, true);
  };
  window.addEventListener("hashchange", unfoldTarget);
  unfoldTarget();

  // The part of the page that is being read is marked in the contents.
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const reading = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting)
      for (const [id, link] of links) link.setAttribute("aria-current", id === entry.target.id);
  }, { rootMargin: "-20% 0px -79% 0px" });
  for (const id of links.keys()) reading.observe(document.getElementById(id));

  // Paper has no click: what is closed is open there, and closed again on the screen.
  const onPaper = (isPrinted) => {
    for (const one of document.querySelectorAll(isPrinted ? "details:not([open], .numbers)" : "details.printed")) {
      one.open = isPrinted; one.classList.toggle("printed", isPrinted);
    }
  };
  matchMedia("print").addEventListener("change", (event) => onPaper(event.matches));

  // What is wider than its frame says so, and the arrow keys scroll it.
  const cue = () => {
    for (const frame of document.querySelectorAll(".scroll, .frame")) {
      const isCut = frame.classList.toggle("cut", frame.scrollWidth > frame.clientWidth + 1);
      if (frame.matches(".frame")) frame.toggleAttribute("tabindex", isCut);
      if (isCut) frame.tabIndex = 0;
    }
  };
  for (const frame of document.querySelectorAll(".scroll, .frame"))
    frame.after(make("p", { class: "cue", "aria-hidden": "true" }, "scroll sideways for more →"));
  new ResizeObserver(cue).observe(document.body);

  for (const section of document.querySelectorAll("section.comparison")) {
    const place = section.dataset.place, part = data.comparisons[place];
    if (!part) continue;
    const slider = section.querySelector('input[type="range"]');
    const position = () => (slider ? Number(slider.value) : 0);
    const turn = () => {
      dialShares(section, part, position());
      dialDistribution(place, part, position());
      if (section.dataset.feature !== undefined) showProfile(section, part, Number(section.dataset.feature), position());
    };
    if (slider) { slider.addEventListener("input", turn); turns[place] = turn; turn(); }
    for (const button of section.querySelectorAll("button.feature")) button.addEventListener("click", () => {
      for (const other of section.querySelectorAll("button.feature")) other.setAttribute("aria-pressed", other === button);
      section.dataset.feature = button.dataset.feature;
      showProfile(section, part, Number(button.dataset.feature), position());
      section.querySelector(".profile").scrollIntoView({ block: "nearest" });
    });
    const more = section.querySelector("button.show-more");
    if (more) more.addEventListener("click", () => {
      section.querySelector("tbody.more").hidden = false;
      more.setAttribute("aria-expanded", "true"); more.hidden = true;
      section.querySelector("tbody.more button.feature").focus();
    });
  }
  drawNext([...document.querySelectorAll(".drawing")]);
  window.addEventListener("beforeprint", () => { onPaper(true); drawAll(); });
  window.addEventListener("afterprint", () => onPaper(false));
  // For tests, and for readers with a console: the shares that a histogram shows.
  window.tiltlens = { drawn: (id) => views[id].data("table").map((row) => row.share) };
})();
