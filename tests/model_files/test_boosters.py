"""Models in the formats of XGBoost, LightGBM and CatBoost say what the fitted ones say; run by `make test-models`."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.people import note_codes, people

import tiltlens as tl
from tiltlens.errors import DataError

pytestmark = [pytest.mark.boosters, pytest.mark.filterwarnings("ignore")]
COLUMNS = ["income", "city"]
KNOWN = people().with_columns(pl.col("city").replace({"Süd": "South"}), decision=pl.col("score") > 0.5)
Y = KNOWN["decision"].to_numpy().astype(int)
THREE = np.digitize(KNOWN["score"].to_numpy(), [0.4, 0.6])


def frame():
    """Return the features as pandas holds them, cities as a category."""
    return pd.DataFrame({"income": KNOWN["income"].to_numpy(), "city": pd.Categorical(KNOWN["city"].to_list())})


def xgboost(kind="Classifier", y=Y, x=None, **options):
    import xgboost as xgb

    model = getattr(xgb, f"XGB{kind}")(n_estimators=8, max_depth=3, enable_categorical=True, **options)
    return model.fit(frame() if x is None else x, y)


def lightgbm(kind="Classifier", y=Y, x=None):
    import lightgbm as lgb

    return getattr(lgb, f"LGBM{kind}")(n_estimators=8, verbose=-1).fit(frame() if x is None else x, y)


def catboost(kind="Classifier", y=Y, x=None, **options):
    import catboost as cb

    model = getattr(cb, f"CatBoost{kind}")(iterations=8, verbose=0, allow_writing_files=False, **options)
    if x is not None:
        return model.fit(x, y)
    return model.fit(frame().astype({"city": object}), y, cat_features=["city"])


def saved(model, path):
    getattr(model, "booster_", model).save_model(str(path))
    return tl.load_model(path)


MODELS = {"m.json": xgboost, "m.ubj": xgboost, "m.txt": lightgbm, "m.cbm": catboost}


def said(model, method):
    cities = {"city": object} if type(model).__module__.startswith("catboost") else {}
    return getattr(model, method)(frame().astype(cities))


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_those_of_the_fitted_model(tmp_path, name):
    fitted = MODELS[name]()
    model = saved(fitted, tmp_path / name)
    found = np.asarray(model.predict_proba(KNOWN))
    found = found if found.ndim == 1 else found[:, 1]
    np.testing.assert_allclose(found, said(fitted, "predict_proba")[:, 1], atol=1e-7)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(KNOWN), model.predict_proba(KNOWN))
    audit = tl.audit(KNOWN, "group", model=model, features=["since", "city", "income"], reference="B", folds=None)
    groups = KNOWN["group"].to_numpy()
    assert audit["A"].gap.value == pytest.approx(found[groups == "A"].mean() - found[groups == "B"].mean(), abs=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_of_three_classes(tmp_path, name):
    fitted = MODELS[name](y=THREE)
    model = saved(fitted, tmp_path / name)
    np.testing.assert_allclose(model.predict_proba(KNOWN), said(fitted, "predict_proba"), atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_amounts_are_those_of_the_fitted_model(tmp_path, name):
    fitted = MODELS[name]("Regressor", y=1000 * KNOWN["score"].to_numpy())
    model = saved(fitted, tmp_path / name)
    assert not hasattr(model, "predict_proba")
    np.testing.assert_allclose(model.predict(KNOWN), said(fitted, "predict"), rtol=1e-6)
    audit = tl.audit(KNOWN, "group", model=model, score_type="amount", features=COLUMNS, reference="B", folds=None)
    assert audit.score_type == "amount"


@pytest.mark.parametrize("name", MODELS)
def test_columns_that_are_not_the_models_are_refused(tmp_path, name):
    model = saved(MODELS[name](), tmp_path / name)
    with pytest.raises(DataError, match=r"'income'.* first 'much'"):
        model.predict_proba(KNOWN.with_columns(income=pl.lit("much")))
    with pytest.raises(DataError, match="'city' not found"):
        model.predict_proba(KNOWN.select("income"))
    if name != "m.cbm":  # which has hashes of categories only
        with pytest.raises(DataError, match=r"'city' has .*: 'Mars'\.\nHint: .* 'E"):
            model.predict_proba(KNOWN.with_columns(city=pl.lit("Mars")))
    strange = "fitted on texts in 'city'" if name == "m.cbm" else "'city' has categories .*: '7'"
    with pytest.raises(DataError, match=strange):
        model.predict_proba(KNOWN.with_columns(city=pl.lit(7)))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_without_names_takes_columns_by_place(tmp_path, name):
    numbers = KNOWN.select("income", "weight").to_numpy()
    fitted = MODELS[name](x=numbers)
    model = saved(fitted, tmp_path / name)
    audit = tl.audit(KNOWN, "group", model=model, features=["income", "weight"], reference="B", folds=None)
    chance, groups = fitted.predict_proba(numbers)[:, 1], KNOWN["group"].to_numpy()
    assert audit["A"].gap.value == pytest.approx(chance[groups == "A"].mean() - chance[groups == "B"].mean(), abs=1e-7)
    assert "model without names" in note_codes(audit["A"])


def test_amounts_of_counts_are_no_logarithms(tmp_path):
    counts = np.round(20 * KNOWN["score"].to_numpy())
    for fitted, name in (
        (catboost("Regressor", counts, loss_function="Poisson"), "m.cbm"),
        (xgboost("Regressor", counts, objective="count:poisson"), "m.json"),
    ):
        np.testing.assert_allclose(saved(fitted, tmp_path / name).predict(KNOWN), said(fitted, "predict"), rtol=1e-6)


def test_xgboost_stops_where_training_stopped(tmp_path):
    import xgboost as xgb

    fitted = xgb.XGBClassifier(n_estimators=200, early_stopping_rounds=2, enable_categorical=True)
    fitted.fit(frame()[:200], Y[:200], eval_set=[(frame()[200:], Y[200:])], verbose=False)
    assert fitted.best_iteration < 190
    model = saved(fitted, tmp_path / "m.json")
    np.testing.assert_allclose(model.predict_proba(KNOWN), fitted.predict_proba(frame())[:, 1], atol=1e-7)


@pytest.mark.parametrize(("name", "start"), [("m.json", b'{"learner"'), ("m.txt", b"tree\n"), ("m.cbm", b"CBM1")])
def test_a_broken_file_is_refused(tmp_path, name, start):
    (tmp_path / name).write_bytes(start + b" cut short")
    with pytest.raises(DataError, match=r"not a complete \w+ model"):
        tl.load_model(tmp_path / name)
