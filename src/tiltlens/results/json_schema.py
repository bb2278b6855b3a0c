"""A published schema read as what it is: the first place of a summary that does not fit it.

The words of JSON Schema that the schemas of this folder use, and no others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

Schema = dict[str, Any]
KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


@cache
def published(name: str) -> Schema:
    """Return a schema of this folder, such as "audit"."""
    found: Schema = json.loads(files("tiltlens.results").joinpath(f"{name}.schema.json").read_text(encoding="utf-8"))
    return found


def misfit(value: Any, schema: Schema) -> str | None:
    """Return the first place that does not fit, and why, such as "gap.value is 'x' instead of a number"."""
    return next(_misfits(value, schema, schema, ""), None)


def _misfits(value: Any, schema: Schema, root: Schema, place: str) -> Iterator[str]:
    """Yield what does not fit, in the order of the value."""
    if "$ref" in schema:
        yield from _misfits(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, place)
    if "anyOf" in schema:
        yield from _of_none(value, schema["anyOf"], root, place)
    wrong = _wrong_scalar(value, schema)
    if wrong is not None:
        yield f"{place or 'it'} {wrong}"
    elif isinstance(value, dict):
        yield from _misfits_of_object(value, schema, root, place)
    elif isinstance(value, list):
        yield from _misfits_of_array(value, schema, root, place)


def _of_none(value: Any, schemas: list[Schema], root: Schema, place: str) -> Iterator[str]:
    """Yield why a value fits none of several schemas: of the last, which is that of a value that is there."""
    found = [next(_misfits(value, one, root, place), None) for one in schemas]
    if None not in found and found[-1] is not None:
        yield found[-1]


def _wrong_scalar(value: Any, schema: Schema) -> str | None:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_kind(value, kind) for kind in kinds):
        return f"is {_told(value)} instead of {' or '.join(kinds)}"
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if allowed is not None and value not in allowed:
        return f"is {_told(value)} instead of {' or '.join(_told(one) for one in allowed)}"
    if _is_kind(value, "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"is {_told(value)}, out of range"
    if isinstance(value, str) and re.search(schema.get("pattern", ""), value) is None:
        return f"is {_told(value)}, which is not of its form"
    return None


def _is_kind(value: Any, kind: str) -> bool:
    if kind in KINDS:
        return isinstance(value, KINDS[kind])
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return not isinstance(value, bool) and (is_whole or (kind == "number" and isinstance(value, float)))


def _told(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _misfits_of_object(value: dict[str, Any], schema: Schema, root: Schema, place: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place or 'it'} has no {name!r}"
    if len(value) < schema.get("minProperties", 0):
        yield f"{place or 'it'} has {len(value)} parts"
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, part in value.items():
        here = f"{place}.{name}" if place else name
        matched = [one for pattern, one in patterns.items() if re.search(pattern, name)]
        if name in known:
            matched.append(known[name])
        if not matched and isinstance(schema.get("additionalProperties"), dict):
            matched.append(schema["additionalProperties"])
        for one in matched:
            yield from _misfits(part, one, root, here)


def _misfits_of_array(value: list[Any], schema: Schema, root: Schema, place: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{place} has {len(value)} parts"
    for at, part in enumerate(value):
        yield from _misfits(part, schema.get("items", {}), root, f"{place}[{at}]")
