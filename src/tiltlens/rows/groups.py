"""Groups and periods of rows as codes, and which groups are compared.

Groups may be known by their probabilities only: then each row has a copy for each group that it may belong to, weighted
by its probability. The copies of a row are one cluster: see docs/methods.md, section 15.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError, check_columns, listed, names_in, shown
from tiltlens.estimators.influence import Integers
from tiltlens.formats import text_of
from tiltlens.limits import MINIMUM_ROWS
from tiltlens.paper.checks import Floats
from tiltlens.rows.scores import RowName
from tiltlens.rows.weights import numbers_of

MOST_PERIODS = 60  # five years of months: more cannot be told apart in a picture
SMALLEST_CHANCE = 1e-6  # of a group: below it a row counts as none of it
CHANCE_ROUNDING = 0.01  # by which rounded probabilities of groups may exceed a sum of 1
NO_GROUP = -1
JOINT = " & "
MONTH_NAMES: tuple[str, ...] = ("january", "february", "march", "april", "may", "june")
MONTH_NAMES += ("july", "august", "september", "october", "november", "december")
MONTHS = [name[:3] for name in MONTH_NAMES]


class ComparedGroups(NamedTuple):
    """Who is compared with whom, and the groups too small for it."""

    reference: str
    audited: tuple[str, ...]
    too_small: Mapping[str, int]


def compared_groups(
    name: str, counts: Mapping[str, int], rows: int, reference: object, audited: object
) -> ComparedGroups:
    """Return who is compared, from the size of each group and what the user named."""
    _check_two_groups(name, counts, rows)
    too_small = {label: count for label, count in counts.items() if count < MINIMUM_ROWS}
    chosen = _largest(counts) if reference is None else _named("reference", reference, counts)
    return ComparedGroups(chosen, _audited(audited, chosen, counts), too_small)


def group_columns(group: object, names: Sequence[str]) -> list[str]:
    """Return the columns that `group` names, none where it is an array of values.

    A list of text holds names, unless it is as long as a table and none of its entries is a column.
    """
    columns = names_in(group) or []
    if len(columns) >= 2 * MINIMUM_ROWS and not set(columns) & set(names):
        return []
    check_columns("group", columns, names)
    _check_distinct(columns)
    return columns


def _check_distinct(columns: Sequence[str]) -> None:
    repeated = next((name for name in columns if columns.count(name) > 1), None)
    if repeated is not None:
        raise DataError(f"`group` names the column {shown(repeated)} twice.", "name each column once.")


def alike_notes(labels: Iterable[str]) -> list[str]:
    """Return notes on groups whose names differ by spaces or letter case only: most often they are one group."""
    alike: dict[str, list[str]] = {}
    for label in labels:
        alike.setdefault("".join(label.split()).casefold(), []).append(label)
    return [
        f"the groups {listed(sorted(spellings))} differ by spaces or letter case only: if they are one, use one name"
        for spellings in alike.values()
        if len(spellings) > 1
    ]


def factorize_groups(name: str, parts: Sequence[pl.Series]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a code per row and the label of each code; a missing part makes the row unknown."""
    codes, labels = _drop_empty(*level_codes(parts[0]))
    for part in parts[1:]:
        more, more_labels = _drop_empty(*level_codes(part))
        joint = np.where((codes >= 0) & (more >= 0), codes * len(more_labels) + more, NO_GROUP)
        pairs, index = np.unique(joint, return_inverse=True)
        first = int(np.searchsorted(pairs, 0))  # 1 where unknown rows are among the pairs
        codes = index.astype(np.int64) - first
        wide = max(len(more_labels), 1)
        labels = tuple(f"{labels[pair // wide]}{JOINT}{more_labels[pair % wide]}" for pair in pairs[first:])
    if len(set(labels)) < len(labels):
        raise DataError(
            f"Groups of `group` ({shown(name)}) have the same name when their parts are joined by {JOINT!r}.",
            "replace the '&' in the values.",
        )
    return codes, labels


