"""Amounts are told in units, never as points or per cent; probabilities as before."""

import re

import pytest
from tests.render.summaries import amounts, amounts_audit, typed

from tiltlens._documents import first_screen as words
from tiltlens._documents.audit_document import comparison_document
from tiltlens._documents.document import measure_of
from tiltlens._render.html import document_html
from tiltlens._render.page import page
from tiltlens._render.terminal import result_text
from tiltlens._rows.wording import POINTS, UNITS, amount, measure_for


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.0001234, "0.000123"),
        (0.5, "0.500"),
        (-12.345, "−12.3"),
        (999.6, "1,000"),
        (45_231.7, "45,232"),
        (1_234_567.0, "1,235,000"),
        (12_345_678.0, "12.35M"),
        (-280_712_345.0, "−280.7M"),
        (5.951e11, "595.1bn"),
        (1e-9, "1e-09"),
    ],
)
def test_amounts_have_three_digits_that_count(value, said):
    assert amount(value) == said


def test_an_amount_has_the_decimals_of_larger_ones_beside_it():
    assert [amount(value, -0.0015, -0.0895, 12.3) for value in (-0.0015, -0.0895, 12.3)] == ["0.0", "−0.1", "12.3"]
    assert amount(-0.0015, -0.0895, None) == "−0.0015"


def test_the_channel_chooses_the_measure():
    assert measure_of(typed(amounts())) is UNITS
    assert measure_for("probability") is POINTS
    assert measure_for("decision").output == "decision rate"
    assert measure_for("probability", "fpr").output == "false positive rate"


def test_the_terminal_has_units_where_it_had_points():
    summary = amounts_audit()
    text = result_text(typed(summary))
    c = summary["comparisons"]["A"]
    top, deciles = text.split("Share of each group above each overall decile")
    assert "Audit of amounts" in top
    assert "points" not in top
    line = next(line for line in top.splitlines() if line.startswith("gap (units)"))
    assert line.split("│")[1].strip() == amount(c["gap"]["value"])
    assert "%" not in re.sub(r"95%\s+(CI|simultaneous)", "", top)
    assert "points" not in deciles.split("Correction (for statisticians)")[1]
    assert "0.02 standard deviations" in " ".join(text.split())


def test_the_page_says_amounts_and_units():
    summary = amounts_audit()
    c = summary["comparisons"]["A"]
    text = page(typed(summary))
    shown = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)
    for said in ("impact ratio", "mean amount", "shortfall", "units of the amount", "overall decile"):
        assert said in shown
    for never in ("favourable rate", "mean score", "sample size to detect", "the score"):
        assert never not in re.sub(r"<[^>]+>", " ", shown.split('id="origin"')[0])
    first = words.headline(typed(summary), typed(c))[0]
    levels = " vs ".join(amount(c["outputs"]["means"][role]) for role in ("audited", "reference"))
    assert f": {levels}, a gap of {UNITS.difference(c['gap']['value'])} units (95% CI " in first


def test_a_notebook_says_units():
    html = document_html(comparison_document(typed(amounts())))
    assert "gap (units)" in html
    assert "points" not in html.split("overall decile")[0]


def test_no_number_is_cut_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "…" not in result_text(typed(amounts_audit()))
