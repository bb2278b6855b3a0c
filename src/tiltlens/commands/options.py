"""Options that commands share: one table, in the sections of `--help`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from tiltlens.errors import TiltlensError

Value: TypeAlias = Any  # what click makes of what a person typed
Options = dict[str, Value]
Work = Callable[..., Value]
Decorated = TypeVar("Decorated", bound=Work | click.Command)
SECTIONS = ("Data", "Groups", "Outcome", "Features", "Inference", "Output", "Other")
DATA_SECTION, GROUPS, OUTCOME, FEATURES, INFERENCE, OUTPUT, OTHER = SECTIONS
INVALID = "Exit codes: 0 success, 2 invalid arguments or data."
GATED = "Exit codes: 0 success, 1 gate failed, 2 invalid arguments or data."
DATA = click.argument("data", nargs=-1, required=True)


class SectionOption(click.Option):
    """An option in one of the sections of `--help`; `example` is a value for messages."""

    def __init__(self, *names: Value, section: str, example: str = "", **settings: Value) -> None:
        super().__init__(*names, **settings)
        self.section, self.example = section, example


class SectionCommand(click.Command):
    """A command whose `--help` lists the options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, as click does, under a heading for each section."""
        for section in SECTIONS:
            params = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
            options = [param for param in params if getattr(param, "section", OTHER) == section]
            records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(section):
                    formatter.write_dl(records)


def command(name: str, *examples: str, exit_codes: str = INVALID) -> Callable[[Work], click.Command]:
    """Return the decorator of a command, whose `--help` ends with examples and exit codes."""
    lines = "\n".join(f"  tiltlens {name} {example}" for example in examples)
    return click.command(name, cls=SectionCommand, epilog=f"\b\nExamples:\n{lines}\n\n{exit_codes}")


class Spec(NamedTuple):
    """An option: its section, what stands for its value, its help, and settings of `click.option`."""

    section: str
    metavar: str | None
    help: str
    settings: Mapping[str, Value] = {}


def with_options(specs: Mapping[str, Spec]) -> Callable[[Decorated], Decorated]:
    """Return a decorator that gives a command the options of a table, by the names of keywords."""

    def decorate(work: Decorated) -> Decorated:
        for name, spec in reversed(list(specs.items())):
            flags = [f"--{name.replace('_', '-')}", *(["--favorable"] if name == "favourable" else [])]
            default, text = spec.settings.get("default"), spec.help
            if default is not None:
                value = default if isinstance(default, str) else f"{default:,}".removesuffix(".0")
                text = f"{text.removesuffix('.')} (default {value})."
            settings = {"section": spec.section, "metavar": spec.metavar, "help": text, **spec.settings}
            work = click.option(*flags, name, cls=SectionOption, **settings)(work)
        return work

    return decorate


def refuse_options(names: Collection[str], when: str, hint: str) -> None:
    """Raise where one of some options was given on the command line: it would be ignored."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise TiltlensError(f"{option.opts[0]} cannot be used {when}.", hint)


