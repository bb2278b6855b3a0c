"""Prices and observed costs: proxy discrimination, unfairness, proxy vulnerability, the discrimination-free price.

A price π(x) is compared with the expected costs μ_d(x) = E[Y | x, D = d] of the two groups. Means are over all rows,
with their weights (exposure). See docs/methods.md, section 23.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from scipy.special import xlogy

from tiltlens._estimators.estimate import Estimate, Square
from tiltlens._estimators.influence import Booleans, InfluenceEstimate, Integers, combine, log_quotient, overall_mean
from tiltlens._estimators.sets import TargetErrors
from tiltlens.paper.checks import Floats

AUDITED, REFERENCE = 0, 1  # positions of the groups in arrays


@dataclass(frozen=True, slots=True, eq=False)
class CostRows:
    """Rows with a price π(x), an observed cost Y and exposure as weights; rows of one cluster are dependent."""

    price: Floats
    cost: Floats
    weights: Floats
    audited: Booleans
    clusters: Integers | None = field(default=None, kw_only=True)

    @property
    def share(self) -> float:
        """The audited group's share q of all rows."""
        return float(self.weights[self.audited].sum() / self.weights.sum())

    def has_errors(self, chosen: Floats | Booleans) -> bool:
        """Return whether some rows are of several clusters, or of none."""
        return self.clusters is None or np.unique(self.clusters[np.asarray(chosen, dtype=np.float64) > 0.0]).size > 1

    @property
    def in_group(self) -> Floats:
        """1[D = d] of each row, (2, n)."""
        return np.array([self.audited, ~self.audited], dtype=np.float64)

    def mean(self, x: Floats) -> InfluenceEstimate:
        """Return the mean of a column over all rows."""
        return overall_mean(self.weights, x, self.clusters, self.audited)

    def mean_of(self, x: Floats, chosen: Floats | Booleans) -> InfluenceEstimate:
        """Return E[x | chosen], the mean of a column over some rows, IF = [chosen]/P(chosen)·(x − E[x | chosen])."""
        return overall_mean(self.weights * chosen, x, self.clusters, self.audited)

    def centred(self, x: Floats) -> Floats:
        """Return columns minus their weighted means."""
        return np.asarray(x - (x @ self.weights / self.weights.sum())[..., None])


