"""How far apart are many groups? Coverage of θ, size and power of its test, and worlds without an interaction.

Run `python -m benchmarks.intersections --repetitions 1000`. G = 20, 200 and 2,000 groups of 2, 5 and 50 people, whose
decision rates are 35% and vary by 0, 5 or 15 points; rates stay the same over repetitions. "Power" is next to that of
Šidák's test of the largest deviation. "Interaction": groups are intersections of two columns whose effects add up, so
that an interval of the interaction should include 0. Rows outside 92 to 98%, or 4 to 6%, by more than two Monte Carlo
errors are marked MISS; at θ = 0 the lower end is all that can miss, and 99% is allowed.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
from scipy.special import ndtri

from tiltlens._estimators.group_means import GroupMeans, dispersion, effect_forms, equal_means_p_value, total_form

BASE, SPREADS = 0.35, (0.0, 0.05, 0.15)


def draw_means(rng: np.random.Generator, rates: np.ndarray, people: np.ndarray) -> GroupMeans:
    """Return the means of decisions drawn anew."""
    chosen = rng.binomial(people, rates)
    return GroupMeans.of(np.column_stack([people, people, people, chosen, chosen, chosen]).astype(float))


def sidak(means: GroupMeans) -> bool:
    """Return whether the largest deviation, in standard errors of a pooled rate, is beyond Šidák's level."""
    rate = float(means.size @ means.mean / means.size.sum())
    z = np.abs(means.mean - rate) / np.sqrt(max(rate * (1 - rate), 1e-12) / means.size)
    return bool(z.max() > ndtri(0.5 + 0.95 ** (1 / means.size.size) / 2))


def is_off(share: float, low: float, high: float, count: int) -> bool:
    """Return whether a share lies outside of its limits by more than two Monte Carlo errors."""
    return not low - 2 * math.sqrt(low * (1 - low) / count) <= share <= high + 2 * math.sqrt(high * (1 - high) / count)


def measure(rng: np.random.Generator, groups: int, each: int, spread: float, asked: argparse.Namespace) -> bool:
    """Print one world, and return whether it misses."""
    people = np.full(groups, each)
    rates = np.clip(BASE + spread * rng.standard_normal(groups), 0.02, 0.98)
    share = people / people.sum()
    theta = float(share @ (rates - share @ rates) ** 2)
    held, rejected, largest = [], [], []
    for seed in range(asked.repetitions if groups < 2000 else asked.repetitions // 3):
        means = draw_means(rng, rates, people)
        low, high = dispersion(total_form(share), share, means).ends(0.95)
        held.append(low <= theta + 1e-12 <= high + 2e-12)
        if seed < asked.tests // (1 if spread == 0 else 5):
            rejected.append(equal_means_p_value(share, means, is_decisions=True, seed=seed) <= 0.05)
            largest.append(sidak(means))
    covered, power = float(np.mean(held)), float(np.mean(rejected))
    missed = is_off(covered, 0.92, 0.98 if spread else 0.99, len(held))
    missed |= not spread and is_off(power, 0.04, 0.06, len(rejected))
    world = f"{'MISS' if missed else '    '} G = {groups}, {each} people, ±{spread:.2f}"
    tests = f"{'power' if spread else 'size'} {power:.1%}, Šidák {np.mean(largest):.1%} of {len(rejected)}"
    print(f"{world}: coverage {covered:.1%} of {len(held)}, {tests}", flush=True)
    return missed


def without_interaction(rng: np.random.Generator, each: int, asked: argparse.Namespace) -> bool:
    """Print how often intervals of both parts hold the truth where effects of two columns add up."""
    codes = np.array([(a, b) for a in range(8) for b in range(6)])
    rates = BASE + rng.normal(0, 0.08, 8)[codes[:, 0]] + rng.normal(0, 0.08, 6)[codes[:, 1]]
    people = rng.integers(2, 2 * each, len(codes))
    share = people / people.sum()
    theta = float(share @ (rates - share @ rates) ** 2)
    forms, held = effect_forms(share, codes), []
    for _ in range(asked.repetitions):
        means = draw_means(rng, np.clip(rates, 0.02, 0.98), people)
        ends = [dispersion(form, share, means).ends(0.95) for form in forms]
        held.append([low <= truth + 1e-9 <= high + 2e-9 for (low, high), truth in zip(ends, (theta, 0.0), strict=True)])
    main, interaction = np.mean(held, axis=0).tolist()
    missed = is_off(main, 0.92, 0.98, len(held)) or is_off(interaction, 0.92, 0.99, len(held))
    print(
        f"{'MISS' if missed else '    '} about {each} people, additive: main {main:.1%}, interaction {interaction:.1%}"
    )
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--tests", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    worlds = [(groups, each, spread) for groups in (20, 200, 2000) for each in (2, 5, 50) for spread in SPREADS]
    missed = [measure(rng, *world, asked) for world in worlds]
    missed += [without_interaction(rng, each, asked) for each in (5, 50)]
    sys.exit(any(missed))


if __name__ == "__main__":
    main()
