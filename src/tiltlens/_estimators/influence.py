"""Values with their influence functions.

An estimator is a value and one number per row, its influence function, centred within each group. Everything an
interval needs is a sum over those numbers. See docs/methods.md, sections 2 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltlens._estimators.estimate import (
    Difference,
    Mapped,
    MeanLaw,
    Normal,
    Proportion,
    Ratio,
    SquareRoot,
    student_factor,
)
from tiltlens._limits import EQUAL, NOISE, SMALLEST_SHARE
from tiltlens.errors import DataError, WeightsError
from tiltlens.paper.checks import Floats

FEWEST_DEGREES = 4.0  # of freedom that a standard error has at least
Booleans = NDArray[np.bool_]
Integers = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Population:
    """Totals over all rows of two groups: counts, Σ w, and Σ of squared shares w/Σw.

    One over the last is the effective number of people (Kish).
    """

    count0: int
    count1: int
    weight0: float
    weight1: float
    square0: float
    square1: float


@dataclass(frozen=True, slots=True)
class Rows(Population):
    """Which rows are audited, and each row's weight divided by the sum of its own group's weights.

    E0[x] = audited_share·x and E1[x] = reference_share·x, so every mean is one dot product. A sample has the totals of
    the population that it represents, and standard errors for it. Rows of one cluster are dependent, so influences are
    summed by `clusters`, which are numbered from 0.
    """

    audited: Booleans
    weights: Floats
    audited_share: Floats
    reference_share: Floats
    clusters: Integers | None
    cluster_factors: Floats  # of each row's influence, those of `cluster_factors`
    clusters_by_group: tuple[int, int]
    is_sample: bool = False

    @classmethod
    def of(cls, audited: ArrayLike, weights: ArrayLike | None = None, clusters: Integers | None = None) -> Rows:
        """Return the rows of both groups; `weights` are sampling weights, `clusters` any codes."""
        mask = check_audited(audited)
        weight = np.ones(mask.size) if weights is None else check_weights(weights, mask)
        # Shares are of the row’s own group: estimators do not depend on q, however the groups were sampled (1).
        parts = np.where(mask, weight, 0.0), np.where(mask, 0.0, weight)
        total0, total1 = (float(part.sum()) for part in parts)
        share0, share1 = parts[0] / total0, parts[1] / total1
        squares = float(share0 @ share0), float(share1 @ share1)
        codes, count0 = cluster_codes(clusters), int(mask.sum())
        totals = (count0, mask.size - count0, total0, total1, *squares)
        return cls(*totals, mask, weight, share0, share1, codes, *_factors_by_group(codes, (share0, share1)))

    def take(self, index: Integers) -> Rows:
        """Return the rows with this index."""
        clusters = None if self.clusters is None else self.clusters[index]
        return Rows.of(self.audited[index], self.weights[index], clusters)

    def among(self, chosen: Booleans) -> Rows:
        """Return the rows for estimates from some of them: only clusters with rows of these show their errors."""
        if self.clusters is None:
            return self
        parts = [np.where(chosen, share, 0.0) for share in (self.audited_share, self.reference_share)]
        factors, counts = _factors_by_group(self.clusters, parts)
        return replace(self, cluster_factors=factors, clusters_by_group=counts)

    def has_errors(self, chosen: Booleans) -> bool:
        """Return whether some rows are of several clusters, or of none: one cluster shows no error."""
        return self.clusters is None or min(filter(None, self.among(chosen).clusters_by_group), default=2) > 1

    def represent(self, population: Population) -> Rows:
        """Return the rows as a sample that represents a population."""
        totals = {part.name: getattr(population, part.name) for part in fields(Population)}
        return replace(self, **totals, is_sample=True)

    def independent(self, is_audited: bool, chosen: Booleans | None = None) -> float:
        """Return the effective number of people in a group, or in its `chosen` rows: (Σw)²/Σw², w of clusters.

        Without weights and clusters it is the number of rows.
        """
        share = self.audited_share if is_audited else self.reference_share
        scale = self._sample_scales[0 if is_audited else 1]
        share = share if chosen is None else np.where(chosen, share, 0.0)
        # (3) with the weights of clusters: people of one cluster count as one.
        of_clusters = share if self.clusters is None else sums_by(self.clusters, share)
        square = float(of_clusters @ of_clusters)
        return float(share.sum()) ** 2 / square / scale**2 if square > 0.0 else 0.0

    @property
    def balanced_weights(self) -> Floats:
        """The rows' weights ω in P̄, in which each group has one half."""
        return np.asarray(0.5 * (self.audited_share + self.reference_share))

    @property
    def single_cell(self) -> Integers:
        """The code 0 for every row."""
        return np.zeros(self.audited.size, dtype=np.intp)

    def constant(self, value: float) -> Floats:
        """Return the column with the same value in every row."""
        return np.full(self.audited.size, value)

    def mean0(self, x: Floats) -> float:
        """Return E0[x], the weighted mean over the audited rows."""
        return float(np.dot(self.audited_share, x))

    def mean1(self, x: Floats) -> float:
        """Return E1[x], the weighted mean over the reference rows."""
        return float(np.dot(self.reference_share, x))

    def sums0(self, codes: Integers, x: Floats | None = None) -> Floats:
        """Return Σ w·x over the audited rows of each code, w the row's share of its group; x is 1 by default."""
        return sums_by(codes, self.audited_share if x is None else self.audited_share * x)

    def sums1(self, codes: Integers, x: Floats | None = None) -> Floats:
        """Return Σ w·x over the reference rows of each code."""
        return sums_by(codes, self.reference_share if x is None else self.reference_share * x)

    def self_products0(self, codes: Integers, a: Floats | None = None, b: Floats | None = None) -> Floats:
        """Return Σ w²·a·b over the audited rows of each code, the products of w·a and w·b of a row, or a cluster."""
        wa, wb = (self.audited_share if x is None else self.audited_share * x for x in (a, b))
        if self.clusters is None:
            return sums_by(codes, wa * wb)
        width = int(codes.max(initial=0)) + 1
        # A mean that leaves a row out leaves its cluster out, because rows of a cluster are dependent.
        both, cell = np.unique(self.clusters * width + codes, return_inverse=True)
        return sums_by(both % width, sums_by(cell, wa) * sums_by(cell, wb))

    def counts(self, codes: Integers, levels: int) -> tuple[Integers, Integers]:
        """Return how many audited and how many reference rows have each code."""
        # Taking the rows of a group takes longer than counting all of them.
        both = np.bincount(codes + levels * ~self.audited, minlength=2 * levels)
        return both[:levels], both[levels:]

    @property
    def degrees(self) -> float:
        """Degrees of freedom of standard errors: clusters of the group with fewer, minus 1; infinite without any."""
        return math.inf if self.clusters is None else _degrees(self.clusters_by_group)

    def influence(self, at_audited: Floats, at_reference: Floats) -> Floats:
        """Return w·IF/Σw of each row, IF = [S=0]/q·(u − E0[u]) + [S=1]/(1−q)·(v − E1[v]).

        The squares add up to the variance of the estimator over all rows: for a sample, each group's part is multiplied
        by √(Σ shares² of all rows / Σ shares² of the sample), √(n/N) without weights.
        """
        scale0, scale1 = self._sample_scales
        # Centred in each group: a constant in u does not move the estimator, but would add variance (2).
        influence = scale0 * self.audited_share * (at_audited - self.mean0(at_audited))
        influence += scale1 * self.reference_share * (at_reference - self.mean1(at_reference))
        return self.sum_by_cluster(influence)

    def influences(self, values: Floats) -> Floats:
        """Return the same for columns of values, (n, k), each of which serves as both u and v."""
        scale0, scale1 = self._sample_scales
        share0, share1 = self.audited_share, self.reference_share
        influence = (scale0 * share0 + scale1 * share1)[:, None] * values
        influence -= np.outer(scale0 * share0, share0 @ values) + np.outer(scale1 * share1, share1 @ values)
        return self.sum_by_cluster(influence)

    def sum_by_cluster(self, influence: Floats) -> Floats:
        """Return the sums over each cluster's rows, with `cluster_factors` and Student's factor for few clusters."""
        if self.clusters is None:
            return influence
        # In the influence, so that bands and tests have it too; laws divide it out for the quantile of their level.
        factors = float(student_factor(self.degrees)) * self.cluster_factors
        return _cluster_sums(self.clusters, (factors * influence.T).T)

    @property
    def _sample_scales(self) -> tuple[float, float]:
        if not self.is_sample:
            return 1.0, 1.0
        shares = (self.audited_share, self.square0), (self.reference_share, self.square1)
        # (36): the spread is the sample’s, Σ of squared shares that of all rows.
        scales = [math.sqrt(square / float(share @ share)) for share, square in shares]
        return scales[0], scales[1]


