"""Amounts: premiums, salaries, limits, days. Same estimators, in units; against numpy, and against decisions."""

import math
import re
from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.special import stdtrit
from sklearn.linear_model import LinearRegression, LogisticRegression
from tests.people import FEATURES, assert_same_numbers, lending, note_codes, people

import tiltlens as tl
from tiltlens._results.codec import to_plain
from tiltlens.errors import TiltlensError

IN_UNITS = ("alone", "beyond_others", "shapley", "drives")
UNITLESS = ("reveals", "alignment", "share", "share_inputs", "share_outputs")


@cache
def paid():
    """Return people with a decision and a salary in euros and cents, equal for some."""
    salary = 1_000 + 10 * (300 * people()["score"]).round()
    return people().with_columns(decision=(pl.col("score") > 0.5).cast(pl.Float64), salary=salary)


def audited(data, **options):
    asked = {"group": "group", "reference": "B", "features": FEATURES, "scores": "salary", "score_type": "amount"}
    return tl.audit(data, **asked | {"propensity": "chance"} | options)


@cache
def salaries():
    return audited(paid())["A"]


def columns(c, names, factor=1.0):
    ends = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    rows = c.contributions_full.sort("feature").select(ends).to_dicts()
    return [{k: None if v is None else factor * v for k, v in row.items()} for row in rows]


def estimates(c, names):
    return {name: None if c.estimate(name) is None else c.estimate(name).to_dict() for name in names}


ALIKE = ("gap", "impact_ratio", "shortfall", "standardised_difference", "output_divergence", "input_divergence")
ALIKE += ("descent_rate", "adjusted_gap", "gap_explained_by_exempt", "gap_given_exempt")


@pytest.mark.parametrize(
    "options",
    [{}, {"exempt": ["owner"], "sample_weight": "weight"}],
    ids=["plain", "exempt, weights"],
)
def test_amounts_of_0_and_1_equal_decisions(options):
    decisions = audited(paid(), scores="decision", score_type="probability", **options)["A"]
    amounts = audited(paid(), scores="decision", **options)["A"]
    assert (decisions.scale.score_type, amounts.scale.score_type) == ("decision", "amount")
    same = [name for name in ALIKE if name not in ("gap", "shortfall")]
    assert_same_numbers(estimates(amounts, same), estimates(decisions, same))
    for name in ("gap", "shortfall"):  # of decisions Newcombe's interval, of amounts Student's t
        one, other = amounts.estimate(name), decisions.estimate(name)
        assert one.value == pytest.approx(other.value, abs=1e-9)
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.03)
    names = (*IN_UNITS, *UNITLESS)
    assert_same_numbers(columns(amounts, names), columns(decisions, names))
    assert_same_numbers(
        amounts.to_dict()["correction"]["tradeoff_table"], decisions.to_dict()["correction"]["tradeoff_table"]
    )
    assert_same_numbers(to_plain(amounts.bins()), to_plain(decisions.bins()))
    assert_same_numbers(amounts.gap_test.p_value, decisions.gap_test.p_value)
    assert amounts.outputs.means == pytest.approx(decisions.outputs.means, abs=1e-12)
    assert amounts.adverse_impact_ratio is amounts.correction.detection_sample_size is None
    assert not decisions.outputs.decile_shares.height
    (above,) = amounts.outputs.decile_shares.to_dicts()  # of two amounts: the share with the larger, 1
    shares = ("audited", "reference", "difference")
    assert above["amount"] == 0.0
    assert [above[name] for name in shares] == pytest.approx([*amounts.outputs.means, amounts.gap.value], abs=1e-12)


@pytest.mark.parametrize("factor", [3.0, 1000.0])
def test_cents_and_euros_say_the_same(factor):
    plain, other = salaries(), audited(paid().with_columns(salary=pl.col("salary") * factor))["A"]
    whole = ("gap", "shortfall", "adjusted_gap")
    scaled = {k: {end: factor * v for end, v in one.items()} for k, one in estimates(plain, whole).items()}
    same = [name for name in ALIKE if name not in whole]
    assert_same_numbers(estimates(other, whole), scaled, 1e-6)
    assert_same_numbers(estimates(other, same), estimates(plain, same), 1e-6)
    assert_same_numbers(columns(other, IN_UNITS), columns(plain, IN_UNITS, factor), 1e-6)
    assert_same_numbers(columns(other, UNITLESS), columns(plain, UNITLESS), 1e-6)
    assert other.contributions_full["verdict"].to_list() == plain.contributions_full["verdict"].to_list()
    assert other.scale.materiality == pytest.approx(factor * plain.scale.materiality, rel=1e-9)


