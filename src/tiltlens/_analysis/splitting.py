"""Estimate the loss that separate models per group would save, by regressions of the outcome on the features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from tiltlens._estimators.error_rates import EVEN, LOSSES, UNKNOWN, WITH, SplitPredictions
from tiltlens._estimators.estimate import Estimate, Materiality, materiality
from tiltlens._estimators.feature_gap import mean_coefficient
from tiltlens._estimators.influence import InfluenceEstimate, Integers, Rows
from tiltlens._formats import FieldTable
from tiltlens._learners.design import Table, normal_scores
from tiltlens._learners.propensity import row_folds
from tiltlens._learners.regressions import Regressor
from tiltlens._limits import FEWEST_KNOWN, FOLDS
from tiltlens._rows.features import design_columns
from tiltlens._rows.sampled_rows import SampledRows
from tiltlens._threads import in_threads, one_thread

MATERIAL_SPLIT = 0.01  # share of the single model's Brier score: a smaller gain from separate models is not material
SMALLEST_CHANCE = 0.005  # lower bound of either group's fitted probability


@dataclass(frozen=True, slots=True)
class SplitGains(FieldTable):
    """Reduction of a loss by separate models, compared with the best model without the group.

    Attributes
    ----------
    both
        The gain with half of the weight on each group.
    audited, reference
        The gain of each group from its own model.
    largest, weight
        The largest gain over all weights of the audited group, and that weight. Every model without the group costs at
        least one group that much.
    """

    both: Estimate
    audited: Estimate
    reference: Estimate
    largest: Estimate
    weight: float

    def of(self, name: str) -> Estimate:
        """Return one of the gains by its name."""
        gain: Estimate = getattr(self, name)
        return gain


@dataclass(frozen=True, slots=True)
class Splitting(FieldTable):
    """The gain from separate models for two groups; if a gain may be 0, its lower end is 0 and its upper end one-sided.

    Attributes
    ----------
    brier, error_rate, log_loss
        The gains in these losses.
    blind_brier, materiality
        The Brier score of the one model, each group having half of the weight; and one per cent of it, the gain that
        matters.
    status
        The status of the gain in Brier score, for "both" groups, the "audited" and the "reference" group.
    outcome_gap
        The adjusted gap of the outcome: the mean difference of the outcome between people with the same values
        of all features.
    least_gain
        The smallest gain in Brier score that this difference implies for any fitted models.
    rows
        Numbers of people of each group with an observed outcome.
    """

    brier: SplitGains
    error_rate: SplitGains
    log_loss: SplitGains
    blind_brier: float
    materiality: float
    status: dict[str, Materiality]
    outcome_gap: Estimate
    least_gain: Estimate
    rows: dict[str, int]

    def relative(self, gain: Estimate) -> Estimate:
        """Return a gain in Brier score as a share of that of the one model."""
        return gain.mapped(lambda value: value / self.blind_brier)


def splitting(sampled: SampledRows, confidence: float, seed: int = 0) -> Splitting | None:
    """Return the gains from separate models; None without features, or without enough observed outcomes.

    Groups must be observed. Rows are predicted by models that were fitted on the other folds.
    """
    index = _known_rows(sampled)
    if index is None:
        return None
    some = sampled.take(index)
    rows = Rows.of(some.group == 0, some.weights, some.cluster)
    with one_thread():
        predictions = _predictions(rows, some, seed)
    gains = {loss: _gains(predictions, loss, confidence) for loss in LOSSES}
    blind = predictions.blind(EVEN)[1]
    brier = float(rows.balanced_weights @ (predictions.outcome - blind) ** 2)
    least = MATERIAL_SPLIT * brier
    of_brier = {name: gains["brier"].of(name) for name in ("both", "audited", "reference")}
    status = {name: materiality(gain.low, gain.high, least) for name, gain in of_brier.items()}
    outcome_gap, least_gain = _outcome_gap(predictions, confidence)
    return Splitting(
        **gains,
        blind_brier=brier,
        materiality=least,
        status={name: state for name, state in status.items() if state is not None},
        outcome_gap=outcome_gap,
        least_gain=least_gain,
        rows={"audited": rows.count0, "reference": rows.count1},
    )


def _known_rows(sampled: SampledRows) -> Integers | None:
    if sampled.y_true is None or sampled.probabilities is not None or not sampled.features:
        return None
    is_known = (sampled.y_true != UNKNOWN) & (sampled.weights > 0)
    people = np.bincount(2 * sampled.group[is_known] + sampled.y_true[is_known], minlength=4)
    return np.flatnonzero(is_known) if people.min() >= FEWEST_KNOWN else None


def _predictions(rows: Rows, some: SampledRows, seed: int) -> SplitPredictions:
    """Return y_0, y_1 and ℓ of each row, from regressions on the other folds: of Y within each group, and of S̄."""
    omega = rows.balanced_weights
    table: Table = normal_scores(design_columns(sorted(some.features, key=lambda feature: feature.name)), omega)
    values = {name: some.value_codes.get(name, column) for name, column in table.items() if column.dtype.kind != "f"}
    fold, audited, y = row_folds(rows, FOLDS, seed), rows.audited, (np.asarray(some.y_true) == WITH).astype(np.float64)
    # y_0 and y_1 are fitted on one group each; e on both, each with half of the weight.
    targets = ((y, audited), (y, ~audited), (audited.astype(np.float64), np.ones_like(audited)))
    regressors = [Regressor.of(table, values, target, omega * omega.size, seed) for target, _ in targets]
    fitted = np.empty((len(targets), y.size))

    def predict(number: int) -> None:
        held_out = np.flatnonzero(fold == number)
        for model, (target, members) in enumerate(targets):
            train = np.flatnonzero(members & (fold != number))
            fitted[model, held_out] = regressors[model].fitted(target, train, held_out)

    in_threads(predict, range(FOLDS), y.size)
    chance = np.clip(fitted[2], SMALLEST_CHANCE, 1.0 - SMALLEST_CHANCE)
    audited_fit, reference_fit = np.clip(fitted[:2], 0.0, 1.0)
    return SplitPredictions(rows, y, audited_fit, reference_fit, np.asarray(logit(chance)))


def _gains(predictions: SplitPredictions, loss: str, confidence: float) -> SplitGains:
    audited, reference = predictions.gains(loss)
    largest, weight = predictions.largest_gain(loss)
    every = [_at_least_zero(gain, confidence) for gain in (predictions.gain(loss), audited, reference, largest)]
    return SplitGains(every[0], every[1], every[2], every[3], weight)


def _at_least_zero(gain: InfluenceEstimate, confidence: float) -> Estimate:
    """Return a non-negative gain; if it may be 0, its lower end is 0 and its upper end one-sided."""
    law = gain.normal(least=0.0)
    both = law.estimate(confidence)
    if both.low or confidence <= 0.5:
        return both
    return Estimate(both.value, 0.0, law.estimate(2.0 * confidence - 1.0).high)


def _outcome_gap(predictions: SplitPredictions, confidence: float) -> tuple[Estimate, Estimate]:
    """Return c_Y, the adjusted gap of the outcome, and c_Y²·D, a lower bound on ε."""
    rows, s = predictions.rows, predictions.rows.audited * 1.0
    e, eta = predictions.blind(EVEN)
    left = predictions.outcome - eta
    c = mean_coefficient(rows, (s - e) * left, (s - e) ** 2, left**2)
    gap = c.estimate(rows).normal(-1.0, 1.0).estimate(confidence)
    ends = sorted((abs(gap.low or 0.0), abs(gap.high or 0.0)))
    # ε(½) ≥ c_Y²·D by Cauchy–Schwarz (section 19); D counts as known.
    near = 0.0 if (gap.low or 0.0) <= 0.0 <= (gap.high or 0.0) else ends[0]
    least, most = (c.mean_residual * end**2 for end in (near, ends[1]))
    return gap, Estimate(c.mean_residual * gap.value**2, least, most)
