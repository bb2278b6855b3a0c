"""Values with their influence functions, and the intervals made of them.

An estimator is a value and one number per row, its influence function, centred within each group. Everything an
interval needs is a sum over those numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from tiltlens.errors import DataError, WeightsError
from tiltlens.paper.checks import Floats

Booleans = NDArray[np.bool_]
Integers = NDArray[np.integer[Any]]

# Formulas are written once, for rows in memory and for rows that are summed already (theory/summed.py): what they
# handle is one number or one code per row, an array of them or a polynomial and a partition that stand for them.
Column = Any
Codes = Any

DETERMINED = 3.0  # a ratio is reported when its denominator is this many standard errors from 0


NOISE = 1e-12  # what is smaller, of probabilities and log-odds, is rounding
ROUNDED_SQUARE = 1e-16  # and of their squares, which are differences of sums


def without_noise(value: float) -> float:
    """Return the value, 0 where it is rounding noise."""
    return value if abs(value) >= NOISE else 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its confidence interval; `low` and `high` are None where no interval was asked for."""

    value: float
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return the three numbers as a plain dict."""
        return {"value": self.value, "low": self.low, "high": self.high}


class Measured(Protocol):
    """Anything that can put an interval of any confidence around its value."""

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the value with its two-sided interval."""
        ...


def quantile(confidence: float) -> float:
    """Return z with P(|N(0, 1)| ≤ z) = `confidence`."""
    if not 0.0 < confidence < 1.0:
        raise DataError(f"`confidence` must lie between 0 and 1, got {confidence!r}.", "0.95 is usual.")
    return float(ndtri(0.5 + confidence / 2))


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal estimator, value ± z·se, kept within [`least`, `most`]."""

    value: float
    se: float
    least: float = -math.inf
    most: float = math.inf

    def widened(self, *errors: float) -> Normal:
        """Return the estimator with further, independent standard errors."""
        return replace(self, se=math.hypot(self.se, *errors))

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return value ± z·se."""
        z = quantile(confidence)
        bounds = (self.value, self.value - z * self.se, self.value + z * self.se)
        return Estimate(*(min(max(bound, self.least), self.most) for bound in bounds))


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A positive estimator that is normal on the log scale."""

    log_value: float
    se: float

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return exp(log value ± z·se)."""
        reach = quantile(confidence) * self.se
        return Estimate(*(math.exp(self.log_value + step) for step in (0.0, -reach, reach)))


def _root(square: float) -> float:
    """Return √square, 0 where it is negative or the rounding of larger sums: a root makes 1e-8 of 1e-16."""
    return math.sqrt(square) if square > ROUNDED_SQUARE else 0.0


@dataclass(frozen=True, slots=True)
class SquareRoot:
    """sign·√θ for a normal estimator of θ ≥ 0 that may come out negative."""

    square: float
    se: float
    sign: int = 1

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return sign·√max(θ ± z·se, 0)."""
        reach = quantile(confidence) * self.se
        value, low, high = (_root(self.square + step) for step in (0.0, -reach, reach))
        return Estimate(value, low, high) if self.sign > 0 else Estimate(-value, -high, -low)


@dataclass(frozen=True, slots=True)
class Square:
    """R² for a normal estimator of R. A norm, R without a sign, is not normal near 0: its lower end is wider."""

    root: float
    se: float
    is_signed: bool

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the image of R ± z·se; for an unsigned R the lower end is R² − 2z·R·se."""
        reach = quantile(confidence) * self.se
        size = abs(self.root)
        low = max(size - reach, 0.0) ** 2 if self.is_signed else max(size**2 - 2 * reach * size, 0.0)
        return Estimate(size**2, low, (size + reach) ** 2)


