"""Audit files (audit.yaml or audit.toml), and drafts of such files with guessed roles of columns.

A key is an option of `tiltlens audit`, and its value is that of the option. Texts are kept as written, so `no` can be
the name of a column and `010` the name of a group: types guessed by YAML are ignored.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import click
import polars as pl

from tiltlens._commands.audit import OUTPUTS, AuditRequest, audit_command, usual_options
from tiltlens._commands.options import Value
from tiltlens._formats import text_of
from tiltlens._rows.features import IDENTIFIER
from tiltlens._sources.batches import clean_batch
from tiltlens._sources.files import FileBatches, files_of
from tiltlens._sources.text_columns import ReadOptions
from tiltlens.errors import DataError, MissingExtraError, TiltlensError, check_columns, first_line, nearest_name, shown

LOOKED_AT = 50_000  # first rows of the file, enough to distinguish categories from numbers
MOST_GROUPS = 20  # maximum number of values of a sensitive attribute
# Words in names of columns, the most reliable ones for a role first.
GROUP_WORDS = ("sex", "gender", "race", "ethnicity", "ethnic", "nationality", "religion", "disability", "veteran")
SCORE_WORDS = ("score", "probability", "prob", "pd", "prediction", "predicted", "risk")
DECISION_WORDS = ("decision", "approved", "accepted", "hired", "invited", "selected", "granted", "denied", "rejected")
AMOUNT_WORDS = ("premium", "price", "salary", "wage", "quote", "limit")
OUTCOME_WORDS = ("outcome", "repaid", "default", "defaulted", "label", "target", "recid", "rearrest", "claim")
WEIGHT_WORDS = ("weight", "weights", "exposure")
GOOD_WORDS = ("yes", "approved", "accepted", "hired", "invited", "selected", "granted", "true")
LOW_WORDS = ("risk", "pd", "default", "premium", "price", "quote", "denied", "rejected", "recid", "rearrest")


@dataclass(frozen=True)
class Guess:
    """The column that is guessed for a key of the audit file, and the reason."""

    key: str
    column: str
    reason: str


@dataclass(frozen=True)
class Draft:
    """The columns of the data with the roles guessed so far."""

    table: pl.DataFrame
    guesses: dict[str, Guess] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()

    @property
    def free(self) -> list[str]:
        """The columns without a role."""
        taken = {guess.column for guess in self.guesses.values()} | set(self.excluded)
        return [name for name in self.table.columns if name not in taken]

    def with_column(self, key: str, column: str) -> Draft:
        """Return the draft with a column named by the user."""
        return replace(self, guesses=self.guesses | {key: Guess(key, column, "as you said")})


def first_rows(data: str) -> pl.DataFrame:
    """Return the first rows of the files, with clean columns; raise if there are none."""
    files = files_of(data)
    if files is None:
        raise DataError(
            f"tiltlens init reads files, got {shown(data)}.", "for a database, write the audit file by hand."
        )
    batches = FileBatches(files, ReadOptions())
    rows: list[pl.DataFrame] = []
    with closing(batches.frames(batches.names())) as frames:
        for frame in frames:
            rows.append(clean_batch(frame))
            if sum(part.height for part in rows) >= LOOKED_AT:
                break
    table = pl.concat(rows).head(LOOKED_AT) if rows else pl.DataFrame()
    if not table.height:
        raise DataError(f"{data} has no rows.", "name a file with data.")
    return table


def guess_roles(table: pl.DataFrame, given: dict[str, str | None]) -> Draft:
    """Return the roles that names and values of columns suggest; roles that are given are not guessed."""
    named = {key: name for key, name in given.items() if name is not None}
    for key, name in named.items():
        check_columns(key, [name], table.columns)
    draft = Draft(table, {key: Guess(key, name, "as you said") for key, name in named.items()})
    for key, words, fits, reason in _RULES:
        if key not in draft.guesses and (column := _first_match(draft, words, fits)) is not None:
            draft = Draft(table, draft.guesses | {key: Guess(key, column, reason)}, draft.excluded)
    return _with_identifiers(draft)


def _first_match(draft: Draft, words: Sequence[str], fits: Callable[[pl.Series], bool]) -> str | None:
    """Return the first free column with one of the words, in their order, in its name, and with fitting values."""
    for word in words:
        for name in draft.free:
            if word in _words(name) and fits(draft.table[name]):
                return name
    return None


def _words(name: str) -> list[str]:
    """Return the words in a column's name: "approvedByBank" or "approved_by_bank" gives approved, by, bank."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("-", "_").replace(" ", "_").split("_")


def _is_category(column: pl.Series) -> bool:
    return 2 <= column.drop_nulls().n_unique() <= MOST_GROUPS


def _is_binary(column: pl.Series) -> bool:
    return column.drop_nulls().n_unique() == 2


def _is_probability(column: pl.Series) -> bool:
    values = column.drop_nulls()
    if not values.dtype.is_numeric() or not values.len():
        return False
    return bool(values.is_between(0, 1).all())


def _is_number(column: pl.Series) -> bool:
    return column.dtype.is_numeric() and column.drop_nulls().n_unique() > 2


