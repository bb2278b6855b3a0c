"""Both groups' distributions back to back: of the score, and of the log-ratio."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import groups, versus
from tiltlens.documents.summary_access import Record, means
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, INK, PAPER, QUIET, REFERENCE, WIDTH, altair
from tiltlens.formats import percent
from tiltlens.rows.measures import measure_of

HIDDEN = "suppressed: fewer than 10 people, or derivable"  # a bin of any size, if small ones would follow from it
WITHHELD = f"✕ {HIDDEN}"
HEAD = 1.3  # of the tallest bar: above it stand a name and a mean
FAR = 0.7  # of the way to the right
NO_SHAPE = "every bin has fewer than ten people, or would tell of one that has: nothing can be shown"


def score_distribution(comparison: Record) -> Figure:
    """Return the distributions of the score in both groups, audited above and reference below, with their means."""
    (audited, reference), m = means(comparison), measure_of(comparison)
    title = f"How the {m.each}s are distributed"
    word = f"1 − {m.each}" if comparison["scale"]["metric"] == "fnr" else m.each
    records = _records(comparison["bins"]["score"])
    if not any(record["share"] for record in records):
        return nothing(title, NO_SHAPE)
    marked = [
        {"group": group, "mean": mean, "text": f"mean {m.level(mean)}", "side": side}
        for group, mean, side in (("audited", audited, 1), ("reference", reference, -1))
    ]
    description = (
        f"{versus(comparison)}. Back-to-back histograms of the {word}: the audited group above, the reference group "
        f"below. The means are {m.level(audited)} and {m.level(reference)}."
    )
    bins = comparison["bins"]["score"]
    domain = [bins[0]["from"], bins[-1]["to"]]
    chart = _mirrored(comparison, records, word, domain, marked, m.axis)
    open_ends = "people beyond either end stand in the last bin" if m.is_amount else ""
    return figure(chart, records, title, description, open_ends, _note(records))


def overlap(comparison: Record) -> Figure:
    """Return the distributions of the log-ratio in both groups: where one is empty, they cannot be compared."""
    title = "Do the two groups overlap?"
    records = _records(comparison["bins"]["overlap"])
    if not any(record["share"] for record in records):
        return nothing(title, NO_SHAPE)
    description = (
        f"{versus(comparison)}. Back-to-back histograms of the log-ratio, which says how much commoner a record is in "
        "the audited group. Where one side is empty, people of the other group have no equals."
    )
    note = "where both sides have bars, people have equals in the other group"
    chart = _mirrored(
        comparison, records, ["log-ratio ℓ: commoner in", "the reference ← 0 → the audited group"], None, []
    )
    return figure(chart, records, title, description, note, _note(records))


def _records(bins: list[Record]) -> list[Record]:
    records = []
    for group, side in (("audited", 1), ("reference", -1)):
        for bar in bins:
            share = bar[group]
            text = HIDDEN if share is None else percent(share)
            records.append(
                {"group": group, "from": bar["from"], "to": bar["to"], "share": share, "shown": text}
                | {"height": None if share is None else side * share, "middle": (bar["from"] + bar["to"]) / 2}
                | {"side": side, "withheld": share is None}
            )
    return records


def _note(records: list[Record]) -> str:
    return WITHHELD if any(record["withheld"] for record in records) else ""


def _mirrored(
    comparison: Record,
    records: list[Record],
    axis: str | list[str],
    domain: list[float] | None,
    marked: list[Record],
    written: str | None = None,
) -> Any:
    alt = altair()
    tallest = max(record["share"] or 0.0 for record in records)
    scale = alt.Scale(domain=[-HEAD * tallest, HEAD * tallest])
    if domain is None:
        seen = [end for record in records if record["share"] != 0 for end in (record["from"], record["to"])]
        domain = [min(seen), max(seen)]
    x = alt.X("from:Q", title=axis, scale=alt.Scale(domain=domain, nice=False, clamp=True))
    if written is not None:
        x.axis = alt.Axis(format=written)
    ends = ",.4~g" if measure_of(comparison).is_amount and marked else ".2f"
    percents = alt.Axis(labelExpr="format(abs(datum.value), '.0%')", tickCount=5)
    colour = alt.Color(
        "group:N", scale=alt.Scale(domain=["audited", "reference"], range=[AUDITED, REFERENCE]), legend=None
    )
    base = alt.Chart().encode(color=colour)
    bars = base.mark_bar(stroke=PAPER, strokeWidth=0.6, opacity=0.9).encode(
        x=x,
        x2=alt.X2(field="to"),
        y=alt.Y("height:Q", title="share of each group", scale=scale, axis=percents),
        y2=alt.Y2(datum=0),
        tooltip=[
            alt.Tooltip("group:N", title="group"),
            alt.Tooltip("from:Q", title="from", format=ends),
            alt.Tooltip("to:Q", title="to", format=ends),
            alt.Tooltip("shown:N", title="share of the group"),
        ],
    )
    hidden = base.transform_filter("datum.withheld").mark_text(text="✕", fontSize=9)
    hidden = hidden.encode(x=alt.X("middle:Q"), y=alt.Y(datum=0), yOffset=alt.value(0))
    above = hidden.transform_filter("datum.side > 0").mark_text(text="✕", fontSize=9, dy=-7)
    below = hidden.transform_filter("datum.side < 0").mark_text(text="✕", fontSize=9, dy=8)
    zero = alt.Chart(data([{"zero": 0}], "baseline")).mark_rule(color=QUIET).encode(y=alt.Y("zero:Q"))
    layers = [bars, above, below, zero, *_names(comparison), *_means(marked, tallest, domain)]
    return alt.layer(*layers).properties(width=WIDTH, height=280)


def _names(comparison: Record) -> list[Any]:
    """Return the groups' names at the two corners."""
    alt = altair()
    audited, reference = groups(comparison)
    return [
        alt.Chart(data([{"name": f"{glyph} {text}"}], f"name_{role}"))
        .mark_text(align="left", baseline=baseline, fontWeight=600, color=colour, limit=300)
        .encode(text=alt.Text("name:N"), x=alt.value(4), y=alt.value(height))
        for role, glyph, text, colour, height, baseline in (
            ("audited", "▲", audited, AUDITED, 2, "top"),
            ("reference", "▼", reference, REFERENCE, 278, "bottom"),
        )
    ]


def _means(marked: list[Record], tallest: float, domain: list[float]) -> list[Any]:
    if not marked:
        return []
    alt = altair()
    far = domain[0] + FAR * (domain[1] - domain[0])
    ends = [
        mark
        | {"zero": 0, "end": mark["side"] * 1.06 * tallest}
        # Far to the right a narrow page has no room beyond the line.
        | ({"align": "right", "dx": -5} if mark["mean"] > far else {"align": "left", "dx": 5})
        for mark in marked
    ]
    base = alt.Chart(data(ends, "means")).encode(x=alt.X("mean:Q"))
    rules = base.mark_rule(color=INK, strokeWidth=1.5, strokeDash=[5, 3]).encode(
        y=alt.Y("zero:Q"), y2=alt.Y2(field="end")
    )
    at = {name: alt.expr(f"datum.{name}") for name in ("align", "dx")}
    texts = base.mark_text(fontWeight=600, **at).encode(y=alt.Y("end:Q"), text=alt.Text("text:N"))
    return [rules, texts]
