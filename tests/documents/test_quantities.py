"""Every reported number has one label, and every view finds it in the table of quantities."""

import re
from collections import Counter
from functools import cache
from html import unescape
from io import StringIO
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from rich.console import Console
from tests.people import audited, people
from tests.render.summaries import amounts_audit, cross_fitted_audit, decisions_audit, typed, with_outcome_audit

import tiltlens as tl
from tiltlens import _gates as gates
from tiltlens._documents.document import Cell, level_of, measure_of
from tiltlens._documents.headline import weighted
from tiltlens._documents.quantities import (
    ALIASES,
    CONTRIBUTIONS,
    CORRECTION_KEYS,
    FEATURES,
    HEADLINE_KEYS,
    QUANTITIES,
    column_format,
    estimate_cell,
    estimate_words,
    fill,
    format_of,
    quantity,
    quantity_cell,
    written,
)
from tiltlens._documents.result_documents import CURVE, ORDER, RATES
from tiltlens._documents.tables import FACTORS, rates_of_groups
from tiltlens._estimators.estimate import Estimate
from tiltlens._formats import interval, percent, points, size
from tiltlens._render.html import result_html
from tiltlens._render.page import page
from tiltlens._render.table_files import AGAINST_REFERENCE, export_tables, markdown
from tiltlens._render.terminal import print_result
from tiltlens._results.change import QUANTITIES as CHANGED
from tiltlens._results.comparison import ERROR_RATE_KEYS, ESTIMATES
from tiltlens._rows.wording import MEASURES, POINTS, ScoreType, Wording, measure_for

EVERY = [*QUANTITIES.values(), *FEATURES.values()]
AUDITS = (cross_fitted_audit, decisions_audit, with_outcome_audit, amounts_audit)


def known(key):
    return ALIASES.get(key, key) in QUANTITIES


def test_every_quantity_has_exactly_one_label():
    assert [label for label, times in Counter(one.label for one in EVERY).items() if times > 1] == []
    assert all(one.label and set(one.applies) <= set(ScoreType) for one in EVERY)
    assert not set(ALIASES) & set(QUANTITIES)
    assert set(ALIASES.values()) <= set(QUANTITIES)


@pytest.mark.parametrize("measure", MEASURES.values(), ids=map(str, MEASURES))
def test_every_quantity_can_be_written_for_every_kind_of_score(measure):
    for one in EVERY:
        written = format_of(one.scale, measure)
        for shown in (written.value, written.change):
            assert shown(None) == "–"
            assert shown(0.25) not in ("", "–")
        assert "{" not in one.name(measure) + fill(one.definition, measure)


def test_the_table_holds_what_results_gates_tables_and_evaluations_report():
    changes = {key.removesuffix("_change") for key in gates.OF_CHANGES}
    for keys in (ESTIMATES, CHANGED, gates.OF_AUDITS, changes, AGAINST_REFERENCE, ORDER, CURVE, RATES, ERROR_RATE_KEYS):
        assert [key for key in keys if not known(key)] == []


def number_texts(estimate, item, measure, level):
    """Return the texts under which views show an estimate: as a cell of a table, and as in a sentence."""
    shown, unit = format_of(item.scale, measure).value, format_of(item.scale, measure).unit
    cell = quantity_cell(item, estimate, measure)
    texts = {f"{cell.text} ({cell.interval})" if cell.interval else cell.text}
    if item.scale == "range":
        return texts | {f"{cell.text} {unit}".strip()}
    for name in (level, ""):
        is_gap = item.scale == "gap"
        texts.add(estimate_words(estimate, measure, name) if is_gap else written(estimate, shown, name, unit))
    return texts


def numbers_of(audit):
    """Yield key, texts and labels of every number of a comparison that has an interval."""
    c, m = audit[0], measure_of(audit)
    level = level_of(c)
    for key in ESTIMATES:
        estimate, item = c.estimate(key), quantity(key)
        if estimate is None or estimate.low == estimate.high or audit.score_type not in item.applies:
            continue
        item = weighted(item, c) if key == "gap" else item
        of_rate = quantity(key.removesuffix("_difference"))  # a row of the table of error rates
        labels = {item.label, item.name(m), (of_rate.name(m), item.definition)}
        yield key, number_texts(estimate, item, m, level), labels
    for key, rates in rates_of_groups(c).items():
        for who, estimate in zip(("audited", "reference"), rates, strict=True):
            label = fill(quantity(key).label, m)
            yield f"{key} {who}", number_texts(estimate, quantity(key), m, level), {label, f"{label}, {who}"}
    for key in (*CONTRIBUTIONS, *FACTORS):
        item = FEATURES[key]
        estimates = [getattr(row, key) for row in c.by_feature]
        estimates = [one for one in estimates if one is not None and one.low != one.high]
        texts = [number_texts(one, item, m, level) for one in estimates]
        if m.is_amount and key in CONTRIBUTIONS:  # with the decimals of the largest in the column
            write = column_format(c.contributions_full.to_dicts(), key, item.scale, m)
            cells = [estimate_cell(one, write) for one in estimates]
            texts += [{f"{cell.text} ({cell.interval})"} for cell in cells]
        if texts:
            yield key, set().union(*texts), {item.label, item.head, item.name(m)}
    for key in ERROR_RATE_KEYS if c.error_rates is not None else ():
        rate, item = c.error_rates.rate(key), quantity(key)
        for estimate in () if rate is None else (rate.audited, rate.reference):
            yield key, number_texts(estimate, item, m, level), {item.name(m)}


