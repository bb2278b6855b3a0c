"""The basis on which the group and the score are regressed for every set of features.

Splines of numeric features, indicators of levels, and products of two features; each column belongs to the features it
is made of. Where features are many, only those most associated with the group or the score are multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiltlens.estimators.influence import Integers
from tiltlens.learners.design import (
    Block,
    CellBlock,
    Encoding,
    Table,
    column_blocks,
    column_owners,
    encoded_rows,
    encoding,
)
from tiltlens.limits import BASIS_KNOTS, BASIS_LEVELS, FOLDS, MODEL_CHUNK, MULTIPLIED
from tiltlens.paper.checks import Floats
from tiltlens.rows.features import DesignColumn
from tiltlens.sources.arrays import chunks
from tiltlens.threads import in_threads

MOST_COLUMNS = 600  # of the basis: a Gram matrix takes their square for each row
POOLED_SHARE = 0.05  # of the people, whose values share the baseline, from which a regression does not know the feature
ROWS_A_VALUE = 10  # of a part, on average, for a ridge regression to know the mean of each value of a feature
FEW_VALUED = 20  # values, up to which a feature is known however few rows there are


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Columns Φ of a table, standardised, the indices of the features that own each, and the block it belongs to."""

    encoder: Encoding
    owners: Integers
    blocks: Integers
    centre: Floats
    scale: Floats

    def rows(self, table: Table, index: Integers | slice, audited: Floats, outcome: Floats) -> Floats:
        """Return z = (1, Φ, S̄, W) of some rows."""
        level = outcome[index]
        z = np.empty((len(level), len(self.owners) + 3))  # filled in place: copies of many rows take longer than sums
        phi = self.encoder.matrix(table, index, out=z[:, 1:-2])
        phi -= self.centre
        phi /= self.scale
        z[:, 0], z[:, -2], z[:, -1] = 1.0, audited[index], level
        return z


