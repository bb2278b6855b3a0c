"""Membership models fitted on a sample of rows, to be applied to all the others, batch after batch.

A pairing needs two models that share no rows. The sample is cut into four quarters of both groups alike, and each of
the three ways to join quarters to halves gives a pairing. Rows outside the sample are strangers to all of them. A row
of the sample is known to one half of each pairing, and is shown to the model of that half's other quarter instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from tiltlens.estimators.estimate import Booleans, Integers, Rows
from tiltlens.models.candidates import (
    CANDIDATES,
    Candidate,
    FittedModel,
    chosen,
    every_log_odds,
    fit_candidate,
    trial,
)
from tiltlens.models.design import Encoding, Table, code_columns, encoded_rows, encoding
from tiltlens.models.membership import (
    TRIED_PARTS,
    Part,
    PartFit,
    encoded_sample,
    estimator_log_odds,
    fitted_estimator,
    naming,
    prior_log_odds,
)
from tiltlens.models.regressions import TREES_HELP, Ridge, boosted_trees, ridge
from tiltlens.paper.checks import Floats
from tiltlens.progress import stage
from tiltlens.threads import steps_in_threads

QUARTERS = 4
HALVES: tuple[Part, ...] = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))  # of the quarters; two make a pairing
PAIRINGS = len(HALVES) // 2
ONE_AT_A_TIME = Lock()  # a user's estimator may not be made for several threads


class Models(Protocol):
    """Models of several parts of the sample."""

    def log_odds(self, table: Table, frame: pl.DataFrame) -> Floats:
        """Return each model's log-odds of being audited at rows given as coded features and as a frame, (models, n)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ChosenModels:
    """Models of one candidate."""

    encoder: Encoding
    models: tuple[FittedModel, ...]

    def log_odds(self, table: Table, frame: pl.DataFrame) -> Floats:
        """As of `Models`."""
        return every_log_odds(self.models, self.encoder, table, slice(None))


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorModels:
    """Clones of a user's classifier."""

    models: tuple[Any, ...]

    def log_odds(self, table: Table, frame: pl.DataFrame) -> Floats:
        """As of `Models`."""
        with ONE_AT_A_TIME, naming(self.models[0]):
            return np.array([estimator_log_odds(model, frame) for model in self.models])


@dataclass(frozen=True, slots=True, eq=False)
class LearntOutcome:
    """μ(x) = E1[W|X=x]: ridge regression, then boosted trees on what it leaves where they help."""

    linear: Ridge
    trees: Any

    def expected(self, table: Table) -> Floats:
        """Return μ at some rows."""
        means = self.linear.means(table, slice(None))
        if self.trees is None:
            return means
        return np.asarray(means + self.trees.predict(self.linear.encoder.raw(table, slice(None))))


class Known(NamedTuple):
    """Which of some rows are in the sample, and in which quarter of it each of those is."""

    place: Integers
    quarter: Integers


NOBODY = Known(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp))


@dataclass(frozen=True, slots=True, eq=False)
class AppliedMembership:
    """What a sample has learnt of a pair of groups. It travels to every worker.

    Attributes
    ----------
    halves, quarters
        The models of the halves and, last, of the whole sample; those of the quarters.
    outcomes
        μ, learnt from each of the first two halves.
    parts
        What the halves' models were fitted on.
    prior, rows
        The sample's log Σw[S=0]/Σw[S=1], and its size.
    """

    name: str
    halves: Models
    quarters: Models
    outcomes: tuple[LearntOutcome, LearntOutcome]
    parts: tuple[PartFit, ...]
    prior: float
    rows: int

    def log_ratios(self, table: Table, frame: pl.DataFrame, known: Known = NOBODY) -> Floats:
        """Return ℓ of each half's model, of one that does not know the row, and last of the whole sample's."""
        if not frame.height:  # models take offence at no rows
            return np.empty((len(HALVES) + 1, 0))
        found = self.halves.log_odds(table, frame)
        if known.place.size:
            others = self.quarters.log_odds(_rows_of(table, known.place), frame[known.place])
            for row, half in zip(found, HALVES, strict=False):
                for own, other in (half, half[::-1]):
                    here = known.quarter == own
                    row[known.place[here]] = others[other, here]
        return found - self.prior

    def expected(self, table: Table, known: Known = NOBODY) -> Floats:
        """Return μ: the mean of both halves' or, of a row of the sample, that of the half which does not know it."""
        if not len(next(iter(table.values()))):
            return np.empty(0)
        first, second = (outcome.expected(table) for outcome in self.outcomes)
        means = 0.5 * (first + second)
        in_first = np.isin(known.quarter, HALVES[0])
        means[known.place] = np.where(in_first, second[known.place], first[known.place])
        return np.asarray(means)


