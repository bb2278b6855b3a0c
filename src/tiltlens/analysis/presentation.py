"""What the outputs of a comparison are measured in, how large a difference counts, and how both are written."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tiltlens.analysis.evidence import Evidence
from tiltlens.analysis.settings import Settings
from tiltlens.estimators.estimate import HasInterval, without_noise
from tiltlens.estimators.outputs import Scores
from tiltlens.formats import typed
from tiltlens.rows.amounts import Unit
from tiltlens.rows.measures import Measure, measure_for, score_type_of


@dataclass(frozen=True, slots=True)
class OutputScale:
    """Differences as estimators see them, as text; `materiality` is one of them."""

    unit: Unit
    measure: Measure
    materiality: float

    def size(self, value: float) -> str:
        """Return how large a difference is, whichever way."""
        return self.measure.size(self.unit.scale * value)

    def size_words(self, value: float) -> str:
        """Return how large a difference is, with the unit."""
        return self.measure.with_unit(self.size(value))

    def signed(self, value: float) -> str:
        """Return a difference with its sign."""
        return typed(self.measure.difference(self.unit.scale * value))

    def signed_words(self, value: float) -> str:
        """Return a difference with its sign and the unit."""
        return self.measure.with_unit(self.signed(value))


Columns = dict[str, float | None]


def number_columns(name: str, value: float | None, low: float | None, high: float | None) -> Columns:
    """Return the columns of a number and its ends."""
    rounded = [None if number is None else without_noise(number) for number in (value, low, high)]
    return dict(zip((name, f"{name}_low", f"{name}_high"), rounded, strict=True))


def estimate_columns(name: str, law: HasInterval | None, settings: Settings) -> Columns:
    """Return the columns of an estimate; plug-in values have no ends."""
    if law is None:
        return number_columns(name, None, None, None)
    estimate = law.estimate(settings.confidence)
    ends = (None, None) if settings.folds is None else (estimate.low, estimate.high)
    return number_columns(name, estimate.value, *ends)


def levels(evidence: Evidence) -> Scores:
    """Return what a person wants, as users know it: a rate, or the amount in its unit."""
    unit = evidence.rows.unit
    return evidence.favourable.mix(np.array([[unit.scale]]), np.array([unit.centre]))


def output_measure(evidence: Evidence) -> Measure:
    """Return what the outputs of a comparison are called and measured in."""
    question = evidence.question
    score_type = score_type_of(question.is_decisions, evidence.rows.unit.is_amount)
    return measure_for(score_type, question.metric, question.wording)


def output_scale(evidence: Evidence, settings: Settings) -> OutputScale:
    """Return how the numbers of a comparison are written.

    What counts is a number of points of a probability; of amounts a number of standard deviations, those of the
    standardised difference.
    """
    measure = output_measure(evidence)
    if not evidence.rows.unit.is_amount:
        return OutputScale(evidence.rows.unit, measure, settings.materiality)
    outcome = evidence.score
    spread = math.sqrt(max(float(outcome.covariance0[0, 0] + outcome.covariance1[0, 0]) / 2, 0.0))
    return OutputScale(evidence.rows.unit, measure, settings.materiality * spread)
