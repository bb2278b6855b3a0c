"""The result of comparing two audits: what changed for each audited group, and which features made the change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import polars as pl

from tiltlens.errors import DataError
from tiltlens.estimators.estimate import Estimate
from tiltlens.sources.messages import listed, shown, text_of

SCHEMA = "tiltlens/change/1"  # of to_dict and to_json; a change that breaks a reader raises the number
OF_COMPARISONS = (
    "gap",
    "impact_ratio",
    "standardised_difference",
    "unexplained",
    "through_exempt",
    "at_equal_exempt",
)
OF_ERROR_RATES = ("fpr_difference", "fnr_difference", "auc_difference", "calibration_difference")
OF_RATES = ("audited_rate", "reference_rate")
LINEAR = "linear_gap"  # the other estimate, where groups are known by probabilities
QUANTITIES = (*OF_COMPARISONS, *OF_ERROR_RATES, *OF_RATES, LINEAR)
CHANGES = tuple(f"{name}_change" for name in QUANTITIES)


@dataclass(frozen=True, slots=True, eq=False)
class GroupChange:
    """What changed between two audits of one group against the reference: new − old.

    Attributes
    ----------
    rows
        How many people of either group the two audits have.
    old, new
        The quantities as the two audits have them, by name; None where one is not defined.
    gap_change, …
        New less old, with an interval of the difference; `audited_rate` and `reference_rate` are favourable
        rates. Where groups are known by probabilities, `gap` is the weighted one, `linear_gap` the linear estimate.
    features
        One row a feature, the largest change first: what goes through it in both audits, the change with the band of
        all features at once, and a verdict.
    materiality
        The smallest change that counts, in the unit of the gap.
    """

    audited: str
    reference: str
    rows: dict[str, dict[str, int]]
    old: dict[str, Estimate | None]
    new: dict[str, Estimate | None]
    gap_change: Estimate | None
    impact_ratio_change: Estimate | None
    standardised_difference_change: Estimate | None
    unexplained_change: Estimate | None
    through_exempt_change: Estimate | None
    at_equal_exempt_change: Estimate | None
    fpr_difference_change: Estimate | None
    fnr_difference_change: Estimate | None
    auc_difference_change: Estimate | None
    calibration_difference_change: Estimate | None
    audited_rate_change: Estimate | None
    reference_rate_change: Estimate | None
    linear_gap_change: Estimate | None
    features: pl.DataFrame
    materiality: float
    channel: str
    criterion: str | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return every number, keyed by attribute name."""
        return {
            "audited": self.audited,
            "reference": self.reference,
            "rows": self.rows,
            "channel": self.channel,
            "criterion": self.criterion,
            "materiality": self.materiality,
            "old": {name: _plain(one) for name, one in self.old.items()},
            "new": {name: _plain(one) for name, one in self.new.items()},
            **{name: _plain(getattr(self, name)) for name in CHANGES},
            "features": self.features.to_dicts(),
            "notes": list(self.notes),
        }

    def plot(self) -> Any:
        """Return the figure of old and new by feature: its chart, the numbers behind it, and words for both."""
        from tiltlens.figures import change

        return change(self.to_dict(), self.materiality)

    def __repr__(self) -> str:
        moved = "not defined" if self.gap_change is None else f"{self.gap_change.value:+.4f}"
        return f"GroupChange({self.audited!r} against {self.reference!r}: gap {moved})"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What changed between two audits.

    Attributes
    ----------
    comparisons
        One `GroupChange` for each group that both audits have, by name.
    paired
        Whether the rows are the same: intervals are then those of the rows' differences.
    pairing
        How that was decided, in words.
    too_small
        Groups that only one of the two audits has, and which of them.
    old, new
        Where the two audits come from.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50, "old": [0.4, 0.5, 0.6, 0.8] * 25, "new": [0.5, 0.5, 0.6, 0.7] * 25}
    >>> old, new = (tl.audit(people, "sex", reference="men", scores=name, features=[]) for name in ("old", "new"))
    >>> found = tl.compare(old, new)["women"].gap_change
    >>> print(f"{found:+.2f}, {found.low:+.2f} to {found.high:+.2f}")
    +0.10, +0.08 to +0.12
    """

    comparisons: dict[str, GroupChange]
    paired: bool
    pairing: str
    group: str
    reference: str
    channel: str
    favourable: str
    confidence: float
    materiality: float
    too_small: dict[str, str]
    old: dict[str, Any]
    new: dict[str, Any]

    def __getitem__(self, audited: Any) -> GroupChange:
        """Return the change of a group, by its name."""
        name = text_of(audited)
        if name not in self.comparisons:
            raise DataError(
                f"`audited` must be one of the groups of both audits, got {shown(audited)}.",
                f"they are {listed(list(self.comparisons))}.",
            )
        return self.comparisons[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the change, keyed by attribute name."""
        plain = ("paired", "pairing", "group", "reference", "channel", "favourable", "confidence", "materiality")
        return {
            "schema": SCHEMA,
            **{name: getattr(self, name) for name in plain},
            "too_small": dict(self.too_small),
            "old": self.old,
            "new": self.new,
            "comparisons": {name: one.to_dict() for name, one in self.comparisons.items()},
        }

    def to_json(self, path: str | Path | TextIO) -> None:
        """Write every number of the change to a JSON file, whole or not at all; or to a file that is open for text."""
        from tiltlens.results.json_file import write_json

        write_json(self.to_dict(), path)

    def report(self, path: str | Path | TextIO) -> None:
        """Write the page of the change, one HTML file that needs no network, as `to_json` does."""
        from tiltlens.render.document_page import write_change

        write_change(self.to_dict(), path)

    def __str__(self) -> str:
        from tiltlens.render.terminal import change_text

        return change_text(self.to_dict())

    def __repr__(self) -> str:
        how = "the same rows" if self.paired else "independent rows"
        return f"Change({self.group} against {self.reference!r}, {how}: {', '.join(map(repr, self.comparisons))})"


def _plain(found: Estimate | None) -> dict[str, float | None] | None:
    return None if found is None else found.to_dict()
