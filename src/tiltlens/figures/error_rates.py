"""Calibration of scores by group: the observed rate of the outcome by decile of the score."""

from __future__ import annotations

from tiltlens.documents.labels import BOTH, groups, measure_of, versus
from tiltlens.documents.quantities import written
from tiltlens.figures.figure import Figure, Record, data, figure, in_unit, noted, nothing
from tiltlens.figures.marks import axis, dots, interval, tooltip
from tiltlens.figures.theme import AUDITED, QUIET, REFERENCE, WIDTH, ChartPart, altair
from tiltlens.formats import count, percent
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import row_estimate


def score_calibration(c: Comparison) -> Figure:
    """Return the observed rate of the outcome against the mean score, by decile of all scores and by group."""
    rates, m = c.error_rates, measure_of(c)
    title = f"Calibration of {m.each}s by group"
    if rates is None:
        raise nothing(title, "the audit has no outcome")
    if c.scale.score_type == "decision":
        raise nothing(title, "decisions are 0 or 1; their error rates are in the report")
    deciles = rates.by_decile.to_dicts()
    names = dict(zip(BOTH, groups(c), strict=True))
    records = [_record(row, names[row["group"]]) for row in deciles if row["observed"] is not None]
    if not records:
        raise nothing(title, "each decile has fewer than ten people with an outcome, or reveals one that has")
    description = (
        f"{versus(c)}. One dot per group and decile of all {m.each}s: across, the {m.mean}; up, the observed "
        "rate of the outcome, with its interval. On the diagonal the two are equal."
    )
    is_hidden = any(row["observed"] is None and row["n"] is None for row in deciles)
    few = "deciles with fewer than ten people of a group are left out" if is_hidden else ""
    reading = {"group": "group", "decile": "decile", "mean_text": m.mean, "text": "observed rate", "people": m.people}
    note = noted(c, "dashed: observed rate equals score", few)
    subtitle = in_unit(c, "% of each decile of scores")
    return figure(
        _chart(records, names, m.mean, tooltip(reading)), records, title, description, reading, subtitle, note
    )


def _record(row: Record, name: str) -> Record:
    text = written(row_estimate(row, "observed"), percent)
    texts = {"group": name, "text": text, "mean_text": percent(row["mean_score"]), "people": count(row["n"])}
    return {key: row[key] for key in row if key != "group"} | texts


def _chart(records: list[Record], names: dict[str, str], mean: str, tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    percents: Record = {"format": ".0%", "tickCount": 5}
    x = axis("x", "mean_score", mean, [0, 1], **percents)
    y = axis("y", "observed", "observed rate of the outcome", [0, 1], **percents)
    domain = list(names.values())
    colour = alt.Color("group:N", scale=alt.Scale(domain=domain, range=[AUDITED, REFERENCE]))
    shape = alt.Shape("group:N", scale=alt.Scale(domain=domain, range=["circle", "square"]))
    for channel in (colour, shape):
        channel.legend = alt.Legend(title=None, orient="top-left", offset=4)
    ends = [{"mean_score": end, "observed": end} for end in (0, 1)]
    line = alt.Chart(data(ends, "diagonal")).mark_line(color=QUIET, strokeDash=[5, 3]).encode(x=x, y=y)
    whiskers = interval("y", "observed", y["title"], x, strokeWidth=1.6, opacity=0.7).encode(color=colour)
    marks = dots("observed").encode(x=x, y=y, color=colour, shape=shape, tooltip=tips)
    return alt.layer(line, whiskers, marks).properties(width=WIDTH - 120, height=340)
