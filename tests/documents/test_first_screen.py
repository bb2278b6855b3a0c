"""The first screen: who is disadvantaged, one direction, three states, what remains, and what to do next."""

import re
from copy import deepcopy

import pytest
from tests.render.summaries import amounts_audit, cross_fitted_audit, decisions_audit, of_summaries, plug_in_audit

import tiltlens as tl
from tiltlens._documents.audit_document import audit_document, comparison_document
from tiltlens._documents.document import EVIDENCE, HEADLINE, Details, Paragraph, Table
from tiltlens._documents.first_screen import first_screen, reliability
from tiltlens._documents.tables import MATRIX_NOTE, estimate_table, group_matrix, group_table, matrix_note
from tiltlens._render.html import result_html
from tiltlens._render.page import page
from tiltlens.figures import waterfall

audit_document = of_summaries(audit_document)
comparison_document = of_summaries(comparison_document)
estimate_table = of_summaries(estimate_table)
group_matrix = of_summaries(group_matrix)
matrix_note = of_summaries(matrix_note)
group_table = of_summaries(group_table)
first_screen = of_summaries(first_screen)
reliability = of_summaries(reliability)
waterfall = of_summaries(waterfall)
result_html = of_summaries(result_html)
page = of_summaries(page)


def only(audit):
    return next(iter(audit["comparisons"].values()))


def with_gap(audit, value, low, high):
    only(audit)["gap"] = {"value": value, "low": low, "high": high}
    return audit


def several(count=8):
    """Return an audit of many groups, every second one at an advantage, the last inconclusive."""
    audit, c = cross_fitted_audit(), only(cross_fitted_audit())
    audit["comparisons"] = {}
    for index in range(count):
        sign = -1 if index % 2 else 1
        group = deepcopy(c) | {"audited": f"group {index}"}
        for key in ("gap", "shortfall"):
            value, half = sign * (count - index) * c[key]["value"] / count, abs(c[key]["value"]) / 20
            group[key] = {"value": value, "low": value - half, "high": value + half}
        audit["comparisons"][group["audited"]] = group
    last = audit["comparisons"][f"group {count - 1}"]
    last["gap"] |= {"low": -0.1, "high": 0.1}
    return audit


def headline(document):
    return next(block.text for block in document.blocks if isinstance(block, Paragraph) and block.tone == HEADLINE)


def test_page_terminal_and_notebook_say_the_same():
    audit = cross_fitted_audit()
    screen = first_screen(audit)
    html = page(audit).replace("\u00a0", " ")
    document = audit_document(audit)
    assert headline(document) == headline(comparison_document(only(audit)))
    assert headline(document) == screen.headline
    paragraphs = {block.text for block in document.blocks if isinstance(block, Paragraph)}
    assert screen.findings
    assert screen.next_steps
    for line in screen.findings:
        assert line in paragraphs
        assert line in html
        assert line in result_html(audit).replace("\u00a0", " ")
    assert f'<h1 class="answer">{screen.headline}</h1>' in html
    assert all(f"<li>{step}</li>" in html for step in screen.next_steps)


def test_scores_where_low_is_wanted_have_one_direction(worded):
    """D3: the headline had 54.3 and 43.8%, the tables 45.7 and 56.2% of the same people."""
    audit = cross_fitted_audit()
    c = only(audit)
    assert "54.3% vs 43.8%" in first_screen(audit).headline
    for table in (estimate_table(c), group_table(audit)):
        texts = [cell.text for row in table.rows for cell in row]
        assert {"54.3%", "43.8%"} <= set(texts)
        assert not {"45.7%", "56.2%"} & set(texts)
    (ratio,) = [tile for tile in first_screen(audit).tiles if tile.name == "impact ratio"]
    assert "45.7% ÷ 56.2%, African-American ÷ Caucasian" in ratio.note
    (row,) = [row for row in estimate_table(c).rows if row[0].text == "impact ratio"]
    worded([ratio.note, row[-1].text])


