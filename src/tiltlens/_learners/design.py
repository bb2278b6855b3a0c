"""A feature table as numbers: linear columns, squares and products, splines, blocks, and the raw matrix for trees.

The encoding depends on the features only, never on the group, so that it may be fitted once on all rows. Its blocks,
however, may depend on group and score (`_learners.blocks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tiltlens._estimators.influence import Booleans, Integers
from tiltlens._limits import EXACT_WHOLE, FEWEST_ROWS, KNOT_VALUES, MOST_PRODUCTS, MOST_TREE_LEVELS, NOISE, REACH
from tiltlens._rows.features import DesignColumn
from tiltlens._sources.arrays import below, chunks
from tiltlens._threads import in_threads
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats

KNOTS = 5  # of a cubic spline in a membership model
KNOT_ROWS = 100  # outside spikes, for each knot of a spline of a feature with spikes
GRID = 128  # steps between two knots at which the splines are tabulated
MODEL_LEVELS = 300  # columns of one categorical feature; rarer levels share the baseline
ENCODED_ROWS = 50_000  # that determine means, knots and levels to three digits
ENCODED_CHUNK = 5_000  # rows encoded at a time where all columns are kept
DECIMALS = 4  # up to which a number may be written
ROUND_STEPS = [step * 10.0**power for power in range(-DECIMALS, 9) for step in (1.0, 5.0)]  # each divides the next
ENDING_ROWS = 25  # per value of the last digits: the regressions of contributions are fitted on two fifths of them
SPIKE_SHARE = 0.05  # of the rows with the same number, above which it gets its own indicator
Table = Mapping[str, DesignColumn]  # floats are numeric (NaN = missing), integers are codes 0, 1, … of levels


@dataclass(frozen=True, slots=True)
class NumericColumn:
    """The encoding of one numeric feature as columns."""

    name: str
    mean: float
    sd: float
    has_missing: bool
    knots: Floats  # empty where the feature has too few distinct values for a spline
    degree: int = 3  # of the spline; 1 where the knots are all its values, and each may have an effect of its own
    spikes: tuple[float, ...] = ()  # frequent values, such as 0 or a cap, each with an indicator of its own

    @property
    def width(self) -> int:
        """How many columns the spline has."""
        return self.knots.size + self.degree - 2 if self.knots.size else 0

    def standardised(self, values: Floats) -> Floats:
        """Return (x − mean)/sd, clipped to ±3, and 0 where x is missing."""
        z = np.clip((values - self.mean) / self.sd, -REACH, REACH)
        return np.where(np.isnan(values), 0.0, z)

    def splines(self, values: Floats) -> Floats:
        """Return the B-spline basis on the knots without its first column; 0 where x is missing.

        The basis is tabulated between the knots and interpolated: ten times faster than evaluating it at every row.
        """
        return self._interpolate(values, _tabulate(self.knots.tobytes(), self.degree))

    def spline_effects(self, values: Floats, slopes: Floats) -> Floats:
        """Return `splines(values) @ slopes`, (n, models)."""
        return self._interpolate(values, _tabulate(self.knots.tobytes(), self.degree) @ slopes)

    def _interpolate(self, values: Floats, table: Floats) -> Floats:
        """Return the rows of a table over the grid at each value, and 0 where it is missing."""
        missing = np.isnan(values)
        x = np.where(missing, self.knots[0], values) if missing.any() else values
        start = below(self.knots[1:-1], x, or_equal=True)
        between = x - self.knots.take(start)
        between *= (GRID / np.diff(self.knots)).take(start)
        np.clip(between, 0.0, GRID, out=between)
        cell = np.minimum(between.astype(np.intp), GRID - 1)
        # Linear from step to step of the table.
        between -= cell
        cell += start * GRID
        rows, more = np.take(table, cell, axis=0), np.take(np.diff(table, axis=0), cell, axis=0)
        more *= between[:, None]
        rows += more
        rows[missing] = 0.0
        return rows


@lru_cache(maxsize=512)
def _tabulate(knots: bytes, degree: int) -> Floats:
    """Return the basis at GRID equal steps from knot to knot; rows come in many batches, and it takes a millisecond."""
    from scipy.interpolate import BSpline

    at = np.frombuffer(knots)
    steps = np.arange((at.size - 1) * GRID + 1) / GRID
    # Clamped ends: outside the knots a value has the basis of the nearest end.
    padded = np.concatenate([[at[0]] * degree, at, [at[-1]] * degree])
    points = np.clip(np.interp(steps, np.arange(at.size), at), at[0], at[-1])
    splines = np.asarray(BSpline.design_matrix(points, padded, degree).toarray()[:, 1:])
    splines.setflags(write=False)
    return splines


@dataclass(frozen=True, slots=True)
class LevelColumns:
    """The levels of one categorical feature by frequency: the most frequent is the baseline, `count` have a column."""

    name: str
    rank_of: Integers  # level → its rank, the most frequent first; the last entry stands for unseen levels
    count: int

    def ranks(self, codes: Integers) -> Integers:
        """Return the rank by frequency of each row's level."""
        return np.asarray(self.rank_of[np.minimum(codes, len(self.rank_of) - 1)])

    def indicators(self, codes: Integers) -> Floats:
        """Return one 0/1 column per level that has one."""
        return rank_indicators(self.ranks(codes), self.count)

    def effects(self, codes: Integers, slopes: Floats) -> Floats:
        """Return `indicators(codes) @ slopes`, (n, models)."""
        by_rank = np.zeros((len(self.rank_of), slopes.shape[1]))
        by_rank[1 : self.count + 1] = slopes
        return np.asarray(by_rank[self.ranks(codes)])


