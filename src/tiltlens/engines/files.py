"""Parquet and CSV files: found, checked, and read batch by batch by one reader for each format."""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tiltlens.engines.batches import S, Step, clean_batch, folded, read_in_batches, too_large
from tiltlens.engines.columns import clean_column
from tiltlens.engines.messages import checked_names, first_line, nearest_name, shown
from tiltlens.errors import DataError

ENDINGS = (".parquet", ".csv")
MISSING_TEXTS = ["", "NA", "NaN"]  # of a CSV file; every other text is a value
SIGNATURES = {b"PAR1": "a Parquet file", b"PK\x03\x04": "a ZIP or Excel file", b"\x1f\x8b": "a gzip file"}


@dataclass(frozen=True, eq=False)
class FileBatches:
    """Parquet or CSV files of the same columns, read one after another.

    In a CSV the texts "", "NA" and "NaN" are missing values, dates are recognised, fields are separated by commas,
    and the text is UTF-8. Kinds are inferred from all rows of all files: numbers with one word among them are text.
    """

    files: tuple[Path, ...]

    def names(self) -> list[str]:
        """As of `Batches`."""
        return checked_names(_schema(self._scans[0], self.files[0]).names())

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """As of `Batches`."""
        kinds = self._check_schemas(columns)
        scans = [(repr(str(file)), scan.select(columns)) for file, scan in zip(self.files, self._scans, strict=True)]
        texts = {column: pl.String for name, scan in scans for column in too_large(scan, name)}
        kinds |= texts

        def frames() -> Generator[pl.DataFrame]:
            for name, scan in scans:
                with closing(read_in_batches(scan.cast(texts), name)) as batches:  # type: ignore[arg-type]
                    yield from (clean_batch(batch).cast(kinds) for batch in batches)  # type: ignore[arg-type]

        return folded(frames(), step)

    @cached_property
    def _scans(self) -> list[pl.LazyFrame]:
        """One lazy frame for each file."""
        for file in self.files:
            check_file(file)
        if self.files[0].suffix.lower() == ".parquet":
            return [pl.scan_parquet(file) for file in self.files]
        return _csv_scans(self.files)

    def _check_schemas(self, columns: Sequence[str]) -> dict[str, Any]:
        """Return the clean kinds of the columns, which every file must have."""
        kinds: dict[str, Any] = {}
        for file, scan in zip(self.files, self._scans, strict=True):
            schema = _schema(scan, file)
            missing = [name for name in columns if name not in schema]
            if missing:
                raise DataError(
                    f"every file must have the columns of {str(self.files[0])!r}, got no {shown(missing[0])} in "
                    f"{str(file)!r}.",
                    "write it again, or leave it out.",
                )
            for name in columns:
                kind = clean_column(pl.Series(name, [], dtype=schema[name])).dtype
                if kinds.setdefault(name, kind) != kind:
                    raise DataError(
                        f"every file must have columns of the same kinds as {str(self.files[0])!r}, got "
                        f"{shown(name)} as {kind}, not {kinds[name]}, in {str(file)!r}.",
                        "write it again with that kind.",
                    )
        return kinds


def _schema(frame: pl.LazyFrame, file: Path) -> pl.Schema:
    try:
        return frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{str(file)!r} must be a complete {file.suffix[1:].title()} file, got: {first_line(error)}",
            "write it again.",
        ) from None


def _csv_scans(files: Sequence[Path]) -> list[pl.LazyFrame]:
    """Return lazy frames of CSV files, of the kinds that all their rows together have."""
    options: dict[str, Any] = {"null_values": MISSING_TEXTS, "try_parse_dates": True, "infer_schema_length": None}
    schemas = [_csv_schema(file, options) for file in files]
    kinds: dict[str, Any] = {}
    for schema in schemas:
        for name, kind in schema.items():
            kinds[name] = _common_kind(kinds.get(name, kind), kind)
    known = {name: pl.String if kind == pl.Null else kind for name, kind in kinds.items()}
    overrides = [{name: known[name] for name in schema} for schema in schemas]
    return [pl.scan_csv(file, schema=schema, **options) for file, schema in zip(files, overrides, strict=True)]


