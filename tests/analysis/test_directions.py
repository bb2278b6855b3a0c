"""Sentences beside a feature have the sign of its contribution."""

from types import SimpleNamespace

import numpy as np
import pytest

import tiltlens as tl
from tiltlens._analysis.decomposition import _wide_bands_note, _with_hidden
from tiltlens._analysis.evidence import OutputScale
from tiltlens._estimators.verdicts import Band
from tiltlens._notes import Note
from tiltlens._rows.wording import MEASURES, PROBABILITY


def test_a_feature_that_narrows_the_gap_is_said_to_with_a_level_of_that_sign():
    rng = np.random.default_rng(0)
    women = np.repeat([True, False], 400)
    job = np.where(rng.random(800) < np.where(women, 0.45, 0.1), "clerk", "craft")
    job = np.where(rng.random(800) < np.where(women, 0.35, 0.05), "nurse", job)
    pay = np.where(rng.random(800) < np.where(women, 0.2, 0.8), 1, 0)
    score = 0.3 + 0.3 * pay + 0.2 * (job == "nurse") - 0.09 * (job == "clerk")
    people = {"sex": np.where(women, "women", "men"), "job": job, "pay": pay, "score": score}
    c = tl.audit(people, "sex", reference="men", scores="score", materiality=0.001)["women"]
    found = {row["feature"]: row for row in c.contributions_full.iter_rows(named=True)}
    assert float(c.gap) < -0.1
    assert found["pay"]["alone"] < 0.0
    assert found["job"]["alone"] > 0.0
    assert Note("narrows the gap") not in found["pay"]["reason"]
    assert Note("narrows the gap") in found["job"]["reason"]
    assert found["job"]["direction"] == Note(
        "value", value="job = nurse", score="higher", output="score", frequency="more", group="women"
    )


def test_a_number_is_told_by_a_level_where_its_trend_goes_the_other_way():
    age = np.repeat([1, 2, 3] * 2, [30, 10, 60, 40, 50, 10])
    group = np.repeat(["a", "b"], 100)
    score = np.select([age == 1, age == 2], [0.5, 0.1], 0.45)  # the trend falls, but a fares better
    c = tl.audit({"g": group, "age": age, "s": score}, "g", reference="b", scores="s", folds=None)["a"]
    row = c.contributions_full.row(0, named=True)
    assert row["alone"] > 0.0
    common = {"output": "score", "group": "a"}
    assert row["direction"] in (
        Note("value", value="age = 2", score="lower", frequency="less", **common),
        Note("value", value="age = 3", score="higher", frequency="more", **common),
    )


def test_features_without_a_share_have_one_note():
    rng = np.random.default_rng(1)
    rare = {f"rare_{k}": (rng.random(300) < 0.03).astype(int) for k in range(4)}
    people = {"g": rng.choice(["a", "b"], 300), "x": rng.normal(size=300), "s": rng.random(300)} | rare
    notes = tl.audit(people, "g", reference="b", scores="s")["a"].checks.notes
    (note,) = [note for note in notes if note.code == "no share: merged values"]
    assert all(name in note for name in rare)
    assert " x" not in note


def test_an_identifier_has_no_share():
    """All its values are merged: its share was 0, without an error."""
    rng = np.random.default_rng(2)
    people = {
        "g": ["a", "b"] * 150,
        "x": rng.normal(size=300),
        "id": [f"p{k}" for k in range(300)],
        "s": rng.random(300),
    }
    c = tl.audit(people, "g", reference="b", scores="s")["a"]
    (row,) = [row for row in c.by_feature if row.feature == "id"]
    assert (row.share, row.share_inputs, row.share_outputs) == (None, None, None)
    assert "id" not in (c.correction.tradeoff or {})


@pytest.mark.parametrize(("reaches", "is_said"), [([0.02, 0.06, 0.07], True), ([0.02, 0.04, 0.2], False), ([], False)])
def test_a_table_that_is_too_small_for_contributions_beyond_the_others_is_said_to_be(reaches, is_said):
    words = OutputScale(PROBABILITY, MEASURES["probability", None], 0.005)
    found = _wide_bands_note([Band(0.0, -one, one, one) for one in reaches], words)
    assert found == ([Note("few rows", size="6.0 points")] if is_said else [])


def test_a_band_without_hidden_cells_is_what_it_was():
    # Its standard error, too, from which the rows needed are told.
    band, evidence = Band(0.01, -0.01, 0.03, 0.02, 0.0084), SimpleNamespace(nuisances=SimpleNamespace(sets=None))
    assert _with_hidden(evidence, "job", band) == band
