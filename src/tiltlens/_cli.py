"""The command line: its commands, and the exit code and message for each way in which a command can end."""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click

from tiltlens import __version__
from tiltlens.errors import TiltlensError

# Modules of commands are imported on demand.
COMMANDS = ["alternatives", "audit", "compare", "demo", "init", "repair", "rule", "run"]
ACTIONS = ("alternatives", "compare", "repair", "rule")

INVALID = 2
CRASHED = 70  # as in sysexits.h, because 1 is reserved for gates
INTERRUPTED = 130  # as the shell reports Ctrl-C
READER_GONE = 141  # as the shell reports a broken pipe
KEYWORD = re.compile(r"`(\w+)`|\b(\w+)=(?:True\b)?(?=(['\"\w])?)")  # Python arguments in messages


class Commands(click.Group):
    """Commands that report errors and interruptions in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or fail with the name of the nearest one."""
        if cmd_name not in COMMANDS:
            nearest = get_close_matches(cmd_name, COMMANDS, n=1)
            return ctx.fail(f"No such command {cmd_name!r}. Did you mean {nearest[0]!r}?") if nearest else None
        module = import_module(f"tiltlens._commands.{'actions' if cmd_name in ACTIONS else 'audit'}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; messages of tiltlens errors name the options of the command line."""
        try:
            return super().invoke(ctx)
        except TiltlensError as error:
            _end(INVALID, _with_options(error, ctx))
        except BrokenPipeError:  # before click would end it with the exit code of a gate
            _leave()

    # click overloads `main` by `standalone_mode`, which a method that serves both cannot repeat.
    def main(self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run the command line as click does, and end with an exit code and a one-line message at most."""
        try:
            result = super().main(args, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except (KeyboardInterrupt, click.Abort):
            _end(INTERRUPTED, "interrupted; nothing was written.")
        except BrokenPipeError:
            _leave()
        except SystemExit as ended:  # rich ends a broken pipe with the exit code of a gate
            sys.exit(READER_GONE if isinstance(ended.__context__, BrokenPipeError) else ended.code)
        except OSError as error:
            _end(INVALID, f"the output could not be written: {error.strerror}.")
        except Exception:  # a defect of tiltlens itself: the traceback is shown, and the exit code is its own
            traceback.print_exc()
            _end(CRASHED, "this is a defect of tiltlens. Please report the lines above.")
        if standalone_mode:
            sys.exit(result if isinstance(result, int) else 0)
        return result


def _end(code: int, message: str) -> NoReturn:
    click.echo(f"Error: {message}", err=True)
    sys.exit(code)


def _leave() -> NoReturn:
    """Exit silently, because standard output is no longer read."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(READER_GONE)


def _with_options(error: TiltlensError, ctx: click.Context) -> str:
    """Return an error as one line, with the command's options instead of Python's keywords."""
    command = ctx.command.get_command(ctx, ctx.invoked_subcommand or "") if isinstance(ctx.command, Commands) else None
    flags = {param.name: param.opts[0] for param in (command.params if command else ()) if param.opts[0][0] == "-"}
    message, _, hint = " ".join(str(error).splitlines()).partition(" Hint: ")
    sentences = hint if hint.startswith("pip ") else re.sub(r"(^|\? )([a-z])", lambda match: match[0].upper(), hint)

    def flag(match: re.Match[str]) -> str:
        name = flags.get(match[1] or match[2])
        return match[0] if name is None else f"{name} " if match[3] else name

    return KEYWORD.sub(flag, f"{message} {sentences}".strip())


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tiltlens")
def main() -> None:
    """Measure gaps between groups in scores, decisions and prices, and which features account for them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an old terminal shows "?" instead of failing
