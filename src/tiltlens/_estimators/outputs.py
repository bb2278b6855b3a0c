"""Estimators from outputs alone, without a membership model: gap, rates, ratios, divergence, test of equal outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, fdtrc

from tiltlens._estimators.estimate import (
    Descent,
    Difference,
    Estimate,
    HasInterval,
    Mapped,
    MeanLaw,
    NoneOf,
    Normal,
    Square,
    student_factor,
    unseen_mean_se,
)
from tiltlens._estimators.influence import (
    Booleans,
    InfluenceEstimate,
    Rows,
    covariances,
    log_quotient,
    mean_difference,
    mean_law,
)
from tiltlens._limits import SMALLEST_SHARE, SUM_ROUNDING
from tiltlens.errors import DataError, DistributionError, SupportError
from tiltlens.paper.checks import Floats

PRESENT = 1e-9  # times the largest influence, above which a cluster's is no rounding error
PERMUTED_ROWS = 5_000  # beyond this many rows the permutation law is its normal limit to three digits


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores W_y of each row, (n, m), with both groups' means and covariances over all rows.

    For a sample, the means and covariances are those of all rows: they give the estimates, and the sample's rows give
    the standard errors. One column W(1|x) represents two outcomes, K columns represent K; a single column may also be
    an amount, which is not a probability.
    """

    values: Floats
    mean0: Floats
    mean1: Floats
    covariance0: Floats
    covariance1: Floats
    is_probability: bool = True

    @classmethod
    def of(cls, rows: Rows, scores: ArrayLike, is_probability: bool = True) -> Scores:
        """Return the scores, with means and covariances over the rows themselves."""
        values = check_scores(scores, rows) if is_probability else np.asarray(scores, dtype=np.float64)[:, None]
        mean0, mean1 = rows.audited_share @ values, rows.reference_share @ values
        centred0, centred1 = values - mean0, values - mean1
        covariance0 = (centred0 * rows.audited_share[:, None]).T @ centred0
        covariance1 = (centred1 * rows.reference_share[:, None]).T @ centred1
        return cls(values, mean0, mean1, covariance0, covariance1, is_probability)

    @property
    def column(self) -> Floats:
        """The only column."""
        return np.asarray(self.values[:, 0])

    @property
    def means(self) -> tuple[float, float]:
        """Both groups' means of the only column."""
        return float(self.mean0[0]), float(self.mean1[0])

    @property
    def gap(self) -> float:
        """E0[W] − E1[W] of the only column."""
        return self.means[0] - self.means[1]

    @property
    def spread(self) -> float:
        """The root of the mean of both groups' variances of the only column."""
        return math.sqrt(max(float(self.covariance0[0, 0] + self.covariance1[0, 0]) / 2, 0.0))

    def mix(self, mix: Floats, level: Floats) -> Scores:
        """Return the scores level + W @ mix, (m, k): one outcome's, or those that follow from others."""
        return Scores(
            level + self.values @ mix,
            level + self.mean0 @ mix,
            level + self.mean1 @ mix,
            mix.T @ self.covariance0 @ mix,
            mix.T @ self.covariance1 @ mix,
            self.is_probability,
        )

    def outcome(self, y: int) -> Scores:
        """Return the scores of one outcome; with one column W, those of outcome 0 are 1 − W."""
        count = self.values.shape[1]
        if count == 1:
            return self.mix(np.array([[-1.0]]), np.ones(1)) if y == 0 else self
        return self.mix(np.eye(count)[:, [y]], np.zeros(1))

    def all_outcomes(self) -> Scores:
        """Return the scores with the second outcome of a single column."""
        if self.values.shape[1] > 1:
            return self
        return self.mix(np.array([[1.0, -1.0]]), np.array([0.0, 1.0]))


