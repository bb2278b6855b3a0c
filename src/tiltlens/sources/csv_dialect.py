"""The text of a CSV file: its encoding and what separates its fields, found out or named.

Polars reads UTF-8, zipped or not. A file in another encoding is copied as UTF-8 into a folder that only its owner can
read, and that goes when the file has been read.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import shutil
import weakref
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, TextIO, cast

from tiltlens.errors import DataError
from tiltlens.limits import COPIED_CHARACTERS, SNIFFED_ROWS
from tiltlens.sources.messages import shown

UTF_8 = "utf-8-sig"  # with or without the mark at its beginning
MARKS = (  # at the beginning of a file; the first match counts
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
WESTERN = "cp1252"
NOT_WESTERN = re.compile(rb"[\x80-\xff]{3}")  # Western European words have no three such letters in a row
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
GZIP = b"\x1f\x8b"
BROKEN = (gzip.BadGzipFile, EOFError, zlib.error)  # what Python says of a gzip file cut short, or damaged


class _Folder:
    """A folder that goes with whoever holds it."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="tiltlens-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, slots=True, eq=False)
class CsvText:
    """The text of a CSV file.

    Attributes
    ----------
    file, source
        The file, and what holds its text in UTF-8: the file or a copy.
    separator
        Of its fields.
    note
        How it was read, where its owner may not expect it.
    """

    file: Path
    source: Path
    separator: str
    note: str | None = None
    copy: _Folder | None = None  # kept as long as the text is

    def open(self, errors: str = "strict") -> TextIO:
        """Return the text, open for reading."""
        return _opened(self.source, UTF_8, errors)

    def rows(self, errors: str = "strict") -> Iterator[tuple[int, list[str]]]:
        """Yield each row's last line and fields."""
        with self.open(errors) as stream:
            reader = csv.reader(stream, delimiter=self.separator)
            yield from ((reader.line_num, row) for row in reader)


def csv_text(file: Path, encoding: str | None = None) -> CsvText:
    """Return the text of a CSV file; without a named encoding it is UTF-8, unless its first bytes say otherwise."""
    start = start_of(file)
    if b"\r" in start and b"\n" not in start:
        raise DataError(
            f"lines of {shown(file.name)} must end in a line feed, got carriage returns only.",
            "save it again, as “CSV UTF-8” rather than as the CSV of old Macintoshes.",
        )
    if encoding is not None:
        is_utf_8 = codecs.lookup(encoding).name in ("utf-8", UTF_8)
        return _separated(file) if is_utf_8 else _copied(file, encoding, "as named")
    marked = next((name for mark, name in MARKS if start.startswith(mark)), None)
    return _separated(file) if marked is None else _copied(file, marked, "as its first bytes say")


def western_text(file: Path) -> CsvText | None:
    """Return the text of a file that is not UTF-8, read as Windows-1252; None where it is UTF-8 after all.

    A file that holds lines of UTF-8 too, or whose letters are not those of Western Europe, is an error.
    """
    utf_8 = other = None
    with _opened_bytes(file) as stream:
        for number, line in enumerate(stream, start=1):
            if line.isascii():
                continue
            if _is_utf_8(line):
                utf_8 = utf_8 or number
            elif NOT_WESTERN.search(line) or not _is(line, WESTERN):
                raise _unknown_encoding(file, number)
            else:
                other = other or number
            if utf_8 and other:
                raise _mixed_encodings(file, utf_8, other)
    if other is None:
        return None
    return _copied(
        file, WESTERN, f"as line {other:,} is not UTF-8; name another with `encoding` of tl.read (--encoding)"
    )


def start_of(file: Path) -> bytes:
    """Return the first bytes of a file's text, unzipped."""
    with whole_zip(file), _opened_bytes(file) as stream:
        return stream.read(4096)


@contextmanager
def whole_zip(file: Path) -> Generator[None]:
    """Raise what reading a broken gzip file raises as a mistake in the data."""
    try:
        yield
    except BROKEN as error:
        raise DataError(f"{shown(file.name)} must be a complete gzip file, got: {error}.", "write it again.") from None


