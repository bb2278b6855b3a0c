"""Features as the models of an adjustment read them from new rows: numbers, and codes of levels.

An additive model, intercept + Σ_j f_j(x_j) with f_j a spline of a number or an effect of each level of a category, can
be inspected and saved as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tiltlens.errors import DataError, shown
from tiltlens.estimators.influence import Integers
from tiltlens.learners.design import Encoding, Table
from tiltlens.paper.checks import Floats
from tiltlens.rows.features import DesignColumn, Feature
from tiltlens.rows.levels import MISSING, OTHER, numbers_of
from tiltlens.sources.arrays import chunks, text_codes

LOOKED_UP = 1 << 15  # rows whose additive parts are made at a time: what they need stays in the cache


@dataclass(frozen=True, slots=True)
class CategoryLevels:
    """The levels of a category, and the codes of missing values and of texts that are not a level."""

    values: tuple[str, ...]
    missing: int
    other: int

    @classmethod
    def of(cls, feature: Feature) -> CategoryLevels:
        """Return the levels of an audited category."""
        levels = feature.levels
        if levels is None or levels.values is None:
            raise DataError(f"Column {shown(feature.name)} has no levels.", "leave it out.")
        values = tuple(levels.values.to_list())
        unseen = len(values)  # a level that no audited row has: it has no effect, like rare ones
        return cls(values, levels.missing if MISSING in values else unseen, levels.other if OTHER in values else unseen)

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


@dataclass(frozen=True, slots=True, eq=False)
class CodedFeatures:
    """The features of a model, as it reads them from new rows: numbers, and codes of levels.

    `levels` has the levels of the categories, `missing` the names of features whose numbers it was fitted on although
    some were missing.
    """

    features: tuple[str, ...]
    levels: Mapping[str, CategoryLevels]
    missing: tuple[str, ...]

    def checked_table(self, frame: pl.DataFrame) -> dict[str, DesignColumn]:
        """Return the features of a clean frame as numbers and codes, after a check that it has them all."""
        check_features(self.features, frame.columns)
        return {name: self._column(frame[name]) for name in self.features}

    def blank_row(self) -> dict[str, DesignColumn]:
        """Return a table of one row: numbers are 0, and levels are new, which needs the entry of every level."""
        new = {name: np.array([len(levels.values)], dtype=np.intp) for name, levels in self.levels.items()}
        return {name: new.get(name, np.zeros(1)) for name in self.features}

    def _column(self, column: pl.Series) -> DesignColumn:
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
                counts[name] = infinite + (0 if name in self.missing else frame[name].null_count())
        return {name: count for name, count in counts.items() if count}


def check_features(features: tuple[str, ...], columns: list[str]) -> None:
    """Raise where a column that an adjustment needs is missing."""
    missing = [name for name in features if name not in columns]
    if missing:
        raise DataError(
            f"Column {shown(missing[0])}, which the adjustment needs, not found in `data`.",
            f"it needs {', '.join(features)}.",
        )


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveModel(CodedFeatures):
    """A fitted additive model: encoding of the features, and coefficients."""

    encoding: Encoding
    intercept: float
    slopes: Floats

    def additive(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the additive part for rows of numbers and codes, in chunks that fit the cache."""
        rows = {name: column[index] for name, column in table.items()}
        total = np.empty(len(next(iter(rows.values()))))
        for part in chunks(total.size, LOOKED_UP):
            total[part] = self.encoding.applied(rows, part, self.slopes[:, None])[:, 0]
        total += self.intercept
        return total

    def columns(self, table: Table) -> Floats:
        """Return the columns of the design matrix."""
        return self.encoding.matrix(table, slice(None))


def encoded_features(
    encoder: Encoding, levels: Mapping[str, CategoryLevels]
) -> tuple[tuple[str, ...], Mapping[str, CategoryLevels], tuple[str, ...]]:
    """Return the fields of the `CodedFeatures` that an encoding reads."""
    features = (*(column.name for column in encoder.numeric), *(column.name for column in encoder.levels))
    return features, levels, tuple(column.name for column in encoder.numeric if column.has_missing)


def feature_table(features: Sequence[Feature]) -> dict[str, DesignColumn]:
    """Return features as columns of numbers and codes."""
    return {feature.name: feature.codes if feature.values is None else feature.values for feature in features}


def category_levels(features: Sequence[Feature]) -> dict[str, CategoryLevels]:
    """Return the levels of the features that are categories."""
    return {feature.name: CategoryLevels.of(feature) for feature in features if feature.values is None}
