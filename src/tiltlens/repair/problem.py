"""The problem that a repair solves: constraints, the rows whose means they compare, and the multipliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiltlens.errors import DataError, SupportError
from tiltlens.estimators.error_rates import WITH, WITHOUT
from tiltlens.estimators.estimate import Normal
from tiltlens.estimators.influence import Booleans, Integers, Rows, cluster_codes
from tiltlens.learners.propensity import check_overlap
from tiltlens.limits import MINIMUM_ROWS, SURELY_BEYOND
from tiltlens.paper.checks import Floats, check_share
from tiltlens.repair.constraints import (
    ALL,
    EQUAL,
    EVENTS,
    Cell,
    Constraint,
    constrained_classes,
    overlap_weights,
)
from tiltlens.repair.least_change import log_scores, repaired, shifts
from tiltlens.repair.multipliers import GapProblem, decision_multipliers, gaps_of, score_multipliers
from tiltlens.repair.quantities import area
from tiltlens.repair.rows import AuditedRows
from tiltlens.sources.hashing import Hashes
from tiltlens.sources.messages import shown

MIN_IDENTICAL_PEOPLE = 10  # with equal features: a membership model of so many hardly depends on one of them


def check_limit(limit: float) -> float:
    """Return the largest gap that is allowed, as a number."""
    return check_share("max_gap", limit, "0 closes the gap.")


def constraints_for(rows: AuditedRows, criterion: str, limit: float) -> list[Constraint]:
    """Return the constraints, without multipliers, ordered by group, event and class."""
    constraints = []
    for group in rows.groups[1:]:
        for event in EVENTS[criterion]:
            sizes = [int(rows.members((name, event)).sum()) for name in (group, rows.reference)]
            if min(sizes) < MINIMUM_ROWS:
                raise DataError(
                    f"{criterion!r} needs at least {MINIMUM_ROWS} people of each group, got {sizes[0]} of "
                    f"{shown(group)} and {sizes[1]} of {shown(rows.reference)}.",
                    "merge groups, or bring more rows.",
                )
            which = EQUAL if event == ALL and rows.exempt else event
            classes = constrained_classes(rows.outcomes, limit)
            constraints += [Constraint(group, rows.reference, which, y) for y in classes]
    return constraints


@dataclass(frozen=True, slots=True, eq=False)
class RepairProblem:
    """Constraints on the gaps of some rows.

    Attributes
    ----------
    rows
        The rows, with their scores.
    constraints
        The constraints, with the shares of the people whom they count.
    members
        The rows of the audited group and of the reference that each constraint compares.
    measures
        (C, n): the weight of each row in each gap, Σ_n measures_cn·W_n.
    limit, threshold
        The largest gap that is allowed, and the threshold of decisions; None for scores.
    """

    rows: AuditedRows
    constraints: tuple[Constraint, ...]
    members: tuple[tuple[Booleans, Booleans], ...]
    measures: Floats
    limit: float
    threshold: float | None

    @classmethod
    def of(
        cls,
        rows: AuditedRows,
        constraints: Sequence[Constraint],
        probabilities: Mapping[Cell, Floats],
        limit: float,
        threshold: float | None,
    ) -> RepairProblem:
        """Return the problem; at equal exempt factors rows are weighted by the probabilities given these."""
        counted, members, measures, total = [], [], [], float(rows.weights.sum())
        for constraint in constraints:
            first, second = (rows.members(cell) for cell in constraint.cells)
            weights = rows.weights * np.where(first, *overlap_weights(constraint, probabilities))
            sums = float(weights @ first), float(weights @ second)
            counted.append(replace(constraint, shares=(sums[0] / total, sums[1] / total)))
            members.append((first, second))
            measures.append(weights * first / sums[0] - weights * second / sums[1])
        return cls(rows, tuple(counted), tuple(members), np.array(measures), limit, threshold)

    def solve(self, a: Floats) -> tuple[tuple[Constraint, ...], Floats]:
        """Return the constraints with their multipliers, and the scores after; gradients `a` are (C, n)."""
        scores, share, outcomes = self.rows.scores, self.rows.weights / self.rows.weights.sum(), self.rows.outcomes
        classes = np.array([constraint.score_class for constraint in self.constraints])
        wholes = np.arange(len(classes)).reshape(-1, outcomes) if outcomes > 2 and self.limit > 0.0 else ()
        problem = GapProblem(
            logs=log_scores(scores),
            gradients=a,
            classes=classes,
            measures=self.measures,
            modelled=(a - (a @ share)[:, None]) * share,
            shares=share,
            limit=self.limit,
            names=[constraint.describe(outcomes > 2) for constraint in self.constraints],
            wholes=tuple(wholes),
            clusters=cluster_codes(self.rows.clusters),
        )
        if self.threshold is None:
            t = score_multipliers(problem)
        else:
            t = decision_multipliers(problem, scores, self.threshold)
        before, after = (
            repaired(scores, shifts(part * t, a, classes, outcomes), self.threshold) for part in (0.0, 1.0)
        )
        gaps = [gaps_of(own, self.measures, classes).tolist() for own in (before, after)]
        errors = [problem.errors(own).tolist() for own in (before, after)]
        return tuple(map(_with_multiplier, self.constraints, t.tolist(), *gaps, *errors)), after

    def separations(self, a: Floats) -> list[Normal]:
        """Return how well the gradients `a`, (C, n), separate the people of each constraint: areas under the curve.

        Raise where they separate them perfectly: a repair without the group would be a repair with it.
        """
        weights, clusters, areas = self.rows.weights, self.rows.clusters, []
        for (first, second), own in zip(self.members, a, strict=True):
            index = np.flatnonzero(first | second)
            pair = Rows.of(first[index], weights[index], None if clusters is None else clusters[index])
            share = pair.weights / pair.weights.sum()
            areas.append(area(pair, own[index], np.where(pair.audited, WITH, WITHOUT), share).normal())
            check_overlap(areas[-1].value)
        return areas


def _with_multiplier(
    constraint: Constraint, t: float, before: float, after: float, se_before: float, se: float
) -> Constraint:
    first, last = constraint.sign * before, constraint.sign * after
    return replace(constraint, multiplier=t, gap_before=first, gap_after=last, se_before=se_before, se=se)


def check_separations(constraints: Sequence[Constraint], areas: Sequence[Normal], hint: str) -> None:
    """Raise where a multiplier rests on features that may not separate the groups: it would follow chance."""
    for constraint, auc in zip(constraints, areas, strict=False):
        if constraint.multiplier and auc.value - 0.5 < SURELY_BEYOND * auc.se:
            groups = f"{shown(constraint.audited)} and {shown(constraint.reference)}"
            raise SupportError(
                f"The features may not separate {groups}: on rows that the membership model was not fitted on, its "
                f"area under the curve is {auc.value:.3f} (standard error {auc.se:.3f}). A repair without the group "
                "would move scores by chance.",
                hint,
            )


def many_alike(hashes: Hashes, clusters: Integers | None) -> Booleans:
    """Return which rows have the features, by their `hashes`, of at least nine other people."""
    _, cells = np.unique(hashes, return_inverse=True)
    codes = cluster_codes(clusters)
    people = cells if codes is None else np.unique(np.stack([cells, codes]), axis=1)[0]
    return np.asarray(np.bincount(people)[cells] >= MIN_IDENTICAL_PEOPLE)
