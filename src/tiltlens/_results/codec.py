"""Conversion of results to JSON data and back, driven by type hints; files are written completely or not at all.

A result is a dataclass, a NamedTuple or a TypedDict. The keys of a dataclass are its `JSON_PROPERTIES`, which are
written, and checked against the file when it is read, and its public fields, named by the "key" of their metadata (None
omits a field). A frame is `Annotated[pl.DataFrame, schema]`, or `Annotated[pl.DataFrame, schema, {column: type}]` if a
column allows fewer values than its dtype; `Annotated[type, text]` describes a column in the published schema. If a
result has a method `disclosed`, its return value is written.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from errno import EISDIR
from functools import cache
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, NamedTuple, NoReturn, TextIO, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError, check_unread

Target = str | Path | TextIO  # a path, or a file open for text
Json = dict[str, Any]  # an object of a JSON file


def write_json(summary: Json, target: Target) -> None:
    """Write a summary as JSON to a file, or to standard output if `target` is "-"."""
    text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(sys.stdout if target == "-" else target, text, summary.get("schema"))


def write_text(target: Target, text: str, schema: str | None = None) -> None:
    """Write a text atomically to a path, in UTF-8, or to a file that is open for text."""
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
    """Raise if a file cannot be written, so that an audit fails before it is computed."""
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
    """Write a file atomically: a reader sees the old file or the new one, never a partial one.

    A link stays a link to the file that is written; a pipe or device is written to directly.
    """
    path = _resolved(path)
    if path.exists() and not path.is_file():
        _write_through(path, content)
        return
    with whole_file(path, schema) as part:
        part.write_bytes(content)


@contextmanager
def whole_file(path: Path, schema: str | None = None) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` when all is written, and is deleted if anything fails.

    A file that was read as input is not replaced, unless the new result has the same schema.
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
    finally:  # in its own block, since a second interruption may come while the first is handled
        part.unlink(missing_ok=True)


def _resolved(path: Path) -> Path:
    if not path.name:
        raise DataError(f"A file to write must have a name, got {str(path)!r}.", "for example audit.json.")
    return Path(os.path.realpath(path))  # unlike `resolve`, it does not fail on circular links


def _part(path: Path) -> tuple[int, str]:
    """Return a new temporary file in the folder of `path`."""
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
    folder, here = path.parent, Path.cwd()
    shown_path, shown_folder = (
        repr(str(entry.relative_to(here) if entry.is_relative_to(here) else entry)) for entry in (path, folder)
    )
    if not folder.exists():
        return DataError(
            f"{shown_path} cannot be written because the folder {shown_folder} does not exist.",
            "create it, or choose another folder.",
        )
    return DataError(f"{shown_path} cannot be written: {error.strerror}.", "choose another folder or name.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


T = TypeVar("T")
EXPECTED: dict[type, str] = {str: "text", float: "a number", int: "a whole number", bool: "true or false"}
EXPECTED |= {dict: "an object", list: "a list", NoneType: "null"}
COLUMN_TYPES: dict[Any, Any] = {pl.String: str | None, pl.Float64: float | None, pl.Int64: int | None}


class Part(NamedTuple):
    """One JSON key of a result: its attribute, its type, and whether it is an argument of the constructor."""

    key: str
    name: str
    type: Any
    is_field: bool


def to_plain(result: Any) -> Any:
    """Return a result as dicts, lists, texts and numbers, keyed by attribute name."""
    if hasattr(result, "disclosed"):
        result = result.disclosed()
    if is_dataclass(result) or hasattr(result, "_fields"):
        return {part.key: to_plain(getattr(result, part.name)) for part in parts_of(result.__class__)}
    if isinstance(result, pl.DataFrame):
        return result.to_dicts()
    if isinstance(result, np.ndarray):
        return result.tolist()
    if isinstance(result, Mapping):
        return {key: to_plain(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        return [to_plain(value) for value in result]
    return str(result) if isinstance(result, str) else result


def from_plain(kind: type[T], data: object, path: str = "") -> T:
    """Read a result of a type from the output of `to_plain`; an error names the path of an invalid part."""
    result: T = _read(kind, data, path)
    return result


@cache
def parts_of(kind: Any) -> tuple[Part, ...]:
    """Return the JSON keys of a dataclass, NamedTuple or TypedDict, in order."""
    hints = get_type_hints(kind) if typing.is_typeddict(kind) else _hints(kind)
    if not is_dataclass(kind):
        return tuple(Part(name, name, hint, True) for name, hint in hints.items())
    public = {field.name: field.metadata.get("key", field.name) for field in fields(kind) if field.name[0] != "_"}
    keys = {name: key for name, key in public.items() if key is not None}
    names = (*getattr(kind, "JSON_PROPERTIES", ()), *keys)
    hints |= {name: get_type_hints(getattr(kind, name).fget)["return"] for name in names if name not in keys}
    return tuple(Part(keys.get(name, name), name, hints[name], name in keys) for name in names)


def _hints(kind: Any) -> dict[str, Any]:
    """Return the types of public fields; private ones may use types imported only for type checking."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        public = {k: hint for k, hint in vars(base).get("__annotations__", {}).items() if k[0] != "_" and k.islower()}
        module = vars(sys.modules[base.__module__])
        hints |= get_type_hints(SimpleNamespace(__annotations__=public), module, include_extras=True)
    return hints


