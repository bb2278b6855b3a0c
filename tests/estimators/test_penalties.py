"""Ridge penalties by empirical Bayes."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from tiltlens._estimators.ridges import MOST_PENALTY, UNDERSMOOTHED, block_penalties

ROWS = 600


def moments(phi, y):
    phi, y = phi - phi.mean(axis=0), y - y.mean()
    return phi.T @ phi / len(y), phi.T @ y / len(y), float(y @ y) / len(y)


def penalties(phi, y, blocks):
    return block_penalties(*moments(phi, y), [np.asarray(one) for one in blocks], float(len(y)))


def test_the_penalty_of_one_block_has_the_largest_evidence():
    """Maximise the marginal likelihood of y ~ N(0, σ² + τ²ΦΦᵀ) directly: the penalty is σ²/τ² divided by the rows."""
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((200, 4))
    y = phi @ [0.3, -0.2, 0.1, 0.0] + rng.standard_normal(200)
    phi, y = phi - phi.mean(axis=0), y - y.mean()

    def loss(log_variances):
        noise, prior = np.exp(log_variances)
        return -multivariate_normal.logpdf(y, cov=noise * np.eye(200) + prior * phi @ phi.T)

    noise, prior = np.exp(minimize(loss, [0.0, -2.0], method="Nelder-Mead", options={"xatol": 1e-6}).x)
    found = penalties(phi, y, [[0, 1, 2, 3]]) / UNDERSMOOTHED
    # MacKay's noise variance has the regression's degrees of freedom, that of the evidence nearly so
    np.testing.assert_allclose(found, noise / prior / 200, rtol=0.03)


def test_what_is_clearly_seen_is_left_as_it_is_and_noise_is_taken_out():
    rng = np.random.default_rng(1)
    phi = rng.standard_normal((ROWS, 303))
    y = phi[:, 0] + rng.standard_normal(ROWS)
    found = penalties(phi, y, [[0, 1, 2], *([3 * k, 3 * k + 1, 3 * k + 2] for k in range(1, 101))])
    assert (found[:3] < 5 / ROWS).all()
    covariance, cross, _ = moments(phi, y)
    slopes = np.linalg.solve(covariance + np.diag(found), cross)
    assert slopes[0] == pytest.approx(1.0, abs=0.1)
    unpenalised = np.linalg.solve(covariance, cross)
    assert slopes[3:] @ slopes[3:] < 0.5 * (unpenalised[3:] @ unpenalised[3:])
    assert np.median(found[3:]) > 100 / ROWS


def test_a_copy_keeps_the_penalty_it_has_alone():
    rng = np.random.default_rng(2)
    x, noise = rng.standard_normal((ROWS, 1)), rng.standard_normal((ROWS, 3))
    y = x[:, 0] + rng.standard_normal(ROWS)
    alone = penalties(x, y, [[0]])[0]
    both = penalties(np.hstack([x, x, noise]), y, [[0], [1], [2, 3, 4]])
    assert (both[:2] <= alone * (1 + 1e-9)).all()


def test_a_column_that_matters_beside_another_only_is_not_taken_out():
    rng = np.random.default_rng(3)
    z, signal = rng.standard_normal(ROWS), rng.standard_normal(ROWS)
    z -= (z @ signal) / (signal @ signal) * signal  # it says nothing of the target by itself
    phi, y = np.column_stack([signal + z, z]), signal + 0.3 * rng.standard_normal(ROWS)
    assert penalties(phi[:, 1:], y, [[0]])[0] > 100 / ROWS
    found = penalties(phi, y, [[0], [1]])
    assert (found < 5 / ROWS).all()


def test_a_target_that_does_not_vary_takes_every_column_out():
    phi = np.random.default_rng(4).standard_normal((ROWS, 2))
    np.testing.assert_array_equal(penalties(phi, np.ones(ROWS), [[0, 1]]), UNDERSMOOTHED * MOST_PENALTY)
