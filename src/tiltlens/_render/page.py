"""The report as one self-contained HTML page, pages of other documents, and PDF."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import chain
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from tiltlens import _formats as formats
from tiltlens._documents import document as doc
from tiltlens._documents import glossary, tables
from tiltlens._documents import sentences as words
from tiltlens._documents.audit_document import audit_title, overall_blocks
from tiltlens._documents.first_screen import first_screen
from tiltlens._documents.headline import expected, ratio_words
from tiltlens._documents.result_documents import (
    alternatives_document,
    change_document,
    evaluation_document,
    provenance_blocks,
)
from tiltlens._documents.sentences import decision_table_words
from tiltlens._formats import label
from tiltlens._render.html import (
    DETAILED,
    DIAL_ROWS,
    PICTURED,
    Drawing,
    blocks_html,
    moving,
    section,
    shorten,
    table_html,
)
from tiltlens._render.terminal import unsplit
from tiltlens._repair.alternatives import AlternativesByGroup
from tiltlens._repair.evaluation import Evaluation
from tiltlens._results.audit import Audit
from tiltlens._results.change import Change
from tiltlens._results.codec import Target, check_target, to_plain, write_bytes, write_text
from tiltlens._rows.wording import reason_words
from tiltlens.errors import DataError, MissingExtraError
from tiltlens.figures import draw, rates
from tiltlens.figures._distributions import HIDDEN
from tiltlens.figures._marks import altair, dial_place, vl_convert

COMMANDS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "msedge", "brave-browser"),
)
APPLICATIONS = (  # where browsers are installed on other systems
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
WIDTH = 695  # width in pixels of an A4 page between its margins
FLAGS = (
    *("--headless", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND"),
    *(
        f"--window-size={WIDTH},1000",
        "--no-pdf-header-footer",
        "--virtual-time-budget=20000",
    ),  # enough time to draw all figures
)
SECONDS = 180
BY_HAND = "write audit.html, open it in a browser and print it to PDF."


def write_pdf(html: str, path: Path) -> None:
    """Print a page to a PDF file, completely or not at all."""
    browser = find_browser()
    with TemporaryDirectory(prefix="tiltlens-") as folder:
        page, printed = Path(folder, "page.html"), Path(folder, "page.pdf")
        page.write_text(html, encoding="utf-8")
        own = [f"--user-data-dir={Path(folder, 'profile')}", f"--print-to-pdf={printed}", f"{page.as_uri()}#paper"]
        _run([browser, *FLAGS, *_sandbox(), *own], printed)
        write_bytes(path, printed.read_bytes())


def find_browser() -> str:
    """Return the first Chromium-based browser that is installed; raise if none is."""
    applications = (path for path in APPLICATIONS if Path(path).is_file())
    browser = next(chain(filter(None, map(which, COMMANDS)), applications), None)
    if browser is None:
        raise MissingExtraError(
            "A PDF report needs Chromium, Chrome or Edge, and none was found.", f"Install one, or {BY_HAND}"
        )
    return browser


def _sandbox() -> list[str]:
    """Return the option that Chromium needs to start as root."""
    is_root = sys.platform != "win32" and os.geteuid() == 0
    return ["--no-sandbox"] if is_root else []


def _run(command: list[str], printed: Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
        problem = f"it ended with code {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = "it took too long" if isinstance(error, subprocess.TimeoutExpired) else str(error.strerror)
    if not printed.is_file() or not printed.stat().st_size:
        raise DataError(f"{command[0]} did not print the report: {problem}.", f"Or {BY_HAND}")


DATA_LIMIT = 300_000  # characters of JSON data; a page of nine groups then stays below 1.5 MB with the drawing library
DIGITS = 10
ENDINGS = (".html", ".htm", ".pdf")
RUNNING = 110  # maximum number of characters of the model's name at the foot of a printed page
Reported = Audit | Change | AlternativesByGroup | Sequence[Evaluation]
FUNCTIONS = (
    *(formats.number, formats.minus, formats.interval_name, formats.count, formats.label, formats.sentence),
    *(decision_table_words, expected, tables.factor_words, reason_words, tables.shapley_words, unsplit),
)


def write_report(result: Reported, target: Target) -> None:
    """Write the report of a result as HTML or PDF, completely or not at all; as HTML to an open file."""
    check_name(target)
    if is_pdf(target):
        write_pdf(page(result), Path(str(target)))
    else:
        write_text(target, page(result))


def is_pdf(target: Target | None) -> bool:
    """Return whether a file is a PDF by its name."""
    return isinstance(target, str | Path) and Path(target).suffix.lower() == ".pdf"


def check_report(target: str | None) -> None:
    """Raise if a report cannot be made or written, so that an audit fails before it is computed."""
    if target is not None:
        check_name(target)
        if is_pdf(target):
            find_browser()
        altair(), vl_convert(), environment()
        check_target(target)


def check_name(target: Target | None) -> None:
    """Raise if the name of a report does not end in .html, .htm or .pdf; devices and pipes may have any name."""
    if not isinstance(target, str | Path) or str(target) == "-" or Path(target).suffix.lower() in ENDINGS:
        return
    if not Path(target).is_dir() and (not Path(target).exists() or Path(target).is_file()):
        raise DataError(f"A report must be an HTML or PDF file, got {str(target)!r}.", "for example audit.html.")


def page(result: Reported) -> str:
    """Return the report of a result as one HTML page."""
    match result:
        case Audit():
            return _audit_page(result)
        case Change():
            return _page(change_document(result), "Two audits compared", provenance_blocks(result))
        case AlternativesByGroup():
            document = alternatives_document(result)
            return _page(document, "Other rules of the same features, compared on the same people")
    return _page(evaluation_document(result), "Mitigation, separate from the audit that it acts on")


def _audit_page(audit: Audit) -> str:
    """Return the page of an audit, with clearly disadvantaged groups first, then by the size of the gap."""
    audit = doc.by_gap(doc.named(audit))
    comparisons = [section(audit, index, name) for index, name in enumerate(audit.comparisons)]
    whole = replace(Drawing.of("rates", rates(audit)), table=None)
    overall, drawings = draw_blocks(overall_blocks(audit))
    drawings += [whole] if len(comparisons) > 1 else []
    drawings += [drawing for section in comparisons for drawing in section.drawings.values()]
    return rendered(
        "page.html",
        _data(audit, drawings),
        audit=audit,
        settings=to_plain(audit.settings),
        words=words,
        measure=doc.measure_of(audit),
        materiality=doc.measure_of(audit).threshold(audit.settings.materiality),
        glossary=glossary.glossary(audit),
        for_statisticians=glossary.for_statisticians(audit),
        pictured=PICTURED,
        detailed=DETAILED,
        screen=first_screen(audit),
        title=audit_title(audit),
        running=css_text(audit_title(audit)),
        model=css_text(_model(audit)),
        created=(audit.provenance.created or "")[:10],
        ratio_note=_ratio_note(audit),
        matrix=markup(table_html(tables.group_matrix(audit), _linked(audit))),
        matrix_note=tables.matrix_note(audit),
        checks=_checks(audit),
        dial_place=dial_place,
        dial_rows=DIAL_ROWS,
        overview=whole,
        group_table=markup(table_html(tables.group_table(audit), _linked(audit))),
        overall=overall,
        simultaneous=words.simultaneous_words(audit),
        comparisons=comparisons,
    )


def _model(audit: Audit) -> str:
    """Return the name of the model for the foot of printed pages, if the user stated it."""
    model = audit.provenance.stated.get("model")
    return f"Model: {formats.label(model, RUNNING)} · " if model else ""


def _ratio_note(audit: Audit) -> str:
    """Return the rates that an impact ratio divides, if they are not the means behind the gap."""
    c = audit[0]
    return "" if doc.is_favourable_mean(c) or c.impact_ratio is None else ratio_words(c, c.impact_ratio)


def css_text(text: str) -> Any:
    """Return a text for a CSS string, in which characters that could end the string are escaped."""
    return markup(
        "".join(letter if letter.isalnum() or letter in " .,:;()·-" else f"\\{ord(letter):x} " for letter in text)
    )


def _checks(audit: Audit) -> Any:
    """Return the table of checks of all groups, or "" if there are none."""
    has_checks = any(c.checks.balance is not None for _, c in audit.items())
    return markup(table_html(tables.check_table(audit), _linked(audit))) if has_checks else ""


def _linked(audit: Audit) -> Callable[[int, doc.Cell], str]:
    """Return a function that links the name of a group to its section."""
    count = len(audit.comparisons)

    def name(index: int, cell: doc.Cell) -> str:
        text = escape(cell.text)
        return f'<a href="#c{index}">{text}</a>' if index < count else text

    return name


def draw_blocks(blocks: Iterable[doc.Block], before: int = 0) -> tuple[Any, list[Drawing]]:
    """Return blocks as HTML and their drawings, numbered from `before`; beyond a limit, figures are left out."""
    drawings: list[Drawing] = []

    def drawn(reference: doc.FigureRef) -> str:
        if (number := before + len(drawings)) >= PICTURED:
            return ""
        if (figure := draw(reference)) is None:
            return ""
        drawings.append(Drawing.of(f"{reference.name}-{number}", figure))
        return str(environment().get_template("macros.html").module.figure(drawings[-1]))

    return markup(blocks_html(blocks, drawn)), drawings


def markup(text: str) -> Any:
    """Return HTML that templates do not escape."""
    from markupsafe import Markup

    return Markup(text)


def rendered(template: str, data: str, **values: Any) -> str:
    """Return a page from a template, the JSON data of its script, the drawing library and the style."""
    scripts = [str(vl_convert().javascript_bundle()), own("page.js")]  # Vega, which draws, and the page's own script
    hashes = [sha256(script) for script in scripts]
    text: str = (
        environment()
        .get_template(template)
        .render(values, data=data, scripts=scripts, hashes=hashes, style=own("page.css"))
    )
    return text


def environment() -> Any:
    """Return the environment of the templates."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise MissingExtraError(
            "a report must have the package jinja2 to be made, got an installation without it.",
            "pip install altair vl-convert-python jinja2",
        ) from None
    loader = PackageLoader("tiltlens._render", "pieces")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    functions = {function.__name__: function for function in FUNCTIONS}
    environment.filters |= functions
    environment.globals |= functions
    return environment


