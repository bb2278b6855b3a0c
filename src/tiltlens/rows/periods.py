"""The period of each row, such as its month: a code per row, and labels in their natural order."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Integers
from tiltlens.limits import MOST_PERIODS
from tiltlens.rows.groups import level_codes, natural_order
from tiltlens.sources.messages import listed

MONTH_NAMES = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
MONTHS = tuple(name[:3] for name in MONTH_NAMES)


def read_periods(column: pl.Series) -> pl.Series:
    """Return the period of each row as a text, null where it is missing."""
    codes, labels = level_codes(column.fill_nan(None) if column.dtype.is_float() else column)
    texts = pl.Series([*labels, None], dtype=pl.String)
    return texts.gather(np.where(codes < 0, len(labels), codes))


def sort_periods(periods: Iterable[str]) -> tuple[str, ...]:
    """Return different periods in their order, names of months by the calendar; of too many, one more than may be."""
    different = set(periods)
    months = {period: period.strip()[:3].casefold() for period in different}
    are_months = all(
        short in MONTHS and MONTH_NAMES[MONTHS.index(short)].startswith(period.strip(" .").casefold())
        for period, short in months.items()
    )
    ordered = sorted(different, key=(lambda period: MONTHS.index(months[period])) if are_months else natural_order)
    return tuple(ordered[: MOST_PERIODS + 1])


def check_periods(periods: tuple[str, ...], is_soft: bool) -> None:
    """Raise where there are too few periods to compare, or too many to look at, or groups are known by chances."""
    if is_soft:
        raise DataError(
            "`periods` must be left out where groups are known by probabilities, got both.",
            "audit each period by itself, and compare with tl.compare.",
        )
    if len(periods) > MOST_PERIODS:
        raise DataError(
            f"`periods` must have at most {MOST_PERIODS} values, got more: {listed(periods[:3])}, …",
            "make months or quarters of dates.",
        )
    if len(periods) < 2:
        raise DataError(f"`periods` must have at least two values, got {listed(periods) or 'none'}.", "leave it out.")


def encode_periods(texts: pl.Series, periods: tuple[str, ...]) -> Integers:
    """Return the place of each row's period, one after the last where it is missing."""
    codes = texts.cast(pl.Enum(periods), strict=False).to_physical().cast(pl.Int64)
    return codes.fill_null(len(periods)).to_numpy()
