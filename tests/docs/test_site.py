"""The site builds without a warning and without a network, and holds together."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tiltlens

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
HOSTS = {"doi.colorado.gov", "github.com", "pre-commit.com", "www.osc.ny.gov", "www.reginfo.gov"}
PEERS = {
    "burning-cost.github.io",
    "fairlearn.org",
    "shap.readthedocs.io",
    "vfairness.validant.ai",
    "www.statsmodels.org",
}
LINK = re.compile(r"\]\(([^)\s#]+)(?:#([^)\s]+))?\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning of Sphinx, such as a link that leads nowhere, is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run(
        [*command, "--doctree-dir", folder / "trees", DOCS, folder / "html"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def test_every_page_is_built_and_fetches_nothing(site):
    built = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    written = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md") if "_build" not in path.parts}
    assert not written - built
    assert "(cases/lending.html)" in (site / "llms.txt").read_text()
    for path in site.rglob("*.html"):
        page = path.read_text()
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page):
            assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", tag), (path.name, tag)
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", path.read_text()), path.name


def test_the_reference_names_everything_public(site):
    listed = set(re.findall(r"^   (\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE))
    assert listed == set(tiltlens.__all__), "docs/api.md and tiltlens.__all__ must name the same"


@pytest.mark.parametrize("name", tiltlens.__all__)
def test_every_public_name_has_an_example(name):
    """Doctest runs them."""
    assert ">>> " in getattr(tiltlens, name).__doc__, f"the docstring of {name} must have an example"


def test_links_that_leave_the_site_are_known():
    """They are not followed: nothing here needs a network."""
    texts = [path.read_text() for path in [*PAGES, *DOCS.rglob("*.md")] if "_build" not in path.parts]
    assert {host for text in texts for host in re.findall(r"\]\(https?://([^/)]+)", text)} == HOSTS | PEERS


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_beside_the_site_lead_somewhere(page):
    for target, _ in LINK.findall(page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@contextlib.contextmanager
def offline_tab(browser, page):
    """Yield a tab with the page open and no network; a request, or an error of a script, is a failure.

    From disk the search shows no excerpts: browsers do not let one file fetch another.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 800}, offline=True)
    tab, complaints = context.new_page(), []
    tab.on("pageerror", lambda error: complaints.append(str(error)) if str(error) != "Failed to fetch" else None)
    tab.on("request", lambda request: complaints.append(request.url) if not request.url.startswith("file:") else None)
    tab.goto(page.as_uri())
    yield tab
    context.close()
    assert not complaints


@pytest.mark.browser
def test_a_reader_finds_a_case_and_a_name_with_the_network_off(site, browser):
    with offline_tab(browser, site / "index.html") as tab:
        tab.keyboard.press("Control+k")
        tab.locator("#pst-search-dialog input").fill("mortgage")
        tab.keyboard.press("Enter")
        tab.locator("#search-results a", has_text="Lending").first.click()
        assert "−23.3 points (95% CI" in tab.inner_text("article")
        assert tab.evaluate("[...document.images].every(one => one.naturalWidth > 0)")
        tab.locator("header a", has_text="API reference").first.click()
        tab.locator("article a", has_text="Comparison").first.click()
        assert "contributions_full" in tab.inner_text("article")
        tab.locator("header a", has_text="Guide").first.click()
        tab.locator("article a", has_text="glossary").first.click()
        assert "membership model" in tab.inner_text("article")
