"""How often do the 95 % intervals hold the truth? Known truths, drawn again and again.

Run `python benchmarks/coverage.py --repetitions 500 --n 2000 10000`. It prints one Markdown table and fails where a
cross-fitted interval with the chosen membership model misses its target by more than chance. The truths come from
4 million draws of each group; their relative error is below 0.1 %, less than a hundredth of any interval.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from tiltlens.estimators.crossfit import (
    Pairing,
    feature_share,
    gradient,
    gradient_variance,
    input_divergence,
    known_pairing,
    pairing,
)
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.feature_gap import carrier
from tiltlens.estimators.influence import Rows
from tiltlens.limits import CLIP
from tiltlens.models import membership as membership_models
from tiltlens.models.candidates import CANDIDATES
from tiltlens.models.membership import Membership, chosen_membership, prior_log_odds

Floats = NDArray[np.float64]
EDGES = np.array([-1.2, -0.8, -0.45, -0.15, 0.1, 0.4, 0.7, 1.05, 1.5])
AUDITED = 0.4
METHODS = ("plug-in", "one-step, one model", "double cross-fitted")


@dataclass(frozen=True)
class Truth:
    """A pair of distributions to draw from, their log-ratio, the score, and the codes of the features."""

    name: str
    draw: Callable[[int, bool, np.random.Generator], Floats]
    log_ratio: Callable[[Floats], Floats]
    score: Callable[[Floats], Floats]
    is_discrete: bool = False
    least: float = 0.92

    def codes(self, x: Floats, j: int) -> NDArray[np.intp]:
        """Return feature j as codes: its levels, or ten bins with fixed edges."""
        return x[:, j].astype(np.intp) if self.is_discrete else np.searchsorted(EDGES, x[:, j])

    def table(self, x: Floats) -> dict[str, NDArray]:
        """Return the features as the membership model sees them."""
        return {f"x{j}": x[:, j].astype(np.intp) if self.is_discrete else x[:, j] for j in range(3)}


def gaussian(name: str, means: list[float], correlation: float, narrow: float, least: float) -> Truth:
    """Audited N(means, 1) with one correlation; reference N(0, 1), its second coordinate narrower."""
    mean, spread = np.array(means), np.array([1.0, narrow, 1.0])
    covariance = np.eye(3)
    covariance[0, 1] = covariance[1, 0] = correlation
    root, inverse = np.linalg.cholesky(covariance), np.linalg.inv(covariance)
    constant = np.log(spread).sum() - 0.5 * np.linalg.slogdet(covariance)[1]

    def draw(size: int, audited: bool, generator: np.random.Generator) -> Floats:
        z = generator.standard_normal((size, 3))
        return z @ root.T + mean if audited else z * spread

    def log_ratio(x: Floats) -> Floats:
        away = x - mean
        return constant - 0.5 * ((away @ inverse) * away).sum(axis=1) + 0.5 * ((x / spread) ** 2).sum(axis=1)

    return Truth(name, draw, log_ratio, lambda x: expit(-0.3 + 0.9 * x[:, 0] + 0.4 * x[:, 1]), least=least)


def discrete() -> Truth:
    """Three independent features of 6, 3 and 8 levels; the last is the same in both groups."""
    p0 = [np.array([0.05, 0.1, 0.2, 0.25, 0.25, 0.15]), np.array([0.3, 0.4, 0.3]), np.full(8, 1 / 8)]
    p1 = [np.array([0.2, 0.25, 0.2, 0.15, 0.12, 0.08]), np.array([0.4, 0.4, 0.2]), np.full(8, 1 / 8)]

    def draw(size: int, audited: bool, generator: np.random.Generator) -> Floats:
        columns = [generator.choice(len(p), size, p=p) for p in (p0 if audited else p1)]
        return np.column_stack(columns).astype(np.float64)

    def log_ratio(x: Floats) -> Floats:
        columns = (np.log(a / b)[x[:, j].astype(np.intp)] for j, (a, b) in enumerate(zip(p0, p1, strict=True)))
        return np.sum(list(columns), axis=0)

    return Truth("discrete", draw, log_ratio, lambda x: expit(-1.2 + 0.4 * x[:, 0] + 0.3 * x[:, 1]), True)


TRUTHS = (
    gaussian("Gaussian shift", [0.8, 0.3, 0.0], 0.0, 1.0, 0.92),
    gaussian("spread 0.85", [0.6, 0.3, 0.0], 0.0, 0.85, 0.90),
    gaussian("spread 0.7", [0.6, 0.3, 0.0], 0.0, 0.7, 0.90),
    gaussian("interaction", [0.6, 0.3, 0.0], 0.4, 1.0, 0.90),
    gaussian("spread and interaction", [0.5, 0.4, 0.0], 0.3, 0.8, 0.90),
    discrete(),
)


@cache
def answers(name: str) -> dict[str, float]:
    """Return the true values: of the log-ratio clipped at ±4, as the estimators have it."""
    truth = next(t for t in TRUTHS if t.name == name)
    generator = np.random.default_rng(20_240)
    batches = [_batch(truth, 1_000_000, generator) for _ in range(4)]
    return {quantity: float(np.mean([batch[quantity] for batch in batches])) for quantity in batches[0]}


def _batch(truth: Truth, size: int, generator: np.random.Generator) -> dict[str, float]:
    x0, x1 = truth.draw(size, True, generator), truth.draw(size, False, generator)
    w0, w1 = truth.score(x0), truth.score(x1)
    k = float(logit(w0.mean()) - logit(w1.mean()))
    ell = np.clip(truth.log_ratio(x0), -CLIP, CLIP)
    g = ell + k * w0
    g -= g.mean()
    found = {"Var0(g)": float(g.var()), "input divergence": float(ell.mean())}
    for j, kind in enumerate(("dominant", "weak", "noise")):
        codes = truth.codes(x0, j)
        count = np.bincount(codes)
        found[f"share, {kind}"] = float(count @ (np.bincount(codes, g) / count) ** 2 / size / found["Var0(g)"])
        means = np.bincount(codes, w0) / count
        found[f"gap(j), {kind}"] = float(w0.mean() - means[truth.codes(x1, j)].mean())
    found["share, noise"] = 0.0
    found["gap(j), noise"] = 0.0
    return found


@dataclass
class Tally:
    """Errors, widths and hits of one quantity by one method."""

    errors: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    hits: list[bool] = field(default_factory=list)

    def add(self, found: Estimate, truth: float) -> None:
        """Count one estimate of `truth`."""
        assert found.low is not None
        assert found.high is not None
        self.errors.append(found.value - truth)
        self.widths.append(found.high - found.low)
        self.hits.append(found.low - 1e-9 <= truth <= found.high + 1e-9)

    @property
    def coverage(self) -> float:
        """Return the share of intervals that held the truth."""
        return float(np.mean(self.hits))

    def __str__(self) -> str:
        return f"{np.mean(self.errors):+.4f} / {np.mean(self.widths):.4f} / {100 * self.coverage:.1f} %"


def estimates(truth: Truth, size: int, model: str, seed: int) -> Iterator[tuple[str, str, Estimate]]:
    """Yield (method, quantity, estimate) for one draw of the data."""
    generator = np.random.default_rng(seed)
    audited = generator.random(size) < AUDITED
    x = np.where(audited[:, None], truth.draw(size, True, generator), truth.draw(size, False, generator))
    rows, outcome = Rows.of(audited), truth.score(x)
    offered = CANDIDATES if model == "chosen" else tuple(c for c in CANDIDATES if c.name == model)
    membership = chosen_membership(rows, truth.table(x), seed=seed, offered=offered)
    codes = [truth.codes(x, j) for j in range(3)]
    for method in METHODS:
        pairs = _pairings(rows, membership, method)
        gradients = [gradient(rows, outcome[:, None], pair) for pair in pairs]
        variance = gradient_variance(rows, gradients)
        yield method, "Var0(g)", variance.normal().estimate()
        yield method, "input divergence", input_divergence(rows, pairs).normal().estimate()
        for j, kind in enumerate(("dominant", "weak", "noise")):
            yield method, f"share, {kind}", feature_share(rows, gradients, variance, codes[j]).estimate()
    for j, kind in enumerate(("dominant", "weak", "noise")):
        yield METHODS[-1], f"gap(j), {kind}", carrier(rows, outcome, codes[j]).gap.estimate()


def _pairings(rows: Rows, membership: Membership, method: str) -> list[Pairing]:
    if method == "plug-in":
        log_ratio = np.clip(membership.log_odds - prior_log_odds(rows), -CLIP, CLIP)
        return [known_pairing(rows, log_ratio)]
    if method == "double cross-fitted":
        return list(membership.pairings)
    ell = membership.pairings[0].a
    return [pairing(rows, ell, ell, membership.fold)]


def tallies(truth: Truth, size: int, model: str, seeds: range) -> dict[tuple[str, str], Tally]:
    """Return the tally of every (quantity, method)."""
    found: dict[tuple[str, str], Tally] = {}
    for seed in seeds:
        for method, quantity, estimate in estimates(truth, size, model, seed):
            found.setdefault((quantity, method), Tally()).add(estimate, answers(truth.name)[quantity])
    return found


def misses(truth: Truth, size: int, found: dict[tuple[str, str], Tally]) -> Iterator[str]:
    """Yield the cross-fitted intervals that miss their target by more than two standard errors of the count."""
    for (quantity, method), tally in found.items():
        slack = 2 * sqrt(0.95 * 0.05 / len(tally.hits))
        is_low = tally.coverage < truth.least - slack
        is_high = tally.coverage > 0.98 + slack and "noise" not in quantity and truth.least == 0.92
        if method == METHODS[-1] and (is_low or is_high):
            yield f"{truth.name}, n = {size}, {quantity}: {100 * tally.coverage:.1f} %"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--n", type=int, nargs="+", default=[2_000, 10_000])
    parser.add_argument("--models", nargs="+", default=["chosen"], help="chosen, or the name of a candidate")
    parser.add_argument("--truths", nargs="+", default=[truth.name for truth in TRUTHS])
    parser.add_argument("--first-seed", type=int, default=0, help="draws nobody has looked at yet")
    parser.add_argument("--fitted-rows", type=int, default=membership_models.FITTED_ROWS, help="of a fold, at most")
    options = parser.parse_args(arguments)
    membership_models.FITTED_ROWS = options.fitted_rows
    seeds = range(options.first_seed, options.first_seed + options.repetitions)
    print(f"Bias / mean width / coverage of the nominal 95 % interval, {options.repetitions} repetitions.\n")
    print("| truth | membership | n | quantity | true value | " + " | ".join(METHODS) + " |")
    print("|---|---|---|---|---|---|---|---|")
    missed = []
    for truth in (t for t in TRUTHS if t.name in options.truths):
        for size in options.n:
            for model in options.models:
                found = tallies(truth, size, model, seeds)
                _print_rows(truth, size, model, found)
                missed += misses(truth, size, found) if model == "chosen" else []
    print("\n" + ("\n".join(["Outside the target:", *missed]) if missed else "All within the target."))
    return 1 if missed else 0


def _print_rows(truth: Truth, size: int, model: str, found: dict[tuple[str, str], Tally]) -> None:
    for quantity, value in answers(truth.name).items():
        cells = [str(found.get((quantity, method), "")) for method in METHODS]
        print(f"| {truth.name} | {model} | {size} | {quantity} | {value:.4f} | " + " | ".join(cells) + " |")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
