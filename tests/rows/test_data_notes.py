"""Columns left among the features by mistake are named, and honest features are not."""

import numpy as np
import polars as pl
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from tests.people import FEATURES, audited, people

from tiltlens._notes import Note
from tiltlens._rows.features import encode_features, leakage_notes
from tiltlens._sources.tables import read_table

N = 400
SCORE = people(N)["score"].to_numpy()
RANDOM = np.random.default_rng(0)
HINT = "leave it out with `exclude` (--exclude)"
REPEATS = {
    "the score": SCORE,
    "an old score": SCORE + RANDOM.normal(0, 0.01, N),
    "log-odds": -logit(SCORE),
    "a rank": SCORE.argsort().argsort(),
    "a decision": SCORE > 0.6,
    "a decision in words": np.where(SCORE > 0.6, "no", "yes"),
    "a part": np.digitize(SCORE, [0.3, 0.5, 0.7]),
    "another class": np.where(np.arange(N) % 20 == 0, np.nan, 0.4 * (1 - SCORE)),
    "huge": SCORE * 1e90,
}
HONEST = {
    "what drives the score": SCORE + RANDOM.normal(0, 0.03, N),
    "a coarse driver": (SCORE + RANDOM.normal(0, 0.05, N)) > 0.5,
    "noise": RANDOM.normal(size=N),
    "rare": np.arange(N) == SCORE.argmax(),
    "names": np.char.add("name ", np.arange(N).astype(str)),
    "constant": np.ones(N),
    "missing": [None] * N,
}


def notes(values, score=SCORE, name="x", seen=(), where=(), rows=None):
    features = encode_features(read_table({name: values}), [name])
    shuffled = RANDOM.permutation(len(score)) if rows is None else rows
    return list(leakage_notes(features, score, shuffled, seen, "score", where))


@pytest.mark.parametrize("kind", REPEATS)
def test_a_feature_that_repeats_the_score_is_noted(kind):
    assert notes(REPEATS[kind]) == [repeats("x")]


def repeats(name):
    return Note("repeats the score", columns=repr(name), output="score", old="score or a decision", remedy=HINT)


@pytest.mark.parametrize("kind", HONEST)
def test_a_feature_that_does_not_repeat_the_score_is_not_noted(kind):
    assert notes(HONEST[kind]) == []


def test_the_score_behind_decisions_is_noted():
    assert len(notes(SCORE, score=(SCORE > 0.6).astype(float))) == 1
    assert notes(HONEST["noise"], score=(SCORE > 0.6).astype(float)) == []


def test_what_the_audited_model_is_made_of_is_not_noted():
    assert notes(SCORE, seen=["x"]) == []


def test_no_feature_repeats_a_constant_score():
    assert notes(SCORE, score=np.full(N, 0.5)) == []


@pytest.mark.parametrize("sign", [1, -1])
def test_whole_numbers_that_rise_or_fall_with_the_rows_are_noted(sign):
    rows = RANDOM.permutation(N)
    keys = sign * np.cumsum(RANDOM.integers(1, 50, N))[rows]
    assert notes(keys, rows=rows) == [Note("row number", columns="'x'", remedy=HINT)]
    assert notes(keys + 0.5, rows=rows) == []
    assert notes(np.sort(RANDOM.integers(0, 300, N))[rows], rows=rows) == []  # with ties: a table sorted by it
    assert notes(keys) == []


@pytest.mark.parametrize(("name", "is_noted"), [("Repaid 2", True), ("was_repaid", True), ("repaidness", False)])
def test_a_feature_named_like_a_column_of_where_is_noted(name, is_noted):
    assert (
        notes(HONEST["noise"], name=name, where=["repaid"])
        == [Note("named like an outcome", columns=repr(name), remedy=HINT)] * is_noted
    )


def test_an_audit_notes_an_old_score_and_changes_nothing_else():
    table = people(N).with_columns(old=pl.col("score") ** 2)
    audit, without = audited(table, features=[*FEATURES, "old"], folds=None), audited(table, folds=None)
    (note,) = set(audit["A"].checks.notes) - set(without["A"].checks.notes)
    assert note == repeats("old")
    assert "old" in audit["A"].contributions_full["feature"].to_list()


def test_an_audit_of_a_model_notes_what_the_model_has_not_seen():
    table = people(N).select("group", "income", "owner").fill_null(40.0).to_pandas()
    model = LogisticRegression().fit(table[["income"]], table["owner"])
    table["old"] = model.predict_proba(table[["income"]])[:, 1]
    found = audited(table, scores=None, model=model, features=["income", "owner", "old"], folds=None)["A"].checks.notes
    assert repeats("old") in found
