"""The result of an audit: one comparison per audited group, and the numbers of rows read, used and excluded."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TextIO

import polars as pl

if TYPE_CHECKING:
    from tiltlens._repair.free_price import DiscriminationFreePrice
    from tiltlens._repair.score_tilt import ScoreTilt

from collections.abc import Collection

import numpy as np

from tiltlens._analysis.evidence import Settings, leaves_free
from tiltlens._analysis.intersections import Intersections
from tiltlens._formats import text_of
from tiltlens._results.codec import Json, to_plain, write_json
from tiltlens._results.comparison import Comparison
from tiltlens._results.monitor import Look, Monitor
from tiltlens._results.outputs import DocumentView, Provenance
from tiltlens._rows.groups import JOINT
from tiltlens._rows.sampled_rows import SampledRows
from tiltlens._rows.wording import WORDING, ScoreType, Wording
from tiltlens.errors import DataError, quoted, quoted_list

SCHEMA = "tiltlens/audit/3"  # version of to_dict and to_json, increased by changes that break readers


@dataclass(frozen=True, slots=True, eq=False)
class Audit(DocumentView):
    """The result of an audit: one comparison per audited group.

    Attributes
    ----------
    comparisons
        One `Comparison` for each audited group, by name.
    rows
        Numbers of rows read, used, and excluded by reason.
    group, reference
        The column of groups, and the group with which the others are compared.
    score_type
        "probability"; "decision" if every score is 0 or 1 or a threshold was given; or "amount".
    favourable
        The favourable outcome.
    too_small
        Groups that are too small to be audited, with their sizes.
    settings
        The numeric settings of the audit.
    provenance
        Time, versions, data, and the user's facts.
    intersections
        The spread of the means of many groups, or of intersections of several columns; None for few groups, with
        clusters, and for plug-in values.
    monitor
        Results of all looks at growing data so far; None without a state file.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50 + ["unknown"] * 3, "score": [0.4, 0.5, 0.6, 0.8] * 25 + [0.5] * 3}
    >>> audit = tl.audit(people, "sex", reference="men", scores="score")
    >>> audit
    Audit(sex against 'men': 'women')
    >>> list(audit), audit.too_small
    (['women'], {'unknown': 3})
    >>> audit["women"].rows
    {'audited': 50, 'reference': 50}
    """

    group: str
    reference: str
    score_type: ScoreType
    favourable: str
    rows: Mapping[str, int | None]
    too_small: Mapping[str, int | None]
    settings: Settings
    provenance: Provenance
    comparisons: dict[str, Comparison]
    intersections: Intersections | None = None
    monitor: Monitor | None = None
    _rows: SampledRows | None = None
    _look: Look | None = None

    JSON_PROPERTIES: ClassVar = ("schema",)

    @property
    def schema(self) -> str:
        """The version of the JSON."""
        return SCHEMA

    @property
    def wording(self) -> Wording:
        """The user's words for people, the favourable outcome and the unit of amounts."""
        return next((comparison.scale.wording for comparison in self.comparisons.values()), WORDING)

    def disclosed(self) -> Audit:
        """Return the audit for publication: without the sizes of groups too small to be compared."""
        sizes = [size for size in self.too_small.values() if size is not None]
        counts = {name: count for name, count in self.rows.items() if count is not None}
        rows = dict(self.rows) | disclosed_rows(counts, sizes)
        return replace(self, rows=rows, too_small=dict.fromkeys(self.too_small))

    def __getitem__(self, audited: object) -> Comparison:
        """Return the comparison of a group by its name or position; by name only if group names are numbers."""
        names = list(self.comparisons)
        name = JOINT.join(map(text_of, audited)) if isinstance(audited, tuple) else text_of(audited)
        has_numbers = any(group.lstrip("-").isdigit() for group in names)
        is_position = not isinstance(audited, bool) and not has_numbers
        if isinstance(audited, int) and is_position and -len(names) <= audited < len(names):
            name = names[audited]
        if name not in self.comparisons:
            raise DataError(
                f"Group {quoted(audited)} is not among the audited groups.",
                f"audited: {quoted_list(names)}; reference: {quoted(self.reference)}.",
            )
        return self.comparisons[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    @property
    def periods(self) -> pl.DataFrame | None:
        """Rates, gap and ratio over time, one row per group and period; None without `periods`."""
        frames = [
            comparison.periods.frame.select(pl.lit(name).alias("audited"), pl.all())
            for name, comparison in self.comparisons.items()
            if comparison.periods is not None
        ]
        return pl.concat(frames) if frames else None

    def items(self) -> ItemsView[str, Comparison]:
        """Return the comparisons by name."""
        return self.comparisons.items()

    def repair(
        self,
        max_gap: float = 0.0,
        use_group: bool = False,
        metric: str = "mean_score",
        threshold: float | None = None,
        propensity_model: object = None,
    ) -> ScoreTilt | DiscriminationFreePrice:
        """Find the smallest score adjustment after which no audited group's gap is larger than `max_gap`.

        Parameters
        ----------
        max_gap : float, default=0.0
            Largest gap that may remain.
        use_group : bool, default=False
            Whether the adjustment uses the person's group, which the law may restrict.
        metric : {"mean_score", "fpr", "fnr", "equalized_odds"}, default="mean_score"
            Quantity whose gap is closed.
        threshold : float, default=None
            Score from which the decision is 1. With it, decisions are adjusted in place of scores.
        propensity_model : scikit-learn classifier, default=None
            Group-membership model. None takes an additive logistic model.

        Returns
        -------
        ScoreTilt or DiscriminationFreePrice
            The adjustment, which can be applied to new rows, evaluated and saved. For an audit of amounts with observed
            costs, it is the discrimination-free price, which takes none of the parameters.

        Raises
        ------
        TiltlensError
            If an argument is not valid, or no adjustment reaches `max_gap`.

        See Also
        --------
        Comparison.repair : Adjust the scores for one audited group, with details on each parameter.
        """
        from tiltlens._repair.solve import repair

        return repair(self, max_gap, use_group, metric, threshold, propensity_model)

    def count_batch(self) -> None:
        """Add this audit's rows to the state file."""
        if self._look is not None:
            self._look.file.replace(self._look.state)

    def to_dict(self) -> Json:
        """Return every number of the audit by attribute name; sizes of groups that are too small are suppressed."""
        summary: Json = to_plain(self)
        for name, comparison in self.comparisons.items():
            summary["comparisons"][name] = comparison.to_dict()
        return summary

    def to_json(self, path: str | Path | TextIO) -> None:
        """Write every number of the audit as JSON, to a path (atomically) or to an open text file."""
        write_json(self.to_dict(), path)

    def report(self, path: str | Path | TextIO) -> None:
        """Write the report as HTML that needs no network, or as PDF if the name ends in .pdf (needs Chromium)."""
        from tiltlens._render.page import write_report

        write_report(self, path)

    def to_tables(self, target: str | Path) -> None:
        """Write the groups' rates and the contributions as tables, with small counts suppressed.

        A file whose name ends in .xlsx, .md or .tex contains all tables; a folder gets each table as CSV, Markdown and
        LaTeX.
        """
        from tiltlens._render.table_files import write_tables

        write_tables(self, target)

    def __repr__(self) -> str:
        return f"Audit({self.group} against {self.reference!r}: {', '.join(map(repr, self.comparisons))})"


def disclosed_rows(rows: dict[str, int], too_small: Collection[int]) -> dict[str, int | None]:
    """Return the row counts that the summary shows; rows used and left out add up to the rows read.

    Rows of groups too small to compare are shown if their sum leaves the size of each group open. Otherwise they are
    None and subtracted from `read`, from which they could be worked out.
    """
    if not too_small or leaves_free(np.array(list(too_small))):
        return dict(rows)
    return rows | {"read": rows["read"] - rows["too_small_group"], "too_small_group": None}
