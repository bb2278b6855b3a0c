"""Rows that are sums already: the same formulas, on polynomials in (ℓ, W, e^ℓ) instead of arrays.

Every influence function of known membership is, in each cell of a feature, a polynomial of the row's log-odds, scores
and density ratio. So the sums of a few powers per cell and group say all: a mean is a combination of Σw·x^e, a
variance one of Σw²·x^e, and no row is needed twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import add
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from tiltlens.estimators.estimate import Integers
from tiltlens.paper.checks import Floats

Exponents = tuple[int, ...]  # of the variables, one entry each


@dataclass(frozen=True, slots=True, eq=False)
class PowerSums:
    """Sums over one group's rows in each cell, added with `+`: counts, Σw·x^e and Σw²·x^e, one column for each e.

    Where every weight is 1, `second` is `first`.
    """

    counts: Integers
    first: Floats
    second: Floats

    def __add__(self, other: PowerSums) -> PowerSums:
        first = self.first + other.first
        is_plain = self.second is self.first and other.second is other.first
        return PowerSums(self.counts + other.counts, first, first if is_plain else self.second + other.second)

    def of(self, cells: Integers) -> PowerSums:
        """Return the sums in some of the cells."""
        first = self.first[cells]
        return PowerSums(self.counts[cells], first, first if self.second is self.first else self.second[cells])

    def joined(self, place: Integers, size: int) -> PowerSums:
        """Return the sums after cell c has become a part of cell `place`[c]."""
        cells = len(place)
        joining = csc_array((np.ones(cells), place, np.arange(cells + 1)), shape=(size, cells))
        counts = np.zeros(size, dtype=np.int64)
        np.add.at(counts, place, self.counts)
        first = np.asarray(joining @ self.first)
        return PowerSums(counts, first, first if self.second is self.first else np.asarray(joining @ self.second))


@dataclass(frozen=True, eq=False)
class Partition:
    """What stands for one code per row: the cells of a table of sums, or unions of them.

    `place` says which code each of the feature's first codes has become. `finer` is the partition whose cells these are
    unions of, and `of_finer` the union that each of them is a part of: functions of two features meet there.
    """

    audited: PowerSums
    reference: PowerSums
    place: Integers | None = None
    finer: Partition | None = None
    of_finer: Integers | None = None

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.audited.counts)

    def joined(self, place: Integers) -> Partition:
        """Return the partition in which cell c is a part of cell `place`[c]."""
        size = int(place.max(initial=-1)) + 1
        moved = None if self.place is None else place[self.place]
        finer = self if self.finer is None else self.finer
        of_finer = place if self.of_finer is None else place[self.of_finer]
        sums = self.audited.joined(place, size), self.reference.joined(place, size)
        return Partition(*sums, moved, finer, of_finer)

    @cached_property
    def whole(self) -> Partition:
        """The partition with one cell."""
        return self if self.size == 1 else self.joined(np.zeros(self.size, dtype=np.intp))


@dataclass(frozen=True, slots=True, eq=False)
class Polynomial:
    """What stands for one number per row: Σ_e coefficient(e, cell)·x^e.

    Coefficients have one entry per cell of `over`, or a single one where `over` is None: the same in every cell.
    """

    terms: Mapping[Exponents, Floats]
    over: Partition | None = None

    __array_ufunc__ = None  # numpy numbers leave the arithmetic to us

    @classmethod
    def variable(cls, place: int, count: int, pivot: float = 0.0) -> Polynomial:
        """Return pivot + x_place, the variable before the pivot was subtracted from it."""
        one = tuple(int(other == place) for other in range(count))
        return cls({(0,) * count: np.array([pivot]), one: np.ones(1)})

    def __add__(self, other: Any) -> Polynomial:
        return self._joined(self._lifted(other), 1.0)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Polynomial:
        return self._joined(self._lifted(other), -1.0)

    def __rsub__(self, other: Any) -> Polynomial:
        return (-self)._joined(self._lifted(other), 1.0)

    def __neg__(self) -> Polynomial:
        return self * -1.0

    def __truediv__(self, number: Any) -> Polynomial:
        return Polynomial({e: c / float(number) for e, c in self.terms.items()}, self.over)

    def __mul__(self, other: Any) -> Polynomial:
        if not isinstance(other, Polynomial):
            return Polynomial({e: c * float(other) for e, c in self.terms.items()}, self.over)
        mine, theirs, over = self._aligned(other)
        terms: dict[Exponents, Floats] = {}
        for one, a in mine.items():
            for two, b in theirs.items():
                both = tuple(map(add, one, two))
                terms[both] = terms[both] + a * b if both in terms else a * b
        return Polynomial(terms, over)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Polynomial:
        result = self
        for _ in range(power - 1):
            result = result * self
        return result

    def _lifted(self, other: Any) -> Polynomial:
        if isinstance(other, Polynomial):
            return other
        nothing = (0,) * len(next(iter(self.terms)))
        return Polynomial({nothing: np.array([float(other)])})

    def _joined(self, other: Polynomial, sign: float) -> Polynomial:
        mine, theirs, over = self._aligned(other)
        terms = dict(mine)
        for e, c in theirs.items():
            terms[e] = terms[e] + sign * c if e in terms else sign * c
        return Polynomial(terms, over)

    def _aligned(
        self, other: Polynomial
    ) -> tuple[Mapping[Exponents, Floats], Mapping[Exponents, Floats], Partition | None]:
        """Return the terms of both over one partition: that of either, or the finer one of both."""
        if self.over is None or other.over is None or self.over is other.over:
            return self.terms, other.terms, other.over if self.over is None else self.over
        finer = self.over if self.over.finer is None else self.over.finer
        return self.on(finer).terms, other.on(finer).terms, finer

    def on(self, finer: Partition) -> Polynomial:
        """Return the same function with a coefficient for each cell of a finer partition."""
        if self.over is None or self.over is finer:
            return self
        if self.over.finer is not finer or self.over.of_finer is None:
            raise NotImplementedError("a function of two features needs their joint cells")
        place = self.over.of_finer
        return Polynomial({e: c if len(c) == 1 else c[place] for e, c in self.terms.items()}, finer)


@dataclass(frozen=True, slots=True, eq=False)
class SummedScores:
    """What stands for (n, m) scores: one polynomial a column.

    `combined` is T = Σ_y slope_y·W_y as a variable of its own, which spares the products of all pairs of columns.
    """

    columns: tuple[Polynomial, ...]
    slopes: Floats | None = None
    combined: Polynomial | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """As of an array; the number of rows is of no use here."""
        return 0, len(self.columns)

    def __matmul__(self, weights: Floats) -> Polynomial:
        if self.combined is not None and self.slopes is not None and np.allclose(weights, self.slopes, 1e-9, 1e-12):
            return self.combined
        total = self.columns[0] * float(weights[0])
        for column, weight in zip(self.columns[1:], weights[1:], strict=True):
            total = total + column * float(weight)
        return total

    def __getitem__(self, key: tuple[slice, int]) -> Polynomial:
        return self.columns[key[1]]

    def with_all_outcomes(self) -> SummedScores:
        """Return the scores with the second outcome of a single column."""
        return self if len(self.columns) > 1 else SummedScores((*self.columns, 1.0 - self.columns[0]))


@dataclass(frozen=True, slots=True, eq=False)
class SummedInfluence:
    """An influence function as centred polynomials of the audited and of the reference rows; `@` is Σ of products."""

    rows: SummedRows
    at_audited: Polynomial
    at_reference: Polynomial

    __array_ufunc__ = None

    def __mul__(self, number: Any) -> SummedInfluence:
        return SummedInfluence(self.rows, self.at_audited * number, self.at_reference * number)

    __rmul__ = __mul__

    def __add__(self, other: SummedInfluence) -> SummedInfluence:
        return SummedInfluence(self.rows, self.at_audited + other.at_audited, self.at_reference + other.at_reference)

    def __matmul__(self, other: SummedInfluence) -> float:
        rows = self.rows
        at_audited = rows.total(self.at_audited * other.at_audited, "audited", 2) / rows.weight0**2
        return at_audited + rows.total(self.at_reference * other.at_reference, "reference", 2) / rows.weight1**2


@dataclass(frozen=True, eq=False)
class SummedRows:
    """The rows of two groups as sums of powers: the `RowSums` of a stream.

    Attributes
    ----------
    exponents
        What was summed, in the order of the columns of the sums.
    undivided
        All rows in one cell.
    exponential_of
        The variable e^(ℓ − top) and the log-odds ℓ it was made from, with top; None where no formula asks for it.
    constants
        Variables with one value only.
    """

    exponents: tuple[Exponents, ...]
    undivided: Partition
    exponential_of: tuple[Polynomial, Polynomial, float] | None = None
    constants: tuple[int, ...] = ()
    _columns: dict[Exponents, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_columns", {e: place for place, e in enumerate(self.exponents)})

    @property
    def _nothing(self) -> Exponents:
        return (0,) * len(self.exponents[0])

    @property
    def weight0(self) -> float:
        """Σ w of the audited group."""
        return float(self.undivided.audited.first[0, self._columns[self._nothing]])

    @property
    def weight1(self) -> float:
        """Σ w of the reference group."""
        return float(self.undivided.reference.first[0, self._columns[self._nothing]])

    @property
    def count0(self) -> int:
        """As of `Rows`."""
        return int(self.undivided.audited.counts[0])

    @property
    def count1(self) -> int:
        """As of `Rows`."""
        return int(self.undivided.reference.counts[0])

    @property
    def square0(self) -> float:
        """As of `Rows`."""
        return float(self.squares0(self.undivided)[0])

    @property
    def square1(self) -> float:
        """As of `Rows`."""
        return float(self.squares1(self.undivided)[0])

    def constant(self, value: float) -> Polynomial:
        """As of `Rows`."""
        return Polynomial({self._nothing: np.array([value])})

    def mean0(self, x: Polynomial) -> float:
        """As of `Rows`."""
        return self.total(x, "audited", 1) / self.weight0

    def mean1(self, x: Polynomial) -> float:
        """As of `Rows`."""
        return self.total(x, "reference", 1) / self.weight1

    def means0(self, scores: SummedScores, of: Polynomial | None = None) -> Floats:
        """As of `Rows`."""
        return np.array([self.mean0(column if of is None else column * of) for column in scores.columns])

    def means1(self, scores: SummedScores) -> Floats:
        """As of `Rows`."""
        return np.array([self.mean1(column) for column in scores.columns])

    def sums0(self, codes: Partition, x: Polynomial | None = None) -> Floats:
        """As of `Rows`."""
        return self._by_cell(codes, x, "audited", 1) / self.weight0

    def sums1(self, codes: Partition, x: Polynomial | None = None) -> Floats:
        """As of `Rows`."""
        return self._by_cell(codes, x, "reference", 1) / self.weight1

    def squares0(self, codes: Partition, x: Polynomial | None = None) -> Floats:
        """As of `Rows`."""
        return self._by_cell(codes, x, "audited", 2) / self.weight0**2

    def squares1(self, codes: Partition, x: Polynomial | None = None) -> Floats:
        """As of `Rows`."""
        return self._by_cell(codes, x, "reference", 2) / self.weight1**2

    def counts(self, codes: Partition, levels: int) -> tuple[Integers, Integers]:
        """As of `Rows`."""
        short = levels - codes.size
        audited, reference = (np.pad(one.counts, (0, max(short, 0))) for one in (codes.audited, codes.reference))
        return audited, reference

    def counts_by_fold(self, fold: Partition, codes: Partition, levels: int) -> Integers:
        """As of `Rows`; all rows are one fold."""
        return self.counts(self.crossed(fold, codes), levels)[0][None, :]

    def lifted(self, table: Floats, codes: Partition) -> Polynomial:
        """As of `Rows`."""
        return Polynomial({self._nothing: np.asarray(table, dtype=np.float64)}, None if codes.size == 1 else codes)

    def recoded(self, codes: Partition, place: Integers) -> Partition:
        """As of `Rows`."""
        return codes.joined(place)

    def crossed(self, codes: Partition, others: Partition) -> Partition:
        """As of `Rows`; of one cell crossed with others."""
        if codes.size > 1:
            raise NotImplementedError("pairs of codes need their joint cells")
        return others

    def is_constant(self, x: Polynomial) -> bool:
        """As of `Rows`, for a variable."""
        used = {place for e in x.terms for place, power in enumerate(e) if power}
        return used <= set(self.constants)

    def exponential(self, x: Polynomial) -> tuple[Polynomial, float]:
        """As of `Rows`, for log-odds up to a constant."""
        if self.exponential_of is None:
            raise NotImplementedError("e^ℓ was not summed")
        ratio, log_odds, top = self.exponential_of
        shift = x - log_odds
        return ratio, top + float(shift.terms[self._nothing][0])

    def influence(self, at_audited: Polynomial, at_reference: Polynomial) -> SummedInfluence:
        """As of `Rows`."""
        return SummedInfluence(self, at_audited - self.mean0(at_audited), at_reference - self.mean1(at_reference))

    def total(self, x: Polynomial, group: str, power: int) -> float:
        """Return Σ w^power·x over a group's rows."""
        cells = x.over if x.over is not None else self.undivided
        return float(self._by_cell(cells, x, group, power).sum())

    def _by_cell(self, codes: Partition, x: Polynomial | None, group: str, power: int) -> Floats:
        """Return Σ w^power·x over a group's rows in each cell."""
        found: PowerSums = getattr(codes, group)
        sums = found.first if power == 1 else found.second
        if x is None:
            return sums[:, self._columns[self._nothing]]
        if x.over is not None and x.over is not codes:
            finer = codes if codes.finer is None else codes.finer
            by_finer = self._by_cell(finer, x.on(finer), group, power)
            if codes.of_finer is None:
                return by_finer
            return np.asarray(np.bincount(codes.of_finer, by_finer, codes.size), dtype=np.float64)
        total = np.zeros(codes.size)
        for e, coefficient in x.terms.items():
            if coefficient.any():
                total += coefficient * sums[:, self._columns[e]]
        return total
