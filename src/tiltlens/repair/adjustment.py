"""What every adjustment is to the code that applies it to rows, evaluates it and reads it from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.paper.checks import Floats
from tiltlens.repair.row_checks import AuditedRowIndex, NewRowSums, Range
from tiltlens.rows.declared import Declared
from tiltlens.rows.features import DesignColumn
from tiltlens.rows.scores import RowName

Labels = NDArray[np.str_]


class Adjustment(Protocol):
    """A tilt of scores, or a discrimination-free price: new outputs of rows from their features and old outputs."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The audited groups."""
        ...

    @property
    def audited(self) -> str | None:
        """The audited group; None where there are several."""
        ...

    @property
    def reference(self) -> str:
        """The group that others are compared with."""
        ...

    @property
    def given(self) -> Mapping[str, str]:
        """The conditions that audited rows met, as texts by column."""
        ...

    @property
    def ranges(self) -> Mapping[str, Range]:
        """The range of each number in the audited rows."""
        ...

    @property
    def declared(self) -> Declared:
        """The features that are declared as categories, or as blocks of columns."""
        ...

    @property
    def row_index(self) -> AuditedRowIndex:
        """Hashes by which audited rows are recognised."""
        ...

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that it needs in addition to the outputs."""
        ...

    @property
    def text_features(self) -> frozenset[str]:
        """Those of them that are texts, whatever they look like."""
        ...

    @property
    def left_alone(self) -> str:
        """What happens to rows that do not meet the conditions, in words."""
        ...

    def read_scores(self, columns: Sequence[pl.Series], row_name: RowName = "row {}".format) -> Floats:
        """Return the outputs to adjust, from clean columns: (n,), or (n, K)."""
        ...

    def read_outcome(self, column: pl.Series) -> DesignColumn:
        """Return the observed outcome of each row."""
        ...

    def check_score_columns(self, count: int) -> None:
        """Raise unless so many columns hold the outputs to adjust."""
        ...

    def unadjusted(self, scores: Floats) -> Floats:
        """Return the outputs of rows that do not meet the conditions."""
        ...

    def repair_batch(
        self, frame: pl.DataFrame, scores: Floats, group: Labels | None = None, sums: list[NewRowSums] | None = None
    ) -> Floats:
        """Return the adjusted outputs of a clean frame of rows, and append sums over them to `sums`."""
        ...

    def table(self, frame: pl.DataFrame) -> dict[str, DesignColumn]:
        """Return the features of a clean frame as numbers and codes."""
        ...

    def unseen_levels(self, frame: pl.DataFrame) -> dict[str, int]:
        """Return, by feature, how many rows of a clean frame hold a value that the model has not learnt."""
        ...

    def row_notes(self, sums: NewRowSums) -> list[str]:
        """Return notes on rows that do not resemble the audited ones, from their sums."""
        ...

    def without_row_index(self) -> Self:
        """Return the same without the hashes of audited rows, as workers need it."""
        ...
