"""How well the groups can be distinguished: error exponents of the two hypothesis tests of the paper.

One test observes the inputs X, the other the model's outputs Y. The null hypothesis is the audited group (S = 0).
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, bdtrik, logsumexp, ndtri

from tiltlens._limits import EQUAL
from tiltlens.errors import NotBinaryError, SupportError, TiltlensError
from tiltlens.paper.checks import Floats, check_probability, log_ratio
from tiltlens.paper.divergence import DIVERGENCES

LARGEST_SAMPLE = 1_000_000  # decisions, beyond which no exact sample size is computed


@dataclass(frozen=True, slots=True, eq=False)
class TestPair:
    """Two distributions, and the error exponents of tests that distinguish them.

    Attributes
    ----------
    null, alternative
        The distribution of one observation in the audited and in the reference group.
    """

    __test__ = False  # not a test case, despite its name

    null: Floats
    alternative: Floats

    @property
    def stein(self) -> float:
        """KL(null‖alternative): the best exponent of the type II error at a fixed type I error."""
        value = DIVERGENCES["kl"].between(self.null, self.alternative)
        if math.isinf(value):
            raise SupportError(
                "Stein's exponent is infinite: the reference group never shows a value that the audited group does.",
                "use `chernoff`, or `renyi` with an order below 1, which stay finite.",
            )
        return value

    @property
    def chernoff(self) -> float:
        """max_a −log Σ P0^a·P1^{1−a}: the best exponent of the average error."""
        return max(0.0, -self._log_affinity(self.chernoff_order))

    @property
    def chernoff_order(self) -> float:
        """The order a that attains the Chernoff exponent; ½ if the groups are equal."""
        # The affinity is 1 at every order, so no order is best.
        if np.allclose(self.null, self.alternative, rtol=1e-12, atol=0):
            return 0.5
        from scipy.optimize import minimize_scalar

        solution = minimize_scalar(self._log_affinity, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
        # Convex in the order; if supports differ, the optimum may be an end, which the bounded search does not reach.
        return float(min((0.0, float(solution.x), 1.0), key=self._log_affinity))

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence D_a(null‖alternative) of any order a ≥ 0; order 1 is KL."""
        if not _is_number(order) or not order >= 0:
            raise TiltlensError(f"`order` must be a number ≥ 0, got {order!r}.", "order 1 is the KL divergence.")
        if order == 1:
            return self.stein
        if order > 1 and ((self.null > 0) & (self.alternative == 0)).any():
            raise SupportError(
                f"the Rényi divergence of order {order:g} is infinite: the reference group never shows a value that "
                "the audited group does.",
                "orders below 1 stay finite while the groups share a value.",
            )
        if math.isinf(order):
            both = self.null > 0
            return max(0.0, float(log_ratio(self.null[both], self.alternative[both]).max()))
        return max(0.0, self._renyi(float(order)))

    def trade_off(self, points: int = 101) -> Floats:
        """Return the curve of best exponents: rows (order a, type I exponent, type II exponent).

        The tilted Q_a ∝ P0^a·P1^{1−a} has exponents KL(Q_a‖P0) and KL(Q_a‖P1) (Blahut): from order 1, where the
        type II exponent is largest, to order 0, where the type I exponent is. Orders with an infinite exponent are left
        out.
        """
        if not isinstance(points, int) or points < 2:
            raise TiltlensError(
                f"`points` must be a whole number of at least 2, got {points!r}.", "101 draws a smooth curve."
            )
        kl = DIVERGENCES["kl"]
        rows = []
        for order in np.linspace(1.0, 0.0, points):
            q, _ = self._tilt(float(order))
            exponents = kl.between(q, self.null), kl.between(q, self.alternative)
            if np.isfinite(exponents).all():
                rows.append((float(order), *exponents))
        return np.array(rows)

    def detection_sample_size(self, alpha: float = 0.05, beta: float = 0.05) -> int | None:
        """Return the sample size that distinguishes the groups at error rates `alpha` and `beta`; None if equal.

        n is the smallest at which the exact binomial test of Y0(1) against Y1(1) has a type I error ≤ alpha and a
        type II error ≤ beta.
        """
        check_probability("alpha", alpha)
        check_probability("beta", beta)
        if len(self.null) != 2:
            raise NotBinaryError(
                f"`detection_sample_size` is defined for two outcomes, got {len(self.null)}.",
                "merge the outcomes into the favourable one and the rest.",
            )
        p, p1 = float(self.null[1]), float(self.alternative[1])
        if abs(p - p1) <= EQUAL * max(p, p1):
            return None
        return _exact_sample_size(p, p1, alpha, beta)

    def _renyi(self, order: float) -> float:
        """Return log E0[e^{(a−1)ℓ}]/(a−1), in a form without loss of precision near order 1, above it or below it."""
        both = (self.null > 0) & (self.alternative > 0)
        if not both.any():
            return self._log_affinity(order)  # raises
        p0, ell, power = self.null[both], log_ratio(self.null[both], self.alternative[both]), order - 1
        if abs(power) * float(np.abs(ell).max()) < 1e-3:
            missing = float(self.null[~both].sum())
            # Near order 1 the sum is 1 up to (a − 1)·KL, which its logarithm would lose to rounding.
            return math.log1p(float(p0 @ np.expm1(power * ell)) - missing) / power
        if order > 1:
            top = float(ell.max())
            with np.errstate(over="ignore"):
                return top + math.log(float(p0 @ np.exp(power * (ell - top)))) / power
        return self._log_affinity(order) / power

    def _log_affinity(self, order: float) -> float:
        return self._tilt(order)[1]

    def _tilt(self, order: float) -> tuple[Floats, float]:
        """Return Q_a ∝ P0^a·P1^{1−a} on the values that both groups have, and the log of its normalising sum."""
        both = (self.null > 0) & (self.alternative > 0)
        if not both.any():
            raise SupportError(
                "the exponent is infinite: the groups share no value.", "one observation identifies the group."
            )
        logs = order * np.log(self.null[both]) + (1 - order) * np.log(self.alternative[both])
        q, total = np.zeros_like(self.null), float(logsumexp(logs))
        # Q_a minimises a·KL(Q‖P0) + (1 − a)·KL(Q‖P1), the paper’s L with λ3 = λ4 = 0.
        q[both] = np.exp(logs - total)
        return q, total


