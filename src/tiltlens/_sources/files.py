"""Files: found, checked, and read in batches, with one reader per format in `FORMATS`."""

from __future__ import annotations

import glob
import logging
import os
import re
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from tiltlens._notes import Note
from tiltlens._sources.csv_files import GZIP, MARKS, csv_table, is_zipped, start_of
from tiltlens._sources.tables import S, Step, clean_batch, clean_column, folded, read_in_batches, too_large
from tiltlens._sources.text_columns import (
    DATES,
    INTEGER,
    NUMBER,
    FileTable,
    ReadOptions,
    Source,
    TextColumns,
    TextCounts,
    count_texts,
    read_texts,
    sum_counts,
)
from tiltlens.errors import (
    DataError,
    Input,
    MissingExtraError,
    checked_names,
    existing_file,
    quoted,
    quoted_list,
    wrap_errors,
)

ExcelSheet: TypeAlias = Any  # fastexcel need not be installed
UNNAMED = "__UNNAMED__"  # the reader's name for a column without a name


def excel_table(files: Sequence[Path], options: ReadOptions) -> FileTable:
    """Return one sheet of each Excel file as one table; it is kept in memory, as a sheet has at most a million rows."""
    missing = [name for name in ("fastexcel", "pyarrow") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"Reading Excel files requires {missing[0]}, which is not installed.", extra="excel")
    sheets = [_sheet(file, options.sheet) for file in files]
    frames = [frame.lazy() for frame, _ in sheets]
    columns = read_texts(frames, options.decimal)
    with_errors = {name for _, names in sheets for name in names}

    def notes(names: Sequence[str]) -> list[Note]:
        numbers = [name for name in names if columns.type_of(name) in (INTEGER, NUMBER)]
        broken = [name for name in names if name in with_errors]
        empty = [name for name in names if not columns.counts[name].filled and name not in with_errors]
        return [
            *([Note("numbers in text cells", columns=", ".join(numbers))] if numbers else []),
            *(Note("error cells", column=name) for name in broken),
            *(Note("empty column", column=name) for name in empty),
            *columns.warnings(names, "missing values are empty cells"),
        ]

    return FileTable([columns.cast(frame) for frame in frames], notes)


def _sheet(file: Path, name: str | None) -> tuple[pl.DataFrame, set[str]]:
    """Return a sheet of a file (the only one if none is named), and the columns with error cells."""
    import fastexcel

    broken = f"{quoted(file.name)} is not a complete Excel file"
    kinds = (fastexcel.FastExcelError, pl.exceptions.PolarsError, OSError)
    with wrap_errors(broken, "save it again.", kinds=kinds, hide_cause=True), _quiet():
        book = fastexcel.read_excel(file)
        sheet = _chosen(file, book.sheet_names, name)
        header = book.load_sheet(sheet, header_row=None, n_rows=1, dtypes="string").to_polars()
        if header.height and (names := [cell for cell in header.row(0) if cell is not None]):
            checked_names(names)  # the reader would silently rename a second column of the same name
        frame = pl.read_excel(
            file, sheet_name=sheet, infer_schema_length=None, drop_empty_cols=False, raise_if_empty=False
        )
        has_gaps = any(column.null_count() for column in frame)
        errors = _errors(book.load_sheet(sheet, schema_sample_rows=None)) if has_gaps else set()
    if frame.height == 0:
        raise DataError(f"{quoted(file.name)} has no rows.", "the first row of a sheet names its columns.")
    unused = [
        column.name for column in frame if column.name.startswith(UNNAMED) and column.null_count() == frame.height
    ]
    return frame.drop(unused), errors


def _errors(sheet: ExcelSheet) -> set[str]:
    """Return the columns with cells that Excel could not compute, which the reader leaves empty."""
    _, cells = sheet.to_arrow_with_errors()
    names = {column.index: column.name for column in sheet.available_columns()}
    return set() if cells is None else {names[cell.position[1]] for cell in cells.errors}


def _chosen(file: Path, sheets: list[str], name: str | None) -> str:
    """Return the sheet to read: the named one, or the only one."""
    if name is None and len(sheets) == 1:
        return sheets[0]
    if name is None or name not in sheets:
        problem = f"{len(sheets)} sheets, and none was named" if name is None else f"no sheet {quoted(name)}"
        raise DataError(
            f"{quoted(file.name)} has {problem} (`sheet` of tl.read, --sheet).",
            f"its sheets are {quoted_list(sheets)}.",
        )
    return name


