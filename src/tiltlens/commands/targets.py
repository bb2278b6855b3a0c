"""Where a command's answer goes: the screen, files, the exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from tiltlens.gates import Gate
    from tiltlens.progress import Listener
    from tiltlens.results.audit import Audit
    from tiltlens.results.change import Change

GATE_FIRED = 1


def screen() -> Console:
    """Return the terminal, of a width that can be read."""
    from rich.console import Console

    from tiltlens.views.terminal import WIDEST

    return Console(width=min(Console().width, WIDEST))


@contextmanager
def progress_shown(json_target: str | None) -> Iterator[Listener | None]:
    """Show how far the work is, unless nobody watches or standard output is for JSON."""
    from rich.console import Console

    from tiltlens.views.terminal import progress_bar

    errors = Console(stderr=True)
    if errors.is_terminal and json_target != "-":
        with progress_bar(errors) as progress:
            yield progress
    else:
        yield None


def check_targets(json_target: str | None, report: str | None = None, *others: str | None) -> None:
    """Raise where a file could not be written, before the work that would be lost."""
    from tiltlens.views.json_file import check_target
    from tiltlens.views.report.page import check_report

    for target in (json_target, *others):
        check_target(target)
    check_report(report)


def announce_report(target: str) -> None:
    """Say where the report is."""
    from tiltlens.views.terminal import printable

    click.echo(f"The report is in {printable(target)}.", err=True)


def write_report_of(summary: dict[str, Any], target: str) -> None:
    """Write the report of an audit, and say where it is."""
    from tiltlens.views.report.page import write_report

    write_report(summary, target)
    announce_report(target)


def judge(gates: list[Gate], fired: list[str], result: Audit | Change) -> None:
    """Say which gates fired, and for whom they could not be evaluated; exit where one did."""
    from tiltlens.views.terminal import printable

    unjudged = [sentence for one in gates if (sentence := one.unjudged(result)) is not None]
    for sentence in (*fired, *unjudged):
        click.echo(f"Gate: {printable(sentence)}.", err=True)
    if fired:
        sys.exit(GATE_FIRED)
