"""The command line: which commands there are, and how a mistake ends one."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from typing import Any

import click

from tiltlens import __version__
from tiltlens.errors import TiltlensError

# Modules of commands/, loaded when they are asked for.
COMMANDS = [
    "alternatives",
    "audit",
    "compare",
    "demo",
    "init",
    "repair",
    "rule",
    "run",
]

USERS_MISTAKE = 2
CRASHED = 70  # as sysexits.h has it: 1 is for gates alone
INTERRUPTED = 130  # as the shell reports Ctrl-C
READER_GONE = 141  # as the shell reports a broken pipe


def one_line_errors(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with tiltlens's errors printed plainly, without a traceback."""

    @wraps(work)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            done = work(*args, **kwargs)
            sys.stdout.flush()
            return done
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except TiltlensError as error:
            click.echo(f"Error: {' '.join(str(error).splitlines())}", err=True)
            sys.exit(USERS_MISTAKE)
        except KeyboardInterrupt:
            click.echo("Error: interrupted; nothing was written.", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone; say no more
            sys.exit(READER_GONE)
        except SystemExit as ended:  # rich ends a broken pipe with the code of a gate
            sys.exit(READER_GONE if isinstance(ended.__context__, BrokenPipeError) else ended.code)
        except OSError as error:
            click.echo(f"Error: the output could not be written: {error.strerror}.", err=True)
            sys.exit(USERS_MISTAKE)
        except Exception:
            traceback.print_exc()
            click.echo("Error: tiltlens failed by a mistake of its own. Please report the lines above.", err=True)
            sys.exit(CRASHED)

    return wrapped


class Commands(click.Group):
    """Commands that report errors and interruptions in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """As of click."""
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """As of click."""
        if cmd_name not in COMMANDS:
            nearest = get_close_matches(cmd_name, COMMANDS, n=1)
            return ctx.fail(f"No such command {cmd_name!r}. Did you mean {nearest[0]!r}?") if nearest else None
        command: click.Command = import_module(f"tiltlens.commands.{cmd_name}").command
        return command

    @one_line_errors
    def main(self, *args: Any, **kwargs: Any) -> Any:
        """As of click."""
        return super().main(*args, **kwargs)

    @one_line_errors
    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As of click."""
        return super().make_context(*args, **kwargs)

    @one_line_errors
    def invoke(self, ctx: click.Context) -> Any:
        """As of click."""
        return super().invoke(ctx)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tiltlens")
def main() -> None:
    """Measure group disparities of a model, and the features that account for them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an old terminal shows "?" instead of failing
