"""Constraints of an adjustment, and the features of its models as they are read from new rows.

An additive model, intercept + Σ_j f_j(x_j), where f_j is a spline of a number or has one effect per level of a
category, can be inspected and saved as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
import polars as pl

from tiltlens._analysis.unobserved_groups import UnobservedGroup
from tiltlens._estimators.error_rates import WITH, WITHOUT
from tiltlens._estimators.influence import Booleans, Integers
from tiltlens._formats import FieldTable
from tiltlens._learners.design import Encoding, Table
from tiltlens._repair.least_change import gradient, shifts
from tiltlens._rows.features import DesignColumn, Feature
from tiltlens._rows.levels import MISSING, OTHER, numbers_of
from tiltlens._sources.arrays import chunks, text_codes
from tiltlens.errors import DataError, quoted
from tiltlens.paper.checks import Floats, check_share

MEAN, DECISIONS, FPR, FNR, ODDS = "mean_score", "decisions", "fpr", "fnr", "equalized_odds"
ALL, WITHOUT_OUTCOME, WITH_OUTCOME = "all", "without the outcome", "with the outcome"
EQUAL = "all, at equal exempt factors"  # weighted by overlap, as c_E of the audit
GIVEN_EXEMPT = "given exempt factors"  # the event of a model of P(group|E)
EVENTS = {
    MEAN: (ALL,),
    DECISIONS: (ALL,),
    FPR: (WITHOUT_OUTCOME,),
    FNR: (WITH_OUTCOME,),
    ODDS: (WITHOUT_OUTCOME, WITH_OUTCOME),
}
OUTCOMES = {WITHOUT_OUTCOME: WITHOUT, WITH_OUTCOME: WITH}  # the outcome of the people of each event
DIFFERENCES = {
    ALL: "the gap",
    EQUAL: "the gap at equal exempt factors",
    WITHOUT_OUTCOME: "the difference of false positive rates",
    WITH_OUTCOME: "the difference of false negative rates",
}
Cell = tuple[str, str]  # a group and an event


@dataclass(frozen=True, slots=True)
class Constraint(FieldTable):
    """A gap, and the multiplier that brings it within the limit.

    Attributes
    ----------
    audited, reference
        The groups: a gap is the audited group's rate minus that of the reference.
    event
        The people counted: "all", "all, at equal exempt factors", "without the outcome" (false positives) or "with the
        outcome" (false negatives).
    score_class
        The class whose score counts; 1 if there are two classes.
    shares
        q0 and q1: the shares of counted people of either group in all rows; at equal exempt factors, weighted by
        overlap.
    multiplier
        t; 0 if the gap is within the limit without a change.
    gap_before, gap_after
        On the audited rows, computed with cross-fitted models.
    se
        The standard error of `gap_after`, given the membership model: the sampling error of its fit is left out. None
        where it is not determined.
    se_before
        The standard error of the gap before.
    modelled
        The gap after the adjustment that the membership model predicts without groups, to be compared with new rows.
    """

    audited: str
    reference: str
    event: str
    score_class: int
    shares: tuple[float, float] = (0.0, 0.0)
    multiplier: float = 0.0
    gap_before: float = 0.0
    gap_after: float = 0.0
    se: float | None = None
    se_before: float | None = None
    modelled: float | None = None

    @property
    def sign(self) -> float:
        """The sign with which a difference of scores enters the gap: −1 for false negatives, which are low scores."""
        return -1.0 if self.event == WITH_OUTCOME else 1.0

    @property
    def cells(self) -> tuple[Cell, Cell]:
        """The two cells (group and event) whose means are compared."""
        event = ALL if self.event == EQUAL else self.event
        return (self.audited, event), (self.reference, event)

    def describe(self, has_classes: bool) -> str:
        """Return the name of the gap in messages."""
        which = f" of class {self.score_class}" if has_classes else ""
        return f"{DIFFERENCES[self.event]}{which} of {quoted(self.audited)} against {quoted(self.reference)}"


class SoftChange(NamedTuple):
    """The estimates of an unobserved group's gap before and after an adjustment."""

    before: UnobservedGroup
    after: UnobservedGroup


