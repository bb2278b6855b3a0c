"""The gain from separate models, by group."""

from __future__ import annotations

from tiltlens.documents.labels import BOTH, groups, versus
from tiltlens.documents.quantities import written
from tiltlens.documents.sentences import GAIN_COLUMNS, GAIN_STATES
from tiltlens.figures.figure import Figure, figure, in_unit, noted, nothing
from tiltlens.figures.marks import axis, dots, interval, lines_at, name_axis, reach, scaled, tooltip
from tiltlens.figures.theme import WIDTH, altair
from tiltlens.formats import percent
from tiltlens.results.comparison import Comparison

TITLE = "Gain from a separate model for each group"


def splitting(c: Comparison) -> Figure:
    """Return the gain in Brier score at equal weights, of each group, and at the worst weights, with intervals."""
    gains = c.splitting
    if gains is None:
        raise nothing(TITLE, "the audit has no outcome, or too few people with one")
    whole, names = gains.blind_brier, dict(zip(BOTH, groups(c), strict=True))
    records = []
    for key, text in GAIN_COLUMNS.items():
        gain = gains.relative(gains.brier.of(key))
        texts = {"label": names.get(key, text), "text": written(gain, percent)}
        records.append(texts | scaled({"gain": gain}, 1.0))
    limit = gains.materiality / whole
    state = GAIN_STATES[gains.status["both"]]
    description = f"{versus(c)}. At equal weights: {state}. One dot per row, with its interval."
    what = "reduction of the Brier score, in % of that of one model →"
    reading = {"label": "group", "text": "gain"}
    x = axis("x", "gain", what, reach(records, ("gain",), 0.0, limit, room=0.04), format=".1%")
    y = name_axis()
    chart = altair().layer(
        lines_at("x", [0.0, limit], what),
        interval("x", "gain", what, y),
        dots("gain").encode(x=x, y=y, tooltip=tooltip(reading)),
    )
    note = noted(c, f"dashed: materiality threshold, {percent(limit)}")
    chart = chart.properties(width=WIDTH - 100, height=130)
    return figure(chart, records, TITLE, description, reading, in_unit(c, "% of the Brier score"), note)
