"""CSV files as one table, with column types decided by all rows.

Polars reads UTF-8, with or without gzip. A file in another encoding is copied as UTF-8 to a folder that only its owner
can read; the copy is deleted after use.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import shutil
import weakref
import zlib
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, TextIO, cast

import polars as pl

from tiltlens._limits import FIRST_LOOK_ROWS
from tiltlens._notes import Note
from tiltlens._sources.text_columns import FileTable, ReadOptions, TextColumns, TextCounts, count_texts, sum_counts
from tiltlens.errors import DataError, checked_names, first_line, quoted

COPIED_CHARACTERS = 1 << 20  # copied at a time from a file in another encoding


UTF_8 = "utf-8-sig"  # with or without a byte order mark
MARKS = (  # byte order marks; the first match applies
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
GZIP = b"\x1f\x8b"
BROKEN = (gzip.BadGzipFile, EOFError, zlib.error)  # raised by Python for a damaged gzip file
SHOWN_BYTES = 8  # shown before and after the first byte that is not UTF-8
MISSING_TEXTS = ("", "?", "-", ".", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null")
REMEDY = "missing values are named by `na_values` of tl.read (--na-values)"


class _Folder:
    """A temporary folder that is deleted together with this object."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="tiltlens-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True, eq=False)
class CsvText:
    """The text of a CSV file."""

    # The file, and the same text in UTF-8: the file itself or a copy
    file: Path
    source: Path
    separator: str
    header: list[str]  # fields of the first row
    warning: Note | None = None  # on the encoding, if the file is not UTF-8
    copy: _Folder | None = None  # keeps the copy alive as long as the text


def read_csv_text(file: Path, encoding: str | None = None) -> CsvText:
    """Return the text of a CSV file, as UTF-8 unless `encoding` or a byte order mark specifies another encoding."""
    start = start_of(file)
    if b"\r" in start and b"\n" not in start:
        raise DataError(
            f"lines of {quoted(file.name)} must end in a line feed, got carriage returns only.",
            "save it again, as “CSV UTF-8” rather than as the CSV of old Macintoshes.",
        )
    marked = next((name for mark, name in MARKS if start.startswith(mark)), None)
    other = marked if encoding is None else encoding
    folder = None if other is None or codecs.lookup(other).name in ("utf-8", UTF_8) else _Folder()
    source, warning = file, None
    if folder is not None and other is not None:
        source = folder.path / "copy.csv"
        reason = ", as its byte order mark says" if encoding is None else ""
        warning = Note("encoding", file=file.name, encoding=other, reason=reason)
        _copy_text(file, other, source)
    with _open_text(source, UTF_8) as stream:
        lines = list(islice(stream, FIRST_LOOK_ROWS))
    separator = _find_separator(file, lines)
    return CsvText(file, source, separator, next(csv.reader(lines, delimiter=separator), []), warning, folder)


def start_of(file: Path) -> bytes:
    """Return the first bytes of a file's text, decompressed."""
    with check_gzip(file), _open_bytes(file) as stream:
        return stream.read(4096)


@contextmanager
def check_gzip(file: Path) -> Generator[None]:
    """Raise errors about a damaged gzip file as errors in the data."""
    try:
        yield
    except BROKEN as error:
        raise DataError(f"{quoted(file.name)} must be a complete gzip file, got: {error}.", "write it again.") from None


def is_zipped(file: Path) -> bool:
    """Return whether a file is compressed by gzip, judging by its name."""
    return file.suffix.lower() == ".gz"


def unknown_encoding(file: Path) -> DataError:
    """Return the error for a file that is not UTF-8, with the first line that is invalid."""
    with _open_bytes(file) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                part = line[max(error.start - SHOWN_BYTES, 0) : error.start + SHOWN_BYTES].strip()
                return DataError(
                    f"{quoted(file.name)} is not UTF-8: line {number:,} contains {part!r}.",
                    "pass its encoding, for example encoding='cp1252' (--encoding cp1252), which reads this as "
                    f"{quoted(part.decode('cp1252', 'replace'))}; or save the file as UTF-8.",
                )
    return DataError(f"{quoted(file.name)} is not UTF-8.", "save it again as UTF-8.")


def _open_bytes(file: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(file, "rb")) if is_zipped(file) else file.open("rb")


def _open_text(file: Path, encoding: str, errors: str = "strict") -> TextIO:
    return io.TextIOWrapper(_open_bytes(file), encoding=encoding, errors=errors, newline="")


def _copy_text(file: Path, encoding: str, copy: Path) -> None:
    """Copy a file as UTF-8."""
    hint = "name the encoding it was saved in with `encoding` (--encoding), or save it as UTF-8."
    try:
        with _open_text(file, encoding) as text, copy.open("w", encoding="utf-8", newline="") as stream:
            while part := text.read(COPIED_CHARACTERS):
                if "\0" in part:
                    raise DataError(f"{quoted(file.name)} must be written in {encoding}, got: a NUL.", hint)
                stream.write(part)
    except UnicodeError as error:
        raise DataError(f"{quoted(file.name)} must be written in {encoding}, got: {error}.", hint) from None
    except BROKEN:
        raise
    except OSError as error:
        raise DataError(
            f"{quoted(file.name)} must be copied as UTF-8 to be read, got: {error.strerror or error}.",
            "save it as UTF-8, or make room in the folder for temporary files (TMPDIR).",
        ) from None


