"""The rows that a repair is solved on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.models.asked import AskedModel
from tiltlens.models.features import Feature
from tiltlens.paper.checks import Floats
from tiltlens.repair.constraints import ALL, OUTCOMES, Cell


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
    """

    groups: tuple[str, ...]
    codes: Integers
    weights: Floats
    clusters: Integers | None
    features: Sequence[Feature]
    scores: Floats
    outcome: Integers | None = None
    model: AskedModel | None = None

    @property
    def rows(self) -> Rows:
        """The rows of two groups, the first of them audited."""
        return Rows.of(self.codes == 0, self.weights, self.clusters)

    @property
    def reference(self) -> str:
        """The group that others are compared with."""
        return self.groups[-1]

    @property
    def outcomes(self) -> int:
        """How many classes the scores are of."""
        return 2 if self.scores.ndim == 1 else self.scores.shape[1]

    def members(self, cell: Cell) -> Booleans:
        """Return which rows are of a group and an event."""
        mine = np.asarray(self.codes == self.groups.index(cell[0]))
        return mine if cell[1] == ALL or self.outcome is None else mine & (self.outcome == OUTCOMES[cell[1]])