_RULES: tuple[tuple[str, Sequence[str], Callable[[pl.Series], bool], str], ...] = (
    ("group", GROUP_WORDS, _is_category, "its name is that of a sensitive attribute and it has few values"),
    ("scores", SCORE_WORDS, _is_probability, "its name is that of a score and its values lie between 0 and 1"),
    ("scores", DECISION_WORDS, _is_binary, "its name is that of a decision and it has two values"),
    ("scores", AMOUNT_WORDS, _is_number, "its name is that of an amount of money"),
    ("outcome", OUTCOME_WORDS, _is_binary, "its name is that of an observed outcome and it has two values"),
    ("sample_weight", WEIGHT_WORDS, _is_number, "its name is that of a weight"),
)


def _with_identifiers(draft: Draft) -> Draft:
    """Return the draft without identifiers; the first identifier with repeated values becomes `clusters`."""
    identifiers = [name for name in draft.free if IDENTIFIER.search(name)]
    repeated = [name for name in identifiers if draft.table[name].n_unique() < draft.table.height]
    guesses = dict(draft.guesses)
    if repeated:
        reason = "its name is that of an identifier and its values repeat: rows of one person belong together"
        guesses["clusters"] = Guess("clusters", repeated[0], reason)
    return Draft(draft.table, guesses, tuple(name for name in identifiers if name not in repeated[:1]))


def audit_file_lines(data: str, target: Path, draft: Draft) -> Iterator[str]:
    """Yield the lines of the audit file; a comment before each guess explains it."""
    scores = draft.guesses["scores"].column
    yield f"# Written by `tiltlens init` from the first {draft.table.height:,} rows. Check every line."
    yield f"data: {_yaml(_relative(data, target))}"
    for key, guess in draft.guesses.items():
        yield f"\n# {guess.reason[0].upper()}{guess.reason[1:]}."
        yield f"{key}: {_yaml(guess.column)}"
        if key == "scores":
            yield from _favourable(draft.table[scores])
    if draft.excluded:
        yield "\n# Columns named like identifiers, which are not inputs of a model."
        yield f"exclude: [{', '.join(map(_yaml, draft.excluded))}]"
    yield "\n# Everything else. Remove columns that were not known when the score was made."
    yield f"features: [{', '.join(map(_yaml, draft.free))}]"
    yield '\n# gates: ["adverse_impact_ratio<0.8"]   # makes `tiltlens run` fail if the condition holds'
    yield "outputs: {report: audit.html, json: audit.json}"


def _favourable(scores: pl.Series) -> Iterator[str]:
    """Yield the lines on the favourable value and, if scores are not probabilities, on their type."""
    if not scores.dtype.is_numeric() and scores.dtype != pl.Boolean:
        words = sorted(map(str, scores.drop_nulls().unique()))
        wanted = next((word for word in words if {*GOOD_WORDS} & {*_words(word)}), words[0])
        yield f"# Which of the values {' and '.join(map(_yaml, words))} people want."
        yield f"favourable: {_yaml(wanted)}"
        return
    direction = "low" if {*LOW_WORDS} & {*_words(scores.name)} else "high"
    yield "# Whether low or high scores are better for people, guessed from the name of the column."
    yield f"favourable: {direction}"
    if not _is_probability(scores) and scores.dtype != pl.Boolean:
        yield "# The values are not probabilities; gaps are reported in their unit."
        yield "score_type: amount"


def _relative(data: str, target: Path) -> str:
    """Return the path of the data for the audit file: relative if both are in the same folder, else absolute."""
    return Path(data).name if Path(data).parent.resolve() == target.parent.resolve() else str(Path(data).resolve())


def _yaml(value: str) -> str:
    """Return a text quoted for YAML."""
    return json.dumps(value, ensure_ascii=False)


Node: TypeAlias = Any  # PyYAML need not be installed
AUDIT_FILE_BYTES = 1_000_000  # maximum size of an audit file; a larger one is probably data
AUDIT_FILE_DEPTH = 10  # nested lists and keys: audits need three, and parsers are slow for thousands
KEYS = {"fail_if": "gates"}  # options whose key has another name
EXPECTED = {"float": "a number", "integer": "a whole number"}  # by click's types
OPENS = ("[", "{", "<block mapping start>", "<block sequence start>")  # tokens of YAML
CLOSES = ("]", "}", "<block end>")
NOT_READ = {"<anchor>": "an anchor", "<alias>": "an alias", "<tag>": "a tag"}


def read_audit_file(path: str | Path) -> AuditRequest:
    """Return the audit that a file describes, after a check of all keys and values."""
    file = Path(path)
    keys = _parse(file)
    if "favorable" in keys and "favourable" not in keys:
        keys["favourable"] = keys.pop("favorable")
    params = {KEYS.get(str(param.name), str(param.name)): param for param in audit_command.params}
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
    """Return the keys and values of a file."""
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
    """Return a value in the type of the option."""
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
    got = "keys with values" if isinstance(value, dict) else "a list" if isinstance(value, list) else shown(value)
    return DataError(f"`{key}` in {str(file)!r} must be {rule}, got {got}.", hint)
