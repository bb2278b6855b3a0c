"""The discrimination-free price: scenario 1 with exact values, every engine, files, held-out data."""

import json
import warnings
from functools import cache

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import mean_tweedie_deviance
from tests.command import invoked
from tests.people import ENGINES, FILES

import tiltlens as tl
from tiltlens.errors import TiltlensError

SETTINGS = {"reference": "men", "scores": "price", "score_type": "amount", "favourable": "low", "outcome": "cost"}
SHARE = 0.5  # of women: E[.05 + .1·region + .4·1[km > 1]]


@cache
def policies(rows=3_000, seed=1, noise=6.0):
    """Return policies of scenario 1, priced at E[cost | km, region]; the region is no risk factor."""
    random = np.random.default_rng(seed)
    km, region = random.normal(1, 3, rows), random.integers(1, 5, rows)
    chance = 0.05 + 0.1 * region + 0.4 * (km > 1)
    is_woman = random.random(rows) < chance
    base = 100 + 4 * km
    columns = {"sex": np.where(is_woman, "women", "men"), "km": km, "region": [f"r{code}" for code in region]}
    columns |= {"price": base + 15 * chance, "cost": base + 15 * is_woman + random.normal(0, noise, rows)}
    return pl.DataFrame(columns | {"years": random.uniform(0.3, 1, rows)})


def audited(data, **options):
    return tl.audit(data, "sex", **SETTINGS | {"features": ["km", "region"], "folds": None} | options)


@cache
def price():
    return audited(policies())["women"].repair()


def test_scenario_1_has_the_price_of_the_literature():
    exact = 100 + 15 * SHARE + 4 * policies(2_000, 2)["km"].to_numpy()
    new = price().apply(policies(2_000, 2), "price")
    assert np.abs(new - exact).mean() < 0.6
    assert np.abs(policies(2_000, 2)["price"] - exact).mean() == pytest.approx(3.0, abs=0.1)


def test_what_is_no_risk_factor_moves_the_unaware_price_only():
    by_region = [{"km": [1.5], "region": [f"r{code}"]} for code in (1, 2, 3, 4)]
    new = np.concatenate([price().apply(row, [0.0]) for row in by_region])
    assert np.ptp(new) < 0.8  # 15·.1·3 = 4.5 in the unaware price


def test_without_noise_the_price_is_exact():
    exact = audited(policies(noise=0.0))["women"].repair()
    share = policies(noise=0.0).select((pl.col("sex") == "women").mean()).item()
    km = np.linspace(-4, 6, 50)
    new = exact.apply({"km": km, "region": ["r1", "r4"] * 25}, np.zeros(50))
    assert new == pytest.approx(100 + 15 * share + 4 * km, abs=0.2)


@pytest.mark.parametrize("weight", [None, "years"])
def test_prices_add_up_to_costs_to_the_cent(weight):
    free = audited(policies(), sample_weight=weight)["women"].repair()
    weights = policies()["years"].to_numpy() if weight else np.ones(policies().height)
    total = weights @ free.apply(policies(), "price")
    assert total == pytest.approx(weights @ policies()["cost"].to_numpy(), abs=0.005)


def test_gaps_of_the_audited_rows_are_near_those_of_theory():
    assert price().gap_before["women"] == pytest.approx(10.8, abs=1.0)
    assert price().gap_after["women"] == pytest.approx(7.66, abs=1.0)


@pytest.mark.parametrize("held", [*ENGINES, *FILES], indirect=True)
def test_every_engine_prices_alike(held, small_batches):
    expected = price().apply(policies(200, 5), "price")
    assert price().apply(held(policies(200, 5)), "price") == pytest.approx(expected, abs=1e-9)


@pytest.mark.java
@pytest.mark.filterwarnings("ignore:PySpark:FutureWarning", "ignore::ResourceWarning")
def test_spark_prices_alike(spark):
    rows = policies(120, 6)
    made = pl.DataFrame(price().apply(spark.createDataFrame(rows.to_arrow()), "price").toArrow())
    expected = price().apply(made.drop("price_repaired"), "price")
    assert made["price_repaired"].to_numpy() == pytest.approx(expected, abs=1e-9)


def test_a_saved_price_is_the_same_and_holds_numbers_and_texts_only(tmp_path):
    price().to_json(tmp_path / "price.json")
    again = tl.read_repair(tmp_path / "price.json")
    assert again.apply(policies(50, 7), "price").tolist() == price().apply(policies(50, 7), "price").tolist()
    assert again.to_dict() == price().to_dict()
    assert "estimator" not in (tmp_path / "price.json").read_text()


