"""The evidence on two groups: sums over all rows, the sample, fitted models, settings; suppression of small cells.

Every number of a comparison is a pure function of it.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._estimators.error_rates import UNKNOWN
from tiltlens._estimators.estimate import Estimate, HasInterval, without_noise
from tiltlens._estimators.feature_gap import CellSums
from tiltlens._estimators.influence import Booleans, Integers, Rows
from tiltlens._estimators.outputs import Scores
from tiltlens._estimators.sets import CellSets, RidgeSets
from tiltlens._estimators.verdicts import Band
from tiltlens._formats import typed
from tiltlens._learners.balance import Balance
from tiltlens._learners.design import Table
from tiltlens._learners.linear_models import Basis
from tiltlens._learners.propensity import Propensity
from tiltlens._learners.regressions import Expectations
from tiltlens._limits import FOLDS, MATERIALITY, SUPPRESSED_BELOW
from tiltlens._notes import Note
from tiltlens._rows.predictions import AskedModel
from tiltlens._rows.sampled_rows import SampledRows
from tiltlens._rows.wording import WORDING, Measure, Unit, Wording, measure_for, score_type_of
from tiltlens.errors import TiltlensError
from tiltlens.paper.checks import Floats, check_number, check_probability, check_weight
from tiltlens.paper.correction import GroupMoments

AMOUNT_MATERIALITY = 0.02  # standard deviations of amounts: a tenth of a small effect (Cohen's d of 0.2)
LARGEST_SEED = 2**32 - 1  # the largest that scikit-learn accepts
FEWEST_SAMPLED = 1_000  # rows: models are fitted on two fifths of them
# What whole numbers must be, and what to do
FOLDS_RULE = (
    f"{FOLDS} or None (on the command line 0)",
    "the variance between pairings is derived for five folds; None gives the paper's plug-in values without intervals.",
)
SEED_RULE = (
    f"a whole number from 0 to {LARGEST_SEED}",
    "0 is the default; the same number gives the same numbers.",
)
SAMPLE_RULE = (f"a whole number of at least {FEWEST_SAMPLED}", "500,000 is the default.")


@dataclass(frozen=True, slots=True)
class Settings:
    """The numbers of an audit's arguments, checked.

    Attributes
    ----------
    input_weight, output_weight
        λ2 and λ4.
    confidence
        The confidence level of every interval.
    materiality
        The materiality threshold, in points of the score; for amounts in standard deviations.
    folds
        The number of folds; None gives the paper's plug-in values without intervals.
    random_state
        The random seed.
    sample_rows
        Largest number of rows of the data that are kept, to fit models and to estimate standard errors.
    """

    input_weight: float = 1.0
    output_weight: float = 1.0
    confidence: float = 0.95
    materiality: float = MATERIALITY
    folds: int | None = 5
    random_state: int = 0
    sample_rows: int = 500_000

    def __post_init__(self) -> None:
        checked = {
            "input_weight": check_weight("input_weight", self.input_weight),
            "output_weight": check_weight("output_weight", self.output_weight),
            "confidence": check_probability("confidence", self.confidence),
            "materiality": _check_materiality(self.materiality),
            "folds": None if self.folds is None else _check_whole("folds", self.folds, (FOLDS, FOLDS), *FOLDS_RULE),
            "random_state": _check_whole("random_state", self.random_state, (0, LARGEST_SEED), *SEED_RULE),
            "sample_rows": _check_whole("sample_rows", self.sample_rows, (FEWEST_SAMPLED, math.inf), *SAMPLE_RULE),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.input_weight + self.output_weight == 0:
            raise TiltlensError(
                "`input_weight` and `output_weight` must not both be 0, got 0 and 0.", "leave both at 1."
            )

    def for_all(self, comparisons: int) -> Settings:
        """Return settings whose intervals are simultaneous over this many comparisons (Šidák 1967)."""
        return replace(self, confidence=self.confidence ** (1.0 / comparisons))

    def estimate(self, measured: HasInterval) -> Estimate:
        """Return an estimate at the confidence level, without an interval for plug-in values."""
        estimate = measured.estimate(self.confidence)
        ends = (None, None) if self.folds is None else (estimate.low, estimate.high)
        # Rounding noise differs between machines, and would print as a gap of −0.0.
        return Estimate(without_noise(estimate.value), *(None if end is None else without_noise(end) for end in ends))


def usual_materiality(score_type: str) -> float:
    """Return the default materiality threshold: in points of a probability, or in standard deviations of an amount."""
    return AMOUNT_MATERIALITY if score_type == "amount" else MATERIALITY


def _check_materiality(value: object) -> float:
    number = check_number("materiality", value)
    if not 0 <= number < 1:
        raise TiltlensError(
            f"`materiality` must be at least 0 and below 1, got {value!r}.",
            "it is a fraction of the score (default 0.005, which is 0.5 points) or, for amounts, a number of standard "
            "deviations (default 0.02).",
        )
    return number


def _check_whole(name: str, value: object, ends: tuple[float, float], rule: str, advice: str) -> int:
    if not isinstance(value, bool) and isinstance(value, numbers.Integral) and ends[0] <= int(value) <= ends[1]:
        return int(value)
    raise TiltlensError(f"`{name}` must be {rule}, got {value!r}.", advice)


Counts = int | NDArray[np.integer]


def withheld(counts: Integers) -> Booleans:
    """Return which counts are suppressed: those from 1 to 9, and neighbours that prevent working these out.

    The total is public, so the sum of the suppressed counts is known. If m small counts sum to between m + 8 and
    9m − 8, each could be any number from 1 to 9. Otherwise the nearest larger counts are suppressed too, one or two,
    until the sum is at least m + 18. They are chosen by position, because a choice by size would reveal their size.
    A reader who knows this rule and all that is shown can rule out at most one of the values from 1 to 9 of a small
    count; if nothing is shown, only the values that the total rules out.
    """
    counts = np.asarray(counts)
    hidden = (counts > 0) & (counts < SUPPRESSED_BELOW)
    small = int(hidden.sum())
    if not small or leaves_free(counts[hidden]):
        return hidden
    # By position, never by size: a choice by size would bound the counts that it hides.
    others = np.flatnonzero(counts >= SUPPRESSED_BELOW)
    distance = np.abs(others - np.flatnonzero(hidden)[0])
    for other in others[np.lexsort((-others, distance))].tolist():
        hidden[other] = True
        if int(counts[hidden].sum()) >= small + 2 * SUPPRESSED_BELOW - 2:
            break
    return hidden


def disclosed_counts(counts: Integers) -> list[int | None]:
    """Return the counts, None where they are suppressed."""
    return [None if hide else count for count, hide in zip(counts.tolist(), withheld(counts).tolist(), strict=True)]


def leaves_free(small: Integers) -> bool:
    """Return whether the sum of these counts, each from 1 to 9, leaves each of them any value from 1 to 9."""
    number, largest = len(small), SUPPRESSED_BELOW - 1
    return number + largest - 1 <= int(np.sum(small)) <= largest * number - largest + 1


def part_of_group(share: float, people: int, of_all: int) -> str:
    """Return a share of a group in words that do not reveal a count below ten, of these people or of the others."""
    if people < SUPPRESSED_BELOW:
        return "fewer than ten people"
    return "all but fewer than ten people" if of_all - people < SUPPRESSED_BELOW else f"{100 * share:.1f}%"


def may_show(below: Counts, here: Counts, above: Counts) -> Any:
    """Return whether a quantile identifies nobody: ten people have it, or ten lie strictly below and ten above.

    People are counted, not weights: one person with a very large weight could be the quantile.
    """
    return (here >= SUPPRESSED_BELOW) | ((below >= SUPPRESSED_BELOW) & (above >= SUPPRESSED_BELOW))


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
    """The comparison that the user requested."""

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
    notes: tuple[Note, ...] = ()  # notes on the data and the model that apply to every comparison


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


def estimate_columns(estimates: Mapping[str, Estimate | Band | None], unit: float = 1.0) -> Columns:
    """Return named estimates, or bands, as columns."""
    parts = (interval_columns(name, estimate, unit) for name, estimate in estimates.items())
    return {key: value for part in parts for key, value in part.items()}


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
    unit = evidence.rows.unit
    spread = evidence.score.spread if unit.is_amount else 1.0
    return OutputScale(unit, output_measure(evidence), settings.materiality * spread)


FEW_PEOPLE = 30  # effective sample size below which intervals are unreliable


def evidence_notes(evidence: Evidence, checked: Balance | None) -> Iterator[Note]:
    """Yield all notes that follow from the evidence, such as failed checks, missing outcomes and duplicate rows."""
    rows, population = evidence.rows, evidence.population
    for reason in () if checked is None else checked.reasons:
        yield Note("inadequate membership model", reason=reason)
    yield from _off_support(evidence)
    yield from _few_weights(evidence)
    if evidence.y_true is not None:
        yield from _unknown_outcomes(evidence)
    if rows.unit.is_amount:
        yield from _constant_amounts(evidence)
    if rows.probabilities is not None:
        yield Note("unobserved groups")
        if evidence.question.exempt:
            yield Note("exempt factors of unobserved groups")
    if rows.period is not None:
        yield from _rows_without_period(evidence)
    if count := rows.facts.repeated_rows:
        yield Note("repeated row") if count == 1 else Note("repeated rows", rows=count)
    if not rows.facts.is_complete:
        yield Note("sampled", rows=population.count0 + population.count1, sample=evidence.sample.audited.size)


def _off_support(evidence: Evidence) -> Iterator[Note]:
    """Yield a note on the audited people with a feature value that nobody in the reference has (positivity)."""
    alone, names = np.zeros(evidence.sample.audited.size, dtype=np.bool_), []
    for feature in evidence.rows.features:
        if feature.name in evidence.table:
            _, reference = evidence.sample.counts(feature.codes, len(feature.labels))
            unknown = evidence.sample.audited & (reference == 0)[feature.codes]
            alone |= unknown
            names += [feature.name] if unknown.any() else []
    if names:
        share = evidence.sample.mean0(alone.astype(np.float64))
        people = part_of_group(share, int(alone.sum()), evidence.sample.count0)
        yield Note("off support", people=people, features=", ".join(sorted(names)))


def _few_weights(evidence: Evidence) -> Iterator[Note]:
    """Yield a note on each group whose effective sample size, Kish's (Σw)²/Σw², is small."""
    rows = evidence.population
    sizes = ((rows.square0, rows.count0), (rows.square1, rows.count1))
    for name, (square, count) in zip(evidence.rows.groups, sizes, strict=True):
        if 1.0 / square < FEW_PEOPLE <= count:
            yield Note("few people behind weights", group=name, people=1.0 / square)


