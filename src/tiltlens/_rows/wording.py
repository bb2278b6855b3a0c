"""Units and number formats of outputs, and the user's own words for people and outcomes.

All views and sentences format numbers and words with these measures. There is one for scores, one for decisions, one
for amounts, and one for each error rate that may be audited instead (a metric).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache, partial, reduce
from operator import add
from typing import NamedTuple, TypeVar
from unicodedata import category

import numpy as np

from tiltlens._formats import MINUS, NOTHING, FieldTable, Shown, label, minus, percent, points, size, whole
from tiltlens._sources.arrays import below, quantile_edges
from tiltlens.errors import DataError, nearest_name, quoted
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import GroupMoments

LONGEST = 40  # characters of a word
EXAMPLE = 'for example {"people": "applicants", "favourable": "approved", "unit": "€"}.'


@dataclass(frozen=True, slots=True)
class Wording(FieldTable):
    """Words that sentences and figures use.

    Attributes
    ----------
    people
        Plural noun for the people of the data, such as "applicants".
    favourable
        What happens to a person with the favourable outcome, such as "approved"; "" if not given.
    unit
        Unit of amounts, such as "€" or "days"; "" if not given.
    """

    people: str = "people"
    favourable: str = ""
    unit: str = ""


WORDING = Wording()


def check_wording(given: object, score_type: str) -> Wording:
    """Return the user's words, checked; `favorable` is accepted too."""
    if given is None:
        return WORDING
    if isinstance(given, Wording):
        return given
    if not isinstance(given, Mapping):
        raise DataError(f"`wording` must be a dict of texts, got {quoted(given)}.", EXAMPLE)
    words = {("favourable" if name == "favorable" else name): text for name, text in given.items()}
    keys = [field.name for field in fields(Wording)]
    for name, text in words.items():
        if name not in keys:
            nearest = nearest_name(str(name), keys)
            hint = f"did you mean {nearest!r}? " if nearest else ""
            raise DataError(f"`wording` has no key {quoted(name)}.", f"{hint}its keys are {', '.join(keys)}.")
        if not (isinstance(text, str) and text.strip() == text and text.isprintable() and 0 < len(text) <= LONGEST):
            got = f"{quoted(text)} for {name!r}"
            raise DataError(f"`wording` must have texts of 1 to {LONGEST} printable characters, got {got}.", EXAMPLE)
    _check_applies(words, score_type)
    return Wording(**words)


def _check_applies(words: dict[str, str], score_type: str) -> None:
    """Raise where a word would never be used."""
    is_amount = score_type == "amount"
    if is_amount and "favourable" in words:
        raise DataError(
            f"`wording` has {words['favourable']!r} for 'favourable', which amounts do not have.",
            "leave it out; name the unit of the amounts with 'unit'.",
        )
    if not is_amount and "unit" in words:
        raise DataError(
            f"`wording` has the unit {words['unit']!r}, but the scores are not amounts.",
            "leave it out, or pass score_type='amount'.",
        )


NOT_GIVEN = "not_given_"  # before the column of a condition
REASONS = {
    "missing_score": "without a score",
    "zero_weight": "with weight 0",
    "missing_outcome": "without an observed outcome",
    "other_outcome": "with the other outcome",
    "other_decision": "with the other decision",
    "missing_group": "without a group",
    "too_small_group": "of groups of fewer than 10 people",
    "group_not_audited": "of groups that are not compared",
}


def reason_words(reason: str) -> str:
    """Return words for the rows left out for a reason, such as "without a score"."""
    if reason.startswith(NOT_GIVEN):
        return f"outside the condition on {label(reason.removeprefix(NOT_GIVEN))}"
    return REASONS.get(reason, reason.replace("_", " "))


def exclusion_words(sizes: Mapping[str, int | None]) -> str:
    """Return the numbers of rows left out and the reasons in words, without the numbers that are suppressed."""
    parts = ((size, reason_words(reason)) for reason, size in sizes.items() if size != 0)
    return ", ".join(f"{'rows' if size is None else f'{size:,}'} {words}" for size, words in parts)


AMOUNT_BINS = 10  # quantile bins of the pooled amounts, which serve as outcome classes
AMOUNT_ROUNDING = 4 * 2.0**-52  # of an amount: four steps of the last digit that a float has
CENTRED = 1024.0  # in scales: means nearer to 0 are not centred, as squares keep ten digits
Number = TypeVar("Number", float, Floats)