@pytest.mark.parametrize("part", ["factor", "costs", "reference"])
def test_a_damaged_file_is_refused(refused, tmp_path, part):
    saved = price().to_dict()
    del saved[part]
    (tmp_path / "price.json").write_text(json.dumps(saved))
    with refused(TiltlensError):
        tl.read_repair(tmp_path / "price.json")


def test_a_model_without_a_slope_is_refused(tmp_path):
    saved = price().to_dict()
    saved["costs"][0]["model"]["slopes"].pop()
    (tmp_path / "price.json").write_text(json.dumps(saved))
    with pytest.raises(TiltlensError, match="whole adjustment"):
        tl.read_repair(tmp_path / "price.json")


def test_files_are_written_with_the_price(tmp_path):
    policies(100, 8).write_csv(tmp_path / "new.csv")
    price().apply(tmp_path / "new.csv", "price", tmp_path / "priced.csv")
    written = pl.read_csv(tmp_path / "priced.csv")
    assert written["price_repaired"].to_numpy() == pytest.approx(price().apply(policies(100, 8), "price"), abs=1e-9)


def test_values_that_were_not_learnt_raise_a_warning():
    with pytest.warns(UserWarning, match="'region' that the model"):
        price().apply({"km": [1.0], "region": ["r9"]}, [100.0])


def test_claims_of_mostly_nothing_have_positive_prices():
    random = np.random.default_rng(3)
    rows = policies(4_000, 9)
    claims = random.poisson(0.05 * np.exp(0.1 * rows["km"].to_numpy())) * 1000.0
    free = audited(rows.with_columns(cost=claims))["women"].repair()
    assert free.apply(policies(2_000, 10), "price").min() > 0.0


def test_costs_may_be_negative():
    shifted = policies().with_columns(pl.col("price", "cost") - 80)
    new = audited(shifted)["women"].repair().apply(policies(500, 2), "price")
    assert new + 80 == pytest.approx(price().apply(policies(500, 2), "price"), abs=1.5)


def test_rows_without_a_cost_are_left_out_with_a_note():
    known = pl.when(pl.int_range(pl.len()) < 1_000).then(pl.col("cost"))
    free = audited(policies().with_columns(cost=known))["women"].repair()
    assert {"known": 1000, "rows": 3000} in [note.values for note in free.notes if note.code == "some costs"]


def test_several_groups_have_one_price_with_all_their_shares():
    random = np.random.default_rng(4)
    three = policies().with_columns(sex=pl.Series(np.where(random.random(3_000) < 0.3, "x", policies()["sex"])))
    free = audited(three).repair()
    assert free.groups == ("women", "x") or free.groups == ("x", "women")
    assert sum(cost.share for cost in free.costs) == pytest.approx(1.0)
    assert set(free.gap_after) == {"women", "x"}
    assert free.evaluate(policies(800, 11), "price", "sex", "cost", audited="women").audited == "women"


@cache
def evaluation():
    return price().evaluate(policies(2_000, 12), "price", "sex", "cost", sample_weight="years")


def test_the_evaluation_has_the_quantities_of_its_rows():
    held_out = policies(2_000, 12)
    old, new = held_out["price"].to_numpy(), price().apply(held_out, "price")
    cost, weights = held_out["cost"].to_numpy(), held_out["years"].to_numpy()
    women = (held_out["sex"] == "women").to_numpy()
    table = evaluation()
    for name, prices in (("before", old), ("after", new)):
        gap = np.average(prices[women], weights=weights[women]) - np.average(prices[~women], weights=weights[~women])
        assert table["gap"][name] == pytest.approx(gap)
        ratio = weights[women] @ cost[women] / (weights[women] @ prices[women])
        assert table["actual_to_expected_audited"][name] == pytest.approx(ratio)
        for power, deviance in ((1.0, "poisson"), (1.5, "tweedie"), (2.0, "gamma")):
            expected = mean_tweedie_deviance(cost, prices, power=power, sample_weight=weights)
            assert table[f"deviance_{deviance}"][name] == pytest.approx(expected)
    assert table["mean_absolute_change"]["change"] == pytest.approx(np.average(np.abs(new - old), weights=weights))
    assert table["share_rising"]["change"] == pytest.approx(np.average(new > old, weights=weights))
    assert table["share_rising"]["before"] is None


def test_changes_are_paired():
    gap = evaluation()["gap"]
    assert gap["change"] == pytest.approx(gap["after"] - gap["before"])
    assert gap["change"].high - gap["change"].low < 0.5 * (gap["after"].high - gap["after"].low)


def test_actual_to_expected_by_decile_has_both_prices_and_groups():
    cells = evaluation().by_decile
    assert set(cells["which"]) == {"before", "after"}
    assert cells.height == 40
    assert cells["n"].drop_nulls().min() >= 10


