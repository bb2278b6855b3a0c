"""Features that carry more of the correction together than alone, and features that are copies of each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from tiltlens.estimators import crossfit
from tiltlens.estimators.influence import Integers, Rows
from tiltlens.rows.features import Feature

SYNERGY = 0.02  # of the correction, that two features carry together and not alone
PARTNER_SURE = 4.0  # standard errors; many pairs are looked at
REDUNDANT = 1.02  # times what one of two copies carries, at most, is what both carry


class Partners(NamedTuple):
    """The feature with which another carries most beyond what both carry alone, and its duplicate."""

    partner: str | None = None
    redundant_with: str | None = None


def partners(
    features: Sequence[Feature], rows: Rows, g: crossfit.Gradient, codes: Sequence[Integers]
) -> dict[str, Partners]:
    """Return the partner and the duplicate of each feature, from two-way tables of g."""
    total = max(crossfit.gradient_variance(rows, [g]).value, 1e-300)
    alone = [_explained(rows, g, code) / total for code in codes]
    related, best = {feature.name: Partners() for feature in features}, [0.0] * len(features)
    for j, k in combinations(range(len(features)), 2):
        width = int(codes[k].max()) + 1
        both = _explained(rows, g, codes[j] * width + codes[k]) / total
        # θ of two features together beyond the sum of both: 0 if g is additive and they are independent.
        synergy, less = both - alone[j] - alone[k], min(alone[j], alone[k])
        noise = _synergy_noise(rows, int(codes[j].max()) * (width - 1), alone[j] * alone[k])
        for first, other in ((j, k), (k, j)):
            name, partner = features[first].name, features[other].name
            if synergy > max(SYNERGY, PARTNER_SURE * noise, best[first]):
                best[first], related[name] = synergy, related[name]._replace(partner=partner)
            if less > SYNERGY and both < REDUNDANT * less:
                related[name] = related[name]._replace(redundant_with=partner)
    return related


def _explained(rows: Rows, g: crossfit.Gradient, codes: Integers) -> float:
    """Return Var0(E0[g|cell])."""
    return max(crossfit.explained_variance(rows, g, codes).value, 0.0)


def _synergy_noise(rows: Rows, degrees: int, product: float) -> float:
    """Return √(2·df/n0² + 4·share·share/n0), how far two features that do not work together stray from no synergy.

    `degrees` are df, the product of their numbers of levels less one; the second part is the chance correlation of what
    each carries alone, `product` being that of their shares.
    """
    spread = rows.square0
    return math.sqrt(2 * degrees * spread**2 + 4 * product * spread)