def check_scores(scores: ArrayLike, rows: Rows) -> Floats:
    """Return scores as (n, m): one column W(1|x) where two outcomes are given as one, else K columns."""
    columns = np.asarray(scores, dtype=np.float64)
    if columns.ndim == 1:
        columns = columns[:, None]
    if columns.ndim != 2 or len(columns) != rows.audited.size:
        raise DataError(
            f"`scores` must have {rows.audited.size} rows, one per row of the data, got shape {columns.shape}.",
            "pass (n,) probabilities of one outcome, or (n, K) of all.",
        )
    if not np.isfinite(columns).all() or columns.min() < 0.0 or columns.max() > 1.0:
        raise DistributionError("`scores` must be probabilities in [0, 1], without missing values.")
    return columns


def group_rate(rows: Rows, outcome: Scores, is_audited: bool) -> InfluenceEstimate:
    """Return E0[W] or E1[W]."""
    return InfluenceEstimate.of_group(rows, outcome.means[0 if is_audited else 1], is_audited, outcome.column)


def both_rates(rows: Rows, outcome: Scores) -> tuple[InfluenceEstimate, InfluenceEstimate]:
    """Return E0[W] and E1[W]."""
    return group_rate(rows, outcome, True), group_rate(rows, outcome, False)


def group_rates(rows: Rows, outcome: Scores) -> tuple[MeanLaw, MeanLaw]:
    """Return the laws of both groups' means."""
    ends = (0.0, 1.0) if outcome.is_probability else (-math.inf, math.inf)

    def law(rate: InfluenceEstimate, spread: Floats, is_audited: bool) -> MeanLaw:
        p = rate.value
        # E[W²] = E[W]: all are 0 or 1
        is_rate = outcome.is_probability and float(spread[0, 0]) >= p * (1.0 - p) - SUM_ROUNDING
        return mean_law(rows, rate, is_audited, is_rate, ends)

    audited, reference = both_rates(rows, outcome)
    return law(audited, outcome.covariance0, True), law(reference, outcome.covariance1, False)


def gap_law(rows: Rows, outcome: Scores) -> Difference:
    """Return the law of E0[W] − E1[W]."""
    return mean_difference(rows, both_rates(rows, outcome), group_rates(rows, outcome))


def gap(rows: Rows, outcome: Scores) -> InfluenceEstimate:
    """Return E0[W] − E1[W]."""
    return InfluenceEstimate.of(rows, outcome.gap, outcome.column, -outcome.column)


def unseen_se(rows: Rows, outcome: Scores) -> tuple[float, float]:
    """Return each group's unseen standard error, positive if all its decisions are equal; 0 (unknown) for amounts."""
    if not outcome.is_probability:
        return 0.0, 0.0
    audited, reference = outcome.means
    return unseen_mean_se(audited, rows.independent(True)), unseen_mean_se(reference, rows.independent(False))


def impact_ratio(rows: Rows, favourable: Scores) -> HasInterval:
    """Return E0[W]/E1[W] of the favourable outcome, normal on the log scale; both means of amounts must be positive."""
    p, p1 = favourable.means
    if not favourable.is_probability and min(p, p1) <= 0.0:
        raise SupportError(
            "The ratio of means is not defined: a group's mean amount is not above 0.", "look at the gap."
        )
    if p1 <= SMALLEST_SHARE and favourable.is_probability:
        raise SupportError(
            "The impact ratio is not defined: the reference group's favourable rate is 0.",
            "look at the gap, or check `favourable`.",
        )
    if p <= SMALLEST_SHARE and favourable.is_probability:
        return NoneOf(rows.independent(True), p1)
    return ratio_of_means(both_rates(rows, favourable), unseen_se(rows, favourable))


def ratio_of_means(means: tuple[InfluenceEstimate, InfluenceEstimate], unseen: tuple[float, float]) -> Mapped:
    """Return the ratio of two positive means of the same rows, with their unseen errors."""
    # The unseen error of equal decisions is divided by the rate too.
    errors = (error / mean.value for error, mean in zip(unseen, means, strict=True))
    return Mapped(log_quotient(*means).normal().with_extra_se(*errors), math.exp)


