"""The plain words never say more than the numbers, and never less than what was asked."""

import copy
import re

import numpy as np
import polars as pl
import pytest
from tests.views.summaries import audited, people

import tiltlens as tl
from tiltlens.errors import DataError
from tiltlens.estimators import verdicts
from tiltlens.views import formats
from tiltlens.views.figures.reading import dial_place
from tiltlens.views.report import words
from tiltlens.views.report.page import page
from tiltlens.views.verdicts import OPEN, VERDICTS


@pytest.fixture(scope="module")
def summary():
    return audited(people(), membership="chance").to_dict()


def changed(summary, **fields):
    """Return the comparison of a summary with some fields replaced."""
    return copy.deepcopy(summary["comparisons"]["A"]) | fields


def estimate(value, low, high):
    return {"value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        (estimate(0.1, 0.05, 0.15), "0.1000 higher than that of B (gap 0.1000, 95 % interval 0.0500 to 0.1500)"),
        (estimate(-0.1, -0.15, -0.05), "0.1000 lower than that of B (gap -0.1000, 95 % interval -0.1500 to -0.0500)"),
        (estimate(0.1, -0.05, 0.25), "cannot tell whether the mean scores of A and B differ"),
        (estimate(0.0, None, None), "are equal in these data. No interval was asked for"),
    ],
)
def test_the_gap_in_words(summary, gap, said):
    assert said in words.found_words(changed(summary, gap=gap), summary["settings"])[0]


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (estimate(0.001, -0.002, 0.004), "not material: no sign of another way in"),
        (estimate(0.03, -0.08, 0.14), "cannot tell whether there is another way in"),
        (estimate(0.03, 0.02, 0.04), "the score depends on the group beyond these features."),
        (estimate(-0.03, -0.04, -0.02), "the score depends on the group beyond these features."),
        (estimate(0.002, 0.001, 0.003), "beyond these features, though by less than what is material."),
    ],
)
def test_the_unexplained_part_in_words_is_read_from_its_interval(summary, left, said):
    c = changed(summary, unexplained=left, notes=[])
    assert said in " ".join(words.found_words(c, summary["settings"]))


def test_a_dependence_on_the_group_keeps_its_doubts(summary):
    balance = summary["comparisons"]["A"]["balance"] | {"is_adequate": False}
    left = estimate(0.03, 0.02, 0.04)
    c = changed(summary, unexplained=left, balance=balance, notes=["the weights are odd"])
    said = " ".join(words.found_words(c, summary["settings"]))
    assert "unless the membership model is to blame, which is inadequate (see also “To know” below)." in said


@pytest.mark.parametrize("notes", [[], ["the score depends on the group beyond these features: between people"], ["?"]])
def test_what_notes_say_changes_no_finding(summary, notes):
    """Findings are made of numbers: a note may be reworded, translated or left out."""
    c = changed(summary, unexplained=estimate(0.03, -0.08, 0.14), notes=notes)
    assert "cannot tell whether there is another way in" in " ".join(words.found_words(c, summary["settings"]))


def judged(summary, *given):
    """Return what is said of features with these verdicts."""
    rows = [row | {"verdict": one} for row, one in zip(summary["comparisons"]["A"]["proxies"], given, strict=False)]
    return words.found_words(changed(summary, proxies=rows), summary["settings"])


@pytest.mark.parametrize("verdict", [text for text, one in VERDICTS.items() if one.kind == OPEN])
def test_what_the_data_do_not_settle_is_never_no_evidence(summary, verdict):
    said = " ".join(judged(summary, "no material evidence", verdict))
    assert f"{VERDICTS[verdict].opening.split(',')[0]}" in said
    assert "No single feature" not in said
    assert "No material evidence" not in " ".join(judged(summary, verdict, verdict))