@dataclass(frozen=True, slots=True)
class Ratio:
    """ρ = θ/ψ ∈ [0, 1] of two normal estimators, or its complement 1 − θ/ψ; the interval is Fieller's."""

    numerator: float
    denominator: float
    numerator_variance: float
    covariance: float
    denominator_variance: float
    is_complement: bool = False

    @property
    def is_determined(self) -> bool:
        """Whether ψ̂ is no rounding, and at least three standard errors above 0."""
        least = DETERMINED * math.sqrt(self.denominator_variance)
        return self.denominator > ROUNDED_SQUARE and self.denominator >= least

    def widened(self, factor: float) -> Ratio:
        """Return the ratio with standard errors that many times larger."""
        names = ("numerator_variance", "covariance", "denominator_variance")
        return replace(self, **{name: factor**2 * getattr(self, name) for name in names})

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return {ρ : |θ̂ − ρψ̂| ≤ z·se(IF_θ − ρ·IF_ψ)} ∩ [0, 1]; all of [0, 1] where ρ is not determined."""
        is_any = self.denominator > ROUNDED_SQUARE
        value = min(max(self.numerator / self.denominator, 0.0), 1.0) if is_any else 0.0
        low, high = self._fieller(quantile(confidence)) if self.is_determined else (0.0, 1.0)
        if self.is_complement:
            return Estimate(1.0 - value, 1.0 - high, 1.0 - low)
        return Estimate(value, low, high)

    def _fieller(self, z: float) -> tuple[float, float]:
        a = self.denominator**2 - z**2 * self.denominator_variance
        b = self.numerator * self.denominator - z**2 * self.covariance
        c = self.numerator**2 - z**2 * self.numerator_variance
        if a <= 0.0:  # reached only by confidences beyond DETERMINED standard errors
            return 0.0, 1.0
        root = math.sqrt(max(b * b - a * c, 0.0))
        low, high = ((b - root) / a, (b + root) / a)
        return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows are audited, and each row's weight divided by the sum of its own group's weights.

    E0[x] = audited_share·x and E1[x] = reference_share·x, so every mean is one dot product.
    """

    audited: Booleans
    weights: Floats
    audited_share: Floats
    reference_share: Floats

    @classmethod
    def of(cls, audited: ArrayLike, weights: ArrayLike | None = None) -> Rows:
        """Return the rows of both groups; `weights` are sampling weights."""
        mask = check_audited(audited)
        weight = np.ones(mask.size) if weights is None else check_weights(weights, mask)
        at_audited = np.where(mask, weight, 0.0)
        at_reference = weight - at_audited
        return cls(mask, weight, at_audited / at_audited.sum(), at_reference / at_reference.sum())

    @property
    def weight0(self) -> float:
        """Σ w of the audited group."""
        return float(self.weights[self.audited].sum())

    @property
    def weight1(self) -> float:
        """Σ w of the reference group."""
        return float(self.weights[~self.audited].sum())

    @property
    def count0(self) -> int:
        """Number of audited rows."""
        return int(self.audited.sum())

    @property
    def count1(self) -> int:
        """Number of reference rows."""
        return self.audited.size - self.count0

    @property
    def square0(self) -> float:
        """Σ of squared audited shares: one over the audited people that the weights are worth (Kish)."""
        return float(self.audited_share @ self.audited_share)

    @property
    def square1(self) -> float:
        """Σ of squared reference shares."""
        return float(self.reference_share @ self.reference_share)

    @property
    def undivided(self) -> Integers:
        """The code 0 for every row."""
        return np.zeros(self.audited.size, dtype=np.intp)

    def constant(self, value: float) -> Floats:
        """Return the column with the same value in every row."""
        return np.full(self.audited.size, value)

    def mean0(self, x: Floats) -> float:
        """Return E0[x], the weighted mean over the audited rows."""
        return float(np.dot(self.audited_share, x))

    def mean1(self, x: Floats) -> float:
        """Return E1[x], the weighted mean over the reference rows."""
        return float(np.dot(self.reference_share, x))

    def means0(self, scores: Floats, of: Floats | None = None) -> Floats:
        """Return E0[W_y], or E0[`of`·W_y], of each column of scores."""
        return np.asarray((self.audited_share if of is None else self.audited_share * of) @ scores)

    def means1(self, scores: Floats) -> Floats:
        """Return E1[W_y] of each column of scores."""
        return np.asarray(self.reference_share @ scores)

    def sums0(self, codes: Integers, x: Floats | None = None) -> Floats:
        """Return Σ w·x over the audited rows of each code, w the row's share of its group; x is 1 by default."""
        return sums_by(codes, self.audited_share if x is None else self.audited_share * x)

    def sums1(self, codes: Integers, x: Floats | None = None) -> Floats:
        """Return Σ w·x over the reference rows of each code."""
        return sums_by(codes, self.reference_share if x is None else self.reference_share * x)

    def squares0(self, codes: Integers, x: Floats | None = None) -> Floats:
        """Return Σ w²·x over the audited rows of each code."""
        return sums_by(codes, self.audited_share**2 if x is None else self.audited_share**2 * x)

    def squares1(self, codes: Integers, x: Floats | None = None) -> Floats:
        """Return Σ w²·x over the reference rows of each code."""
        return sums_by(codes, self.reference_share**2 if x is None else self.reference_share**2 * x)

    def counts(self, codes: Integers, levels: int) -> tuple[Integers, Integers]:
        """Return how many audited and how many reference rows have each code."""
        audited, reference = (np.bincount(codes[who], minlength=levels) for who in (self.audited, ~self.audited))
        return audited, reference

    def counts_by_fold(self, fold: Integers, codes: Integers, levels: int) -> Integers:
        """Return how many audited rows of each fold have each code, (folds, levels)."""
        folds = int(fold.max(initial=0)) + 1
        cell = fold[self.audited] * levels + codes[self.audited]
        return np.bincount(cell, minlength=folds * levels).reshape(folds, levels)

    def lifted(self, table: Floats, codes: Integers) -> Floats:
        """Return each row's entry in a table with one value per code."""
        return np.asarray(table[codes])

    def recoded(self, codes: Integers, place: Integers) -> Integers:
        """Return the codes after each was given a new place."""
        return np.asarray(place[codes])

    def crossed(self, codes: Integers, others: Integers) -> Integers:
        """Return one code for each pair of codes."""
        return np.asarray(codes * (int(others.max()) + 1) + others)

    def is_constant(self, x: Floats) -> bool:
        """Return whether the column has one value only."""
        return bool(np.ptp(x) == 0)

    def exponential(self, x: Floats) -> tuple[Floats, float]:
        """Return e^(x − top) and top, the largest x."""
        top = float(x.max())
        return np.exp(x - top), top

    def influence(self, at_audited: Floats, at_reference: Floats) -> Floats:
        """Return w·IF/Σw of each row, IF = [S=0]/q·(u − E0[u]) + [S=1]/(1−q)·(v − E1[v])."""
        influence = self.audited_share * (at_audited - self.mean0(at_audited))
        influence += self.reference_share * (at_reference - self.mean1(at_reference))
        return np.asarray(influence)