def cluster_codes(clusters: Integers | None) -> Integers | None:
    """Return the clusters numbered from 0 on, None where each is one row."""
    if clusters is None:
        return None
    distinct, codes = np.unique(clusters, return_inverse=True)
    return None if distinct.size == codes.size else codes


def cluster_factors(clusters: Integers, shares: Floats) -> tuple[Floats, int]:
    """Return √((C − 1)/C)/(1 − s) of each row, s the share of its cluster, and C, how many clusters have a share.

    Without a cluster, a mean moves by 1/(1 − s) times the cluster's influence: squares add up to the jackknife's
    variance (CV3). In clusters of the same size the factor is √(C/(C − 1)).
    """
    of_clusters = sums_by(clusters, shares)
    count = int((of_clusters > 0.0).sum())
    if count < 2:  # without the only cluster there is no mean
        return np.ones(clusters.size), count
    rest = np.maximum(1.0 - of_clusters / of_clusters.sum(), EQUAL)
    return (math.sqrt((count - 1.0) / count) / rest)[clusters], count


def _factors_by_group(clusters: Integers | None, shares: Sequence[Floats]) -> tuple[Floats, tuple[int, int]]:
    """Return `cluster_factors` of each row in its own group, and how many clusters each group has."""
    if clusters is None:
        return np.ones(0), (0, 0)
    (factors0, count0), (factors1, count1) = (cluster_factors(clusters, share) for share in shares)
    return np.where(shares[0] > 0.0, factors0, factors1), (count0, count1)