def _rows_of(table: Table, index: Integers) -> dict[str, Any]:
    return {name: column[index] for name, column in table.items()}


def applied_membership(
    rows: Rows,
    table: Table,
    frame: pl.DataFrame,
    outcome: Floats,
    quarter: Integers,
    estimator: Any = None,
    seed: int = 0,
) -> AppliedMembership:
    """Return models of a sample: of tiltlens's choice, or clones of a classifier, which sees `frame`."""
    inside = [np.isin(quarter, half) for half in HALVES]
    alone = [quarter == q for q in range(QUARTERS)]
    encoder = encoding(table, encoded_rows(rows.audited.size, seed))
    with stage(0.0, 0.9):
        if estimator is None:
            fitted = _chosen(rows, table, encoder, inside, alone, seed)
        else:
            fitted = _cloned(rows, frame, estimator, inside, alone)
    with stage(0.9, 1.0):
        outcomes = _learnt_outcomes(rows, table, encoder, outcome, inside[:2], seed)
    return AppliedMembership(*fitted[:3], outcomes, fitted[3], prior_log_odds(rows), rows.audited.size)


def _chosen(
    rows: Rows, table: Table, encoder: Encoding, inside: Sequence[Booleans], alone: Sequence[Booleans], seed: int
) -> tuple[str, Models, Models, tuple[PartFit, ...]]:
    size = rows.audited.size
    whole = encoded_sample(rows, table, encoder, np.arange(size))
    samples, quarters = ([whole.rows(one) for one in some] for some in (inside, alone))
    trials = steps_in_threads(lambda own: trial(own, CANDIDATES, seed), samples[:TRIED_PARTS], size)
    best: Candidate = chosen(trials, CANDIDATES)
    fitted = steps_in_threads(lambda own: fit_candidate(best, own, seed), (whole, *samples, *quarters), size)
    halves = ChosenModels(encoder, (*fitted[1 : 1 + len(HALVES)], fitted[0]))
    found = zip(HALVES, samples, [*trials, *[None] * (len(samples) - len(trials))], strict=True)
    parts = tuple(PartFit(half, len(own.audited), one) for half, own, one in found)
    return best.name, halves, ChosenModels(encoder, tuple(fitted[1 + len(HALVES) :])), parts


def _cloned(
    rows: Rows, frame: pl.DataFrame, estimator: Any, inside: Sequence[Booleans], alone: Sequence[Booleans]
) -> tuple[str, Models, Models, tuple[PartFit, ...]]:
    everyone = np.ones(rows.audited.size, dtype=np.bool_)
    with naming(estimator):
        halves, quarters = (
            EstimatorModels(tuple(fitted_estimator(rows, estimator, frame, train) for train in trains))
            for trains in ((*inside, everyone), alone)
        )
    parts = tuple(PartFit(half, int(train.sum()), None) for half, train in zip(HALVES, inside, strict=True))
    return type(estimator).__name__, halves, quarters, parts


def _learnt_outcomes(
    rows: Rows, table: Table, encoder: Encoding, outcome: Floats, halves: Sequence[Booleans], seed: int
) -> tuple[LearntOutcome, LearntOutcome]:
    """Return μ of both halves; trees are slow to apply, and stay where they explain something of the other half."""
    trains = [np.flatnonzero(half & ~rows.audited) for half in halves]
    first, second = (_learnt_outcome(rows, table, encoder, outcome, train, seed) for train in trains)
    gains = [
        _gain(one, _rows_of(table, test), outcome[test]) for one, test in ((first, trains[1]), (second, trains[0]))
    ]
    if float(np.mean(gains)) > TREES_HELP:
        return first, second
    return replace(first, trees=None), replace(second, trees=None)


def _learnt_outcome(
    rows: Rows, table: Table, encoder: Encoding, outcome: Floats, train: Integers, seed: int
) -> LearntOutcome:
    w = rows.weights[train] / rows.weights[train].mean()
    linear, left = ridge(encoder, table, outcome, train, w)
    trees = boosted_trees(encoder.raw(table, train), code_columns(table), left, w, seed)
    return LearntOutcome(linear, trees)


def _gain(learnt: LearntOutcome, table: Table, outcome: Floats) -> float:
    """Return the part of the outcome's variance that trees explain beyond the ridge regression."""
    spread = float(np.var(outcome))
    without, within = (np.mean((outcome - one.expected(table)) ** 2) for one in (replace(learnt, trees=None), learnt))
    return float(without - within) / spread if spread > 0 else 0.0
