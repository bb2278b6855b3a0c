"""The four verdicts, branch by branch, and Holm's levels against an example by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tiltlens.estimators.estimate import Normal
from tiltlens.estimators.verdicts import JOINT, NOTHING, PROXY, UNDECIDED, holm_confidences, verdict

MATERIALITY = 0.005
LARGE = Normal(0.2, 0.02)
SMALL = Normal(0.001, 0.001)
UNSURE = Normal(0.02, 0.02)
INSIDE = Normal(0.001, 0.001)
ACROSS = Normal(0.004, 0.004)


def judged(gap, inputs=SMALL, outputs=SMALL, is_adequate=True, adjusted=0.95):
    return verdict(gap, inputs, outputs, MATERIALITY, 0.95, adjusted, is_adequate)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_gap_beyond_materiality_is_proxy_evidence_in_both_directions(sign):
    beyond = Normal(sign * 0.02, 0.005)
    assert judged(beyond) == PROXY
    assert judged(beyond, None, None, is_adequate=False) == PROXY
    assert judged(beyond, adjusted=0.9999) != PROXY


@pytest.mark.parametrize("gap", [INSIDE, ACROSS])
def test_totals_that_reveal_and_drive_are_joint_proxy_evidence(gap):
    assert judged(gap, LARGE, LARGE) == JOINT
    assert judged(gap, LARGE, LARGE, is_adequate=False) == UNDECIDED
    assert judged(gap, LARGE, UNSURE) == UNDECIDED
    assert judged(gap, UNSURE, LARGE) == UNDECIDED


@pytest.mark.parametrize(("inputs", "outputs"), [(SMALL, LARGE), (LARGE, SMALL), (SMALL, UNSURE), (SMALL, SMALL)])
def test_a_small_gap_and_one_small_total_are_no_material_evidence(inputs, outputs):
    assert judged(INSIDE, inputs, outputs) == NOTHING
    assert judged(ACROSS, inputs, outputs) == UNDECIDED


def test_an_inadequate_membership_model_leaves_only_what_does_not_need_it():
    assert judged(INSIDE, SMALL, LARGE, is_adequate=False) == UNDECIDED
    assert judged(INSIDE, LARGE, SMALL, is_adequate=False) == NOTHING


def test_evidence_takes_adjusted_intervals_and_its_absence_the_printed_ones():
    assert judged(INSIDE, Normal(0.02, 0.004), Normal(0.02, 0.004)) == JOINT
    assert judged(INSIDE, Normal(0.02, 0.004), Normal(0.02, 0.004), adjusted=0.999) == UNDECIDED
    assert judged(Normal(0.002, 0.0012), adjusted=0.999) == NOTHING


def test_totals_that_were_not_measured_leave_it_open():
    assert judged(INSIDE, None, SMALL) == UNDECIDED
    assert judged(INSIDE, SMALL, None) == UNDECIDED
    assert judged(INSIDE, UNSURE, UNSURE) == UNDECIDED


def gap_of_p(p, se=0.01):
    """Return a gap whose p-value against |gap| ≤ 0.005 is p."""
    from scipy.special import ndtri

    return Normal(0.005 + se * float(-ndtri(p / 2)), se)


def test_holm_levels_against_an_example_by_hand():
    # α = 0.05, four features: 0.05/4 = 0.0125 ≥ 0.001, 0.05/3 = 0.0167 ≥ 0.015, 0.05/2 = 0.025 < 0.03: stop
    p_values = [0.03, 0.001, 0.2, 0.015]
    levels = holm_confidences([gap_of_p(p) for p in p_values], 0.005, 0.95)
    np.testing.assert_allclose(levels, [0.975, 0.9875, 0.975, 1 - 0.05 / 3], atol=1e-12)
    found = [judged(gap_of_p(p), adjusted=c) == PROXY for p, c in zip(p_values, levels, strict=True)]
    assert found == [False, True, False, True]


def test_holm_rejects_what_its_step_down_procedure_rejects():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p_values = rng.uniform(0.0, 0.1, 5) ** 2
        gaps = [gap_of_p(p) for p in p_values]
        levels = holm_confidences(gaps, 0.005, 0.95)
        found = {j for j in range(5) if judged(gaps[j], adjusted=levels[j]) == PROXY}
        order = np.argsort(p_values)
        passed = [p_values[j] <= 0.05 / (5 - i) for i, j in enumerate(order)]
        assert found == set(order[: passed.index(False) if False in passed else 5].tolist())


def test_holm_knows_gaps_without_error():
    levels = holm_confidences([Normal(0.1, 0.0), Normal(0.0, 0.0)], 0.005, 0.95)
    assert levels == pytest.approx([0.975, 0.95])


def test_one_feature_keeps_the_confidence_asked_for():
    assert holm_confidences([Normal(0.1, 0.01)], 0.005, 0.9) == pytest.approx([0.9])
