"""The gain from separate models for two groups over the best model without the group.

With y_s(x) = P(Y=1|x, S=s) and e_ω(x) = P(audited|x) where the audited group has the weight ω, the best blind
prediction is η_ω = e_ω·y_0 + (1 − e_ω)·y_1, and for the squared error (Wang, Hsu, Diaz & Calmon 2021)

    ε(ω) = ω·G_0 + (1 − ω)·G_1 = E_ω[e_ω(1 − e_ω)(y_1 − y_0)²],     G_s = E_s[loss(Y, η_ω) − loss(Y, y_s)].

See docs/methods.md, section 19.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from tiltlens.estimators.influence import InfluenceEstimate, Rows, combine
from tiltlens.paper.checks import Floats

LEAST_PREDICTED = 1e-3  # clip of predictions, and 1 − this: one certain error would make the log loss infinite
EVEN = 0.5  # ω that gives each group half of the weight


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of predictions, and its slope along the blind prediction η where P(Y=1|x) is y, over (y − η)."""

    of: Callable[[Floats, Floats], Floats]
    slope: Callable[[Floats], Floats | float]


def _cut(p: Floats) -> Floats:
    return np.clip(p, LEAST_PREDICTED, 1.0 - LEAST_PREDICTED)


LOSSES = {
    "brier": Loss(lambda y, p: (y - p) ** 2, lambda p: -2.0),
    "error_rate": Loss(lambda y, p: np.abs(y - (p > 0.5)), lambda p: 0.0),
    "log_loss": Loss(
        lambda y, p: -np.where(y > 0.5, np.log(_cut(p)), np.log1p(-_cut(p))), lambda p: -1.0 / (_cut(p) * _cut(1.0 - p))
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class SplitPredictions:
    """Cross-fitted predictions of rows."""

    # The rows of both groups, and their outcomes, 0 or 1
    rows: Rows
    outcome: Floats
    # y_0 and y_1 at every row, whichever group it is of
    audited: Floats
    reference: Floats
    log_ratio: Floats  # ℓ = log P0/P1 at every row

    def blind(self, weight: float) -> tuple[Floats, Floats]:
        """Return e_ω and η_ω."""
        e = expit(self.log_ratio + logit(weight))
        return e, e * self.audited + (1.0 - e) * self.reference

    def gains(self, loss: str, weight: float = EVEN) -> tuple[InfluenceEstimate, InfluenceEstimate]:
        """Return G_0 and G_1, the gain of each group from its own model.

        They are differences of losses, for a smooth loss corrected for errors of η_ω to first order: E_ω[Y − η_ω | x]
        is 0, but not within a group. Products of errors remain; noise of y_0 and y_1 makes a gain smaller.
        """
        chosen, y = LOSSES[loss], self.outcome
        e, eta = self.blind(weight)
        both = []
        for separate, chance, is_audited in ((self.audited, e, True), (self.reference, 1.0 - e, False)):
            difference = chosen.of(y, eta) - chosen.of(y, separate)
            # E_ω[(P_s/P_ω)·h·(Y − η)], h = ∂loss/∂η for P(Y=1|x) = y_s: cancels the first order of an error of η.
            missed = -chance * chosen.slope(eta) * (eta - separate) * (y - eta)
            # Rows of the other group have 1 − ω in P_ω where the group’s own have ω.
            other = missed * ((1.0 - weight) / weight if is_audited else weight / (1.0 - weight))
            columns = (difference + missed, other) if is_audited else (other, difference + missed)
            value = self.rows.mean0(columns[0]) + self.rows.mean1(columns[1])
            both.append(InfluenceEstimate.of(self.rows, value, *columns))
        return both[0], both[1]

    def gain(self, loss: str, weight: float = EVEN) -> InfluenceEstimate:
        """Return ε(ω), the gain where the audited group has the weight ω."""
        audited, reference = self.gains(loss, weight)
        value = weight * audited.value + (1.0 - weight) * reference.value
        return combine(value, [(weight, audited), (1.0 - weight, reference)])

    def largest_gain(self, loss: str) -> tuple[InfluenceEstimate, float]:
        """Return sup_ω ε(ω), concave in ω, and its ω: every model without the group costs one group at least that."""
        from scipy.optimize import minimize_scalar

        best = minimize_scalar(
            lambda weight: -self.gain(loss, weight).value,
            bounds=(0.01, 0.99),
            method="bounded",
            options={"xatol": 1e-6},
        )
        # The bounded search stops within its tolerance: ½ may be as good, and is simpler.
        weight = max(EVEN, float(best.x), key=lambda at: self.gain(loss, at).value)
        # At a maximum an error of ω is of second order (envelope theorem): its influence is that at ω.
        return self.gain(loss, weight), weight
