"""Use of a feature: how far the score moves with it among people of one group who are equal in all other features.

With μ_A = E[W | S̄, X_A] and P̄ the population in which each group has half of the weight,

    U_j = E_P̄[(W − μ_{−j})²] − E_P̄[(W − μ_all)²],      use(j) = 2·√U_j.

No score that ignores the feature is nearer to W than μ_{−j}, and its gap differs by at most use(j) from that of W.
Where use(j) is within the materiality threshold, use of the feature accounts for nothing material. Both squares are
products of the residuals of two independent fits, so that the noise of the fits has no part in them. See
docs/methods.md, section 5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from tiltlens.estimators.influence import Integers, Rows, sums_by
from tiltlens.estimators.sets import SetCoefficients, covariance, degrees_of_freedom
from tiltlens.paper.checks import Floats


class Use(NamedTuple):
    """Use(j) with its interval; the lower end is 0 where the feature may be unused, and `high` then one-sided."""

    value: float
    low: float
    high: float


UNUSED = Use(0.0, 0.0, 0.0)


def mean_products(at: Rows, products: Floats) -> Floats:
    """Return E_P̄ of products (pairings, n, sets) of each set, averaged over the pairings."""
    return np.asarray(_means(at, products).mean(axis=0))


def _means(at: Rows, products: Floats) -> Floats:
    omega = 0.5 * (at.audited_share + at.reference_share)
    return np.asarray(np.einsum("n,pns->ps", omega, products))


def squared_uses(at: Rows, products: Floats) -> SetCoefficients:
    """Return U of sets of features.

    `products` are (W − a)(W − b) of each row, by regressions a and b on all features, then on all but each set,
    (pairings, n, 1 + sets).
    """
    gains = products[:, :, 1:] - products[:, :, :1]
    means = _means(at, gains)
    values = means.mean(axis=0)
    return SetCoefficients(values, at.influences(0.5 * gains.mean(axis=0)), means - values)


def uses(squared: SetCoefficients, confidence: float, missed: float = 0.0, m: float = 0.0) -> list[Use]:
    """Return use and its interval: two-sided where U is surely above 0, else from 0 to a one-sided upper end.

    Of a feature that is used more than `m`, the upper end holds the mean square that the regressions `missed`: all of
    it may be use of the feature.
    """
    errors = covariance(squared.influence, squared.between)
    se = np.sqrt(np.maximum(np.diag(errors), 0.0))
    degrees = degrees_of_freedom(squared.influence, squared.between, errors)
    two, one = (stdtrit(degrees, chance) for chance in (0.5 + 0.5 * confidence, confidence))
    found = []
    for u, e, t2, t1 in zip(squared.values.tolist(), se.tolist(), two.tolist(), one.tolist(), strict=True):
        is_used = u - t2 * e > 0.0
        low, high = (u - t2 * e, u + t2 * e) if is_used else (0.0, u + t1 * e)
        high += missed if is_used and high > 0.25 * m**2 else 0.0
        found.append(Use(*(2.0 * math.sqrt(max(square, 0.0)) for square in (u, low, high))))
    return found


def cell_products(at: Rows, outcome: Floats, codes: list[Integers]) -> tuple[Floats, float]:
    """Return (W − a)(W − b) of each row for cells of joint values within its group, (1, n, sets), and who has no equal.

    `codes` are those of all features, then of all but each set. a is the mean of the cell, b that of its other rows, or
    of those of other clusters. People with none in the cells of all features have no product: their share is returned.
    """
    share = at.audited_share + at.reference_share
    own = np.arange(share.size) if at.clusters is None else at.clusters
    found, alone = [], np.zeros(share.size, dtype=np.bool_)
    for place, code in enumerate(codes):
        cell = 2 * code + at.audited
        mine = np.unique(np.column_stack([cell, own]), axis=0, return_inverse=True)[1].reshape(-1)
        total, first = (sums_by(cell, column)[cell] for column in (share, share * outcome))
        other, rest = (
            whole - sums_by(mine, column)[mine] for whole, column in ((total, share), (first, share * outcome))
        )
        if place == 0:
            alone = other <= 1e-9 * total
        means = np.divide(rest, other, out=np.zeros_like(rest), where=~alone)
        found.append(np.where(alone, 0.0, (outcome - first / total) * (outcome - means)))
    return np.column_stack(found)[None], float(0.5 * share[alone].sum())
