"""Files that are read, and the rule for writing: no output replaces an input or another output."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tiltlens.errors import DataError, nearest_name, shown

READ: dict[str, Input] = {}  # what this process has read, by absolute name
TABLES: set[Path] = set()  # that `apply` wrote in this process
TABLE = "table"


class Input(NamedTuple):
    """A file, folder or pattern that is read, under the name that the user gave it."""

    name: str
    files: tuple[Path, ...]
    would_read: Callable[[Path], bool] = lambda _: False  # a new file, such as one within the folder
    schema: str | None = None  # of a file that tiltlens wrote, and results of the same schema may replace

    @classmethod
    def file(cls, path: str | os.PathLike[str], schema: str | None = None) -> Input:
        """Return a single file."""
        return cls(os.fspath(path), (Path(path).absolute(),), schema=schema)

    def holds(self, path: Path) -> bool:
        """Return whether writing `path` would replace one of these files, or add one; links are followed."""
        return self.would_read(path) or (
            path.exists() and any(file.exists() and path.samefile(file) for file in self.files)
        )


def remember(*inputs: Input) -> None:
    """Keep in mind what was read: results in Python do not know their files."""
    for source in inputs:
        is_own = TABLES.issuperset(Path(os.path.realpath(file)) for file in source.files)
        READ[str(Path(source.name).absolute())] = source._replace(schema=TABLE) if is_own else source


def check_unread(path: Path, schema: str | None) -> None:
    """Raise where writing would replace a file that was read, unless by a newer result of its own kind."""
    inputs = [source for source in list(READ.values()) if schema is None or source.schema != schema]
    check_outputs([("The output", path)], inputs)


def check_outputs(outputs: Iterable[tuple[str, str | Path | None]], inputs: Iterable[Input]) -> None:
    """Raise where an output, after the option that names it, would replace an input or another output."""
    taken: dict[tuple[Path, str], str] = {}
    for option, target in outputs:
        path = Path(os.path.realpath(target or "-"))
        if target in (None, "-") or not (path.is_file() or path.is_dir() or not path.exists()):
            continue  # the screen, a pipe or a device
        read = next((source for source in inputs if source.holds(path)), None)
        # Some file systems take "A.json" and "a.json", or two spellings of "é", for one file.
        key = path.parent, unicodedata.normalize("NFC", path.name).casefold()
        if read is not None:
            why = f"it is part of the input {read.name!r}"
        elif key in taken:
            why = f"{taken[key]} is written there"
        else:
            taken[key] = option
            continue
        raise DataError(f"{option} cannot be written to {str(target)!r} because {why}.", "choose another name.")


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
