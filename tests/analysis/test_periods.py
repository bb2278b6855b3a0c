"""The gap along time: of each period the same as an audit of its rows, and a test that it is the same in all."""

import json
import math

import numpy as np
import polars as pl
import pytest
from scipy.special import stdtrit
from scipy.stats import binom, chi2
from tests.command import invoked
from tests.people import assert_same_numbers, note_codes, people

import tiltlens as tl
from tiltlens._analysis.periods import FEW
from tiltlens._estimators.error_rates import mean_pair
from tiltlens._estimators.influence import Rows
from tiltlens._estimators.outputs import equal_gaps_test
from tiltlens._results.codec import to_plain
from tiltlens._rows.groups import MOST_PERIODS, sort_periods
from tiltlens.errors import DataError

MONTHS = [f"2024-{month}" for month in (9, 10, 11, 12)]


def dated(rows=400):
    """Return people of four months, the names of which do not sort by letters, and five in a fifth."""
    months = np.random.default_rng(0).choice(MONTHS, rows).astype(object)
    months[:5] = "2025-1"
    repaid = (np.random.default_rng(1).random(rows) < people(rows)["score"].to_numpy()).astype(int)
    branch = np.random.default_rng(2).integers(0, 5, rows)
    return people(rows).with_columns(month=pl.Series(months.astype(str)), repaid=repaid, branch=branch)


def audited(data, **options):
    question = {"group": "group", "reference": "B", "scores": "score", "features": [], "periods": "month"}
    return tl.audit(data, **question | options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"favourable": "low"},
        {"sample_weight": "weight"},
        {"threshold": 0.5},
        {"score_type": "amount"},
        {"clusters": "branch"},
        {"clusters": "branch", "confidence": 0.99},
    ],
)
def test_each_period_has_the_numbers_of_an_audit_of_its_rows(options):
    table = audited(dated(), **options).periods
    assert table["period"].to_list() == [*MONTHS, "2025-1"]
    for row in table.head(4).iter_rows(named=True):
        alone = audited(dated().filter(month=row["period"]), periods=None, **options)["A"]
        rates = alone.rates
        expected = {"gap": alone.gap, "audited_rate": rates.audited, "reference_rate": rates.reference}
        for name, estimate in (expected | {"impact_ratio": alone.impact_ratio}).items():
            found = {key: row[f"{name}{end}"] for key, end in (("value", ""), ("low", "_low"), ("high", "_high"))}
            assert_same_numbers(found, estimate.to_dict(), 1e-9, name)
        sizes = [row[f"n_{who}"] in (None, alone.rows[who]) for who in ("audited", "reference")]
        assert all(sizes)
    assert table["n_audited"].null_count() == 2  # a neighbour's is withheld too


def test_a_period_of_few_people_is_not_measured_nor_counted():
    row = audited(dated()).periods.row(4, named=True)
    assert (row["gap"], row["gap_low"], row["n_audited"]) == (None, None, None)
    assert row["reason"] == FEW


def test_equal_gaps_are_tested_by_cochrans_q():
    found = audited(dated())["A"].periods
    rows = found.frame.head(4)
    months = [dated().filter(month=month) for month in rows["period"]]
    se = np.array([_gap_se([month.filter(group=name)["score"] for name in "AB"]) for month in months])
    weights, gaps = 1 / se**2, rows["gap"].to_numpy()
    q = float((weights * (gaps - np.average(gaps, weights=weights)) ** 2).sum())
    assert found.equal_gaps.statistic == pytest.approx(q, rel=1e-6)
    assert (found.equal_gaps.degrees, found.equal_gaps.p_value) == (3, pytest.approx(chi2.sf(q, 3), rel=1e-6))


def clustered_gaps(clusters, periods, seed):
    """Return the gap of each period, all 0, where clusters differ from period to period and from group to group."""
    draw = np.random.default_rng(seed)
    branch, period, member = draw.integers(0, [clusters, periods, 2], (6 * clusters * periods, 3)).T
    score = draw.normal(0.0, 0.15, (clusters, periods, 2))[branch, period, member] + draw.normal(0.0, 0.1, branch.size)
    rows = Rows.of(member == 0, clusters=branch)
    gaps = []
    for number in range(periods):
        chosen = period == number
        means = np.array([score[chosen & (member == group)].mean() for group in (0, 1)])
        gaps.append(mean_pair(rows, score, chosen, means, (0.0, 0.0), -np.inf, np.inf).influence)
    return gaps


