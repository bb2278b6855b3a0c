"""Do the answers to three challenges hold? Omitted factors, separate models and predictive values, in known worlds.

Run `python -m benchmarks.overturn --draws 200 bounds`, or `gains`, `rotated`, `predictive`. Each line is a share of
draws, or a value with its truth, and the exit code is 1 where one misses: coverage outside 92 to 98 per cent by more
than chance, false gains above 5 per cent, a rotated pair more than 0.01 off.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator

import numpy as np
import polars as pl
from scipy.special import expit, logit
from scipy.stats import binom

import tiltlens as tl
from tiltlens._estimators.error_rates import log_loss, predictive_rate
from tiltlens._estimators.feature_gap import Coefficient, bias_factor, bias_scale, cell_sums_of
from tiltlens._estimators.influence import Rows

SURE = 0.01  # chance below which a count is a miss
STRENGTH = (0.2, 0.1)  # R² of the score and of the group
# Error rates of a Gaussian pair rotated by kπ/16 (Wang, Hsu, Diaz & Calmon 2021).
ROTATED = (0.0, 0.073375, 0.132608, 0.177884, 0.217953, 0.262784, 0.321763, 0.401811, 0.5)

Line = tuple[str, bool]


def outside(count: int, draws: int) -> bool:
    """Whether a coverage lies outside of 92 to 98 per cent by more than chance."""
    return bool(binom.cdf(count, draws, 0.92) < SURE or binom.sf(count - 1, draws, 0.98) < SURE)


def drawn(world: str, rows: int, seed: int) -> pl.DataFrame:
    """Return people of both groups: "linear" has an additive direct use, "varied" one that depends on x and noise."""
    random = np.random.default_rng(seed)
    x = np.sort(random.normal(size=rows))
    chance = expit(0.8 * x)
    s = random.random(rows) < chance
    score = 0.5 + 0.1 * np.sin(x) - 0.06 * s * (1.0 if world == "linear" else expit(2 * x))
    score += random.normal(size=rows) * (0.05 if world == "linear" else 0.03 + 0.05 * expit(x))
    group = np.where(s, "a", "b")
    return pl.DataFrame({"group": group, "x": x, "chance": chance, "score": np.clip(score, 0.0, 1.0), "s": s * 1.0})


def truth(world: str) -> tuple[float, float]:
    """Return c and 𝒮 under P̄, on a fine grid of x."""
    x = np.linspace(-8, 8, 200_001)
    density, chance = np.exp(-x * x / 2), expit(0.8 * x)
    share = (density @ chance) / density.sum()
    omega = density * (0.5 * chance / share + 0.5 * (1 - chance) / (1 - share))
    omega /= omega.sum()
    e = expit(logit(chance) - logit(share))
    effect = -0.06 * (np.ones_like(x) if world == "linear" else expit(2 * x))
    spread = np.full_like(x, 0.05) if world == "linear" else 0.03 + 0.05 * expit(x)
    within = e * (1 - e)
    c = float(omega @ (within * effect) / (omega @ within))
    left = omega @ (spread**2 + within * (effect - c) ** 2)
    return c, math.sqrt(left / float(omega @ within))


def bounds(draws: int) -> Iterator[Line]:
    """Yield the coverage of both bounds, of an audit with a fitted and of an estimator with known regressions."""
    factor = bias_factor(*STRENGTH)
    for world in ("linear", "varied"):
        c, scale = truth(world)
        held = np.zeros(2, dtype=int)
        for seed in range(draws):
            table = drawn(world, 1_000, seed)
            audit = tl.audit(table, "group", reference="b", scores="score", features=["x"], propensity="chance")
            found = audit["a"].sensitivity().bounds(*STRENGTH)
            for side, (bound, sign) in enumerate(((found.low, -1.0), (found.high, 1.0))):
                held[side] += bound.low <= c + sign * factor * scale <= bound.high
        yield from ((f"{world}, audit, {n}: {h / draws:.1%} of {draws}", outside(h, draws)) for n, h in named(held))
        held = np.zeros(2, dtype=int)
        for seed in range(5 * draws):
            held += known_bounds(drawn(world, 500, 10_000 + seed), world, c, factor * scale)
        yield from (
            (f"{world}, known regressions, {n}: {h / draws / 5:.1%} of {5 * draws}", outside(h, 5 * draws))
            for n, h in named(held)
        )


def named(held: np.ndarray) -> list[tuple[str, int]]:
    return list(zip(("lower bound", "upper bound"), held.tolist(), strict=True))


def known_bounds(table: pl.DataFrame, world: str, c: float, reach: float) -> list[bool]:
    """Return whether both bounds hold the truth, with the true e and m."""
    x, s, w = (table[name].to_numpy() for name in ("x", "s", "score"))
    share = float(expit(0.8 * np.random.default_rng(0).normal(size=200_000)).mean())
    e = expit(0.8 * x - logit(share))
    m = 0.5 + 0.1 * np.sin(x) - 0.06 * e * (1.0 if world == "linear" else expit(2 * x))
    rows = Rows.of(s > 0)
    parts = (s - e) * (w - m), (s - e) ** 2, (w - m) ** 2
    omega = 0.5 * (rows.audited_share + rows.reference_share)
    found = Coefficient(*parts, *(float(omega @ part) for part in parts))
    own, scale = found.estimate(rows), bias_scale(rows, found)
    factor = bias_factor(*STRENGTH)
    results = []
    for sign in (-1.0, 1.0):
        square = own.variance + 2 * sign * factor * own.covariance(scale) + factor**2 * scale.variance
        error = abs(found.value + sign * factor * scale.value - c - sign * reach)
        results.append(bool(error <= 1.959964 * math.sqrt(square)))
    return results


def gains(draws: int) -> Iterator[Line]:
    """Yield how often a gain is claimed where y_0 = y_1, for both groups together and for each."""
    claimed: dict[str, int] = dict.fromkeys(("both", "audited", "reference", "largest"), 0)
    for seed in range(draws):
        random = np.random.default_rng(seed)
        rows = 1_500
        s = random.random(rows) < 0.3
        x, z = random.normal(size=rows) + 0.6 * s, random.integers(0, 4, rows)
        y = random.random(rows) < expit(x + 0.3 * (z == 1))
        table = pl.DataFrame({"group": np.where(s, "a", "b"), "x": x, "z": z.astype(str), "y": y * 1})
        table = table.with_columns(score=pl.Series(expit(x)))
        audit = tl.audit(table, "group", reference="b", scores="score", outcome="y", features=["x", "z"], folds=None)
        found = audit["a"].splitting.brier
        for name in claimed:
            claimed[name] += getattr(found, name).low > 0.0
    for name, count in claimed.items():
        yield f"false gain, {name}: {count} of {draws}", bool(binom.sf(count - 1, draws, 0.05) < SURE)


def rotated(draws: int) -> Iterator[Line]:
    """Yield the gain in error rate of the rotated pair with 10,000 rows of each group."""
    for k, expected in enumerate(ROTATED):
        random = np.random.default_rng(k)
        parts = []
        for group, side in (("a", 1), ("b", -1)):
            own = random.normal(size=(10_000, 2)) * [1.0, math.sqrt(1.5)]
            angle = side * k * math.pi / 16
            turned = own @ np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
            parts.append(
                pl.DataFrame({"x": turned[:, 0], "y": turned[:, 1], "hit": (own[:, 0] > 0) * 1, "group": group})
            )
        table = pl.concat(parts).with_columns(score=0.5 + 0.1 * pl.col("x").tanh())
        audit = tl.audit(table, "group", reference="b", scores="score", outcome="hit", features=["x", "y"], folds=None)
        found = audit["a"].splitting.error_rate
        text = f"k = {k}: {found.both.value:.4f}, largest {found.largest.value:.4f} (true {expected:.4f})"
        yield text, abs(found.largest.value - expected) > 0.01


def predictive(draws: int) -> Iterator[Line]:
    """Yield the coverage of predictive values, the false discovery rate and the log-loss, and of their differences."""
    truths = predictive_truths()
    held = {name: np.zeros(3, dtype=int) for name in truths}
    for seed in range(draws):
        audited, score, outcome = scored(400, seed)
        rows, decision = Rows.of(audited), (score >= 0.5) * 1.0
        sums = cell_sums_of(rows, decision, outcome, 3)
        pairs = {
            "ppv": predictive_rate(rows, decision, outcome, sums, 1, 1),
            "npv": predictive_rate(rows, decision, outcome, sums, 0, 0),
            "fdr": predictive_rate(rows, decision, outcome, sums, 1, 0),
            "log_loss": log_loss(rows, score, outcome),
        }
        for name, pair in pairs.items():
            intervals = [law.estimate(0.95) for law in (pair.audited, pair.reference, pair.difference)]
            held[name] += [bool(i.low <= t <= i.high) for i, t in zip(intervals, truths[name], strict=True)]
    for name, counts in held.items():
        for who, count in zip(("audited", "reference", "difference"), counts.tolist(), strict=True):
            yield f"{name}, {who}: {count / draws:.1%} of {draws}", outside(count, draws)


def scored(size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    audited = np.arange(size) < 0.4 * size
    score = expit(random.normal(size=size) - 0.5 * audited)
    return audited, score, (random.random(size) < 0.8 * score + 0.1 * audited).astype(int)


def predictive_truths() -> dict[str, list[float]]:
    x = np.linspace(-9, 9, 400_001)
    density = np.exp(-x * x / 2)
    truths: dict[str, list[float]] = {name: [] for name in ("ppv", "npv", "fdr", "log_loss")}
    for is_audited in (1, 0):
        score = expit(x - 0.5 * is_audited)
        chance = 0.8 * score + 0.1 * is_audited
        high = score >= 0.5
        ppv = float((density * chance)[high].sum() / density[high].sum())
        npv = float((density * (1 - chance))[~high].sum() / density[~high].sum())
        loss = float(density @ -(chance * np.log(score) + (1 - chance) * np.log1p(-score)) / density.sum())
        for name, value in zip(truths, (ppv, npv, 1 - ppv, loss), strict=True):
            truths[name].append(value)
    return {name: [*both, both[0] - both[1]] for name, both in truths.items()}


PARTS = {"bounds": bounds, "gains": gains, "rotated": rotated, "predictive": predictive}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to run; all by default")
    parser.add_argument("--draws", type=int, default=200)
    asked = parser.parse_args(arguments)
    missed = 0
    for name in asked.parts or PARTS:
        for text, is_missed in PARTS[name](asked.draws):
            print(f"{'MISS  ' if is_missed else '      '}{name}: {text}", flush=True)
            missed += is_missed
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
