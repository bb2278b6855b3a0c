"""The paper's exact theory for groups that are given as distributions instead of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltlens._limits import EQUAL
from tiltlens.errors import DistributionError, NotBinaryError, NotSmoothError, WeightsError
from tiltlens.paper.checks import (
    Floats,
    Weights,
    check_array,
    check_channel,
    check_distribution,
    check_same_length,
    check_weight,
    check_weights,
    direction_weights,
    log_ratio,
)
from tiltlens.paper.correction import CorrectionFunction, GroupMoments, correction_function
from tiltlens.paper.divergence import Divergence, check_divergence
from tiltlens.paper.exponents import Exponents, TestPair
from tiltlens.paper.path import Inputs, PathPoint, divergences, path_point, projection, weighted

MEAN_TOLERANCE = 1e-9  # largest deviation of the mean of a perturbation from 0
BOTH = (0.0, 1.0, 0.0, 1.0)  # λ2 = λ4 = 1, the weights of the paper's experiment


@dataclass(frozen=True, slots=True, eq=False)
class WorldCorrection:
    """The correction function of a world, on its atoms.

    For the KL divergence and two outcomes it also has the quantities named in the paper: `rho_m`, `a1`, `a2`, `b1`,
    `n_l`, `n_m`, `f_l`, `f_m`, `g_l`, `g_m`.

    Attributes
    ----------
    values
        f~ on the atoms; 0 where the audited group has no mass.
    descent_rate
        Δ(f~) ≤ 0.
    epsilon_max
        Largest ε for which P0·(1 + ε·f~) is a distribution; 0 if there is nothing to correct.
    """

    values: Floats
    descent_rate: float
    epsilon_max: float
    _paper: CorrectionFunction | None

    @property
    def nothing_to_correct(self) -> bool:
        """Whether f~ is identically 0."""
        return self.descent_rate == 0

    def __getattr__(self, name: str) -> Any:
        if name not in ("rho_m", "a1", "a2", "b1", "n_l", "n_m", "f_l", "f_m", "g_l", "g_m"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if self._paper is None:
            raise NotBinaryError(
                f"`{name}` is defined for a KL correction with two outcomes, got another kind.",
                "use `values` and `descent_rate`, which always exist.",
            )
        return getattr(self._paper, name)


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """The least change of the audited group's inputs that removes the disparate impact.

    Attributes
    ----------
    q
        The distribution nearest to P0, in KL(Q‖P0), whose outputs are the reference group's.
    cost
        KL(Q‖P0) in nats.
    multipliers
        t with Q ∝ P0·exp(Σ_y t_y·W(y|x)), t_0 = 0.
    """

    q: Floats
    cost: float
    multipliers: Floats


class World:
    """Two groups' input distributions on a finite support and a fixed model.

    Parameters
    ----------
    p0, p1
        Probabilities of the atoms in the audited (S=0) and the reference group (S=1).
    channel
        W(1|x) for each atom, or the (n, K) probabilities of K outcomes.

    Examples
    --------
    >>> world = World([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], channel=[0.8, 0.5, 0.1])
    >>> correction = world.correction()
    >>> correction.values.round(3).tolist()
    [-0.887, 0.354, 1.686]
    >>> round(correction.descent_rate, 3)
    -0.945
    """

    def __init__(self, p0: ArrayLike, p1: ArrayLike, channel: ArrayLike) -> None:
        self.p0 = check_distribution("p0", p0)
        self.p1 = check_distribution("p1", p1)
        self.channel = check_channel("channel", channel)
        check_same_length(p0=self.p0, p1=self.p1, channel=self.channel)
        self.y0: Floats = _clean(self.p0 @ self.channel)
        self.y1: Floats = _clean(self.p1 @ self.channel)

    def __repr__(self) -> str:
        return f"World({len(self.p0)} atoms, {self.channel.shape[1]} outcomes)"

    def correction(self, weights: ArrayLike = BOTH, divergence: str = "kl") -> WorldCorrection:
        """Return the correction function: the unit perturbation along which L decreases fastest (Theorem 1).

        f~ = −g~/‖g~‖ with g(x) = λ2·φ'(P0/P1) + λ4·Σ_y W(y|x)·φ'(Y0/Y1), centred under P0.
        """
        lam, d = check_weights(weights), check_divergence(divergence)
        l2, l4, total = direction_weights(lam[1], lam[3])
        # λ1 and λ3 drop out, because their divergences are minimal at P0 (Lemma 1).
        raw = self._gradient((0.0, l2, 0.0, l4), d)
        g = self._centred(raw)
        if d.name == "tv":
            self._check_tv_is_smooth(lam)
            # For total variation, J(Q‖P0) has a kink at P0, so λ1 removes atoms with |g − μ| ≤ λ1/2.
            g = self._soft_threshold(g, lam[0] / total / 2)
        norm = self._norm(g)
        if norm <= EQUAL * self._norm(raw):  # rounding noise of a constant g g g
            norm = 0.0
        values = self._centred(-g / norm) if norm > 0 else np.zeros_like(g)
        smallest = float(values.min())
        # 1 + ε·f̃ ≥ 0 on every atom.
        epsilon_max = -1.0 / smallest if smallest < 0 else 0.0
        binary_kl = d.name == "kl" and self.channel.shape[1] == 2
        return WorldCorrection(values, -norm * total, epsilon_max, self._paper(lam) if binary_kl else None)

    def perturb(self, f: ArrayLike, epsilon: float) -> Floats:
        """Return P0·(1 + ε·f), the perturbed distribution of Definition 2."""
        values = self._check_perturbation(f)
        check_weight("epsilon", epsilon)
        factor = 1.0 + epsilon * values
        on_support = self.p0 > 0
        if (factor[on_support] < -1e-12).any():
            largest = -1.0 / float(values[on_support].min())
            raise DistributionError(
                f"`epsilon` must be at most {largest:.6g} for this `f`, got {epsilon!r}.",
                "a larger step would make a probability negative.",
            )
        q: Floats = self.p0 * np.maximum(factor, 0.0)
        return q

    def slope(self, f: ArrayLike, weights: ArrayLike = BOTH, divergence: str = "kl") -> float:
        """Return Δ(f), the right derivative of L along P0·(1 + ε·f) at ε = 0 (Lemma 1).

        For total variation, terms at a kink add the directional derivative ½·Σ|change|.
        """
        values, lam, d = self._check_perturbation(f), check_weights(weights), check_divergence(divergence)
        change = self.p0 * values
        slope = float(change @ self._gradient(lam, d))
        if d.name != "tv":
            return slope
        outputs = change @ self.channel
        at_kink = (
            (lam[0], np.abs(change)),
            (lam[1], np.abs(change[_equal(self.p0, self.p1)])),
            (lam[2], np.abs(outputs)),
            (lam[3], np.abs(outputs[_equal(self.y0, self.y1)])),
        )
        return slope + sum(weight / 2 * float(moved.sum()) for weight, moved in at_kink)

    def objective(self, q: ArrayLike, weights: ArrayLike = BOTH, divergence: str = "kl") -> float:
        """Return L(Q), Definition 1."""
        lam, d = check_weights(weights), check_divergence(divergence)
        return weighted(divergences(self._inputs, self._check_q(q), d), lam)

    def terms(self, q: ArrayLike, divergence: str = "kl") -> tuple[float | None, ...]:
        """Return the four divergences of Definition 1 at Q; None for infinite ones."""
        return divergences(self._inputs, self._check_q(q), check_divergence(divergence))

    def path(self, weights: ArrayLike = BOTH, divergence: str = "kl") -> PathPoint:
        """Return the point of the correction path for these weights: the global minimiser of L over all Q."""
        return path_point(self._inputs, check_weights(weights), check_divergence(divergence))

    def sweep(self, weights: Sequence[ArrayLike], divergence: str = "kl") -> list[PathPoint]:
        """Return a whole correction path, one point per entry of `weights`, each solved from the previous point."""
        d = check_divergence(divergence)
        if not np.iterable(weights):
            raise WeightsError(f"`weights` must be a list of four numbers each, got {weights!r}.", "see `path`.")
        points: list[PathPoint] = []
        for lam in [check_weights(w) for w in weights]:
            start = points[-1].multipliers if points else None
            points.append(path_point(self._inputs, lam, d, start))
        return points

    def project(self) -> Projection:
        """Return the least change of the inputs that removes the disparate impact: the path's limit λ4 → ∞."""
        q, t = projection(self.p0, self.channel, self.y1)
        return Projection(q, check_divergence("kl").between(q, self.p0), t)

    def exponents(self) -> Exponents:
        """Return the error exponents of distinguishing the groups by inputs and by outputs."""
        return Exponents(TestPair(self.p0, self.p1), TestPair(self.y0, self.y1))

    @property
    def _inputs(self) -> Inputs:
        return Inputs(self.p0, self.p1, self.channel, self.y0, self.y1)

    def _gradient(self, weights: Weights, d: Divergence) -> Floats:
        """Return g(x) of Lemma 1, and 0 on atoms without mass in the audited group."""
        _, l2, _, l4 = weights
        g = np.zeros_like(self.p0)
        if l2 > 0:
            g += l2 * d.slope_of(self.p0, self.p1, "atom")
        if l4 > 0:
            slope = d.slope_of(self.y0, self.y1, "outcome")
            # Relative to the commonest outcome: the remaining columns are small if outcomes are rare, and stay precise.
            g += l4 * self.channel @ (slope - slope[int(np.argmax(self.y0))])
        return np.where(self.p0 > 0, g, 0.0)

    def _centred(self, g: Floats) -> Floats:
        """Return g − E0[g]; the second pass removes the rounding error of the first."""
        for _ in range(2):
            g = np.where(self.p0 > 0, g - self.p0 @ g, 0.0)
        return g

    def _norm(self, g: Floats) -> float:
        """Return sqrt(E0[g²]), without overflow."""
        largest = float(np.abs(g).max())
        return largest * math.sqrt(float(self.p0 @ (g / largest) ** 2)) if largest > 0 else 0.0

    def _paper(self, weights: Weights) -> CorrectionFunction:
        on_support = self.p0 > 0
        p0, p1 = self.p0[on_support], self.p1[on_support]
        # If λ2 = 0, the log-ratio does not enter f~ and may be infinite, so it is left out of the sums.
        ratio = log_ratio(p0, p1) if (p1 > 0).all() else np.zeros_like(p0)
        score = self.channel[:, 1]
        audited = GroupMoments.from_rows(ratio, score[on_support], p0)
        reference = GroupMoments.from_rows(np.zeros_like(score), score, self.p1)
        return correction_function(audited, reference, weights[1], weights[3])

    def _check_tv_is_smooth(self, weights: Weights) -> None:
        _, l2, l3, l4 = weights
        reasons = {
            "λ3 > 0": l3 > 0,
            "λ2 > 0 and P0 = P1 on some atom": l2 > 0 and _equal(self.p0, self.p1)[self.p0 > 0].any(),
            "λ4 > 0 and Y0 = Y1 for some outcome": l4 > 0 and _equal(self.y0, self.y1)[self.y0 > 0].any(),
        }
        for reason, holds in reasons.items():
            if holds:
                raise NotSmoothError(
                    f"total variation must have a derivative at P0, got weights {weights!r} with {reason}.",
                    "use another divergence, or `slope`, which gives the one-sided derivative along any f.",
                )

    def _soft_threshold(self, g: Floats, width: float) -> Floats:
        """Return soft(g − μ, width), with μ such that its mean under P0 is 0."""
        if width == 0:
            return g

        def shrunk(mu: float) -> Floats:
            moved = g - mu
            return np.where(self.p0 > 0, np.sign(moved) * np.maximum(np.abs(moved) - width, 0.0), 0.0)

        low, high = float(g.min()) - width, float(g.max()) + width
        from scipy.optimize import brentq

        # The mean of soft(g − μ) decreases in μ: from above 0 at min g − width to below 0 at max g + width.
        mu = brentq(lambda m: float(self.p0 @ shrunk(m)), low, high, xtol=1e-15)
        return shrunk(float(mu))

    def _check_perturbation(self, f: ArrayLike) -> Floats:
        values = check_array("f", f)
        check_same_length(p0=self.p0, f=values)
        mean = float(self.p0 @ values)
        if abs(mean) > MEAN_TOLERANCE * max(1.0, float(np.abs(values[self.p0 > 0]).max())):
            raise DistributionError(
                f"`f` must have mean 0 under P0, got {mean!r}.", "subtract its mean: f − world.p0 @ f."
            )
        return values

    def _check_q(self, q: ArrayLike) -> Floats:
        values = check_distribution("q", q)
        check_same_length(p0=self.p0, q=values)
        return values


def _equal(a: Floats, b: Floats) -> NDArray[np.bool_]:
    equal: NDArray[np.bool_] = np.abs(a - b) <= EQUAL * np.maximum(a, b)
    return equal


def _clean(y: Floats) -> Floats:
    total: Floats = y / y.sum()
    return total
