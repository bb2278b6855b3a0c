"""The plain words never say more than the numbers, and never less than what was asked."""

import copy
import re

import numpy as np
import polars as pl
import pytest
from tests.test_audit_engines import audited, people

import tiltlens as tl
from tiltlens.errors import DataError
from tiltlens.estimators import verdicts
from tiltlens.results.proxies import THE_GROUP
from tiltlens.views import formats
from tiltlens.views.figures import words as figure_words
from tiltlens.views.figures.reading import dial_place
from tiltlens.views.report import words
from tiltlens.views.report.page import page


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
    ("left", "notes", "said"),
    [
        (estimate(0.001, -0.002, 0.004), [], "not material: no sign of another way in"),
        (estimate(0.03, -0.08, 0.14), [], "cannot tell whether there is another way in"),
        (
            estimate(0.03, 0.02, 0.04),
            [f"{words.DEPENDS}, unless the membership model is to blame: between people with equal features +0.03"],
            "beyond these features, unless the membership model is to blame.",
        ),
    ],
)
def test_the_unexplained_part_in_words_keeps_its_doubts(summary, left, notes, said):
    found = words.found_words(changed(summary, unexplained=left, notes=notes), summary["settings"])
    assert said in " ".join(found)


def test_words_begin_as_the_audits_own_note_does():
    by_group = people(1200, 1).with_columns(score=pl.col("score") * 0.7 + 0.3 * (pl.col("group") == "A"))
    c = audited(by_group, membership="chance").to_dict()["comparisons"]["A"]
    assert any(note.startswith(words.DEPENDS) for note in c["notes"])


def test_too_little_data_is_never_no_evidence(summary):
    rows = [row | {"verdict": words.UNDECIDED} for row in summary["comparisons"]["A"]["proxies"]]
    found = " ".join(words.found_words(changed(summary, proxies=rows), summary["settings"]))
    assert "Too little data to say: " in found
    assert "No single feature" not in found
    assert "No material evidence" not in found


def test_a_copy_of_the_group_among_the_features_is_said_first(summary):
    rows = copy.deepcopy(summary["comparisons"]["A"]["proxies"])
    rows[-1]["verdict"] = words.THE_GROUP
    found = words.found_words(changed(summary, proxies=rows), summary["settings"])
    assert any("the group itself, or a copy of it: " in line for line in found)


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


def test_words_and_verdicts_have_the_same_names():
    theirs = (verdicts.PROXY, verdicts.JOINT, verdicts.NOTHING, verdicts.UNDECIDED, THE_GROUP)
    assert theirs == (words.PROXY, words.JOINT, words.NOTHING, words.UNDECIDED, words.THE_GROUP)


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
    assert (formats.number(-1e-6), formats.points(-1e-6)) == ("0.0000", "+0.00")
    assert (figure_words.number(-1e-6), figure_words.points(-1e-7)) == ("0.000", "+0.00")
    assert formats.interval({"low": -1e-6, "high": 1e-6}) == "0.0000 to 0.0000"
