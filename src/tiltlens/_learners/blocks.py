"""Blocks of columns that are added to the basis where residuals show that it misses a part of the gap.

Splines, levels and simple products cannot represent a code stored as a number, the day of the week inside a date, or a
pure interaction of two features. Residuals of the regressions on the basis reveal it: if S̄ − e and W − m covary over
cells of some features' values, the regressions miss a part of the gap that these features account for. The cells that
hide a material part become columns, owned by the features that define the cells, so that every set with these features
uses them. See docs/methods.md, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from tiltlens._estimators.feature_gap import (
    Hidden,
    Residuals,
    factorize_ints,
    grid_codes,
    hidden_of,
    joint_codes,
    most_frequent,
    nested_codes,
)
from tiltlens._estimators.influence import Booleans, Integers
from tiltlens._estimators.ridges import PARTS, UNSEEN, FoldRidges
from tiltlens._estimators.sets import evenly
from tiltlens._learners.design import (
    Block,
    CellBlock,
    Encoding,
    LevelColumns,
    NumericColumn,
    Table,
    date_parts,
    digits,
    product_block,
)
from tiltlens._learners.linear_models import Basis, by_strength
from tiltlens._limits import (
    BASIS_KNOTS,
    BASIS_LEVELS,
    BLOCK_COLUMNS,
    FEWEST_ROWS,
    FINE_CELLS,
    FINE_KNOTS,
    HIDDEN_SPREAD,
    KNOT_VALUES,
    LEAF_ROWS,
    LEAVES,
    MODEL_CHUNK,
    MOST_BLOCKS,
    MULTIPLIED,
    NEAREST_ROWS,
    PAIR_CELLS,
    PAIR_COLUMNS,
    ROWS_A_CELL,
    TAIL,
    TRIPLE_CELLS,
    TRIPLED,
)
from tiltlens._rows.features import DesignColumn
from tiltlens._sources.arrays import chunks
from tiltlens._threads import each, in_threads
from tiltlens.paper.checks import Floats

LEAF_TREE_ROWS = 40_000  # most rows that a tree is fitted on: it has 64 leaves
STEPPED_FEATURES = 50  # beyond which the tree on all features cuts numbers to steps: sorting takes most of its time
STEPS = 16  # per standard deviation
Days = Mapping[str, Floats]  # of features that are dates: days since 1970, with the time of day as a fraction


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Cells that may hide something, and the block of columns that would show it.

    `cells` makes the cell of each row, and the shape of the grid of cells if they are one: its margins are coarser
    cells of fewer features. `parts` are other coarser cells: what coarser cells hide is not laid on all. `is_learnt`
    says whether borders were drawn through numbers, which are known no better than the rows show them.
    """

    names: tuple[str, ...]
    cells: Callable[[], tuple[Integers, tuple[int, ...]]]
    block: Callable[[], Block]
    parts: tuple[Integers, ...] = ()
    is_learnt: bool = False

    def hidden(self, residuals: Residuals) -> Hidden:
        """Return the part of the gap that its cells hide beyond the coarser ones."""
        codes, shape = self.cells()
        sums = residuals.sums(codes, math.prod(shape) if shape else None)
        value, se = hidden_of(sums, residuals.spread)
        if abs(value) <= se:
            return Hidden(self.names, value, se)
        margins = [sums.reshape(-1, *shape).sum(axis=1 + axis) for axis in range(len(shape))]
        coarser = [margin.reshape(len(sums), -1) for margin in margins] + [residuals.sums(part) for part in self.parts]
        beyond = [value - hidden_of(part, residuals.spread)[0] for part in coarser]
        return Hidden(self.names, min([value, *beyond], key=abs), se)