def basis_of(table: Table, audited: Floats, outcome: Floats, omega: Floats, seed: int) -> Basis:
    """Return the basis of a table; ω are the rows' weights, half of them in each group."""
    index = encoded_rows(len(outcome), seed)
    # Products first: a pair that acts only together is seen in no column of a single feature.
    room = MOST_COLUMNS - 2 * len(table) - MULTIPLIED * (MULTIPLIED - 1) // 2
    smooth = strongest(table, (audited, outcome), omega, index, max(room // (BASIS_KNOTS + 2), MULTIPLIED))
    multiplied = strongest({name: table[name] for name in smooth}, (audited, outcome), omega, index, MULTIPLIED)
    encoder = encoding(table, index, BASIS_KNOTS, _affordable_levels(table), multiplied, smooth)
    return _make_basis(table, encoder, index)


def strongest(table: Table, targets: Sequence[Floats], omega: Floats, index: Integers, count: int) -> set[str]:
    """Return the features most associated with one of the targets on the rows `index`; all where they are few."""
    if len(table) <= count:
        return set(table)
    observed, weights = [target[index] for target in targets], omega[index]
    largest = in_threads(lambda name: max(_explained(table[name][index], observed, weights)), list(table), len(index))
    strength = dict(zip(table, largest, strict=True))
    return set(sorted(strength, key=lambda name: (-round(strength[name], 9), name))[:count])


def _explained(column: DesignColumn, targets: Sequence[Floats], omega: Floats) -> Iterator[float]:
    """Yield R² of each target on ten equal parts of a numeric column, or on its levels."""
    codes = column.astype(np.intp) if column.dtype.kind != "f" else _tenths(column)
    mass = np.bincount(codes, omega)
    for target in targets:
        centred = target - float(np.average(target, weights=omega))
        spread = float(omega @ centred**2)
        # R² of a one-way layout, Σ T_c·m_c² over the total.
        between = np.bincount(codes, omega * centred) ** 2 / np.where(mass > 0.0, mass, 1.0)
        yield float(between.sum()) / spread if spread > 0 else 0.0


def _tenths(column: Floats) -> Integers:
    observed = column[~np.isnan(column)]
    edges = np.unique(np.quantile(observed, np.linspace(0.1, 0.9, 9))) if observed.size else np.zeros(0)
    return np.searchsorted(edges, np.where(np.isnan(column), np.inf, column))


def widen_basis(basis: Basis, table: Table, blocks: Sequence[Block], seed: int) -> Basis:
    """Return the basis with more blocks of columns."""
    return _make_basis(table, basis.encoder.widened(blocks), encoded_rows(len(next(iter(table.values()))), seed))


def _make_basis(table: Table, encoder: Encoding, index: Integers) -> Basis:
    matrix = encoder.matrix(table, index)
    owners = column_owners(table, encoder)
    blocks = column_blocks(encoder, owners)
    return Basis(encoder, owners, blocks, matrix.mean(axis=0), _scales(matrix.std(axis=0), blocks, encoder.kinds))


def _scales(spread: Floats, blocks: Integers, kinds: NDArray[np.str_]) -> Floats:
    """Return what columns are divided by: their spread, or that of a whole spline or block.

    Columns of their own scale would be penalised alike however few rows they rest on; so those of few rows shrink more.
    """
    scale = np.where(spread > 1e-9, spread, 1.0)
    for number in np.unique(blocks):
        columns = np.flatnonzero((blocks == number) & np.isin(kinds, ("spline", "block")))
        scale[columns] = np.sqrt((scale[columns] ** 2).mean()) if columns.size else 1.0
    return scale


def _affordable_levels(table: Table) -> int:
    """Return how many columns a categorical feature may have; those with few values leave their room to others."""
    sizes = sorted(int(column.max(initial=0)) for column in table.values() if column.dtype.kind != "f")
    room = MOST_COLUMNS - (BASIS_KNOTS + 3) * (len(table) - len(sizes)) - MULTIPLIED * (MULTIPLIED - 1) // 2
    for rank, size in enumerate(sizes):
        share = max(room, 0) // (len(sizes) - rank)
        if size > share:
            return min(BASIS_LEVELS, max(share, 2))
        room -= size
    return BASIS_LEVELS


def basis_grams(
    basis: Basis, table: Table, audited: Floats, outcome: Floats, omega: Floats, fold: Integers, index: Integers
) -> Floats:
    """Return Σ ω·zzᵀ over the rows `index` of each fold, some thousand rows at a time; Σ ω is made 1."""
    size = len(basis.owners) + 3

    def gram(number: int) -> Floats:
        rows, total = index[fold[index] == number], np.zeros((size, size))
        for chunk in chunks(len(rows), MODEL_CHUNK):
            part = rows[chunk]
            # √ω on either side: the Gram matrix is one product of a matrix with itself.
            z = basis.rows(table, part, audited, outcome)
            z *= np.sqrt(omega[part])[:, None]
            total += z.T @ z
        return total

    grams: Floats = np.array(in_threads(gram, range(FOLDS), len(index)))
    return grams / float(omega[index].sum())


def pooled_features(table: Table, basis: Basis, omega: Floats) -> list[str]:
    """Return the features that the regressions cannot learn: few rows per value, or values without a column.

    A regression is fitted on two fifths of the rows, and a ridge penalty shrinks the mean of few rows.
    """
    pooled = []
    for levels in basis.encoder.levels:
        codes = table[levels.name]
        without = levels.ranks(codes) > levels.count
        # Two fifths: the rows of a pair of folds.
        is_thin = 0.4 * len(codes) / max(len(np.unique(codes)), 1) < ROWS_A_VALUE
        if float(omega[without].sum()) > POOLED_SHARE or (is_thin and levels.count > FEW_VALUED):
            pooled.append(levels.name)
    values = [block for block in basis.encoder.blocks if isinstance(block, CellBlock) and len(block.names) == 1]
    return pooled + [block.names[0] for block in values if float(omega[block.codes > block.width].sum()) > POOLED_SHARE]
