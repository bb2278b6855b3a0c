"""Where a command's results go: the screen, files, the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tiltlens.errors import TiltlensError

if TYPE_CHECKING:
    from rich.console import Console

    from tiltlens.gates import Gate, Judgement
    from tiltlens.progress import Listener
    from tiltlens.results.audit import Audit
    from tiltlens.results.change import Change

GATE_FAILED = 1
ANNOUNCED = ("report", "tables")
T = TypeVar("T")


def screen() -> Console:
    """Return the terminal, of a width that can be read."""
    from rich.console import Console

    from tiltlens.render.terminal import WIDEST

    return Console(width=min(Console().width, WIDEST))


@contextmanager
def progress_shown(json_target: str | None) -> Iterator[Listener | None]:
    """Show progress, unless standard error is not a terminal or standard output is for JSON."""
    from rich.console import Console

    from tiltlens.render.terminal import progress_bar

    errors = Console(stderr=True)
    if errors.is_terminal and json_target != "-":
        with progress_bar(errors) as progress:
            yield progress
    else:
        yield None


def check_targets(outputs: Mapping[str, str | None], *inputs: object) -> None:
    """Raise where an output, by its option, could not be written or would replace an input, before the work begins."""
    from tiltlens.inputs import check_outputs
    from tiltlens.render.page import check_report
    from tiltlens.sources.files import inputs_of

    check_writable(outputs)
    check_report(outputs.get("report"))
    check_outputs(places_of(outputs), inputs_of(*inputs))


def check_writable(outputs: Mapping[str, str | None]) -> None:
    """Raise where a file could not be written, whatever is installed."""
    from tiltlens.render.page import check_name
    from tiltlens.render.table_files import check_tables
    from tiltlens.results.codec import check_target

    check_name(outputs.get("report"))
    for option, target in outputs.items():
        (check_tables if option == "tables" else check_target)(target)


def places_of(outputs: Mapping[str, str | None], file: Path | None = None) -> list[tuple[str, str | Path | None]]:
    """Return every file to write, after its option, or key of an audit file, as a message names it."""
    from tiltlens.render.table_files import files_of_tables

    label = "--{}".format if file is None else f"`outputs.{{}}` in {str(file)!r}".format
    tables = outputs.get("tables")
    others = [(label(option), target) for option, target in outputs.items() if option != "tables"]
    return [*others, *((label("tables"), path) for path in files_of_tables(tables))]


def check_gated(junit: str | None, gates: Sequence[Gate]) -> None:
    """Raise where a file of gates is wanted without any gate."""
    if junit is not None and not gates:
        raise TiltlensError("--junit needs a gate.", 'add --fail-if "gap.low>0.05".')


def announce(name: str, target: str) -> None:
    """Say where something was written."""
    from tiltlens.render.terminal import printable

    click.echo(f"Wrote the {name} to {printable(target)}.", err=True)


def deliver(
    outputs: Mapping[str, str | None],
    result: T,
    show: Callable[[T, Console], None],
    **writers: Callable[[T, str], object],
) -> None:
    """Write a result by `writers`, where the option of the same name says so, then print it.

    The JSON of a result needs no writer. Where it goes to standard output, nothing else does.
    """
    for option, write in ({"json": _write_summary} | writers).items():
        target = outputs.get(option)
        if target is not None:
            write(result, target)
            if option in ANNOUNCED:
                announce(option, target)
    if outputs["json"] != "-":
        show(result, screen())


def _write_summary(result: Any, target: str) -> None:
    from tiltlens.results.codec import write_json

    write_json(result.to_dict(), target)


def write_junit(judgements: Sequence[Judgement], result: Audit | Change, target: str) -> None:
    """Write the judgements of gates as JUnit XML."""
    from tiltlens.commands.junit import junit
    from tiltlens.results.codec import write_text

    write_text(sys.stdout if target == "-" else target, junit(result, judgements))


def report_gates(gates: Sequence[Gate], judgements: Sequence[Judgement], result: Audit | Change) -> bool:
    """Say which gates failed, and which could not be decided or evaluated; return whether one failed."""
    from tiltlens.gates import OPEN
    from tiltlens.render.terminal import printable

    failed = [str(part) for part in judgements if part.fails]
    undecided = [str(part) for part in judgements if part.status == OPEN]
    not_evaluated = [sentence for gate in gates if (sentence := gate.not_evaluated(result)) is not None]
    for sentence in (*failed, *undecided, *not_evaluated):
        click.echo(f"Gate: {printable(sentence)}.", err=True)
    return bool(failed)
