"""How much of the gap one discrete feature carries: gap(j) = alignment·reveals·drives, without a membership model.

A feature is one integer code per row. Cells of the reference group without audited rows have no E0[W|X_j]; they
count as E0[W], which moves nothing, and their mass is reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tiltlens.estimators.estimate import NOISE, Codes, Column, Functional, Normal, RowSums, SquareRoot, combined
from tiltlens.paper.checks import Floats

ROUNDING = 1e-13  # of a sum, below which a difference of sums is no difference


@dataclass(frozen=True, slots=True)
class Cells:
    """The distributions of a feature in both groups: P0(v), P1(v), t(v) = P1/P0 and m(v) = E0[W|v] − E0[W]."""

    codes: Codes
    p0: Floats
    p1: Floats
    ratio: Floats
    means: Floats
    weights2: Floats  # Σ of squared audited shares per cell

    @property
    def unsupported(self) -> float:
        """Return the reference mass of the cells without audited rows."""
        return float(self.p1[self.p0 <= 0.0].sum())


def cells(rows: RowSums, outcome: Column, codes: Codes) -> Cells:
    """Return P0, P1, P1/P0 and the centred cell means of W, one entry per code."""
    centred = outcome - rows.mean0(outcome)
    p0 = rows.sums0(codes)
    p1 = rows.sums1(codes)
    sums = rows.sums0(codes, centred)
    safe = np.where(p0 > 0.0, p0, 1.0)
    ratio = np.where(p0 > 0.0, p1 / safe, 0.0)
    return Cells(codes, p0, p1, ratio, sums / safe, rows.squares0(codes))


def feature_gap(rows: RowSums, outcome: Column, cell: Cells) -> Functional:
    """Return gap(j) = E0[W] − E1[m_j(X_j)], IF = [S=0]/q·{(W−p) − (P1/P0)(W−m_j)} − [S=1]/(1−q)·m_j."""
    mean = rows.lifted(cell.means, cell.codes)
    ratio = rows.lifted(cell.ratio, cell.codes)
    centred = outcome - rows.mean0(outcome)
    at_audited = (1.0 - cell.unsupported) * centred - ratio * (centred - mean)
    return Functional.of(rows, -float(cell.p1 @ cell.means), at_audited, -mean)


def drives_squared(rows: RowSums, outcome: Column, cell: Cells) -> Functional:
    """Return Var0(m_j) without the noise of the cell means (each row leaves itself out).

    IF = [S=0]/q·(2(W−p)m − m² − θ).
    """
    mean = rows.lifted(cell.means, cell.codes)
    centred = outcome - rows.mean0(outcome)
    squares = rows.squares0(cell.codes, centred**2)
    value = leave_one_out(cell.p0, cell.p0 * cell.means, cell.p0 * cell.means, squares, cell.weights2)
    size2 = float(cell.weights2.sum())
    value += size2 / (1.0 - size2) * rows.mean0(centred**2)
    return Functional.of(rows, value, (2 * centred - mean) * mean, rows.constant(0.0))


def leave_one_out(sizes: Floats, a: Floats, b: Floats, products: Floats, weights2: Floats) -> float:
    """Return Σ_c N_c·(AB − C)/(N_c² − Σw²): the mean of cell means, products of a row with itself left out."""
    spare = sizes**2 - weights2
    several = spare > 1e-12 * sizes**2
    terms = sizes[several] * (a * b - products)[several] / spare[several]
    return float(terms.sum())


def reveals_squared(rows: RowSums, cell: Cells) -> Functional:
    """Return Var0(P1/P0), the χ²(P1_j‖P0_j), less the leading bias of its plug-in.

    IF = [S=1]/(1−q)·2t − [S=0]/q·t².
    """
    inside = 1.0 - cell.unsupported
    t, p1 = cell.ratio, cell.p1
    bias = rows.square1 * (float(((1.0 - p1) * t).sum()) - inside * (1.0 - inside))
    bias += float(cell.weights2.sum()) * float((t**2 * (1.0 - cell.p0)).sum())
    mean = float(p1 @ t)
    value = mean - inside**2 - bias
    value = value if abs(value) > ROUNDING * mean else 0.0  # its root would be 1e-7, and look like a number
    reference = 2 * (t - inside * (cell.p0 > 0.0))
    return Functional.of(rows, value, -rows.lifted(t**2, cell.codes), rows.lifted(reference, cell.codes))


@dataclass(frozen=True, slots=True)
class Carrier:
    """What one feature carries of the gap; gap = alignment·reveals·drives up to the clipping of alignment."""

    gap: Normal
    reveals: SquareRoot
    drives: SquareRoot
    alignment: Normal
    unsupported: float


def carrier(rows: RowSums, outcome: Column, codes: Codes) -> Carrier:
    """Return gap(j), reveals_j, drives_j and alignment_j of one feature, each measured."""
    cell = cells(rows, outcome, codes)
    gap_j = feature_gap(rows, outcome, cell)
    reveals2, drives2 = reveals_squared(rows, cell), drives_squared(rows, outcome, cell)
    return Carrier(
        gap_j.normal(),
        reveals2.square_root(),
        drives2.square_root(),
        alignment(gap_j, reveals2, drives2),
        cell.unsupported,
    )


def alignment(gap_j: Functional, reveals2: Functional, drives2: Functional) -> Normal:
    """Return gap/(reveals·drives), in [−1, 1]; with an endless interval where reveals or drives may be 0."""
    if min(reveals2.value, drives2.value) <= 0.0:
        return Normal(0.0, math.inf, -1.0, 1.0)
    product = math.sqrt(reveals2.value * drives2.value)
    value = gap_j.value / product
    parts = [(1.0 / product, gap_j)]
    parts += [(-value / (2 * square.value), square) for square in (reveals2, drives2)]
    is_determined = all(square.value >= 2.0 * square.se for square in (reveals2, drives2))
    se = combined(value, parts).se if is_determined else math.inf
    return Normal(value, se, -1.0, 1.0)


@dataclass(frozen=True, slots=True)
class GapFactors:
    """The plug-in factors of gap(j): their product is gap(j) exactly."""

    reveals: float
    drives: float
    alignment: float


def gap_factors(cell: Cells) -> GapFactors:
    """Return √χ²(P1_j‖P0_j), sd0(m_j) and −Corr0(P1_j/P0_j, m_j), by plug-in."""
    inside = 1.0 - cell.unsupported
    reveals = math.sqrt(max(float(cell.p0 @ (cell.ratio - inside) ** 2), 0.0))
    drives = math.sqrt(max(float(cell.p0 @ cell.means**2), 0.0))
    if min(reveals, drives) < NOISE:
        return GapFactors(reveals, drives, 0.0)
    return GapFactors(reveals, drives, -float(cell.p1 @ cell.means) / (reveals * drives))
