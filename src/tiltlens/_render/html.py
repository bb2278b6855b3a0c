"""Documents as HTML: blocks, the parts of the page with the numbers that move in it, and what notebooks show."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from html import escape
from importlib.util import find_spec
from typing import Any

import polars as pl

from tiltlens import figures
from tiltlens._documents import document as doc
from tiltlens._documents import sentences as words
from tiltlens._documents import tables
from tiltlens._documents.headline import named_list, of_kind
from tiltlens._documents.prices import price_blocks
from tiltlens._documents.result_documents import document_of
from tiltlens._documents.sentences import error_rate_blocks, sensitivity_blocks, splitting_blocks
from tiltlens._formats import label
from tiltlens._render.terminal import unsplit
from tiltlens._results.audit import Audit
from tiltlens._results.codec import to_plain
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import Contribution
from tiltlens._rows.wording import ScoreType
from tiltlens.errors import NothingToDrawError
from tiltlens.figures import Figure
from tiltlens.figures._figure import joined
from tiltlens.figures._marks import FULL, dial_place, drawn_features, on_page

CLASSES = {doc.HEADLINE: "answer"}
Draw = Callable[[doc.FigureRef], str]
Name = Callable[[int, doc.Cell], str]


def blocks_html(blocks: Iterable[doc.Block], draw: Draw) -> str:
    """Return blocks as HTML; `draw` returns a figure as HTML."""
    return "\n".join(_block(block, draw) for block in blocks)


def _block(block: doc.Block, draw: Draw) -> str:
    match block:
        case doc.Heading(text, level):
            return f"<h{level}>{escape(text)}</h{level}>"
        case doc.Paragraph(text, tone):
            kind = CLASSES.get(tone, tone)
            text = escape(unsplit(text))
            return f'<p class="{kind}">{text}</p>' if kind else f"<p>{text}</p>"
        case doc.Bullets(items):
            return f'<ul class="notes">{"".join(f"<li>{escape(unsplit(item))}</li>" for item in items)}</ul>'
        case doc.Table():
            return table_html(block)
        case doc.FigureRef():
            return draw(block)
        case doc.Details(title, blocks):
            return f"<details><summary>{escape(title)}</summary>{blocks_html(blocks, draw)}</details>"


def table_html(table: doc.Table, name: Name | None = None, split: int | None = None) -> str:
    """Return a table as HTML.

    `name` returns the content of a row's first cell, given the row's index. Rows from `split` on are hidden until the
    page's script shows them.
    """
    heads = "".join(_head(table, index, column) for index, column in enumerate(table.columns))
    rows = [_row(table, index, row, name) for index, row in enumerate(table.rows)]
    body = f"<tbody>{''.join(rows[:split])}</tbody>"
    if split is not None and len(rows) > split:
        body += f'<tbody class="more" hidden>{"".join(rows[split:])}</tbody>'
    title = escape(table.name.replace("-", " ").capitalize())
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{title}"><table class="{table.name} reflow">'
        f"<thead><tr>{heads}</tr></thead>{body}</table></div>"
    )


def _head(table: doc.Table, index: int, column: doc.Column) -> str:
    has_intervals = table.interval and any(row[index].interval for row in table.rows)
    level = f" <small>{escape(table.interval)}</small>" if has_intervals else ""
    kind = ' class="number"' if column.kind == doc.NUMBER else ""
    label = escape(column.label).replace("_", "_<wbr>")  # so that long column names can break here
    return f'<th scope="col"{kind}>{label}{level}</th>'


def _row(table: doc.Table, index: int, row: tuple[doc.Cell, ...], name: Name | None) -> str:
    cells = []
    for column, cell in zip(table.columns, row, strict=True):
        if column.kind == doc.NAME:
            text = escape(cell.text) if name is None else name(index, cell)
            cells.append(f'<th scope="row">{text}</th>')
        else:
            cells.append(_cell(column, cell))
    is_immaterial = any(
        cell.mark == doc.NOTHING for column, cell in zip(table.columns, row, strict=True) if column.kind == doc.TEXT
    )
    kind = ' class="immaterial"' if is_immaterial else ""
    return f"<tr{kind}>{''.join(cells)}</tr>"


def _cell(column: doc.Column, cell: doc.Cell) -> str:
    label, text = escape(column.label), escape(cell.text)
    if column.kind != doc.NUMBER:
        text = f'<span class="verdict {cell.mark}">{text}</span>' if cell.mark else text
        return f'<td class="{"judged" if cell.mark else "words"}" data-name="{label}">{text}</td>'
    value = "" if cell.value is None else f' data-value="{cell.value}"'
    ends = f" <small>{escape(cell.interval)}</small>" if cell.interval else ""
    kind = f"number {cell.mark}" if cell.mark else "number"
    return f'<td class="{kind}" data-name="{label}"{value}>{text}{ends}</td>'


def document_html(document: doc.Document) -> str:
    """Return a document as HTML without styles."""
    title = f"<p><b>{escape(label(document.title, 200))}</b></p>" if document.title else ""
    return f"<div>{title}{blocks_html(document.blocks, _picture)}</div>"


def result_html(result: object) -> str:
    """Return the document of a result as HTML; that of an audit is brief."""
    return document_html(document_of(result, **({"is_brief": True} if isinstance(result, Audit) else {})))


def _picture(reference: doc.FigureRef) -> str:
    """Return a figure as an embedded SVG image, or "" if the drawing packages are not installed."""
    if any(find_spec(package) is None for package in ("altair", "vl_convert")):
        return ""
    if (figure := figures.draw(reference)) is None:
        return ""
    content = b64encode(figure._repr_mimebundle_()["image/svg+xml"].encode()).decode()
    return f'<img style="max-width: 100%" alt="{escape(figure.description)}" src="data:image/svg+xml;base64,{content}">'


Plain = dict[str, Any]  # JSON data for the page's script
PICTURED = 8  # maximum number of groups with figures and profiles, to keep the page small
DETAILED = 2  # maximum number of groups with a weighting slider, all figures and their tables
OF_SCORES, OF_GAP = ("score_distribution", "score_calibration"), ("periods", "waterfall")
EXPERT_IN_TABLES, EXPERT = ("proxy_map", "correction_shares"), ("paths", "overlap", "calibration")
CHECKS = ("balance", "sensitivity", "splitting", "prices")
DIAL_ROWS = 25  # maximum number of features whose shares follow the slider
SHORT = 40  # maximum number of characters of a name beside the slider
SHOWN = 25  # rows of the table of features that are shown at first
FOLDED = 10  # immaterial features above which a printed page only lists their names
MOST_IMMATERIAL = 100  # maximum number of names in that list
CORRECTION = (
    "Histogram of the correction function over the audited group, at the position of the slider. Profiles right of 0 "
    "are under-represented among them, those left of 0 over-represented."
)


@dataclass(frozen=True, slots=True, eq=False)
class Drawing:
    """A figure on the page. Title and note are HTML text, so that they wrap and can be read aloud."""

    element: str
    title: str
    note: str
    description: str
    spec: Comparison
    table: pl.DataFrame | None  # None if a table on the page already has its numbers
    table_note: str = ""

    @classmethod
    def of(cls, element: str, figure: Figure) -> Drawing:
        """Return the drawing of a figure that fills its column."""
        spec = on_page(figure.spec(width="container") | {"background": "transparent"})
        del spec["title"]
        table = figure.table.select(*figure.reading).rename(dict(figure.reading))
        return cls(element, figure.title, joined(figure.subtitle, figure.note), figure.description, spec, table)


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One audited group on the page: its index, comparison, findings, tables as HTML, and drawings by name."""

    index: int
    name: str
    c: Comparison
    findings: list[str]
    tables: dict[str, Any]
    drawings: dict[str, Drawing]


