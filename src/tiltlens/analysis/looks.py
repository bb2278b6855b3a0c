"""Sums of growing data → what each look at them says of the gap, the impact ratio and gaps in error rates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiltlens.estimators.dispersion import PEOPLE, GroupMeans
from tiltlens.estimators.error_rates import WITH, WITHOUT
from tiltlens.estimators.estimate import student_factor
from tiltlens.estimators.outputs import unseen_mean_se
from tiltlens.limits import MINIMUM_ROWS, SMALLEST_SHARE
from tiltlens.paper.checks import Floats


class Measured(NamedTuple):
    """How scores are read: whether they are amounts, whether low ones are wanted, whether they are an error rate."""

    is_amount: bool
    favours_low: bool
    has_metric: bool


class Tracked(NamedTuple):
    """A quantity of two groups: value, standard error, and the people that tell it, 1/(1/n0 + 1/n1)."""

    value: float
    se: float
    size: float
    is_log: bool = False


def track(audited: Floats, reference: Floats, measured: Measured) -> dict[str, Tracked]:
    """Return what the sums of two groups by outcome, (3, 6), say; quantities of fewer than ten people are left out."""
    whole = _means(audited.sum(axis=0), reference.sum(axis=0))
    if whole is None:
        return {}
    quantities = {"gap": _difference(whole, measured.is_amount)}
    rates = 1.0 - whole.mean if measured.favours_low and not measured.is_amount else whole.mean
    if rates.min() > SMALLEST_SHARE and not measured.has_metric:
        # Delta method of log p, with the error that equal decisions do not show (9).
        errors = np.hypot(np.sqrt(whole.variance), _unseen(whole, measured.is_amount)) / rates
        size = quantities["gap"].size
        quantities["impact_ratio"] = Tracked(math.log(rates[0] / rates[1]), math.hypot(*errors), size, is_log=True)
    if not measured.is_amount and not measured.has_metric:
        for name, code, sign in (("fpr_difference", WITHOUT, 1.0), ("fnr_difference", WITH, -1.0)):
            if (means := _means(audited[code], reference[code])) is not None:
                difference = _difference(means, is_amount=False)
                quantities[name] = difference._replace(value=sign * difference.value)
    return quantities


def _means(audited: Floats, reference: Floats) -> GroupMeans | None:
    if min(audited[PEOPLE], reference[PEOPLE]) < MINIMUM_ROWS:
        return None
    means = GroupMeans.of(np.array([audited, reference]))
    # First looks have few people.
    return replace(means, variance=student_factor(means.size - 1.0) ** 2 * means.variance)


def _difference(means: GroupMeans, is_amount: bool) -> Tracked:
    se = math.hypot(*np.sqrt(means.variance).tolist(), *_unseen(means, is_amount))
    return Tracked(float(means.mean[0] - means.mean[1]), se, float(1.0 / (1.0 / means.size).sum()))


def _unseen(means: GroupMeans, is_amount: bool) -> list[float]:
    """Return the error that decisions do not show where all of a group's are the same (9)."""
    both = zip(means.mean.tolist(), means.size.tolist(), strict=True)
    return [0.0 if is_amount else unseen_mean_se(mean, size) for mean, size in both]