@dataclass(frozen=True, slots=True, eq=False)
class PricedRows(CostRows):
    """Rows with a price, an observed cost, and expected costs and propensities from two independent fits."""

    costs: Floats  # μ_d(x), cross-fitted twice: (2 fits, 2 groups, n)
    propensity: Floats  # P(audited | x), cross-fitted twice: (2 fits, n)
    # μ_d(x) by the same fits, shrunk by a regression of held-out costs, (2 groups, n): less noise, some bias. They only
    # determine the sign of the vulnerability.
    steady: Floats
    fold: Integers  # rows of one cluster share a fold

    @property
    def corrections(self) -> Floats:
        """1[D = d]/P(d | x)·(Y − μ_d(x)), which makes a mean of μ_d insensitive to errors of its fit, (2, 2, n)."""
        chance = np.stack([self.propensity, 1.0 - self.propensity], axis=1)
        return np.asarray(self.in_group * (self.cost - self.costs) / chance)

    @property
    def effects(self) -> Floats:
        """τ(x) = μ_audited(x) − μ_reference(x) by each fit, (2, n)."""
        return np.asarray(self.costs[:, AUDITED] - self.costs[:, REFERENCE])

    @property
    def lean(self) -> Floats:
        """P(audited | x)/q − P(reference | x)/(1 − q), by the mean of both fits: the gap of h(x) is E[lean·h]."""
        chance, q = self.propensity.mean(axis=0), self.share
        return np.asarray(chance / q - (1.0 - chance) / (1.0 - q))

    @property
    def free_price(self) -> Floats:
        """The discrimination-free price h*(x) = Σ_d P(d)·μ_d(x), the mean of both fits."""
        mixed = self.share * self.costs[:, AUDITED] + (1.0 - self.share) * self.costs[:, REFERENCE]
        return np.asarray(mixed.mean(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class ProxyDiscrimination:
    """PD = min over c, v ≥ 0, Σv ≤ 1 of E[(π − c − Σ_d v_d·μ_d)²]/Var(π), with its minimiser.

    It is 0 if and only if the price is a constant plus a fixed mixture of the groups' expected costs.

    Attributes
    ----------
    mixture
        The minimiser v of the corrected moments of all rows.
    moments
        Var(π), E[π·μ_a], E[μ_a·μ_b] of centred columns, of which the distance at any mixture is a linear function.
    crossed
        The distance with the mixture of each fold chosen on the rows of the other folds.
    local
        Λ(x) = π − c − Σ v_d·μ_d of each row, in money.
    directions, errors
        The free directions of v, (k, 2); and the influence of each row on v along them, (n, k).
    """

    mixture: Floats
    moments: tuple[InfluenceEstimate, ...]
    crossed: InfluenceEstimate
    local: Floats
    directions: Floats
    errors: Floats

    @property
    def variance(self) -> InfluenceEstimate:
        """Var(π)."""
        return self.moments[0]

    def distance(self, mixture: Floats) -> InfluenceEstimate:
        """Return E[(π − c − Σ_d v_d·μ_d)²] at a mixture."""
        weights = _distance_weights(mixture)
        return combine(
            float(sum(w * part.value for w, part in zip(weights, self.moments, strict=True))),
            list(zip(weights.tolist(), self.moments, strict=True)),
        )

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return PD halfway between the distance at the best mixture of these rows and at mixtures chosen on others.

        The first is biased downwards, because its minimiser fits the noise of the moments; the second upwards, because
        mixtures chosen on other rows are not optimal. The lower end is that of the first, the upper that of the second.
        """
        if self.variance.value <= 0.0:
            return Estimate(0.0, 0.0, 1.0)
        crossed = self.crossed.over(self.variance).estimate(confidence)
        inside = self.distance(self.mixture).over(self.variance).estimate(confidence)
        value, high = 0.5 * (crossed.value + inside.value), crossed.high or 0.0
        return Estimate(value, min(inside.low or 0.0, value), max(high, value))


def _distance_weights(v: Floats) -> Floats:
    """Return the weights of the moments in the distance at a mixture."""
    return np.array([1.0, -2.0 * v[0], -2.0 * v[1], v[0] ** 2, 2.0 * v[0] * v[1], v[1] ** 2])


def proxy_discrimination(rows: PricedRows) -> ProxyDiscrimination:
    """Estimate PD, the distance of the price from the mixtures of the groups' expected costs.

    Every second moment is a product of the two fits, corrected, so that only the product of their errors remains.
    """
    price, costs, corrections = rows.centred(rows.price), rows.centred(rows.costs), rows.corrections
    expected = costs.mean(axis=0)
    with_price, products = price * (expected + corrections.mean(axis=0)), _products(costs, corrections)
    terms = np.array([price**2, *with_price, products[0, 0], products[0, 1], products[1, 1]])
    v = _best_mixture(rows, terms, np.ones(price.size))
    crossed = np.empty(price.size)
    for number in np.unique(rows.fold).tolist():
        own = rows.fold == number
        others = np.ones(price.size) if own.all() else 1.0 - own
        crossed[own] = _distance_weights(_best_mixture(rows, terms, others)) @ terms[:, own]
    moments = tuple(rows.mean(term) for term in terms)
    return ProxyDiscrimination(v, moments, rows.mean(crossed), price - v @ expected, *_mixture_errors(rows, terms, v))


def _mixture_errors(rows: PricedRows, terms: Floats, v: Floats) -> tuple[Floats, Floats]:
    """Return the free directions of a minimiser, and the influence of each row on it along them.

    On the face that contains v, δt = −H⁻¹·E(δA·v − δb), with the directions E that make H = EAE' diagonal. Where the
    distance is nearly flat, the standard error along a direction is at most one half.
    """
    corners = np.vstack([np.zeros(2), np.eye(2)])[np.append(1.0 - v.sum(), v) > 1e-9]
    shares = rows.weights / rows.weights.sum()
    quadratic, _ = _moment_matrices(terms @ shares)
    edges = corners[1:] - corners[0]
    curvature, turn = np.linalg.eigh(edges @ quadratic @ edges.T)
    directions = turn.T @ edges
    _, with_audited, with_reference, first, both, second = shares * rows.centred(terms)
    residuals = np.array([with_audited - first * v[0] - both * v[1], with_reference - both * v[0] - second * v[1]])
    errors = directions @ residuals / np.maximum(curvature, 1e-300)[:, None]
    return directions, errors.T / np.maximum(1.0, 2.0 * np.sqrt((errors**2).sum(axis=1)))


def _moment_matrices(moments: Floats) -> tuple[Floats, Floats]:
    """Return A and b of the distance v'Av − 2b'v + Var(π)."""
    _, with_audited, with_reference, first, both, second = moments.tolist()
    return np.array([[first, both], [both, second]]), np.array([with_audited, with_reference])


def _best_mixture(rows: PricedRows, terms: Floats, chosen: Floats) -> Floats:
    """Return the minimiser of the distance over the `chosen` rows."""
    shares = rows.weights * chosen / (rows.weights @ chosen)
    return nearest_mixture(*_moment_matrices(terms @ shares))


def _products(costs: Floats, corrections: Floats) -> Floats:
    """Return row values with mean E[μ_a·μ_b], products of one fit's μ_a and the other's μ_b, (2, 2, n)."""
    (first, second), (of_first, of_second) = costs, corrections
    # One factor from each fit, in both orders: their errors are independent, and the product has mean 0.
    products = first[:, None] * (second + of_second) + of_first[:, None] * second
    return np.asarray(0.5 * (products + products.swapaxes(0, 1)))


def nearest_mixture(quadratic: Floats, linear: Floats) -> Floats:
    """Return the v ≥ 0 with Σv ≤ 1 that minimises v'Av − 2b'v: the best feasible optimum over all faces."""
    size = len(linear)
    corners = [np.zeros(size), *np.eye(size)]
    candidates: list[Floats] = list(corners)
    for count in range(2, size + 2):
        for face in combinations(corners, count):
            start, edges = face[0], np.array(face[1:]) - face[0]
            inside = edges @ quadratic @ edges.T
            # On each face the optimum without limits; those outside the face lose to an edge or a corner.
            steps = np.linalg.lstsq(inside, edges @ (linear - quadratic @ start), rcond=None)[0]
            if (steps >= 0.0).all() and steps.sum() <= 1.0:
                candidates.append(start + steps @ edges)
    return min(candidates, key=lambda v: float(v @ quadratic @ v - 2.0 * linear @ v))


def local_target(rows: PricedRows, distance: ProxyDiscrimination, halves: Floats) -> tuple[Floats, TargetErrors]:
    """Return Λ corrected for errors of μ_d, whose c_A give the contributions to its gap, and its `TargetErrors`.

    Each group has half of the weight there: `halves` are P(audited | x) at equal shares, (2 fits, n). An error of μ_d
    moves c_A by E[(e(x) − e_A)·v_d·(μ_d − μ̂_d)]/D_A. So the corrections κ must enter with the factor e − e_A, but in
    Λ they enter with S̄ − e_A: for every A, (S̄ − e)·κ is therefore added to r.
    """
    v, balanced = distance.mixture, replace(rows, propensity=halves)
    corrections = np.einsum("d,fdn->fn", v, balanced.corrections)
    apart = ((rows.in_group[AUDITED] - halves) * corrections).mean(axis=0)
    omega = 0.5 * (rows.in_group * rows.weights / (rows.in_group @ rows.weights)[:, None]).sum(axis=0)
    target = rows.price - v @ rows.costs.mean(axis=0) - corrections.mean(axis=0)
    slopes = -(distance.directions @ rows.costs.mean(axis=0)).T
    return target, TargetErrors(apart, float(omega @ apart), slopes, distance.errors)


def unfairness(rows: CostRows, price: Floats) -> Square:
    """Return UF = Var(E[π | D])/Var(π): the squared correlation of the price with the group.

    It is the square of R = gap·√(q(1 − q)/Var(π)), which is normal also where the groups do not differ.
    """
    q, centred = rows.share, rows.centred(price)
    variance = rows.mean(centred**2)
    gap = group_gap(rows, price)
    prevalence = rows.mean(rows.in_group[AUDITED])
    scale = math.sqrt(q * (1.0 - q) / variance.value) if variance.value > 0.0 else 0.0
    root = gap.value * scale
    # Delta method (4) of R in the gap, in q and in Var(π).
    slopes = (scale, root * (1.0 - 2.0 * q) / (2.0 * q * (1.0 - q)), -root / (2.0 * variance.value or 1.0))
    law = combine(root, list(zip(slopes, (gap, prevalence, variance), strict=True)))
    return Square(root, law.law_se, True, law.degrees)


def group_gap(rows: CostRows, x: Floats) -> InfluenceEstimate:
    """Return the audited group's mean minus the reference's."""
    audited, reference = rows.in_group
    return rows.mean_of(x, audited).minus(rows.mean_of(x, reference))


def unaware_price_gap(rows: PricedRows) -> InfluenceEstimate:
    """Return the gap of the unaware price E[Y | x], corrected: its errors enter only times those of the propensity."""
    propensity, expected = rows.propensity.mean(axis=0), rows.costs.mean(axis=0)
    unaware = propensity * expected[AUDITED] + (1.0 - propensity) * expected[REFERENCE]
    plain, fitted = group_gap(rows, unaware), rows.mean(rows.lean * (rows.cost - unaware))
    return combine(plain.value + fitted.value, [(1.0, plain), (1.0, fitted)])


def free_price_gap(rows: PricedRows) -> InfluenceEstimate:
    """Return the gap of the discrimination-free price, with the error of the fits and of the groups' shares."""
    shares = [rows.share, 1.0 - rows.share]
    correction = rows.lean * np.einsum("d,fdn->n", shares, rows.corrections) / len(rows.costs)
    plain, fitted = group_gap(rows, rows.free_price), rows.mean(correction)
    # ∂h*/∂q = μ_audited − μ_reference: the groups' shares are estimated too.
    of_share = group_gap(rows, rows.effects.mean(axis=0)).value
    share = rows.mean(rows.in_group[AUDITED])
    return combine(plain.value + fitted.value, [(1.0, plain), (1.0, fitted), (of_share, share)])


def vulnerability(rows: PricedRows) -> Floats:
    """Return PV(x) = μ_unaware(x) − h*(x) = τ(x)·(P(audited | x) − q): the effect of inferring the group from x."""
    effect = rows.steady[AUDITED] - rows.steady[REFERENCE]
    return np.asarray(effect * (rows.propensity.mean(axis=0) - rows.share))


def mean_vulnerability(rows: PricedRows) -> InfluenceEstimate:
    """Return E|PV|, corrected for the errors of τ and of the propensity."""
    sign = np.sign(vulnerability(rows))
    return _with_share(rows, rows.mean(sign * vulnerability_terms(rows)), sign)


def segment_vulnerability(rows: PricedRows, terms: Floats, chosen: Booleans) -> InfluenceEstimate:
    """Return E[PV] of some rows from the `vulnerability_terms`, corrected for the errors of τ and of the propensity."""
    inside = chosen * (rows.weights.sum() / (rows.weights @ chosen))
    return _with_share(rows, rows.mean_of(terms, chosen), inside)


def _with_share(rows: PricedRows, total: InfluenceEstimate, factor: Floats) -> InfluenceEstimate:
    """Return a mean of PV, with the error of the audited group's share."""
    of_share = -rows.mean(factor * rows.effects.mean(axis=0)).value
    return combine(total.value, [(1.0, total), (of_share, rows.mean(rows.in_group[AUDITED]))])


def vulnerability_terms(rows: PricedRows) -> Floats:
    """Return the corrected PV of each row, with each fit's τ multiplied by the other fit's propensity."""
    q, member = rows.share, rows.in_group[AUDITED]
    of_effects = rows.corrections[:, AUDITED] - rows.corrections[:, REFERENCE]
    terms = [
        effect * (chance - q) + correction * (chance - q) + effect * (member - chance)
        for effect, correction, chance in zip(rows.effects, of_effects, rows.propensity[::-1], strict=True)
    ]
    return np.asarray(np.mean(terms, axis=0))


def actual_to_expected(rows: CostRows, chosen: Booleans) -> InfluenceEstimate | None:
    """Return the log of the cost of some rows divided by their price.

    None where either is not positive, or where one cluster shows no error.
    """
    cost, expected = (rows.mean_of(x, chosen) for x in (rows.cost, rows.price))
    is_defined = cost.value > 0.0 and expected.value > 0.0 and rows.has_errors(chosen)
    return log_quotient(cost, expected) if is_defined else None


def balance_factor(rows: CostRows) -> float:
    """Return the factor k with Σ w·k·π = Σ w·Y."""
    return float(rows.weights @ rows.cost / (rows.weights @ rows.price))


def deviance(rows: CostRows, power: float) -> InfluenceEstimate | None:
    """Return the mean Tweedie deviance: 1 is Poisson, 2 gamma, between them compound Poisson.

    None where it is not defined: for prices that are not positive, negative costs, and in gamma costs of 0.
    """
    y, price = rows.cost, rows.price
    if price.min() <= 0.0 or y.min() < 0.0 or (power >= 2.0 and y.min() <= 0.0):
        return None
    if power == 1.0:
        return rows.mean(2.0 * (xlogy(y, y / price) - y + price))
    if power == 2.0:
        return rows.mean(2.0 * (np.log(price / y) + y / price - 1.0))
    first, second = 1.0 - power, 2.0 - power
    return rows.mean(2.0 * (y**second / (first * second) - y * price**first / first + price**second / second))
