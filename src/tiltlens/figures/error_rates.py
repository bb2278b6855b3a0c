"""Do scores mean the same in both groups? How often people have the outcome, by decile of the score."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import groups, versus
from tiltlens.documents.summary_access import Record
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, QUIET, REFERENCE, WIDTH, altair
from tiltlens.formats import percent, with_interval
from tiltlens.rows.measures import measure_of


def score_calibration(comparison: Record) -> Figure:
    """Return how often people have the outcome against their mean score, by decile of all scores and by group."""
    rates, m = comparison["error_rates"], measure_of(comparison)
    title = f"Do {m.each}s mean the same in both groups?"
    if rates is None:
        return nothing(title, "no outcome was given beside the scores")
    names = dict(zip(("audited", "reference"), groups(comparison), strict=True))
    records = [_record(row, names[row["group"]]) for row in rates["by_decile"] if row["observed"] is not None]
    if not records:
        return nothing(title, "each decile has fewer than ten people whose outcome is known, or would tell of one")
    description = (
        f"{versus(comparison)}. One dot a group and decile of all {m.each}s: across, the {m.mean}, up, how often "
        "people have the outcome, with its interval. On the diagonal the two agree."
    )
    hidden = any(row["observed"] is None and row["n"] is None for row in rates["by_decile"])
    note = "deciles with fewer than ten people of a group are left out" if hidden else ""
    agree = f"on the diagonal, {m.each} and outcome agree"
    return figure(_chart(records, names, m.mean), records, title, description, agree, note)


def _record(row: Record, name: str) -> Record:
    ends = row["observed_low"], row["observed_high"]
    text = with_interval(row["observed"], *ends, shown=percent)
    return {key: row[key] for key in row if key != "group"} | {"group": name, "shown": text}


def _chart(records: list[Record], names: dict[str, str], mean: str) -> Any:
    alt = altair()
    scale = alt.Scale(domain=[0, 1], nice=False)
    percents = alt.Axis(format=".0%", tickCount=5)
    x = alt.X("mean_score:Q", title=mean, scale=scale, axis=percents)
    y = alt.Y("observed:Q", title="with the outcome", scale=scale, axis=percents)
    domain = list(names.values())
    colour = alt.Color("group:N", scale=alt.Scale(domain=domain, range=[AUDITED, REFERENCE]))
    shape = alt.Shape("group:N", scale=alt.Scale(domain=domain, range=["circle", "square"]))
    for channel in (colour, shape):
        channel.legend = alt.Legend(title=None, orient="top-left", offset=4)
    ends = [{"mean_score": end, "observed": end} for end in (0, 1)]
    line = alt.Chart(data(ends, "diagonal")).mark_line(color=QUIET, strokeDash=[5, 3]).encode(x=x, y=y)
    whiskers = alt.Chart().transform_filter("datum.observed_low != null").mark_rule(strokeWidth=1.6, opacity=0.7)
    whiskers = whiskers.encode(x=x, y=alt.Y("observed_low:Q"), y2=alt.Y2(field="observed_high"), color=colour)
    dots = alt.Chart().mark_point(filled=True, size=80, opacity=1)
    tooltip = [
        alt.Tooltip("group:N", title="group"),
        alt.Tooltip("decile:O", title="decile"),
        alt.Tooltip("mean_score:Q", title=mean, format=".1%"),
        alt.Tooltip("shown:N", title="with the outcome"),
        alt.Tooltip("n:Q", title="people", format=","),
    ]
    return alt.layer(line, whiskers, dots.encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip)).properties(
        width=WIDTH - 120, height=340
    )
