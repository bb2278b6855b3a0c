"""The second pass: sums of powers of log-odds and scores per cell, of which every estimate is a function.

Log-odds and scores have a pivot subtracted, so that their powers lose no digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.special import expit

from tiltmeter.streams.levels import Levels, joint_bound, numbers_of
from tiltmeter.streams.reading import Question, reading
from tiltmeter.theory.checks import Floats
from tiltmeter.theory.summed import Exponents, Partition, Polynomial, PowerSums, SummedRows, SummedScores
from tiltmeter.theory.uncertainty import Integers

CHUNK = 1 << 15  # rows whose powers stay in the cache while they are summed
MOST_JOINT = 1 << 15  # joint cells of all features that are kept
DENSE_JOINT = 1 << 21  # possible joint cells up to which the filled ones are found by counting
RATIO_BINS = 1 << 16  # of P(audited|x) at equal group sizes
MIXED = 64  # bins of a score, and of P(audited|x), for the path


@dataclass(frozen=True, slots=True, eq=False)
class PairPlan:
    """How the rows of one audited group and the reference are summed; it travels to every worker.

    Attributes
    ----------
    prior
        logit of the audited group's share.
    top
        The largest log-odds.
    pivot
        What is subtracted from (ℓ, W_1, …) before powers are taken.
    slopes
        Of T = Σ slope·W, the output's part of g, where there are more than two outcomes.
    favourable
        The column of the score whose means are compared.
    is_weighted
        Whether weights differ from 1.
    has_joint
        Whether to keep the joint cells of all features.
    centres
        Near the means of the numeric features.
    """

    question: Question
    audited: str
    reference: str
    levels: tuple[Levels, ...]
    prior: float
    top: float
    pivot: Floats
    slopes: Floats | None
    favourable: int
    is_weighted: bool
    has_joint: bool
    centres: tuple[float, ...]

    @property
    def outcomes(self) -> int:
        """Number of score columns."""
        return len(self.pivot) - 1

    @property
    def variables(self) -> int:
        """ℓ, T where there are more than two outcomes, the scores, e^ℓ."""
        return 1 + (self.slopes is not None) + self.outcomes + 1

    @property
    def first_score(self) -> int:
        """The place of the first score among the variables."""
        return 1 + (self.slopes is not None)

    @property
    def measured(self) -> int:
        """The place of the score whose gap is measured."""
        return self.first_score + (self.favourable if self.outcomes > 1 else 0)

    def exponents(self) -> tuple[Exponents, ...]:
        """Return every power that an influence function or a product of two of them holds."""

        def power(*places: int) -> Exponents:
            return tuple(places.count(place) for place in range(self.variables))

        scores = range(self.first_score, self.first_score + self.outcomes)
        both = range(self.first_score + (self.slopes is None))  # ℓ and T; with two outcomes T is a multiple of W
        basis = [(), *((place,) for place in {*both, *scores}), *combinations_with_replacement(both, 2)]
        basis += [(self.measured, self.measured)]
        products = {tuple(sorted(one + two)) for one, two in combinations_with_replacement(dict.fromkeys(basis), 2)}
        ratio, w = self.variables - 1, self.measured
        products |= {(ratio,), (w, ratio), (ratio, ratio), (w, ratio, ratio), (w, w, ratio, ratio)}
        return tuple(sorted({power(*places) for places in products}, key=lambda e: (sum(e), e)))


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    """The rows of a pair in a batch."""

    audited: NDArray[np.bool_]
    weights: Floats
    log_odds: Floats
    scores: Floats  # (n, m)
    codes: list[Integers]
    table: pl.DataFrame


def pair_batch(plan: PairPlan, table: pl.DataFrame) -> PairBatch:
    """Return the rows of the pair in a batch."""
    found = reading(plan.question, table)
    audited = found.members(plan.audited)
    mine = audited | found.members(plan.reference)
    rows, scores = found.table.filter(mine), found.scores[mine]
    codes = [levels.codes(rows[levels.name]) for levels in plan.levels]
    columns = scores[:, None] if scores.ndim == 1 else scores
    return PairBatch(audited[mine], found.weights[mine], found.log_odds[mine], columns, codes, rows)


@dataclass(frozen=True, slots=True, eq=False)
class JointSums:
    """Sums in each filled joint cell of all features, by its key; None where the cells became too many."""

    keys: Integers
    audited: PowerSums
    reference: PowerSums

    def plus(self, other: JointSums) -> JointSums | None:
        """Return the sums over both, None where there are too many cells."""
        keys = np.union1d(self.keys, other.keys)
        if len(keys) > MOST_JOINT:
            return None
        if len(keys) == len(self.keys) == len(other.keys):
            return JointSums(keys, self.audited + other.audited, self.reference + other.reference)
        size = len(keys)
        one, two = np.searchsorted(keys, self.keys), np.searchsorted(keys, other.keys)
        audited = self.audited.joined(one, size) + other.audited.joined(two, size)
        return JointSums(keys, audited, self.reference.joined(one, size) + other.reference.joined(two, size))


@dataclass(frozen=True, slots=True, eq=False)
class RatioBins:
    """The log-odds in fine bins: people and Σℓ over both groups, weight and Σw·ℓ in each. Only filled bins are kept."""

    places: Integers
    sums: Floats  # (bins, 6): people, Σℓ, then audited and reference weight, then audited and reference Σw·ℓ

    def __add__(self, other: RatioBins) -> RatioBins:
        places = np.union1d(self.places, other.places)
        sums = np.zeros((len(places), 6))
        sums[np.searchsorted(places, self.places)] += self.sums
        sums[np.searchsorted(places, other.places)] += other.sums
        return RatioBins(places, sums)


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
    joint = _joint_codes(plan, rows.codes) if plan.has_joint else None
    cells = [(codes, len(levels.labels)) for codes, levels in zip(rows.codes, plan.levels, strict=True)]
    if joint is not None and len(joint[0]) > MOST_JOINT:
        joint = None
    is_sure = joint is not None and joint_bound(plan.levels) <= MOST_JOINT
    splits = [] if is_sure else cells
    crossed = [] if joint is None else [(joint[1], len(joint[0]))]
    sums = _power_sums(plan, rows, [*crossed, *splits])
    numeric = [levels for levels in plan.levels if levels.has_numbers]
    return Powers(
        tables=sums[len(crossed) :],
        joint=None if joint is None else JointSums(joint[0], *sums[0]),
        ratios=_ratio_bins(plan, rows),
        mixed=_mixed_bins(plan, rows) if plan.outcomes == 1 else None,
        numbers=_number_sums([numbers_of(rows.table[one.name]) for one in numeric], plan.centres),
    )


def _joint_codes(plan: PairPlan, codes: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Return the keys of the filled joint cells, and each row's place among them."""
    key, bound = np.zeros(len(codes[0]), dtype=np.int64), 1
    for column, levels in zip(codes, plan.levels, strict=True):
        key = key * len(levels.labels) + column
        bound *= len(levels.labels)
    if bound > DENSE_JOINT:
        keys, place = np.unique(key, return_inverse=True)
        return keys, place
    is_filled = np.bincount(key, minlength=bound) > 0
    return np.flatnonzero(is_filled), (np.cumsum(is_filled) - 1)[key]


