"""The formats that files may have, one line each: how they are known, checked and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import polars as pl

from tiltlens.errors import DataError
from tiltlens.sources.csv_dialect import GZIP, MARKS, is_zipped, start_of
from tiltlens.sources.csv_files import csv_table
from tiltlens.sources.excel_files import excel_table
from tiltlens.sources.json_lines import json_table
from tiltlens.sources.messages import shown
from tiltlens.sources.read_options import ReadOptions


class FileTable(Protocol):
    """Files of one format as one table."""

    @property
    def scans(self) -> list[pl.LazyFrame]:
        """One lazy frame for each file."""
        ...

    def notes(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what users may not expect of how these columns were read."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PlainTable:
    """Files that say of themselves what their columns are."""

    scans: list[pl.LazyFrame]

    def notes(self, columns: Sequence[str]) -> tuple[str, ...]:
        """As of `FileTable`."""
        return ()


def _parquet_table(files: Sequence[Path], options: ReadOptions) -> FileTable:
    return PlainTable([pl.scan_parquet(file, glob=False) for file in files])


def _arrow_table(files: Sequence[Path], options: ReadOptions) -> FileTable:
    return PlainTable([pl.scan_ipc(file, glob=False) for file in files])


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files.

    Attributes
    ----------
    name
        As in "a Parquet file".
    endings
        Of the names of such files.
    signature
        The first bytes; None of texts, which are told by what they are not.
    options
        Of `ReadOptions`, that say something of it.
    """

    name: str
    endings: tuple[str, ...]
    signature: bytes | None
    table: Callable[[Sequence[Path], ReadOptions], FileTable]
    options: tuple[str, ...] = ()


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'AE' else 'a'} {name}"


FORMATS = (
    FileFormat("CSV", (".csv", ".tsv", ".csv.gz", ".tsv.gz"), None, csv_table, ("na_values", "encoding", "decimal")),
    FileFormat("Parquet", (".parquet",), b"PAR1", _parquet_table),
    FileFormat("Arrow", (".arrow", ".feather"), b"ARROW1", _arrow_table),
    FileFormat("JSON lines", (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"), None, json_table),
    FileFormat("Excel", (".xlsx", ".xlsm"), b"PK\x03\x04", excel_table, ("sheet", "decimal")),
)
ENDINGS = tuple(ending for one in FORMATS for ending in one.endings)
UNKNOWN = "something else"
OTHERS = {GZIP: "a gzip file", b"FEA1": "an old Feather file", b"\xd0\xcf\x11\xe0": "an old Excel file"}
OTHERS |= {one.signature: f"{_a(one.name)} file" for one in FORMATS if one.signature}


def ending_of(file: Path) -> str | None:
    """Return how a file's name ends, of the endings that are read."""
    return max((ending for ending in ENDINGS if file.name.lower().endswith(ending)), key=len, default=None)


def format_of(file: Path) -> FileFormat:
    """Return the format of a file by its name."""
    ending = ending_of(file)
    if ending is None:
        raise DataError(
            f"{shown(file.name)} must end in {listed_endings()}, got {shown(file.suffix)}.",
            "convert it, or rename it to what it is.",
        )
    return next(file_format for file_format in FORMATS if ending in file_format.endings)


def listed_endings() -> str:
    """Return the endings as a message lists them."""
    return f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"


def check_content(file: Path, options: ReadOptions) -> None:
    """Raise for a file that is not what its name says."""
    file_format = format_of(file)
    with file.open("rb") as stream:
        start = stream.read(8)
    kind, signature = ("gzip", GZIP) if is_zipped(file) else (file_format.name, file_format.signature or b"")
    is_right = start.startswith(signature)
    if is_right and file_format.signature is None:
        kind, start = file_format.name, start_of(file)
        is_right = _is_text(start) or options.encoding is not None
    if not is_right:
        hint, looks_like = "rename it to what it is, or write it again.", _looks_like(start)
        if "encoding" in file_format.options and looks_like == UNKNOWN:
            hint = "for text in UTF-16, pass `encoding` to tl.read (--encoding); otherwise rename it to what it is."
        raise DataError(f"{shown(file.name)} must be {_a(kind)} file, got {looks_like}.", hint)


def _is_text(start: bytes) -> bool:
    """Return whether a file may be a text: in UTF-16, which holds NULs, where its first bytes say so."""
    is_marked = any(start.startswith(mark) for mark, _ in MARKS)
    return is_marked or not (b"\0" in start or any(start.startswith(signature) for signature in OTHERS))


def _looks_like(start: bytes) -> str:
    kind = next((kind for signature, kind in OTHERS.items() if start.startswith(signature)), None)
    return kind or (UNKNOWN if b"\0" in start else "what looks like text")
