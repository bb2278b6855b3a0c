"""The correction function, and the mergeable sums of one group, which are all that it needs of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tiltlens._limits import EQUAL, MOMENTS_CHUNK
from tiltlens.errors import DataError, NotBinaryError, SupportError
from tiltlens.paper.checks import (
    Floats,
    check_array,
    check_channel,
    check_outcomes,
    check_row_weights,
    check_same_length,
    check_weight,
    direction_weights,
    log_ratio,
)
from tiltlens.paper.divergence import DIVERGENCES, infinite

FAR = 100.0  # squared distance of pivot and mean, in variances, beyond which precision is lost


@dataclass(frozen=True, slots=True, eq=False)
class GroupMoments:
    """First and second moments of z = (ℓ, W_1, …, W_{K−1}) over the rows of one group.

    Two of them are added with `+`; the sum equals the moments from one pass over all rows. The mean is stored as an
    unevaluated sum `pivot + offset`, so that merging loses no precision if the spread is tiny compared with the
    mean.

    Attributes
    ----------
    rows
        Number of rows.
    weight
        Sum of the row weights (the number of rows if there are none).
    pivot, offset
        Two parts of the weighted mean of z.
    scatter
        Σ w (z − mean)(z − mean)ᵀ.

    Examples
    --------
    >>> parts = GroupMoments.from_rows([0.5], [0.7]) + GroupMoments.from_rows([1.0, -0.2], [0.8, 0.4])
    >>> parts.rows, parts.mean.round(3).tolist()
    (3, [0.433, 0.633])
    """

    rows: int
    weight: float
    pivot: Floats
    offset: Floats
    scatter: Floats

    @classmethod
    def empty(cls, outcomes: int = 2) -> GroupMoments:
        """Return the moments of no rows, the neutral element of `+`."""
        return cls(0, 0.0, np.zeros(outcomes), np.zeros(outcomes), np.zeros((outcomes, outcomes)))

    @classmethod
    def from_rows(cls, log_odds: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> GroupMoments:
        """Return the moments of rows.

        Parameters
        ----------
        log_odds
            ℓ(x), the log-odds of being in the audited group, up to a constant.
        scores
            W(1|x) as (n,), or the probabilities of K outcomes as (n, K).
        weights
            Row weights, not negative.
        """
        ratio = check_array("log_odds", log_odds)
        W = check_channel("scores", scores)[:, 1:]
        check_same_length(log_odds=ratio, scores=W)
        w = None if weights is None else check_row_weights(weights, len(ratio))
        moments = cls.empty(outcomes=1 + W.shape[1])
        for start in range(0, len(ratio), MOMENTS_CHUNK):
            rows = slice(start, start + MOMENTS_CHUNK)
            z = np.vstack([ratio[rows], W[rows].T])
            moments = moments + cls.from_columns(z, None if w is None else w[rows])
        return moments

    @classmethod
    def from_columns(cls, z: Floats, weights: Floats | None = None, rows: int | None = None) -> GroupMoments:
        """Return the moments of one chunk of checked columns, z of shape (K, n), centred before squaring.

        `rows` is the number of rows to count if the chunk also has rows of other groups, with weight 0.
        """
        total = float(z.shape[1]) if weights is None else float(weights.sum())
        counted = z.shape[1] if rows is None else rows
        if total == 0:
            return cls(counted, 0.0, np.zeros(len(z)), np.zeros(len(z)), np.zeros((len(z), len(z))))
        pivot = (z.sum(axis=1) if weights is None else z @ weights) / total
        centred = z - pivot[:, None]
        weighted = centred if weights is None else centred * weights
        return cls.from_sums(counted, total, pivot, weighted.sum(axis=1), weighted @ centred.T)

    @classmethod
    def from_sums(cls, rows: int, weight: float, pivot: Floats, first: Floats, second: Floats) -> GroupMoments:
        """Return the moments from Σ w·c and Σ w·c·cᵀ of c = z − pivot, for a pivot near the mean."""
        # The pivot is near the mean, so little is subtracted from the sums of squares.
        offset = first / weight
        return cls(rows, weight, pivot, offset, second - weight * np.outer(offset, offset))

    def __add__(self, other: GroupMoments) -> GroupMoments:
        if self.outcomes != other.outcomes:
            raise DataError(
                f"moments to add must have the same number of outcomes, got {self.outcomes} and {other.outcomes}.",
                "build both from scores of the same model.",
            )
        rows, weight = self.rows + other.rows, self.weight + other.weight
        if other.weight == 0 or self.weight == 0:
            full = self if other.weight == 0 else other
            return GroupMoments(rows, weight, full.pivot, full.offset, full.scatter)
        # M + M’ + nn’/(n + n’)·(μ − μ’)(μ − μ’)ᵀ (docs/methods, section 4).
        share = other.weight / weight
        # Pivots first: the difference of two large means is exact if they are close.
        difference = (other.pivot - self.pivot) + (other.offset - self.offset)
        pivot, offset = _two_sum(self.pivot, self.offset + difference * share)
        between = np.outer(difference, difference) * (self.weight * share)
        return GroupMoments(rows, weight, pivot, offset, self.scatter + other.scatter + between)

    @property
    def outcomes(self) -> int:
        """K, the number of outcomes of the model."""
        return len(self.pivot)

    @property
    def mean(self) -> Floats:
        """Mean of (ℓ, W_1, …, W_{K−1})."""
        self._check_not_empty()
        mean: Floats = self.pivot + self.offset
        return mean

    @property
    def covariance(self) -> Floats:
        """Covariance of (ℓ, W_1, …, W_{K−1}), dividing by the sum of weights."""
        self._check_not_empty()
        covariance: Floats = self.scatter / self.weight
        return covariance

    @property
    def mean_log_odds(self) -> float:
        """Mean of ℓ."""
        return float(self.mean[0])

    @property
    def output(self) -> Floats:
        """The group's output distribution (Y(0), …, Y(K−1)): the mean score of each outcome."""
        # Means of probabilities leave [0, 1] only by rounding.
        rest = np.clip(self.mean[1:], 0.0, 1.0)
        return np.concatenate([[max(0.0, 1.0 - float(rest.sum()))], rest])

    @property
    def well_centred(self) -> bool:
        """Whether the pivot was near enough to the mean for a precise scatter."""
        spread = np.diag(self.scatter)
        return bool((self.weight * self.offset**2 <= FAR * spread).all())

    def _check_not_empty(self) -> None:
        if self.weight <= 0:
            raise DataError(
                f"a group must have rows with positive weight, got {self.rows} row(s) of total weight 0.",
                "check the group's name and the row weights.",
            )


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return a + b as the rounded sum and the exact rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


