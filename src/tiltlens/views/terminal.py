"""Summaries as text for a reader."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tiltlens.views import formats
from tiltlens.views.formats import interval_name, p_value, typed
from tiltlens.views.names import named
from tiltlens.views.ratios import four_fifths_words, is_of_decisions, ratio_name
from tiltlens.views.rule_lines import (
    does_not_decide,
    rows_read,
    rule_lines,
    status,
    test_lines,
    test_remarks,
    title,
    unknown_people,
)
from tiltlens.views.verdicts import EVIDENCE, verdict_of

PAPER_NAMES = {
    "rho_m": "maximal correlation of inputs and outcome",
    "a1": "overlap of f_l (inputs) and f_m (outputs)",
    "a2": "what f_l has beyond f_m",
    "b1": "pull of the output difference",
    "n_l": "weight of f_l in f~",
    "n_m": "weight of f_m in f~",
    "descent_rate": "Delta, how fast f~ lowers the objective",
}
WIDE = 100  # columns from which a number and its band stand on one line
WIDEST = 110  # columns of a page: longer lines are hard to read
NEGLIGIBLE = 0.1  # parts of the materiality that go without saying
MOST_NAMED = 8  # features that one sentence lists
DOES_NOT_SHOW = (
    "Proxy evidence is a reason to look, not a finding of wrongdoing: the numbers are associations under this one "
    "model and these data, they show no cause and are no verdict on a model or a person."
)


def number(value: float | None, digits: int = 4) -> str:
    """Return a number as a terminal writes it."""
    return typed(formats.number(value, digits))


def points(value: float | None) -> str:
    """Return points of the score as a terminal writes them."""
    return typed(formats.points(value))


def percent(value: float | None) -> str:
    """Return a share as a terminal writes it."""
    return typed(formats.percent(value))


def whole(value: float | None) -> str:
    """Return an estimated count as a terminal writes it."""
    return typed(formats.whole(value))


def print_audit(summary: dict[str, Any], console: Console) -> None:
    """Print an audit: who was compared, how far apart they are, what carries it, and how sure that is."""
    summary = named(printable(summary))
    console.print(_rows(summary))
    for audited, comparison in summary["comparisons"].items():
        console.print(_comparison(summary, audited, comparison))
    if summary["too_small"]:
        names = ", ".join(summary["too_small"])
        console.print(Text(f"\nFewer than 10 rows, too small to say anything: {names}.", "yellow"))
    console.print(Text(f"\n{DOES_NOT_SHOW}", "dim"))


def audit_text(summary: dict[str, Any]) -> str:
    """Return what `print_audit` prints as plain text, as wide as the terminal."""
    text = io.StringIO()
    width = min(get_terminal_size((WIDE, 24)).columns, WIDEST)
    print_audit(summary, Console(file=text, width=width, color_system=None, force_terminal=False, force_jupyter=False))
    return text.getvalue().rstrip()


def print_demo(summary: dict[str, Any], console: Console) -> None:
    """Print the paper's experiment: the question, the answers, how sure they are, and what they do not show."""
    for audited, c in summary["comparisons"].items():
        honest = summary["cross_fitted"]["comparisons"][audited]
        parts = [
            _asked(summary, audited, c),
            _heading("How far apart are the scores?"),
            _outputs(audited, c),
            _heading("Which way would the inputs have to move?"),
            _correction(audited, c),
            _heading("Who lies at the ends of that direction? (the paper's Table 1)"),
            _prototypes(audited, c),
            _heading("Which features carry it? (the paper's way: one fit, taken as known)"),
            _shares(c),
            _heading("How sure is that?"),
            _side_by_side(c, honest),
            _heading("Proxy evidence, cross-fitted, in points of the score"),
            _proxies(honest, summary["cross_fitted"]["settings"]),
            _heading("What this shows, and what it does not"),
            _bullets(_caveats(c)),
        ]
        console.print(Group(*parts))


