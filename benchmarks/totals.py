"""How often do the 95 % intervals of the total shares hold the truth? Known truths, drawn again and again.

Run `python -m benchmarks.totals --repetitions 100 --n 2000`. It audits tables of independent features, of dependent
ones and of a pair that hides the group in its XOR, prints one Markdown table, and fails where an interval misses its
target by more than chance.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import sqrt

import numpy as np
from scipy.special import expit, logit

import tiltlens as tl
from benchmarks.coverage import AUDITED, Floats, Tally
from tiltlens.limits import CLIP

LEAST = 0.92
DRAWS = 4_000_000
Random = np.random.Generator


@dataclass(frozen=True)
class World:
    """Two groups to draw from, their log-ratio, the score, and one feature drawn anew given the others."""

    name: str
    features: tuple[str, ...]
    draw: Callable[[int, bool, Random], Floats]
    log_ratio: Callable[[Floats], Floats]
    score: Callable[[Floats], Floats]
    redrawn: Callable[[Floats, int, Random], Floats]

    def totals(self) -> dict[str, float]:
        """Return the true total shares, 1 − Var0(E0[g|X without j])/Var0(g) = ½·E0[(g − g')²]/Var0(g).

        g' is g with X_j drawn anew given the other features.
        """
        rng = np.random.default_rng(7)
        x, k = self.draw(DRAWS, True, rng), self._slope(rng)
        g = self._gradient(x, k)
        moved = (self._gradient(self.redrawn(x, j, rng), k) for j in range(len(self.features)))
        lost = (float(0.5 * np.mean((g - m) ** 2) / g.var()) for m in moved)
        return dict(zip(self.features, lost, strict=True))

    def _slope(self, rng: Random) -> float:
        means = [self.score(self.draw(DRAWS, audited, rng)).mean() for audited in (True, False)]
        return float(logit(means[0]) - logit(means[1]))

    def _gradient(self, x: Floats, k: float) -> Floats:
        return np.clip(self.log_ratio(x), -CLIP, CLIP) + k * self.score(x)

    def estimates(self, size: int, seed: int) -> Iterator[tuple[str, tl.Estimate]]:
        """Yield each feature's total share as an audit has it."""
        rng = np.random.default_rng(seed)
        audited = rng.random(size) < AUDITED
        x = np.where(audited[:, None], self.draw(size, True, rng), self.draw(size, False, rng))
        table = {name: _column(x[:, j]) for j, name in enumerate(self.features)}
        found = tl.audit(table, np.where(audited, "a", "b"), reference="b", scores=self.score(x), seed=seed)
        for row in found["a"].proxies.to_dicts():
            ends = (row[name] for name in ("total_share", "total_share_low", "total_share_high"))
            yield row["feature"], tl.Estimate(*ends)


def _column(values: Floats) -> np.ndarray:
    return values.astype(np.int64) if set(np.unique(values)) == {-1.0, 1.0} else values


def gaussian(name: str, correlation: float) -> World:
    """Audited N(means, 1) with one correlation, reference N(0, 1); the third feature is noise."""
    mean, covariance = np.array([0.7, 0.4, 0.0]), np.eye(3)
    covariance[0, 1] = covariance[1, 0] = correlation
    root, inverse = np.linalg.cholesky(covariance), np.linalg.inv(covariance)

    def draw(size: int, audited: bool, rng: Random) -> Floats:
        z = rng.standard_normal((size, 3))
        return z @ root.T + mean if audited else z

    def log_ratio(x: Floats) -> Floats:
        away = x - mean
        return 0.5 * ((x**2).sum(axis=1) - ((away @ inverse) * away).sum(axis=1) - np.log(np.linalg.det(covariance)))

    def redrawn(x: Floats, j: int, rng: Random) -> Floats:
        disagreement_sq = 1.0 / inverse[j, j]
        pull = (x - mean) @ inverse[j] - inverse[j, j] * (x[:, j] - mean[j])
        moved = x.copy()
        moved[:, j] = mean[j] - disagreement_sq * pull + sqrt(disagreement_sq) * rng.standard_normal(len(x))
        return moved

    return World(name, ("strong", "weak", "noise"), draw, log_ratio, _bent_score, redrawn)


def _bent_score(x: Floats) -> Floats:
    return expit(-0.3 + 0.9 * x[:, 0] + 0.4 * x[:, 1])


def exclusive_or() -> World:
    """Left times right is 1 for 70 % of the audited and for half of the others, beside another proxy and noise."""

    def agreeing(one: Floats, chance: float, rng: Random) -> Floats:
        return one * np.where(rng.random(len(one)) < chance, 1.0, -1.0)

    def draw(size: int, audited: bool, rng: Random) -> Floats:
        left = rng.choice([-1.0, 1.0], size)
        right = agreeing(left, 0.7 if audited else 0.5, rng)
        return np.column_stack([left, right, rng.standard_normal(size) + 0.5 * audited, rng.standard_normal(size)])

    def log_ratio(x: Floats) -> Floats:
        return np.log(np.where(x[:, 0] * x[:, 1] > 0, 1.4, 0.6)) + 0.5 * x[:, 2] - 0.125

    def redrawn(x: Floats, j: int, rng: Random) -> Floats:
        moved = x.copy()
        moved[:, j] = agreeing(x[:, 1 - j], 0.7, rng) if j < 2 else rng.standard_normal(len(x)) + 0.5 * (j == 2)
        return moved

    return World("XOR", ("left", "right", "third", "idle"), draw, log_ratio, _crossed_score, redrawn)


def _crossed_score(x: Floats) -> Floats:
    return expit(0.3 * x[:, 0] * x[:, 1] + 0.2 * x[:, 2])


WORLDS: dict[str, Callable[[], World]] = {
    "independent": partial(gaussian, "independent", 0.0),
    "dependent": partial(gaussian, "dependent", 0.4),
    "XOR": exclusive_or,
}


def misses(tallies: dict[str, Tally], answers: dict[str, float]) -> Iterator[str]:
    """Yield the features whose intervals miss their target by more than two standard errors of the count."""
    for feature, tally in tallies.items():
        if tally.coverage < LEAST - 2 * sqrt(0.95 * 0.05 / len(tally.hits)):
            yield f"{feature} (true total {answers[feature]:.3f}): {100 * tally.coverage:.1f} %"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--n", type=int, default=2_000)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args(arguments)
    print(f"Total shares, n = {options.n:,}, {options.repetitions} repetitions.\n", flush=True)
    print("| world | feature | true total share | bias / mean width / coverage |")
    print("|---|---|---|---|", flush=True)
    missed = []
    for world in (WORLDS[name]() for name in options.worlds):
        answers, tallies = world.totals(), {name: Tally() for name in world.features}
        for seed in range(options.first_seed, options.first_seed + options.repetitions):
            for feature, estimate in world.estimates(options.n, seed):
                tallies[feature].add(estimate, answers[feature])
        for feature, tally in tallies.items():
            print(f"| {world.name} | {feature} | {answers[feature]:.4f} | {tally} |", flush=True)
        missed += [f"{world.name}, {miss}" for miss in misses(tallies, answers)]
    print("\n" + ("\n".join(["Outside the target:", *missed]) if missed else "All within the target."))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