@dataclass(frozen=True, slots=True, eq=False)
class CellBlock:
    """An indicator for each of the frequent cells of some features' joint values."""

    names: tuple[str, ...]  # the features that own it
    codes: Integers  # the cell of each row of the table, the most frequent first: that one is the baseline
    width: int  # how many cells have a column

    def columns(self, table: Table, index: Integers | slice) -> Floats:
        """Return the indicators of some rows."""
        return rank_indicators(self.codes[index], self.width)


def rank_indicators(ranks: Integers, count: int) -> Floats:
    """Return a 0/1 column for each of the ranks 1, …, count."""
    return np.eye(count + 2, count, -1).take(np.minimum(ranks, count + 1), axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class ProductBlock:
    """The products of each column of one feature with each column of another, or a finer spline of a single one.

    `scale` gives them about unit variance, so that a ridge penalty acts alike on splines and indicators.
    """

    factors: tuple[NumericColumn | LevelColumns, ...]
    scale: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """The features that own it."""
        return tuple(factor.name for factor in self.factors)

    @property
    def width(self) -> int:
        """How many columns it has."""
        return len(self.scale)

    def columns(self, table: Table, index: Integers | slice) -> Floats:
        """Return the products of some rows."""
        first, *others = (_own_columns(factor, table[factor.name][index]) for factor in self.factors)
        for other in others:
            first = (first[:, :, None] * other[:, None, :]).reshape(len(first), -1)
        return np.asarray(first * self.scale)


def product_block(factors: Sequence[NumericColumn | LevelColumns], table: Table) -> ProductBlock:
    """Return the products of features' columns, scaled by their spread in the first rows of a table."""
    spread = ProductBlock(tuple(factors), np.ones(1)).columns(table, slice(0, ENCODED_ROWS)).std(axis=0)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-3)
    return ProductBlock(tuple(factors), scale)


Block = CellBlock | ProductBlock


