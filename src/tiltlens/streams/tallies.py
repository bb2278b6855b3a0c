"""The third pass: what needs the correction first. The extremes of f~, the balance, and bins for figures.

Of rows that stay in memory the bins are made later, in a pass of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.engines.arrays import chunks
from tiltlens.estimators.estimate import Integers
from tiltlens.estimators.summed import Exponents, Partition, Polynomial, PowerSums, SummedRows
from tiltlens.models.design import MOST_PRODUCTS, REACH
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.results.counting import Binned, Tallies, tallied
from tiltlens.results.profiles import TIED
from tiltlens.streams.fitted import mean_density_ratio
from tiltlens.streams.levels import numbers_of
from tiltlens.streams.plan import PairBatch, PairPlan, pair_batch
from tiltlens.streams.survey import survey_rows

CHUNK = 1 << 13  # rows whose balance is summed at a time
SIDES = 12  # w and w² in both groups, times 1, r and r²
TINY = 1e-300  # below which a spread has no inverse
EXPECTED = "\0score"  # what the features lead to expect of it

# of x and e^ℓ: what (E0[x] − E1[e^ℓ·x])/sd0(x) and its error are made of
BALANCE_EXPONENTS: tuple[Exponents, ...] = ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))


@dataclass(frozen=True, slots=True, eq=False)
class TallyPlan:
    """What the third pass has to know; it travels to every worker.

    Attributes
    ----------
    positions
        f~ at each position of the dial, and then the correction.
    edges
        Of the calibration bins.
    tilt
        t of the least change that removes the gap, by e^(W·t); None where there is none.
    scales
        Mean and standard deviation of each numeric feature.
    has_equals
        For each feature, whether anyone in the reference has a value.
    """

    pair: PairPlan
    positions: tuple[CorrectionFunction, ...]
    edges: Floats
    tilt: Floats | None
    scales: tuple[tuple[float, float], ...]
    has_equals: tuple[NDArray[np.bool_], ...]

    @property
    def correction(self) -> CorrectionFunction:
        """f~."""
        return self.positions[-1]

    @property
    def balanced(self) -> list[tuple[str, ...]]:
        """The columns whose balance takes numbers: each numeric feature, its square, and products of two.

        Where a model is fitted, what the features lead to expect of the score comes first.
        """
        expected = [] if self.pair.fitted is None else [(EXPECTED,)]
        names = sorted(one.name for one in self.pair.levels if one.has_numbers and one.in_membership)
        pairs = list(combinations(names, 2))
        single = [part for name in names for part in ((name,), (name, name))]
        return [*expected, *single, *(pairs if len(pairs) <= MOST_PRODUCTS else [])]


class Extreme(NamedTuple):
    """The least of a number over rows, and the feature codes of its row: of equals, the first codes."""

    value: float
    codes: tuple[int, ...]
    correction: float

    def best(self, other: Extreme) -> Extreme:
        """Return the lesser of two."""
        if abs(self.value - other.value) <= TIED:
            return min(self, other, key=lambda one: one.codes)
        return min(self, other, key=lambda one: one.value)


NOBODY = Extreme(np.inf, (), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class PairChecks:
    """What an audit needs to know of f~ and of the membership model, added with `+`.

    Attributes
    ----------
    extremes
        Where f~ is largest, smallest and nearest to 0.
    alone, alone_people
        Weight of the audited people with a value that nobody in the reference has, and how many they are.
    balance
        Sums of each balanced column.
    """

    extremes: dict[str, Extreme]
    alone: float
    alone_people: int
    balance: tuple[tuple[PowerSums, PowerSums], ...]

    def __add__(self, other: PairChecks) -> PairChecks:
        pairs = zip(self.balance, other.balance, strict=True)
        return PairChecks(
            {name: one.best(other.extremes[name]) for name, one in self.extremes.items()},
            self.alone + other.alone,
            self.alone_people + other.alone_people,
            tuple((one[0] + two[0], one[1] + two[1]) for one, two in pairs),
        )


@dataclass(frozen=True, slots=True, eq=False)
class PairTallies:
    """The checks, and the bins for figures, added with `+`."""

    checks: PairChecks
    bins: Tallies

    def __add__(self, other: PairTallies) -> PairTallies:
        return PairTallies(self.checks + other.checks, self.bins + other.bins)


def pair_tallies(plan: TallyPlan, table: pl.DataFrame) -> PairTallies:
    """Return what one batch adds to the third pass."""
    rows = pair_batch(plan.pair, table)
    return PairTallies(_checks(plan, rows), _bins(plan, rows))


def pair_checks(plan: TallyPlan, table: pl.DataFrame) -> PairChecks:
    """Return what one batch adds to the third pass where the bins are left for later."""
    return _checks(plan, pair_batch(plan.pair, table))


@dataclass(frozen=True, slots=True, eq=False)
class LateBins:
    """Bins that are made after the audit, and the fingerprint of the rows by then, added with `+`."""

    bins: Tallies
    fingerprint: int

    def __add__(self, other: LateBins) -> LateBins:
        return LateBins(self.bins + other.bins, (self.fingerprint + other.fingerprint) % 2**64)


def late_bins(plan: TallyPlan, table: pl.DataFrame) -> LateBins:
    """Return what one batch adds to the bins, in a pass of their own."""
    hashes = survey_rows(plan.pair.question, table).rows.hashes()
    return LateBins(_bins(plan, pair_batch(plan.pair, table)), int(hashes.sum()))


def _checks(plan: TallyPlan, rows: PairBatch) -> PairChecks:
    return PairChecks(_extremes(plan, rows), *_alone(plan, rows), _balance(plan, rows))


def _bins(plan: TallyPlan, rows: PairBatch) -> Tallies:
    coded = zip(plan.pair.levels, rows.features.codes, strict=True)
    found = Binned(
        rows.audited,
        rows.weights,
        rows.scores[:, plan.pair.measured - plan.pair.first_score],
        _scores(rows),
        rows.log_odds,
        rows.log_ratio,
        tuple(levels.feature(codes) for levels, codes in coded),
        _moved(plan, rows),
    )
    return tallied(found, plan.positions, plan.edges)


def _scores(rows: PairBatch) -> Floats:
    """Return the scores as a correction takes them."""
    return rows.scores[:, 0] if rows.scores.shape[1] == 1 else rows.scores


def _moved(plan: TallyPlan, rows: PairBatch) -> Floats | None:
    """Return w·e^(W·t), each audited row's weight after the least change, up to a factor."""
    if plan.tilt is None:
        return None
    first = 0 if plan.pair.outcomes == 1 else 1
    moved = np.zeros(len(rows.weights))
    for score, at, t in zip(rows.scores.T[first:], plan.pair.pivot[1 + first :], plan.tilt, strict=True):
        moved += (score - at) * t
    np.exp(moved, out=moved)
    moved *= rows.weights
    return moved


