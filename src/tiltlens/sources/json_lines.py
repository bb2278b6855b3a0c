"""JSON lines: one object per row. Quoted values stay text, except for dates, which JSON does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tiltlens.errors import DataError
from tiltlens.sources.messages import first_line, shown
from tiltlens.sources.read_options import ReadOptions
from tiltlens.sources.text_columns import DATES, NUMBER, TextColumns, TextCounts, count_texts, sum_counts


@dataclass(frozen=True, slots=True, eq=False)
class JsonTable:
    """Files of JSON lines as one table."""

    scans: list[pl.LazyFrame]
    columns: TextColumns

    def notes(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what users may not expect of how these columns were read."""
        counts = self.columns.counts
        quoted = [name for name in columns if name in counts and counts[name].forms[NUMBER] == counts[name].known > 0]
        others = [name for name in columns if name not in quoted]
        return (
            *(f"{name} is read as text because its numbers are in quotation marks" for name in quoted),
            *self.columns.warnings(others, "missing values are null"),
        )


def json_table(files: Sequence[Path], options: ReadOptions) -> JsonTable:
    """Return files of JSON lines as one table; the types of columns come from all rows."""
    scans, counts = zip(*(_read_file(file) for file in files), strict=True)
    columns = TextColumns(sum_counts(counts), forms=DATES)
    return JsonTable([columns.cast(scan) for scan in scans], columns)


def _read_file(file: Path) -> tuple[pl.LazyFrame, dict[str, TextCounts]]:
    """Return a lazy frame and the counts of its text columns."""
    try:
        schema = pl.scan_ndjson(file, infer_schema_length=None).collect_schema()
        scan = pl.scan_ndjson(file, schema=schema)
        counts = count_texts(scan)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{shown(file.name)} must hold one JSON object in each line, with values of one kind for each name, got: "
            f"{first_line(error)}",
            "write it again, in UTF-8: it may have been cut short, or hold one list of all rows.",
        ) from None
    if not any(column.rows for column in counts.values()):
        raise DataError(f"{shown(file.name)} must have rows, got none.", "was it written completely?")
    return scan, counts
