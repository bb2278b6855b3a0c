"""The plain words never say more than the numbers, and never less than what was asked."""

import copy
import re

import numpy as np
import polars as pl
import pytest
from tests.people import audited, people
from tests.render.summaries import (
    cross_fitted,
    cross_fitted_audit,
    decisions_audit,
    plug_in,
    plug_in_audit,
)

from tiltlens import formats
from tiltlens._pipeline import audit
from tiltlens.documents import sentences as words
from tiltlens.documents.summary_access import dial_place
from tiltlens.documents.verdict_texts import OPEN, VERDICTS
from tiltlens.errors import DataError
from tiltlens.estimators.verdicts import Verdict
from tiltlens.render.page import page


@pytest.fixture(scope="module")
def summary():
    return audited(people(), propensity="chance").to_dict()


def changed(summary, **fields):
    """Return the comparison of a summary with some fields replaced."""
    return copy.deepcopy(summary["comparisons"]["A"]) | fields


def estimate(value, low, high):
    return {"value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        (estimate(0.1, 0.05, 0.15), "is 10.0 points higher than that of B (95 % interval +5.00 to +15.00)"),
        (estimate(-0.004, -0.006, -0.002), "is 0.40 points lower than that of B (95 % interval −0.60 to −0.20)"),
        (estimate(0.1, -0.05, 0.25), "cannot tell whether the mean scores of A and B differ"),
        (estimate(0.0, None, None), "are equal in these data. No interval was asked for"),
    ],
)
def test_the_gap_in_words(summary, gap, said):
    assert said in words.found_words(summary, changed(summary, gap=gap))[0]


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (estimate(0.001, -0.002, 0.004), "It is below the materiality threshold of 0.50 points."),
        (estimate(0.002, 0.001, 0.003), "It is below the materiality threshold of 0.50 points."),
        (estimate(0.03, -0.08, 0.14), "It may be 0 or exceed the materiality threshold"),
        (estimate(0.03, 0.001, 0.14), "It is not zero, but may be below the materiality threshold"),
        (estimate(0.03, 0.02, 0.04), "an omitted factor or use of the group may."),
        (estimate(-0.03, -0.04, -0.02), "an omitted factor or use of the group may."),
        (estimate(0.0, 0.0, 0.0), "Adjusted gap: 0, because the model sees nothing but the listed features."),
    ],
)
def test_the_unexplained_part_in_words_is_read_from_its_interval(summary, left, said):
    c = changed(summary, unexplained=left, notes=[])
    line = " ".join(words.found_words(summary, c))
    assert said in line
    assert "Adjusted gap: " in line


def test_an_adjusted_gap_names_no_cause_where_the_checks_failed(summary):
    balance = summary["comparisons"]["A"]["balance"] | {"is_adequate": False}
    left = estimate(0.03, 0.02, 0.04)
    said = " ".join(words.found_words(summary, changed(summary, unexplained=left, balance=balance)))
    assert "The overlap and calibration checks failed, so this number may be wrong." in said
    assert "use of the group" not in said


@pytest.mark.parametrize("notes", [[], ["the listed features do not account for +3.00 points of the gap"], ["?"]])
def test_what_notes_say_changes_no_finding(summary, notes):
    """Findings are made of numbers: a note may be reworded, translated or left out."""
    c = changed(summary, unexplained=estimate(0.03, -0.08, 0.14), notes=notes)
    assert "these data do not decide it" in " ".join(words.found_words(summary, c))


def judged(summary, *given):
    """Return what is said of features with these verdicts."""
    rows = [row | {"verdict": one} for row, one in zip(summary["comparisons"]["A"]["proxies"], given, strict=False)]
    return words.found_words(summary, changed(summary, proxies=rows))


@pytest.mark.parametrize("verdict", [text for text, one in VERDICTS.items() if one.kind == OPEN])
def test_what_the_data_do_not_settle_is_never_no_evidence(summary, verdict):
    said = " ".join(judged(summary, "no material contribution", verdict))
    assert VERDICTS[verdict].opening.split(",")[0].split("{")[0] in said
    assert "No feature carries" not in said
    assert "No material contribution" not in " ".join(judged(summary, verdict, verdict))


def test_every_verdict_is_said_and_a_new_one_is_not_lost(summary):
    names = [row["feature"] for row in summary["comparisons"]["A"]["proxies"]]
    for verdict in (*VERDICTS, "a verdict of {tomorrow}"):
        lines = [line for line in judged(summary, verdict) if names[0] in line]
        assert len(lines) == 1, verdict
        assert lines[0].endswith(f"{names[0]}.") or verdict == "potential proxy"
    assert any(line.startswith("A verdict of {tomorrow}: ") for line in judged(summary, "a verdict of {tomorrow}"))


def test_verdicts_on_the_page_are_marked_and_explained_by_the_table(summary):
    text = page(summary)
    given = {row["verdict"] for row in summary["comparisons"]["A"]["proxies"]}
    assert words.verdicts_given(summary).keys() == given
    for verdict in VERDICTS:
        assert (f'<span class="verdict {VERDICTS[verdict].kind}">{verdict}</span>' in text) == (verdict in given)
        assert (f"<dt>“{verdict}”</dt>" in text) == (verdict in given)


