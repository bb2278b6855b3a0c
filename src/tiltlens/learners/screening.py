"""Which of many features go most with the group or with the score."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.learners.design import Table
from tiltlens.limits import SURVIVAL
from tiltlens.paper.checks import Floats


def strongest(table: Table, targets: Sequence[Floats], omega: Floats, index: Integers, count: int) -> set[str]:
    """Return the features that go most with one of the targets on the rows `index`; all where they are few."""
    if len(table) <= count:
        return set(table)
    own, weights = [target[index] for target in targets], omega[index]
    strength = {name: max(_explained(column[index], own, weights)) for name, column in table.items()}
    return set(sorted(strength, key=lambda name: (-round(strength[name], 9), name))[:count])


def _explained(column: NDArray[Any], targets: Sequence[Floats], omega: Floats) -> Iterator[float]:
    """Yield R² of each target on ten equal parts of a numeric column, or on its levels."""
    codes = column.astype(np.intp) if column.dtype.kind != "f" else _tenths(column)
    mass = np.bincount(codes, omega)
    for target in targets:
        centred = target - float(np.average(target, weights=omega))
        spread = float(omega @ centred**2)
        between = np.bincount(codes, omega * centred) ** 2 / np.where(mass > 0.0, mass, 1.0)
        yield float(between.sum()) / spread if spread > 0 else 0.0


def _tenths(column: Floats) -> Integers:
    observed = column[~np.isnan(column)]
    edges = np.unique(np.quantile(observed, np.linspace(0.1, 0.9, 9))) if observed.size else np.zeros(0)
    return np.searchsorted(edges, np.where(np.isnan(column), np.inf, column))


def surviving_columns(matrix: Floats, owners: Integers, labels: Booleans, weights: Floats) -> Booleans:
    """Return the columns that belong to features which go with the labels: n·R² well above its degrees of freedom.

    A feature of k columns has n·R² of about k by chance, with a standard deviation of √(2k).
    """
    w = weights / weights.sum()
    target = labels - float(w @ labels)
    size, spread = 1.0 / float(w @ w), float(w @ target**2)
    survives = np.zeros(int(owners.max(initial=-1)) + 1, dtype=np.bool_)
    for feature in range(survives.size):
        own = np.flatnonzero((owners == feature).all(axis=1))
        if own.size:
            x = matrix[:, own]
            x -= w @ x
            weighted = x.T * w
            gram, cross = weighted @ x, weighted @ target
            gram[np.diag_indices(own.size)] += 1e-8 * np.trace(gram) + 1e-12
            explained = float(cross @ np.linalg.solve(gram, cross)) / spread
            survives[feature] = size * explained > own.size + SURVIVAL * np.sqrt(2 * own.size)
    return np.asarray(survives[owners].all(axis=1))