@dataclass(frozen=True, slots=True, eq=False)
class TiltSummary:
    """A score adjustment as shown to users, for one audited group or for all; see `ScoreTilt`.

    Attributes
    ----------
    group
        The column of groups.
    features
        The columns that its models use.
    """

    group: str | None
    metric: str
    threshold: float | None
    max_gap: float
    use_group: bool
    classes: int
    constraints: tuple[Constraint, ...]
    nats: float | None = None
    notes: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    favours_low: bool = False
    soft: Mapping[str, SoftChange] = field(default_factory=dict)
    multiplier: float | None = None
    audited: str | None = None
    reference: str = ""
    gap_before: float | None = None
    gap_after: float | None = None
    exempt: tuple[str, ...] = ()
    features: Sequence[str] = ()


def check_max_gap(max_gap: float) -> float:
    """Return `max_gap` as a number after a check."""
    return check_share("max_gap", max_gap, "0 closes the gap.")


def only(constraints: Sequence[Constraint], name: str) -> float | None:
    """Return a field of the only constraint; None if there are several."""
    return float(getattr(constraints[0], name)) if len(constraints) == 1 else None


def gradients(
    constraints: Sequence[Constraint], probabilities: Mapping[Cell, Floats], members: Mapping[str, Booleans] | None
) -> Floats:
    """Return a_c of each constraint, (C, n), from the probabilities of modelled cells.

    `members` has the rows of each group if the group is used.
    """
    by_cells: dict[tuple[Cell, Cell], Floats] = {}
    for constraint in constraints:
        if constraint.cells not in by_cells:
            if members is None:
                pair = [_probability(cell, probabilities) for cell in constraint.cells]
            else:
                pair = [np.asarray(members[cell[0]] * probabilities.get(cell, 1.0)) for cell in constraint.cells]
            p0, p1 = (p * e for p, e in zip(pair, overlap_weights(constraint, probabilities), strict=True))
            by_cells[constraint.cells] = gradient(p0, p1, constraint.shares)
    return np.array([by_cells[constraint.cells] for constraint in constraints])


def shift_of(constraints: Sequence[Constraint], a: Floats, outcomes: int) -> Floats:
    """Return the shift of the log-odds, or log-scores, from the gradients (C, n) of the constraints."""
    t = np.array([constraint.multiplier for constraint in constraints])
    classes = np.array([constraint.score_class for constraint in constraints], dtype=np.intp)
    return shifts(t, a, classes, outcomes)


def overlap_weights(constraint: Constraint, probabilities: Mapping[Cell, Floats]) -> tuple[Floats, Floats]:
    """Return the weights of rows of the audited group and of the reference: 1, or overlap weights if `event` is EQUAL.

    With e = P(audited|E) among the two groups, these are 1 − e and e: E[(S̄ − e)·W]/E[e(1 − e)], c_E of the audit, is
    then a difference of two weighted means.
    """
    if constraint.event != EQUAL:
        return np.ones(1), np.ones(1)
    groups = (constraint.audited, constraint.reference)
    p0, p1 = (_probability((group, GIVEN_EXEMPT), probabilities) for group in groups)
    return p1 / (p0 + p1), p0 / (p0 + p1)


def _probability(cell: Cell, probabilities: Mapping[Cell, Floats]) -> Floats:
    if cell in probabilities:
        return probabilities[cell]
    return np.maximum(1.0 - sum(p for (_, event), p in probabilities.items() if event == cell[1]), 0.0)


LOOKED_UP = 1 << 15  # rows per chunk of the additive part, so that it fits the cache


@dataclass(frozen=True, slots=True)
class CategoryLevels:
    """The levels of a category, and the codes of missing values and of texts that are not a level."""

    values: tuple[str, ...]
    missing: int
    other: int

    @classmethod
    def of(cls, feature: Feature) -> CategoryLevels:
        """Return the levels of an audited category."""
        levels = feature.levels
        if levels is None or levels.values is None:
            raise DataError(f"Column {quoted(feature.name)} has no levels.", "leave it out.")
        values = tuple(levels.values.to_list())
        unseen = len(values)  # a level that no audited row has; its effect is 0, like that of rare ones
        return cls(values, levels.missing if MISSING in values else unseen, levels.other if OTHER in values else unseen)

    def codes(self, column: pl.Series) -> Integers:
        """Return the code of each entry of a clean column."""
        values = pl.Series(self.values, dtype=pl.String)
        codes = text_codes(column.cast(pl.String), values, first=0, other=self.other)
        return np.where(column.is_null().to_numpy(), self.missing, codes) if column.null_count() else codes

    def texts(self, codes: Integers) -> pl.Series:
        """Return the text of each code, missing if it is not a level."""
        index = np.minimum(codes, len(self.values)).astype(np.uint32)
        return pl.Series([*self.values, None], dtype=pl.String).gather(pl.Series(index))