PAPER_NUMBERS = ("rho_m", "a1", "a2", "b1", "n_l", "n_m", "descent_rate")


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionFunction:
    """The affine function f~(x) = intercept + on_log_odds·ℓ(x) + Σ_y on_scores_y·W(y|x).

    Over the audited group it has mean 0 and variance 1: it is the direction of change of that group's inputs along
    which L decreases fastest. It is identically 0 if there is nothing to correct.

    The quantities named in the paper (`rho_m`, `a1`, `a2`, `b1`, `n_l`, `n_m`; `f_l`, `f_m`, `g_l`, `g_m`) are defined
    for two outcomes only.

    Attributes
    ----------
    intercept, on_log_odds, on_scores
        The affine form; `on_scores` has one coefficient for each of the outcomes 1, …, K−1.
    descent_rate
        Δ(f~), Corollary 1; never positive.
    input_weight, output_weight
        λ2 and λ4.
    audited, reference
        Moments of the two groups from which it was computed.
    log_output_ratio
        log Y0(y)/Y1(y) of each outcome.

    Examples
    --------
    >>> import tiltlens as tl
    >>> audited = tl.GroupMoments.from_rows([0.5, 1.0, -0.2], [0.7, 0.8, 0.4])
    >>> reference = tl.GroupMoments.from_rows([-0.5, 0.1, -0.2], [0.3, 0.6, 0.4])
    >>> f = tl.correction_function(audited, reference)
    >>> f([0.5, -0.2], [0.7, 0.4]).round(2).tolist()
    [-0.19, 1.31]
    """

    intercept: float
    on_log_odds: float
    on_scores: tuple[float, ...]
    descent_rate: float
    input_weight: float
    output_weight: float
    audited: GroupMoments
    reference: GroupMoments
    log_output_ratio: Floats

    def __call__(self, log_odds: Any, score: Any) -> Any:
        """Return f~ on arrays, series or column expressions; `score` is (n,), or (n, K) for K > 2 outcomes."""
        if isinstance(log_odds, (list, tuple)):
            log_odds = np.asarray(log_odds, dtype=np.float64)
        if isinstance(score, (list, tuple)):
            score = np.asarray(score, dtype=np.float64)
        if self.outcomes == 2:
            column = score[:, 1] if getattr(score, "ndim", 1) == 2 else score
            return self.intercept + self.on_log_odds * log_odds + self.on_score * column
        return self.intercept + self.on_log_odds * log_odds + np.asarray(score)[..., 1:] @ np.array(self.on_scores)

    @property
    def outcomes(self) -> int:
        """K, the number of outcomes of the model."""
        return len(self.on_scores) + 1

    @property
    def on_score(self) -> float:
        """Coefficient of W(1|x), for two outcomes."""
        self._check_binary("on_score")
        return self.on_scores[0]

    @property
    def nothing_to_correct(self) -> bool:
        """Whether f~ is identically 0."""
        return self.descent_rate == 0

    @property
    def p(self) -> float:
        """Y0(1), the audited group's mean score."""
        self._check_binary("p")
        return float(self.audited.output[1])

    @property
    def rho_m(self) -> float:
        """Maximal correlation of X and Y in the audited group: ρ_m² = Var0(W) / (p(1−p)) (Definition 6)."""
        self._check_binary("rho_m")
        sd = self._score_sd
        return sd / math.sqrt(self.p * (1 - self.p)) if sd > 0 else 0.0

    @property
    def a1(self) -> float:
        """E0[f_l·f_m] (Theorem 1); 0 if the score is constant."""
        self._check_binary("a1")
        sd = self._score_sd
        # f_l = ℓ − E0[ℓ] and f_m = −(W − p)/sd0(W): f_m decreases in W, hence the sign.
        return -float(self.audited.covariance[0, 1]) / sd if sd > 0 else 0.0

    @property
    def a2(self) -> float:
        """sqrt(E0[(f_l − a1·f_m)²]) (Theorem 1)."""
        return math.sqrt(max(0.0, float(self.audited.covariance[0, 0]) - self.a1**2))

    @property
    def b1(self) -> float:
        """E0[g_l·g_m] = −sqrt(p(1−p))·k (Theorem 1); raises if an outcome never occurs in the reference group."""
        self._check_binary("b1")
        # With λ4 = 0 the ratios need not be finite, but b1 requires it.
        output_log_ratios(self.audited.output, self.reference.output, needed=True)
        k = float(self.log_output_ratio[1] - self.log_output_ratio[0])
        return -math.sqrt(self.p * (1 - self.p)) * k

    @property
    def n_l(self) -> float:
        """Coefficient of f_l in f~ (Theorem 1)."""
        self._check_binary("n_l")
        return self.on_log_odds

    @property
    def n_m(self) -> float:
        """Coefficient of f_m in f~ (Theorem 1)."""
        self._check_binary("n_m")
        if self.nothing_to_correct or self.output_weight == 0:
            return 0.0
        # n_m = λ4·ρ_m·b1/Δ: Theorem 1 without its division by ρ_m, which may be 0.
        return self.rho_m * self.b1 * (self.output_weight / self.descent_rate)

    def f_l(self, log_odds: Any) -> Any:
        """Return the log-likelihood ratio function f_l = ℓ − E0[ℓ] (Theorem 2)."""
        return log_odds - self.audited.mean_log_odds

    def f_m(self, score: Any) -> Any:
        """Return the principal function f_m = −(W − p)/sd0(W) (Theorem 2); 0 if the score is constant."""
        self._check_binary("f_m")
        sd = self._score_sd
        return -(score - self.p) / sd if sd > 0 else 0.0 * score

    def g_l(self, y: ArrayLike) -> Floats:
        """Return g_l(y) = log Y0(y)/Y1(y) − its mean under Y0, for outcomes y."""
        y0 = self.audited.output
        values: Floats = (self.log_output_ratio - y0 @ self.log_output_ratio)[check_outcomes(y, self.outcomes)]
        return values

    def g_m(self, y: ArrayLike) -> Floats:
        """Return g_m(y): sqrt(p/(1−p)) at 0 and −sqrt((1−p)/p) at 1 (Theorem 2); 0 if p is 0 or 1."""
        self._check_binary("g_m")
        p = self.p
        odds = math.sqrt(p / (1 - p)) if 0 < p < 1 else 0.0
        values: Floats = np.array([odds, -1 / odds if odds else 0.0])[check_outcomes(y, 2)]
        return values

    def to_dict(self) -> dict[str, float | None]:
        """Return the paper's named numbers, λ2 and λ4, and the affine form; `b1` is None if it is infinite."""
        affine: dict[str, float | None] = {"input_weight": self.input_weight, "output_weight": self.output_weight}
        affine |= {"intercept": self.intercept, "on_log_odds": self.on_log_odds}
        if self.outcomes > 2:
            scores: dict[str, float | None] = {
                f"on_score_{y}": value for y, value in enumerate(self.on_scores, start=1)
            }
            return {"descent_rate": self.descent_rate, **affine, **scores}
        named = {name: self._or_none(name) for name in PAPER_NUMBERS}
        return {**named, **affine, "on_score": self.on_score}

    def __repr__(self) -> str:
        terms = [f"{self.intercept:.4f}", f"{self.on_log_odds:+.4f}·log_odds"]
        terms += [f"{value:+.4f}·score_{y}" for y, value in enumerate(self.on_scores, start=1)]
        return f"CorrectionFunction({' '.join(terms)}, descent_rate={self.descent_rate:.4f})"

    def _or_none(self, name: str) -> float | None:
        try:
            return float(getattr(self, name))
        except SupportError:
            return None

    @property
    def _score_sd(self) -> float:
        return float(standard_deviations(self.audited)[1])

    def _check_binary(self, name: str) -> None:
        if self.outcomes != 2:
            raise NotBinaryError(
                f"`{name}` is defined for two outcomes, got {self.outcomes}.",
                "use `descent_rate`, `on_log_odds` and `on_scores`, which exist for any number.",
            )