@contextmanager
def _quiet() -> Generator[None]:
    """Suppress the reader's log message when it reads a column as text."""
    log = logging.getLogger("fastexcel")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _scanned(scan: Callable[..., pl.LazyFrame], files: Sequence[Path], options: ReadOptions) -> FileTable:
    """Return files that Polars scans as one table."""
    return FileTable([scan(file, glob=False) for file in files])


def _json_table(files: Sequence[Path], options: ReadOptions) -> FileTable:
    """Return files of JSON lines as one table.

    Types are decided by all rows. Quoted values stay text, except for dates, because JSON has no dates.
    """
    scans, counts = zip(*(_read_json(file) for file in files), strict=True)
    columns = TextColumns(sum_counts(counts), forms=DATES)

    def is_quoted(name: str) -> bool:
        count = columns.counts.get(name)
        return count is not None and count.forms[NUMBER] == count.filled > 0

    def notes(names: Sequence[str]) -> list[Note]:
        notes = [Note("quoted numbers", column=name) for name in names if is_quoted(name)]
        return notes + columns.warnings([name for name in names if not is_quoted(name)], "missing values are null")

    return FileTable([columns.cast(scan) for scan in scans], notes)


def _read_json(file: Path) -> tuple[pl.LazyFrame, dict[str, TextCounts]]:
    """Return the rows of a file of JSON lines as a lazy frame, and the counts of its text columns."""
    problem = f"{quoted(file.name)} must have one JSON object per line, with values of one kind for each name"
    hint = "write it again, in UTF-8. It may be cut short, or be one list of all rows."
    with wrap_errors(problem, hint, kinds=(pl.exceptions.PolarsError, OSError), hide_cause=True):
        schema = pl.scan_ndjson(file, infer_schema_length=None).collect_schema()
        scan = pl.scan_ndjson(file, schema=schema)
        counts = count_texts(scan)
    if not any(column.rows for column in counts.values()):
        raise DataError(f"{quoted(file.name)} has no rows.", "was it written completely?")
    return scan, counts


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files."""

    # The name of the format, and the endings of its file names
    name: str
    endings: tuple[str, ...]
    signature: bytes | None  # the first bytes of such files; None for text
    table: Callable[[Sequence[Path], ReadOptions], FileTable]  # reads several files as one table
    options: tuple[str, ...] = ()  # the fields of `ReadOptions` that apply


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'AE' else 'a'} {name}"


FORMATS = (
    FileFormat("CSV", (".csv", ".tsv", ".csv.gz", ".tsv.gz"), None, csv_table, ("na_values", "encoding", "decimal")),
    FileFormat("Parquet", (".parquet",), b"PAR1", partial(_scanned, pl.scan_parquet)),
    FileFormat("Arrow", (".arrow", ".feather"), b"ARROW1", partial(_scanned, pl.scan_ipc)),
    FileFormat("JSON lines", (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"), None, _json_table),
    FileFormat("Excel", (".xlsx", ".xlsm"), b"PK\x03\x04", excel_table, ("sheet", "decimal")),
)
ENDINGS = tuple(ending for file_format in FORMATS for ending in file_format.endings)
UNKNOWN = "something else"
OTHERS = {GZIP: "a gzip file", b"FEA1": "an old Feather file", b"\xd0\xcf\x11\xe0": "an old Excel file"}
OTHERS |= {each.signature: f"{_a(each.name)} file" for each in FORMATS if each.signature}


def ending_of(file: Path) -> str | None:
    """Return the supported ending of a file's name; None if it has none."""
    return max((ending for ending in ENDINGS if file.name.lower().endswith(ending)), key=len, default=None)


def format_of(file: Path) -> FileFormat:
    """Return the format of a file by its name."""
    ending = ending_of(file)
    if ending is None:
        raise DataError(
            f"{quoted(file.name)} must end in {listed_endings()}, got {quoted(file.suffix)}.",
            "convert the file, or correct the ending of its name.",
        )
    return next(file_format for file_format in FORMATS if ending in file_format.endings)


def listed_endings() -> str:
    """Return the endings as a message lists them."""
    return f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"


