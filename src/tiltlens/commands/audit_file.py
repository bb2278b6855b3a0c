"""audit.yaml or audit.toml → an audit that is asked for.

A key is an option of `tiltlens audit`, and its value what that option would say: texts stay as they are written, so
that a column named `no` or a group named `010` is one. YAML's own guesses are not taken.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tiltlens.commands.audit import command as audit_command
from tiltlens.commands.auditing import Asked
from tiltlens.errors import DataError, MissingExtraError, TiltlensError
from tiltlens.sources.messages import first_line, nearest_name, shown, text_of

AUDIT_FILE_BYTES = 1_000_000  # of a file of keys and values: a larger one is data by mistake
AUDIT_FILE_DEPTH = 10  # lists and keys within each other: audits need three, and parsers take long for thousands
OUTPUTS = {
    "json": "json_target",
    "report": "report",
    "junit": "junit",
    "tables": "tables",
}  # keys within `outputs`, and their options
KEYS = {"conditions": "gates"}  # parameters of the command whose key is another word
SUGGESTED = {"fail_if": "gates"}  # options of the command line whose key is another word
RULES = {"float": "a number", "integer": "a whole number", "text": "a text"}  # of click's types
OPENS = ("[", "{", "<block mapping start>", "<block sequence start>")  # tokens of YAML
CLOSES = ("]", "}", "<block end>")
NOT_READ = {"<anchor>": "an anchor", "<alias>": "an alias", "<tag>": "a tag"}
WRITE_OUT = "write out what it stands for."
NOT_A_TEXT = "put it in quotes, as the data have it."


def read_audit_file(path: str | Path) -> Asked:
    """Return what a file asks for, every key and value checked."""
    file = Path(path)
    found = _parsed(file)
    if "favorable" in found and "favourable" not in found:
        found["favourable"] = found.pop("favorable")
    options = {KEYS.get(str(one.name), str(one.name)): one for one in audit_command.params}
    outputs = {key: options.pop(name) for key, name in OUTPUTS.items()}
    given = found.pop("outputs", {})
    if not isinstance(given, dict):
        raise _mistake(file, "outputs", "names of files by key", given, "for example outputs: {json: audit.json}.")
    _check_keys(file, "", found, [*options, "outputs"])
    _check_keys(file, "outputs.", given, list(outputs))
    if "data" not in found:
        raise DataError(f"`data` must be in {str(file)!r}, got none.", "name the files to audit.")
    asked = {str(options[key].name): _value(file, key, options[key], value) for key, value in found.items()}
    asked |= {
        str(one.name): _beside(file, _text(file, f"outputs.{key}", given[key]))
        for key, one in outputs.items()
        if key in given
    }
    usual = audit_command.make_context("audit", ["--", "data"]).params
    try:
        return Asked.of(usual | asked, file)
    except TiltlensError as error:
        raise type(error)(f"in {str(file)!r}: {error}") from None


def _beside(file: Path, target: str) -> str:
    """Return a file to write, beside the audit file where its name is relative."""
    return target if target == "-" else str(file.parent / target)


def _parsed(file: Path) -> dict[str, Any]:
    """Return the keys and values of a file."""
    readers = {".toml": _toml, ".yaml": _yaml, ".yml": _yaml}
    if file.suffix.lower() not in readers:
        raise DataError(f"an audit file must end in .yaml, .yml or .toml, got {str(file)!r}.", "rename it.")
    try:
        with file.open("rb") as stream:
            content = stream.read(AUDIT_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"an audit file must be readable, got {str(file)!r}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise DataError(f"an audit file must be UTF-8, got {str(file)!r}.", "save it as UTF-8.") from None
    if len(content) > AUDIT_FILE_BYTES:
        raise DataError(
            f"an audit file must have at most {AUDIT_FILE_BYTES:,} bytes, got {str(file)!r}.",
            "it names files of data; it does not hold them.",
        )
    found = readers[file.suffix.lower()](file, text)
    if not isinstance(found, dict):
        raise DataError(f"an audit file must be keys with values, got {str(file)!r}.", "for example data: a.csv")
    return found


def _toml(file: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"an audit file must be TOML, got {str(file)!r}: {first_line(error)}.") from None


def _yaml(file: Path, text: str) -> Any:
    """Return YAML as texts, lists and dicts: nothing is constructed, and nothing guessed of a text."""
    try:
        import yaml
    except ImportError:
        raise MissingExtraError(
            f"reading {str(file)!r} must have the package PyYAML, got an installation without it.",
            ", or write the audit file as TOML.",
            extra="yaml",
        ) from None
    depth = 0
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            depth += (token.id in OPENS) - (token.id in CLOSES)
            found = "too many of them within each other" if depth > AUDIT_FILE_DEPTH else NOT_READ.get(token.id)
            if found is not None:
                place = f"line {token.start_mark.line + 1} of {str(file)!r}"
                raise DataError(f"an audit file must be keys, lists and texts, got {found} in {place}.", WRITE_OUT)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return None if node is None else _plain(file, node)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" in line {mark.line + 1}"
        why = getattr(error, "problem", None) or first_line(error)
        raise DataError(f"an audit file must be YAML, got {str(file)!r}: {why}{place}.") from None


def _plain(file: Path, node: Any) -> Any:
    """Return a node of YAML: a text as it is written, None for nothing, a list, a dict."""
    if node.id == "sequence":
        return [_plain(file, one) for one in node.value]
    if node.id == "scalar":
        return None if node.tag.endswith(":null") else node.value
    found: dict[str, Any] = {}
    for key, value in node.value:
        name, line = key.value, key.start_mark.line + 1
        if key.id != "scalar" or name in found:
            rule = "texts" if key.id != "scalar" else "distinct"
            got = "another" if key.id != "scalar" else f"{name!r} twice"
            raise DataError(f"keys of an audit file must be {rule}, got {got} in line {line} of {str(file)!r}.")
        found[name] = _plain(file, value)
    return found


def _check_keys(file: Path, within: str, found: Mapping[str, Any], known: list[str]) -> None:
    """Raise for the first key that means nothing, with the nearest that does."""
    for key in found:
        if key not in known:
            nearest = SUGGESTED.get(key) or nearest_name(key, known)
            suggestion = "" if nearest is None else f"did you mean {within}{nearest}? "
            raise DataError(
                f"`{within}{key}` must be a key of an audit file, got it in {str(file)!r}.",
                f"{suggestion}the keys are {', '.join(known)}.",
            )


def _value(file: Path, key: str, option: click.Parameter, value: Any) -> Any:
    """Return a value as the option has it."""
    if "=" in (option.metavar or ""):
        if not isinstance(value, dict):
            raise _mistake(file, key, "texts by name", value, f"for example {key}: {{name: text}}.")
        texts = {
            name: ",".join(map(str, one)) if key == "blocks" and isinstance(one, list) else one
            for name, one in value.items()
        }
        return {str(name): _text(file, f"{key}.{name}", one) for name, one in texts.items()}
    if option.multiple or option.nargs == -1:
        values = value if isinstance(value, list) else [value]
        return tuple(_text(file, key, one) for one in values)
    text = _text(file, key, value)
    try:
        return option.type.convert(text, option, None)
    except click.BadParameter:
        choices = getattr(option.type, "choices", None)
        rule = f"one of {', '.join(choices)}" if choices else RULES.get(option.type.name, "a text")
        raise _mistake(file, key, rule, value) from None


def _text(file: Path, key: str, value: Any) -> str:
    """Return a single value as the command line would have it."""
    if isinstance(value, list | dict):
        raise _mistake(file, key, "one value", value)
    if value is None:
        raise _mistake(file, key, "given a value", "nothing", "leave the line out for what is usual.")
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mistake(file, key, "a text or a number", value, NOT_A_TEXT)
    return text_of(value)


def _mistake(file: Path, key: str, rule: str, value: Any, hint: str = "") -> DataError:
    got = "keys with values" if isinstance(value, dict) else "a list" if isinstance(value, list) else shown(value)
    return DataError(f"`{key}` in {str(file)!r} must be {rule}, got {got}.", hint)
