"""What every membership model of a repair reads: features of a clean frame as numbers, and as codes of levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Integers
from tiltlens.learners.design import Table
from tiltlens.paper.checks import Floats
from tiltlens.rows.features import Feature
from tiltlens.rows.levels import MISSING, OTHER, numbers_of
from tiltlens.sources.factorize import text_codes
from tiltlens.sources.messages import shown


@dataclass(frozen=True, slots=True)
class Texts:
    """The levels of a category: their texts, and the codes of missing values and of texts that are none of them."""

    values: tuple[str, ...]
    missing: int
    other: int

    @classmethod
    def of(cls, feature: Feature) -> Texts:
        """Return the levels of an audited category."""
        levels = feature.levels
        if levels is None or levels.values is None:
            raise DataError(f"column {shown(feature.name)} must have levels, got none.", "leave it out.")
        values = tuple(levels.values.to_list())
        unseen = len(values)  # a level that no audited row has: no effect, as of rare ones
        return cls(values, levels.missing if MISSING in values else unseen, levels.other if OTHER in values else unseen)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Texts:
        """Return the levels that `to_dict` wrote."""
        return cls(tuple(found["texts"]), int(found["missing"]), int(found["other"]))

    def to_dict(self) -> dict[str, Any]:
        """Return the levels as plain texts and numbers."""
        return {"texts": list(self.values), "missing": self.missing, "other": self.other}

    def codes(self, column: pl.Series) -> Integers:
        """Return the code of each entry of a clean column."""
        values = pl.Series(self.values, dtype=pl.String)
        found = text_codes(column.cast(pl.String), values, first=0, other=self.other)
        return np.where(column.is_null().to_numpy(), self.missing, found) if column.null_count() else found

    def texts(self, codes: Integers) -> pl.Series:
        """Return the text of each code, missing where it is none of the levels."""
        place = np.minimum(codes, len(self.values)).astype(np.uint32)
        return pl.Series([*self.values, None], dtype=pl.String).gather(pl.Series(place))

    def unseen(self, column: pl.Series) -> int:
        """Return how many entries are none of the texts, or missing where none was."""
        unlisted = column.is_not_null() & ~column.cast(pl.String).is_in(self.values)
        return int(unlisted.sum()) + (column.null_count() if self.missing == len(self.values) else 0)


class CodedModel:
    """A membership model of features as numbers and codes; `texts` are the levels of those that are texts."""

    __slots__ = ()
    texts: Mapping[str, Texts]

    @property
    def features(self) -> tuple[str, ...]:
        """The columns it needs."""
        raise NotImplementedError

    def log_odds(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the log-odds of rows of numbers and codes."""
        raise NotImplementedError

    def columns(self, table: Table) -> Floats:
        """Return the columns that the features become."""
        raise NotImplementedError

    def learnt_missing(self, name: str) -> bool:
        """Return whether it has learnt from missing numbers of a feature."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the model as what JSON can hold."""
        raise NotImplementedError

    def checked_table(self, frame: pl.DataFrame) -> dict[str, Any]:
        """Return the features of a clean frame as numbers and codes, where it has them all."""
        missing = [name for name in self.features if name not in frame.columns]
        if missing:
            raise DataError(
                f"`data` must hold every feature of the membership model, got none named {shown(missing[0])}.",
                f"it needs {', '.join(self.features)}.",
            )
        return self.table(frame)

    def table(self, frame: pl.DataFrame) -> dict[str, Any]:
        """Return the features of a clean frame as numbers and codes."""
        return {name: self._column(frame[name]) for name in self.features}

    def _column(self, column: pl.Series) -> Any:
        if column.name in self.texts:
            return self.texts[column.name].codes(column)
        if column.dtype == pl.String and column.null_count() == column.len():
            return np.full(column.len(), np.nan)  # a batch without any value has no kind of its own
        if column.dtype == pl.String:
            raise DataError(
                f"`data` must hold numbers in {shown(column.name)}, as the audited table did, got texts.",
                "cast the column; pass decimal=',' for decimal commas.",
            )
        return numbers_of(column)

    def unseen(self, frame: pl.DataFrame) -> dict[str, int]:
        """Return, by feature, how many rows hold a value that the model has not learnt, such as a new one."""
        found = {}
        for name in self.features:
            if name in self.texts:
                found[name] = self.texts[name].unseen(frame[name])
            else:
                infinite = int(np.isinf(numbers_of(frame[name])).sum())  # an audit has none
                found[name] = infinite + (0 if self.learnt_missing(name) else frame[name].null_count())
        return {name: count for name, count in found.items() if count}
