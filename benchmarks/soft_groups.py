"""Groups that are known by probabilities: do the intervals hold, does the bracket, and are wrong ones found out?

Run `python -m benchmarks.soft_groups --repetitions 200 --jobs 2 --seed 60000`. Each draw has coefficients of its own;
the truth is a sum over a grid of (signal, two features, group), none of the library's estimators is used. It prints

- the coverage of the weighted gap, the linear estimate, gap(j), joint(j), and the adjusted gap;
- the share of worlds with calibrated probabilities, and both covariances of one sign, in which the bracket holds the
  true gap, with and without labelled rows, and in which the checks pass;
- the share of worlds with over-confident probabilities that are not judged;

and exits with 1 where one of them misses its target by more than chance.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from planted_proxies.grid import soft_coefficient
from scipy.special import expit
from scipy.stats import norm

import tiltlens as tl
from benchmarks.coverage import is_low, one_core

Floats = NDArray[np.float64]
ROWS, LABELLED = 4_000, 0.4
POINTS, REACH = 41, 5.0
NOT_JUDGED = "not judged"


class World:
    """A signal tells the group's chance b; two features depend on group and signal; the score on both features.

    Decisions are drawn with the score as their chance where `is_drawn`. The b that an audit sees has log-odds
    `confidence` times too large.
    """

    def __init__(self, seed: int, confidence: float) -> None:
        rng = np.random.default_rng([seed, 7])
        self.level, self.strength = rng.uniform(-1.5, 0.5), rng.uniform(1.2, 2.5)
        self.of_group, self.of_signal = rng.uniform(-0.8, 0.8, 2), rng.uniform(-0.5, 0.5, 2)
        self.on_score, self.confidence = rng.uniform(-1.0, 1.0, 2), confidence
        self.is_drawn = bool(seed % 2)

    def score(self, x: Floats, y: Floats) -> Floats:
        """Return the score of two features."""
        return np.asarray(expit(self.on_score[0] * x + self.on_score[1] * y - 0.3))

    def chance(self, signal: Floats, confidence: float = 1.0) -> Floats:
        """Return the chance of being audited."""
        return np.asarray(expit(confidence * (self.level + self.strength * signal)))

    def draw(self, seed: int) -> pl.DataFrame:
        """Return a table."""
        rng = np.random.default_rng([seed, 11])
        signal = rng.standard_normal(ROWS)
        audited = rng.random(ROWS) < self.chance(signal)
        x, y = (rng.standard_normal(ROWS) + self.of_group[k] * audited + self.of_signal[k] * signal for k in (0, 1))
        score = self.score(x, y)
        if self.is_drawn:
            score = (rng.random(ROWS) < score).astype(np.float64)
        b, is_known = self.chance(signal, self.confidence), rng.random(ROWS) < LABELLED
        race = np.where(is_known, np.where(audited, "a", "b"), None)
        return pl.DataFrame({"p a": b, "p b": 1.0 - b, "x": x, "y": y, "score": score, "race": race})

    def truths(self) -> dict[str, float]:
        """Return the true gap and what the estimators aim at, by sums over a grid."""
        z = np.linspace(-REACH, REACH, POINTS)
        wide = np.linspace(-REACH - 2.5, REACH + 2.5, POINTS)
        signal, x, y = np.meshgrid(z, wide, wide, indexing="ij")
        density = np.zeros((2, *signal.shape))
        for s in (0, 1):
            group = self.chance(signal) if s else 1.0 - self.chance(signal)
            parts = (norm.pdf(v - self.of_group[k] * s - self.of_signal[k] * signal) for k, v in ((0, x), (1, y)))
            density[s] = norm.pdf(signal) * group * np.prod(list(parts), axis=0)
        density /= density.sum()
        w, b, mass = self.score(x, y), self.chance(signal, self.confidence), density.sum(axis=0)
        own = [(density[s] * w).sum() / density[s].sum() for s in (0, 1)]
        share, mean, middle = density[1].sum(), (mass * b).sum(), (mass * w).sum()
        covariance, spread = (mass * b * w).sum() - mean * middle, (mass * b**2).sum() - mean**2
        found = {
            "gap": own[1] - own[0],
            "weighted": covariance / (mean - mean**2),
            "linear": covariance / spread,
        }
        within = ((density[1] - b * mass) * w).sum() / (share - share**2)
        beside = sum((density[s] * b * w).sum() - (density[s] * b).sum() * own[s] for s in (0, 1)) / spread
        found |= {"A": within, "B": beside}
        omega = mass * (b / (2 * mean) + (1 - b) / (2 * (1 - mean)))
        tilde = mass * b / (2 * mean) / omega
        alone = {axis: soft_coefficient(omega, tilde, w, (axis,)) for axis in (1, 2)}
        both = soft_coefficient(omega, tilde, w, (1, 2))
        for name, axis, other in (("x", 1, 2), ("y", 2, 1)):
            found[f"alone({name})"] = found["weighted"] - alone[axis]
            found[f"beyond_others({name})"] = alone[other] - both
        return found | {"adjusted_gap": both}


def measured(task: tuple[int, bool]) -> dict[str, Any]:
    """Return what one audit says of a world, and what is true."""
    seed, is_calibrated = task
    confidence = 1.0 if is_calibrated else float(np.random.default_rng(seed).uniform(1.6, 3.0))
    world = World(seed, confidence)
    table, options = world.draw(seed), {"group": {"a": "p a", "b": "p b"}, "scores": "score", "reference": "b"}
    c = tl.audit(table, **options, known_groups="race")["a"]
    blind = tl.audit(table.drop("race"), **options, features=[])["a"].unobserved_group
    numbers: dict[str, Any] = {"gap": c.gap, "linear": c.unobserved_group.linear, "adjusted_gap": c.adjusted_gap}
    found = {name: None if one is None else [one.low, one.high] for name, one in numbers.items()}
    for row in c.contributions_full.to_dicts():
        for name in ("alone", "beyond_others"):
            found[f"{name}({row['feature']})"] = [row[f"{name}_low"], row[f"{name}_high"]]
    return {
        "seed": seed,
        "truths": world.truths(),
        "found": found,
        "status": c.unobserved_group.status,
        "reason": c.unobserved_group.reason,
        "bracket": None
        if c.unobserved_group.bracket is None
        else [c.unobserved_group.bracket.low, c.unobserved_group.bracket.high],
        "blind": [blind.bracket.low, blind.bracket.high],
        "limits": [c.unobserved_group.limits.low, c.unobserved_group.limits.high],
    }


def _holds(ends: list[float], truth: float) -> bool:
    return ends[0] - 1e-9 <= truth <= ends[1] + 1e-9


def lines(calibrated: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[tuple[str, float, int, float]]:
    """Return what is counted: its name, its rate, of how many, and the least it should be."""
    rates: list[tuple[str, list[bool], float]] = []
    for name, truth in (("gap", "weighted"), ("linear", "linear"), ("adjusted_gap", "adjusted_gap")):
        held = [_holds(one["found"][name], one["truths"][truth]) for one in calibrated if one["found"][name]]
        rates.append((f"{name} ({truth})", held, 0.92))
    for name in ("alone", "beyond_others"):
        for feature in ("x", "y"):
            key = f"{name}({feature})"
            held = [_holds(one["found"][key], one["truths"][key]) for one in calibrated]
            rates.append((f"{key}, band of all", held, 0.92))
    meets = [one for one in calibrated if one["truths"]["A"] * one["truths"]["B"] >= 0]
    gap = [(one, one["truths"]["gap"]) for one in meets]
    rates.append(("bracket holds the gap, no labels", [_holds(one["blind"], truth) for one, truth in gap], 0.95))
    judged = [(one, truth) for one, truth in gap if one["bracket"]]
    rates.append(("bracket holds the gap, labels", [_holds(one["bracket"], truth) for one, truth in judged], 0.95))
    unmet = [one for one in calibrated if one not in meets and one["bracket"]]
    held = [_holds(one["bracket"], one["truths"]["gap"]) for one in unmet]
    rates.append(("bracket holds the gap, labels, other signs", held, 0.92))
    rates.append(("limits hold the gap", [_holds(one["limits"], one["truths"]["gap"]) for one in calibrated], 0.95))
    rates.append(("calibrated: judged", [one["status"] != NOT_JUDGED for one in calibrated], 0.0))
    rates.append(("over-confident: not judged", [one["status"] == NOT_JUDGED for one in others], 0.95))
    return [(name, float(np.mean(held)), len(held), least) for name, held, least in rates if held]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and return 1 where something is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    tasks = [(options.seed + k, is_calibrated) for is_calibrated in (True, False) for k in range(options.repetitions)]
    with multiprocessing.get_context("spawn").Pool(options.jobs, one_core) as pool:
        found = pool.map(measured, tasks, chunksize=1)
    if options.json is not None:
        options.json.write_text(json.dumps(found))
    missed = 0
    for name, rate, of, least in lines(found[: options.repetitions], found[options.repetitions :]):
        is_missed = rate < least and is_low(rate, of) if least else False
        missed += is_missed
        error = sqrt(max(rate * (1 - rate), 1e-9) / of)
        sys.stdout.write(f"{name:45s} {100 * rate:5.1f} % ± {100 * error:.1f} of {of}{'  LOW' if is_missed else ''}\n")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
