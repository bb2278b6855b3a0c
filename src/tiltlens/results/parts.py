"""The parts of a comparison that are computed when JSON, the page or a figure asks for them, and their saved form."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, TypedDict

import polars as pl

from tiltlens.analysis.prices import Prices
from tiltlens.analysis.splitting import Splitting
from tiltlens.errors import NeedsRowsError
from tiltlens.estimators.dial import ShareForm
from tiltlens.limits import DIAL_POSITIONS
from tiltlens.paper.correction import CorrectionFunction

AGAIN = "audit the data again with tl.audit, or `tiltlens audit`."
SHARES_SCHEMA = {
    "position": pl.Float64,
    "feature": pl.String,
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}

GroupBin = TypedDict(
    "GroupBin", {"from": float, "to": float, "audited": float | None, "reference": float | None}
)  # the share of each group; None where it is suppressed


class CalibrationBin(TypedDict):
    """A tenth of the log-ratio: its expected and observed value, and the number of people."""

    expected: float
    observed: float
    n: int


class DialPoint(TypedDict):
    """The plug-in correction at the position t of the dial, λ = (1 − t, t)."""

    position: float
    intercept: float
    on_log_odds: float
    on_scores: list[float]
    descent_rate: float


class ValueProfile(TypedDict):
    """A value of a feature: people, shares, mean score and log-odds, and the correction at each dial position.

    Attributes
    ----------
    share_moved
        Its share after the least change that removes the gap.
    correction
        The number of people in 80 bins of f~ from −4 to 4; None where n is suppressed.
    quantiles
        The 5, 25, 50, 75 and 95 % quantiles of f~ at each dial position.
    mean_correction
        The mean of f~ at each dial position.
    """

    value: str
    n: int | None
    n_reference: int | None
    share_audited: float | None
    share_reference: float | None
    score: float | None
    log_odds: float | None
    scores: list[float] | None
    share_moved: float | None
    correction: list[int | None] | None
    quantiles: list[list[float | None]] | None
    mean_correction: list[float] | None


class FeatureProfile(TypedDict):
    """The values of a feature."""

    kind: str
    is_ordered: bool
    values: list[ValueProfile]


class PathStop(TypedDict):
    """A point of a correction path: its weight, the change of inputs, the remaining divergence, and the rate."""

    weight: float
    input_change: float | None
    output_divergence: float | None
    favourable_rate: float


class Paths(TypedDict):
    """The two paths of the paper's Fig. 1."""

    green: list[PathStop]
    red: list[PathStop]


class LeastChange(TypedDict):
    """The least change of inputs that removes the gap: its cost, and the favourable rate after it."""

    cost: float
    favourable_rate: float


class Bins(TypedDict):
    """The histograms, profiles and paths that figures are drawn from; None where few people would be identified.

    Attributes
    ----------
    score
        The distribution of the score.
    overlap
        The distribution of the log-ratio ℓ.
    calibration
        Tenths of the log-ratio, joined until each has ten people of both groups.
    correction
        The distribution of f~ over the audited group at each dial position: 40 bins from −4 to 4, the ends open.
    """

    score: list[GroupBin]
    overlap: list[GroupBin]
    calibration: list[CalibrationBin]
    tradeoff: list[DialPoint]
    correction: list[list[float | None]]
    profiles: dict[str, FeatureProfile]
    path: Paths
    least_change: LeastChange | None


class Prototype(TypedDict):
    """Values of all features, how many audited people have them (None below ten), and f~ there."""

    values: dict[str, str | None]
    count: int | None
    correction: float


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionParts:
    """The parts of a correction that take time.

    Attributes
    ----------
    prototypes
        The feature values where f~ is largest, smallest and nearest to 0.
    tradeoff_table
        The share of each feature in the correction at 21 positions of the dial; empty where it is not determined.
    """

    prototypes: dict[str, Prototype]
    tradeoff_table: Annotated[pl.DataFrame, SHARES_SCHEMA]


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonParts:
    """The parts of a comparison that take time.

    Attributes
    ----------
    bins
        Histograms, profiles and paths for figures.
    splitting
        What separate models for the two groups would gain; None without observed outcomes.
    prices
        What observed costs say of a price; None of probabilities and decisions, and without costs.
    """

    bins: Bins
    splitting: Splitting | None
    prices: Prices | None


def needs_rows(name: str) -> NeedsRowsError:
    """Return the error for a question that only an audit in memory can answer."""
    return NeedsRowsError(f"`{name}` requires an audit in memory; a saved audit has no rows.", AGAIN)


class NoRows:
    """The rows that a saved audit does not have: any question about them raises."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # looked for by copy and pickle
            raise AttributeError(name)
        raise needs_rows(name)


NO_ROWS: Any = NoRows()


@dataclass(frozen=True, slots=True, eq=False)
class SavedParts(NoRows):
    """The parts of a saved comparison, without its rows."""

    correction: CorrectionParts
    comparison: ComparisonParts
    confidence: float

    def shares_along_tradeoff(
        self, forms: Mapping[str, ShareForm], positions: int, level: float | None
    ) -> pl.DataFrame:
        """Return the saved shares; raise for other positions or another confidence."""
        if positions != DIAL_POSITIONS or level not in (None, self.confidence):
            raise needs_rows("shares_along_tradeoff at other positions, or of another confidence,")
        return self.correction.tradeoff_table

    def splitting(self, confidence: float) -> Splitting | None:
        """Return what was saved."""
        return self.comparison.splitting

    def prices(self, confidence: float) -> Prices | None:
        """Return what was saved."""
        return self.comparison.prices

    def bins(self, order: list[str]) -> Bins:
        """Return the saved bins."""
        return copy.deepcopy(self.comparison.bins)

    def prototypes(self, suppress: bool = True) -> dict[str, Prototype]:
        """Return the saved prototypes; raise for those that were suppressed."""
        if not suppress:
            raise needs_rows("prototypes with suppress=False")
        return copy.deepcopy(self.correction.prototypes)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SavedCorrection(CorrectionFunction):
    """A correction function as a file has it: the affine form and the paper's numbers, without moments."""

    numbers: dict[str, float | None]

    @classmethod
    def read(cls, numbers: dict[str, Any]) -> SavedCorrection:
        """Return the correction function with the numbers that `to_dict` wrote."""
        names = ("intercept", "on_log_odds", "descent_rate", "input_weight", "output_weight")
        on_scores = tuple(value for name, value in numbers.items() if name.startswith("on_score"))
        moments = dict.fromkeys(("audited", "reference", "log_output_ratio"), NO_ROWS)
        return cls(**{name: numbers[name] for name in names}, on_scores=on_scores, **moments, numbers=numbers)

    def to_dict(self) -> dict[str, float | None]:
        """Return the saved numbers."""
        return dict(self.numbers)

    def _saved(self, name: str) -> float:
        self._check_binary(name)
        value = self.numbers[name]
        if value is None:
            raise needs_rows(name)
        return value

    rho_m = property(lambda self: self._saved("rho_m"))
    a1 = property(lambda self: self._saved("a1"))
    a2 = property(lambda self: self._saved("a2"))
    b1 = property(lambda self: self._saved("b1"))
