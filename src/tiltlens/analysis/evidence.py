"""The evidence on two groups: sums over all rows, the sample, the fitted models, and the scale of the outputs.

Every number of a comparison is a pure function of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tiltlens.analysis.settings import Settings
from tiltlens.estimators.estimate import Estimate, without_noise
from tiltlens.estimators.feature_gap import CellSums
from tiltlens.estimators.influence import Integers, Rows
from tiltlens.estimators.outputs import Scores
from tiltlens.estimators.sets import CellSets, RidgeSets
from tiltlens.estimators.verdicts import Band
from tiltlens.formats import typed
from tiltlens.learners.basis import Basis
from tiltlens.learners.design import Table
from tiltlens.learners.propensity import Propensity
from tiltlens.learners.regressions import Expectations
from tiltlens.paper.checks import Floats
from tiltlens.paper.moments import GroupMoments
from tiltlens.rows.predictions import AskedModel
from tiltlens.rows.sampled_rows import SampledRows
from tiltlens.rows.wording import WORDING, Measure, Unit, Wording, measure_for, score_type_of

NO_MODEL = "none"  # name of the propensity model without features or given log-odds


@dataclass(frozen=True, slots=True, eq=False)
class FeatureCells:
    """A feature's cells, one per value: the code of each row of the sample, and the sums over all rows."""

    codes: Integers
    sums: CellSums


@dataclass(frozen=True, slots=True, eq=False)
class TiltedMeans:
    """log E1[e^ℓ], and the reference means of (ℓ, W_1, …) weighted by e^ℓ, which equal E0's if ℓ is correct."""

    log_mass: float
    means: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The comparison that is asked for."""

    # The names of the two groups
    audited: str
    reference: str
    comparisons: int = 1  # how many comparisons are made at once
    metric: str | None = None  # the error rate whose difference is audited; None for the scores themselves
    wording: Wording = WORDING  # the user's words for people, the favourable outcome and the unit of amounts
    source: str = ""  # name of the data, as in the provenance
    is_decisions: bool = False  # whether scores are decisions, all of them 0 or 1
    exempt: tuple[str, ...] = ()  # the features that were named as exempt factors
    given: Mapping[str, str] = field(default_factory=dict)  # the conditions that all rows meet, as texts by column
    notes: tuple[str, ...] = ()  # notes on the data and the model that apply to every comparison


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Nuisances:
    """The models that are fitted on the sample."""

    # The cross-fitted or given propensity, None for plug-in values; the log-odds of one fit on all rows of the sample;
    # and the name of the model. Without features or a given column, everybody has the prior's log-odds.
    propensity: Propensity | None
    log_odds: Floats
    name: str
    expectations: Expectations | None  # E[W|X], cross-fitted
    # The regressions on sets of features (None without a usable feature), the basis of those by ridges, and the sample
    # positions of the rows with influences
    sets: CellSets | RidgeSets | None
    basis: Basis | None
    influence_rows: Integers

    @property
    def pooled(self) -> tuple[str, ...]:
        """The features with too many values for one column per value in the regressions on sets."""
        return () if self.sets is None else self.sets.pooled


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evidence:
    """One audited group and the reference."""

    question: Question  # the comparison that is asked for
    rows: SampledRows  # the sample's rows of both groups, with the codes 0 and 1, and their features
    # The same rows as input of estimators; and as a sample of all rows, for estimates from sums over all rows
    sample: Rows
    population: Rows
    # All scores; the score whose gap is measured, W(1|x) or that of the favourable class; and the score of the
    # favourable outcome. For amounts: their deciles; the amount; the same.
    scores: Scores
    score: Scores
    favourable: Scores
    # The features as models take them; and all values of those that are countable
    table: Table
    cells: dict[str, FeatureCells]
    nuisances: Nuisances  # the models that are fitted on the sample
    # The audited model, which makes the scores from the features alone; None where scores were given
    model: AskedModel | None
    moments: tuple[GroupMoments, GroupMoments]  # of (log-odds, scores) in the audited and in the reference group
    # The reference weighted by e^ℓ over all rows, ℓ being the given log-odds; None where they are fitted
    tilted: TiltedMeans | None
    sums_by: Mapping[str, CellSums]  # sums over all rows by the codes of optional columns of the rows, such as "period"

    @property
    def exempt(self) -> list[int]:
        """The positions of the exempt factors among the features that are regressed on: E."""
        return [position for position, name in enumerate(self.table) if name in self.question.exempt]

    @property
    def y_true(self) -> Integers | None:
        """The codes of observed outcomes where error rates are measured; None where the gap is that of one of them."""
        return None if self.question.metric is not None else self.rows.y_true

    @property
    def sums_by_outcome(self) -> CellSums | None:
        """Sums by the observed outcome: 0, 1 and missing; None where none is given."""
        return self.sums_by.get("y_true")

    @property
    def score_is_of_features(self) -> bool:
        """Whether the audited model computes the score, and an adjusted gap can condition on all its inputs.

        It cannot condition on a feature that identifies the group or each person: nobody else has the same value.
        """
        has_equals = all(feature.in_membership or feature.kind == "constant" for feature in self.rows.features)
        return self.model is not None and has_equals


@dataclass(frozen=True, slots=True)
class OutputScale:
    """Formats differences on the estimators' scale as text; `materiality` is on that scale too."""

    unit: Unit
    measure: Measure
    materiality: float

    def size(self, value: float, *beside: float) -> str:
        """Return the absolute value of a difference as text, with decimals chosen for it and the values `beside` it."""
        return self.measure.size(*(self.unit.scale * each for each in (value, *beside)))

    def size_words(self, value: float) -> str:
        """Return the absolute value of a difference as text, with the unit."""
        return self.measure.with_unit(self.size(value))

    def signed(self, value: float) -> str:
        """Return a difference with its sign."""
        return typed(self.measure.difference(self.unit.scale * value))

    def signed_words(self, value: float) -> str:
        """Return a difference with its sign and the unit."""
        return self.measure.with_unit(self.signed(value))


