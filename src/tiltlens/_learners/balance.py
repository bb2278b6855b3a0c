"""Overlap and calibration checks: reference rows weighted by e^ℓ should look like the audited group."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import ClassVar, NamedTuple

import numpy as np

from tiltlens._estimators.crossfit import shifted_exp
from tiltlens._estimators.influence import Booleans, InfluenceEstimate, Rows
from tiltlens._formats import FieldTable, value_of
from tiltlens._learners.candidates import Trial, ridge_logit
from tiltlens._learners.design import Table
from tiltlens._learners.propensity import PartFit, Propensity
from tiltlens._limits import MOST_PRODUCTS, REACH
from tiltlens._notes import Note
from tiltlens._rows.features import DesignColumn
from tiltlens._threads import in_threads
from tiltlens.paper.checks import Floats

BALANCE_MATERIAL = 0.1  # standard deviations, the usual bound of a covariate balance
BALANCE_SURE = 3.0  # standard errors; many means are compared
PARTS_DISAGREE = 0.2  # share of the parts of the data that may clearly favour another kind of model
CLEAR_LEAD = 0.005  # nats per row: smaller leads are due to chance
MISMATCHES = 20  # that a summary lists at most


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Audited mean minus weighted reference mean, in standard deviations of the audited group, and its error."""

    name: str
    difference: float
    se: float

    @property
    def is_material(self) -> bool:
        """Whether the mismatch is both large and statistically significant."""
        return abs(self.difference) > max(BALANCE_MATERIAL, BALANCE_SURE * self.se)


class CalibrationLine(NamedTuple):
    """A logistic model of the group on ℓ."""

    intercept: float
    slope: float


@dataclass(frozen=True, slots=True, repr=False)
class Balance(FieldTable):
    """Balance, overlap and calibration checks of the group-membership model.

    `calibration` gives the intercept and slope of a logistic model of the group on the log-ratio ℓ; ideally 0 and 1.
    """

    reasons: tuple[str, ...]
    auc: float
    calibration: CalibrationLine
    clipped: float
    mismatches: tuple[Mismatch, ...]

    JSON_PROPERTIES: ClassVar = ("is_adequate",)

    @property
    def is_adequate(self) -> bool:
        """Whether the group-membership model passed all checks."""
        return not self.reasons

    def disclosed(self) -> Balance:
        """Return the same with the largest mismatches only."""
        largest = sorted(self.mismatches, key=lambda m: (-round(abs(m.difference), 6), m.name))
        return replace(self, mismatches=tuple(largest[:MISMATCHES]))

    def __repr__(self) -> str:
        intercept, slope = self.calibration
        worst = max(self.mismatches, key=lambda m: abs(m.difference), default=None)
        largest = "none" if worst is None else f"{worst.difference:+.2f} standard deviations ({worst.name})"
        lines = [
            f"{'adequate' if self.is_adequate else 'not adequate'}, AUC {self.auc:.3f}, {self.clipped:.1%} clipped",
            f"calibration: intercept {intercept:+.3f}, slope {slope:.3f}",
            f"largest of {len(self.mismatches)} mismatches: {largest}",
            *self.reasons,
        ]
        return f"Balance({chr(10).join(lines)})".replace("\n", "\n  ")


def balance(
    rows: Rows,
    table: Table,
    membership: Propensity,
    outcome: Floats,
    labels: Mapping[str, Sequence[str]] | None = None,
    expected: str = "expected score",
) -> Balance:
    """Check the balance of the features, their squares and products, and the expected score (named `expected`).

    `labels` name the levels of a feature's codes.
    """
    # E1[e^ℓ·h] = E0[h] for the true ℓ and any h: a mismatch measures its error in the direction of h (38).
    ratio, noise = density_ratio(rows, membership), fitting_noise(rows, membership)

    def missed(column: tuple[str, Callable[[], Floats]]) -> Mismatch | None:
        name, made = column
        return mismatch(rows, name, made(), ratio, noise)

    columns: list[tuple[str, Callable[[], Floats]]] = [
        (expected, partial(np.asarray, outcome)),
        *_columns(table, labels or {}),
    ]
    mismatches = tuple(m for m in in_threads(missed, columns, outcome.size) if m is not None)
    calibration = calibration_line(rows.audited, rows.weights, membership.log_ratio)
    reasons = [*_unbalanced(mismatches), *_disagreeing(membership.parts), *_clipped(membership.clipped)]
    return Balance(tuple(reasons), membership.auc, calibration, membership.clipped, mismatches)


def density_ratio(rows: Rows, membership: Propensity) -> tuple[Floats, Floats]:
    """Return r at audited and at reference rows: −1 and e^ℓ, of mean 0 over the two groups."""
    if not membership.is_known:
        # From models that have not seen the row: a fit balances its own rows whether it is right or not.
        ratios = [0.5 * (pair.r_a + pair.r_b) for pair in membership.pairings]
        mean = np.asarray(sum(ratios) / len(ratios))
        return mean, mean
    ratio, _ = shifted_exp(membership.log_ratio)  # whatever its scale
    return rows.constant(-1.0), ratio / rows.mean1(ratio)


