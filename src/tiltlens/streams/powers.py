"""The second pass: sums of powers of log-odds and scores per cell, of which every estimate is a function.

Log-odds and scores have a pivot subtracted, so that their powers lose no digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tiltlens.estimators.estimate import Integers
from tiltlens.estimators.shapley import numbered
from tiltlens.estimators.summed import Partition, Polynomial, PowerSums, SummedRows, SummedScores
from tiltlens.paper.checks import Floats
from tiltlens.streams.cells import power_sums
from tiltlens.streams.fitted import FittedPolynomials, fitted_polynomials, fitted_variables
from tiltlens.streams.levels import joint_bound, numbers_of
from tiltlens.streams.plan import PairBatch, PairPlan, pair_batch

MOST_JOINT = 1 << 15  # joint cells of all features that are kept
FEW_JOINT = 1 << 13  # possible joint cells that are kept whether anyone is in them or not
RATIO_BINS = 1 << 16  # of P(audited|x) at equal group sizes
MIXED = 64  # bins of a score, and of P(audited|x), for the path


@dataclass(frozen=True, slots=True, eq=False)
class JointSums:
    """Sums in joint cells of all features, by their keys; None where the cells became too many."""

    keys: Integers
    audited: PowerSums
    reference: PowerSums

    def filled(self) -> JointSums:
        """Return the cells with people in them."""
        cells = np.flatnonzero(self.audited.counts + self.reference.counts)
        return JointSums(self.keys[cells], self.audited.of(cells), self.reference.of(cells))

    def plus(self, other: JointSums) -> JointSums | None:
        """Return the sums over both, None where there are too many cells."""
        if np.array_equal(self.keys, other.keys):
            return JointSums(self.keys, self.audited + other.audited, self.reference + other.reference)
        keys = np.union1d(self.keys, other.keys)
        size = len(keys)
        if size > MOST_JOINT:
            return None
        one, two = np.searchsorted(keys, self.keys), np.searchsorted(keys, other.keys)
        audited = self.audited.joined(one, size) + other.audited.joined(two, size)
        return JointSums(keys, audited, self.reference.joined(one, size) + other.reference.joined(two, size))


@dataclass(frozen=True, slots=True, eq=False)
class RatioBins:
    """ℓ in fine bins: people and Σℓ over both groups, weight and Σw·ℓ in each."""

    sums: Floats  # (6, bins): people, Σℓ, then audited and reference weight, then audited and reference Σw·ℓ

    def __add__(self, other: RatioBins) -> RatioBins:
        return RatioBins(self.sums + other.sums)

    @property
    def filled(self) -> Floats:
        """One row for each bin with people."""
        return np.asarray(self.sums.T[self.sums[0] > 0])


@dataclass(frozen=True, slots=True, eq=False)
class MixedBins:
    """The audited people by bins of log-odds and score: weight, Σw·ℓ and Σw·W in each; the atoms of the path."""

    sums: Floats  # (MIXED², 3)

    def __add__(self, other: MixedBins) -> MixedBins:
        return MixedBins(self.sums + other.sums)


@dataclass(frozen=True, slots=True, eq=False)
class NumberSums:
    """Σ1, Σx and Σx² of the known values of each numeric feature, from a pivot."""

    sums: Floats  # (features, 3)

    def __add__(self, other: NumberSums) -> NumberSums:
        return NumberSums(self.sums + other.sums)


@dataclass(frozen=True, slots=True, eq=False)
class Powers:
    """What the second pass finds, added with `+`."""

    tables: tuple[tuple[PowerSums, PowerSums], ...]
    joint: JointSums | None
    ratios: RatioBins
    mixed: MixedBins | None
    numbers: NumberSums

    def __add__(self, other: Powers) -> Powers:
        pairs = zip(self.tables, other.tables, strict=True)
        return Powers(
            tuple((one[0] + two[0], one[1] + two[1]) for one, two in pairs),
            None if self.joint is None or other.joint is None else self.joint.plus(other.joint),
            self.ratios + other.ratios,
            None if self.mixed is None or other.mixed is None else self.mixed + other.mixed,
            self.numbers + other.numbers,
        )


def powers(plan: PairPlan, table: pl.DataFrame) -> Powers:
    """Return what one batch adds to the sums."""
    rows = pair_batch(plan, table)
    joint = _joint_codes(plan, rows.features.codes) if plan.has_joint else None
    cells = [(codes, len(levels.labels)) for codes, levels in zip(rows.features.codes, plan.levels, strict=True)]
    if joint is not None and len(joint[0]) > MOST_JOINT:
        joint = None
    is_sure = joint is not None and joint_bound(plan.levels) <= MOST_JOINT
    splits = [] if is_sure and plan.fitted is None else cells
    weights = rows.weights if plan.is_weighted else None
    variables = _variables(plan, rows)
    crossed = [] if joint is None else [(joint[1], len(joint[0]))]
    of_joint = power_sums(variables, weights, rows.audited, crossed, plan.known_exponents())
    return Powers(
        tables=power_sums(variables, weights, rows.audited, splits, plan.exponents()),
        joint=None if joint is None else JointSums(joint[0], *of_joint[0]),
        ratios=_ratio_bins(plan, rows),
        mixed=_mixed_bins(plan, rows) if plan.outcomes == 1 else None,
        numbers=_number_sums([rows.features.table[one.name] for one in plan.levels if one.has_numbers], plan.centres),
    )


def _joint_codes(plan: PairPlan, codes: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Return the keys of the joint cells, of filled ones where there may be many, and each row's place among them."""
    bound = joint_bound(plan.levels)
    key: Integers = np.zeros(len(codes[0]), dtype=np.int32 if bound < 1 << 31 else np.int64)
    for column, levels in zip(codes, plan.levels, strict=True):
        key *= len(levels.labels)
        key += column.astype(key.dtype)
    return (np.arange(bound), key) if bound <= FEW_JOINT else numbered(key)