def test_the_table_holds_every_verdict_of_the_library():
    theirs = set(Verdict)
    assert theirs
    assert theirs == VERDICTS.keys()
    assert len(VERDICTS) == 10
    copied = people().with_columns(copy=pl.col("group"))
    rows = audited(copied, features=["city", "copy"], propensity="chance").to_dict()["comparisons"]["A"]["proxies"]
    assert {row["feature"]: row["verdict"] for row in rows}["copy"] == "identifies the group"
    assert {row["verdict"] for row in rows} <= VERDICTS.keys()


def test_an_impact_ratio_without_an_upper_limit_has_a_page(summary):
    ratio = {"value": 2.0, "low": 0.5, "high": None}
    text = page(summary | {"comparisons": {"A": changed(summary, impact_ratio=ratio)}})
    assert "<small>0.50 to no limit</small>" in text
    assert "50.0 % to no limit" in text


def test_what_was_asked_is_said():
    found = audited(
        people(1200, 1),
        folds=None,
        threshold=0.5,
        sample_weight="weight",
        where={"owner": True},
        features=["income", "city"],
        favourable="low",
    ).to_dict()
    said = " ".join(words.audited_words(found))
    assert "Only rows with owner = True" in said
    assert "Scores of 0.5 or more count as decision 1" in said
    assert "by their weight (weight)" in said
    assert "the decision 0" in said
    assert found["provenance"]["question"]["where"] == {"owner": "True"}


def test_low_scores_that_a_person_wants_are_called_low(summary):
    assert words.favourable_words(summary | {"favourable": "0"}).startswith("a low score")
    assert words.favourable_words(summary | {"favourable": "1"}).startswith("a high score")


def test_the_dial_starts_at_the_audits_own_weights(summary):
    for inputs, outputs, place in ((1, 1, 10), (0, 1, 20), (1, 0, 0), (3, 1, 5)):
        c = copy.deepcopy(summary["comparisons"]["A"])
        c["correction"] |= {"input_weight": inputs, "output_weight": outputs}
        assert dial_place(c) == place
    dial = re.search(r'type="range"[^>]* value="(\d+)"', page(summary | {"comparisons": {"A": c}}))
    assert int(dial[1]) == place == 5


def test_sixty_groups_make_a_small_page_and_all_are_told_of():
    random = np.random.default_rng(0)
    rows = 60 * 40
    data = pl.DataFrame(
        {
            "group": [f"group {place % 60}" for place in range(rows)],
            "town": random.choice([f"town {j}" for j in range(3)], rows),
            "score": random.random(rows) / 5 + np.where(np.arange(rows) % 60 == 0, 0.2, 0.6),  # near gaps take long
        }
    )
    text = page(audit(data, group="group", reference="group 0", scores="score", folds=None).to_dict())
    assert len(text) < 3_000_000
    plain = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    for place in range(1, 60):
        assert f"mean score of group {place} " in plain or f"mean scores of group {place} " in plain


def test_texts_that_cannot_be_written_are_the_users_mistake():
    with pytest.raises(DataError, match="`provenance` must be texts that can be written as UTF-8"):
        audited(people(), folds=None, provenance={"model": "caf\udce9"})


def test_nothing_is_printed_as_less_than_zero():
    assert (formats.number(-1e-6), formats.points(-1e-6), formats.signed(-1e-6)) == ("0.0000", "+0.00", "+0.0000")
    assert (formats.short_number(-1e-6), formats.percent(-1e-6)) == ("0.000", "0.0 %")
    assert formats.interval(-1e-6, 1e-6) == "0.0000 to 0.0000"


def test_intervals_in_words():
    assert formats.interval(None, None) == "–"
    assert formats.interval(0.5, None) == "0.5000 to no limit"
    assert formats.interval(-0.01, 0.02, formats.points) == "−1.00 to +2.00"
    assert formats.with_interval(0.3, 0.2, 0.4, formats.percent) == "30.0 % (20.0 % to 40.0 %)"
    assert formats.with_interval(0.3, None, None) == "0.3000 (no interval)"
    assert (formats.share(0.3, 0.0, 1.0), formats.share(0.3, 0.0, 0.9)) == ("not determined", "30.0 %")
    assert (formats.size(-0.1052), formats.size(0.005)) == ("10.5", "0.50")
    assert (formats.whole(-1234.5), formats.whole(-0.2)) == ("−1,234", "0")
    assert formats.interval_name(0.95) == "95 % interval"


def test_numbers_have_one_minus_sign_and_names_keep_their_hyphens():
    assert formats.minus("x-3 in 2013-2014: -0.5 (-.2), 3 to -7") == "x-3 in 2013-2014: −0.5 (−.2), 3 to −7"
    assert formats.typed("−0.5") == "-0.5"


