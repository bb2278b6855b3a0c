"""Dates of sources that have texts for them: JSON, SQLite, and cells of text in Excel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import polars.selectors as cs

FORMS: tuple[tuple[str, Any], ...] = (  # as ISO 8601 writes them; the first that all values have counts
    ("%Y-%m-%d", pl.Date),
    ("%Y-%m-%dT%H:%M:%S%.f", pl.Datetime("us")),
    ("%Y-%m-%d %H:%M:%S%.f", pl.Datetime("us")),
)


def with_dates(scans: Sequence[pl.LazyFrame]) -> list[pl.LazyFrame]:
    """Return lazy frames with columns of texts as dates where every known value, in all of them, is a date."""
    places = range(len(FORMS))
    known = [cs.string().count().name.prefix("known ")]
    dated = [_dates(cs.string(), place).count().name.prefix(f"{place} ") for place in places]
    found = [scan.select(*known, *dated).collect(engine="streaming").to_dicts() for scan in scans]
    counts = [row[0] if row else {} for row in found]
    names = dict.fromkeys(name.removeprefix("known ") for one in counts for name in one if name.startswith("known "))
    forms: dict[str, int] = {}
    for name in names:
        of_name = [one for one in counts if f"known {name}" in one]
        whole = [place for place in places if all(one[f"{place} {name}"] == one[f"known {name}"] for one in of_name)]
        if whole and any(one[f"known {name}"] for one in of_name):
            forms[name] = whole[0]
    return [
        scan.with_columns(_dates(pl.col(name), place) for name, place in forms.items() if name in scan.collect_schema())
        for scan in scans
    ]


def _dates(text: Any, place: int) -> pl.Expr:
    form, kind = FORMS[place]
    dates: pl.Expr = text.str.strptime(kind, form, strict=False)
    return dates
