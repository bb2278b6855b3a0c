"""The rows that a repair is solved on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.paper.checks import Floats
from tiltlens.repair.constraints import ALL, OUTCOMES, Cell
from tiltlens.repair.copies import copies_of
from tiltlens.rows.features import Feature
from tiltlens.rows.rescoring import AskedModel
from tiltlens.sources.hashing import row_hashes

SoftScores = Callable[..., dict[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class AuditedRows:
    """What an audit knows of its rows.

    Attributes
    ----------
    groups, codes
        The audited groups, then the reference; and the place of each row's among them.
    weights, clusters
        Of rows; equal `clusters` are one, None where each row is.
    features, scores, outcome
        Scores are W(1|x), or (n, K); outcomes None where none are given.
    model
        The audited model, where it can be asked again.
    given
        The conditions that all rows meet, as texts by column.
    exempt
        The features that the audit named as exempt factors.
    soft
        By audited group, what scores of its rows and the reference's tell of the gap; none where groups are known.
    favours_low
        Whether people want the outcome 0: ratios are then those of low scores.
    """

    groups: tuple[str, ...]
    codes: Integers
    weights: Floats
    clusters: Integers | None
    features: Sequence[Feature]
    scores: Floats
    outcome: Integers | None = None
    model: AskedModel | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    favours_low: bool = False
    exempt: tuple[str, ...] = ()
    soft: Mapping[str, SoftScores] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        """The rows of two groups, the first of them audited."""
        return Rows.of(self.codes == 0, self.weights, self.clusters)

    @property
    def reference(self) -> str:
        """The group that others are compared with."""
        return self.groups[-1]

    @property
    def places(self) -> Integers:
        """The group of each row as a number, 0 of the reference."""
        return np.asarray(len(self.groups) - 1 - self.codes)

    @property
    def outcomes(self) -> int:
        """How many classes the scores are of."""
        return 2 if self.scores.ndim == 1 else self.scores.shape[1]

    def taken(self, at: Integers) -> AuditedRows:
        """Return some of the rows."""
        clusters, outcome = (None if one is None else one[at] for one in (self.clusters, self.outcome))
        features, model = [one.rows(at) for one in self.features], None if self.model is None else self.model.rows(at)
        some = replace(self, clusters=clusters, outcome=outcome, features=features, model=model)
        return replace(some, codes=self.codes[at], weights=self.weights[at], scores=self.scores[at])

    def with_copies(self) -> tuple[AuditedRows, list[str]]:
        """Return rows that are equal in every feature, where chance does not make them so, as clusters; and a note.

        A model that has seen a copy of a row knows its group.
        """
        table = {one.name: one.codes if one.values is None else one.values for one in self.features}
        if self.clusters is not None or not table:
            return self, []
        own, copies = copies_of(table, row_hashes(table), self.codes, self.outcome)
        note = f"{copies:,} rows equal another one in every feature: such rows are taken for one person's"
        return (replace(self, clusters=own), [note]) if copies else (self, [])

    def soft_estimates(self, after: Floats, threshold: float | None) -> dict[str, Any]:
        """Return what probabilities of groups tell of each gap before and after; none of several classes."""
        found, before = {}, self.scores if threshold is None else (self.scores >= threshold).astype(np.float64)
        for group, tell in self.soft.items() if after.ndim == 1 else ():
            at = self.members((group, ALL)) | self.members((self.reference, ALL))
            found[group] = {"before": tell(before[at]), "after": tell(after[at])}
        return found

    def members(self, cell: Cell) -> Booleans:
        """Return which rows are of a group and an event."""
        mine = np.asarray(self.codes == self.groups.index(cell[0]))
        return mine if cell[1] == ALL or self.outcome is None else mine & (self.outcome == OUTCOMES[cell[1]])
