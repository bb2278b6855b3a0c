"""The command line: arguments in, text and files out."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from tiltmeter import __version__
from tiltmeter.errors import TiltmeterError

USERS_MISTAKE = 2
READER_GONE = 141  # as the shell reports a broken pipe


def one_line_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with tiltmeter's errors printed plainly, without a traceback."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except TiltmeterError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(USERS_MISTAKE)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone; say no more
            sys.exit(READER_GONE)
        except OSError as error:
            click.echo(f"Error: the output could not be written: {error.strerror}.", err=True)
            sys.exit(USERS_MISTAKE)

    return wrapped


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tiltmeter")
def main() -> None:
    """Which way does a model lean, and through which features?"""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an old terminal shows "?" instead of failing


@main.command()
@click.option("--json", "json_target", metavar="FILE", help="Also write the numbers as JSON; '-' is standard output.")
@one_line_errors
def demo(json_target: str | None) -> None:
    """Run the paper's experiment on bundled COMPAS data.

    With --json - the JSON is all that is written to standard output.
    """
    from rich.console import Console

    from tiltmeter.demo import paper_experiment
    from tiltmeter.views.json_file import write_json
    from tiltmeter.views.terminal import print_demo

    summary = paper_experiment()
    if json_target is not None:
        write_json(summary, json_target)
    if json_target != "-":
        print_demo(summary, Console(width=min(Console().width, 110)))