def _degrees(counts: Sequence[int]) -> float:
    # If each cluster is in one group, the group with fewer clusters may dominate the variance.
    return max(min(filter(None, counts), default=2) - 1.0, 1.0)


def _cluster_sums(clusters: Integers, influence: Floats) -> Floats:
    if influence.ndim == 1:
        return sums_by(clusters, influence)
    return np.column_stack([sums_by(clusters, column) for column in influence.T])


def sums_by(codes: Integers, values: Floats) -> Floats:
    """Return Σ values for each code."""
    return np.asarray(np.bincount(codes, values), dtype=np.float64)


def check_audited(audited: ArrayLike) -> Booleans:
    """Return `audited` as a boolean array in which both groups occur."""
    mask = np.asarray(audited)
    if mask.ndim != 1 or mask.dtype != np.bool_:
        raise DataError(
            f"`audited` must be a one-dimensional boolean array, got {mask.dtype} of shape {mask.shape}.",
            "compare the group column with the audited value.",
        )
    count = int(mask.sum())
    if count < 2 or mask.size - count < 2:
        raise DataError(
            f"`audited` must mark two rows or more of each group, got {count} of {mask.size}.",
            "check the group column, and how missing groups are coded.",
        )
    return mask


def check_weights(weights: ArrayLike, audited: Booleans) -> Floats:
    """Return the row weights as floats: finite, none negative, some positive in each group."""
    weight = np.asarray(weights, dtype=np.float64)
    if weight.shape != audited.shape:
        raise WeightsError(f"`weights` must have shape {audited.shape}, one per row, got {weight.shape}.")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise WeightsError("`weights` must be finite and not negative.", "leave out rows of unknown weight.")
    if not weight[audited].any() or not weight[~audited].any():
        raise WeightsError("`weights` must be positive somewhere in each group, got zeros only.")
    return weight


