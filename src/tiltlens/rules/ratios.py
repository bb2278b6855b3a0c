"""Counts of groups → rates, impact ratios, and on which side of a threshold they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiltlens.estimators.decision_table import Count, rate_ratio
from tiltlens.estimators.estimate import Estimate
from tiltlens.limits import MINIMUM_ROWS, NOISE

MEASURES = {
    "n": int,
    "share": float,
    "rate": float,
    "impact_ratio": float,
    "impact_ratio_low": float,
    "impact_ratio_high": float,
    "is_excluded": bool,
    "is_below_threshold": bool,
    "is_surely_below_threshold": bool,
    "note": str,
}
BELOW = ("is_below_threshold", "is_surely_below_threshold")


@dataclass(frozen=True, slots=True)
class Limits:
    """What impact ratios are held against; a threshold of None is none, a smallest share of 0 leaves nobody out."""

    threshold: float | None
    smallest_share: float
    confidence: float


def measured(groups: Sequence[Count], limits: Limits) -> list[dict[str, Any]]:
    """Return the entries of `MEASURES` for each group, in the same order."""
    total = sum(group.size for group in groups)
    compared, highest = compared_places(groups, limits)
    entries = []
    for index, group in enumerate(groups):
        is_excluded, is_small = group.size / total < limits.smallest_share, group.size < MINIMUM_ROWS
        entry: dict[str, Any] = dict.fromkeys(MEASURES) | {"n": group.size, "share": group.size / total}
        entry |= {"is_excluded": is_excluded, "rate": None if is_small else group.rate}
        if highest is None or index not in compared:
            entry["note"] = _left_out(is_excluded, is_small, limits)
        else:
            entry |= _compared(group, groups[highest], index == highest, len(compared) == 1, limits)
        entries.append(entry)
    return entries


def compared_places(groups: Sequence[Count], limits: Limits) -> tuple[list[int], int | None]:
    """Return which groups are compared, and which of them has the highest rate; of several, the largest."""
    total = sum(group.size for group in groups)
    compared = [
        index
        for index, group in enumerate(groups)
        if group.size >= MINIMUM_ROWS and group.size / total >= limits.smallest_share
    ]
    return compared, max(compared, key=lambda index: (groups[index].rate, groups[index].size), default=None)


def _left_out(is_excluded: bool, is_small: bool, limits: Limits) -> str:
    reasons = []
    if is_small:
        reasons.append(f"fewer than {MINIMUM_ROWS} people: too small for a rate")
    if is_excluded:
        reasons.append(f"less than {100 * limits.smallest_share:g} % of the data: left out of the impact ratios")
    return "; ".join(reasons)


def _compared(group: Count, highest: Count, is_highest: bool, is_alone: bool, limits: Limits) -> dict[str, Any]:
    """Return the ratio of one group to the highest, and what can be said of it."""
    if highest.counted == 0:
        return {"note": "not defined: the highest rate is 0"}
    if is_highest:
        others = "no other group can be compared with it" if is_alone else "the others are divided by it"
        is_below = dict.fromkeys(BELOW, None if limits.threshold is None else False)
        return {"impact_ratio": 1.0, **is_below, "note": f"highest rate: {others}"}
    ratio = rate_ratio(group, highest, limits.confidence)
    ends = {"impact_ratio": ratio.value, "impact_ratio_low": ratio.low, "impact_ratio_high": ratio.high}
    return ends | _side(ratio, limits.threshold)


def _side(ratio: Estimate, threshold: float | None) -> dict[str, Any]:
    """Return whether the ratio is below the threshold, as texts ask; whether its whole interval is; and the words."""
    if threshold is None:
        return {"note": ""}
    low, high, is_below = ratio.low or 0.0, ratio.high or 0.0, ratio.value < threshold - NOISE
    is_sure = high < threshold or low >= threshold
    words = f"{'below' if is_below else 'at or above'} the threshold of {decimals(threshold)}"
    return {
        "is_below_threshold": is_below,
        "is_surely_below_threshold": is_below if is_sure else None,
        "note": words if is_sure else f"{words}; inconclusive, because the interval includes it",
    }


def decimals(value: float) -> str:
    """Return a threshold with two decimals, or more where it has more."""
    return f"{value:.2f}" if value == round(value, 2) else f"{value:g}"
