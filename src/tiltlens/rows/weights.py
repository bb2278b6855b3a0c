"""Sample weights, and the rows that a condition picks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError, listed, shown
from tiltlens.formats import text_of
from tiltlens.paper.checks import Floats
from tiltlens.rows.scores import RowName

MOST_UNEQUAL = 1e9  # weights: beyond this the smaller ones are lost in the rounding of the sums
Booleans = NDArray[np.bool_]


def scaled_weights(values: Floats, largest: float) -> Floats:
    """Return weights divided by the largest: nothing depends on their unit.

    Twelve digits are kept. The last ones depend on the unit, and trees may split ties by them.
    """
    digits, power = np.frexp(values / (largest or 1.0))
    return np.ldexp(np.round(digits, 12), power)


def check_unequal(least: float, largest: float) -> None:
    """Raise where weights differ so much that the smaller ones are lost in the rounding of the sums."""
    if least < largest / MOST_UNEQUAL:
        raise DataError(
            f"`sample_weight` must not differ by more than a factor of {MOST_UNEQUAL:g}, got {least:g} and "
            f"{largest:g}.",
            "give rows that hardly count the weight 0: they are left out, and counted.",
        )


def check_sample_weight(name: str | None, table: pl.DataFrame, row_name: RowName) -> Floats:
    """Return the given weight of each row; without weights 1, broadcast from one number."""
    if name is None:
        return np.broadcast_to(1.0, table.height)
    column = table[name]
    values = numbers_of("sample_weight", column)
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        row = int(np.argmax(bad))
        if column[row] is None:
            raise DataError(f"`sample_weight` is missing in {row_name(row)}.", "drop such rows, or fill their weights.")
        raise DataError(
            f"`sample_weight` must be finite and not negative, got {column[row]} in {row_name(row)}.",
            "drop such rows, or correct their weights.",
        )
    return values


def not_found(name: str, value: object, values: Sequence[object]) -> DataError:
    """Return the error for a value of `where` that no row has."""
    return DataError(
        f"No row has {shown(value)} in column {shown(name)} (`where`).", f"its values are {listed(values)}."
    )


def equals_mask(column: pl.Series, value: object) -> Booleans:
    """Return which entries are `value`; as texts, so that 1, 1.0, "1" and a boolean True agree."""
    wanted = text_of(value).casefold()
    mine = [entry for entry in column.unique().drop_nulls().to_list() if wanted in _texts(entry)]
    return column.is_in(mine).fill_null(value=False).to_numpy()


def _texts(entry: object) -> set[str]:
    texts = {text_of(entry), text_of(int(entry))} if isinstance(entry, bool) else {text_of(entry)}
    return {text.casefold() for text in texts}


def numbers_of(argument: str, column: pl.Series) -> Floats:
    """Return a column of numbers, NaN where missing."""
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise DataError(
            f"`{argument}` must be numbers, got {column.dtype} in column {shown(column.name)}.",
            "name a column of numbers, or cast this one; pass decimal=',' (--decimal ',') for decimal commas.",
        )
    numbers = column.cast(pl.Float64)
    return (numbers.fill_null(float("nan")) if numbers.null_count() else numbers).to_numpy()
