"""What could overturn a finding, asked of whole audits: omitted factors, unobserved outcomes, separate models."""

from functools import cache

import numpy as np
import polars as pl
import pytest
from tests.command import invoked

import tiltlens as tl
from tiltlens._documents.audit_document import audit_document
from tiltlens._documents.document import Heading
from tiltlens._documents.sentences import sensitivity_words
from tiltlens._render.html import result_html
from tiltlens.errors import DataError

SEPARATE, SENSITIVITY = "One model or separate models", "Sensitivity to an omitted factor"


@cache
def loans(direct=-0.06, rows=500):
    """Return loans whose score has noise, and uses the group directly by so much."""
    random = np.random.default_rng(4)
    black = random.random(rows) < 0.4
    history = random.integers(0, 4, rows) - (random.random(rows) < 0.4 * black)
    score = 0.45 + 0.08 * history + direct * black + 0.08 * random.normal(size=rows)
    repaid = random.random(rows) < np.clip(score + 0.15 * black, 0, 1)
    return pl.DataFrame(
        {
            "race": np.where(black, "Black", "White"),
            "history": history,
            "branch": random.integers(0, 3, rows).astype(str),
            "score": score.clip(0.01, 0.99),
            "repaid": repaid.astype(int),
        }
    )


def audit_of(data, **options):
    given = {"group": "race", "reference": "White", "scores": "score", "features": ["history", "branch"]}
    return tl.audit(data, **given | options)


def test_bounds_begin_at_the_adjusted_gap_and_reach_0_at_the_robustness_value(refused):
    c = audit_of(loans())["Black"]
    found = c.sensitivity()
    assert found.bounds(0.0, 0.0).low == found.bounds(0.0, 0.3).high == c.adjusted_gap
    assert found.bounds(found.robustness_value, found.robustness_value).high.value == pytest.approx(0.0, abs=1e-12)
    assert found.robustness_value.low < found.robustness_value < found.robustness_value.high
    first, last = found.yardsticks
    assert (first.feature, last.feature) == ("history", "branch")
    assert (
        found.bounds(min(first.multiple * first.r2_score, 0.999999), first.multiple * first.r2_group).high.value
        >= -1e-3
    )
    with refused(DataError, "`r2_group`"):
        found.bounds(0.1, 1)
    with refused(DataError, "`quantity`", "'adjusted_gap'"):
        c.sensitivity("gap_given_exempt")


def test_the_gap_given_exempt_factors_has_its_own_sensitivity():
    c = audit_of(loans(), exempt="history")["Black"]
    found = c.sensitivity("gap_given_exempt")
    assert found.gap == c.gap_parts.gap_given_exempt
    assert [one.feature for one in found.yardsticks] == ["history"]


def test_an_inconclusive_adjusted_gap_needs_no_omitted_factor(worded):
    c = audit_of(loans(direct=0.0))["Black"]
    assert c.estimate("robustness_value").low == 0.0
    worded(sensitivity_words(c, "adjusted_gap"))


def test_cents_have_a_hundred_times_the_bounds_of_euros():
    data = loans().with_columns(euros=1000 * pl.col("score"), cents=100_000 * pl.col("score"))
    euros, cents = (
        audit_of(data, scores=name, score_type="amount")["Black"].sensitivity() for name in ("euros", "cents")
    )
    assert cents.scale == pytest.approx(100 * euros.scale, rel=1e-6)
    assert cents.robustness_value.value == pytest.approx(euros.robustness_value.value, rel=1e-6)
    assert cents.bounds(0.1, 0.1).low.low == pytest.approx(100 * euros.bounds(0.1, 0.1).low.low, rel=1e-6)


def test_plug_in_values_and_models_have_no_sensitivity():
    assert audit_of(loans(), folds=None)["Black"].gap_parts.sensitivity == {}
    model = audit_of(loans(), scores=None, model=lambda frame: 0.4 + 0.1 * np.asarray(frame["history"]) / 4)
    assert model["Black"].gap_parts.sensitivity == {}