@dataclass(frozen=True, slots=True, eq=False)
class Screen:
    """What the searches for blocks look at.

    `days` are dates, `endings` the cells of numbers by their `digits`, `chosen` and `tripled` the coarse cells of
    features that are looked at by two and by three, and `repeated` the codes of values where these repeat.
    """

    table: Table
    days: Days
    endings: Mapping[str, Sequence[Integers]]
    chosen: Mapping[str, Integers]
    tripled: Mapping[str, Integers]
    repeated: Mapping[str, Integers]
    targets: tuple[Floats, Floats]
    fold: Integers
    seed: int

    def singles(self, encoder: Encoding, residuals: Residuals) -> Iterator[Candidate]:
        """Yield the cells of single features: parts of a date, repeated values, or many quantile bins and digits."""
        columns = {column.name: column for column in encoder.numeric}
        for name, column in columns.items():
            values = self.table[name]
            for part in date_parts(self.days[name]) if name in self.days else ():
                yield _of_cells((name,), partial(np.asarray, part))
            if name not in self.repeated:
                for part in self.endings.get(name, ()):
                    yield _of_cells((name,), partial(np.asarray, part))
                if column.knots.size:
                    cells, spline = partial(_coarse, values, FINE_CELLS), partial(_fine_spline, column, self.table)
                    yield replace(_of_cells((name,), cells), block=spline)
            elif self.repeated[name].max() >= KNOT_VALUES:
                yield _of_cells((name,), partial(np.asarray, self.repeated[name]))

    def pairs(self, encoder: Encoding, residuals: Residuals) -> Iterator[Candidate]:
        """Yield the cells of each pair of features, with products of columns as block; parts of dates: cells only."""
        columns: dict[str, NumericColumn | LevelColumns] = {column.name: column for column in encoder.numeric}
        columns |= {column.name: column for column in encoder.levels}
        together = _together(encoder)
        for names in combinations(self.chosen, 2):
            if names in together or not columns.keys() >= set(names):  # constants have no columns
                continue
            product = partial(_product, [columns[name] for name in names], self.table)
            yield replace(_of_grid(names, [self.chosen[name] for name in names]), block=product)
        yield from self.usual()
        for name in set(self.chosen) & set(self.days):
            for own in date_parts(self.days[name]):
                for other in set(self.chosen) - {name}:
                    yield _of_grid((name, other), [own, self.chosen[other]])

    def usual(self) -> Iterator[Candidate]:
        """Yield pairs of cells: whether a feature has its most frequent value given another, such as the same city."""
        largest = {name: int(self.repeated[name].max()) for name in self.chosen if name in self.repeated}
        for names in combinations(largest, 2):
            other, own = sorted(names, key=lambda name: largest[name])
            if largest[own] >= PAIR_CELLS:
                codes = partial(most_frequent, self.repeated[own], self.repeated[other])
                yield _of_cells(names, codes, tuple(self.chosen[name] for name in names))

    def cells(self, encoder: Encoding, residuals: Residuals) -> Iterator[Candidate]:
        """Yield grids on the features of each block, cut at borders fitted by trees, and at quantiles."""
        for names in _together(encoder):
            columns = [self.table[name] for name in names]
            coarse = [_coarse(column, PAIR_CELLS if len(names) == 2 else TRIPLE_CELLS) for column in columns]
            yield self._learnt(names, partial(_grid, columns, coarse, residuals, seed=self.seed))
            has_borders = any(column.dtype.kind == "f" for column in columns)
            yield replace(_of_cells(names, partial(np.asarray, grid_codes(coarse)[0])), is_learnt=has_borders)

    def finest(self, encoder: Encoding, residuals: Residuals) -> Iterator[Candidate]:
        """Yield cells of few rows each, for features that have a block, to detect the borders of regions."""
        for names in _together(encoder):
            yield _of_cells(names, partial(nested_codes, [self.table[name] for name in names], NEAREST_ROWS))

    def triples(self, encoder: Encoding, residuals: Residuals) -> Iterator[Candidate]:
        """Yield the cells of each triple of features."""
        for names in combinations(self.tripled, 3):
            yield _of_grid(names, [self.tripled[name] for name in names])

    def leaves(self, encoder: Encoding, residuals: Residuals) -> Iterator[Candidate]:
        """Yield the leaves of trees on the numbers of each block, which detect borders that smooth curves miss."""
        for names in sorted({block.names for block in encoder.blocks}):
            if all(self.table[name].dtype.kind == "f" for name in names):
                yield self._leaf_candidate(names, residuals)

    def whole(self, encoder: Encoding, residuals: Residuals) -> Iterator[Candidate]:
        """Yield the leaves of a tree on all features and on what the regressions expect of both targets."""
        expected = (self.targets[0] - residuals.group, self.targets[1] - residuals.score)

        def inputs() -> Floats:
            columns = _numbers(list(self.table.values()))
            if len(self.table) > STEPPED_FEATURES:
                columns = np.round(STEPS * columns)
            return np.column_stack([columns, *expected])

        yield self._learnt(tuple(self.table), partial(_leaves, inputs, residuals, seed=self.seed))

    def _leaf_candidate(self, names: tuple[str, ...], residuals: Residuals) -> Candidate:
        def inputs() -> Floats:
            columns = _numbers([self.table[name] for name in names])
            return np.column_stack([columns, *self._indices(columns, residuals.omega)])

        return self._learnt(names, partial(_leaves, inputs, residuals, seed=self.seed))

    def _indices(self, columns: Floats, omega: Floats) -> Sequence[Floats]:
        """Return coordinates of a few numbers in which borders may lie: distances from 0, sums and differences."""
        if columns.shape[1] == 1:
            return ()
        distance = np.sqrt((columns**2).sum(axis=1))
        if columns.shape[1] == 2:
            return (columns[:, 0] + columns[:, 1], columns[:, 0] - columns[:, 1], distance)
        centred = (columns - omega @ columns) * np.sqrt(omega)[:, None]
        targets = np.column_stack(self.targets) * np.sqrt(omega)[:, None]
        return (distance, *(columns @ np.linalg.lstsq(centred, targets, rcond=None)[0]).T)

    def _learnt(self, names: tuple[str, ...], cells: Callable[[Booleans], Integers]) -> Candidate:
        """Return cells fitted on the rows of two folds and tested on the others; the block is fitted on all rows."""
        learns = self.fold < 2
        of_some = _of_cells(names, lambda: np.where(learns, 0, 1 + cells(learns)))
        return replace(of_some, block=lambda: _cell_block(names, cells(np.ones_like(learns))), is_learnt=True)