def _extremes(plan: TallyPlan, rows: PairBatch) -> dict[str, Extreme]:
    mine = np.flatnonzero(rows.audited & (rows.weights > 0))
    f = np.asarray(plan.correction(rows.log_odds[mine], _scores(rows)[mine]))
    sides = {"max": -f, "min": f, "near_zero": np.abs(f)}
    if not f.size:
        return dict.fromkeys(sides, NOBODY)
    tied = {name: np.flatnonzero(values <= values.min() + TIED) for name, values in sides.items()}
    codes = np.column_stack(rows.features.at(mine[np.concatenate(list(tied.values()))]).codes)
    parts = np.split(codes, np.cumsum([len(places) for places in tied.values()])[:-1])
    return {
        name: _first_of(values[places], f[places], part)
        for (name, values), places, part in zip(sides.items(), tied.values(), parts, strict=True)
    }


def _first_of(values: Floats, f: Floats, codes: Integers) -> Extreme:
    first = np.lexsort(codes.T[::-1])[0]
    return Extreme(float(values[first]), tuple(codes[first].tolist()), float(f[first]))


def _alone(plan: TallyPlan, rows: PairBatch) -> tuple[float, int]:
    if all(known.all() for known in plan.has_equals):
        return 0.0, 0
    alone = np.zeros(len(rows.weights), dtype=np.bool_)
    for codes, known, levels in zip(rows.features.codes, plan.has_equals, plan.pair.levels, strict=True):
        if levels.in_membership:
            alone |= ~known[codes]
    alone &= rows.audited
    return float(rows.weights[alone].sum()), int(alone.sum())