def lower_over_higher(ratio: Estimate) -> Estimate:
    """Return the lower rate divided by the higher, whichever group has it, from the ratio of both."""
    if ratio.value <= 0.0:
        return Estimate(ratio.value, ratio.low, None if ratio.high is None else min(ratio.high, 1.0))
    value = min(ratio.value, 1.0 / ratio.value)
    if ratio.low is None or ratio.high is None:
        return Estimate(value)
    ends = [min(ratio.low, 1.0 / ratio.high), min(ratio.high, 1.0 / max(ratio.low, 1e-12))]
    return Estimate(value, min(ends), 1.0 if ratio.low <= 1.0 <= ratio.high else max(ends))


def standardised_difference(rows: Rows, outcome: Scores) -> InfluenceEstimate:
    """Return (E0[W] − E1[W]) / √((Var0(W) + Var1(W))/2): the gap over the groups' root mean variance."""
    (p, p1), w, spread = outcome.means, outcome.column, outcome.spread
    square0, square1 = (w - p) ** 2, (w - p1) ** 2
    if spread <= SMALLEST_SHARE:
        if abs(p - p1) <= SMALLEST_SHARE:
            return InfluenceEstimate.of(rows, 0.0, rows.constant(0.0), rows.constant(0.0))
        raise SupportError(
            "The standardised difference is not defined: the score is constant in each group.",
            "look at the gap.",
        )
    d = (p - p1) / spread
    # σ² is the mean of both variances, so that ∂σ/∂Var_g = 1/(4σ).
    bend = d / (4 * spread**2)
    return InfluenceEstimate.of(rows, d, w / spread - bend * square0, -w / spread - bend * square1)


@dataclass(frozen=True, slots=True)
class OutputTerm:
    """T(x) = Σ_y c_y·W(y|x), c_y = log Y0(y)/Y1(y) (one column: T = k·W), with the influence of the c_y.

    IF_y = [S=0]/q·(W_y − Y0)·inv_variance0 − [S=1]/(1−q)·(W_y − Y1)·inv_variance1.
    """

    scores: Floats
    slopes: Floats
    inv_variance0: Floats
    inv_variance1: Floats

    def values(self) -> Floats:
        """Return T(x), one per row."""
        return self.scores @ self.slopes

    def slope_influence(self, rows: Rows, of: Floats) -> tuple[Floats, Floats]:
        """Return Σ_y E0[`of`·W_y]·IF_y for audited and for reference rows, not yet centred."""
        covariance = (rows.audited_share * of) @ self.scores
        return self.scores @ (covariance * self.inv_variance0), -(self.scores @ (covariance * self.inv_variance1))


def output_term(scores: Scores) -> OutputTerm:
    """Return T for (n, m) scores; outcomes without mass in the audited group drop out of it."""
    y0, y1 = scores.mean0, scores.mean1
    rest0, rest1 = (1.0 - y0, 1.0 - y1) if len(y0) == 1 else (np.ones_like(y0), np.ones_like(y1))
    # One column represents two outcomes: c = k, and dk = dp/(p(1 − p)) (8).
    used = (y0 > SMALLEST_SHARE) & (rest0 > SMALLEST_SHARE)
    if (used & ((y1 <= SMALLEST_SHARE) | (rest1 <= SMALLEST_SHARE))).any():
        raise SupportError(
            "The output divergence is infinite: the reference group lacks an outcome of the audited group.",
            "merge rare outcomes, or set `output_weight` to 0.",
        )
    # Any value that keeps the logarithms finite: `used` excludes these outcomes.
    y0, y1 = np.where(used, y0, 0.5), np.where(used, y1, 0.5)
    rest0, rest1 = np.where(used, rest0, 0.5), np.where(used, rest1, 0.5)
    slopes = np.where(used, np.log(y0 / y1) - np.log(rest0 / rest1), 0.0)
    return OutputTerm(scores.values, slopes, used / (y0 * rest0), used / (y1 * rest1))


