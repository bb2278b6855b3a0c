"""The site builds without a warning and without a network, and holds together."""

import contextlib
import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sphinx.search.en import SearchEnglish

import tiltlens
import tiltlens.figures

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
TERMS = (  # of the field, for what tiltlens computes or reports under a name of its own
    *("BISG", "LDA", "less discriminatory alternative", "disparate impact", "disparate treatment"),
    *("statistical parity", "Oaxaca–Blinder", "omitted variable", "p-value", "statistical significance"),
    *("exposure", "adverse impact ratio", "four-fifths rule"),
)
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
    assert "(tutorials/lending.html)" in (site / "llms.txt").read_text()
    for path in site.rglob("*.html"):
        page = path.read_text()
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page):
            assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", tag), (path.name, tag)
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", path.read_text()), path.name


@functools.cache
def search_index(site):
    text = (site / "searchindex.js").read_text()
    return json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))


def pages_found(site, query):
    """Return the pages that have every word of a query, stemmed as the site's search does."""
    index, english = search_index(site), SearchEnglish({})
    found = []
    for word in map(english.stem, english.split(query)):
        pages = [index[part].get(word, []) for part in ("terms", "titleterms")]
        found.append({page for some in pages for page in (some if isinstance(some, list) else [some])})
    return {index["docnames"][page] for page in set.intersection(*found)}


@pytest.mark.parametrize("term", TERMS)
def test_search_finds_the_terms_of_the_field(site, term):
    assert "reference/glossary" in pages_found(site, term)


def test_search_does_not_find_a_term_that_is_nowhere(site):
    assert pages_found(site, "quincunx") == set()


def test_equations_are_drawn_by_a_script_of_the_site(site):
    for name in ("methods", "concepts/contributions"):
        page = (site / f"{name}.html").read_text()
        assert "tex-svg.js" in page
        assert 'class="math' in page
    assert (site / "_static" / "tex-svg.js").stat().st_size > 1_000_000


def test_the_reference_names_everything_public(site):
    """D16: entries had no types, Returns or source."""
    names = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api.md").read_text(), re.MULTILINE))
    assert {name for name in names if "." not in name} == set(tiltlens.__all__), "api.md and tiltlens.__all__ differ"
    drawn = {name for name in tiltlens.figures.__all__ if not name.isupper() and name != "comparison_figure"}
    assert {name.removeprefix("figures.") for name in names if name.startswith("figures.")} == drawn
    for name in names:
        page = "tiltlens.audit_function" if name == "audit" else f"tiltlens.{name}"
        entry = (site / "api" / f"{page}.html").read_text()
        assert "[source]" in entry, f"{name} has no link to its source"
        assert "See also" in entry, f"{name} has no entry See Also"
        if name.split(".")[-1][0].islower():
            assert "Returns" in entry, f"{name} does not say what it returns"
            assert "Raises" in entry or name == "datasets.load_compas", f"{name} does not say what it raises"


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
        assert "−23.3 points (95% CI −30.3 to −17.0)" in tab.inner_text("article")
        assert tab.evaluate("[...document.images].every(one => one.naturalWidth > 0)")
        tab.locator("header a", has_text="Reference").first.click()
        tab.locator("article a", has_text="API").first.click()
        tab.locator("article a", has_text="Comparison").first.click()
        assert "contributions_full" in tab.inner_text("article")
        tab.locator("header a", has_text="Reference").first.click()
        tab.locator("article a", has_text="Glossary").first.click()
        assert "membership model" in tab.inner_text("article")


@pytest.mark.browser
def test_equations_are_typeset_with_the_network_off(site, browser):
    with offline_tab(browser, site / "methods.html") as tab:
        tab.wait_for_selector("mjx-container svg")
        assert tab.locator("mjx-container").count() > 100
        assert tab.locator("[data-mml-node=merror]").count() == 0
