"""What the intervals allow to be said of each feature, over all features at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import ndtr

from tiltmeter.theory.uncertainty import Measured, Normal

PROXY = "proxy evidence"
JOINT = "joint proxy evidence"
NOTHING = "no material evidence"
UNDECIDED = "too little data"
MATERIAL_TOTAL = 0.01


def holm_confidences(gaps: Sequence[Normal], materiality: float, confidence: float) -> list[float]:
    """Return for each feature the confidence of its interval, by Holm's step-down method.

    The hypotheses are |gap(j)| ≤ materiality. The i-th most extreme of d is tested at α/(d − i); from the first that
    is not rejected on, the rest keep that level.
    """
    alpha, count = 1.0 - confidence, len(gaps)
    p_values = [_p_value(gap, materiality) for gap in gaps]
    levels, rejecting, level = [confidence] * count, True, alpha
    for step, j in enumerate(sorted(range(count), key=lambda j: p_values[j])):
        if rejecting:
            level = alpha / (count - step)
            rejecting = p_values[j] <= level
        levels[j] = 1.0 - level
    return levels


def _p_value(gap: Normal, materiality: float) -> float:
    excess = abs(gap.value) - materiality
    if gap.se == 0:
        return 0.0 if excess > 0 else 1.0
    return 2.0 * float(ndtr(-excess / gap.se)) if excess > 0 else 1.0


def verdict(
    gap: Normal,
    total_inputs: Measured | None,
    total_outputs: Measured | None,
    materiality: float,
    confidence: float,
    is_adequate: bool = True,
) -> str:
    """Return one of the four verdicts for one feature.

    Parameters
    ----------
    gap
        gap(j), which needs no membership model.
    total_inputs, total_outputs
        Total shares of ℓ and of W; None where they were not measured.
    materiality
        Points of the score that matter.
    confidence
        Of the intervals, adjusted for the number of features.
    is_adequate
        Whether the membership model may be trusted for a total.
    """
    low, high = _ends(gap, confidence)
    if low > materiality or high < -materiality:
        return PROXY
    within = -materiality <= low and high <= materiality
    if total_inputs is None or total_outputs is None:
        return UNDECIDED
    inputs_low, inputs_high = _ends(total_inputs, confidence)
    outputs_low, outputs_high = _ends(total_outputs, confidence)
    if is_adequate and inputs_low > MATERIAL_TOTAL and outputs_low > MATERIAL_TOTAL:
        return JOINT
    is_small = outputs_high < MATERIAL_TOTAL or (is_adequate and inputs_high < MATERIAL_TOTAL)
    return NOTHING if within and is_small else UNDECIDED


def _ends(measured: Measured, confidence: float) -> tuple[float, float]:
    estimate = measured.estimate(confidence)
    low = -math.inf if estimate.low is None else estimate.low
    high = math.inf if estimate.high is None else estimate.high
    return low, high
