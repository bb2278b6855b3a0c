"""Options for reading files, and types of text columns, decided by all their values.

`count_texts` counts in one pass how many values of each column have each form, `decide_type` chooses the type from the
counts, and `TextColumns.cast` casts each column by one expression.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from operator import add, and_
from typing import Any

import polars as pl
import polars.selectors as cs

from tiltlens._limits import FIRST_LOOK_ROWS, SUPPRESSED_BELOW
from tiltlens._notes import Note
from tiltlens._sources.tables import add_fields, join_named
from tiltlens.errors import DataError, quoted, quoted_list, texts_of

WHERE = {  # each option, and the data to which it applies
    "na_values": "CSV files",
    "encoding": "CSV files",
    "decimal": "CSV and Excel files",
    "sheet": "Excel files",
    "query": "databases",
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading data that cannot describe themselves: those of `tiltlens.read`, checked."""

    na_values: tuple[str, ...] = ()
    encoding: str | None = None
    decimal: str = "."
    sheet: str | None = None
    query: str | None = None

    def check_for(self, kind: str, allowed: Sequence[str]) -> None:
        """Raise for an option that does not apply to data of this kind."""
        defaults = ReadOptions()
        for name, owners in WHERE.items():
            value = getattr(self, name)
            if value != getattr(defaults, name) and name not in allowed:
                got = quoted_list(value) if isinstance(value, tuple) else quoted(value)
                hint = "replace them in the data." if name == "na_values" else "leave it out."
                raise DataError(f"`{name}` does not apply to {kind}, got {got}.", f"it is for {owners}: {hint}")


@dataclass(frozen=True, slots=True)
class Source:
    """Files or a database, with the options for reading them."""

    path: object = field(repr=False)  # a database URL may contain a password
    options: ReadOptions

    @classmethod
    def of(cls, data: object) -> Source:
        """Return data as a source; anything but a source gets default options."""
        return data if isinstance(data, Source) else cls(data, ReadOptions())


def read(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    na_values: str | Sequence[str] | None = None,
    encoding: str | None = None,
    decimal: str = ".",
    sheet: str | None = None,
    query: str | None = None,
) -> Source:
    r"""Return files or a database as a source that is read with the given options.

    Pass the source wherever tiltlens takes data: `tl.audit`, `tl.alternatives`, `tl.rule_tables`, `ScoreTilt.apply` and
    `ScoreTilt.evaluate`. Data that need no options can be passed as they are. No row is read before the source is used.

    Parameters
    ----------
    path : str, path-like, or list of these
        A file, a pattern such as ``"data/*.csv"``, a folder, a list of these, or the URL of a database such as
        ``"sqlite:///people.db"``.
    na_values : str or list of str, default=None
        Texts that mark missing values in CSV files, in addition to "", "?", "-", ".", "NA", "N/A", "NaN" and "NULL".
    encoding : str, default=None
        Encoding of CSV files, such as "cp1252". None reads UTF-8, or what the byte order mark says.
    decimal : {".", ","}, default="."
        Decimal mark of numbers in CSV files and in text cells of Excel.
    sheet : str, default=None
        Sheet of an Excel file. It is required if the file has several.
    query : str, default=None
        SQL query that selects the rows of a database. It is required for a database.

    Returns
    -------
    Source
        The path with its options.

    Raises
    ------
    DataError
        If `path` is not the name of files or of a database, or an option is not valid.

    See Also
    --------
    audit : Audit a model on a source.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tiltlens as tl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("sex,hired\n" + 20 * "women,0\nwomen,1\nmen,1\nmen,unknown\n")
    ...     people = tl.read(path, na_values="unknown")
    ...     tl.rule_tables(people, "four-fifths", "sex", selected="hired").rows["missing_outcome"]
    20
    """
    entries = path if isinstance(path, (list, tuple)) else [path]
    if not entries or not all(isinstance(entry, (str, os.PathLike)) for entry in entries):
        raise DataError(
            f"`path` must name files or a database, got {type(path).__name__}.",
            "pass a table in memory to tiltlens without tl.read.",
        )
    texts = tuple(texts_of("na_values", na_values))
    strangers = [text for text in texts if not isinstance(text, str)]
    if strangers:
        raise DataError(f"`na_values` must be texts, got {quoted(strangers[0])}.", "as written in the file: '-9'.")
    for name, value in (("sheet", sheet), ("query", query)):
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise DataError(f"`{name}` must be a text, got {quoted(value)}.", f"it is for {WHERE[name]}.")
    if decimal not in (".", ","):
        raise DataError(
            f"`decimal` (--decimal) must be '.' or ',', got {quoted(decimal)}.", "it is the decimal mark of numbers."
        )
    codec = None if encoding is None else _known_encoding(encoding)
    return Source(path, ReadOptions(texts, codec, decimal, sheet, query))


