"""The result of comparing two audits: the change for each audited group, and for each feature's contribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TextIO

import polars as pl

if TYPE_CHECKING:
    from tiltlens.figures import Figure

from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import FieldTable, text_of
from tiltlens._results.codec import Json, to_plain, write_json
from tiltlens._results.outputs import DocumentView, Provenance, Scale
from tiltlens._rows.wording import ScoreType
from tiltlens.errors import DataError, quoted, quoted_list

SCHEMA = "tiltlens/change/2"  # version of to_dict and to_json, increased by changes that break readers
OF_COMPARISONS = (
    "gap",
    "impact_ratio",
    "standardised_difference",
    "adjusted_gap",
    "gap_explained_by_exempt",
    "gap_given_exempt",
)
OF_ERROR_RATES = ("fpr_difference", "fnr_difference", "auc_difference", "calibration_difference")
OF_RATES = ("audited_rate", "reference_rate")
LINEAR = "linear_gap"  # the linear estimate for unobserved groups
QUANTITIES = (*OF_COMPARISONS, *OF_ERROR_RATES, *OF_RATES, LINEAR)
BANDED = ("alone", "beyond_others")
NUMBERS = (*BANDED, "shapley")
FEATURE_SCHEMA: Mapping[str, type[pl.DataType]] = (
    {"feature": pl.String}
    | {
        f"{name}{part}": pl.Float64
        for name in NUMBERS
        for part in ("_old", "_new", "_change", "_change_low", "_change_high")
    }
    | {"verdict": pl.String, "reason": pl.String}
)


class ChangeVerdict(StrEnum):
    """The verdict on the change of a feature's contribution."""

    MORE = "contributes more than before"
    LESS = "contributes less than before"
    TURNED = "contributes in the other direction"
    NO_CHANGE = "no material change"
    SOME_CHANGE = "some change"
    INCONCLUSIVE = Verdict.INCONCLUSIVE.value
    NOT_ASSESSED = Verdict.NOT_ASSESSED.value


FEATURE_COLUMNS = {
    "feature": str,
    "alone_change_low": Annotated[float | None, "The end of a simultaneous band over all features."],
    "verdict": ChangeVerdict,
    "reason": str,
}


@dataclass(frozen=True, slots=True, eq=False)
class GroupChange(FieldTable):
    """The change in one group's results between two audits: new minus old.

    Attributes
    ----------
    rows
        Numbers of people of either group in the two audits.
    old, new
        The quantities of the two audits, by name; None where one is not defined.
    changes
        New minus old of each quantity, with an interval of the difference; `audited_rate` and `reference_rate` are
        favourable rates. For unobserved groups, `gap` is the weighted gap and `linear_gap` the linear estimate.
    features
        One row per feature, the largest change first: its contributions in both audits, the change with its
        simultaneous band, and a verdict.
    scale
        The score type, and the materiality threshold in the unit of the gap.
    """

    audited: str
    reference: str
    rows: dict[str, dict[str, int]]
    scale: Scale
    old: dict[str, Estimate | None]
    new: dict[str, Estimate | None]
    changes: dict[str, Estimate | None]
    features: Annotated[pl.DataFrame, FEATURE_SCHEMA, FEATURE_COLUMNS]
    notes: tuple[str, ...]

    def to_dict(self) -> Json:
        """Return every number, keyed by attribute name."""
        return dict(to_plain(self))

    def plot(self) -> Figure:
        """Return the figure of each feature's old and new contribution, with its data and description."""
        from tiltlens.figures import change

        return change(self)

    def __repr__(self) -> str:
        gap = self.changes["gap"]
        text = "not defined" if gap is None else f"{gap.value:+.4f}"
        return f"GroupChange({self.audited!r} against {self.reference!r}: change in the gap {text})"


@dataclass(frozen=True, slots=True)
class Origin:
    """The rows and the provenance of one of two compared audits."""

    rows: dict[str, int | None]
    provenance: Provenance


@dataclass(frozen=True, slots=True, eq=False)
class Change(DocumentView):
    """The change between two audits.

    Attributes
    ----------
    comparisons
        One `GroupChange` for each group that both audits have, by name.
    paired
        Whether both audits have the same rows; intervals then use the differences row by row.
    pairing
        How the rows were paired, in words.
    too_small
        Groups that only one of the two audits has, each with the audit that has it.
    old, new
        Provenance of the two audits.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50, "old": [0.4, 0.5, 0.6, 0.8] * 25, "new": [0.5, 0.5, 0.6, 0.7] * 25}
    >>> old, new = (tl.audit(people, "sex", reference="men", scores=name, features=[]) for name in ("old", "new"))
    >>> gap = tl.compare(old, new)["women"].changes["gap"]
    >>> print(gap)
    10.0 points (95% CI 8.0 to 12.0)
    """

    paired: bool
    pairing: str
    group: str
    reference: str
    score_type: ScoreType
    favourable: str
    confidence: float
    materiality: float
    too_small: dict[str, str]
    old: Origin
    new: Origin
    comparisons: dict[str, GroupChange]

    JSON_PROPERTIES: ClassVar = ("schema",)

    @property
    def schema(self) -> str:
        """The version of the JSON."""
        return SCHEMA

    def __getitem__(self, audited: object) -> GroupChange:
        """Return the change of a group, by its name."""
        name = text_of(audited)
        if name not in self.comparisons:
            raise DataError(
                f"`audited` must be one of the groups of both audits, got {quoted(audited)}.",
                f"they are {quoted_list(list(self.comparisons))}.",
            )
        return self.comparisons[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def to_dict(self) -> Json:
        """Return every number of the change, keyed by attribute name."""
        return dict(to_plain(self))

    def to_json(self, path: str | Path | TextIO) -> None:
        """Write every number of the change as JSON, to a path (atomically) or to an open text file."""
        write_json(self.to_dict(), path)

    def report(self, path: str | Path | TextIO) -> None:
        """Write the report of the change as HTML that needs no network, or as PDF if the name ends in .pdf."""
        from tiltlens._render.page import write_report

        write_report(self, path)

    def __repr__(self) -> str:
        how = "the same rows" if self.paired else "independent rows"
        return f"Change({self.group} against {self.reference!r}, {how}: {', '.join(map(repr, self.comparisons))})"
