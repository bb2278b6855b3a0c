"""Summaries as JSON, written whole or not at all."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR
from pathlib import Path
from typing import Any, TextIO

from tiltlens.errors import DataError
from tiltlens.inputs import check_unread

Target = str | Path | TextIO  # a file, or one that is open for text


def write_json(summary: dict[str, Any], target: Target) -> None:
    """Write a summary to a file, or to standard output where `target` is "-"."""
    text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(sys.stdout if target == "-" else target, text, summary.get("schema"))


def write_text(target: Target, text: str, schema: str | None = None) -> None:
    """Write a text to a file atomically, in UTF-8; to one that is open, as it is."""
    if isinstance(target, str | Path):
        write_bytes(Path(target), text.encode("utf-8"), schema)
        return
    try:
        target.write(text)
    except (AttributeError, TypeError):
        raise DataError(
            f"a file to write must be a path or open for text, got {target!r}.", "for example open(path, 'w')."
        ) from None


def check_target(target: str | None) -> None:
    """Raise where a file could not be written: better before an audit than after it."""
    if target is None or target == "-":
        return
    path = _resolved(Path(target))
    if path.is_dir():
        raise _cannot_write(path, IsADirectoryError(EISDIR, os.strerror(EISDIR)))
    if path.is_file() or not path.exists():
        handle, name = _part(path)
        os.close(handle)
        Path(name).unlink()


def write_bytes(path: Path, content: bytes, schema: str | None = None) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a part.

    A link stays a link to the file that is written; a pipe or device is written to as it is.
    """
    path = _resolved(path)
    if path.exists() and not path.is_file():
        _write_through(path, content)
        return
    with whole_file(path, schema) as part:
        part.write_bytes(content)


@contextmanager
def whole_file(path: Path, schema: str | None = None) -> Iterator[Path]:
    """Give a file to write to, which takes the place of `path` once all is written, and is gone if anything fails.

    A file that was read is not replaced, unless by a result of the same schema.
    """
    path = _resolved(path)
    check_unread(path, schema)
    handle, name = _part(path)
    part = Path(name)
    try:
        try:
            yield part
            os.fsync(handle)
        finally:
            os.close(handle)
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:  # of its own: a second interruption may come while the first is dealt with
        part.unlink(missing_ok=True)


def _resolved(path: Path) -> Path:
    if not path.name:
        raise DataError(f"a file to write must have a name, got {str(path)!r}.", "for example audit.json.")
    return path.resolve()


def _part(path: Path) -> tuple[int, str]:
    """Return a new file beside the one that is to be written."""
    try:
        return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.", suffix=".part")
    except OSError as error:
        raise _cannot_write(path, error) from None


def _write_through(path: Path, content: bytes) -> None:
    try:
        with path.open("wb") as stream:
            stream.write(content)
    except OSError as error:
        raise _cannot_write(path, error) from None


def _cannot_write(path: Path, error: OSError) -> DataError:
    return DataError(
        f"`{path}` must be a file that can be written, got: {error.strerror}.", "choose another folder or name."
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
