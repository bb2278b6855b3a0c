"""Estimates, the distributions of estimators that give their confidence intervals, and confidence sequences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from html import escape
from typing import Protocol

import numpy as np
from scipy.special import expit, logit, ndtri, stdtrit

from tiltlens._formats import Display
from tiltlens._limits import NOISE, SMALLEST_SHARE
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats

ROUNDED_SQUARE = 1e-16  # rounding noise of squares, which are differences of sums


def without_noise(value: float) -> float:
    """Return the value, 0 where it is rounding noise."""
    return 0.0 if abs(value) < NOISE else value


PLAIN = Display()


@dataclass(frozen=True, slots=True, init=False)
class Estimate(float):
    """A value and its confidence interval; `low` and `high` are None for plug-in values.

    An estimate acts as its value: arithmetic, `sum`, numpy and JSON give plain numbers, without an interval. It prints
    with the unit and the confidence level of its result. Two estimates are equal if all three numbers are.

    Examples
    --------
    >>> gap = Estimate(0.105, 0.095, 0.116)
    >>> f"{gap:.2f}", gap < 0.2, gap.low
    ('0.10', True, 0.095)
    >>> 100 * gap, sum([gap, gap])
    (10.5, 0.21)
    >>> print(gap)
    0.1050 (CI 0.0950 to 0.1160)
    """

    value: float
    low: float | None = None
    high: float | None = None
    _display: Display = field(default=PLAIN, init=False, repr=False)

    def __new__(cls, value: float, low: float | None = None, high: float | None = None) -> Estimate:
        """Return the estimate: a float is made here, not in `__init__`."""
        made = float.__new__(cls, value)
        for name, part in (("value", value), ("low", low), ("high", high), ("_display", PLAIN)):
            object.__setattr__(made, name, part)
        return made

    def displayed(self, display: Display) -> Estimate:
        """Return the estimate with another way to print it."""
        made = Estimate(self.value, self.low, self.high)
        object.__setattr__(made, "_display", display)
        return made

    def __str__(self) -> str:
        return self._display.text(self.value, self.low, self.high)

    def _repr_html_(self) -> str:
        return escape(str(self))

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Estimate):
            return (self.value, self.low, self.high) == (other.value, other.low, other.high)
        return float.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.value)  # as of the number that it equals

    def __lt__(self, other: float) -> bool:
        return NotImplemented if isinstance(other, Estimate) else float.__lt__(self, other)

    def __le__(self, other: float) -> bool:
        return NotImplemented if isinstance(other, Estimate) else float.__le__(self, other)

    def __gt__(self, other: float) -> bool:
        return NotImplemented if isinstance(other, Estimate) else float.__gt__(self, other)

    def __ge__(self, other: float) -> bool:
        return NotImplemented if isinstance(other, Estimate) else float.__ge__(self, other)

    def mapped(self, increasing: Callable[[float], float]) -> Estimate:
        """Return the estimate of an increasing function of the value."""
        low, high = (None if end is None else increasing(end) for end in (self.low, self.high))
        return Estimate(increasing(self.value), low, high)

    def to_dict(self) -> dict[str, float | None]:
        """Return the three numbers as a plain dict."""
        return {"value": self.value, "low": self.low, "high": self.high}


class HasInterval(Protocol):
    """Anything that can put an interval of any confidence around its value."""

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the value with its two-sided interval."""
        ...


def quantile(confidence: float, degrees: float = math.inf) -> float:
    """Return z with P(|N(0, 1)| ≤ z) = `confidence`, or Student's t with these degrees of freedom."""
    if not 0.0 < confidence < 1.0:
        raise DataError(f"`confidence` must lie between 0 and 1, got {confidence!r}.", "0.95 is usual.")
    # Student’s t with infinite degrees is the normal law, but scipy does not return it.
    return float(ndtri(0.5 + confidence / 2) if math.isinf(degrees) else stdtrit(degrees, 0.5 + confidence / 2))


def student_factor(degrees: float | Floats) -> Floats:
    """Return Student's 97.5% quantile over the normal one: the factor that widens standard errors of few people.

    Laws divide it out and use the quantile of their own level; bands and tests keep it.
    """
    return np.asarray(np.where(np.isinf(degrees), 1.0, stdtrit(degrees, 0.975) / ndtri(0.975)))


@dataclass(frozen=True, slots=True)
class Normal:
    """A normal estimator, value ± z·se, kept within [`least`, `most`]; z is Student's t where `degrees` are finite."""

    value: float
    se: float
    least: float = -math.inf
    most: float = math.inf
    degrees: float = math.inf

    def with_extra_se(self, *errors: float) -> Normal:
        """Return the estimator with further, independent standard errors."""
        return replace(self, se=math.hypot(self.se, *errors))

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return value ± z·se."""
        z = quantile(confidence, self.degrees)
        bounds = (self.value, self.value - z * self.se, self.value + z * self.se)
        return Estimate(*(min(max(bound, self.least), self.most) for bound in bounds))


@dataclass(frozen=True, slots=True)
class Proportion:
    """A rate among `size` people, effective ones if weighted or clustered; the interval is Wilson's."""

    value: float
    size: float
    degrees: float = math.inf

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return {p : |p̂ − p| ≤ z·√(p(1 − p)/n)}; z is Student's t where `degrees` are finite."""
        z, n, p = quantile(confidence, self.degrees), self.size, self.value
        middle, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
        ends = ((middle + side * spread) / (1 + z * z / n) for side in (-1, 1))
        return Estimate(p, *(min(max(end, 0.0), 1.0) for end in ends))


