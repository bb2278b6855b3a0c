"""Unobserved groups in sentences: two estimates, the range between them, and the checks behind it."""

from __future__ import annotations

from dataclasses import replace

from tiltlens.analysis.unobserved_groups import Status, UnobservedGroup
from tiltlens.documents.measures import measure_of
from tiltlens.documents.quantities import Quantity, estimate_words, written
from tiltlens.formats import interval, minus, number
from tiltlens.results.comparison import Comparison
from tiltlens.rows.wording import Measure

OWN_ERROR = (
    "These intervals exclude the error of the probabilities themselves. Contributions are those to the weighted gap."
)
WEIGHTED = "weighted by group probability"


def expected(c: Comparison) -> str:
    """Return " expected" behind a number of people that group probabilities add up to."""
    return "" if c.unobserved_group is None else " expected"


def weighted(gap: Quantity, c: Comparison) -> Quantity:
    """Return the gap as it is called: for unobserved groups it is one of two estimates."""
    return replace(gap, label=gap_name(c))


def gap_name(c: Comparison) -> str:
    """Return the label of the gap: for unobserved groups it is one of two estimates."""
    return "weighted gap" if c.unobserved_group else "gap"


def soft_words(c: Comparison) -> list[str]:
    """Return how the estimates of the gap are to be read; nothing where groups are observed."""
    if c.unobserved_group is None:
        return []
    soft, measure = c.unobserved_group.disclosed(), measure_of(c)
    lines = [
        "Weighted: each row counts in both groups by its probabilities. Linear: the slope of the "
        f"{measure.each} on the group probability.",
        *_checks(soft, measure),
    ]
    if soft.limits is not None:
        ends = interval(soft.limits.low, soft.limits.high, measure.difference)
        lines.append(f"If the probabilities are calibrated, the gap is {measure.with_unit(ends)}.")
    return [*lines, OWN_ERROR]


def bracket_words(soft: UnobservedGroup, measure: Measure, groups: str) -> list[str]:
    """Return the range of the gap between two groups, because one estimate would mislead, and on what it rests."""
    between = f"gap in the {measure.mean} between {groups}"
    if soft.status is Status.NOT_JUDGED:
        return [f"The {between} is not estimated, because {minus(soft.reason)}."]
    if soft.bracket is None:
        return [f"The {between} cannot be estimated: everybody has the same group probabilities."]
    ends = interval(soft.bracket.low, soft.bracket.high, measure.difference)
    return [
        f"The {between} is estimated at {measure.with_unit(ends)}.",
        "This range is right if the probabilities are calibrated and the two estimates err in opposite directions "
        f"({soft.status}: {minus(soft.reason)}).",
    ]


def _checks(soft: UnobservedGroup, measure: Measure) -> list[str]:
    if soft.calibration is None or soft.signs is None:
        return []
    rows = "fewer than 10" if soft.labelled is None else f"{soft.labelled:,}"
    slope = written(soft.calibration.slope, lambda value: number(value, 2))
    above, below = (estimate_words(sign, measure) for sign in soft.signs)
    return [
        f"On {rows} labelled rows, the group has slope {slope} on its probability (1 if calibrated). There, the gap "
        f"minus the weighted estimate is {above}, and the linear estimate minus the gap is {below}. The gap lies "
        "between both estimates if these two differences have the same sign."
    ]