@dataclass(frozen=True, slots=True, eq=False)
class Exponents:
    """The exponents of tests that distinguish the groups by inputs and by outputs."""

    inputs: TestPair
    outputs: TestPair

    @property
    def stein_inputs(self) -> float:
        """KL(P0‖P1)."""
        return self.inputs.stein

    @property
    def stein_outputs(self) -> float:
        """KL(Y0‖Y1)."""
        return self.outputs.stein

    @property
    def chernoff_inputs(self) -> float:
        """Chernoff information of P0 and P1."""
        return self.inputs.chernoff

    @property
    def chernoff_outputs(self) -> float:
        """Chernoff information of Y0 and Y1."""
        return self.outputs.chernoff

    def renyi(self, order: float) -> float:
        """Return the Rényi divergence D_a(P0‖P1) of the inputs; `outputs.renyi` has that of the outputs."""
        return self.inputs.renyi(order)

    def detection_sample_size(self, alpha: float = 0.05, beta: float = 0.05) -> int | None:
        """Return how many decisions of the model distinguish the groups; None if the groups have equal outputs."""
        return self.outputs.detection_sample_size(alpha, beta)


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real)


def _exact_sample_size(p: float, p1: float, alpha: float, beta: float) -> int:
    """Return the smallest n at which the exact one-sided test of p against p1 keeps both error rates.

    The normal approximation ((z_α·√(p(1−p)) + z_β·√(p1(1−p1)))/(p − p1))² decides whether n is too large to compute.
    """
    z_alpha, z_beta = max(0.0, -float(ndtri(alpha))), max(0.0, -float(ndtri(beta)))
    approximate = ((z_alpha * math.sqrt(p * (1 - p)) + z_beta * math.sqrt(p1 * (1 - p1))) / (p - p1)) ** 2
    if approximate > LARGEST_SAMPLE:
        raise TiltlensError(
            f"the number of decisions must stay below {LARGEST_SAMPLE:,} to be counted exactly, got about "
            f"{approximate:,.0f}.",
            "so small a difference is not seen in decisions; read the output divergence instead.",
        )
    # The error of the exact test is not monotone in n (its level jumps), so each n is tried.
    start, block = _first_sample_size(p, p1, alpha, beta), 256
    while True:
        n = np.arange(start, start + block)
        works = np.flatnonzero(_type_two_error(n, p, p1, alpha) <= beta)
        if len(works):
            return int(n[works[0]])
        start, block = start + block, 2 * block


