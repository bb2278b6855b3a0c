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
    quantity_cell,
    quantity_table,
    row_estimate,
)
from tiltlens.estimators.verdicts import Materiality, materiality
from tiltlens.formats import NOTHING, count, interval, label, p_value
from tiltlens.rows.measures import measure_of

Record = dict[str, Any]
STATES = {
    None: "",
    Materiality.MATERIAL: " It is material.",
    Materiality.DETECTED: " It is not 0, but may be below the materiality threshold.",
    Materiality.NOT_MATERIAL: " It is not material.",
    Materiality.INCONCLUSIVE: " It is inconclusive.",
}
ALWAYS = "A confidence sequence is valid at all looks together; a confidence interval only at one planned look."
SHRUNKEN = (
    "Each deviation from the overall mean is shrunk towards 0, more so if it is noisy. Intervals cover the true value "
    "for that share of the groups on average. Ranks are shown only if intervals separate the groups."
)
LAST_LOOKS, LISTED_GROUPS = 12, 20  # rows of tables
NAMED_GROUPS = 3  # groups whose looks are shown one by one


def overall_blocks(summary: Record) -> list[Block]:
    """Return the blocks on looks and on many groups; nothing where the audit has neither."""
    return [*_looks(summary), *_intersections(summary)]


def _state(summary: Record, estimate: Record) -> str:
    threshold = next(iter(summary["comparisons"].values()))["scale"]["materiality"]
    return STATES[materiality(estimate["low"], estimate["high"], threshold)]


def _looks(summary: Record) -> Iterator[Block]:
    monitor, m = summary.get("monitor"), measure_of(summary)
    if not monitor:
        return
    level = f"{100 * summary['settings']['confidence']:g}%"
    sequences, last = monitor["sequences"], max((row["look"] for row in monitor["looks"]), default=0)
    yield Heading(f"Gap over {last} {'look' if last == 1 else 'looks'}", 2)
    for name, quantities in [*sequences.items()][:NAMED_GROUPS]:
        words = estimate_words(quantities["gap"], m, f"{level} confidence sequence")
        yield Paragraph(f"{label(name)}: gap {words} over all looks.{_state(summary, quantities['gap'])}")
    keys = [key for key in SEQUENCE_KEYS if any(key in quantities for quantities in sequences.values())]
    columns = (Column("group", NAME), *(Column(quantity(key).name(m)) for key in keys))
    rows = (
        (Cell(label(name)), *(quantity_cell(quantity(key), quantities.get(key), m) for key in keys))
        for name, quantities in sequences.items()
    )
    yield Table("sequences", columns, tuple(rows), f"{level} confidence sequence")
    for name in [*sequences][:NAMED_GROUPS]:
        looks = [row for row in monitor["looks"] if row["audited"] == name]
        yield FigureRef("looks", summary | {"shown": name})
        yield _look_table(looks[-LAST_LOOKS:], name, m, level)
    yield Paragraph(ALWAYS, QUIET)


def _look_table(rows: list[Record], name: str, m: Any, level: str) -> Table:
    heads = (quantity("gap").name(m), f"{level} CI", f"{level} confidence sequence")
    cells = (
        (
            *(Cell(str(row["look"])), Cell(m.difference(row["gap"]), value=row["gap"])),
            *(Cell(interval(row[f"{key}_low"], row[f"{key}_high"], m.difference)) for key in ("gap", "sequence")),
        )
        for row in rows
    )
    return Table("looks", (Column(f"look, {label(name)}", NAME), *map(Column, heads)), tuple(cells))


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
    yield Paragraph(
        f"In any groups with a tenth of the people, means are within {bound} of the overall mean on average."
    )
    present = [(quantity(key), every[key]) for key in INTERSECTION_KEYS if every[key]]
    yield quantity_table("intersections", present, m, f"{level} CI")
    listed = sorted(every["table"], key=lambda row: row["deviation"])
    named = [row | {"group": group_name(summary["group"], row["group"])} for row in listed]
    if named:
        yield FigureRef("intersections", summary)
        yield _group_table(named, m, level, every["groups"])
    yield Paragraph(f"{_left_out(every)} {SHRUNKEN}".strip(), QUIET)


def _left_out(every: Record) -> str:
    """Return which groups are counted, but not listed."""
    unlisted, alone = every["groups"] - len(every["table"]), every["singletons"]
    texts = [
        f"{unlisted:,} groups count, but are suppressed, because they or a neighbour have fewer than 10 people."
        if unlisted
        else "",
        f"{alone:,} groups of one person are left out." if alone else "",
    ]
    return " ".join(filter(None, texts))


def _group_table(rows: list[Record], m: Any, level: str, groups: int) -> Table:
    half = LISTED_GROUPS // 2
    shown = rows if len(rows) <= LISTED_GROUPS else [*rows[:half], *rows[-half:]]
    columns = (Column("group", NAME), *map(Column, ("people", quantity("deviation").name(m), "rank, lowest first")))
    cells = (
        (
            *(Cell(label(row["group"])), Cell(count(row["people"]))),
            estimate_cell(row_estimate(row, "deviation"), m.difference),
            Cell(_rank(row, groups)),
        )
        for row in shown
    )
    return Table("all-groups", columns, tuple(cells), f"{level} CI")


def _rank(row: Record, groups: int) -> str:
    ends = (row["rank_low"], row["rank_high"])
    return NOTHING if ends == (1, groups) else f"{ends[0]} to {ends[1]}"