@dataclass(frozen=True, slots=True)
class Unit:
    """W = centre + scale·w: an output W, and the number w, of order 1, that estimators use.

    `scale` is a power of two, so that nothing is rounded; probabilities are used as they are. `edges` are the pooled
    deciles of amounts, and None for probabilities: bin k is (e_k, e_{k+1}].
    """

    centre: float = 0.0
    scale: float = 1.0
    edges: tuple[float, ...] | None = None

    @property
    def is_amount(self) -> bool:
        """Whether outputs are amounts."""
        return self.edges is not None

    def seen(self, amounts: Floats) -> Floats:
        """Return w for amounts W."""
        return (amounts - self.centre) / self.scale

    def difference(self, seen: float) -> float:
        """Convert a difference of w to one of W."""
        return self.scale * seen

    def level(self, seen: Number) -> Number:
        """Return W for w."""
        return self.centre + self.scale * seen

    def is_rounding(self, mean: float, spread: float) -> bool:
        """Whether a spread of w around this mean is no more than the rounding of the amounts."""
        return self.scale * spread <= AMOUNT_ROUNDING * abs(self.level(mean))

    def channel(self, amounts: Floats) -> Floats:
        """Return the pooled decile as indicators: (n, K) of 0 and 1, or (n,) if there are at most two bins."""
        bin_of = below(np.array(self.edges or ()), amounts)
        bins = len(self.edges or ()) + 1
        if bins <= 2:
            return bin_of.astype(np.float64)
        return np.asarray(bin_of[:, None] == np.arange(bins), dtype=np.float64)


PROBABILITY = Unit()


def unit_of(groups: Iterable[GroupMoments], amounts: Floats, weights: Floats | None) -> Unit:
    """Return the unit of the amounts of some groups, from their moments; deciles are those of a sample's rows.

    The scale is the power of two nearest to the standard deviation. The centre is 0 unless the mean is so far away
    that squares would lose digits.
    """
    pooled = reduce(add, groups)
    mean, spread = float(pooled.mean[0]), math.sqrt(max(float(pooled.covariance[0, 0]), 0.0))
    size = abs(mean) if PROBABILITY.is_rounding(mean, spread) else spread
    scale = 2.0 ** round(math.log2(size)) if size > 0.0 else 1.0
    step = CENTRED * scale
    edges = quantile_edges(amounts, weights, AMOUNT_BINS)
    return Unit(step * round(mean / step), scale, tuple(edges.tolist()))


class ScoreType(StrEnum):
    """The type of the model's outputs."""

    PROBABILITY = "probability"
    DECISION = "decision"
    AMOUNT = "amount"

    __repr__ = str.__repr__


@dataclass(frozen=True, slots=True)
class Measure:
    """Names, units and number formats of outputs."""

    factor: float  # the unit of a difference, as axes have it
    # The unit after a difference, "" if a sign such as € precedes it; the unit in full
    unit: str
    long_unit: str
    # The output for one person; the quantity of the gap, and its mean; the mean that is shown for a group, and its name
    # if outputs are not decisions
    each: str
    output: str
    mean: str
    rate: str
    predicted: str
    # How an axis of levels, and one of differences times `factor`, writes its numbers
    axis: str
    difference_axis: str
    # Formats of a signed difference, of one without its sign, of a mean, and of the shortfall of a whole group
    difference: Callable[..., str]
    size: Callable[..., str]
    level: Shown
    total: Shown
    affected_words: str  # the meaning of that total
    among: str = ""  # the people to whom it is limited, such as those with the outcome; "" for all
    is_amount: bool = False
    # The word for people; what happens to those with the favourable outcome, "" if not given
    people: str = "people"
    favoured: str = ""

    def with_unit(self, text: str) -> str:
        """Return a written difference, or several, with the unit: "12.9 points", "€1,383"."""
        return f"{text} {self.unit}".rstrip()

    def headed(self, text: str) -> str:
        """Return a heading with the unit of the numbers below it."""
        return f"{text} ({self.unit})" if self.unit else text

    def threshold(self, materiality: float) -> str:
        """Return a materiality threshold as it was asked for: in points, or in standard deviations."""
        if self.is_amount:
            return f"{materiality:g} standard deviations of the amount"
        return self.with_unit(self.size(materiality))


LARGE = ((1e12, 1e12, "tn"), (1e9, 1e9, "bn"), (1e7, 1e6, "M"))  # smallest value, unit, suffix


def amount(value: float | None, *beside: float | None) -> str:
    """Return an amount with three significant digits; thousands in full, millions with four: 12.35M, 1.235bn.

    Next to larger amounts in `beside`, it has as few decimals as these.
    """
    if value is None:
        return NOTHING
    return minus(_digits(value, *(other for other in beside if other is not None)))


def amount_size(value: float, *beside: float) -> str:
    """Return an amount without its sign."""
    return _digits(abs(value), *beside)


def _digits(value: float, *beside: float) -> str:
    if value == 0.0 or not math.isfinite(value):
        return "0" if value == 0.0 else f"{value}"
    for least, unit, name in LARGE:
        if abs(value) >= least:
            scaled = float(f"{value / unit:.4g}")
            return f"{scaled:,.{max(3 - math.floor(math.log10(abs(scaled))), 0)}f}{name}"
    rounded = float(f"{value:.3g}") if abs(value) < 1e3 else float(f"{value:.4g}") if abs(value) >= 1e6 else value
    largest = max(abs(float(f"{other:.3g}")) for other in (rounded, *filter(math.isfinite, beside)))
    decimals = 2 - math.floor(math.log10(largest))
    return f"{rounded:z,.{max(decimals, 0)}f}" if decimals <= 6 else f"{rounded:.3g}"


