"""Every reported number has one label, and every view finds it in the table of quantities."""

from collections import Counter

import pytest
from tests.render.summaries import amounts_audit, cross_fitted_audit, decisions_audit, typed, with_outcome_audit

from tiltlens import _gates as gates
from tiltlens._documents.audit_document import audit_document
from tiltlens._documents.document import Details, Table, measure_of
from tiltlens._documents.quantities import (
    ALIASES,
    CONTRIBUTIONS,
    CORRECTION_KEYS,
    ERROR_RATE_KEYS,
    FEATURES,
    HEADLINE_KEYS,
    QUANTITIES,
    estimate_words,
    fill,
    format_of,
    quantity,
)
from tiltlens._documents.result_documents import CURVE, ORDER, RATES
from tiltlens._estimators.estimate import Estimate
from tiltlens._formats import signed, size
from tiltlens._render.html import audit_html
from tiltlens._render.page import page
from tiltlens._render.table_files import AGAINST_REFERENCE, export_tables
from tiltlens._results.change import QUANTITIES as CHANGED
from tiltlens._results.comparison import ESTIMATES
from tiltlens._rows.wording import MEASURES, POINTS, ScoreType

EVERY = [*QUANTITIES.values(), *FEATURES.values()]
AUDITS = (cross_fitted_audit, decisions_audit, with_outcome_audit, amounts_audit)


def known(key):
    return ALIASES.get(key, key) in QUANTITIES


def tables(blocks):
    for block in blocks:
        if isinstance(block, Table):
            yield block
        if isinstance(block, Details):
            yield from tables(block.blocks)


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


@pytest.mark.parametrize("make", AUDITS, ids=lambda make: make.__name__)
def test_terminal_page_notebook_and_tables_use_the_label(make):
    audit = typed(make())
    c, m = audit[0], measure_of(audit)
    keys = [key for key in (*HEADLINE_KEYS, *CORRECTION_KEYS) if key in ESTIMATES]
    present = [key for key in keys if c.estimate(key) is not None and audit.score_type in quantity(key).applies]
    names = {quantity(key).name(m) for key in present}
    heads = {FEATURES[key].head for key in CONTRIBUTIONS if c.contributions[key].is_not_null().any()}
    document = audit_document(audit)
    first_cells = {row[0].text for table in tables(document.blocks) for row in table.rows}
    columns = {column.label for table in tables(document.blocks) for column in table.columns}
    assert names <= first_cells
    assert heads <= columns
    for html in (page(audit), audit_html(audit)):
        assert all(f'<th scope="row">{name}</th>' in html for name in names)
        assert all(f">{head}</th>" in html for head in heads)
    rates, contributions = export_tables(audit)
    assert {quantity(key).name(m) for key in ("gap", "impact_ratio", "shortfall")} <= {
        column.label for column in rates.table.columns
    }
    assert heads <= {column.label for column in contributions.table.columns}
    assert {"gap", "impact_ratio"} <= set(rates.columns)


def test_a_gap_has_one_decimal_from_a_point_on():
    large = Estimate(-0.129, -0.199, -0.06)
    assert estimate_words(large, POINTS, "95% CI") == "−12.9 points (95% CI −19.9 to −6.0)"
    small = Estimate(0.0001, 0.0, 0.0002)
    assert estimate_words(small, POINTS) == "0.01 points (0 to 0.02)"
    assert (signed(0.02, 2), size(0.129)) == ("+0.02", "12.9")
