"""Summaries as text for a reader."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tiltlens.documents import rule_lines
from tiltlens.documents.display_names import with_display_names
from tiltlens.documents.error_rates import DOES_NOT_SHOW as RATES_DO_NOT_SHOW
from tiltlens.documents.error_rates import SIGNS, people_words, rate_lines
from tiltlens.documents.glossary import PLAIN_WORDS
from tiltlens.documents.ratios import four_fifths_words, is_of_decisions, ratio_name, two_by_two_words
from tiltlens.documents.unobserved_groups import WEIGHTED, expected, gap_name, soft_estimates, soft_words
from tiltlens.documents.verdict_texts import EVIDENCE, verdict_of
from tiltlens.formats import interval_name, p_value, percent, points, simultaneous_words, typed
from tiltlens.render.text_blocks import (
    DOES_NOT_SHOW,
    bullets,
    empty_table,
    estimate_cells,
    heading,
    number,
    whole,
)
from tiltlens.rows.measures import UNITS, Measure, measure_of, subject

WIDE = 100  # columns from which a number and its band stand on one line
BROKEN = 14  # columns of a verdict that takes several lines
LEAST_NAME = 8  # columns of a feature's name that a wide table must leave
WIDEST = 110  # columns of a page: longer lines are hard to read
DISTANCES = {"output divergence": ", nats", "input divergence": ", nats", "descent rate": ""}  # with their units
NEGLIGIBLE = 0.1  # parts of the materiality that go without saying
MOST_NAMED = 8  # features that one sentence lists


def print_audit(summary: dict[str, Any], console: Console) -> None:
    """Print an audit: who was compared, how far apart they are, what carries it, and how sure that is."""
    summary = with_display_names(printable(summary))
    console.print(_rows(summary))
    if words := simultaneous_words(summary, summary["settings"]["confidence"]):
        console.print(Text(words, "dim"))
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


def print_rule_tables(summary: dict[str, Any], console: Console) -> None:
    """Print the tables of a rule: what it compares, the tables, and what they do not decide."""
    summary = printable(summary)
    rule = summary["rule"]
    text = Text()
    text.append(f"{rule['title']}\n", "bold")
    text.append(f"{rule['citation']} ({rule['dated']})\n{rule_lines.status(rule)}\n", "dim")
    text.append(f"Compares {rule['compares']}.\n{rule_lines.rows_read(summary)}")
    console.print(text)
    for table in summary["tables"]:
        console.print(heading(rule_lines.title(table)), _rule_table(summary, table), sep="\n")
        console.print(Text(rule_lines.unknown_people(table), "dim"), *_tests(summary, table), sep="\n")
    console.print(heading("To know"))
    console.print(bullets([*summary["notes"], rule_lines.does_not_decide(rule)]))


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
    head, rows = rule_lines.rule_lines(summary, table)
    width = len(table["columns"])
    found = _named_table(head[:-1], [row[:-1] for row in rows], width)
    return Group(found, bullets(f"{' & '.join(row[:width])}: {row[-1]}." for row in rows if row[-1]))


def _tests(summary: dict[str, Any], table: dict[str, Any]) -> Iterator[RenderableType]:
    """Yield the tables of tests, and their notes."""
    for head, rows in rule_lines.test_lines(summary, table):
        yield ""
        yield _named_table(head, rows, len(table["columns"]))
    if remarks := rule_lines.test_remarks(table):
        yield bullets(remarks)


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
    text.append(f"tiltlens audit of {subject(summary)} by {summary['group']}", "bold")
    text.append(
        f"\n{rows['read']:,} rows read, {rows['used']:,} used{'; left out: ' + ', '.join(kept) if kept else ''}."
    )
    wanted = f"a {summary['favourable']} amount" if measure_of(summary) is UNITS else summary["favourable"]
    text.append(f" Favourable outcome: {wanted}.")
    return text


def _comparison(summary: dict[str, Any], audited: str, c: dict[str, Any]) -> RenderableType:
    title = (
        f"\n{audited} ({c['rows']['audited']:,}{expected(c)}, audited) against {c['reference']} "
        f"({c['rows']['reference']:,}{expected(c)}, reference)"
    )
    settings, measure = summary["settings"], measure_of(c)
    parts: list[RenderableType] = [Text(title, "bold cyan"), _estimates(summary, c), _test(c)]
    if words := soft_words(c):
        parts += [heading("What probabilities of groups can tell"), bullets(typed(one) for one in words)]
    if measure is UNITS:
        parts += (
            [heading("Share of each group above the pooled deciles"), _deciles(c, settings["confidence"])]
            if c["decile_shares"]
            else []
        )
    elif not is_of_decisions(summary):
        parts.append(Text("Four fifths is a line for rates of decisions; for these scores, give a threshold.", "dim"))
    elif c["adverse_impact_ratio"] is not None:
        parts.append(Text(typed(four_fifths_words(c["adverse_impact_ratio"], settings["confidence"], measure.among))))
    if c["two_by_two"] is not None:
        parts += [
            Text(typed(line)) for line in two_by_two_words(c["two_by_two"], settings["confidence"], measure.among)
        ]
    if c["error_rates"] is not None:
        parts += [heading("Error rates"), *_error_rates(summary, c)]
    if c.get("periods"):
        parts += [heading("Along time"), *_periods(c, measure, settings["confidence"])]
    if c["proxies"]:
        title = f"Proxy evidence, in {measure.unit} of the {measure.output}"
        parts += [heading(title), proxy_evidence(c, settings)]
    if c["notes"]:
        parts += [heading("To know"), bullets(typed(note) for note in c["notes"])]
    return Group(*parts)


def _estimates(summary: dict[str, Any], c: dict[str, Any]) -> Table:
    table = empty_table("quantity", ["value", interval_name(summary["settings"]["confidence"])], ["meaning"])
    m = measure_of(c)
    for who in ("audited", "reference") if c["criterion_rates"] else ():
        table.add_row(f"{m.mean}, {who}", *estimate_cells(c["criterion_rates"][who], m.level), "")
    for who in ("audited", "reference"):
        whose = WEIGHTED if c["soft_group"] else m.among.removeprefix(", ")
        table.add_row(f"{m.rate}, {who}", *estimate_cells(c["favourable_rates"][who], m.level), whose)
    c = c | soft_estimates(c)
    lacks = m.affected_words if m is UNITS else f"more people at the reference's rate{m.among}"
    if c["shortfall"] and c["shortfall"]["value"] < 0:
        lacks += f"; below 0: {'better off' if m is UNITS else 'fewer'}"
    rows: list[tuple[str, str, Callable[[float | None], str], str]] = [
        (f"{gap_name(c)}, in {m.unit}", "gap", m.difference, f"difference of the {m.mean}s"),
        (f"linear estimate, in {m.unit}", "linear", m.difference, f"slope of the {m.each} on the chance"),
        ("through exempt factors", "through_exempt", m.difference, f"{m.unit} of it, through {', '.join(c['exempt'])}"),
        ("at equal exempt factors", "at_equal_exempt", m.difference, f"{m.unit} of it, between people equal in them"),
        (ratio_name(summary), "impact_ratio", number, f"{m.rate}s, audited ÷ reference"),
        ("lower ÷ higher rate", "adverse_impact_ratio", number, "of the two compared"),
        ("worse off in total" if m is UNITS else "shortfall", "shortfall", m.total, lacks),
        ("standardised difference", "standardised_difference", number, PLAIN_WORDS["standardised difference"]),
        (f"unexplained, in {m.unit}", "unexplained", m.difference, "between people alike in all features"),
        ("decisions needed", "decisions_needed", whole, "to tell the groups apart, errors 5 %"),
        *((name, name.replace(" ", "_"), number, PLAIN_WORDS[name] + unit) for name, unit in DISTANCES.items()),
    ]
    for name, key, shown, meaning in rows:
        if c[key] is not None:
            table.add_row(name, *estimate_cells(c[key], shown), Text(meaning))
    return table


def _error_rates(summary: dict[str, Any], c: dict[str, Any]) -> Iterator[RenderableType]:
    """Yield the error rates of both groups, their difference, and how to read them."""
    columns = ["audited", "reference", "difference", interval_name(summary["settings"]["confidence"])]
    table, told = empty_table("quantity", columns), [f"People, {people_words(c)}."]
    for line in rate_lines(c, is_of_decisions(summary)):
        if line.found is None:
            told.append(f"{line.name} is not measured: {line.reason}.")
            continue
        told.append(f"{line.name}: {line.meaning}.")
        groups = (line.shown(line.found[group]["value"]) for group in ("audited", "reference"))
        table.add_row(
            *(typed(cell) for cell in (line.name, *groups, *estimate_cells(line.found["difference"], line.difference)))
        )
    yield table
    yield Text(typed(" ".join([*told, SIGNS])), "dim")
    yield Text(RATES_DO_NOT_SHOW, "dim")


def _deciles(c: dict[str, Any], confidence: float) -> Table:
    """Return the share of each group whose amount lies above each pooled decile."""
    table = empty_table("above", ["audited", "reference", "difference, in points", interval_name(confidence)])
    for row in c["decile_shares"]:
        found = {"value": row["difference"], "low": row["difference_low"], "high": row["difference_high"]}
        shares = (typed(percent(row[who])) for who in ("audited", "reference"))
        table.add_row(typed(UNITS.level(row["amount"])), *shares, *estimate_cells(found, points))
    return table


def _periods(c: dict[str, Any], measure: Measure, confidence: float) -> Iterator[RenderableType]:
    """Yield the table of periods, and the test that their gaps are equal."""
    found = c["periods"]
    names = [f"{gap_name(c)}, in {measure.unit}", interval_name(confidence), "audited", "reference"]
    table = empty_table("period", names)
    for row in found["table"]:
        gap = {"value": row["gap"], "low": row["gap_low"], "high": row["gap_high"]}
        rates = [typed(measure.level(row[name])) for name in ("audited_rate", "reference_rate")]
        gaps = ("–", "few") if row["reason"] else map(typed, estimate_cells(gap, measure.difference))
        table.add_row(Text(row["period"]), *gaps, *rates)
    yield table
    yield Text(f"audited, reference: each group's {measure.rate}{measure.among}.", "dim")
    if any(row["reason"] for row in found["table"]):
        yield Text("few: fewer than 10 people of a group, nothing is measured.", "dim")
    if found["equal_gaps"] is not None:
        yield Text(f"Test that the gap is the same in all periods: {p_value(found['equal_gaps']['p_value'])}.", "dim")


def _test(c: dict[str, Any]) -> Text:
    if c["gap"]["low"] is None:
        return Text("Plug-in values, as in the paper: no intervals.", "dim")
    name = f"{PLAIN_WORDS['membership model'].capitalize()} (membership model)"
    model = "" if c["correction"] is None else f" {name}: {c['membership']}."
    test = f"Test of equal outputs: {p_value(c['equal_outputs']['p_value'])}." if c["equal_outputs"] else ""
    return Text(f"{test}{model}".strip(), "dim")


@dataclass(frozen=True, slots=True)
class _ProxyTable:
    """The table of proxy evidence: number and band beside each other where there is room, else below each other."""

    rows: list[dict[str, Any]]
    measure: Measure

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Keep names whole if only long verdicts must give way for it."""
        folded = max(max(len(str(row["feature"])) for row in self.rows) - LEAST_NAME, 0)
        for width, given_up in ((WIDE, 0), (BROKEN, 0), (WIDE, folded)):
            wide = self._table(" ", width)
            needed = console.measure(wide, options=options.update(max_width=10 * WIDE)).maximum - given_up
            if max(needed, WIDE) <= options.max_width:
                yield wide
                return
        yield self._table("\n", BROKEN)

    def _table(self, join: str, width: int) -> Table:
        table = empty_table("feature", ["gap", "with others", "Shapley"], ["verdict"], folds=True)
        table.columns[-1].no_wrap = True  # names alone give way
        for row in self.rows:
            broken = wrap(row["verdict"], width, break_on_hyphens=False, break_long_words=False)
            verdict = Text("\n".join(broken), "bold" if verdict_of(row).kind == EVIDENCE else "")
            numbers = (_banded(row, name, join, self.measure) for name in ("gap", "joint", "gap_shapley"))
            table.add_row(Text(str(row["feature"])), *(Text(one) for one in numbers), verdict)
        return table