@dataclass(frozen=True, slots=True, eq=False)
class CodedFeatures:
    """The features of a model, as it reads them from new rows: numbers, and codes of levels.

    `levels` has the levels of the categories; `missing` lists the numeric features with missing values when the model
    was fitted.
    """

    features: tuple[str, ...]
    levels: Mapping[str, CategoryLevels]
    missing: tuple[str, ...]

    def checked_table(self, frame: pl.DataFrame) -> dict[str, DesignColumn]:
        """Return the features of a clean frame as numbers and codes; raise if one is missing."""
        check_features(self.features, frame.columns)
        return {name: self._column(frame[name]) for name in self.features}

    def blank_row(self) -> dict[str, DesignColumn]:
        """Return a table of one row with zeros and unseen levels, which fails if an effect of a level is missing."""
        new = {name: np.array([len(levels.values)], dtype=np.intp) for name, levels in self.levels.items()}
        return {name: new.get(name, np.zeros(1)) for name in self.features}

    def _column(self, column: pl.Series) -> DesignColumn:
        if column.name in self.levels:
            return self.levels[column.name].codes(column)
        # A batch without values has no type of its own.
        if column.dtype == pl.String and column.null_count() < column.len():
            raise DataError(
                f"Column {quoted(column.name)} holds text, but numbers in the audited table.",
                "cast the column; for decimal commas, use tl.read(path, decimal=',').",
            )
        return numbers_of(column)

    def unseen_levels(self, frame: pl.DataFrame) -> dict[str, int]:
        """Return, by feature, the number of rows with a value unseen in the fit (new, missing or infinite)."""
        counts = {}
        for name in self.features:
            column, levels = frame[name], self.levels.get(name)
            if levels is not None:
                had_missing = levels.missing != len(levels.values)
                unseen = int((column.is_not_null() & ~column.cast(pl.String).is_in(levels.values)).sum())
            else:
                had_missing = name in self.missing
                unseen = int(np.isinf(numbers_of(column)).sum())  # audited numbers are finite
            counts[name] = unseen + (0 if had_missing else column.null_count())
        return {name: count for name, count in counts.items() if count}


def check_features(features: tuple[str, ...], columns: list[str]) -> None:
    """Raise if a column that an adjustment needs is missing."""
    missing = [name for name in features if name not in columns]
    if missing:
        raise DataError(
            f"Column {quoted(missing[0])}, which the adjustment needs, not found in `data`.",
            f"it needs {', '.join(features)}.",
        )


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveModel(CodedFeatures):
    """A fitted additive model: encoding of the features, and coefficients."""

    encoding: Encoding
    intercept: float
    slopes: Floats

    @classmethod
    def of(
        cls, encoder: Encoding, levels: Mapping[str, CategoryLevels], intercept: float, slopes: Floats, *more: object
    ) -> Self:
        """Return a model of the columns of an encoding; `more` are the fields of a subclass."""
        features = (*(column.name for column in encoder.numeric), *(column.name for column in encoder.levels))
        missing = tuple(column.name for column in encoder.numeric if column.has_missing)
        return cls(features, levels, missing, encoder, intercept, slopes, *more)

    def linear_predictor(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return intercept + Σ_j f_j(x_j) of rows of numbers and codes, in chunks that fit the cache."""
        rows = {name: column[index] for name, column in table.items()}
        total = np.full(len(next(iter(rows.values()))), self.intercept)
        for part in chunks(total.size, LOOKED_UP):
            total[part] += self.encoding.applied(rows, part, self.slopes[:, None])[:, 0]
        return total

    def columns(self, table: Table) -> Floats:
        """Return the columns of the design matrix."""
        return self.encoding.matrix(table, slice(None))


def feature_table(features: Sequence[Feature]) -> dict[str, DesignColumn]:
    """Return features as columns of numbers and codes."""
    return {feature.name: feature.codes if feature.values is None else feature.values for feature in features}


def category_levels(features: Sequence[Feature]) -> dict[str, CategoryLevels]:
    """Return the levels of the categorical features."""
    return {feature.name: CategoryLevels.of(feature) for feature in features if feature.values is None}
