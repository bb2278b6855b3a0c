"""Texts that were meant to be numbers: with spaces around them, with decimal commas, or with a few words among them.

A column of texts is taken for numbers where every value is one, by one decimal mark. Where it cannot be told what a
comma or a point means, the column is refused when it is asked for: 1,234 may be one and a quarter, or a thousand.
Digits of which some begin with a zero, such as 01, are codes: they stay texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
import polars.selectors as cs

from tiltlens.errors import DataError
from tiltlens.limits import MOSTLY_NUMBERS, SUPPRESSED_BELOW
from tiltlens.sources.messages import listed, shown

UNITS = "%€$£¥"
MARKED = rf"^\s*([+-]?(\d[\d.,'’\s]*)?[.,'’\s]\d|[+-]?\d[\d.,'’\s]*[{UNITS}]|[{UNITS}]\s*[+-]?\d)"  # digits, with marks
WITH_UNIT = rf"^\s*([+-]?\d[\d.,'’\s]*[{UNITS}]|[{UNITS}]\s*[+-]?\d[\d.,'’\s]*)\s*$"
COMMA = r"^\s*[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?\s*$"
GROUPED = r"^\s*[+-]?\d{1,3}([.,'’\s]\d{3})+([.,]\d+)?\s*$"
COMMA_OR_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2},\d{3}\s*$"
DIGITS, LEADING_ZERO = r"^\s*\d+\s*$", r"^\s*0\d"  # what codes are made of, and what shows them
POINT_OR_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}\.\d{3}\s*$"

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class NumberTexts:
    """Columns of texts that hold numbers.

    Attributes
    ----------
    plain, with_commas
        Columns whose every value is a number, with a decimal point or none; with decimal commas.
    mostly
        Columns that are text because of a few values.
    doubtful
        Why a column cannot be read, with the next step.
    codes
        Columns of digits of which some begin with a zero: they are texts.
    """

    plain: Sequence[str] = ()
    with_commas: Sequence[str] = ()
    mostly: Sequence[str] = ()
    doubtful: Mapping[str, DataError] = field(default_factory=dict)
    codes: Sequence[str] = ()

    def without(self, columns: Collection[str]) -> NumberTexts:
        """Return the same where some columns stay texts."""
        plain, commas = ([one for one in names if one not in columns] for names in (self.plain, self.with_commas))
        return replace(self, plain=plain, with_commas=commas)

    def read(self, scan: pl.LazyFrame) -> pl.LazyFrame:
        """Return a lazy frame with these numbers as numbers."""
        plain, commas = (cs.by_name(*names, require_all=False) for names in (self.plain, self.with_commas))
        return scan.with_columns(number(plain & cs.string()), number(commas & cs.string(), ","))

    def check(self, columns: Iterable[str]) -> None:
        """Raise for a column that cannot be read."""
        for name in columns:
            if name in self.doubtful:
                raise self.doubtful[name]

    def notes(self, scans: Sequence[pl.LazyFrame], columns: Sequence[str], remedy: str) -> tuple[str, ...]:
        """Return what became of columns that their owner may not expect."""
        commas = [name for name in self.with_commas if name in columns]
        read = [f"commas in numbers were read as decimal commas: {', '.join(commas)}"] if commas else []
        codes = [f"{name} is read as text: some of its numbers begin with 0" for name in self.codes if name in columns]
        return (*read, *codes, *self.mostly_notes(scans, columns, remedy))

    def mostly_notes(self, scans: Sequence[pl.LazyFrame], columns: Sequence[str], remedy: str) -> tuple[str, ...]:
        """Return which columns are text because of a few values."""
        return tuple(_text_note(name, scans, remedy) for name in self.mostly if name in columns)


def number(text: pl.Expr, decimal: str = ".") -> pl.Expr:
    """Return texts as numbers, null where they are none."""
    stripped = text.str.strip_chars()
    pointed = stripped if decimal == "." else stripped.str.replace(decimal, ".", literal=True)
    return pointed.cast(pl.Float64, strict=False)


def text_counts() -> list[pl.Expr]:
    """Return, of each column of texts, how many are numbers, and how many are digits with marks between them."""
    texts = cs.string()
    return [
        number(texts).count().name.prefix("numbers "),
        texts.str.contains(MARKED).sum().name.prefix("marked "),
    ]


def number_texts(
    scans: Sequence[pl.LazyFrame], counts: Sequence[tuple[Counts, Counts, Counts]], texts: Sequence[str]
) -> NumberTexts:
    """Return which columns of texts hold numbers.

    `counts` are, of each scan, of numbers, of digits with marks and of known values. Columns whose numbers have marks
    are looked at once more.
    """
    numbers, marked, known = (_total(one[which] for one in counts) for which in range(3))
    plain = [name for name in texts if numbers[name] == known[name]]
    others = [name for name in texts if name not in plain]
    codes = [name for name in plain if _are_codes(name, scans)]
    looked = [name for name in others if marked[name] and _mostly(numbers[name] + marked[name], known[name])]
    found = {name: _marks(name, scans) for name in looked}
    found = {name: one for name, one in found.items() if one.commas or one.grouped or one.units}
    numeric = {name: one for name, one in found.items() if one.numbers == one.known and not one.units}
    is_told = any(one.commas > one.commas_or_thousands for one in numeric.values())
    doubts = {name: one.doubt(name, is_told) for name, one in numeric.items()}
    almost = {name: found[name].numbers if name in found else numbers[name] for name in others if name not in numeric}
    return NumberTexts(
        [name for name in plain if name not in codes],
        [name for name, doubt in doubts.items() if doubt is None],
        [name for name, count in almost.items() if _mostly(count, known[name])],
        {name: doubt for name, doubt in doubts.items() if doubt is not None},
        codes,
    )


def _are_codes(name: str, scans: Sequence[pl.LazyFrame]) -> bool:
    column = pl.col(name)
    tests = (column.str.contains(DIGITS).all().alias("digits"), column.str.contains(LEADING_ZERO).any().alias("zeros"))
    found = pl.concat(scan.select(tests) for scan in _having(name, scans)).collect(engine="streaming")
    return bool(found["digits"].all() and found["zeros"].any())


def counted_texts(scans: Sequence[pl.LazyFrame]) -> NumberTexts:
    """Return which columns of texts hold numbers, of frames that were not counted yet."""
    counts: list[tuple[Counts, Counts, Counts]] = []
    for scan in scans:
        texts = [name for name, kind in scan.collect_schema().items() if kind == pl.String]
        found = scan.select(*text_counts(), cs.string().count().name.prefix("known ")).collect(engine="streaming")
        row = found.row(0, named=True) if texts else {}
        numbers, marked, filled = (
            {name: row[f"{what} {name}"] or 0 for name in texts} for what in ("numbers", "marked", "known")
        )
        counts.append((numbers, marked, filled))
    known = dict.fromkeys(name for one in counts for name, count in one[2].items() if count)
    return number_texts(scans, counts, list(known))


def _mostly(count: int, known: int) -> bool:
    return count >= MOSTLY_NUMBERS * known


@dataclass(frozen=True, slots=True)
class _Marks:
    """Of a column: known values, numbers of any form, those with a point, a comma, marks between thousands, a unit."""

    known: int
    numbers: int
    points: int
    commas: int
    grouped: int
    units: int
    commas_or_thousands: int
    first_point: str | None
    first_comma: str | None
    first_grouped: str | None

    def doubt(self, name: str, commas_are_decimal: bool) -> DataError | None:
        """Return why it cannot be told what the numbers are, if so."""
        hint = "write them with a decimal point and without other marks, or leave the column out with `exclude`."
        rule = f"numbers in {shown(name)} must be"
        if self.grouped:
            return DataError(f"{rule} written without marks between thousands, got {shown(self.first_grouped)}.", hint)
        if self.points:
            both = f"{shown(self.first_point)} and {shown(self.first_comma)}"
            return DataError(f"{rule} written with one decimal mark, got {both}.", hint)
        if self.commas == self.commas_or_thousands and not commas_are_decimal:
            return DataError(f"{rule} clear, got {shown(self.first_comma)}: a decimal comma, or thousands?", hint)
        return None


def _marks(name: str, scans: Sequence[pl.LazyFrame]) -> _Marks:
    """Return the marks in the numbers of one column."""
    counts = _mark_counts(pl.col(name))
    found = pl.concat(scan.select(counts) for scan in _having(name, scans)).collect(engine="streaming")
    row: dict[str, Any] = {}
    for one in found:
        row[one.name] = next(iter(one.drop_nulls()), None) if one.name.startswith("first") else int(one.sum())
    return _Marks(**row)


def _having(name: str, scans: Sequence[pl.LazyFrame]) -> list[pl.LazyFrame]:
    return [scan for scan in scans if name in scan.collect_schema()]


def _mark_counts(column: pl.Expr) -> list[pl.Expr]:
    is_number = number(column).is_not_null()
    has_point = is_number & column.str.contains(".", literal=True)
    is_comma = column.str.contains(COMMA)
    is_grouped = column.str.contains(GROUPED) & ~is_number & ~is_comma
    has_unit = column.str.contains(WITH_UNIT)
    is_any = is_number | is_comma | is_grouped | has_unit
    firsts = {"point": has_point, "comma": is_comma, "grouped": is_grouped}
    return [
        column.count().alias("known"),
        is_any.sum().alias("numbers"),
        has_point.sum().alias("points"),
        is_comma.sum().alias("commas"),
        is_grouped.sum().alias("grouped"),
        has_unit.sum().alias("units"),
        column.str.contains(COMMA_OR_THOUSANDS).sum().alias("commas_or_thousands"),
        *(column.filter(one).first().alias(f"first_{what}") for what, one in firsts.items()),
    ]


def points_in_doubt(
    scans: Sequence[pl.LazyFrame], floats: Sequence[str], commas: Sequence[str]
) -> dict[str, DataError]:
    """Return the columns of numbers, read as texts, in which every point could be a mark between thousands.

    It is asked of files whose other columns have decimal commas.
    """
    if not commas:
        return {}
    found = {}
    for name in floats:
        column = pl.col(name)
        points = column.str.contains(".", literal=True)
        counts = (points.sum().alias("points"), column.str.contains(POINT_OR_THOUSANDS).sum().alias("thousands"))
        first_point = column.filter(points).first().alias("first")
        table = pl.concat(scan.select(*counts, first_point) for scan in _having(name, scans)).collect()
        if table["points"].sum() == table["thousands"].sum() > 0:
            first = next(iter(table["first"].drop_nulls()))
            found[name] = DataError(
                f"numbers in {shown(name)} must be clear, got {shown(first)} where {listed(commas)} have decimal "
                "commas: a decimal point, or thousands?",
                "write all numbers with one decimal mark and no other, or leave the column out with `exclude`.",
            )
    return found


def _total(counts: Iterable[Counts]) -> Counter[str]:
    return sum(map(Counter, counts), Counter())


def _text_note(name: str, scans: Sequence[pl.LazyFrame], remedy: str) -> str:
    column = pl.col(name)
    is_number = number(column).is_not_null() | column.str.contains(COMMA)
    strangers = column.filter(~is_number & column.is_not_null())
    counts: tuple[Any, ...] = (column.count().alias("known"), strangers.len().alias("count"))
    found = pl.concat(scan.select(*counts, strangers.first().alias("first")) for scan in _having(name, scans)).collect()
    first = found["first"].drop_nulls()[0]
    known, count = found["known"].sum(), found["count"].sum()
    rows = f"{count:,}" if count >= SUPPRESSED_BELOW else f"fewer than {SUPPRESSED_BELOW}"
    return f"{name} is read as text: no number in {rows} of {known:,} rows that have it, first {shown(first)}; {remedy}"
