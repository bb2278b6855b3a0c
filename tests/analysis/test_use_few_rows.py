"""Few rows, or features that few people have: nothing is seen of them, which is not the same as nothing there."""

import numpy as np
import pytest

import tiltlens as tl
from tiltlens._estimators.influence import Rows
from tiltlens._estimators.use import judge_projections, project_residuals
from tiltlens._estimators.verdicts import Verdict


@pytest.mark.parametrize("seed", [0, 3])
def test_the_only_input_of_a_score_of_24_people_is_no_stand_in(seed):
    rng = np.random.default_rng(seed)
    group = np.repeat(["A", "B"], 12)
    income = rng.normal(size=24) + (group == "B")
    data = {"group": group, "income": income, "noise": rng.normal(size=24), "score": 1 / (1 + np.exp(-income))}
    rows = tl.audit(data, "group", reference="A", scores="score")["B"].contributions_full
    (row,) = rows.filter(rows["feature"] == "income").to_dicts()
    assert row["verdict"] == Verdict.PROXY_OR_STAND_IN
    assert (row["use_low"], row["use_high"] > 0.1) == (0.0, True)


def test_numbers_of_20_people_do_not_identify_the_group():
    rng = np.random.default_rng(0)
    group = np.repeat(["A", "B"], 10)
    data = {"group": group, "a": rng.normal(size=20), "b": rng.normal(size=20), "score": rng.random(20)}
    c = tl.audit(data, "group", reference="A", scores="score")["B"]
    assert set(c.contributions["verdict"]) == {"not assessed"}


def test_columns_of_too_few_rows_leave_all_of_the_residuals_to_the_feature():
    rng = np.random.default_rng(0)
    rows = Rows.of(np.arange(400) >= 200, np.ones(400))
    column = np.zeros((400, 1))
    column[[0, 1, 398, 399]] = 1.0
    blind = project_residuals(rows, rng.normal(size=400), column)
    assert blind.is_blind
    assert judge_projections(blind, (blind, blind), blind, 0.04, 0.95, 0.005) == (0.0, 0.0, 0.4)
    assert not project_residuals(rows, rng.normal(size=400), 0.0 * column).is_blind


def test_a_flag_of_44_people_that_moves_the_score_is_no_stand_in():
    """A noisy score hid it: no column rests on enough rows, and the audit said that the score does not use it."""
    rng = np.random.default_rng(0)
    flag = np.zeros(3000, dtype=int)
    flag[:6] = flag[-38:] = 1
    income = rng.normal(size=3000)
    score = np.clip(0.2 + 0.75 * flag + 0.03 * income + rng.normal(0, 0.2, 3000), 0, 1)
    data = {"group": np.repeat(["A", "B"], 1500), "flag": flag, "income": income, "score": score}
    rows = tl.audit(data, "group", reference="A", scores="score")["B"].contributions_full
    (row,) = rows.filter(rows["feature"] == "flag").to_dicts()
    assert row["verdict"] in (Verdict.POTENTIAL_PROXY, Verdict.PROXY_OR_STAND_IN)
    assert row["use_high"] > 0.3