def check_file(file: Path, options: ReadOptions) -> None:
    """Raise for a file that is missing or empty, or whose content does not match its ending."""
    existing_file(file)
    if file.stat().st_size == 0:
        raise DataError(f"{quoted(file.name)} must hold a table, got an empty file.", "was it written completely?")
    file_format = format_of(file)
    with file.open("rb") as stream:
        start = stream.read(8)
    kind, signature = ("gzip", GZIP) if is_zipped(file) else (file_format.name, file_format.signature or b"")
    is_right = start.startswith(signature)
    if is_right and file_format.signature is None:
        kind, start = file_format.name, start_of(file)
        is_right = _is_text(start) or options.encoding is not None
    if not is_right:
        hint, looks_like = "correct the ending of its name, or write the file again.", _looks_like(start)
        if "encoding" in file_format.options and looks_like == UNKNOWN:
            hint = (
                "for text in UTF-16, pass `encoding` to tl.read (--encoding); otherwise correct the ending of its name."
            )
        raise DataError(f"{quoted(file.name)} must be {_a(kind)} file, got {looks_like}.", hint)


def _is_text(start: bytes) -> bool:
    """Return whether a file may be text; UTF-16 contains NULs and is recognised by its first bytes."""
    is_marked = any(start.startswith(mark) for mark, _ in MARKS)
    return is_marked or not (b"\0" in start or any(start.startswith(signature) for signature in OTHERS))


def _looks_like(start: bytes) -> str:
    kind = next((kind for signature, kind in OTHERS.items() if start.startswith(signature)), None)
    return kind or (UNKNOWN if b"\0" in start else "what looks like text")


@dataclass(frozen=True, eq=False)
class FileBatches:
    """Files of one format with the same columns, read one after another."""

    files: tuple[Path, ...]
    options: ReadOptions

    def names(self) -> list[str]:
        """See `Batches`."""
        return checked_names(_schema(self._scans[0], self.files[0]).names())

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """See `Batches`."""
        kinds = self._check_schemas(columns)
        scans = [(repr(str(file)), scan.select(columns)) for file, scan in zip(self.files, self._scans, strict=True)]
        texts = pl.Schema({column: pl.String for name, scan in scans for column in too_large(scan, name)})
        kinds.update(texts)

        return folded(_read(scans, texts, lambda batch: clean_batch(batch).cast(kinds)), step)

    def frames(self, columns: Sequence[str], texts: Collection[str] = ()) -> Generator[pl.DataFrame]:
        """See `OrderedBatches`."""
        read = [name for name in columns if name not in texts]
        self._check_schemas(read)
        scans = self._scans if self._table.as_written is None else self._table.as_written(texts)
        named = [(repr(str(file)), scan.select(columns)) for file, scan in zip(self.files, scans, strict=True)]
        yield from _read(named, _common_schema(named))

    def notes(self, columns: Sequence[str]) -> tuple[Note, ...]:
        """Return notes on unexpected ways in which these columns were read."""
        return tuple(self._table.notes(columns))

    @cached_property
    def _table(self) -> FileTable:
        for file in self.files:
            check_file(file, self.options)
        return format_of(self.files[0]).table(self.files, self.options)

    @property
    def _scans(self) -> list[pl.LazyFrame]:
        """One lazy frame per file."""
        return self._table.scans

    def _check_schemas(self, columns: Sequence[str]) -> pl.Schema:
        """Return the clean kinds of the columns; raise if a file lacks a column or has another kind."""
        kinds = pl.Schema()
        for file, scan in zip(self.files, self._scans, strict=True):
            schema = _schema(scan, file)
            missing = [name for name in columns if name not in schema]
            if missing:
                raise DataError(
                    f"{str(file)!r} has no column {quoted(missing[0])}, but {str(self.files[0])!r} has.",
                    "write the file again, or leave it out.",
                )
            for name in columns:
                kind = clean_column(pl.Series(name, [], dtype=schema[name])).dtype
                if kinds.setdefault(name, kind) != kind:
                    raise DataError(
                        f"{quoted(name)} is {kind} in {str(file)!r} but {kinds[name]} in {str(self.files[0])!r}.",
                        "write the file again with columns of the same kinds.",
                    )
        return kinds


def _read(
    scans: Sequence[tuple[str, pl.LazyFrame]], kinds: pl.Schema, clean: Step[pl.DataFrame] = lambda batch: batch
) -> Generator[pl.DataFrame]:
    """Yield the batches of files, one after another."""
    for name, scan in scans:
        with closing(read_in_batches(scan.cast(kinds), name)) as batches:
            yield from map(clean, batches)


