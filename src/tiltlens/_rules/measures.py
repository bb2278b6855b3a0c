"""Rates, impact ratios and tests against the highest rate from counts by group, and notes on the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tiltlens._analysis.decision_table import table_notes
from tiltlens._analysis.evidence import interval_columns
from tiltlens._estimators.estimate import Estimate, quantile
from tiltlens._estimators.verdicts import (
    Count,
    Stratified,
    fisher_p_value,
    odds_ratio,
    rate_ratio,
    ratio_flips,
    stratified,
    two_sided,
    z_flips,
    z_score,
)
from tiltlens._formats import capitalised
from tiltlens._limits import MINIMUM_ROWS, NOISE
from tiltlens._rows.groups import alike_notes
from tiltlens._rules.rule import Outcomes, Rule
from tiltlens._sources.columns import Record
from tiltlens.errors import listed, shown

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
BELOW = ("is_below_threshold", "is_surely_below_threshold")


@dataclass(frozen=True, slots=True)
class Limits:
    """The threshold of impact ratios, the smallest share of the data with an impact ratio, and the confidence level."""

    threshold: float | None
    smallest_share: float
    confidence: float


def measure_groups(groups: Sequence[Count], limits: Limits) -> list[Record]:
    """Return the entries of `MEASURES` for each group, in the same order."""
    total = sum(group.size for group in groups)
    compared, highest = compared_groups(groups, limits)
    entries = []
    for index, group in enumerate(groups):
        is_excluded, is_small = group.size / total < limits.smallest_share, group.size < MINIMUM_ROWS
        entry: Record = dict.fromkeys(MEASURES) | {"n": group.size, "share": group.size / total}
        entry |= {"is_excluded": is_excluded, "rate": None if is_small else group.rate}
        if highest is None or index not in compared:
            entry["note"] = _left_out(is_excluded, is_small, limits)
        else:
            entry |= _compared(group, groups[highest], index == highest, len(compared) == 1, limits)
        entries.append(entry)
    return entries


def compared_groups(groups: Sequence[Count], limits: Limits) -> tuple[list[int], int | None]:
    """Return the indices of the groups to compare, and of the highest rate (if tied, of the largest group)."""
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
        reasons.append(f"fewer than {MINIMUM_ROWS} people, so no rate is shown")
    if is_excluded:
        reasons.append(f"less than {100 * limits.smallest_share:g}% of the data, so no impact ratio is shown")
    return "; ".join(reasons)


def _compared(group: Count, highest: Count, is_highest: bool, is_alone: bool, limits: Limits) -> Record:
    """Return the ratio of a group to the highest rate, whether it is below the threshold, and a note."""
    if highest.counted == 0:
        return {"note": "not defined, because the highest rate is 0"}
    if is_highest:
        others = "no other group can be compared with it" if is_alone else "the denominator of the impact ratios"
        is_below = dict.fromkeys(BELOW, None if limits.threshold is None else False)
        return {"impact_ratio": 1.0, **is_below, "note": f"highest rate, {others}"}
    ratio = rate_ratio(group, highest, limits.confidence)
    return interval_columns("impact_ratio", ratio) | _side(ratio, limits.threshold)


def _side(ratio: Estimate, threshold: float | None) -> Record:
    """Return whether the ratio, and whether its whole interval, is below the threshold, and a note."""
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
    """Return a threshold with two decimals, or with all its decimals if it has more."""
    return f"{value:.2f}" if value == round(value, 2) else f"{value:g}"


def run_tests(group: Count, highest: Count, strata: Sequence[tuple[Count, Count]] | None, limits: Limits) -> Record:
    """Return the entries of `TESTS` except `against`; those of strata are None if `strata` is None."""
    z = z_score(group, highest)
    within = None if strata is None else stratified(strata, limits.confidence)
    return {
        **dict.fromkeys(TESTS),
        "shortfall": (group.size * highest.counted - group.counted * highest.size) / highest.size,
        **interval_columns("odds_ratio", odds_ratio(group, highest, limits.confidence)),
        "z": z,
        "z_p_value": two_sided(z),
        "fisher_p_value": fisher_p_value(group, highest),
        "ratio_flips": None if limits.threshold is None else ratio_flips(group, highest, limits.threshold),
        "z_flips": z_flips(group, highest, limits.confidence),
        **({} if within is None else _within_strata(within)),
        "note": "; ".join(_notes(group, highest, within)),
    }


def _within_strata(within: Stratified) -> Record:
    return {
        "cmh_z": within.z,
        "cmh_p_value": two_sided(within.z),
        **interval_columns("common_odds_ratio", within.odds_ratio),
        "strata": within.used,
        "idle_strata": within.idle,
    }


def _notes(group: Count, highest: Count, within: Stratified | None) -> Iterator[str]:
    """Yield notes on suppressed cells, and on strata without information."""
    yield from table_notes(group, highest)
    if within is None:
        return
    if within.idle:
        every = within.used + within.idle
        yield f"{within.idle:,} of {every:,} strata were left out, because they have only one group or only one outcome"
    if within.used and (within.odds_ratio is None or within.odds_ratio.low is None):
        yield "the common odds ratio has no interval, because within the strata one group has only one outcome"


def notes_of(
    rule: Rule, frames: Mapping[str, pl.DataFrame], outcomes: Outcomes, favourable: str, limits: Limits
) -> Iterator[str]:
    """Yield notes on the groups, the thresholds, the outcome and the intervals."""
    if len(frames) > 1:
        yield rule.intersections
    elif len(rule.attributes) > 1:
        wanted = " and by ".join(rule.attributes)
        yield f"The rule asks for tables by {wanted}; these are by {shown(next(iter(frames)))} only."
    for name, frame in frames.items():
        names = frame[name] if name in frame.columns else ()  # intersections repeat the notes on their parts
        yield from (f"{capitalised(note)}." for note in alike_notes(names))
    yield from _on_limits(rule, limits)
    yield from _on_outcome(outcomes, favourable)
    if len(frames) > 1 and any(frame["rate"].null_count() for frame in frames.values()):
        yield "A rate that one table suppresses may follow from the others: check before you publish them."
    yield "Intervals and tests take the group with the highest rate as given; they are not adjusted for several groups."


def test_notes(tests: Mapping[str, pl.DataFrame], strata: Sequence[str], unknown: int, limits: Limits) -> Iterator[str]:
    """Yield notes on the tests, and on people without a stratum."""
    if not any(frame.height for frame in tests.values()):
        return
    yield "Tests count people, not weights."
    yield "The odds ratio is that of the sample; its interval contains the ratios that the z test does not reject."
    ends = f"the rate lies on the other side of {quantile(limits.confidence):.2f} standard deviations below the highest"
    if limits.threshold is not None:
        ends = f"the ratio lies on the other side of {decimals(limits.threshold)}, or {ends}"
    yield f"Flips are the smallest number of changed decisions, in both groups together, after which {ends}."
    if strata:
        of = listed(list(strata))
        yield f"Strata are the values of {of}; the Cochran–Mantel–Haenszel test has no continuity correction."
    if unknown:
        yield f"{unknown:,} people without a stratum are left out of this test."


def _on_limits(rule: Rule, limits: Limits) -> Iterator[str]:
    """Yield notes on thresholds that differ from the rule's."""
    if limits.threshold is None:
        yield "The rule states no threshold."
    elif limits.threshold != rule.threshold:
        stated = "none" if rule.threshold is None else decimals(rule.threshold)
        yield f"The threshold of {decimals(limits.threshold)} was chosen here; the rule states {stated}."
    if limits.smallest_share != (rule.smallest_share or 0.0):
        stated = "none" if rule.smallest_share is None else f"{100 * rule.smallest_share:g}%"
        yield f"The smallest share of {100 * limits.smallest_share:g}% was chosen here; the rule states {stated}."


def _on_outcome(outcomes: Outcomes, favourable: str) -> Iterator[str]:
    """Yield notes on the favourable outcome, and on people whose score is the median."""
    if favourable == "low":
        what = "a 0 counts as selected" if outcomes.median is None else "the rate is the share below the median"
        yield f"Low is favourable here: {what}."
    elif favourable != "high":
        yield f"{shown(favourable)} counts as selected."
    if outcomes.at_median is not None and outcomes.at_median >= MINIMUM_ROWS:
        side = "above" if favourable == "high" else "below"
        yield f"{outcomes.at_median:,} people have exactly the median score; they do not count as {side} it."
