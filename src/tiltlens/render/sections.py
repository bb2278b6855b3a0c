"""The parts of the page: which figures a comparison is shown with, and the numbers that move in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Any

import polars as pl

from tiltlens import figures
from tiltlens.documents import audit_tables
from tiltlens.documents import sentences as words
from tiltlens.documents.document import Block, Cell, Table
from tiltlens.documents.error_rates import error_rate_blocks
from tiltlens.documents.first_screen import Doubt, reliability
from tiltlens.documents.headline import named_list, of_kind
from tiltlens.documents.labels import labels
from tiltlens.documents.prices import price_blocks
from tiltlens.documents.sensitivity import sensitivity_blocks
from tiltlens.documents.splitting import splitting_blocks
from tiltlens.documents.summary_access import FULL, dial_place, features
from tiltlens.documents.verdict_texts import NOTHING
from tiltlens.errors import NothingToDrawError
from tiltlens.figures import Figure
from tiltlens.figures.figure import joined
from tiltlens.figures.theme import on_page
from tiltlens.formats import LONGEST, label
from tiltlens.render.html import blocks_html, table_html
from tiltlens.rows.measures import measure_of

PICTURED = 8  # groups with pictures and profiles: the page must stay small
DETAILED = 2  # groups with a dial, all figures and the numbers behind them
OF_SCORES, OF_GAP = ("score_distribution", "score_calibration"), ("periods", "waterfall")
EXPERT_IN_TABLES, EXPERT = ("proxy_map", "correction_shares"), ("paths", "overlap", "calibration")
CHECKS = ("balance", "sensitivity", "splitting", "prices")
DIAL_ROWS = 25  # features whose shares follow the dial
SHORT = 40  # letters of a feature beside the dial
SHOWN = 25  # features of the table that is open
FOLDED = 10  # features without a material contribution from which on paper lists their names only
MOST_IMMATERIAL = 100  # of these names
CORRECTION = (
    "Histogram of the correction function over the audited group, at the position of the dial. Profiles right of 0 are "
    "under-represented among them, those left of 0 over-represented."
)


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A figure on the page. Title and note are the page's own text: they wrap, and are read aloud."""

    element: str
    title: str
    note: str
    description: str
    spec: dict[str, Any]
    table: pl.DataFrame | None  # nothing where a table beside the figure has its numbers
    table_note: str = ""

    @classmethod
    def of(cls, element: str, figure: Figure) -> Drawing:
        """Return a figure that fills its column."""
        spec = on_page(figure.spec(width="container") | {"background": "transparent"})
        del spec["title"]
        table = figure.table.select(*figure.reading).rename(dict(figure.reading))
        return cls(element, figure.title, joined(figure.subtitle, figure.note), figure.description, spec, table)


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One audited group on the page: its place, its numbers, its sentences and its drawings by name."""

    place: int
    name: str
    c: dict[str, Any]
    findings: list[str]
    reliability: list[Doubt]
    tables: dict[str, Any]
    drawings: dict[str, Drawing]


def overview(summary: dict[str, Any]) -> Drawing:
    """Return the picture of all groups together."""
    return replace(Drawing.of("rates", figures.rates(summary)), table=None)


def section(summary: dict[str, Any], place: int, name: str) -> Section:
    """Return the part of the page about one audited group; beyond the first few groups, without pictures."""
    c = summary["comparisons"][name]
    c = c | {"contributions": features(c, None, LONGEST)}
    drawings = _drawings(c, place) if place < PICTURED else {}
    findings, doubts = words.findings(summary, c, len(summary["comparisons"]) == 1), list(reliability(summary, c))
    return Section(place, name, c, findings, doubts, _tables(summary, c, bool(drawings)), drawings)


def _tables(summary: dict[str, Any], c: dict[str, Any], is_drawn: bool) -> dict[str, Any]:
    """Return the tables of a comparison as HTML, empty where it has none."""
    from markupsafe import Markup

    confidence = summary["settings"]["confidence"]
    tables: dict[str, Table | None] = {
        "estimates": audit_tables.estimate_table(summary, c),
        "deciles": audit_tables.decile_table(c, confidence) if c["outputs"]["decile_shares"] else None,
        "decisions": audit_tables.decision_table(c) if c["decision_table"] else None,
        "factors": audit_tables.factor_table(c) if c["contributions"] else None,
        "correction": audit_tables.correction_table(summary, c),
    }
    shown: dict[str, Any] = {name: Markup(table_html(table) if table else "") for name, table in tables.items()}
    errors: list[Block] = error_rate_blocks(c, confidence) if c["error_rates"] is not None else []
    parts = {"splitting": splitting_blocks(c, confidence), "prices": price_blocks(c, confidence)}
    for name, blocks in ({"sensitivity": sensitivity_blocks(c)} | parts).items():
        shown[name] = Markup(blocks_html(blocks, lambda reference: ""))
    shown["error_rates"] = Markup(blocks_html(errors, lambda reference: ""))
    contributions = audit_tables.contribution_table(c, has_reasons=True)
    shown["contributions"] = Markup(
        table_html(contributions, lambda index, cell: _feature_button(index, cell, is_drawn), SHOWN)
    )
    names = [row["feature"] for row in of_kind(c["contributions"], NOTHING)]
    shown["immaterial"] = named_list(names, MOST_IMMATERIAL) if len(names) > FOLDED else ""
    return shown


def _feature_button(index: int, cell: Cell, is_drawn: bool) -> str:
    """Return the name of a feature, which shows its profile."""
    text, state = escape(cell.text), "" if is_drawn else " disabled"
    return (
        f'<button type="button" class="feature" data-feature="{index}" aria-pressed="false"{state}>'
        f'<bdi title="{text}">{text}</bdi></button>'
    )


def _drawings(c: dict[str, Any], place: int) -> dict[str, Drawing]:
    """Return the drawings of a comparison: of its features and outputs; for the first groups those of its inputs."""
    is_detailed = place < DETAILED
    # Decisions are counted in a table, not drawn; the correction is drawn for the first groups only.
    is_drawn = is_detailed and c["scale"]["score_type"] != "decision"
    names = [*(OF_SCORES if is_drawn else ()), *OF_GAP]
    names += EXPERT if is_detailed and c["correction"]["numbers"] is not None else ()
    names += CHECKS if is_detailed else ()
    in_tables = ["features", *(EXPERT_IN_TABLES if is_detailed else ())]
    drawings = {
        name: Drawing.of(f"{name}-{place}", figure)
        for name in (*in_tables, *names)
        if (figure := _draw(c, name)) is not None
    }
    without = in_tables if is_detailed else [*drawings]
    drawings |= {name: replace(drawings[name], table=None) for name in without if name in drawings}
    turning = _turning(c, place) if is_detailed and c["correction"]["numbers"] is not None else None
    return drawings | ({"correction": turning} if turning else {})


def _draw(c: dict[str, Any], name: str) -> Figure | None:
    """Return a figure, nothing where the comparison has nothing to show in it."""
    try:
        return figures.COMPARISON_FIGURES[name](c)
    except NothingToDrawError:
        return None


def _turning(c: dict[str, Any], place: int) -> Drawing | None:
    """Return the drawing that follows the dial, if there is one."""
    position = dial_place(c)
    at = c["bins"]["tradeoff"][position]["position"]
    try:
        drawing = Drawing.of(f"correction-{place}", figures.correction_distribution(c, position))
    except NothingToDrawError:
        return None
    return replace(drawing, note="", table_note=f"at the dial's first position, {at:.2f}", description=CORRECTION)


def moving(c: dict[str, Any], has_dial: bool = True) -> dict[str, Any]:
    """Return the numbers of a comparison that follow the dial or a click, features as a list: a name is no key."""
    shares = _shares(c) if has_dial else {}
    return {
        "audited": label(c["audited"], SHORT),
        "reference": label(c["reference"], SHORT),
        "mean": measure_of(c).mean,
        "dial": c["bins"]["tradeoff"] if has_dial else [],
        "correction": c["bins"]["correction"] if has_dial else [],
        "features": [
            _feature(c, row, has_dial) | {"shares": shares.get(row["feature"])} for row in features(c, None, SHORT)
        ],
    }


def _shares(c: dict[str, Any]) -> dict[str, list[list[float | None]]]:
    """Return share, low and high at each position of the dial, of the first features that have a share."""
    names = [row["feature"] for row in c["contributions"] if row["share"] is not None][:DIAL_ROWS]
    found: dict[str, list[list[float | None]]] = {}
    for one in sorted(c["correction"]["tradeoff_table"], key=lambda one: one["position"]):
        if one["feature"] in names:
            found.setdefault(one["feature"], []).append([one["share"], one["low"], one["high"]])
    return found


def _feature(c: dict[str, Any], row: dict[str, Any], has_dial: bool) -> dict[str, Any]:
    profile = c["bins"]["profiles"][row["feature"]]
    unused = {"correction", "scores", "log_odds"}
    values = [{key: entry for key, entry in value.items() if key not in unused} for value in profile["values"]]
    texts = labels((value["value"] for value in values), 100)
    for value, text in zip(values, texts, strict=True):
        value["value"] = text
        value["score_text"] = measure_of(c).level(value.pop("score"))
        value |= {} if has_dial else {"quantiles": None, "mean_correction": None}
    return {
        "name": label(row["feature"], FULL),
        "label": row["label"],
        "direction": label(row["direction"], 400),
        "notes": label(row["notes"], 400),
        "reason": label(row["reason"], 400),
        "values": values,
    }


def shorten(parts: dict[str, dict[str, Any]]) -> bool:
    """Take quantiles, then whole profiles, from the weaker half of the features that have them.

    Return whether there were any.
    """
    features = [feature for part in parts.values() for feature in part["features"]]
    moving_ones = [one for one in features if any(value["quantiles"] for value in one["values"])]
    for feature in moving_ones[len(moving_ones) // 2 :]:
        feature["values"] = [value | {"quantiles": None} for value in feature["values"]]
    if moving_ones:
        return True
    profiled = [one for one in features if one["values"]]
    for feature in profiled[len(profiled) // 2 :]:
        feature["values"] = []
    return bool(profiled)
