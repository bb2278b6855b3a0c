"""Use of features by the scores, and shares of the correction at every (λ2, λ4) at once.

Use of a feature: how far the score moves with it among people of one group who are equal in all other features.

With μ_A = E[W | S̄, X_A] and P̄ the population in which each group has half of the weight,

    U_j = E_P̄[(W − μ_{−j})²] − E_P̄[(W − μ_all)²],      use(j) = 2·√U_j.

No score that ignores the feature is nearer to W than μ_{−j}, and its gap differs by at most use(j) from that of W.
Where use(j) is within the materiality threshold, use of the feature accounts for nothing material.

Two estimators are implemented. `estimate_uses` takes the difference of both squares, each a product of the residuals of
two independent fits, so that the noise of the fits cancels. `judge_projections` needs no fit that includes the feature:
it projects the residuals of a fit without it onto columns of the feature. See docs/methods.md, section 5.

Shares of the correction at every (λ2, λ4) at once.

g = λ2·ℓ + λ4·T is linear in the two weights, so the estimators of Var0(g) and Var0(E0[g|X_j]) and their influence
functions are quadratic in them: three corners of the dial determine every share on it, with its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, chndtrinc, stdtrit

from tiltlens._estimators.estimate import Ratio
from tiltlens._estimators.influence import InfluenceEstimate, Integers, Rows, combine, covariances, ratio_tail, sums_by
from tiltlens._estimators.sets import SetCoefficients, covariance, degrees_of_freedom
from tiltlens._limits import CLEAR_USE, WIDE_USE
from tiltlens.paper.checks import Floats

DISTINCT_VARIANCE = 1e-3  # variance of a standardised column given all other features, below which it counts as a copy
FEWEST_PROJECTED = 50  # effective rows that a column must rest on for its covariance with residuals to be normal


class Use(NamedTuple):
    """Use(j) with its interval; the lower end is 0 where the feature may be unused, and `high` then one-sided."""

    value: float
    low: float
    high: float


UNUSED = Use(0.0, 0.0, 0.0)


def mean_products(at: Rows, products: Floats) -> Floats:
    """Return E_P̄ of products (pairings, n, sets) for each set, averaged over the pairings."""
    return np.asarray(_pairing_means(at, products).mean(axis=0))


def _pairing_means(at: Rows, products: Floats) -> Floats:
    return np.asarray(np.einsum("n,pns->ps", at.balanced_weights, products))


def squared_uses(at: Rows, products: Floats) -> SetCoefficients:
    """Return U of sets of features.

    `products` are (W − a)(W − b) for each row, by regressions a and b on all features, then on all but each set,
    (pairings, n, 1 + sets).
    """
    # U as a mean of products of independent fits, whose variance is left out; the rows are its influence.
    gains = products[:, :, 1:] - products[:, :, :1]
    means = _pairing_means(at, gains)
    values = means.mean(axis=0)
    return SetCoefficients(values, at.influences(0.5 * gains.mean(axis=0)), means - values)


def estimate_uses(
    squared: SetCoefficients, confidence: float, residual_square: float = 0.0, materiality: float = 0.0
) -> list[Use]:
    """Return use and its interval: two-sided where U is significantly above 0, else from 0 to a one-sided upper end.

    Parameters
    ----------
    residual_square
        Mean squared residual of the regressions. All of it may be use of a feature that is used more than
        `materiality`, so the upper end includes it.
    """
    errors = covariance(squared.influence, squared.between)
    standard_errors = np.sqrt(np.maximum(np.diag(errors), 0.0))
    degrees = degrees_of_freedom(squared.influence, squared.between, errors)
    two_sided, one_sided = (stdtrit(degrees, chance) for chance in (0.5 + 0.5 * confidence, confidence))
    estimates = []
    for u, se, t_two, t_one in zip(squared.values, standard_errors, two_sided, one_sided, strict=True):
        is_used = u - t_two * se > 0.0
        # At U = 0 the influence vanishes: the one-sided end is then too high, that is conservative.
        low, high = (u - t_two * se, u + t_two * se) if is_used else (0.0, u + t_one * se)
        high += residual_square if is_used and high > 0.25 * materiality**2 else 0.0
        estimates.append(_use(u, low, high))
    return estimates


def _use(value: float, low: float, high: float) -> Use:
    return Use(*(2.0 * math.sqrt(max(float(square), 0.0)) for square in (value, low, high)))


@dataclass(frozen=True, slots=True)
class Projection:
    """The mean square |θ|² of residuals along columns of a feature, at most U of the feature."""

    # |θ̂|², θ̂ the covariances of the residuals with orthonormal columns, with the covariance matrix K
    square: float = 0.0
    # Satterthwaite's: |θ̂|²/noise is χ² with `degrees` degrees of freedom and noncentrality |θ|²/noise
    noise: float = 0.0
    degrees: float = 1.0
    wald: float = 0.0  # θ̂ᵀK⁻¹θ̂, which is χ² with one degree of freedom per direction where the feature is unused
    # The number of columns, and the smallest eigenvalue of K
    directions: int = 1
    least_noise: float = 0.0
    tried: int = 1  # the number of columns of which this is the strongest, where it is one
    is_blind: bool = False  # whether columns vary, but rest on so few rows that nothing was projected

    @property
    def value(self) -> float:
        """The estimate of |θ|², corrected for the bias from noise."""
        return self.square - self.noise * self.degrees

    def low(self, chance: float) -> float:
        """Return the lower bound of |θ|² that is too high with probability `chance`; 0 where it may be 0."""
        surely = self.least_noise * _noncentrality(self.wald, self.directions, 1.0 - chance / self.tried)
        return max(surely, self._bound(1.0 - chance)) if surely > 0.0 else 0.0

    def high(self, chance: float) -> float:
        """Return the upper bound of |θ|² that is too low with probability `chance`."""
        return self._bound(chance)

    def expected_high(self, chance: float) -> float:
        """Return the value that the upper bound of an unused feature exceeds with probability `chance`."""
        return self.noise * _noncentrality(float(chdtri(self.degrees, chance / self.tried)), self.degrees, chance)

    def _bound(self, chance: float) -> float:
        return self.noise * _noncentrality(self.square / self.noise, self.degrees, chance) if self.noise > 0.0 else 0.0


def _noncentrality(square: float, degrees: float, chance: float) -> float:
    """Return the noncentrality at which χ² is below `square` with probability `chance`; 0 where there is none."""
    return float(chndtrinc(square, degrees, chance)) if square > chdtri(degrees, 1.0 - chance) else 0.0


def project_residuals(at: Rows, residuals: Floats, columns: Floats) -> Projection:
    """Project residuals onto columns of a feature.

    Residuals are W − T for any function T of the group and the other features that was fitted on other rows. Columns
    have mean 0 given the group and the other features. T then drops out of the expected covariances. Directions that
    hardly vary or that rest on few rows are left out.
    """
    weights = at.balanced_weights
    # (15a): θ̂ = Σω·R·φ̃ and K = Σω²R²φ̃φ̃ᵀ.
    orthonormal = orthonormalise(weights, columns)
    leverage = weights[:, None] * orthonormal**2
    rests_on_many = (leverage**2).sum(axis=0) < 1.0 / FEWEST_PROJECTED
    terms = (weights * residuals)[:, None] * orthonormal[:, rests_on_many]
    if at.clusters is not None and terms.size:
        terms = np.column_stack([sums_by(at.clusters, term) for term in terms.T])
    covariances, gram = terms.sum(axis=0), terms.T @ terms
    noises, axes = np.linalg.eigh(gram)
    if not noises.size or noises[0] <= 0.0:
        return Projection(is_blind=bool(rests_on_many.size) and not rests_on_many.any())
    rows, count = terms.shape
    # K is estimated from as many rows: without the factor the test of many columns rejects too often.
    wald = max(1.0 - count / rows, 0.0) * float(((covariances @ axes) ** 2 / noises).sum())
    # Satterthwaite: tr K²/tr K and (tr K)²/tr K² match mean and variance of |θ̂ − θ|².
    noise = float((noises**2).sum() / noises.sum())
    square = float(covariances @ covariances)
    return Projection(square, noise, float(noises.sum()) / noise, wald, count, float(noises[0]))


def strongest_projection(at: Rows, residuals: Floats, columns: Floats) -> Projection:
    """Project residuals onto the column with the most significant covariance.

    Use confined to few people shows up in one of many columns, but is lost in a test with many degrees of freedom.
    """
    single = [project_residuals(at, residuals, column[:, None]) for column in columns.T]
    return replace(max(single, key=lambda projection: projection.wald), tried=len(single))


def orthonormalise(weights: Floats, columns: Floats) -> Floats:
    """Return the directions of columns that vary, with mean 0, variance 1 and no covariance."""
    centred = columns - weights @ columns
    variances, directions = np.linalg.eigh(centred.T @ (weights[:, None] * centred))
    is_distinct = variances > DISTINCT_VARIANCE
    return np.asarray(centred @ (directions[:, is_distinct] / np.sqrt(variances[is_distinct])))


def judge_projections(
    lines: Projection,
    others: Sequence[Projection],
    whole: Projection,
    residual_square: float,
    confidence: float,
    materiality: float,
) -> Use:
    """Return the use of a feature from projections onto its lines and onto other columns.

    A feature is used if one of the projections is significantly above 0. Its use is then the largest of all of them,
    and if it may exceed the threshold, the upper end includes all residual variance. Otherwise the upper end is that of
    the lines, or a larger one of another projection: one whose upper end would stay within the threshold for an unused
    feature, or one beyond twice the threshold. If all columns rest on too few rows, the upper end is the whole residual
    variance.
    """
    if whole.is_blind:
        return _use(0.0, 0.0, residual_square)
    every, limit = (lines, *others), 0.25 * materiality**2
    # Bonferroni: none of the tests may be significant for a stand-in.
    chance = 0.5 * (1.0 - confidence) / len(every)
    low = max(projection.low(chance) for projection in every)
    if low > 0.0:
        value, high = (max(sizes) for sizes in zip(*((p.value, p.high(chance)) for p in (*every, whole)), strict=True))
        return _use(max(low, value), low, max(high, residual_square) if high > limit else high)
    chosen, chance = lines, 1.0 - confidence
    for projection in others:
        least = 0.0 if projection.expected_high(chance) <= limit else WIDE_USE**2 * limit
        if projection.high(chance) > max(chosen.high(chance), least):
            chosen = projection
    return _use(chosen.value, 0.0, chosen.high(chance))


def widen_use(use: Use, learnt: Projection, residual_square: float, confidence: float, materiality: float) -> Use:
    """Return a use that seemed immaterial, widened if a projection onto a fitted column contradicts it.

    The column is fitted to the residuals, and a little of it may be due to other features. It therefore never shows
    that a feature is used, only that all residual variance may be use of it: if its upper end is beyond the threshold
    and the projection is clear, or if it is beyond twice the threshold.
    """
    chance, limit = 1.0 - confidence, 0.25 * materiality**2
    high = learnt.high(chance)
    if high <= (limit if learnt.low(1.0 - CLEAR_USE) > 0.0 else WIDE_USE**2 * limit):
        return use
    return _use(max(0.25 * use.value**2, learnt.value), 0.25 * use.low**2, max(high, residual_square))


def cell_products(at: Rows, outcome: Floats, codes: list[Integers]) -> tuple[Floats, float]:
    """Return (W − a)(W − b) of each row by cells of joint values and group, (1, n, sets), and the share without equals.

    `codes` are those of all features, then of all but each set. a is the mean of the cell, b that of its other rows, or
    of those of other clusters. People who are alone in a cell of all features get the product 0 and form that share.
    """
    share = at.audited_share + at.reference_share
    clusters = np.arange(share.size) if at.clusters is None else at.clusters
    products, is_alone = [], np.zeros(share.size, dtype=np.bool_)
    for number, code in enumerate(codes):
        cell = 2 * code + at.audited
        own = np.unique(np.column_stack([cell, clusters]), axis=0, return_inverse=True)[1].reshape(-1)
        total, first = (sums_by(cell, column)[cell] for column in (share, share * outcome))
        other, rest = (
            whole - sums_by(own, column)[own] for whole, column in ((total, share), (first, share * outcome))
        )
        if number == 0:
            is_alone = other <= 1e-9 * total
        means = np.divide(rest, other, out=np.zeros_like(rest), where=~is_alone)
        products.append(np.where(is_alone, 0.0, (outcome - first / total) * (outcome - means)))
    return np.column_stack(products)[None], float(0.5 * share[is_alone].sum())


CORNERS = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class ShareForm:
    """θ/ψ, both λ2²·c1 + λ2λ4·c2 + λ4²·c3, with the covariance of the six coefficients (c1, c2, c3 of θ, then of ψ)."""

    numerator: Floats
    denominator: Floats
    covariance: Floats

    def at(self, input_weight: float, output_weight: float) -> Ratio:
        """Return the share at (λ2, λ4)."""
        powers = np.array([input_weight**2, input_weight * output_weight, output_weight**2])
        variances = [[float(powers @ block @ powers) for block in row] for row in self._blocks()]
        return Ratio(
            float(powers @ self.numerator),
            float(powers @ self.denominator),
            max(variances[0][0], 0.0),
            variances[0][1],
            max(variances[1][1], 0.0),
        )

    def _blocks(self) -> list[list[Floats]]:
        c = self.covariance
        return [[c[:3, :3], c[:3, 3:]], [c[3:, :3], c[3:, 3:]]]


def share_form(numerators: Sequence[InfluenceEstimate], denominators: Sequence[InfluenceEstimate]) -> ShareForm:
    """Return the share as a form, from numerator and denominator at the three `CORNERS`.

    The heavy-tail factor of the last corner is used at every position, so that the covariance stays a quadratic form.
    """
    six = [*_coefficients(numerators), *_coefficients(denominators)]
    values = np.array([estimate.value for estimate in six])
    # A factor that changed with the position would make the covariance no longer a form.
    tail = ratio_tail(numerators[-1], denominators[-1])
    return ShareForm(values[:3], values[3:], tail**2 * covariances(six))


def shares_along_dial(
    forms: Mapping[str, ShareForm], positions: Sequence[float], confidence: float | None
) -> list[tuple[float, str, float, float | None, float | None]]:
    """Return position, feature, share and interval for each position t of the dial, λ = (1 − t, t), and each feature.

    A share that is not determined has the interval [0, 1]; without a `confidence` there are no intervals.
    """
    shares = []
    for name, form in forms.items():
        for position in positions:
            ratio = form.at(1.0 - position, position)
            share = ratio.estimate(0.95 if confidence is None else confidence)
            ends = (share.low, share.high) if confidence is not None else (None, None)
            shares.append((float(position), name, share.value, *ends))
    return shares


def plug_in_form(between: Floats, covariance: Floats, slopes: Floats) -> ShareForm:
    """Return the share from Cov0(E0[z|X_j]) and Cov0(z), z = (ℓ, W_1, …), taken as known; T = Σ `slopes`_y·W_y."""
    return ShareForm(_quadratic(between, slopes), _quadratic(covariance, slopes), np.zeros((6, 6)))


def _quadratic(covariance: Floats, slopes: Floats) -> Floats:
    """Return Var(λ2·ℓ + λ4·T) as the coefficients of λ2², λ2λ4 and λ4²."""
    on_both = 2.0 * (covariance[0, 1:] @ slopes)
    return np.array([covariance[0, 0], on_both, slopes @ covariance[1:, 1:] @ slopes])


def _coefficients(
    corners: Sequence[InfluenceEstimate],
) -> tuple[InfluenceEstimate, InfluenceEstimate, InfluenceEstimate]:
    """Return c1, c2, c3 from the values at (1, 0), (0, 1), (1, 1)."""
    inputs, outputs, both = corners
    # (33) holds for estimates and for their influences, as every term is of degree two.
    mixed = combine(both.value - inputs.value - outputs.value, [(1.0, both), (-1.0, inputs), (-1.0, outputs)])
    return inputs, mixed, outputs
