"""What columns are declared to be: numbers that are categories, and blocks of columns that are one feature."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from os.path import commonprefix

import polars as pl

from tiltlens.errors import DataError, check_columns, listed, shown, texts_of
from tiltlens.formats import text_of

INPUT = "\0input "  # before the name of a column as the model sees it


@dataclass(frozen=True, slots=True)
class Declared:
    """Columns that are categories whatever they hold, and the columns of each block. It travels to every worker."""

    categorical: tuple[str, ...] = ()
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def sources(self, features: Sequence[str]) -> list[str]:
        """Return the columns of the data that features are made of, in their order."""
        return [column for name in features for column in self.blocks.get(name, (name,))]

    def made_of(self, feature: str) -> tuple[str, ...]:
        """Return the columns that a declared feature is made of; none of a feature that is as it was read."""
        return (feature,) if feature in self.categorical else self.blocks.get(feature, ())

    def applied(self, table: pl.DataFrame, inputs: Sequence[str] = ()) -> pl.DataFrame:
        """Return a clean table with declared features as texts, where it has their columns, and a copy of `inputs`."""
        available = set(table.columns)
        made = [_category(table[name]) for name in self.categorical if name in available]
        made += [
            _joint(name, table.select(parts)) for name, parts in self.blocks.items() if available.issuperset(parts)
        ]
        return table.with_columns(*made, *(table[name].alias(f"{INPUT}{name}") for name in inputs))

    def of_features(self, features: Sequence[str]) -> tuple[list[str], Declared]:
        """Return the features with each block in place of its columns, and blocks of those columns that are listed."""
        kept = {name: parts if name in features else features for name, parts in self.blocks.items()}
        blocks = {
            name: tuple(column for column in parts if column in kept[name]) for name, parts in self.blocks.items()
        }
        owner = {column: name for name, parts in self.blocks.items() for column in parts}
        chosen = list(dict.fromkeys(owner.get(column, column) for column in features))
        check_columns("blocks", blocks, chosen, "feature")
        check_columns("categorical", self.categorical, [name for name in chosen if name not in blocks], "feature")
        return chosen, replace(self, blocks=blocks)


def declared_in(made_of: Mapping[str, Sequence[str]]) -> Declared:
    """Return what was declared of features, by the columns that each is made of; none of one that is as it was read."""
    categorical = tuple(name for name, parts in made_of.items() if list(parts) == [name])
    blocks = {name: tuple(parts) for name, parts in made_of.items() if parts and list(parts) != [name]}
    return Declared(categorical, blocks)


def declared_of(categorical: object, blocks: object, names: Sequence[str], taken: Sequence[str]) -> Declared:
    """Return what is declared of a table's columns; patterns match no column that is `taken` by another role."""
    if blocks is not None and not isinstance(blocks, Mapping):
        raise DataError(f"`blocks` must be a dict, got {shown(blocks)}.", "for example {'region': ['region_*']}.")
    columns_of: dict[str, tuple[str, ...]] = {}
    for block, patterns in (blocks or {}).items():
        used = {*taken, *(column for parts in columns_of.values() for column in parts)}
        wanted = [str(pattern) for pattern in texts_of("blocks", patterns)]
        matched = {name for name in names for text in wanted if name == text or fnmatchcase(name, text)} - used
        if len(matched) < 2:
            got = f"{len(matched)} without another role that match {listed(wanted)}"
            raise DataError(
                f"`blocks` must have two or more columns for {shown(block)}, got {got}.", f"see {listed(names)}."
            )
        if block in names and block not in matched:
            raise DataError(f"`blocks` must have new names, but {shown(block)} is a column.", "rename the block.")
        columns_of[str(block)] = tuple(name for name in names if name in matched)
    return Declared(tuple(dict.fromkeys(texts_of("categorical", categorical))), columns_of)


def _category(column: pl.Series) -> pl.Series:
    """Return any values as texts, 1 and 1.0 as the same; booleans are categories as they are."""
    if column.dtype in (pl.Boolean, pl.String):
        return column
    distinct = column.drop_nulls().unique()
    texts = pl.Series([text_of(value) for value in distinct], dtype=pl.String)
    return column.replace_strict(distinct, texts, default=None, return_dtype=pl.String)


def _joint(name: str, table: pl.DataFrame) -> pl.Series:
    """Return the joint values of columns as texts, of 0 and 1 the names of those that are 1.

    A text depends on its row alone, so that every batch and every engine has the same.
    """
    prefix, distinct = _prefix(table.columns), table.unique()
    names = [name.removeprefix(prefix) or name for name in table.columns]
    texts = [", ".join(filter(None, map(_part, names, row))) or "(none)" for row in distinct.iter_rows()]
    made = distinct.with_columns(pl.Series(INPUT, texts, dtype=pl.String))
    joined = table.join(made, on=table.columns, how="left", nulls_equal=True, maintain_order="left")
    is_missing = pl.all_horizontal(pl.col(table.columns).is_null())
    return joined.select(pl.when(~is_missing).then(pl.col(INPUT)).alias(name)).to_series()


def _part(name: str, value: object) -> str:
    if value in (0, 1):
        return name if value else ""
    return f"{name}={'(missing)' if value is None else text_of(value)}"


def _prefix(names: Sequence[str]) -> str:
    """Return the start that names share, up to its last sign that is neither letter nor digit."""
    return re.sub(r"[^\W_]+$", "", commonprefix(list(names)))  # noqa: RUF071 - names, not paths


def one_hot_notes(table: pl.DataFrame) -> list[str]:
    """Return a note on columns of 0 and 1 with one start of their names of which exactly one is 1 in each row."""
    binary = {
        column.name: column.to_numpy() == 1
        for column in table.get_columns()
        if not column.null_count() and (column.dtype == pl.Boolean or column.dtype.is_numeric())
        if column.cast(pl.Float64).is_in([0.0, 1.0]).all()
    }
    prefixes, run, total = list[str](), list[str](), None
    for name in [*sorted(binary), ""]:  # the last ends the last run
        if not _prefix([*run, name]) or (total is not None and bool((total & binary[name]).any())):
            prefixes += [_prefix(run)] if len(run) > 1 and total is not None and total.all() else []
            run, total = [], None
        if name:
            run, total = [*run, name], binary[name] if total is None else total | binary[name]
    if not prefixes:
        return []
    example = f"--blocks {prefixes[0].rstrip('_=.:- ')}={prefixes[0]}*"
    columns = " or ".join(shown(f"{prefix}*") for prefix in prefixes)
    return [
        f"exactly one of the columns {columns} is 1 in each row, so they look "
        f"like parts of one feature, and each part is judged alone: audit them as one with `blocks` ({example})"
    ]