def _of_cells(names: tuple[str, ...], codes: Callable[[], Integers], parts: tuple[Integers, ...] = ()) -> Candidate:
    return Candidate(names, lambda: (codes(), ()), lambda: _cell_block(names, codes()), parts)


def _of_grid(names: tuple[str, ...], columns: Sequence[Integers]) -> Candidate:
    return Candidate(names, lambda: grid_codes(columns), lambda: _cell_block(names, grid_codes(columns)[0]))


def _cell_block(names: tuple[str, ...], codes: Integers) -> CellBlock:
    counts = np.bincount(codes)
    return CellBlock(
        names, _by_frequency(counts)[codes], min(max(int((counts >= FEWEST_ROWS).sum()) - 1, 0), BASIS_LEVELS)
    )


def _by_frequency(counts: Integers) -> Integers:
    """Return the rank of each cell, the most frequent first."""
    rank = np.empty(counts.size, dtype=np.intp)
    rank[np.argsort(-counts, kind="stable")] = np.arange(counts.size)
    return rank


def _fine_spline(column: NumericColumn, table: Table) -> Block:
    values = table[column.name][~np.isnan(table[column.name])]
    knots = np.quantile(values, np.linspace(0.0, 1.0, FINE_KNOTS))
    return product_block([_without_tails(replace(column, knots=knots, degree=3, spikes=()))], table)


def _without_tails(column: NumericColumn) -> NumericColumn:
    """Return a column whose spline is constant in the tails: products of two tails would rest on single rows."""
    return column if column.degree == 1 else replace(column, knots=np.unique(np.clip(column.knots, -TAIL, TAIL)))


def _product(columns: Sequence[NumericColumn | LevelColumns], table: Table) -> Block:
    """Return the product of two features' columns, with fewer levels where these are too many."""
    is_text = [isinstance(column, LevelColumns) for column in columns]
    most = math.isqrt(PAIR_COLUMNS) if all(is_text) else PAIR_COLUMNS // (BASIS_KNOTS + 1)
    return product_block(
        [
            replace(source, count=min(source.count, most))
            if isinstance(source, LevelColumns)
            else _without_tails(source)
            for source in columns
        ],
        table,
    )


def _together(encoder: Encoding) -> list[tuple[str, ...]]:
    """Return the features of each block of several features."""
    return sorted({block.names for block in encoder.blocks if len(block.names) > 1})


def _numbers(columns: Sequence[DesignColumn]) -> Floats:
    """Return columns for a tree: numbers, with missing values as −9, and codes."""
    return np.column_stack([np.nan_to_num(column.astype(np.float64), nan=-9.0) for column in columns])


def _grid(
    columns: Sequence[DesignColumn], coarse: Sequence[Integers], residuals: Residuals, learns: Booleans, seed: int
) -> Integers:
    """Return the cells of a grid on two or three features, each cut where residuals within cells of the others change.

    Quantile cuts would put rows near a sharp border on its wrong side.
    """
    cells, targets = list(coarse), _standardised_targets(residuals)
    for own in (*range(len(cells)), *range(len(cells))):
        if columns[own].dtype.kind == "f":
            others = joint_codes(np.column_stack([*cells[:own], *cells[own + 1 :]]))[0]
            profile = (targets[:, :, None] * np.eye(int(others.max()) + 1)[others][:, None, :]).reshape(len(others), -1)
            most = PAIR_CELLS if len(cells) == 2 else TRIPLE_CELLS
            cells[own] = _tree_cells(_numbers([columns[own]]), profile, residuals.omega, learns, most, seed)
    return joint_codes(np.column_stack(cells))[0]