def _drop_empty(codes: NDArray[np.int64], labels: tuple[str, ...]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return codes and labels without the levels that no row has."""
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(labels)))
    new_code = np.full(len(labels) + 1, NO_GROUP, dtype=np.int64)  # the last entry serves the code −1
    new_code[used] = np.arange(used.size)
    return new_code[codes], tuple(labels[code] for code in used)


def level_codes(column: pl.Series) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a code per row, −1 where missing, and the text of each code: in declared, numeric or natural order."""
    if column.dtype == pl.String:
        levels = column.drop_nulls().unique().to_list()
        ordered = pl.Series(sorted(levels, key=natural_order), dtype=pl.String)
        codes = column.cast(pl.Enum(ordered)).to_physical()
        labels = tuple(ordered)
    elif isinstance(column.dtype, pl.Enum):
        codes = column.to_physical()
        labels = tuple(column.dtype.categories)
    else:
        values = column.drop_nulls().unique().sort()
        codes = values.search_sorted(column)
        codes = pl.select(pl.when(column.is_not_null()).then(codes)).to_series()
        labels = tuple(text_of(value) for value in values)
    return codes.cast(pl.Int64).fill_null(NO_GROUP).to_numpy(), labels


def natural_order(text: str) -> tuple[object, ...]:
    """Return a sort key by which "item 2" comes before "item 10"."""
    parts = re.split(r"(\d{1,18})", text)  # text and digits take turns, so that like meets like
    return tuple(int(part) if index % 2 else part.casefold() for index, part in enumerate(parts)), text


def _check_two_groups(name: str, counts: Mapping[str, int], rows: int) -> None:
    if not counts:
        raise DataError(
            f"`group` ({shown(name)}) is missing in all {rows} rows.", "pass a column that has group labels."
        )
    if len(counts) == 1:
        raise DataError(
            f"`group` ({shown(name)}) has the single value {listed(list(counts))}, but an audit compares groups.",
            "check the filter before the audit.",
        )
    large = [label for label, count in counts.items() if count >= MINIMUM_ROWS]
    if len(large) < 2:
        sizes = ", ".join(f"{shown(label)} {count}" for label, count in list(counts.items())[:20])
        raise DataError(
            f"`group` ({shown(name)}) needs two groups of at least {MINIMUM_ROWS} rows. Rows: {sizes}.",
            "join groups, bin a numeric column, or add rows.",
        )


def _largest(counts: Mapping[str, int]) -> str:
    return min(counts, key=lambda label: (-counts[label], label))


def _named(argument: str, value: object, counts: Mapping[str, int]) -> str:
    """Return the label of a value that the user named, which must be there and large enough."""
    label = group_key(value)
    check_columns(argument, [label], list(counts), "group")
    if counts[label] < MINIMUM_ROWS:
        raise DataError(
            f"Group {shown(label)} has {counts[label]} rows, but `{argument}` needs at least {MINIMUM_ROWS}.",
            "join it with another group, or add rows.",
        )
    return label


def group_key(value: object) -> str:
    """Return the text by which a group is known; the parts of an intersection may be a tuple."""
    if isinstance(value, tuple):
        return JOINT.join(text_of(part) for part in value)
    return text_of(value)


def _audited(audited: object, reference: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    if audited is None:
        return tuple(label for label, count in counts.items() if label != reference and count >= MINIMUM_ROWS)
    is_intersection = isinstance(audited, tuple) and group_key(audited) in counts
    values = [audited]
    if isinstance(audited, Iterable) and not isinstance(audited, str) and not is_intersection:
        values = list(audited)
    if not values:
        raise DataError("`audited` names no group.", "leave it out to audit every group.")
    labels = tuple(dict.fromkeys(_named("audited", value, counts) for value in values))
    if reference in labels:
        raise DataError(
            f"`audited` and `reference` are the same group, {shown(reference)}.",
            f"name another `reference`. Available groups: {listed(list(counts))}.",
        )
    return labels


def soft_columns(group: object, names: Sequence[str]) -> dict[str, str]:
    """Return the column of each group's probability; none where `group` is not a dict."""
    if not isinstance(group, Mapping):
        return {}
    column_of = {text_of(label): column for label, column in group.items()}
    columns = list(column_of.values())
    if len(column_of) < 2 or not all(isinstance(column, str) for column in columns):
        raise DataError(
            f"`group` must name a column of probabilities for two groups or more, got {shown(group)}.",
            'for example {"Black": "p_black", "White": "p_white"}.',
        )
    check_columns("group", columns, names)
    _check_distinct(columns)
    return column_of


def check_known_groups(known_groups: object, soft: Mapping[str, str]) -> None:
    """Raise where known groups are given although a column has the groups."""
    if known_groups is not None and not soft:
        raise DataError(
            f"`known_groups` ({shown(known_groups)}) applies only where `group` gives probabilities.",
            "name the column as `group`; or give `group` as a dict of each group's column of probabilities.",
        )


def group_chances(columns: Sequence[str], table: pl.DataFrame, row_name: RowName) -> Floats:
    """Return the probability of each group, (n, groups); NaN in all of a row where one is missing."""
    chances = np.column_stack([numbers_of("group", table[name]) for name in columns])
    missing = np.isnan(chances).any(axis=1)
    chances[missing] = np.nan
    outside = (chances < 0.0) | (chances > 1.0)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise DataError(
            f"`group` must give probabilities between 0 and 1, got {chances[row, column]:g} in "
            f"{shown(columns[column])}, {row_name(int(row))}.",
            "divide percentages by 100; leave the cell empty where the probability is unknown.",
        )
    totals = chances.sum(axis=1)
    above = totals > 1.0 + CHANCE_ROUNDING
    if above.any():
        row = int(np.argmax(above))
        raise DataError(
            f"The probabilities of `group` sum to {totals[row]:g} in {row_name(row)}, which is more than 1.",
            "groups must exclude each other; divide each row by its sum if the probabilities were rounded.",
        )
    return np.where(chances < SMALLEST_CHANCE, 0.0, chances)


def read_periods(column: pl.Series) -> pl.Series:
    """Return the period of each row as a text, null where it is missing."""
    codes, labels = level_codes(column.fill_nan(None) if column.dtype.is_float() else column)
    texts = pl.Series([*labels, None], dtype=pl.String)
    return texts.gather(np.where(codes < 0, len(labels), codes))


def sort_periods(periods: Iterable[str]) -> tuple[str, ...]:
    """Return different periods in their order, names of months by the calendar; of too many, one more than may be."""
    different = set(periods)
    months = {period: period.strip()[:3].casefold() for period in different}
    are_months = all(
        short in MONTHS and MONTH_NAMES[MONTHS.index(short)].startswith(period.strip(" .").casefold())
        for period, short in months.items()
    )
    ordered = sorted(different, key=(lambda period: MONTHS.index(months[period])) if are_months else natural_order)
    return tuple(ordered[: MOST_PERIODS + 1])


def check_periods(periods: tuple[str, ...], is_soft: bool) -> None:
    """Raise where there are too few periods to compare, or too many to look at, or groups are known by chances."""
    if is_soft:
        raise DataError(
            "`periods` is not supported where `group` gives probabilities.",
            "audit each period by itself, and compare with tl.compare.",
        )
    if len(periods) > MOST_PERIODS:
        raise DataError(f"`periods` has more than {MOST_PERIODS} values: {listed(periods[:3])}, …", "make them months.")
    if len(periods) < 2:
        raise DataError(f"`periods` needs at least two values, got {listed(periods) or 'none'}.", "leave it out.")


def encode_periods(texts: pl.Series, periods: tuple[str, ...]) -> Integers:
    """Return the place of each row's period, one after the last where it is missing."""
    codes = texts.cast(pl.Enum(periods), strict=False).to_physical().cast(pl.Int64)
    return codes.fill_null(len(periods)).to_numpy()
