"""The rules as data: complete, dated, cited, and in words that promise nothing."""

import json
import re
from dataclasses import fields
from importlib.resources import files

import pytest

from tiltlens._rules.rule import Rule, known_rules, ratio_threshold_of, rule_named, smallest_share_of
from tiltlens.errors import DataError

FORBIDDEN = ("fair", "complian", "adverse", "violat", "discriminat")


def test_every_file_is_a_complete_rule_named_after_its_id():
    names = [file.name for file in files("tiltlens._rules").iterdir() if file.name.endswith(".json")]
    for name in names:
        entries = json.loads(files("tiltlens._rules").joinpath(name).read_text(encoding="utf-8"))
        assert set(entries) == {field.name for field in fields(Rule)}
        assert name == entries["id"].replace("-", "_") + ".json"
    assert len(names) == len(known_rules())


@pytest.mark.parametrize("rule", known_rules().values(), ids=lambda rule: rule.id)
def test_every_rule_is_cited_dated_and_says_what_it_does_not_decide(rule):
    assert all((rule.title, rule.compares, rule.denominator, rule.citation, rule.rates, rule.attributes))
    assert re.search(r"\b(19|20)\d\d\b", rule.dated)
    assert re.search(r"\b20\d\d\b", rule.status_dated)
    assert rule.status_source
    assert rule.status.startswith(("in force; ", "the EEOC plans to rescind it: "))
    assert rule.does_not_decide.endswith(".")
    words = " ".join(
        (rule.title, rule.compares, rule.denominator, rule.intersections, rule.status, rule.does_not_decide)
    )
    assert not [word for word in FORBIDDEN if word in words.lower()]


def test_the_numbers_are_those_of_the_texts():
    four_fifths, nyc = rule_named("four-fifths"), rule_named("nyc-local-law-144")
    assert (four_fifths.threshold, four_fifths.smallest_share, four_fifths.citation) == (0.8, None, "29 CFR 1607.4(D)")
    assert (nyc.threshold, nyc.smallest_share, nyc.rates) == (None, 0.02, ("selection", "scoring"))


def test_numbers_asked_for_take_the_place_of_the_rules():
    nyc = rule_named("nyc-local-law-144")
    assert (ratio_threshold_of(nyc), ratio_threshold_of(nyc, 0.9), ratio_threshold_of(nyc, 1)) == (None, 0.9, 1.0)
    assert (smallest_share_of(nyc), smallest_share_of(nyc, 0), smallest_share_of(nyc, 0.05)) == (0.02, 0.0, 0.05)
    assert smallest_share_of(rule_named("four-fifths")) == 0.0


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("four_fifths", r"did you mean 'four-fifths'\? The rules are 'four-fifths', 'nyc-local-law-144'\."),
        ("gdpr", r"Hint: The rules are 'four-fifths', 'nyc-local-law-144'\."),
        (None, "None"),
        (["four-fifths"], r"'four-fifths'"),
    ],
)
def test_an_unknown_rule_lists_those_there_are(name, hint):
    with pytest.raises(DataError, match=r"(?s)Unknown rule.*" + hint):
        rule_named(name)


@pytest.mark.parametrize("value", [0, -0.1, 1.1, float("nan"), "0.8", True, 80])
def test_thresholds_outside_0_to_1_are_errors(refused, value):
    with refused(DataError, "`ratio_threshold`"):
        ratio_threshold_of(rule_named("four-fifths"), value)


@pytest.mark.parametrize("value", [-0.1, 1, float("nan"), "2 %", False])
def test_smallest_shares_outside_0_to_1_are_errors(value):
    with pytest.raises(DataError, match=r"`smallest_share` must be .* got .*\nHint: "):
        smallest_share_of(rule_named("four-fifths"), value)
