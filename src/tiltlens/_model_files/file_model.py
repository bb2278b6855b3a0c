"""Models read from files, with the interface that audits expect: `predict_proba`, `predict` or a call.

The columns of a table are checked against those on which the model was fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl

from tiltlens._sources.tables import NativeTable, column_of_values, read_table
from tiltlens.errors import DataError, quoted, quoted_list
from tiltlens.paper.checks import Floats

Answer: TypeAlias = Any  # a model's predictions for a table: numbers, or a map from outcomes per row
Kind = Literal["number", "whole number", "text", "category"]


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """A column on which a model was fitted."""

    name: str | None  # None if the model only knows its position
    # Kind of its values. A category is given as its index in `levels`, or as text if the file has no levels.
    kind: Kind = "number"
    levels: tuple[object, ...] = ()
    may_be_missing: bool = True  # whether the model accepts missing values


def checked_table(columns: Sequence[ModelColumn], inputs: NativeTable) -> pl.DataFrame:
    """Return the columns of a model in its order and kinds; categories are text if the file has no levels.

    Columns are matched by name, or by position if the model has no names.
    """
    names = [column.name for column in columns if column.name is not None]
    table = read_table(inputs, names) if names else _by_position(columns, inputs)
    return table.select(_checked(column, series) for column, series in zip(columns, table.get_columns(), strict=True))


def _by_position(columns: Sequence[ModelColumn], inputs: NativeTable) -> pl.DataFrame:
    if isinstance(inputs, Mapping) or hasattr(inputs, "columns") or hasattr(inputs, "column_names"):
        table = read_table(inputs)
    else:
        matrix = np.asarray(inputs)
        values = enumerate(matrix.T if matrix.ndim == 2 else [matrix], start=1)
        table = pl.DataFrame([column_of_values(f"column {number}", column, len(matrix)) for number, column in values])
    if table.width != len(columns):
        raise DataError(
            f"The model was fitted on {len(columns)} columns, got {table.width}, and its file has no names of columns.",
            "list the columns in the model's order with `features`.",
        )
    return table


def _checked(column: ModelColumn, series: pl.Series) -> pl.Series:
    """Return a column in the form that the model expects; raise if its kind is wrong."""
    if column.kind == "category" and column.levels:
        return _codes(column, series)
    is_number, is_text = series.dtype.is_numeric() or series.dtype == pl.Boolean, series.dtype in (pl.String, pl.Enum)
    wants_number = column.kind in ("number", "whole number")
    if not (is_number if wants_number else is_text):
        kind, first = "text" if is_text else str(series.dtype).lower(), next(iter(series.drop_nulls().head(1)), None)
        raise DataError(
            f"The model was fitted on {column.kind}s in {quoted(series.name)}, but the column has {kind}, first "
            f"{quoted(first)}.",
            "pass the column as it was when the model was fitted.",
        )
    if not column.may_be_missing and series.null_count():
        raise DataError(
            f"{quoted(series.name)} has missing values, which the model does not accept.",
            "fill them as in training, or leave these rows out.",
        )
    if column.kind == "whole number" and series.dtype == pl.Float64 and bool((series % 1 != 0).any()):
        raise DataError(f"{quoted(series.name)} must contain integers, as in training.", "is this the right column?")
    return series.cast(pl.Float64) if wants_number else series.cast(pl.String)


def _codes(column: ModelColumn, series: pl.Series) -> pl.Series:
    """Return the indices of a category's values in its levels, as numbers."""
    levels = pl.Series(list(column.levels), strict=False)
    texts = series.cast(pl.String) if levels.dtype == pl.String else series
    code_of = {level: float(code) for code, level in enumerate(levels.to_list())}
    strangers = [value for value in texts.drop_nulls().unique(maintain_order=True).to_list() if value not in code_of]
    if strangers:
        raise DataError(
            f"{quoted(series.name)} has categories that the model was not fitted on: {quoted_list(strangers)}.",
            f"its categories are {quoted_list(list(code_of))}.",
        )
    return texts.replace_strict(code_of, return_dtype=pl.Float64).alias(series.name)


def number_matrix_of(table: pl.DataFrame) -> Floats:
    """Return a table of numbers as a matrix, with NaN for missing values."""
    return table.select(pl.all().cast(pl.Float64).fill_null(np.nan)).to_numpy()


@dataclass(frozen=True, slots=True, eq=False)
class OpenModel:
    """A model as read from a file by its library."""

    columns: tuple[ModelColumn, ...]  # on which it was fitted, in this order
    output: Literal["probability", "amount"] | None  # None if the file does not specify it
    classes: tuple[object, ...]  # the outcomes, if known
    # Returns the predictions for a table: numbers, or for each row a map from outcomes to probabilities
    answer: Callable[[pl.DataFrame], Answer]


class FileModel:
    """A model from a file; it is pickled as the file's bytes, and opened again on first use."""

    def __init__(self, name: str, content: bytes, reader: Callable[[bytes], OpenModel], model: OpenModel) -> None:
        self.name, self.content, self.reader = name, content, reader
        self._model: OpenModel | None = model
        self._named: tuple[object, ...] = ()  # outcomes named by the last predictions

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_model": None}

    @property
    def model(self) -> OpenModel:
        """The opened model."""
        if self._model is None:
            self._model = self.reader(self.content)
        return self._model

    @property
    def origin(self) -> str:
        """The origin of the model, for the provenance."""
        return f"{self.name} (model file)"

    @property
    def feature_names_in_(self) -> list[str] | None:
        """The names of the columns on which it was fitted; None if it only knows their positions."""
        names = [column.name for column in self.model.columns if column.name is not None]
        return names or None

    def _answer(self, inputs: NativeTable) -> Floats:
        answer = self.model.answer(checked_table(self.model.columns, inputs))
        if isinstance(answer, list):
            self._named = tuple(answer[0]) if answer else ()
            answer = [list(row.values()) for row in answer]
        return np.asarray(answer, dtype=np.float64)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class FileClassifier(FileModel):
    """A model from a file that predicts probabilities."""

    @property
    def classes_(self) -> tuple[object, ...]:
        """The outcomes, if known; an ONNX graph names them in its first predictions."""
        return self.model.classes or self._named

    def predict_proba(self, inputs: NativeTable) -> Floats:
        """Return the probabilities of the outcomes per row; for two outcomes, only the second may be returned."""
        return self._answer(inputs)


class FileRegressor(FileModel):
    """A model from a file that predicts amounts."""

    def predict(self, inputs: NativeTable) -> Floats:
        """Return one amount per row."""
        return self._answer(inputs).reshape(-1)


class FileFunction(FileRegressor):
    """A model from a file that does not state whether it predicts probabilities or amounts; the audit must."""

    def __call__(self, inputs: NativeTable) -> Floats:
        """Return the model's predictions."""
        return self._answer(inputs)


def file_model(name: str, content: bytes, reader: Callable[[bytes], OpenModel]) -> FileModel:
    """Return the model of a file's content, of the class that fits its output."""
    model = reader(content)
    kinds = {"probability": FileClassifier, "amount": FileRegressor, None: FileFunction}
    return kinds[model.output](name, content, reader, model)