def output_divergence(rows: Rows, scores: Scores) -> Square:
    """Return KL(Y0‖Y1) = Σ_y Y0 log(Y0/Y1), IF = [S=0]/q·Σ W_y log(Y0/Y1) − [S=1]/(1−q)·Σ W_y Y0/Y1.

    Its root is normal where the divergence itself is not (near 0); with two outcomes the root has a sign.
    """
    every = scores.all_outcomes()
    term, y0, is_binary = output_term(every), every.mean0, every.values.shape[1] == 2
    divergence = max(float(y0 @ term.slopes), 0.0)
    kl = InfluenceEstimate.of(rows, divergence, term.values(), -(every.values @ (y0 * term.inv_variance1)))
    if divergence <= SMALLEST_SHARE**2:
        return Square(0.0, _null_se(rows, every), is_binary)
    # Delta method, se(R) = se(KL)/(2R): R is nearly normal where KL is a quadratic form.
    root = math.sqrt(divergence)
    return Square(root, kl.law_se / (2 * root), is_binary, rows.degrees)


def _null_se(rows: Rows, scores: Scores) -> float:
    """Return the standard error of √KL where the two outputs are equal: √(Σ_y se(gap_y)²/(2·Y0(y)))."""
    y0 = scores.mean0
    used = np.flatnonzero(y0 > SMALLEST_SHARE).tolist()
    return math.sqrt(sum(gap(rows, scores.outcome(y)).variance / (2 * float(y0[y])) for y in used))


def output_descent(rows: Rows, scores: Scores) -> Normal | Square:
    """Return k·sd0(W), signed (one column), or Var0(T) as a square (more): the steepest rate at λ2=0, λ4=1."""
    check_descent(scores)
    term = output_term(scores)
    values = term.values()
    values = values - rows.mean0(values)
    variance = _term_variance(scores, term)
    slope0, slope1 = term.slope_influence(rows, values)
    if variance <= SMALLEST_SHARE**2:
        # Where T is constant Var0(T) has no first derivative, but k·sd0(W) has.
        return Normal(0.0, _flat_se(rows, scores, term))
    total = InfluenceEstimate.of(rows, variance, values * values + 2 * slope0, 2 * slope1)
    root = math.sqrt(variance)
    if term.slopes.size == 1:
        return Normal(math.copysign(root, float(term.slopes[0])), total.law_se / (2 * root), degrees=rows.degrees)
    return Square(root, total.law_se / (2 * root), False, rows.degrees)


def _term_variance(scores: Scores, term: OutputTerm) -> float:
    """Return Var0(T)."""
    return max(float(term.slopes @ scores.covariance0 @ term.slopes), 0.0)


def check_descent(scores: Scores) -> None:
    """Raise where T is constant for more than two outcomes: Var0(T) then has no first derivative, hence no interval."""
    if scores.mean0.size > 1 and _term_variance(scores, output_term(scores)) <= SMALLEST_SHARE**2:
        raise SupportError(
            "The descent rate is 0 and has no interval: the outputs' divergence is the same for all audited people.",
            "set `input_weight` above 0.",
        )


def output_descent_rate(rows: Rows, scores: Scores, weight: float) -> HasInterval:
    """Return Δ = −λ4·|k|·sd0(W), the descent rate for λ2 = 0, with an interval for two outcomes."""
    root = output_descent(rows, scores)
    return Descent(root, weight) if isinstance(root, Normal) else root


def _flat_se(rows: Rows, scores: Scores, term: OutputTerm) -> float:
    """Return sd0(W)·se(k), the standard error of k·sd0(W) at k = 0."""
    w = scores.column
    # At k = 0 the error of sd0(W) is multiplied by 0.
    k = InfluenceEstimate.of(rows, 0.0, w * term.inv_variance0[0], -w * term.inv_variance1[0])
    return k.se * math.sqrt(float(scores.covariance0[0, 0]))


