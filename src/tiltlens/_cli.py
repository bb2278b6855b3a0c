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
from tiltlens._commands.options import GATED, Value, command
from tiltlens.errors import TiltlensError

INVALID = 2
CRASHED = 70  # as in sysexits.h, because 1 is reserved for gates
INTERRUPTED = 130  # as the shell reports Ctrl-C
READER_GONE = 141  # as the shell reports a broken pipe
KEYWORD = re.compile(r"`(\w+)`|\b(\w+)=(?:True\b)?(?=(['\"\w])?)")  # Python arguments in messages
# An argument that is followed by its option: "`exclude` (--exclude)", "tl.read(path, decimal=',') (--decimal ',')"
WITH_OPTION = re.compile(r"(?:`\w+`|(?:tl\.read\(path, )?\b\w+=\S*?)(?: to tl\.read| of tl\.read)? \((--[^()]+)\)")


class Commands(click.Group):
    """Commands that report errors and interruptions in one line."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or fail with the name of the nearest one."""
        command = super().get_command(ctx, cmd_name)
        nearest = get_close_matches(cmd_name, self.commands, n=1)
        if command is None and nearest:
            ctx.fail(f"No such command {cmd_name!r}. Did you mean {nearest[0]!r}?")
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

    return KEYWORD.sub(flag, WITH_OPTION.sub(r"\1", f"{message} {sentences}".strip()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tiltlens")
def main() -> None:
    """Measure gaps between groups in scores, decisions and prices, and which features account for them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an old terminal shows "?" instead of failing


def _run(module: str, name: str, options: dict[str, Value]) -> None:
    """Run a command; its module is imported only now, so that help, completion and errors in options wait for none."""
    getattr(import_module(f"tiltlens._commands.{module}"), f"{name}_command")(**options)


@command(
    "audit",
    "loans.csv --group sex --scores score --report loans.html",
    'hiring.csv --group race --scores hired --fail-if "adverse_impact_ratio<0.8"',
    exit_codes=GATED,
)
def audit(**options: Value) -> None:
    """Audit a model's scores, decisions or amounts.

    DATA: files (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx; CSV may be compressed: .csv.gz), a quoted pattern, a
    folder, or the URL of a database with --query. Data may be larger than memory: rates and the gap use all rows,
    models are fitted on a sample.
    """
    _run("audit", "audit", options)


@command(
    "compare",
    "loans.csv --group sex --scores old_score --scores new_score",
    'march.json april.json --fail-if "gap_change.low>0.01"',
    exit_codes=GATED,
)
def compare(**options: Value) -> None:
    """Compare two models on the same rows, or two saved audits.

    DATA with --scores OLD --scores NEW, --group and other options of `tiltlens audit`: the command audits both models
    on the same rows, so intervals are paired. Or DATA are two files that `tiltlens audit --json` wrote from different
    rows, such as two periods, the old one first: intervals are those of independent samples.
    """
    _run("actions", "compare", options)


@command(
    "alternatives",
    "loans.csv --group sex --scores score --outcome repaid",
    "loans.csv --group sex --model credit.skops --outcome repaid --report lda.html",
)
def alternatives(**options: Value) -> None:
    """Search for less discriminatory alternatives.

    DATA, --group, --scores, --outcome and other options as in `tiltlens audit`; the outcome is required. The search
    fits rules of the same features on some rows and compares them with the audited decisions on other rows. With
    --model, it also neutralises or coarsens each feature in turn.
    """
    _run("actions", "alternatives", options)


@command(
    "repair",
    "loans.csv --group sex --scores score --held-out test.csv --save repair.json",
    "repair.json --scores score --apply new.csv --out adjusted.csv",
)
def repair(**options: Value) -> None:
    """Find the smallest change in scores that closes a gap.

    For amounts with observed costs, it finds the discrimination-free price.

    DATA: the audited rows, as for `tiltlens audit`; or a file that --save wrote. With --held-out (other rows with the
    same columns), it evaluates the adjustment both without and with the group. If there are several classes, it
    evaluates the one that --favourable names.
    """
    _run("actions", "repair", options)


@command(
    "rule",
    "hiring.csv --rule four-fifths --group sex --selected hired",
    "hiring.csv --rule nyc-local-law-144 --group sex --group race --scores score",
)
def rule(**options: Value) -> None:
    """Make the tables that a published rule describes.

    DATA: files (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx; CSV may be compressed: .csv.gz), a quoted pattern, a
    folder, or the URL of a database with --query. One of --selected and --scores is needed. The exit code does not
    depend on the numbers in the tables.
    """
    _run("actions", "rule", options)


@command("init", "people.csv", "loans.parquet --group race --scores pd --yes")
def init(**options: Value) -> None:
    """Write an audit file with guessed roles of columns.

    `tiltlens run` then runs it. From names and values in the first rows, the command guesses which column is the group,
    the score, the observed outcome, a weight and an identifier, but never a person's group. A comment explains each
    guess.
    """
    _run("draft", "init", options)


@command("run", "audit.yaml", "--check audits/*.yaml", exit_codes=GATED)
def run(**options: Value) -> None:
    """Run the audits that audit files describe.

    FILES: audit.yaml or audit.toml. Keys are the options of `tiltlens audit`, with _ for -: data, group, scores and so
    on, and gates, provenance, outputs. File names are relative to the audit file. The same file and data give the same
    output byte for byte, so it contains no date; SOURCE_DATE_EPOCH sets one.
    """
    _run("audit_file", "run", options)


@command("demo", "--report demo.html", "--json -")
def demo(**options: Value) -> None:
    """Run the paper's experiment on bundled COMPAS data."""
    _run("audit", "demo", options)


for _command in (audit, compare, alternatives, repair, rule, init, run, demo):
    main.add_command(_command)
