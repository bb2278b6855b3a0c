"""`tiltlens init`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tiltlens.commands.options import Spec, command, with_options

if TYPE_CHECKING:
    from tiltlens.commands.audit_draft import Draft


OPTIONS = {
    "group": Spec("Groups", "COLUMN", "Column of the sensitive attribute, if it cannot be guessed."),
    "scores": Spec("Outcome", "COLUMN", "Column of scores, decisions or amounts, if it cannot be guessed."),
    "out": Spec("Output", "FILE", "Audit file to write; an existing file is kept.", default="audit.yaml"),
    "yes": Spec("Other", None, "Do not ask; fail if the group or the scores cannot be guessed.", is_flag=True),
}


@command("init", "people.csv", "loans.parquet --group race --scores pd --yes")
@click.argument("data", nargs=1)
@with_options(OPTIONS)
def init_command(data: str, group: str | None, scores: str | None, out: str, yes: bool) -> None:
    """Write an audit file with guessed roles of columns.

    `tiltlens run` then runs it. From names and values in the first rows, the command guesses which column is the group,
    the score, the observed outcome, a weight and an identifier, but never a person's group. A comment explains each
    guess.
    """
    from tiltlens.commands.audit_draft import audit_file_lines, first_rows, guess_roles
    from tiltlens.errors import DataError
    from tiltlens.results.codec import write_text

    target = Path(out)
    if target.exists():
        raise DataError(f"{out} exists and is kept (--out).", "remove it, or name another file.")
    draft = guess_roles(first_rows(data), {"group": group, "scores": scores})
    for key, question in (("group", "Which column is the group?"), ("scores", "Which column is the score?")):
        if key not in draft.guesses:
            draft = _ask(draft, key, question, yes)
    write_text(target, "\n".join(audit_file_lines(data, target, draft)) + "\n")
    click.echo(f"Wrote {out}. Check the guesses in it, then run: tiltlens run {out}", err=True)


def _ask(draft: Draft, key: str, question: str, yes: bool) -> Draft:
    """Return the draft with a column that the user names; raise where nobody is asked."""
    from tiltlens.errors import DataError, listed

    if yes or not sys.stdin.isatty():
        raise DataError(f"The column of --{key} could not be guessed.", f"name it; columns: {listed(draft.free)}.")
    column = click.prompt(question, type=click.Choice(draft.free), err=True)
    return draft.with_column(key, column)