def test_every_verdict_is_said_and_a_new_one_is_not_lost(summary):
    names = [row["feature"] for row in summary["comparisons"]["A"]["proxies"]]
    for verdict in (*VERDICTS, "a verdict of {tomorrow}"):
        lines = [line for line in judged(summary, verdict) if names[0] in line]
        assert len(lines) == 1, verdict
        assert lines[0].endswith(f"{names[0]}.") or verdict == "proxy evidence"
    assert any(line.startswith("A verdict of {tomorrow}: ") for line in judged(summary, "a verdict of {tomorrow}"))


def test_verdicts_on_the_page_are_marked_and_explained_by_the_table(summary):
    text = page(summary)
    given = {row["verdict"] for row in summary["comparisons"]["A"]["proxies"]}
    assert words.verdicts_given(summary).keys() == given
    for verdict in VERDICTS:
        assert (f'<span class="verdict {VERDICTS[verdict].kind}">{verdict}</span>' in text) == (verdict in given)
        assert (f"<dt>“{verdict}”</dt>" in text) == (verdict in given)


def test_the_table_holds_every_verdict_of_the_library():
    theirs = {value for name, value in vars(verdicts).items() if name.isupper() and isinstance(value, str)}
    assert theirs
    assert theirs <= VERDICTS.keys()
    copied = people().with_columns(copy=pl.col("group"))
    rows = audited(copied, features=["city", "copy"], folds=3).to_dict()["comparisons"]["A"]["proxies"]
    assert {row["feature"]: row["verdict"] for row in rows}["copy"] == "the group itself"
    assert {row["verdict"] for row in rows} <= VERDICTS.keys()


def test_an_impact_ratio_without_an_upper_limit_has_a_page(summary):
    ratio = {"value": 2.0, "low": 0.5, "high": None}
    text = page(summary | {"comparisons": {"A": changed(summary, impact_ratio=ratio)}})
    assert "<small>0.500 to no limit</small>" in text
    assert "50.0 % to no limit" in text


def test_what_was_asked_is_said():
    found = audited(
        people(1200, 1),
        folds=None,
        threshold=0.5,
        weights="weight",
        given={"owner": True},
        features=["income", "city"],
        favourable="low",
    ).to_dict()
    said = " ".join(words.audited_words(found))
    assert "Only rows with owner = True" in said
    assert "Scores of 0.5 or more count as decision 1" in said
    assert "by their weight (weight)" in said
    assert "the decision 0" in said
    assert found["provenance"]["question"]["given"] == {"owner": "True"}


def test_low_scores_that_a_person_wants_are_called_low(summary):
    assert words.favourable_words(summary | {"favourable": "0"}).startswith("a low score")
    assert words.favourable_words(summary | {"favourable": "1"}).startswith("a high score")


def test_the_dial_starts_at_the_audits_own_weights(summary):
    for inputs, outputs, place in ((1, 1, 10), (0, 1, 20), (1, 0, 0), (3, 1, 5)):
        c = copy.deepcopy(summary["comparisons"]["A"])
        c["correction"] |= {"input_weight": inputs, "output_weight": outputs}
        assert dial_place(c) == place
        dial = re.search(r'type="range"[^>]* value="(\d+)"', page(summary | {"comparisons": {"A": c}}))
        assert int(dial[1]) == place


def test_sixty_groups_make_a_small_page_and_all_are_told_of():
    random = np.random.default_rng(0)
    rows = 60 * 40
    data = pl.DataFrame(
        {
            "group": [f"group {place % 60}" for place in range(rows)],
            "town": random.choice([f"town {j}" for j in range(12)], rows),
            "score": random.random(rows),
        }
    )
    text = page(tl.audit(data, group="group", reference="group 0", scores="score", folds=None).to_dict())
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
    assert formats.interval(-0.01, 0.02, formats.points) == "-1.00 to +2.00"
    assert formats.with_interval(0.3, 0.2, 0.4, formats.percent) == "30.0 % (20.0 % to 40.0 %)"
    assert formats.with_interval(0.3, None, None) == "0.3000 (no interval)"
    assert (formats.share(0.3, 0.0, 1.0), formats.share(0.3, 0.0, 0.9)) == ("not determined", "30.0 %")
    assert formats.interval_name(0.95) == "95 % interval"
