"""Repairs with a membership model that the user brings, carried by skops."""

import json
from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from tests.people import ENGINES, in_files
from tests.repair.test_apply import comparison, new_rows
from tests.repair.test_score_tilt import gap, lending, se

import tiltlens as tl
from tiltlens.errors import TiltlensError

FEATURES = ["income", "noise", "area"]
OF_IMPUTER = "numpy.dtype"  # which skops does not take for granted


def classifier(final=None):
    """Return a pipeline that encodes texts and fills missing numbers."""
    encoder = make_column_transformer(
        (SimpleImputer(), ["income", "noise"]), (OneHotEncoder(handle_unknown="ignore"), ["area"])
    )
    return make_pipeline(encoder, LogisticRegression(tol=1e-10) if final is None else final)


@cache
def tilt():
    return comparison().repair(propensity_model=classifier())


def test_a_given_classifier_repairs_by_its_own_chances():
    audited, new = lending(1500), new_rows()
    own = classifier().fit(audited.select(FEATURES), audited["group"] == "a")
    chance = own.predict_proba(new.select(FEATURES))[:, 1]
    constraint = tilt().constraints[0]
    q0, q1 = constraint.shares
    shift = constraint.multiplier * (chance / q0 - (1 - chance) / q1)
    expected = expit(logit(new["score"].to_numpy()) - shift)
    with pytest.warns(UserWarning, match="area"):
        found = tilt().apply(new, "score")
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_given_classifier_closes_the_gap_of_new_rows():
    new = lending(20_000, seed=1)
    for model in (classifier(), classifier(DecisionTreeClassifier(min_samples_leaf=100))):
        repair = comparison().repair(propensity_model=model)
        after = repair.apply(new, "score")
        assert repair.gap_after == pytest.approx(0.0, abs=1e-9)
        assert abs(gap(new, after)) < 3 * se(new, after) + 3 * se(lending(1500), lending(1500)["score"].to_numpy())


@pytest.mark.filterwarnings("ignore:.*has not learnt")
def test_it_is_written_with_skops_and_read_without_a_digit_lost(tmp_path):
    tilt().to_json(tmp_path / "repair.json")
    again = tl.read_repair(tmp_path / "repair.json", trusted=OF_IMPUTER)
    expected = tilt().apply(new_rows(), "score")
    assert again.apply(new_rows(), "score").tolist() == expected.tolist()
    assert again.to_dict()["row_index"] == tilt().to_dict()["row_index"]
    held_out = lending(400, seed=9)
    assert again.evaluate(held_out, "score", "group").table.equals(tilt().evaluate(held_out, "score", "group").table)
    for data in (ENGINES["duckdb"](new_rows()), in_files(new_rows(), tmp_path, "csv")):
        assert again.apply(data, "score") == pytest.approx(expected, abs=1e-12)


class Own(LogisticRegression):
    """A classifier that skops does not know."""


def test_types_that_skops_does_not_know_are_listed_and_built_only_where_they_are_named(tmp_path):
    path = tmp_path / "repair.json"
    comparison().repair(propensity_model=classifier(Own())).to_json(path)
    name = f"{Own.__module__}.Own"
    with pytest.raises(TiltlensError, match=rf"does not know: '{OF_IMPUTER}', '{name}'"):
        tl.read_repair(path)
    with pytest.raises(TiltlensError, match=rf"does not know: '{name}'"):
        tl.read_repair(path, trusted=OF_IMPUTER)
    assert type(tl.read_repair(path, trusted=[OF_IMPUTER, name]).models[0].model.estimator[-1]).__name__ == "Own"


def test_an_altered_classifier_is_refused(refused, tmp_path):
    path = tmp_path / "repair.json"
    tilt().to_json(path)
    found = json.loads(path.read_text())
    found["models"][0]["model"]["estimator"] = found["models"][0]["model"]["estimator"][:200]
    path.write_text(json.dumps(found))
    with refused(TiltlensError, "not a complete"):
        tl.read_repair(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"propensity_model": LogisticRegression()}, "`propensity_model` LogisticRegression cannot fit the features"),
        ({"propensity_model": "trees"}, "`propensity_model` str cannot fit the features"),
        ({"propensity_model": classifier(), "use_group": True}, "needs no `propensity_model`"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(TiltlensError, match=message):
        comparison().repair(**options)


def test_a_category_that_the_classifier_cannot_encode_is_named(refused):
    strict = make_column_transformer((SimpleImputer(), ["income", "noise"]), (OneHotEncoder(), ["area"]))
    repair = comparison().repair(propensity_model=make_pipeline(strict, LogisticRegression()))
    with refused(TiltlensError, "cannot predict"):
        repair.apply(new_rows(), "score")


@pytest.mark.filterwarnings("ignore:.*A constant score also:UserWarning")
def test_a_tilted_classifier_is_saved_with_skops():
    import skops.io

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    group, y = X[:, 0] + rng.normal(size=400) > 0, X[:, 0] + rng.normal(size=400) > 0
    model = tl.TiltedClassifier(LogisticRegression()).fit(X, y, sensitive_features=np.where(group, "a", "b"))
    content = skops.io.dumps(model)
    unknown = skops.io.get_untrusted_types(data=content)
    assert unknown
    assert all(name.startswith("tiltlens.") for name in unknown)
    again = skops.io.loads(content, trusted=unknown)
    assert again.predict_proba(X).tolist() == model.predict_proba(X).tolist()
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert pl.Series(again.predict_proba(X)[:, 1]).n_unique() > 100
