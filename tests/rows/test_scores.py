"""Scores from anywhere become one channel; what is no probability is refused with its row."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tests.people import ENGINES

import tiltlens as tl
from tiltlens._rows.roles import FeatureChoice, Request, resolve_roles, with_arrays
from tiltlens._rows.scores import score_columns
from tiltlens._sources.tables import read_table
from tiltlens.errors import DataError, DistributionError

PEOPLE = pl.DataFrame(
    {
        "age": [20.0, 30.0, 40.0, 50.0],
        "city": ["Bern", "Zug", "Bern", "Zug"],
        "score": [0.1, 0.4, 0.6, 0.9],
        "no": [0.9, 0.6, 0.4, 0.1],
        "low": [0.2, 0.3, 0.5, 0.1],
        "mid": [0.3, 0.3, 0.25, 0.1],
        "top": [0.5, 0.4, 0.25, 0.8],
    }
)


def from_scores(scores, table=PEOPLE, **options):
    request = Request(group=np.zeros(table.height), scores=scores, **options)
    table, roles = with_arrays(table, table, request, resolve_roles(table.columns, request, may_have_arrays=True))
    return roles.channel(table, table, None)


def from_model(model, data=PEOPLE, features=("age", "city"), **options):
    request = Request(group="city", model=model, features=FeatureChoice(features), **options)
    return resolve_roles(PEOPLE.columns, request, may_have_arrays=True).channel(data, read_table(data), model)


def test_a_column_an_array_and_two_columns_are_the_same_binary_channel():
    array = PEOPLE["score"].to_numpy()
    for scores in (
        "score",
        array,
        array.tolist(),
        PEOPLE["score"],
        pd.Series(array),
        ["no", "score"],
        np.column_stack([1 - array, array]),
    ):
        channel = from_scores(scores, favourable="score" if isinstance(scores, list) and scores[0] == "no" else "high")
        np.testing.assert_allclose(channel.scores, array, rtol=1e-15)
        assert (channel.kind, channel.outcomes, channel.favourable) == ("scores", 2, 1)
        assert not channel.missing.any()
    assert from_scores("score").labels == ("0", "1")
    assert from_scores(["no", "score"], favourable="score").labels == ("no", "score")


def test_the_score_of_two_outcomes_with_names_is_that_of_the_favourable_one():
    channel = from_scores(["no", "score"], favourable="no", threshold=0.5)
    assert (channel.labels, channel.favourable) == (("score", "no"), 1)
    assert channel.scores.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert from_scores("score", favourable="low", threshold=0.5).scores.tolist() == [0.0, 0.0, 1.0, 1.0]


def test_several_columns_are_the_probabilities_of_the_outcomes():
    channel = from_scores(["low", "mid", "top"], favourable="mid")
    assert channel.scores.shape == (4, 3)
    assert channel.outcomes == 3
    assert channel.favourable == 1
    np.testing.assert_array_equal(channel.scores[:, channel.favourable], PEOPLE["mid"])
    matrix = PEOPLE.select("low", "mid", "top").to_numpy()
    np.testing.assert_allclose(from_scores(matrix, favourable=1).scores, channel.scores)


def test_the_scores_of_the_user_are_not_changed():
    array = np.array([0.0, 1.0 + 1e-7, 0.5, 0.2])
    from_scores(array)
    assert array[1] == 1.0 + 1e-7


@pytest.mark.parametrize(
    ("favourable", "index"), [("high", 1), ("low", 0), (0, 0), (1, 1), ("0", 0), (np.int64(1), 1), (True, 1), (1.0, 1)]
)
def test_favourable_names_an_outcome(favourable, index):
    channel = from_scores("score", favourable=favourable)
    assert channel.favourable == index
    np.testing.assert_allclose(channel.scores, PEOPLE["score"])


def test_a_label_comes_before_a_word_and_a_number():
    model = LogisticRegression().fit([[0.0], [1.0], [0.0], [1.0]], [1, 2, 1, 2])
    channel = from_model(model, features=["age"], favourable=1)
    assert channel.labels == ("2", "1")
    np.testing.assert_allclose(channel.scores, model.predict_proba(PEOPLE.select("age").to_numpy())[:, 0])
    table = PEOPLE.rename({"low": "high", "top": "none"})
    assert from_scores(["high", "mid", "none"], table, favourable="high").favourable == 0


@pytest.mark.parametrize("classes", [(1, 2), ("approved", "denied"), (-1, 1), (0, 1, 2)])
@pytest.mark.parametrize("favourable", ["high", "low", 7])
def test_favourable_must_be_named_where_classes_are_not_0_and_1(refused, classes, favourable):
    model = DummyClassifier(strategy="prior").fit([[0.0]] * 2 * len(classes), [*classes, *classes])
    names = ", ".join(f"'{name}'" for name in classes)
    with refused(DataError, names, f"favourable='{classes[0]}'"):
        from_model(model, features=["age"], favourable=favourable)
    channel = from_model(model, features=["age"], favourable=classes[0])
    np.testing.assert_allclose(
        channel.scores.T[channel.favourable] if channel.scores.ndim == 2 else channel.scores, 1 / len(classes)
    )
    assert channel.labels[channel.favourable] == str(classes[0])


def test_classes_that_are_booleans_need_no_name():
    model = DummyClassifier(strategy="prior").fit([[0.0]] * 4, [False, True, True, True])
    for favourable, index in (("high", 1), ("low", 0), (True, 1), (0, 0), ("False", 0)):
        assert from_model(model, features=["age"], favourable=favourable).favourable == index


@pytest.mark.parametrize("scores", [["low", "mid", "top"], ["no", "score"], np.full((4, 3), 1 / 3)])
def test_favourable_must_be_named_where_columns_name_the_outcomes(refused, scores):
    with refused(DataError, "`favourable`"):
        from_scores(scores)


def test_an_unknown_favourable_outcome_is_an_error_that_lists_the_outcomes(refused):
    for favourable in ("yes", 2, -1, 0.5):
        with refused(DataError, "`favourable`", "'high'"):
            from_scores("score", favourable=favourable)


def test_a_threshold_makes_decisions_of_scores_at_or_above_it():
    channel = from_scores("score", threshold=0.6)
    assert channel.kind == "decisions"
    assert channel.scores.tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "values", [[0, 1, 1, 0], [0.0, 1.0, 0.0, 0.0], [True, False, True, True], [1.0, 1.0, 1.0, 1.0]]
)
def test_scores_that_are_all_0_or_1_are_decisions(values):
    table = pl.DataFrame({"decision": values})
    assert from_scores("decision", table).kind == "decisions"
    assert from_scores(values, table).kind == "decisions"
    assert from_scores(np.eye(3)[[0, 1, 2, 0]], favourable=2).kind == "decisions"


@pytest.mark.parametrize("dtype", [pl.String, pl.Enum(["denied", "approved"])])
def test_two_words_are_decisions_of_which_the_favourable_one_is_1(dtype):
    values = ["denied", None, "approved", "approved"]
    table = pl.DataFrame({"decision": pl.Series(values, dtype=dtype)})
    channel = from_scores("decision", table, favourable="approved")
    np.testing.assert_array_equal(channel.scores, [0.0, np.nan, 1.0, 1.0])
    assert (channel.kind, channel.words, channel.favourable) == ("decisions", ("approved", "denied"), 1)
    assert from_scores("decision", table[2:], favourable="approved").words == ("approved",), "others may come"
    array = from_scores(np.array(["no", "yes", "yes", "no"]), favourable="no")
    assert (array.labels, array.favourable, array.scores.tolist()) == (("yes", "no"), 1, [1.0, 0.0, 0.0, 1.0])
    assert from_scores(np.array(["no"] * 4), favourable="no").labels == ("not no", "no")


@pytest.mark.parametrize("threshold", [0, -0.1, 1.5, "half", True, float("nan")])
def test_a_threshold_outside_the_scores_is_an_error(refused, threshold):
    with refused(DataError, "`threshold`"):
        from_scores("score", threshold=threshold)


def test_a_threshold_of_several_outcomes_is_an_error(refused):
    with refused(DataError, "`threshold`", "0.5"):
        from_scores(["low", "mid", "top"], threshold=0.5, favourable="mid")


def test_missing_scores_of_a_column_are_set_aside_and_counted():
    table = pl.DataFrame({"score": [0.2, None, 0.7]})
    for threshold, expected in ((None, [0.2, np.nan, 0.7]), (0.5, [0.0, np.nan, 1.0])):
        channel = from_scores("score", table, threshold=threshold)
        assert channel.missing.tolist() == [False, True, False]
        np.testing.assert_array_equal(channel.scores, expected)
        assert channel.kind == ("scores" if threshold is None else "decisions")


def test_a_row_with_one_probability_missing_is_set_aside():
    table = pl.DataFrame({"a": [0.2, None, 0.5], "b": [0.8, 0.3, 0.25], "c": [0.0, 0.7, 0.25]})
    assert from_scores(["a", "b", "c"], table, favourable="a").missing.tolist() == [False, True, False]


def test_a_missing_score_in_an_array_is_an_error_that_names_the_row(refused):
    for scores in (np.array([0.1, np.nan, 0.2, 0.3]), np.array([[0.5, 0.5], [np.nan, 1.0], [0.5, 0.5], [0.5, 0.5]])):
        with refused(DistributionError, "`scores`"):
            from_scores(scores)


def test_a_column_without_any_score_is_an_error(refused):
    table = pl.DataFrame({"s": pl.Series([None] * 40, dtype=pl.Float64), "g": ["a", "b"] * 20, "x": [1, 2] * 20})
    assert from_scores("s", table).missing.all()  # of a batch that may be so
    with refused(DistributionError, "`scores`"):
        tl.audit(table, "g", scores="s")


@pytest.mark.parametrize("value", [7.0, -0.2])
def test_a_score_outside_0_and_1_is_an_error_that_names_value_and_row(refused, value):
    table = pl.DataFrame({"s": [None, 0.5, value]})
    with refused(DistributionError, f"got {value} in row 2"):
        from_scores("s", table)


def test_an_infinite_score_is_an_error(refused):
    with refused(DistributionError, "`scores`"):
        from_scores("s", pl.DataFrame({"s": [0.5, float("inf")]}))


def test_rows_that_do_not_sum_to_1_are_an_error_that_names_the_row(refused):
    with refused(DistributionError, "`scores`", "0.8"):
        from_scores(np.array([[0.5, 0.5], [0.4, 0.6], [0.4, 0.4], [0.0, 1.0]]))


def test_single_precision_is_forgiven_and_mended():
    matrix = np.array([[1 / 3, 1 / 3, 1 / 3]] * 4, dtype=np.float32)
    np.testing.assert_allclose(from_scores(matrix, favourable=0).scores.sum(axis=1), 1.0, rtol=1e-15)
    assert from_scores(np.array([1.0000001, -1e-8, 0.5, 0.5])).scores.tolist() == [1.0, 0.0, 0.5, 0.5]


def test_scores_of_another_length_are_an_error(refused):
    with refused(DataError, "`scores`"):
        from_scores(np.array([0.5, 0.5]))
    with refused(DataError, "`scores`"):
        from_scores(np.full((2, 2), 0.5))


def test_scores_of_another_kind_or_shape_are_an_error(refused):
    with refused(DistributionError, "`scores`", "'city'"):
        from_scores(["city", "score"])
    with refused(DistributionError, "`scores`", "'0.1'"):
        from_scores(np.array(["0.1", "0.2", "5 %", "0.1"]))
    with refused(DistributionError, "`scores`"):
        from_scores(np.full((4, 2, 2), 0.5))
    with pytest.raises(DistributionError, match="got ndarray"):
        from_scores(np.array([["a", "b"]] * 4))


def test_an_unknown_score_column_gets_the_nearest_name(refused):
    with refused(DataError, "'Scores'", "'score'"):
        score_columns("Scores", PEOPLE.columns)
    assert score_columns(["low", "top"], PEOPLE.columns) == ["low", "top"]
    assert score_columns(np.zeros(3), PEOPLE.columns) == []


@pytest.mark.parametrize(("options", "got"), [({}, "neither"), ({"scores": "score", "model": len}, "both")])
def test_exactly_one_of_scores_and_model_must_be_given(refused, options, got):
    with refused(DataError, f"got {got}"):
        resolve_roles(PEOPLE.columns, Request(group="city", **options), may_have_arrays=True)


@pytest.fixture(scope="module")
def pipeline():
    encoder = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    people = pd.DataFrame({"city": PEOPLE["city"].to_list(), "age": PEOPLE["age"].to_list()})
    return make_pipeline(encoder, LogisticRegression(max_iter=1000)).fit(people, ["no", "yes", "no", "yes"])


@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_pipeline_fitted_with_names_scores_every_engine_alike_in_its_own_column_order(pipeline, engine):
    expected = pipeline.predict_proba(pd.DataFrame({"city": PEOPLE["city"].to_list(), "age": PEOPLE["age"].to_list()}))
    channel = from_model(pipeline, ENGINES[engine](PEOPLE), features=["age", "score", "city"], favourable="yes")
    np.testing.assert_allclose(channel.scores, expected[:, 1], rtol=1e-12)
    assert channel.labels == ("no", "yes")
    assert from_model(pipeline, ENGINES[engine](PEOPLE), favourable="no").labels == ("yes", "no")


@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_model_fitted_on_an_array_gets_an_array(engine):
    model = LogisticRegression().fit(PEOPLE.select("age", "low").to_numpy(), [0, 1, 0, 1])
    channel = from_model(model, ENGINES[engine](PEOPLE), features=["age", "low"])
    np.testing.assert_allclose(channel.scores, model.predict_proba(PEOPLE.select("age", "low").to_numpy())[:, 1])


@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_function_gets_the_kind_of_table_the_user_gave(engine):
    data, seen = ENGINES[engine](PEOPLE), []

    def model(table):
        seen.append(table)
        return np.asarray(table["age"], dtype=float) / 100

    channel = from_model(model, data, features=["age"])
    np.testing.assert_allclose(channel.scores, [0.2, 0.3, 0.4, 0.5])
    assert type(seen[0]) is (pl.DataFrame if engine in ("polars lazy", "duckdb") else type(data))


def test_a_lazy_frame_that_shuffles_its_rows_is_run_only_once():
    runs = []

    def shuffle(frame):
        runs.append(frame)
        return frame.sample(fraction=1.0, shuffle=True, seed=len(runs))

    data = PEOPLE.lazy().map_batches(shuffle)
    request = Request(group="city", model=lambda rows: rows["age"] / 100, features=FeatureChoice(["age"]))
    table = read_table(data)
    channel = resolve_roles(table.columns, request, may_have_arrays=True).channel(data, table, request.model)
    np.testing.assert_array_equal(channel.scores, table["age"].to_numpy() / 100)


def test_a_function_may_return_any_shape_of_probabilities():
    for shape in ((4,), (4, 1)):
        assert from_model(lambda _, shape=shape: np.full(shape, 0.25)).scores.tolist() == [0.25] * 4
    assert from_model(lambda _: np.array([[0.75, 0.25]] * 4)).scores.tolist() == [0.25] * 4
    assert from_model(lambda _: np.array([[0.5, 0.25, 0.25]] * 4), favourable=2).outcomes == 3
    assert from_model(lambda _: pl.Series([0.25] * 4)).scores.tolist() == [0.25] * 4
    assert from_model(lambda _: [0, 1, 1, 0]).kind == "decisions"


def test_a_model_that_holds_numbers_as_columns_gets_text_too_as_objects():
    class Rules:
        def predict_proba(self, rows):
            assert rows.dtype == object
            return np.column_stack([rows[:, 1] == "Zug", rows[:, 1] == "Bern"])

    assert from_model(Rules()).scores.tolist() == [1.0, 0.0, 1.0, 0.0]


def test_invented_column_names_are_no_names():
    class Boosted:
        feature_name_ = ("Column_0",)

        def predict_proba(self, rows):
            assert isinstance(rows, np.ndarray)
            return np.column_stack([1 - rows[:, 0] / 100, rows[:, 0] / 100])

    np.testing.assert_allclose(from_model(Boosted(), features=["age"]).scores, [0.2, 0.3, 0.4, 0.5])


def test_several_classes_of_a_model_name_the_outcomes():
    model = DummyClassifier(strategy="prior").fit(PEOPLE.select("age").to_numpy(), ["a", "b", "c", "c"])
    channel = from_model(model, features=["age"], favourable="b")
    assert channel.labels == ("a", "b", "c")
    assert channel.favourable == 1


def test_a_model_that_says_nan_is_an_error_that_names_the_row(refused):
    with refused(DistributionError, "`model`"):
        from_model(lambda _: np.array([0.1, 0.2, np.nan, 0.3]))


def test_a_model_that_drops_rows_is_an_error(refused):
    with refused(DistributionError, "`model`"):
        from_model(lambda _: np.array([0.1, 0.2]))


def test_a_model_that_says_log_odds_is_an_error(refused):
    with refused(DistributionError, "`model`", "-3.0"):
        from_model(lambda _: np.array([-3.0, 0.2, 1.0, 2.0]))


def test_a_model_that_says_words_is_an_error():
    with pytest.raises(DistributionError, match="got list"):
        from_model(lambda _: ["yes"] * 4)


def test_a_model_that_fails_or_is_not_fitted_is_an_error_in_our_words(refused):
    def broken(_):
        raise KeyError("income")

    with refused(DataError, "`model`", "'income'"):
        from_model(broken)
    with refused(DataError, "`model`"):
        from_model(LogisticRegression(), features=["age"])


def test_what_is_no_model_is_an_error(refused):
    with refused(DataError, "`model`"):
        from_model(LogisticRegression)
    with refused(DataError, "`model`"):
        from_model(5)
    with refused(DataError, "`features`", "`model`"):
        from_model(len, features=[])


def test_a_model_fitted_on_more_columns_than_the_features_is_an_error_that_names_them(refused, pipeline):
    with refused(DataError, "`features`", "`model`"):
        from_model(pipeline, features=["age"])
