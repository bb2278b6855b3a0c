"""The tilted classifier in scikit-learn's own company."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.special import expit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import tiltlens as tl
from tiltlens.errors import DataError, SupportError


@pytest.mark.filterwarnings("ignore:TiltedClassifier was fitted without:UserWarning")
def test_it_is_an_estimator():
    checked = check_estimator(tl.TiltedClassifier(), on_skip=None)  # a failed check raises
    assert sum(one["status"] == "passed" for one in checked) > 45


def people(rows=3000, seed=0):
    """Return two columns that differ between the groups, an outcome drawn from them, and the groups."""
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(rows) < 0.4, "a", "b")
    x = rng.standard_normal((rows, 3)) - 0.8 * np.outer(group == "a", [1, 0.5, 0])
    y = np.where(rng.random(rows) < expit(x @ [1.0, 0.5, 0.7]), "yes", "no")
    return pd.DataFrame(x, columns=["income", "years", "noise"]), y, group


def gap(values, group):
    return values[group == "a"].mean() - values[group == "b"].mean()


@pytest.mark.parametrize("limit", [0.0, 0.05])
def test_new_rows_have_the_limit_as_their_gap(limit):
    x, y, group = people()
    model = tl.TiltedClassifier(max_gap=limit).fit(x, y, sensitive_features=group)
    new, _, whose = people(20_000, 1)
    plain = LogisticRegression().fit(x, y).predict_proba(new)[:, 1]
    assert gap(plain, whose) < -0.15
    assert gap(model.predict_proba(new)[:, 1], whose) == pytest.approx(-limit, abs=0.02)
    assert model.gap_after_ == pytest.approx(-limit, abs=1e-9)
    assert set(model.predict(new)) == {"yes", "no"}


def test_decisions_have_equal_rates_and_scores_stay():
    x, y, group = people()
    model = tl.TiltedClassifier(metric="decisions").fit(x, y, sensitive_features=group)
    new, _, whose = people(20_000, 1)
    assert abs(gap(model.predict(new) == "yes", whose)) < 0.03
    assert model.predict_proba(new) == pytest.approx(LogisticRegression().fit(x, y).predict_proba(new))


@pytest.mark.parametrize("metric", ["mean_score", "decisions"])
def test_the_order_of_rows_does_not_matter(metric):
    x, y, group = people()
    order = np.argsort(x["income"].to_numpy())
    fitted = tl.TiltedClassifier(metric=metric).fit(x.iloc[order], y[order], sensitive_features=group[order])
    new, _, whose = people(20_000, 1)
    after = fitted.predict_proba(new)[:, 1] if metric == "mean_score" else fitted.predict(new) == "yes"
    assert abs(gap(after, whose)) < 0.03


@pytest.mark.filterwarnings("ignore:.*A constant score also:UserWarning")
def test_rows_that_are_copies_are_in_one_fold():
    x, y, group = people(500)
    copied = np.arange(2500) % 500
    trees = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8)
    options = {"estimator": LogisticRegression(), "propensity": trees}
    model = tl.TiltedClassifier(**options).fit(x.iloc[copied], y[copied], sensitive_features=group[copied])
    once = tl.TiltedClassifier(**options).fit(x, y, sensitive_features=group)
    assert model.multiplier_ == pytest.approx(once.multiplier_, rel=0.4)
    assert model.constraints_[0].se == pytest.approx(once.constraints_[0].se, rel=0.3)


def test_people_who_are_alike_are_decided_alike_and_half_is_not_enough():
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 3000)
    x = pd.DataFrame({"place": np.where(rng.random(3000) < 0.3 + 0.4 * (group == "a"), "east", "west")})
    x["level"] = rng.integers(0, 4, 3000)
    y = np.arange(3000) % 2
    y[np.lexsort((y, x["level"], x["place"]))] = np.arange(3000) % 2  # half of the people of each cell
    y[(x["level"] == 2) & (x["place"] == "east")] = 1
    y[(x["level"] == 3) & (x["place"] == "west")] = 0
    model = make_pipeline(OneHotEncoder(), DecisionTreeClassifier())
    fitted = tl.TiltedClassifier(model, propensity=clone(model), metric="decisions")
    with pytest.warns(UserWarning, match=r"largest gap .* 0\.01"):
        fitted.fit(x, y, sensitive_features=group)
    assert fitted.gap_before_ == pytest.approx(gap(fitted.estimator_.predict(x), group), abs=1e-12)
    assert fitted.gap_after_ == pytest.approx(gap(fitted.predict(x), group), abs=1e-12)


def test_columns_that_tell_nothing_of_the_group_are_refused(refused):
    x, y, _ = people()
    group = np.random.default_rng(5).choice(["a", "b"], 3000)
    with refused(SupportError, "'a'", "'b'"):
        tl.TiltedClassifier(metric="decisions").fit(x, y, sensitive_features=group)


def test_it_is_searched_over_and_routed_to_in_a_pipeline():
    x, y, group = people(600)
    with sklearn.config_context(enable_metadata_routing=True):
        tilted = tl.TiltedClassifier(LogisticRegression()).set_fit_request(sensitive_features=True)
        pipe = make_pipeline(StandardScaler(), tilted)
        search = GridSearchCV(pipe, {"tiltedclassifier__max_gap": [0.0, 0.1]}, cv=2)
        search.fit(x, y, sensitive_features=group)
    assert search.best_params_["tiltedclassifier__max_gap"] in (0.0, 0.1)
    assert search.best_estimator_[-1].groups_.tolist() == ["a", "b"]


@pytest.mark.filterwarnings("ignore:.*A constant score also:UserWarning")
def test_any_classifiers_serve_and_a_clone_is_not_fitted():
    x, y, group = people(800)
    trees = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    model = tl.TiltedClassifier(trees, propensity=trees, cv=3).fit(x, y, sensitive_features=group)
    assert model.gap_after_ == pytest.approx(0.0, abs=1e-9)
    assert not hasattr(clone(model), "multiplier_")


def test_mistakes_are_named(refused):
    x, y, group = people(200)
    for given, message in (
        (np.append(group[1:], "c"), "'mean_score' needs at least 10 people of each group, got 1 of 'c' and 129 of 'b'"),
        (np.full(200, "a"), "two groups or more, got shape"),
        (group[1:], "for each of 200 rows"),
        (np.where(np.arange(200) < 3, None, group), "is missing in 3 rows"),
        (np.where(np.arange(200) < 3, np.nan, np.arange(200) % 2), "is missing in 3 rows"),
        (pd.Series(group)[::-1], "must have the index of `X`"),
    ):
        with pytest.raises(DataError, match=message):
            tl.TiltedClassifier().fit(x, y, sensitive_features=given)
    with refused(DataError, "'z'"):
        tl.TiltedClassifier(reference="z").fit(x, y, sensitive_features=group)
    with refused(DataError, "`metric`", "'mean_score'"):
        tl.TiltedClassifier(metric="fpr").fit(x, np.arange(200) % 3, sensitive_features=group)
    with pytest.raises(DataError, match="`metric` must be"):
        tl.TiltedClassifier(metric="fair").fit(x, y, sensitive_features=group)
    with pytest.warns(UserWarning, match="are not adjusted"):
        tl.TiltedClassifier().fit(x, y)


@pytest.mark.parametrize(("metric", "of"), [("fpr", "no"), ("fnr", "yes"), ("equalized_odds", "yes")])
def test_decisions_have_equal_error_rates(metric, of):
    x, y, group = people()
    plain = tl.TiltedClassifier(metric=metric, threshold=0.4)
    model = plain.fit(x, y, sensitive_features=pd.DataFrame({"group": group}))
    new, truth, whose = people(20_000, 1)
    among = truth == of
    before = LogisticRegression().fit(x, y).predict_proba(new)[:, 1]
    assert abs(gap(before[among] > 0.4, whose[among])) > 0.15
    assert abs(gap(model.predict(new)[among] == "yes", whose[among])) < 0.06
    assert model.predict_proba(new)[:, 1] == pytest.approx(before)


@pytest.mark.filterwarnings("ignore:.*A constant score also:UserWarning")
def test_weights_are_rows_written_out():
    x, y, group = people(400)
    weights = np.random.default_rng(0).integers(1, 4, 400)
    often = np.repeat(np.arange(400), weights)
    folds = [(np.flatnonzero(np.arange(400) % 2 == k), np.flatnonzero(np.arange(400) % 2 != k)) for k in (0, 1)]
    repeated = [tuple(np.flatnonzero(np.isin(often, one)) for one in pair) for pair in folds]
    pipe = make_pipeline(StandardScaler(with_mean=False, with_std=False), LogisticRegression())
    model = tl.TiltedClassifier(pipe, cv=folds).fit(x, y, sensitive_features=group, sample_weight=weights)
    other = tl.TiltedClassifier(pipe, cv=repeated).fit(x.iloc[often], y[often], sensitive_features=group[often])
    assert model.gap_before_ == pytest.approx(other.gap_before_, abs=1e-5)
    assert model.multiplier_ == pytest.approx(other.multiplier_, abs=1e-4)


def test_an_evaluation_is_that_of_a_repair_on_new_rows(refused):
    x, y, group = people(800)
    model = tl.TiltedClassifier().fit(x, y, sensitive_features=group)
    new, truth, whose = people(600, 1)
    found = model.evaluate(new, truth, whose)
    assert found["gap"]["after"].value == pytest.approx(gap(model.predict_proba(new)[:, 1], whose), abs=1e-12)
    assert found["accuracy"]["after"].value == pytest.approx((model.predict(new) == truth).mean(), abs=1e-12)
    assert found["auc"]["before"].value == pytest.approx(
        roc_auc_score(truth, model.estimator_.predict_proba(new)[:, 1]), abs=1e-12
    )
    assert "group = a (audited) vs" in str(found)
    with refused(DataError, "`audited`", "'a'"):
        model.evaluate(new, truth, whose, audited="z")


def test_columns_that_hold_the_group_are_refused(refused):
    x, y, group = people(400)
    with refused(SupportError, "separate the two"):
        tl.TiltedClassifier().fit(x.assign(is_a=1.0 * (group == "a")), y, sensitive_features=group)


@pytest.mark.filterwarnings("ignore:.*A constant score also:UserWarning")
def test_texts_are_read_by_the_steps_of_the_estimator():
    x, y, group = people(400)
    texts = pd.DataFrame(
        {"income": np.where(x["income"] > 0, "high", "low"), "years": np.where(x["years"] > 0, "u", "v")}
    )
    pipe = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    model = tl.TiltedClassifier(pipe).fit(texts, y, sensitive_features=group)
    assert model.groups_.tolist() == ["a", "b"]  # the largest is the reference
    trees = HistGradientBoostingClassifier(max_iter=2, categorical_features="from_dtype")
    with pytest.raises(DataError, match="`propensity`"):
        tl.TiltedClassifier(trees).fit(texts.astype("category"), y, sensitive_features=group)


def test_scores_that_a_repair_leaves_useless_are_warned_of():
    rng = np.random.default_rng(0)
    group = np.where(rng.random(4000) < 0.25, "a", "b")
    x = rng.standard_normal((4000, 2)) - np.outer(group == "a", [1.6, 0.2])
    x[:, 1] += 0.3 * x[:, 0]
    y = rng.random(4000) < expit(0.5 * x[:, 0])
    told = r"AUC is 0\.\d+ \(95% CI .* log loss .* A constant score also meets this limit"
    with pytest.warns(UserWarning, match=told):
        model = tl.TiltedClassifier(metric="equalized_odds").fit(x, y, sensitive_features=group)
    people = {"x": x[:, 0], "z": x[:, 1], "group": group, "y": y, "score": model.estimator_.predict_proba(x)[:, 1]}
    question = {"reference": "b", "scores": "score", "outcome": "y", "folds": None}
    notes = tl.audit(people, "group", **question)["a"].repair(metric="equalized_odds").notes
    assert "useless scores" in {note.code for note in notes}
