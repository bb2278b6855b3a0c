"""The paper's Example 1: the correction when membership is a logistic model of the features.

Sign convention of the paper: P(S=1|x) = 1/(1 + exp(θ0 + θ·x)), so θ is the usual coefficient of a logistic model
*for the audited group* S = 0, and minus that of a model for S = 1. Likewise γ1 for P(S=1|y).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tiltlens.errors import DistributionError
from tiltlens.limits import EQUAL
from tiltlens.paper.checks import (
    Floats,
    check_array,
    check_distribution,
    check_same_length,
    check_weight,
    direction_weights,
)


@dataclass(frozen=True, slots=True, eq=False)
class LogisticCase:
    """A logistic membership model P(S|X) and a logistic P(S|Y), on the audited group's inputs.

    Attributes
    ----------
    theta
        Coefficients θ of the features, in the paper's sign.
    gamma1
        Coefficient γ1 of the outcome, in the paper's sign; for two outcomes it is k = logit Y0(1) − logit Y1(1).
    features
        The atoms (or rows) of the audited group, one row of features each.
    scores
        W(1|x) on them.
    p0
        Their probabilities.
    """

    theta: Floats
    gamma1: float
    features: Floats
    scores: Floats
    p0: Floats

    def f_l(self, features: ArrayLike) -> Floats:
        """Return f_l(x) = θ·x − Σ_i E0[θ_i·X_i], a linear function of the features."""
        x = check_array("features", features, dimensions=(1, 2))
        # logit P(S=0|x) = θ0 + θ·x in the paper’s sign, so that ℓ = θ·x + constant.
        values: Floats = x @ self.theta - (self.p0 @ self.features) @ self.theta
        return values

    def slope(self, f: ArrayLike, input_weight: float = 1.0, output_weight: float = 1.0) -> float:
        """Return Δ(f) = λ2·Σ_i θ_i·E0[f·X_i] + λ4·γ1·E0[g(Y)·Y], with E0[g(Y)·Y] = E0[f·W]."""
        values = check_array("f", f)
        check_same_length(p0=self.p0, f=values)
        l2, l4 = check_weight("input_weight", input_weight), check_weight("output_weight", output_weight)
        mass = self.p0 * values
        return float(l2 * (mass @ self.features) @ self.theta + l4 * self.gamma1 * (mass @ self.scores))

    def correction(self, input_weight: float = 1.0, output_weight: float = 1.0) -> Floats:
        """Return f~ on the atoms: −g~/‖g~‖ with g~ = λ2·f_l + λ4·γ1·(W − p)."""
        l2, l4, _ = direction_weights(
            check_weight("input_weight", input_weight), check_weight("output_weight", output_weight)
        )
        g = l2 * self.f_l(self.features) + l4 * self.gamma1 * (self.scores - self.p0 @ self.scores)
        norm = float(np.sqrt(self.p0 @ g**2))
        scale = float(np.abs(g).max(initial=0.0))
        values: Floats = -g / norm if norm > EQUAL * scale else np.zeros_like(g)
        return values


def logistic_case(
    theta: ArrayLike, gamma1: float, features: ArrayLike, scores: ArrayLike, p0: ArrayLike | None = None
) -> LogisticCase:
    """Return the logistic case of the paper's Example 1, checked.

    Parameters
    ----------
    theta, gamma1
        Coefficients θ of the features and γ1 of the outcome, in the paper's sign.
    features, scores
        The audited group's atoms or rows, and W(1|x) on them.
    p0
        Their probabilities; equal ones by default.

    Returns
    -------
    LogisticCase
        The slope, the correction function and the terms of the example.

    Raises
    ------
    TiltlensError
        If shapes differ, or scores are not probabilities.

    See Also
    --------
    correction_function : The same from rows.

    Examples
    --------
    >>> case = logistic_case([1.0], 0.5, features=[[0.0], [1.0], [2.0]], scores=[0.2, 0.5, 0.7])
    >>> case.correction().round(3).tolist()
    [1.234, -0.018, -1.216]
    """
    t, x = check_array("theta", theta), check_array("features", features, dimensions=(2,))
    w = check_array("scores", scores)
    p = np.full(len(x), 1 / len(x)) if p0 is None else check_distribution("p0", p0)
    check_same_length(features=x, scores=w, p0=p)
    if x.shape[1] != len(t):
        raise DistributionError(
            f"`theta` must have one coefficient for each feature, got {len(t)} for {x.shape[1]} features.",
            "leave the intercept θ0 out: it cancels.",
        )
    if (w < 0).any() or (w > 1).any():
        raise DistributionError(
            f"`scores` must lie in [0, 1], got values from {w.min()} to {w.max()}.",
            "pass W(1|x), not log-odds.",
        )
    return LogisticCase(t, float(check_array("gamma1", [gamma1])[0]), x, w, p)