@dataclass(frozen=True, slots=True)
class LogitNormal:
    """A probability between 0 and 1 that is normal on the log-odds scale; `se` is that of the probability itself."""

    value: float
    se: float
    degrees: float = math.inf

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the image of log-odds ± z·se/(p(1 − p))."""
        p = self.value
        reach = quantile(confidence, self.degrees) * self.se / (p * (1.0 - p))
        return Estimate(p, float(expit(logit(p) - reach)), float(expit(logit(p) + reach)))


MeanLaw = Normal | Proportion | LogitNormal


@dataclass(frozen=True, slots=True)
class Mapped:
    """An estimator that is normal on another scale: an increasing function of a normal one."""

    normal: Normal
    increasing: Callable[[float], float]

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the image of value ± z·se."""
        return self.normal.estimate(confidence).mapped(self.increasing)


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two estimators, first − second, with an interval made from both of theirs."""

    first: HasInterval
    second: HasInterval
    correlation: float = 0.0

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the `difference` of both estimates."""
        return difference(self.first.estimate(confidence), self.second.estimate(confidence), self.correlation)


def difference(first: Estimate, other: Estimate, correlation: float = 0.0) -> Estimate:
    """Return d = first − other with ends √(a² + b² − 2ρab) away, a and b the distances to the ends of both intervals.

    For two rates with Wilson's intervals that is Newcombe's (1998); for any two estimates see Zou & Donner (2008).
    """
    value = first.value - other.value
    if first.low is None or first.high is None or other.low is None or other.high is None:
        return Estimate(value)
    # Each end moves by the far end of one interval and the near end of the other (section 3, few people).
    below, above = (
        (first.value - first.low, other.high - other.value),
        (first.high - first.value, other.value - other.low),
    )
    reaches = [math.sqrt(max(a * a + b * b - 2.0 * correlation * a * b, 0.0)) for a, b in (below, above)]
    return Estimate(value, value - reaches[0], value + reaches[1])


def _root(square: float) -> float:
    """Return √square, or 0 if it is negative or rounding noise, which a root would magnify from 1e-16 to 1e-8."""
    return math.sqrt(square) if square > ROUNDED_SQUARE else 0.0


@dataclass(frozen=True, slots=True)
class SquareRoot:
    """sign·√θ for a normal estimator of θ ≥ 0 that may come out negative."""

    square: float
    se: float
    sign: int = 1
    degrees: float = math.inf

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return sign·√max(θ ± z·se, 0)."""
        reach = quantile(confidence, self.degrees) * self.se
        # The ends of θ are mapped, not ±z·se of the root: at θ = 0 the root has no derivative.
        value, low, high = (_root(self.square + step) for step in (0.0, -reach, reach))
        return Estimate(value, low, high) if self.sign > 0 else Estimate(-value, -high, -low)


def unseen_mean_se(mean: float, size: float) -> float:
    """Return the unseen standard error of a mean: that if all `size` independent people have the same decision.

    Its 95% interval reaches the exact binomial bound. It is 0 if decisions vary.
    """
    return unseen_rate(size, 0.95) / quantile(0.95) if min(mean, 1 - mean) <= SMALLEST_SHARE else 0.0


def unseen_rate(size: float, confidence: float) -> float:
    """Return 1 − (α/2)^(1/n), the exact binomial upper bound of a rate after none of n rows."""
    return float(1.0 - ((1.0 - confidence) / 2) ** (1.0 / size))


@dataclass(frozen=True, slots=True)
class NoneOf:
    """The ratio 0/p1 after none of n0 audited rows: 0, with the exact binomial upper bound."""

    size: float
    reference_rate: float

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return [0, (1 − (α/2)^(1/n0))/p1]."""
        return Estimate(0.0, 0.0, unseen_rate(self.size, confidence) / self.reference_rate)


@dataclass(frozen=True, slots=True)
class Descent:
    """−weight·|R| for a signed normal estimator R, whose interval may include 0."""

    root: Normal
    weight: float

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the image of R ± z·se."""
        root = self.root.estimate(confidence)
        low, high = root.low or 0.0, root.high or 0.0
        # |R| is smallest inside an interval that includes 0: the rate may then be 0.
        near = 0.0 if low <= 0.0 <= high else min(abs(low), abs(high))
        return Estimate(-self.weight * abs(root.value), -self.weight * max(abs(low), abs(high)), -self.weight * near)


@dataclass(frozen=True, slots=True)
class Square:
    """R² for a normal estimator of R. A norm, R without a sign, is not normal near 0: its lower end is wider."""

    root: float
    se: float
    is_signed: bool
    degrees: float = math.inf

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the image of R ± z·se; for an unsigned R the lower end is R² − 2z·R·se."""
        reach = quantile(confidence, self.degrees) * self.se
        size = abs(self.root)
        # z·se(R²) = 2z·R·se(R): a norm is bounded below by the interval of R² itself (section 3).
        low = max(size - reach, 0.0) ** 2 if self.is_signed else max(size**2 - 2 * reach * size, 0.0)
        return Estimate(size**2, low, (size + reach) ** 2)


