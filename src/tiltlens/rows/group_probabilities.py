"""Groups that are known by their probabilities: each row stands in every group, with its chance as a weight.

A row becomes one copy for each group that it may belong to. The copies of a row are one cluster, so that errors are
those of rows: see docs/methods.md, section 15.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.limits import CHANCE_ROUNDING, SMALLEST_CHANCE
from tiltlens.paper.checks import Floats
from tiltlens.rows.scores import RowName
from tiltlens.rows.weights import numbers_of
from tiltlens.sources.messages import check_columns, shown, text_of


def soft_columns(group: Any, names: Sequence[str]) -> dict[str, str]:
    """Return the column of each group's probability; none where `group` is no dict."""
    if not isinstance(group, Mapping):
        return {}
    found = {text_of(label): column for label, column in group.items()}
    columns = list(found.values())
    if len(found) < 2 or not all(isinstance(column, str) for column in columns):
        raise DataError(
            f"`group` must name a column of probabilities for two groups or more, got {shown(group)}.",
            'for example {"Black": "p_black", "White": "p_white"}.',
        )
    check_columns("group", columns, names)
    twice = next((column for column in columns if columns.count(column) > 1), None)
    if twice is not None:
        raise DataError(
            f"`group` must name another column for each group, got {shown(twice)} twice.",
            "the column of a group holds the probability of that group.",
        )
    return found


def check_known_groups(known_groups: Any, soft: Mapping[str, str]) -> None:
    """Raise where known groups are given beside a column of groups."""
    if known_groups is not None and not soft:
        raise DataError(
            f"`known_groups` must come with a `group` of probabilities, got {shown(known_groups)} with a "
            "column of groups.",
            "name the column as `group`; or give `group` as a dict of each group's column of probabilities.",
        )


def group_chances(columns: Sequence[str], table: pl.DataFrame, row_name: RowName) -> Floats:
    """Return the probability of each group, (n, groups); NaN in all of a row where one is missing."""
    chances = np.column_stack([numbers_of("group", table[name]) for name in columns])
    missing = np.isnan(chances).any(axis=1)
    chances[missing] = np.nan
    outside = (chances < 0.0) | (chances > 1.0)
    if outside.any():
        row, place = np.argwhere(outside)[0]
        raise DataError(
            f"`group` must have probabilities between 0 and 1, got {chances[row, place]:g} of {shown(columns[place])} "
            f"in {row_name(int(row))}.",
            "divide percentages by 100; leave the cell empty where nothing is known.",
        )
    totals = chances.sum(axis=1)
    above = totals > 1.0 + CHANCE_ROUNDING
    if above.any():
        row = int(np.argmax(above))
        raise DataError(
            f"`group` must have probabilities that sum to 1 at most, got {totals[row]:g} in {row_name(row)}.",
            "they are of groups that exclude each other; divide each row by its sum if they were rounded.",
        )
    return np.where(chances < SMALLEST_CHANCE, 0.0, chances)
