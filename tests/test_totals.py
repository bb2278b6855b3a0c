"""The truths of `benchmarks/totals.py` against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import totals


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    monkeypatch.setattr(totals, "DRAWS", 200_000)


def silent(world):
    """Return the world with a score that says nothing, so that g is the log-ratio alone."""
    return replace(world, score=lambda x: np.full(len(x), 0.5))


def test_totals_of_independent_features_are_their_shares_of_the_log_ratio():
    """For ℓ = Σ m_j x_j the total share is m_j²/Σ m²."""
    expected = {"strong": 0.49 / 0.65, "weak": 0.16 / 0.65, "noise": 0.0}
    assert silent(totals.gaussian("independent", 0.0)).totals() == pytest.approx(expected, abs=0.01)


def test_totals_of_an_xor_are_the_variance_of_its_product():
    a, b = np.log(1.4), np.log(0.6)
    hidden = 0.7 * 0.3 * (a - b) ** 2
    whole = hidden + 0.25
    expected = {"left": hidden / whole, "right": hidden / whole, "third": 0.25 / whole, "idle": 0.0}
    assert silent(totals.exclusive_or()).totals() == pytest.approx(expected, abs=0.01)


def test_a_feature_drawn_anew_keeps_the_distribution():
    rng = np.random.default_rng(0)
    for world in (totals.gaussian("dependent", 0.4), totals.exclusive_or()):
        x = world.draw(200_000, True, rng)
        for j in range(len(world.features)):
            moved = world.redrawn(x, j, rng)
            assert moved.mean(axis=0) == pytest.approx(x.mean(axis=0), abs=0.02)
            assert np.cov(moved.T) == pytest.approx(np.cov(x.T), abs=0.02)
            assert (moved[:, j] != x[:, j]).any()
