"""What commands print and write: screen, progress, files and the results of gates."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console

from tiltlens._gates import OPEN, Gate, Judgement, junit
from tiltlens._render.page import check_name, check_report
from tiltlens._render.table_files import check_tables, files_of_tables
from tiltlens._render.terminal import WIDEST, printable, progress_bar
from tiltlens._results.audit import Audit
from tiltlens._results.change import Change
from tiltlens._results.codec import check_target, write_json, write_text
from tiltlens._sources.files import inputs_of
from tiltlens._threads import Listener
from tiltlens.errors import TiltlensError, check_outputs

GATE_FAILED = 1
ANNOUNCED = ("report", "tables")
T = TypeVar("T")


def screen() -> Console:
    """Return the terminal, limited to a readable width."""
    return Console(width=min(Console().width, WIDEST))


@contextmanager
def progress_shown(json_target: str | None) -> Iterator[Listener | None]:
    """Show progress, unless standard error is not a terminal or standard output is for JSON."""
    errors = Console(stderr=True)
    if errors.is_terminal and json_target != "-":
        with progress_bar(errors) as progress:
            yield progress
    else:
        yield None


def check_targets(outputs: Mapping[str, str | None], *inputs: object) -> None:
    """Raise, before any work, if an output of these options cannot be written or would replace an input."""
    check_writable(outputs)
    check_report(outputs.get("report"))
    check_outputs(places_of(outputs), inputs_of(*inputs))


def check_writable(outputs: Mapping[str, str | None]) -> None:
    """Raise if a file cannot be written; installed packages are not checked."""
    for option, target in outputs.items():
        check_named(option, target)
    check_name(outputs.get("report"))
    for option, target in outputs.items():
        (check_tables if option == "tables" else check_target)(target)


def check_named(option: str, target: str | None) -> None:
    """Raise if an output has no name, or if standard output is named for one that only files can hold."""
    if target == "" or (target == "-" and option in ANNOUNCED):
        file, example = ("a file or folder", "tables.xlsx") if option == "tables" else ("a file", f"audit.{option}")
        example = "audit.html" if option == "report" else example
        raise TiltlensError(f"`{option}` must name {file}, got {target!r}.", f"for example {example}.")


def places_of(outputs: Mapping[str, str | None], file: Path | None = None) -> list[tuple[str, str | Path | None]]:
    """Return all files to write, each with its option or its key in the audit file, for messages."""
    label = "--{}".format if file is None else f"`outputs.{{}}` in {str(file)!r}".format
    tables = outputs.get("tables")
    others = [(label(option), target) for option, target in outputs.items() if option != "tables"]
    return [*others, *((label("tables"), path) for path in files_of_tables(tables))]


def check_gated(target: str | None, gates: Sequence[Gate]) -> None:
    """Raise if --junit is given without a gate."""
    if target is not None and not gates:
        raise TiltlensError("--junit needs a gate.", 'add --fail-if "gap.low>0.05".')


def announce(name: str, target: str) -> None:
    """Print where a result was written."""
    click.echo(f"Wrote the {name} to {printable(target)}.", err=True)


def deliver(
    outputs: Mapping[str, str | None],
    result: T,
    show: Callable[[T, Console], None],
    **writers: Callable[[T, str], object],
) -> None:
    """Write a result to the files named in `outputs`, with the writer of the same name, and print it.

    JSON has a default writer. If JSON goes to standard output, nothing else is printed there.
    """
    default = {"json": lambda own, target: write_json(own.to_dict(), target)}
    for option, write in (default | writers).items():
        target = outputs.get(option)
        if target is not None:
            write(result, target)
            if option in ANNOUNCED:
                announce(option, target)
    if outputs["json"] != "-":
        show(result, screen())


def write_junit(judgements: Sequence[Judgement], result: Audit | Change, target: str) -> None:
    """Write the judgements of gates as JUnit XML."""
    write_text(sys.stdout if target == "-" else target, junit(result, judgements))


def report_gates(gates: Sequence[Gate], judgements: Sequence[Judgement], result: Audit | Change) -> bool:
    """Print the gates that failed, are undecided or could not be evaluated, and return whether one failed."""
    failed = [str(part) for part in judgements if part.fails]
    undecided = [str(part) for part in judgements if part.status == OPEN]
    not_evaluated = [sentence for gate in gates if (sentence := gate.not_evaluated(result)) is not None]
    for status, sentences in ((" failed", failed), (" undecided", undecided), ("", not_evaluated)):
        for sentence in sentences:
            click.echo(f"Gate{status}: {printable(sentence)}.", err=True)
    return bool(failed)