def test_what_everybody_has_more_changes_nothing_but_levels():
    plain, other = salaries(), audited(paid().with_columns(salary=pl.col("salary") + 1e7))["A"]
    same = [name for name in ALIKE if name != "impact_ratio"]
    assert_same_numbers(estimates(other, same), estimates(plain, same), 1e-6)
    assert_same_numbers(columns(other, (*IN_UNITS, *UNITLESS)), columns(plain, (*IN_UNITS, *UNITLESS)), 1e-6)
    assert other.outputs.means.audited == pytest.approx(plain.outputs.means.audited + 1e7, rel=1e-12)
    assert other.outputs.decile_shares["amount"].to_list() == pytest.approx(
        (plain.outputs.decile_shares["amount"] + 1e7).to_list()
    )


@pytest.mark.parametrize("weights", [None, "weight"])
@pytest.mark.parametrize("favourable", ["high", "low"])
def test_numbers_of_outputs_against_numpy(weights, favourable):
    c = audited(paid(), features=[], sample_weight=weights, favourable=favourable)["A"]
    w = paid()["weight"].to_numpy().astype(float) if weights else np.ones(paid().height)
    x, mine = paid()["salary"].to_numpy(), (paid()["group"] == "A").to_numpy()
    (m0, v0, e0), (m1, v1, e1) = (_moments(x[who], w[who]) for who in (mine, ~mine))
    assert c.gap.value == pytest.approx(m0 - m1, rel=1e-12)
    reaches = [_degrees_t(x[who], w[who]) * se for who, se in ((mine, e0), (~mine, e1))]
    assert c.gap.high - c.gap.value == pytest.approx(math.hypot(*reaches), rel=1e-6)
    assert (c.rates.audited.value, c.rates.reference.value) == pytest.approx((m0, m1))
    assert c.impact_ratio.value == pytest.approx(m0 / m1)
    log_se = math.hypot(e0 / m0, e1 / m1)
    assert c.impact_ratio.low == pytest.approx(m0 / m1 * math.exp(-1.959964 * log_se), rel=1e-6)
    assert c.outputs.standardised_difference.value == pytest.approx((m0 - m1) / math.sqrt((v0 + v1) / 2))
    assert c.scale.materiality == pytest.approx(0.02 * math.sqrt((v0 + v1) / 2))
    assert c.shortfall.value == pytest.approx((1 if favourable == "high" else -1) * w[mine].sum() * (m1 - m0))
    for row in c.outputs.decile_shares.to_dicts():
        beyond = (x > row["amount"]).astype(float)
        assert row["audited"] == pytest.approx(np.average(beyond[mine], weights=w[mine]))
        assert row["reference"] == pytest.approx(np.average(beyond[~mine], weights=w[~mine]))
        assert row["difference"] == pytest.approx(row["audited"] - row["reference"])
        reaches = _wilson(beyond[mine], w[mine])[1], _wilson(beyond[~mine], w[~mine])[0]
        assert row["difference_high"] - row["difference"] == pytest.approx(math.hypot(*reaches), rel=1e-6)


def _degrees_t(x, w):
    """Return Student's 97.5 % quantile, of people less one or by Satterthwaite."""
    square = (w * (x - np.average(x, weights=w))) ** 2
    noise = square @ square / square.sum() ** 2 - 1 / len(x)
    return stdtrit(min(w.sum() ** 2 / (w @ w) - 1, 2 / noise), 0.975)


def _wilson(x, w, z=1.959964):
    """Return how far Wilson's interval reaches below and above the rate."""
    p, variance, se = _moments(x, w)
    n = min(variance / se**2, w.sum() ** 2 / (w @ w))
    roots = np.roots([1 + z * z / n, -2 * p - z * z / n, p * p])
    return p - min(roots), max(roots) - p


def _moments(x, w):
    """Return mean, variance and the standard error of the mean."""
    mean = np.average(x, weights=w)
    return mean, np.average((x - mean) ** 2, weights=w), math.sqrt(w**2 @ (x - mean) ** 2) / w.sum()