def plain(summary):
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", page(summary), flags=re.DOTALL)
    return re.sub(r"<[^>]+>", " ", text)


def test_the_page_has_no_hyphen_for_a_minus():
    c = changed({"comparisons": {"A": cross_fitted()}}, notes=["the parts add up to -1.20 points"])
    text = plain(cross_fitted_audit() | {"comparisons": {"A": c}})
    assert "−1.20 points" in text
    assert not re.search(r"(?<![\w.)-])-\d", text)


def test_the_answer_names_both_numbers_and_what_carries_most():
    audit = cross_fitted_audit()
    said = words.headline(audit, cross_fitted())
    assert said == [
        "The mean score of African-American is 54.3 %, that of Caucasian 43.8 %: 10.5 percentage points higher, where "
        "a low score is what a person wants.",
        "What carries it, strongest first, in points: PriorCounts (+5.53), Age (+3.05) and ChargeDegree (+1.03). "
        "Features overlap: these do not add up.",
    ]
    c = cross_fitted()
    c["proxies"][1] |= {"gap": -0.03, "joint": -0.03}
    c["proxies"][2] |= {"verdict": "potential proxy in combination", "joint": 0.02}
    assert words.headline(audit, c)[1:] == [
        "What carries it, strongest first, in points: PriorCounts (+5.53) and ChargeDegree (+2.00). Features overlap: "
        "these do not add up.",
        "What works against it, in points: Age (−3.00).",
    ]
    c["gap"] |= {"low": -0.1}
    said = words.headline(decisions_audit(), c)
    assert "cannot tell whether the two differ" in said[0]
    assert said[1].endswith("in points: PriorCounts (+5.53), Age (−3.00) and ChargeDegree (+2.00).")
    for verdict, line in (("inconclusive", "do not settle"), ("no material contribution", "No feature carries")):
        for row in c["proxies"]:
            row["verdict"] = verdict
        assert line in words.headline(audit, c)[1]
    c["proxies"][0]["verdict"] = "identifies the group"
    assert words.headline(audit, c)[1] == "Among the features is the group itself: PriorCounts."


def test_tiles_relate_decisions_alone_to_four_fifths():
    names = [tile.name for tile in words.tiles(cross_fitted_audit(), cross_fitted())]
    assert names == ["predicted favourable rate", "ratio of mean scores", "people affected"]
    assert "0.80" not in plain(cross_fitted_audit()).split("What was audited")[0].replace("0.80 to 0.83", "")
    audit = decisions_audit()
    c = next(iter(audit["comparisons"].values()))
    tile = words.tiles(audit, c)[1]
    rates = [1 - c["favourable_rates"][who]["value"] for who in ("audited", "reference")]
    assert (tile.name, tile.value) == ("lower ÷ higher rate", "0.81")
    assert tile.note == f"cannot be told from 0.80; 0.80 to 0.83; unfavourable rates {rates[0] / rates[1]:.2f}"
    assert "impact ratio" not in plain(audit).split("Glossary")[0]  # a published rule's name for another number


def test_people_affected_are_whole_and_of_either_sign():
    tile = words.tiles(cross_fitted_audit(), cross_fitted())[2]
    assert (tile.value, tile.note.split("; ")[1]) == ("334", "301 to 367")
    c = cross_fitted() | {"shortfall": estimate(-12.4, -30.2, 5.1)}
    tile = words.tiles(cross_fitted_audit(), c)[2]
    assert tile.value == "12"
    assert tile.note.startswith("fewer of African-American would")
    assert tile.note.endswith("−5 to 30, which may be none")


def test_the_strip_warns_of_what_is_not_settled():
    c = cross_fitted()
    texts = {doubt.text: doubt.is_warning for doubt in words.trust(cross_fitted_audit(), c)}
    assert texts == {
        "3,175 and 2,103 people": False,
        "more than chance (p < 0.001)": False,
        "comparability check passed": False,
        "2 of 5 features not settled": True,
    }
    c["balance"]["is_adequate"] = False
    c["equal_outputs"]["p_value"] = 0.4
    warned = [doubt.text for doubt in words.trust(cross_fitted_audit(), c) if doubt.is_warning]
    assert "comparability check failed" in warned
    assert "may be chance (p = 0.400)" in warned
    assert any("plug-in" in doubt.text for doubt in words.trust(plug_in_audit(), plug_in()))


def test_the_plain_part_leaves_the_words_of_statisticians_to_them():
    text = page(cross_fitted_audit())
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)
    start = text.index('id="expert-0"')
    before, rest = text[:start], text[start:]
    after = rest[rest.index('<section id="origin"') : rest.index('id="words-for-statisticians"')]
    after = after[after.index('<section id="signoff"') :]  # settings have the names of arguments
    words_of_experts = r"λ|\bnats?\b|\bdial\b|correction|prototype|calibrat|membership model|descent|divergence|rarer"
    assert not re.search(words_of_experts, before + after)
    assert re.search(words_of_experts, rest)
    assert "rarer" not in text
    assert "too little data" not in text
