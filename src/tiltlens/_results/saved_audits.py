"""Saved audits, read again; and the schemas of JSON, which `python -m tiltlens._results.saved_audits` writes."""

from __future__ import annotations

import copy
import inspect
import json
import re
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, get_args, get_origin

import polars as pl

from tiltlens._estimators.use import ShareForm
from tiltlens._limits import DIAL_POSITIONS
from tiltlens._results.audit import SCHEMA, Audit
from tiltlens._results.audit_comparison import compare
from tiltlens._results.change import SCHEMA as CHANGE_SCHEMA
from tiltlens._results.change import Change
from tiltlens._results.codec import Json, column_types, from_plain, parts_of
from tiltlens._results.comparison import Comparison, ComparisonParts, with_displays
from tiltlens._results.profiles import AGAIN, NO_ROWS, Correction, CorrectionParts, NoRows, Prototype, needs_rows
from tiltlens.errors import DataError, Input, TiltlensError, quoted, remember
from tiltlens.paper.correction import CorrectionFunction

SAVED_SLACK = 1e-6  # relative error up to which two numbers agree; edited files differ by more


def read_audit(path: str | Path) -> Audit:
    """Read an audit that `to_json` or `tiltlens audit --json FILE` wrote.

    You can print, report, plot, gate and compare the result like the original audit. Methods that need rows (`path`,
    `project`, `repair`, `alternatives`, `reweigh`, `profile`, `distribution`) raise an error, and so does a paired
    comparison.

    Parameters
    ----------
    path
        The JSON file.

    Returns
    -------
    Audit
        The audit, without its rows.

    Raises
    ------
    DataError
        If the file has another version, or parts that are missing or contradict each other.

    See Also
    --------
    Audit.to_json : Write the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tiltlens as tl
    >>> audit = tl.audit({"sex": ["women", "men"] * 50, "score": [0.4, 0.5, 0.6, 0.8] * 25}, "sex", scores="score")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     audit.to_json(Path(folder, "audit.json"))
    ...     again = tl.read_audit(Path(folder, "audit.json"))
    >>> again[0].gap == audit[0].gap
    True
    """
    summary = _load(path)
    try:
        audit = restore_audit(summary)
        _check_groups(audit)
        _check_numbers(summary["comparisons"])
    except TiltlensError as error:
        reason = str(error).partition("\n")[0].removesuffix(".")
        raise DataError(
            f"`path` must be a whole audit as it was written, got {quoted(str(path))}: {reason}.", AGAIN
        ) from None
    return audit


def restore_audit(summary: Json) -> Audit:
    """Return the audit that `to_dict` wrote, with its saved parts."""
    audit = from_plain(Audit, summary)
    saved = {
        name: _with_parts(comparison, summary["comparisons"][name], f"comparisons.{name}", audit)
        for name, comparison in audit.items()
    }
    return replace(audit, comparisons=saved)


def saved_change(old: str, new: str) -> Change:
    """Return the change between two saved audits of different rows."""
    audits = read_audit(old), read_audit(new)
    for name in ("data_sha256", "rows_sha256"):
        hashes = [getattr(audit.provenance, name) for audit in audits]
        if hashes[0] is not None and hashes[0] == hashes[1]:
            raise DataError(
                f"Two saved audits must be of different rows, got the same {name} twice.",
                "compare two models on the same rows with `tiltlens compare DATA --scores OLD --scores NEW`.",
            )
    return compare(*audits)


