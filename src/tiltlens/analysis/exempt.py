"""The gap in two parts: what goes through the exempt factors E, gap − c_E, and what is left at equal ones, c_E."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiltlens.analysis.evidence import Evidence
from tiltlens.analysis.influence_matching import RowErrors
from tiltlens.errors import DataError
from tiltlens.estimators.estimate import Normal
from tiltlens.estimators.feature_gap import hidden_share
from tiltlens.estimators.influence import InfluenceEstimate
from tiltlens.estimators.outputs import gap, unseen_se
from tiltlens.estimators.sensitivity import bias_scale
from tiltlens.estimators.sets import covariance
from tiltlens.limits import HIDDEN, OF_PAIRINGS
from tiltlens.paper.checks import Floats
from tiltlens.sources.messages import shown


class ExemptParts(NamedTuple):
    """The two parts of the gap, c_E with 𝒮, by which an omitted factor may move it, and the errors of both by rows."""

    through: Normal
    at_equal: Normal
    measured: InfluenceEstimate
    scale: InfluenceEstimate
    of_through: RowErrors
    of_at_equal: RowErrors


def exempt_parts(evidence: Evidence) -> ExemptParts | None:
    """Return gap − c_E and c_E, where there is an E; c_E is that of the regressions on sets of features.

    The gap is that of all rows. With f the part of a group's rows that the regressions saw, its covariance with c_E is
    f times that within these rows, so that Var(gap − c_E) = Σ (1 − f)·IF_c² + f·(IF_gap − IF_c)².
    """
    if not evidence.question.exempt or evidence.nuisances.sets is None:
        return None
    _check_values(evidence)
    sets, gap_score = evidence.nuisances.sets, evidence.score
    (coefficient,), between = sets.coefficients([exempt_places(evidence)])
    if coefficient.is_separated:
        raise DataError(
            "`exempt` must leave people of both groups who are equal in it, got features that together separate "
            f"{shown(evidence.question.audited)} and {shown(evidence.question.reference)} completely.",
            "name fewer of them.",
        )
    population, at = evidence.population, sets.at
    # f = n/N, with weights Σ of squared shares of all rows over those of the rows regressed on.
    seen = (min(population.square0 / at.square0, 1.0), min(population.square1 / at.square1, 1.0))  # f of either group
    unseen = tuple(1.0 - f for f in seen)

    def influence(u: Floats, v: Floats, parts: tuple[float, ...] = (1.0, 1.0)) -> Floats:
        return at.influence(math.sqrt(parts[0]) * u, math.sqrt(parts[1]) * v)

    left, score = coefficient.half, gap_score.column[evidence.nuisances.influence_rows]
    columns = np.column_stack(
        [influence(left, left), influence(left, left, unseen), influence(score - left, -score - left, seen)]
    )
    # Σ (1 − f)·IF_c² + f·(IF_gap − IF_c)²: outside the n rows the gap's error is independent of c_E's.
    errors = np.diag(covariance(columns, np.column_stack([between, between, np.zeros_like(between)])))
    constant = unseen_se(population, gap_score)  # of groups that all have one decision
    whole = gap(population, gap_score).value
    of_pairings = math.sqrt(OF_PAIRINGS / len(between)) * between[:, 0]
    return ExemptParts(
        Normal(whole - coefficient.value, math.sqrt(errors[1] + errors[2])).with_extra_se(*constant),
        Normal(coefficient.value, math.sqrt(errors[0])).with_extra_se(*constant),
        coefficient.estimate(at),
        bias_scale(at, coefficient),
        RowErrors(columns[:, 1:], of_pairings, constant),
        RowErrors(columns[:, :1], -of_pairings, constant),
    )


def exempt_places(evidence: Evidence) -> list[int]:
    """Return the places of the exempt factors among the features that are regressed on."""
    return [number for number, name in enumerate(evidence.table) if name in evidence.question.exempt]


def _check_values(evidence: Evidence) -> None:
    """Raise where people cannot be held equal in an exempt factor: it has too many values for the rows."""
    pooled = () if evidence.nuisances.sets is None else evidence.nuisances.sets.pooled
    for name in evidence.question.exempt:
        cells = evidence.cells.get(name)
        if name in pooled or (cells is not None and hidden_share(cells.sums) > HIDDEN):
            raise DataError(
                "`exempt` must name features with few enough values for people to be equal in them, got "
                f"{shown(name)} for the {evidence.population.count0:,} rows of {shown(evidence.question.audited)}.",
                "group its values, add rows, or leave small groups out with `audited`.",
            )
