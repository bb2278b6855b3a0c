"""Files: found, checked, and read batch by batch by one reader for each format."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from tiltlens.engines.batches import S, Step, clean_batch, folded, read_in_batches, too_large
from tiltlens.engines.columns import clean_column
from tiltlens.engines.csv_files import CsvTable
from tiltlens.engines.formats import FileTable, check_content, ending_of, format_of, listed_endings
from tiltlens.engines.messages import checked_names, first_line, nearest_name, shown
from tiltlens.engines.read_options import ReadOptions
from tiltlens.errors import DataError


@dataclass(frozen=True, eq=False)
class FileBatches:
    """Files of one format and of the same columns, read one after another."""

    files: tuple[Path, ...]
    options: ReadOptions

    def names(self) -> list[str]:
        """As of `Batches`."""
        return checked_names(_schema(self._scans[0], self.files[0]).names())

    def fold(self, columns: Sequence[str], step: Step[S]) -> S:
        """As of `Batches`."""
        self._table.check(columns)
        kinds = self._check_schemas(columns)
        scans = [(repr(str(file)), scan.select(columns)) for file, scan in zip(self.files, self._scans, strict=True)]
        texts = pl.Schema({column: pl.String for name, scan in scans for column in too_large(scan, name)})
        kinds.update(texts)

        def frames() -> Generator[pl.DataFrame]:
            for name, scan in scans:
                with closing(read_in_batches(scan.cast(texts), name)) as batches:
                    yield from (clean_batch(batch).cast(kinds) for batch in batches)

        return folded(frames(), step)

    def frames(self, columns: Sequence[str], texts: Collection[str] = ()) -> Generator[pl.DataFrame]:
        """As of `OrderedBatches`."""
        read = [name for name in columns if name not in texts]
        self._table.check(read)
        self._check_schemas(read)
        table = self._table.as_texts(texts) if isinstance(self._table, CsvTable) else self._table
        named = [(repr(str(file)), scan.select(columns)) for file, scan in zip(self.files, table.scans, strict=True)]
        kinds = _common_schema(named)
        for name, scan in named:
            with closing(read_in_batches(scan.cast(kinds), name)) as batches:
                yield from batches

    def notes(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what the reader of an audit should know of how these columns were read."""
        return self._table.notes(columns)

    @cached_property
    def _table(self) -> FileTable:
        for file in self.files:
            check_file(file, self.options)
        return format_of(self.files[0]).table(self.files, self.options)

    @property
    def _scans(self) -> list[pl.LazyFrame]:
        """One lazy frame for each file."""
        return self._table.scans

    def _check_schemas(self, columns: Sequence[str]) -> pl.Schema:
        """Return the clean kinds of the columns, which every file must have."""
        kinds = pl.Schema()
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


def _common_schema(scans: Sequence[tuple[str, pl.LazyFrame]]) -> pl.Schema:
    """Return the kinds that hold the values of all files."""
    found = scans[0][1].collect_schema()
    for name, scan in scans[1:]:
        try:
            both = [pl.DataFrame(schema=schema) for schema in (found, scan.collect_schema())]
            found = pl.concat(both, how="vertical_relaxed").schema
        except pl.exceptions.PolarsError as error:
            raise DataError(
                f"every file must have columns of the same kinds as {scans[0][0]}, got others in {name}: "
                f"{first_line(error)}",
                "write it again with those kinds.",
            ) from None
    return found


def _schema(frame: pl.LazyFrame, file: Path) -> pl.Schema:
    try:
        return frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(
            f"{str(file)!r} must be a complete {format_of(file).name} file, got: {first_line(error)}",
            "write it again.",
        ) from None


def files_of(data: Any) -> tuple[Path, ...] | None:
    """Return the files that a path, a pattern, a folder or a list of these names; None where it is none of them."""
    entries = list(data) if isinstance(data, (list, tuple)) and data else [data]
    if not all(isinstance(entry, (str, os.PathLike)) for entry in entries):
        return None
    files = [file for entry in entries for file in _files(os.fspath(entry))]
    endings = {format_of(file).name: ending for file in files if (ending := ending_of(file))}
    if len(endings) > 1:
        raise DataError(
            f"the files must be of one kind, got {' and '.join(sorted(endings.values()))}.",
            f"name the {' or the '.join(sorted(endings))} files.",
        )
    return tuple(files)


def _files(entry: str) -> list[Path]:
    path = Path(entry)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if ending_of(file) and _is_data(file, path))
    elif glob.has_magic(entry) and not path.exists():
        files = sorted(Path(file) for file in glob.iglob(entry, recursive=True) if Path(file).is_file())  # noqa: PTH207
    else:
        return [path]
    if not files:
        raise DataError(
            f"{entry!r} must match files that end in {listed_endings()}, got none.",
            f"it was looked for in {Path.cwd()}.",
        )
    return files


def _is_data(file: Path, folder: Path) -> bool:
    """Return whether a file is no mark that an engine left behind."""
    return not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def check_file(file: Path, options: ReadOptions) -> None:
    """Raise for a file that is not there, is empty, or is not what its name says."""
    existing_file(file)
    if file.stat().st_size == 0:
        raise DataError(f"{shown(file.name)} must hold a table, got an empty file.", "was it written completely?")
    check_content(file, options)


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return a file that is there."""
    file = Path(path)
    if not file.is_file():
        raise _missing_file(file)
    return file


def _missing_file(file: Path) -> DataError:
    given = repr(str(file))  # in full: the end of a long path says most
    if file.is_dir():
        return DataError(f"{given} must be a file, got a folder.", "name one file.")
    neighbours = sorted(entry.name for entry in file.parent.iterdir()) if file.parent.is_dir() else []
    nearest = nearest_name(file.name, neighbours)
    hint = (
        f"did you mean {shown(nearest)}?" if nearest is not None else f"it was looked for in {file.parent.resolve()}."
    )
    return DataError(f"{given} must be an existing file, got none of that name.", hint)