def _variables(plan: PairPlan, rows: PairBatch) -> Floats:
    """Return ℓ, T and the scores less their pivots, and e^ℓ up to a factor, one line each."""
    found = np.empty((plan.variables, len(rows.log_odds)))
    np.subtract(rows.log_odds, plan.pivot[0], out=found[0])
    if plan.slopes is not None:
        np.dot(rows.scores - plan.pivot[1:], plan.slopes, out=found[1])
    ratio = plan.known_variables - 1
    np.subtract(rows.scores.T, plan.pivot[1:, None], out=found[plan.first_score : ratio])
    np.exp(np.subtract(rows.log_odds, plan.top, out=found[ratio]), out=found[ratio])
    if rows.expect is not None:
        residual = rows.scores[:, plan.measured - plan.first_score] - rows.expect()
        found[plan.known_variables :] = fitted_variables(rows.pairings, residual)
    return found


def _ratio_places(log_ratio: Floats, bins: int) -> Integers:
    """Return each row's bin of P(audited|x) = 1/(1 + e^(−ℓ)) at equal group sizes."""
    x = np.negative(log_ratio)
    with np.errstate(over="ignore"):
        np.exp(x, out=x)
    x += 1.0
    np.divide(bins, x, out=x)
    return np.minimum(x, bins - 1, out=x).astype(np.intp)


def _ratio_bins(plan: PairPlan, rows: PairBatch) -> RatioBins:
    """Return the fine bins; both groups are counted at once, as twice as many bins."""
    of_both = _ratio_places(rows.log_ratio, RATIO_BINS)
    of_both += RATIO_BINS * ~rows.audited

    def counted(values: Floats | None) -> Floats:
        return np.bincount(of_both, values, 2 * RATIO_BINS).astype(np.float64, copy=False).reshape(2, RATIO_BINS)

    people, total = counted(None), counted(rows.log_ratio)
    weights, weighed = (
        (counted(rows.weights), counted(rows.weights * rows.log_ratio)) if plan.is_weighted else (people, total)
    )
    return RatioBins(np.vstack([people.sum(axis=0), total.sum(axis=0), weights, weighed]))