@dataclass(frozen=True, slots=True)
class EqualGapsTest:
    """The test of equal gaps: Cochran's Q if they are independent, χ² with `degrees` of freedom."""

    statistic: float
    degrees: int
    p_value: float


def equal_gaps_test(gaps: Sequence[InfluenceEstimate]) -> EqualGapsTest | None:
    """Return the Wald test that several gaps are equal: (Cg)ᵀ(CVCᵀ)⁻¹(Cg), C their differences from the first.

    None where there are too few clusters to estimate V.
    """
    contrast = np.hstack([-np.ones((len(gaps) - 1, 1)), np.eye(len(gaps) - 1)])
    # Influences have Student's factor, which F has too.
    influence = np.column_stack([gap.influence / student_factor(gap.degrees) for gap in gaps])
    moved = contrast @ np.array([gap.value for gap in gaps])
    covariance = influence.T @ influence
    degrees = _joint_degrees(influence, contrast, np.array([gap.degrees for gap in gaps]))
    test = _wald_test(moved, contrast @ covariance @ contrast.T, degrees)
    return None if test is None else EqualGapsTest(test[0], len(moved), test[1])


def _joint_degrees(influence: Floats, contrast: Floats, degrees: Floats) -> float:
    """Return ν of the Wishart law that varies as much as the covariance matrix of contrasts of several estimators.

    p(p + 1)/ν = Σ_c [tr(Ω_c)² + tr(Ω_c²)], Ω_c the part of cluster c in that matrix, in units of it. A cluster has the
    same part of the errors of each estimator that it enters.
    """
    if np.isinf(degrees).any():
        return math.inf
    covariance, present = influence.T @ influence, np.abs(influence) > PRESENT * np.abs(influence).max(axis=0)
    inverse = contrast.T @ np.linalg.pinv(contrast @ covariance @ contrast.T, hermitian=True) @ contrast
    part = 1.0 / np.sqrt(present.sum(axis=0) * degrees)  # Σ part² = 1/ν of an estimator
    total = 0.0
    for pattern, count in zip(*np.unique(present, axis=0, return_counts=True), strict=True):
        root = np.sqrt(part[pattern])
        omega = inverse[np.ix_(pattern, pattern)] @ (covariance[np.ix_(pattern, pattern)] * np.outer(root, root))
        total += count * float(np.trace(omega) ** 2 + (omega * omega.T).sum())
    count = len(contrast)
    return max(count * (count + 1) / total if total > 0.0 else 0.0, float(degrees.min()))


def _wald_test(difference: Floats, covariance: Floats, degrees: float) -> tuple[float, float] | None:
    """Return dᵀV⁻¹d and its p-value: of χ² or, for V from few clusters, of Hotelling's T²; None for too few of them."""
    count = len(difference)
    # Where every decision is the same there is no error: a trace of one keeps V invertible.
    ridge = (1e-12 * np.trace(covariance) + 1e-300) * np.eye(count)
    statistic = float(difference @ np.linalg.solve(covariance + ridge, difference))
    if math.isinf(degrees):
        return statistic, float(chdtrc(count, statistic))
    rest = degrees - count + 1.0
    return None if rest < 1.0 else (statistic, float(fdtrc(count, rest, statistic * rest / (count * degrees))))


@dataclass(frozen=True, slots=True)
class EqualOutputsTest:
    """The studentised test of Y0 = Y1; `permutations` is 0 where the normal limit was used."""

    statistic: float
    p_value: float
    permutations: int


