"""Options that commands share, and what their values mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tiltlens.errors import TiltlensError

Decorated = TypeVar("Decorated", bound=Callable[..., Any] | click.Command)

DATA = click.argument("data", nargs=-1, required=True)
NA = click.option(
    "--na-values",
    multiple=True,
    metavar="TEXT",
    help="Missing value in a CSV, beside ? - . NA N/A NaN NULL and empty fields. Repeat for more.",
)
ENCODING = click.option(
    "--encoding", metavar="NAME", help="Of a CSV, e.g. cp1252. Default: UTF-8, or what its bytes show; notes say so."
)
SHEET = click.option("--sheet", metavar="NAME", help="Of an Excel file with several sheets.")
QUERY = click.option("--query", metavar="SQL", help="Where DATA is a database, e.g. sqlite:///people.db: its rows.")
OUTCOME = click.option("--outcome", metavar="COLUMN", help="What came of people, 0 and 1: adds error rates.")
CONFIDENCE = click.option("--confidence", type=float, default=0.95, show_default=True, help="Of every interval.")
JSON = click.option(
    "--json", "json_target", metavar="FILE", help="Also write every number as JSON; '-' is standard output."
)
REPORT = click.option("--report", "report", metavar="FILE.html", help="Also write the report, one page for people.")
TABLES = click.option(
    "--tables",
    metavar="PLACE",
    help="Also write rates and proxy evidence as tables: FILE.xlsx, .md or .tex; or a folder, for CSV too.",
)
JUNIT = click.option("--junit", "junit", metavar="FILE.xml", help="Also write what the gates say, as JUnit XML.")


def pairs(option: str, form: str, conditions: Sequence[str], example: str) -> dict[str, str]:
    """Return what NAME=VALUE options say, by name."""
    found: dict[str, str] = {}
    for condition in conditions:
        name, sign, value = condition.partition("=")
        if not sign or not name or name in found:
            rule = f"have the name {name!r} once" if name in found else f"be {form}"
            raise TiltlensError(f"`{option}` must {rule}, got {condition!r}.", f"for example {example}.")
        found[name] = value
    return found


def option_of_pairs(name: str, *also: str, metavar: str, example: str, text: str) -> Callable[[Decorated], Decorated]:
    """Return an option that is repeated, each time NAME=VALUE; its value is a dict."""

    def as_dict(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
        return pairs(name, metavar, value, example)

    return click.option(name, *also, multiple=True, metavar=metavar, help=text, callback=as_dict)


def _names(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> list[str] | None:
    """Return the names of a list that may be written with commas; None where nothing was given."""
    return [name.strip() for part in value for name in part.split(",") if name.strip()] if value else None


OF_AUDITS: dict[str, Callable[[Any], Any]] = {
    "group": click.option(
        "--group", multiple=True, metavar="COLUMN", help="Who people are, e.g. sex; repeat to cross."
    ),
    "group_probability": option_of_pairs(
        "--group-probability",
        metavar="NAME=COLUMN",
        example="Black=p_black",
        text="Instead of --group: a group and the column of its probability. Repeat for each group.",
    ),
    "known_groups": click.option(
        "--known-groups", metavar="COLUMN", help="Groups known for some rows: they check the probabilities."
    ),
    "reference": click.option(
        "--reference", metavar="VALUE", help="Group that others are compared with. Default: the largest."
    ),
    "audited": click.option(
        "--audited", multiple=True, metavar="VALUE", help="Group to audit; repeat for more. Default: all others."
    ),
    "scores": click.option(
        "--scores",
        multiple=True,
        metavar="COLUMN",
        help="The model's probabilities from 0 to 1, or decisions: 0 and 1, or two words. Repeat for several classes.",
    ),
    "model": click.option(
        "--model",
        metavar="FILE",
        help="Instead of --scores: the model itself, applied to the features: .skops, .onnx, or of XGBoost (.json, "
        ".ubj), LightGBM (.txt) or CatBoost (.cbm). No pickle.",
    ),
    "trusted": click.option(
        "--trusted", multiple=True, metavar="TYPE", help="Type in a .skops file that may be built. Repeat."
    ),
    "outcome": click.option(
        "--outcome",
        metavar="COLUMN",
        help="What came of people, 0 and 1. With --scores or --model: adds error rates. Without: trains a logistic "
        "model, not yours, to look at.",
    ),
    "metric": click.option(
        "--metric",
        type=click.Choice(["fpr", "fnr"]),
        help="Audit the difference of false positive or false negative rates instead; needs --outcome and --scores.",
    ),
    "score_type": click.option(
        "--score-type", default="probability", metavar="KIND", help="amount: scores are money, days and such."
    ),
    "favourable": click.option(
        *("--favourable", "--favorable", "favourable"),
        default="high",
        show_default=True,
        metavar="OUTCOME",
        help="What a person wants: high or low where outcomes are 0 and 1, or amounts, else its name, e.g. approved.",
    ),
    "threshold": click.option(
        "--threshold", type=float, help="Score from which on the decision is 1: for rates of decisions."
    ),
    "features": click.option(
        "--features",
        multiple=True,
        metavar="COLUMN",
        callback=_names,
        help="Inputs of the model; repeat, or use commas. Default: those that --model lists, or all others. '' is "
        "none: rates and gap alone.",
    ),
    "exclude": click.option(
        "--exclude",
        multiple=True,
        metavar="COLUMN",
        callback=lambda *given: _names(*given) or (),
        help="No input: labels, old scores, row numbers. Repeat, or use commas.",
    ),
    "exempt": click.option(
        "--exempt", multiple=True, metavar="COLUMN", help="Input held to be a lawful reason. Repeat for more."
    ),
    "categorical": click.option(
        "--categorical",
        multiple=True,
        metavar="COLUMN",
        callback=_names,
        help="Feature whose numbers are codes. Repeat.",
    ),
    "blocks": option_of_pairs(
        "--blocks",
        metavar="NAME=COLUMNS",
        example="region=region_*",
        text="Columns that are one feature, as names with commas or a pattern, e.g. region=region_*. Repeat.",
    ),
    "propensity": click.option(
        "--propensity", metavar="COLUMN", help="Probability of being in the audited group. Default: estimated."
    ),
    "sample_weight": click.option("--sample-weight", metavar="COLUMN", help="How many people a row stands for."),
    "clusters": click.option("--clusters", metavar="COLUMN", help="Rows that belong together, e.g. customer_id."),
    "periods": click.option("--periods", metavar="COLUMN", help="When rows are from, e.g. month: the gap along time."),
    "where": option_of_pairs(
        "--where", metavar="COLUMN=VALUE", example="repaid=1", text="Only rows with this value, e.g. repaid=1."
    ),
    "na_values": NA,
    "encoding": ENCODING,
    "sheet": SHEET,
    "query": QUERY,
    "input_weight": click.option(
        "--input-weight", type=float, default=1.0, show_default=True, help="Of aligning inputs, the paper's λ2."
    ),
    "output_weight": click.option(
        "--output-weight", type=float, default=1.0, show_default=True, help="Of aligning outputs, the paper's λ4."
    ),
    "confidence": CONFIDENCE,
    "materiality": click.option(
        "--materiality", type=float, help="Smallest difference that counts: 0.005; of amounts 0.02 sd."
    ),
    "folds": click.option(
        "--folds",
        type=int,
        default=5,
        show_default=True,
        help="5; or 0: the paper's plug-in values, without intervals.",
    ),
    "random_state": click.option(
        "--random-state", type=int, default=0, show_default=True, help="The same seed gives the same numbers."
    ),
    "sample_rows": click.option(
        "--sample-rows", type=int, default=500_000, show_default=True, help="Rows, at most, that models are fitted on."
    ),
    "provenance": option_of_pairs(
        "--provenance",
        metavar="NAME=TEXT",
        example='"model=credit 3.1"',
        text='For readers, e.g. "model=credit 3.1". Repeat.',
    ),
}


# Options of an audit that say nothing of the rows, scores and groups that a repair or an alternative is made of.
OF_ACTIONS = {
    *("model", "trusted"),
    *(
        "group_probability",
        "known_groups",
        "outcome",
        "metric",
        "score_type",
        "threshold",
        "exempt",
        "propensity",
        "periods",
    ),
    *("input_weight", "output_weight", "materiality", "folds", "provenance"),
}


def options_of_audits(*, but: Collection[str] = ()) -> Callable[[Decorated], Decorated]:
    """Return a decorator that gives a command the options of `tiltlens audit`, in its order, except some."""
    chosen = [option for name, option in OF_AUDITS.items() if name not in but]

    def decorated(work: Decorated) -> Decorated:
        for option in reversed(chosen):
            work = option(work)
        return work

    return decorated


def refuse_options(names: Collection[str], place: str, found: str, hint: str) -> None:
    """Raise where one of some options was given on the command line: it would be ignored."""
    context = click.get_current_context()
    for one in context.command.params:
        if one.name in names and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE:
            raise TiltlensError(f"`{one.opts[0]}` must come {place}, got it {found}.", hint)


def fail_if(examples: str) -> Callable[..., Any]:
    """Return the option of conditions for pipelines, with examples of them."""
    return click.option(
        "--fail-if",
        "conditions",
        multiple=True,
        metavar="CONDITION",
        help=f"Exit with 1 where it holds, in quotes: {examples}. Repeat for more.",
    )