def section(audit: Audit, index: int, name: str) -> Section:
    """Return the section on one audited group; only the first few groups have figures."""
    c = audit.comparisons[name]
    drawings = _drawings(c, index) if index < PICTURED else {}
    findings = words.findings(audit, c, len(audit) == 1)
    return Section(index, name, c, findings, _tables(c, bool(drawings)), drawings)


def _tables(c: Comparison, is_drawn: bool) -> dict[str, str]:
    """Return the tables of a comparison as HTML, "" for those without content."""
    from markupsafe import Markup

    made: dict[str, doc.Table | None] = {
        "estimates": tables.estimate_table(c),
        "deciles": None if c.outputs.decile_shares.is_empty() else tables.decile_table(c),
        "decisions": None if c.decision_table is None else tables.decision_table(c, c.decision_table.counts),
        "factors": tables.factor_table(c) if c.by_feature else None,
        "correction": tables.correction_table(c),
    }
    rendered: dict[str, str] = {name: Markup(table_html(table) if table else "") for name, table in made.items()}
    blocks = {
        "sensitivity": sensitivity_blocks(c),
        "splitting": splitting_blocks(c),
        "prices": price_blocks(c),
        "error_rates": [] if c.error_rates is None else error_rate_blocks(c, c.error_rates),
    }
    rendered |= {name: Markup(blocks_html(part, lambda reference: "")) for name, part in blocks.items()}
    contributions = tables.contribution_table(c, has_reasons=True)
    rendered["contributions"] = Markup(
        table_html(contributions, lambda index, cell: _feature_button(index, cell, is_drawn), SHOWN)
    )
    names = [row.feature for row in of_kind(c.by_feature, doc.NOTHING)]
    rendered["immaterial"] = named_list(names, MOST_IMMATERIAL) if len(names) > FOLDED else ""
    return rendered