@pytest.mark.parametrize(("clusters", "periods"), [(100, 4), (20, 12)])
def test_the_test_of_equal_gaps_has_its_size_with_few_clusters(clusters, periods):
    tests = [equal_gaps_test(clustered_gaps(clusters, periods, seed)) for seed in range(200)]
    rejected = sum(test.p_value < 0.05 for test in tests)
    assert rejected <= binom.ppf(0.999, len(tests), 0.05)


def test_gaps_of_as_many_periods_as_clusters_are_not_tested():
    assert equal_gaps_test(clustered_gaps(10, 12, 0)) is None


def test_error_rates_are_told_along_time_too():
    row = audited(dated(), outcome="repaid").periods.row(1, named=True)
    month = dated().filter(month=row["period"], repaid=0)
    means = [month.filter(group=name)["score"] for name in "AB"]
    assert row["fpr_difference"] == pytest.approx(means[0].mean() - means[1].mean())
    reach = (row["fpr_difference_high"] - row["fpr_difference_low"]) / 2
    assert 1.959963984540054 < reach / _gap_se(means) < stdtrit(4, 0.975)  # Student's t of few people


def _gap_se(means):
    return math.sqrt(sum(one.var(ddof=0) / len(one) for one in means))


@pytest.mark.parametrize("held", ["duckdb", "csv files"], indirect=True)
def test_every_engine_has_the_same_periods(held):
    found = audited(held(dated().drop("since"))).periods
    assert_same_numbers(found.to_dicts(), audited(dated()).periods.to_dicts())


def test_beyond_the_sample_values_are_of_all_rows():
    found, whole = (audited(dated(1_400), sample_rows=size).periods for size in (1_000, 5_000))
    assert_same_numbers(found["gap"].to_list()[:4], whole["gap"].to_list()[:4])
    width = [(one["gap_high"] - one["gap_low"]).to_numpy()[:4] for one in (found, whole)]
    assert np.allclose(width[0] / width[1], 1.0, atol=0.2)


@pytest.mark.parametrize(
    ("month", "message"),
    [(pl.lit("2024"), "needs at least two values, got '2024'"), (pl.int_range(pl.len()), f"more than {MOST_PERIODS}")],
)
def test_one_period_or_too_many_are_refused(month, message):
    with pytest.raises(DataError, match=message):
        audited(dated().with_columns(month=month))


def test_the_command_line_and_the_page_show_the_periods(tmp_path):
    dated().write_parquet(tmp_path / "rows.parquet")
    question = ("audit", "rows.parquet", "--group", "group", "--reference", "B", "--scores", "score")
    done = invoked(
        *question, "--periods", "month", "--features", "", "--json", "a.json", "--report", "a.html", cwd=tmp_path
    )
    assert done.returncode == 0
    assert "Gap over time" in done.stdout
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["provenance"]["question"]["periods"] == "month"
    expected = to_plain(audited(dated())["A"].periods)
    assert_same_numbers(found["comparisons"]["A"]["periods"], expected)
    assert "Gap over time" in (tmp_path / "a.html").read_text()
    assert audited(dated())["A"].plot("periods").table.height == 5


def test_names_of_months_are_in_the_calendars_order():
    assert sort_periods(["Mar", "jan", "Feb", "Dec"]) == ("jan", "Feb", "Mar", "Dec")
    assert sort_periods(["March", "January"]) == ("January", "March")
    assert sort_periods(["Market", "Jan"]) == ("Jan", "Market")
    assert sort_periods(["10", "9"]) == ("9", "10")


def test_rows_without_a_period_are_told():
    table = dated().with_columns(month=pl.when(pl.int_range(pl.len()) < 40).then(None).otherwise("month"))
    (note,) = (note for note in audited(table)["A"].checks.notes if note.code == "no period")
    assert note.values == {"rows": "40"}
    few = dated().with_columns(month=pl.when(pl.int_range(pl.len()) < 4).then(None).otherwise("month"))
    assert "no period" in note_codes(audited(few)["A"])
