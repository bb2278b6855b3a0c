"""Shares of the correction at every (λ2, λ4) at once.

g = λ2·ℓ + λ4·T is linear in the two weights, so the estimators of Var0(g) and Var0(E0[g|X_j]) and their influence
functions are quadratic in them: three corners of the dial determine every share on it, with its interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tiltlens.estimators.estimate import Ratio
from tiltlens.estimators.influence import InfluenceEstimate, combine, covariances, ratio_tail
from tiltlens.paper.checks import Floats

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
