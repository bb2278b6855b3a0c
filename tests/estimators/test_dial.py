"""The dial's forms give the same shares, with the same intervals, as the estimators at each (λ2, λ4)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from tiltlens._estimators.crossfit import explained_variance, gradient, gradient_variance, pairing
from tiltlens._estimators.influence import Rows, average_estimates, combine, ratio_tail, tail_factor
from tiltlens._estimators.outputs import Scores
from tiltlens._estimators.use import CORNERS, plug_in_form, share_form, shares_along_dial

weights = st.floats(0.0, 3.0)


def world(seed, outcomes=2, size=300):
    """Return rows, scores, two pairings of noisy models, and codes of a feature."""
    random = np.random.default_rng(seed)
    audited = random.random(size) < 0.5
    x = random.normal(0.7 * audited, 1, size)
    rows = Rows.of(audited, random.integers(1, 4, size).astype(float))
    logits = np.column_stack([x, np.zeros(size), -0.5 * x + random.normal(size=size)])
    scores = expit(x)[:, None] if outcomes == 2 else np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    fold = np.arange(size) % 5
    pairs = [
        pairing(rows, *(5 * x + random.normal(0, 0.3, size) for _ in "ab"), fold=fold) for _ in range(3)
    ]  # steep enough for some rows to be clipped
    return rows, Scores.of(rows, scores), pairs, np.digitize(x, [-0.5, 0.3, 1.0])


def form_of(rows, scores, pairs, codes):
    corners = [[gradient(rows, scores, pair, *corner) for pair in pairs] for corner in CORNERS]
    explained = [average_estimates([explained_variance(rows, g, codes) for g in found]) for found in corners]
    return share_form(explained, [gradient_variance(rows, found) for found in corners])


def tail_of(rows, scores, pairs, codes):
    gradients = [gradient(rows, scores, pair) for pair in pairs]
    explained = average_estimates([explained_variance(rows, g, codes) for g in gradients])
    return ratio_tail(explained, gradient_variance(rows, gradients))


@pytest.mark.parametrize("outcomes", [2, 3])
@given(weights, weights, st.integers(0, 5))
def test_the_form_equals_the_estimator_at_every_weight(outcomes, input_weight, output_weight, seed):
    if input_weight + output_weight < 1e-3:
        return
    rows, scores, pairs, codes = world(seed, outcomes)
    gradients = [gradient(rows, scores, pair, input_weight, output_weight) for pair in pairs]
    explained = average_estimates([explained_variance(rows, g, codes) for g in gradients])
    found = form_of(rows, scores, pairs, codes).at(input_weight, output_weight)
    whole = gradient_variance(rows, gradients)
    tails = tail_of(rows, scores, pairs, codes) / ratio_tail(explained, whole)  # a form has those of equal weights
    expected = explained.over(whole)
    for name in ("numerator", "denominator"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-7, abs=1e-12), name
    for name in ("numerator_variance", "covariance", "denominator_variance"):
        assert getattr(found, name) == pytest.approx(tails**2 * getattr(expected, name), rel=1e-7, abs=1e-12), name


def test_a_plug_in_form_is_the_share_of_the_variance_of_g():
    random = np.random.default_rng(0)
    z, cell, slopes = random.normal(size=(500, 3)), random.integers(0, 4, 500), np.array([0.7, -1.2])
    z[:, 0] += cell
    means = np.array([z[cell == c].mean(axis=0) for c in range(4)])[cell]
    g, m = (values @ np.array([2.0, *(3.0 * slopes)]) for values in (z, means))
    form = plug_in_form(np.cov(means.T, ddof=0), np.cov(z.T, ddof=0), slopes)
    assert form.at(2.0, 3.0).estimate().to_dict() == pytest.approx(
        dict.fromkeys(("value", "low", "high"), m.var() / g.var())
    )


def test_shares_along_the_dial_are_the_form_s_at_each_position():
    rows, scores, pairs, codes = world(2)
    form = form_of(rows, scores, pairs, codes)
    for position, _, *share in shares_along_dial({"x": form}, [0.0, 0.25, 1.0], 0.9):
        expected = form.at(1 - position, position).estimate(0.9)
        assert share == [expected.value, expected.low, expected.high]
    assert [low for _, _, _, low, _ in shares_along_dial({"x": form}, [0.5], None)] == [None]


def test_rounding_errors_of_a_share_of_0_do_not_decide_whether_it_is_determined():
    rows, scores, pairs, _ = world(0)
    whole = gradient_variance(rows, [gradient(rows, scores, pair) for pair in pairs])
    noise = np.zeros_like(whole.influence)
    noise[0] = 1e-17  # of one row, which would have the heaviest tails
    rounded = replace(whole, value=1e-18, parts=(noise,) * len(whole.parts), between=1e-18 * whole.between)
    exact = combine(0.0, [(0.0, whole)])
    assert tail_factor(rounded) > 1.1
    assert ratio_tail(rounded, whole) == ratio_tail(exact, whole) == 1.0
