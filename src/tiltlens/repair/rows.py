"""The audited rows, as a repair and a search for alternatives need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.paper.checks import Floats
from tiltlens.repair.coded_features import feature_table
from tiltlens.repair.constraints import ALL, OUTCOMES, Cell, SoftChange
from tiltlens.repair.row_checks import count_duplicates, duplicate_clusters
from tiltlens.results.audit import Audit
from tiltlens.results.comparison import Comparison
from tiltlens.results.parts import NoRows, needs_rows
from tiltlens.results.profiles import SoftScores
from tiltlens.rows.features import Feature
from tiltlens.rows.measures import ScoreType
from tiltlens.rows.rescoring import AskedModel
from tiltlens.rows.sampled_rows import SampledRows


@dataclass(frozen=True, slots=True, eq=False)
class AuditedRows:
    """The audited rows of two or more groups."""

    # The reference, then the audited groups; and the position of each row's group among them
    groups: tuple[str, ...]
    codes: Integers
    # Sample weights, and the cluster of each row; None where each row is a cluster of its own
    weights: Floats
    clusters: Integers | None
    # Scores are W(1|x), or (n, K), or amounts; outcomes are None where the audit had none
    features: Sequence[Feature]
    scores: Floats
    outcome: Integers | None = None
    cost: Floats | None = None  # the observed cost of amounts, NaN where it is missing; None where none is given
    model: AskedModel | None = None  # the audited model, where it can predict again
    given: Mapping[str, str] = field(default_factory=dict)  # the conditions that all rows meet, as texts by column
    favours_low: bool = False  # whether the favourable outcome is 0: ratios are then those of low scores
    exempt: tuple[str, ...] = ()  # the exempt factors of the audit
    # By audited group, a function that returns the estimates of the gap of other scores; empty where groups are
    # observed
    soft: Mapping[str, SoftScores] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        """The rows of the reference and the first audited group."""
        return Rows.of(self.codes == 1, self.weights, self.clusters)

    @property
    def reference(self) -> str:
        """The group that others are compared with."""
        return self.groups[0]

    @property
    def outcomes(self) -> int:
        """The number of classes that the scores are of."""
        return 2 if self.scores.ndim == 1 else self.scores.shape[1]

    def take(self, index: Integers) -> AuditedRows:
        """Return some of the rows."""
        clusters, outcome = (None if column is None else column[index] for column in (self.clusters, self.outcome))
        return replace(
            self,
            codes=self.codes[index],
            weights=self.weights[index],
            clusters=clusters,
            features=[feature.rows(index) for feature in self.features],
            scores=self.scores[index],
            outcome=outcome,
            cost=None if self.cost is None else self.cost[index],
            model=None if self.model is None else self.model.rows(index),
        )

    def with_duplicates(self) -> tuple[AuditedRows, list[str]]:
        """Return the rows with duplicates as clusters, where no clusters are given, and a note.

        A model that was fitted on a duplicate of a row has seen its group and its outcome.
        """
        if self.clusters is not None:
            return self, []
        clusters = duplicate_clusters(feature_table(self.features), self.codes, self.outcome)
        if clusters is None:
            return self, []
        count = count_duplicates(clusters)
        note = f"{count:,} rows are duplicates in every feature; rows with equal features count as one person"
        return replace(self, clusters=clusters), [note]

    def soft_estimates(self, after: Floats, threshold: float | None) -> dict[str, SoftChange]:
        """Return the estimates of each unobserved group's gap before and after; none for several classes."""
        before = self.scores if threshold is None else (self.scores >= threshold).astype(np.float64)
        estimates = {}
        for group, estimate in self.soft.items() if after.ndim == 1 else ():
            index = self.members((group, ALL)) | self.members((self.reference, ALL))
            estimates[group] = SoftChange(estimate(before[index]), estimate(after[index]))
        return estimates

    def members(self, cell: Cell) -> Booleans:
        """Return which rows belong to a group and an event."""
        group, event = cell
        of_group = np.asarray(self.codes == self.groups.index(group))
        return of_group if event == ALL or self.outcome is None else of_group & (self.outcome == OUTCOMES[event])


def audited_rows(source: Comparison | Audit, action: str, use_group: bool = False) -> AuditedRows:
    """Return the rows of a comparison, or of all comparisons of an audit, after checks that scores may be changed."""
    if isinstance(source, Comparison):
        _check(source, action, use_group)
        return _comparison_rows(source, action)
    comparisons = source.comparisons.values()
    for comparison in comparisons:
        _check(comparison, action, use_group)
    rows = source._rows
    if rows is None:
        raise needs_rows(action)
    parts = [_comparison_rows(comparison, action) for comparison in comparisons]
    identifying = {feature.name for part in parts for feature in part.features if feature.is_group}
    return replace(
        parts[0],
        groups=rows.groups,
        codes=rows.group,
        weights=rows.sampling_weight,
        clusters=rows.cluster,
        features=[replace(own, is_group=own.is_group or own.name in identifying) for own in rows.features],
        scores=_outputs(rows),
        outcome=rows.y_true,
        cost=rows.cost,
        model=None,
        soft={group: estimate for part in parts for group, estimate in part.soft.items()},
    )


def is_of_amounts(source: Comparison | Audit) -> bool:
    """Return whether amounts were audited, not scores."""
    comparisons = [source] if isinstance(source, Comparison) else source.comparisons.values()
    return any(comparison.scale.score_type == ScoreType.AMOUNT for comparison in comparisons)


def _outputs(rows: SampledRows) -> Floats:
    """Return the scores of rows, or their amounts."""
    return rows.unit.level(rows.score) if rows.unit.is_amount else rows.scores


def _comparison_rows(comparison: Comparison, action: str) -> AuditedRows:
    profiles = comparison._profiles
    if isinstance(profiles, NoRows):
        raise needs_rows(action)
    audited, reference = profiles.groups
    return AuditedRows(
        groups=(reference, audited),
        codes=profiles.rows.audited.astype(np.intp),
        weights=profiles.sampled.sampling_weight,
        clusters=profiles.rows.clusters,
        features=profiles.features,
        scores=_outputs(profiles.sampled),
        outcome=profiles.y_true,
        cost=profiles.sampled.cost,
        model=profiles.model,
        given=profiles.given,
        favours_low=not np.array_equal(profiles.favourable, profiles.score),
        exempt=comparison.gap_parts.exempt,
        soft={} if profiles.soft is None else {audited: profiles.soft},
    )


def _check(comparison: Comparison, action: str, use_group: bool) -> None:
    """Raise where the audit has no scores of all people that could be changed, or no group that could be used."""
    is_amount = comparison.scale.score_type == ScoreType.AMOUNT
    if is_amount and action != "repair":
        raise DataError(f"Amounts have no `{action}`, which needs scores between 0 and 1.", "audit a score.")
    if comparison.scale.metric is not None:
        raise DataError(
            f"`{action}` needs an audit without a `metric`, got one of the {comparison.scale.metric!r}.",
            f"audit all rows with outcome=, and repair with metric={comparison.scale.metric!r}.",
        )
    if is_amount and comparison.unobserved_group is not None:
        raise DataError(
            "The discrimination-free price needs observed groups, but these are known by probabilities only.",
            "audit people whose group is known.",
        )
    if use_group and comparison.unobserved_group is not None:
        raise DataError(
            "`use_group` needs observed groups, but these are known by probabilities only.",
            "leave it out.",
        )
