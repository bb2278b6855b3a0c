"""Estimate how much the means of many groups vary beyond sampling noise, from sums by group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import Settings, withheld
from tiltlens._estimators import group_means
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.group_means import PEOPLE, WEIGHT, GroupMeans
from tiltlens._estimators.influence import Integers
from tiltlens._formats import FieldTable
from tiltlens._limits import SUPPRESSED_BELOW
from tiltlens._rows.groups import JOINT, natural_order
from tiltlens.paper.checks import Floats

FEWEST_GROUPS = 4  # fewest intersections of columns whose dispersion is estimated
MANY_GROUPS = 10  # fewest groups of one column whose dispersion is estimated; fewer are only compared one by one
TAIL = 0.1  # share of the people that the tail bound is about

MOST_DRAWN = 1e9  # most people for numpy's hypergeometric sampler
SCHEMA: dict[str, type[pl.DataType]] = {
    **{"group": pl.String, "people": pl.Int64, "deviation": pl.Float64, "deviation_low": pl.Float64},
    **{"deviation_high": pl.Float64, "rank_low": pl.Int64, "rank_high": pl.Int64},
}


@dataclass(frozen=True, slots=True, eq=False)
class Intersections(FieldTable):
    """The spread of the means of many groups.

    Attributes
    ----------
    groups, singletons
        Numbers of groups of two or more people, and of one person, which contain no information about a spread; the
        second is None where it would reveal the size of a group.
    between_groups
        √θ, the standard deviation of the groups' means, weighted by people, without the noise of small groups.
    main_effects, interaction
        √θ of its two parts: the sum of effects of single columns, and the rest, which only intersections show. None for
        one column.
    equal_means
        p-value of the permutation test that all means are equal.
    tail_bound
        Upper bound on the mean deviation of any union of groups with a tenth of the people.
    frame
        One row per group: people, the deviation of its mean from the overall mean, shrunk to remove noise, and its
        possible ranks.
    """

    groups: int
    singletons: int | None
    between_groups: Estimate
    main_effects: Estimate | None
    interaction: Estimate | None
    equal_means: float
    tail_bound: float
    frame: Annotated[pl.DataFrame, SCHEMA] = field(metadata={"key": "table"})

    def disclosed(self) -> Intersections:
        """Return the same for publication: without groups below ten, and groups that would reveal their sizes."""
        frame = self.frame.filter(~withheld(self.frame["people"].to_numpy()))
        few = self.singletons is None or min(self.singletons, self.groups - frame.height) < SUPPRESSED_BELOW
        return replace(self, frame=frame, singletons=None if few and self.singletons else self.singletons)


def find_intersections(
    totals: Mapping[str, Floats], columns: int, is_decisions: bool, settings: Settings
) -> Intersections | None:
    """Return the dispersion of many groups, or of intersections of columns; None if few, and for plug-in values.

    `totals` are the sums of each group by outcome, (3, 6).
    """
    labels = sorted(totals, key=natural_order)
    sums = np.array([totals[label].sum(axis=0) for label in labels]).reshape(-1, 6)
    is_many = sums[:, PEOPLE] > 1
    count = int(is_many.sum())
    if settings.folds is None or count < (FEWEST_GROUPS if columns > 1 else MANY_GROUPS) or not np.isfinite(sums).all():
        return None
    sums, names = sums[is_many], [label for label, kept in zip(labels, is_many, strict=True) if kept]
    means, share = GroupMeans.of(sums), sums[:, WEIGHT] / sums[:, WEIGHT].sum()
    estimate = group_means.dispersion(group_means.total_form(share), share, means).estimate(settings.confidence)
    people = sums[:, PEOPLE]
    is_counted = is_decisions and bool((people == sums[:, WEIGHT]).all()) and people.sum() < MOST_DRAWN
    main, interaction = _effects(share, means, names, columns, settings.confidence)
    return Intersections(
        groups=count,
        singletons=len(labels) - count,
        between_groups=estimate,
        main_effects=main,
        interaction=interaction,
        equal_means=group_means.equal_means_p_value(share, means, is_counted, settings.random_state),
        # Cauchy–Schwarz: the mean deviation of a share s of the people is at most √(θ/s).
        tail_bound=float(estimate.high or 0.0) / math.sqrt(TAIL),
        frame=_group_frame(names, people.astype(np.int64), share, means, estimate, settings.confidence),
    )


def _effects(
    share: Floats, means: GroupMeans, names: list[str], columns: int, confidence: float
) -> tuple[Estimate | None, Estimate | None]:
    """Return √θ of the main effects and of the interaction; None for both if they cannot be separated."""
    parts = [name.split(JOINT) for name in names]
    if columns < 2 or any(len(part) != columns for part in parts):
        return None, None
    codes: Integers = np.column_stack([np.unique(column, return_inverse=True)[1] for column in np.array(parts).T])
    forms = group_means.effect_forms(share, codes)
    if np.allclose(forms[1].main_diagonal, 0.0, atol=1e-12):
        return None, None
    main, interaction = (group_means.dispersion(form, share, means).estimate(confidence) for form in forms)
    return main, interaction


def _group_frame(
    names: list[str], people: Integers, share: Floats, means: GroupMeans, spread: Estimate, confidence: float
) -> pl.DataFrame:
    value, reach = group_means.shrink_means(share, means, spread.value**2, float(spread.high or 0.0) ** 2, confidence)
    low, high = value - reach, value + reach
    # A group surely ranks before those whose whole interval lies above its own.
    ranks = 1 + np.searchsorted(np.sort(high), low), np.searchsorted(np.sort(low), high, "right")
    columns = (names, people, value + 0.0, low, high, *ranks)  # 0, not −0
    return pl.DataFrame(dict(zip(SCHEMA, columns, strict=True)), schema=SCHEMA)
