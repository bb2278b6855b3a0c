"""How the rows of a pair of groups are summed, and those rows in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations_with_replacement

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.estimators.crossfit import Pairing
from tiltlens.estimators.estimate import Integers
from tiltlens.estimators.summed import Exponents
from tiltlens.paper.checks import Floats
from tiltlens.streams.fitted import VARIABLES, Fitted, Norms, fitted_powers, mean_log_ratio, norms
from tiltlens.streams.levels import Levels, design_table
from tiltlens.streams.reading import Question, reading
from tiltlens.streams.sample import SampleRows, single_hashes


@dataclass(frozen=True, slots=True, eq=False)
class PairPlan:
    """How the rows of one audited group and the reference are summed; it travels to every worker.

    Attributes
    ----------
    prior
        logit of the audited group's share.
    top
        The largest log-odds.
    pivot
        What is subtracted from (ℓ, W_1, …) before powers are taken.
    slopes
        Of T = Σ slope·W, the output's part of g, where there are more than two outcomes.
    favourable
        The column of the score whose means are compared.
    is_weighted
        Whether weights differ from 1.
    has_joint
        Whether to keep the joint cells of all features.
    centres
        Near the means of the numeric features.
    fitted
        The membership model, where it is not given as a column.
    """

    question: Question
    audited: str
    reference: str
    levels: tuple[Levels, ...]
    prior: float
    top: float
    pivot: Floats
    slopes: Floats | None
    favourable: int
    is_weighted: bool
    has_joint: bool
    centres: tuple[float, ...]
    fitted: Fitted | None = None

    @property
    def outcomes(self) -> int:
        """Number of score columns."""
        return len(self.pivot) - 1

    @property
    def known_variables(self) -> int:
        """ℓ, T where there are more than two outcomes, the scores, e^ℓ."""
        return self.first_score + self.outcomes + 1

    @property
    def variables(self) -> int:
        """The same and, after them, those of a fitted membership model."""
        return self.known_variables + (0 if self.fitted is None else VARIABLES)

    @property
    def first_score(self) -> int:
        """The place of the first score among the variables."""
        return 1 + (self.slopes is not None)

    @property
    def measured(self) -> int:
        """The place of the score whose gap is measured."""
        return self.first_score + (self.favourable if self.outcomes > 1 else 0)

    def exponents(self) -> tuple[Exponents, ...]:
        """Return every power that an influence function or a product of two of them holds, of known columns first."""
        known = self.known_exponents()
        if self.fitted is None:
            return known
        scores = range(self.first_score, self.first_score + self.outcomes)
        found = fitted_powers(self.known_variables, 1, scores)
        return (*known, *self._sorted({*(self._power(*places) for places in found)} - {*known}))

    def _power(self, *places: int) -> Exponents:
        return tuple(places.count(place) for place in range(self.variables))

    def _sorted(self, exponents: set[Exponents]) -> tuple[Exponents, ...]:
        return tuple(sorted(exponents, key=lambda e: (sum(e), e)))

    def known_exponents(self) -> tuple[Exponents, ...]:
        """Return the powers that serve a known membership, and joint cells of any."""
        scores = range(self.first_score, self.first_score + self.outcomes)
        both = range(self.first_score + (self.slopes is None))  # ℓ and T; with two outcomes T is a multiple of W
        basis = [(), *((place,) for place in {*both, *scores}), *combinations_with_replacement(both, 2)]
        basis += [(self.measured, self.measured)]
        products = {tuple(sorted(one + two)) for one, two in combinations_with_replacement(dict.fromkeys(basis), 2)}
        ratio, w = self.known_variables - 1, self.measured
        products |= {(ratio,), (w, ratio), (ratio, ratio), (w, ratio, ratio), (w, w, ratio, ratio)}
        return self._sorted({self._power(*places) for places in products})


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """The features of some rows, whose codes are made when they are first asked for."""

    levels: tuple[Levels, ...]
    table: pl.DataFrame

    @cached_property
    def codes(self) -> list[Integers]:
        """Of each feature."""
        return [levels.codes(self.table[levels.name]) for levels in self.levels]

    def at(self, places: Integers) -> FeatureTable:
        """Return the features of the rows at some places."""
        return FeatureTable(self.levels, self.table[pl.Series(places, dtype=pl.UInt32)])


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    """The rows of a pair in a batch.

    Attributes
    ----------
    log_odds, log_ratio
        Of being audited, and the same without the prior; cross-fitted where a model is fitted.
    scores
        (n, m).
    pairings, expect
        Of a fitted model; and what tells what the features lead to expect of the score that is measured.
    """

    audited: NDArray[np.bool_]
    weights: Floats
    log_odds: Floats
    log_ratio: Floats
    scores: Floats
    features: FeatureTable
    pairings: Sequence[Pairing] = ()
    expect: Callable[[], Floats] | None = None


def pair_batch(plan: PairPlan, table: pl.DataFrame) -> PairBatch:
    """Return the rows of the pair in a batch."""
    found = reading(plan.question, table)
    rows, weights, log_odds, scores = found.table, found.weights, found.log_odds, found.scores
    audited, reference = found.members(plan.audited, plan.reference)
    mine = audited | reference
    if not mine.all():
        rows = rows.filter(mine)
        audited, weights, log_odds, scores = audited[mine], weights[mine], log_odds[mine], scores[mine]
    columns = scores[:, None] if scores.ndim == 1 else scores
    features = FeatureTable(plan.levels, rows)
    batch = PairBatch(audited, weights, log_odds, log_odds - plan.prior, columns, features)
    return batch if plan.fitted is None else _judged(plan, plan.fitted, batch)


def _judged(plan: PairPlan, fitted: Fitted, batch: PairBatch) -> PairBatch:
    """Return the rows with what a fitted model says of them."""
    table = batch.features.table
    design, features = design_table(plan.levels, table, batch.features.codes), table.select(plan.question.features)
    labels = pl.Series([plan.reference, plan.audited])
    weights = batch.weights if plan.is_weighted else None
    rows = SampleRows(features, batch.audited.astype(np.int64), labels, weights, batch.log_odds, batch.scores.T)
    known = fitted.known(single_hashes(rows))
    *halves, whole = fitted.applied.log_ratios(design, features, known)
    pairs = fitted.pairings(batch.audited, halves)
    return replace(
        batch,
        log_odds=whole + plan.prior,
        log_ratio=mean_log_ratio(pairs),
        pairings=pairs,
        expect=partial(fitted.applied.expected, design, known),
    )


def normed(plan: PairPlan, table: pl.DataFrame) -> Norms:
    """Return what one batch adds to the sums that normalise a fitted membership model."""
    rows = pair_batch(plan, table)
    return norms(rows.audited, rows.weights, rows.log_odds, rows.pairings)
