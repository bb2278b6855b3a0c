"""What a tilt of scores and a discrimination-free price share: new outputs of rows from features and old outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.paper.checks import Floats
from tiltlens.repair.coded_features import CodedFeatures
from tiltlens.repair.rows import AuditedRowIndex, NewRowSums, Range, beyond_notes, unseen_notes, values_beyond
from tiltlens.results.codec import to_plain, write_json
from tiltlens.rows.features import DesignColumn
from tiltlens.rows.scores import RowName
from tiltlens.rows.value_counts import Declared

Labels = NDArray[np.str_]


class Adjustment(ABC):
    """An adjustment of outputs: it is applied to rows, evaluated, printed, and saved as numbers and texts.

    The subclasses are dataclasses: they declare these fields in the order of their files.
    """

    __slots__ = ()

    SCHEMA: ClassVar[str]
    LEARNT_BY: ClassVar[str]  # the models, in notes

    given: Mapping[str, str]
    ranges: Mapping[str, Range]
    declared: Declared
    row_index: AuditedRowIndex

    @property
    @abstractmethod
    def reference(self) -> str:
        """The group that others are compared with."""

    @property
    @abstractmethod
    def groups(self) -> tuple[str, ...]:
        """The audited groups."""

    @property
    @abstractmethod
    def left_alone(self) -> str:
        """What happens to rows that do not meet the conditions, in words."""

    @property
    @abstractmethod
    def _readers(self) -> Sequence[CodedFeatures]:
        """The models; the first reads the features of all."""

    @property
    def _derived(self) -> Mapping[str, object]:
        """What files hold beyond the fields."""
        return {}

    @property
    def _changes_outputs(self) -> bool:
        return True

    @property
    def audited(self) -> str | None:
        """The audited group; None where there are several."""
        return self.groups[0] if len(self.groups) == 1 else None

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that it needs in addition to the outputs."""
        names = dict.fromkeys(name for model in self._readers for name in model.features if self._changes_outputs)
        return tuple(self.declared.sources(list(names)))

    @property
    def text_features(self) -> frozenset[str]:
        """The features that are texts, whatever they look like."""
        return frozenset(name for model in self._readers for name in model.levels)

    @abstractmethod
    def read_scores(self, columns: Sequence[pl.Series], row_name: RowName = "row {}".format) -> Floats:
        """Return the outputs to adjust, from clean columns: (n,), or (n, K)."""

    @abstractmethod
    def read_outcome(self, column: pl.Series) -> DesignColumn:
        """Return the observed outcome of each row."""

    @abstractmethod
    def check_score_columns(self, count: int) -> None:
        """Raise unless so many columns hold the outputs to adjust."""

    @abstractmethod
    def check_whole(self) -> None:
        """Raise where a part is missing, or parts do not fit together."""

    @abstractmethod
    def repair_batch(
        self, frame: pl.DataFrame, scores: Floats, group: Labels | None = None, sums: list[NewRowSums] | None = None
    ) -> Floats:
        """Return the adjusted outputs of a clean frame of rows; `group` holds its groups where they are used.

        Sums that show whether the rows resemble the audited ones are added to `sums`.
        """

    def unadjusted(self, scores: Floats) -> Floats:
        """Return the outputs of rows that do not meet the conditions."""
        return scores.copy()

    def table(self, frame: pl.DataFrame) -> dict[str, DesignColumn]:
        """Return the features of a clean frame as numbers and codes."""
        return self._readers[0].checked_table(frame) if self._readers else {}

    def row_sums(self, frame: pl.DataFrame) -> NewRowSums:
        """Return how many rows of a clean frame hold values that were not learnt, or lie beyond the audited range."""
        reads = bool(self._readers) and self._changes_outputs
        unseen = self._readers[0].unseen_levels(frame) if reads else {}
        return NewRowSums(0, 0, Counter(unseen), values_beyond(self.table(frame), self.ranges))

    def row_notes(self, sums: NewRowSums) -> list[str]:
        """Return notes on rows that do not resemble the audited ones, from their sums."""
        rows = sums.rows - sums.outside
        return unseen_notes(sums.unseen, rows, self.LEARNT_BY) + beyond_notes(sums.beyond, rows, self.ranges)

    def without_row_index(self) -> Self:
        """Return the same without the hashes of audited rows, as workers need it."""
        adjustment: Self = replace(cast(Any, self), row_index=AuditedRowIndex())  # the class itself has no fields
        return adjustment

    def to_dict(self) -> dict[str, Any]:
        """Return the adjustment as plain numbers and texts: all its parts, its models, and the hashes of rows."""
        return {"schema": self.SCHEMA, **to_plain(self), **to_plain(self._derived)}

    def to_json(self, path: str | Path) -> None:
        """Write the adjustment to a JSON file, which `tl.read_repair` reads.

        The file holds numbers and texts, and a user's own group-membership model in skops format.
        """
        write_json(self.to_dict(), str(path))

    def _repr_html_(self) -> str:
        from tiltlens.render.html import repair_html

        return repair_html(self)

    def __str__(self) -> str:
        from tiltlens.render.terminal import repair_text

        return repair_text(self)
