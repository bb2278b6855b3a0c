"""Prices beside observed costs: the state, its numbers, and the segments that are moved most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tiltlens.analysis.decomposition import PARTS as CONTRIBUTION_NAMES
from tiltlens.analysis.prices import Prices
from tiltlens.documents.document import NAME, QUIET, Block, Cell, Column, Heading, Paragraph, Table
from tiltlens.documents.measures import BOTH, group_of, level_of, measure_of
from tiltlens.documents.quantities import (
    FEATURES,
    estimate_cell,
    format_of,
    quantity,
    quantity_table,
    written,
)
from tiltlens.estimators.verdicts import Materiality
from tiltlens.formats import count, label, minus, percent
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import row_estimate
from tiltlens.rows.wording import Measure

STATES = {
    Materiality.MATERIAL: "material proxy discrimination",
    Materiality.DETECTED: "proxy discrimination, perhaps not material",
    Materiality.NOT_MATERIAL: "no material proxy discrimination",
    Materiality.INCONCLUSIVE: "inconclusive whether there is material proxy discrimination",
}
LIMITS = (
    "Expected costs are predicted by a regression for each group, fitted on other people. An omitted factor may be "
    "associated with both cost and group."
)
OF_CONTRIBUTIONS = (
    "Contributions to the gap beyond the mixture of expected costs. A feature that is associated with the price only "
    "through expected costs contributes nothing beyond the others. "
    "Intervals of alone and beyond the others are simultaneous confidence bands."
)
OF_SEGMENTS = (
    "A positive value means that what the features show about the group raises the best price. These segments were "
    "selected for their large values, so the values may be overestimated. Segments of fewer than ten people are "
    "suppressed."
)
MOST_CONTRIBUTIONS = 20  # features


def price_blocks(c: Comparison) -> list[Block]:
    """Return what observed costs say of the price; nothing where it was not computed."""
    costs, name = c.prices, level_of(c)
    if costs is None:
        return []
    ratios = [(quantity(f"actual_to_expected_{who}"), ratio) for who, ratio in costs.actual_to_expected.items()]
    ratios.append((quantity("actual_to_expected_ratio"), costs.actual_to_expected_ratio))
    numbers = [
        (quantity("proxy_discrimination"), costs.proxy_discrimination),
        (quantity("unfairness"), costs.unfairness),
        (quantity("vulnerability"), costs.vulnerability),
        (quantity("unaware_gap"), costs.unaware_gap),
        (quantity("free_gap"), costs.free_gap),
        (quantity("proxy_gap"), costs.proxy_gap),
        *ratios,
    ]
    by_group = [(label(group_of(c, who)), costs.by_decile.filter(group=who)) for who in BOTH]
    return [
        Heading("Price and observed cost"),
        Paragraph(" ".join(price_words(c, costs))),
        quantity_table("prices", numbers, measure_of(c), name),
        Paragraph(LIMITS, QUIET),
        *_contributions(c, costs, name),
        *decile_blocks("Actual to expected by decile of the price", by_group, measure_of(c), name),
        *_segments(c, costs, name),
    ]


def price_words(c: Comparison, costs: Prices) -> Iterator[str]:
    """Yield the state, and the nearest mixture of the groups' expected costs."""
    text = written(costs.proxy_discrimination, percent, level_of(c))
    state, least = STATES[costs.status].capitalize(), percent(costs.materiality)
    yield f"{state}: {text} of the variance of the price, materiality threshold {least}."
    parts = " and ".join(f"{label(group_of(c, who))} {percent(part)}" for who, part in costs.mixture.items())
    yield f"Weights of the closest mixture of expected costs: {parts}."


def _contributions(c: Comparison, costs: Prices, name: str) -> Iterator[Block]:
    """Yield the contributions of features to the gap beyond the mixture of expected costs."""
    if costs.contributions.is_empty():
        return
    m, items = measure_of(c), [FEATURES[key] for key in CONTRIBUTION_NAMES]
    columns = (Column("feature", NAME), *(Column(item.name(m)) for item in items))
    rows = (
        (
            Cell(label(row["feature"])),
            *(estimate_cell(row_estimate(row, item.key), format_of(item.scale, m).value) for item in items),
        )
        for row in costs.contributions.head(MOST_CONTRIBUTIONS).iter_rows(named=True)
    )
    yield Heading("Contributions to proxy discrimination")
    yield Table("price-contributions", columns, tuple(rows), name)
    yield Paragraph(OF_CONTRIBUTIONS, QUIET)


def decile_blocks(title: str, columns: Sequence[tuple[str, pl.DataFrame]], m: Measure, level: str) -> Iterator[Block]:
    """Yield A/E by decile of the price, one column for each head and its rows; nothing where there are no rows."""
    shown = format_of(quantity("actual_to_expected").scale, m).value
    by_decile = [
        {row["decile"]: estimate_cell(row_estimate(row, "actual_to_expected"), shown) for row in rows.to_dicts()}
        for _, rows in columns
    ]
    deciles = sorted({decile for cells in by_decile for decile in cells})
    rows = tuple((Cell(str(decile)), *(cells.get(decile, Cell("")) for cells in by_decile)) for decile in deciles)
    if rows:
        heads = (Column("decile of the price", NAME), *(Column(head) for head, _ in columns))
        yield from (Heading(title), Table("actual-to-expected", heads, rows, level))


def _segments(c: Comparison, costs: Prices, name: str) -> Iterator[Block]:
    """Yield the values of features whose best price without the group is furthest from the discrimination-free one."""
    if costs.segments.is_empty():
        return
    m, item = measure_of(c), FEATURES["segment_vulnerability"]
    columns = (Column("feature", NAME), Column("value", NAME), Column(m.people), Column(item.name(m)))
    rows = (
        (
            Cell(label(row["feature"])),
            Cell(minus(label(row["value"]))),
            Cell(count(row["n"]), value=row["n"]),
            estimate_cell(row_estimate(row, "vulnerability"), format_of(item.scale, m).value),
        )
        for row in costs.segments.iter_rows(named=True)
    )
    yield Heading("Segments with the largest proxy vulnerability")
    yield Table("segments", columns, tuple(rows), name)
    yield Paragraph(OF_SEGMENTS, QUIET)
