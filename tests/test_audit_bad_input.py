"""Every mistake gets its own message: what must be, what was found, what to do next."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from tests.people import FEATURES, audited, people
from tests.wording import code_of

import tiltlens as tl
from tiltlens._notes import Note
from tiltlens.errors import SupportError, TiltlensError

N = 400
NAN_FIRST = np.r_[np.nan, np.full(N - 1, 0.5)]


def score_in(row, value):
    return people().with_columns(score=pl.when(pl.int_range(N) == row).then(value).otherwise("score"))


def first_three_are(name):
    return people().with_columns(group=pl.when(pl.int_range(N) < 3).then(pl.lit(name)).otherwise("group"))


def third_are_c():
    return people().with_columns(group=pl.when(pl.int_range(N) % 3 == 0).then(pl.lit("C")).otherwise("group"))


def twice():
    frame = people().to_pandas()
    return pd.concat([frame, frame[["city"]]], axis=1)


def infinite_income():
    return people().with_columns(income=pl.when(pl.int_range(N) == 7).then(float("inf")).otherwise("income"))


def constants():
    return people().with_columns(one=pl.lit(1), same=pl.lit("x"))


MISTAKES = {
    "a number as features": ({"features": 5}, "`features` must be a text or a list of texts, got 5.", "for example"),
    "a number as exclude": ({"features": None, "exclude": 5}, "`exclude` must be a text or a list of texts", ""),
    "no group": ({"group": None}, "`group` must name a column, or be an array as long as the data, got None.", ""),
    "huge numbers": (
        {"data": people().with_columns(big=pl.col("score") * 1e300), "features": ["big", "city"]},
        "outside 1e-100 to 1e+100",
        "rescale it",
    ),
    "tiny numbers": (
        {"data": people().with_columns(small=pl.col("score") * 1e-300), "features": ["small", "city"]},
        "outside 1e-100 to 1e+100",
        "rescale it",
    ),
    "numbers as text": (
        {"data": people().with_columns(score=pl.col("score").cast(pl.String) + " %")},
        "`scores` must be numbers, or decisions in two words",
        "numbers stored as text",
    ),
    "two codes": (
        {"data": people().with_columns(score=pl.col("owner").cast(int) + 1)},
        "`scores` must give scores between 0 and 1, got 2.0",
        "recode them as 0 and 1",
    ),
    "both spellings": (
        {"favourable": "low", "favorable": "high"},
        "`favourable` and `favorable` are one option, got 'low' and 'high'.",
        "give one of them",
    ),
    "unknown group": ({"group": "grop"}, "Column 'grop' not found (`group`).", "did you mean 'group'?"),
    "group twice": (
        {"group": ["group", "owner", "group"]},
        "`group` names the column 'group' twice.",
        "name each column once.",
    ),
    "unknown score": ({"scores": "scor"}, "Column 'scor' not found (`scores`).", "did you mean 'score'?"),
    "unknown feature": (
        {"features": ["city", "incme"]},
        "Column 'incme' not found (`features`).",
        "did you mean 'income'?",
    ),
    "unknown weights": (
        {"sample_weight": "wieght"},
        "not found (`sample_weight`)",
        "did you mean 'weight'?",
    ),
    "unknown membership": ({"propensity": "chanse"}, "not found (`propensity`)", "did you mean 'chance'?"),
    "unknown given": ({"where": {"cty": 1}}, "Column 'cty' not found (`where`).", "did you mean 'city'?"),
    "no features for a model": (
        {"features": [], "scores": None, "model": lambda table: np.full(N, 0.5)},
        "`features` must name at least one column for `model`, got none.",
        "the columns are",
    ),
    "everything excluded, and a classifier to fit": (
        {"features": None, "exclude": [*FEATURES, "weight", "chance"], "propensity": LogisticRegression()},
        "`features` must name at least one column for `propensity`, got none.",
        "the columns are",
    ),
    "one group": (
        {"data": people().filter(pl.col("group") == "A")},
        "`group` ('group') has the single value 'A'",
        "check the filter",
    ),
    "absent reference": (
        {"reference": "C"},
        "Group 'C' not found (`reference`).",
        "available groups: 'A', 'B'.",
    ),
    "absent audited": ({"audited": "a"}, "Group 'a' not found", "did you mean 'A'?"),
    "audited is the reference": ({"audited": "B"}, "`audited` and `reference` are the same group, 'B'", "name another"),
    "a group of three, named": (
        {"data": first_three_are("C"), "audited": "C"},
        "Group 'C' has 3 rows, but `audited` needs at least 10.",
        "join",
    ),
    "percentages": (
        {"data": people().with_columns(pl.col("score") * 100)},
        "`scores` must give scores between 0 and 1, got ",
        "look like percentages: divide them by 100",
    ),
    "a negative score": (
        {"data": score_in(5, -0.2)},
        "`scores` must give scores between 0 and 1, got -0.2 in row 5.",
        "pass probabilities",
    ),
    "an infinite score": (
        {"data": score_in(5, float("inf"))},
        "`scores` must give finite scores, got inf in row 5.",
        "",
    ),
    "a NaN in an array of scores": (
        {"scores": NAN_FIRST},
        "`scores` must not be missing, got 1 NaN, the first in row 0.",
        "put the scores in a column",
    ),
    "only missing scores": (
        {"data": people().with_columns(score=pl.lit(None, dtype=pl.Float64))},
        "`scores` is missing in all rows",
        "a column that has scores",
    ),
    "5,000 features": (
        {"data": people().with_columns(pl.lit(0.5).alias(f"x{number}") for number in range(5_000)), "features": None},
        "`features` must be at most 500 columns, got 5,006.",
        "list those that the model sees with `features`, or leave others out with `exclude`.",
    ),
    "text as scores": (
        {"scores": "city"},
        "`scores` must be numbers, or decisions in two words, got 'East', 'North', 'Süd'.",
        "a score is a probability",
    ),
    "probabilities that do not sum to 1": (
        {"scores": np.full((N, 3), 0.4)},
        "each row of `scores` must sum to 1, got 1.2 in row 0.",
        "divide each row by its sum",
    ),
    "scores of other rows": ({"scores": np.full(3, 0.5)}, "must have one value per row, got 3 for 400 rows", ""),
    "scores and model": (
        {"model": LogisticRegression()},
        "Exactly one of `scores` and `model` is required, got both.",
        "",
    ),
    "neither scores nor model": (
        {"scores": None},
        "Exactly one of `scores` and `model` is required, got neither.",
        "",
    ),
    "empty table": ({"data": people().clear()}, "`data` has no rows.", "filtered out"),
    "no table": ({"data": 7}, "`data` must be a pandas or Polars frame", "name the columns"),
    "no file": ({"data": "people.csv"}, "File not found: 'people.csv'", "it was looked for in"),
    "duplicate columns": ({"data": twice()}, "2 columns have the name 'city'.", "rename or drop"),
    "columns that differ by case": (
        {"data": people().with_columns(City=pl.lit(1))},
        "letter case only: 'city', 'City'.",
        "rename one",
    ),
    "infinite values": (
        {"data": infinite_income()},
        "Column 'income' has infinite values in 1 row.",
        "replace them with a number",
    ),
    "two folds": (
        {"folds": 2},
        "`folds` must be 5 or None (on the command line 0), got 2.",
        "None gives the paper's plug-in values",
    ),
    "half folds": (
        {"folds": 5.5},
        "`folds` must be 5 or None (on the command line 0), got 5.5.",
        "None gives the paper's plug-in values",
    ),
    "yes folds": (
        {"folds": True},
        "`folds` must be 5 or None (on the command line 0), got True.",
        "None gives the paper's plug-in values",
    ),
    "few sampled rows": (
        {"sample_rows": 10},
        "`sample_rows` must be a whole number of at least 1000, got 10.",
        "500,000 is the default",
    ),
    "sampled rows as text": ({"sample_rows": "all"}, "`sample_rows` must be a whole number of at least 1000, got", ""),
    "excluded column that is not there": (
        {"exclude": "incme"},
        "Column 'incme' not found (`exclude`).",
        "did you mean 'income'?",
    ),
    "feature that is excluded": (
        {"exclude": ["city"]},
        "`exclude` must not name listed features, got 'city'.",
        "list it in one of the two",
    ),
    "confidence in percent": ({"confidence": 95}, "`confidence` must be between 0 and 1, got 95.", "0.95"),
    "no confidence": ({"confidence": None}, "`confidence` must be a finite number, got None.", ""),
    "negative materiality": ({"materiality": -0.1}, "`materiality` must be at least 0 and below 1, got -0.1.", "0.005"),
    "materiality in percent": ({"materiality": 5}, "`materiality` must be at least 0 and below 1, got 5.", "points"),
    "materiality as text": ({"materiality": "1 %"}, "`materiality` must be a finite number, got '1 %'.", ""),
    "negative input weight": ({"input_weight": -1}, "`input_weight` must be finite and not negative", ""),
    "nothing to align": (
        {"input_weight": 0, "output_weight": 0},
        "`input_weight` and `output_weight` must not both be 0",
        "leave both at 1",
    ),
    "negative seed": (
        {"random_state": -1},
        "`random_state` must be a whole number from 0 to 4294967295, got -1.",
        "0 is the default",
    ),
    "no seed": (
        {"random_state": None},
        "`random_state` must be a whole number from 0 to 4294967295, got None.",
        "same numbers",
    ),
    "negative weights": (
        {"sample_weight": np.full(N, -1.0)},
        "`sample_weight` must be finite and not negative, got -1.0",
        "drop such rows",
    ),
    "missing weights": (
        {"sample_weight": NAN_FIRST},
        "`sample_weight` is missing in row 0.",
        "",
    ),
    "no weight at all": (
        {"sample_weight": np.zeros(N)},
        "No row is left to compare, of 400 rows.",
        "weight 0",
    ),
    "text as weights": (
        {"sample_weight": "city"},
        "`sample_weight` must be numbers, got text such as 'East' in column 'city'.",
        "convert",
    ),
    "weights of other rows": (
        {"sample_weight": np.ones(3)},
        "`sample_weight` must have one value per row, got 3 for 400 rows",
        "",
    ),
    "one weight": (
        {"sample_weight": 2.0},
        "`sample_weight` must name a column, or be an array as long as the data, got 2.0.",
        "",
    ),
    "membership of 0": (
        {"propensity": np.r_[0.5, 0.0, np.full(N - 2, 0.5)]},
        "between 0 and 1. Rows outside: 1.",
        "leave such rows out",
    ),
    "membership in percent": ({"propensity": "income"}, "`propensity` must be strictly between 0 and 1.", ""),
    "missing membership": (
        {"propensity": NAN_FIRST},
        "between 0 and 1. Rows outside: 1",
        "",
    ),
    "text as membership": (
        {"propensity": "city"},
        "`propensity` must be numbers, got text such as 'East' in column 'city'.",
        "convert",
    ),
    "membership for several groups": (
        {"data": third_are_c(), "propensity": "chance"},
        "for one audited group, but 2 groups are audited.",
        "name one audited group",
    ),
    "an estimator that cannot fit": (
        {"propensity": LogisticRegression()},
        "`propensity` (LogisticRegression) cannot be fitted to the features. ",
        "pass a pipeline",
    ),
    "given of an unknown value": (
        {"where": {"city": "Paris"}},
        "No row has 'Paris' in column 'city' (`where`).",
        "its values are 'East', 'North', 'Süd'.",
    ),
    "given as a list": (
        {"where": ["city"]},
        "must be a dict that maps columns to values, got ['city'].",
        "{'repaid': 1}",
    ),
    "nothing left after given": (
        {"data": people().with_columns(north=pl.col("city") == "North"), "where": {"city": "East", "north": True}},
        "No row is left to compare, of 400 rows.",
        "outside the condition on city",
    ),
    "one group left after given": ({"where": {"group": "A"}}, "has the single value 'A'", ""),
    "a threshold in percent": ({"threshold": 50}, "`threshold` must be a number above 0 and at most 1, got 50.", ""),
    "an unknown favourable": ({"favourable": "good"}, "`favourable` must be 'high', 'low' or one of the outcomes", ""),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_value_and_a_way_out(mistake):
    options, message, hint = MISTAKES[mistake]
    options = {"data": people()} | options
    with pytest.raises(TiltlensError, match=re.escape(message)) as caught:
        audited(options.pop("data"), **options)
    first, *rest = str(caught.value).split("\nHint: ")
    assert rest, "every message has a hint"
    assert hint in rest[0]
    assert "\n" not in first


@pytest.mark.parametrize(
    "options", [{}, {"folds": None}, {"propensity": "chance"}, {"propensity": "chance", "folds": None}]
)
def test_constant_features_are_named_whatever_the_membership(refused, options):
    with refused(TiltlensError, "'one'", "'same'"):
        audited(constants(), features=["one", "same"], **options)


@pytest.mark.parametrize("options", [{}, {"folds": None}])
def test_features_that_separate_the_groups_together_are_an_error(refused, options):
    random, is_audited = np.random.default_rng(0), pl.col("group") == "A"
    flag, x = pl.Series(random.integers(0, 2, N)), pl.Series(random.normal(size=N))
    right = (flag == 1) != is_audited if options == {} else x + 0.5 * is_audited
    apart = people().with_columns(left=flag if options == {} else x, right=right)
    with refused(SupportError, "separate the two"):
        audited(apart, features=["left", "right", "city"], **options)


@pytest.mark.parametrize("options", [{}, {"folds": None}])
def test_a_feature_that_separates_the_groups_alone_is_the_group_itself_and_the_others_are_looked_at(options):
    apart = people().with_columns(apart=pl.col("score") + 2 * (pl.col("group") == "A"))
    found = audited(apart, features=["apart", "city"], **options)
    row = row_of(found, "apart")
    assert (row["verdict"], row["alone"], row["beyond_others"]) == ("identifies the group", None, None)
    assert code_of(row["notes"]) == "separates the groups"
    without = audited(apart, features=["city"], **options)
    near = 1e-6 if options else 0.15  # folds follow all features, and which model is chosen follows the folds
    assert found["A"].correction.function.descent_rate == pytest.approx(
        without["A"].correction.function.descent_rate, rel=near
    )
    assert row_of(found, "city")["alone"] == pytest.approx(row_of(without, "city")["alone"], abs=1e-12)


def test_a_group_of_three_that_nobody_named_is_reported():
    found = audited(first_three_are("C"), folds=None)
    assert found.too_small == {"C": 3}
    assert list(found) == ["A"]
    assert found.rows["too_small_group"] == 3


def test_missing_scores_in_a_column_are_set_aside_and_counted():
    found = audited(score_in(5, None), folds=None)
    assert found.rows["missing_score"] == 1
    assert found.rows["used"] == N - 1


@pytest.mark.parametrize("hold", [pl.DataFrame, pl.DataFrame.lazy])
@pytest.mark.parametrize(
    ("outputs", "score_type", "got"),
    [
        (NAN_FIRST, "probability", "`model` must give finite scores, got nan in row 0"),
        (40 * np.ones(N), "probability", "`model` must give scores between 0 and 1, got 40.0 in row 0"),
        (NAN_FIRST, "amount", "`model` must give finite amounts, got nan in row 0"),
        (np.ones((N, 2)), "amount", "must have one number a row, got 2 columns"),
    ],
)
def test_outputs_of_a_model_are_checked_as_such_whether_rows_are_in_memory_or_not(
    refused, hold, outputs, score_type, got
):
    with refused(TiltlensError, got):
        audited(hold(people()), scores=None, model=lambda rows: outputs, score_type=score_type, features=["income"])


def row_of(found, feature):
    return next(row for row in found["A"].contributions_full.to_dicts() if row["feature"] == feature)


@pytest.mark.parametrize("options", [{}, {"folds": None}])
def test_the_group_among_the_features_is_flagged_and_never_evidence(options):
    data = people().with_columns(code=pl.when(pl.col("group") == "A").then(7).otherwise(3))
    found = audited(data, features=["group", "code", "income", "city"], **options)
    for feature in ("group", "code"):
        assert row_of(found, feature)["verdict"] == "identifies the group"
        assert code_of(row_of(found, feature)["notes"]) == "group copy"
    without = audited(data, features=["income", "city"], **options)
    assert found["A"].correction.function.descent_rate == pytest.approx(without["A"].correction.function.descent_rate)


@pytest.mark.parametrize("options", [{}, {"folds": None}])
def test_identifiers_are_flagged_and_tell_nobody_apart(options):
    keys = people().with_columns(person_id=1000 + pl.int_range(N), ticket=pl.format("T{}", pl.int_range(N)))
    found = audited(keys, features=["person_id", "ticket", "income"], **options)
    for feature in ("person_id", "ticket"):
        assert code_of(row_of(found, feature)["notes"]) == "identifier"
        assert row_of(found, feature)["direction"] == Note("every value once")
        assert "potential proxy" not in row_of(found, feature)["verdict"]
    alone = audited(keys, features=["income"], **options)
    assert found["A"].correction.function.descent_rate == pytest.approx(alone["A"].correction.function.descent_rate)


def test_numbers_of_numpy_are_numbers():
    options = {
        "folds": np.int64(5),
        "random_state": np.int32(1),
        "confidence": np.float32(0.9),
        "materiality": np.float64(0),
    }
    found = tl.audit(people(), "group", scores="score", features="city", sample_rows=np.int64(2_000), **options)
    kinds = {type(value) for value in found.to_dict()["settings"].values()}
    assert kinds == {int, float}


@pytest.mark.parametrize("retired", ["total_shares", "stream"])
def test_retired_arguments_are_unknown(retired):
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        audited(people(), **{retired: True})
    assert not hasattr(tl, "stream")


def test_excluded_columns_are_no_features():
    found = audited(people(), features=None, exclude=["weight", "chance", "since"], folds=None)
    assert set(found["A"].contributions_full["feature"]) == {"income", "city", "owner"}
    alone = audited(people(), features=None, exclude="since", sample_weight="weight", propensity="chance", folds=None)
    assert set(alone["A"].contributions_full["feature"]) == {"income", "city", "owner"}


def test_weights_that_differ_beyond_all_measure_are_an_error(refused):
    weights = np.where(np.arange(400) % 2, 1e12, 1e-9)
    with refused(tl.TiltlensError, "`sample_weight`", "09"):
        audited(people(), sample_weight=weights)
    weights[weights < 1] = 0.0
    assert audited(people(), sample_weight=weights, folds=None).rows["zero_weight"] == 200


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "dict"])
def test_a_column_without_a_name_is_a_feature_like_others(kind):
    frame = people().select("group", "score", "city", pl.col("income").alias(""))
    data = {
        "pandas": frame.to_pandas(),
        "polars": frame,
        "lazy": frame.lazy(),
        "dict": {name: frame[name].to_numpy() for name in frame.columns},
    }[kind]
    audit = tl.audit(data, "group", scores="score", reference="B", folds=None)
    assert sorted(audit["A"].contributions_full["feature"]) == ["", "city"]


@pytest.mark.parametrize("name", ["*", "^inc.*$"])
def test_a_column_name_that_is_a_pattern_is_refused_in_words(refused, name):
    with refused(TiltlensError, repr(name)):
        tl.audit(people().rename({"income": name}), "group", scores="score", reference="B", folds=None)


def test_a_column_name_with_a_null_character_is_refused_in_words(refused):
    with refused(TiltlensError, "contains a null"):
        tl.audit(people().rename({"income": "\0weight"}), "group", scores="score", reference="B", folds=None)


def test_scores_whose_squares_are_0_have_an_audit():
    table = people().with_columns(pl.col("score") * 1e-300)
    gap = tl.audit(table, "group", scores="score", reference="B", folds=None)["A"].gap
    whole = tl.audit(people(), "group", scores="score", reference="B", folds=None)["A"].gap
    assert gap.value == pytest.approx(1e-300 * whole.value, abs=1e-15)


def test_links_in_a_circle_are_no_file(refused, tmp_path):
    (tmp_path / "a.csv").symlink_to("b.csv")
    (tmp_path / "b.csv").symlink_to("a.csv")
    with refused(TiltlensError, "is a link"):
        tl.audit(tmp_path / "a.csv", "group", scores="score")
    tl.audit(people(), "group", scores="score", reference="B", folds=None).to_json(tmp_path / "a.csv")
    assert tl.read_audit(tmp_path / "a.csv").reference == "B"


@pytest.mark.parametrize("argument", ["group", "scores", "sample_weight", "propensity"])
@pytest.mark.parametrize("kind", ["another order", "other labels"])
def test_a_series_with_another_index_than_the_data_is_refused(argument, kind):
    frame = people().to_pandas()
    column = {"group": "group", "scores": "score", "sample_weight": "weight", "propensity": "chance"}[argument]
    series = (
        frame[column].sample(frac=1, random_state=0)
        if kind == "another order"
        else frame[column].set_axis(range(1, 401))
    )
    data = frame.drop(columns=column)
    message = (
        rf"`{argument}` must have the index of `data`, in its order, got \d+ for 0\.\nHint: match the rows with .loc"
    )
    with pytest.raises(TiltlensError, match=message):
        audited(data, **{argument: series})
    by_position = audited(data, **{argument: frame[column].to_numpy()}, folds=None)
    by_index = audited(
        data, **{argument: series.loc[data.index] if kind == "another order" else frame[column]}, folds=None
    )
    assert by_index["A"].gap == by_position["A"].gap


def test_scores_of_classes_with_another_index_are_refused(refused):
    frame = people().to_pandas()
    scores = pd.DataFrame({"no": 1 - frame["score"], "yes": frame["score"]})[::-1]
    with refused(TiltlensError, "`scores`", "`data`"):
        audited(frame, scores=scores, favourable="high")
