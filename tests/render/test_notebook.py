"""Every result has HTML for notebooks, with its numbers and with names that do no harm."""

import pkgutil
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.repair.test_alternatives import applicants, found
from tests.repair.test_evaluation import borrowers

import tiltlens as tl
from tiltlens._analysis.adjusted_gap import Yardstick
from tiltlens._documents.first_screen import tiles
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.use import ShareForm

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def audits():
    table = borrowers(900).with_columns(other=borrowers(900)["score"] * 0.9)
    options = {"group": "group", "reference": "b", "outcome": "repaid", "features": ["income"], "propensity": None}
    return [tl.audit(table, scores=name, folds=None, **options) for name in ("score", "other")]


def test_a_change_a_repair_and_its_evaluation_have_html(audits):
    old, new = audits
    tilt = old["a"].repair()
    evaluation = tilt.evaluate(borrowers(600, 1), "score", "group", outcome="repaid")
    for result in (tl.compare(old, new, paired=False), tilt, evaluation):
        html = result._repr_html_()
        assert html.startswith("<div>")
        assert "(audited) vs" in html or "a vs b" in html or "<table" in html
    assert "<img" in evaluation._repr_html_()  # the curve
    assert "<table" in tl.compare(old, new, paired=False)._repr_html_()


def test_alternatives_have_html():
    assert "<table" in found(applicants(rows=800))._repr_html_()


def test_names_of_groups_do_no_harm():
    people = {"sex": [HOSTILE, "men"] * 50, "score": [0.4, 0.5, 0.6, 0.8] * 25}
    audit = tl.audit(people, "sex", reference="men", scores="score")
    assert HOSTILE not in audit._repr_html_()
    assert HOSTILE not in tl.compare(audit, audit, paired=True)._repr_html_()


def test_the_first_screen_has_gap_adjusted_gap_and_ratio(audits):
    c = replace(audits[0]["a"], adjusted_gap=Estimate(-0.129, -0.199, -0.06))
    assert [tile.name for tile in tiles(c)] == ["gap", "adjusted gap", "impact ratio"]
    adjusted = tiles(c)[1]
    assert adjusted.value == "−12.9 points"
    assert adjusted.note.startswith("95% CI −19.9 to −6.0; among people ")
    without = tiles(replace(c, adjusted_gap=None))
    assert [tile.name for tile in without] == ["gap", "impact ratio", "shortfall"]


API = re.findall(r"^   ([\w.]+)$", (Path(__file__).parents[2] / "docs" / "api.md").read_text(), re.MULTILINE)
RESULTS = ("analysis.", "learners.", "repair.", "results.", "rows.", "rules.", "Audit", "Checks", "Estimate", "Change")


@pytest.mark.parametrize("name", [name for name in API if name.startswith(RESULTS)])
def test_every_result_has_html(name):
    entry = pkgutil.resolve_name(f"tiltlens.{name}" if "." in name else f"tiltlens:{name}")
    assert hasattr(entry, "_repr_html_")


def test_a_correction_shows_the_fields_that_a_saved_one_has(audits):
    shares = ShareForm(np.ones(3), np.ones(3), np.eye(6))
    html = replace(audits[0]["a"].correction, tradeoff={"income": shares})._repr_html_()
    assert "<th>input_divergence</th>" in html
    assert "tradeoff" not in html


def test_parts_of_an_audit_are_tables_of_their_fields(audits):
    c = audits[0]["a"]
    assert c.gap._repr_html_() == str(c.gap)
    html = c.error_rates._repr_html_()
    assert "<th>fpr</th><td>audited: " in html
    assert "<table" in html.partition("by_decile")[2]
    assert "<th>r2_score</th>" in Yardstick("<x>", 0.1, 0.2, None, None)._repr_html_()
    assert "&lt;x&gt;" in Yardstick("<x>", 0.1, 0.2, None, None)._repr_html_()