class RowSums(Protocol):
    """What the formulas ask of the rows of two groups: sums, of columns that may be arrays or polynomials.

    Each member is documented where rows are in memory, in `Rows`.
    """

    @property
    def weight0(self) -> float: ...
    @property
    def weight1(self) -> float: ...
    @property
    def count0(self) -> int: ...
    @property
    def count1(self) -> int: ...
    @property
    def square0(self) -> float: ...
    @property
    def square1(self) -> float: ...
    @property
    def undivided(self) -> Codes: ...
    def constant(self, value: float) -> Column: ...
    def mean0(self, x: Column) -> float: ...
    def mean1(self, x: Column) -> float: ...
    def means0(self, scores: Column, of: Column | None = None) -> Floats: ...
    def means1(self, scores: Column) -> Floats: ...
    def sums0(self, codes: Codes, x: Column | None = None) -> Floats: ...
    def sums1(self, codes: Codes, x: Column | None = None) -> Floats: ...
    def squares0(self, codes: Codes, x: Column | None = None) -> Floats: ...
    def squares1(self, codes: Codes, x: Column | None = None) -> Floats: ...
    def counts(self, codes: Codes, levels: int) -> tuple[Integers, Integers]: ...
    def counts_by_fold(self, fold: Codes, codes: Codes, levels: int) -> Integers: ...
    def lifted(self, table: Floats, codes: Codes) -> Column: ...
    def recoded(self, codes: Codes, place: Integers) -> Codes: ...
    def crossed(self, codes: Codes, others: Codes) -> Codes: ...
    def is_constant(self, x: Column) -> bool: ...
    def exponential(self, x: Column) -> tuple[Column, float]: ...
    def influence(self, at_audited: Column, at_reference: Column) -> Column: ...