def test_deciles_are_pooled_and_the_divergence_is_of_them():
    c, x = salaries(), paid()["salary"].to_numpy()
    edges = np.unique(np.quantile(x, np.arange(1, 10) / 10, method="inverted_cdf"))
    assert set(c.outputs.decile_shares["amount"]) <= set(edges)
    mine = (paid()["group"] == "A").to_numpy()
    bins = np.searchsorted(edges, x, side="left")
    y0, y1 = (np.bincount(bins[who], minlength=edges.size + 1) / who.sum() for who in (mine, ~mine))
    assert c.correction.output_divergence.value == pytest.approx(float(y0 @ np.log(y0 / y1)), rel=1e-9)


def test_a_longer_table_is_summed_whole_and_its_deciles_are_those_of_the_sample():
    frame = lending().with_columns(pay=(pl.col("score") * 5_000 + pl.col("years")))
    asked = {"group": "group", "reference": "b", "audited": "a", "scores": "pay", "score_type": "amount"}
    found = tl.audit(frame, features=["region", "job"], sample_rows=1_000, folds=None, **asked)["a"]
    whole = tl.audit(frame, features=["region", "job"], folds=None, **asked)["a"]
    assert_same_numbers(estimates(found, ALIKE[:4]), estimates(whole, ALIKE[:4]))
    exact = ["alone", "drives", "reveals"]
    assert_same_numbers(columns(found, exact), columns(whole, exact))
    x, mine = frame["pay"].to_numpy(), (frame["group"] == "a").to_numpy()
    assert found.outputs.decile_shares.height == 9
    for row, near in zip(found.outputs.decile_shares.to_dicts(), whole.outputs.decile_shares.to_dicts(), strict=True):
        assert row["audited"] == pytest.approx((x[mine] > row["amount"]).mean(), abs=1e-12)
        assert row["amount"] == pytest.approx(near["amount"], rel=0.05)


def test_what_counts_is_in_standard_deviations_and_the_reasons_are_in_units():
    c = salaries()
    assert c.scale.materiality == pytest.approx(0.02 * abs(c.gap.value / c.outputs.standardised_difference.value))
    coarse = audited(paid(), materiality=0.9, features=["city", "owner"])["A"]
    assert set(coarse.contributions_full["verdict"]) == {"no material contribution"}
    said = re.fullmatch(
        r"less than ([\d.]+) units, alone and beyond the others", coarse.contributions_full["reason"][0]
    )
    assert float(said[1]) == pytest.approx(coarse.scale.materiality, rel=5e-3)
    assert all("points" not in reason for reason in c.contributions_full["reason"])


def test_a_feature_that_sets_the_amount_carries_the_gap_in_units():
    rng = np.random.default_rng(5)
    mine = rng.random(2_000) < 0.5
    zone = rng.random(2_000) < np.where(mine, 0.7, 0.3)
    price = 400.0 + 100.0 * zone
    table = pl.DataFrame({"group": np.where(mine, "A", "B"), "zone": zone, "kind": rng.integers(0, 4, 2_000)})
    c = audited(table.with_columns(salary=pl.Series(price)), features=["zone", "kind"], propensity=None)["A"]
    row = c.contributions_full.row(0, named=True)
    assert (row["feature"], row["verdict"]) == ("zone", "potential proxy")
    assert row["alone"] == pytest.approx(c.gap.value, abs=1.0)  # people equal in zone pay the same
    assert row["shapley"] == pytest.approx(c.gap.value, abs=1.0)
    assert abs(c.adjusted_gap.value) < 1.0


@pytest.mark.parametrize("scores", ["a regressor", "a function", "an array"])
def test_a_regressor_a_function_and_an_array_give_amounts(scores):
    table = lending().with_columns(pay=100.0 * pl.col("score") + 10.0).to_pandas()
    inputs = table[["region", "years"]]
    fitted = LinearRegression().fit(inputs, table["pay"])
    asked = {"a regressor": {"model": fitted}, "a function": {"model": lambda frame: fitted.predict(frame)}}
    asked |= {"an array": {"scores": fitted.predict(inputs)}}
    options = {"group": "group", "reference": "b", "audited": "a", "features": ["region", "years"], "folds": None}
    found = tl.audit(table, score_type="amount", **options, **asked[scores])
    mine = (table["group"] == "a").to_numpy()
    predicted = fitted.predict(inputs)
    assert found.score_type == "amount"
    expected = predicted[mine].mean() - predicted[(table["group"] == "b").to_numpy()].mean()
    assert found["a"].gap.value == pytest.approx(expected, rel=1e-9)