def _unknown_outcomes(evidence: Evidence) -> Iterator[Note]:
    people = evidence.sums_by["y_true"].people
    unknown, everybody = int(people[:, UNKNOWN].sum()), int(people.sum())
    if unknown:
        yield Note("unknown outcomes", people=part_of_group(unknown / everybody, unknown, everybody))


def _constant_amounts(evidence: Evidence) -> Iterator[Note]:
    """Yield a note on groups whose amounts are all equal, so that the standard error of their mean is unknown."""
    o, is_rounding = evidence.score, evidence.rows.unit.is_rounding
    parts = zip(evidence.rows.groups, ((o.mean0, o.covariance0), (o.mean1, o.covariance1)), strict=True)
    names = [name for name, (mean, square) in parts if is_rounding(float(mean[0]), math.sqrt(max(square[0, 0], 0.0)))]
    if names:
        yield Note("constant amounts", groups=" and ".join(names))


def _rows_without_period(evidence: Evidence) -> Iterator[Note]:
    """Yield a note on rows without a period, which the table of periods leaves out."""
    # Codes of missing periods come after those of the labels.
    missing = int(evidence.sums_by["period"].people[:, len(evidence.rows.labels["period"]) :].sum())
    if missing:
        yield Note("no period", rows=f"fewer than {SUPPRESSED_BELOW}" if missing < SUPPRESSED_BELOW else f"{missing:,}")
