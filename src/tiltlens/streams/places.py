"""A column by its distinct values: few texts, declared levels, or whole numbers that lie close together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tiltlens.estimators.estimate import Integers
from tiltlens.streams.texts import distinct_texts

MOST_COUNTED = 32_768  # distinct values of a feature that are counted one by one
MOST_EXACT = 2.0**53  # whole numbers that a float can tell apart


class Placed(NamedTuple):
    """The values that a column may hold, a missing one first, and the place of each entry among them."""

    values: pl.Series
    places: Integers


def placed(column: pl.Series) -> Placed | None:
    """Return a column by its values; None where these are too many, or numbers that are not whole."""
    places_of = {pl.String: _text_places, pl.Enum: _level_places}.get(column.dtype.base_type(), _number_places)
    found = places_of(column)
    if found is None:
        return None
    values, places = found
    missing = pl.Series(column.name, [None], dtype=values.dtype)
    return Placed(pl.concat([missing, values]), places)


def _text_places(column: pl.Series) -> tuple[pl.Series, Integers] | None:
    if column.head(2 * MOST_COUNTED).n_unique() > MOST_COUNTED:
        return None
    return distinct_texts(column, first=1, missing=0)


def _level_places(column: pl.Series) -> tuple[pl.Series, Integers]:
    kind: Any = column.dtype
    places = column.to_physical().cast(pl.Int64) + 1
    return kind.categories.cast(kind), places.fill_null(0).to_numpy()


def _number_places(column: pl.Series) -> tuple[pl.Series, Integers] | None:
    dtype = column.dtype
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Date)):
        return None
    plain = column.cast(pl.Int64) if dtype in (pl.Boolean, pl.Date) else column
    ends: list[Any] = [plain.min() or 0, plain.max() or 0]
    low, high = ends
    if not (abs(low) < MOST_EXACT and high - low < MOST_COUNTED):
        return None
    numbers = (plain.fill_null(low) if column.null_count() else plain).to_numpy()
    if dtype.is_float():
        places = numbers.astype(np.intp)
        if not np.array_equal(places, numbers):
            return None
        places -= int(low) - 1
    else:
        places = np.subtract(numbers, int(low) - 1, dtype=np.intp)
    if column.null_count():
        places[column.is_null().to_numpy()] = 0
    return pl.Series(np.arange(int(low), int(high) + 1)).cast(dtype), places