def _load(path: str | Path) -> Json:
    """Return the content of the file; raise unless it is an audit of this schema version."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        summary = json.loads(text, parse_constant=_refuse_constant)
    except OSError as error:
        raise DataError(f"Cannot read {quoted(str(path))}: {error.strerror}.") from None
    except (TypeError, ValueError, RecursionError):
        raise DataError(
            f"{str(path)!r} is not a saved audit.",
            "write one with `audit.to_json(path)`, or `tiltlens audit … --json FILE`.",
        ) from None
    schema = summary.get("schema") if isinstance(summary, dict) else None
    if not isinstance(summary, dict) or schema != SCHEMA:
        raise _other_schema(path, schema)
    remember(Input.file(path, SCHEMA))
    return summary


def _other_schema(path: str | Path, schema: object) -> DataError:
    family, _, version = SCHEMA.rpartition("/")
    if not isinstance(schema, str) or not schema.startswith(f"{family}/"):
        return DataError(f"{str(path)!r} is not a saved audit: its schema is {quoted(schema)}, not {SCHEMA!r}.", AGAIN)
    given = schema.rpartition("/")[2]
    return DataError(
        f"{str(path)!r} cannot be read because it has version {given} of the schema {family!r}; tiltlens reads version "
        f"{version}.",
        AGAIN,
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _with_parts(comparison: Comparison, data: Json, path: str, audit: Audit) -> Comparison:
    """Return the comparison with its saved parts instead of rows."""
    confidence, correction = audit.settings.confidence, comparison.correction
    of_correction = from_plain(CorrectionParts, data["correction"], f"{path}.correction")
    own = from_plain(ComparisonParts, data, path)
    parts: Any = SavedParts(own.bins, own.splitting, own.prices, of_correction, confidence)
    try:
        function = None if correction.numbers is None else SavedCorrection.read(correction.numbers)
    except KeyError as error:
        raise DataError(f"{path}.correction.numbers.{error.args[0]}: missing") from None
    level = None if comparison.checks.balance is None else confidence
    saved = replace(correction, function=function, _confidence=level, _profiles=parts)
    return with_displays(replace(comparison, correction=saved))


def _check_groups(audit: Audit) -> None:
    """Raise if a comparison has other groups, or another score type, than the audit."""
    if not audit.comparisons:
        raise DataError("comparisons: expected at least one, got none")
    for name, comparison in audit.items():
        expected = (name, audit.reference, audit.score_type)
        if (comparison.audited, comparison.reference, comparison.scale.score_type) != expected:
            raise DataError(f"comparisons.{name}: about other groups, or another kind of output, than the audit says")


def _check_numbers(comparisons: Json) -> None:
    """Raise if a value lies outside its interval, or if a gap is not the difference of the mean outputs."""
    for path, value, low, high in _intervals(comparisons, "comparisons"):
        slack = SAVED_SLACK * max(1.0, abs(value))
        if (low is not None and low > value + slack) or (high is not None and high < value - slack):
            raise DataError(f"{path}: {value} lies outside of its interval, {low} to {high}")
    for name, c in comparisons.items():
        audited, reference = (c["outputs"]["means"][group] for group in ("audited", "reference"))
        is_single = not isinstance(audited, list)
        if is_single and abs(abs(c["gap"]["value"]) - abs(audited - reference)) > SAVED_SLACK * max(1.0, abs(audited)):
            raise DataError(f"comparisons.{name}.gap: {c['gap']['value']} is not the difference of the outputs")


Interval = tuple[str, float, float | None, float | None]


def _intervals(part: object, path: str) -> Iterator[Interval]:
    """Yield the path, value and limits of every estimate and of every contribution with a band."""
    if isinstance(part, list):
        for index, entry in enumerate(part):
            yield from _intervals(entry, f"{path}[{index}]")
    elif isinstance(part, dict):
        for name in ("alone", "beyond_others"):
            if part.get(name) is not None and f"{name}_low" in part:
                yield f"{path}.{name}", part[name], part[f"{name}_low"], part[f"{name}_high"]
        if part.keys() >= {"value", "low", "high"}:
            yield path, part["value"], part["low"], part["high"]
        for name, entry in part.items():
            yield from _intervals(entry, f"{path}.{name}")


@dataclass(frozen=True, slots=True, eq=False)
class SavedParts(ComparisonParts, NoRows):
    """The parts of a saved comparison, without its rows."""

    correction: CorrectionParts
    confidence: float

    def shares_along_tradeoff(
        self, forms: Mapping[str, ShareForm], positions: int, level: float | None
    ) -> pl.DataFrame:
        """Return the saved shares; raise for other positions or another confidence."""
        if positions != DIAL_POSITIONS or level not in (None, self.confidence):
            raise needs_rows("shares_along_tradeoff at other positions, or of another confidence,")
        return self.correction.tradeoff_table

    def prototypes(self, suppress: bool = True) -> dict[str, Prototype]:
        """Return the saved prototypes; raise if `suppress` is False."""
        if not suppress:
            raise needs_rows("prototypes with suppress=False")
        return copy.deepcopy(self.correction.prototypes)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SavedCorrection(CorrectionFunction):
    """A correction function as saved: the affine form and the paper's numbers, without moments."""

    numbers: dict[str, float | None]

    @classmethod
    def read(cls, numbers: Json) -> SavedCorrection:
        """Return the correction function with the numbers that `to_dict` wrote."""
        names = ("intercept", "on_log_odds", "descent_rate", "input_weight", "output_weight")
        on_scores = tuple(value for name, value in numbers.items() if name.startswith("on_score"))
        moments = dict.fromkeys(("audited", "reference", "log_output_ratio"), NO_ROWS)
        return cls(**{name: numbers[name] for name in names}, on_scores=on_scores, **moments, numbers=numbers)

    def to_dict(self) -> dict[str, float | None]:
        """Return the saved numbers."""
        return dict(self.numbers)

    def _saved(self, name: str) -> float:
        self._check_binary(name)
        value = self.numbers[name]
        if value is None:
            raise needs_rows(name)
        return value

    rho_m = property(lambda self: self._saved("rho_m"))
    a1 = property(lambda self: self._saved("a1"))
    a2 = property(lambda self: self._saved("a2"))
    b1 = property(lambda self: self._saved("b1"))


