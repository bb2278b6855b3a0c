"""The variance between the means of many groups: quadratic forms of group means, corrected for sampling noise.

With A = W − wwᵀ, w the groups' shares, θ = μᵀAμ = Σ w_g(μ_g − μ)² is the variance between groups. Two people of a group
are enough for an unbiased estimate. See docs/methods.md, section 21.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tiltlens.estimators.estimate import Estimate, quantile
from tiltlens.estimators.influence import Integers
from tiltlens.paper.checks import Floats

PERMUTATIONS = 999  # of the labels of many groups
PERMUTED_MEANS = 1_000_000  # means of permuted groups at a time: 8 MB for each of a few arrays
POOLED_DEGREES = 30.0  # of freedom given to the pooled variance when it is averaged with a group's own

PEOPLE, WEIGHT, SQUARE, FIRST, SQUARE_FIRST, SQUARE_SECOND = range(6)  # n, Σw, Σw², ΣwW, Σw²W, Σw²W²


@dataclass(frozen=True, slots=True, eq=False)
class GroupMeans:
    """Group means: effective numbers of people, the means, and the unbiased variances of the means."""

    size: Floats
    mean: Floats
    variance: Floats

    @classmethod
    def of(cls, sums: Floats) -> GroupMeans:
        """Return the means from sums, (groups, 6); the variance of a single person is not a number."""
        total, square, first = sums[:, WEIGHT], sums[:, SQUARE], sums[:, FIRST]
        mean = first / total
        # Σw²(W − ȳ)²/((Σw)² − Σw²): without weights s²/n, and unbiased from two people on.
        spread = sums[:, SQUARE_SECOND] - 2.0 * mean * sums[:, SQUARE_FIRST] + mean**2 * square
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.where(sums[:, PEOPLE] > 1, np.maximum(spread, 0.0) / (total**2 - square), np.nan)
        return cls(total**2 / square, mean, variance)

    @property
    def pooled(self) -> Floats:
        """The variance between people within groups, pooled by degrees of freedom."""
        degrees = self.size - 1.0
        return np.asarray((degrees * self.size * self.variance).sum(axis=-1) / degrees.sum())

    @property
    def moderated(self) -> Floats:
        """Variances of the means, shrunk towards the pooled one (Smyth 2004), as those of small groups are noisy."""
        degrees = self.size - 1.0
        squares = degrees * self.size * self.variance
        return np.asarray((POOLED_DEGREES * self.pooled[..., None] + squares) / (POOLED_DEGREES + degrees) / self.size)


class Form(NamedTuple):
    """The matrix A = diag(d) + F·diag(s)·Fᵀ of a quadratic form; A·1 = 0."""

    diagonal: Floats
    columns: Floats
    signs: Floats

    @property
    def main_diagonal(self) -> Floats:
        """The diagonal of A."""
        return np.asarray(self.diagonal + self.columns**2 @ self.signs)


def total_form(share: Floats) -> Form:
    """Return W − wwᵀ, the form of θ."""
    return Form(share, share[:, None], np.array([-1.0]))


def effect_forms(share: Floats, codes: Integers) -> tuple[Form, Form]:
    """Return the forms of θ's two parts: its projection on main effects of the columns of `codes`, and the rest."""
    dummies = [np.equal.outer(column, np.unique(column)) for column in codes.T]
    # Dummies of several columns are collinear: the projection is on what they span.
    left, sizes, _ = np.linalg.svd(np.sqrt(share)[:, None] * np.hstack(dummies), full_matrices=False)
    basis = np.sqrt(share)[:, None] * left[:, sizes > 1e-9 * sizes[0]]
    plus = np.ones(basis.shape[1])
    main = Form(np.zeros_like(share), np.column_stack([basis, share]), np.append(plus, -1.0))
    return main, Form(share, basis, -plus)


class Moments(NamedTuple):
    """An estimate θ̂ of θ = μᵀAμ, its variance `slope`·θ + `level`, and its third cumulant where θ = 0."""

    value: Floats
    slope: Floats
    level: Floats
    third: Floats


def form_moments(form: Form, share: Floats, means: GroupMeans) -> Moments:
    """Return θ̂ = ȳᵀAȳ − ΣA_gg·v_g and its moments (47); leading axes are several data sets.

    Variance: 4Σ(Aμ)_g²V_g + 2Σ_{g≠h}A_gh²V_gV_h + 2ΣA_gg²V_g²·n_g/(n_g − 1). A = W^½ΠW^½ with a projection Π, so
    that the first sum is θ times a mean of w_gV_g with weights w_gD_g², D = W⁻¹Aμ.
    """
    d, columns, signs = form
    y = means.mean - means.mean.mean(axis=-1, keepdims=True)  # A·1 = 0, and digits are kept
    along = y @ columns
    # (46): only squares of a mean are biased by its own noise, products of two groups are not.
    value = y**2 @ d + along**2 @ signs - means.variance @ form.main_diagonal
    v, degrees = means.moderated, means.size - 1.0
    gram = (columns.T * v[..., None, :]) @ columns
    # tr(AVAV) = Σ_gh A_gh²·V_g·V_h
    trace = v**2 @ (d * (2.0 * form.main_diagonal - d)) + np.einsum("...ij,i,j->...", gram**2, signs, signs)
    level = 2.0 * (trace + v**2 @ (form.main_diagonal**2 / degrees))
    # The first sum of (47) as 4θ times a mean: a plug-in of (Aμ)² would count noise as spread.
    squares = _shrunken_squares((d * y + (along * signs) @ columns.T) / share, v, value)
    slope = 4.0 * (v * squares) @ share**2 / (squares @ share)
    # Only the diagonal of the third cumulant: off it A is of the order of w².
    return Moments(value, slope, level, 8.0 * v**3 @ (form.main_diagonal**3 * (1.0 - degrees**-2)))


