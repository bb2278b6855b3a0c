"""The gap shared out among the features that the score uses, so that the parts add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tiltlens.analysis.adjusted_gap import AdjustedGap, exempt_places
from tiltlens.analysis.evidence import Columns, Evidence, OutputScale, estimate_columns, output_scale
from tiltlens.analysis.settings import Settings
from tiltlens.estimators.estimate import Normal, quantile, without_noise
from tiltlens.estimators.outputs import Scores, gap
from tiltlens.estimators.sets import CellSets, RidgeSets, SetCoefficients, covariance
from tiltlens.estimators.shapley import shapley_gaps
from tiltlens.threads import steps_in_threads

SHAPLEY_AGREED = 3.0  # standard errors within which Shapley values must add up to the gap minus the adjusted gap


class Named(NamedTuple):
    """A number of each of some features, with each row's part in its error and what pairings add."""

    names: list[str]
    numbers: SetCoefficients


def shapley_parts(
    evidence: Evidence,
    settings: Settings,
    adjusted: AdjustedGap,
    every: SetCoefficients | None,
    unused: Sequence[str] = (),
) -> tuple[dict[str, Columns], float | None, list[str], Named | None]:
    """Return Shapley values where they add up to the gap minus the adjusted gap within their error, none otherwise.

    Features that the score does not use have no part in the game, and the value 0. Last are those of all sets, with
    errors by rows.
    """
    sets = evidence.nuisances.sets
    if sets is not None and sets.pooled:
        return {}, None, [f"shapley is left out: {_too_many(evidence)}"], None
    if sets is None or every is None or adjusted.value is None:
        return {}, None, [], None
    start = exempt_places(evidence)
    whole = whole_gap(evidence)
    if len(start) == sets.features:
        return {}, without_noise(whole), [], None
    without, order = [number for number, name in enumerate(evidence.table) if name in unused], list(evidence.table)
    apply = partial(steps_in_threads, rows=evidence.sample.audited.size)
    gaps = shapley_gaps(sets, settings.random_state, apply, start, without)
    difference = float(every.values[0]) - adjusted.value
    se, words = difference_se(every, adjusted), output_scale(evidence, settings)
    # Parts of a sum that the best regressions contradict would be stated to two digits, and be wrong.
    if settings.folds is not None and abs(difference) > SHAPLEY_AGREED * se + 0.1 * words.materiality:
        note = (
            f"shapley is left out: the contributions sum to {words.signed_words(whole - float(every.values[0]))}, "
            f"where {'the gap given the exempt factors' if start else 'the gap'} minus the adjusted gap is "
            f"{words.signed(whole - adjusted.value)}"
        )
        return {}, None, [note], None
    by_orders = f"shapley rests on {gaps.orders} orders of the features; its intervals include that error"
    notes = [by_orders] if gaps.orders else []
    others = [name for name in order if name not in (*evidence.question.exempt, *unused)]
    notes += _used_remainder(sets, without, words, quantile(settings.confidence))
    columns = dict.fromkeys(unused, estimate_columns("shapley", Normal(0.0, 0.0), settings))
    for name, value, se in zip(others, gaps.values.tolist(), gaps.se.tolist(), strict=True):
        columns[name] = estimate_columns("shapley", Normal(value, se), settings)
    named = None if gaps.every is None else Named(others, gaps.every)
    return columns, without_noise(whole - float(gaps.values.sum())), notes, named


def _used_remainder(sets: CellSets | RidgeSets, without: Sequence[int], words: OutputScale, z: float) -> list[str]:
    """Return a note where the gap among people equal in the used features differs from that at all features equal."""
    if not without:
        return []
    every = list(range(sets.features))
    both = sets.sets([[number for number in every if number not in without], every])
    apart = both.combine(np.array([[1.0], [-1.0]]))
    if abs(apart.values[0]) <= z * float(np.sqrt(covariance(apart.influence, apart.between)[0, 0])):
        return []
    used, equal = (words.signed_words(float(value)) for value in both.values)
    return [
        f"the Shapley contributions leave {used}, the gap among people with the same values of the features that the "
        f"score uses; among people with the same values of all features it is {equal}"
    ]


def whole_gap(evidence: Evidence) -> float:
    """Return what features have parts in: the gap, or what is left of it at equal exempt factors."""
    start = exempt_places(evidence)
    if start and evidence.nuisances.sets is not None:
        return float(evidence.nuisances.sets.sets([start]).values[0])
    return gap(evidence.sample, sampled_scores(evidence, evidence.score)).value


def _too_many(evidence: Evidence) -> str:
    pooled = () if evidence.nuisances.sets is None else evidence.nuisances.sets.pooled
    return f"{', '.join(pooled)} has too many values for the rows to be assessed with the others"


def difference_se(every: SetCoefficients, adjusted: AdjustedGap) -> float:
    """Return the standard error of c_all by the sets less c_all by the best regressions, from rows that both have.

    What is 0 by construction has no error.
    """
    influence, best = every.influence[:, 0], adjusted.measured
    if best is None or adjusted.is_by_construction:
        shared, rest = influence, 0.0
    elif best.influence.size == influence.size:
        # Row by row: both c_all come from the same rows, and their errors mostly cancel.
        shared, rest = influence - best.influence, 2.0 * float(best.between @ best.between) / len(best.parts)
    else:
        shared, rest = influence, best.variance
    return float(np.sqrt(covariance(shared[:, None], every.between[:, :1])[0, 0] + rest))


def sampled_scores(evidence: Evidence, outcome: Scores) -> Scores:
    """Return the shown rows' scores with the sample's means, beside which regressions on the sample stand."""
    if evidence.rows.facts.is_complete:
        return outcome
    whole = Scores.of(evidence.sample, evidence.score.column, outcome.is_probability)
    return replace(whole, values=outcome.values)