def _first_sample_size(p: float, p1: float, alpha: float, beta: float) -> int:
    """Return the smallest n at which the most powerful test, possibly randomised, keeps both error rates.

    No exact test needs fewer. Its type II error never increases in n, since a test may ignore an observation, so
    bisection finds n.
    """
    # Doubling finds a sufficient n, and bisection the smallest.
    low = high = _least_sample_size(p, p1, alpha, beta)
    while _randomised_error(high, p, p1, alpha) > beta:
        low, high = high + 1, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _randomised_error(middle, p, p1, alpha) <= beta else (middle + 1, high)
    return low


def _least_sample_size(p: float, p1: float, alpha: float, beta: float) -> int:
    """Return a lower bound on the sample size: n·KL(p‖p1) ≥ KL(alpha‖1−beta), by the data-processing inequality."""
    if alpha + beta >= 1:
        return 1

    def kl(a: float, b: float) -> float:
        pairs = ((a, b), (1 - a, 1 - b))
        return sum(x * math.log(x / y) for x, y in pairs if x > 0 and y > 0)

    bounds = []
    if 0 < p1 < 1:
        bounds.append(kl(alpha, 1 - beta) / kl(p, p1))
    if 0 < p < 1:
        bounds.append(kl(beta, 1 - alpha) / kl(p1, p))
    return max(1, math.floor(max(bounds, default=1.0)))


def _type_two_error(n: NDArray[np.int64], p: float, p1: float, alpha: float) -> Floats:
    """Return the type II error of the exact test, which rejects p for too few (p > p1) or too many occurrences."""
    if p < p1:
        p, p1 = 1 - p, 1 - p1
    return _exceedance(_critical_value(n, p, alpha), n, p1)


def _randomised_error(n: int, p: float, p1: float, alpha: float) -> float:
    """Return the type II error of the randomised test of size exactly alpha (Neyman and Pearson)."""
    if p < p1:
        p, p1 = 1 - p, 1 - p1
    size = np.array([n])
    cut = _critical_value(size, p, alpha)
    level, next_level = (1.0 - _exceedance(count, size, p) for count in (cut, cut + 1))
    spare = np.minimum((alpha - level) / np.maximum(next_level - level, 1e-300), 1.0)
    errors = [_exceedance(count, size, p1) for count in (cut, cut + 1)]
    return float((errors[0] - spare * (errors[0] - errors[1]))[0])


# scipy.special instead of scipy.stats.binom, whose import takes a third of the time of a small audit.
def _critical_value(n: NDArray[np.int64], p: float, alpha: float) -> Floats:
    """Return the largest count with P(X ≤ count) ≤ alpha for X ~ Binomial(n, p); −1 if there is none."""
    # The inverse may be off by one because of rounding, so its neighbours are checked.
    near = np.floor(bdtrik(alpha, n, p))
    counts = np.clip(near + np.array([[1.0], [0.0], [-1.0], [-2.0]]), -1.0, n)
    works = np.where(counts < 0, 0.0, bdtr(np.maximum(counts, 0.0), n, p)) <= alpha
    return np.asarray(np.take_along_axis(counts, works.argmax(axis=0)[None], axis=0)[0])


def _exceedance(count: Floats, n: NDArray[np.int64], p: float) -> Floats:
    """Return P(X > count) for X ~ Binomial(n, p)."""
    return np.asarray(np.where(count < 0, 1.0, bdtrc(np.maximum(count, 0.0), n, p)))