def equal_outputs_test(rows: Rows, scores: Scores, permutations: int = 1_999, seed: int = 0) -> EqualOutputsTest | None:
    """Return the permutation test of the studentised statistic dᵀ(V0/n0 + V1/n1)⁻¹d, d = E0[W] − E1[W].

    Studentising keeps its size when the groups' spreads differ. Rows are sorted first, so their order has no effect.
    None where there are too few clusters for the number of outcomes.
    """
    is_clustered = rows.clusters is not None  # dependent rows are not exchangeable
    if is_clustered or rows.is_sample or rows.audited.size > PERMUTED_ROWS or permutations == 0:
        # The limit of the permutation law: χ² with K − 1 degrees of freedom for K outcomes.
        several = range(scores.values.shape[1] - 1) or (1,)
        gaps = [gap(rows, scores.outcome(y)) for y in several]
        covariance = covariances(gaps) / student_factor(rows.degrees) ** 2
        test = _wald_test(np.array([estimate.value for estimate in gaps]), covariance, rows.degrees)
        return None if test is None else EqualOutputsTest(*test, permutations=0)
    outcomes = scores.values if scores.values.shape[1] == 1 else scores.values[:, :-1]
    # Permutations are drawn by position, so rows are put in an order that depends on their contents only.
    order = np.lexsort([*outcomes.T, rows.weights, rows.audited])
    outcomes, weights, labels = outcomes[order], rows.weights[order], rows.audited[order]
    observed = _studentised(labels[None, :], outcomes, weights)[0]
    generator, beyond = np.random.default_rng(seed), 0
    for start in range(0, permutations, 100):
        size = min(100, permutations - start)
        shuffled = generator.permuted(np.broadcast_to(labels, (size, labels.size)), axis=1)
        # Ties within rounding are beyond: the p-value must not depend on the last digit.
        beyond += int((_studentised(shuffled, outcomes, weights) >= observed * (1 - 1e-12)).sum())
    # The labels as observed are one of the permutations (10).
    return EqualOutputsTest(float(observed), (1 + beyond) / (1 + permutations), permutations)


def _studentised(labels: Booleans, outcomes: Floats, weights: Floats) -> Floats:
    """Return the Wald statistic of each row of `labels`, an (m, n) matrix of group labels."""
    count = outcomes.shape[1]
    centred = outcomes - outcomes.mean(axis=0)
    # Means and covariances of a group are functions of sums, so one product serves all permutations.
    squares = (centred[:, :, None] * centred[:, None, :]).reshape(len(outcomes), -1)
    w = weights[:, None]
    columns = np.hstack([w, w * centred, w**2, w**2 * centred, w**2 * squares])
    inside = labels.astype(np.float64) @ columns
    mean0, covariance0 = _mean_and_covariance(inside, count)
    mean1, covariance1 = _mean_and_covariance(columns.sum(axis=0) - inside, count)
    covariance = covariance0 + covariance1
    covariance += (1e-12 * np.trace(covariance, axis1=1, axis2=2) + 1e-300)[:, None, None] * np.eye(count)
    difference = mean0 - mean1
    solved = np.linalg.solve(covariance, difference[:, :, None])[:, :, 0]
    return np.asarray((difference * solved).sum(axis=1))


def _mean_and_covariance(sums: Floats, count: int) -> tuple[Floats, Floats]:
    """Return Σwx/Σw and Σw²(x−m)(x−m)ᵀ/(Σw)² from the sums of (w, wx, w², w²x, w²xxᵀ)."""
    total, first, weight2, first2, second2 = np.split(sums, np.cumsum([1, count, 1, count]), axis=1)
    mean = first / total
    cross = mean[:, :, None] * first2[:, None, :]
    outer = mean[:, :, None] * mean[:, None, :] * weight2[:, :, None]
    covariance = second2.reshape(-1, count, count) - cross - cross.transpose(0, 2, 1) + outer
    return mean, covariance / total[:, :, None] ** 2


def shares_below(shares: Floats) -> Floats:
    """Return for each of the values in order the share below it plus half of its own share."""
    return np.asarray(np.cumsum(shares) - 0.5 * shares)
