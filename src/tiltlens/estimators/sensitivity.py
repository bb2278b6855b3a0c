"""How strong an omitted factor would have to be to account for an adjusted gap.

An omitted factor may explain the share R²_W of the score's variance that features and group leave unexplained, and the
share R²_S of the group's variance that features leave unexplained. It then moves c_A by at most

    B = 𝒮·√(R²_W·R²_S/(1 − R²_S)),      𝒮² = E[(W − m − c(S̄ − e))²]/E[(S̄ − e)²]

(Cinelli & Hazlett 2020; Chernozhukov et al. 2022). See docs/methods.md, section 18.
"""

from __future__ import annotations

import math

import numpy as np

from tiltlens.estimators.feature_gap import Coefficient
from tiltlens.estimators.influence import InfluenceEstimate, Rows
from tiltlens.paper.checks import Floats


def bias_scale(rows: Rows, c: Coefficient) -> InfluenceEstimate:
    """Return 𝒮; as 𝒮² is a ratio of means, IF = (ε² − 𝒮²·q)/(2𝒮·D), ε = W − m − c(S̄ − e).

    It is 0 where the features and the group determine the score: no omitted factor can then account for a gap.
    """
    spread = c.mean_residual
    square = c.mean_left / spread - c.value**2
    if square <= 0.0:
        zero = rows.constant(0.0)
        return InfluenceEstimate.of(rows, 0.0, zero, zero)
    scale = math.sqrt(square)
    error = c.left - 2.0 * c.value * c.product + c.value**2 * c.residual
    # (ε² − 𝒮²q)/D is the influence of the square; 2𝒮 makes it that of the root, ½ that of each group.
    half = 0.5 * (error - square * c.residual) / (2.0 * scale * spread)
    return InfluenceEstimate.of(rows, scale, half, half)


def bias_factor(r2_score: float, r2_group: float) -> float:
    """Return √(R²_W·R²_S/(1 − R²_S)), the largest bias in units of 𝒮."""
    return math.sqrt(r2_score * r2_group / (1.0 - r2_group))


def robustness_value(gap: float, scale: float) -> float:
    """Return the R² that an omitted factor needs with both the score and the group to bring a gap to 0.

    It is ½(√(f⁴ + 4f²) − f²) with f = |c|/𝒮, written so that f may be 0 or infinite.
    """
    if gap == 0.0:
        return 0.0
    return 2.0 / (math.sqrt(1.0 + 4.0 * (scale / gap) ** 2) + 1.0)


def strength_multiple(gap: float, scale: float, r2_score: float, r2_group: float) -> float | None:
    """Return k for which a factor with the shares min(k·R²_W, 1) and k·R²_S brings a gap to 0.

    None if no multiple does: the yardstick is unrelated to the group or the score, or the score has no residual.
    """
    if gap == 0.0:
        return 0.0
    if r2_group <= 0.0 or scale <= 0.0:
        return None
    # (43) solved for k: k²R²_W·R²_S = f²(1 − kR²_S).
    f2 = (gap / scale) ** 2
    both = r2_score * r2_group
    if both > 0.0:  # both·k² = f²(1 − R²_S·k)
        multiple = 2.0 * f2 / (math.sqrt((r2_group * f2) ** 2 + 4.0 * both * f2) + r2_group * f2)
        if multiple * r2_score <= 1.0:
            return multiple
    return f2 / ((1.0 + f2) * r2_group) if r2_score > 0.0 else None


def partial_strengths(product: Floats, residual: Floats, left: Floats) -> tuple[Floats, Floats]:
    """Return R²_W(j) and R²_S(j) of each feature j, as if it were the one that is omitted.

    The means r̄, D and E[(W − m)²] are those of all features, then of all but each. V = E[(W − m)²] − c²·D is the
    residual variance of the score given a set and the group: R²_W(j) = 1 − V/V_{−j} and R²_S(j) = 1 − D/D_{−j}.
    """
    unexplained = left - product**2 / residual
    shares = [
        1.0 - np.divide(part[0], part[1:], out=np.ones(len(part) - 1), where=part[1:] > 0.0)
        for part in (unexplained, residual)
    ]
    # Estimates of D and D_{−j} are noisy: negative shares count as 0, and R²_S = 1 would divide by 0.
    return np.clip(shares[0], 0.0, 1.0), np.clip(shares[1], 0.0, 1.0 - 1e-12)