def _mixed_bins(plan: PairPlan, rows: PairBatch) -> MixedBins:
    """Return the bins of the path; those of the log-odds are unions of fine bins."""
    mine = np.flatnonzero(rows.audited)
    ell, score = rows.log_odds[mine], rows.scores[mine, 0]
    place = _ratio_places(ell - plan.prior, MIXED)
    place *= MIXED
    place += np.minimum(score * MIXED, MIXED - 1).astype(np.intp)
    columns: tuple[Floats | None, ...] = (None, ell, score)
    if plan.is_weighted:
        weights = rows.weights[mine]
        columns = (weights, weights * ell, weights * score)
    return MixedBins(np.column_stack([np.bincount(place, column, MIXED**2) for column in columns]))


def _number_sums(columns: Sequence[pl.Series], centres: Sequence[float]) -> NumberSums:
    sums = np.zeros((len(columns), 3))
    for target, column, centre in zip(sums, columns, centres, strict=True):
        x = numbers_of(column.drop_nulls()) - centre
        target += [len(x), x.sum(), np.dot(x, x)]
    return NumberSums(sums)


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """The second pass, ready for formulas: rows, columns and partitions that are polynomials and sums.

    `joint` are the joint cells of all features, and `joint_codes` the features' codes in each; None where they are too
    many. `fitted` are the columns of a fitted membership model.
    """

    rows: SummedRows
    log_odds: Polynomial
    scores: SummedScores
    outcome: Polynomial
    partitions: tuple[Partition, ...]
    joint: Partition | None
    joint_codes: Integers | None
    fitted: FittedPolynomials | None


def summed(plan: PairPlan, found: Powers, constants: Sequence[int]) -> Summed:
    """Return the sums as rows; `constants` are the scores with one value only."""
    joint, codes = None, None
    if found.joint is not None:
        filled = found.joint.filled()
        joint = Partition(filled.audited, filled.reference)
        codes = _split_keys(filled.keys, [len(levels.labels) for levels in plan.levels])
    if joint is not None and codes is not None and plan.fitted is None:
        partitions = [
            _of_feature(joint, column, len(one.labels)) for column, one in zip(codes.T, plan.levels, strict=True)
        ]
    else:  # joint cells have not all the powers that a fitted model asks for
        partitions = [Partition(*pair, np.arange(len(pair[0].counts))) for pair in found.tables]
    whole, count = partitions[0].whole, plan.variables
    log_odds = Polynomial.variable(0, count, float(plan.pivot[0]))
    first = plan.first_score
    columns = tuple(Polynomial.variable(first + y, count, float(plan.pivot[1 + y])) for y in range(plan.outcomes))
    combined = None
    if plan.slopes is not None:
        combined = Polynomial.variable(1, count, float(plan.pivot[1:] @ plan.slopes))
    ratio = Polynomial.variable(plan.known_variables - 1, count)
    flat = tuple(first + y for y in constants)
    rows = SummedRows(plan.exponents(), whole, (ratio, log_odds, plan.top), flat)
    scores = SummedScores(columns, plan.slopes, combined)
    fitted = None if plan.fitted is None else fitted_polynomials(plan.known_variables, whole)
    return Summed(rows, log_odds, scores, columns[plan.measured - first], tuple(partitions), joint, codes, fitted)


def _of_feature(joint: Partition, codes: Integers, size: int) -> Partition:
    audited, reference = joint.audited.joined(codes, size), joint.reference.joined(codes, size)
    return Partition(audited, reference, np.arange(size), joint, codes)


def _split_keys(keys: Integers, sizes: Sequence[int]) -> Integers:
    codes = np.empty((len(keys), len(sizes)), dtype=np.int64)
    for place in range(len(sizes) - 1, -1, -1):
        keys, codes[:, place] = np.divmod(keys, sizes[place])
    return codes
