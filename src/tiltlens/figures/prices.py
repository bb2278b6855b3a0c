"""The price against the discrimination-free price, by group and decile of the price."""

from __future__ import annotations

from tiltlens.documents.labels import groups, versus
from tiltlens.documents.measures import BOTH, measure_of
from tiltlens.documents.prices import STATES
from tiltlens.documents.quantities import written
from tiltlens.figures.figure import Figure, Record, data, figure, in_unit, noted, nothing
from tiltlens.figures.marks import tooltip
from tiltlens.figures.theme import AUDITED, QUIET, REFERENCE, WIDTH, ChartPart, altair
from tiltlens.formats import ratio
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import row_estimate

TITLE = "Price against discrimination-free price"
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
    domain = list(names.values())
    colour = alt.Color("group:N", scale=alt.Scale(domain=domain, range=[AUDITED, REFERENCE]))
    shape = alt.Shape("group:N", scale=alt.Scale(domain=domain, range=["circle", "square"]))
    for channel in (colour, shape):
        channel.legend = alt.Legend(title=None, orient="top-left", offset=4)
    line = alt.Chart(data(ends, "diagonal")).mark_line(color=QUIET, strokeDash=[5, 3]).encode(x=x, y=y)
    dots = alt.Chart().mark_point(filled=True, size=80, opacity=1)
    return alt.layer(line, dots.encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip(READING))).properties(
        width=WIDTH - 120, height=340
    )
