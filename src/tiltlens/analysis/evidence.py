"""What an audit saw of two groups: sums over all rows, the sample's rows, and what was fitted on them.

Every number of a comparison is a pure function of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiltlens.estimators.feature_gap import CellSums
from tiltlens.estimators.influence import Integers, Rows
from tiltlens.estimators.outputs import Scores
from tiltlens.estimators.sets import CellSets, RidgeSets
from tiltlens.learners.design import Table
from tiltlens.learners.propensity import Membership
from tiltlens.learners.regressions import Expectations
from tiltlens.paper.checks import Floats
from tiltlens.paper.moments import GroupMoments
from tiltlens.rows.amounts import PROBABILITY, Unit
from tiltlens.rows.compared_rows import SoftRows
from tiltlens.rows.features import Feature
from tiltlens.rows.rescoring import AskedModel
from tiltlens.sources.hashing import Hashes

NO_MODEL = "none"  # of membership: no features, and no column of it


@dataclass(frozen=True, slots=True, eq=False)
class FeatureCells:
    """A feature by all its values: the sample's codes, and the sums over all rows; None where values are numbers."""

    codes: Integers
    sums: CellSums


@dataclass(frozen=True, slots=True, eq=False)
class TiltedMeans:
    """log E1[e^ℓ], and the means of (ℓ, W_1, …) in the reference with the weights e^ℓ: E0's, where ℓ is right."""

    log_mass: float
    means: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RowKeys:
    """By what the sample's rows are known in another audit.

    Attributes
    ----------
    hashes
        Of what each row holds beside its scores; of its cluster, where clusters were given.
    numbers
        In the table; None where rows have none, or belong to clusters.
    are_ids
        Whether hashes are of named clusters.
    """

    hashes: Hashes
    numbers: Integers | None
    are_ids: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Periods:
    """Periods: their names, each row's place among them (one after the last: missing), and sums over all rows."""

    labels: tuple[str, ...]
    codes: Integers
    sums: CellSums


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One audited group and the reference.

    Attributes
    ----------
    audited, reference, comparisons
        Who they are, and how many comparisons are made at once.
    rows, everyone
        The sample's rows; and the same standing for all rows, for what comes from sums over these.
    scores, outcome, favourable
        All scores; the score whose gap is measured, W(1|x) or that of the favourable class; the favourable outcome's.
        Of amounts: their deciles; the amount; the same.
    channel
        W(1|x) as (n,), or (n, K), as the correction function takes it.
    unit, wants_less
        What the outcome is measured in; and whether a person wants a small amount.
    features, cells, table
        The features on these rows; by all their values, where they are discrete; and as models see them.
    row_numbers
        Of the sample's rows in the table, by which they are put back in order.
    row_keys
        By which they are known in another audit.
    membership, log_odds, membership_name
        Cross-fitted or given membership, None for plug-in values; the log-odds of one fit on all rows of the sample;
        what the model is called. Without features or a column of it, everybody has the prior's log-odds.
    moments
        Of (log-odds, scores) in the audited and in the reference group.
    tilted
        The reference weighted by e^ℓ over all rows, ℓ being the given log-odds; None where they are fitted.
    expectations, sets, shown
        E[W|X]; the regressions on sets of features; and the places of the rows whose influence these have. None where
        no feature can be regressed on.
    model
        The audited model, which makes the scores from the features alone; None where scores were given.
    is_sampled, copies
        Whether there are more rows than the sample's; and how many of the sample's repeat another one by no accident.
    periods
        Where they are asked for.
    truth, outcomes, criterion
        The code of each row's true outcome, and the sums over all rows by outcome, None where none is given; and the
        error rate whose difference is audited.
    is_decisions
        Whether scores are decisions, all of them 0 or 1.
    people, largest_weight
        How many each of the two groups has, of all rows; and the largest weight as it was given, which is 1 here.
    soft
        The chances of the two groups where they are known by probabilities.
    given
        The conditions that all rows meet, as texts by column.
    standing
        For how much of all rows each stands, where the sample has other shares of the groups; None where weights say.
    exempt
        The features that were named as lawful factors.
    notes
        What to know of the data and the model, whoever is compared.
    """

    audited: str
    reference: str
    comparisons: int
    rows: Rows
    everyone: Rows
    scores: Scores
    outcome: Scores
    favourable: Scores
    channel: Floats
    features: tuple[Feature, ...]
    cells: dict[str, FeatureCells]
    table: Table
    row_numbers: Integers
    membership: Membership | None
    log_odds: Floats
    membership_name: str
    moments: tuple[GroupMoments, GroupMoments]
    tilted: TiltedMeans | None
    expectations: Expectations | None
    sets: CellSets | RidgeSets | None
    shown: Integers
    model: AskedModel | None
    is_sampled: bool
    copies: int
    row_keys: RowKeys
    people: tuple[float, float]
    largest_weight: float = 1.0
    truth: Integers | None = None
    periods: Periods | None = None
    outcomes: CellSums | None = None
    criterion: str | None = None
    is_decisions: bool = False
    soft: SoftRows | None = None
    standing: Floats | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    unit: Unit = PROBABILITY
    wants_less: bool = False
    exempt: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def score_is_of_features(self) -> bool:
        """Whether the score is made from the features alone, by the audited model itself."""
        return self.model is not None
