"""The levels of a feature from the counts of its values: what `encode_feature` finds in a column, found in a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.engines.arrays import below
from tiltlens.engines.tables import MICROSECONDS_PER_DAY, shown, text_of
from tiltlens.errors import DataError
from tiltlens.estimators.estimate import Codes, Integers
from tiltlens.models.features import (
    BINS,
    MANY_NUMBERS,
    MISSING,
    MOST_VALUES,
    OTHER,
    Feature,
    Kind,
    category_labels,
    counted_edges,
    flagged,
    has_identifier_name,
    is_text_identifier,
    level_notes,
    missing_notes,
    quantile_bins,
    readable,
)
from tiltlens.paper.checks import Floats
from tiltlens.streams.places import MOST_COUNTED, placed
from tiltlens.streams.sample import GROUP, PEOPLE, WEIGHT, RowSample
from tiltlens.streams.texts import text_codes
from tiltlens.streams.values import ValueCounts


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """How a column becomes the codes of a feature. It travels to every worker.

    Attributes
    ----------
    labels
        Of the codes.
    values
        The values of the first codes, in their order; for bins their edges.
    is_binned
        Whether `values` are edges: numbers up to the first have code 0.
    places
        The code of each bin, where some are empty; None where codes are the places among `values`.
    missing, other
        The codes of missing values and of values that are not among `values`.
    has_numbers
        Whether the feature has numbers beside its levels.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    values: pl.Series | None = None
    is_binned: bool = False
    places: Integers | None = None
    missing: int = 0
    other: int = 0
    is_ordered: bool = False
    is_group: bool = False
    has_numbers: bool = False

    @property
    def in_membership(self) -> bool:
        """As of `Feature`."""
        return self.feature(None).in_membership

    def feature(self, codes: Codes) -> Feature:
        """Return the feature with these codes, or with a partition that stands for them."""
        return Feature(self.name, self.kind, codes, self.labels, None, self.notes, self.is_ordered, self.is_group)

    def codes(self, column: pl.Series) -> Integers:
        """Return the code of each entry of a clean column."""
        is_text = self.values is not None and self.values.dtype == pl.String
        known = None if self.values is None or is_text or len(column) <= MOST_COUNTED else placed(column)
        return self._coded(column) if known is None else self._coded(known.values).take(known.places)

    def _coded(self, column: pl.Series) -> Integers:
        """Return the same, entry by entry."""
        if self.values is None:
            return np.zeros(len(column), dtype=np.int64)
        if self.values.dtype == pl.String:
            found: Integers = text_codes(column.cast(pl.String), self.values, first=0, other=self.other)
        else:
            found = below(self.values.to_numpy(), numbers_of(column))
            found = found if self.places is None else self.places[np.minimum(found, len(self.places) - 1)]
        return np.where(column.is_null().to_numpy(), self.missing, found) if column.null_count() else found


def numbers_of(column: pl.Series) -> Floats:
    """Return a clean column as floats, NaN where missing; dates are days since 1970."""
    if column.dtype == pl.Date:
        return np.asarray(column.to_physical().cast(pl.Float64).to_numpy())
    if column.dtype.is_temporal():
        return np.asarray((column.to_physical() / MICROSECONDS_PER_DAY).to_numpy())
    return np.asarray(column.cast(pl.Float64).to_numpy())


def feature_levels(
    name: str, counts: ValueCounts, sample: RowSample, groups: Sequence[str], is_weighted: bool
) -> Levels:
    """Return the levels of a feature among the people of some groups."""
    ranges = counts.ranges.filter(pl.col(GROUP).is_in(groups))
    _check_finite(name, int(ranges["infinite"].sum()))
    is_sampled = counts.frame is None
    frame = _sampled(name, sample) if counts.frame is None else counts.frame
    pairs = frame.filter(pl.col(GROUP).is_in(groups)).sort(GROUP, name)
    values = pairs.group_by(name).agg(pl.col(PEOPLE, WEIGHT).sum()).sort(name)
    found = _levels(name, values, ranges, is_weighted, is_sampled)
    codes = {label: code for code, label in enumerate(groups)}
    group = np.array([codes[label] for label in pairs[GROUP]], dtype=np.int64)
    told = flagged(found.feature(found.codes(pairs[name])), group)
    return replace(found, notes=told.notes, is_group=told.is_group)


def _sampled(name: str, sample: RowSample) -> pl.DataFrame:
    weighed = sample.frame.with_columns((pl.col(WEIGHT) * pl.col(PEOPLE)).alias(WEIGHT))
    return weighed.group_by(GROUP, name).agg(pl.col(PEOPLE, WEIGHT).sum())


def _check_finite(name: str, infinite: int) -> None:
    if infinite:
        raise DataError(
            f"column {shown(name)} must be finite, got {infinite} infinite values.",
            "replace them by a number, or by a missing value, which counts as a level of its own.",
        )


