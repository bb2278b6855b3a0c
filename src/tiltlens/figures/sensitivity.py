"""How strong an omitted factor would have to be: the adjusted gap that is left, by its two strengths."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import labels, versus
from tiltlens.documents.sensitivity import sensitivity_words
from tiltlens.documents.summary_access import Record
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, FAINT, INK, QUIET, WIDTH, altair, halo
from tiltlens.formats import percent
from tiltlens.rows.measures import Measure, measure_of

TITLE = "Strength of an omitted factor"
DRAWN = 8  # listed features, the strongest first
LEFT = (0.75, 0.5, 0.25, 0.0)  # parts of the gap that the curves leave; 0: all is accounted for
STEPS = 40
NAMED = 0.08  # part of an axis, below which names would lie on each other
FEATURE = 18  # letters of a name


def sensitivity(comparison: Record, quantity: str = "adjusted_gap") -> Figure:
    """Return curves of equal gap by the shares that an omitted factor explains, with listed features as points."""
    found, m = comparison["gap_parts"]["sensitivity"].get(quantity), measure_of(comparison)
    if found is None:
        return nothing(TITLE, "the adjusted gap was not estimated from rows")
    words = " ".join(sensitivity_words(comparison, quantity))
    if not found["gap"]["value"] or not found["scale"]:
        return nothing(TITLE, words)
    points = found["yardsticks"][:DRAWN]
    names = labels((row["feature"] for row in points), FEATURE)
    strengths = [max(row[key] for row in points) for key in ("r2_group", "r2_score")] if points else [0.0, 0.0]
    right, top = (min(1.15 * max(most, 2.0 * found["robustness_value"]["value"]), 0.98) for most in strengths)
    records = [
        row | _texts(row) | {"label": name if max(row["r2_group"] / right, row["r2_score"] / top) > NAMED else ""}
        for row, name in zip(points, names, strict=True)
    ]
    lines = [point for left in LEFT for point in _curve(found, left, right, top, m)]
    note = f"curves: {m.unit} that a factor of this strength would leave of the gap; dots: listed features"
    description = f"{versus(comparison)}. {words} Further right and up, an omitted factor accounts for more."
    return figure(_chart(records, lines, right, top, m), records or [{"label": ""}], TITLE, description, note)


def _texts(row: Record) -> Record:
    return {f"{key}_text": percent(row[key]) for key in ("r2_score", "r2_group")}


def _curve(found: Record, left: float, right: float, top: float, m: Measure) -> list[Record]:
    """Return R²_W = (B/𝒮)²·(1 − R²_S)/R²_S within the figure, B what is taken from the gap."""
    taken = ((1.0 - left) * found["gap"]["value"] / found["scale"]) ** 2
    start = taken / (top + taken)
    name = f"{m.difference(left * found['gap']['value'])} {m.abbreviation}".rstrip() if left else "0"
    if start >= right:
        return []
    shares = [start * (right / start) ** (step / STEPS) for step in range(STEPS + 1)]
    points = [(x, taken * (1.0 - x) / x) for x in shares]
    named = min(points, key=lambda point: abs(point[0] / right - point[1] / top))  # on the diagonal, away from the axes
    return [
        {"name": name, "is_zero": left == 0.0, "step": step, "r2_group": point[0], "r2_score": point[1]}
        | {"shown": name if point == named else None}
        for step, point in enumerate(points)
    ]


def _chart(records: list[Record], lines: list[Record], right: float, top: float, m: Measure) -> Any:
    alt = altair()
    axis = alt.Axis(format=".0%", tickCount=6)
    x = alt.X("r2_group:Q", title="share of the group that it explains →", axis=axis)
    y = alt.Y("r2_score:Q", title=f"share of the {m.output} that it explains →", axis=axis)
    x.scale, y.scale = (alt.Scale(domain=[0, end], nice=False) for end in (right, top))
    base = alt.Chart(data(lines, "curves")).encode(x=x, y=y)
    curves = base.mark_line(clip=True).encode(
        detail=alt.Detail("name:N"),
        order=alt.Order("step:Q"),
        color=alt.condition("datum.is_zero", alt.value(AUDITED), alt.value(FAINT)),
        strokeWidth=alt.condition("datum.is_zero", alt.value(2.2), alt.value(1)),
    )
    names = base.transform_filter("datum.shown != null").encode(text=alt.Text("shown:N"))
    layers = [curves, *halo(names, align="left", dx=4, dy=-4, fontSize=11, color=QUIET)]
    if records:
        tooltip = [
            alt.Tooltip("feature:N", title="feature"),
            alt.Tooltip("r2_group_text:N", title="of the group"),
            alt.Tooltip("r2_score_text:N", title=f"of the {m.output}"),
        ]
        dots = alt.Chart().mark_point(filled=True, size=70, opacity=1, color=INK).encode(x=x, y=y, tooltip=tooltip)
        named = alt.Chart().encode(x=x, y=y, text=alt.Text("label:N"))
        layers += [dots, *halo(named, align="left", dx=7, dy=-5)]
    return alt.layer(*layers).properties(width=WIDTH - 60, height=340)
