"""The parts of a comparison that are computed when JSON, the page or a figure asks for them, and their saved form."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, TypedDict

import polars as pl

from tiltlens.analysis.bins import Bins
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
        The share of each feature in the correction at 21 positions of the slider; empty if it is not determined.
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
        The gains from separate models for the two groups; None without observed outcomes.
    prices
        The price compared with observed costs; None for probabilities and decisions, and without costs.
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

    @property
    def splitting(self) -> Splitting | None:
        """What was saved."""
        return self.comparison.splitting

    @property
    def prices(self) -> Prices | None:
        """What was saved."""
        return self.comparison.prices

    @property
    def bins(self) -> Bins:
        """What was saved."""
        return self.comparison.bins

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