@dataclass(frozen=True, slots=True)
class InfluenceEstimate:
    """An estimator: its value and each row's, or cluster's, contribution w·IF/Σw to its error."""

    value: float
    # The contributions; several where the estimator is a mean of others, such as the pairings of a cross-fit
    parts: tuple[Floats, ...]
    # The deviation of each of those from their mean; empty without fitted models
    between: Floats = field(default_factory=lambda: np.zeros(0))
    degrees: float = math.inf  # of freedom of the clusters; the contributions include their `student_factor`

    @classmethod
    def of(cls, rows: Rows, value: float, at_audited: Floats, at_reference: Floats) -> InfluenceEstimate:
        """Return the estimator with IF = [S=0]/q·(u − E0[u]) + [S=1]/(1−q)·(v − E1[v])."""
        return cls(value, (rows.influence(at_audited, at_reference),), degrees=rows.degrees)

    @classmethod
    def of_group(cls, rows: Rows, value: float, is_audited: bool, values: Floats) -> InfluenceEstimate:
        """Return the estimator from rows of one group, with IF = [S=s]/P(s)·(u − E_s[u])."""
        zero = rows.constant(0.0)
        return cls.of(rows, value, *((values, zero) if is_audited else (zero, values)))

    @property
    def influence(self) -> Floats:
        """Each row's contribution."""
        return self.parts[0] if len(self.parts) == 1 else np.asarray(np.mean(self.parts, axis=0))

    def covariance(self, other: InfluenceEstimate) -> float:
        """Return Σ(w·IF)(w·IF')/(Σw)², the mean over parts, and twice the covariance between these."""
        # (27): the mean variance over pairings is an upper bound of that of the mean influence.
        within = sum(float(first @ second) for first, second in zip(self.parts, other.parts, strict=True))
        return (within + 2.0 * float(self.between @ other.between)) / len(self.parts)

    @property
    def variance(self) -> float:
        """Return Σ(w·IF)²/(Σw)²."""
        return self.covariance(self)

    @property
    def se(self) -> float:
        """Return √Σ(w·IF)²/Σw, multiplied by `tail_factor` for few dominant rows."""
        return tail_factor(self) * math.sqrt(self.variance)

    @property
    def law_se(self) -> float:
        """The standard error without `student_factor`, for intervals that use Student's quantile."""
        return self.se / float(student_factor(self.degrees))

    def normal(self, least: float = -math.inf, most: float = math.inf) -> Normal:
        """Return the estimator's normal law, or Student's for few clusters."""
        return Normal(self.value, self.law_se, least, most, self.degrees)

    def minus(self, other: InfluenceEstimate) -> InfluenceEstimate:
        """Return the difference from another estimator of the same rows."""
        return combine(self.value - other.value, [(1.0, self), (-1.0, other)])

    def square_root(self, sign: int = 1) -> SquareRoot:
        """Return the law of sign·√value."""
        return SquareRoot(self.value, self.law_se, sign, self.degrees)

    def exponential(self) -> Mapped:
        """Return the law of e^value."""
        return Mapped(self.normal(), math.exp)

    def over(self, denominator: InfluenceEstimate) -> Ratio:
        """Return the law of value/`denominator`, with standard errors inflated for heavy tails."""
        square = (ratio_tail(self, denominator) / float(student_factor(self.degrees))) ** 2
        variance, other = square * self.variance, square * denominator.variance
        return Ratio(
            self.value, denominator.value, variance, square * self.covariance(denominator), other, self.degrees
        )


