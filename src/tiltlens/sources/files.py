"""Files: found, checked, and read batch by batch by one reader for each format."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path

import polars as pl

from tiltlens.errors import DataError
from tiltlens.inputs import Input
from tiltlens.sources.batches import S, Step, clean_batch, folded, read_in_batches, too_large
from tiltlens.sources.columns import clean_column
from tiltlens.sources.file_formats import check_content, ending_of, format_of, listed_endings
from tiltlens.sources.messages import checked_names, nearest_name, shown, wrap_errors
from tiltlens.sources.read_options import ReadOptions, Source
from tiltlens.sources.text_columns import FileTable


@dataclass(frozen=True, eq=False)
class FileBatches:
    """Files of one format and of the same columns, read one after another."""

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

        def frames() -> Generator[pl.DataFrame]:
            for name, scan in scans:
                with closing(read_in_batches(scan.cast(texts), name)) as batches:
                    yield from (clean_batch(batch).cast(kinds) for batch in batches)

        return folded(frames(), step)

    def frames(self, columns: Sequence[str], texts: Collection[str] = ()) -> Generator[pl.DataFrame]:
        """See `OrderedBatches`."""
        read = [name for name in columns if name not in texts]
        self._check_schemas(read)
        scans = self._scans if self._table.as_written is None else self._table.as_written(texts)
        named = [(repr(str(file)), scan.select(columns)) for file, scan in zip(self.files, scans, strict=True)]
        kinds = _common_schema(named)
        for name, scan in named:
            with closing(read_in_batches(scan.cast(kinds), name)) as batches:
                yield from batches

    def notes(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return what users may not expect of how these columns were read."""
        return tuple(self._table.notes(columns))

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
                    f"{str(file)!r} has no column {shown(missing[0])}, but {str(self.files[0])!r} has.",
                    "write the file again, or leave it out.",
                )
            for name in columns:
                kind = clean_column(pl.Series(name, [], dtype=schema[name])).dtype
                if kinds.setdefault(name, kind) != kind:
                    raise DataError(
                        f"{shown(name)} is {kind} in {str(file)!r} but {kinds[name]} in {str(self.files[0])!r}.",
                        "write the file again with columns of the same kinds.",
                    )
        return kinds


def _common_schema(scans: Sequence[tuple[str, pl.LazyFrame]]) -> pl.Schema:
    """Return the kinds that hold the values of all files."""
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
    """Return the files that a path, a pattern, a folder or a list of these names; None where it is none of them."""
    entries = _entries(data)
    if entries is None:
        return None
    files = [file for entry in entries for file in _files(entry)]
    _check_distinct(files)
    endings = {format_of(file).name: ending for file in files if (ending := ending_of(file))}
    if len(endings) > 1:
        raise DataError(
            f"the files must be of one kind, got {' and '.join(sorted(endings.values()))}.",
            f"name the {' or the '.join(sorted(endings))} files.",
        )
    return tuple(files)


def _entries(data: object) -> list[str] | None:
    entries = list(data) if isinstance(data, (list, tuple)) and data else [data]
    paths = [os.fspath(entry) for entry in entries if isinstance(entry, (str, os.PathLike))]
    return paths if len(paths) == len(entries) else None


def _check_distinct(files: Sequence[Path]) -> None:
    """Raise where a file is named twice: its rows would count twice, and intervals be too narrow."""
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
    """Return the files, folders, patterns and databases that data name; None and what is no file name none."""
    entries = [entry for data in several for entry in (_entries(Source.of(data).path) or ())]
    paths = {entry: re.sub(r"^[A-Za-z][\w+.-]+:///?", "", entry) for entry in entries}  # of the URL of a database
    return [
        Input(entry, tuple(file.absolute() for file in _found(path)), partial(_would_read, Path(path).absolute()))
        for entry, path in paths.items()
    ]


def _would_read(entry: Path, path: Path) -> bool:
    """Return whether a file would be found by a folder or pattern."""
    if entry.is_dir():
        folder = Path(os.path.realpath(entry))
        return path.is_relative_to(folder) and ending_of(path) is not None and _is_data(path, folder)
    if entry.exists() or not glob.has_magic(str(entry)):
        return False
    start = next(index for index, part in enumerate(entry.parts) if glob.has_magic(part))
    pattern = Path(os.path.realpath(Path(*entry.parts[:start]))).joinpath(*entry.parts[start:])
    is_as_deep = "**" in pattern.parts or len(path.parts) == len(pattern.parts)
    return is_as_deep and fnmatchcase(str(path), str(pattern).replace(f"**{os.sep}", "*"))


def _found(entry: str) -> list[Path]:
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
    files = _found(entry)
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
    if not isinstance(path, str | os.PathLike):
        raise DataError(f"`path` must be the name of a file, got {shown(path)}.", "for example 'model.onnx'.")
    file = Path(path)
    if not file.is_file():
        raise _missing_file(file)
    if any("\ud800" <= letter <= "\udfff" for letter in str(file)):
        raise DataError(f"{str(file)!r} cannot be opened: its name is not valid UTF-8.", "rename the file.")
    return file


def _missing_file(file: Path) -> DataError:
    given = repr(str(file))  # in full: the end of a long path says most
    if file.is_dir():
        return DataError(f"{given} is a folder, not a file.", "name one file.")
    if file.is_symlink():
        return DataError(f"{given} is a link to {str(file.readlink())!r}, which does not exist.", "mend the link.")
    neighbours = sorted(entry.name for entry in file.parent.iterdir()) if file.parent.is_dir() else []
    stems = {Path(name).stem: name for name in reversed(neighbours)}  # an ending that is the same says nothing
    nearest = stems.get(nearest_name(file.stem, list(stems)) or "")
    hint = (
        f"did you mean {shown(nearest)}?"
        if nearest is not None
        else f"it was looked for in {os.path.realpath(file.parent)}."
    )
    return DataError(f"File not found: {given}.", hint)