def fitting_noise(rows: Rows, membership: Propensity) -> float:
    """Return √(1 + n/rows per fit): a fit on few rows adds its own error to the mismatch."""
    if membership.is_known:
        return 1.0
    # A mismatch of the fit has the variance of a mean over the rows that it was fitted on.
    return math.sqrt(1.0 + (rows.count0 + rows.count1) / float(np.mean([part.rows for part in membership.parts])))


def mismatch(rows: Rows, name: str, x: Floats, ratio: tuple[Floats, Floats], noise: float = 1.0) -> Mismatch | None:
    """Return (E0[x] − E1[e^ℓ·x])/sd0(x); None where x does not vary."""
    mean = rows.mean0(x)
    spread = math.sqrt(max(rows.mean0((x - mean) ** 2), 0.0)) or math.sqrt(rows.mean1((x - rows.mean1(x)) ** 2))
    if spread <= 1e-9 * (abs(mean) + 1e-300):
        return None
    # Centred first: a constant in h would measure only the error of ℓ's scale.
    moved0 = -(x - mean) * ratio[0] / spread
    moved1 = moved0 if ratio[1] is ratio[0] else -(x - mean) * ratio[1] / spread
    difference = InfluenceEstimate.of(rows, rows.mean0(moved0) + rows.mean1(moved1), moved0, moved1)
    # (38) with √(1 + n/n_fit).
    return Mismatch(name, difference.value, noise * difference.se)


def _columns(table: Table, labels: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Callable[[], Floats]]]:
    """Yield the columns to compare, each made when asked for: levels, numbers, squares and products."""
    numeric: dict[str, Floats] = {}
    for name, column in table.items():
        if column.dtype.kind == "f":
            numeric[name] = _standardise(column)
            if np.isnan(column).any():
                yield f"{name} missing", partial(_indicator, np.isnan(column), True)
        else:
            for level in np.flatnonzero(np.bincount(column) >= 0.01 * column.size).tolist():
                label = labels[name][level] if name in labels else level
                yield value_of(name, label), partial(_indicator, column, level)
    for name, z in numeric.items():
        yield name, partial(np.asarray, z)
        yield f"{name}²", partial(np.multiply, z, z)
    pairs = list(combinations(numeric, 2))
    for first, other in pairs if len(pairs) <= MOST_PRODUCTS else []:
        yield f"{first}·{other}", partial(np.multiply, numeric[first], numeric[other])


def _indicator(column: DesignColumn, level: int | bool) -> Floats:
    return np.asarray(column == level, dtype=np.float64)


def _standardise(column: Floats) -> Floats:
    is_finite = np.isfinite(column)
    values = column[is_finite]
    sd = float(values.std()) if values.size else 0.0
    if sd == 0.0:
        return np.zeros_like(column)
    return np.where(is_finite, np.clip((column - values.mean()) / sd, -REACH, REACH), 0.0)


def _unbalanced(mismatches: tuple[Mismatch, ...]) -> Iterator[Note]:
    worst = sorted((m for m in mismatches if m.is_material), key=lambda m: (-round(abs(m.difference), 6), m.name))
    for mismatch in worst[:3]:
        yield Note("unbalanced", name=mismatch.name, difference=mismatch.difference)


def _disagreeing(parts: tuple[PartFit, ...]) -> Iterator[Note]:
    """Yield a reason if parts of the data clearly favour different kinds of model, so that none is reliable."""
    leads = np.array([lead for part in parts if part.trial is not None and (lead := _lead_of_trees(part.trial))])
    trees, others = int((leads > CLEAR_LEAD).sum()), int((leads < -CLEAR_LEAD).sum())
    if min(trees, others) > PARTS_DISAGREE * len(leads):
        yield Note("candidates disagree", trees=trees, parts=len(leads), others=others)


def _lead_of_trees(trial: Trial) -> float | None:
    """Return by how many nats per row boosted trees beat the best other candidate; None where one is missing."""
    others = [bias for name, bias in trial.biases.items() if name != "trees"]
    return min(others) - trial.biases["trees"] if others and "trees" in trial.biases else None


def _clipped(share: float) -> Iterator[Note]:
    if share > 0.1:
        yield Note("little overlap", share=share)


def calibration_line(audited: Booleans, weights: Floats, log_ratio: Floats) -> CalibrationLine:
    """Return intercept and slope of a logistic model of the group on ℓ."""
    # The right ℓ has intercept 0 and slope 1, the groups having the weights of the table.
    fitted = ridge_logit(log_ratio[:, None], audited, weights, np.array([1e-8]))
    prior = math.log(weights[audited].sum()) - math.log(weights[~audited].sum())
    return CalibrationLine(fitted.intercept - prior, float(fitted.slopes[0]))
