"""JSON lines: one object a row. Texts in quotation marks are texts, but for dates, of which JSON has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tiltlens.errors import DataError
from tiltlens.sources.date_strings import with_dates
from tiltlens.sources.messages import first_line, shown
from tiltlens.sources.numeric_strings import NumberTexts, counted_texts
from tiltlens.sources.read_options import ReadOptions


@dataclass(frozen=True, slots=True, eq=False)
class JsonTable:
    """Files of JSON lines as one table."""

    scans: list[pl.LazyFrame]
    numbers: NumberTexts

    def check(self, columns: Sequence[str]) -> None:
        """Raise for a column that cannot be read for what it is: there is none."""

    def notes(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what became of columns that their owner may not expect."""
        quoted = (*self.numbers.plain, *self.numbers.codes, *self.numbers.with_commas)
        told = [f"{name} is read as text: its numbers are in quotation marks" for name in quoted if name in columns]
        return (*told, *self.numbers.mostly_notes(self.scans, columns, "missing values are null"))


def json_table(files: Sequence[Path], options: ReadOptions) -> JsonTable:
    """Return files of JSON lines as one table; the kinds of columns come from all rows."""
    scans = [_scan(file) for file in files]
    dated = with_dates(scans)
    return JsonTable(dated, counted_texts(dated))


def _scan(file: Path) -> pl.LazyFrame:
    """Return a lazy frame whose every line has been read once."""
    scan = pl.scan_ndjson(file, infer_schema_length=None)
    try:
        scan = pl.scan_ndjson(file, schema=scan.collect_schema())
        rows = scan.select(pl.len(), pl.all().null_count().name.prefix("gaps ")).collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{shown(file.name)} must hold one JSON object in each line, with values of one kind for each name, got: "
            f"{first_line(error)}",
            "write it again, in UTF-8: it may have been cut short, or hold one list of all rows.",
        ) from None
    if rows["len"].item() == 0:
        raise DataError(f"{shown(file.name)} must have rows, got none.", "was it written completely?")
    return scan
