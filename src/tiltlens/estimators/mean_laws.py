"""Distributions of a group's mean and of a difference: Wilson's for decisions, Student's for scores and amounts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tiltlens.estimators.estimate import Difference, MeanLaw, Proportion, student_factor
from tiltlens.estimators.influence import FEWEST_DEGREES, Booleans, InfluenceEstimate, Rows, satterthwaite


def mean_law(
    rows: Rows,
    mean: InfluenceEstimate,
    is_audited: bool,
    is_rate: bool,
    ends: tuple[float, float] = (-math.inf, math.inf),
    chosen: Booleans | None = None,
) -> MeanLaw:
    """Return the law of the mean over a group, or over `chosen` rows of it: Wilson's for decisions, else Student's t.

    The effective size of a rate comes from its variance and is at most that of the weights (3), because the rows with
    heavy weights may be missing. Other means have (effective people − 1) degrees of freedom, or those of (29) if more.
    """
    people, variance, p = rows.independent(is_audited, chosen), mean.variance, mean.value
    if is_rate:
        if variance <= 0.0 or not 0.0 < p < 1.0:
            return Proportion(p, people)  # as many independent decisions, or clusters, all equal
        # Clusters are in the variance already, and may also make a rate more certain than (3) says.
        size = p * (1.0 - p) / variance * float(student_factor(rows.degrees)) ** 2
        return Proportion(p, size if rows.clusters is not None else min(size, people), rows.degrees)
    if rows.clusters is not None:
        return mean.normal(*ends)
    is_counted = rows.audited == is_audited if chosen is None else chosen & (rows.audited == is_audited)
    by_tails = satterthwaite(mean.influence, variance, rows=int(is_counted.sum()))
    return replace(mean.normal(*ends), degrees=max(min(people - 1.0, float(by_tails)), FEWEST_DEGREES))


def mean_difference(rows: Rows, means: Sequence[InfluenceEstimate], laws: Sequence[MeanLaw]) -> Difference:
    """Return the law of a difference of two groups' means, which are correlated if clusters have rows of both."""
    spread = math.sqrt(means[0].variance * means[1].variance)
    # Rows of different groups are independent; a cluster with rows of both is not.
    together = rows.clusters is not None and spread > 0.0
    return Difference(laws[0], laws[1], means[0].covariance(means[1]) / spread if together else 0.0)
