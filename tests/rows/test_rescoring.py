"""A model asked again: only answers that follow from its columns make the adjusted gap 0; these are the features."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from tests.people import note_codes

import tiltlens as tl

RNG = np.random.default_rng(4)
GROUP = RNG.choice(["A", "B"], 300)
X = RNG.normal(size=300) - 0.5 * (GROUP == "B")
TABLE = pd.DataFrame({"g": GROUP, "x": X, "y": (RNG.random(300) < expit(X)).astype(int), "p": expit(-0.5 * X)})
BY_LABEL = pd.Series(GROUP, index=TABLE.index)
ASKED = {"group": "g", "reference": "A", "features": "x"}
ELSEWHERE = {
    "by place": lambda rows: np.where(GROUP == "B", 0.3, 0.6)[: len(rows["x"])],
    "by label": lambda rows: np.where(BY_LABEL.loc[rows.index] == "B", 0.3, 0.6),
    "by chance": lambda rows: np.random.default_rng().random(len(rows)),
    "by other rows": lambda rows: rows["x"].rank() / len(rows),
    "for these rows alone": lambda rows: np.where(GROUP == "B", 0.3, 0.6) if len(rows) == 300 else expit(rows["x"]),
}


def of_x(rows):
    return expit(np.asarray(rows["x"], dtype=np.float32) + 1e-6 * len(rows))


@pytest.mark.parametrize("way", list(ELSEWHERE))
def test_scores_that_come_from_elsewhere_are_taken_as_given(way):
    c = tl.audit(TABLE, **ASKED, model=ELSEWHERE[way], folds=None)["B"]
    assert c._profiles.model is None
    assert "other answers" in note_codes(c)


@pytest.mark.parametrize(
    "options",
    [{}, {"threshold": 0.5}, {"outcome": "y", "metric": "fnr"}, {"score_type": "amount"}, {"favourable": "low"}],
)
@pytest.mark.parametrize("hold", [pd.DataFrame, pl.LazyFrame, lambda frame: dict(frame.items())])
def test_scores_of_the_columns_are_known_as_such(hold, options):
    c = tl.audit(hold(TABLE), **ASKED, model=of_x, folds=None, **options)["B"]
    assert c._profiles.model is not None
    assert "other answers" not in note_codes(c)


def test_the_adjusted_gap_of_a_model_that_knows_the_group_is_that_of_its_scores():
    options = ASKED | {"propensity": "p"}
    knows = tl.audit(TABLE, **options, model=ELSEWHERE["by place"])["B"].adjusted_gap
    given = tl.audit(TABLE, **options, scores=np.where(GROUP == "B", 0.3, 0.6))["B"].adjusted_gap
    assert knows == given
    assert knows.high < -0.25
    blind = tl.audit(pl.LazyFrame(TABLE), **options, model=of_x)["B"].adjusted_gap
    assert (blind.value, blind.low, blind.high) == (0.0, 0.0, 0.0)


def test_the_columns_that_a_model_lists_are_the_features(refused):
    model = LogisticRegression().fit(TABLE[["p", "x"]], TABLE["y"])
    audit = tl.audit(TABLE, "g", reference="A", model=model, folds=None)
    assert audit.provenance.features == ("p", "x")  # neither the label nor what else is there
    every = tl.audit(TABLE, "g", reference="A", model=model, features=["x", "p", "y"], folds=None)
    assert every.provenance.features == ("x", "p", "y")
    crossed = TABLE.assign(w=(TABLE["g"] == "B").astype(int))
    of_group = LogisticRegression().fit(crossed[["x", "w"]], TABLE["y"])
    assert tl.audit(crossed, "w", model=of_group, folds=None).provenance.features == ("x", "w")
    with refused(tl.errors.DataError, "`model`", "'p'"):
        tl.audit(TABLE.drop(columns="p"), "g", model=model)