def _find_separator(file: Path, lines: Sequence[str]) -> str:
    """Return the separator that splits the header and first rows into equally many fields; raise if two do."""
    widths = {mark: _widths(lines, mark) for mark in SEPARATORS}
    several = {mark: counts for mark, counts in widths.items() if counts and counts[0] > 1}
    if "\t" in several and file.name.lower().removesuffix(".gz").endswith(".tsv"):
        return "\t"
    even = [mark for mark, counts in several.items() if len(set(counts)) == 1]
    if len(even) > 1:
        given = " and ".join(SEPARATORS[mark] for mark in even)
        raise DataError(
            f"the fields of {quoted(file.name)} must be separated by one kind of mark, got a header with {given}.",
            "put names and texts that contain such a mark in quotation marks.",
        )
    ragged = max(several, key=lambda mark: (mark == ",", several[mark][0]), default=",")  # raises an error later
    return even[0] if even else ragged


def _widths(lines: Sequence[str], separator: str) -> list[int]:
    """Return the number of fields in the first rows; the last is omitted if it may be incomplete."""
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error:
        return []
    return widths[:-1] if len(lines) == FIRST_LOOK_ROWS else widths


@dataclass(frozen=True, slots=True, eq=False)
class CsvFile:
    """One CSV file: its text, its rows as text columns, their counts, and columns without a name."""

    text: CsvText
    scan: pl.LazyFrame
    counts: Mapping[str, TextCounts]
    unnamed: Sequence[str]


def csv_table(files: Sequence[Path], options: ReadOptions) -> FileTable:
    """Return CSV files as one table; unnamed columns that are empty or a saved index are left out."""
    read = []
    for path in files:
        with check_gzip(path):
            read.append(_read_file(path, options))
    counts = sum_counts(file.counts for file in read)
    named = {name for file in read for name in file.counts if name not in file.unnamed}
    unnamed = [name for name in counts if name not in named]
    index = [name for name in unnamed if counts[name].is_index]
    left_out = [*index, *(name for name in unnamed if not counts[name].filled)]
    columns = TextColumns(counts, options.decimal)

    def scans(as_written: Collection[str] = ()) -> list[pl.LazyFrame]:
        return [columns.cast(file.scan.drop(*left_out, strict=False), as_written) for file in read]

    def notes(names: Sequence[str]) -> list[Note]:
        encodings = [file.text.warning for file in read if file.text.warning is not None]
        indices = [Note("saved index", column=name) for name in index]
        return [*encodings, *indices, *columns.warnings(names, REMEDY)]

    return FileTable(scans(), notes, scans)


def _read_file(path: Path, options: ReadOptions) -> CsvFile:
    """Return one CSV file; raise if a row has more or fewer fields than the header."""
    try:
        text = read_csv_text(path, options.encoding)
    except UnicodeDecodeError:
        raise unknown_encoding(path) from None
    except csv.Error as error:
        raise _not_csv(path, error) from None
    names, unnamed = _column_names(text)
    missing = [*MISSING_TEXTS, *options.na_values]
    fields = pl.scan_csv(text.source, separator=text.separator, new_columns=names, infer_schema=False, glob=False)
    scan = fields.with_columns(pl.when(~pl.all().is_in(missing)).then(pl.all()))
    try:
        counts = count_texts(scan, options.decimal, unnamed)
    except (pl.exceptions.PolarsError, OSError) as error:
        if "utf-8" in str(error):
            raise unknown_encoding(path) from None
        _check_fields(text)
        raise _not_csv(path, error) from None
    last = counts[names[-1]]
    if last.rows == 0:
        raise DataError(f"{quoted(path.name)} must have rows, got a header only.", "was it written completely?")
    if last.filled < last.rows:  # Polars fills rows that are too short with nulls
        _check_fields(text)
    return CsvFile(text, scan, counts, unnamed)


def _not_csv(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{quoted(path.name)} must be a CSV file, got: {first_line(error)}",
        "look for an unclosed quotation mark, or for a file cut short.",
    )


def _column_names(text: CsvText) -> tuple[list[str], list[str]]:
    """Return the names of the columns, and the names given to those that are empty in the header (e.g. an index)."""
    header = text.header
    if header and header[0].startswith("sep="):
        raise DataError(
            f"the first line of {quoted(text.file.name)} must name the columns, got {quoted(header[0])}.",
            "delete that line, which Excel put there: the separator is detected.",
        )
    unnamed = {position: f"column_{position + 1}" for position, name in enumerate(header) if not name}
    names = [unnamed.get(position, name) for position, name in enumerate(header)]
    return checked_names(names), list(unnamed.values())


def _check_fields(text: CsvText) -> None:
    """Raise for the first row that has more or fewer fields than the header, with its line."""
    width, ragged = len(text.header), None
    with _open_text(text.source, UTF_8, "replace") as stream, suppress(csv.Error):  # of a field beyond its limit
        reader = csv.reader(stream, delimiter=text.separator)
        ragged = next(((reader.line_num, len(row)) for row in reader if row and len(row) != width), None)
    if ragged is not None:
        line, fields = ragged
        hint = "look there for a comma that needs quotation marks, or for a row cut short."
        if line == 2 and width < fields:
            hint = "if line 1 is a title or a comment, delete it: the names of the columns come first."
        raise DataError(
            f"every row of {quoted(text.file.name)} must have {width} fields, got {fields} in line {line}.", hint
        )
