"""The command `tiltlens run`: audits that files (audit.yaml or audit.toml) describe.

A key is an option of `tiltlens audit`, and its value is that of the option. Texts are kept as written, so `no` can be
the name of a column and `010` the name of a group: types guessed by YAML are ignored.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click

from tiltlens._commands.audit import OUTPUTS, AuditRequest, check_apart, run_audit
from tiltlens._commands.options import Value, parameters, usual_options
from tiltlens._commands.outputs import GATE_FAILED
from tiltlens._formats import text_of
from tiltlens._render.page import check_report
from tiltlens.errors import DataError, MissingExtraError, TiltlensError, first_line, nearest_name, quoted

Node: TypeAlias = Any  # PyYAML need not be installed
AUDIT_FILE_BYTES = 1_000_000  # maximum size of an audit file; a larger one is probably data
AUDIT_FILE_DEPTH = 10  # nested lists and keys: audits need three, and parsers are slow for thousands
KEYS = {"fail_if": "gates"}  # options whose key has another name
EXPECTED = {"float": "a number", "integer": "a whole number"}  # by click's types
OPENS = ("[", "{", "<block mapping start>", "<block sequence start>")  # tokens of YAML
CLOSES = ("]", "}", "<block end>")
NOT_READ = {"<anchor>": "an anchor", "<alias>": "an alias", "<tag>": "a tag"}


def run_command(files: tuple[str, ...], check: bool) -> None:
    """Run the audits that audit files describe."""
    requests = [read_audit_file(name) for name in dict.fromkeys(files)]  # all are checked before the first starts
    check_apart(*requests)
    if check:
        click.echo(f"Checked {len(requests)} files: keys, values, gates and outputs are valid.", err=True)
        return
    for request in requests:
        check_report(request.outputs["report"])
    have_failed = [run_audit(request) for request in requests]
    if any(have_failed):
        sys.exit(GATE_FAILED)


def read_audit_file(path: str | Path) -> AuditRequest:
    """Return the audit that a file describes, after a check of all keys and values."""
    file = Path(path)
    keys = _parse(file)
    if "favorable" in keys and "favourable" not in keys:
        keys["favourable"] = keys.pop("favorable")
    params = {KEYS.get(str(param.name), str(param.name)): param for param in parameters("audit")}
    options = {key: param for key, param in params.items() if key not in OUTPUTS}
    outputs = keys.pop("outputs", {})
    if not isinstance(outputs, dict):
        raise _mistake(file, "outputs", "file names by key", outputs, "for example outputs: {json: audit.json}.")
    _check_keys(file, "", keys, [*options, "outputs"])
    _check_keys(file, "outputs.", outputs, OUTPUTS)
    if "data" not in keys:
        raise DataError(f"{str(file)!r} has no `data`.", "name the files to audit.")
    values = {str(options[key].name): _value(file, key, options[key], value) for key, value in keys.items()}
    for key, target in outputs.items():
        name = _text(file, f"outputs.{key}", target)
        values[key] = name if name == "-" else str(file.parent / name)
    try:
        return AuditRequest.of(usual_options() | values, file)
    except TiltlensError as error:
        raise type(error)(f"In {str(file)!r}: {re.sub(r'--[a-z-]+', _name_key, str(error))}") from None


def _name_key(option: re.Match[str]) -> str:
    """Return the key in the audit file for an option in a message."""
    name = option[0][2:].replace("-", "_")
    return f"`{KEYS.get(name, name)}`"


def _parse(file: Path) -> dict[str, object]:
    readers = {".toml": _parse_toml, ".yaml": _parse_yaml, ".yml": _parse_yaml}
    if file.suffix.lower() not in readers:
        raise DataError(f"{str(file)!r} is not an audit file.", "its name must end in .yaml, .yml or .toml.")
    try:
        with file.open("rb") as stream:
            content = stream.read(AUDIT_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"Cannot read {str(file)!r}: {error.strerror}.", "check the name.") from None
    except UnicodeDecodeError:
        raise DataError(f"{str(file)!r} is not UTF-8.", "save it as UTF-8.") from None
    if len(content) > AUDIT_FILE_BYTES:
        raise DataError(
            f"{str(file)!r} is larger than {AUDIT_FILE_BYTES:,} bytes.",
            "an audit file names the data; rows are in another file.",
        )
    keys = readers[file.suffix.lower()](file, text)
    if not isinstance(keys, dict):
        raise DataError(f"{str(file)!r} has no keys with values.", "for example data: a.csv")
    return keys


def _parse_toml(file: Path, text: str) -> object:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{str(file)!r} is not valid TOML: {first_line(error)}.") from None


def _parse_yaml(file: Path, text: str) -> object:
    """Return YAML as texts, lists and dicts; no objects are constructed and no types guessed."""
    try:
        import yaml
    except ImportError:
        hint = ", or write the audit file as TOML."
        raise MissingExtraError(f"Reading {str(file)!r} requires PyYAML.", hint, extra="yaml") from None
    depth = 0
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            depth += (token.id in OPENS) - (token.id in CLOSES)
            problem = "too many levels" if depth > AUDIT_FILE_DEPTH else NOT_READ.get(token.id)
            if problem is not None:
                line = f"Line {token.start_mark.line + 1} of {str(file)!r}"
                raise DataError(f"{line} has {problem}; audit files have keys, lists and texts.", "write it out.")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return None if node is None else _plain(file, node)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" in line {mark.line + 1}"
        why = getattr(error, "problem", None) or first_line(error)
        raise DataError(f"{str(file)!r} is not valid YAML: {why}{line}.") from None


def _plain(file: Path, node: Node) -> object:
    """Return a YAML node as a text as written, None, a list or a dict."""
    if node.id == "sequence":
        return [_plain(file, entry) for entry in node.value]
    if node.id == "scalar":
        return None if node.tag.endswith(":null") else node.value
    keys: dict[str, object] = {}
    for key, value in node.value:
        if key.id != "scalar" or key.value in keys:
            problem = f"the key {key.value!r} twice" if key.id == "scalar" else "a key that is not a text"
            raise DataError(f"{str(file)!r} has {problem} (line {key.start_mark.line + 1}).", "rename or remove it.")
        keys[key.value] = _plain(file, value)
    return keys


def _check_keys(file: Path, within: str, keys: Mapping[str, object], names: Sequence[str]) -> None:
    """Raise for the first unknown key, with the nearest known one."""
    for key in keys:
        if key not in names:
            nearest = KEYS.get(key) or nearest_name(key, names)
            suggestion = "" if nearest is None else f"did you mean {within}{nearest}? "
            raise DataError(
                f"Unknown key `{within}{key}` in {str(file)!r}.", f"{suggestion}The keys are {', '.join(names)}."
            )


def _value(file: Path, key: str, option: click.Parameter, value: object) -> Value:
    if "=" in (option.metavar or ""):
        if not isinstance(value, dict):
            raise _mistake(file, key, "texts by name", value, f"for example {key}: {{name: text}}.")
        texts = {
            name: ",".join(map(str, entry)) if key == "blocks" and isinstance(entry, list) else entry
            for name, entry in value.items()
        }
        return {str(name): _text(file, f"{key}.{name}", entry) for name, entry in texts.items()}
    if option.multiple or option.nargs == -1:
        values = value if isinstance(value, list) else [value]
        return tuple(_text(file, key, entry) for entry in values)
    text = _text(file, key, value)
    try:
        return option.type.convert(text, option, None)
    except click.BadParameter:
        choices = getattr(option.type, "choices", None)
        rule = f"one of {', '.join(choices)}" if choices else EXPECTED.get(option.type.name, "a text")
        raise _mistake(file, key, rule, value) from None


def _text(file: Path, key: str, value: object) -> str:
    """Return a single value as text, as on the command line."""
    if isinstance(value, list | dict):
        raise _mistake(file, key, "one value", value)
    if value is None:
        raise DataError(f"`{key}` in {str(file)!r} has no value.", "leave the line out for the default.")
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mistake(file, key, "a text or a number", value, "put it in quotes, as the data have it.")
    return text_of(value)


def _mistake(file: Path, key: str, rule: str, value: object, hint: str = "") -> DataError:
    got = "keys with values" if isinstance(value, dict) else "a list" if isinstance(value, list) else quoted(value)
    return DataError(f"`{key}` in {str(file)!r} must be {rule}, got {got}.", hint)
