"""The page: figures and tables of an audit, put together into one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from tiltlens import formats
from tiltlens.documents import glossary
from tiltlens.documents import sentences as words
from tiltlens.documents.audit_document import audit_title, overall_blocks
from tiltlens.documents.audit_tables import (
    MATRIX_NOTE,
    check_table,
    factor_words,
    group_matrix,
    group_table,
    shapley_words,
)
from tiltlens.documents.document import Block, Cell, FigureRef
from tiltlens.documents.first_screen import first_screen
from tiltlens.documents.headline import decision_table_words, expected, ratio_words
from tiltlens.documents.labels import by_gap, is_favourable_mean, measure_of, named
from tiltlens.errors import DataError, MissingExtraError
from tiltlens.figures import draw
from tiltlens.figures.distributions import HIDDEN
from tiltlens.figures.figure import altair, vl_convert
from tiltlens.figures.marks import dial_place
from tiltlens.render import sections
from tiltlens.render.html import blocks_html, table_html
from tiltlens.render.pdf import check_pdf, write_pdf
from tiltlens.render.unsplit import unsplit
from tiltlens.results.audit import Audit
from tiltlens.results.codec import Target, check_target, to_plain, write_text
from tiltlens.rows.wording import reason_words

DATA_LIMIT = 300_000  # characters of numbers; with the drawing library a page of nine groups stays below 1.5 MB
DIGITS = 10
ENDINGS = (".html", ".htm", ".pdf")
RUNNING = 110  # letters of the model at the foot of a printed page
FORMATS = (formats.number, formats.signed, formats.percent, formats.minus, formats.interval_name, formats.count)
WORDS = (decision_table_words, expected, factor_words, reason_words, shapley_words)
FUNCTIONS = (*FORMATS, *WORDS, unsplit, formats.label, formats.sentence)


def write_report(audit: Audit, target: Target) -> None:
    """Write the report of an audit as HTML or PDF, whole or not at all; to an open file, as HTML."""
    write_page(page(audit), target)


def write_page(html: str, target: Target) -> None:
    """Write a page as HTML, or print it where the file is to be a PDF."""
    check_name(target)
    if is_pdf(target):
        write_pdf(html, Path(str(target)))
    else:
        write_text(target, html)


def is_pdf(target: Target | None) -> bool:
    """Return whether a file is to be a PDF, by its name."""
    return isinstance(target, str | Path) and Path(target).suffix.lower() == ".pdf"


def check_report(target: str | None) -> None:
    """Raise where a report could not be made or written: better before an audit than after it."""
    if target is not None:
        check_name(target)
        if is_pdf(target):
            check_pdf()
        altair(), vl_convert(), environment()
        check_target(target)


def check_name(target: Target | None) -> None:
    """Raise where the name of a report does not end as HTML or PDF does; a device or a pipe may have any name."""
    if not isinstance(target, str | Path) or str(target) == "-" or Path(target).suffix.lower() in ENDINGS:
        return
    if not Path(target).is_dir() and (not Path(target).exists() or Path(target).is_file()):
        raise DataError(f"a report must be an HTML or PDF file, got {str(target)!r}.", "for example audit.html.")


def page(audit: Audit) -> str:
    """Return the report as one HTML text, the widest gaps first."""
    audit = by_gap(named(audit))
    comparisons = [sections.section(audit, index, name) for index, name in enumerate(audit.comparisons)]
    overview = sections.overview(audit)
    overall, drawings = draw_blocks(overall_blocks(audit))
    drawings += [overview] if len(comparisons) > 1 else []
    drawings += [drawing for section in comparisons for drawing in section.drawings.values()]
    return rendered(
        "page.html",
        _data(audit, drawings),
        audit=audit,
        settings=to_plain(audit.settings),
        words=words,
        measure=measure_of(audit),
        materiality=measure_of(audit).threshold(audit.settings.materiality),
        glossary=glossary.glossary(audit),
        for_statisticians=glossary.for_statisticians(audit),
        pictured=sections.PICTURED,
        detailed=sections.DETAILED,
        screen=first_screen(audit),
        title=audit_title(audit),
        running=css_text(audit_title(audit)),
        model=css_text(_model(audit)),
        created=(audit.provenance.created or "")[:10],
        ratio_note=_ratio_note(audit),
        matrix=markup(table_html(group_matrix(audit), _linked(audit))),
        matrix_note=MATRIX_NOTE,
        checks=_checks(audit),
        dial_place=dial_place,
        dial_rows=sections.DIAL_ROWS,
        overview=overview,
        group_table=markup(table_html(group_table(audit), _linked(audit))),
        overall=overall,
        simultaneous=words.simultaneous_words(audit),
        comparisons=comparisons,
    )


def _model(audit: Audit) -> str:
    """Return the model for the foot of each printed page, where it is stated."""
    model = audit.provenance.stated.get("model")
    return f"Model: {formats.label(model, RUNNING)} · " if model else ""


def _ratio_note(audit: Audit) -> str:
    """Return rates of what a ratio divides, where they are not the means of the gap."""
    c = audit[0]
    return "" if is_favourable_mean(c) or c.impact_ratio is None else ratio_words(c, c.impact_ratio)


def css_text(text: str) -> Any:
    """Return a text for a CSS string: every letter that could end it or the style is written as its number."""
    return markup(
        "".join(letter if letter.isalnum() or letter in " .,:;()·-" else f"\\{ord(letter):x} " for letter in text)
    )


def _checks(audit: Audit) -> Any:
    """Return the checks of all groups; nothing where there are none."""
    has_checks = any(c.checks.balance is not None for _, c in audit.items())
    return markup(table_html(check_table(audit), _linked(audit))) if has_checks else ""


def _linked(audit: Audit) -> Callable[[int, Cell], str]:
    """Return a function that writes the name of a group as a link to its section."""
    count = len(audit.comparisons)

    def name(index: int, cell: Cell) -> str:
        text = escape(cell.text)
        return f'<a href="#c{index}">{text}</a>' if index < count else text

    return name


def draw_blocks(blocks: Iterable[Block], before: int = 0) -> tuple[Any, list[sections.Drawing]]:
    """Return the blocks of a document as HTML, and the drawings that its script draws, `before` of them above."""
    drawings: list[sections.Drawing] = []

    def drawn(reference: FigureRef) -> str:
        if (number := before + len(drawings)) >= sections.PICTURED:
            return ""
        if (figure := draw(reference)) is None:
            return ""
        drawings.append(sections.Drawing.of(f"{reference.name}-{number}", figure))
        return str(environment().get_template("macros.html").module.figure(drawings[-1]))

    return markup(blocks_html(blocks, drawn)), drawings


def markup(text: str) -> Any:
    """Return HTML that a template leaves as it is."""
    from markupsafe import Markup

    return Markup(text)


def rendered(template: str, data: str, **values: Any) -> str:
    """Return a page: a template filled in, with what its script needs as JSON, the drawing library and the style."""
    scripts = [str(vl_convert().javascript_bundle()), own("page.js")]  # Vega, which draws, and our own
    hashes = [sha256(script) for script in scripts]
    text: str = (
        environment()
        .get_template(template)
        .render(values, data=data, scripts=scripts, hashes=hashes, style=own("page.css"))
    )
    return text


def drawn_data(drawings: Iterable[sections.Drawing | None]) -> str:
    """Return what the script of a page needs that holds drawings only."""
    specs = {one.element: one.spec for one in drawings if one is not None}
    return as_json({"specs": specs, "comparisons": {}, "withheld": None})


def environment() -> Any:
    """Return what fills in the templates."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtraError(
            "a report must have the package jinja2 to be made, got an installation without it.",
            "pip install altair vl-convert-python jinja2",
        ) from None
    loader = PackageLoader("tiltlens.render", "pieces")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    functions = {function.__name__: function for function in FUNCTIONS}
    environment.filters |= functions
    environment.globals |= functions
    return environment


def own(name: str) -> str:
    """Return a piece of the page."""
    return files("tiltlens.render").joinpath("pieces", name).read_text(encoding="utf-8")


def sha256(text: str) -> str:
    """Return the hash by which a browser knows a script as ours; it runs no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(audit: Audit, drawings: list[sections.Drawing]) -> str:
    """Return what the page's script needs, as JSON that cannot end its element."""
    specs = {drawing.element: drawing.spec for drawing in drawings}
    pictured = list(audit.comparisons.values())[: sections.PICTURED]
    moving = {str(place): sections.moving(c, place < sections.DETAILED) for place, c in enumerate(pictured)}
    data = {"specs": specs, "comparisons": moving, "withheld": HIDDEN}
    text = as_json(data)
    while len(text) > DATA_LIMIT and sections.shorten(moving):
        text = as_json(data)
    return text


def as_json(value: Any) -> str:
    """Return a value as JSON that cannot end the element it stands in."""
    text = json.dumps(_rounded(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _rounded(value: Any) -> Any:
    """Return the value with ten significant digits in every number."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(entry) for entry in value]
    return value