def _known_encoding(name: str) -> str:
    """Return Python's name of a text encoding; raise if it is unknown."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=name)  # rejects codecs of bytes such as "hex"
        return codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        raise DataError(
            f"`encoding` must be the name of an encoding, got {quoted(name)}.",
            "for example 'cp1252' (Windows, Western Europe), 'latin-1', 'utf-16' or 'shift-jis'.",
        ) from None


MOSTLY_NUMBERS = 0.9  # share of numbers, or dates, above which text is reported as a likely mistake


TEXT, BOOLEAN, INTEGER, NUMBER = "text", "boolean", "integer", "number"
TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%d-%m-%Y", "%d.%m.%Y")
CLOCKS = ("%H:%M:%S%.f", "%H:%M", "%H:%M:%S%.f%#z")
DATES = (*DAYS, *(f"{day}{mark}{clock}" for day, mark, clock in product(DAYS, "T ", CLOCKS)))
FULL_YEAR = r"^(\d{4}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})"  # Polars would read 10-11-12 as a day of the year 10
FORMS = (BOOLEAN, INTEGER, NUMBER, *DATES)  # the first form that all values have is the column's type
WHOLE = r"^[+-]?\d+$"
CODE = r"^0\d"
UNIT = "[%€$£¥]?"
NUMBER_LIKE = rf"^[+-]?{UNIT}\s*[+-]?(\d+([.,'’\s]\d{{3}})*([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*{UNIT}$"
OTHER_MARK = {".": ",", ",": "."}
MARK_NAMES = {".": "point", ",": "comma"}


@dataclass(frozen=True, slots=True)
class TextCounts:
    """Counts of the values of one text column that decide its type."""

    # All rows, and the rows with a value
    rows: int = 0
    filled: int = 0
    # Number of values of each form
    forms: Counter[str] = field(default_factory=Counter, metadata={"join": add})
    # Number of integers that fit 64 bits, and of values that start with 0 and another digit
    int64s: int = 0
    codes: int = 0
    # Number of values that are not numbers but have digits with another decimal mark, thousands separators or units
    number_like: int = 0
    # First value that is not a number; not a date if only dates were counted
    first_odd: str | None = field(default=None, metadata={"join": lambda old, new: new if old is None else old})
    # Whether each value is an integer and 1 larger than the one before; False if this was not tested
    is_index: bool = field(default=False, metadata={"join": and_})

    def __add__(self, other: TextCounts) -> TextCounts:
        return add_fields(self, other)

    def possible_forms(self) -> list[str]:
        """Return the forms that some values have; all forms if there are no values."""
        numeric = self.forms[NUMBER] + self.number_like
        return [form for form in FORMS if not self.filled or self.forms[form] or (form == NUMBER and numeric)]


def decide_type(counts: TextCounts, forms: Sequence[str] = FORMS) -> str:
    """Return the form that all values of a column have, or TEXT.

    Integers that start with a zero are codes and those too large for 64 bits are keys, so both stay text.
    """
    form = next((form for form in forms if counts.forms[form] == counts.filled > 0), TEXT)
    is_text = form == INTEGER and (counts.codes > 0 or counts.int64s < counts.filled)
    return TEXT if is_text else form


def count_texts(scan: pl.LazyFrame, decimal: str = ".", indices: Collection[str] = ()) -> dict[str, TextCounts]:
    """Count the values of each column, those of text columns by form, in one pass over all rows.

    Missing values are null, and `indices` are columns to test for being an index of the rows. The first rows are
    counted beforehand, to skip forms that none of their values has: they cannot be the form of all values.
    """
    stripped = scan.with_columns(cs.string().str.strip_chars())
    schema = stripped.collect_schema()
    look = stripped.select(cs.string()).head(FIRST_LOOK_ROWS).collect().unpivot().cast(pl.String)
    look_counts = look.group_by("variable").agg(_expressions("value", FORMS, decimal))
    possible = {row["variable"]: _counts(row, "value").possible_forms() for row in look_counts.to_dicts()}
    expressions = [count for name in schema for count in _expressions(name, possible.get(name, ()), decimal)]
    expressions += [_is_index(name).alias(f"is_index {name}") for name in indices]
    row = stripped.select(expressions).collect(engine="streaming").row(0, named=True)
    return {name: _counts(row, name) for name in schema}


def _expressions(name: str, forms: Sequence[str], decimal: str) -> list[pl.Expr]:
    """Return expressions that count the values of a column: all that are not missing, and texts of some forms."""
    text = pl.col(name)
    with_year = pl.when(text.str.contains(FULL_YEAR)).then(text)
    dates = {form: _date(with_year, form) for form in forms if form in DATES}
    counts = {"rows": pl.len(), "filled": text.count()} | {form: date.count() for form, date in dates.items()}
    if BOOLEAN in forms:
        counts[BOOLEAN] = text.is_in(TRUE + FALSE).sum()
    if INTEGER in forms:
        counts[INTEGER] = text.str.contains(WHOLE).sum()
        counts["int64s"] = text.cast(pl.Int64, strict=False).count()
        counts["codes"] = text.str.contains(CODE).sum()
    if NUMBER in forms:
        number = _number(text, decimal, strict=False)
        odd = pl.when(number.is_null()).then(text)
        counts[NUMBER] = number.count()
        counts["number_like"] = odd.str.contains(NUMBER_LIKE).sum()
        counts["first_odd"] = odd.first(ignore_nulls=True)
    elif dates:
        is_odd = pl.all_horizontal(date.is_null() for date in dates.values())
        counts["first_odd"] = pl.when(is_odd).then(text).first(ignore_nulls=True)
    return [count.alias(f"{what} {name}") for what, count in counts.items()]


def _counts(row: Mapping[str, Any], name: str) -> TextCounts:
    """Return the counts of one column from the row with the counts of all columns."""
    forms = Counter({form: row.get(f"{form} {name}", 0) for form in FORMS})
    others = ("rows", "filled", "int64s", "codes", "number_like", "first_odd", "is_index")
    return TextCounts(forms=forms, **{what: row[f"{what} {name}"] for what in others if f"{what} {name}" in row})


def _is_index(name: str) -> pl.Expr:
    numbers = pl.col(name).cast(pl.Int64, strict=False)
    return (numbers.null_count() == 0) & (numbers.diff() == 1).all()


def _number(text: pl.Expr, decimal: str, strict: bool) -> pl.Expr:
    marks = text if decimal == "." else text.str.replace_many([",", "."], [".", ","])  # so that 1.5 is not a number
    return marks.cast(pl.Float64, strict=strict)


def _date(text: pl.Expr, form: str, strict: bool = False) -> pl.Expr:
    if form in DAYS:
        return text.str.strptime(pl.Date, form, strict=strict)
    return text.str.strptime(pl.Datetime("us", "UTC" if form.endswith("z") else None), form, strict=strict)


def _cast(name: str, form: str, decimal: str) -> pl.Expr:
    text = pl.col(name).str.strip_chars()
    if form == BOOLEAN:
        return text.is_in(TRUE)
    if form == INTEGER:
        return text.cast(pl.Int64)
    return _number(text, decimal, strict=True) if form == NUMBER else _date(text, form, strict=True)


@dataclass(frozen=True, slots=True, eq=False)
class TextColumns:
    """Text columns of a table, which may consist of several files."""

    counts: Mapping[str, TextCounts]  # counts of each column over all files
    decimal: str = "."  # decimal mark of numbers
    forms: Sequence[str] = FORMS  # forms that may become types; `DATES` if the source has its own numbers

    def type_of(self, name: str) -> str:
        """Return the form to which a column is cast."""
        return decide_type(self.counts[name], self.forms)

    def cast(self, scan: pl.LazyFrame, texts: Collection[str] = ()) -> pl.LazyFrame:
        """Return a file with its text columns cast, except for `texts`, which stay as written."""
        names = [name for name in scan.collect_schema().names() if name in self.counts and name not in texts]
        types = {name: self.type_of(name) for name in names}
        return scan.with_columns(_cast(name, form, self.decimal) for name, form in types.items() if form != TEXT)

    def warnings(self, columns: Iterable[str], remedy: str) -> list[Note]:
        """Return notes on columns that are unexpectedly text, or have dates with the day first."""
        return [warning for name in columns if name in self.counts for warning in self._warnings(name, remedy)]

    def _warnings(self, name: str, remedy: str) -> Iterator[Note]:
        counts, form = self.counts[name], self.type_of(name)
        enough = max(MOSTLY_NUMBERS * counts.filled, 1)
        numbers, dates = counts.forms[NUMBER], sum(counts.forms[date] for date in DATES)
        if form.startswith("%d"):
            yield Note("day first", column=name)
        elif form == TEXT and numbers == counts.filled > 0:
            if counts.codes:
                yield Note("leading zeros", column=name)
        elif form == TEXT and numbers + counts.number_like >= enough:
            yield self._odd_values(name, "numbers", counts.filled - numbers, self._number_hint(counts, remedy))
        elif form == TEXT and dates >= enough:
            yield self._odd_values(name, "dates", counts.filled - dates, "write all dates like 2020-01-31")

    def _odd_values(self, name: str, kind: str, count: int, remedy: str) -> Note:
        counts = self.counts[name]
        if counts.first_odd is None:
            return Note("several forms", column=name, kind=kind, remedy=remedy)
        size = f"{count:,}" if count >= SUPPRESSED_BELOW else f"fewer than {SUPPRESSED_BELOW}"
        first = quoted(counts.first_odd)
        return Note("odd values", column=name, count=size, known=counts.filled, kind=kind, first=first, remedy=remedy)

    def _number_hint(self, counts: TextCounts, remedy: str) -> str:
        other, first = OTHER_MARK[self.decimal], counts.first_odd or ""
        if re.match(rf"^[+-]?\d*[{other}]\d*([eE][+-]?\d+)?$", first):
            option = f"pass decimal={other!r} to tl.read (--decimal {other!r})"
            return f"if the {MARK_NAMES[other]} is the decimal mark, {option}"
        return "write numbers without units and thousands separators" if re.match(NUMBER_LIKE, first) else remedy


@dataclass(frozen=True, slots=True, eq=False)
class FileTable:
    """Files of one format as one table."""

    scans: list[pl.LazyFrame]  # one lazy frame per file
    # Returns notes on unexpected ways in which columns were read
    notes: Callable[[Sequence[str]], Sequence[Note]] = lambda columns: ()
    # Returns the scans with some columns as written, so that "007" is kept; None if files have types
    as_written: Callable[[Collection[str]], list[pl.LazyFrame]] | None = None


def sum_counts(files: Iterable[Mapping[str, TextCounts]]) -> dict[str, TextCounts]:
    """Return the counts of each column over all files that have it."""
    return reduce(join_named, files, dict[str, TextCounts]())


def read_texts(scans: Sequence[pl.LazyFrame], decimal: str = ".", forms: Sequence[str] = FORMS) -> TextColumns:
    """Return the text columns of files in which missing values are null."""
    return TextColumns(sum_counts(count_texts(scan, decimal) for scan in scans), decimal, forms)