def test_an_adjusted_gap_that_is_material_is_in_the_headline_the_tiles_and_the_next_steps(worded):
    """D4: it was on no first screen."""
    audit = cross_fitted_audit()
    only(audit)["adjusted_gap"] = {"value": 0.055, "low": 0.045, "high": 0.065}
    screen = first_screen(audit)
    assert "5.0 of the 10.5 points" in screen.findings[0]
    assert "5.5 points (95% CI 4.5 to 6.5)" in screen.findings[0]
    assert screen.tiles[1].value == "5.5 points"
    assert "5.5 points" in screen.next_steps[0]
    worded([screen.findings[0], screen.next_steps[0]])


@pytest.mark.parametrize(
    "gap", [(0.1, 0.09, 0.11), (0.001, -0.003, 0.004), (0.001, -0.03, 0.04), (0.01, 0.001, 0.02)], ids=str
)
def test_the_gap_has_the_states_of_features(gap, worded):
    """D5: an interval within the threshold read "these data cannot tell"."""
    worded(first_screen(with_gap(cross_fitted_audit(), *gap)).headline)


def test_a_gap_that_is_not_material_is_no_warning(worded):
    """D5: "may be chance (p = 0.980)" was an amber warning beside a gap within the threshold."""
    audit = with_gap(cross_fitted_audit(), 0.0, -0.003, 0.003)
    only(audit)["gap_test"]["p_value"] = 0.98
    (doubt,) = (doubt for doubt in reliability(audit, only(audit)) if "p = 0.98" in doubt.text)
    assert not doubt.is_warning
    with_gap(audit, 0.0, -0.03, 0.03)
    (warning,) = (doubt for doubt in reliability(audit, only(audit)) if "p = 0.98" in doubt.text)
    assert warning.is_warning
    worded([doubt.text, warning.text])


def test_a_ratio_says_whose_rates_it_divides():
    """D7: "adverse impact ratio 0.85" was against the reference, that of the rule against the highest group."""
    (ratio,) = [tile for tile in first_screen(decisions_audit()).tiles if "ratio" in tile.name]
    assert ratio.note.endswith("45.7% ÷ 56.2%, African-American ÷ Caucasian")


def test_an_adverse_impact_ratio_divides_the_lower_rate_by_the_higher():
    """It said "audited ÷ reference" of an audited group with the higher rate, whose ratio is above 1."""
    audit = decisions_audit()
    c = only(audit)
    c["impact_ratio"] = {"value": 1.24, "low": 1.2, "high": 1.28}
    (ratio,) = [tile for tile in first_screen(audit).tiles if "ratio" in tile.name]
    assert ratio.note.endswith("Caucasian ÷ African-American")


def test_decisions_are_counted_and_not_drawn_as_scores():
    """D9: decisions had a histogram from 0 to 100%, and a calibration plot of two dots."""
    audit = decisions_audit()
    html = page(audit)
    assert 'id="score_distribution-0"' not in html
    assert 'id="score_distribution-0"' in page(cross_fitted_audit())


def test_each_next_step_has_an_owner_and_names_what_to_review(worded):
    steps = first_screen(cross_fitted_audit()).next_steps
    assert [step.partition(":")[0] for step in steps] == ["Data owner", "Owner of the scores", "Legal and policy"]
    assert "Sex and LengthOfStay" in steps[0]
    assert all("PriorCounts, Age and ChargeDegree" in step for step in steps[1:])
    worded(steps)
    worded(first_screen(plug_in_audit()).next_steps[0])
    audit = cross_fitted_audit()
    only(audit)["checks"]["balance"] |= {"is_adequate": False, "reasons": ["the groups do not overlap"]}
    steps = first_screen(audit).next_steps
    assert [step.partition(":")[0] for step in steps][:2] == ["Reviewer", "Data owner"]
    assert len(steps) == 4
    worded(steps[0])


def test_amounts_ask_for_no_alternative_rule():
    asks, of_amounts = (first_screen(audit()).next_steps for audit in (cross_fitted_audit, amounts_audit))
    assert any("less discriminatory" in step for step in asks)
    assert of_amounts
    assert not any("less discriminatory" in step for step in of_amounts)


