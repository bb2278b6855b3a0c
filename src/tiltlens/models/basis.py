"""The basis on which the group and the score are regressed for every set of features.

Splines of numeric features, indicators of levels, and products of two features; each column belongs to the features it
is made of. Where features are many, only those that go with the group or with the score are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltlens.engines.arrays import chunks
from tiltlens.estimators.influence import Integers
from tiltlens.limits import BASIS_KNOTS, BASIS_LEVELS, FOLDS, MODEL_CHUNK, MOST_COLUMNS, MULTIPLIED, POOLED_SHARE
from tiltlens.models.design import Encoding, Table, encoded_rows, encoding
from tiltlens.paper.checks import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Columns Φ of a table, standardised, and the places of the features that own each."""

    encoder: Encoding
    owners: Integers
    centre: Floats
    scale: Floats

    def rows(self, table: Table, index: Integers | slice, audited: Floats, outcome: Floats) -> Floats:
        """Return z = (1, Φ, S̄, W) of some rows."""
        phi = (self.encoder.matrix(table, index) - self.centre) / self.scale
        return np.column_stack([np.ones(len(phi)), phi, audited[index], outcome[index]])


def basis_of(table: Table, audited: Floats, outcome: Floats, omega: Floats, seed: int) -> Basis:
    """Return the basis of a table; ω are the rows' weights, half of them in each group."""
    index = encoded_rows(len(outcome), seed)
    levels = _affordable_levels(table)
    multiplied = _screened(table, audited[index], outcome[index], omega[index], index)
    encoder = encoding(table, index, BASIS_KNOTS, levels, multiplied)
    if len(encoder.kinds) > MOST_COLUMNS:
        encoder = encoding(table, index, 3, max(levels // 4, 1), set())
    matrix = encoder.matrix(table, index)
    centre = matrix.mean(axis=0)
    scale = matrix.std(axis=0)
    return Basis(encoder, column_owners(table, encoder), centre, np.where(scale > 1e-9, scale, 1.0))


def _affordable_levels(table: Table) -> int:
    """Return how many columns a categorical feature may have; those with few values leave their room to others."""
    sizes = sorted(int(column.max(initial=0)) for column in table.values() if column.dtype.kind != "f")
    room = MOST_COLUMNS - (BASIS_KNOTS + 3) * (len(table) - len(sizes)) - MULTIPLIED * (MULTIPLIED - 1) // 2
    for place, size in enumerate(sizes):
        share = max(room, 0) // (len(sizes) - place)
        if size > share:
            return min(BASIS_LEVELS, max(share, 2))
        room -= size
    return BASIS_LEVELS


def _screened(table: Table, audited: Floats, outcome: Floats, omega: Floats, index: Integers) -> set[str]:
    """Return the features to multiply: all of few, else those that go most with the group or with the score."""
    if len(table) <= MULTIPLIED:
        return set(table)
    strength = {name: _association(column[index], audited, outcome, omega) for name, column in table.items()}
    return set(sorted(strength, key=lambda name: (-round(strength[name], 9), name))[:MULTIPLIED])


def _association(column: Floats | Integers, audited: Floats, outcome: Floats, omega: Floats) -> float:
    """Return the larger R² of the group and of the score on ten equal parts of a column, or on its levels."""
    if column.dtype.kind == "f":
        edges = (
            np.unique(np.nanquantile(column, np.linspace(0.1, 0.9, 9))) if not np.isnan(column).all() else np.zeros(0)
        )
        codes = np.searchsorted(edges, np.where(np.isnan(column), np.inf, column))
    else:
        codes = column.astype(np.intp)
    mass = np.bincount(codes, omega)
    safe = np.where(mass > 0.0, mass, 1.0)
    found = []
    for target in (audited, outcome):
        centred = target - float(np.average(target, weights=omega))
        spread = float(omega @ centred**2)
        found.append(float((np.bincount(codes, omega * centred) ** 2 / safe).sum()) / spread if spread > 0 else 0.0)
    return max(found)


def column_owners(table: Table, encoder: Encoding) -> Integers:
    """Return the places in the table of the one or two features that own each column, (columns, 2)."""
    place = {name: j for j, name in enumerate(table)}
    numeric = [(place[column.name], column) for column in encoder.numeric]
    levels = [(place[column.name], column) for column in encoder.levels]
    single = [j for j, _ in numeric] + [j for j, column in numeric if column.has_missing]
    single += [j for j, column in levels for _ in range(column.count)]
    multiplied = [j for j, _ in numeric] + [j for j, column in levels if column.count == 1]
    products = [(multiplied[i], multiplied[k]) for i, k in encoder.products]
    splines = [j for j, column in numeric for _ in range(column.width)]
    owners = [*((j, j) for j in single), *products, *((j, j) for j in splines)]
    return np.array(owners, dtype=np.intp).reshape(-1, 2)


def basis_grams(
    basis: Basis, table: Table, audited: Floats, outcome: Floats, omega: Floats, fold: Integers, index: Integers
) -> Floats:
    """Return Σ ω·zzᵀ over the rows `index` of each fold, some thousand rows at a time; Σ ω is made 1."""
    size = len(basis.owners) + 3
    grams = np.zeros((FOLDS, size, size))
    for chunk in chunks(len(index), MODEL_CHUNK):
        own = index[chunk]
        z = basis.rows(table, own, audited, outcome) * np.sqrt(omega[own])[:, None]
        for number in range(FOLDS):
            part = z[fold[own] == number]
            grams[number] += part.T @ part
    return np.asarray(grams / omega[index].sum())


def pooled_features(table: Table, basis: Basis, omega: Floats) -> list[str]:
    """Return the categorical features of which a material part of the people have a value without a column."""
    pooled = []
    for levels in basis.encoder.levels:
        without = levels.ranks(table[levels.name]) > levels.count
        if float(omega[without].sum()) > POOLED_SHARE:
            pooled.append(levels.name)
    return pooled
