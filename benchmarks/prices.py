"""Do prices with observed costs have the published values, within intervals that cover them?

Run `python -m benchmarks.prices --draws 200 scenario`, or `health`, `mixture`; `peer` needs the package
insurance-fairness. Each draw is a whole audit, with a fitted group-membership model and fitted expected costs. Each
line is the coverage of a published value with its mean estimate, or the largest upper end of a price without proxy
discrimination. The exit code is 1 where coverage lies outside of 92 to 98 per cent by more than chance, or an upper end
reaches 0.01.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import numpy as np
import polars as pl

import tiltlens as tl
from benchmarks.overturn import outside
from tiltlens._analysis.prices import Prices

NOISE = 10.0  # standard deviation of the cost in scenario 1
Line = tuple[str, bool]

# E[cost | x] as the price: the values of the literature, and contributions to proxy discrimination by enumeration
# (`tests/estimators/test_prices.py`). Those of scenario 1 are Côté, Côté & Charpentier's; the health
# world is that of Lindholm, Richman, Tsanakas & Wüthrich (ASTIN Bulletin 2022).
TRUTHS = {
    "scenario": {
        "proxy_discrimination": 0.055390,
        "unfairness": 0.136980,
        "vulnerability": 3.0,
        "unaware_gap": 10.8097,
        "free_gap": 7.6597,
        "x1 alone": 2.257143,
        "x1 beyond_others": 2.526316,
        "x1 shapley": 2.391729,
        "x2 alone": 0.623684,
        "x2 beyond_others": 0.892857,
        "x2 shapley": 0.758271,
    },
    "health": {
        "proxy_discrimination": 0.399722,
        "unfairness": 0.121417,
        "vulnerability": 0.015257,
        "unaware_gap": 0.022752,
        "free_gap": 0.007196,
        "age alone": 0.0,
        "age beyond_others": 0.0,
        "age shapley": 0.0,
        "smoker alone": 0.015543,
        "smoker beyond_others": 0.015543,
        "smoker shapley": 0.015543,
    },
}


def scenario(rows: int, random: np.random.Generator, is_mixture: bool = False) -> pl.DataFrame:
    """Return scenario 1, the price being E[cost | x], or a constant plus a fixed mixture of the expected costs."""
    x1, x2 = random.normal(1, 3, rows), random.integers(1, 5, rows)
    chance = 0.05 + 0.1 * x2 + 0.4 * (x1 > 1)
    audited = random.random(rows) < chance
    of_audited, of_reference = 115 + 4 * x1, 100 + 4 * x1
    unaware = chance * of_audited + (1 - chance) * of_reference
    cost = np.where(audited, of_audited, of_reference) + random.normal(0, NOISE, rows)
    price = 3 + 0.3 * of_audited + 0.5 * of_reference if is_mixture else unaware
    return pl.DataFrame({"group": np.where(audited, "a", "b"), "x1": x1, "x2": x2, "price": price, "cost": cost})


def health(rows: int, random: np.random.Generator) -> pl.DataFrame:
    """Return the health world: Poisson numbers of births, cancers and other claims, at their costs."""
    ages = np.arange(15, 81)
    chance = np.exp(-(((ages / 100 - 0.45) / 0.2) ** 2) / 2)
    age, smoker = random.choice(ages, rows, p=chance / chance.sum()), random.random(rows) < 0.3
    of_woman = np.where(smoker, 0.8, (0.45 - 0.8 * 0.3) / 0.7)
    woman = random.random(rows) < of_woman

    def frequencies(is_woman: np.ndarray) -> list[np.ndarray]:
        birth = np.exp(-40 + 38.5 * (is_woman & (age >= 20) & (age <= 40)))
        cancer = np.exp(-2 + 0.004 * age + 0.1 * smoker + 0.2 * is_woman)
        return [0.5 * birth, 0.9 * cancer, 0.1 * np.exp(-2 + 0.01 * age)]

    costs, sizes = (frequencies(np.full(rows, sex)) for sex in (True, False)), (0.5, 0.9, 0.1)
    of_women, of_men = (sum(parts) for parts in costs)
    own = frequencies(woman)
    cost = sum(size * random.poisson(part / size) for size, part in zip(sizes, own, strict=True))
    price = of_woman * of_women + (1 - of_woman) * of_men
    columns = {"group": np.where(woman, "a", "b"), "age": age, "smoker": smoker.astype(str)}
    return pl.DataFrame(columns | {"price": price, "cost": cost})


def ends(prices: Prices, name: str) -> tuple[float, float, float]:
    """Return a measured number and its interval."""
    if " " not in name:
        estimate = getattr(prices, name)
        return estimate.value, estimate.low, estimate.high
    feature, column = name.split()
    row = prices.contributions.row(by_predicate=pl.col("feature") == feature, named=True)
    return row[column], row[f"{column}_low"], row[f"{column}_high"]


def measured(data: pl.DataFrame) -> Prices:
    """Return the prices of a whole audit."""
    options = {"reference": "b", "scores": "price", "score_type": "amount", "favourable": "low", "outcome": "cost"}
    prices = tl.audit(data, "group", **options)["a"].prices
    assert prices is not None
    return prices


def peers(draws: int, first: int) -> Iterator[Line]:
    """Yield PD by the package insurance-fairness, which has no intervals, on draws of both worlds."""
    from insurance_fairness.sensitivity import ProxyDiscriminationMeasure

    for make, rows in ((scenario, 2_000), (health, 4_000)):
        values = []
        for draw in range(first, first + draws):
            data = make(rows, np.random.default_rng(draw))
            features = data.drop("group", "price", "cost").with_columns(
                pl.col(pl.String).cast(pl.Categorical).to_physical()
            )
            columns = [data[name].to_numpy() for name in ("cost", "group", "price")]
            measure = ProxyDiscriminationMeasure().fit(columns[0], features.to_numpy(), columns[1], mu_hat=columns[2])
            values.append(measure.pd_score)
        truth = TRUTHS[make.__name__]["proxy_discrimination"]
        yield f"{make.__name__}: mean PD {np.mean(values):.4f}, sd {np.std(values):.4f}, truth {truth:.4f}", False


def covered(world: str, draws: int, rows: int, first: int) -> Iterator[Line]:
    """Yield the coverage of each published value."""
    make = {"scenario": scenario, "health": health}[world]
    every = [measured(make(rows, np.random.default_rng(first + draw))) for draw in range(draws)]
    for name, truth in TRUTHS[world].items():
        estimates = [ends(prices, name) for prices in every]
        hits = sum(low <= truth <= high for _, low, high in estimates)
        mean = np.mean([value for value, _, _ in estimates])
        text = f"{world} {name}: covered {hits / draws:.3f} of {draws}, mean {mean:.6f}, truth {truth:.6f}"
        yield text, outside(hits, draws)


def mixtures(draws: int, rows: int) -> Iterator[Line]:
    """Yield the largest upper end of PD where the price is a fixed mixture, and how often the state says so."""
    every = [measured(scenario(rows, np.random.default_rng(draw), is_mixture=True)) for draw in range(draws)]
    largest = max(float(prices.proxy_discrimination.high or 1.0) for prices in every)
    states = sum(prices.status == "not material" for prices in every)
    yield f"mixture: largest upper end of PD {largest:.6f}, not material in {states} of {draws}", largest >= 0.01


def main() -> None:
    """Print the lines of a world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("world", choices=[*TRUTHS, "mixture", "peer"])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    chosen = parser.parse_args()
    rows = chosen.rows or {"mixture": 20_000}.get(chosen.world, 4_000)
    if chosen.world == "peer":
        lines = list(peers(chosen.draws, chosen.first))
    elif chosen.world == "mixture":
        lines = list(mixtures(chosen.draws, rows))
    else:
        lines = list(covered(chosen.world, chosen.draws, rows, chosen.first))
    print("\n".join(f"{'MISS' if is_miss else 'ok  '} {text}" for text, is_miss in lines))
    sys.exit(any(is_miss for _, is_miss in lines))


if __name__ == "__main__":
    main()
