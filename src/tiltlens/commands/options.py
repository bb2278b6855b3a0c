"""Options that commands share, and what their values mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tiltlens.errors import TiltlensError

Decorated = TypeVar("Decorated", bound=Callable[..., Any] | click.Command)

DATA = click.argument("data", nargs=-1, required=True)
READING: dict[str, Callable[[Any], Any]] = {  # the keywords of `tl.read`
    "na_values": click.option(
        "--na-values",
        multiple=True,
        metavar="TEXT",
        help="Text that marks a missing value in a CSV, besides ? - . NA N/A NaN NULL and empty fields. Repeat.",
    ),
    "encoding": click.option("--encoding", metavar="NAME", help="Encoding of a CSV, e.g. cp1252 (default: UTF-8)."),
    "decimal": click.option(
        "--decimal", metavar="MARK", default=".", show_default=True, help="Decimal mark of numbers, '.' or ','."
    ),
    "sheet": click.option("--sheet", metavar="NAME", help="Sheet of an Excel file that has several."),
    "query": click.option(
        "--query", metavar="SQL", help="Query that selects the rows of a database, e.g. sqlite:///people.db."
    ),
}
OUTCOME = click.option("--outcome", metavar="COLUMN", help="Observed outcome, 0 or 1; adds error rates.")
CONFIDENCE = click.option("--confidence", type=float, default=0.95, show_default=True, help="Confidence level.")
JSON = click.option(
    "--json", "json_target", metavar="FILE", help="Also write every number as JSON; '-' is standard output."
)
REPORT = click.option(
    "--report", "report", metavar="FILE.html", help="Also write the report, as HTML or PDF (FILE.pdf)."
)
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
        "--group", multiple=True, metavar="COLUMN", help="Column of groups, e.g. sex; repeat for intersections."
    ),
    "group_probability": option_of_pairs(
        "--group-probability",
        metavar="NAME=COLUMN",
        example="Black=p_black",
        text="Unobserved group and the column of its probability, instead of --group. Repeat for each group.",
    ),
    "known_groups": click.option(
        "--known-groups",
        metavar="COLUMN",
        help="Column of groups where they are known; checks the group probabilities.",
    ),
    "reference": click.option(
        "--reference", metavar="VALUE", help="Group that others are compared with (default: the largest)."
    ),
    "audited": click.option(
        "--audited", multiple=True, metavar="VALUE", help="Group to audit; repeat for more (default: all others)."
    ),
    "scores": click.option(
        "--scores",
        multiple=True,
        metavar="COLUMN",
        help="Scores of the model: probabilities, amounts, or decisions (0 and 1, or two words). Repeat for several "
        "classes.",
    ),
    "model": click.option(
        "--model",
        metavar="FILE",
        help="Model to apply to the features, instead of --scores: .skops, .onnx, or of XGBoost (.json, .ubj), "
        "LightGBM (.txt) or CatBoost (.cbm). Pickles are not read.",
    ),
    "trusted": click.option(
        "--trusted", multiple=True, metavar="TYPE", help="Type that may be built from a .skops file. Repeat for more."
    ),
    "outcome": click.option(
        "--outcome",
        metavar="COLUMN",
        help="Observed outcome, 0 or 1. Adds error rates; without --scores or --model, a logistic model of it is "
        "trained and audited.",
    ),
    "metric": click.option(
        "--metric",
        type=click.Choice(["fpr", "fnr"]),
        help="Error rate to audit: false positive or false negative rate. Needs --outcome (default: the scores).",
    ),
    "score_type": click.option(
        "--score-type",
        default="probability",
        show_default=True,
        metavar="TYPE",
        help="Type of scores: probability, or amount (money, days).",
    ),
    "favourable": click.option(
        *("--favourable", "--favorable", "favourable"),
        default="high",
        show_default=True,
        metavar="OUTCOME",
        help="Outcome that people want: high, low, or the name of a class, e.g. approved.",
    ),
    "threshold": click.option("--threshold", type=float, help="Score from which the decision is 1 (default: none)."),
    "features": click.option(
        "--features",
        multiple=True,
        metavar="COLUMN",
        callback=_names,
        help="Inputs of the model; repeat, or separate by commas. '' audits rates and gap alone (default: those that "
        "--model lists, or all other columns).",
    ),
    "exclude": click.option(
        "--exclude",
        multiple=True,
        metavar="COLUMN",
        callback=lambda *given: _names(*given) or (),
        help="Columns that are not inputs, e.g. labels or row numbers; repeat, or separate by commas.",
    ),
    "exempt": click.option(
        "--exempt", multiple=True, metavar="COLUMN", help="Feature declared an exempt factor. Repeat for more."
    ),
    "categorical": click.option(
        "--categorical",
        multiple=True,
        metavar="COLUMN",
        callback=_names,
        help="Feature whose numbers are codes; repeat, or separate by commas.",
    ),
    "blocks": option_of_pairs(
        "--blocks",
        metavar="NAME=COLUMNS",
        example="region=region_*",
        text="Columns that form one feature, by names with commas or a pattern, e.g. region=region_*. Repeat for more.",
    ),
    "propensity": click.option(
        "--propensity",
        metavar="COLUMN",
        help="Column of P(audited group | features) (default: estimated by a group-membership model).",
    ),
    "sample_weight": click.option(
        "--sample-weight", metavar="COLUMN", help="Column of row weights (default: every row counts as one person)."
    ),
    "clusters": click.option(
        "--clusters", metavar="COLUMN", help="Column of rows that belong together, e.g. customer_id."
    ),
    "periods": click.option(
        "--periods", metavar="COLUMN", help="Column of periods, e.g. month; adds the gap over time."
    ),
    "where": option_of_pairs(
        "--where",
        metavar="COLUMN=VALUE",
        example="repaid=1",
        text="Condition that audited rows meet, e.g. repaid=1. Repeat for more (default: all rows).",
    ),
    **READING,
    "input_weight": click.option(
        "--input-weight", type=float, default=1.0, show_default=True, help="Weight of aligning inputs, the paper's λ2."
    ),
    "output_weight": click.option(
        "--output-weight",
        type=float,
        default=1.0,
        show_default=True,
        help="Weight of aligning outputs, the paper's λ4.",
    ),
    "confidence": CONFIDENCE,
    "materiality": click.option(
        "--materiality",
        type=float,
        help="Materiality threshold (default: 0.005; for amounts 0.02 standard deviations).",
    ),
    "folds": click.option(
        "--folds",
        type=int,
        default=5,
        show_default=True,
        help="Folds of the cross-fit: 5, or 0 for the paper's plug-in values without intervals.",
    ),
    "random_state": click.option(
        "--random-state", type=int, default=0, show_default=True, help="Seed of everything random."
    ),
    "sample_rows": click.option(
        "--sample-rows", type=int, default=500_000, show_default=True, help="Most rows that models are fitted on."
    ),
    "wording": option_of_pairs(
        "--wording",
        metavar="KEY=TEXT",
        example="people=applicants",
        text="Word for the report: people=applicants, favourable=approved, or unit=€ for amounts. Repeat for more.",
    ),
    "provenance": option_of_pairs(
        "--provenance",
        metavar="NAME=TEXT",
        example='"model=credit 3.1"',
        text='Fact about the data or the model for readers, e.g. "model=credit 3.1". Repeat for more.',
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
    *("input_weight", "output_weight", "materiality", "folds", "wording", "provenance"),
}


def options_of_audits(*, but: Collection[str] = ()) -> Callable[[Decorated], Decorated]:
    """Return a decorator that gives a command the options of `tiltlens audit`, in its order, except some."""
    return with_options(option for name, option in OF_AUDITS.items() if name not in but)


def with_options(options: Iterable[Callable[[Any], Any]]) -> Callable[[Decorated], Decorated]:
    """Return a decorator that gives a command some options, in their order."""
    chosen = list(options)

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
