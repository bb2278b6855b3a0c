"""Gates: what they read of unobserved groups, which numbers they refuse, and what a test says that cannot decide."""

import json
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import tiltlens as tl
from tiltlens._gates import OF_AUDITS, OF_CHANGES, assert_gate, gate
from tiltlens.errors import TiltlensError

PEOPLE = {"sex": ["women", "men"] * 60, "score": [0.2, 0.6, 0.3, 0.5] * 30, "x": ["a", "b", "c"] * 40}


def hired(rows=3000, seed=1):
    """Return decisions at rates of 45 and 65 %, a ratio of .7, of groups that are known by calibrated probabilities."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(0.5, 0.7, rows)
    black = rng.random(rows) < chance
    decided = rng.random(rows) < np.where(black, 0.45, 0.65)
    return {"p": chance, "q": 1 - chance, "hired": decided.astype(int), "black": np.where(black, "yes", "no")}


@pytest.fixture(scope="module")
def unobserved():
    options = {"reference": "White", "scores": "hired", "features": [], "exclude": ["black"]}
    return tl.audit(hired(), {"Black": "p", "White": "q"}, **options)


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("impact_ratio<0.8", "not defined"),
        ("adverse_impact_ratio<0.8", "not defined"),
        ("shortfall>200", "not defined"),
        ("standardised_difference<-0.9", "not defined"),
        ("gap<-0.15", "fired"),
        ("gap.low<-0.15", "fired"),
        ("gap<-0.3", "passed"),
        ("gap>0.1", "passed"),
        ("bracket.low<-0.15", "fired"),
        ("bracket.high>-0.01", "passed"),
        ("limits.high>0.1", "fired"),
        ("linear<-0.15", "fired"),
    ],
)
def test_a_true_ratio_of_seven_tenths_does_not_pass_weighted_by_probabilities(unobserved, condition, status):
    table = hired()
    black, decided = table["black"] == "yes", table["hired"]
    assert decided[black].mean() / decided[~black].mean() < 0.73
    assert (unobserved["Black"].gap.low > -0.15, unobserved["Black"].unobserved_group.bracket.low < -0.15) == (
        True,
        True,
    )
    (said,) = gate(condition).judge(unobserved)
    assert (said.status, said.fails) == (status, status != "passed")


def test_what_is_known_only_weighted_cannot_pass(worded, unobserved):
    c = unobserved["Black"]
    left = replace(unobserved, comparisons={"Black": replace(c, adjusted_gap=c.gap)})
    holds, not_so = (gate(text).judge(left)[0] for text in ("adjusted_gap<-0.01", "adjusted_gap<-0.5"))
    assert (holds.status, not_so.status) == ("fired", "not defined")
    worded(str(not_so))
    change = tl.compare(unobserved, unobserved)
    for text, status in (("gap_change<-0.5", "not defined"), ("linear_gap_change<-0.5", "passed")):
        assert gate(text, OF_CHANGES).judge(change)[0].status == status


def test_of_observed_groups_there_is_no_bracket(worded):
    audit = tl.audit(PEOPLE, "sex", scores="score", features=[], folds=None)
    (said,) = gate("bracket.low<-0.1").judge(audit)
    assert said.fails
    assert said.status == "not defined"
    worded(said.sentence)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gap<-10", r"gap needs a number between -1 and 1, got 'gap<-10'\.(.|\n)*did you mean -0\.1\?"),
        ("gap>1", "gap needs a number between -1 and 1"),
        ("fpr_difference.low>5", "fpr_difference needs a number between -1 and 1"),
        ("bracket.low<-15", "bracket needs a number between -1 and 1"),
        ("adverse_impact_ratio<80", r"a number between 0 and 1, got 'adverse_impact_ratio<80'(.|\n)*0\.8\?"),
        ("adjusted_gap_change>2", "adjusted_gap needs a number between -1 and 1"),
    ],
)
def test_numbers_beyond_the_possible_are_refused(text, message):
    one = gate(text, (*OF_AUDITS, *OF_CHANGES))
    with pytest.raises(TiltlensError, match=message):
        one.check_range(is_amount=False)
    if not text.startswith(("fpr", "adverse")):
        one.check_range(is_amount=True)  # units of an amount may be any number


def test_an_audit_of_scores_refuses_points_and_one_of_amounts_takes_units(refused):
    scores = tl.audit(PEOPLE, "sex", scores="score", features=[], folds=None)
    with refused(TiltlensError, "gap needs"):
        assert_gate(scores, "gap<-10")
    amounts = tl.audit(PEOPLE, "sex", scores="score", features=[], folds=None, score_type="amount")
    assert_gate(amounts, "gap<-10")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bracket<-0.1", "A gate on bracket needs one of its ends"),
        ("gapp<0", r"did you mean gap\?"),
        (["gap<0"], "is not a gate"),
    ],
)
def test_gates_that_mean_nothing(text, message):
    with pytest.raises(TiltlensError, match=message):
        gate(text)


def test_gates_that_are_not_decided_are_not_green_in_silence():
    audit = tl.audit(PEOPLE, "sex", scores="score", features=[], folds=None)
    frame = pl.DataFrame({"feature": ["a", "b"], "verdict": ["inconclusive", "no material contribution"]})
    undecided = replace(audit, comparisons={"women": replace(audit["women"], contributions_full=frame)})
    with pytest.warns(UserWarning, match="potential_proxies>0.* women: 0, 1 inconclusive"):
        assert_gate(undecided, "potential_proxies>0", "gap>0.5")
    with pytest.warns(UserWarning, match="gap>0.5.* isle"):
        assert_gate(replace(audit, too_small={"isle": 3}), "gap>0.5")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_gate(audit, "gap>0.5")


def test_the_json_of_an_unobserved_group_has_no_number_that_is_weighted_alone(unobserved, tmp_path):
    unobserved.to_json(tmp_path / "a.json")
    c = json.loads((tmp_path / "a.json").read_text())["comparisons"]["Black"]
    assert c["impact_ratio"] is c["shortfall"] is c["gap_test"] is c["correction"]["output_divergence"] is None
    saved = tl.read_audit(tmp_path / "a.json")
    assert [one.status for one in gate("gap<-0.15").judge(saved)] == ["fired"]


@pytest.mark.parametrize(
    ("condition", "value", "text"),
    [
        ("shortfall>100", 12345.6, "12346"),
        ("gap<-100", -1382.99, "−1383"),
        ("adverse_impact_ratio<0.8", 0.799_96, "0.79996"),
        ("adverse_impact_ratio<0.8", 0.5, "0.5"),
        ("potential_proxies>2", 3, "3"),
    ],
)
def test_a_number_has_as_few_digits_as_show_its_units_and_its_side_of_the_limit(condition, value, text):
    assert gate(condition)._number(value) == text