def _power_sums(
    plan: PairPlan, rows: PairBatch, splits: Sequence[tuple[Integers, int]]
) -> tuple[tuple[PowerSums, PowerSums], ...]:
    """Return the sums of both groups by the cells of each split."""
    found = []
    for who in (rows.audited, ~rows.audited):
        totals = [np.zeros((2 if plan.is_weighted else 1, size, len(plan.exponents()))) for _, size in splits]
        index = np.flatnonzero(who)
        for start in range(0, len(index), CHUNK):
            part = index[start : start + CHUNK]
            matrix = _powers(plan, rows.log_odds[part], rows.scores[part])
            weights = rows.weights[part]
            for total, (codes, size) in zip(totals, splits, strict=True):
                _add_by_cell(total, codes[part], size, matrix, weights)
        counts = [np.bincount(codes[who], minlength=size) for codes, size in splits]
        found.append([PowerSums(c, t[0], t[-1]) for c, t in zip(counts, totals, strict=True)])
    return tuple(zip(*found, strict=True))


def _add_by_cell(total: Floats, codes: Integers, size: int, matrix: Floats, weights: Floats) -> None:
    """Add Σ w·x^e, and Σ w²·x^e where weights differ, of each cell."""
    starts = np.arange(len(codes) + 1)
    for power, target in enumerate(total, start=1):
        factors = weights**power if len(total) > 1 else np.ones(len(codes))
        target += csc_array((factors, codes, starts), shape=(size, len(codes))) @ matrix


def _powers(plan: PairPlan, log_odds: Floats, scores: Floats) -> Floats:
    """Return each power of the variables, one column each, each made from a lower one."""
    columns = [log_odds - plan.pivot[0]]
    if plan.slopes is not None:
        columns.append((scores - plan.pivot[1:]) @ plan.slopes)
    columns += [score - at for score, at in zip(scores.T, plan.pivot[1:], strict=True)]
    columns.append(np.exp(log_odds - plan.top))
    exponents = plan.exponents()
    place = {e: number for number, e in enumerate(exponents)}
    matrix = np.empty((len(log_odds), len(exponents)))
    made: dict[Exponents, Floats] = {}
    for e, number in place.items():
        if not sum(e):
            matrix[:, number] = 1.0
            continue
        made[e] = _made(e, columns, made)
        matrix[:, number] = made[e]
    return matrix