def _names(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> list[str] | None:
    """Return the names of a list that may be written with commas; None where nothing was given."""
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


NUMBER: Options = {"type": float}
MANY: Options = {"multiple": True}
NAMES: Options = {"multiple": True, "callback": _names}
PAIRS: Options = {"multiple": True, "callback": _pairs}

READING = {  # the keywords of `tl.read`
    "na_values": Spec(
        DATA_SECTION,
        "TEXT",
        "Text for a missing value in a CSV, in addition to ? - . NA N/A NaN NULL. Repeat for more.",
        MANY,
    ),
    "encoding": Spec(DATA_SECTION, "NAME", "Encoding of a CSV, e.g. cp1252 (default UTF-8)."),
    "decimal": Spec(DATA_SECTION, "MARK", "Decimal mark of numbers.", {"default": "."}),
    "sheet": Spec(DATA_SECTION, "NAME", "Sheet of an Excel file that has several."),
    "query": Spec(DATA_SECTION, "SQL", "Query for the rows of a database, e.g. sqlite:///people.db."),
}
AUDIT = {  # the keywords of `tl.audit`, with those of `tl.read` and `tl.load_model`
    **READING,
    "where": Spec(
        DATA_SECTION,
        "COLUMN=VALUE",
        "Condition that audited rows meet. Repeat for more (default all rows).",
        PAIRS | {"example": "repaid=1"},
    ),
    "sample_weight": Spec(DATA_SECTION, "COLUMN", "Column of sampling weights (default 1 for each row)."),
    "clusters": Spec(DATA_SECTION, "COLUMN", "Column that identifies rows that belong together, e.g. customer_id."),
    "periods": Spec(DATA_SECTION, "COLUMN", "Column of periods, e.g. month; adds the gap over time."),
    "group": Spec(GROUPS, "COLUMN", "Group column, e.g. sex. Repeat for intersections.", MANY),
    "group_probability": Spec(
        GROUPS,
        "NAME=COLUMN",
        "Unobserved group and the column of its probability, instead of --group. Repeat for each group.",
        PAIRS | {"example": "Black=p_black"},
    ),
    "known_groups": Spec(GROUPS, "COLUMN", "Column of recorded groups, to check --group-probability."),
    "reference": Spec(GROUPS, "VALUE", "Group that others are compared with (default the largest)."),
    "audited": Spec(GROUPS, "VALUE", "Group to audit. Repeat for more (default all others).", MANY),
    "scores": Spec(
        OUTCOME,
        "COLUMN",
        "Scores of the model: probabilities, amounts, or decisions (0 and 1, or two words). Repeat for classes.",
        MANY,
    ),
    "model": Spec(
        OUTCOME,
        "FILE",
        "Model to apply to the features, instead of --scores: .skops, .onnx, XGBoost (.json, .ubj), LightGBM (.txt) or "
        "CatBoost (.cbm). Pickles are not read.",
    ),
    "trusted": Spec(OUTCOME, "TYPE", "Type that may be built from a .skops file. Repeat for more.", MANY),
    "outcome": Spec(
        OUTCOME,
        "COLUMN",
        "Observed outcome, 0 or 1; adds error rates. For amounts, the observed cost. Without --scores or --model, "
        "a logistic model of the outcome is trained and audited.",
    ),
    "metric": Spec(
        OUTCOME,
        None,
        "Audit the false positive, negative, discovery or omission rate instead of the scores; needs --outcome.",
        {"type": click.Choice(["fpr", "fnr", "fdr", "for"])},
    ),
    "score_type": Spec(OUTCOME, "TYPE", "Type of scores: probability or amount.", {"default": "probability"}),
    "favourable": Spec(
        OUTCOME, "OUTCOME", "Outcome that people want: high, low, or a class, e.g. approved.", {"default": "high"}
    ),
    "threshold": Spec(OUTCOME, "SCORE", "Score from which the decision is 1 (default none).", NUMBER),
    "features": Spec(
        FEATURES,
        "COLUMN",
        "Inputs of the model; repeat, or separate by commas. '' audits the gap alone (default those of --model, or all "
        "other columns).",
        NAMES,
    ),
    "exclude": Spec(
        FEATURES,
        "COLUMN",
        "Columns that are not model inputs (labels, old scores, IDs); repeat, or separate by commas.",
        MANY | {"callback": lambda *given: _names(*given) or ()},
    ),
    "exempt": Spec(FEATURES, "COLUMN", "Feature declared an exempt (legitimate) factor. Repeat for more.", MANY),
    "categorical": Spec(FEATURES, "COLUMN", "Feature whose numbers are codes; repeat, or separate by commas.", NAMES),
    "blocks": Spec(
        FEATURES,
        "NAME=COLUMNS",
        "Columns that form one feature: names with commas, or a pattern such as region=region_*. Repeat for more.",
        PAIRS | {"example": "region=region_*"},
    ),
    "propensity": Spec(FEATURES, "COLUMN", "Column of P(audited group | features) (default estimated)."),
    "confidence": Spec(INFERENCE, "LEVEL", "Confidence level.", NUMBER | {"default": 0.95}),
    "materiality": Spec(
        INFERENCE, "SIZE", "Materiality threshold (default 0.005; for amounts 0.02 standard deviations).", NUMBER
    ),
    "folds": Spec(
        INFERENCE,
        "NUMBER",
        "Folds of the cross-fit: 5, or 0 for the paper's plug-in values without intervals.",
        {"type": int, "default": 5},
    ),
    "random_state": Spec(INFERENCE, "SEED", "Random seed.", {"type": int, "default": 0}),
    "sample_rows": Spec(
        INFERENCE, "NUMBER", "Largest number of rows that models are fitted on.", {"type": int, "default": 500_000}
    ),
    "input_weight": Spec(INFERENCE, "NUMBER", "Weight of aligning inputs, the paper's λ2.", NUMBER | {"default": 1.0}),
    "output_weight": Spec(
        INFERENCE, "NUMBER", "Weight of aligning outputs, the paper's λ4.", NUMBER | {"default": 1.0}
    ),
    "monitor": Spec(
        INFERENCE,
        "STATE.json",
        "State file of repeated audits: DATA are the rows since the last audit, and intervals are valid at all looks.",
    ),
    "wording": Spec(
        OUTPUT,
        "KEY=TEXT",
        "Word for sentences: people=applicants, favourable=approved, or unit=€ for amounts. Repeat for more.",
        PAIRS | {"example": "people=applicants"},
    ),
    "provenance": Spec(
        OUTPUT,
        "NAME=TEXT",
        'Fact about the data or the model for readers, e.g. "model=credit 3.1". Repeat for more.',
        PAIRS | {"example": '"model=credit 3.1"'},
    ),
}
WRITING = {
    "json": Spec(OUTPUT, "FILE", "Write every number as JSON; '-' is standard output."),
    "report": Spec(OUTPUT, "FILE", "Write the report, as HTML or PDF (FILE.pdf)."),
    "tables": Spec(OUTPUT, "PLACE", "Write tables: FILE.xlsx, .md or .tex; or a folder, which also gets CSV files."),
    "junit": Spec(OUTPUT, "FILE.xml", "Write the results of the gates as JUnit XML."),
    "fail_if": Spec(
        OUTPUT,
        "GATE",
        'Exit with code 1 if the condition holds, e.g. "adverse_impact_ratio<0.8". Repeat for more.',
        MANY,
    ),
}
# Options of an audit that do not concern the rows, scores and groups that an adjustment or an alternative is made of.
NOT_OF_ACTIONS = {
    *("group_probability", "known_groups", "metric", "score_type", "threshold", "exempt", "propensity", "periods"),
    *("input_weight", "output_weight", "materiality", "folds", "monitor", "wording", "provenance"),
}


def without(specs: Mapping[str, Spec], names: Collection[str]) -> dict[str, Spec]:
    """Return a table without some options."""
    return {name: spec for name, spec in specs.items() if name not in names}


def only(specs: Mapping[str, Spec], *names: str) -> dict[str, Spec]:
    """Return some options of a table."""
    return {name: specs[name] for name in names}
