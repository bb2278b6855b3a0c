"""What separate models would gain, by group."""

from __future__ import annotations

from tiltlens.documents.labels import groups, versus
from tiltlens.documents.splitting import COLUMNS, STATES
from tiltlens.documents.summary_access import Record
from tiltlens.figures.figure import Figure, figure, in_unit, noted, nothing
from tiltlens.figures.marks import axis, dots, interval, lines_at, name_axis, reach, tooltip
from tiltlens.figures.theme import WIDTH, altair
from tiltlens.formats import percent, with_interval

TITLE = "Gain from a separate model for each group"


def splitting(comparison: Record) -> Figure:
    """Return the gain in Brier score at equal weights, of each group, and at the worst weights, with intervals."""
    gains = comparison.get("splitting")
    if not gains:
        raise nothing(TITLE, "the audit has no outcome, or too few people with one")
    whole, names = gains["blind_brier"], dict(zip(("audited", "reference"), groups(comparison), strict=True))
    records = []
    for key, text in COLUMNS.items():
        value, low, high = (gains["brier"][key][end] / whole for end in ("value", "low", "high"))
        texts = {"label": names.get(key, text), "text": with_interval(value, low, high, shown=percent)}
        records.append(texts | {"gain": value, "gain_low": low, "gain_high": high})
    limit = gains["materiality"] / whole
    state = STATES[gains["status"]["both"]]
    description = f"{versus(comparison)}. At equal weights: {state}. One dot per row, with its interval."
    what = "reduction of the Brier score, in % of that of one model →"
    reading = {"label": "group", "text": "gain"}
    x = axis("x", "gain", what, reach(records, ("gain",), 0.0, limit, room=0.04), format=".1~%")
    y = name_axis()
    chart = altair().layer(
        lines_at("x", [0.0, limit], what),
        interval("x", "gain", what, y),
        dots("gain").encode(x=x, y=y, tooltip=tooltip(reading)),
    )
    note = noted(comparison, f"dashed: materiality threshold, {percent(limit)}")
    chart = chart.properties(width=WIDTH - 100, height=130)
    return figure(chart, records, TITLE, description, reading, in_unit(comparison, "% of the Brier score"), note)
