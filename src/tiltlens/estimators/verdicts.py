"""What the intervals allow to be said of each feature, over all features at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import ndtr

from tiltlens.estimators.estimate import Measured, Normal

PROXY = "proxy evidence"
JOINT = "joint proxy evidence"
NOTHING = "no material evidence"
UNDECIDED = "too little data"
NOT_JUDGED = "not judged"  # plug-in values have no intervals to judge by
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
    adjusted: float,
    is_adequate: bool = True,
) -> str:
    """Return one of the four verdicts for one feature.

    Evidence takes intervals adjusted for the number of features, so that all of it is right at once; that there is
    none takes the intervals of the table.

    Parameters
    ----------
    gap
        gap(j), which needs no membership model.
    total_inputs, total_outputs
        Total shares of ℓ and of W; None where they were not measured.
    materiality
        Points of the score that matter.
    confidence, adjusted
        Of the intervals as they are printed, and adjusted for the number of features.
    is_adequate
        Whether the membership model may be trusted for a total.
    """
    low, high = _ends(gap, adjusted)
    if low > materiality or high < -materiality:
        return PROXY
    if total_inputs is None or total_outputs is None:
        return UNDECIDED
    if is_adequate and all(_ends(total, adjusted)[0] > MATERIAL_TOTAL for total in (total_inputs, total_outputs)):
        return JOINT
    low, high = _ends(gap, confidence)
    telling = (total_outputs, total_inputs) if is_adequate else (total_outputs,)
    is_small = any(_ends(total, confidence)[1] < MATERIAL_TOTAL for total in telling)
    return NOTHING if -materiality <= low and high <= materiality and is_small else UNDECIDED


def _ends(measured: Measured, confidence: float) -> tuple[float, float]:
    estimate = measured.estimate(confidence)
    low = -math.inf if estimate.low is None else estimate.low
    high = math.inf if estimate.high is None else estimate.high
    return low, high