def _read(kind: Any, data: object, path: str) -> Any:
    if kind in (float, Any):  # numbers, most values of a file, come first
        return float(_checked(float, data, path)) if kind is float else data
    origin, arms = get_origin(kind), get_args(kind)
    if origin is Annotated:
        is_frame = arms[0] is pl.DataFrame
        return _read_frame(data, path, *arms[1:]) if is_frame else _read(arms[0], data, path)
    if origin in (typing.Union, UnionType):
        return _read_union(arms, data, path)
    if origin is np.ndarray:
        return _read_array(arms[1], data, path)
    if origin in (tuple, list):
        return origin(_read_entries(arms, data, path))
    if origin in (dict, Mapping):
        return {key: _read(arms[1], value, _below(path, key)) for key, value in _checked(dict, data, path).items()}
    if typing.is_typeddict(kind) or is_dataclass(kind) or hasattr(kind, "_fields"):
        return _read_parts(kind, data, path)
    if issubclass(kind, Enum):
        return kind(data) if data in list(kind) else _misfit(path, f"one of {', '.join(map(repr, kind))}", repr(data))
    return _checked(kind, data, path)


def _read_array(dtype: Any, data: object, path: str) -> NDArray[Any]:
    """Return an array of finite numbers, or of texts."""
    is_text = issubclass(get_args(dtype)[0], np.str_)
    try:
        array = np.array(_checked(list, data, path))
    except ValueError:  # lists of different lengths
        _misfit(path, "lists of equal length", "others")
    is_whole = array.dtype.kind == "U" if is_text else array.dtype.kind in "biuf" and np.isfinite(array).all()
    if array.size and not is_whole:
        _misfit(path, "a list of texts" if is_text else "a list of numbers", "others")
    return array


def _read_entries(arms: tuple[Any, ...], data: object, path: str) -> list[Any]:
    """Return the entries of a list, which have one type each or a common type."""
    entries = _checked(list, data, path)
    kinds = arms if len(arms) > 1 and arms[-1] is not Ellipsis else arms[:1] * len(entries)
    if len(entries) != len(kinds):
        _misfit(path, f"{len(kinds)} entries", f"{len(entries)}")
    both = enumerate(zip(kinds, entries, strict=True))
    return [_read(kind, entry, f"{path}[{index}]") for index, (kind, entry) in both]


def _read_parts(kind: Any, data: object, path: str) -> Any:
    parts = parts_of(kind)
    types = {part.key: part.type for part in parts}
    values = _read_keys(types, getattr(kind, "__required_keys__", types), data, path)
    if typing.is_typeddict(kind):
        return values
    result = kind(**{part.name: values[part.key] for part in parts if part.is_field})
    for part in parts:
        if not part.is_field and to_plain(getattr(result, part.name)) != values[part.key]:
            raise DataError(f"{_below(path, part.key)}: contradicts the other values")
    return result


def _read_keys(types: Mapping[str, Any], required: Iterable[str], data: object, path: str) -> dict[str, Any]:
    """Return the parts that have a type; other keys of the file are ignored."""
    values = _checked(dict, data, path)
    for key in required:
        if key not in values:
            raise DataError(f"{_below(path, key)}: missing")
    return {key: _read(types[key], value, _below(path, key)) for key, value in values.items() if key in types}


def _read_frame(data: object, path: str, schema: Mapping[str, Any], narrower: Mapping[str, Any] | None = None) -> Any:
    types = column_types(schema, narrower)
    rows = [_read_keys(types, types, row, f"{path}[{index}]") for index, row in enumerate(_checked(list, data, path))]
    return pl.DataFrame(rows, schema, infer_schema_length=None)


def column_types(schema: Mapping[str, Any], narrower: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the types of a frame's columns."""
    return {name: COLUMN_TYPES[dtype] for name, dtype in schema.items()} | dict(narrower or {})


def _read_union(arms: tuple[Any, ...], data: object, path: str) -> Any:
    """Return the data read as the first type that fits; otherwise the error is that of the last type."""
    if data is None and NoneType in arms:
        return None
    *others, last = [arm for arm in arms if arm is not NoneType]
    for arm in others:
        try:
            return _read(arm, data, path)
        except DataError:
            continue
    return _read(last, data, path)


def _checked(kind: type[T], data: object, path: str) -> T:
    """Return the data; raise if they are not of this kind. A whole number is a number, too."""
    value: Any = data
    is_number = kind is float and isinstance(value, int)
    if (isinstance(value, bool) and kind is not bool) or not (is_number or isinstance(value, kind)):
        _misfit(path, EXPECTED[kind], "a number" if type(value) is int else EXPECTED[type(value)])
    if kind is float and not abs(value) <= sys.float_info.max:
        _misfit(path, "a finite number", repr(value))
    return cast(T, value)


def _misfit(path: str, expected: str, data: str) -> NoReturn:
    raise DataError(f"{path or 'the file'}: expected {expected}, got {data}")


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