def test_unobserved_outcomes_widen_the_gap_of_error_rates():
    seen = pl.when(pl.col("score") > 0.5).then(pl.col("repaid"))
    options = {"features": [], "outcome": "repaid"}
    assert audit_of(loans(), **options)["Black"].error_rates.selective_labels is None
    found = audit_of(loans().with_columns(repaid=seen), **options)["Black"].error_rates.selective_labels
    table = found.bounds.filter(rate="fpr")
    assert (table["low"].diff().drop_nulls() <= 1e-12).all()
    assert (table["high"].diff().drop_nulls() >= -1e-12).all()
    assert (table["interval_low"] <= table["low"]).all()
    assert found.sign_gamma["fpr"].value == 0.0  # below the cut nobody's outcome is known


def test_separate_models_are_fitted_when_asked_for_and_kept_in_the_file(tmp_path):
    audit = audit_of(loans(rows=1_000), outcome="repaid", folds=None)
    c = audit["Black"]
    found = c.splitting
    assert found.rows == {"audited": c.rows["audited"], "reference": c.rows["reference"]}
    assert found.brier.largest.value >= found.brier.both.value
    assert found.least_gain.low <= found.brier.both.high
    assert SEPARATE not in str(audit)
    audit.to_json(tmp_path / "audit.json")
    saved = tl.read_audit(tmp_path / "audit.json")["Black"]
    assert saved.splitting == found
    assert Heading(SEPARATE) in audit_document(audit, has_fits=True).blocks
    assert c.plot("splitting").table["gain"][0] == pytest.approx(found.brier.both.value / found.blind_brier)
    assert SEPARATE in c._repr_html_()


def test_separate_models_need_outcomes_features_and_observed_groups():
    assert audit_of(loans(), folds=None)["Black"].splitting is None
    assert audit_of(loans(), outcome="repaid", features=[])["Black"].splitting is None
    few = loans().with_columns(pl.when(pl.int_range(pl.len()) < 80).then(pl.col("repaid")))
    assert audit_of(few, outcome="repaid", folds=None)["Black"].splitting is None


@pytest.mark.parametrize(("metric", "decision"), [("fdr", 1), ("for", 0)])
def test_a_metric_of_decisions_is_the_audit_of_the_people_given_them(metric, decision):
    options = {"threshold": 0.55, "outcome": "repaid", "features": []}
    data = loans()
    c, plain = (audit_of(data, **options, **more)["Black"] for more in ({"metric": metric}, {}))
    chosen = data.filter((pl.col("score") >= 0.55).cast(int) == decision)
    wrong = chosen.group_by("race").agg((pl.col("repaid") != decision).mean())
    rates = dict(wrong.rows())
    assert c.gap.value == pytest.approx(rates["Black"] - rates["White"])
    own = c.estimate(f"{metric}_difference"), plain.estimate(f"{metric}_difference")
    assert own[0].value == pytest.approx(own[1].value)
    assert (own[0].low, own[0].high) == pytest.approx((own[1].low, own[1].high))
    right = {"fdr": "ppv", "for": "npv"}[metric]
    assert plain.estimate(f"{right}_difference").value == pytest.approx(-own[1].value)
    assert c.rows["audited"] == chosen.filter(race="Black").height
    assert (c.shortfall.value > 0) == (c.gap.value > 0)  # people want right decisions


def test_predictive_values_are_of_decisions_and_the_log_loss_of_scores(refused):
    decisions, scores = (
        audit_of(loans(), outcome="repaid", features=[], **more)["Black"].error_rates
        for more in ({"threshold": 0.5}, {})
    )
    assert decisions.log_loss is scores.ppv is scores.for_ is None
    assert not {"ppv", "log_loss"} & {*decisions.reasons, *scores.reasons}
    with refused(DataError, "`metric`", "'fpr'"):
        audit_of(loans(), outcome="repaid", features=[], metric="fdr")
    certain = loans().with_columns(score=pl.when(pl.col("repaid") == 1).then(0.0).otherwise(pl.col("score")))
    reason = audit_of(certain, outcome="repaid", features=[])["Black"].error_rates.reasons["log_loss"]
    assert "infinite" in reason


def test_command_line_notebook_and_gates_have_the_sensitivity(tmp_path):
    loans().write_csv(tmp_path / "loans.csv")
    given = (
        "audit",
        "loans.csv",
        "--group",
        "race",
        "--reference",
        "White",
        "--scores",
        "score",
        "--exclude",
        "repaid",
    )
    result = invoked(*given, "--fail-if", "robustness_value.low<0.9", cwd=tmp_path)
    assert result.returncode == 1
    assert SENSITIVITY in result.stdout
    c = audit_of(loans())["Black"]
    assert SENSITIVITY in result_html(c)