POINTS = Measure(
    factor=100.0,
    unit="points",
    long_unit="percentage points",
    each="score",
    output="score",
    mean="mean score",
    rate="favourable rate",
    predicted="predicted favourable rate",
    axis=".0%",
    difference_axis=".1~f",
    difference=points,
    size=size,
    level=percent,
    total=whole,
    affected_words="favourable outcomes, as scored, that the audited group would gain at the reference's rate",
)
UNITS = Measure(
    factor=1.0,
    unit="units",
    long_unit="units",
    each="amount",
    output="amount",
    mean="mean amount",
    rate="mean amount",
    predicted="mean amount",
    axis=",.6~r",
    difference_axis=",.6~r",
    difference=amount,
    size=amount_size,
    level=amount,
    total=amount,
    affected_words="total by which the audited group is worse off than at the reference's mean",
    is_amount=True,
)


DECISIONS = replace(
    POINTS,
    each="decision",
    output="decision rate",
    mean="decision rate",
    affected_words="favourable decisions that the audited group would gain at the reference's rate",
)


class ErrorMetric(NamedTuple):
    """The name of an error rate, whose rate it is, and the share of right decisions, if that is their rate."""

    name: str
    people: str
    right: str = ""


METRICS = {
    "fpr": ErrorMetric("false positive rate", "people without the outcome"),
    "fnr": ErrorMetric("false negative rate", "people with the outcome"),
    "fdr": ErrorMetric("false discovery rate", "people given decision 1", "positive predictive value"),
    "for": ErrorMetric("false omission rate", "people given decision 0", "negative predictive value"),
}


def _of_errors(measure: Measure, metric: ErrorMetric) -> Measure:
    among, rate = f" among {metric.people}", metric.right or measure.rate
    words = f"{measure.affected_words}{among}"
    return replace(measure, output=metric.name, mean=metric.name, rate=rate, among=among, affected_words=words)


MEASURES: dict[tuple[str, str | None], Measure] = {
    (ScoreType.PROBABILITY, None): POINTS,
    (ScoreType.DECISION, None): DECISIONS,
    (ScoreType.AMOUNT, None): UNITS,
}
MEASURES |= {
    (score_type, key): _of_errors(MEASURES[score_type, None], metric)
    for score_type in (ScoreType.PROBABILITY, ScoreType.DECISION)
    for key, metric in METRICS.items()
}


@cache
def measure_for(score_type: str, metric: str | None = None, wording: Wording = WORDING) -> Measure:
    """Return the measure of outputs, in the user's words."""
    measure = MEASURES[ScoreType(score_type), metric]
    if wording == WORDING:
        return measure
    people, favoured = wording.people, wording.favourable
    in_words = replace(
        measure,
        people=people,
        favoured=favoured,
        among=measure.among.replace("people", people),
        affected_words=measure.affected_words.replace("people", people),
    )
    if favoured:
        share, scored = f"share {favoured}", ""
        if measure.each == "score":  # nobody has been approved yet
            share, scored = f"predicted {share}", ", as scored,"
        missing = f"additional {people} {favoured}{scored} at the reference's rate{in_words.among}"
        in_words = replace(in_words, rate=share, predicted=f"predicted share {favoured}", affected_words=missing)
    return _in_unit(in_words, wording.unit) if wording.unit else in_words


def _in_unit(measure: Measure, unit: str) -> Measure:
    """Return a measure of amounts in a unit: before the number if it is a currency sign, else after it."""
    if len(unit) == 1 and category(unit) == "Sc":
        writers = (measure.difference, measure.size, measure.level, measure.total)
        difference, size, level, total = (partial(_signed, write, unit) for write in writers)
        return replace(measure, unit="", long_unit=unit, difference=difference, size=size, level=level, total=total)
    level, total = (partial(_followed, write, unit) for write in (measure.level, measure.total))
    return replace(measure, unit=unit, long_unit=unit, level=level, total=total)


def _signed(write: Callable[..., str], sign: str, value: float | None, *beside: float) -> str:
    """Return a number with a currency sign, placed after a minus."""
    text = write(value, *beside)
    if value is None:
        return text
    return f"{MINUS}{sign}{text[1:]}" if text.startswith(MINUS) else f"{sign}{text}"


def _followed(write: Shown, unit: str, value: float | None) -> str:
    return write(value) if value is None else f"{write(value)} {unit}"


def score_type_of(is_decisions: bool, is_amount: bool) -> ScoreType:
    """Return the type of the scores."""
    if is_amount:
        return ScoreType.AMOUNT
    return ScoreType.DECISION if is_decisions else ScoreType.PROBABILITY