def _balance(plan: TallyPlan, rows: PairBatch) -> tuple[tuple[PowerSums, PowerSums], ...]:
    """Return the sums of each balanced column: one matrix product for all of them, and for both groups."""
    balanced = plan.balanced
    if not balanced:
        return ()
    numbers, density = _numbers(plan, rows), mean_density_ratio(rows.pairings) if rows.pairings else None
    total = np.zeros((2, 2, 3, 1 + 2 * len(balanced)))  # of w and w², by group, of 1, r and r², by column
    space = np.empty((SIDES + total.shape[-1], min(len(rows.weights), CHUNK)))
    for part in chunks(len(rows.weights), CHUNK):
        ratio = np.exp(rows.log_odds[part] - plan.pair.top) if density is None else density[part]
        used = space[:, : len(ratio)]
        sides = _sides(rows.audited[part], rows.weights[part] if plan.pair.is_weighted else None, ratio, used[:SIDES])
        sums = np.dot(sides.reshape(-1, len(ratio)), _columns(balanced, numbers, part, used[SIDES:]).T)
        total[: len(sides)] += sums.reshape(-1, *total.shape[1:])
    if not plan.pair.is_weighted:
        total[1] = total[0]
    people = int(rows.audited.sum())
    both = zip(np.array([[people], [len(rows.audited) - people]]), total.swapaxes(0, 1), strict=True)
    found = [[_column_sums(sums, j, len(balanced), count) for j in range(len(balanced))] for count, sums in both]
    return tuple(zip(*found, strict=True))


class _Scaled(NamedTuple):
    """Numbers, where they are measured from and by what unit, and whether some lie too far off to count in full."""

    values: Floats
    mean: float
    sd: float
    is_clipped: bool

    @classmethod
    def of(cls, values: Floats, mean: float, sd: float) -> _Scaled:
        """Return numbers as they are measured."""
        ends = values.min(initial=mean), values.max(initial=mean)
        return cls(values, mean, sd, bool(max(mean - ends[0], ends[1] - mean) > REACH * sd))


def _numbers(plan: TallyPlan, rows: PairBatch) -> dict[str, _Scaled]:
    """Return the numbers of each numeric feature, the mean where missing, and what is expected of the score."""
    numeric, found = [one.name for one in plan.pair.levels if one.has_numbers], {}
    for name, (mean, sd) in zip(numeric, plan.scales, strict=True):
        column = rows.features.table[name]
        values = numbers_of(column)
        known = np.where(np.isnan(values), mean, values) if column.null_count() else values
        found[name] = _Scaled.of(known, mean, sd if sd > TINY else np.inf)
    return found if rows.expect is None else found | {EXPECTED: _Scaled.of(rows.expect(), 0.0, 1.0)}


def _sides(audited: NDArray[np.bool_], weights: Floats | None, ratio: Floats, space: Floats) -> Floats:
    """Return w, w·r and w·r² in each group, 0 in the other, and the same with w² where weights are not 1.

    r is e^ℓ or the fitted density ratio. They are worked out in `space`.
    """
    sides = space.reshape(2, 2, 3, len(ratio))[: 1 if weights is None else 2]
    sides[0, 0, 0], sides[0, 1, 0] = audited, ~audited
    if weights is not None:
        sides[0, :, 0] *= weights
        np.multiply(sides[0, :, 0], weights, out=sides[1, :, 0])
    for power in (1, 2):
        np.multiply(sides[:, :, power - 1], ratio, out=sides[:, :, power])
    return sides


def _columns(balanced: Sequence[tuple[str, ...]], numbers: Mapping[str, _Scaled], part: slice, found: Floats) -> Floats:
    """Return 1, the balanced columns of some rows, each name before its products, and their squares, in `found`."""
    size = len(balanced)
    found[0] = 1.0
    z: dict[str, Floats] = {}
    for x, names in zip(found[1:], balanced, strict=False):
        if len(names) == 1:
            values, mean, sd, is_clipped = numbers[names[0]]
            z[names[0]] = np.subtract(values[part], mean, out=x)
            x *= 1.0 / sd
            if is_clipped:
                np.clip(x, -REACH, REACH, out=x)
        else:
            np.multiply(z[names[0]], z[names[1]], out=x)
    np.square(found[1 : 1 + size], out=found[1 + size :])
    return found


def _column_sums(sides: Floats, column: int, count: int, people: Integers) -> PowerSums:
    at = (0, 1 + column, 1 + count + column)  # Σ of 1, x and x²
    first, second = ([[one[e, at[i]] for i, e in BALANCE_EXPONENTS]] for one in sides)
    return PowerSums(people, np.array(first), np.array(second))


def balance_rows(sums: Sequence[PowerSums]) -> tuple[SummedRows, Polynomial, Polynomial]:
    """Return the rows of one balanced column, the column, and e^ℓ up to a factor."""
    rows = SummedRows(BALANCE_EXPONENTS, Partition(sums[0], sums[1]))
    return rows, Polynomial.variable(0, 2), Polynomial.variable(1, 2)
