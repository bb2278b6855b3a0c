"""Rates, impact ratios and tests against the highest rate from counts by group, and notes on the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tiltlens._analysis.evidence import interval_columns, interval_schema
from tiltlens._analysis.output_tables import table_notes
from tiltlens._estimators import verdicts
from tiltlens._estimators.estimate import Estimate, quantile
from tiltlens._estimators.verdicts import Count, Stratified
from tiltlens._formats import capitalised
from tiltlens._limits import MINIMUM_ROWS, NOISE
from tiltlens._notes import Note
from tiltlens._rows.groups import alike_notes
from tiltlens._rules.rule import Outcomes, Rule
from tiltlens._sources.tables import Record
from tiltlens.errors import quoted, quoted_list

Kinds = dict[str, type[pl.DataType]]  # the columns of a frame
BELOW = ("is_below_threshold", "is_surely_below_threshold")
MEASURES: Kinds = {
    **{"n": pl.Int64, "share": pl.Float64, "rate": pl.Float64},
    **interval_schema("impact_ratio"),
    **dict.fromkeys(("is_excluded", *BELOW), pl.Boolean),
    "note": pl.String,
}
TESTS: Kinds = {
    **{"against": pl.String, "shortfall": pl.Float64},
    **interval_schema("odds_ratio"),
    **dict.fromkeys(("z", "z_p_value", "fisher_p_value"), pl.Float64),
    **dict.fromkeys(("ratio_flips", "z_flips"), pl.Int64),
    **dict.fromkeys(("cmh_z", "cmh_p_value"), pl.Float64),
    **interval_schema("common_odds_ratio"),
    **dict.fromkeys(("strata", "idle_strata"), pl.Int64),
    "note": pl.String,
}


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
        if highest is not None and index in compared:
            entry |= _compared(group, groups[highest], index == highest, len(compared) == 1, limits)
        else:
            notes = [Note("no rate", minimum=MINIMUM_ROWS)] * is_small
            notes += [Note("no impact ratio", share=100 * limits.smallest_share)] * is_excluded
            entry["note"] = "; ".join(notes)
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


def _compared(group: Count, highest: Count, is_highest: bool, is_alone: bool, limits: Limits) -> Record:
    """Return the ratio of a group to the highest rate, whether it is below the threshold, and a note."""
    if highest.counted == 0:
        return {"note": Note("highest rate is 0")}
    if is_highest:
        is_below = dict.fromkeys(BELOW, None if limits.threshold is None else False)
        return {"impact_ratio": 1.0, **is_below, "note": Note("only rate") if is_alone else Note("highest rate")}
    ratio = verdicts.rate_ratio(group, highest, limits.confidence)
    return interval_columns("impact_ratio", ratio) | _side(ratio, limits.threshold)


def _side(ratio: Estimate, threshold: float | None) -> Record:
    """Return whether the ratio, and whether its whole interval, is below the threshold, and a note."""
    if threshold is None:
        return {"note": ""}
    low, high, is_below = ratio.low or 0.0, ratio.high or 0.0, ratio.value < threshold - NOISE
    is_sure = high < threshold or low >= threshold
    side, line = "below" if is_below else "at or above", decimals(threshold)
    note = Note("side of the threshold" if is_sure else "threshold in the interval", side=side, threshold=line)
    return {"is_below_threshold": is_below, "is_surely_below_threshold": is_below if is_sure else None, "note": note}


def decimals(value: float) -> str:
    """Return a threshold with two decimals, or with all its decimals if it has more."""
    return f"{value:.2f}" if value == round(value, 2) else f"{value:g}"


def run_tests(group: Count, highest: Count, strata: Sequence[tuple[Count, Count]] | None, limits: Limits) -> Record:
    """Return the entries of `TESTS` except `against`; those of strata are None if `strata` is None."""
    z = verdicts.z_score(group, highest)
    within = None if strata is None else verdicts.stratified(strata, limits.confidence)
    entry: Record = {
        **dict.fromkeys(TESTS),
        "shortfall": (group.size * highest.counted - group.counted * highest.size) / highest.size,
        **interval_columns("odds_ratio", verdicts.odds_ratio(group, highest, limits.confidence)),
        "z": z,
        "z_p_value": verdicts.two_sided(z),
        "fisher_p_value": verdicts.fisher_p_value(group, highest),
        "ratio_flips": None if limits.threshold is None else verdicts.ratio_flips(group, highest, limits.threshold),
        "z_flips": verdicts.z_flips(group, highest, limits.confidence),
        "note": "; ".join(_notes(group, highest, within)),
    }
    if within is None:
        return entry
    return entry | {
        "cmh_z": within.z,
        "cmh_p_value": verdicts.two_sided(within.z),
        **interval_columns("common_odds_ratio", within.odds_ratio),
        "strata": within.used,
        "idle_strata": within.idle,
    }


def _notes(group: Count, highest: Count, within: Stratified | None) -> Iterator[Note]:
    """Yield notes on suppressed cells, and on strata without information."""
    yield from table_notes(group, highest)
    if within is None:
        return
    if within.idle:
        yield Note("idle strata", idle=within.idle, strata=within.used + within.idle)
    if within.used and (within.odds_ratio is None or within.odds_ratio.low is None):
        yield Note("no interval within strata")


def notes_of(
    rule: Rule, frames: Mapping[str, pl.DataFrame], outcomes: Outcomes, favourable: str, limits: Limits
) -> Iterator[Note]:
    """Yield notes on the groups, the thresholds, the outcome and the intervals."""
    if len(frames) > 1:
        yield Note("intersections", rule=rule.intersections)
    elif len(rule.attributes) > 1:
        yield Note("tables missing", attributes=" and by ".join(rule.attributes), column=quoted(next(iter(frames))))
    for name, frame in frames.items():
        names = frame[name] if name in frame.columns else ()  # intersections repeat the notes on their parts
        yield from (Note("similar groups", note=capitalised(note)) for note in alike_notes(names))
    yield from _on_limits(rule, limits)
    yield from _on_outcome(outcomes, favourable)
    if len(frames) > 1 and any(frame["rate"].null_count() for frame in frames.values()):
        yield Note("suppressed rate")
    yield Note("highest rate as given")


def test_notes(
    tests: Mapping[str, pl.DataFrame], strata: Sequence[str], unknown: int, limits: Limits
) -> Iterator[Note]:
    """Yield notes on the tests, and on people without a stratum."""
    if not any(frame.height for frame in tests.values()):
        return
    yield Note("people, not weights")
    yield Note("odds ratio of the sample")
    critical = quantile(limits.confidence)
    if limits.threshold is None:
        yield Note("flips of z", critical=critical)
    else:
        yield Note("flips", threshold=decimals(limits.threshold), critical=critical)
    if strata:
        yield Note("strata", columns=quoted_list(list(strata)))
    if unknown:
        yield Note("no stratum", people=unknown)


def _on_limits(rule: Rule, limits: Limits) -> Iterator[Note]:
    """Yield notes on thresholds that differ from the rule's."""
    if limits.threshold is None:
        yield Note("no threshold")
    elif limits.threshold != rule.threshold:
        stated = "none" if rule.threshold is None else decimals(rule.threshold)
        yield Note("other threshold", threshold=decimals(limits.threshold), stated=stated)
    if limits.smallest_share != (rule.smallest_share or 0.0):
        stated = "none" if rule.smallest_share is None else f"{100 * rule.smallest_share:g}%"
        yield Note("other smallest share", share=100 * limits.smallest_share, stated=stated)


def _on_outcome(outcomes: Outcomes, favourable: str) -> Iterator[Note]:
    """Yield notes on the favourable outcome, and on people whose score is the median."""
    if favourable == "low":
        yield Note("low decisions are favourable" if outcomes.median is None else "low scores are favourable")
    elif favourable != "high":
        yield Note("favourable word", word=quoted(favourable))
    if outcomes.at_median is not None and outcomes.at_median >= MINIMUM_ROWS:
        side = "above" if favourable == "high" else "below"
        yield Note("people at the median", people=outcomes.at_median, side=side)