def test_actual_to_expected_by_decile_is_drawn_before_and_after(refused, tmp_path):
    drawn = evaluation().plot()
    cells = evaluation().by_decile.drop_nulls("actual_to_expected")
    assert drawn.table["ratio"].to_list() == cells["actual_to_expected"].to_list()
    assert set(drawn.table["which"]) == {"before", "after"}
    assert drawn.spec()["layer"]
    evaluation().report(tmp_path / "effect.html")
    assert drawn.title in (tmp_path / "effect.html").read_text(encoding="utf-8")
    with refused(TiltlensError, "no costs"):
        price().evaluate(policies(500, 13), "price", "sex").plot()


def test_deviances_have_three_digits_that_count():
    row = next(line for line in str(evaluation()).splitlines() if line.startswith("gamma deviance"))
    digits = [text.strip().lstrip("0.") for text in row.split("│")[1:]]
    assert [len(text) for text in digits] == [3, 3, 3]


def test_deviances_that_are_not_defined_are_left_out():
    some = policies(2_000, 12).with_columns(cost=pl.when(pl.col("km") > 2).then(0.0).otherwise("cost"))
    names = price().evaluate(some, "price", "sex", "cost").table["quantity"].to_list()
    assert "deviance_poisson" in names
    assert "deviance_gamma" not in names


def test_an_evaluation_without_costs_has_gap_and_money():
    table = price().evaluate(policies(500, 13), "price", "sex")
    assert table.table["quantity"].to_list() == [
        "gap",
        "unfairness",
        "mean_absolute_change",
        "share_rising",
        "share_falling",
    ]
    assert table.missing_outcome is None


def test_audited_rows_are_refused_for_evaluation(refused):
    with refused(TiltlensError, "were used"):
        price().evaluate(policies(), "price", "sex", "cost")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: audited(policies())["women"].repair(max_gap=0.1), "`max_gap` is for scores"),
        (lambda: audited(policies())["women"].repair(use_group=True), "`use_group` is for scores"),
        (lambda: audited(policies(), outcome=None)["women"].repair(), "needs observed costs"),
        (lambda: audited(policies().head(80))["women"].repair(), "needs 50 observed costs of each group"),
        (lambda: price().apply(policies().drop("km"), "price"), "Column 'km', which the adjustment needs"),
        (lambda: price().apply({"km": [1.0], "region": ["r1"]}, [np.inf]), "`scores` must be finite amounts, got inf"),
        (lambda: price().apply(policies(), ["price", "cost"]), "`scores` must be one column, of the price, got 2"),
        (lambda: price().evaluate(policies(300, 3), "price", "sex", audited="men"), "`audited` must be one of"),
    ],
)
def test_mistakes_are_named(call, message):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(TiltlensError, match=message):
            call()


def test_price_and_evaluation_are_written_in_words(tmp_path):
    assert "Discrimination-free price" in str(price())
    assert "rows, women vs men" in str(price())
    text = str(evaluation())
    for words in ("Effect of the discrimination-free price", "Gap in mean prices", "Poisson deviance", "A/E, everyone"):
        assert words in text
    evaluation().report(tmp_path / "effect.html")
    assert "decile of the" in (tmp_path / "effect.html").read_text(encoding="utf-8")
    assert "km" in price()._repr_html_()
    evaluation().to_json(tmp_path / "effect.json")
    assert json.loads((tmp_path / "effect.json").read_text())["evaluations"]["women"]["audited"] == "women"


def test_the_command_fits_evaluates_applies_and_reads_again(tmp_path):
    policies().write_csv(tmp_path / "policies.csv")
    policies(600, 14).write_csv(tmp_path / "held_out.csv")
    policies(100, 15).drop("sex", "cost").write_csv(tmp_path / "new.csv")
    given = ("--group", "sex", "--reference", "men", "--scores", "price", "--score-type", "amount", "--outcome", "cost")
    given = (*given, "--favourable", "low", "--features", "km,region")
    new = ("--apply", "new.csv", "--out", "priced.csv")
    options = ("--held-out", "held_out.csv", "--save", "price.json", *new)
    shown = invoked("repair", "policies.csv", *given, *options, cwd=tmp_path)
    assert "Effect of the" in shown.stdout
    expected = tl.read_repair(tmp_path / "price.json").apply(policies(100, 15), "price")
    assert pl.read_csv(tmp_path / "priced.csv")["price_repaired"].to_numpy() == pytest.approx(expected, abs=1e-9)
    applied = ("--scores", "price", "--apply", "new.csv", "--out", "again.csv")
    invoked("repair", "price.json", *applied, cwd=tmp_path)
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "priced.csv").read_text()
