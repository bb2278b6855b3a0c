"""Summaries as JSON, written whole or not at all."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tiltlens.errors import DataError


def write_json(summary: dict[str, Any], target: str) -> None:
    """Write a summary to a file, or to standard output where `target` is "-"."""
    text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        write_text(Path(target), text)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically, in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees the old file or the new one, never a part.

    A link stays a link to the file that is written; a pipe or device is written to as it is.
    """
    if not path.name:
        raise DataError(f"a file to write must have a name, got {str(path)!r}.", "for example audit.json.")
    path = path.resolve()
    if path.exists() and not path.is_file():
        _write_through(path, content)
        return
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.", suffix=".part")
    except OSError as error:
        raise _cannot_write(path, error) from None
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _cannot_write(path, error) from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise


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
