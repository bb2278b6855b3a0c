"""Options that commands share, by section of `--help`; and delivery of results: screen, files and exit code."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import click
from click.core import ParameterSource

from tiltlens.errors import TiltlensError

if TYPE_CHECKING:
    from rich.console import Console

    from tiltlens._gates import Gate, Judgement
    from tiltlens._results.audit import Audit
    from tiltlens._results.change import Change
    from tiltlens._threads import Listener


Value: TypeAlias = Any  # a value as parsed by click
Options = dict[str, Value]
Work = Callable[..., Value]
Decorated = TypeVar("Decorated", bound=Work | click.Command)
Section = Literal["Data", "Groups", "Outcome", "Features", "Inference", "Output", "Other"]
INVALID = "Exit codes: 0 success, 2 invalid arguments or data."
GATED = "Exit codes: 0 success, 1 gate failed, 2 invalid arguments or data."
DATA = click.argument("data", nargs=-1, required=True)
EXAMPLE_WIDTH = 72  # letters of a line
GLUE = "\ue000"  # a letter of private use that stands for a space at which no line ends


class SectionOption(click.Option):
    """An option in one of the sections of `--help`; `example` is a value to show in messages."""

    def __init__(self, *names: Value, section: Section, example: str = "", **settings: Value) -> None:
        super().__init__(*names, **settings)
        self.section, self.example = section, example


class SectionCommand(click.Command):
    """A command whose `--help` lists the options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, as click does, under a heading for each section."""
        for section in get_args(Section):
            params = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
            options = [param for param in params if getattr(param, "section", "Other") == section]
            records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(section):
                    formatter.write_dl(records)


def command(name: str, *examples: str, exit_codes: str = INVALID) -> Callable[[Work], click.Command]:
    """Return the decorator of a command; its `--help` ends with the examples and exit codes."""
    lines = "\n".join(f"  {_in_lines(f'tiltlens {name} {example}')}" for example in examples)
    return click.command(name, cls=SectionCommand, epilog=f"\b\nExamples:\n{lines}\n\n{exit_codes}")


def _in_lines(example: str) -> str:
    """Return a command in lines that a narrow terminal shows whole; no option is parted from its value."""
    words = re.sub(r"(--\S+) (?!--)", rf"\1{GLUE}", example)
    return " \\\n      ".join(wrap(words, EXAMPLE_WIDTH, break_on_hyphens=False)).replace(GLUE, " ")


class Spec(NamedTuple):
    """An option: its section, the placeholder of its value, its help, and settings of `click.option`.

    `is_list` marks names that may be repeated or separated by commas. `example`, shown in messages, marks a NAME=VALUE
    option that may be repeated.
    """

    section: Section
    metavar: str | None
    help: str
    default: str | float | None = None
    type: type[float] | click.Choice[str] | None = None
    multiple: bool | None = None
    is_flag: bool | None = None
    required: bool | None = None
    is_list: bool = False
    example: str | None = None

    def option(self, name: str) -> Callable[[Decorated], Decorated]:
        """Return the decorator that adds this option to a command, as the keyword `name`."""
        flags = [f"--{name.replace('_', '-')}", *(["--favorable"] if name == "favourable" else [])]
        settings: Options = {key: value for key, value in self._asdict().items() if value is not None}
        if settings.pop("is_list") or self.example is not None:
            settings |= {"multiple": True, "callback": _names if self.example is None else _pairs}
        if self.default is not None:
            value = self.default if isinstance(self.default, str) else f"{self.default:,}".removesuffix(".0")
            settings["help"] = f"{self.help.removesuffix('.')} (default {value})."
        return click.option(*flags, name, cls=SectionOption, **settings)


def with_options(specs: Mapping[str, Spec]) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds the options of a table to a command, by keyword."""

    def decorate(work: Decorated) -> Decorated:
        # As with stacked decorators, the last option is added first, because click reverses the order.
        for name, spec in reversed(list(specs.items())):
            work = spec.option(name)(work)
        return work

    return decorate


