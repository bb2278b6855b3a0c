"""Ridge logistic regression with a penalty per column, by Newton's method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from tiltlens.estimators.influence import Booleans
from tiltlens.paper.checks import Floats

LOGIT_ITERATIONS = 60  # of Newton, which takes ten
LOGIT_DECREMENT = 1e-7  # of the mean log-loss


@dataclass(frozen=True, slots=True, eq=False)
class Logit:
    """Log-odds intercept + x·slopes, with the number of coefficients the data decided (`degrees`)."""

    intercept: float
    slopes: Floats
    degrees: float


def ridge_logit(matrix: Floats, labels: Booleans, weights: Floats, penalty: Floats) -> Logit:
    """Return the minimiser of Σ w·log(1 + e^{−±η}) + ½Σ penalty·slope², η = intercept + x·slopes.

    `weights` are scaled to mean 1, so that a penalty means the same whatever their unit.
    """
    x = np.column_stack([np.ones(len(matrix)), matrix])
    w = weights / weights.mean()
    # The intercept is free: shrinking it would move the prior, hence ℓ.
    ridge = np.concatenate([[1e-8], penalty])
    beta = np.zeros(x.shape[1])
    share = np.clip(float(np.dot(w, labels)) / float(w.sum()), 1e-6, 1 - 1e-6)
    beta[0] = np.log(share / (1.0 - share))
    eta = x @ beta
    loss = _objective(eta, beta, labels, w, ridge)
    for _ in range(LOGIT_ITERATIONS):
        mu = expit(eta)
        gradient = np.dot(x.T, w * (mu - labels)) + ridge * beta
        factor = cho_factor(weighted_gram(x, w * mu * (1.0 - mu)) + np.diag(ridge), lower=True)
        step = cho_solve(factor, gradient)
        size, fall = 1.0, float(gradient @ step)
        if fall < LOGIT_DECREMENT * len(x):
            break
        start, eta_step = (beta, eta), x @ step
        while True:
            beta, eta = start[0] - size * step, start[1] - size * eta_step
            trial = _objective(eta, beta, labels, w, ridge)
            # Armijo: separable groups make a full Newton step overshoot.
            if trial <= loss - 1e-4 * size * fall or size < 2e-6:
                break
            size /= 2
        loss = trial
    # tr(S) with S = H(H + R)⁻¹ (37).
    degrees = len(ridge) - float(np.trace(cho_solve(factor, np.diag(ridge))))
    return Logit(float(beta[0]), beta[1:], degrees)


def weighted_gram(x: Floats, weights: Floats) -> Floats:
    """Return Σ w·xxᵀ; as a product of a matrix with itself, half of it need not be worked out."""
    scaled = x * np.sqrt(weights)[:, None]
    return np.asarray(scaled.T @ scaled)


def _objective(eta: Floats, beta: Floats, labels: Booleans, weights: Floats, ridge: Floats) -> float:
    return float(np.dot(weights, log_loss(eta, labels)) + 0.5 * ridge @ beta**2)


def log_loss(log_odds: Floats, labels: Booleans) -> Floats:
    """Return each row's −log P(its label), from log-odds of True."""
    return np.asarray(np.logaddexp(0.0, np.where(labels, -log_odds, log_odds)))