def print_rule_tables(summary: dict[str, Any], console: Console) -> None:
    """Print the tables of a rule: what it compares, the tables, and what they do not decide."""
    summary = printable(summary)
    rule = summary["rule"]
    text = Text()
    text.append(f"{rule['title']}\n", "bold")
    text.append(f"{rule['citation']} ({rule['dated']})\n{status(rule)}\n", "dim")
    text.append(f"Compares {rule['compares']}.\n{rows_read(summary)}")
    console.print(text)
    for table in summary["tables"]:
        console.print(_heading(title(table)), _rule_table(summary, table), sep="\n")
        console.print(Text(unknown_people(table), "dim"), *_tests(summary, table), sep="\n")
    console.print(_heading("To know"))
    console.print(_bullets([*summary["notes"], does_not_decide(rule)]))


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[str, float], None]]:
    """Yield a function that moves a bar to a stage and a fraction; the bar is gone once all is done."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0)

        def move(stage: str, fraction: float) -> None:
            bar.update(task, description=printable(stage), completed=fraction)

        yield move


def printable(value: Any) -> Any:
    """Return a summary whose texts hold no control characters: names come from data, not from us."""
    if isinstance(value, dict):
        return {printable(key): printable(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [printable(entry) for entry in value]
    if isinstance(value, str):
        return "".join(letter if letter.isprintable() else "�" for letter in value)
    return value


def _rule_table(summary: dict[str, Any], table: dict[str, Any]) -> RenderableType:
    """Return one table with its notes below: beside it they would be too narrow to read."""
    head, rows = rule_lines(summary, table)
    width = len(table["columns"])
    found = _named_table(head[:-1], [row[:-1] for row in rows], width)
    return Group(found, _bullets(f"{' & '.join(row[:width])}: {row[-1]}." for row in rows if row[-1]))


def _tests(summary: dict[str, Any], table: dict[str, Any]) -> Iterator[RenderableType]:
    """Yield the tables of tests, and their notes."""
    for head, rows in test_lines(summary, table):
        yield ""
        yield _named_table(head, rows, len(table["columns"]))
    if remarks := test_remarks(table):
        yield _bullets(remarks)


def _named_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Table:
    """Return a table whose first columns, `width` of them, are names from data."""
    found = Table(show_edge=False, pad_edge=False, header_style="bold")
    for place, name in enumerate(head):
        is_name = place < width
        heading = name if is_name else "\n".join(name.rsplit(" ", 1))  # what is narrow leaves room for names
        found.add_column(Text(heading), justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    for row in rows:
        found.add_row(*(Text(typed(cell)) for cell in row))
    return found


def _rows(summary: dict[str, Any]) -> RenderableType:
    rows = summary["rows"]
    gone = {reason.replace("_", " "): count for reason, count in rows.items() if reason not in ("read", "used")}
    kept = [f"{count:,} {reason}" for reason, count in gone.items() if count]
    kept += [f"rows with {reason} (not counted)" for reason, count in gone.items() if count is None]
    text = Text()
    text.append(f"tiltlens audit of {summary['channel']} by {summary['group']}", "bold")
    text.append(
        f"\n{rows['read']:,} rows read, {rows['used']:,} used{'; left out: ' + ', '.join(kept) if kept else ''}."
    )
    text.append(f" Favourable outcome: {summary['favourable']}.")
    return text


def _comparison(summary: dict[str, Any], audited: str, c: dict[str, Any]) -> RenderableType:
    title = (
        f"\n{audited} ({c['rows']['audited']:,}, audited) against {c['reference']} "
        f"({c['rows']['reference']:,}, reference)"
    )
    settings = summary["settings"]
    parts: list[RenderableType] = [Text(title, "bold cyan"), _estimates(summary, c), _test(c)]
    if not is_of_decisions(summary):
        parts.append(Text("These are scores: an adverse impact ratio is of decisions, and needs a threshold.", "dim"))
    elif c["adverse_impact_ratio"] is not None:
        parts.append(Text(typed(four_fifths_words(c["adverse_impact_ratio"], settings["confidence"]))))
    if c["proxies"]:
        parts += [_heading("Proxy evidence, in points of the score"), _proxies(c, settings)]
    if c["notes"]:
        parts += [_heading("To know"), _bullets(typed(note) for note in c["notes"])]
    return Group(*parts)


def _estimates(summary: dict[str, Any], c: dict[str, Any]) -> Table:
    table = _table("quantity", ["value", interval_name(summary["settings"]["confidence"])], ["meaning"])
    for who in ("audited", "reference"):
        table.add_row(f"favourable rate, {who}", *_estimate(c["favourable_rates"][who], percent), "")
    rows: list[tuple[str, str, Callable[[float | None], str], str]] = [
        ("gap, in points", "gap", points, "difference of the mean scores"),
        ("through exempt factors", "through_exempt", points, f"points of it, through {', '.join(c['exempt'])}"),
        ("at equal exempt factors", "at_equal_exempt", points, "points of it, between people equal in them"),
        (ratio_name(summary), "impact_ratio", number, "favourable rates, audited ÷ reference"),
        ("adverse impact ratio", "adverse_impact_ratio", number, "lower rate ÷ higher rate"),
        ("shortfall", "shortfall", whole, "more people at the reference's rate"),
        ("standardised difference", "standardised_difference", number, "gap in standard deviations"),
        ("unexplained, in points", "unexplained", points, "between people alike in all features"),
        ("decisions needed", "decisions_needed", whole, "to tell the groups apart, errors 5 %"),
        ("output divergence", "output_divergence", number, "KL of the outcomes, nats"),
        ("input divergence", "input_divergence", number, "KL of the inputs, nats"),
        ("descent rate", "descent_rate", number, "Delta, pull towards the reference"),
    ]
    for name, key, shown, meaning in rows:
        if c[key] is not None:
            table.add_row(name, *_estimate(c[key], shown), Text(meaning))
    return table


def _estimate(found: dict[str, Any], shown: Callable[[float | None], str] = number) -> tuple[str, str]:
    return shown(found["value"]), formats.interval(found["low"], found["high"], shown)


def _test(c: dict[str, Any]) -> Text:
    if c["equal_outputs"] is None:
        return Text("Plug-in values, as in the paper: no intervals.", "dim")
    model = "" if c["correction"] is None else f" Membership model: {c['membership']}."
    return Text(f"Test of equal outputs: {p_value(c['equal_outputs']['p_value'])}.{model}", "dim")


@dataclass(frozen=True, slots=True)
class _ProxyTable:
    """The table of proxy evidence: number and band beside each other where there is room, else below each other."""

    rows: list[dict[str, Any]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_wide = options.max_width >= WIDE
        join = " " if is_wide else "\n"
        table = _table("feature", ["gap", "with others", "Shapley"], ["verdict"], folds=True)
        table.columns[-1].no_wrap = True  # names alone give way
        for row in self.rows:
            words = row["verdict"] if is_wide else "\n".join(row["verdict"].rsplit(" ", 1))
            verdict = Text(words, "bold" if verdict_of(row).kind == EVIDENCE else "")
            numbers = (_banded(row, name, join) for name in ("gap", "joint", "gap_shapley"))
            table.add_row(Text(str(row["feature"])), *(Text(one) for one in numbers), verdict)
        yield table


def _banded(row: dict[str, Any], name: str, join: str) -> str:
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return points(value) if low is None else f"{points(value)}{join}[{points(low)}, {points(high)}]"


def _proxies(c: dict[str, Any], settings: dict[str, Any]) -> RenderableType:
    whole = "what is left at equal exempt factors" if c["exempt"] else "the gap"
    note = "gap: what goes through the feature by itself. with others: what would be lost without it. "
    note = f"Of {whole}. {note}" if c["exempt"] else note
    if any(row["gap_shapley"] is not None for row in c["proxies"]):
        note += "Shapley: its part where all are taken together; the parts add up to " + whole
        left = c["shapley_remainder"] or 0.0
        is_told = abs(left) >= NEGLIGIBLE * settings["materiality"]
        note += f" less what is unexplained ({points(left)}). " if is_told else ". "
    parts: list[RenderableType] = [_ProxyTable(c["proxies"])]
    if any(row["gap_low"] is not None for row in c["proxies"]):
        level = f"{100 * settings['confidence']:g} %"
        parts.append(
            Text(
                f"The bands of the gap and with others hold for all features at once ({level}): verdicts are read from "
                "them."
            )
        )
    return Group(*parts, Text(note, "dim"), _bullets(_reasons(c)))


def _reasons(c: dict[str, Any]) -> Iterable[str]:
    """Yield each verdict with its reason, and what else is to be known of the feature; equal sentences once."""
    said: dict[str, list[str]] = {}
    for row in c["proxies"]:
        said.setdefault(_reason(row), []).append(str(row["feature"]))
    for sentence, names in said.items():
        more = len(names) - MOST_NAMED
        yield f"{', '.join(names[:MOST_NAMED])}{f' and {more} more' if more > 0 else ''} – {sentence}"


def _reason(row: dict[str, Any]) -> str:
    sentences = [f"{row['verdict']}: {row['reason']}."]
    if verdict_of(row).kind == EVIDENCE:
        sentences.append(f"{row['direction']}.")
        sentences += [f"{row['redundant_with']} carries the same."] if row["redundant_with"] else []
    sentences += [f"({row['notes']})"] if row["notes"] else []
    return " ".join(sentences)


def _asked(summary: dict[str, Any], audited: str, c: dict[str, Any]) -> RenderableType:
    text = Text()
    text.append("tiltlens demo: the experiment of “On the Direction of Discrimination” on real data\n\n", "bold")
    text.append(
        f"A logistic model predicts re-arrest ({summary['outcome']}) from five features. It never sees race. Which way "
        f"does it lean between {audited} ({c['rows']['audited']:,} people, audited) and {c['reference']} "
        f"({c['rows']['reference']:,} people, reference) defendants, and through which features?\n"
    )
    text.append(f"Data: {summary['dataset']}, {summary['rows']['used']:,} records.", "dim")
    return text


def _outputs(audited: str, c: dict[str, Any]) -> RenderableType:
    table = _table("", ["value"], ["meaning"])
    rows = [
        (f"mean score, {audited}", f"{c['output']['audited']:.3f}", "predicted probability of re-arrest"),
        (f"mean score, {c['reference']}", f"{c['output']['reference']:.3f}", "the same, reference group"),
        ("gap", points(c["gap"]["value"]), "difference of the two means, in points of the score"),
        ("output divergence", f"{c['output_divergence']['value']:.5f}", "KL of the outcomes, in nats"),
        ("decisions needed", f"{c['decisions_needed']['value']:,.0f}", "to tell the groups apart, errors 5 %"),
        ("least change", f"{c['least_change']['cost']:.4f}", "of inputs that removes the gap, nats"),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _correction(audited: str, c: dict[str, Any]) -> RenderableType:
    f, ends = c["correction"], [c["prototypes"][end]["correction"] for end in ("min", "max")]
    text = Text()
    text.append(
        f"f~(x) = {f['intercept']:.4f} {f['on_log_odds']:+.4f} × log-odds of being {audited} "
        f"{f['on_score']:+.4f} × score\n",
        "bold",
    )
    text.append(
        f"f~ has mean 0 and variance 1 among {audited} defendants. Profiles with f~ > 0 are under-represented among "
        f"them, those with f~ < 0 over-represented. It runs from {ends[0]:.3f} to {ends[1]:.3f}; the "
        f"largest valid step along it is {c['epsilon_max']:.3f}, and a small step lowers the objective by "
        f"{-f['descent_rate']:.4f} times its length.\n"
    )
    table = _table("name", ["value"], ["meaning"])
    for name, meaning in PAPER_NAMES.items():
        table.add_row(name, f"{f[name]:.5f}", meaning)
    return Group(text, table)


def _prototypes(audited: str, c: dict[str, Any]) -> RenderableType:
    p = c["prototypes"]
    table = _table("feature", [], ["f~ largest", "f~ smallest", "f~ nearest 0"], folds=True)
    for feature in p["max"]["values"]:
        table.add_row(feature, *(str(p[key]["values"][feature]) for key in ("max", "min", "near_zero")))
    table.add_section()
    table.add_row("value of f~", *(f"{p[key]['correction']:+.3f}" for key in ("max", "min", "near_zero")))
    table.add_row(f"{audited} people", *(f"{p[key]['count']:,}" for key in ("max", "min", "near_zero")))
    return table


def _shares(c: dict[str, Any]) -> RenderableType:
    table = _table("feature", ["share", "inputs only", "outputs only"], folds=True)
    for row in c["proxies"]:
        ends = (row["share"], row["share_inputs"], row["share_outputs"])
        table.add_row(row["feature"], *(percent(value) for value in ends))
    note = Text(
        "Share: the part of the correction that moving this feature's distribution alone could achieve. Features "
        "overlap, so shares do not add up to 100 %. “Inputs only” aligns who the people are, “outputs only” aligns the "
        "scores; the first column weighs both alike.",
        "dim",
    )
    return Group(table, note)


def _side_by_side(c: dict[str, Any], honest: dict[str, Any]) -> RenderableType:
    table = _table("quantity", ["paper", "cross-fitted", "95 % interval"])
    rows: list[tuple[str, str, Callable[[float | None], str]]] = [
        ("gap, in points", "gap", points),
        ("output divergence", "output_divergence", number),
        ("input divergence", "input_divergence", number),
        ("descent rate", "descent_rate", number),
        ("decisions needed", "decisions_needed", whole),
    ]
    for name, key, shown in rows:
        table.add_row(name, shown(c[key]["value"]), *_estimate(honest[key], shown))
    theirs = {row["feature"]: row for row in c["proxies"]}
    for row in honest["proxies"]:
        ends = formats.interval(row["share_low"], row["share_high"], percent)
        table.add_row(
            f"share of {row['feature']}", percent(theirs[row["feature"]]["share"]), percent(row["share"]), ends
        )
    note = Text(
        "The paper fits one membership model on all rows and takes it as known: what it learns from noise counts as "
        "difference. Cross-fitted numbers use models that have not seen the rows they are used on, remove the "
        "first-order error that is left, and choose the kind of model by held-out data "
        f"(here: {honest['membership']}). Where the two differ, the cross-fitted one is the one to believe.",
        "dim",
    )
    return Group(table, note)


def _caveats(c: dict[str, Any]) -> list[str]:
    first, last = c["proxies"][0], c["proxies"][-1]
    smallest = min(cell["count"] for cell in c["prototypes"].values())
    return [
        f"{first['feature']} is the strongest proxy evidence: both groups' records and the scores follow it, whichever "
        "way inputs and outputs are weighed.",
        f"{last['feature']} looks negligible at equal weights ({percent(last['share'])}), but carries "
        f"{percent(last['share_outputs'])} when only the scores are to be aligned: one setting alone misleads.",
        f"A corner of the table can rest on very few people (here as few as {smallest}); read it as an illustration.",
        DOES_NOT_SHOW,
    ]


def _bullets(lines: Iterable[str]) -> Table:
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row("•", Text(line))
    return table


def _heading(title: str) -> Text:
    return Text(f"\n{title}", "bold cyan")


def _table(first: str, numbers: Sequence[str], words: Sequence[str] = (), folds: bool = False) -> Table:
    """Return an empty table: what a row is about, its numbers, its words. What is about names from data `folds`."""
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=not folds, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for name in words:
        table.add_column(name)
    return table