WIDTH = 140  # maximum line length of the files
SCALARS = {str: "string", float: "number", int: "integer", bool: "boolean", NoneType: "null"}
BESIDE = {Comparison: ComparisonParts, Correction: CorrectionParts}  # types whose keys are merged into those of others
VERSIONS = (
    "Keys may be added within a version; a key that changes its meaning or goes away raises the number in `schema`."
)


def schema_of(kind: type, version: str) -> Json:
    """Return the JSON schema of the output of a result's `to_dict`."""
    definitions: Json = {}
    _refer(kind, definitions)
    whole = definitions.pop(kind.__name__)
    whole["properties"]["schema"] = {"const": version}
    about = {"title": f"tiltlens {kind.__name__.lower()}", "description": f"{whole.pop('description')} {VERSIONS}"}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": version}
    return {**head, **about, **whole, "$defs": dict(sorted(definitions.items()))}


def _schema(kind: Any, definitions: Json) -> Json:
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


def _any_of(schemas: list[Json]) -> Json:
    """Return a schema that accepts any of several; plain types are merged."""
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _refer(kind: Any, definitions: Json) -> Json:
    """Return a reference to the definition of a type, which is added if it is missing."""
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}  # a type may contain itself
        parts = parts_of(kind) + (parts_of(BESIDE[kind]) if kind in BESIDE else ())
        required = [part.key for part in parts if part.key in getattr(kind, "__required_keys__", {part.key})]
        described = _object({part.key: part.type for part in parts}, required, definitions)
        texts = _descriptions(kind)
        for part in parts:
            if part.name in texts:
                described["properties"][part.key] |= {"description": texts[part.name]}
        definitions[name] = {"description": _first_line(kind)} | described
    return {"$ref": f"#/$defs/{name}"}


def _object(types: Mapping[str, Any], required: list[str] | None, definitions: Json) -> Json:
    properties = {key: _schema(hint, definitions) for key, hint in types.items()}
    return {"type": "object", "required": list(types) if required is None else required, "properties": properties}


def _first_line(kind: object) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _descriptions(kind: Any) -> dict[str, str]:
    """Return the descriptions of attributes and properties from the docstrings of a type."""
    texts: dict[str, str] = {}
    for owner in (kind, *filter(None, [BESIDE.get(kind)])):
        section = (inspect.getdoc(owner) or "").partition("Attributes\n----------\n")[2].partition("\n\nExamples")[0]
        for names, text in re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?)+)", section, flags=re.MULTILINE):
            texts |= dict.fromkeys(re.split(r", *", names), " ".join(text.split()))
    properties = {name: value for name, value in vars(kind).items() if isinstance(value, property)}
    return {name: _first_line(value.fget) for name, value in properties.items()} | texts


def published() -> dict[str, Json]:
    """Return the schemas of audits and of changes."""
    return {"audit": schema_of(Audit, SCHEMA), "change": schema_of(Change, CHANGE_SCHEMA)}


def as_text(part: object, indent: str = "") -> str:
    """Return JSON in which each object that fits on a line is written on one."""
    line = json.dumps(part, ensure_ascii=False)
    if not isinstance(part, dict) or len(indent + line) <= WIDTH:
        return line
    inner = f"{indent}  "
    entries = (f"{inner}{json.dumps(key)}: {as_text(value, inner)}" for key, value in part.items())
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


if __name__ == "__main__":
    for name, schema in published().items():
        Path(__file__).with_name(f"{name}.schema.json").write_text(as_text(schema) + "\n", encoding="utf-8")
