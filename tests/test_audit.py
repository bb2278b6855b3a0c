"""What the audit says: the paper's numbers, the invariances, groups, channels, and the words that go with them."""

import dataclasses
import io
import json
from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from tests.people import FEATURES, WAYS, assert_same_numbers, audited, note_codes, people
from tests.wording import code_of

import tiltlens as tl
from tiltlens._learners.candidates import outcome_scores
from tiltlens._results.comparison import ESTIMATES
from tiltlens._rows.roles import Request
from tiltlens.datasets import COMPAS_FEATURES, COMPAS_LABELS, load_compas

CODES = [f"{feature}_code" for feature in COMPAS_FEATURES]
EXACT_UNDER_WEIGHTS = ("gap", "impact_ratio", "standardised_difference", "output_divergence", "input_divergence")
EXACT_UNDER_WEIGHTS += ("detection_sample_size", "descent_rate")
NOT_ASKED = [
    "adverse_impact_ratio",
    "gap_explained_by_exempt",
    "gap_given_exempt",
]  # of decisions, and with exempt factors
NOT_ASKED += ["fpr_difference", "fnr_difference", "calibration_difference", "auc_difference"]  # with true outcomes
NOT_ASKED += ["ppv_difference", "npv_difference", "fdr_difference", "for_difference", "log_loss_difference"]
NOT_ASKED += ["proxy_discrimination", "actual_to_expected_ratio"]  # of prices
NOT_ASKED += ["bracket", "limits", "linear"]  # of unobserved groups


@cache
def compas():
    data = load_compas()
    return data.with_columns(score=outcome_scores(data, COMPAS_FEATURES, "is_recid"))


def compas_audit(data=None, **options):
    plain = {"group": "race", "reference": "Caucasian", "features": COMPAS_FEATURES, "folds": None}
    plain |= {"favourable": "low"} | ({} if "model" in options else {"scores": "score"})
    return tl.audit(compas() if data is None else data, **plain | options)["African-American"]


@cache
def plug_in():
    return compas_audit()


@cache
def fitted_pipeline(columns):
    steps = [LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)]
    if list(columns) == COMPAS_FEATURES:
        steps = [OrdinalEncoder(categories=[list(COMPAS_LABELS[name]) for name in columns]), *steps]
    return make_pipeline(*steps).fit(compas().to_pandas()[list(columns)], compas()["is_recid"].to_numpy())


def scores_of_codes(inputs):
    return fitted_pipeline(tuple(CODES)).predict_proba(inputs.to_pandas())


SOURCES = {
    "a column": plug_in,
    "an array": lambda: compas_audit(scores=compas()["score"].to_numpy()),
    "two columns of probabilities": lambda: compas_audit(
        scores=compas().select(1 - pl.col("score"), high="score").to_numpy()
    ),
    "codes as features": lambda: compas_audit(features=CODES),
    "a pipeline on labels": lambda: compas_audit(compas().to_pandas(), model=fitted_pipeline(tuple(COMPAS_FEATURES))),
    "a pipeline on codes": lambda: compas_audit(
        compas().to_pandas(), model=fitted_pipeline(tuple(CODES)), features=CODES
    ),
    "a function": lambda: compas_audit(model=scores_of_codes, features=CODES),
}


@pytest.mark.parametrize("source", SOURCES)
def test_scores_from_any_source_give_the_numbers_against_paper(source):
    c = SOURCES[source]()
    assert (round(c.outputs.means.audited, 3), round(c.outputs.means.reference, 3)) == (0.543, 0.438)
    assert c.correction.descent_rate.value == pytest.approx(-0.62449, abs=5e-6)
    assert c.correction.function.rho_m == pytest.approx(0.36411, abs=5e-6)
    assert c.correction.epsilon_max == pytest.approx(0.472, abs=5e-4)
    shares = {row["feature"].removesuffix("_code"): row["share"] for row in c.contributions_full.to_dicts()}
    assert shares["PriorCounts"] == pytest.approx(0.4135, abs=5e-4)
    assert shares["LengthOfStay"] == pytest.approx(0.027, abs=5e-4)
    assert c.gap.value == pytest.approx(0.54342 - 0.43825, abs=1e-5)
    assert c.correction.output_divergence.value == pytest.approx(0.02224, abs=5e-6)


def test_prototypes_against_paper_table_1():
    found = plug_in().correction.prototypes(suppress=False)
    assert tuple(found["max"]["values"].values()) == (">45", "Misdemeanor", "Female", "0", "<3 months")
    assert tuple(found["min"]["values"].values()) == ("<25", "Felony", "Male", ">3", "<week")
    assert {name: cell["count"] for name, cell in found.items()} == {"max": 2, "min": 39, "near_zero": 229}


def test_prototypes_of_fewer_than_ten_people_are_withheld():
    found = plug_in().correction.prototypes()
    assert found["max"]["count"] is None
    assert set(found["max"]["values"].values()) == {None}
    assert found["min"]["count"] == 39


def test_epsilon_max_is_the_largest_step_that_leaves_probabilities():
    c = plug_in()
    smallest = c.correction.prototypes()["min"]["correction"]
    assert 1 + c.correction.epsilon_max * smallest == pytest.approx(0, abs=1e-9)