def refuse_options(names: Collection[str], when: str, hint: str) -> None:
    """Raise if one of these options was given on the command line, where it would be ignored."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise TiltlensError(f"{option.opts[0]} cannot be used {when}.", hint)


def _names(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> list[str] | None:
    """Return the names in a list that may contain commas; None if the option was not given."""
    return [name.strip() for part in value for name in part.split(",") if name.strip()] if value else None


def _pairs(ctx: click.Context, option: SectionOption, value: tuple[str, ...]) -> dict[str, str]:
    """Return NAME=VALUE options as a dict."""
    pairs: dict[str, str] = {}
    for entry in value:
        name, sign, text = entry.partition("=")
        if not sign or not name or name in pairs:
            why = f"names {name!r} twice" if name in pairs else f"takes {option.metavar}, got {entry!r}"
            raise TiltlensError(f"{option.opts[0]} {why}.", f"for example {option.opts[0]} {option.example}.")
        pairs[name] = text
    return pairs


READING = {  # the keywords of `tl.read`
    "na_values": Spec(
        "Data",
        "TEXT",
        "Text for a missing value in a CSV, in addition to ? - . NA N/A NaN NULL. Repeat for more.",
        multiple=True,
    ),
    "encoding": Spec("Data", "NAME", "Encoding of a CSV, e.g. cp1252 (default UTF-8)."),
    "decimal": Spec("Data", "MARK", "Decimal mark of numbers.", default="."),
    "sheet": Spec("Data", "NAME", "Sheet of an Excel file that has several."),
    "query": Spec("Data", "SQL", "Query for the rows of a database, e.g. sqlite:///people.db."),
}
AUDIT = {  # the keywords of `tl.audit`, with those of `tl.read` and `tl.load_model`
    **READING,
    "where": Spec(
        "Data",
        "COLUMN=VALUE",
        "Condition that audited rows meet. Repeat for more (default all rows).",
        example="repaid=1",
    ),
    "sample_weight": Spec("Data", "COLUMN", "Column of sampling weights (default 1 for each row)."),
    "clusters": Spec("Data", "COLUMN", "Column that identifies rows that belong together, e.g. customer_id."),
    "periods": Spec("Data", "COLUMN", "Column of periods, e.g. month; adds the gap over time."),
    "group": Spec("Groups", "COLUMN", "Group column, e.g. sex. Repeat for intersections.", multiple=True),
    "group_probability": Spec(
        "Groups",
        "NAME=COLUMN",
        "Unobserved group and the column of its probability, instead of --group. Repeat for each group.",
        example="Black=p_black",
    ),
    "known_groups": Spec("Groups", "COLUMN", "Column of recorded groups, to check --group-probability."),
    "reference": Spec("Groups", "VALUE", "Group that others are compared with (default the largest)."),
    "audited": Spec("Groups", "VALUE", "Group to audit. Repeat for more (default all others).", multiple=True),
    "scores": Spec(
        "Outcome",
        "COLUMN",
        "Scores of the model: probabilities, amounts, or decisions (0 and 1, or two words). Repeat for classes.",
        multiple=True,
    ),
    "model": Spec(
        "Outcome",
        "FILE",
        "Model to apply to the features, instead of --scores: .skops, .onnx, XGBoost (.json, .ubj), LightGBM (.txt) or "
        "CatBoost (.cbm). Pickles are not read.",
    ),
    "trusted": Spec("Outcome", "TYPE", "Type that may be built from a .skops file. Repeat for more.", multiple=True),
    "outcome": Spec(
        "Outcome",
        "COLUMN",
        "Observed outcome, 0 or 1; adds error rates. For amounts, the observed cost. Without --scores or --model, "
        "a logistic model of the outcome is trained and audited.",
    ),
    "metric": Spec(
        "Outcome",
        None,
        "Audit the false positive, negative, discovery or omission rate instead of the scores; needs --outcome.",
        type=click.Choice(["fpr", "fnr", "fdr", "for"]),
    ),
    "score_type": Spec("Outcome", "TYPE", "Type of scores: probability or amount.", default="probability"),
    "favourable": Spec(
        "Outcome", "OUTCOME", "Outcome that people want: high, low, or a class, e.g. approved.", default="high"
    ),
    "threshold": Spec("Outcome", "SCORE", "Score from which the decision is 1 (default none).", type=float),
    "features": Spec(
        "Features",
        "COLUMN",
        "Inputs of the model; repeat, or separate by commas; '' means none (default those of the model, or all other "
        "columns).",
        is_list=True,
    ),
    "exclude": Spec(
        "Features",
        "COLUMN",
        "Columns that are not model inputs (labels, old scores, IDs); repeat, or separate by commas.",
        is_list=True,
    ),
    "exempt": Spec(
        "Features", "COLUMN", "Feature declared an exempt (legitimate) factor. Repeat for more.", multiple=True
    ),
    "categorical": Spec(
        "Features", "COLUMN", "Feature whose numbers are codes; repeat, or separate by commas.", is_list=True
    ),
    "blocks": Spec(
        "Features",
        "NAME=COLUMNS",
        "Columns that form one feature: names with commas, or a pattern such as region=region_*. Repeat for more.",
        example="region=region_*",
    ),
    "propensity": Spec("Features", "COLUMN", "Column of P(audited group | features) (default estimated)."),
    "confidence": Spec("Inference", "LEVEL", "Confidence level.", default=0.95),
    "materiality": Spec(
        "Inference", "SIZE", "Materiality threshold (default 0.005; for amounts 0.02 standard deviations).", type=float
    ),
    "folds": Spec(
        "Inference",
        "NUMBER",
        "Folds of the cross-fit: 5, or 0 for the paper's plug-in values without intervals.",
        default=5,
    ),
    "random_state": Spec("Inference", "SEED", "Random seed.", default=0),
    "sample_rows": Spec("Inference", "NUMBER", "Largest number of rows that models are fitted on.", default=500_000),
    "input_weight": Spec("Inference", "NUMBER", "Weight of aligning inputs, the paper's λ2.", default=1.0),
    "output_weight": Spec("Inference", "NUMBER", "Weight of aligning outputs, the paper's λ4.", default=1.0),
    "monitor": Spec(
        "Inference",
        "STATE.json",
        "State file of repeated audits: DATA are the rows since the last audit, and intervals are valid at all looks.",
    ),
    "wording": Spec(
        "Output",
        "KEY=TEXT",
        "Word for sentences: people=applicants, favourable=approved, or unit=€ for amounts. Repeat for more.",
        example="people=applicants",
    ),
    "provenance": Spec(
        "Output",
        "NAME=TEXT",
        'Fact about the data or the model for readers, e.g. "model=credit 3.1". Repeat for more.',
        example='"data=applications of 2024"',
    ),
}
WRITING = {
    "json": Spec("Output", "FILE", "Write every number as JSON; '-' is standard output."),
    "report": Spec("Output", "FILE", "Write the report, as HTML or PDF (FILE.pdf)."),
    "tables": Spec("Output", "PLACE", "Write tables: FILE.xlsx, .md or .tex; or a folder, which also gets CSV files."),
    "junit": Spec("Output", "FILE.xml", "Write the results of the gates as JUnit XML."),
    "fail_if": Spec(
        "Output",
        "GATE",
        'Exit with code 1 if the condition holds, e.g. "adverse_impact_ratio<0.8". Repeat for more.',
        multiple=True,
    ),
}
# Options of an audit that are irrelevant to the rows, scores and groups of an adjustment or alternative.
NOT_OF_ACTIONS = {
    *("group_probability", "known_groups", "metric", "score_type", "threshold", "exempt", "propensity", "periods"),
    *("input_weight", "output_weight", "materiality", "folds", "monitor", "wording", "provenance"),
}


def without(specs: Mapping[str, Spec], names: Collection[str]) -> dict[str, Spec]:
    """Return a table of options without some of them."""
    return {name: spec for name, spec in specs.items() if name not in names}


def only(specs: Mapping[str, Spec], *names: str) -> dict[str, Spec]:
    """Return a table with only these options."""
    return {name: specs[name] for name in names}


GATE_FAILED = 1
ANNOUNCED = ("report", "tables")
T = TypeVar("T")


def screen() -> Console:
    """Return the terminal, limited to a readable width."""
    from rich.console import Console

    from tiltlens._render.terminal import WIDEST

    return Console(width=min(Console().width, WIDEST))


@contextmanager
def progress_shown(json_target: str | None) -> Iterator[Listener | None]:
    """Show progress, unless standard error is not a terminal or standard output is for JSON."""
    from rich.console import Console

    from tiltlens._render.terminal import progress_bar

    errors = Console(stderr=True)
    if errors.is_terminal and json_target != "-":
        with progress_bar(errors) as progress:
            yield progress
    else:
        yield None


def check_targets(outputs: Mapping[str, str | None], *inputs: object) -> None:
    """Raise, before any work, if an output of these options cannot be written or would replace an input."""
    from tiltlens._render.page import check_report
    from tiltlens._sources.files import inputs_of
    from tiltlens.errors import check_outputs

    check_writable(outputs)
    check_report(outputs.get("report"))
    check_outputs(places_of(outputs), inputs_of(*inputs))


def check_writable(outputs: Mapping[str, str | None]) -> None:
    """Raise if a file cannot be written; installed packages are not checked."""
    from tiltlens._render.page import check_name
    from tiltlens._render.table_files import check_tables
    from tiltlens._results.codec import check_target

    check_name(outputs.get("report"))
    for option, target in outputs.items():
        (check_tables if option == "tables" else check_target)(target)


def places_of(outputs: Mapping[str, str | None], file: Path | None = None) -> list[tuple[str, str | Path | None]]:
    """Return all files to write, each with its option or its key in the audit file, for messages."""
    from tiltlens._render.table_files import files_of_tables

    label = "--{}".format if file is None else f"`outputs.{{}}` in {str(file)!r}".format
    tables = outputs.get("tables")
    others = [(label(option), target) for option, target in outputs.items() if option != "tables"]
    return [*others, *((label("tables"), path) for path in files_of_tables(tables))]


def check_gated(junit: str | None, gates: Sequence[Gate]) -> None:
    """Raise if --junit is given without a gate."""
    if junit is not None and not gates:
        raise TiltlensError("--junit needs a gate.", 'add --fail-if "gap.low>0.05".')


def announce(name: str, target: str) -> None:
    """Print where a result was written."""
    from tiltlens._render.terminal import printable

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
    for option, write in ({"json": _write_summary} | writers).items():
        target = outputs.get(option)
        if target is not None:
            write(result, target)
            if option in ANNOUNCED:
                announce(option, target)
    if outputs["json"] != "-":
        show(result, screen())


def _write_summary(result: Any, target: str) -> None:
    from tiltlens._results.codec import write_json

    write_json(result.to_dict(), target)


def write_junit(judgements: Sequence[Judgement], result: Audit | Change, target: str) -> None:
    """Write the judgements of gates as JUnit XML."""
    from tiltlens._gates import junit
    from tiltlens._results.codec import write_text

    write_text(sys.stdout if target == "-" else target, junit(result, judgements))


def report_gates(gates: Sequence[Gate], judgements: Sequence[Judgement], result: Audit | Change) -> bool:
    """Print the gates that failed, are undecided or could not be evaluated, and return whether one failed."""
    from tiltlens._gates import OPEN
    from tiltlens._render.terminal import printable

    failed = [str(part) for part in judgements if part.fails]
    undecided = [str(part) for part in judgements if part.status == OPEN]
    not_evaluated = [sentence for gate in gates if (sentence := gate.not_evaluated(result)) is not None]
    for status, sentences in ((" failed", failed), (" undecided", undecided), ("", not_evaluated)):
        for sentence in sentences:
            click.echo(f"Gate{status}: {printable(sentence)}.", err=True)
    return bool(failed)
