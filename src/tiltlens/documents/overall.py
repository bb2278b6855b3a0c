"""What an audit says of all groups together: looks at growing data, and the dispersion of many groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiltlens.documents.display_names import group_name
from tiltlens.documents.document import NAME, QUIET, Block, Cell, Column, FigureRef, Heading, Paragraph, Table
from tiltlens.documents.quantities import (
    INTERSECTION_KEYS,
    SEQUENCE_KEYS,
    estimate_cell,
    estimate_words,
    quantity,
    quantity_table,
    row_estimate,
)
from tiltlens.estimators.verdicts import Materiality, materiality
from tiltlens.formats import count, interval, label, p_value
from tiltlens.rows.measures import measure_of

Record = dict[str, Any]
STATES = {
    None: "",
    Materiality.MATERIAL: " It is material.",
    Materiality.DETECTED: " It is not 0, but may be below the materiality threshold.",
    Materiality.NOT_MATERIAL: " It is not material.",
    Materiality.INCONCLUSIVE: " That is inconclusive.",
}
ALWAYS = "A confidence sequence holds at all looks at once; a confidence interval holds at one look that was planned."
SHRUNKEN = (
    "Deviations are from the overall mean and shrunk towards 0 by how far they are noise; their intervals cover that "
    "share of the groups, not each. A rank is given where intervals separate."
)
LAST_LOOKS, LISTED_GROUPS = 12, 20  # rows of the two tables


def overall_blocks(summary: Record) -> list[Block]:
    """Return the blocks on looks and on many groups; nothing where the audit has neither."""
    return [*_looks(summary), *_intersections(summary)]


def _state(summary: Record, estimate: Record) -> str:
    threshold = next(iter(summary["comparisons"].values()))["materiality"]
    return STATES[materiality(estimate["low"], estimate["high"], threshold)]


def _looks(summary: Record) -> Iterator[Block]:
    monitor, m = summary.get("monitor"), measure_of(summary)
    if not monitor:
        return
    level = f"{100 * summary['settings']['confidence']:g}%"
    yield Heading("Gap over all looks", 2)
    for name, sequences in monitor["sequences"].items():
        rows = [row for row in monitor["looks"] if row["audited"] == name]
        words = estimate_words(sequences["gap"], m, f"{level} confidence sequence")
        people, last = count(rows[-1]["people"]), rows[-1]["look"]
        text = f"{label(name)}: gap {words} after {last} {'look' if last == 1 else 'looks'} at {people} people."
        yield Paragraph(f"{text}{_state(summary, sequences['gap'])}")
        present = [(quantity(key), sequences[key]) for key in SEQUENCE_KEYS if key in sequences]
        yield quantity_table("sequences", present, m, f"{level} confidence sequence")
        yield FigureRef("looks", {"score_type": summary["score_type"], "audited": name, "rows": rows})
        yield _look_table(rows[-LAST_LOOKS:], m, level)
    yield Paragraph(ALWAYS, QUIET)


def _look_table(rows: list[Record], m: Any, level: str) -> Table:
    heads = ("people", quantity("gap").name(m), f"{level} CI", f"{level} confidence sequence")
    cells = (
        (
            *(Cell(str(row["look"])), Cell(count(row["people"])), Cell(m.difference(row["gap"]), value=row["gap"])),
            *(Cell(interval(row[f"{key}_low"], row[f"{key}_high"], m.difference)) for key in ("gap", "sequence")),
        )
        for row in rows
    )
    return Table("looks", (Column("look", NAME), *map(Column, heads)), tuple(cells))


def _intersections(summary: Record) -> Iterator[Block]:
    every, m = summary.get("intersections"), measure_of(summary)
    if not every:
        return
    level, spread = f"{100 * summary['settings']['confidence']:g}%", every["between_groups"]
    yield Heading(f"All {every['groups']:,} groups together", 2)
    words = estimate_words(spread, m, f"{level} CI")
    test = f"Test of equal means: {p_value(every['equal_means'])}."
    yield Paragraph(f"Standard deviation of the {m.mean} between groups: {words}.{_state(summary, spread)} {test}")
    bound = f"{m.size(every['tail_bound'])} {m.unit}"
    yield Paragraph(f"On average, no tenth of the people, in any union of groups, is more than {bound} from the mean.")
    present = [(quantity(key), every[key]) for key in INTERSECTION_KEYS if every[key]]
    yield quantity_table("intersections", present, m, f"{level} CI")
    listed = sorted(every["table"], key=lambda row: row["deviation"])
    named = [row | {"group": group_name(summary["group"], row["group"])} for row in listed]
    if named:
        yield FigureRef("intersections", {"score_type": summary["score_type"], "groups": every["groups"], "rows": named})
        yield _group_table(named, m, level, every["groups"])
    yield Paragraph(f"{_left_out(every)} {SHRUNKEN}".strip(), QUIET)


def _left_out(every: Record) -> str:
    """Return which groups are counted, but not listed."""
    unlisted = every["groups"] - len(every["table"])
    texts = [f"{unlisted:,} groups count, but are suppressed: of fewer than 10 people, or neighbours of such groups."]
    alone = every["singletons"]
    return " ".join([*(texts if unlisted else []), *([f"{alone:,} groups of one person are left out."] if alone else [])])


def _group_table(rows: list[Record], m: Any, level: str, groups: int) -> Table:
    half = LISTED_GROUPS // 2
    shown = rows if len(rows) <= LISTED_GROUPS else [*rows[:half], *rows[-half:]]
    columns = (Column("group", NAME), *map(Column, ("people", quantity("deviation").name(m), "rank, lowest first")))
    cells = (
        (
            *(Cell(label(row["group"])), Cell(count(row["people"]))),
            estimate_cell(row_estimate(row, "deviation"), m.difference),
            Cell("–" if (row["rank_low"], row["rank_high"]) == (1, groups) else f"{row['rank_low']} to {row['rank_high']}"),
        )
        for row in shown
    )
    return Table("all-groups", columns, tuple(cells), f"{level} CI")
