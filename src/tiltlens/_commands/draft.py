"""The command `tiltlens init`: a draft of an audit file, with roles guessed from names and values of columns."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import click
import polars as pl

from tiltlens._results.codec import write_text
from tiltlens._rows.features import IDENTIFIER
from tiltlens._sources.files import FileBatches, files_of
from tiltlens._sources.tables import clean_batch
from tiltlens._sources.text_columns import ReadOptions
from tiltlens.errors import DataError, check_columns, quoted, quoted_list

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


def init_command(data: str, group: str | None, scores: str | None, out: str, yes: bool) -> None:
    """Write an audit file with guessed roles of columns."""
    target = Path(out)
    if out in ("", "-"):
        raise DataError(f"--out must name a file, got {out!r}.", "for example audit.yaml.")
    if target.exists():
        raise DataError(f"{out} exists and is kept (--out).", "remove it, or name another file.")
    draft = guess_roles(first_rows(data), {"group": group, "scores": scores})
    for key, question in (("group", "Which column is the group?"), ("scores", "Which column is the score?")):
        if key not in draft.guesses:
            draft = _ask(draft, key, question, yes)
    write_text(target, "\n".join(audit_file_lines(data, target, draft)) + "\n")
    click.echo(f"Wrote {out}. Check the guesses in it, then run: tiltlens run {out}", err=True)


def _ask(draft: Draft, key: str, question: str, yes: bool) -> Draft:
    """Return the draft with a column that the user names; raise if no question can be asked."""
    if yes or not sys.stdin.isatty():
        raise DataError(f"The column of --{key} could not be guessed.", f"name it; columns: {quoted_list(draft.free)}.")
    return draft.with_column(key, click.prompt(question, type=click.Choice(draft.free), err=True))


class Guess(NamedTuple):
    """The column that is guessed for a key of the audit file, and the reason."""

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

    def with_column(self, key: str, column: str, reason: str = "as you said") -> Draft:
        """Return the draft with a column for a key."""
        return replace(self, guesses=self.guesses | {key: Guess(column, reason)})


def first_rows(data: str) -> pl.DataFrame:
    """Return the first rows of the files, with clean columns; raise if there are none."""
    files = files_of(data)
    if files is None:
        raise DataError(
            f"tiltlens init reads files, got {quoted(data)}.", "for a database, write the audit file by hand."
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
    draft = Draft(table)
    for key, name in given.items():
        if name is not None:
            check_columns(key, [name], table.columns)
            draft = draft.with_column(key, name)
    for key, words, fits, reason in _RULES:
        if key not in draft.guesses and (column := _first_match(draft, words, fits)) is not None:
            draft = draft.with_column(key, column, reason)
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
    return re.split("[-_ ]", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _is_category(column: pl.Series) -> bool:
    return 2 <= column.drop_nulls().n_unique() <= MOST_GROUPS


def _is_binary(column: pl.Series) -> bool:
    return column.drop_nulls().n_unique() == 2


def _is_probability(column: pl.Series) -> bool:
    values = column.drop_nulls()
    return values.dtype.is_numeric() and bool(values.len()) and bool(values.is_between(0, 1).all())


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
    if repeated:
        reason = "its name is that of an identifier and its values repeat: rows of one person belong together"
        draft = draft.with_column("clusters", repeated[0], reason)
    return replace(draft, excluded=tuple(name for name in identifiers if name not in repeated[:1]))


def audit_file_lines(data: str, target: Path, draft: Draft) -> Iterator[str]:
    """Yield the lines of the audit file; a comment before each guess explains it."""
    yield f"# Written by `tiltlens init` from the first {draft.table.height:,} rows. Check every line."
    yield f"data: {_yaml(_relative(data, target))}"
    for key, guess in draft.guesses.items():
        yield f"\n# {guess.reason[0].upper()}{guess.reason[1:]}."
        yield f"{key}: {_yaml(guess.column)}"
        if key == "scores":
            yield from _favourable(draft.table[guess.column])
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
    return json.dumps(value, ensure_ascii=False)