NUMBER = re.compile(r"[−\d][\d.,]*%?(?: \w+)? \([^()]*\d to [^()]*\)")  # with its interval


def words_of(element):
    return "".join(element.itertext())


def numbers_of_html(html):
    """Yield the numbers in tables and tiles with the heads of row and column, and those in sentences with these."""
    html = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    for table in re.findall(r"<table.*?</table>", html, re.DOTALL):
        root = ET.fromstring(re.sub(r"<wbr>|(?<=\") (?:hidden|disabled)(?=>)", "", table))
        heads = [(cell.text or "").strip() for cell in root.iterfind("thead/tr/th")]
        for row in root.iterfind("tbody/tr"):
            for head, cell in zip(heads, row, strict=True):
                small = cell.find("small")
                text = words_of(cell) if small is None else f"{cell.text.strip()} ({small.text})"
                yield text, (words_of(row[0]), head)
    for name, value, note in re.findall(
        r'<span class="name">(.*?)</span><b>(.*?)</b><span class="quiet">(.*?)</', html
    ):
        ends, text = unescape(note).partition(";")[0], unescape(value)
        yield (f"{text} ({ends})" if any(map(str.isdigit, ends)) else text), (unescape(name), "")

    for _, line in re.findall(r"<(p|li)\b[^>]*>(.*?)</\1>", html):
        text = unescape(re.sub(r"<[^>]*>|\u2060", "", line)).replace("\u00a0", " ")
        yield from ((number, text) for number in NUMBER.findall(text))


def numbers_of_terminal(audit):
    """Yield the numbers in tables with the heads of their row and column, and those in sentences with these."""
    print_result(audit, Console(file=(text := StringIO()), width=10_000, color_system=None))
    heads, above = [], []
    for line in text.getvalue().splitlines():
        if "┃" in line:
            above.append([part.strip() for part in line.split("┃")])
        elif "╇" in line:
            heads, above = [" ".join(filter(None, parts)) for parts in zip(*above, strict=True)], []
        elif "│" in line:
            cells = [part.strip() for part in line.split("│")]
            for index, cell in enumerate(cells[1:], 1):
                yield cell, (cells[0], heads[index])
                if index + 1 < len(cells):
                    yield f"{cell} ({cells[index + 1]})", (cells[0], heads[index])
        else:
            yield from ((number, line) for number in NUMBER.findall(line))


def numbers_of_tables(audit):
    """Yield the numbers of exported tables, as Markdown has them, with the heads of their columns."""
    for table in export_tables(audit):
        lines = [line.strip("| ").split(" | ") for line in markdown(table).splitlines() if line.startswith("|")]
        head, _, *rows = lines
        yield from ((cell, (row[0], name)) for row in rows for cell, name in zip(row[1:], head[1:], strict=True))


SURFACES = {
    "terminal": numbers_of_terminal,
    "page": lambda audit: numbers_of_html(page(audit)),
    "notebook": lambda audit: numbers_of_html(result_html(audit)),
    "tables": numbers_of_tables,
}


@cache
def shown_by(make, surface):
    return list(SURFACES[surface](typed(make())))


def unobserved_audit():
    """Return an audit of groups that are seen as probabilities."""
    return unobserved()


@cache
def unobserved():
    rows = people().with_columns((pl.col("score").rank() / 500 + 0.1).alias("p a"))
    rows = rows.with_columns((1 - pl.col("p a")).alias("p b"))
    return tl.audit(rows, {"a": "p a", "b": "p b"}, reference="b", scores="score", features=["city"]).to_dict()


DERIVED = {  # other keys of the same number
    "gap": {"unobserved_group.weighted"},
    "adjusted_gap": {"gap_parts.sensitivity.adjusted_gap.gap"},
    "gap_given_exempt": {"gap_parts.sensitivity.gap_given_exempt.gap"},
}


def exempt_audit():
    """Return an audit with an exempt factor."""
    return exempt()


@cache
def exempt():
    return audited(people(), propensity="chance", features=["city", "owner"], exempt=["owner"]).to_dict()


