"""The table as a picture: a square for each tool and question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planted_proxies.scoring import HARD, QUESTIONS, Question
from planted_proxies.tables import Row

INK, PAPER = "#1F2328", "white"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
COLOURS = ["#F6E8D9", "#9DBBD8", "#0B5394"]  # 0, half, all; also apart in grey
DARK = 0.7  # from this share on the number is white
CELL = 54


def squares(rows: Sequence[Row], questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Return what is drawn: the share by the own rule, in brackets by the best cut where there is no rule."""
    found = []
    for row in rows:
        for question in questions:
            cell = {"own": None, "best": None} if "failed" in row else row["questions"][question.name]
            share = cell["best"] if cell["own"] is None else cell["own"]
            text = "–" if share is None else f"{100 * share:.0f}"
            text = f"({text})" if cell["own"] is None and share is not None else text
            place = {"tool": row["name"], "question": question.name}
            found.append(place | {"share": share, "text": text, "is_dark": share is not None and share >= DARK})
    return found


def chart(rows: Sequence[Row]) -> Any:
    """Return the picture: what is planted, and beside it what tiltlens fails."""
    import altair as alt

    parts = [_part(alt, rows, QUESTIONS, labels=True), _part(alt, rows, HARD, labels=False)]
    return (
        alt.hconcat(*parts, spacing=18)
        .configure(font=FONT, padding=12)
        .configure_axis(labelLimit=320, labelFontSize=12, labelColor=INK, domain=False, ticks=False, labelPadding=6)
        .configure_view(stroke=None)
        .configure_scale(invalid={"color": {"value": "#F3F4F6"}})
    )


def _part(alt: Any, rows: Sequence[Row], questions: Sequence[Question], labels: bool) -> Any:
    tools, asked = [row["name"] for row in rows], [question.name for question in questions]
    base = alt.Chart(alt.Data(values=squares(rows, questions))).encode(
        x=alt.X("question:N", sort=asked, title=None, axis=alt.Axis(orient="top", labelAngle=-35, labelAlign="left")),
        y=alt.Y("tool:N", sort=tools, title=None, axis=alt.Axis(labels=labels)),
    )
    shade = alt.Color("share:Q", scale=alt.Scale(domain=[0, 0.5, 1], range=COLOURS), legend=None)
    cells = base.mark_rect(stroke=PAPER, strokeWidth=2).encode(color=shade)
    white = alt.condition("datum.is_dark", alt.value(PAPER), alt.value(INK))
    numbers = base.mark_text(fontSize=12).encode(text="text:N", color=white)
    return (cells + numbers).properties(width=CELL * len(asked), height=34 * len(tools))


def write(rows: Sequence[Row], path: Path) -> None:
    """Write the picture as SVG."""
    import vl_convert

    path.write_text(vl_convert.vegalite_to_svg(chart(rows).to_json()), encoding="utf-8")
