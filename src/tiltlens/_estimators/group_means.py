"""Means of many groups: the variance between them, and tests; and the gap of unobserved groups.

With A = W − wwᵀ, w the groups' shares, θ = μᵀAμ = Σ w_g(μ_g − μ)² is the variance between groups. Two people of a group
are enough for an unbiased estimate. See docs/methods.md, section 21.

For groups observed only as probabilities b, the weighted gap is Cov(b, W)/(E b·(1 − E b)), the linear estimate
Cov(b, W)/Var(b). Where b is calibrated,

    weighted = gap − E[Cov(S̄, W|b)]/Var(S̄),    linear = gap + E[Cov(b, W|S̄)]/Var(b):

the gap lies between them where both covariances have one sign (Chen et al. 2019; McCartan et al. 2023); section 15.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tiltlens._estimators.estimate import Estimate, Normal, quantile
from tiltlens._estimators.influence import InfluenceEstimate, Integers, combine, overall_mean, quotient
from tiltlens._limits import CALIBRATED, SMALLEST_SHARE
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
    # Dummies of several columns are collinear: the projection is onto their span.
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
    return Dispersion(*map(float, (*form_moments(form, share, means), means.pooled)))


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


def shrink_means(
    share: Floats, means: GroupMeans, theta: float, most: float, confidence: float
) -> tuple[Floats, Floats]:
    """Return b·(ȳ_g − ȳ), b = θ̂/(θ̂ + V_g), and the half-width z·√(b²V_g + (1 − b)²θ), θ the upper end of its interval.

    The root is the root mean squared error over groups, so that such intervals cover 95% of the groups or more.
    """
    v = means.moderated
    kept = max(theta, 0.0) / np.maximum(max(theta, 0.0) + v, 1e-300)
    reach = quantile(confidence) * np.sqrt(kept**2 * v + (1.0 - kept) ** 2 * most)
    return kept * (means.mean - share @ means.mean), reach


CHANCE_BINS = 20  # within which probabilities are treated as equal
CHANCE_BIN_ROWS = 100  # rows per bin, at least: each estimates a quantile


@dataclass(frozen=True, slots=True, eq=False)
class ChanceRows:
    """Rows with a probability b of being audited, a weight and a score; rows of one cluster are dependent."""

    chance: Floats
    weights: Floats
    score: Floats
    clusters: Integers | None = None

    def mean(self, x: Floats) -> InfluenceEstimate:
        """Return the weighted mean of a column, with its influence function."""
        return overall_mean(self.weights, x, self.clusters)

    def variance(self, x: Floats) -> InfluenceEstimate:
        """Return the weighted variance of a column."""
        return self.mean((x - self.mean(x).value) ** 2)


def slope_on_chance(rows: ChanceRows, y: Floats) -> InfluenceEstimate | None:
    """Return Cov(b, y)/Var(b), None where everybody has the same chance."""
    spread = rows.variance(rows.chance).value
    if spread <= SMALLEST_SHARE:
        return None
    centred, rest = rows.chance - rows.mean(rows.chance).value, y - rows.mean(y).value
    value = rows.mean(centred * rest).value / spread
    # The influence of a slope: x·(residual)/Var(x), as in least squares.
    return replace(rows.mean(centred * (rest - value * centred) / spread), value=value)


def visible_part(rows: ChanceRows) -> float:
    """Return Var(b)/Var(S̄), the weighted over the linear estimate: the fraction of a gap that weighting reveals.

    It is exact for W = c·S̄ plus noise unrelated to b; weighting reveals less of a gap that is unrelated to b.
    """
    share = rows.mean(rows.chance).value
    return min(rows.variance(rows.chance).value / (share * (1.0 - share)), 1.0) if 0.0 < share < 1.0 else 1.0


def frechet_limits(rows: ChanceRows, folds: int = 1) -> tuple[Normal, Normal] | None:
    """Return the smallest and the largest gap that a calibrated b allows; None if only one group is present.

    E[S̄·W] is largest if, among people with about the same b, the fraction b with the highest scores is audited:
    E[(W − q)⁺] + q·b with q the (1 − b)-quantile of W there. It is smallest with the lowest. For decisions these
    are Fréchet's limits, P(S̄ = 1, W = 1|b) ≤ min(b, E[W|b]) and ≥ max(0, b + E[W|b] − 1). With several `folds`, each
    row has the q of the other folds: limits are then too wide rather than too narrow, as any q gives a valid limit.
    """
    share = rows.mean(rows.chance)
    if not 0.0 < share.value < 1.0:
        return None
    whole, bins = rows.mean(rows.score), _chance_bins(rows)
    fold = _folds(rows, folds)
    limits = []
    for sign in (-1.0, 1.0):
        score, most = sign * rows.score, np.zeros(rows.score.size)
        for members in bins:
            for number in range(folds):
                own, others = members[fold[members] == number], members[fold[members] != number]
                # (42): at the best q the derivative by q is 0, so that its error needs no term (envelope theorem).
                q = _sorting_quantile(rows, score, others if others.size else own)
                most[own] = np.maximum(score[own] - q, 0.0) + q * rows.chance[own]
        limits.append(_gap_from(rows.mean(sign * most), whole, share).normal())
    return limits[0], limits[1]


def _folds(rows: ChanceRows, folds: int) -> Integers:
    """Return a random fold of each row, or cluster, by the contents of the rows and not by their order."""
    unit = rows.clusters
    if unit is None:
        unit = np.empty(rows.score.size, dtype=np.intp)
        unit[np.lexsort((rows.weights, rows.score, np.round(rows.chance, 9)))] = np.arange(unit.size)
    return np.random.default_rng(0).permutation(int(unit.max()) + 1)[unit] % folds


def _sorting_quantile(rows: ChanceRows, score: Floats, at: Integers) -> float:
    """Return the q above which a share b of these rows lies, by score; they have about the same chance b."""
    order = at[np.argsort(-score[at], kind="stable")]
    wanted = float(rows.weights[at] @ rows.chance[at])
    return float(score[order[min(int(np.searchsorted(np.cumsum(rows.weights[order]), wanted)), at.size - 1)]])


def _chance_bins(rows: ChanceRows) -> list[Integers]:
    """Return the positions of the rows in each quantile bin of the chance; equal chances share a bin."""
    count = int(np.clip(rows.chance.size // CHANCE_BIN_ROWS, 1, CHANCE_BINS))
    # Chances within a bin count as equal: that makes limits wider, never narrower.
    edges = np.unique(np.quantile(rows.chance, np.linspace(0.0, 1.0, count + 1)[1:-1]))
    number = np.searchsorted(edges, rows.chance, side="left")
    return [np.flatnonzero(number == bin_number) for bin_number in np.unique(number)]


def _gap_from(product: InfluenceEstimate, whole: InfluenceEstimate, share: InfluenceEstimate) -> InfluenceEstimate:
    """Return T/B − (M − T)/(1 − B) from T = E[S̄·W], M = E[W] and B = E[S̄]."""
    t, m, b = product.value, whole.value, share.value
    value = t / b - (m - t) / (1.0 - b)
    # Delta method (4) of the gap from T, M and B.
    on_share = -t / b**2 - (m - t) / (1.0 - b) ** 2
    return combine(value, [(1.0 / b + 1.0 / (1.0 - b), product), (-1.0 / (1.0 - b), whole), (on_share, share)])


class Calibration(NamedTuple):
    """Calibration of b by known groups S̄: the slope of S̄ on b (1 if b is calibrated), and E[S̄ − b] (0)."""

    slope: Estimate
    difference: Estimate
    holds: bool  # both intervals lie within the tolerance


class Signs(NamedTuple):
    """How far the gap of known groups lies above the weighted estimate, and below the linear one, in points."""

    above_weighted: Estimate
    below_linear: Estimate

    @property
    def are_opposite(self) -> bool:
        """Whether the gap lies significantly on one side of both estimates."""
        (low, high), (low1, high1) = _ends(self.above_weighted), _ends(self.below_linear)
        return (low > 0.0 and high1 < 0.0) or (high < 0.0 and low1 > 0.0)

    @property
    def outside(self) -> tuple[float, float]:
        """How far the gap may lie below and above both estimates, by the intervals from known groups."""
        (low, high), (low1, high1) = _ends(self.above_weighted), _ends(self.below_linear)
        return max(min(-low, high1), 0.0), max(min(high, -low1), 0.0)


def _ends(estimate: Estimate) -> tuple[float, float]:
    return float(estimate.low or 0.0), float(estimate.high or 0.0)


def calibration(rows: ChanceRows, audited: Floats, confidence: float) -> Calibration | None:
    """Return whether b is calibrated on rows whose group is known; None where b, or the group, is the same for all."""
    share = rows.mean(audited).value
    slope = slope_on_chance(rows, audited)
    if slope is None or not 0.0 < share < 1.0:
        return None
    difference = rows.mean(audited - rows.chance).normal().estimate(confidence)
    estimate, tolerance = slope.normal().estimate(confidence), CALIBRATED * min(share, 1.0 - share)
    holds = _within(estimate, 1.0, CALIBRATED) and _within(difference, 0.0, tolerance)
    return Calibration(estimate, difference, holds)


def _within(estimate: Estimate, middle: float, reach: float) -> bool:
    low, high = _ends(estimate)
    return middle - reach <= low and high <= middle + reach


def signs(rows: ChanceRows, audited: Floats, confidence: float) -> Signs | None:
    """Return E[Cov(S̄, W|b)]/Var(S̄) and E[Cov(b, W|S̄)]/Var(b) on rows whose group is known.

    If b is calibrated, the first is E[(S̄ − b)·W]/Var(S̄). W is replaced by its residual from a regression on b, which
    only reduces the error.
    """
    slope = slope_on_chance(rows, rows.score)
    share = rows.mean(audited).value
    if slope is None or not 0.0 < share < 1.0:
        return None
    # E[(S̄ − b)·(α + βb)] = 0 where b is calibrated: the regression reduces variance and adds no bias.
    level = rows.mean(rows.score).value - slope.value * rows.mean(rows.chance).value
    beyond = rows.mean((audited - rows.chance) * (rows.score - level - slope.value * rows.chance))
    first = quotient(beyond, rows.variance(audited))
    within = np.ones(rows.score.size)
    for who in (audited > 0.0, audited <= 0.0):
        for column in (rows.chance, rows.score):
            within[who] *= column[who] - np.average(column[who], weights=rows.weights[who])
    second = quotient(rows.mean(within), rows.variance(rows.chance))
    return Signs(first.normal().estimate(confidence), second.normal().estimate(confidence))