def ratio_tail(numerator: InfluenceEstimate, denominator: InfluenceEstimate) -> float:
    """Return the `tail_factor` of θ − ρψ, at ρ = θ/ψ."""
    # Fieller’s interval is that of θ − ρψ, so its tails count, not those of θ and ψ.
    ratio = numerator.value / denominator.value if denominator.value > 0.0 else 0.0
    both = combine(0.0, [(1.0, numerator), (-ratio, denominator)])
    # Of a θ that is 0 by construction only rounding errors are left, whose tails mean nothing.
    return tail_factor(both) if both.variance > NOISE**2 * denominator.variance else 1.0


def combine(value: float, terms: Sequence[tuple[float, InfluenceEstimate]]) -> InfluenceEstimate:
    """Return the estimator `value` = F(θ1, θ2, …) given (∂F/∂θi, θi): the delta method."""
    parts = tuple(
        np.asarray(sum(slope * part for (slope, _), part in zip(terms, same, strict=True)))
        # (4) part by part: pairing k of F is made of pairing k of each θ.
        for same in zip(*(term.parts for _, term in terms), strict=True)
    )
    between = np.asarray(sum(slope * term.between for slope, term in terms))
    return InfluenceEstimate(value, parts, between, min(term.degrees for _, term in terms))


def quotient(numerator: InfluenceEstimate, denominator: InfluenceEstimate) -> InfluenceEstimate:
    """Return the ratio of two positive estimators."""
    bottom = max(denominator.value, SMALLEST_SHARE)
    ratio = numerator.value / bottom
    return combine(ratio, [(1.0 / bottom, numerator), (-ratio / bottom, denominator)])


def log_quotient(numerator: InfluenceEstimate, denominator: InfluenceEstimate) -> InfluenceEstimate:
    """Return the logarithm of the ratio of two positive estimators (5)."""
    a, b = numerator.value, denominator.value
    return combine(math.log(a / b), [(1.0 / a, numerator), (-1.0 / b, denominator)])


def covariances(terms: Sequence[InfluenceEstimate]) -> Floats:
    """Return the covariance matrix of several estimators."""
    upper = {(i, j): a.covariance(b) for i, a in enumerate(terms) for j, b in enumerate(terms) if i <= j}
    return np.array([[upper[min(i, j), max(i, j)] for j in range(len(terms))] for i in range(len(terms))])


def overall_mean(
    weights: Floats, x: Floats, clusters: Integers | None = None, audited: Booleans | None = None
) -> InfluenceEstimate:
    """Return the weighted mean of a column over all rows; with `audited`, degrees of freedom are those of a group."""
    shares = weights / weights.sum()
    value = float(shares @ x)
    influence = shares * (x - value)
    if clusters is None:
        return InfluenceEstimate(value, (influence,))
    groups = [shares, np.zeros_like(shares)] if audited is None else [shares * audited, shares * ~audited]
    factors, counts = _factors_by_group(clusters, groups)
    degrees = _degrees(counts)
    influence = _cluster_sums(clusters, float(student_factor(degrees)) * factors * influence)
    return InfluenceEstimate(value, (influence,), degrees=degrees)


def average_estimates(terms: Sequence[InfluenceEstimate]) -> InfluenceEstimate:
    """Return the mean of several estimators of the same quantity, such as the pairings of a cross-fit.

    Its variance is the mean of their variances plus twice the variance between them: the rows are the same, but the
    models behind them are not. With four independent parts, a pairing's remainder is the mean of four products of
    the errors of two of them; the three pairings' mean then has twice the variance that is seen between them.
    """
    if len(terms) == 1:
        return terms[0]
    values = np.array([term.value for term in terms])
    parts = tuple(term.parts[0] for term in terms)
    return InfluenceEstimate(float(values.mean()), parts, values - values.mean(), terms[0].degrees)


