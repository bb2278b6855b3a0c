"""Texts for people have the words and the number formats of the field, wherever they are made."""

import json
import re

import pytest
from tests.render.summaries import amounts_audit, cross_fitted_audit, decisions_audit, typed, with_outcome_audit
from tests.vocabulary import catalogue, command_help, dialect_of, docstrings, messages, planted_proxies

from tiltlens._documents.audit_document import audit_document
from tiltlens._documents.document import named
from tiltlens._render.html import document_html
from tiltlens.errors import NothingToDrawError
from tiltlens.figures import COMPARISON_FIGURES

PLACES = {
    "catalogues": catalogue,
    "help": command_help,
    "docstrings": docstrings,
    "messages": messages,
}
AUDITS = (cross_fitted_audit, decisions_audit, with_outcome_audit, amounts_audit)
HYPHEN = re.compile(r"(?<![\w.,:)/#\"'-])-\d")


@pytest.mark.parametrize("place", PLACES)
def test_texts_for_people_have_the_words_of_the_field(place):
    texts = list(PLACES[place]())
    assert len(texts) > 10
    assert [(where, found) for where, text in texts if (found := dialect_of(text))] == []


def test_tables_of_planted_proxies_have_the_words_and_number_formats_of_the_field():
    texts = list(planted_proxies())
    assert [(where, found) for where, text in texts if (found := dialect_of(text))] == []
    assert [found for _, text in texts for found in HYPHEN.findall(text)] == []


@pytest.mark.parametrize("make", AUDITS)
def test_documents_have_the_words_and_number_formats_of_the_field(make):
    text = re.sub(r"<img[^>]*>", "", document_html(audit_document(named(typed(make())))))
    text = re.sub(r"<[^>]+>", "\n", text)
    assert dialect_of(text) == []
    assert HYPHEN.findall(text) == []


@pytest.mark.parametrize("make", AUDITS)
def test_figures_have_the_words_and_number_formats_of_the_field(make):
    c = typed(make())[0]
    for draw in COMPARISON_FIGURES.values():
        try:
            figure = draw(c)
        except NothingToDrawError:
            continue
        texts = [figure.title, figure.subtitle, figure.note, figure.description, *figure.reading.values()]
        axes = re.findall(r'"title": (?:"[^"]*"|\[[^]]*\])', json.dumps(figure.spec(), ensure_ascii=False))
        assert dialect_of("\n".join([*texts, *axes])) == [], figure.title
        assert HYPHEN.findall(" ".join(texts)) == [], figure.title


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("what is told of scores", ["what is told"]),
        ("One bar a feature.", []),
        ("one bar a feature", ["one bar a feature"]),
        ("columns that are no features", ["are no features"]),
        ("there is no outcome", []),
        ("a potential proxy or stand-in", []),
        ("5 % of what is told by `what counts`", ["5 %", "what is told"]),
        ("a gap of +0.00 (p = 0.000)", ["+0.00", "p = 0.000"]),
        ("Of scores, a ratio", ["Of scores"]),
    ],
)
def test_words_that_are_not_of_the_field_are_found(text, words):
    assert dialect_of(text) == words


def test_a_planted_phrase_fails_the_scan(monkeypatch):
    from tiltlens._notes import SENTENCES

    monkeypatch.setitem(SENTENCES, "planted", "what is told of scores")
    with pytest.raises(AssertionError, match="what is told"):
        test_texts_for_people_have_the_words_of_the_field("catalogues")
