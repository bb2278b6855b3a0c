"""What practitioners ask of each group beside its ratio, against the group with the highest rate: one row of tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tiltlens.analysis.decision_table import untold
from tiltlens.estimators.decision_table import (
    Count,
    Stratified,
    fisher_p_value,
    odds_ratio,
    stratified,
    two_sided,
    z_score,
)
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.flips import ratio_flips, z_flips
from tiltlens.rules.ratios import Limits

TESTS = {
    "against": str,
    "shortfall": float,
    "odds_ratio": float,
    "odds_ratio_low": float,
    "odds_ratio_high": float,
    "z": float,
    "z_p_value": float,
    "fisher_p_value": float,
    "ratio_flips": int,
    "z_flips": int,
    "cmh_z": float,
    "cmh_p_value": float,
    "common_odds_ratio": float,
    "common_odds_ratio_low": float,
    "common_odds_ratio_high": float,
    "strata": int,
    "idle_strata": int,
    "note": str,
}


def tested(
    group: Count, highest: Count, strata: Sequence[tuple[Count, Count]] | None, limits: Limits
) -> dict[str, Any]:
    """Return the entries of `TESTS` but for `against`; those of strata are None where `strata` is."""
    z = z_score(group, highest)
    within = None if strata is None else stratified(strata, limits.confidence)
    return {
        **dict.fromkeys(TESTS),
        "shortfall": (group.size * highest.counted - group.counted * highest.size) / highest.size,
        **_with_ends("odds_ratio", odds_ratio(group, highest, limits.confidence)),
        "z": z,
        "z_p_value": two_sided(z),
        "fisher_p_value": fisher_p_value(group, highest),
        "ratio_flips": None if limits.threshold is None else ratio_flips(group, highest, limits.threshold),
        "z_flips": z_flips(group, highest, limits.confidence),
        **({} if within is None else _within_strata(within)),
        "note": "; ".join(_notes(group, highest, within)),
    }


def _within_strata(within: Stratified) -> dict[str, Any]:
    return {
        "cmh_z": within.z,
        "cmh_p_value": two_sided(within.z),
        **_with_ends("common_odds_ratio", within.odds_ratio),
        "strata": within.used,
        "idle_strata": within.idle,
    }


def _with_ends(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    return (
        {} if estimate is None else {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    )


def _notes(group: Count, highest: Count, within: Stratified | None) -> Iterator[str]:
    """Yield what cannot be told, and what adds nothing."""
    yield from untold(group, highest)
    if within is None:
        return
    if within.idle:
        every = within.used + within.idle
        yield f"{within.idle:,} of {every:,} strata hold one of the two groups or one outcome only, and add nothing"
    if within.used and (within.odds_ratio is None or within.odds_ratio.low is None):
        yield "within the strata one group has one outcome only: the common odds ratio has no interval"
