"""Checks of new rows against the audited ones: values not learnt, numbers out of range, a gap that is not closed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from tiltlens.estimators.estimate import Normal
from tiltlens.learners.design import Table
from tiltlens.limits import FEW_REPAIRED, SUPPRESSED_BELOW, SURELY_BEYOND
from tiltlens.paper.checks import Floats
from tiltlens.repair.constraints import Constraint
from tiltlens.rows.features import Feature
from tiltlens.sources.messages import shown

UNLIKE = 0.5  # of the gap that a repair closed: where so much of it is back, rows are unlike the audited ones
Range = tuple[float, float, int]  # the tenth lowest and the tenth highest value, and how many rows have a value


@dataclass(frozen=True, slots=True, eq=False)
class NewRowSums:
    """Sums over rows that a repair was applied to; they add up over batches."""

    rows: int = 0
    outside: int = 0  # rows that do not meet the conditions of the audit
    unseen: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    sums: Floats = field(default_factory=lambda: np.zeros(1))  # Σ a^i·W'^j of each constraint, (C, 3, 3)

    def __add__(self, other: NewRowSums) -> NewRowSums:
        return NewRowSums(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))


def ranges_of(features: Sequence[Feature]) -> dict[str, Range]:
    """Return the range of each number without the ten people at either end, who are too few to disclose."""
    ranges, k = {}, SUPPRESSED_BELOW
    for feature in features:
        values = None if feature.values is None else feature.values[np.isfinite(feature.values)]
        if values is not None and values.size >= 2 * k:
            low, high = np.sort(values)[[k - 1, -k]].tolist()
            ranges[feature.name] = (float(low), float(high), int(values.size))
    return ranges


def values_beyond(table: Table, ranges: Mapping[str, Range]) -> Counter[str]:
    """Return, by feature, how many rows of numbers and codes lie beyond the audited range."""
    ends = {name: ranges[name][:2] for name in table if name in ranges}
    return Counter({name: int(((table[name] < a) | (table[name] > b)).sum()) for name, (a, b) in ends.items()})


def moments(a: Floats, after: Floats, constraints: Sequence[Constraint], weights: Floats | float = 1.0) -> Floats:
    """Return the sums that `modelled_gap` needs, of repaired scores and gradients, (C, n)."""
    scores = [after if after.ndim == 1 else after[:, constraint.score_class] for constraint in constraints]
    powers = [[np.stack([np.ones_like(x), x, x * x]) for x in pair] for pair in zip(a, scores, strict=True)]
    return np.array([(weights * first) @ second.T for first, second in powers])


def modelled_gap(sums: Floats) -> Normal:
    """Return E[(a − E[a])·W']: the gap of the repaired scores if the membership model is correct."""
    means = sums / sums[0, 0]
    a, w = float(means[1, 0]), float(means[0, 1])
    gap = float(means[1, 1]) - a * w
    square = np.array([a * a, -2.0 * a, 1.0]) @ means @ np.array([w * w, -2.0 * w, 1.0])
    return Normal(gap, math.sqrt(max(float(square) - gap * gap, 0.0) / float(sums[0, 0])))


def gap_notes(sums: Floats, constraints: Sequence[Constraint], limit: float) -> list[str]:
    """Return a note where, by the membership model, half of the closed gap is back, and not by chance."""
    if sums.ndim < 3 or sums[0, 0, 0] < FEW_REPAIRED:
        return []
    closed = max(abs(constraint.gap_before) for constraint in constraints) - limit
    has_classes = any(constraint.score_class != 1 for constraint in constraints)
    for constraint, gap in zip(constraints, map(modelled_gap, sums), strict=True):
        audited = gap.value if constraint.modelled is None else constraint.modelled
        if abs(gap.value - audited) > max(SURELY_BEYOND * gap.se, UNLIKE * closed):
            new, old = (f"{100.0 * constraint.sign * value:+.1f}" for value in (gap.value, audited))
            return [
                f"by the membership model, {constraint.describe(has_classes)} after the repair is {new} points on "
                f"these rows and {old} on the audited ones. Check units, missing-value codes, and that scores are "
                "probabilities of the same outcome"
            ]
    return []


def beyond_notes(counts: Mapping[str, int], rows: int, ranges: Mapping[str, Range]) -> list[str]:
    """Return notes on features with more numbers beyond the audited range than rows alike would have by chance."""
    notes = []
    for name, count in counts.items():
        low, high, audited = ranges[name]
        expected = 2.0 * SUPPRESSED_BELOW * rows / audited  # negative binomial: beyond two order statistics
        if count > expected + 2.0 * SURELY_BEYOND * math.sqrt(expected * (1.0 + rows / audited)):
            notes.append(
                f"{count:,} of {rows:,} rows have a value of {shown(name)} beyond the audited range, {low:g} to "
                f"{high:g}. Check its unit and codes of missing values"
            )
    return notes


def unseen_notes(counts: Mapping[str, int], rows: int) -> list[str]:
    """Return notes on values that the model has not learnt, by feature."""
    return [
        f"{count} of {rows} rows have a value of {shown(name)} that the membership model has not learnt (new, rare, "
        "missing or infinite): they are repaired like the most common value, or like other rare ones"
        for name, count in counts.items()
    ]