def _own_columns(column: NumericColumn | LevelColumns, values: DesignColumn) -> Floats:
    """Return one feature's columns: indicators of levels, or splines and spikes of a number."""
    if isinstance(column, LevelColumns):
        return column.indicators(values)
    smooth = column.splines(values) if column.knots.size else column.standardised(values)[:, None]
    return np.column_stack([smooth, *(values == spike for spike in column.spikes)])


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of a feature table as a matrix; `kinds` gives for each column linear, bent, spline or block."""

    numeric: tuple[NumericColumn, ...]
    levels: tuple[LevelColumns, ...]
    products: tuple[tuple[int, int], ...]
    kinds: NDArray[np.str_]
    blocks: tuple[Block, ...] = ()

    def widened(self, blocks: Sequence[Block]) -> Encoding:
        """Return the same with more blocks of columns."""
        kinds = np.append(self.kinds, np.repeat("block", sum(block.width for block in blocks)))
        return replace(self, blocks=(*self.blocks, *blocks), kinds=kinds)

    def matrix(self, table: Table, index: Integers | slice, out: Floats | None = None) -> Floats:
        """Return all columns of the given rows, in `out` if given: linear, then bent, then splines, then blocks."""
        values, linear, bent = self._columns(table, index)
        indicators = [column.indicators(table[column.name][index]) for column in self.levels]
        splines = [column.splines(v) for column, v in zip(self.numeric, values, strict=True) if column.knots.size]
        blocks = [block.columns(table, index) for block in self.blocks]
        columns = [*(c[:, None] for c in linear), *indicators, *(c[:, None] for c in bent), *splines, *blocks]
        return np.concatenate(columns, axis=1, out=out)

    def large_matrix(self, table: Table, index: Integers) -> Floats:
        """Return the same, made in threads and kept column by column."""
        matrix = np.empty((len(self.kinds), index.size)).T
        parts = list(chunks(index.size, ENCODED_CHUNK))
        in_threads(lambda part: self.matrix(table, index[part], matrix[part]), parts, index.size)
        return matrix

    def applied(self, table: Table, index: Integers | slice, slopes: Floats) -> Floats:
        """Return `matrix(table, index) @ slopes`, (n, models), without the matrix: levels and splines are looked up."""
        values, linear, bent = self._columns(table, index)
        splined = [(column, v) for column, v in zip(self.numeric, values, strict=True) if column.knots.size]
        widths = [len(linear), *(c.count for c in self.levels), len(bent), *(c.width for c, _ in splined)]
        widths += [block.width for block in self.blocks]
        parts = iter(np.split(slopes, np.cumsum(widths)[:-1]))
        fitted = np.zeros((len(next(iter(table.values()))[index]), slopes.shape[1]))
        fitted = fitted + _product(linear, next(parts))
        for level in self.levels:
            fitted = fitted + level.effects(table[level.name][index], next(parts))
        fitted = fitted + _product(bent, next(parts))
        for column, v in splined:
            if (part := next(parts)).any():  # columns unused by all models are not computed
                fitted = fitted + column.spline_effects(v, part)
        for block, part in zip(self.blocks, parts, strict=True):
            if part.any():
                fitted = fitted + block.columns(table, index) @ part
        return np.asarray(fitted)

    def _columns(self, table: Table, index: Integers | slice) -> tuple[list[Floats], list[Floats], list[Floats]]:
        """Return the numeric features of the given rows, the columns linear in them, and squares and products."""
        values = [np.asarray(table[column.name][index], dtype=np.float64) for column in self.numeric]
        z = [column.standardised(v) for column, v in zip(self.numeric, values, strict=True)]
        missing = [np.isnan(v) * 1.0 for c, v in zip(self.numeric, values, strict=True) if c.has_missing]
        spikes = [(v == s) * 1.0 for c, v in zip(self.numeric, values, strict=True) for s in c.spikes]
        binary = [c.indicators(table[c.name][index])[:, 0] for c in self.levels if c.count == 1]
        movable = z + binary
        return values, z + missing + spikes, [0.5 * movable[i] * movable[j] for i, j in self.products]

    def raw(self, table: Table, index: Integers | slice) -> Floats:
        """Return the features for trees, one column each: numbers as they are, levels by frequency."""
        levels = {column.name: column for column in self.levels}
        columns = [
            np.minimum(levels[name].ranks(values[index]), MOST_TREE_LEVELS) if name in levels else values[index]
            for name, values in table.items()
        ]
        return np.column_stack(columns).astype(np.float64, copy=False)


def _product(columns: list[Floats], slopes: Floats) -> Floats | float:
    """Return the sum of the columns, each times its slopes; 0 where there are none."""
    used = np.flatnonzero(slopes.any(axis=1)).tolist()
    return np.array([columns[index] for index in used]).T @ slopes[used] if used else 0.0


def encoded_rows(size: int, seed: int) -> Integers:
    """Return the rows that an encoding is learnt from: all, or a seeded sample where there are many."""
    if size <= ENCODED_ROWS:
        return np.arange(size)
    return np.sort(np.random.default_rng(seed).choice(size, ENCODED_ROWS, replace=False))


def encoding(
    table: Table,
    index: Integers,
    knots: int = KNOTS,
    most_levels: int = MODEL_LEVELS,
    multiplied: Set[str] | None = None,
    smooth: Set[str] | None = None,
    spike_share: float = SPIKE_SHARE,
) -> Encoding:
    """Return the encoding fitted on the rows `index`, without constant features.

    `multiplied` are the features whose products are columns too, by default all, where these are few enough; `smooth`
    those with squares and splines, by default all; a number that more than `spike_share` of the rows have is a spike.
    """
    numeric, levels = [], []
    for name, column in table.items():
        values = np.asarray(column)[index]
        if values.dtype.kind == "f":
            bends = knots if smooth is None or name in smooth else 0
            fitted = _numeric_column(name, values, np.isnan(np.asarray(column)).any(), bends, spike_share)
            numeric += [fitted] if fitted is not None else []
        else:
            levels += [_level_columns(name, values, most_levels)]
    if not numeric and not any(column.count for column in levels):
        raise DataError("`features` must vary, got constant columns only.", "constants do not differ between groups.")
    movable = [column.name for column in numeric] + [column.name for column in levels if column.count == 1]
    squared = [number for number, column in enumerate(numeric) if smooth is None or column.name in smooth]
    products = _products(squared, movable, multiplied)
    count = sum(1 + c.has_missing + len(c.spikes) for c in numeric) + sum(c.count for c in levels)
    splines = sum(c.width for c in numeric)
    kinds = np.repeat(["linear", "bent", "spline"], [count, len(products), splines])
    return Encoding(tuple(numeric), tuple(levels), products, kinds)


def _numeric_column(
    name: str, values: Floats, has_missing: bool, most_knots: int, spike_share: float
) -> NumericColumn | None:
    observed = values[~np.isnan(values)]
    if observed.size and not np.isfinite(observed).all():
        raise DataError(f"`{name}` must not hold infinite values.", "replace them, or leave them missing.")
    sd = float(observed.std()) if observed.size else 0.0
    if sd <= 1e-12 * (float(np.abs(observed).max(initial=0.0)) + 1e-300):
        if not has_missing:
            return None
        return NumericColumn(name, float(observed.mean()) if observed.size else 0.0, 1.0, True, np.empty(0))
    knots, degree, spikes = _knots(observed, most_knots, spike_share)
    return NumericColumn(name, float(observed.mean()), sd, bool(has_missing), knots, degree, spikes)


def _knots(observed: Floats, most: int, spike_share: float) -> tuple[Floats, int, tuple[float, ...]]:
    """Return the knots and the degree of a spline, and the spikes.

    Knots of a cubic spline are quantiles of the values outside spikes; with spikes there are fewer of them, and they
    leave out the extremes. A feature with few distinct values has a knot at each, for a piecewise linear spline. With
    two values, or too few quantiles, there is no spline.
    """
    if most == 0:
        return np.empty(0), 1, ()
    values, counts = np.unique(observed, return_counts=True)
    if values.size <= KNOT_VALUES:
        return values if values.size > 2 else np.empty(0), 1, ()
    is_spike = counts > spike_share * observed.size
    rest, levels = observed, np.linspace(0.0, 1.0, most)
    if is_spike.any():
        # A spike would contain several quantiles, and leave too few knots for the rest.
        rest = observed[np.isin(observed, values[~is_spike])]
        levels = np.linspace(0.02, 0.98, min(most, rest.size // KNOT_ROWS))
    quantiles = np.unique(np.quantile(rest, levels)) if rest.size else np.empty(0)
    return quantiles if quantiles.size > 2 else np.empty(0), 3, tuple(values[is_spike].tolist())


def _level_columns(name: str, codes: Integers, most: int) -> LevelColumns:
    counts = np.bincount(codes)
    frequent_first = np.argsort(-counts, kind="stable")
    rank_of = np.full(counts.size + 1, counts.size, dtype=np.intp)
    rank_of[frequent_first] = np.arange(counts.size)
    # In a small group no level may be frequent: a feature that varies has a column all the same.
    enough = max(int((counts >= FEWEST_ROWS).sum()), min(int((counts > 0).sum()), 2))
    return LevelColumns(name, rank_of, min(max(enough - 1, 0), most))


def _products(
    squared: Sequence[int], movable: Sequence[str], multiplied: Set[str] | None
) -> tuple[tuple[int, int], ...]:
    """Return the squares of numeric columns and the products of two features: of the named, or of all if few enough."""
    squares = [(i, i) for i in squared]
    pairs = list(combinations(range(len(movable)), 2))
    if multiplied is not None:
        return tuple(squares + [(i, j) for i, j in pairs if movable[i] in multiplied and movable[j] in multiplied])
    return tuple(squares + pairs if len(pairs) <= MOST_PRODUCTS else squares)


def code_columns(table: Table) -> Booleans:
    """Return which features are codes of levels."""
    return np.array([np.asarray(column).dtype.kind != "f" for column in table.values()])


def column_owners(table: Table, encoder: Encoding) -> Integers:
    """Return the indices in the table of the one to three features that own each column, (columns, 3)."""
    number = {name: j for j, name in enumerate(table)}
    numeric = [(number[column.name], column) for column in encoder.numeric]
    levels = [(number[column.name], column) for column in encoder.levels]
    single = [j for j, _ in numeric] + [j for j, column in numeric if column.has_missing]
    single += [j for j, column in numeric for _ in column.spikes]
    single += [j for j, column in levels for _ in range(column.count)]
    multiplied = [j for j, _ in numeric] + [j for j, column in levels if column.count == 1]
    products = [(multiplied[i], multiplied[k]) for i, k in encoder.products]
    splines = [j for j, column in numeric for _ in range(column.width)]
    owners = [*((j,) for j in single), *products, *((j,) for j in splines)]
    owners += [tuple(number[name] for name in block.names) for block in encoder.blocks for _ in range(block.width)]
    padded = [(*features, *features[-1:] * (3 - len(features))) for features in owners]
    return np.array(padded, dtype=np.intp).reshape(-1, 3)


def column_blocks(encoder: Encoding, owners: Integers) -> Integers:
    """Return the number of the block of columns, with one ridge penalty, that each column belongs to."""
    added = np.repeat(np.arange(len(encoder.blocks)) + 1, [block.width for block in encoder.blocks])
    # One penalty for all columns with the same owners; each added block has its own.
    number = np.append(np.zeros(len(owners) - added.size, dtype=np.intp), added)
    return np.unique(np.column_stack([owners, number]), axis=0, return_inverse=True)[1].reshape(-1)


def normal_scores(table: Table, weights: Floats) -> dict[str, DesignColumn]:
    """Return the table with its numbers as normal quantiles of their ranks, equal numbers sharing one.

    Models fitted on them do not depend on the scale, or on any increasing transform, of a feature.
    """
    numbers = [name for name, column in table.items() if column.dtype.kind == "f"]
    scores = in_threads(lambda name: _normal_scores(table[name], weights), numbers, len(weights))
    return dict(table) | dict(zip(numbers, scores, strict=True))


def _normal_scores(column: Floats, weights: Floats) -> Floats:
    is_observed = ~np.isnan(column)
    values, rank = np.unique(column[is_observed], return_inverse=True)
    mass = np.bincount(rank, weights[is_observed], values.size)
    scores = np.full(column.size, np.nan)
    # Φ⁻¹((r − ½)/n) with weighted midranks.
    scores[is_observed] = ndtri((np.cumsum(mass) - 0.5 * mass) / mass.sum())[rank] if values.size else np.nan
    return scores


def date_parts(days: Floats) -> Iterator[Integers]:
    """Yield the day of the week, the month, the days since and until its ends, and the hour; missing ones come last."""
    missing = np.isnan(days)
    filled = np.where(missing, 0.0, days)
    date = np.floor(filled).astype("datetime64[D]")
    month = date.astype("datetime64[M]")
    since, until = (date - month).astype(np.int64), ((month + 1).astype("datetime64[D]") - date).astype(np.int64)
    parts = [np.floor(filled) % 7, month.astype(np.int64) % 12, since, until, (filled % 1) * 24]
    for part in parts:
        codes = np.where(missing, 31, part).astype(np.intp)
        if codes.min() < codes.max():
            yield codes


def digits(values: Floats) -> Iterator[Integers]:
    """Yield how round each number is, and its last digits: people round what they report, and prices end in 99."""
    missing = ~np.isfinite(values)
    # Numbers that are written with more decimals are no multiples, apart from rounding.
    smallest = np.where(missing, 0.5, values) * 10.0**DECIMALS
    whole = np.round(smallest)
    is_multiple = (np.abs(smallest - whole) <= NOISE * np.abs(smallest)) & (np.abs(whole) < EXACT_WHOLE) & ~missing
    units = np.where(is_multiple, whole, 0.0).astype(np.int64)
    roundness, left = is_multiple.astype(np.intp), np.flatnonzero(is_multiple & (whole != 0.0))
    roundness[is_multiple & (whole == 0.0)] = len(ROUND_STEPS)
    for step in ROUND_STEPS[1:]:
        left = left[units[left] % round(step * 10.0**DECIMALS) == 0]
        roundness[left] += 1
    if np.unique(roundness).size > 1:
        yield roundness
    if is_multiple.any():
        last_place = (int(roundness[is_multiple].min()) - 1) // 2 * 2  # the power of ten of which all are multiples
        last = np.mod(whole / np.round(ROUND_STEPS[last_place] * 10.0**DECIMALS), 100.0)
        codes = np.where(is_multiple, last, 100.0).astype(np.intp)
        # Two digits where many numbers end in them, otherwise one.
        is_rare = (np.bincount(codes, minlength=101) < ENDING_ROWS)[codes] & is_multiple
        yield np.where(is_rare, 101 + codes % 10, codes)
