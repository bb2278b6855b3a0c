"""Model files: what they hold is what was fitted, columns are checked, and a pickle is never opened."""

import hashlib
import json
import pickle
import zipfile
from functools import cache

import joblib
import numpy as np
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tests.command import invoked
from tests.people import assert_same_numbers, in_pandas, people

import tiltlens as tl
from tiltlens._notes import Note
from tiltlens.errors import DataError

COLUMNS = ["income", "city"]


@cache
def known():
    """Return people whose income is known: ONNX and scikit-learn agree on these."""
    return people().with_columns(pl.col("income").fill_null(48.0), decision=(pl.col("score") > 0.5).cast(pl.Int64))


@cache
def pipeline():
    """Return a pipeline of numbers and texts, by names."""
    columns = make_column_transformer((StandardScaler(), ["income"]), (OneHotEncoder(sparse_output=False), ["city"]))
    return make_pipeline(columns, LogisticRegression()).fit(known().select(COLUMNS), known()["decision"])


def audit(model, data=None, **options):
    options = {"reference": "B", "features": COLUMNS, "folds": None} | options
    return tl.audit(known() if data is None else data, "group", model=model, **options)


@pytest.fixture
def skops_file(tmp_path):
    import skops.io

    skops.io.dump(pipeline(), tmp_path / "model.skops")
    return tmp_path / "model.skops"


def onnx_file(folder, model, initial_types, **options):
    import skl2onnx

    graph = skl2onnx.convert_sklearn(model, initial_types=initial_types, **options)
    (folder / "model.onnx").write_bytes(graph.SerializeToString())
    return folder / "model.onnx"


def by_column():
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    return [("income", FloatTensorType([None, 1])), ("city", StringTensorType([None, 1]))]


def matrix(width=2):
    from skl2onnx.common.data_types import FloatTensorType

    return [("X", FloatTensorType([None, width]))]


def test_a_skops_file_gives_the_audit_of_its_pipeline(skops_file):
    assert_same_numbers(audit(tl.load_model(skops_file)).to_dict(), audit(pipeline()).to_dict())


@pytest.mark.parametrize(("zipmap", "held"), [(True, "pandas"), (False, "csv")])
def test_an_onnx_file_gives_the_probabilities_of_its_pipeline(tmp_path, zipmap, held):
    path = onnx_file(tmp_path, pipeline(), by_column(), options={"zipmap": zipmap})
    model = tl.load_model(str(path))
    expected = pipeline().predict_proba(known().select(COLUMNS))
    np.testing.assert_allclose(model.predict_proba(known()), expected, atol=1e-6)
    data = in_pandas(known()) if held == "pandas" else known()
    if held == "csv":
        known().write_csv(tmp_path / "people.csv")
        data = tmp_path / "people.csv"
    found = audit(model, data, features=["owner", "city", "income"])  # another order, and one more
    assert found["A"].gap.value == pytest.approx(audit(pipeline())["A"].gap.value, abs=1e-6)
    assert found.provenance.question["model"] == "model.onnx (model file)"


def test_classes_of_an_onnx_file_keep_their_names(tmp_path):
    words = np.where(known()["decision"], "approved", "denied")
    numbers = known().select("income", "weight").to_numpy()
    fitted = LogisticRegression().fit(numbers, words)
    model = tl.load_model(onnx_file(tmp_path, fitted, matrix()))
    found = audit(model, features=["income", "weight"], favourable="approved")
    assert model.classes_ == ("approved", "denied")
    expected = audit(fitted, features=["income", "weight"], favourable="approved")
    assert found["A"].gap.value == pytest.approx(expected["A"].gap.value, abs=1e-6)
    assert Note("model without names", columns="'income', 'weight'") in found["A"].checks.notes


def test_words_are_known_where_the_graph_answers_to_known_categories_only(refused, tmp_path):
    words = np.where(known()["decision"], "approved", "denied")
    fitted = clone(pipeline()).fit(known().select(COLUMNS), words)
    model = tl.load_model(onnx_file(tmp_path, fitted, by_column()))
    with refused(DataError, "`favourable`", "'approved'"):
        audit(model)
    expected = audit(fitted, favourable="approved")["A"].gap.value
    assert audit(model, favourable="approved")["A"].gap.value == pytest.approx(expected, abs=1e-6)
    path = onnx_file(tmp_path, fitted, by_column(), options={"zipmap": False})
    with refused(DataError, "which probability belongs"):
        tl.load_model(path)


