"""Estimators that need the group-membership model, double cross-fitted.

Models a and b are trained on disjoint rows, and neither on the rows where it is evaluated, so that their errors
remain only as products, which average out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiltlens._estimators.influence import InfluenceEstimate, Integers, Rows, average_estimates, sums_by
from tiltlens._estimators.outputs import OutputTerm, Scores, output_term
from tiltlens._limits import CLIP
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats

DISAGREEMENT_ROWS = 50_000  # most audited rows at which models are compared


@dataclass(frozen=True, slots=True)
class Pairing:
    """The log-ratios ℓ_a, ℓ_b of two models, clipped and normalised fold by fold, and quantities derived from both."""

    a: Floats
    b: Floats
    # −[|ℓ|<c] for audited and [|ℓ|<c]·e^ℓ for reference rows, of mean 0 over the two groups in each fold
    r_a: Floats
    r_b: Floats
    disagreement_sq: Floats  # (ℓ_a − ℓ_b)² where neither is clipped
    # 1 for audited and 2e^{(ℓ_a+ℓ_b)/2} − ½(e^ℓ_a + e^ℓ_b) for reference rows, where neither is clipped
    kl_weight: Floats
    fold: Integers
    disagreement: ModelDisagreement | None = None  # differences of models, if there is only one pairing
    is_known: bool = False  # whether ℓ is known, so that its error is not corrected for


def pairing(
    rows: Rows, log_ratio_a: Floats, log_ratio_b: Floats, fold: Integers, cycle: Floats | None = None
) -> Pairing:
    """Return the pairing of two cross-fitted log-ratios.

    `fold` is the fold in which each row is evaluated. `cycle` has the log-ratios of models trained on two folds each,
    in an order in which each model shares one fold with the next, and the last with the first.
    """
    (a, r_a), (b, r_b) = (_clipped(rows, ell, fold) for ell in (log_ratio_a, log_ratio_b))
    inside = (r_a != 0.0) & (r_b != 0.0)
    # ω of (34): the squares of both errors cancel in it, their product remains.
    kl_weight = np.where(rows.audited, 1.0, 2.0 * np.exp(0.5 * (a + b)) - 0.5 * (r_a + r_b)) * inside
    disagreement = None if cycle is None else _disagreement(rows, cycle)
    return Pairing(a, b, r_a, r_b, np.where(inside, (a - b) ** 2, 0.0), kl_weight, fold, disagreement)


def _clipped(rows: Rows, log_ratio: Floats, fold: Integers) -> tuple[Floats, Floats]:
    """Return ℓ, clipped and shifted in each fold so that P0(|ℓ|<c) and E1[e^ℓ·[|ℓ|<c]] are equal, and r.

    The shift makes estimates invariant to class weights and shifted priors. For the true ℓ both masses are equal, and
    there is none.
    """
    inside, ell = (np.abs(log_ratio) < CLIP).astype(np.float64), np.clip(log_ratio, -CLIP, CLIP)
    ratio = np.exp(ell)
    mass0, mass1 = rows.sums0(fold, inside), rows.sums1(fold, inside * ratio)
    # (20) holds in every fold; estimated over all folds, the scale would make the folds dependent.
    usable = (mass0 > 0.0) & (mass1 > 0.0)
    scale = np.divide(mass0, mass1, out=np.ones_like(mass0), where=usable)[fold]
    return ell + np.log(scale), np.where(rows.audited, -1.0, ratio * scale) * inside


@dataclass(frozen=True, slots=True, eq=False)
class ModelDisagreement:
    """Differences between neighbouring models of the cycle at some audited rows, from which their errors are estimated.

    A model trained on two folds has the error ½(ε_i + ε_j), so neighbours in the cycle differ by ½(ε_k − ε_i), and
    successive differences share no fold.
    """

    # The rows, and their weights, which sum to 1
    index: Integers
    shares: Floats
    apart: Floats  # the differences in turn, (parts, rows), of mean 0

    def products(self, lines: Floats, times: Floats | float = 1.0) -> Floats:
        """Return the weighted means over rows of each line times the next, times `times`."""
        return np.asarray((lines * np.roll(lines, -1, axis=0)) @ (self.shares * times))

    def explained(self, cells: Integers) -> Floats:
        """Return the differences' means in the cell of each row."""
        cell = cells[self.index]
        size = sums_by(cell, self.shares)
        safe = np.where(size > 0.0, size, 1.0)
        return np.array([(sums_by(cell, self.shares * line) / safe)[cell] for line in self.apart])