def is_zipped(file: Path) -> bool:
    """Return whether a file is said to be zipped by its name."""
    return file.suffix.lower() == ".gz"


def _opened_bytes(file: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(file, "rb")) if is_zipped(file) else file.open("rb")


def _opened(file: Path, encoding: str, errors: str = "strict") -> TextIO:
    return io.TextIOWrapper(_opened_bytes(file), encoding=encoding, errors=errors, newline="")


def _is(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _is_utf_8(line: bytes) -> bool:
    return _is(line, "utf-8")


def _copied(file: Path, encoding: str, why: str) -> CsvText:
    """Return a file's text by a copy in UTF-8."""
    folder = _Folder()
    copy = folder.path / "copy.csv"
    try:
        with _opened(file, encoding) as text, copy.open("w", encoding="utf-8", newline="") as stream:
            while part := text.read(COPIED_CHARACTERS):
                if "\0" in part:
                    raise _not_in(file, encoding, "a NUL")
                stream.write(part)
    except UnicodeError as error:
        raise _not_in(file, encoding, str(error)) from None
    except BROKEN:
        raise
    except OSError as error:
        raise DataError(
            f"{shown(file.name)} must be copied as UTF-8 to be read, got: {error.strerror or error}.",
            "save it as UTF-8, or make room in the folder for temporary files (TMPDIR).",
        ) from None
    return _separated(file, copy, f"{file.name} was read as {encoding}, {why}", folder)


def _separated(file: Path, source: Path | None = None, note: str | None = None, copy: _Folder | None = None) -> CsvText:
    """Return the text with what separates its fields, by its first rows.

    Marks that the header and all these rows hold equally often could separate; a comma that does is preferred to
    nothing, and two that do are an error.
    """
    texts = {mark: CsvText(file, source or file, mark, note, copy) for mark in SEPARATORS}
    named = Path(file.stem if is_zipped(file) else file.name).suffix.lower()
    widths = {mark: _widths(text) for mark, text in texts.items()}
    several = {mark: counts for mark, counts in widths.items() if counts and counts[0] > 1}
    if named == ".tsv":
        if several and "\t" not in several:
            given = " and ".join(SEPARATORS[mark] for mark in several)
            raise DataError(
                f"the fields of {shown(file.name)} must be separated by tabs, got a header with {given}.",
                "name it .csv: what separates its fields is then found out.",
            )
        return texts["\t"]
    even = [mark for mark, counts in several.items() if len(set(counts)) == 1]
    if len(even) > 1:
        given = " and ".join(SEPARATORS[mark] for mark in even)
        raise DataError(
            f"the fields of {shown(file.name)} must be separated by one kind of mark, got a header with {given}.",
            "put names and texts that hold such a mark in quotation marks.",
        )
    ragged = max(several, key=lambda mark: (mark == ",", several[mark][0]), default=",")  # told of with its line
    return texts[even[0] if even else ragged]


def _widths(text: CsvText) -> Sequence[int]:
    """Return how many fields the header and the first rows have."""
    try:
        return [len(row) for _, row in islice(text.rows("replace"), SNIFFED_ROWS) if row]
    except csv.Error:
        return []


def _mixed_encodings(file: Path, utf_8: int, other: int) -> DataError:
    return DataError(
        f"{shown(file.name)} must be written in one encoding, got UTF-8 in line {utf_8:,} and another in line "
        f"{other:,}.",
        "save it again as UTF-8; if all of it is in one other encoding, name that with `encoding` of tl.read "
        "(--encoding).",
    )


def _unknown_encoding(file: Path, line: int) -> DataError:
    return DataError(
        f"the encoding of {shown(file.name)} must be named, as line {line:,} is neither UTF-8 nor Windows-1252.",
        "for example encoding='cp1251' (--encoding cp1251); or save it as UTF-8.",
    )


def _not_in(file: Path, encoding: str, what: str) -> DataError:
    return DataError(
        f"{shown(file.name)} must be written in {encoding}, got: {what}.",
        "name the encoding it was saved in with `encoding` of tl.read (--encoding), or save it as UTF-8.",
    )
