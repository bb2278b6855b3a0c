"""The levels of a feature, from the counts of its values: how a column becomes codes with readable labels.

Missing values are a separate level. Scores are not used here, and the group only to recognise its copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import polars as pl

from tiltlens._estimators.influence import Integers
from tiltlens._formats import text_of
from tiltlens._limits import MOST_COUNTED, ROWS_A_CELL
from tiltlens._notes import Note
from tiltlens._rows.groups import natural_order
from tiltlens._rows.roles import GROUP, PEOPLE, WEIGHT
from tiltlens._sources.arrays import Factorized, below, counted_edges, factorize, quantile_edges, text_codes
from tiltlens._sources.tables import MICROSECONDS_PER_DAY
from tiltlens.errors import DataError, quoted
from tiltlens.paper.checks import Floats

FEATURE_BINS = 10  # of a numeric feature, in figures
LEVELLED_NUMBERS = 20  # distinct numbers up to which each is a level
SHOWN_LEVELS = 50  # levels of a category that are named in figures and models; others are pooled
LONGEST_LABEL = 80  # characters
IDENTIFIER_SHARE = 0.95  # distinct texts per known row
FEWEST_TEXTS = 20  # rows below which distinct texts are not taken for identifiers
EDGE_ERROR = 0.05  # share of the narrower adjacent bin by which an edge may be rounded
MOST_PLACES = 1 << 20  # pairs of value and group, up to which counts are made by index
MANY_NUMBERS = 1000  # rows at which distinct whole numbers are not a coincidence

Kind = Literal["numeric", "categorical", "boolean", "date", "constant", "identifier"]
MISSING = "(missing)"
OTHER = "(other)"
EMPTY = "(empty)"
IDENTIFIER_NAME = re.compile(r"(^|[^a-z])(id|ids|uuid|guid|key|index|nr|number)$|[a-z]I[dD]$")


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """How often each value of a feature occurs in each group, or, where there are too many values, their ranges."""

    parts: pl.DataFrame | None  # concatenated counts of batches: a value may have several lines
    only_ranges: pl.DataFrame | None = None  # if there are too many values
    is_summed: bool = False  # whether each value has one line in a group

    @cached_property
    def frame(self) -> pl.DataFrame | None:
        """One row for each value and group: people and their weight."""
        return self.parts if self.parts is None or self.is_summed else _summed(self.parts)

    @property
    def ranges(self) -> pl.DataFrame:
        """One row per group: smallest, largest, whether all numbers are whole, people, missing, infinite."""
        return _ranges(pl.DataFrame(self.parts)) if self.only_ranges is None else self.only_ranges

    def __add__(self, other: ValueCounts) -> ValueCounts:
        if self.parts is not None and other.parts is not None:
            parts = pl.concat([self.parts, other.parts], rechunk=True)
            parts = parts if parts.height <= MOST_COUNTED else _summed(parts)
            return ValueCounts(parts) if parts.height <= MOST_COUNTED else ValueCounts(None, _ranges(parts))
        return ValueCounts(None, pl.concat([self.ranges, other.ranges]).group_by(GROUP).agg(*RANGES))


def _summed(parts: pl.DataFrame) -> pl.DataFrame:
    return parts.group_by(parts.columns[:2]).sum()


RANGES = (
    pl.col("smallest").min(),
    pl.col("largest").max(),
    pl.col("is_whole").all(),
    pl.col(PEOPLE, "missing", "infinite").sum(),
)


def value_counts(
    column: pl.Series, factorized: Factorized | None, codes: Integers, labels: pl.Series, weights: Floats | None
) -> ValueCounts:
    """Return the value counts of a feature, by its distinct values where these are known.

    `codes` are of the groups, and `weights` None where all are 1.
    """
    frame = None if factorized is None else _by_value(factorized, codes, len(labels), weights)
    if frame is None and column.head(2 * MOST_COUNTED).n_unique() <= MOST_COUNTED:
        frame = _counted(column, codes, weights)
    if frame is not None and frame.height <= MOST_COUNTED:
        return ValueCounts(_named(frame, labels))
    everyone = pl.DataFrame({GROUP: codes, column.name: column}).with_columns(pl.lit(1, pl.Int64).alias(PEOPLE))
    return ValueCounts(None, _named(_ranges(everyone), labels))


def _named(frame: pl.DataFrame, labels: pl.Series) -> pl.DataFrame:
    return frame.with_columns(labels.gather(frame[GROUP].cast(pl.UInt32)))


def _by_value(factorized: Factorized, codes: Integers, groups: int, weights: Floats | None) -> pl.DataFrame | None:
    """Return the counts; None where there are too many places."""
    values, size = factorized.values, len(factorized.values) * groups
    if size > MOST_PLACES:
        return None
    keys = factorized.codes * groups
    keys += codes
    counts = np.bincount(keys, minlength=size)
    filled = np.flatnonzero(counts)
    parts = {
        GROUP: filled % groups,
        values.name: values.gather(filled // groups),
        PEOPLE: counts[filled],
        WEIGHT: (counts if weights is None else np.bincount(keys, weights))[filled].astype(np.float64),
    }
    return pl.DataFrame(parts)


def _counted(column: pl.Series, codes: Integers, weights: Floats | None) -> pl.DataFrame:
    """Return the people and the weight of each group and value."""
    rows, keys = pl.DataFrame({GROUP: codes, column.name: column}), [GROUP, column.name]
    people = pl.len().cast(pl.Int64).alias(PEOPLE)
    if weights is None:
        return rows.group_by(keys).agg(people).with_columns(pl.col(PEOPLE).cast(pl.Float64).alias(WEIGHT))
    return rows.with_columns(pl.Series(WEIGHT, weights)).group_by(keys).agg(people, pl.col(WEIGHT).sum())


def exact_counts(column: pl.Series, codes: Integers, labels: pl.Series, weights: Floats | None) -> ValueCounts:
    """Return the counts of all values, however many there are."""
    return ValueCounts(_named(_counted(column, codes, weights), labels), is_summed=True)


def _ranges(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges by group from rows with numbers of people; text does not have a smallest or largest value."""
    name, dtype = frame.columns[1], frame.dtypes[1]
    values, is_infinite, is_whole = pl.lit(None, dtype=pl.Float64), pl.lit(value=False), pl.lit(value=True)
    if dtype.is_numeric() or dtype.is_temporal():
        values = pl.col(name).to_physical()
    if dtype.is_float():
        is_infinite = values.is_infinite().fill_null(value=False)
        values = pl.when(values.is_finite()).then(values)
        is_whole = (values == values.floor()).all()
    return frame.group_by(GROUP).agg(
        values.min().cast(pl.Float64).alias("smallest"),
        values.max().cast(pl.Float64).alias("largest"),
        is_whole.alias("is_whole"),
        pl.col(PEOPLE).sum(),
        (pl.col(PEOPLE) * pl.col(name).is_null()).sum().alias("missing"),
        (pl.col(PEOPLE) * is_infinite).sum().alias("infinite"),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """The encoding of a column as codes of a feature. It is sent to every worker."""

    name: str
    kind: Kind
    labels: tuple[str, ...]  # of the codes
    notes: tuple[Note, ...]
    # The values of the first codes, in their order; of bins the edges: numbers up to the first have code 0
    values: pl.Series | None = None
    # The code of each bin if some are empty; None if codes are positions in `values`
    places: Integers | None = None
    # The codes of missing values and of values that are not among `values`
    missing: int = 0
    other: int = 0
    is_ordered: bool = False
    is_group: bool = False
    # Whether the feature has numbers in addition to its levels, and whether the levels are bins of them
    has_numbers: bool = False
    is_binned: bool = False
    made_of: tuple[str, ...] = ()  # the columns that a declared feature is made of

    def codes(self, column: pl.Series) -> Integers:
        """Return the code of each entry of a clean column."""
        is_text = self.values is not None and self.values.dtype == pl.String
        levels = None if self.values is None or is_text or len(column) <= MOST_COUNTED else factorize(column)
        return self._coded(column) if levels is None else self._coded(levels.values).take(levels.codes)

    def _coded(self, column: pl.Series) -> Integers:
        """Return the codes, entry by entry."""
        if self.values is None:
            return np.zeros(len(column), dtype=np.int64)
        if self.values.dtype == pl.String:
            codes: Integers = text_codes(column.cast(pl.String), self.values, first=0, other=self.other)
        else:
            codes = below(self.values.to_numpy(), numbers_of(column))
            codes = codes if self.places is None else self.places[np.minimum(codes, len(self.places) - 1)]
        return np.where(column.is_null().to_numpy(), self.missing, codes) if column.null_count() else codes


def numbers_of(column: pl.Series) -> Floats:
    """Return a clean column as floats, NaN where missing; dates are days since 1970."""
    if column.dtype == pl.Date:
        return np.asarray(column.to_physical().cast(pl.Float64).to_numpy())
    if column.dtype.is_temporal():
        return np.asarray((column.to_physical() / MICROSECONDS_PER_DAY).to_numpy())
    return np.asarray(column.cast(pl.Float64).to_numpy())


def feature_levels(
    name: str, counts: ValueCounts, groups: Sequence[str], is_weighted: bool, is_sampled: bool
) -> Levels:
    """Return the levels of a feature among the people of some groups.

    `counts` are of all people, or of a sample of them where they have too many values to be counted.
    """
    ranges = counts.ranges.filter(pl.col(GROUP).is_in(groups))
    if infinite := int(ranges["infinite"].sum()):
        raise DataError(
            f"Column {quoted(name)} has infinite values in {infinite:,} row{'' if infinite == 1 else 's'}.",
            "replace them with a number, or with a missing value, which is treated as a separate value.",
        )
    pairs = pl.DataFrame(counts.frame).filter(pl.col(GROUP).is_in(groups))
    values = _of_groups_together(name, pairs)
    levels = _levels(name, values, ranges, is_weighted, is_sampled)
    group = pairs[GROUP].cast(pl.Enum(groups)).to_physical().cast(pl.Int64).to_numpy()
    return _flag_group_copies(levels, levels.codes(pairs[name]), group)


def _of_groups_together(name: str, pairs: pl.DataFrame) -> pl.DataFrame:
    # Sorted first, because groups of sorted values need no hashes.
    return pairs.sort(name).group_by(name, maintain_order=True).agg(pl.col(PEOPLE, WEIGHT).sum())


def value_levels(name: str, counts: ValueCounts, groups: Sequence[str], levels: Levels) -> Levels | None:
    """Return one level per value of a feature, however rare; None for identifiers and for numbers that rarely repeat.

    They are used in sums over all rows, in which nothing is pooled or cut.
    """
    if levels.kind in ("constant", "identifier") or (levels.is_binned and counts.frame is None):
        return None
    if (levels.kind != "categorical" and not levels.is_binned) or counts.frame is None:
        return levels
    mine = counts.frame.filter(pl.col(GROUP).is_in(groups))
    if levels.is_binned:
        if ROWS_A_CELL * mine[name].n_unique() > mine[PEOPLE].sum():
            return None
        values = _of_groups_together(name, mine)
        return _levelled(name, values, levels.kind, values[name].null_count())
    text = mine[name].cast(pl.String).unique().drop_nulls().sort()
    missing = len(text)
    labels = (*text.to_list(), MISSING)
    return replace(levels, labels=labels, values=text, missing=missing, other=missing)


def _flag_group_copies(levels: Levels, codes: Integers, group: Integers) -> Levels:
    """Return the levels, with a note if they are a recoding of the group or are determined by it."""
    if levels.kind in ("constant", "identifier"):
        return levels
    groups = int(group.max(initial=0)) + 1
    cells = np.bincount(codes * groups + group, minlength=len(levels.labels) * groups)
    table = cells.reshape(-1, groups) > 0
    levels_per_group, groups_per_level = table.sum(axis=0), table.sum(axis=1)
    if table.sum() < 2 or levels_per_group.max(initial=0) > 1 or (levels_per_group > 0).sum() < 2:
        return levels
    if groups_per_level.max(initial=0) == 1:
        return replace(levels, is_group=True, notes=(Note("group copy"), *levels.notes))
    if (groups_per_level > 0).sum() > 1:
        return replace(levels, notes=(Note("follows from the group"), *levels.notes))
    return levels


def _levels(name: str, values: pl.DataFrame, ranges: pl.DataFrame, is_weighted: bool, is_sampled: bool) -> Levels:
    column, missing = values[name], int(ranges["missing"].sum())
    if values.height == 1 and not is_sampled:
        label = MISSING if missing else text_of(column[0])
        return Levels(name, "constant", readable([label]), (Note("one value"),))
    if column.dtype in (pl.String, pl.Enum):
        return _categorical(name, values, ranges, is_sampled)
    kind: Kind = "boolean" if column.dtype == pl.Boolean else "date" if column.dtype.is_temporal() else "numeric"
    if values.height <= LEVELLED_NUMBERS or kind == "boolean":
        return _levelled(name, values, kind, missing)
    return _binned(name, values, ranges, kind, is_weighted, is_sampled)


def _levelled(name: str, values: pl.DataFrame, kind: Kind, missing: int) -> Levels:
    observed = values[name].drop_nulls()
    return _of_numbers(name, kind, numbers_of(observed), [text_of(value) for value in observed], missing)


def _of_numbers(
    name: str, kind: Kind, values: Floats, labels: list[str], missing: int, notes: Sequence[Note] = (), **others: Any
) -> Levels:
    """Return the levels of numbers: one for each value, or bins between edges, and a last one if values are missing."""
    shown_labels = readable(labels + ([MISSING] if missing else []))
    notes = (*notes, *missing_notes(missing))
    numbers = pl.Series(values)
    return Levels(
        name, kind, shown_labels, notes, numbers, missing=len(labels), is_ordered=True, has_numbers=True, **others
    )


def _binned(
    name: str, values: pl.DataFrame, ranges: pl.DataFrame, kind: Kind, is_weighted: bool, is_sampled: bool
) -> Levels:
    observed = values.filter(pl.col(name).is_not_null())
    numbers, people = numbers_of(observed[name]), observed[PEOPLE].to_numpy()
    missing = int(ranges["missing"].sum())
    dtype, ends = observed[name].dtype, pl.Series([ranges["smallest"].min(), ranges["largest"].max()], dtype=pl.Float64)
    smallest, largest = numbers_of(ends.cast(pl.Int64).cast(dtype) if dtype.is_temporal() else ends).tolist()
    is_whole = bool(ranges["is_whole"].all()) if kind == "numeric" else bool((numbers == np.floor(numbers)).all())
    if is_weighted:
        edges = quantile_edges(numbers, observed[WEIGHT].to_numpy(), FEATURE_BINS)
    else:
        edges = counted_edges(numbers, people, FEATURE_BINS)
    edges, labels = quantile_bins(edges, kind == "date", is_whole, smallest, largest)
    at = np.searchsorted(edges, numbers, side="left")
    is_filled = np.bincount(at, minlength=len(labels)) > 0
    if is_sampled:
        is_filled[:] = True
    filled = np.flatnonzero(is_filled)
    places = None if is_filled.all() else np.maximum(np.cumsum(is_filled) - 1, 0)
    kept = [labels[bin_] for bin_ in filled]
    sampled = [Note("sampled bins", rows=int(people.sum()))] if is_sampled else []
    levels = _of_numbers(name, kind, edges, kept, missing, sampled, places=places, is_binned=True)
    people_in_all = int(ranges[PEOPLE].sum()) - missing
    is_distinct = kind == "numeric" and is_whole and bool((people == 1).all())
    if is_distinct and _is_key(name, largest - smallest, people_in_all, is_sampled):
        note = Note("identifier", why="whole numbers, every row another")
        return replace(levels, kind="identifier", notes=(note, *levels.notes))
    return levels


def _is_key(name: str, span: float, people: int, is_sampled: bool) -> bool:
    """Return whether distinct whole numbers identify rows: hardly a gap, many rows, or a name such as "id"."""
    is_long = people >= MANY_NUMBERS and not is_sampled  # a sample of amounts may be distinct by accident
    return span < 2 * people or is_long or any(IDENTIFIER_NAME.search(text) for text in (name, name.lower()))


def _categorical(name: str, values: pl.DataFrame, ranges: pl.DataFrame, is_sampled: bool) -> Levels:
    column = values[name]
    text, missing = column.cast(pl.String), int(ranges["missing"].sum())
    distinct, people = text.n_unique() - (text.null_count() > 0), int(ranges[PEOPLE].sum()) - missing
    seen = int(values.filter(pl.col(name).is_not_null())[PEOPLE].sum()) if is_sampled else people
    if column.dtype != pl.Enum and seen >= FEWEST_TEXTS and distinct >= IDENTIFIER_SHARE * seen:
        count = f"{'at least ' if is_sampled else ''}{distinct} distinct texts{_numbers_remark(text)}"
        note = Note("identifier", why=count)
        return Levels(name, "identifier", ("(all different)",), (note,))
    kept = _kept_levels(text.fill_null(MISSING), values[WEIGHT])
    labels = _ordered(kept, column.dtype)
    notes = missing_notes(missing)
    if distinct > SHOWN_LEVELS:
        many = f"{distinct} different values{_numbers_remark(text)}"
        notes = (Note("many values", values=many, kept=len(labels), other=OTHER), *notes)
    if is_sampled:
        notes = (Note("sampled levels"), *notes)
    labels += [OTHER] if OTHER in kept or distinct > SHOWN_LEVELS else []
    labels += [MISSING] if MISSING in kept or missing else []
    other = labels.index(OTHER) if OTHER in labels else 0
    at_missing = labels.index(MISSING) if MISSING in labels else other
    raw = pl.Series(labels, dtype=pl.String)
    return Levels(
        name,
        "categorical",
        readable(labels),
        notes,
        raw,
        missing=at_missing,
        other=other,
        is_ordered=column.dtype == pl.Enum,
    )


def missing_notes(missing: int) -> tuple[Note, ...]:
    """Return a note on missing values without their number, from which a suppressed count might follow."""
    return (Note("missing values"),) if missing else ()


def _kept_levels(text: pl.Series, weights: pl.Series) -> set[str]:
    """Return the most frequent levels; among equally frequent ones, the first in alphabetical order."""
    frame = pl.DataFrame({"level": text, "weight": weights})
    sums = pl.col("weight").sum().round_sig_figs(9)  # equal up to rounding is equal
    counts = frame.group_by("level").agg(sums).sort("weight", "level", descending=[True, False])
    levels = counts["level"].to_list()
    plain = [level for level in levels if level not in (MISSING, OTHER)]
    return {*plain[:SHOWN_LEVELS], *({MISSING, OTHER} & set(levels))}


def _ordered(kept: set[str], dtype: pl.DataType) -> list[str]:
    """Return the kept levels in their declared order, or in natural order."""
    plain = kept - {MISSING, OTHER}
    if isinstance(dtype, pl.Enum):
        return [level for level in dtype.categories if level in plain]
    return sorted(plain, key=natural_order)


def _numbers_remark(text: pl.Series) -> str:
    """Return a remark if all texts are numbers, since numbers may have been intended."""
    observed = text.drop_nulls()
    is_number = observed.len() and observed.cast(pl.Float64, strict=False).null_count() == 0
    return " (all numbers, written as text)" if is_number else ""


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


def quantile_bins(
    edges: Floats, is_date: bool, is_whole: bool, smallest: float, largest: float
) -> tuple[Floats, list[str]]:
    """Return quantiles as edges that read well, and the labels of the bins between them."""
    if not is_whole:
        edges = _whole_days(edges) if is_date else _rounded(edges, smallest, largest)
    return edges, _bin_labels(edges, smallest, is_whole, _day_text if is_date else text_of)


def _rounded(edges: Floats, smallest: float, largest: float) -> Floats:
    """Return the edges rounded to as few digits as hardly change the bins, so that labels are exact."""
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
