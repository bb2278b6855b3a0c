"""The code of every page runs, and prints and draws what the page shows: `make docs-execute` writes it there."""

import re

import pytest
from scripts.execute_docs import DOCS, IMG, executed, pages, pictures
from tests.vocabulary import dialect_of

PAGES = pages()


def words_of(picture):
    return re.findall(r"<text[^>]*>(.*?)</text>", picture)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_the_page_prints_what_it_shows(page, tmp_path):
    _, changed = executed(page, tmp_path)
    assert not changed, f"stale outputs, by line: {changed}; `make docs-execute` renews them"
    for name, picture in pictures(page, tmp_path).items():
        assert words_of(picture) == words_of((IMG / name).read_text()), f"{name}: `make docs-execute` renews it"


WRITTEN = [path for path in DOCS.rglob("*.md") if "_build" not in path.parts]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_no_code_is_left_out(page):
    """Python runs as doctest and commands of tiltlens as console; what installs, or takes hours, is of kind sh."""
    for kind, body in re.findall(r"^```(\{[\w-]+\}|\w*)[^\n]*\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        assert kind.startswith("{") or kind in ("python", "console", "sh"), f"a block of kind {kind!r}: {body}"
        if kind == "python":
            assert body.startswith(">>> "), f"code that is not run: {body}"
        if kind == "sh":
            assert not re.search(r"^\s*tiltlens\b", body, re.MULTILINE), f"a command that is not run: {body}"


OPENING = re.compile(r"^# [^\n]+\n\n(?P<text>.+?)\n\n", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_a_page_opens_with_its_purpose_and_its_readers(page):
    if page.name == "index.md":
        return
    opening = OPENING.search(page.read_text())["text"].replace("\n", " ")
    assert len(re.split(r"[.;] ", opening)) >= 2, opening
    assert " for " in opening, f"the first paragraph says for whom the page is: {opening}"


CODE = re.compile(r"^(?:```.*?^```$|<!--.*?-->$)|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def prose_of(page):
    return CODE.sub("", re.sub(r"^<!-- printed: .*?^<!-- end -->$", "", page, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_pages_use_the_words_of_the_field(page):
    assert dialect_of(prose_of(page.read_text())) == []


def test_each_term_of_the_glossary_has_a_definition_below_it():
    page = (DOCS / "reference" / "glossary.md").read_text()
    entries = re.search(r"^:sorted:\n\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL)[1].split("\n\n")
    assert len(entries) > 30
    assert [entry for entry in entries if not re.fullmatch(r"\S.*(?:\n  \S.*)+", entry)] == []
