"""The paper's side of a comparison: the correction function, its numbers, and questions about people's features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import polars as pl

from tiltlens.errors import DataError
from tiltlens.estimators.dial import ShareForm
from tiltlens.estimators.estimate import Estimate
from tiltlens.formats import FieldTable
from tiltlens.limits import DIAL_POSITIONS, DISTRIBUTION_BINS
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.paper.path import PathPoint
from tiltlens.paper.world import Projection
from tiltlens.results.profiles import NO_ROWS, SHARES_SCHEMA, Profiles, Prototype


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionParts:
    """The parts of a correction that take time.

    Attributes
    ----------
    prototypes
        The feature values where f~ is largest, smallest and nearest to 0.
    tradeoff_table
        The share of each feature in the correction at 21 positions of the slider; empty if it is not determined.
    """

    prototypes: dict[str, Prototype]
    tradeoff_table: Annotated[pl.DataFrame, SHARES_SCHEMA]


@dataclass(frozen=True, slots=True, eq=False)
class Correction(FieldTable):
    """The correction function f~ of a comparison, and the quantities of the paper.

    Every `Estimate` is cross-fitted and debiased. `function`, `epsilon_max`, `profile`, `prototypes`, `path` and
    `project` are plug-in quantities from one fit of the group-membership model on all rows of the sample.

    Attributes
    ----------
    numbers
        The paper's numbers of f~, λ2 and λ4 as input_weight and output_weight, and its affine form; None if there are
        neither features nor a propensity column.
    epsilon_max
        The largest valid step along f~; None without f~.
    descent_rate
        Rate at which a small step along f~ lowers the objective.
    input_divergence, output_divergence
        Divergence between the groups' features, and between their outputs, in nats.
    detection_sample_size
        Sample size to detect the gap, both errors at 5%.
    function
        f~ itself, to be called with log-odds and scores; None if `numbers` is None.
    tradeoff
        Each feature's share of the correction at every (λ2, λ4), with its interval; None where the outputs have no
        finite divergence, or the group-membership model fails its checks.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women"] * 50 + ["men"] * 50, "years": [1] * 30 + [2] * 20 + [1] * 15 + [2] * 35}
    >>> scores = [0.2 * years + 0.3 for years in people["years"]]
    >>> c = tl.audit(people, "sex", reference="men", scores=scores)["women"]
    >>> print(f"{c.correction.descent_rate:.2f}, {c.correction.project().cost:.2f} nats")
    -0.69, 0.18 nats
    >>> c.correction.prototypes()["max"]["values"]
    {'years': '2'}
    """

    numbers: dict[str, float | None] | None
    epsilon_max: float | None
    descent_rate: Estimate | None
    input_divergence: Estimate | None
    output_divergence: Estimate | None
    detection_sample_size: Estimate | None
    function: CorrectionFunction | None = field(default=None, metadata={"key": None})
    tradeoff: dict[str, ShareForm] | None = field(default=None, metadata={"key": None})
    _confidence: float | None = None  # of shares; None for plug-in values
    _profiles: Profiles = NO_ROWS

    def profile(self, feature: str) -> pl.DataFrame:
        """Return, per value of a feature, the number of people, their mean f~ and score, and the spread of f~.

        Values of fewer than ten audited people and counts below ten are suppressed; a quantile needs
        ten people who have it, or ten below and ten above.
        """
        return self._profiles.profile(feature)

    def distribution(self, feature: str, bins: int = DISTRIBUTION_BINS) -> pl.DataFrame:
        """Return the distribution of f~ per value of a feature (the paper's Fig. 2), as counts in equal bins.

        Counts of bins with fewer than ten people are suppressed, and so are all bins of a suppressed value.
        """
        return self._profiles.distribution(feature, bins)

    def shares_along_tradeoff(self, positions: int = DIAL_POSITIONS, confidence: float | None = None) -> pl.DataFrame:
        """Return each feature's share of the correction from "align inputs" (position 0) to "align outputs" (1).

        The strongest feature comes first. Plug-in values have no intervals, and the table is empty if outputs have no
        finite divergence. The default confidence is the audit's.
        """
        if not isinstance(positions, int) or isinstance(positions, bool) or positions < 2:
            raise DataError(f"`positions` must be a whole number of at least 2, got {positions!r}.", "21 is usual.")
        level = self._confidence if confidence is None or self._confidence is None else confidence
        return self._profiles.shares_along_tradeoff(self.tradeoff or {}, positions, level)

    def prototypes(self, suppress: bool = True) -> dict[str, Prototype]:
        """Return the feature values where f~ is largest, smallest and nearest to 0 (the paper's Table 1).

        Cells with fewer than ten audited people are suppressed unless `suppress` is False; use that for public data
        only.
        """
        return self._profiles.prototypes(suppress)

    def path(self, weights: Sequence[Any], divergence: str = "kl") -> list[PathPoint]:
        """Return the correction path, one point for each of the weights (λ1, λ2, λ3, λ4).

        `q` of a point has an entry for each audited row of the sample, in the order of the table.
        """
        return self._profiles.path(weights, divergence)

    def project(self) -> Projection:
        """Return the least change of the audited group's inputs that removes the gap, as weights on its rows."""
        return self._profiles.project()

    def parts(self) -> CorrectionParts:
        """Return the data of JSON and report beyond the estimates, which take time to compute."""
        return CorrectionParts(self.prototypes(), self.shares_along_tradeoff())

    def __repr__(self) -> str:
        rate = "not defined" if self.descent_rate is None else f"{self.descent_rate.value:.4f}"
        return f"Correction(descent rate {rate})"
