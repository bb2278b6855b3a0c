"""What outputs are measured in, and how they are written: points of a probability, or units of an amount.

Every view, and every sentence that a result holds, takes its numbers and its words from here: of scores, of decisions,
of an error rate that was audited instead (a metric), or of amounts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tiltlens.formats import NOTHING, Shown, minus, percent, points, size, whole


class ScoreType(StrEnum):
    """What the model gives each person."""

    PROBABILITY = "probability"
    DECISION = "decision"
    AMOUNT = "amount"

    __repr__ = str.__repr__


@dataclass(frozen=True, slots=True)
class Measure:
    """How numbers of outputs are written.

    Attributes
    ----------
    factor
        Of a difference, as axes have it.
    unit, long_unit, abbreviation
        What differences are counted in; in full, and where there is little room.
    each, output, mean, rate, predicted
        What the model gives a person; what the gap is of, and its mean; the mean that is shown for a group, and the
        same where it is not a decision.
    among
        Of whom alone that is: nothing, or those with or without the outcome.
    axis, difference_axis
        How an axis of levels, and one of differences times `factor`, writes its numbers.
    difference, size, level, total
        A signed difference, one without its sign, a mean, and what is missing over a whole group, as texts.
    affected_words
        What that total means.
    """

    factor: float
    unit: str
    long_unit: str
    abbreviation: str
    each: str
    output: str
    mean: str
    rate: str
    predicted: str
    axis: str
    difference_axis: str
    difference: Shown
    size: Callable[[float], str]
    level: Shown
    total: Shown
    affected_words: str
    among: str = ""

    def counted(self, c: dict[str, Any], settings: dict[str, Any]) -> str:
        """Return the smallest difference that counts in a comparison, in words."""
        text = f"{self.size(c['scale']['materiality'])} {self.unit}"
        return f"{text} ({asked(self, settings)})" if self is UNITS else text


LARGE = ((1e12, 1e12, "tn"), (1e9, 1e9, "bn"), (1e7, 1e6, "M"))  # from which on, in which unit, called what


def amount(value: float | None) -> str:
    """Return an amount with three digits that count; of thousands all, of millions four: 12.35M, 1.235bn."""
    return NOTHING if value is None else minus(_digits(value))


def signed_amount(value: float | None) -> str:
    """Return an amount with its sign."""
    if value is None:
        return NOTHING
    text = _digits(value)
    return minus(text if text.startswith("-") else f"+{text}")


def amount_size(value: float) -> str:
    """Return an amount without its sign."""
    return _digits(abs(value))


def _digits(value: float) -> str:
    if value == 0.0 or not math.isfinite(value):
        return "0" if value == 0.0 else f"{value}"
    for least, unit, name in LARGE:
        if abs(value) >= least:
            scaled = float(f"{value / unit:.4g}")
            return f"{scaled:,.{max(3 - math.floor(math.log10(abs(scaled))), 0)}f}{name}"
    rounded = float(f"{value:.3g}") if abs(value) < 1e3 else float(f"{value:.4g}") if abs(value) >= 1e6 else value
    decimals = 2 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(decimals, 0)}f}" if decimals <= 6 else f"{rounded:.3g}"


POINTS = Measure(
    factor=100.0,
    unit="points",
    long_unit="percentage points",
    abbreviation="pt",
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
    affected_words="favourable outcomes missing compared with the reference's rate",
)
UNITS = Measure(
    factor=1.0,
    unit="units",
    long_unit="units of the amount",
    abbreviation="",
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
    affected_words="total amount missing compared with the reference's mean",
)


DECISIONS = replace(POINTS, each="decision", output="decision rate", mean="decision rate")
METRICS = {
    "fpr": "false positive rate",
    "fnr": "false negative rate",
    "fdr": "false discovery rate",
    "for": "false omission rate",
}
WHOSE = {
    "fpr": "people without the outcome",
    "fnr": "people with the outcome",
    "fdr": "people given decision 1",
    "for": "people given decision 0",
}
RIGHT = {"fdr": "positive predictive value", "for": "negative predictive value"}  # how often they are right


def _of_errors(measure: Measure, metric: str) -> Measure:
    name, among = METRICS[metric], f", of {WHOSE[metric]}"
    rate, words = RIGHT.get(metric, measure.rate), f"{measure.affected_words}{among}"
    return replace(measure, output=name, mean=name, rate=rate, among=among, affected_words=words)


MEASURES: dict[tuple[str, str | None], Measure] = {
    (ScoreType.PROBABILITY, None): POINTS,
    (ScoreType.DECISION, None): DECISIONS,
    (ScoreType.AMOUNT, None): UNITS,
}
MEASURES |= {
    (score_type, metric): _of_errors(MEASURES[score_type, None], metric)
    for score_type in (ScoreType.PROBABILITY, ScoreType.DECISION)
    for metric in METRICS
}


def asked(measure: Measure, settings: dict[str, Any]) -> str:
    """Return the smallest difference that counts as it was asked for: in points, or in standard deviations."""
    if measure is UNITS:
        return f"{settings['materiality']:g} standard deviations of the amount"
    return f"{measure.size(settings['materiality'])} {measure.unit}"


def score_type_of(is_decisions: bool, is_amount: bool) -> ScoreType:
    """Return what the scores are."""
    if is_amount:
        return ScoreType.AMOUNT
    return ScoreType.DECISION if is_decisions else ScoreType.PROBABILITY


def metric_of(summary: dict[str, Any]) -> Any:
    """Return the error rate whose difference was audited, if one was: of an audit, a change or a comparison."""
    scale = summary.get("scale", summary)
    if "metric" in scale or not summary.get("comparisons"):
        return scale.get("metric")
    return metric_of(next(iter(summary["comparisons"].values())))


def measure_of(summary: dict[str, Any]) -> Measure:
    """Return how the numbers of an audit, of a change or of a comparison are written."""
    return MEASURES[summary.get("scale", summary).get("score_type", ScoreType.PROBABILITY), metric_of(summary)]


def subject(summary: dict[str, Any]) -> str:
    """Return what an audit, or a change, is of: the scores, or an error rate of theirs."""
    measure = measure_of(summary)
    return f"{measure.each}s, their {measure.output}s," if metric_of(summary) else f"{measure.each}s"
