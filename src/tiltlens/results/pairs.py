"""The two groups of a comparison, as the numbers of a comparison ask for them: rows in memory, or sums of a stream."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tiltlens.engines.arrays import cell_sums, moments_by_group
from tiltlens.estimators import outputs
from tiltlens.estimators.estimate import Codes, Column, Integers, Rows, RowSums
from tiltlens.estimators.shapley import compact
from tiltlens.estimators.shares import CellSums
from tiltlens.models.balance import Balance, balance
from tiltlens.models.features import Feature, design_columns
from tiltlens.models.membership import Membership, sampled_membership
from tiltlens.models.regressions import reference_expectation
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.paper.moments import GroupMoments
from tiltlens.results.profiles import People, RowPeople

SAMPLED_ROWS = 20_000  # for total shares, learned Shapley values and partners: many fits, many tables


@dataclass(frozen=True, slots=True, eq=False)
class PairSample:
    """Some of a pair's rows: their log-odds, (n, m) scores, and the codes of some features."""

    rows: Rows
    log_odds: Floats
    scores: Floats
    codes: tuple[Integers, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """Rows that regressions learn from, all or some of a pair's: scores (n, m), and a membership cross-fitted on them.

    `table` has what the models see of each feature.
    """

    rows: Rows
    scores: Floats
    outcome: Floats
    table: dict[str, NDArray[Any]]
    membership: Membership


class WithoutEquals(NamedTuple):
    """The audited people with a feature value that nobody in the reference has: their share, how many, by which."""

    share: float
    people: int
    features: list[str]


class Pair(Protocol):
    """One audited group and the reference.

    Attributes
    ----------
    rows
        What is summed over.
    scores
        W(1|x) as (n,), or (n, K).
    outcome
        The score whose means are compared: W(1|x), or of the favourable class where there are more than two.
    favourable
        Probability of the favourable outcome.
    features
        The features on these rows.
    """

    @property
    def rows(self) -> RowSums: ...
    @property
    def scores(self) -> Column: ...
    @property
    def outcome(self) -> Column: ...
    @property
    def favourable(self) -> Column: ...
    @property
    def features(self) -> tuple[Feature, ...]: ...

    def score_columns(self) -> Column:
        """Return the scores as (n, m): one column for two outcomes, else K."""
        ...

    def moments(self, log_odds: Column) -> tuple[GroupMoments, GroupMoments]:
        """Return the moments of the reference and of the audited group."""
        ...

    def smallest(self, correction: CorrectionFunction, log_odds: Column) -> float:
        """Return the least f~ of the audited people."""
        ...

    def equal_outputs(self, seed: int) -> outputs.EqualOutputsTest:
        """Return the studentised test of equal outputs."""
        ...

    def without_equals(self, names: Collection[str]) -> WithoutEquals:
        """Return the audited people with a value of these features that nobody in the reference has."""
        ...

    def balance(self, membership: Membership, expected: Column) -> Balance:
        """Return how far the membership model can be trusted; `expected` is what the features say of the outcome."""
        ...

    def joint(self, features: Sequence[Feature]) -> tuple[Codes, Integers] | None:
        """Return the joint cell of each row and the features' codes in each; None where they are too many."""
        ...

    def cell_sums(self, log_odds: Column, feature: Feature) -> CellSums:
        """Return the audited people's sums of (ℓ, W) by value of a feature."""
        ...

    def sample(self, log_odds: Column, features: Sequence[Feature], seed: int) -> PairSample:
        """Return all rows, or a seeded sample where there are many."""
        ...

    def learning(self, membership: Membership, features: Sequence[Feature], seed: int) -> Learning:
        """Return the rows that regressions learn from, where the membership model is fitted."""
        ...

    def expectation(self, membership: Membership | None, seed: int) -> Column:
        """Return E1[W|X], learnt where the membership is; a constant where nothing is learnt."""
        ...

    def people(
        self, groups: tuple[str, str], correction: CorrectionFunction, log_odds: Column, log_ratio: Column
    ) -> People:
        """Return what can be said of kinds of people in the two groups, by their names."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """A pair whose rows are in memory; `places` are the rows' places in the table."""

    rows: Rows
    scores: Floats
    outcome: Floats
    favourable: Floats
    features: tuple[Feature, ...]
    places: NDArray[np.intp]

    def score_columns(self) -> Floats:
        """As of `Pair`."""
        return outputs.check_scores(self.scores, self.rows)

    def moments(self, log_odds: Floats) -> tuple[GroupMoments, GroupMoments]:
        """As of `Pair`."""
        weights = None if (self.rows.weights == 1).all() else self.rows.weights
        reference, audited = moments_by_group(log_odds, self.scores, self.rows.audited, 2, weights)
        return reference, audited

    def smallest(self, correction: CorrectionFunction, log_odds: Floats) -> float:
        """As of `Pair`."""
        mine = self.rows.audited & (self.rows.weights > 0)
        return float(np.min(correction(log_odds[mine], self.scores[mine])))

    def equal_outputs(self, seed: int) -> outputs.EqualOutputsTest:
        """As of `Pair`."""
        return outputs.equal_outputs_test(self.rows, self.score_columns(), seed=seed)

    def without_equals(self, names: Collection[str]) -> WithoutEquals:
        """As of `Pair`."""
        alone, found = np.zeros(self.rows.audited.size, dtype=np.bool_), []
        for feature in self.features:
            if feature.name in names:
                _, reference = self.rows.counts(feature.codes, len(feature.labels))
                unknown = self.rows.audited & (reference == 0)[feature.codes]
                alone |= unknown
                found += [feature.name] if unknown.any() else []
        return WithoutEquals(self.rows.mean0(alone.astype(np.float64)), int(alone.sum()), found)

    def balance(self, membership: Membership, expected: Floats) -> Balance:
        """As of `Pair`."""
        labels = {feature.name: feature.labels for feature in self.features}
        table = design_columns(sorted(self.features, key=lambda feature: feature.name))
        return balance(self.rows, table, membership, expected, labels)

    def joint(self, features: Sequence[Feature]) -> tuple[Integers, Integers]:
        """As of `Pair`."""
        return compact(np.column_stack([feature.codes for feature in features]))

    def cell_sums(self, log_odds: Floats, feature: Feature) -> CellSums:
        """As of `Pair`."""
        mine = self.rows.audited
        scores = self.scores[mine]
        return cell_sums(log_odds[mine], scores, feature.codes[mine], len(feature.labels), self.rows.weights[mine])

    def sample_index(self, seed: int) -> Integers:
        """Return the rows that costly numbers rest on: all, or a seeded sample where there are many."""
        size = len(self.outcome)
        if size <= SAMPLED_ROWS:
            return np.arange(size)
        return np.sort(np.random.default_rng(seed).choice(size, SAMPLED_ROWS, replace=False))

    def sample(self, log_odds: Floats, features: Sequence[Feature], seed: int) -> PairSample:
        """As of `Pair`."""
        index = self.sample_index(seed)
        rows = Rows.of(self.rows.audited[index], self.rows.weights[index])
        codes = tuple(feature.codes[index] for feature in features)
        return PairSample(rows, log_odds[index], self.score_columns()[index], codes)

    def learning(self, membership: Membership, features: Sequence[Feature], seed: int) -> Learning:
        """As of `Pair`: all rows, or a seeded sample where there are many."""
        table, scores = design_columns(features), self.score_columns()
        if len(self.outcome) <= SAMPLED_ROWS:
            return Learning(self.rows, scores, self.outcome, table, membership)
        index = self.sample_index(seed)
        rows = Rows.of(self.rows.audited[index], self.rows.weights[index])
        sampled = {name: column[index] for name, column in table.items()}
        there = sampled_membership(rows, membership, index)
        return Learning(rows, scores[index], self.outcome[index], sampled, there)

    def expectation(self, membership: Membership | None, seed: int) -> Floats:
        """As of `Pair`."""
        if membership is None or membership.is_known:
            return self.rows.constant(self.rows.mean0(self.outcome))
        table = design_columns(sorted(self.features, key=lambda feature: feature.name))
        return reference_expectation(self.rows, table, self.outcome, membership.fold, seed)

    def people(
        self, groups: tuple[str, str], correction: CorrectionFunction, log_odds: Floats, log_ratio: Floats
    ) -> RowPeople:
        """As of `Pair`."""
        parts = self.rows, self.scores, self.outcome, self.favourable, self.features, self.places
        return RowPeople(groups, *parts, correction, log_odds, log_ratio)
