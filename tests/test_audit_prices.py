"""Prices beside observed costs, asked of whole audits."""

import math
from functools import cache

import numpy as np
import polars as pl
import pytest
from tests.command import invoked

import tiltlens as tl
from tiltlens._documents.audit_document import audit_document
from tiltlens._documents.document import Heading
from tiltlens._estimators.estimate import Materiality
from tiltlens._gates import gate
from tiltlens._results import build_comparison, profiles
from tiltlens.errors import DataError

HEADING = "Price and observed cost"


@cache
def policies(rows=600, price="unaware", noise=6.0, seed=1):
    """Return policies of scenario 1, whose price is E[cost | x], or a constant plus a fixed mixture."""
    random = np.random.default_rng(seed)
    x1, x2 = random.normal(1, 3, rows), random.integers(1, 5, rows)
    chance = 0.05 + 0.1 * x2 + 0.4 * (x1 > 1)
    audited = random.random(rows) < chance
    costs = 115 + 4 * x1, 100 + 4 * x1
    unaware = chance * costs[0] + (1 - chance) * costs[1]
    return pl.DataFrame(
        {
            "sex": np.where(audited, "women", "men"),
            "x1": x1,
            "x2": x2,
            "chance": chance,
            "price": unaware if price == "unaware" else 3 + 0.3 * costs[0] + 0.5 * costs[1],
            "cost": np.where(audited, *costs) + random.normal(0, noise, rows),
        }
    )


def audited(data, **options):
    given = {"group": "sex", "reference": "men", "scores": "price", "score_type": "amount", "favourable": "low"}
    given |= {"outcome": "cost", "features": ["x1", "x2"], "propensity": "chance"}
    return tl.audit(data, **given | options)


TRUTHS = {
    "proxy_discrimination": 0.055390,
    "unfairness": 0.136980,
    "vulnerability": 3.0,
    "unaware_gap": 10.8097,
    "free_gap": 7.6597,
}


@pytest.mark.parametrize("options", [{}, {"propensity": None}])
def test_scenario_1_lies_within_its_intervals(options):
    costs = audited(policies(1_500), **options)["women"].prices
    for name, truth in TRUTHS.items():
        estimate = getattr(costs, name)
        assert estimate.low <= truth <= estimate.high, name
    assert costs.status == Materiality.MATERIAL
    assert sum(costs.mixture.values()) == pytest.approx(1.0)
    assert costs.actual_to_expected_ratio.value == pytest.approx(
        costs.actual_to_expected["audited"] / costs.actual_to_expected["reference"]
    )


def test_a_feature_that_is_no_risk_factor_contributes_to_the_unaware_price_alone():
    frame = policies(4_000).with_columns(free=100 + 4 * pl.col("x1") + 15 * (pl.col("sex") == "women").mean())
    unaware, free = (audited(frame, scores=name)["women"] for name in ("price", "free"))

    def region(table):
        (row,) = table.filter(feature="x2").to_dicts()
        return row["beyond_others"], row["beyond_others_low"], row["beyond_others_high"]

    # By enumeration 0.893 of the unaware price, all of it beyond the mixture, and 0 of the discrimination-free one.
    value, low, high = region(unaware.prices.contributions)
    assert 0 < low < 0.893 < high
    assert value == pytest.approx(region(unaware.contributions)[0], abs=0.3)
    assert low <= unaware.prices.proxy_gap.high
    assert abs(region(free.contributions)[0]) < 0.02
    assert region(free.prices.contributions)[1] <= 0 <= region(free.prices.contributions)[2]


def test_contributions_flip_with_the_groups_and_ignore_the_order_of_rows():
    frame = policies(1_500)

    def contributions(data, who="women", other="men"):
        prices = audited(data, reference=other, propensity=None)[who].prices
        return prices.contributions.sort("feature").select("alone", "beyond_others", "shapley").to_numpy()

    plain = contributions(frame)
    assert contributions(frame, "men", "women") == pytest.approx(-plain, abs=1e-9)
    assert contributions(frame.sample(fraction=1, shuffle=True, seed=0)) == pytest.approx(plain, abs=1e-9)


def test_a_feature_of_too_many_values_has_no_contribution():
    place = pl.Series("place", np.random.default_rng(2).integers(0, 400, 1_500)).cast(pl.String)
    costs = audited(policies(1_500).with_columns(place), features=["x1", "x2", "place"])["women"].prices
    (row,) = costs.contributions.filter(feature="place").drop("feature").to_dicts()
    assert set(row.values()) == {None}
    assert costs.contributions["alone"].drop_nulls().len() == 2


def test_contributions_with_clusters_weights_and_some_costs():
    row = pl.int_range(pl.len())
    frame = policies().with_columns(
        cost=pl.when(row % 5 > 0).then(pl.col("cost")), household=row // 2, years=0.2 + row / 1000
    )
    plain = audited(frame.filter(pl.col("cost").is_not_null()), sample_weight="years")["women"].prices
    costs = audited(frame, sample_weight="years", clusters="household")["women"].prices
    for column in ("alone", "beyond_others", "shapley"):
        both = costs.contributions[column].to_numpy(), plain.contributions[column].to_numpy()
        assert both[0] == pytest.approx(both[1], abs=1.0)
        assert (costs.contributions[f"{column}_high"] > costs.contributions[f"{column}_low"]).all()


