"""Prices against discrimination-free prices, and actual to expected before and after, by group and decile."""

from __future__ import annotations

from tiltlens.documents.labels import BOTH, groups, measure_of, versus
from tiltlens.documents.prices import STATES
from tiltlens.documents.quantities import written
from tiltlens.figures.figure import Figure, Record, data, figure, in_unit, joined, noted, nothing
from tiltlens.figures.marks import axis, dots, interval, lines_at, reach, scaled, tooltip
from tiltlens.figures.theme import AUDITED, PAPER, QUIET, REFERENCE, WIDTH, ChartPart, altair
from tiltlens.formats import ratio
from tiltlens.repair.price_evaluation import PriceEvaluation
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import row_estimate

TITLE = "Price against discrimination-free price"
EFFECT_TITLE = "Actual to expected by decile of the price"
EFFECT_AXIS = "actual to expected (A/E)"
EFFECT_READING = {"group": "group", "which": "price", "decile": "decile", "text": "actual to expected"}
READING = {
    "group": "group",
    "decile": "decile",
    "price": "mean price",
    "free_price": "mean discrimination-free price",
    "ratio": "actual to expected",
    "n": "people",
}


def prices(c: Comparison) -> Figure:
    """Return the mean price against the mean discrimination-free price, one dot per group and decile of the price."""
    costs = c.prices
    if costs is None:
        raise nothing(TITLE, "no observed costs were given, or too few people have one")
    names = dict(zip(BOTH, groups(c), strict=True))
    records = [
        _record(row, names[row["group"]]) for row in costs.by_decile.iter_rows(named=True) if row["price"] is not None
    ]
    if not records:
        raise nothing(TITLE, "each decile has fewer than ten people of a group")
    m = measure_of(c)
    description = (
        f"{versus(c)}. {STATES[costs.status].capitalize()}. One dot per group and decile of the price: "
        "across, the mean discrimination-free price, up, the mean price. On the diagonal the two agree."
    )
    hidden = costs.by_decile["n"].has_nulls()
    note = "deciles with fewer than ten people of a group are left out" if hidden else ""
    chart = _chart(records, names, m.unit)
    subtitle = in_unit(c, "dots on the diagonal: the two agree")
    return figure(chart, records, TITLE, description, READING, subtitle, noted(c, note))


def price_effect(evaluation: PriceEvaluation) -> Figure:
    """Return actual to expected by group and decile of the price, before and after a change of the price."""
    names = dict(zip(BOTH, groups(evaluation), strict=True))
    records = [_effect(row, names[row["group"]]) for row in evaluation.by_decile.iter_rows(named=True)]
    records = [record for record in records if record["ratio"] is not None]
    if not records:
        raise nothing(EFFECT_TITLE, "no costs of these people were given, or each decile has too few of them")
    description = (
        f"{versus(evaluation)}. One dot per group and decile of the price, before and after: observed cost divided by "
        "price. At 1, prices equal costs."
    )
    hidden = evaluation.by_decile["n"].has_nulls()
    people = " / ".join(f"{evaluation.rows[who]:,}" for who in BOTH)
    left_out = "deciles with fewer than ten people of a group are left out" if hidden else ""
    note = joined(f"n = {people}", "lines: confidence intervals", left_out)
    subtitle = joined(versus(evaluation), "observed cost ÷ price", "○ before, ● after")
    return figure(
        _effect_chart(records, [*names.values()]),
        records,
        EFFECT_TITLE,
        description,
        EFFECT_READING,
        subtitle,
        note,
    )


def _effect(row: Record, name: str) -> Record:
    estimate = row_estimate(row, "actual_to_expected")
    record = {"group": name, "which": row["which"], "decile": row["decile"]}
    return record | scaled({"ratio": estimate}, 1.0) | {"text": written(estimate, ratio)}


def _effect_chart(records: list[Record], names: list[str]) -> ChartPart:
    alt = altair()
    colour, shape = _by_group(names, "top")
    x = alt.X("decile:O", title="decile of the price", axis=alt.Axis(labelAngle=0))
    y = axis("y", "ratio", EFFECT_AXIS, reach(records, ("ratio",), 1.0))
    # Before and after stand beside each other, so that neither hides the other's interval.
    beside = alt.XOffset("which:N", sort=["before", "after"])
    encoded = {"x": x, "color": colour, "shape": shape, "xOffset": beside}
    whiskers = interval("y", "ratio", EFFECT_AXIS, x, strokeWidth=1.4).encode(color=colour, xOffset=beside)
    marks = [
        dots("ratio", filled=which == "after", fill=PAPER if which == "before" else alt.Undefined)
        .transform_filter(f"datum.which == '{which}'")
        .encode(y=y, tooltip=tooltip(EFFECT_READING), **encoded)
        for which in ("before", "after")
    ]
    rule = lines_at("y", [1.0], EFFECT_AXIS, "covered", solid=1.0)
    return alt.layer(rule, whiskers, *marks).properties(width=WIDTH, height=300)


def _record(row: Record, name: str) -> Record:
    text = written(row_estimate(row, "actual_to_expected"), ratio)
    return {key: row[key] for key in ("decile", "n", "price", "free_price")} | {"group": name, "ratio": text}


def _chart(records: list[Record], names: dict[str, str], unit: str) -> ChartPart:
    alt = altair()
    every = [row[key] for row in records for key in ("price", "free_price")]
    ends = [{"free_price": end, "price": end} for end in (min(every), max(every))]
    scale = alt.Scale(zero=False, nice=True)
    behind = f" ({unit})" if unit else ""
    x = alt.X("free_price:Q", title=f"mean discrimination-free price{behind}", scale=scale)
    y = alt.Y("price:Q", title=f"mean price{behind}", scale=scale)
    colour, shape = _by_group(list(names.values()))
    line = alt.Chart(data(ends, "diagonal")).mark_line(color=QUIET, strokeDash=[5, 3]).encode(x=x, y=y)
    dots = alt.Chart().mark_point(filled=True, size=80, opacity=1)
    return alt.layer(line, dots.encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip(READING))).properties(
        width=WIDTH - 120, height=340
    )


def _by_group(names: list[str], orient: str = "top-left") -> tuple[ChartPart, ChartPart]:
    """Return the colour and the shape of the marks of the audited group and of the reference, with one legend."""
    alt = altair()
    legend = alt.Legend(title=None, orient=orient, offset=4)
    colour = alt.Color("group:N", scale=alt.Scale(domain=names, range=[AUDITED, REFERENCE]), legend=legend)
    shape = alt.Shape("group:N", scale=alt.Scale(domain=names, range=["circle", "square"]), legend=legend)
    return colour, shape
