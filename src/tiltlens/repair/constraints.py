"""What a repair is to bring within a limit: a difference between two groups, of some people, of one class's score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from tiltlens.estimators.error_rates import WITH, WITHOUT
from tiltlens.estimators.influence import Booleans
from tiltlens.learners.design import Table
from tiltlens.paper.checks import Floats
from tiltlens.repair.additive import AdditiveLogit
from tiltlens.repair.coded import CodedModel
from tiltlens.repair.estimator import EstimatorLogit
from tiltlens.repair.least_change import gradient
from tiltlens.sources.messages import shown

MEAN, DECISIONS, FPR, FNR, ODDS = "mean_score", "decisions", "fpr", "fnr", "equalized_odds"
ALL, WITHOUT_OUTCOME, WITH_OUTCOME = "all", "without the outcome", "with the outcome"
EQUAL = "all, at equal exempt factors"  # weighted by overlap, as c_E of the audit is
GIVEN_EXEMPT = "given exempt factors"  # of a model: P(group|E)
EVENTS = {
    MEAN: (ALL,),
    DECISIONS: (ALL,),
    FPR: (WITHOUT_OUTCOME,),
    FNR: (WITH_OUTCOME,),
    ODDS: (WITHOUT_OUTCOME, WITH_OUTCOME),
}
OUTCOMES = {WITHOUT_OUTCOME: WITHOUT, WITH_OUTCOME: WITH}  # the outcome of the people of an event
DIFFERENCES = {
    ALL: "the gap",
    EQUAL: "the gap at equal exempt factors",
    WITHOUT_OUTCOME: "the difference of false positive rates",
    WITH_OUTCOME: "the difference of false negative rates",
}
Cell = tuple[str, str]  # a group, and an event


@dataclass(frozen=True, slots=True)
class Constraint:
    """One difference, and the multiplier that brings it within the limit.

    Attributes
    ----------
    audited, reference
        The groups: a difference is the audited group's rate less that of the reference.
    event
        Of which people: "all", "all, at equal exempt factors", "without the outcome" (false positives) or "with the
        outcome" (false negatives).
    score_class
        Of which class's score; 1 of two.
    shares
        q0 and q1: of all rows, how many are such people of either group; at equal exempt factors, by overlap.
    multiplier
        t; 0 where the difference is within the limit by itself.
    gap_before, gap_after
        On the audited rows, by models that have not seen them.
    se
        The standard error of the latter: how far from it chance may take the difference of new people, the membership
        model being as it is: the chance in its fit is left out. None where it is not known.
    se_before
        The standard error of the difference before.
    modelled
        The difference after as the membership model has it, without groups: new rows are compared with it.
    """

    audited: str
    reference: str
    event: str
    score_class: int
    shares: tuple[float, float]
    multiplier: float = 0.0
    gap_before: float = 0.0
    gap_after: float = 0.0
    se: float | None = None
    se_before: float | None = None
    modelled: float | None = None

    @property
    def sign(self) -> float:
        """What a difference of scores counts as: a false negative is a low score."""
        return -1.0 if self.event == WITH_OUTCOME else 1.0

    @property
    def cells(self) -> tuple[Cell, Cell]:
        """The people whose means are compared."""
        event = ALL if self.event == EQUAL else self.event
        return (self.audited, event), (self.reference, event)

    def named(self, is_of_classes: bool) -> str:
        """Return what the difference is called in a message."""
        which = f" of class {self.score_class}" if is_of_classes else ""
        return f"{DIFFERENCES[self.event]}{which} of {shown(self.audited)} against {shown(self.reference)}"


@dataclass(frozen=True, slots=True, eq=False)
class CellModel:
    """A model of the chance of belonging to a group and an event; with the group, of the event within it."""

    group: str
    event: str
    model: CodedModel

    @property
    def cell(self) -> Cell:
        """What it is the chance of."""
        return self.group, self.event

    @property
    def features(self) -> tuple[str, ...]:
        """The columns it needs."""
        return self.model.features

    def chance(self, table: Table) -> Floats:
        """Return the chances of rows of numbers and codes."""
        return np.asarray(expit(self.model.log_odds(table)))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain numbers and texts."""
        return {"group": self.group, "event": self.event} | self.model.to_dict()

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], trusted: Sequence[str] = ()) -> CellModel:
        """Return the model that `to_dict` wrote; `trusted` are types of a classifier that skops does not know."""
        is_given = "skops" in found
        model = EstimatorLogit.from_dict(found, trusted) if is_given else AdditiveLogit.from_dict(found)
        return cls(str(found["group"]), str(found["event"]), model)


def only(constraints: Sequence[Constraint], name: str) -> float | None:
    """Return a number of the only constraint; None where there are several."""
    return float(getattr(constraints[0], name)) if len(constraints) == 1 else None


def asked_classes(outcomes: int, limit: float) -> range:
    """Return the classes whose gaps are to be within the limit.

    Gaps of all classes add up to 0: one may be left out of two, and of any number where all are to be 0.
    """
    return range(1 if outcomes == 2 or limit == 0.0 else 0, outcomes)


def modelled_cells(cells: Iterable[Cell], reference: str, use_group: bool) -> list[Cell]:
    """Return the cells whose chance needs a model.

    With the group it is the event's within it, and of all people 1; without it the reference's chance among all people
    is what is left by the other groups.
    """
    unmodelled = {cell for cell in cells if cell[1] == ALL and (use_group or cell[0] == reference)}
    return [cell for cell in dict.fromkeys(cells) if cell not in unmodelled]


def gradients(
    constraints: Sequence[Constraint], chances: Mapping[Cell, Floats], mine: Mapping[str, Booleans] | None
) -> Floats:
    """Return a_c of each constraint, (C, n), from the chances of modelled cells.

    `mine` tells which rows are of each group, where the group is used.
    """
    found: dict[tuple[Cell, Cell], Floats] = {}
    for one in constraints:
        if one.cells not in found:
            if mine is None:
                pair = [_chance(cell, chances) for cell in one.cells]
            else:
                pair = [np.asarray(mine[cell[0]] * chances.get(cell, 1.0)) for cell in one.cells]
            p0, p1 = (p * e for p, e in zip(pair, overlaps(one, chances), strict=True))
            found[one.cells] = gradient(p0, p1, one.shares)
    return np.array([found[one.cells] for one in constraints])


def overlaps(one: Constraint, chances: Mapping[Cell, Floats]) -> tuple[Floats, Floats]:
    """Return how much rows of the audited group and of the reference count: at equal exempt factors, as overlap.

    With e = P(audited|E) among the two groups that is 1 − e and e: E[(S̄ − e)·W]/E[e(1 − e)] is then the difference of
    two means, and c_E of the audit.
    """
    if one.event != EQUAL:
        return np.ones(1), np.ones(1)
    p0, p1 = (_chance((group, GIVEN_EXEMPT), chances) for group in (one.audited, one.reference))
    return p1 / (p0 + p1), p0 / (p0 + p1)


def _chance(cell: Cell, chances: Mapping[Cell, Floats]) -> Floats:
    if cell in chances:
        return chances[cell]
    return np.maximum(1.0 - sum(one for (_, event), one in chances.items() if event == cell[1]), 0.0)
