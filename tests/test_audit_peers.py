"""Gap and impact ratio against fairlearn's difference and ratio on the same rows."""

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame, demographic_parity_difference, mean_prediction, selection_rate
from tests.people import audited, people


def fairlearn(scores, metric, weights=None):
    truth = np.zeros(len(scores))  # rates of the prediction alone
    parameters = {} if weights is None else {"sample_weight": weights}
    return MetricFrame(
        metrics=metric,
        y_true=truth,
        y_pred=scores,
        sensitive_features=people()["group"].to_numpy(),
        sample_params=parameters,
    )


def assert_same_rates(c, frame):
    a, b = frame.by_group["A"], frame.by_group["B"]
    assert c.rates.audited.value == pytest.approx(a, rel=1e-12)
    assert c.rates.reference.value == pytest.approx(b, rel=1e-12)
    assert abs(c.gap.value) == pytest.approx(frame.difference(method="between_groups"), rel=1e-9)
    assert c.gap.value == pytest.approx(a - b, rel=1e-9)
    assert min(c.impact_ratio.value, 1 / c.impact_ratio.value) == pytest.approx(frame.ratio(), rel=1e-9)


def test_mean_scores_against_fairlearn():
    scores = people()["score"].to_numpy()
    assert_same_rates(audited(people(), folds=None)["A"], fairlearn(scores, mean_prediction))


def test_decisions_against_fairlearn():
    decisions = (people()["score"].to_numpy() >= 0.6).astype(int)
    c = audited(people(), threshold=0.6, folds=None)["A"]
    assert_same_rates(c, fairlearn(decisions, selection_rate))
    peer = demographic_parity_difference(
        np.zeros(len(decisions)), decisions, sensitive_features=people()["group"].to_numpy()
    )
    assert abs(c.gap.value) == pytest.approx(peer, rel=1e-9)


def test_weighted_scores_against_fairlearn():
    scores, weights = people()["score"].to_numpy(), people()["weight"].to_numpy()
    c = audited(people(), sample_weight="weight", folds=None)["A"]
    assert_same_rates(c, fairlearn(scores, mean_prediction, weights))


def test_intervals_hold_the_peers_number():
    frame = fairlearn(people()["score"].to_numpy(), mean_prediction)
    c = audited(people(), propensity="chance")["A"]
    assert c.gap.low < -frame.difference() < c.gap.high
    assert c.impact_ratio.low < frame.ratio() < c.impact_ratio.high