def _leaves(inputs: Callable[[], Floats], residuals: Residuals, learns: Booleans, seed: int) -> Integers:
    return _tree_cells(inputs(), _standardised_targets(residuals), residuals.omega, learns, LEAVES, seed)


def _standardised_targets(residuals: Residuals) -> Floats:
    both = np.column_stack([residuals.group, residuals.score])
    return np.asarray(both / np.maximum(both.std(axis=0), 1e-300))


def _tree_cells(raw: Floats, targets: Floats, omega: Floats, learns: Booleans, leaves: int, seed: int) -> Integers:
    """Return the leaf of a regression tree that each row is in."""
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=LEAF_ROWS, random_state=seed)
    rows = evenly(np.flatnonzero(learns), LEAF_TREE_ROWS)
    tree.fit(raw[rows], targets[rows], sample_weight=omega[rows])
    return factorize_ints(tree.apply(raw))[1]


def _coarse(column: DesignColumn, cells: int) -> Integers:
    """Return few cells of a feature: equal parts of a number (given as normal scores), or its most frequent levels."""
    if column.dtype.kind == "f":
        filled = np.where(np.isnan(column), 0.0, column)
        return np.where(np.isnan(column), cells, np.minimum(ndtr(filled) * cells, cells - 1)).astype(np.int32)
    return np.asarray(np.minimum(_by_frequency(np.bincount(column)), cells).astype(np.int32)[column])


def _coarse_table(table: Table, names: Sequence[str], cells: int) -> dict[str, Integers]:
    """Return few cells of some features, in the order of their names."""
    columns = {name: table[name] for name in sorted(names)}
    coarse = in_threads(
        partial(_coarse, cells=cells), list(columns.values()), max(map(len, columns.values()), default=0)
    )
    return dict(zip(columns, coarse, strict=True))


class Missed(NamedTuple):
    """A block that joins the basis, and the part of the gap that its cells hid before."""

    block: Block
    hidden: Hidden
    is_learnt: bool


Search = Callable[[Encoding, Residuals], Iterator[Candidate]]


@dataclass(frozen=True, slots=True, eq=False)
class Searches:
    """What the cells of searches hide in the residuals of regressions; each search is made once."""

    encoder: Encoding
    residuals: Residuals
    _made: dict[Search, list[tuple[Hidden, Candidate]]] = field(default_factory=dict, init=False)

    def make(self, *searches: Search) -> list[tuple[Hidden, Candidate]]:
        """Return the cells of some searches, and what they hide."""
        new = {search: list(search(self.encoder, self.residuals)) for search in searches if search not in self._made}
        every = [candidate for candidates in new.values() for candidate in candidates]
        rows = len(self.residuals.omega)
        hidden = iter(in_threads(lambda candidate: candidate.hidden(self.residuals), every, rows))
        for search, candidates in new.items():
            self._made[search] = [(next(hidden), candidate) for candidate in candidates]
        return [part for search in searches for part in self._made[search]]


def missed_blocks(parts: list[tuple[Hidden, Candidate]], residuals: Residuals, blocks: Sequence[Block]) -> list[Missed]:
    """Return the blocks of cells that hide a significant part, largest first, up to the limits on blocks and columns.

    No two of them share a feature: with copies of a feature, the second block would be redundant.
    """
    least = HIDDEN_SPREAD * float(np.sqrt(residuals.omega @ residuals.score**2)) / residuals.spread
    sure = [part for part in parts if part[0].is_sure and abs(part[0].value) > least]
    missed: list[Missed] = []
    for hidden, candidate in sorted(sure, key=lambda part: (-abs(part[0].value), part[0].names)):
        room = BLOCK_COLUMNS - sum(block.width for block in (*blocks, *(part.block for part in missed)))
        if any(set(hidden.names) & set(part.hidden.names) for part in missed):
            continue
        if len(blocks) + len(missed) < MOST_BLOCKS and 0 < (block := candidate.block()).width <= room:
            missed.append(Missed(block, hidden, candidate.is_learnt))
    return missed


