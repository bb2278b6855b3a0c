"""The options of all commands, by section of `--help`. Only click is imported, so that help waits for nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from textwrap import wrap
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import click
from click.core import ParameterSource

from tiltlens.errors import TiltlensError

Value: TypeAlias = Any  # a value as parsed by click
Options = dict[str, Value]
Section = Literal["Data", "Groups", "Outcome", "Features", "Inference", "Output", "Other"]
INVALID = "Exit codes: 0 success, 2 invalid arguments or data."
GATED = "Exit codes: 0 success, 1 gate failed, 2 invalid arguments or data."
EXAMPLE_WIDTH = 72  # letters of a line
GLUE = "\ue000"  # a letter of private use that stands for a space at which no line ends


class SectionOption(click.Option):
    """An option in one of the sections of `--help`; `example` is a value to show in messages."""

    def __init__(self, names: list[str], section: Section, example: str = "", **settings: Value) -> None:
        super().__init__(names, **settings)
        self.section, self.example = section, example


class SectionCommand(click.Command):
    """A command whose `--help` lists the options by section, and that refuses an option given twice."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments as click does, but where it would keep only the last value of an option, fail."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option in given:
            is_single = isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.is_eager)
            if is_single and given.count(option) > 1:
                ctx.fail(f"{' or '.join(option.opts)} was given {given.count(option)} times. Give it once.")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, as click does, under a heading for each section."""
        for section in get_args(Section):
            params = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
            options = [param for param in params if getattr(param, "section", "Other") == section]
            records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(section):
                    formatter.write_dl(records)


def command(name: str, *examples: str, exit_codes: str = INVALID) -> Callable[[Callable[..., None]], click.Command]:
    """Return the decorator of a command; its `--help` ends with the examples and exit codes."""
    lines = "\n".join(f"  {_in_lines(f'tiltlens {name} {example}')}" for example in examples)
    epilog = f"\b\nExamples:\n{lines}\n\n{exit_codes}"
    return click.command(name, cls=SectionCommand, params=parameters(name), epilog=epilog)


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

    def option(self, name: str) -> SectionOption:
        """Return the option of the keyword `name`."""
        flags = [f"--{name.replace('_', '-')}", *(["--favorable"] if name == "favourable" else [])]
        settings: Options = {key: value for key, value in self._asdict().items() if value is not None}
        if settings.pop("is_list") or self.example is not None:
            settings |= {"multiple": True, "callback": _names if self.example is None else _pairs}
        if self.default is not None:
            value = self.default if isinstance(self.default, str) else f"{self.default:,}".removesuffix(".0")
            settings["help"] = f"{self.help.removesuffix('.')} (default {value})."
        return SectionOption([*flags, name], **settings)


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
TO_COMPARE = {
    "scores": Spec("Outcome", "COLUMN", "Scores in DATA: first the old model's, then the new one's.", multiple=True),
    "outcome": Spec("Outcome", "COLUMN", "Observed outcome, 0 or 1; adds error rates."),
    "fail_if": WRITING["fail_if"]._replace(
        help='Exit with code 1 if the condition holds, e.g. "gap_change.low>0.01". Repeat for more.'
    ),
}
TO_FIT = {  # the keywords of `Audit.repair`
    "metric": Spec(
        "Outcome",
        None,
        "Quantity to equalise; all but mean_score need --outcome.",
        type=click.Choice(["mean_score", "fpr", "fnr", "equalized_odds"]),
        default="mean_score",
    ),
    "max_gap": Spec("Outcome", "SIZE", "Largest gap that may remain.", default=0.0),
    "threshold": Spec("Outcome", "SCORE", "Adjust decisions instead of scores: 1 from this score on.", type=float),
    "use_group": Spec(
        "Groups", None, "Adjust scores by the group of every new row, which may be regulated.", is_flag=True
    ),
}
TO_ADJUST = {
    "score_type": AUDIT["score_type"],
    "outcome": Spec("Outcome", "COLUMN", "Observed outcome, 0 or 1; adds error rates. For amounts, the observed cost."),
    "held_out": Spec(
        "Data", "FILE", "Rows to evaluate the adjustment on, not used in the fit. Repeat for more.", multiple=True
    ),
    "apply": Spec("Data", "FILE", "New rows with scores to adjust; needs --out. Repeat for more.", multiple=True),
    "out": Spec("Output", "FILE", "Write the new rows with their adjusted scores: .csv or .parquet."),
    "save": Spec("Output", "FILE.json", "Write the adjustment."),
    "json": Spec("Output", "FILE", "Write the evaluation as JSON; '-' is standard output."),
    "report": Spec("Output", "FILE", "Write the evaluation, as HTML or PDF (FILE.pdf)."),
}
TO_SEARCH = {
    "outcome": Spec("Outcome", "COLUMN", "Observed outcome, 0 or 1. Required."),
    "threshold": Spec(
        "Outcome",
        "SCORE",
        "Score from which the audited decision is 1. It also sets the cost of errors: at 0.2, a missed outcome costs "
        "four times a false alarm.",
        default=0.5,
    ),
    "tolerance": Spec("Inference", "LOSS", "Accuracy loss treated as negligible.", default=0.005),
}
FOR_RULE = {
    "rule": Spec("Inference", "RULE", "Rule: four-fifths or nyc-local-law-144.", required=True),
    "group": Spec(
        "Groups", "COLUMN", "Group column, e.g. sex. Repeat for intersections.", multiple=True, required=True
    ),
    "selected": Spec("Outcome", "COLUMN", "Decisions: 0 and 1, or two words."),
    "scores": Spec("Outcome", "COLUMN", "Scores on any scale; the rate is the share above their median."),
    "strata": Spec(
        "Groups", "COLUMN", "Column of strata, e.g. job; adds tests within strata. Repeat for more.", multiple=True
    ),
    "ratio_threshold": Spec(
        "Inference", "RATIO", "Impact ratio below which a group is flagged (default the rule's).", type=float
    ),
    "smallest_share": Spec(
        "Inference", "SHARE", "Share of the data below which a group has no ratio (default the rule's).", type=float
    ),
}
TO_DRAFT = {
    "group": Spec("Groups", "COLUMN", "Column of the sensitive attribute, if it cannot be guessed."),
    "scores": Spec("Outcome", "COLUMN", "Column of scores, decisions or amounts, if it cannot be guessed."),
    "out": Spec("Output", "FILE", "Audit file to write; an existing file is kept.", default="audit.yaml"),
    "yes": Spec("Other", None, "Do not ask; fail if the group or the scores cannot be guessed.", is_flag=True),
}
# Options of an audit that are irrelevant to the rows, scores and groups of an adjustment or alternative.
NOT_OF_ACTIONS = {
    *("group_probability", "known_groups", "metric", "score_type", "threshold", "exempt", "propensity", "periods"),
    *("input_weight", "output_weight", "materiality", "folds", "monitor", "wording", "provenance"),
}


def _without(specs: Mapping[str, Spec], *names: str) -> dict[str, Spec]:
    return {name: spec for name, spec in specs.items() if name not in names}


def _only(specs: Mapping[str, Spec], *names: str) -> dict[str, Spec]:
    return {name: specs[name] for name in names}


OPTIONS = {  # of each command
    "alternatives": _without(AUDIT, *NOT_OF_ACTIONS) | TO_SEARCH | _only(WRITING, "json", "report"),
    "audit": AUDIT | WRITING,
    "compare": _without(AUDIT, "model", "trusted", "periods", "monitor")
    | _only(WRITING, "json", "report", "junit")
    | TO_COMPARE,
    "demo": _only(WRITING, "json", "report"),
    "init": TO_DRAFT,
    "repair": _without(AUDIT, *NOT_OF_ACTIONS, "model") | TO_FIT | TO_ADJUST,
    "rule": FOR_RULE | READING | _only(AUDIT, "favourable", "confidence", "provenance") | _only(WRITING, "json"),
    "run": {"check": Spec("Other", None, "Check the files and stop; no data are read.", is_flag=True)},
}
# Arguments with their number of values, where -1 is any number; other commands have several DATA.
ARGUMENTS: dict[str, dict[str, int]] = {"demo": {}, "init": {"data": 1}, "run": {"files": -1}}


def parameters(name: str) -> list[click.Parameter]:
    """Return the arguments and options of a command."""
    arguments = ARGUMENTS.get(name, {"data": -1})
    return [
        *(click.Argument([key], nargs=number, required=True) for key, number in arguments.items()),
        *(spec.option(key) for key, spec in OPTIONS[name].items()),
    ]


def usual_options() -> Options:
    """Return the default values of all options of `tiltlens audit`."""
    return click.Command("audit", params=parameters("audit")).make_context("audit", ["--", "data"]).params