def _banded(row: dict[str, Any], name: str, join: str, measure: Measure) -> str:
    value, low, high = (typed(measure.difference(row[f"{name}{end}"])) for end in ("", "_low", "_high"))
    return value if row[f"{name}_low"] is None else f"{value}{join}[{low}, {high}]"


def proxy_evidence(c: dict[str, Any], settings: dict[str, Any]) -> RenderableType:
    """Return the table of proxy evidence, how to read it, and the reasons of its verdicts."""
    measure = measure_of(c)
    whole = "what is left at equal exempt factors" if c["exempt"] else "the gap"
    note = "gap: what goes through the feature by itself. with others: what would be lost without it. "
    note = f"Of {whole}. {note}" if c["exempt"] else note
    if any(row["gap_shapley"] is not None for row in c["proxies"]):
        note += "Shapley: its part where all are taken together; the parts add up to " + whole
        left = c["shapley_remainder"] or 0.0
        is_told = abs(left) >= NEGLIGIBLE * c["materiality"]
        note += f" less what is unexplained ({typed(measure.difference(left))}). " if is_told else ". "
    if any(row["use"] is not None for row in c["proxies"]):
        note += f"Use: how far the {measure.output} moves with the feature, all else being equal. "
    note += f"What counts is {measure.counted(c, settings)}." if measure is UNITS else ""
    parts: list[RenderableType] = [_ProxyTable(c["proxies"], measure)]
    if any(row["gap_low"] is not None for row in c["proxies"]):
        level = f"{100 * settings['confidence']:g} %"
        parts.append(
            Text(
                f"The bands of the gap and with others hold for all features at once ({level}): verdicts are read from "
                "them."
            )
        )
    return Group(*parts, Text(note, "dim"), bullets(_reasons(c)))


def _reasons(c: dict[str, Any]) -> Iterable[str]:
    """Yield each verdict with its reason, and what else is to be known of the feature; equal sentences once."""
    said: dict[str, list[str]] = {}
    for row in c["proxies"]:
        said.setdefault(_reason(row, measure_of(c)), []).append(str(row["feature"]))
    for sentence, names in said.items():
        more = len(names) - MOST_NAMED
        yield f"{', '.join(names[:MOST_NAMED])}{f' and {more} more' if more > 0 else ''} – {sentence}"


def _reason(row: dict[str, Any], measure: Measure) -> str:
    sentences = [f"{row['verdict']}: {row['reason']}."]
    if verdict_of(row).kind == EVIDENCE:
        sentences.append(f"{row['direction']}.")
        sentences += [f"{row['redundant_with']} carries the same."] if row["redundant_with"] else []
    if row["use"]:
        value, low, high = (measure.size(row[f"use{end}"]) for end in ("", "_low", "_high"))
        sentences.append(f"Use: {value} {measure.unit} ({low} to {high}).")
    sentences += [f"({row['notes']})"] if row["notes"] else []
    return " ".join(sentences)
