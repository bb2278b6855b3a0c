"""What an audit says of all groups together: looks at growing data, and the dispersion of many groups."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tiltlens.analysis.intersections import Intersections
from tiltlens.documents.display_names import group_name
from tiltlens.documents.document import NAME, QUIET, Block, Cell, Column, FigureRef, Heading, Paragraph, Table
from tiltlens.documents.measures import measure_of
from tiltlens.documents.quantities import (
    INTERSECTION_KEYS,
    SEQUENCE_KEYS,
    estimate_cell,
    estimate_words,
    quantity,
    quantity_cell,
    quantity_table,
)
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.verdicts import Materiality, materiality
from tiltlens.formats import NOTHING, count, interval, label, p_value
from tiltlens.results.audit import Audit
from tiltlens.results.outputs import row_estimate
from tiltlens.rows.wording import Measure

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


def overall_blocks(audit: Audit) -> list[Block]:
    """Return the blocks on looks and on many groups; nothing where the audit has neither."""
    return [*_looks(audit), *_intersections(audit)]


def _state(audit: Audit, estimate: Estimate) -> str:
    threshold = audit[0].scale.materiality
    return STATES[materiality(estimate.low, estimate.high, threshold)]


def _looks(audit: Audit) -> Iterator[Block]:
    monitor, m = audit.monitor, measure_of(audit)
    if monitor is None:
        return
    level = f"{100 * audit.settings.confidence:g}%"
    sequences, last = monitor.sequences, max(monitor.looks["look"], default=0)
    yield Heading(f"Gap over {last} {'look' if last == 1 else 'looks'}", 2)
    for name, quantities in [*sequences.items()][:NAMED_GROUPS]:
        words = estimate_words(quantities["gap"], m, f"{level} confidence sequence")
        yield Paragraph(f"{label(name)}: gap {words} over all looks.{_state(audit, quantities['gap'])}")
    keys = [key for key in SEQUENCE_KEYS if any(key in quantities for quantities in sequences.values())]
    columns = (Column("group", NAME), *(Column(quantity(key).name(m)) for key in keys))
    rows = (
        (Cell(label(name)), *(quantity_cell(quantity(key), quantities.get(key), m) for key in keys))
        for name, quantities in sequences.items()
    )
    yield Table("sequences", columns, tuple(rows), f"{level} confidence sequence")
    for name in [*sequences][:NAMED_GROUPS]:
        looks = monitor.looks.filter(audited=name).tail(LAST_LOOKS)
        yield FigureRef("looks", (audit, name))
        yield _look_table(looks, name, m, level)
    yield Paragraph(ALWAYS, QUIET)


def _look_table(looks: pl.DataFrame, name: str, m: Measure, level: str) -> Table:
    heads = (quantity("gap").name(m), f"{level} CI", f"{level} confidence sequence")
    cells = (
        (
            *(Cell(str(row["look"])), Cell(m.difference(row["gap"]), value=row["gap"])),
            *(Cell(interval(row[f"{key}_low"], row[f"{key}_high"], m.difference)) for key in ("gap", "sequence")),
        )
        for row in looks.iter_rows(named=True)
    )
    return Table("looks", (Column(f"look, {label(name)}", NAME), *map(Column, heads)), tuple(cells))


def _intersections(audit: Audit) -> Iterator[Block]:
    if audit.intersections is None:
        return
    every, m = audit.intersections.disclosed(), measure_of(audit)
    level, spread = f"{100 * audit.settings.confidence:g}%", every.between_groups
    yield Heading(f"All {every.groups:,} groups together", 2)
    words = estimate_words(spread, m, f"{level} CI")
    test = f"Test of equal means: {p_value(every.equal_means)}."
    yield Paragraph(f"Standard deviation of the {m.mean} between groups: {words}.{_state(audit, spread)} {test}")
    bound = f"{m.size(every.tail_bound)} {m.unit}"
    yield Paragraph(
        f"In any groups with a tenth of the people, means are within {bound} of the overall mean on average."
    )
    parts = zip(INTERSECTION_KEYS, (spread, every.main_effects, every.interaction), strict=True)
    present = [(quantity(key), estimate) for key, estimate in parts if estimate is not None]
    yield quantity_table("intersections", present, m, f"{level} CI")
    if not every.frame.is_empty():
        yield FigureRef("intersections", (audit,))
        yield _group_table(audit, every, level)
    yield Paragraph(f"{_left_out(every)} {SHRUNKEN}".strip(), QUIET)


def _left_out(every: Intersections) -> str:
    """Return which groups are counted, but not listed."""
    unlisted, alone = every.groups - every.frame.height, every.singletons
    texts = [
        f"{unlisted:,} groups count, but are suppressed, because they or a neighbour have fewer than 10 people."
        if unlisted
        else "",
        f"{alone:,} groups of one person are left out." if alone else "",
    ]
    return " ".join(filter(None, texts))


def _group_table(audit: Audit, every: Intersections, level: str) -> Table:
    half, m = LISTED_GROUPS // 2, measure_of(audit)
    rows = sorted(every.frame.iter_rows(named=True), key=lambda row: row["deviation"])
    listed = rows if len(rows) <= LISTED_GROUPS else [*rows[:half], *rows[-half:]]
    columns = (Column("group", NAME), *map(Column, ("people", quantity("deviation").name(m), "rank, lowest first")))
    cells = (
        (
            *(Cell(label(group_name(audit.group, row["group"]))), Cell(count(row["people"]))),
            estimate_cell(row_estimate(row, "deviation"), m.difference),
            Cell(_rank(row["rank_low"], row["rank_high"], every.groups)),
        )
        for row in listed
    )
    return Table("all-groups", columns, tuple(cells), f"{level} CI")


def _rank(low: int, high: int, groups: int) -> str:
    return NOTHING if (low, high) == (1, groups) else f"{low} to {high}"
