"""What changed between two audits, as text for a reader."""

from __future__ import annotations

import io
from shutil import get_terminal_size
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiltlens.documents.change_sentences import MOVED, headline, quantities, source_name
from tiltlens.documents.display_names import with_display_names
from tiltlens.formats import interval, interval_name, simultaneous_words, typed
from tiltlens.render.terminal import WIDE, WIDEST, printable
from tiltlens.render.text_blocks import DOES_NOT_SHOW, bullets, empty_table, heading
from tiltlens.rows.measures import measure_of, subject

Record = dict[str, Any]


def print_change(summary: Record, console: Console) -> None:
    """Print a change: what was compared, what happened to the gap, which features made it, and how sure that is."""
    summary = with_display_names(printable(summary))
    text = Text(f"tiltlens: change of {subject(summary)} by {summary['group']}\n", "bold")
    text.append(f"old: {source_name(summary['old'])} ({summary['old']['rows']['used']:,} rows)\n")
    text.append(f"new: {source_name(summary['new'])} ({summary['new']['rows']['used']:,} rows)\n")
    text.append(f"{summary['pairing'].capitalize()}.", "dim")
    if words := simultaneous_words(summary, summary["confidence"]):
        text.append(f"\n{words}", "dim")
    console.print(text)
    for c in summary["comparisons"].values():
        console.print(_group(summary, c))
    for name, which in summary["too_small"].items():
        console.print(Text(f"\n{name} is in the {which} audit only: nothing is said of it.", "yellow"))
    console.print(Text(f"\n{DOES_NOT_SHOW}", "dim"))


def change_text(summary: Record) -> str:
    """Return what `print_change` prints as plain text, as wide as the terminal."""
    text = io.StringIO()
    width = min(get_terminal_size((WIDE, 24)).columns, WIDEST)
    print_change(summary, Console(file=text, width=width, color_system=None, force_terminal=False, force_jupyter=False))
    return text.getvalue().rstrip()


def _group(summary: Record, c: Record) -> RenderableType:
    parts: list[RenderableType] = [heading(f"{c['audited']} (audited) against {c['reference']} (reference)")]
    parts += [Text(typed(line)) for line in headline(summary, c)]
    parts += [Text(), _quantities(summary, c)]
    if c["features"]:
        parts += [heading(f"Which features made the change, in {measure_of(c).unit}"), _features(c)]
        level = f"{100 * summary['confidence']:g} %"
        parts.append(Text(f"The bands hold for all features at once ({level}): verdicts are read from them.", "dim"))
        parts.append(bullets(f"{row['feature']} – {row['verdict']}: {row['reason']}." for row in c["features"]))
    if c["notes"]:
        parts += [heading("To know"), bullets(typed(note) for note in c["notes"])]
    return Group(*parts)


def _quantities(summary: Record, c: Record) -> Table:
    table = empty_table("quantity", ["old", "new", "change", interval_name(summary["confidence"])])
    for one in quantities(summary, c):
        moved = c["changes"][one.key]
        values = [one.shown(c[when][one.key]["value"]) for when in ("old", "new")]
        cells = [*values, one.changed(moved["value"]), interval(moved["low"], moved["high"], one.changed)]
        table.add_row(Text(one.name), *(Text(typed(cell)) for cell in cells))
    return table


def _features(c: Record) -> Table:
    table = empty_table("feature", ["old", "new", "change", "with others"], ["verdict"], folds=True)
    for row in c["features"]:
        told = measure_of(c).difference
        values = [typed(told(row[name])) for name in ("gap_old", "gap_new")]
        moved = [_banded(row, name, told) for name in ("gap_change", "joint_change")]
        verdict = Text(row["verdict"], "bold" if row["verdict"] in MOVED else "")
        table.add_row(Text(str(row["feature"])), *(Text(cell) for cell in (*values, *moved)), verdict)
    return table


def _banded(row: Record, name: str, told: Any) -> str:
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return typed(told(value) if low is None else f"{told(value)}\n[{told(low)}, {told(high)}]")