def test_a_fixed_mixture_has_no_material_proxy_discrimination():
    costs = audited(policies(4_000, price="mixture"))["women"].prices
    assert costs.proxy_discrimination.low == 0.0
    assert costs.proxy_discrimination.high < 0.01
    assert costs.status == Materiality.NOT_MATERIAL


def test_actual_to_expected_is_the_ratio_of_weighted_sums():
    frame = policies().with_columns(years=pl.Series(np.random.default_rng(0).uniform(0.2, 1.0, 600)))
    costs = audited(frame, sample_weight="years")["women"].prices
    for role, name in (("audited", "women"), ("reference", "men")):
        mine = frame.filter(sex=name)
        ratio = (mine["years"] * mine["cost"]).sum() / (mine["years"] * mine["price"]).sum()
        assert costs.actual_to_expected[role].value == pytest.approx(ratio)
    assert costs.by_decile.filter(group="audited")["n"].drop_nulls().min() >= 10


def test_cents_give_the_same_as_euros_times_a_hundred():
    cents = policies().with_columns(pl.col("price", "cost") * 100)
    plain, other = (audited(frame)["women"].prices for frame in (policies(), cents))
    for name in ("proxy_discrimination", "unfairness"):
        assert getattr(other, name).value == pytest.approx(getattr(plain, name).value, rel=1e-6)
    for name in ("vulnerability", "unaware_gap", "free_gap", "proxy_gap"):
        assert getattr(other, name).value == pytest.approx(100 * getattr(plain, name).value, rel=1e-6)
    assert other.segments["vulnerability"].to_list() == pytest.approx((100 * plain.segments["vulnerability"]).to_list())
    both = [costs.contributions.drop("feature").to_numpy() for costs in (plain, other)]
    assert both[1] == pytest.approx(100 * both[0], rel=1e-5)


def test_prices_are_kept_in_the_file_drawn_written_and_gated(tmp_path):
    audit = audited(policies())
    c = audit["women"]
    audit.to_json(tmp_path / "audit.json")
    saved = tl.read_audit(tmp_path / "audit.json")["women"].prices
    assert saved.proxy_discrimination == c.prices.proxy_discrimination
    assert saved.segments.equals(c.prices.segments)
    assert saved.contributions.equals(c.prices.contributions)
    assert saved.proxy_gap == c.prices.proxy_gap
    assert Heading(HEADING) in audit_document(audit, has_fits=True).blocks
    assert HEADING not in str(audit)
    audit.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for title in ("Contributions to proxy discrimination", "Segments with the largest proxy vulnerability"):
        assert title in page
        assert Heading(title) in audit_document(audit, has_fits=True).blocks
    table = c.plot("prices").table
    assert table["free_price"].len() == saved.by_decile["price"].drop_nulls().len()
    fires = [judgement.status for judgement in gate("proxy_discrimination>0.01").judge(audit)]
    assert fires == ["fired"]
    assert gate("actual_to_expected_ratio<1").judge(audit)[0].status == "passed"


def test_missing_costs_are_left_out_and_few_give_nothing():
    known = pl.when(pl.int_range(pl.len()) < 400).then(pl.col("cost"))
    costs = audited(policies().with_columns(cost=known))["women"].prices
    assert sum(costs.rows.values()) == 400
    few = pl.when(pl.int_range(pl.len()) < 60).then(pl.col("cost"))
    assert audited(policies().with_columns(cost=few))["women"].prices is None
    assert audited(policies(), outcome=None)["women"].prices is None
    assert audited(policies(), features=[], propensity=None)["women"].prices is None
    assert audited(policies(), folds=None)["women"].prices is None


def test_costs_are_finite_numbers_and_have_no_error_rates(refused):
    with refused(DataError, "`outcome`"):
        audited(policies().with_columns(cost=pl.lit(math.inf)))
    with refused(DataError, "`metric`", "'amount'"):
        audited(policies(), metric="fpr")
    assert audited(policies())["women"].error_rates is None


def test_the_fingerprint_depends_on_costs():
    one, other = (
        audited(frame, features=[], propensity=None).provenance
        for frame in (policies(), policies().with_columns(pl.col("cost") + 1))
    )
    assert one.data_sha256 != other.data_sha256


def test_the_command_prints_prices(worded, tmp_path):
    policies(1_500).write_csv(tmp_path / "policies.csv")
    arguments = ["audit", "policies.csv", "--group", "sex", "--reference", "men", "--scores", "price"]
    arguments += ["--propensity", "chance", "--score-type", "amount", "--favourable", "low", "--outcome", "cost"]
    result = invoked(*arguments, "--fail-if", "proxy_discrimination.low>0.01", cwd=tmp_path)
    assert result.returncode == 1
    worded(line for line in result.stderr.splitlines() if line.startswith("--outcome cost"))
    assert "Actual to expected" in result.stdout


@pytest.mark.parametrize("name", ["splitting", "prices", "bin_rows"])
def test_what_takes_a_fit_is_computed_once(monkeypatch, tmp_path, name):
    module = {"prices": build_comparison}.get(name, profiles)
    calls, compute = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *parts: calls.append(name) or compute(*parts))
    audit = audited(policies())
    c = audit["women"]
    assert str(audit)
    assert calls == []
    assert c.prices is c.prices
    assert c.splitting is c.splitting
    audit.to_json(tmp_path / "audit.json")
    audit.report(tmp_path / "report.html")
    c.plot("score_distribution"), c._repr_html_()
    assert calls == [name]