def correction_function(
    audited: GroupMoments, reference: GroupMoments, input_weight: float = 1.0, output_weight: float = 1.0
) -> CorrectionFunction:
    """Return the correction function of two groups, f~ = −g~/‖g~‖ with g = λ2·ℓ + λ4·Σ_y log(Y0(y)/Y1(y))·W_y.

    Parameters
    ----------
    audited, reference
        Moments of the two groups, under the same log-odds and scores.
    input_weight, output_weight
        λ2 and λ4, the weights of aligning inputs and of aligning outputs.

    Returns
    -------
    CorrectionFunction
        The affine function with its descent rate.

    Raises
    ------
    TiltlensError
        If the moments have different numbers of outcomes, or a weight is not valid.

    See Also
    --------
    World.correction : The same for distributions on a finite support.

    Examples
    --------
    >>> import tiltlens as tl
    >>> audited = tl.GroupMoments.from_rows([0.5, 1.0, -0.2], [0.7, 0.8, 0.4])
    >>> reference = tl.GroupMoments.from_rows([-0.5, 0.1, -0.2], [0.3, 0.6, 0.4])
    >>> round(tl.correction_function(audited, reference).descent_rate, 3)
    -0.629
    """
    if audited.outcomes != reference.outcomes:
        raise DataError(
            f"`reference` must have the outcomes of `audited`, got {reference.outcomes} and {audited.outcomes}.",
            "build both from scores of the same model.",
        )
    l2 = check_weight("input_weight", input_weight)
    l4 = check_weight("output_weight", output_weight)
    ratios = output_log_ratios(audited.output, reference.output, needed=l4 > 0)
    unit_l2, unit_l4, total = direction_weights(l2, l4)
    # (12): g is affine in z = (ℓ, W_1, …); W_0 is 1 minus the others, hence c_y − c_0.
    slope = np.concatenate([[unit_l2], unit_l4 * (ratios[1:] - ratios[0])])
    # The paper divides by ρ_m, which gives NaN for a constant score; here such a score has coefficient 0.
    slope[standard_deviations(audited) == 0] = 0.0
    norm = steepness(slope, audited.covariance)
    # ‖g̃‖ = 0: all directions are equal, and f̃ ≡ 0 means that there is nothing to correct.
    scale = -1.0 / norm if norm > 0 else 0.0
    on_log_odds, *on_scores = (scale * slope).tolist()
    intercept = -float(scale * slope @ audited.mean)
    return CorrectionFunction(
        intercept=intercept,
        on_log_odds=on_log_odds,
        on_scores=tuple(on_scores),
        descent_rate=-norm * total,
        input_weight=l2,
        output_weight=l4,
        audited=audited,
        reference=reference,
        log_output_ratio=ratios,
    )


