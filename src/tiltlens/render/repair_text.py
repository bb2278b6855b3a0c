"""Repairs, their evaluations and alternatives as text for a reader."""

from __future__ import annotations

import io
from collections.abc import Callable
from shutil import get_terminal_size
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiltlens.documents import repair_sentences as words
from tiltlens.documents.display_names import with_display_names
from tiltlens.formats import interval, interval_name, number, percent, points, typed, whole_percent, with_interval
from tiltlens.render.terminal import WIDE, WIDEST, printable
from tiltlens.render.text_blocks import bullets, empty_table, heading

Record = dict[str, Any]
CURVE = {
    "gap": ("gap, in points", points),
    "accuracy": ("accuracy", percent),
    "auc": ("area under the curve", number),
    "log_loss": ("log-loss", number),
}
PRINTED_COSTS = {"gap", "decision_gap", "accuracy", "auc", "log_loss", "brier"}  # the page has the others too
SHOWN = 2  # every second point of the curve is printed


def print_repair(repair: Record, console: Console) -> None:
    """Print what a repair was asked to do, what it looks at, and what to know."""
    repair = with_display_names(printable(repair))
    lines = [*words.asked_words(repair), *words.audited_words(repair)]
    console.print(Text("tiltlens: the least change of the scores", "bold"))
    console.print(Group(_who(repair), _paragraphs(lines)))
    notes = [words.sentence(note) for note in repair["notes"]]
    console.print(Group(heading("Where the sensitive attribute is used"), bullets([*notes, words.REGULATED])))


def print_evaluations(summary: Record, console: Console) -> None:
    """Print the effect of a repair on held-out data, for each audited group."""
    evaluations = list(with_display_names(printable(summary))["evaluations"].values())
    console.print(Text("tiltlens: effect of a repair on held-out data", "bold"))
    console.print(_paragraphs(words.asked_words(evaluations[0]["repair"])))
    for evaluation in evaluations:
        console.print(_evaluation(evaluation))
    lines = map(typed, words.sensitive_lines(evaluations[0]))
    console.print(Group(heading("Where the sensitive attribute was used"), bullets(lines)))
    console.print(Text(f"\n{words.IS_NO_FINDING}", "dim"))


def _evaluation(evaluation: Record) -> RenderableType:
    parts: list[RenderableType] = [_who(evaluation["repair"]), _paragraphs(words.headline(evaluation))]
    parts += [Text(), _quantities(evaluation)]
    parts += [heading(f"Who gets another decision at the threshold {evaluation['threshold']:g}")]
    parts += [bullets(f"{line}." for line in words.decision_lines(evaluation))]
    if evaluation["cost_of_blindness"] is not None:
        parts += [heading("Cost of not using the group"), Text(typed(words.cost_of_blindness_words(evaluation)))]
        parts += [Text(), _cost_of_blindness(evaluation)]
    parts += [heading("From no repair to the whole of it"), _curve(evaluation)]
    if evaluation["notes"]:
        parts += [heading("Warnings"), bullets(typed(words.sentence(note)) for note in evaluation["notes"])]
    return Group(*parts)


def print_alternatives(summary: Record, console: Console) -> None:
    """Print whether a rule that is no less accurate leans less, for each audited group."""
    summary = with_display_names(printable(summary))
    console.print(Text("tiltlens: could another rule do as well, and lean less?", "bold"))
    for found in summary["comparisons"].values():
        parts: list[RenderableType] = [_who(found)]
        first, *others = words.verdict_words(found, found)
        parts += [Text(typed(first), "bold"), _paragraphs(others), Text(), _rates(found), Text(), _attained(found)]
        if found["what_ifs"]:
            parts += [heading("What if a feature were not used, or less finely?"), _what_ifs(found)]
            parts.append(Text(words.OF_WHAT_IFS, "dim"))
        if found["notes"]:
            parts += [heading("Warnings"), bullets(typed(words.sentence(note)) for note in found["notes"])]
        console.print(Group(*parts))
    console.print(Text(f"\n{words.OF_RULES}", "dim"))


