"""The command line: arguments in, text and files out."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tiltlens import __version__
from tiltlens.errors import TiltlensError

if TYPE_CHECKING:
    from tiltlens.gates import Gate
    from tiltlens.results.audit import Audit
    from tiltlens.results.change import Change

GATE_FIRED = 1
USERS_MISTAKE = 2
INTERRUPTED = 130  # as the shell reports Ctrl-C
READER_GONE = 141  # as the shell reports a broken pipe

NA = click.option(
    "--na",
    "na_values",
    multiple=True,
    metavar="TEXT",
    help="Missing value in a CSV, beside ? - . NA N/A NaN NULL and empty fields. Repeat for more.",
)


def one_line_errors(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with tiltlens's errors printed plainly, without a traceback."""

    @wraps(work)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return work(*args, **kwargs)
        except TiltlensError as error:
            click.echo(f"Error: {' '.join(str(error).splitlines())}", err=True)
            sys.exit(USERS_MISTAKE)
        except KeyboardInterrupt:
            click.echo("Error: interrupted; nothing was written.", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone; say no more
            sys.exit(READER_GONE)
        except OSError as error:
            click.echo(f"Error: the output could not be written: {error.strerror}.", err=True)
            sys.exit(USERS_MISTAKE)

    return wrapped


class Commands(click.Group):
    """The commands, whose errors are one line, and whose interruption says so from the first moment on."""

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
    """Which way does a model lean, and through which features?"""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an old terminal shows "?" instead of failing


@main.command()
@click.option("--json", "json_target", metavar="FILE", help="Also write the numbers as JSON; '-' is standard output.")
@click.option("--report", "report", metavar="FILE.html", help="Also write the report, one page for people.")
def demo(json_target: str | None, report: str | None) -> None:
    """Run the paper's experiment on bundled COMPAS data.

    With --json - the JSON is all that is written to standard output.
    """
    from rich.console import Console

    from tiltlens.demo import paper_experiment
    from tiltlens.views.demo_text import print_demo
    from tiltlens.views.json_file import write_json
    from tiltlens.views.terminal import WIDEST

    _check_targets(json_target, report)
    summary = paper_experiment()
    if json_target is not None:
        write_json(summary, json_target)
    if report is not None:
        _report(summary["cross_fitted"], report)
    if json_target != "-":
        print_demo(summary, Console(width=min(Console().width, WIDEST)))


@main.command()
@click.argument("data", nargs=-1, required=True)
@click.option("--group", multiple=True, metavar="COLUMN", help="Who people are, e.g. sex; repeat to cross.")
@click.option(
    "--soft-group",
    multiple=True,
    metavar="NAME=COLUMN",
    help="Instead of --group: a group and the column of its probability. Repeat for each group.",
)
@click.option("--labels", metavar="COLUMN", help="Groups known for some rows: they check the probabilities.")
@click.option("--reference", metavar="VALUE", help="Group that others are compared with. Default: the largest.")
@click.option("--audited", multiple=True, metavar="VALUE", help="Group to audit; repeat for more. Default: all others.")
@click.option(
    "--scores",
    multiple=True,
    metavar="COLUMN",
    help="The model's probabilities from 0 to 1, or decisions: 0 and 1, or two words. Repeat for several classes.",
)
@click.option(
    "--outcome",
    metavar="COLUMN",
    help="What came of people, 0 and 1. With --scores: adds error rates. Without: trains a logistic model, not yours, "
    "to look at.",
)
@click.option(
    "--criterion",
    type=click.Choice(["fpr", "fnr"]),
    help="Audit the difference of false positive or false negative rates instead; needs --outcome and --scores.",
)
@click.option("--output", default="probability", metavar="KIND", help="amount: scores are money, days and such.")
@click.option(
    "--favourable",
    default="high",
    show_default=True,
    metavar="OUTCOME",
    help="What a person wants: high or low where outcomes are 0 and 1, or amounts, else its name, e.g. approved.",
)
@click.option("--threshold", type=float, help="Score from which on the decision is 1: for rates of decisions.")
@click.option(
    "--features",
    multiple=True,
    metavar="COLUMN",
    help="Inputs of the model; repeat, or use commas. Default: all others. '' is none: rates and gap alone.",
)
@click.option("--exclude", multiple=True, metavar="COLUMN", help="No input: labels, old scores, row numbers. Repeat.")
@click.option("--exempt", multiple=True, metavar="COLUMN", help="Input held to be a lawful reason. Repeat for more.")
@click.option("--membership", metavar="COLUMN", help="Probability of being in the audited group. Default: estimated.")
@click.option("--weights", metavar="COLUMN", help="How many people a row stands for.")
@click.option("--clusters", metavar="COLUMN", help="Rows that belong together, e.g. customer_id.")
@click.option("--periods", metavar="COLUMN", help="When rows are from, e.g. month: the gap along time.")
@click.option("--given", multiple=True, metavar="COLUMN=VALUE", help="Only rows with this value, e.g. repaid=1.")
@NA
@click.option("--input-weight", type=float, default=1.0, show_default=True, help="Of aligning inputs, the paper's λ2.")
@click.option(
    "--output-weight", type=float, default=1.0, show_default=True, help="Of aligning outputs, the paper's λ4."
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of every interval.")
@click.option("--materiality", type=float, help="Smallest difference that counts: 0.005; of amounts 0.02 sd.")
@click.option(
    "--folds", type=int, default=5, show_default=True, help="5; or 0: the paper's plug-in values, without intervals."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same numbers.")
@click.option(
    "--sample-rows", type=int, default=500_000, show_default=True, help="Rows, at most, that models are fitted on."
)
@click.option("--json", "json_target", metavar="FILE", help="Also write every number as JSON; '-' is standard output.")
@click.option("--report", "report", metavar="FILE.html", help="Also write the report, one page for people.")
@click.option(
    "--state", "stated", multiple=True, metavar="NAME=TEXT", help='For readers, e.g. "model=credit 3.1". Repeat.'
)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help='Exit with 1 where it holds, in quotes: "adverse_impact_ratio<0.8", "proxies>0", or "too_small>0" for groups '
    "too small to compare. Repeat for more.",
)
def audit(
    data: tuple[str, ...], json_target: str | None, report: str | None, conditions: tuple[str, ...], **options: Any
) -> None:
    """Audit a model's scores, decisions or amounts.

    DATA: .csv or .parquet files, a quoted pattern of them, or a folder. Rows need not fit in memory: rates and the gap
    come from all of them, models are fitted on a sample.

    Exit codes: 0 done, 1 a --fail-if condition holds, 2 a mistake in the arguments or the data.
    """
    from rich.console import Console

    from tiltlens.gates import gate
    from tiltlens.views.json_file import write_json
    from tiltlens.views.terminal import WIDEST, print_audit, printable, progress_bar

    gates = [gate(condition) for condition in conditions]
    _check_targets(json_target, report)
    errors = Console(stderr=True)
    is_watched = errors.is_terminal and json_target != "-"
    with progress_bar(errors) if is_watched else nullcontext() as progress:
        result = _audited(data, progress=progress, **options)
    fired = [sentence for one in gates for sentence in one.fired(result)]  # a mistake in a gate leaves nothing written
    if options["outcome"] is not None:
        beside = "what came of people, for error rates of the scores"
        alone = "a logistic model was trained on it and audited; name yours with --scores"
        click.echo(f"--outcome {printable(options['outcome'])}: {beside if options['scores'] else alone}.", err=True)
    summary = result.to_dict()
    if json_target is not None:
        write_json(summary, json_target)
    if report is not None:
        _report(summary, report)
    if json_target != "-":
        print_audit(summary, Console(width=min(Console().width, WIDEST)))
    _judge(gates, fired, result)


def _judge(gates: list[Gate], fired: list[str], result: Audit | Change) -> None:
    """Say which gates fired, and for whom they could not be evaluated; exit where one did."""
    from tiltlens.views.terminal import printable

    unjudged = [sentence for one in gates if (sentence := one.unjudged(result)) is not None]
    for sentence in (*fired, *unjudged):
        click.echo(f"Gate: {printable(sentence)}.", err=True)
    if fired:
        sys.exit(GATE_FIRED)


OWN = {"data", "scores", "outcome", "periods", "json_target", "report", "conditions"}  # or none of `compare`


@main.command(params=[one for one in audit.params if one.name not in OWN])
@click.argument("data", nargs=-1, required=True)
@click.option("--scores", multiple=True, metavar="COLUMN", help="Of DATA: the old model's scores, then the new one's.")
@click.option("--outcome", metavar="COLUMN", help="What came of people, 0 and 1: adds error rates.")
@click.option("--json", "json_target", metavar="FILE", help="Also write every number as JSON; '-' is standard output.")
@click.option("--report", "report", metavar="FILE.html", help="Also write the change as one page for people.")
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help='Exit with 1 where it holds, in quotes: "gap_change.low>0.01". Repeat for more.',
)
def compare(
    data: tuple[str, ...], json_target: str | None, report: str | None, conditions: tuple[str, ...], **options: Any
) -> None:
    """Compare two models on the same rows, or two saved audits.

    DATA with --scores OLD --scores NEW, --group and other options as of `tiltlens audit`: both models are audited on
    the same rows, and intervals are of each row's difference. Or two files that `tiltlens audit --json` wrote, the old
    one first, of different rows, such as two periods: intervals are of independent samples.

    Exit codes: 0 done, 1 a --fail-if condition holds, 2 a mistake in the arguments or the data.
    """
    from rich.console import Console

    from tiltlens.gates import OF_CHANGES, gate
    from tiltlens.views.change_text import print_change
    from tiltlens.views.json_file import write_json
    from tiltlens.views.report.change_page import write_change
    from tiltlens.views.terminal import WIDEST, printable

    gates = [gate(condition, OF_CHANGES) for condition in conditions]
    _check_targets(json_target, report)
    result = _changed(data, **options)
    fired = [sentence for one in gates for sentence in one.fired(result)]
    summary = result.to_dict()
    if json_target is not None:
        write_json(summary, json_target)
    if report is not None:
        write_change(summary, report)
        click.echo(f"The report is in {printable(report)}.", err=True)
    if json_target != "-":
        print_change(summary, Console(width=min(Console().width, WIDEST)))
    _judge(gates, fired, result)


def _changed(data: tuple[str, ...], scores: tuple[str, ...], **options: Any) -> Change:
    """Return the change between two models on the same rows, or between two saved audits."""
    from tiltlens.results.saved import saved_change
    from tiltlens.results.two_audits import compare as compare_audits

    if scores:
        if len(scores) != 2 or scores[0] == scores[1]:
            raise TiltlensError(
                f"`tiltlens compare` must have two different --scores, got {' and '.join(map(repr, scores))}.",
                "for example --group sex --scores old_score --scores new_score.",
            )
        others = options.pop("exclude")
        old, new = (
            _audited(data, scores=(one,), periods=None, exclude=(*others, other), progress=None, **options)
            for one, other in (scores, scores[::-1])
        )
        return compare_audits(old, new)
    if len(data) != 2:
        raise TiltlensError(
            f"`tiltlens compare` must have two saved audits, or data with two --scores, got {len(data)} files.",
            "for example old.json new.json.",
        )
    context = click.get_current_context()
    for one in context.command.params:  # of saved audits they would be ignored
        if one.name in options and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE:
            raise TiltlensError(
                f"`{one.opts[0]}` must come with data and --scores, got it beside two saved audits.",
                "these are compared as they are: leave it out, or audit again with it.",
            )
    return saved_change(*data)


@main.command()
@click.argument("data", nargs=-1, required=True)
@click.option("--rule", "name", required=True, metavar="RULE", help="four-fifths or nyc-local-law-144.")
@click.option(
    "--group", required=True, multiple=True, metavar="COLUMN", help="Who people are, e.g. sex; repeat to cross too."
)
@click.option("--selected", metavar="COLUMN", help="Decisions: 0 and 1, or two words.")
@click.option("--scores", metavar="COLUMN", help="Scores on any scale: the rate is the share above their median.")
@click.option(
    "--favourable",
    default="high",
    show_default=True,
    metavar="OUTCOME",
    help="What a person wants: high or low, or of two words the one, e.g. hired.",
)
@click.option("--strata", multiple=True, metavar="COLUMN", help="Compare within its values too, e.g. job. Repeat.")
@click.option("--threshold", type=float, help="Impact ratios below it are pointed out. Default: the rule's.")
@click.option("--smallest-share", type=float, help="Groups with less of the data have no ratio. Default: the rule's.")
@NA
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of every interval.")
@click.option("--json", "json_target", metavar="FILE", help="Also write every number as JSON; '-' is standard output.")
@click.option(
    "--state", "stated", multiple=True, metavar="NAME=TEXT", help='For readers, e.g. "data window=2024". Repeat.'
)
def rule(data: tuple[str, ...], name: str, json_target: str | None, stated: tuple[str, ...], **options: Any) -> None:
    """Make the tables that a published rule describes.

    DATA: .csv or .parquet files, a quoted pattern of them, or a folder. One of --selected and --scores is needed.

    Exit codes: 0 done, 2 a mistake in the arguments or the data. The tables decide nothing, so there is no other.
    """
    from rich.console import Console

    from tiltlens.rules.tables import rule_tables
    from tiltlens.views.json_file import write_json
    from tiltlens.views.terminal import WIDEST, print_rule_tables

    _check_targets(json_target)
    provenance = _pairs("--state", "NAME=TEXT", stated, '"data window=2024"')
    lists = {"group": list(options["group"]), "strata": list(options["strata"]) or None}
    arguments = options | lists | {"provenance": provenance}
    summary = rule_tables(list(data), name, **arguments).to_dict()
    if json_target is not None:
        write_json(summary, json_target)
    if json_target != "-":
        print_rule_tables(summary, Console(width=min(Console().width, WIDEST)))


def _check_targets(json_target: str | None, report: str | None = None) -> None:
    """Raise where a file could not be written, before the work that would be lost."""
    from tiltlens.views.json_file import check_target
    from tiltlens.views.report.page import check_report

    check_target(json_target)
    check_report(report)


def _report(summary: dict[str, Any], target: str) -> None:
    from tiltlens.views.report.page import write_report
    from tiltlens.views.terminal import printable

    write_report(summary, target)
    click.echo(f"The report is in {printable(target)}.", err=True)


def _audited(files: tuple[str, ...], **options: Any) -> Audit:
    from tiltlens.audit import audit as run
    from tiltlens.engines.messages import check_columns
    from tiltlens.engines.sources import collected
    from tiltlens.models.paper_fit import with_outcome_scores
    from tiltlens.models.roles import check_some, feature_names

    outcome, scores, stated = options.pop("outcome"), options.pop("scores"), options.pop("stated")
    _check_outcome(outcome, scores, options["criterion"])
    if outcome is not None and not scores and options["output"] == "amount":
        raise TiltlensError("`--output amount` must come with `--scores`, got `--outcome`.", "it is of amounts.")
    listed = options.pop("features")
    features = [name for part in listed for name in part.split(",") if name] if listed else None
    soft = _pairs("--soft-group", "NAME=COLUMN", options.pop("soft_group"), "Black=p_black")
    if bool(soft) == bool(options["group"]):
        raise TiltlensError(
            f"exactly one of `--group` and `--soft-group` must be given, got {'both' if soft else 'neither'}.",
            "--group is a column of groups; --soft-group NAME=COLUMN a group and the column of its probability.",
        )
    group_columns = list(soft.values()) or list(options["group"])
    arguments = {
        **options,
        "group": soft or group_columns,
        "audited": list(options["audited"]) or None,
        "given": _pairs("--given", "COLUMN=VALUE", options["given"], "repaid=1") or None,
        "provenance": _pairs("--state", "NAME=TEXT", stated, '"model=credit 3.1"'),
        "folds": options["folds"] or None,
        "features": features,
        "exclude": list(options["exclude"]) or None,
        "exempt": list(options["exempt"]) or None,
    }
    if scores:
        named = list(scores) if len(scores) > 1 else scores[0]
        return run(list(files), scores=named, outcome=outcome, **arguments)
    table = collected(list(files), na_values=arguments.pop("na_values"))
    check_columns("outcome", [outcome], table.columns)
    roles = [options[name] for name in ("weights", "membership", "clusters", "labels", "periods") if options[name]]
    used = [*group_columns, *(arguments["given"] or ()), outcome, *roles]
    arguments["features"] = feature_names(features, table.columns, used, arguments.pop("exclude"))
    check_some(arguments["features"], table.columns, "--outcome")
    wanted = arguments.pop("favourable")
    table, columns, favourable = with_outcome_scores(table, arguments["features"], outcome, wanted)
    return run(table, scores=columns, favourable=favourable, **arguments)


def _check_outcome(outcome: str | None, scores: tuple[str, ...], criterion: str | None) -> None:
    """Raise unless there is something to audit."""
    if not scores and outcome is None:
        raise TiltlensError(
            "`--scores` or `--outcome` must be given, got neither.",
            "scores are a column of the model's probabilities; an outcome alone trains a model to look at.",
        )
    if criterion is not None and (outcome is None or not scores):
        missing = "--scores" if outcome is not None else "--outcome"
        raise TiltlensError(
            f"`--criterion` must come with `{missing}`, got {criterion!r} without.",
            "an error rate is of a model's scores, or decisions, and what came of people.",
        )


def _pairs(option: str, form: str, conditions: tuple[str, ...], example: str) -> dict[str, str]:
    pairs = {}
    for condition in conditions:
        name, sign, value = condition.partition("=")
        if not sign or not name or name in pairs:
            rule = f"have the name {name!r} once" if name in pairs else f"be {form}"
            raise TiltlensError(f"`{option}` must {rule}, got {condition!r}.", f"for example {example}.")
        pairs[name] = value
    return pairs
