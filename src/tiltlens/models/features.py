"""Columns as features: a discrete version with readable levels, a numeric one, and notes on what was done.

Missing is a level of its own. Nothing here looks at the scores; the group serves only to tell its copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.engines.tables import MICROSECONDS_PER_DAY, check_columns, listed, shown, text_of
from tiltlens.errors import DataError
from tiltlens.estimators.estimate import Codes, RowSums
from tiltlens.models.groups import level_codes, natural_order
from tiltlens.threads import in_threads

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Kind = Literal["numeric", "categorical", "boolean", "date", "constant", "identifier"]

MISSING = "(missing)"
OTHER = "(other)"
EMPTY = "(empty)"
BINS = 10
MOST_VALUES = 20  # distinct numbers that stay levels of their own
MOST_LEVELS = 50
FEWEST_AUDITED = 5  # audited rows of a level in each fold; singletons vanish from the leave-one-out sums
LONGEST_LABEL = 80
IDENTIFIER_SHARE = 0.95  # distinct texts per known row
FEWEST_TEXTS = 20  # rows below which distinct texts prove nothing
MANY_NUMBERS = 1000  # rows at which distinct whole numbers are no accident
IDENTIFIER_NAME = re.compile(r"(^|[^a-z])(id|ids|uuid|guid|key|index|nr|number)$|[a-z]I[dD]$")
EDGE_ERROR = 0.05  # of the narrower bin beside it, by which an edge may be rounded
ROUNDING = 1e-9  # of a sum of weights


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """One feature: `codes` index `labels`; `values` are its numbers, NaN where missing, if it has any.

    `is_ordered` says that neighbouring codes are neighbours in meaning; `is_group` that the feature is the group
    itself or a one-to-one recoding of it.
    """

    name: str
    kind: Kind
    codes: Codes
    labels: tuple[str, ...]
    values: Floats | None = None
    notes: tuple[str, ...] = ()
    is_ordered: bool = False
    is_group: bool = False

    @property
    def in_membership(self) -> bool:
        """Return whether a membership model may learn from the feature."""
        return self.kind not in ("constant", "identifier") and not self.is_group

    def rows(self, index: Integers) -> Feature:
        """Return the feature on some of the rows."""
        return replace(self, codes=self.codes[index], values=None if self.values is None else self.values[index])


def feature_names(features: str | Sequence[str] | None, names: Sequence[str], used: Iterable[str] = ()) -> list[str]:
    """Return the listed features, or by default every column that is not used otherwise."""
    if features is None:
        taken = set(used)
        chosen = [name for name in names if name not in taken]
    else:
        chosen = list(dict.fromkeys([features] if isinstance(features, str) else features))
        check_columns("features", chosen, names)
    if not chosen:
        raise DataError(
            "`features` must name at least one column, got none.",
            f"the columns are {listed(names)}; those used as group, score or weight are no features.",
        )
    return chosen


def encode_features(
    table: pl.DataFrame,
    names: Sequence[str],
    group: Integers | None = None,
    weights: Floats | None = None,
    bins: int = BINS,
) -> tuple[Feature, ...]:
    """Return one feature per name, none left out; `group` holds a code per row, −1 where unknown."""
    features = in_threads(lambda name: encode_feature(table[name], weights, bins), names, table.height)
    return tuple(features if group is None else [flagged(feature, group) for feature in features])


def encode_feature(column: pl.Series, weights: Floats | None = None, bins: int = BINS) -> Feature:
    """Return one clean column as a feature; row weights count as repeated rows when edges and levels are chosen."""
    if _distinct_up_to(column, 1) == 1:
        label = MISSING if column.null_count() else text_of(column[0])
        zeros = np.zeros(len(column), dtype=np.int64)
        return Feature(column.name, "constant", zeros, readable([label]), None, ("has one value only",))
    if column.dtype in (pl.String, pl.Enum):
        return _categorical(column, weights)
    if column.dtype == pl.Boolean:
        return _levelled(column, "boolean", column.cast(pl.Float64).to_numpy())
    values = _numbers(column)
    kind: Kind = "date" if column.dtype.is_temporal() else "numeric"
    if _distinct_up_to(column, MOST_VALUES) <= MOST_VALUES:
        return _levelled(column, kind, values)
    feature = _binned(column, kind, values, weights, bins)
    if kind == "numeric" and _is_identifier(column, values):
        note = "looks like an identifier: whole numbers, every row another; not used to tell the groups apart"
        return replace(feature, kind="identifier", notes=(note, *feature.notes))
    return feature


def _distinct_up_to(column: pl.Series, limit: int) -> int:
    """Return how many distinct values there are, or some number above `limit` as soon as that is sure."""
    first = column.head(20 * limit).n_unique()
    return first if first > limit else column.n_unique()


def _numbers(column: pl.Series) -> Floats:
    """Return the column as finite floats, NaN where missing; dates are days since 1970."""
    if column.dtype == pl.Date:
        return column.to_physical().cast(pl.Float64).to_numpy()
    if column.dtype.is_temporal():
        return (column.to_physical() / MICROSECONDS_PER_DAY).to_numpy()
    values = column.cast(pl.Float64).to_numpy()
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise DataError(
            f"column {shown(column.name)} must be finite, got {values[row]} in row {row} "
            f"({int(infinite.sum())} infinite values in all).",
            "replace it by a number, or by a missing value, which counts as a level of its own.",
        )
    return values


def _levelled(column: pl.Series, kind: Kind, values: Floats) -> Feature:
    """Return a feature whose few distinct values are its levels."""
    codes, levels = level_codes(column)
    codes, labels, notes = _with_missing(codes, list(levels))
    return Feature(column.name, kind, codes, readable(labels), values, notes, is_ordered=True)


def _with_missing(codes: Integers, labels: list[str]) -> tuple[Integers, list[str], tuple[str, ...]]:
    """Return codes with −1 turned into a level of its own, the last."""
    missing = codes < 0
    if not missing.any():
        return codes, labels, ()
    return np.where(missing, len(labels), codes), [*labels, MISSING], missing_notes(True)


def missing_notes(is_missing: bool) -> tuple[str, ...]:
    """Return what is done with missing values; not how many, or one group's count would follow from the other's."""
    return ("missing values are a level of their own",) if is_missing else ()


def _binned(column: pl.Series, kind: Kind, values: Floats, weights: Floats | None, bins: int) -> Feature:
    """Return a feature cut at quantiles, each bin open below and closed above."""
    known = ~np.isnan(values)
    everyone = bool(known.all())
    numbers = values if everyone else values[known]
    is_whole = bool((numbers == np.floor(numbers)).all())
    used = weights if weights is None or everyone else weights[known]
    ends = float(numbers.min()), float(numbers.max())
    edges, labels = quantile_bins(_quantile_edges(numbers, used, bins), kind, is_whole, *ends)
    codes = np.searchsorted(edges, values, side="left")
    codes[~known] = -1
    filled = np.flatnonzero(np.bincount(codes[known], minlength=len(labels)))
    place = np.full(len(labels) + 1, -1, dtype=np.int64)  # the last entry serves the code −1
    place[filled] = np.arange(filled.size)
    codes, kept, notes = _with_missing(place[codes], [labels[bin_] for bin_ in filled])
    notes = (f"cut into {filled.size} bins at quantiles", *notes)
    return Feature(column.name, kind, codes, readable(kept), values, notes, is_ordered=True)


def quantile_bins(
    edges: Floats, kind: Kind, is_whole: bool, smallest: float, largest: float
) -> tuple[Floats, list[str]]:
    """Return quantiles as edges that read well, and the labels of the bins between them."""
    if not is_whole:
        edges = _whole_days(edges) if kind == "date" else _rounded(edges, smallest, largest)
    return edges, _bin_labels(edges, smallest, is_whole, _day_text if kind == "date" else text_of)


def counted_edges(numbers: Floats, people: Integers, weights: Floats | None, bins: int) -> Floats:
    """Return the distinct inner quantiles of sorted, distinct numbers that so many people have."""
    if weights is not None:
        return _quantile_edges(numbers, weights, bins)
    steps, total = np.arange(1, bins), np.cumsum(people)
    places = np.ceil(steps * int(total[-1]) / bins).astype(np.int64) - 1
    return _inner_edges(numbers, numbers[np.searchsorted(total, places, side="right")])


def _quantile_edges(numbers: Floats, weights: Floats | None, bins: int) -> Floats:
    """Return the distinct inner quantiles, each a value that occurs, below the largest."""
    steps = np.arange(1, bins)
    if weights is None:
        places = np.ceil(steps * numbers.size / bins).astype(np.int64) - 1
        quantiles = np.partition(numbers, places)[places]
    else:
        order = np.argsort(numbers, kind="stable")
        total = np.cumsum(weights[order])
        reached = (1.0 - ROUNDING) * total[-1] / bins  # a sum of weights may fall short of its quantile by rounding
        quantiles = numbers[order][np.searchsorted(total, steps * reached)]
    return _inner_edges(numbers, quantiles)


def _inner_edges(numbers: Floats, quantiles: Floats) -> Floats:
    largest = numbers.max()
    edges = np.unique(quantiles[quantiles < largest])
    return edges if edges.size else np.array([numbers[numbers < largest].max()])


def _rounded(edges: Floats, smallest: float, largest: float) -> Floats:
    """Return the edges with as few digits as leave the bins what they were, so that labels are exact."""
    fenced = np.concatenate([[smallest], edges, [largest]])
    gaps = np.diff(fenced)
    room = EDGE_ERROR * np.minimum(gaps[:-1], gaps[1:])
    return np.unique([_shortest(edge, allowed) for edge, allowed in zip(edges.tolist(), room.tolist(), strict=True)])


def _shortest(edge: float, allowed: float) -> float:
    if allowed > 0:
        start = int(np.floor(-np.log10(allowed))) - 1
        for digits in range(start, start + 4):
            candidate = round(edge, digits) + 0.0  # no −0
            if abs(candidate - edge) <= allowed:
                return candidate
    return edge


def _whole_days(edges: Floats) -> Floats:
    """Return edges of times as whole days where these stay apart."""
    days = np.floor(edges)
    return days if np.unique(days).size == days.size else edges


def _day_text(days: float) -> str:
    moment = datetime(1970, 1, 1) + timedelta(days=float(days))
    return moment.isoformat(sep=" ", timespec="seconds").removesuffix(" 00:00:00")


def _bin_labels(edges: Floats, smallest: float, is_whole: bool, text: Callable[[float], str]) -> list[str]:
    """Return "≤ 3", "4 to 7", "> 7"; whole numbers name the values inside, others the edges."""
    first = text(edges[0]) if smallest == edges[0] else f"≤ {text(edges[0])}"
    inner = []
    for low, high in pairwise(edges.tolist()):
        start = low + 1 if is_whole else low
        inner.append(text(high) if is_whole and start == high else f"{text(start)} to {text(high)}")
    return [first, *inner, f"> {text(edges[-1])}"]


def _is_identifier(column: pl.Series, values: Floats) -> bool:
    """Return whether a numeric column has a different whole number in every known row, and a reason to mean a key.

    Amounts may be distinct by accident: in a short table it takes a telling name, or numbers without gaps.
    """
    numbers = values[~np.isnan(values)]
    if (numbers != np.floor(numbers)).any():
        return False
    known = column.drop_nulls()
    if known.head(MANY_NUMBERS).n_unique() < min(known.len(), MANY_NUMBERS) or known.n_unique() < known.len():
        return False
    is_gapless = numbers.max() - numbers.min() < 2 * numbers.size
    return bool(is_gapless or numbers.size >= MANY_NUMBERS or has_identifier_name(column.name))


def has_identifier_name(name: str) -> bool:
    """Return whether a column is called like a key."""
    return bool(IDENTIFIER_NAME.search(name) or IDENTIFIER_NAME.search(name.lower()))


def _categorical(column: pl.Series, weights: Floats | None) -> Feature:
    """Return a feature of levels: all of them, or the most frequent and the rest together."""
    text = column.cast(pl.String)
    missing = text.null_count()
    distinct = text.n_unique() - (missing > 0)
    is_declared = column.dtype == pl.Enum
    if not is_declared and is_text_identifier(len(column) - missing, distinct):
        note = f"looks like an identifier: {distinct} distinct texts; not used to tell the groups apart"
        zeros = np.zeros(len(column), dtype=np.int64)
        return Feature(column.name, "identifier", zeros, ("(all different)",), None, (note,))
    filled = text.fill_null(MISSING)
    labels, ordered = category_labels(filled, weights, column.dtype, distinct)
    codes = filled.cast(pl.Enum(labels), strict=False).to_physical().cast(pl.Int64)
    if distinct > MOST_LEVELS:
        codes = codes.fill_null(labels.index(OTHER))
    notes = level_notes(distinct, ordered, missing > 0)
    return Feature(column.name, "categorical", codes.to_numpy(), readable(labels), None, notes, is_ordered=is_declared)


def category_labels(text: pl.Series, weights: Floats | None, dtype: Any, distinct: int) -> tuple[list[str], int]:
    """Return the levels that stay, special ones last, and how many are not special."""
    kept = _kept_levels(text, weights)
    ordered = _ordered(kept, dtype)
    special = [label for label in (OTHER, MISSING) if label in kept or (label == OTHER and distinct > MOST_LEVELS)]
    return ordered + special, len(ordered)


def is_text_identifier(known: int, distinct: int) -> bool:
    """Return whether so many distinct texts among so many known ones are a key."""
    return known >= FEWEST_TEXTS and distinct >= IDENTIFIER_SHARE * known


def _kept_levels(text: pl.Series, weights: Floats | None) -> set[str]:
    """Return the levels that stay; of equally frequent ones the first in the alphabet."""
    frame = pl.DataFrame({"level": text}).with_columns(weight=pl.lit(1.0) if weights is None else pl.Series(weights))
    sums = pl.col("weight").sum().round_sig_figs(9)  # equal up to rounding is equal
    counts = frame.group_by("level").agg(sums).sort("weight", "level", descending=[True, False])
    levels = counts["level"].to_list()
    plain = [level for level in levels if level not in (MISSING, OTHER)]
    return {*plain[:MOST_LEVELS], *(level for level in levels if level in (MISSING, OTHER))}


def _ordered(kept: set[str], dtype: Any) -> list[str]:
    """Return the kept levels in their declared order, or as people would sort them."""
    plain = kept - {MISSING, OTHER}
    if isinstance(dtype, pl.Enum):
        return [level for level in dtype.categories if level in plain]
    return sorted(plain, key=natural_order)


def level_notes(distinct: int, kept: int, is_missing: bool) -> tuple[str, ...]:
    """Return what was done to the levels of a category."""
    many = f"has {distinct} levels: the {kept} most frequent are kept, the rest are {OTHER!r}"
    return (*((many,) if distinct > MOST_LEVELS else ()), *missing_notes(is_missing))


def readable(labels: Sequence[str]) -> tuple[str, ...]:
    """Return labels that are short, not blank, and still distinct."""
    used: set[str] = set()
    texts = []
    for label in labels:
        short = label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"
        candidate = base = short if short.strip() else EMPTY
        number = 2
        while candidate in used:
            candidate = f"{base} #{number}"
            number += 1
        used.add(candidate)
        texts.append(candidate)
    return tuple(texts)


def flagged(feature: Feature, group: Integers) -> Feature:
    """Return the feature with a note where it is the group, or follows from it."""
    if feature.kind in ("constant", "identifier"):
        return feature
    groups = int(group.max(initial=0)) + 2  # the first column takes the unknown
    cells = np.bincount(feature.codes * groups + group + 1, minlength=len(feature.labels) * groups)
    table = cells.reshape(-1, groups)[:, 1:] > 0
    levels_per_group, groups_per_level = table.sum(axis=0), table.sum(axis=1)
    if table.sum() < 2 or levels_per_group.max(initial=0) > 1 or (levels_per_group > 0).sum() < 2:
        return feature
    if groups_per_level.max(initial=0) == 1:
        note = "is the group itself, or a one-to-one recoding of it; not used to tell the groups apart"
        return replace(feature, is_group=True, notes=(note, *feature.notes))
    if (groups_per_level > 0).sum() > 1:
        return replace(feature, notes=("follows from the group: it is the same for everyone in one", *feature.notes))
    return feature


def _joined_levels(
    counts: NDArray[Any], labels: Sequence[str], minimum: int, ordered: bool
) -> tuple[Integers | None, tuple[str, ...], tuple[str, ...]]:
    """Return each level's place after rare ones were joined (None: none was), the labels then, and notes.

    `counts` are audited rows by fold and level.
    """
    if counts.min(axis=0).min(initial=minimum) >= minimum:
        return None, tuple(labels), ()
    parts = _joined_neighbours(counts, labels, minimum) if ordered else _pooled(counts, labels, minimum)
    place = np.empty(len(labels), dtype=np.int64)
    for number, part in enumerate(parts):
        place[part] = number
    names = [_part_label(part, labels, ordered) for part in parts]
    return place, readable(names), _merge_notes(parts, names, labels, minimum)


def joined_feature(feature: Feature, rows: RowSums, fold: Codes, minimum: int = FEWEST_AUDITED) -> Feature:
    """Return the feature with levels joined until each has `minimum` audited rows in every fold, where possible.

    Ordered levels join a neighbour (missing ones the largest level), others "(other)"; notes say so.
    """
    counts = rows.counts_by_fold(fold, feature.codes, len(feature.labels))
    place, labels, notes = _joined_levels(counts, feature.labels, minimum, feature.is_ordered)
    if place is None:
        return feature
    codes = rows.recoded(feature.codes, place)
    return replace(feature, codes=codes, labels=labels, notes=(*feature.notes, *notes))


def _joined_neighbours(counts: Integers, labels: Sequence[str], minimum: int) -> list[list[int]]:
    """Return runs of ordered levels, the rarest joined first, each time with its smaller neighbour."""
    parts = [[level] for level, label in enumerate(labels) if label != MISSING]
    missing = [level for level, label in enumerate(labels) if label == MISSING]

    def total(part: list[int]) -> int:
        return int(counts[:, part].sum())

    while len(parts) > 1:
        rarity = [_rarity(counts, part) for part in parts]
        rarest = int(np.argmin(rarity))
        if rarity[rarest] >= minimum:
            break
        sides = [side for side in (rarest - 1, rarest + 1) if 0 <= side < len(parts)]
        first = min(rarest, min(sides, key=lambda side: total(parts[side])))
        parts[first : first + 2] = [parts[first] + parts[first + 1]]
    if missing and parts and _rarity(counts, missing) < minimum:
        max(parts, key=total).extend(missing)
    elif missing:
        parts.append(missing)
    return parts


def _rarity(counts: Integers, part: Sequence[int]) -> int:
    return int(counts[:, list(part)].sum(axis=1).min())


def _pooled(counts: Integers, labels: Sequence[str], minimum: int) -> list[list[int]]:
    """Return single levels and one pool, last, of the rare ones and of as many more as the pool needs."""
    total = counts.sum(axis=0)
    by_size = sorted(range(len(labels)), key=lambda level: (total[level], labels[level]))
    pool = [level for level in by_size if labels[level] == OTHER or _rarity(counts, [level]) < minimum]
    for level in by_size:
        if _rarity(counts, pool) >= minimum:
            break
        if level not in pool:
            pool.append(level)
    rest = [[level] for level in range(len(labels)) if level not in pool]
    return [*rest, sorted(pool)]


def _part_label(part: Sequence[int], labels: Sequence[str], ordered: bool) -> str:
    if len(part) == 1:
        return labels[part[0]]
    if not ordered:
        return OTHER
    names = [labels[level] for level in part]
    return " or ".join(names) if len(names) <= 3 else f"{names[0]} … {names[-1]}"


def _merge_notes(
    parts: Sequence[Sequence[int]], names: Sequence[str], labels: Sequence[str], minimum: int
) -> tuple[str, ...]:
    return tuple(
        f"levels {listed([labels[level] for level in part])} joined as {shown(name)}: "
        f"fewer than {minimum} audited rows in a fold"
        for part, name in zip(parts, names, strict=True)
        if len(part) > 1
    )


def design_columns(features: Sequence[Feature]) -> dict[str, NDArray[Any]]:
    """Return what a membership model learns from: floats (NaN = missing), or the codes of categorical levels.

    Constants, identifiers and copies of the group are left out; their notes say so.
    """
    columns: dict[str, NDArray[Any]] = {}
    for feature in features:
        if feature.in_membership:
            columns[feature.name] = feature.codes if feature.values is None else feature.values
    if not columns:
        reasons = ", ".join(f"{shown(f.name)} is {_reason(f)}" for f in features[:20])
        raise DataError(
            f"`features` must hold a column that varies and is no identifier, got none: {reasons}.",
            "add a feature that people of one group may share with people of another.",
        )
    return columns


def _reason(feature: Feature) -> str:
    if feature.is_group:
        return "the group itself"
    return "constant" if feature.kind == "constant" else "an identifier"