@dataclass(frozen=True, slots=True, eq=False)
class BasisFit:
    """Regressions on a basis, and what may be found missing in it.

    `part_residuals` is what every part's models leave of group and score, (2, parts, n). `learnt` is what was hidden by
    cells whose borders were then learnt: no better than these borders are known. `left` is what may still be hidden.
    """

    screen: Screen
    basis: Basis
    ridges: FoldRidges
    part_residuals: Floats
    learnt: tuple[Hidden, ...] = ()
    left: tuple[Hidden, ...] = ()

    @classmethod
    def of(cls, screen: Screen, basis: Basis, ridges: FoldRidges) -> BasisFit:
        """Return the regressions with what they leave, some thousand rows at a time."""
        size = len(screen.fold)
        residuals = np.empty((2, len(PARTS), size))

        def leave(rows: slice) -> None:
            residuals[..., rows] = ridges.part_residuals(basis.rows(screen.table, rows, *screen.targets))

        in_threads(leave, list(chunks(size, MODEL_CHUNK)), size)
        return cls(screen, basis, ridges, residuals)

    def residuals(self, omega: Floats) -> Residuals:
        """Return what they leave, averaged over the models that have not seen a row."""
        group, score = np.einsum("tpn,np->tn", self.part_residuals, UNSEEN[self.screen.fold])
        return Residuals(group, score, omega, float(omega @ group**2))

    def hidden(self, residuals: Residuals, searches: Searches | None = None) -> tuple[Hidden, ...]:
        """Return the parts of the gap that may be hidden in some regressions' residuals, by each kind of cells."""
        screen, searches = self.screen, searches or Searches(self.basis.encoder, residuals)
        # The tree on all features takes longest, so it starts first.
        whole, *others = searches.make(
            screen.whole, screen.singles, screen.pairs, screen.triples, screen.leaves, screen.finest
        )
        return (*self.learnt, *(hidden for hidden, _ in (*others, whole)))


def widened(omega: Floats, fitted: Callable[[Sequence[Block]], BasisFit]) -> BasisFit:
    """Return the regressions on the basis, widened by the blocks that it misses.

    `fitted` fits them for given blocks. Single features are searched first, then pairs, then triples, each search given
    the blocks found before.
    """
    blocks: list[Block] = []
    learnt: list[Hidden] = []
    fit = fitted(blocks)
    screen, searches = fit.screen, Searches(fit.basis.encoder, fit.residuals(omega))
    pairs, cells, leaves = screen.pairs, screen.cells, screen.leaves
    for search in each(
        (screen.singles, pairs, pairs, pairs, cells, leaves, cells, leaves, screen.triples, cells, leaves)
    ):
        if search == screen.triples:  # with the last search of all features: alone, the tree would keep one thread busy
            searches.make(screen.whole, search)
        if missed := missed_blocks(searches.make(search), searches.residuals, blocks):
            blocks += [part.block for part in missed]
            learnt += [part.hidden for part in missed if part.is_learnt]
            fit = fitted(blocks)
            searches = Searches(fit.basis.encoder, fit.residuals(omega))
    fit = replace(fit, learnt=tuple(learnt))
    return replace(fit, left=fit.hidden(searches.residuals, searches))


def screen_of(
    table: Table,
    days: Days,
    numbers: Mapping[str, Floats],
    targets: tuple[Floats, Floats],
    omega: Floats,
    fold: Integers,
    seed: int,
) -> Screen:
    """Return the screen; of many features, only those most associated with the group or the score are combined."""
    ranked = by_strength(table, targets, omega, np.arange(len(omega)), TRIPLED)
    chosen = _coarse_table(table, ranked[:MULTIPLIED], PAIR_CELLS)
    tripled = _coarse_table(table, ranked[:TRIPLED], TRIPLE_CELLS)
    codes = zip(table, in_threads(_repeated, list(table.values()), len(omega)), strict=True)
    repeated = {name: code for name, code in codes if code is not None}
    written = [name for name in numbers if name not in repeated]
    parts = in_threads(lambda name: list(digits(numbers[name])), written, len(omega))
    return Screen(table, days, dict(zip(written, parts, strict=True)), chosen, tripled, repeated, targets, fold, seed)


def _repeated(column: DesignColumn) -> Integers | None:
    values, codes = np.unique(column, return_inverse=True) if column.dtype.kind == "f" else factorize_ints(column)
    return codes if values.size <= max(KNOT_VALUES, column.size / ROWS_A_CELL) else None