def own(name: str) -> str:
    """Return the content of a file in `pieces`."""
    return files("tiltlens._render").joinpath("pieces", name).read_text(encoding="utf-8")


def sha256(text: str) -> str:
    """Return the hash by which the browser allows a script; it runs no others."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(audit: Audit, drawings: list[Drawing]) -> str:
    """Return the data of the page's script as JSON, shortened to `DATA_LIMIT` if possible."""
    specs = {drawing.element: drawing.spec for drawing in drawings}
    pictured = list(audit.comparisons.values())[:PICTURED]
    numbers = {str(index): moving(c, index < DETAILED) for index, c in enumerate(pictured)}
    data = {"specs": specs, "comparisons": numbers, "withheld": HIDDEN}
    text = as_json(data)
    while len(text) > DATA_LIMIT and shorten(numbers):
        text = as_json(data)
    return text


def as_json(value: Any) -> str:
    """Return a value as JSON that cannot end the HTML element around it."""
    text = json.dumps(_rounded(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _rounded(value: Any) -> Any:
    """Return a value with all numbers rounded to ten significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(entry) for entry in value]
    return value


def _page(document: doc.Document, lead: str, more: Iterable[doc.Block] = ()) -> str:
    drawings: list[Drawing] = []
    sections = []
    for index, (first, *others) in enumerate(_parts([*document.blocks, *more])):
        body, drawn = draw_blocks(others, len(drawings))
        drawings += drawn
        title = first.text if isinstance(first, doc.Heading) else ""
        sections.append({"element": f"c{index}" if index else "words", "title": title, "body": body})
    specs = {drawing.element: drawing.spec for drawing in drawings}
    data = as_json({"specs": specs, "comparisons": {}, "withheld": None})
    return rendered("document.html", data, title=label(document.title, 200), lead=lead, sections=sections)


def _parts(blocks: Iterable[doc.Block]) -> list[list[doc.Block]]:
    """Return blocks grouped by section; blocks before the first section are placed at its start."""
    parts: list[list[doc.Block]] = []
    before: list[doc.Block] = []
    for block in blocks:
        if isinstance(block, doc.Heading) and block.level == 2:
            parts.append([block, *before])
            before = []
        else:
            (parts[-1] if parts else before).append(block)
    return parts