def evaluations_text(summary: Record) -> str:
    """Return what `print_evaluations` prints as plain text, as wide as the terminal."""
    return _plain(print_evaluations, summary)


def repair_text(repair: Record) -> str:
    """Return what `print_repair` prints as plain text, as wide as the terminal."""
    return _plain(print_repair, repair)


def _plain(printed: Callable[[Record, Console], None], summary: Record) -> str:
    text = io.StringIO()
    width = min(get_terminal_size((WIDE, 24)).columns, WIDEST)
    printed(summary, Console(file=text, width=width, color_system=None, force_terminal=False, force_jupyter=False))
    return text.getvalue().rstrip()


def _who(found: Record) -> Text:
    return heading(f"{found['audited']} (audited) against {found['reference']} (reference)")


def _paragraphs(lines: list[str]) -> Text:
    return Text(typed("\n".join(lines)))


def _quantities(evaluation: Record) -> Table:
    table = empty_table("quantity", ["before", "after", "change", interval_name(evaluation["confidence"])])
    for one, row in words.quantities(evaluation, evaluation["table"]):
        ends = interval(row["change_low"], row["change_high"], one.changed)
        cells = [one.shown(row["before"]), one.shown(row["after"]), one.changed(row["change"]), ends]
        table.add_row(Text(one.name), *(Text(typed(cell)) for cell in cells))
    return table


def _cost_of_blindness(evaluation: Record) -> Table:
    table = empty_table("after the repair", ["with group", "without", "cost", interval_name(evaluation["confidence"])])
    rows = [row for row in evaluation["cost_of_blindness"] if row["quantity"] in PRINTED_COSTS]
    for one, row in words.quantities(evaluation, rows):
        ends = interval(row["cost_low"], row["cost_high"], one.changed)
        cells = [one.shown(row["with_group"]), one.shown(row["without_group"]), one.changed(row["cost"]), ends]
        table.add_row(Text(one.name), *(Text(typed(cell)) for cell in cells))
    return table


def _curve(evaluation: Record) -> Table:
    known = [(key, *CURVE[key]) for key in CURVE if key in evaluation["curve"][0]]
    table = empty_table("part of it", [name for _, name, _ in known])
    for row in evaluation["curve"][::SHOWN]:
        table.add_row(Text(whole_percent(row["part"])), *(Text(typed(shown(row[key]))) for key, _, shown in known))
    return table


def _rates(found: Record) -> Table:
    table = empty_table("decisions", ["the audited model", "the alternative"])
    for name, both, shown in words.rates(found):
        table.add_row(Text(name), *(Text(typed(with_interval(**one, shown=shown))) for one in both))
    return table


def _attained(found: Record) -> Table:
    table = empty_table("rule", [f"{words.gap_name(found)}, in points", words.accuracy_name(found)])
    rows = [("the audited model", found["gap"], found["accuracy"])]
    rows += [
        (f"rule {place} of {len(found['curve'])}", _estimate(row, "gap"), _estimate(row, "accuracy"))
        for place, row in words.some_rules(found["curve"])
    ]
    for name, gap, accuracy in rows:
        cells = with_interval(**gap, shown=points), with_interval(**accuracy, shown=percent)
        table.add_row(Text(name), *(Text(typed(cell)) for cell in cells))
    return table


def _what_ifs(found: Record) -> Table:
    table = empty_table("what if", ["gap", "change of the gap", "change of accuracy"])
    for row in found["what_ifs"][: words.WHAT_IFS]:
        cells = points(row["gap"]), *(_banded(row, f"{name}_change") for name in ("gap", "accuracy"))
        table.add_row(Text(f"{row['feature']} {row['what_if']}"), *(Text(typed(cell)) for cell in cells))
    return table


def _banded(row: Record, name: str) -> str:
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return points(value) if low is None else f"{points(value)} ({interval(low, high, points)})"


def _estimate(row: Record, name: str) -> Record:
    return {"value": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"]}