def _disagreement(rows: Rows, cycle: Floats) -> ModelDisagreement:
    index = np.flatnonzero(rows.audited)
    # B is a mean over rows, so evenly spaced rows suffice.
    index = index[:: -(-index.size // DISAGREEMENT_ROWS)]
    shares = rows.audited_share[index] / rows.audited_share[index].sum()
    clipped = np.clip(cycle[:, index], -CLIP, CLIP)
    # Centred: a constant in ℓ is taken out by (20), and must not count as disagreement.
    apart = np.roll(clipped, -1, axis=0) - clipped
    return ModelDisagreement(index, shares, apart - (apart @ shares)[:, None])


def known_pairing(rows: Rows, log_ratio: Floats) -> Pairing:
    """Return the pairing of a known log-ratio, which is not cross-fitted, clipped or corrected for."""
    ell = np.asarray(log_ratio, dtype=np.float64)
    if not np.isfinite(ell).all():
        raise DataError(
            "`propensity` must lie strictly between 0 and 1, got 0 or 1.",
            "a probability of 0 or 1 means that the groups do not overlap there; exclude such rows.",
        )
    zeros = rows.constant(0.0)
    return Pairing(ell, ell, zeros, zeros, zeros, zeros, rows.single_cell, is_known=True)


def given_pairing(rows: Rows, log_ratio: Floats) -> Pairing:
    """Return the pairing of a log-ratio fitted on other rows: not clipped or cross-fitted, but corrected for."""
    pair = known_pairing(rows, log_ratio)
    ratio, _ = shifted_exp(pair.a)
    # Divided by its mean, r has mean 0 (21): a constant in the given log-odds has no effect.
    r = np.where(rows.audited, -1.0, ratio / rows.mean1(ratio))
    return replace(pair, r_a=r, r_b=r, is_known=False)


@dataclass(frozen=True, slots=True)
class Gradient:
    """g = λ2·ℓ + λ4·T of both models, centred over the audited rows of each fold."""

    a: Floats
    b: Floats
    pairing: Pairing
    output: OutputTerm | None
    input_weight: float
    output_weight: float
    is_known: bool


def gradient(
    rows: Rows, scores: Scores, pair: Pairing, input_weight: float = 1.0, output_weight: float = 1.0
) -> Gradient:
    """Return g_a and g_b for these scores, λ2 = `input_weight` and λ4 = `output_weight`."""
    output = output_term(scores) if output_weight > 0.0 else None
    shared = output_weight * output.values() if output is not None else 0.0
    # By fold, as each fold has models of its own, whose levels differ.
    a = centre_by_fold(rows, input_weight * pair.a + shared, pair.fold)
    b = a if pair.a is pair.b else centre_by_fold(rows, input_weight * pair.b + shared, pair.fold)
    return Gradient(a, b, pair, output, input_weight, output_weight, pair.is_known)


def centre_by_fold(rows: Rows, values: Floats, fold: Integers) -> Floats:
    """Return values − E0[values] within each fold."""
    size, total = rows.sums0(fold), rows.sums0(fold, values)
    means = np.divide(total, size, out=np.zeros_like(total), where=size > 0.0)
    return values - means[fold]


def gradient_variance(rows: Rows, gradients: Sequence[Gradient], value: float | None = None) -> InfluenceEstimate:
    """Return ψ̂ of Var0(g), the squared steepest rate, averaged over pairings.

    `value`, if given, is Var0(g) over all rows, for a known ℓ and rows that are a sample.

    ψ̂ = E0[g_a g_b]·n0/(n0−1) − E[λ2(g_a r_b + g_b r_a)] + λ2/2·E0[ḡ(ℓ_a−ℓ_b)²], and its IF = [S=0]/q·g_a g_b −
    λ2(g_a r_b + g_b r_a) + 2λ4 Σ_y E0[ḡW_y]·IF_y. The last term of ψ̂ leaves only products of the two models'
    errors in the remainder.
    """

    def variance(g: Gradient) -> InfluenceEstimate:
        product = g.a * g.b
        # A known ℓ is not cross-fitted by folds, and its value comes from all rows.
        square = rows.mean0(product) if g.is_known else float(_fold_covariances(rows, g)[0].sum())
        estimate = _debiased(rows, g, square, product, g.a, g.b)
        return estimate if value is None else replace(estimate, value=value)

    return average_estimates([variance(g) for g in gradients])


def _fold_covariances(rows: Rows, g: Gradient) -> tuple[Floats, Floats, Floats]:
    """Return each fold's part of E0[g_a·g_b], with the factor N²/(N² − Σw²) of an unbiased covariance, Σw² and N²."""
    fold = g.pairing.fold
    squares, weights2 = rows.sums0(fold) ** 2, rows.self_products0(fold)
    spare = squares - weights2
    factor = np.divide(squares, spare, out=np.ones_like(squares), where=spare > 1e-12 * squares)
    return rows.sums0(fold, g.a * g.b) * factor, weights2, squares


def _debiased(
    rows: Rows,
    g: Gradient,
    value: float,
    at_audited: Floats,
    m_a: Floats,
    m_b: Floats,
    cells: Integers | None = None,
) -> InfluenceEstimate:
    """Return the estimator `value` corrected for the estimation of ℓ, through m_a and m_b, and of T.

    m is g itself, or E0[g|·] for example in `cells`. The remainder is −λ2·E0[λ2·m_δa·m_δb + m·δaδb], with δ the errors
    of both models and m_δ their means in the same cells.
    """
    influence0, influence1 = at_audited, rows.constant(0.0)
    middle = m_a if m_a is m_b else 0.5 * (m_a + m_b)
    if not g.is_known and g.input_weight > 0.0:
        pair = g.pairing
        # Crosswise, each model with the other’s r: (24) then has products of independent errors.
        moved = g.input_weight * (_moved(rows, m_a, pair.r_b) + _moved(rows, m_b, pair.r_a))
        value -= rows.mean0(moved) + rows.mean1(moved)
        # The third term of (23): δ_a² and δ_b² do not average out, and are measured by (ℓ_a − ℓ_b)².
        value += 0.5 * g.input_weight * rows.mean0(middle * pair.disagreement_sq)
        influence0, influence1 = influence0 - moved, -moved
    if g.output is not None:
        # The slopes c_y are estimated too: 2λ4·Σ_y E0[mW_y]·IF_y (22).
        slope0, slope1 = g.output.slope_influence(rows, middle)
        influence0 = influence0 + 2 * g.output_weight * slope0
        influence1 = influence1 + 2 * g.output_weight * slope1
    estimate = InfluenceEstimate.of(rows, value, influence0, influence1)
    disagreement, weight = g.pairing.disagreement, g.input_weight
    if disagreement is None:
        return estimate
    # (28) with the bilinear form of (25); of a share, with the means of the errors in its cells.
    means = disagreement.apart if cells is None else disagreement.explained(cells)
    left = weight * disagreement.products(means) + disagreement.products(disagreement.apart, middle[disagreement.index])
    return _with_remainder(estimate, weight * left)


def _with_remainder(estimate: InfluenceEstimate, left: Floats) -> InfluenceEstimate:
    """Return an estimator from one pairing, with the error due to its remainder, a product of both models' errors.

    `left` is the remainder with neighbours' differences in place of the errors. If the remainder of ε_i and ε_j has
    variance V, each of `left` has V/4, and the remainder of the mean over the estimator's five folds has V/8.
    """
    # `covariance` doubles the sum of squares: 2·Σ(B/√20)² of (28).
    return replace(estimate, between=left / math.sqrt(4 * len(left)))


def _moved(rows: Rows, m: Floats, r: Floats) -> Floats:
    """Return (m − E0[m | inside the clip])·r: r has mean 0, so the shift adds no bias and removes r's scale noise."""
    inside = rows.mean0(r)
    return (m - rows.mean0(m * r) / inside) * r if inside < 0.0 else m * r


def explained_variance(rows: Rows, g: Gradient, codes: Integers) -> InfluenceEstimate:
    """Return θ̂ of Var0(E0[g|X_j]): cell means with each row left out, then corrected like ψ̂.

    θ̂ = (1/n0)Σ_cells (AB − C)/(n_c − 1) + ĉ/n0 − E[λ2(m_a r_b + m_b r_a)] + λ2/2·E0[m̄(ℓ_a−ℓ_b)²].
    """
    # Cells within folds: a mean over folds would mix models that share training rows.
    cell = g.pairing.fold * (int(codes.max()) + 1) + codes
    sizes, weights2 = rows.sums0(cell), rows.self_products0(cell)
    sums_a = rows.sums0(cell, g.a)
    sums_b = sums_a if g.b is g.a else rows.sums0(cell, g.b)
    products = rows.self_products0(cell, g.a, g.b)
    # Σ_folds ĉ/n0, which centring by the fold's own mean subtracted from the leave-one-out sum: E[ḡ_a·ḡ_b] is
    # Cov0(g_a, g_b)/n0, with weights Σw²/N² in place of 1/n0 (31).
    covariances, of_fold, squares = _fold_covariances(rows, g)
    noise = np.divide(covariances * of_fold, squares, out=np.zeros_like(squares), where=squares > 0.0)
    value = leave_one_out(sizes, sums_a, sums_b, products, weights2) + float(noise.sum())
    safe = np.where(sizes > 0.0, sizes, 1.0)
    m_a = (sums_a / safe)[cell]
    m_b = m_a if g.b is g.a else (sums_b / safe)[cell]
    # 2g̃m − m² (30): θ is a maximum over m, so the noise of cell means enters in second order only.
    return _debiased(rows, g, value, g.a * m_b + g.b * m_a - m_a * m_b, m_a, m_b, cell)


def leave_one_out(sizes: Floats, a: Floats, b: Floats, products: Floats, weights2: Floats) -> float:
    """Return Σ_c N_c·(AB − C)/(N_c² − Σw²): the mean of cell means, products of a row with itself left out."""
    spare = sizes**2 - weights2
    # A row alone in its cell has no other row to be paired with.
    several = spare > 1e-12 * sizes**2
    terms = sizes[several] * (a * b - products)[several] / spare[several]
    return float(terms.sum())


def learned_variance(rows: Rows, g: Gradient, m_a: Floats, m_b: Floats) -> InfluenceEstimate:
    """Return θ̂ = E0[g_a m_b + g_b m_a − m_a m_b], corrected like ψ̂, for learned m_a and m_b.

    The part of the models' errors that the features explain is not estimated; the whole errors are used instead.
    """
    m_a, m_b = (centre_by_fold(rows, m, g.pairing.fold) for m in (m_a, m_b))
    at_audited = g.a * m_b + g.b * m_a - m_a * m_b
    return _debiased(rows, g, rows.mean0(at_audited), at_audited, m_a, m_b)


def input_divergence(rows: Rows, pairs: Sequence[Pairing], value: float | None = None) -> InfluenceEstimate:
    """Return KL(P0‖P1) = E0[ℓ̄] + P0(inside) − E1[ω], ω = 2e^{(ℓ_a+ℓ_b)/2} − ½(e^ℓ_a + e^ℓ_b) inside the clip.

    `value`, if given, is the divergence over all rows, for a known ℓ and rows that are a sample.
    """
    return average_estimates([_input_divergence(rows, pair, value) for pair in pairs])


def _input_divergence(rows: Rows, pair: Pairing, given: float | None) -> InfluenceEstimate:
    if pair.a is pair.b:
        # E0[ℓ] − log E1[e^ℓ]: E1[e^ℓ] is 1 for the true ℓ; dividing by it makes class weights and priors cancel.
        ratio, top = shifted_exp(pair.a)
        mean = rows.mean1(ratio)
        value = rows.mean0(pair.a) - top - math.log(mean) if given is None else given
        return InfluenceEstimate.of(rows, value, pair.a, -ratio / mean)
    middle, apart = 0.5 * (pair.a + pair.b), pair.disagreement
    value = rows.mean0(middle) + rows.mean0(pair.kl_weight) - rows.mean1(pair.kl_weight)
    estimate = InfluenceEstimate.of(rows, value, middle + pair.kl_weight, -pair.kl_weight)
    return estimate if apart is None else _with_remainder(estimate, 0.5 * apart.products(apart.apart))


def shifted_exp(x: Floats) -> tuple[Floats, float]:
    """Return e^(x − top) and top, the largest x."""
    top = float(x.max())
    return np.exp(x - top), top


def clipped_share(rows: Rows, log_ratio: Floats) -> float:
    """Return the larger of the two groups' shares of rows with |ℓ| ≥ `CLIP`."""
    beyond = (np.abs(log_ratio) >= CLIP).astype(np.float64)
    return max(rows.mean0(beyond), rows.mean1(beyond))