def sums_by(codes: Integers, values: Floats) -> Floats:
    """Return Σ values for each code."""
    return np.asarray(np.bincount(codes, values), dtype=np.float64)


def check_audited(audited: ArrayLike) -> Booleans:
    """Return `audited` as a boolean array in which both groups occur."""
    mask = np.asarray(audited)
    if mask.ndim != 1 or mask.dtype != np.bool_:
        raise DataError(
            f"`audited` must be a one-dimensional boolean array, got {mask.dtype} of shape {mask.shape}.",
            "compare the group column with the audited value.",
        )
    count = int(mask.sum())
    if count < 2 or mask.size - count < 2:
        raise DataError(
            f"`audited` must mark two rows or more of each group, got {count} of {mask.size}.",
            "check the group column, and how missing groups are coded.",
        )
    return mask


def check_weights(weights: ArrayLike, audited: Booleans) -> Floats:
    """Return the row weights as floats: finite, none negative, some positive in each group."""
    weight = np.asarray(weights, dtype=np.float64)
    if weight.shape != audited.shape:
        raise WeightsError(f"`weights` must have shape {audited.shape}, one per row, got {weight.shape}.")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise WeightsError("`weights` must be finite and not negative.", "leave out rows of unknown weight.")
    if not weight[audited].any() or not weight[~audited].any():
        raise WeightsError("`weights` must be positive somewhere in each group, got zeros only.")
    return weight


@dataclass(frozen=True, slots=True, eq=False)
class StackedInfluence:
    """The influence of a mean of estimators: that of each, and how far each lies from the mean; `@` is a covariance."""

    parts: tuple[Column, ...]
    between: Floats

    __array_ufunc__ = None  # numpy numbers leave the arithmetic to us

    def __mul__(self, number: float) -> StackedInfluence:
        return StackedInfluence(tuple(part * number for part in self.parts), self.between * number)

    __rmul__ = __mul__

    def __add__(self, other: StackedInfluence) -> StackedInfluence:
        parts = zip(self.parts, other.parts, strict=True)
        return StackedInfluence(tuple(one + two for one, two in parts), self.between + other.between)

    def __matmul__(self, other: StackedInfluence) -> float:
        within = sum(float(one @ two) for one, two in zip(self.parts, other.parts, strict=True))
        return (within + 2.0 * float(self.between @ other.between)) / len(self.parts)


