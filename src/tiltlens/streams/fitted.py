"""What a fitted membership model adds to the rows of a stream: columns, and the powers of them that are summed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations_with_replacement, product

import numpy as np
from numpy.typing import NDArray

from tiltlens.estimators.crossfit import Pairing, normalising, scaled_pairing
from tiltlens.estimators.estimate import Integers
from tiltlens.estimators.summed import Partition, Polynomial
from tiltlens.models.applied import PAIRINGS, AppliedMembership, Known
from tiltlens.paper.checks import Floats

COLUMNS = tuple(field.name for field in fields(Pairing) if field.name not in ("fold", "drift"))  # of a pairing
VARIABLES = PAIRINGS * len(COLUMNS) + 2  # and the mean of all r, and W − μ

Places = tuple[int, ...]  # of variables, each as often as its power


@dataclass(frozen=True, slots=True, eq=False)
class Norms:
    """What normalises the models of a pair, added with `+`.

    Attributes
    ----------
    masses
        Σw[|ℓ|<c] of the audited and Σw·e^ℓ[|ℓ|<c] of the reference rows, for each half's model, (halves, 2).
    clipped
        Σw[|ℓ|≥c] of both groups, (halves, 2).
    total, top
        Σw·log-odds of the audited rows by the whole sample's model, and the largest of anyone.
    """

    masses: Floats
    clipped: Floats
    total: float
    top: float

    def __add__(self, other: Norms) -> Norms:
        return Norms(
            self.masses + other.masses,
            self.clipped + other.clipped,
            self.total + other.total,
            max(self.top, other.top),
        )


def norms(audited: NDArray[np.bool_], weights: Floats, log_odds: Floats, pairings: Sequence[Pairing]) -> Norms:
    """Return what the rows of a batch add; in their pairings, nothing is normalised yet."""
    w0 = np.where(audited, weights, 0.0)
    both = w0, weights - w0
    ratios = [r for pair in pairings for r in (pair.r_a, pair.r_b)]
    masses = [[float(np.dot(w, np.abs(r))) for w in both] for r in ratios]
    clipped = [[float(np.dot(w, r == 0.0)) for w in both] for r in ratios]
    return Norms(np.array(masses), np.array(clipped), float(np.dot(w0, log_odds)), float(log_odds.max(initial=-np.inf)))


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A fitted membership model on its way to every worker.

    Attributes
    ----------
    hashes, quarters
        Of the rows that it was fitted on, in order; and the quarter of each.
    scales
        What normalises e^ℓ of each half's model.
    clipped
        The larger of the groups' shares of rows with |ℓ| ≥ 4.
    """

    applied: AppliedMembership
    hashes: NDArray[np.uint64]
    quarters: Integers
    scales: Floats
    clipped: float

    @classmethod
    def of(cls, applied: AppliedMembership, hashes: NDArray[np.uint64], quarters: Integers) -> Fitted:
        """Return the model before anything is normalised."""
        return cls(applied, hashes, quarters, np.ones(2 * PAIRINGS), 0.0)

    def known(self, hashes: NDArray[np.uint64]) -> Known:
        """Return which of some rows the model was fitted on."""
        near = np.flatnonzero(hashes <= self.hashes[-1])
        at = np.searchsorted(self.hashes, hashes[near])
        is_known = self.hashes[at] == hashes[near]
        return Known(near[is_known], self.quarters[at[is_known]])

    def normalised(self, found: Norms, weights: tuple[float, float]) -> Fitted:
        """Return the model after the pass that normalises it; `weights` are those of both groups."""
        scales = normalising(*(found.masses / np.array(weights)).T)
        return replace(self, scales=scales, clipped=float((found.clipped / np.array(weights)).max()))

    def pairings(self, audited: NDArray[np.bool_], log_ratios: Sequence[Floats]) -> list[Pairing]:
        """Return the pairings of some rows; they are one fold."""
        halves = [(2 * p, 2 * p + 1) for p in range(PAIRINGS)]
        return [
            scaled_pairing(audited, (log_ratios[i], log_ratios[j]), (self.scales[i], self.scales[j]), None)
            for i, j in halves
        ]


def mean_log_ratio(pairings: Sequence[Pairing]) -> Floats:
    """Return each row's mean ℓ."""
    return np.asarray(sum(pair.a + pair.b for pair in pairings) / (2 * len(pairings)))


def mean_density_ratio(pairings: Sequence[Pairing]) -> Floats:
    """Return each row's mean r."""
    return np.asarray(sum(pair.r_a + pair.r_b for pair in pairings) / (2 * len(pairings)))


def fitted_variables(pairings: Sequence[Pairing], residual: Floats) -> list[Floats]:
    """Return the variables that are added to those of known membership."""
    columns = [getattr(pair, name) for pair in pairings for name in COLUMNS]
    return [*columns, mean_density_ratio(pairings), residual]


@dataclass(frozen=True, slots=True, eq=False)
class FittedPolynomials:
    """What stands for the added columns: pairings, the mean r, and W − μ."""

    pairings: tuple[Pairing, ...]
    density_ratio: Polynomial
    residual: Polynomial


def fitted_polynomials(first: int, fold: Partition) -> FittedPolynomials:
    """Return the added columns as polynomials; `first` is the first of the added variables."""
    every = [Polynomial.variable(first + place, first + VARIABLES) for place in range(VARIABLES)]
    pairs = []
    for p in range(PAIRINGS):
        a, b, r_a, r_b, spread2, omega, ratio = every[p * len(COLUMNS) : (p + 1) * len(COLUMNS)]
        pairs.append(Pairing(a, b, r_a, r_b, spread2, omega, ratio, fold))
    return FittedPolynomials(tuple(pairs), every[-2], every[-1])


def fitted_powers(first: int, term: int, scores: Sequence[int]) -> Iterator[Places]:
    """Yield the powers that formulas of a fitted model ask for beyond those of a known one.

    `term` is the place of the output's part of g, `scores` those of the scores.
    """
    ratio, residual = first + VARIABLES - 2, first + VARIABLES - 1
    yield from ((ratio,), (ratio, ratio))
    for p in range(PAIRINGS):
        a, b, r_a, r_b, spread2, omega, density = range(first + p * len(COLUMNS), first + (p + 1) * len(COLUMNS))
        gradient: list[Places] = [(), (a,), (b,), (term,), *((y,) for y in scores)]
        gradient += [(a, b), (a, term), (b, term), (term, term)]
        gradient += [(r_a,), (r_b,), (a, r_b), (term, r_b), (b, r_a), (term, r_a)]
        yield from (one + other for one, other in combinations_with_replacement(gradient, 2))
        yield from ((*one, spread2) for one in ((), (a,), (b,), (term,)))
        yield from ((omega,), (omega, omega), (a, omega), (b, omega))
        yield from ((density,) * power for power in (1, 2))
        yield from ((density,) * max(power, 1) + (residual,) * power for power in (1, 2))
        yield (density, density, residual)
        errors: list[Places] = [(), (a,), (b,), (a, a), (a, b), (b, b)]
        yield from (one + (residual,) * power for one, power in product(errors, (0, 1, 2)))
