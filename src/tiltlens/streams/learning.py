"""What is learnt from a sample of a stream: the membership model, and what regressions on the features tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from numpy.typing import NDArray

from tiltlens.estimators.estimate import Rows
from tiltlens.models.applied import AppliedMembership, applied_membership
from tiltlens.models.candidates import CANDIDATES
from tiltlens.models.features import Feature
from tiltlens.models.membership import Membership, chosen_membership, estimator_membership, naming
from tiltlens.paper.checks import Floats
from tiltlens.results.pairs import SAMPLED_ROWS, Learning
from tiltlens.streams.levels import Levels, design_table, numbers_of
from tiltlens.streams.plan import PairPlan
from tiltlens.streams.sample import GROUP, QUARTER, SCORE, WEIGHT


@dataclass(frozen=True, slots=True, eq=False)
class Learner:
    """Rows of both groups of a pair, in an order of their own, and the user's classifier, if any.

    Each group has as many rows as could be kept: only means within a group are asked of them.
    """

    frame: pl.DataFrame
    estimator: Any
    folds: int

    def applied(self, plan: PairPlan, seed: int) -> AppliedMembership:
        """Return the models that are then applied to all rows."""
        scores = _scores(self.frame)
        outcome = scores[:, plan.measured - plan.first_score]
        table, frame = design_table(plan.levels, self.frame), self.frame.select(plan.question.features)
        rows = _rows(self.frame, plan)
        quarter = self.frame[QUARTER].to_numpy()
        return applied_membership(rows, table, frame, outcome, quarter, self.estimator, seed)

    def learning(self, plan: PairPlan, name: str, features: Sequence[Feature], seed: int) -> Learning:
        """Return at most `SAMPLED_ROWS` of the rows, with a cross-fit of the same kind of model on them."""
        frame = pl.concat(
            [self.frame.filter(pl.col(GROUP) == one).head(SAMPLED_ROWS // 2) for one in (plan.audited, plan.reference)]
        )
        rows, scores = _rows(frame, plan), _scores(frame)
        table = _joined_table(plan.levels, features, frame)
        outcome = scores[:, plan.measured - plan.first_score]
        membership = self._membership(rows, table, frame.select(plan.question.features), name, seed)
        return Learning(rows, scores, outcome, table, membership)

    def _membership(
        self, rows: Rows, table: dict[str, NDArray[Any]], frame: pl.DataFrame, name: str, seed: int
    ) -> Membership:
        if self.estimator is not None:
            with naming(self.estimator):
                return estimator_membership(rows, self.estimator, frame, self.folds, seed)
        offered = tuple(candidate for candidate in CANDIDATES if candidate.name == name)
        return chosen_membership(rows, table, self.folds, seed, offered)


def _rows(frame: pl.DataFrame, plan: PairPlan) -> Rows:
    return Rows.of((frame[GROUP] == plan.audited).to_numpy(), frame[WEIGHT].to_numpy())


def _scores(frame: pl.DataFrame) -> Floats:
    return frame.select(name for name in frame.columns if name.startswith(SCORE)).to_numpy()


def _joined_table(
    levels: Sequence[Levels], features: Sequence[Feature], frame: pl.DataFrame
) -> dict[str, NDArray[Any]]:
    """Return what models see of features whose rare levels were joined."""
    known, table = {one.name: one for one in levels}, {}
    for feature in features:
        one = known[feature.name]
        if feature.in_membership:
            column = frame[feature.name]
            table[feature.name] = numbers_of(column) if one.has_numbers else feature.codes.place[one.codes(column)]
    return table