@dataclass(frozen=True, slots=True)
class Ratio:
    """ρ = θ/ψ ∈ [0, 1] of two normal estimators; the interval is Fieller's."""

    numerator: float
    denominator: float
    numerator_variance: float
    covariance: float
    denominator_variance: float
    degrees: float = math.inf

    def is_determined(self, confidence: float = 0.95) -> bool:
        """Whether ψ̂ is significantly above 0 and not rounding noise; otherwise Fieller's set is unbounded."""
        least = quantile(confidence, self.degrees) * math.sqrt(self.denominator_variance)
        return self.denominator > max(ROUNDED_SQUARE, least)

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return {ρ : |θ̂ − ρψ̂| ≤ z·se(IF_θ − ρ·IF_ψ)} ∩ [0, 1]; all of [0, 1] where ρ is not determined."""
        is_any = self.denominator > ROUNDED_SQUARE
        value = min(max(self.numerator / self.denominator, 0.0), 1.0) if is_any else 0.0
        is_bounded = self.is_determined(confidence)
        z = quantile(confidence, self.degrees)
        return Estimate(value, *(self._fieller(z) if is_bounded else (0.0, 1.0)))

    def _fieller(self, z: float) -> tuple[float, float]:
        # (32): aρ² − 2bρ + c ≤ 0. a > 0, as ψ̂ is beyond z standard errors; ρ̂ solves it, so that the roots are real.
        a = self.denominator**2 - z**2 * self.denominator_variance
        b = self.numerator * self.denominator - z**2 * self.covariance
        c = self.numerator**2 - z**2 * self.numerator_variance
        root = math.sqrt(max(b * b - a * c, 0.0))
        low, high = ((b - root) / a, (b + root) / a)
        return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


# docs/methods.md, section 20, after Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2024).
def sequence_factor(time: float, confidence: float) -> float:
    """Return √((2(c + 1)/c)·log(√(c + 1)/α)), c = nρ² (45), the half-width in standard errors.

    `time` is n/n₀, with the tightest interval at 1, and ρ² = (−2·log α + log(−2·log α) + 1)/n₀.
    """
    if not 0.0 < confidence < 1.0:
        raise DataError(f"`confidence` must lie between 0 and 1, got {confidence!r}.", "0.95 is usual.")
    # ρ² makes the sequence tightest about n₀ people; at any other number it is valid too.
    log_alpha = math.log1p(-confidence)
    c = time * (-2.0 * log_alpha + math.log(-2.0 * log_alpha) + 1.0)
    return math.sqrt(2.0 * (c + 1.0) / c * (0.5 * math.log1p(c) - log_alpha))


@dataclass(frozen=True, slots=True)
class Sequence:
    """An estimator at one of many looks: value, standard error, n/n₀, and whether it is the logarithm of a ratio."""

    value: float
    se: float
    time: float
    is_log: bool = False

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the value with its interval, which is valid simultaneously for all looks."""
        reach = sequence_factor(self.time, confidence) * self.se
        estimate = Estimate(self.value, self.value - reach, self.value + reach)
        return estimate.mapped(math.exp) if self.is_log else estimate


class Materiality(StrEnum):
    """Position of an interval relative to a threshold: beyond it, within it, beyond 0 at least, or undecided."""

    MATERIAL = "material"
    NOT_MATERIAL = "not material"
    DETECTED = "detected, size unclear"
    INCONCLUSIVE = "inconclusive"


def materiality(low: float | None, high: float | None, threshold: float) -> Materiality | None:
    """Return whether an interval lies beyond ±`threshold`, within it, or neither; None without an interval."""
    if low is None or high is None:
        return None
    if -threshold <= low and high <= threshold:
        return Materiality.NOT_MATERIAL
    if low > threshold or high < -threshold:
        return Materiality.MATERIAL
    return Materiality.DETECTED if low > 0.0 or high < 0.0 else Materiality.INCONCLUSIVE


def side_of(value: float, low: float | None, high: float | None, line: float) -> str:
    """Return "below", "above" or "inconclusive" for an interval; without one, the side of the value."""
    ends = (value if low is None else low, value if high is None else high)
    return "below" if ends[1] < line else "above" if ends[0] > line else "inconclusive"


def is_significant(p_value: float, confidence: float, comparisons: int) -> bool:
    """Return whether one of several tests rejects at the joint level (Šidák)."""
    return bool(p_value < 1.0 - confidence ** (1.0 / comparisons))