def test_an_onnx_regressor_gives_amounts_or_where_they_are_some_probabilities(tmp_path):
    fitted = LinearRegression().fit(known().select("income", "weight").to_numpy(), known()["score"].to_numpy())
    model = tl.load_model(onnx_file(tmp_path, fitted, matrix()))
    expected = fitted.predict(known().select("income", "weight").to_numpy())
    for output in ("amount", "probability"):
        found = audit(model, features=["income", "weight"], score_type=output)
        gap = np.mean(expected[known()["group"] == "A"]) - np.mean(expected[known()["group"] == "B"])
        assert found["A"].gap.value == pytest.approx(gap, abs=1e-5)


def test_a_model_from_a_file_travels_as_its_bytes(tmp_path):
    model = tl.load_model(onnx_file(tmp_path, pipeline(), by_column()))
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(known()), model.predict_proba(known()))
    assert repr(copy) == "FileClassifier('model.onnx')"


@pytest.mark.parametrize(
    ("change", "features", "message"),
    [
        ({}, ["income"], r"`features` must hold every column that `model` was fitted on, got none named 'city'"),
        (
            {"income": pl.lit("much")},
            COLUMNS,
            r"fitted on numbers in 'income', but the column has text, first 'much'",
        ),
        ({"city": pl.lit(3)}, COLUMNS, r"fitted on texts in 'city', but the column has int64, first 3"),
        (
            {"income": pl.col("since")},
            COLUMNS,
            r"fitted on numbers in 'income', but the column has date, first dat",
        ),
        ({"city": pl.lit(None, pl.String)}, COLUMNS, r"'city' has missing values"),
    ],
)
def test_columns_that_are_not_the_models_are_refused(tmp_path, change, features, message):
    model = tl.load_model(onnx_file(tmp_path, pipeline(), by_column()))
    with pytest.raises(DataError, match=rf"{message}.*\nHint: "):
        audit(model, known().with_columns(**change), features=features)


def test_a_model_without_names_needs_as_many_columns(refused, tmp_path):
    model = tl.load_model(onnx_file(tmp_path, LogisticRegression().fit(np.eye(3), [0, 1, 1]), matrix(3)))
    with refused(DataError, "fitted on 3"):
        audit(model, features=["income", "weight"])
    with refused(DataError, "fitted on numbers"):
        audit(model, features=["income", "city", "weight"])


class Own(ClassifierMixin, BaseEstimator):
    """A classifier that skops does not know."""

    def fit(self, X, y):
        self.classes_, self.feature_names_in_ = np.unique(y), np.array(["income"], dtype=object)
        return self

    def predict_proba(self, X):
        chance = np.clip(np.asarray(X)[:, 0].astype(float) / 100, 0, 1)
        return np.column_stack([1 - chance, chance])


def test_types_that_skops_does_not_know_are_listed_and_built_only_where_they_are_named(refused, tmp_path):
    import skops.io

    path = tmp_path / "own.skops"
    skops.io.dump(Own().fit(None, [0, 1]), path)
    name = f"{Own.__module__}.Own"
    with pytest.raises(DataError, match=rf"know: '{name}'\. .*\nHint: .*trusted=\['{name}'\] \(--trusted {name}\)"):
        tl.load_model(path)
    with refused(DataError, "types that skops"):
        tl.load_model(path, trusted=["other.Type"])
    assert isinstance(tl.load_model(path, trusted=name), Own)