def _feature_button(index: int, cell: doc.Cell, is_drawn: bool) -> str:
    """Return the name of a feature as a button that shows its profile."""
    text, state = escape(cell.text), "" if is_drawn else " disabled"
    return (
        f'<button type="button" class="feature" data-feature="{index}" aria-pressed="false"{state}>'
        f'<bdi title="{text}">{text}</bdi></button>'
    )


def _drawings(c: Comparison, index: int) -> dict[str, Drawing]:
    """Return the drawings of a comparison; those of the inputs only for the first groups."""
    is_detailed = index < DETAILED
    # Decisions are counted in a table instead; the correction is drawn for the first groups only.
    is_drawn = is_detailed and c.scale.score_type != ScoreType.DECISION
    names = [*(OF_SCORES if is_drawn else ()), *OF_GAP]
    names += EXPERT if is_detailed and c.correction.numbers is not None else ()
    names += CHECKS if is_detailed else ()
    in_tables = ["features", *(EXPERT_IN_TABLES if is_detailed else ())]
    drawings = {
        name: Drawing.of(f"{name}-{index}", figure)
        for name in (*in_tables, *names)
        if (figure := figures.draw(doc.FigureRef(name, (c,)))) is not None
    }
    without = in_tables if is_detailed else [*drawings]
    drawings |= {name: replace(drawings[name], table=None) for name in without if name in drawings}
    turning = _turning(c, index) if is_detailed and c.correction.numbers is not None else None
    return drawings | ({"correction": turning} if turning else {})


def _turning(c: Comparison, index: int) -> Drawing | None:
    """Return the drawing of the correction that follows the slider, or None if it has nothing to show."""
    position = dial_place(c)
    at = c.bins().tradeoff[position].position
    try:
        drawing = Drawing.of(f"correction-{index}", figures.correction_distribution(c, position))
    except NothingToDrawError:
        return None
    return replace(drawing, note="", table_note=f"at the slider's first position, {at:.2f}", description=CORRECTION)


def moving(c: Comparison, has_dial: bool = True) -> Plain:
    """Return the data of a comparison that follow the slider or a click; features are a list, to keep their order."""
    shares, bins = _shares(c) if has_dial else {}, c.bins()
    return {
        "audited": label(c.audited, SHORT),
        "reference": label(c.reference, SHORT),
        "mean": doc.measure_of(c).mean,
        "dial": to_plain(bins.tradeoff) if has_dial else [],
        "correction": bins.correction if has_dial else [],
        "features": [
            _feature(c, text, row, has_dial) | {"shares": shares.get(row.feature)}
            for text, row in drawn_features(c, None, SHORT)
        ],
    }


def _shares(c: Comparison) -> dict[str, list[list[float | None]]]:
    """Return share, low and high at each position of the slider, for the first features that have a share."""
    names = [row.feature for row in c.by_feature if row.share is not None][:DIAL_ROWS]
    shares: dict[str, list[list[float | None]]] = {}
    for row in c.correction.shares_along_tradeoff().sort("position", maintain_order=True).iter_rows(named=True):
        if row["feature"] in names:
            shares.setdefault(row["feature"], []).append([row["share"], row["low"], row["high"]])
    return shares


def _feature(c: Comparison, text: str, row: Contribution, has_dial: bool) -> Plain:
    profile, m = c.bins().profiles[row.feature], doc.measure_of(c)
    unused = {"correction", "scores", "log_odds", "score"}
    still = {} if has_dial else {"quantiles": None, "mean_correction": None}
    values = [
        {key: entry for key, entry in to_plain(value).items() if key not in unused}
        | {"value": name, "score_text": m.level(value.score)}
        | still
        for name, value in zip(doc.labels((value.value for value in profile.values), 100), profile.values, strict=True)
    ]
    return {
        "name": label(row.feature, FULL),
        "label": text,
        "direction": label(row.direction, 400),
        "notes": label(row.notes, 400),
        "reason": label(row.reason, 400),
        "values": values,
    }


def shorten(parts: dict[str, Plain]) -> bool:
    """Remove quantiles from half of the features that have them; if none has any, remove profiles instead.

    The weaker half is shortened. Return whether there was anything to remove.
    """
    features = [feature for part in parts.values() for feature in part["features"]]
    moving_ones = [feature for feature in features if any(value["quantiles"] for value in feature["values"])]
    for feature in moving_ones[len(moving_ones) // 2 :]:
        feature["values"] = [value | {"quantiles": None} for value in feature["values"]]
    if moving_ones:
        return True
    profiled = [feature for feature in features if feature["values"]]
    for feature in profiled[len(profiled) // 2 :]:
        feature["values"] = []
    return bool(profiled)