def _shrunken_squares(deviation: Floats, v: Floats, theta: Floats) -> Floats:
    """Return E[D_g² | data] for D_g ~ N(0, θ): about the squared deviation in large groups, about θ in small ones."""
    # A normal prior of variance θ; just above 0, so that all weights are never 0.
    theta = np.maximum(theta, 1e-6 * v.mean(axis=-1) + 1e-300)[..., None]
    kept = theta / (theta + v)
    return np.asarray((kept * deviation) ** 2 + kept * v + 1e-300)


@dataclass(frozen=True, slots=True)
class Dispersion:
    """√θ for an estimator of θ with these moments; `within` is the variance between people within groups."""

    square: float
    slope: float
    level: float
    third: float
    within: float

    def ends(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the ends of all θ ≥ 0 at which θ̂ is within its quantiles, by Cornish & Fisher's expansion (48)."""
        z = quantile(confidence)
        low, high = (self._end(side * z) for side in (1.0, -1.0))
        return low, high

    def _end(self, z: float) -> float:
        def missing(theta: float) -> float:
            # People vary by σ² + θ in all: where θ is smaller than θ̂, they vary more within groups.
            scale = max(1.0 + (self.square - theta) / self.within, 0.1)
            spread = math.sqrt(scale * self.slope * theta + scale**2 * self.level)
            skew = (scale**3 * self.third + 1.5 * (scale * self.slope) ** 2 * theta) / spread**3
            return theta + spread * (z + skew * (z**2 - 1.0) / 6.0) - self.square

        # No θ ≥ 0 is small enough: the end is 0.
        if self.within <= 0.0 or missing(0.0) >= 0.0:
            return max(self.square, 0.0) if self.within <= 0.0 else 0.0
        most = max(self.square, 0.0) + self.slope + math.sqrt(self.level)
        while missing(most) < 0.0:
            most *= 2.0
        from scipy.optimize import brentq

        return float(brentq(missing, 0.0, most))

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return √θ with the square roots of `ends` as its interval."""
        return Estimate(*(math.sqrt(max(theta, 0.0)) for theta in (self.square, *self.ends(confidence))))


def dispersion(form: Form, share: Floats, means: GroupMeans) -> Dispersion:
    """Return √(μᵀAμ) with its law."""
    value, slope, level, third = map(float, form_moments(form, share, means))
    return Dispersion(value, slope, level, third, float(means.pooled))


def equal_means_p_value(share: Floats, means: GroupMeans, is_decisions: bool, seed: int) -> float:
    """Return the p-value of θ = 0 by the studentised θ̂ of groups whose labels are permuted (49).

    Decisions are permuted exactly, by sums alone: the number of ones in each group is hypergeometric. Other scores have
    the normal limit, means N(0, σ²/n_g) and variances χ², with one σ² as after a permutation.
    """
    if not means.pooled > 0.0:
        return 1.0
    observed, beyond = _studentised(share, means), 0.0
    for drawn in _permuted(means, is_decisions, seed):
        difference = _studentised(share, drawn) - observed
        beyond += float((np.sign(difference) * (np.abs(difference) > 1e-9) + 1.0).sum()) / 2.0  # a tie is one half
    # The groups as observed are one of the permutations, tied with themselves.
    return (0.5 + beyond) / (1 + PERMUTATIONS)


def _studentised(share: Floats, means: GroupMeans) -> Floats:
    moments = form_moments(total_form(share), share, means)
    return np.asarray(moments.value / np.sqrt(np.maximum(moments.level, 1e-300)))


def _permuted(means: GroupMeans, is_decisions: bool, seed: int) -> Iterator[GroupMeans]:
    """Yield the means of groups with permuted labels, some data sets at a time."""
    generator, size = np.random.default_rng(seed), means.size
    step = max(PERMUTED_MEANS // size.size, 1)
    for start in range(0, PERMUTATIONS, step):
        count = min(step, PERMUTATIONS - start)
        if is_decisions:
            people = np.rint(size).astype(np.int64)
            chosen = round(float(means.mean @ size))
            mean = generator.multivariate_hypergeometric(people, chosen, count, method="marginals") / size
            variance = mean * (1.0 - mean) / (size - 1.0)
        else:
            # After a permutation each group is a sample of the same people, with one variance.
            each = means.pooled / size
            mean = generator.normal(0.0, np.sqrt(each), (count, size.size))
            variance = each * generator.chisquare(size - 1.0, (count, size.size)) / (size - 1.0)
        yield replace(means, mean=mean, variance=variance)


class ShrunkenMeans(NamedTuple):
    """Each group's mean minus the overall mean, shrunk towards 0, and the half-width of its interval."""

    value: Floats
    reach: Floats


def shrink_means(share: Floats, means: GroupMeans, theta: float, most: float, confidence: float) -> ShrunkenMeans:
    """Return b·(ȳ_g − ȳ), b = θ̂/(θ̂ + V_g), and z·√(b²V_g + (1 − b)²θ), θ the upper end of its interval.

    The second is the root mean squared error over groups, so that such intervals cover 95% of the groups or more.
    """
    v = means.moderated
    kept = max(theta, 0.0) / np.maximum(max(theta, 0.0) + v, 1e-300)
    reach = quantile(confidence) * np.sqrt(kept**2 * v + (1.0 - kept) ** 2 * most)
    return ShrunkenMeans(kept * (means.mean - share @ means.mean), reach)
