"""The columns that a model was fitted on, and a table checked against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.sources.columns import column_of_values
from tiltlens.sources.messages import listed, shown
from tiltlens.sources.tables import read_table

Kind = Literal["number", "whole number", "text", "category"]


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """A column that a model was fitted on.

    Attributes
    ----------
    name
        Of the column; None where the model knows its place alone.
    kind
        What it holds. A category is known by its place among `levels`, or is text where the file has no levels.
    may_be_missing
        Whether the model has an answer to missing values.
    """

    name: str | None
    kind: Kind = "number"
    levels: tuple[Any, ...] = ()
    may_be_missing: bool = True


def checked_table(columns: Sequence[ModelColumn], inputs: Any) -> pl.DataFrame:
    """Return what a model is asked about: its columns, in its order, of its kinds; text where levels are not known.

    Columns are matched by their names; of a model without names by their places.
    """
    names = [column.name for column in columns if column.name is not None]
    table = read_table(inputs, names) if names else _by_place(columns, inputs)
    return table.select(_checked(column, series) for column, series in zip(columns, table.get_columns(), strict=True))


def _by_place(columns: Sequence[ModelColumn], inputs: Any) -> pl.DataFrame:
    if isinstance(inputs, Mapping) or hasattr(inputs, "columns") or hasattr(inputs, "column_names"):
        table = read_table(inputs)
    else:
        matrix = np.asarray(inputs)
        width = matrix.shape[1] if matrix.ndim == 2 else 1
        values = (matrix[:, number] if matrix.ndim == 2 else matrix for number in range(width))
        table = pl.DataFrame(
            {
                f"column {number + 1}": column_of_values(f"column {number + 1}", column, len(matrix))
                for number, column in enumerate(values)
            }
        )
    if table.width != len(columns):
        raise DataError(
            f"`features` must name the {len(columns)} columns that the model was fitted on, in its order, got "
            f"{table.width}.",
            "the file has no names: list them with `features`.",
        )
    return table


def _checked(column: ModelColumn, series: pl.Series) -> pl.Series:
    """Return a column as the model expects it, which must be of its kind."""
    is_number = series.dtype.is_numeric() or series.dtype == pl.Boolean
    is_text = series.dtype in (pl.String, pl.Enum)
    wants_number = column.kind in ("number", "whole number")
    if column.kind == "category" and column.levels:
        return _codes(column, series)
    if not (is_number if wants_number else is_text):
        raise DataError(
            f"the model must have {column.kind}s in {shown(series.name)}, as it was fitted on, got {_kind(series)}.",
            "give it the column as it was when the model was fitted.",
        )
    if not column.may_be_missing and series.null_count():
        raise DataError(
            f"the model must have a {column.kind} in every row of {shown(series.name)}, got missing values.",
            "it has no answer to them: fill them as its pipeline did, or leave these rows out.",
        )
    if column.kind == "whole number" and series.dtype == pl.Float64 and bool((series % 1 != 0).any()):
        raise DataError(f"the model must have whole numbers in {shown(series.name)}, got others.", "is it the column?")
    return series.cast(pl.Float64) if wants_number else series.cast(pl.String)


def _codes(column: ModelColumn, series: pl.Series) -> pl.Series:
    """Return the places of a category's values among its levels, as numbers."""
    levels = pl.Series(list(column.levels), strict=False)
    texts = series.cast(pl.String) if levels.dtype == pl.String else series
    code_of = dict(zip(levels.to_list(), map(float, range(len(levels))), strict=True))
    strangers = [value for value in texts.drop_nulls().unique(maintain_order=True).to_list() if value not in code_of]
    if strangers:
        raise DataError(
            f"the model must have categories that it was fitted on in {shown(series.name)}, got {listed(strangers)}.",
            f"it knows {listed(list(code_of))}.",
        )
    return texts.replace_strict(code_of, return_dtype=pl.Float64).alias(series.name)


def _kind(series: pl.Series) -> str:
    first = next(iter(series.drop_nulls().head(1)), None)
    kind = "text" if series.dtype in (pl.String, pl.Enum) else str(series.dtype).lower()
    return f"{kind}, first {shown(first)}"


def number_matrix_of(table: pl.DataFrame) -> NDArray[np.float64]:
    """Return a table of numbers as a matrix, with NaN where they are missing."""
    return table.select(pl.all().cast(pl.Float64).fill_null(np.nan)).to_numpy()
