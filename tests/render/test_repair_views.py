"""Evaluations of repairs and alternatives as text, figures and pages."""

import json
import re
from dataclasses import replace
from io import StringIO

import jsonschema
import polars as pl
import pytest
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from tests.browser import opened
from tests.repair.test_alternatives import applicants, found
from tests.repair.test_evaluation import borrowers
from tests.schemas import published, strict

import tiltlens as tl
from tiltlens._documents import repair_sentences as words
from tiltlens._estimators.estimate import Estimate
from tiltlens._formats import interval, points
from tiltlens._render.page import page
from tiltlens._render.terminal import print_result
from tiltlens._repair.alternatives import AlternativesByGroup
from tiltlens.errors import NothingToDrawError
from tiltlens.figures import attainable, repair_curve

ENDS = (("", -0.05), ("_low", -0.08), ("_high", -0.02))
HOSTILE = "</script><img src=x onerror='window.hacked = 1'>"


@pytest.fixture(scope="module")
def evaluation():
    table = borrowers(1500)
    c = tl.audit(table, group="group", reference="b", scores="score", outcome="repaid", folds=None)["a"]
    return c.repair().evaluate(
        borrowers(1000, 1), "score", "group", outcome="repaid", compare_with=c.repair(use_group=True)
    )


@pytest.fixture(scope="module")
def rules():
    return found(applicants(rows=800))


def renamed(evaluation, name=HOSTILE):
    """Return the evaluation with a group of another name."""
    beside = replace(evaluation.compared_with, repair=replace(evaluation.compared_with.repair, audited=name))
    return replace(evaluation, repair=replace(evaluation.repair, audited=name), compared_with=beside)


def test_an_evaluation_prints_what_it_holds(evaluation):
    text = str(evaluation)
    row = evaluation.to_dict()["table"][0]
    assert points(row["before"]) in text
    assert interval(row["change_low"], row["change_high"], points) in text
    moved = evaluation.decisions["audited"]
    assert re.search(rf"a +│ +{evaluation.rows['audited']} │ +{moved['up']} │ +{moved['down']}\b", text)


@pytest.mark.parametrize(
    ("low", "high", "limit"),
    [
        (-0.01, 0.01, 0.0),
        (0.01, 0.03, 0.0),
        (-0.01, 0.01, 0.02),
        (-0.06, -0.03, 0.02),
        (-0.01, 0.05, 0.02),
        (-0.11, 0.07, 0.0),
    ],
)
def test_whether_the_limit_is_met_is_read_from_the_interval(evaluation, low, high, limit, worded):
    table = evaluation.table.head(1).with_columns(after_low=pl.lit(low), after_high=pl.lit(high))
    changed = replace(evaluation, table=table, repair=replace(evaluation.repair, max_gap=limit))
    assert "points" in words.headline(changed)[0]
    worded(words.headline(changed)[place] for place in (0, 2))


def test_what_a_rule_does_is_told_without_signs(rules, worded):
    change, reduction = Estimate(-0.0011, -0.0158, 0.0135), Estimate(-0.0299, -0.06, 0.0002)
    lines = words.verdict_words(replace(rules, threshold=0.2, accuracy_change=change, gap_reduction=reduction))
    assert re.search(
        r"0\.11 points lower \(1\.58 lower to 1\.35 higher\).* 2\.99 points larger \(6\.00 larger", lines[2]
    )
    assert re.search(r"threshold 0\.2 .* 4\.00 times", lines[3])
    worded(lines[1:])


def test_few_people_are_not_counted(evaluation):
    few = replace(evaluation, decisions={"audited": {"up": None, "down": 0}})
    assert "fewer than 10" in page([few])


def test_figures_hold_the_numbers_of_the_summary(evaluation, rules):
    curve = repair_curve(evaluation)
    assert curve.table.filter(way="without the group")["gap"].to_list() == [
        100 * gap for gap in evaluation.curve["gap"]
    ]
    assert curve.table["way"].n_unique() == 2
    odds = replace(evaluation, repair=replace(evaluation.repair, metric="fpr"))
    rates = repair_curve(odds).table.filter(way="without the group")["gap"].to_list()
    assert rates == [100 * rate for rate in evaluation.curve["fpr_difference"]]
    attained = attainable(rules)
    (alternative,) = rules.tolerances.filter(tolerance=rules.tolerance)["gap"]
    assert attained.table["gap"].to_list() == [100 * x for x in (rules.gap.value, *rules.curve["gap"], alternative)]
    for figure in (curve, attained, evaluation.plot(), rules.plot()):
        figure.chart.to_dict(validate=True)


def test_an_evaluation_without_outcomes_has_no_curve_of_accuracy(evaluation):
    bare = replace(evaluation, curve=evaluation.curve.select("part", "gap"))
    with pytest.raises(NothingToDrawError, match="was not given"):
        repair_curve(bare)
    assert "in mean scores" in page([bare])


def test_what_ifs_are_told_with_the_rules(rules):
    ends = {f"{name}_change{end}": value for name in ("gap", "accuracy") for end, value in ENDS}
    what_if = {"feature": "age", "what_if": "neutralised", "gap": 0.1, **ends}
    one = replace(rules, what_ifs=pl.DataFrame([what_if]), notes=("look at age",))
    by_group, text = AlternativesByGroup({"a": one}), StringIO()
    print_result(by_group, Console(file=text, width=100))
    for shown in (text.getvalue(), page(by_group)):
        for part in ("neutralised", "10.00", "Look at age."):
            assert part in shown
    assert re.search(r"−5.00\D+−8.00 to −2.00", text.getvalue())


def test_what_is_written_follows_its_schema(evaluation, rules, tmp_path):
    table = applicants(rows=400)
    model = LogisticRegression().fit(table.select("x", "z").to_numpy(), table["repaid"].to_numpy())
    options = {"model": lambda rows: model.predict_proba(rows.to_numpy())[:, 1], "features": ["x", "z"]}
    asked = tl.alternatives(table, "group", outcome="repaid", **options)["a"]
    assert len(asked.what_ifs) > 0
    for name, one in (("evaluations", evaluation), ("alternatives", rules), ("alternatives", asked)):
        one.to_json(tmp_path / "found.json")
        found = json.loads((tmp_path / "found.json").read_text())
        jsonschema.Draft202012Validator(strict(published(name))).validate(found)


def test_names_from_data_stay_text(evaluation, rules):
    assert HOSTILE not in page([renamed(evaluation)])
    assert HOSTILE not in page(AlternativesByGroup({HOSTILE: replace(rules, audited=HOSTILE)}, HOSTILE))


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
def test_pages_open_without_an_error_and_fit_the_window(browser, tmp_path, evaluation, rules, width):
    evaluation.report(tmp_path / "evaluation.html")
    rules.report(tmp_path / "rules.html")
    for name, figures in (("evaluation.html", 1), ("rules.html", 2)):
        with opened(browser, tmp_path / name, width=width, scheme="dark") as tab:
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert tab.locator(".drawing svg").count() == figures
            assert tab.seen == []