def _made(e: Exponents, columns: Sequence[Floats], made: dict[Exponents, Floats]) -> Floats:
    """Return x^e, from x^(e − 1 of the last variable)."""
    last = max(place for place, power in enumerate(e) if power)
    lower = tuple(power - (place == last) for place, power in enumerate(e))
    if not sum(lower):
        return columns[last]
    if lower not in made:
        made[lower] = _made(lower, columns, made)
    return made[lower] * columns[last]


def _ratio_bins(plan: PairPlan, rows: PairBatch) -> RatioBins:
    place = np.minimum((expit(rows.log_odds - plan.prior) * RATIO_BINS).astype(np.int64), RATIO_BINS - 1)
    is_filled = np.bincount(place, minlength=RATIO_BINS) > 0
    places, at = np.flatnonzero(is_filled), (np.cumsum(is_filled) - 1)[place]
    w0 = np.where(rows.audited, rows.weights, 0.0)
    w1, ell = rows.weights - w0, rows.log_odds
    columns = (None, ell, w0, w1, w0 * ell, w1 * ell)
    return RatioBins(places, np.column_stack([np.bincount(at, column, len(places)) for column in columns]))


def _mixed_bins(plan: PairPlan, rows: PairBatch) -> MixedBins:
    mine = rows.audited
    ell, score, weights = rows.log_odds[mine], rows.scores[mine, 0], rows.weights[mine]
    by_ratio = np.minimum((expit(ell - plan.prior) * MIXED).astype(np.int64), MIXED - 1)
    place = by_ratio * MIXED + np.minimum((score * MIXED).astype(np.int64), MIXED - 1)
    columns = (weights, weights * ell, weights * score)
    return MixedBins(np.column_stack([np.bincount(place, column, MIXED**2) for column in columns]))


def _number_sums(numbers: Sequence[Floats], centres: Sequence[float]) -> NumberSums:
    sums = np.zeros((len(numbers), 3))
    for target, values, centre in zip(sums, numbers, centres, strict=True):
        known = values[~np.isnan(values)] - centre
        target[:] = len(known), known.sum(), known @ known
    return NumberSums(sums)


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """The second pass, ready for formulas: rows, columns and partitions that are polynomials and sums.

    `joint` are the joint cells of all features, and `joint_codes` the features' codes in each; None where they are too
    many.
    """

    rows: SummedRows
    log_odds: Polynomial
    scores: SummedScores
    outcome: Polynomial
    partitions: tuple[Partition, ...]
    joint: Partition | None
    joint_codes: Integers | None


def summed(plan: PairPlan, found: Powers, constants: Sequence[int]) -> Summed:
    """Return the sums as rows; `constants` are the scores with one value only."""
    joint, codes = None, None
    if found.joint is not None:
        joint = Partition(found.joint.audited, found.joint.reference)
        codes = _split_keys(found.joint.keys, [len(levels.labels) for levels in plan.levels])
        partitions = [
            _of_feature(joint, column, len(one.labels)) for column, one in zip(codes.T, plan.levels, strict=True)
        ]
    else:
        partitions = [Partition(*pair, np.arange(len(pair[0].counts))) for pair in found.tables]
    whole, count = partitions[0].whole, plan.variables
    log_odds = Polynomial.variable(0, count, float(plan.pivot[0]))
    first = plan.first_score
    columns = tuple(Polynomial.variable(first + y, count, float(plan.pivot[1 + y])) for y in range(plan.outcomes))
    combined = None
    if plan.slopes is not None:
        combined = Polynomial.variable(1, count, float(plan.pivot[1:] @ plan.slopes))
    ratio = Polynomial.variable(count - 1, count)
    flat = tuple(first + y for y in constants)
    rows = SummedRows(plan.exponents(), whole, (ratio, log_odds, plan.top), flat)
    scores = SummedScores(columns, plan.slopes, combined)
    return Summed(rows, log_odds, scores, columns[plan.measured - first], tuple(partitions), joint, codes)


def _of_feature(joint: Partition, codes: Integers, size: int) -> Partition:
    audited, reference = joint.audited.joined(codes, size), joint.reference.joined(codes, size)
    return Partition(audited, reference, np.arange(size), joint, codes)


def _split_keys(keys: Integers, sizes: Sequence[int]) -> Integers:
    codes = np.empty((len(keys), len(sizes)), dtype=np.int64)
    for place in range(len(sizes) - 1, -1, -1):
        keys, codes[:, place] = np.divmod(keys, sizes[place])
    return codes