def test_amounts_that_are_all_the_same_have_no_gap_and_a_note():
    c = audited(paid().with_columns(salary=pl.lit(812.5)), features=["city", "owner"])["A"]
    assert (c.gap.value, c.gap.low, c.gap.high) == (0.0, 0.0, 0.0)
    assert c.outputs.means == (812.5, 812.5)
    assert c.impact_ratio.value == 1.0
    assert "constant amounts" in note_codes(c)


def test_a_ratio_of_means_needs_means_above_0(worded):
    c = audited(paid().with_columns(salary=pl.col("salary") - 2_500), features=[])["A"]
    assert c.impact_ratio is None
    worded(note for note in c.checks.notes if note.code == "undefined")


def test_rows_without_an_amount_are_set_aside_and_counted():
    some = pl.when(pl.int_range(pl.len()) % 10 == 0).then(None).otherwise(pl.col("salary"))
    found = audited(paid().with_columns(salary=some), features=[])
    assert found.rows["missing_score"] == 40
    assert found.rows["used"] == 360


def test_no_decile_tells_of_fewer_than_ten_people():
    frame = paid().with_columns(pl.when(pl.col("group") == "A").then(pl.lit(900.0)).otherwise("salary").alias("salary"))
    few = frame.with_row_index().with_columns(
        salary=pl.when((pl.col("group") == "A") & (pl.col("index") < 12)).then(9_000.0).otherwise("salary")
    )
    rich = few.filter((pl.col("group") == "A") & (pl.col("salary") > 900)).height
    assert 0 < rich < 10
    c = audited(few, features=[])["A"]
    assert c.outputs.decile_shares.height == 0
    plain = audited(frame, features=[])["A"].outputs.decile_shares
    assert plain.height > 3
    assert plain["audited"].to_list() == [0.0] * plain.height


AT = pl.int_range(pl.len())
MISTAKES = {
    "infinite": (
        {"salary": pl.when(AT == 7).then(math.inf).otherwise("salary")},
        {},
        "`scores` must give finite amounts, got inf in row 7.",
    ),
    "words": ({}, {"scores": "city"}, "must be numbers where `score_type` is 'amount', got text such as"),
    "several columns": ({}, {"scores": ["salary", "score"]}, "one column of amounts, got 'salary', 'score'"),
    "several columns of an array": ({}, {"scores": np.ones((400, 3))}, "one number a row, got 3 columns"),
    "threshold": ({}, {"threshold": 0.5}, "`threshold` must be left out for amounts, got 0.5"),
    "favourable": ({}, {"favourable": "approved"}, "`favourable` must be 'high' or 'low' for amounts"),
    "unknown output": ({}, {"score_type": "money"}, "`score_type` must be 'probability' or 'amount', got 'money'"),
    "no output": ({}, {"score_type": "probability"}, 'pass score_type="amount" (--score-type amount)'),
    "per cent": (
        {"salary": 100 * pl.col("score")},
        {"score_type": "probability"},
        "look like percentages: divide them by 100",
    ),
    "materiality": ({}, {"materiality": 1.5}, "for amounts, a number of standard deviations"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_a_way_out(mistake):
    changed, options, message = MISTAKES[mistake]
    with pytest.raises(TiltlensError, match=re.escape(message)):
        audited(paid().with_columns(**changed), **options)


def test_a_classifier_has_no_amounts_and_a_regressor_no_probabilities(refused):
    inputs = paid().select(owner=pl.col("owner").cast(pl.Float64)).with_columns(group=paid()["group"])
    x = inputs.select("owner").to_numpy()
    options = {"group": "group", "reference": "B", "features": ["owner"]}
    classifier = LogisticRegression().fit(x, paid()["decision"])
    with refused(TiltlensError, "`model`"):
        tl.audit(inputs, model=classifier, score_type="amount", **options)
    with refused(TiltlensError, "--score-type amount"):
        tl.audit(inputs, model=LinearRegression().fit(x, paid()["salary"]), **options)