def _levels(name: str, values: pl.DataFrame, ranges: pl.DataFrame, is_weighted: bool, is_sampled: bool) -> Levels:
    column, missing = values[name], int(ranges["missing"].sum())
    if values.height == 1 and not is_sampled:
        label = MISSING if missing else text_of(column[0])
        return Levels(name, "constant", readable([label]), ("has one value only",))
    if column.dtype in (pl.String, pl.Enum):
        return _categorical(name, values, ranges, is_sampled)
    kind: Kind = "boolean" if column.dtype == pl.Boolean else "date" if column.dtype.is_temporal() else "numeric"
    if values.height <= MOST_VALUES or kind == "boolean":
        return _levelled(name, values, kind, missing)
    return _binned(name, values, ranges, kind, is_weighted, is_sampled)


def _levelled(name: str, values: pl.DataFrame, kind: Kind, missing: int) -> Levels:
    known = values[name].drop_nulls()
    numbers = pl.Series(numbers_of(known))
    labels = [text_of(value) for value in known] + ([MISSING] if missing else [])
    notes = missing_notes(missing > 0)
    return Levels(name, kind, readable(labels), notes, numbers, missing=len(known), is_ordered=True, has_numbers=True)


def _binned(
    name: str, values: pl.DataFrame, ranges: pl.DataFrame, kind: Kind, is_weighted: bool, is_sampled: bool
) -> Levels:
    known = values.filter(pl.col(name).is_not_null())
    numbers, people = numbers_of(known[name]), known[PEOPLE].to_numpy()
    missing = int(ranges["missing"].sum())
    smallest, largest = (float(end) for end in numbers_of(_ends(ranges, values[name].dtype)))
    is_whole = bool(ranges["is_whole"].all()) if kind == "numeric" else bool((numbers == np.floor(numbers)).all())
    weights = known[WEIGHT].to_numpy() if is_weighted else None
    edges = counted_edges(numbers, people, weights, BINS)
    edges, labels = quantile_bins(edges, kind, is_whole, smallest, largest)
    at = np.searchsorted(edges, numbers, side="left")
    is_filled = np.bincount(at, minlength=len(labels)) > 0
    if is_sampled:
        is_filled[:] = True
    filled = np.flatnonzero(is_filled)
    places = None if is_filled.all() else np.maximum(np.cumsum(is_filled) - 1, 0)
    kept = [labels[bin_] for bin_ in filled] + ([MISSING] if missing else [])
    source = f" of a sample of {int(known[PEOPLE].sum()):,} rows" if is_sampled else ""
    notes = (f"cut into {filled.size} bins at quantiles{source}", *missing_notes(missing > 0))
    found = Levels(
        name,
        kind,
        readable(kept),
        notes,
        pl.Series(edges),
        True,
        places,
        filled.size,
        is_ordered=True,
        has_numbers=True,
    )
    people_in_all = int(ranges[PEOPLE].sum()) - missing
    is_distinct = kind == "numeric" and is_whole and bool((people == 1).all())
    is_gapless = largest - smallest < 2 * people_in_all
    is_long = people_in_all >= MANY_NUMBERS and not is_sampled  # a sample of amounts may be distinct by accident
    if is_distinct and (is_gapless or is_long or has_identifier_name(name)):
        note = "looks like an identifier: whole numbers, every row another; not used to tell the groups apart"
        return replace(found, kind="identifier", notes=(note, *notes))
    return found


def _ends(ranges: pl.DataFrame, dtype: Any) -> pl.Series:
    ends = pl.Series([ranges["smallest"].min(), ranges["largest"].max()], dtype=pl.Float64)
    return ends.cast(pl.Int64).cast(dtype) if dtype.is_temporal() else ends


def _categorical(name: str, values: pl.DataFrame, ranges: pl.DataFrame, is_sampled: bool) -> Levels:
    column = values[name]
    text, missing = column.cast(pl.String), int(ranges["missing"].sum())
    distinct, people = text.n_unique() - (text.null_count() > 0), int(ranges[PEOPLE].sum()) - missing
    seen = int(values.filter(pl.col(name).is_not_null())[PEOPLE].sum()) if is_sampled else people
    if column.dtype != pl.Enum and is_text_identifier(seen, distinct):
        count = f"at least {distinct}" if is_sampled else f"{distinct}"
        note = f"looks like an identifier: {count} distinct texts; not used to tell the groups apart"
        return Levels(name, "identifier", ("(all different)",), (note,))
    labels, ordered = category_labels(text.fill_null(MISSING), values[WEIGHT].to_numpy(), column.dtype, distinct)
    if missing and MISSING not in labels:
        labels = [*labels, MISSING]
    notes = level_notes(distinct, ordered, missing > 0)
    if is_sampled:
        notes = ("levels and their order by a sample of rows", *notes)
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


def design_table(
    levels: Sequence[Levels], rows: pl.DataFrame, codes: Sequence[Integers] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the features as membership models see them: numbers, or the codes of levels."""
    table: dict[str, NDArray[Any]] = {}
    for place, one in enumerate(levels):
        if one.in_membership and one.has_numbers:
            table[one.name] = numbers_of(rows[one.name])
        elif one.in_membership:
            table[one.name] = one.codes(rows[one.name]) if codes is None else codes[place]
    return table


def joint_bound(levels: Sequence[Levels]) -> int:
    """Return how many joint cells there may be."""
    bound = 1
    for one in levels:
        bound *= max(len(one.labels), 1)
    return bound