def test_several_groups_are_a_matrix_with_one_mark_a_verdict(worded):
    audit = several()
    table = group_matrix(audit)
    assert [column.label for column in table.columns[:3]] == ["group", "gap (points)", "adjusted gap (points)"]
    marks = {column.label: cell for column, cell in zip(table.columns, table.rows[0], strict=True)}
    assert marks["PriorCounts"].mark == EVIDENCE
    assert marks["PriorCounts"].text.endswith(" ●")
    assert marks["Sex"].text.endswith(" ?")
    screen = first_screen(audit)
    assert "8 groups" in screen.lead
    assert screen.headline.startswith("Group 0 defendants")
    assert "(group 0, group 2, group 4 and group 6)" in screen.findings[0]
    assert "(group 7)" in screen.findings[0]
    worded([screen.lead, screen.headline, screen.findings[0]])
    html = page(audit)
    assert html.index('table class="matrix') < html.index('id="groups"') < html.index('id="c0"')
    assert len(html) < 1_500_000


def test_a_matrix_says_how_many_features_it_leaves_out(monkeypatch):
    audit = several()
    assert matrix_note(audit) == MATRIX_NOTE
    monkeypatch.setattr("tiltlens._documents.tables.MATRIX_FEATURES", 3)
    assert len(group_matrix(audit).columns) == 6
    assert matrix_note(audit).endswith("The table has the 3 largest of 5 features; all are listed by group.")
    assert matrix_note(audit) in page(audit)


def test_groups_of_one_size_have_no_range_of_sizes():
    data = {"g": ["a"] * 40 + ["b"] * 30 + ["c"] * 30, "s": [0.2, 0.4, 0.6, 0.9, 0.5] * 20}
    lines = [doubt.text for doubt in first_screen(tl.audit(data, "g", scores="s", features=[])).reliability]
    assert lines[0] == "30 people per group, 40 in the reference"


def test_scores_are_predicted_shares_of_the_users_outcome():
    data = {"g": ["a"] * 60 + ["b"] * 50, "s": [0.2, 0.4, 0.6, 0.9, 0.5] * 22, "d": [0, 1] * 55}
    words = {"people": "applicants", "favourable": "approved"}
    audits = (tl.audit(data, "g", scores=key, features=[], wording=words) for key in ("s", "d"))
    tables = (estimate_table(audit["b"]) for audit in audits)
    scored, decided = (" ".join(cell.text for row in table.rows for cell in row) for table in tables)
    assert "predicted share approved" in scored
    assert "additional applicants approved, as scored" in scored
    assert "share approved, audited" in decided
    assert "predicted" not in decided


def test_a_notebook_folds_several_groups():
    """Nine groups were eight full comparisons, 6,000 pixels."""
    audit = several()
    blocks = audit_document(audit, is_brief=True).blocks
    assert sum(isinstance(block, Details) for block in blocks) == 8
    assert [block.name for block in blocks if isinstance(block, Table)] == ["matrix"]
    assert result_html(audit).count("<details>") >= 8


def test_the_waterfall_has_what_remains_with_its_interval():
    audit = cross_fitted_audit()
    c = only(audit)
    c["adjusted_gap"] = {"value": c["gap_parts"]["shapley_remainder"] + 0.0004, "low": -0.01, "high": 0.01}
    steps = waterfall(c).table.to_dicts()
    remains = next(step for step in steps if step["role"] == "remainder")
    assert (remains["low"], remains["high"]) == (-0.01, 0.01)
    assert remains["text"] == first_screen(audit).tiles[1].value.removesuffix(" points")
    assert [step["text"] for step in steps if step["role"] == "mean"] == ["43.8%", "54.3%"]


def test_no_number_is_a_signed_zero():
    """D15: "▼ +0.00" and "+0.00 to +0.00"."""
    for make in (cross_fitted_audit, amounts_audit):
        html = re.sub(r"<script.*?</script>|<style.*?</style>", "", page(make()), flags=re.DOTALL)
        assert not re.search(r"[+]0\.00|[▲▼] *[+−]?0(\.0+)?\b|\d %", html)


def test_the_title_and_the_heading_say_what_was_found(worded):
    """D17: the title was "tiltlens audit by race", the heading a slogan."""
    html = page(cross_fitted_audit())
    worded(re.findall(r"<title>.*</title>", html))
    assert html.count("<h1") == 1
    assert 'role="region"' not in html