def tail_factor(estimate: InfluenceEstimate) -> float:
    """Return √(ν/(ν−2)), the spread of Student's t, for an estimator of a fitted model; 1 for any other.

    ν are the degrees of freedom of its variance, by Satterthwaite: of Σc² over rows, 2/(Σc⁴/(Σc²)² − 1/n), few if
    few rows dominate; and of the variance between k pairings, k − 1.
    """
    total = estimate.variance
    if not estimate.between.size or total <= 0.0:
        return 1.0
    between = 2.0 * float(estimate.between @ estimate.between) / len(estimate.parts)
    degrees = float(satterthwaite(estimate.influence, total, between, len(estimate.between)))
    return math.sqrt(degrees / (degrees - 2.0))


def satterthwaite(
    influence: Floats,
    variance: Floats | float,
    between: Floats | float = 0.0,
    pairings: int = 1,
    rows: int | None = None,
) -> Floats:
    """Return ν of influences, or columns of them: 2/ν = [Σc⁴ − (Σc²)²/n]/v² + 2/(k − 1)·(b/v)², but at least four.

    `between` is b, the part of the variance v between k pairings; n is the number of `rows`.
    """
    # Without variance there are no tails: the quotients below are then 0.
    positive = np.where(np.asarray(variance) > 0.0, variance, math.inf)
    squares = influence**2 / positive
    spread = (squares**2).sum(axis=0) - squares.sum(axis=0) ** 2 / (rows or len(squares))
    noise = np.maximum(spread, 0.0) + 2.0 / max(pairings - 1, 1) * (between / positive) ** 2
    return np.asarray(np.maximum(2.0 / np.maximum(noise, 1e-300), FEWEST_DEGREES))


def mean_law(
    rows: Rows,
    mean: InfluenceEstimate,
    is_audited: bool,
    is_rate: bool,
    ends: tuple[float, float] = (-math.inf, math.inf),
    chosen: Booleans | None = None,
) -> MeanLaw:
    """Return the law of the mean over a group, or over `chosen` rows of it: Wilson's for decisions, else Student's t.

    Means that are no rates have (effective people − 1) degrees of freedom, or those of (29) if fewer.
    """
    if is_rate:
        return rate_law(rows, mean, is_audited, chosen)
    if rows.clusters is not None:
        return mean.normal(*ends)
    is_counted = rows.audited == is_audited if chosen is None else chosen & (rows.audited == is_audited)
    by_tails = satterthwaite(mean.influence, mean.variance, rows=int(is_counted.sum()))
    people = rows.independent(is_audited, chosen)
    return replace(mean.normal(*ends), degrees=max(min(people - 1.0, float(by_tails)), FEWEST_DEGREES))


def rate_law(rows: Rows, rate: InfluenceEstimate, is_audited: bool, chosen: Booleans | None = None) -> Proportion:
    """Return Wilson's law of the rate of a group, or of `chosen` rows of it.

    The effective size comes from the variance and is at most that of the weights (3), because the rows with heavy
    weights may be missing.
    """
    people, variance, p = rows.independent(is_audited, chosen), rate.variance, rate.value
    counted = rows.audited == is_audited if chosen is None else chosen & (rows.audited == is_audited)
    if variance <= 0.0 or not 0.0 < p < 1.0 or not rows.has_errors(counted):
        return Proportion(p, people)  # as many independent decisions, or clusters, all equal
    # The variance already reflects clusters, which may also make a rate more precise than (3).
    size = p * (1.0 - p) / variance * float(student_factor(rate.degrees)) ** 2
    return Proportion(p, size if rows.clusters is not None else min(size, people), rate.degrees)


def mean_difference(rows: Rows, means: Sequence[InfluenceEstimate], laws: Sequence[MeanLaw]) -> Difference:
    """Return the law of a difference of two groups' means, which are correlated only if clusters have rows of both."""
    spread = math.sqrt(means[0].variance * means[1].variance)
    together = rows.clusters is not None and spread > 0.0
    return Difference(laws[0], laws[1], means[0].covariance(means[1]) / spread if together else 0.0)