class Trap:
    """A pickle that leaves a mark where it is opened."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return exec, (f"open({str(self.mark)!r}, 'w').close()",)


@pytest.mark.parametrize("name", ["m.pkl", "m.joblib", "m.onnx", "m.skops", "m.json", "m.txt", "m.cbm", "m.model"])
@pytest.mark.parametrize("protocol", [0, 5, "zlib"])
def test_a_pickle_is_refused_and_not_opened(refused, tmp_path, name, protocol):
    mark, path = tmp_path / "opened", tmp_path / name
    if protocol == "zlib":
        joblib.dump(Trap(mark), path, compress=3)
    else:
        path.write_bytes(pickle.dumps(Trap(mark), protocol=protocol))
    with refused(DataError) as raised:
        tl.load_model(path)
    assert not mark.exists()
    if name in ("m.pkl", "m.joblib") or protocol == 5:
        assert "got a pickle" in str(raised.value)
        assert "skops.io.dump(model, 'model.skops')" in str(raised.value)
    joblib.load(path) if protocol == "zlib" else pickle.loads(path.read_bytes())
    assert mark.exists()  # it would have run


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.skops", b"PK\x03\x04 cut short", r"'m.skops' is not a complete skops file"),
        ("m.skops", b"{}", r"'m.skops' must be a model file .* got no skops file"),
        ("m.onnx", b"\x08\x07 no graph", r"not a complete ONNX graph"),
        ("m.onnx", b"", r"not a complete ONNX graph"),
        ("m.json", b'{"a": 1}', r"got no XGBoost file\.\nHint: known are \.skops \(skops\), \.onnx"),
        ("m.pmml", b"<PMML/>", r"'m.pmml' must be a model file .* got an unknown name"),
    ],
)
def test_a_file_that_holds_no_model_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        tl.load_model(tmp_path / name)


def test_a_zip_that_is_no_skops_file_and_a_file_that_is_not_there_are_refused(refused, tmp_path, skops_file):
    import skops.io

    with zipfile.ZipFile(tmp_path / "other.skops", "w") as archive:
        archive.writestr("data.pkl", b"")
    with refused(DataError, "'other.skops'"):
        tl.load_model(tmp_path / "other.skops")
    with refused(DataError, "'model.skops'"):
        tl.load_model(tmp_path / "modle.skops")
    skops.io.dump({"a": 1}, tmp_path / "dict.skops")
    with refused(DataError, "'dict.skops'"):
        tl.load_model(tmp_path / "dict.skops")
    (tmp_path / "m.cbm").write_bytes(b"CBM1")
    with refused(DataError, "`trusted`", "'a.B'"):
        tl.load_model(tmp_path / "m.cbm", trusted="a.B")


def test_the_command_line_audits_a_model_file_and_says_which(tmp_path, skops_file):
    known().write_csv(tmp_path / "people.csv")
    options = ["--group", "group", "--reference", "B", "--features", "income,city", "--folds", "0", "--json", "-"]
    found = invoked("audit", "people.csv", "--model", skops_file, "--outcome", "decision", *options, cwd=tmp_path)
    assert (found.returncode, found.stderr.count("\n")) == (0, 1), found.stderr
    summary = json.loads(found.stdout)
    expected = audit(pipeline(), outcome="decision").to_dict()
    assert_same_numbers(summary["comparisons"]["A"]["gap"], expected["comparisons"]["A"]["gap"])
    assert_same_numbers(summary["comparisons"]["A"]["error_rates"], expected["comparisons"]["A"]["error_rates"])
    digest = hashlib.sha256(skops_file.read_bytes()).hexdigest()
    assert summary["provenance"]["stated"] == {"model file": f"model.skops, SHA-256 {digest}"}


def coded(encoder):
    """Return people with codes such as "01", and a pipeline that was fitted on them."""
    table = known().with_columns(code=pl.col("city").replace_strict({"North": "01", "East": "02", "Süd": "10"}))
    columns = make_column_transformer((StandardScaler(), ["income"]), (encoder, ["code"]))
    return table, make_pipeline(columns, LogisticRegression()).fit(table.select("income", "code"), table["decision"])


def encoders():
    ignoring = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    return [ignoring, make_pipeline(SimpleImputer(strategy="most_frequent"), ignoring)]


@pytest.mark.parametrize("encoder", encoders(), ids=["encoder", "after an imputer"])
def test_codes_reach_an_encoder_that_ignores_what_it_does_not_know(refused, tmp_path, encoder):
    table, fitted = coded(encoder)
    table.write_csv(tmp_path / "people.csv")
    expected = audit(fitted, table, features=["income", "code"])
    found = audit(fitted, tmp_path / "people.csv", features=["income", "code"])
    assert found["A"].gap.value == pytest.approx(expected["A"].gap.value, abs=1e-12)
    numbers = table.with_columns(pl.col("code").cast(pl.Int64))
    with refused(DataError, "'code'", "'01'"):
        audit(fitted, numbers, features=["income", "code"])
    _, of_numbers = coded(encoder)
    of_numbers.fit(numbers.select("income", "code"), numbers["decision"])
    with refused(DataError, "'code'"):
        audit(of_numbers, table, features=["income", "code"])


def test_the_command_line_refuses_a_pickle(tmp_path):
    known().write_csv(tmp_path / "people.csv")
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(Trap(tmp_path / "opened")))
    found = invoked("audit", "people.csv", "--group", "group", "--model", "m.pkl", cwd=tmp_path)
    assert found.returncode == 2
    assert "got a pickle" in found.stderr
    assert not (tmp_path / "opened").exists()