TRACED = (*AUDITS, unobserved_audit, exempt_audit)
IN_EVERY_DOCUMENT = {*HEADLINE_KEYS, *CORRECTION_KEYS, *CONTRIBUTIONS}
IN_TABLES = {"gap", "adjusted_gap", "impact_ratio", "shortfall", *CONTRIBUTIONS}


def has_label(labels, heads):
    """Return whether a number has one of these labels in the heads of its row and column, or in its sentence."""
    if isinstance(heads, str):
        return any(label.casefold() in heads.casefold() for label in labels if isinstance(label, str))
    return bool(labels & {*heads, heads})


@pytest.mark.parametrize("make", TRACED, ids=lambda make: make.__name__)
def test_a_number_has_its_label_wherever_it_is_shown(make):
    every = list(numbers_of(typed(make())))
    assert every
    for key in dict.fromkeys(key for key, *_ in every):
        own = [(texts, labels) for other, texts, labels in every if other == key]
        for surface in SURFACES:
            shown = [(text, heads) for text, heads in shown_by(make, surface) if any(text in texts for texts, _ in own)]
            for text, heads in shown:  # another quantity may have the same value
                allowed = set().union(*(labels for _, texts, labels in every if text in texts))
                assert has_label(allowed, heads), (key, surface, text, heads, allowed)
            if key in (IN_TABLES if surface == "tables" else IN_EVERY_DOCUMENT):
                found = any(
                    text in texts and has_label(labels, heads) for text, heads in shown for texts, labels in own
                )
                assert found, (key, surface)


def estimates_in(part, path=""):
    """Yield the path and the numbers of every estimate in JSON data."""
    if isinstance(part, list):
        for entry in part:
            yield from estimates_in(entry, path)
    elif isinstance(part, dict):
        if part.keys() >= {"value", "low", "high"}:
            yield path.removeprefix("."), (part["value"], part["low"], part["high"])
        for name, entry in part.items():
            if {f"{name}_low", f"{name}_high"} <= part.keys():
                yield name, (entry, part[f"{name}_low"], part[f"{name}_high"])
            yield from estimates_in(entry, f"{path}.{name}")


@pytest.mark.parametrize("make", TRACED, ids=lambda make: make.__name__)
def test_a_number_has_its_key_in_json_and_tables(make):
    audit = typed(make())
    c, records = (
        audit[0],
        [dict(zip(one.columns, row, strict=True)) for one in export_tables(audit) for row in one.records],
    )
    numbers = {key: c.estimate(key) for key in ESTIMATES}
    triples = {key: (one.value, one.low, one.high) for key, one in numbers.items() if one is not None and one.low}
    summary = c.to_dict()
    del summary["bins"]
    written_numbers = [*estimates_in(summary), *estimates_in(records)]
    for key, triple in triples.items():
        same = {other for other, numbers in triples.items() if numbers == triple}
        keys = same | {ESTIMATES[other] for other in same} | DERIVED.get(key, set())
        assert (ESTIMATES[key], triple) in written_numbers
        assert {path for path, numbers in written_numbers if numbers == triple} <= keys


@pytest.mark.parametrize("make", TRACED, ids=lambda make: make.__name__)
def test_gates_name_quantities_by_their_labels(make):
    audit = typed(make())
    for key in ESTIMATES:
        if audit.score_type in quantity(key).applies and key not in gates.ENDS_ONLY:
            sentence = gates.gate(f"{key}>0.5").judge(audit)[0].sentence
            assert sentence.startswith(f"{fill(quantity(key).label, POINTS)} of ")


def test_no_number_of_an_interval_that_excludes_0_is_written_as_0():
    assert interval(0.00001, 0.05, points) == "< 0.01 to 5.00"
    assert interval(-0.05, -0.00001, points) == "−5.00 to > −0.01"
    assert interval(-0.00001, 0.05, points) == interval(0.0, 0.05, points) == "0.00 to 5.00"
    assert interval(0.0001, None, percent) == "< 0.1% to no limit"
    tiny = Estimate(0.00002, 0.00001, 0.05)
    assert estimate_words(tiny, POINTS, "95% CI") == "< 0.1 points (95% CI < 0.1 to 5.0)"
    assert quantity_cell(quantity("gap"), tiny, POINTS) == Cell("< 0.01", "< 0.01 to 5.00", value=0.00002)
    paid = measure_for("amount", wording=Wording(unit="€"))
    assert estimate_words(Estimate(-300, -600, -0.2), paid) == "−€300 (−€600 to > −€1)"


def test_a_gap_has_one_decimal_from_a_point_on():
    large = Estimate(-0.129, -0.199, -0.06)
    assert estimate_words(large, POINTS, "95% CI") == "−12.9 points (95% CI −19.9 to −6.0)"
    small = Estimate(0.0001, 0.0, 0.0002)
    assert estimate_words(small, POINTS) == "0.01 points (0 to 0.02)"
    assert size(0.129) == "12.9"
