"""Nothing but group and score: what can be said of outputs is said, and that nothing else was looked at."""

import json

import jsonschema
import polars as pl
import pytest
from tests.command import invoked
from tests.people import (
    ENGINES,
    FEATURES,
    FILES,
    SOURCES,
    along,
    assert_same_numbers,
    audited,
    lending,
    note_codes,
    people,
)
from tests.schemas import SCHEMA, strict

import tiltlens as tl
from tiltlens._documents.headline import NO_FEATURES as SAID
from tiltlens._formats import sentence
from tiltlens.errors import DataError

NO_FEATURES = "no features were listed, so contributions were not estimated"
OF_OUTPUTS = [("", name) for name in ("rows", "gap", "impact_ratio", "adverse_impact_ratio", "shortfall", "gap_test")]
OF_OUTPUTS += [("outputs", name) for name in ("means", "rates", "standardised_difference")]
OF_OUTPUTS += [("correction", name) for name in ("output_divergence", "detection_sample_size")]


def outputs(**options):
    return audited(people(), features=[], **options)


@pytest.mark.parametrize(
    ("held", "columns"),
    [
        *along(SOURCES, ()),
        *along([*ENGINES, *FILES], ("weight",)),
        *along([*ENGINES, *FILES], ("chance",)),
    ],
    indirect=["held"],
)
def test_a_table_of_group_and_score_is_enough_on_every_engine(held, columns):
    table = people().select("group", "score", *columns)
    options = {"sample_weight": "weight"} if "weight" in columns else {"propensity": "chance"} if columns else {}
    found = tl.audit(held(table), "group", reference="B", scores="score", **options)
    assert_same_numbers(found.to_dict(), outputs(**options).to_dict())
    assert NO_FEATURES in found["A"].checks.notes
    assert found["A"].contributions_full.is_empty()


@pytest.mark.parametrize("options", [{}, {"threshold": 0.5}, {"sample_weight": "weight"}, {"where": {"owner": True}}])
def test_outputs_are_those_of_an_audit_with_features(options):
    found, whole = outputs(**options)["A"].to_dict(), audited(people(), propensity="chance", **options)["A"].to_dict()
    for part, name in OF_OUTPUTS:
        mine, others = (summary[part][name] if part else summary[name] for summary in (found, whole))
        assert_same_numbers(mine, others, place=name)
    assert_same_numbers(found["bins"]["score"], whole["bins"]["score"])


@pytest.mark.parametrize("folds", [5, None])
def test_nothing_is_said_of_inputs_without_features(refused, folds):
    c = outputs(folds=folds)["A"]
    assert c.adjusted_gap is c.checks.balance is None
    for name in ("function", "numbers", "epsilon_max", "descent_rate", "input_divergence", "tradeoff"):
        assert getattr(c.correction, name) is None, name
    assert c.checks.propensity == "none"
    assert "no inputs" in note_codes(c)
    assert c.correction.prototypes() == {}
    assert c.correction.project().cost > 0  # of the scores alone
    with refused(DataError, "`features`"):
        c.correction.path([(1, 0, 0, 1)])
    with refused(DataError, "`feature`"):
        c.correction.profile("income")


def test_a_membership_column_gives_the_correction_without_features():
    found, whole = outputs(propensity="chance")["A"], audited(people(), propensity="chance")["A"]
    assert found.correction.function.to_dict() == pytest.approx(whole.correction.function.to_dict())
    assert found.correction.descent_rate.value == pytest.approx(whole.correction.descent_rate.value)
    assert found.correction.input_divergence.value == pytest.approx(whole.correction.input_divergence.value)
    assert found.correction.path([(1, 0, 0, 1)])[0].q == pytest.approx(whole.correction.path([(1, 0, 0, 1)])[0].q)


def test_long_tables_need_no_features_either():
    options = {"scores": "score", "folds": None, "sample_rows": 2_000}
    found, whole = (tl.audit(lending(9_000), "group", features=features, **options) for features in ([], ["region"]))
    assert found["a"].gap.value == pytest.approx(whole["a"].gap.value, abs=1e-12)
    assert found["a"].rows == whole["a"].rows


@pytest.mark.parametrize("options", [{}, {"propensity": "chance"}, {"folds": None}, {"threshold": 0.5}])
def test_every_view_shows_outputs_alone(options, tmp_path):
    audit = outputs(**options)
    jsonschema.validate(json.loads(json.dumps(audit.to_dict())), strict(SCHEMA))
    audit.report(tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert SAID in page
    assert "Contributions of features" not in page
    assert ("function and weighting slider" in page) == ("propensity" in options)
    assert SAID in " ".join(str(audit).split())
    assert "Contributions of features" not in str(audit)
    assert SAID in audit._repr_html_()
    assert "<img" not in audit._repr_html_()


def test_the_command_line_takes_no_features(tmp_path):
    path = tmp_path / "people.csv"
    people().select("group", "score").write_csv(path)
    people().write_csv(tmp_path / "all.csv")
    options = ("--group", "group", "--scores", "score")
    plain = invoked("audit", path, *options, cwd=tmp_path)
    assert sentence(NO_FEATURES) in " ".join(plain.stdout.split())
    listed = invoked("audit", tmp_path / "all.csv", *options, "--features", "", cwd=tmp_path)
    assert listed.stdout == plain.stdout


def test_a_gate_on_features_cannot_pass_without_them(tmp_path):
    path = tmp_path / "people.csv"
    people().select("group", "score").write_csv(path)
    for condition in ("potential_proxies>0", "undecided>0", "not_judged>0"):
        found = invoked("audit", path, "--group", "group", "--scores", "score", "--fail-if", condition, cwd=tmp_path)
        assert found.returncode == 1
        assert "cannot pass" in found.stderr


def test_an_outcome_needs_features(worded, tmp_path):
    path = tmp_path / "people.csv"
    people().select("group", "owner").write_csv(path)
    found = invoked("audit", path, "--group", "group", "--outcome", "owner", cwd=tmp_path)
    assert found.returncode == 2
    worded(found.stderr)


def test_everything_excluded_leaves_outputs():
    found = audited(people(), features=None, exclude=[*FEATURES, "weight", "chance"])
    assert_same_numbers(found.to_dict(), outputs().to_dict())


def test_features_that_say_nothing_are_still_a_mistake(refused):
    with refused(DataError, "No feature"):
        audited(people().with_columns(one=pl.lit(1)), features=["one"])
