"""The published JSON schemas of results, made from their types; `python -m tiltlens.results.schema` writes them."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import polars as pl

from tiltlens.results import audit, change
from tiltlens.results.codec import Part, column_types, parts_of
from tiltlens.results.comparison import Comparison, ComparisonParts
from tiltlens.results.outputs import Correction, CorrectionParts

Schema = dict[str, Any]
WIDTH = 140  # of a line of a file
SCALARS = {str: "string", float: "number", int: "integer", bool: "boolean", NoneType: "null"}
BESIDE = {Comparison: ComparisonParts, Correction: CorrectionParts}  # types whose keys stand beside those of another
VERSIONS = (
    "Keys may be added within a version; a key that changes its meaning or goes away raises the number in `schema`."
)


def schema_of(kind: type, version: str) -> Schema:
    """Return the JSON schema of what `to_dict` of a result returns."""
    definitions: Schema = {}
    _refer(kind, definitions)
    whole = definitions.pop(kind.__name__)
    whole["properties"]["schema"] = {"const": version}
    about = {"title": f"tiltlens {kind.__name__.lower()}", "description": f"{whole.pop('description')} {VERSIONS}"}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": version}
    return {**head, **about, **whole, "$defs": dict(sorted(definitions.items()))}


def _schema(kind: Any, definitions: Schema) -> Schema:
    origin, arms = get_origin(kind), get_args(kind)
    if origin is Annotated:
        if arms[0] is not pl.DataFrame:
            return {**_schema(arms[0], definitions), "description": arms[1]}
        return {"type": "array", "items": _object(column_types(*arms[1:]), None, definitions)}
    if origin in (typing.Union, UnionType):
        return _any_of([_schema(arm, definitions) for arm in arms])
    if origin in (tuple, list):
        return {"type": "array", "items": _schema(arms[0], definitions)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema(arms[1], definitions)}
    if kind in SCALARS:
        return {"type": SCALARS[kind]}
    if issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    return _refer(kind, definitions)


def _any_of(schemas: list[Schema]) -> Schema:
    """Return a schema that any of several fit; types without other rules are merged."""
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _refer(kind: Any, definitions: Schema) -> Schema:
    """Return a reference to the definition of a type, which is made once."""
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}  # a type may hold itself
        parts = _parts(kind)
        required = [part.key for part in parts if part.key in getattr(kind, "__required_keys__", {part.key})]
        described = _object({part.key: part.type for part in parts}, required, definitions)
        texts = _descriptions(kind)
        for part in parts:
            if part.name in texts:
                described["properties"][part.key] |= {"description": texts[part.name]}
        definitions[name] = {"description": _first_line(kind)} | described
    return {"$ref": f"#/$defs/{name}"}


def _object(types: Mapping[str, Any], required: list[str] | None, definitions: Schema) -> Schema:
    properties = {key: _schema(hint, definitions) for key, hint in types.items()}
    return {"type": "object", "required": list(types) if required is None else required, "properties": properties}


def _parts(kind: Any) -> tuple[Part, ...]:
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        beside = BESIDE.get(kind)
        return parts_of(kind) + (() if beside is None else parts_of(beside))
    return tuple(Part(name, name, hint, True) for name, hint in get_type_hints(kind).items())


def _first_line(kind: Any) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _descriptions(kind: Any) -> dict[str, str]:
    """Return what the docstrings of a type say about its attributes and properties."""
    texts: dict[str, str] = {}
    for owner in (kind, *filter(None, [BESIDE.get(kind)])):
        section = (inspect.getdoc(owner) or "").partition("Attributes\n----------\n")[2].partition("\n\nExamples")[0]
        for names, text in re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?)+)", section, flags=re.MULTILINE):
            texts |= dict.fromkeys(re.split(r", *", names), " ".join(text.split()))
    properties = {name: value for name, value in vars(kind).items() if isinstance(value, property)}
    return {name: _first_line(value.fget) for name, value in properties.items()} | texts


PUBLISHED: dict[str, Schema] = {
    "audit": schema_of(audit.Audit, audit.SCHEMA),
    "change": schema_of(change.Change, change.SCHEMA),
}


def as_text(part: Any, indent: str = "") -> str:
    """Return JSON in which a part that fits on a line stands on one."""
    line = json.dumps(part, ensure_ascii=False)
    if not isinstance(part, dict) or len(indent + line) <= WIDTH:
        return line
    inner = f"{indent}  "
    entries = (f"{inner}{json.dumps(key)}: {as_text(value, inner)}" for key, value in part.items())
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


if __name__ == "__main__":
    for name, schema in PUBLISHED.items():
        Path(__file__).with_name(f"{name}.schema.json").write_text(as_text(schema) + "\n", encoding="utf-8")
