"""New rows that are unlike the audited ones: values not learnt, numbers out of range, a gap that is not closed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from tiltlens.estimators.estimate import Normal
from tiltlens.learners.design import Table
from tiltlens.limits import FEW_REPAIRED, SUPPRESSED_BELOW, SURELY_BEYOND, UNLIKE
from tiltlens.paper.checks import Floats
from tiltlens.repair.constraints import Constraint
from tiltlens.rows.features import Feature
from tiltlens.sources.messages import shown

Range = tuple[float, float, int]  # from the tenth lowest to the tenth highest value, and how many rows have one


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """What was seen of rows that a repair was applied to: sums, which add up over batches."""

    rows: int = 0
    outside: int = 0  # rows that do not meet the conditions of the audit
    unlearnt: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    sums: Floats = field(default_factory=lambda: np.zeros(1))  # Σ a^i·W'^j of each constraint, (C, 3, 3)

    def __add__(self, other: Looked) -> Looked:
        return Looked(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


def ranges_of(features: Sequence[Feature]) -> dict[str, Range]:
    """Return the range of each number; the ten people at either end are left out, as nothing is told of so few."""
    numbers = {one.name: one.values[np.isfinite(one.values)] for one in features if one.values is not None}
    k = SUPPRESSED_BELOW
    ends = {name: np.sort(one)[[k - 1, -k]].tolist() for name, one in numbers.items() if one.size >= 2 * k}
    return {name: (float(low), float(high), numbers[name].size) for name, (low, high) in ends.items()}


def values_beyond(table: Table, ranges: Mapping[str, Range]) -> Counter[str]:
    """Return, by feature, how many rows of numbers and codes lie beyond the audited range."""
    ends = {name: ranges[name][:2] for name in table if name in ranges}
    return Counter({name: int(((table[name] < a) | (table[name] > b)).sum()) for name, (a, b) in ends.items()})


def moments(a: Floats, after: Floats, constraints: Sequence[Constraint], weights: Floats | float = 1.0) -> Floats:
    """Return the sums of which `modelled_gap` is made, of repaired scores and gradients, (C, n)."""
    scores = [after if after.ndim == 1 else after[:, one.score_class] for one in constraints]
    powers = [[np.stack([np.ones_like(x), x, x * x]) for x in pair] for pair in zip(a, scores, strict=True)]
    return np.array([(weights * first) @ second.T for first, second in powers])


def modelled_gap(sums: Floats) -> Normal:
    """Return E[(a − E[a])·W']: the gap of the repaired scores, as far as the membership model is right."""
    means = sums / sums[0, 0]
    a, w = float(means[1, 0]), float(means[0, 1])
    gap = float(means[1, 1]) - a * w
    square = np.array([a * a, -2.0 * a, 1.0]) @ means @ np.array([w * w, -2.0 * w, 1.0])
    return Normal(gap, math.sqrt(max(float(square) - gap * gap, 0.0) / float(sums[0, 0])))


def gap_notes(sums: Floats, constraints: Sequence[Constraint], limit: float) -> list[str]:
    """Return what to say where, by the membership model, half of the gap that was closed is back, not by chance."""
    if sums.ndim < 3 or sums[0, 0, 0] < FEW_REPAIRED:
        return []
    closed = max(abs(one.gap_before) for one in constraints) - limit
    for one, gap in zip(constraints, map(modelled_gap, sums), strict=True):
        known = gap.value if one.modelled is None else one.modelled
        if abs(gap.value - known) > max(SURELY_BEYOND * gap.se, UNLIKE * closed):
            what = one.named(any(c.score_class != 1 for c in constraints))
            new, old = (f"{100.0 * one.sign * value:+.1f}" for value in (gap.value, known))
            return [
                f"by the membership model, {what} after the repair is {new} points on these rows and {old} on the "
                "audited ones. Check units, missing-value codes, and that scores are probabilities of the same outcome"
            ]
    return []


def beyond_notes(counts: Mapping[str, int], rows: int, ranges: Mapping[str, Range]) -> list[str]:
    """Return what to say of numbers beyond the audited range: more than chance puts there, if rows are alike."""
    notes = []
    for name, count in counts.items():
        low, high, known = ranges[name]
        expected = 2.0 * SUPPRESSED_BELOW * rows / known  # negative binomial: as many as beyond two order statistics
        if count > expected + 2.0 * SURELY_BEYOND * math.sqrt(expected * (1.0 + rows / known)):
            notes.append(
                f"{count:,} of {rows:,} rows have a value of {shown(name)} beyond the audited range, {low:g} to "
                f"{high:g}. Check its unit and codes of missing values"
            )
    return notes


def unseen_notes(counts: Mapping[str, int], rows: int) -> list[str]:
    """Return what to say of values that the model has not learnt, by feature."""
    return [
        f"{count} of {rows} rows have a value of {shown(name)} that the membership model has not learnt (new, rare, "
        "missing or infinite): they are repaired like the commonest, or like other rare ones"
        for name, count in counts.items()
    ]
