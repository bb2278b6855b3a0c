"""Who is compared with whom: the groups of a table as codes, with everyone accounted for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.limits import MINIMUM_ROWS
from tiltlens.sources.messages import check_columns, listed, nearest_name, shown, text_of

NO_GROUP = -1
JOINT = " & "


class ComparedGroups(NamedTuple):
    """Who is compared with whom, and the groups too small for it."""

    reference: str
    audited: tuple[str, ...]
    too_small: Mapping[str, int]


def compared_groups(
    name: str, counts: Mapping[str, int], rows: int, reference: Any, audited: Any, minimum: int = MINIMUM_ROWS
) -> ComparedGroups:
    """Return who is compared, from the size of each group and what the user named."""
    _check_two_groups(name, counts, rows, minimum)
    too_small = {label: count for label, count in counts.items() if count < minimum}
    chosen = _largest(counts) if reference is None else _named("reference", reference, counts, minimum)
    return ComparedGroups(chosen, _audited(audited, chosen, counts, minimum), too_small)


def group_columns(group: Any, names: Sequence[str]) -> list[str]:
    """Return the columns that `group` names, none where it is an array of values.

    A list of text holds names, unless it is as long as a table and none of its entries is a column.
    """
    if isinstance(group, str):
        group = [group]
    if not isinstance(group, (list, tuple)) or not group or not all(isinstance(part, str) for part in group):
        return []
    if len(group) >= 2 * MINIMUM_ROWS and not set(group) & set(names):
        return []
    check_columns("group", group, names)
    twice = next((name for name in group if group.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"`group` must name different columns, got {shown(twice)} twice.", "name each of them once.")
    return list(group)


def alike_notes(labels: Iterable[str]) -> list[str]:
    """Return notes on groups whose names differ by spaces or letter case only: most often they are one group."""
    alike: dict[str, list[str]] = {}
    for label in labels:
        alike.setdefault("".join(label.split()).casefold(), []).append(label)
    return [
        f"the groups {listed(sorted(found))} differ by spaces or letter case only: if they are one, write them alike"
        for found in alike.values()
        if len(found) > 1
    ]


def factorize_groups(name: str, parts: Sequence[pl.Series]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a code per row and the label of each code; a missing part makes the row unknown."""
    codes, labels = _found(*level_codes(parts[0]))
    for part in parts[1:]:
        more, more_labels = _found(*level_codes(part))
        joint = np.where((codes >= 0) & (more >= 0), codes * len(more_labels) + more, NO_GROUP)
        pairs, place = np.unique(joint, return_inverse=True)
        first = int(np.searchsorted(pairs, 0))  # 1 where unknown rows are among the pairs
        codes = place.astype(np.int64) - first
        wide = max(len(more_labels), 1)
        labels = tuple(f"{labels[pair // wide]}{JOINT}{more_labels[pair % wide]}" for pair in pairs[first:])
    if len(set(labels)) < len(labels):
        raise DataError(
            f"the values of `group` ({shown(name)}) must stay apart when joined by {JOINT!r}, "
            "got values that hold it themselves.",
            "replace the '&' in the values.",
        )
    return codes, labels


def _found(codes: NDArray[np.int64], labels: tuple[str, ...]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return codes and labels without the levels that no row has."""
    found = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(labels)))
    place = np.full(len(labels) + 1, NO_GROUP, dtype=np.int64)  # the last entry serves the code −1
    place[found] = np.arange(found.size)
    return place[codes], tuple(labels[code] for code in found)


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


def natural_order(text: str) -> tuple[Any, ...]:
    """Return a sort key by which "item 2" comes before "item 10"."""
    parts = re.split(r"(\d{1,18})", text)  # text and digits take turns, so that like meets like
    return tuple(int(part) if place % 2 else part.casefold() for place, part in enumerate(parts)), text


def _check_two_groups(name: str, counts: Mapping[str, int], rows: int, minimum: int) -> None:
    if not counts:
        raise DataError(f"`group` ({shown(name)}) must have known values, got {rows} missing ones.", "see its column.")
    if len(counts) == 1:
        raise DataError(
            f"`group` ({shown(name)}) must have at least two values, got {listed(list(counts))} only.",
            "an audit compares groups: check the filter before it.",
        )
    large = [label for label, count in counts.items() if count >= minimum]
    if len(large) < 2:
        sizes = ", ".join(f"{shown(label)} {count}" for label, count in list(counts.items())[:20])
        raise DataError(
            f"`group` ({shown(name)}) must have two groups of at least {minimum} rows, "
            f"got {len(large)} (rows: {sizes}).",
            "too few people to say anything: join groups, bin a numeric column, or bring more rows.",
        )


def _largest(counts: Mapping[str, int]) -> str:
    return min(counts, key=lambda label: (-counts[label], label))


def _named(argument: str, value: Any, counts: Mapping[str, int], minimum: int) -> str:
    """Return the label of a value that the user named, which must be there and large enough."""
    label = group_key(value)
    if label not in counts:
        nearest = nearest_name(label, list(counts))
        suggestion = f"did you mean {shown(nearest)}? " if nearest is not None else ""
        raise DataError(
            f"`{argument}` must be one of the values of the group, got {shown(value)}.",
            f"{suggestion}the values found are {listed(list(counts))}.",
        )
    if counts[label] < minimum:
        raise DataError(
            f"`{argument}` must be a group of at least {minimum} rows, got {shown(label)} with {counts[label]}.",
            "too few people to say anything: join it with another group, or bring more rows.",
        )
    return label


def group_key(value: Any) -> str:
    """Return the text by which a group is known; the parts of an intersection may be a tuple."""
    if isinstance(value, tuple):
        return JOINT.join(text_of(part) for part in value)
    return text_of(value)


def _audited(audited: Any, reference: str, counts: Mapping[str, int], minimum: int) -> tuple[str, ...]:
    if audited is None:
        return tuple(label for label, count in counts.items() if label != reference and count >= minimum)
    is_several = isinstance(audited, Iterable) and not isinstance(audited, (str, tuple))
    values = list(audited) if is_several else _split(audited, counts)
    if not values:
        raise DataError("`audited` must name at least one group, got none.", "leave it out to audit every group.")
    labels = tuple(dict.fromkeys(_named("audited", value, counts, minimum) for value in values))
    if reference in labels:
        raise DataError(
            f"`audited` must differ from the reference, got {shown(reference)} for both.",
            f"name another `reference`; the values found are {listed(list(counts))}.",
        )
    return labels


def _split(audited: Any, counts: Mapping[str, int]) -> list[Any]:
    """Return a tuple as one intersection where it names one, and else as several groups."""
    if isinstance(audited, tuple) and group_key(audited) not in counts:
        return list(audited)
    return [audited]