def test_profile_means_average_to_zero_over_the_audited_group():
    profile = plug_in().correction.profile("PriorCounts")
    assert profile["value"].to_list() == list(COMPAS_LABELS["PriorCounts"])
    assert profile["n"].sum() == 3175
    assert (profile["n"] * profile["correction"]).sum() == pytest.approx(0, abs=1e-8)


def test_plug_in_values_have_no_intervals():
    summary = plug_in().to_dict()
    estimates = {name: plug_in().estimate(name) for name in ESTIMATES}
    assert {name for name, estimate in estimates.items() if estimate is None} == {*NOT_ASKED, "robustness_value"}
    assert all(estimate.low is estimate.high is None for estimate in estimates.values() if estimate is not None)
    assert all(
        row[name] is None for row in summary["contributions"] for name in row if name.endswith(("_low", "_high"))
    )
    assert summary["checks"]["balance"] is summary["gap_test"] is None


@cache
def cross_fitted():
    return audited(people())


def test_json_round_trip_is_the_summary(tmp_path):
    cross_fitted().to_json(tmp_path / "audit.json")
    text = (tmp_path / "audit.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=pytest.fail) == json.loads(json.dumps(cross_fitted().to_dict()))
    assert not [path for path in tmp_path.iterdir() if path.name != "audit.json"]


def test_json_keys_are_attribute_names():
    audit, c = cross_fitted(), cross_fitted()["A"]
    assert all(hasattr(audit, name) for name in audit.to_dict().keys() - {"schema"})
    assert all(hasattr(c, name) for name in c.to_dict())
    for part in ("scale", "outputs", "gap_parts", "correction", "checks"):
        assert all(hasattr(getattr(c, part), name) for name in c.to_dict()[part].keys() - {"tradeoff_table"}), part
    assert all(hasattr(c.checks.balance, name) for name in c.to_dict()["checks"]["balance"])
    fields = {field.name for field in dataclasses.fields(c) if not field.name.startswith("_")}
    assert c.to_dict().keys() == fields - {"contributions_full"} | {"contributions", "bins", "splitting", "prices"}


def test_records_have_at_most_20_fields():
    c = cross_fitted()["A"]
    for record in (tl.Comparison, tl.Correction, tl.Checks, type(c.outputs), type(c.gap_parts), Request):
        assert len(dataclasses.fields(record)) <= 20, record


def test_contributions_have_the_columns_that_are_read_first():
    c, ends = cross_fitted()["A"], ("", "_low", "_high")
    estimates = [f"{name}{end}" for name in ("alone", "beyond_others", "shapley", "use") for end in ends]
    assert c.contributions.columns == ["feature", *estimates, "verdict", "reason"]
    assert c.contributions.equals(c.contributions_full.select(c.contributions.columns))
    assert {"reveals", "drives", "alignment", "share", "partner", "notes"} <= set(c.contributions_full.columns)
    assert c.to_dict()["contributions"] == c.contributions_full.to_dicts()


def test_the_table_along_the_dial_is_that_of_the_comparison():
    c = cross_fitted()["A"]
    assert c.to_dict()["correction"]["tradeoff_table"] == c.correction.shares_along_tradeoff().to_dicts()
    reported = {row.feature for row in c.by_feature if row.share is not None}
    assert {row["feature"] for row in c.to_dict()["correction"]["tradeoff_table"]} == reported
    assert {*FEATURES} - reported == {"city"}  # whose rare values were merged


def test_estimates_are_value_low_high_in_json():
    c = cross_fitted()["A"]
    estimates = {name: c.estimate(name) for name in ESTIMATES}
    assert {name for name, estimate in estimates.items() if estimate is None} == set(NOT_ASKED)
    for estimate in estimates.values():
        assert estimate is None or estimate.low <= estimate.value <= estimate.high
    assert list(c.to_dict()["gap"]) == ["value", "low", "high"]
    assert c.gap.to_dict() == c.to_dict()["gap"]


def test_the_adverse_impact_ratio_is_of_decisions_and_the_lower_rate_comes_first():
    for favourable in ("high", "low"):
        c = audited(people(1200, 1), threshold=0.5, favourable=favourable, propensity="chance")["A"]
        low, high = sorted(rate.value for rate in c.rates)
        assert c.adverse_impact_ratio.value == pytest.approx(low / high)
        assert 0 < c.adverse_impact_ratio.low < c.adverse_impact_ratio.value < c.adverse_impact_ratio.high <= 1
    assert cross_fitted()["A"].adverse_impact_ratio is None


def test_every_row_is_accounted_for():
    size = 500
    data = people(size, 2).with_columns(
        group=pl.when(pl.int_range(size) < 4)
        .then(pl.lit("few"))
        .when(pl.int_range(size) < 10)
        .then(None)
        .when(pl.int_range(size) < 80)
        .then(pl.lit("third"))
        .otherwise("group"),
        score=pl.when(pl.int_range(size).is_between(5, 7)).then(None).otherwise("score"),
        weight=pl.when(pl.int_range(size) == 100).then(0).otherwise("weight"),
    )
    found = audited(data, sample_weight="weight", folds=None, audited="A")
    assert found.too_small == {"few": 4}
    assert found.rows == {
        "read": 500,
        "used": 419,
        "missing_score": 3,
        "zero_weight": 1,
        "missing_group": 3,
        "too_small_group": 4,
        "group_not_audited": 70,
    }
    assert found.rows["used"] == sum(found["A"].rows.values())


EXACT_WAYS = {"plug-in": {"folds": None}, "known": {"propensity": "chance"}}
EXACT_WAYS["known, plug-in"] = EXACT_WAYS["plug-in"] | EXACT_WAYS["known"]


@cache
def in_order(way):
    return audited(people(), **EXACT_WAYS[way]).to_dict()


@pytest.mark.parametrize("way", EXACT_WAYS)
def test_audit_is_invariant_to_row_order_with_its_intervals(way):
    shuffled = people().sample(fraction=1, shuffle=True, seed=0)
    assert_same_numbers(audited(shuffled, **EXACT_WAYS[way]).to_dict(), in_order(way))


@pytest.mark.parametrize("way", EXACT_WAYS)
def test_audit_with_shapley_values_is_invariant_to_row_order(way):
    share = (pl.col("group") == "A").mean().over("city", "owner")
    frame = people().with_columns(chance=share)
    first, *others = (
        audited(data, **EXACT_WAYS[way], features=["city", "owner"]).to_dict()
        for data in (frame, frame.reverse(), frame.sample(fraction=1, shuffle=True, seed=1))
    )
    assert all(row["shapley"] is not None for row in first["comparisons"]["A"]["contributions"])
    for other in others:
        assert_same_numbers(other, first)


@pytest.mark.parametrize("way", EXACT_WAYS)
def test_audit_is_invariant_to_column_order(way):
    data = people().select(sorted(people().columns))
    found = audited(data, **EXACT_WAYS[way], features=FEATURES[::-1])
    assert_same_numbers(found.to_dict(), in_order(way))


def test_prototypes_do_not_depend_on_row_order_where_corrections_tie():
    data = people().select("group", "city", "owner", score=pl.lit(0.5))
    same = pl.concat([data.with_columns(group=pl.lit(name)) for name in "AB"])
    options = {"features": ["city", "owner"], "folds": None}
    first = audited(same, **options)["A"].correction.prototypes()
    for seed in range(3):
        assert (
            audited(same.sample(fraction=1, shuffle=True, seed=seed), **options)["A"].correction.prototypes() == first
        )


@cache
def weighted_and_repeated(**options):
    data = people(600, 4)
    repeated = data[np.repeat(np.arange(len(data)), data["weight"].to_numpy())]
    return audited(data, sample_weight="weight", **options)["A"], audited(repeated, **options)["A"]


@pytest.mark.parametrize("folds", [None, 5])
def test_integer_weights_equal_repeated_rows_for_known_membership(folds):
    """Values that need sums only agree, and plug-in values of features with countable values.

    Standard errors do not, because sampling weights say that one person was drawn for many, not that there were
    many; nor do the numbers that leave rows out one at a time or that are learnt on folds of the rows (gap(j) of
    numbers, shares with intervals, unexplained), because a repeated row leaves its twin behind.
    """
    weighted, repeated = weighted_and_repeated(folds=folds, propensity="chance")
    for name in EXACT_UNDER_WEIGHTS:
        assert weighted.estimate(name).value == pytest.approx(repeated.estimate(name).value, rel=1e-9, abs=1e-9), name
    for one, other in zip(weighted.rates, repeated.rates, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-9)
    assert_same_numbers(weighted.correction.function.to_dict(), repeated.correction.function.to_dict())
    if folds is None:
        tables = (
            c.contributions_full.filter(pl.col("feature").is_in(["city", "owner"]))
            .select("feature", "alone", "reveals", "drives", "alignment", "share", "share_inputs", "share_outputs")
            .sort("feature")
            .to_dicts()
            for c in (weighted, repeated)
        )
        assert_same_numbers(*tables)


def test_integer_weights_equal_repeated_rows_in_every_plug_in_number_of_countable_features():
    weighted, repeated = weighted_and_repeated(folds=None, propensity="chance", features=("city", "owner"))
    assert weighted.adjusted_gap.value == pytest.approx(repeated.adjusted_gap.value, abs=1e-9)
    assert weighted.gap_parts.shapley_remainder == pytest.approx(repeated.gap_parts.shapley_remainder, abs=1e-9)
    drop = ["partner", "redundant_with"]
    assert_same_numbers(*(c.contributions_full.drop(drop).to_dicts() for c in (weighted, repeated)))


def test_integer_weights_equal_repeated_rows_in_profiles():
    weighted, repeated = weighted_and_repeated(folds=None, propensity="chance")
    counts = ["n", "n_reference"]
    for feature in FEATURES:
        tables = (c.correction.profile(feature).drop(counts).to_dicts() for c in (weighted, repeated))
        for one, other in zip(*tables, strict=True):
            shown = [name for name in one if one[name] is not None]  # of fewer people, less is shown
            assert len(shown) > 1
            assert_same_numbers({name: one[name] for name in shown}, {name: other[name] for name in shown})


def test_integer_weights_equal_repeated_rows_for_the_plug_in_fit():
    weighted, repeated = weighted_and_repeated(folds=None)
    for name in EXACT_UNDER_WEIGHTS:
        assert weighted.estimate(name).value == pytest.approx(repeated.estimate(name).value, abs=1e-9), name


def test_sampling_weights_widen_intervals_and_repeated_rows_narrow_them():
    weighted, repeated = weighted_and_repeated(folds=5, propensity="chance")
    assert weighted.gap.high - weighted.gap.low > 1.3 * (repeated.gap.high - repeated.gap.low)


UNWEIGHTED = [way for way in WAYS if "sample_weight" not in WAYS[way]]


@pytest.mark.parametrize("way", UNWEIGHTED)
def test_a_common_factor_of_the_weights_changes_the_shortfall_only(way):
    data, factor = people(), 1e300 / 3  # neither a power of 2 nor near 1
    plain, scaled = (audited(data, sample_weight=data["weight"] * c, **WAYS[way]).to_dict() for c in (1.0, factor))
    assert_same_numbers(with_shortfall_over(scaled, factor), plain)


def with_shortfall_over(summary, factor):
    """Return a summary in which rows stand for so many fewer people."""
    for comparison in summary["comparisons"].values():
        for end, number in (comparison["shortfall"] or {}).items():
            comparison["shortfall"][end] = None if number is None else number / factor
    return summary


@pytest.mark.parametrize("way", UNWEIGHTED)
def test_weights_at_the_ends_of_the_floats_are_no_weights(way):
    options = WAYS[way] | {"features": ["city", "owner"]}
    every = (None, np.full(400, 1e308), np.full(400, 5e-324))
    plain, *others = (audited(people(), sample_weight=weights, **options).to_dict() for weights in every)
    del plain["comparisons"]["A"]["shortfall"]  # a sum of weights
    for weighted in others:
        del weighted["comparisons"]["A"]["shortfall"]
        assert_same_numbers(weighted, plain)


def test_equal_weights_change_the_shortfall_only():
    plain, weighted = (
        audited(people(), propensity="chance", sample_weight=w).to_dict() for w in (None, np.full(400, 2.5))
    )
    assert_same_numbers(with_shortfall_over(weighted, 2.5), plain)


def few_levels(rows=2000, seed=8):
    random = np.random.default_rng(seed)
    is_audited = random.random(rows) < 0.5
    one, two = (random.integers(0, 3, rows) + (random.random(rows) < 0.15 + 0.35 * is_audited) for _ in range(2))
    score = expit(0.5 * one - 0.2 * two)
    columns = {"group": np.where(is_audited, "A", "B"), "one": one, "two": two, "score": score}
    return pl.DataFrame(columns)


def test_another_order_of_rows_and_columns_changes_nothing_where_many_rows_are_alike():
    """Folds follow what the rows hold, not where they stand; `tests/rows/test_agreement.py` has rows that differ."""
    data = few_levels()
    features = sorted(set(data.columns) - {"group", "score", "chance", "weight"})
    shuffled = data.sample(fraction=1, shuffle=True, seed=0)
    plain = audited(data, features=features).to_dict()
    moved = audited(shuffled.select(reversed(shuffled.columns)), features=features[::-1]).to_dict()
    for result in (plain, moved):
        for comparison in result["comparisons"].values():
            comparison["contributions"].sort(key=lambda row: row["feature"])
    assert_same_numbers(plain, moved)


@cache
def three_groups():
    size = 600
    third = pl.when(pl.int_range(size) % 5 == 0).then(pl.lit("C")).otherwise("group")
    return people(size, 6).with_columns(group=third)


def test_each_audited_group_is_compared_as_if_alone():
    data, options = three_groups(), {"folds": None, "features": ["city", "owner"]}
    every = audited(data, **options)
    assert list(every) == ["A", "C"]
    assert len(every) == 2
    for name in every:
        alone = audited(data.filter(pl.col("group").is_in([name, "B"])), **options)
        assert_same_numbers(every[name].to_dict(), alone[name].to_dict())


def test_groups_that_are_not_audited_do_not_move_the_bins_of_others():
    data = three_groups().with_columns(income=pl.when(pl.col("group") == "C").then(1e6).otherwise("income"))
    named = audited(data, audited="A", folds=None)["A"]
    alone = audited(data.filter(pl.col("group") != "C"), folds=None)["A"]
    assert_same_numbers(named.to_dict(), alone.to_dict())


def test_the_largest_group_is_the_default_reference():
    assert audited(three_groups(), reference=None, folds=None, features="city").reference == "B"


def test_intersections_are_groups_of_their_own():
    found = audited(people(600, 6), group=["group", "owner"], reference=("B", True), folds=None, features="city")
    assert found.group == "group & owner"
    assert list(found) == ["A & False", "A & True", "B & False"]
    joint = people(600, 6).with_columns(
        group=pl.format("{} & {}", "group", pl.col("owner").replace_strict({True: "True", False: "False"}))
    )
    assert_same_numbers(
        found["A & True"].to_dict(),
        audited(joint, reference="B & True", audited="A & True", folds=None, features="city")["A & True"].to_dict(),
    )


@pytest.mark.parametrize(
    ("group", "reference", "expected"),
    [("owner", True, ["False"]), ("weight", 2, ["1", "3"]), (people()["city"].to_list(), "East", ["North", "Süd"])],
)
def test_booleans_numbers_and_arrays_are_groups(group, reference, expected):
    found = audited(people(), group=group, reference=reference, features="income", folds=None)
    assert list(found) == expected
    assert found.reference == str(reference)


def test_given_equals_auditing_the_filtered_rows():
    data = people(800, 7)
    conditional = audited(data, where={"owner": True}, features=["income", "city"], propensity="chance")
    filtered = audited(data.filter("owner"), features=["income", "city"], propensity="chance")
    assert conditional.rows["not_given_owner"] == data.filter(~pl.col("owner")).height
    assert_same_numbers(conditional["A"].to_dict(), filtered["A"].to_dict())


def test_given_equals_auditing_the_filtered_rows_for_arrays():
    data = people(800, 7)
    owner = data["owner"].to_numpy()
    arrays = {name: data[name].to_numpy() for name in ("group", "score", "weight", "chance")}

    def of(table, keep, **options):
        chosen = {name: values[keep] for name, values in arrays.items()}
        return audited(
            table, group=chosen["group"], scores=chosen["score"], sample_weight=chosen["weight"],
            propensity=chosen["chance"], features=["income", "city"], folds=None, **options,
        )["A"].to_dict()  # fmt: skip

    assert_same_numbers(of(data, slice(None), where={"owner": 1}), of(data.filter("owner"), owner))


def test_a_threshold_equals_auditing_the_decisions():
    decided = audited(people(), threshold=0.5, propensity="chance")
    decisions = (people()["score"] >= 0.5).cast(pl.Int64)
    assert_same_numbers(
        decided.to_dict(), audited(people().with_columns(score=decisions), propensity="chance").to_dict()
    )
    assert decided.score_type == "decision"
    assert audited(people(), folds=None).score_type == "probability"


def test_favourable_low_turns_the_rates_and_leaves_the_gap():
    high, low = (audited(people(), favourable=f, folds=None)["A"] for f in ("high", "low"))
    assert low.gap == high.gap
    for one, other in zip(high.rates, low.rates, strict=True):
        assert one.value + other.value == pytest.approx(1)
    rates = low.rates
    assert low.impact_ratio.value == pytest.approx(rates.audited.value / rates.reference.value)


def three_outcomes():
    score = people()["score"].to_numpy()
    return np.column_stack([0.2 * score, 0.8 * score, 1 - score])


def test_three_outcomes_are_compared_by_their_favourable_class():
    c = audited(people(), scores=three_outcomes(), favourable=1, propensity="chance")["A"]
    plain = audited(people(), propensity="chance")["A"]
    assert c.gap.value == pytest.approx(0.8 * plain.gap.value)
    assert c.impact_ratio.value == pytest.approx(plain.impact_ratio.value)
    assert len(c.outputs.means.audited) == 3
    assert sum(c.outputs.means.audited) == pytest.approx(1)
    assert c.correction.descent_rate.value == pytest.approx(
        plain.correction.descent_rate.value
    )  # the outcomes tell no more than their sum
    assert c.correction.detection_sample_size is None


def test_columns_of_outcomes_name_the_favourable_class():
    data = people().with_columns(pl.Series(name, three_outcomes()[:, at]) for at, name in enumerate("xyz"))
    found = audited(data, scores=["x", "y", "z"], favourable="y", folds=None)
    assert found.favourable == "y"
    assert found["A"].gap == audited(people(), scores=three_outcomes(), favourable=1, folds=None)["A"].gap


@pytest.mark.parametrize(
    ("value", "options"),
    [
        *((value, {"folds": None}) for value in (0.0, 0.5, 1.0)),
        *((value, {"propensity": "chance"}) for value in (0.0, 0.5, 1.0)),
        (0.5, {}),
    ],
)
def test_a_constant_score_has_no_gap_and_no_evidence(value, options):
    found = audited(people(), scores=np.full(400, value), **options)
    c = found["A"]
    assert c.gap.value == pytest.approx(0, abs=1e-12)
    assert c.correction.output_divergence.value == pytest.approx(0, abs=1e-12)
    assert "potential proxy" not in " ".join(c.contributions_full["verdict"])
    assert (c.impact_ratio is None) == (value == 0)
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize("options", [{}, {"folds": None}, {"propensity": np.full(1200, 0.5)}])
def test_identical_groups_have_nothing_to_correct(options):
    data = people(600, 6)
    found = audited(pl.concat([data.with_columns(group=pl.lit(name)) for name in "AB"]), **options)
    c = found["A"]
    assert c.gap.value == pytest.approx(0, abs=1e-12)
    assert c.impact_ratio.value == pytest.approx(1)
    assert c.correction.descent_rate.value == pytest.approx(0, abs=1e-6)
    assert "potential proxy" not in " ".join(c.contributions_full["verdict"])
    assert "not accounted for" not in note_codes(c)
    json.dumps(found.to_dict(), allow_nan=False)


def test_outputs_that_do_not_overlap_are_noted_and_not_infinite(worded):
    scores = np.where(people()["group"] == "A", people()["score"], 0.0)
    found = audited(people(), scores=scores, propensity="chance")
    c = found["A"]
    assert c.impact_ratio is c.correction.output_divergence is c.correction.descent_rate is None
    worded(c.checks.notes)
    assert "inputs only" in note_codes(c)
    json.dumps(found.to_dict(), allow_nan=False)


@cache
def dependent(extra, materiality=0.005):
    """Return the audit of a score of two features, with `extra` for the audited group whatever its features."""
    score = pl.col("score") * 0.8 + pl.when(pl.col("group") == "A").then(extra).otherwise(0.0)
    options = {"features": ["one", "two"], "materiality": materiality}
    return audited(few_levels().with_columns(score), **options)["A"]


def dependence(c):
    return [note for note in c.checks.notes if "do not account for" in note]


def test_a_score_that_uses_the_group_is_found_out():
    c = dependent(0.05)
    assert c.adjusted_gap.low > 0
    assert c.adjusted_gap.value == pytest.approx(0.05, abs=2e-4)
    assert dependence(c)
    faults = " ".join(c.checks.balance.reasons)
    assert "mean of score" not in faults  # the score's own dependence on the group is no fault of the membership model


def test_a_model_that_is_given_a_copy_of_the_group_has_an_adjusted_gap():
    """Nobody has an equal in the other group on a copy, so that the other features alone are held equal."""
    rng = np.random.default_rng(0)
    group, x = rng.integers(0, 2, 1_000), rng.normal(size=1_000)
    table = pl.DataFrame({"group": group, "copy": group, "x": x + 0.3 * group})

    def model(frame):
        return 1.0 / (1.0 + np.exp(-frame["x"].to_numpy() - frame["copy"].to_numpy()))

    options = {"group": "group", "reference": 0, "features": ["copy", "x"]}
    asked, from_scores = (
        tl.audit(table, **options, **way)["1"] for way in ({"model": model}, {"scores": model(table)})
    )
    assert asked.adjusted_gap.low > 0.1
    assert asked.adjusted_gap == from_scores.adjusted_gap


def test_a_parity_of_three_numbers_is_found_and_leaves_little_to_the_group():
    """Borders are learnt, so that some rows lie on their wrong side: 1 to 3 points of 23 are left."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(2_000, 4))
    parity = np.sign(numbers[:, :3]).prod(axis=1)
    mine = rng.random(2_000) < 0.5 + 0.3 * parity
    table = pl.DataFrame(numbers, schema=["x", "y", "z", "noise"]).with_columns(
        group=pl.Series(np.where(mine, "A", "B")), score=pl.Series(0.5 + 0.2 * parity)
    )
    c = tl.audit(table, "group", reference="B", scores="score", audited="A")["A"]
    verdicts = dict(c.contributions_full.select("feature", "verdict").iter_rows())
    assert {verdicts[name] for name in "xyz"} == {"potential proxy in combination"}
    assert abs(c.adjusted_gap.value) < 0.04 < 0.2 < c.gap.value
    assert c.adjusted_gap.high < 0.05


def test_a_score_of_the_features_alone_is_not_accused():
    c = dependent(0.0)
    assert abs(c.adjusted_gap.value) < 2e-4
    assert not dependence(c)


def test_a_negligible_dependence_is_noted_only_below_a_small_materiality():
    """Among many rows any difference is significant; below the materiality it means nothing."""
    plain, strict = (dependent(4e-4, materiality) for materiality in (0.005, 0.0002))
    assert plain.adjusted_gap.low > 0
    assert not dependence(plain)
    assert dependence(strict)


def test_people_without_equals_in_the_reference_are_noted_and_accuse_nobody():
    data = few_levels().with_columns(
        one=pl.when(pl.col("group") == "A").then("one").otherwise(pl.col("one").clip(0, 2))
    )
    score = expit(0.5 * data["one"].to_numpy() - 0.2 * data["two"].to_numpy())
    c = audited(data, scores=score, features=["one", "two"])["A"]
    alone = data.filter((pl.col("group") == "A") & (pl.col("one") == 3)).height / c.rows["audited"]
    (note,) = (note for note in c.checks.notes if note.code == "off support")
    assert note.values["people"] == f"{100 * alone:.1f}%"
    assert not dependence(c)
    assert abs(c.adjusted_gap.value) < 2e-4


def test_an_inadequate_membership_says_so_and_has_no_part_in_verdicts():
    wrong = np.where(people(1200, 1)["city"] == "North", 0.2, 0.6)
    c, right = (
        audited(people(1200, 1), propensity=membership, features=["city", "owner"])["A"]
        for membership in (wrong, "chance")
    )
    assert not c.checks.balance.is_adequate
    assert any(getattr(note, "code", "") == "inadequate membership model" for note in c.checks.notes)
    assert (c.correction.input_divergence.high, c.correction.descent_rate.low) == (None, None)
    assert c.correction.input_divergence.low <= c.correction.input_divergence.value
    assert c.correction.descent_rate.value <= c.correction.descent_rate.high
    assert any(getattr(note, "code", "") == "open-ended" for note in c.checks.notes)
    assert "no shares" in note_codes(c)
    assert c.contributions_full.select(pl.col("^share(_inputs)?(_low|_high)?$").is_null().all()).row(0) == (True,) * 6
    assert c.contributions_full["share_outputs"].is_not_null().all()
    assert c.correction.shares_along_tradeoff().is_empty()
    columns = [
        "feature",
        "alone",
        "alone_low",
        "alone_high",
        "beyond_others",
        "beyond_others_low",
        "beyond_others_high",
        "verdict",
    ]
    assert_same_numbers(*(one.contributions_full.select(columns).to_dicts() for one in (c, right)))


def test_an_estimator_is_cross_fitted():
    model = make_pipeline(OneHotEncoder(), LogisticRegression(C=100))
    c = audited(people(), features=["city", "owner"], propensity=model)["A"]
    assert c.checks.propensity == "Pipeline"
    assert c.correction.descent_rate.low < c.correction.descent_rate.value < 0


def test_an_unknown_group_gets_the_list(refused):
    with refused(tl.TiltlensError, "'X'"):
        cross_fitted()["X"]


def test_results_say_what_they_are(worded):
    worded([repr(cross_fitted()), repr(cross_fitted()["A"])])


@pytest.mark.parametrize("name", ["profile", "distribution"])
def test_profiles_of_small_cells_are_withheld(name):
    data = people().with_columns(city=pl.when(pl.int_range(400) < 6).then(pl.lit("Rare")).otherwise("city"))
    rows = getattr(audited(data, folds=None)["A"].correction, name)("city").filter(pl.col("value") == "Rare")
    if name == "profile":
        assert rows.select("correction", "score").row(0) == (None, None)
    else:
        assert set(rows["n"]) <= {0, None}


def test_openmp_keeps_to_one_thread_from_the_first_call():
    """Loaded inside the limit, OpenMP would escape it, and spin: minutes instead of seconds on busy cores."""
    from threadpoolctl import threadpool_info

    from tiltlens._threads import one_thread

    with one_thread(is_fitting=True):
        found = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]
    assert found
    assert set(found) == {1}


def test_the_descent_rate_of_outputs_alone_is_minus_k_times_the_spread_of_the_score():
    data = people(1500, 7)
    c = audited(data, input_weight=0.0, output_weight=2.0, propensity="chance")["A"]
    assert c.correction.descent_rate.value == pytest.approx(c.correction.function.descent_rate, rel=1e-9)
    assert c.correction.descent_rate.low < c.correction.descent_rate.value < c.correction.descent_rate.high <= 0
    same = pl.concat([data.with_columns(group=pl.lit(name)) for name in "AB"])
    flat = audited(same, input_weight=0.0, propensity=np.full(3000, 0.5))["A"].correction.descent_rate
    assert (flat.value, flat.high) == (pytest.approx(0, abs=1e-12), 0)


def test_shapley_values_and_their_remainder_add_up_to_the_gap():
    for options in ({"folds": None}, {"folds": 5}):
        c = audited(people(800, 5), features=["city", "owner"], **options)["A"]
        assert c.contributions_full["shapley"].sum() + c.gap_parts.shapley_remainder == pytest.approx(
            c.gap.value, abs=1e-12
        )


def test_path_and_projection_follow_the_rows_of_the_table():
    data = people(300, 3)
    c = audited(data, folds=None)["A"]
    mine = data.filter(group="A")["score"].to_numpy()
    end = c.correction.project()
    assert end.q @ mine == pytest.approx(data.filter(group="B")["score"].mean())
    tilted = np.exp(end.multipliers[0] * mine)
    assert end.q == pytest.approx(tilted / tilted.sum())
    assert c.correction.path([(1, 0, 0, 1e6)])[0].q == pytest.approx(end.q, abs=1e-6)


@pytest.mark.parametrize("divergence", ["chi2", "hellinger", "js", "tv"])
def test_a_path_is_solved_where_nobody_audited_gets_an_outcome(divergence):
    data = people(300, 3).with_columns(score=pl.when(group="A").then(0.0).otherwise("score"))
    point = audited(data, folds=None)["A"].correction.path([(1, 0, 0, 1)], divergence)[0]
    assert point.optimality_gap < 1e-7
    assert point.q == pytest.approx(1 / len(point.q), abs=1e-7)


@pytest.mark.parametrize(
    ("of_a", "of_b", "divergence"), [(0.0, None, "reverse_kl"), (None, 0.0, "kl"), (None, 1.0, "chi2")]
)
def test_outputs_out_of_reach_are_told_by_scores_and_groups(of_a, of_b, divergence):
    fixed = pl.when(group="A").then(of_a).otherwise(of_b)
    c = audited(people(300, 3).with_columns(score=pl.coalesce(fixed, "score")), folds=None)["A"]
    told = r"the mean score of 'B' must be within reach of the scores of 'A', got [\d.]+ and scores from"
    with pytest.raises(tl.TiltlensError, match=told) as path:
        c.correction.path([(1, 0, 0, 1)], divergence)
    with pytest.raises(tl.TiltlensError, match=told) as project:
        c.correction.project()
    assert "λ4" in str(path.value)
    assert "removes the gap" in str(project.value)
    assert not any(word in str(error.value) for error in (path, project) for word in ("atom", "`q`", "mixture"))


def test_the_product_of_plug_in_factors_is_the_gap_even_with_rare_levels():
    random = np.random.default_rng(1)
    city = random.choice([f"c{i}" for i in range(30)], 800, p=np.r_[np.full(5, 0.19), np.full(25, 0.002)])
    data = pl.DataFrame({"group": random.choice(["A", "B"], 800), "city": city, "score": random.random(800)})
    row = audited(data, features=["city"], folds=None)["A"].contributions_full.row(0, named=True)
    assert row["alone"] == pytest.approx(row["alignment"] * row["reveals"] * row["drives"], abs=1e-12)


def test_a_single_noise_feature_is_no_joint_proxy():
    random = np.random.default_rng(0)
    x = random.normal(size=600)
    data = pl.DataFrame({"group": random.choice(["A", "B"], 600), "x": x, "score": expit(x)})
    for membership in (None, np.full(600, 0.5)):
        row = audited(data, features=["x"], propensity=membership)["A"].contributions_full.row(0, named=True)
        assert row["verdict"] == "inconclusive"


def test_the_gap_of_a_countable_feature_does_not_depend_on_the_other_features():
    data = people(900, 11)
    sets = (["city", "income"], ["city", "owner"], ["city", "income", "owner", "since"])
    rows = [
        audited(data, features=features, propensity="chance")["A"]
        .contributions_full.filter(feature="city")
        .row(0, named=True)
        for features in sets
    ]
    for column in ("alone", "reveals", "drives", "alignment"):
        assert rows[0][column] == pytest.approx(rows[1][column], abs=1e-12) == pytest.approx(rows[2][column], abs=1e-12)


def test_the_gap_of_a_number_depends_on_the_other_features_by_folds_only():
    data = people(900, 11)
    sets = (["income"], ["income", "city"], ["income", "city", "owner"])
    rows = [
        audited(data, features=features, propensity="chance")["A"]
        .contributions_full.filter(feature="income")
        .row(0, named=True)
        for features in sets
    ]
    width = rows[0]["alone_high"] - rows[0]["alone_low"]
    assert np.ptp([row["alone"] for row in rows]) < 0.1 * width


def test_rounding_noise_is_no_gap():
    data = people(400, 2).with_columns(score=pl.lit(0.3))
    c = audited(data, features=["city", "owner"], propensity="chance")["A"]
    assert c.gap == tl.Estimate(0.0, 0.0, 0.0)
    assert {code_of(direction) for direction in c.contributions_full["direction"]} == {"score does not follow"}
    assert not c.contributions_full["verdict"].str.contains("potential proxy").any()


def test_weights_that_rest_on_one_person_are_noted():
    weights = np.ones(600)
    for largest in (59_400, 1e8):
        weights[0] = largest
        c = audited(people(600, 4), features=["city", "owner"], sample_weight=weights, propensity="chance")["A"]
        assert "few people behind weights" in note_codes(c)


@pytest.mark.parametrize("weights", [[1, 1, 1, 1], [(1, 1)], ["abcd"], [(0, 0, 0, 0)], 3, "abcd"])
def test_bad_weights_of_a_path_are_named(weights):
    with pytest.raises(tl.TiltlensError, match="`weights` must"):
        audited(people(300, 3), folds=None)["A"].correction.path(weights)


@pytest.mark.parametrize("bins", [0, -1, 1.5, "auto"])
def test_bad_bins_are_named(refused, bins):
    with refused(tl.TiltlensError, "`bins`"):
        audited(people(300, 3), folds=None)["A"].correction.distribution("city", bins)


def test_noise_beside_a_binned_feature_is_no_joint_proxy_with_known_membership():
    random = np.random.default_rng(7)
    is_audited = random.random(4000) < 0.5
    x = random.normal(0.6 * is_audited, 1)
    data = pl.DataFrame(
        {
            "group": np.where(is_audited, "A", "B"),
            "income": x,
            "noise": random.choice(["yes", "no"], 4000),
            "score": expit(x - 0.5),
            "chance": expit(0.6 * x - 0.18),
        }
    )
    found = audited(data, features=["income", "noise"], propensity="chance")["A"].contributions_full
    noise = found.row(by_predicate=pl.col("feature") == "noise", named=True)
    assert abs(noise["beyond_others"]) < 0.001, "what is left of income is not owed to noise"
    assert noise["verdict"] == "no material contribution"


def test_a_group_without_a_single_favourable_decision_keeps_an_honest_interval():
    data = people().with_columns(score=pl.when(pl.col("group") == "B").then((pl.col("score") > 0.6).cast(float)))
    few = pl.concat([data.filter(group="B"), data.filter(group="A").head(12).with_columns(score=0.0)])
    c = audited(few, folds=None, propensity="chance")["A"]
    assert c.rates.audited.low is None
    c = audited(few, propensity="chance")["A"]
    assert c.rates.audited.value == 0
    assert c.rates.audited.low == 0
    assert 0.1 < c.rates.audited.high < 0.35, "0 of 12: the exact upper bound is 0.26"
    assert c.gap.high - c.gap.low > 0.2
    assert c.shortfall.high - c.shortfall.low > 12 * 0.2


def test_a_report_goes_to_an_open_file_and_not_to_a_text_file(refused, tmp_path):
    audit = audited(people(), folds=None)
    page, numbers = io.StringIO(), io.StringIO()
    audit.report(page)
    audit.to_json(numbers)
    assert page.getvalue().startswith("<!DOCTYPE html>")
    assert json.loads(numbers.getvalue())["group"] == "group"
    with refused(tl.TiltlensError, "HTML or PDF"):
        audit.report(tmp_path / "x.txt")
