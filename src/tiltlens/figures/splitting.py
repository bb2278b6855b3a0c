"""What separate models would gain, by group."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import groups, versus
from tiltlens.documents.splitting import COLUMNS, STATES
from tiltlens.documents.summary_access import Record
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import FAINT, INK, WIDTH, altair
from tiltlens.formats import percent, with_interval

TITLE = "Gain by separate models"


def splitting(comparison: Record) -> Figure:
    """Return the gain in Brier score at equal weights, of each group, and at the worst weights, with intervals."""
    found = comparison.get("splitting")
    if not found:
        return nothing(TITLE, "no outcome was given, or too few people have one")
    whole, names = found["blind_brier"], dict(zip(("audited", "reference"), groups(comparison), strict=True))
    records = []
    for key, text in COLUMNS.items():
        value, low, high = (found["brier"][key][end] / whole for end in ("value", "low", "high"))
        shown = with_interval(value, low, high, shown=percent)
        records.append({"who": names.get(key, text), "gain": value, "low": low, "high": high, "shown": shown})
    limit = found["materiality"] / whole
    state = STATES[found["status"]["both"]]
    description = f"{versus(comparison)}. At equal weights: {state}. One dot a line, with its interval."
    note = f"percent of the Brier score of one model; dashed: materiality threshold, {percent(limit)}"
    return figure(_chart(records, limit), records, TITLE, description, note)


def _chart(records: list[Record], limit: float) -> Any:
    alt = altair()
    x = alt.X("gain:Q", title="lower Brier score →", axis=alt.Axis(format=".1%"), scale=alt.Scale(zero=True))
    y = alt.Y("who:N", title=None, sort=[record["who"] for record in records])
    line = alt.Chart(data([{"gain": limit}], "threshold")).mark_rule(color=FAINT, strokeDash=[6, 3]).encode(x=x)
    whiskers = alt.Chart().transform_filter("datum.low != null").mark_rule(strokeWidth=1.6, color=INK)
    whiskers = whiskers.encode(x=alt.X("low:Q", title=x["title"]), x2=alt.X2(field="high"), y=y)
    dots = alt.Chart().mark_point(filled=True, size=80, opacity=1, color=INK)
    tooltip = [alt.Tooltip("who:N", title="group"), alt.Tooltip("shown:N", title="gain")]
    return alt.layer(line, whiskers, dots.encode(x=x, y=y, tooltip=tooltip)).properties(width=WIDTH, height=130)