def _common_schema(scans: Sequence[tuple[str, pl.LazyFrame]]) -> pl.Schema:
    """Return the kinds to which the columns of all files can be converted; raise if there are none."""
    schema_so_far = scans[0][1].collect_schema()
    for name, scan in scans[1:]:
        problem = f"{name} has columns of other kinds than {scans[0][0]}"
        hint = "write it again with the kinds of the first file."
        with wrap_errors(problem, hint, kinds=pl.exceptions.PolarsError, hide_cause=True):
            both = [pl.DataFrame(schema=schema) for schema in (schema_so_far, scan.collect_schema())]
            schema_so_far = pl.concat(both, how="vertical_relaxed").schema
    return schema_so_far


def _schema(frame: pl.LazyFrame, file: Path) -> pl.Schema:
    broken = f"{str(file)!r} is not a complete {format_of(file).name} file"
    with wrap_errors(broken, "write it again.", kinds=(pl.exceptions.PolarsError, OSError), hide_cause=True):
        return frame.collect_schema()


def files_of(data: object) -> tuple[Path, ...] | None:
    """Return the files named by a path, a pattern, a folder or a list of these; None for any other data."""
    entries = _entries(data)
    if entries is None:
        return None
    files = [file for entry in entries for file in _files(entry)]
    _check_distinct(files)
    endings = {format_of(file).name: ending for file in files if (ending := ending_of(file))}
    if len(endings) > 1:
        raise DataError(
            f"The files must be of one kind, got {' and '.join(sorted(endings.values()))}.",
            f"name the {' or the '.join(sorted(endings))} files.",
        )
    return tuple(files)


def _entries(data: object) -> list[str] | None:
    entries = list(data) if isinstance(data, (list, tuple)) and data else [data]
    paths = [os.fspath(entry) for entry in entries if isinstance(entry, (str, os.PathLike))]
    return paths if len(paths) == len(entries) else None


def _check_distinct(files: Sequence[Path]) -> None:
    """Raise if a file is named twice, since its rows would count twice and intervals would be too narrow."""
    seen: dict[tuple[int, int], Path] = {}
    for file in files:
        if file.exists():
            status = file.stat()
            first = seen.setdefault((status.st_dev, status.st_ino), file)
            if first is not file:
                raise DataError(
                    f"{str(file)!r} and {str(first)!r} are the same file, so its rows would count twice.",
                    "name each file once.",
                )


def inputs_of(*several: object) -> list[Input]:
    """Return the files, folders, patterns and databases that the data name; data in memory name none."""
    entries = [entry for data in several for entry in (_entries(Source.of(data).path) or ())]
    paths = {entry: re.sub(r"^[A-Za-z][\w+.-]+:///?", "", entry) for entry in entries}  # of the URL of a database
    return [
        Input(
            entry, tuple(file.absolute() for file in _matching_files(path)), partial(_would_read, Path(path).absolute())
        )
        for entry, path in paths.items()
    ]


def _would_read(entry: Path, path: Path) -> bool:
    """Return whether a file would be read as part of a folder or pattern."""
    if entry.is_dir():
        folder = Path(os.path.realpath(entry))
        return path.is_relative_to(folder) and ending_of(path) is not None and _is_data(path, folder)
    if entry.exists() or not glob.has_magic(str(entry)):
        return False
    start = next(index for index, part in enumerate(entry.parts) if glob.has_magic(part))
    pattern = Path(os.path.realpath(Path(*entry.parts[:start]))).joinpath(*entry.parts[start:])
    is_as_deep = "**" in pattern.parts or len(path.parts) == len(pattern.parts)
    return is_as_deep and fnmatchcase(str(path), str(pattern).replace(f"**{os.sep}", "*"))


def _matching_files(entry: str) -> list[Path]:
    path = Path(entry)
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if ending_of(file) and _is_data(file, path))
    if glob.has_magic(entry) and not path.exists():
        return sorted(Path(file) for file in glob.iglob(entry, recursive=True) if Path(file).is_file())  # noqa: PTH207
    return [path]


def _files(entry: str) -> list[Path]:
    if entry in ("-", "/dev/stdin"):
        raise DataError(
            "Data cannot come from standard input, because they are read several times.", "write them to a file first."
        )
    if not entry:
        raise DataError("Data must be files, a folder or a database, got an empty name.", "name a file.")
    files = _matching_files(entry)
    if not files:
        raise DataError(
            f"{entry!r} must match files that end in {listed_endings()}, got none.",
            f"it was looked for in {Path.cwd()}.",
        )
    return files


def _is_data(file: Path, folder: Path) -> bool:
    """Return whether a file is data, and not hidden or a marker left by an engine (name starts with "." or "_")."""
    return not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