def _csv_schema(file: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return the kinds of one CSV file's columns by all its rows, each with as many fields as the header."""
    try:
        _check_header(file)
        scan = pl.scan_csv(file, **options)
        schema = scan.collect_schema()
        # Of all columns: where Polars reads some only, it does not mind a field too many.
        counts = scan.select(pl.len().alias("\0rows"), pl.all().null_count())
        rows, *gaps = counts.collect(engine="streaming").row(0)
    except (pl.exceptions.PolarsError, UnicodeDecodeError, csv.Error, OSError) as error:
        _check_fields(file)
        raise DataError(
            f"{shown(file.name)} must be a CSV file in UTF-8, got: {first_line(error)}",
            "look for an unclosed quotation mark, or save it as UTF-8.",
        ) from None
    if rows == 0:
        raise DataError(f"{shown(file.name)} must have rows, got a header only.", "was it written completely?")
    if gaps[-1]:  # Polars fills a row that ends too early; nothing else leaves that trace
        _check_fields(file)
    return {name: pl.Null if gap == rows else kind for (name, kind), gap in zip(schema.items(), gaps, strict=True)}


def _common_kind(one: Any, other: Any) -> Any:
    """Return the kind that values of both kinds have: numbers together are floats, anything else together is text."""
    if one == other or other == pl.Null:
        return one
    if one == pl.Null:
        return other
    if one.is_integer() and other.is_integer():
        return pl.Int128
    return pl.Float64 if one.is_numeric() and other.is_numeric() else pl.String


def files_of(data: Any) -> tuple[Path, ...] | None:
    """Return the files that a path, a pattern, a folder or a list of these names; None where it is none of them."""
    entries = list(data) if isinstance(data, (list, tuple)) and data else [data]
    if not all(isinstance(entry, (str, os.PathLike)) for entry in entries):
        return None
    files = [file for entry in entries for file in _files(os.fspath(entry))]
    endings = {file.suffix.lower() for file in files}
    if len(endings) > 1:
        raise DataError(
            f"the files must be of one kind, got {' and '.join(sorted(endings))}.", "name the Parquet or the CSV files."
        )
    return tuple(files)


def _files(entry: str) -> list[Path]:
    path = Path(entry)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in ENDINGS and _is_data(file, path))
    elif glob.has_magic(entry) and not path.exists():
        files = sorted(Path(file) for file in glob.iglob(entry, recursive=True) if Path(file).is_file())  # noqa: PTH207
    else:
        return [path]
    if not files:
        raise DataError(
            f"{entry!r} must match .csv or .parquet files, got none.", f"it was looked for in {Path.cwd()}."
        )
    return files


def _is_data(file: Path, folder: Path) -> bool:
    """Return whether a file is no mark that an engine left behind."""
    return not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def check_file(file: Path) -> None:
    """Raise for a file that is not there, is empty, or is not what its name says."""
    if not file.is_file():
        raise _missing_file(file)
    if file.stat().st_size == 0:
        raise DataError(f"{shown(file.name)} must hold a table, got an empty file.", "was it written completely?")
    ending = file.suffix.lower()
    if ending == ".parquet":
        _check_parquet(file)
    elif ending == ".csv":
        _check_csv(file)
    else:
        raise DataError(
            f"{shown(file.name)} must end in .csv or .parquet, got {shown(ending)}.", "convert it, or rename it."
        )


def _missing_file(file: Path) -> DataError:
    given = repr(str(file))  # in full: the end of a long path says most
    if file.is_dir():
        return DataError(f"{given} must be a file, got a folder.", "name one .csv or .parquet file.")
    neighbours = sorted(entry.name for entry in file.parent.iterdir()) if file.parent.is_dir() else []
    nearest = nearest_name(file.name, neighbours)
    hint = (
        f"did you mean {shown(nearest)}?" if nearest is not None else f"it was looked for in {file.parent.resolve()}."
    )
    return DataError(f"{given} must be an existing file, got none of that name.", hint)


def _check_parquet(file: Path) -> None:
    with file.open("rb") as stream:
        start = stream.read(4)
    if start != b"PAR1":
        raise DataError(
            f"{shown(file.name)} must be a Parquet file, got {_looks_like(start)}.",
            "rename it to what it is, for example .csv, or write it again.",
        )


def _looks_like(start: bytes) -> str:
    for signature, kind in SIGNATURES.items():
        if start.startswith(signature):
            return kind
    return "something else" if b"\0" in start else "what looks like text"


def _check_csv(file: Path) -> None:
    with file.open("rb") as stream:
        start = stream.read(4096)
    if b"\0" in start or any(start.startswith(signature) for signature in SIGNATURES):
        raise DataError(
            f"{shown(file.name)} must be a CSV file, got {_looks_like(start)}.",
            "rename it to what it is, for example .parquet, or write it as CSV.",
        )


def _check_header(file: Path) -> None:
    """Raise for a header that Polars would mend without a word."""
    with file.open(newline="", encoding="utf-8-sig") as stream:
        names = next(csv.reader(stream), [])
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise DataError(
            f"the fields of {shown(file.name)} must be separated by commas, got the header {shown(names[0])}.",
            "write it with commas.",
        )
    checked_names(names)


def _check_fields(file: Path) -> None:
    """Raise for the first row that has more or fewer fields than the header, with its line."""
    with file.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        reader = csv.reader(stream)
        try:
            width = len(next(reader, []))
            broken = next((row for row in reader if row and len(row) != width), None)
        except csv.Error:  # a field beyond the reader's limit: there is no line to name
            return
        if broken is not None:
            raise DataError(
                f"every row of {shown(file.name)} must have {width} fields, "
                f"got {len(broken)} in line {reader.line_num}.",
                "look there for a comma that needs quotation marks, or for a row cut short.",
            )