@dataclass(frozen=True, slots=True)
class Functional:
    """An estimator: its value and each row's contribution w·IF/Σw to its error."""

    value: float
    influence: Column

    @classmethod
    def of(cls, rows: RowSums, value: float, at_audited: Column, at_reference: Column) -> Functional:
        """Return the estimator with IF = [S=0]/q·(u − E0[u]) + [S=1]/(1−q)·(v − E1[v])."""
        return cls(value, rows.influence(at_audited, at_reference))

    @property
    def variance(self) -> float:
        """Return Σ(w·IF)²/(Σw)²."""
        return float(self.influence @ self.influence)

    @property
    def se(self) -> float:
        """Return √Σ(w·IF)²/Σw, larger where few rows hold most of it."""
        return tail_factor(self.influence) * math.sqrt(self.variance)

    def normal(self, least: float = -math.inf, most: float = math.inf) -> Normal:
        """Return the value and its standard error."""
        return Normal(self.value, self.se, least, most)

    def square_root(self, sign: int = 1) -> SquareRoot:
        """Return sign·√value as something to measure."""
        return SquareRoot(self.value, self.se, sign)

    def over(self, denominator: Functional, is_complement: bool = False) -> Ratio:
        """Return value/`denominator`, or 1 − value/`denominator`; see `ratio_tail` for heavy tails."""
        return Ratio(
            self.value,
            denominator.value,
            self.variance,
            float(self.influence @ denominator.influence),
            denominator.variance,
            is_complement,
        )


def ratio_tail(numerator: Functional, denominator: Functional) -> float:
    """Return the `tail_factor` of θ − ρψ, at ρ = θ/ψ."""
    ratio = numerator.value / denominator.value if denominator.value > 0.0 else 0.0
    return tail_factor(combined(0.0, [(1.0, numerator), (-ratio, denominator)]).influence)


def combined(value: float, parts: Sequence[tuple[float, Functional]]) -> Functional:
    """Return the estimator `value` = F(θ1, θ2, …) given (∂F/∂θi, θi): the delta method."""
    influence = parts[0][0] * parts[0][1].influence
    for slope, part in parts[1:]:
        influence = influence + slope * part.influence
    return Functional(value, influence)


def covariances(parts: Sequence[Functional]) -> Floats:
    """Return the covariance matrix of several estimators."""
    influences = [part.influence for part in parts]
    upper = {(i, j): a @ b for i, a in enumerate(influences) for j, b in enumerate(influences) if i <= j}
    return np.array([[upper[min(i, j), max(i, j)] for j in range(len(parts))] for i in range(len(parts))])


def averaged(parts: Sequence[Functional]) -> Functional:
    """Return the mean of several estimators of the same quantity, such as the pairings of a cross-fit.

    Its variance is the mean of their variances plus twice the variance between them: the rows are the same, but the
    models behind them are not. With four independent parts, a pairing's remainder is the mean of four products of
    the errors of two of them; the three pairings' mean then has twice the variance that is seen between them.
    """
    if len(parts) == 1:
        return parts[0]
    values = np.array([part.value for part in parts])
    influence = StackedInfluence(tuple(part.influence for part in parts), values - values.mean())
    return Functional(float(values.mean()), influence)


FEWEST_DEGREES = 4.0  # of freedom that a standard error is taken to have


def tail_factor(influence: Column) -> float:
    """Return √(ν/(ν−2)), the spread of Student's t, for an estimator of a fitted model; 1 for any other.

    ν are the degrees of freedom of its variance, by Satterthwaite: of Σc² over rows, 2/(Σc⁴/(Σc²)² − 1/n), few where
    few rows count for much; and of the variance between k pairings, k − 1.
    """
    if not isinstance(influence, StackedInfluence):
        return 1.0
    total = influence @ influence
    if total <= 0.0:
        return 1.0
    between = 2.0 * float(influence.between @ influence.between) / len(influence.parts)
    noise = 2.0 / (len(influence.between) - 1) * (between / total) ** 2
    if isinstance(influence.parts[0], np.ndarray):
        squares = np.mean(influence.parts, axis=0) ** 2
        noise += max(float(squares @ squares) - float(squares.sum()) ** 2 / squares.size, 0.0) / total**2
    degrees = max(2.0 / max(noise, 1e-300), FEWEST_DEGREES)
    return math.sqrt(degrees / (degrees - 2.0))