Columns = dict[str, float | None]


def interval_schema(*names: str) -> dict[str, type[pl.DataType]]:
    """Return the columns NAME, NAME_low and NAME_high of each estimate."""
    return {f"{name}{end}": pl.Float64 for name in names for end in ("", "_low", "_high")}


def interval_columns(name: str, estimate: Estimate | Band | None, unit: float = 1.0) -> Columns:
    """Return an estimate, or a band, as columns in some unit."""
    ends = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
    # Noise is rounded off before units: money may be in billions.
    values = (None if end is None else unit * without_noise(end) for end in ends)
    return dict(zip(interval_schema(name), values, strict=True))


def levels(evidence: Evidence) -> Scores:
    """Return the score of the favourable outcome on the user's scale: a probability, or an amount in its unit."""
    unit = evidence.rows.unit
    return evidence.favourable.mix(np.array([[unit.scale]]), np.array([unit.centre]))


def output_measure(evidence: Evidence) -> Measure:
    """Return the name and unit of a comparison's outputs."""
    question = evidence.question
    score_type = score_type_of(question.is_decisions, evidence.rows.unit.is_amount)
    return measure_for(score_type, question.metric, question.wording)


def output_scale(evidence: Evidence, settings: Settings) -> OutputScale:
    """Return the scale of a comparison's outputs, with the materiality threshold on it.

    The setting is in points for probabilities and, for amounts, in the standard deviations of the standardised
    difference, which are converted here.
    """
    measure = output_measure(evidence)
    if not evidence.rows.unit.is_amount:
        return OutputScale(evidence.rows.unit, measure, settings.materiality)
    outcome = evidence.score
    spread = math.sqrt(max(float(outcome.covariance0[0, 0] + outcome.covariance1[0, 0]) / 2, 0.0))
    return OutputScale(evidence.rows.unit, measure, settings.materiality * spread)
