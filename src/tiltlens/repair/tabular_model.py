"""Membership models of a repair: they read the features of a clean frame as numbers and as codes of levels."""

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
class CategoryLevels:
    """The levels of a category, and the codes of missing values and of texts that are no level."""

    values: tuple[str, ...]
    missing: int
    other: int

    @classmethod
    def of(cls, feature: Feature) -> CategoryLevels:
        """Return the levels of an audited category."""
        levels = feature.levels
        if levels is None or levels.values is None:
            raise DataError(f"column {shown(feature.name)} must have levels, got none.", "leave it out.")
        values = tuple(levels.values.to_list())
        unseen = len(values)  # a level that no audited row has: it has no effect, like rare ones
        return cls(values, levels.missing if MISSING in values else unseen, levels.other if OTHER in values else unseen)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> CategoryLevels:
        """Return the levels that `to_dict` wrote."""
        return cls(tuple(saved["texts"]), int(saved["missing"]), int(saved["other"]))

    def to_dict(self) -> dict[str, Any]:
        """Return the levels as plain texts and numbers."""
        return {"texts": list(self.values), "missing": self.missing, "other": self.other}

    def codes(self, column: pl.Series) -> Integers:
        """Return the code of each entry of a clean column."""
        values = pl.Series(self.values, dtype=pl.String)
        codes = text_codes(column.cast(pl.String), values, first=0, other=self.other)
        return np.where(column.is_null().to_numpy(), self.missing, codes) if column.null_count() else codes

    def texts(self, codes: Integers) -> pl.Series:
        """Return the text of each code, missing where it is not a level."""
        index = np.minimum(codes, len(self.values)).astype(np.uint32)
        return pl.Series([*self.values, None], dtype=pl.String).gather(pl.Series(index))

    def count_unseen(self, column: pl.Series) -> int:
        """Return how many entries are not a level, or missing where no audited entry was."""
        unlisted = column.is_not_null() & ~column.cast(pl.String).is_in(self.values)
        return int(unlisted.sum()) + (column.null_count() if self.missing == len(self.values) else 0)


class TabularModel:
    """A membership model of features as numbers and codes; `levels` has the levels of categories."""

    __slots__ = ()
    levels: Mapping[str, CategoryLevels]

    @property
    def features(self) -> tuple[str, ...]:
        """The columns it needs."""
        raise NotImplementedError

    def log_odds(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the log-odds of rows of numbers and codes."""
        raise NotImplementedError

    def columns(self, table: Table) -> Floats:
        """Return the columns of the design matrix."""
        raise NotImplementedError

    def learnt_missing(self, name: str) -> bool:
        """Return whether it was fitted on missing numbers of a feature."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain numbers and texts."""
        raise NotImplementedError

    def checked_table(self, frame: pl.DataFrame) -> dict[str, Any]:
        """Return the features of a clean frame as numbers and codes, after a check that it has them all."""
        check_features(self.features, frame.columns)
        return {name: self._column(frame[name]) for name in self.features}

    def _column(self, column: pl.Series) -> Any:
        if column.name in self.levels:
            return self.levels[column.name].codes(column)
        if column.dtype == pl.String and column.null_count() == column.len():
            return np.full(column.len(), np.nan)  # a batch without any value has no type of its own
        if column.dtype == pl.String:
            raise DataError(
                f"Column {shown(column.name)} holds text, but numbers in the audited table.",
                "cast the column; for decimal commas, use tl.read(path, decimal=',').",
            )
        return numbers_of(column)

    def unseen_levels(self, frame: pl.DataFrame) -> dict[str, int]:
        """Return, by feature, how many rows hold a value that the model has not learnt, such as a new one."""
        counts = {}
        for name in self.features:
            if name in self.levels:
                counts[name] = self.levels[name].count_unseen(frame[name])
            else:
                infinite = int(np.isinf(numbers_of(frame[name])).sum())  # audited numbers are finite
                counts[name] = infinite + (0 if self.learnt_missing(name) else frame[name].null_count())
        return {name: count for name, count in counts.items() if count}


def check_features(features: tuple[str, ...], columns: list[str]) -> None:
    """Raise where a column that a repair needs is missing."""
    missing = [name for name in features if name not in columns]
    if missing:
        raise DataError(
            f"Column {shown(missing[0])}, a feature of the membership model, not found in `data`.",
            f"the repair needs {', '.join(features)}.",
        )