def steepness(slope: Floats, covariance: Floats) -> float:
    """Return ‖g~‖ = sqrt(slopeᵀ·Cov0·slope), exactly 0 if it is only rounding noise."""
    variance = float(slope @ covariance @ slope)
    # Rounding noise is relative to the variance without cancellation between the columns.
    scale = float(slope**2 @ np.diag(covariance))
    return math.sqrt(variance) if variance > EQUAL * scale else 0.0


def standard_deviations(moments: GroupMoments) -> Floats:
    """Return the standard deviations of (ℓ, W_1, …), exactly 0 for columns that are constant up to rounding."""
    sd = np.sqrt(np.maximum(np.diag(moments.covariance), 0.0))
    size = np.abs(moments.mean)
    size[0] = max(size[0], 1.0)  # log-odds that differ by less than 1e-13 are equal
    deviations: Floats = np.where(sd <= EQUAL * size, 0.0, sd)
    return deviations


def output_log_ratios(y0: Floats, y1: Floats, needed: bool) -> Floats:
    """Return log Y0(y)/Y1(y) where Y0(y) > 0, else 0; raise for an infinite one if `needed`."""
    ratios = np.zeros_like(y0)
    both, extra = (y0 > 0) & (y1 > 0), (y0 > 0) & (y1 == 0)
    if needed and extra.any():
        raise infinite(DIVERGENCES["kl"], "outcome", int(np.flatnonzero(extra)[0]))
    ratios[both] = log_ratio(y0[both], y1[both])
    return ratios
