"""Audited rows → the least change of their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from tiltlens.errors import DataError, SupportError
from tiltlens.estimators.error_rates import UNKNOWN, WITH, WITHOUT
from tiltlens.estimators.estimate import Normal
from tiltlens.estimators.influence import Booleans, Integers, Rows, cluster_codes, sums_by
from tiltlens.learners.propensity import check_overlap, group_folds
from tiltlens.limits import ALIKE, FEW_DECIDED, FEW_REPAIRED, FOLDS, MINIMUM_ROWS, REPAIRED, SURELY_BEYOND
from tiltlens.paper.checks import Floats, check_share, check_threshold
from tiltlens.repair.additive import Design, additive_design
from tiltlens.repair.coded import CodedModel
from tiltlens.repair.columns import condition_words
from tiltlens.repair.constraints import (
    ALL,
    DECISIONS,
    EQUAL,
    EVENTS,
    FNR,
    FPR,
    GIVEN_EXEMPT,
    MEAN,
    ODDS,
    Cell,
    CellModel,
    Constraint,
    asked_classes,
    gradients,
    modelled_cells,
    overlaps,
)
from tiltlens.repair.copies import Seen
from tiltlens.repair.estimator import fitted_model
from tiltlens.repair.least_change import log_scores, nats_moved, repaired, shifts
from tiltlens.repair.multipliers import (
    GapProblem,
    decision_multipliers,
    gaps_of,
    score_multipliers,
)
from tiltlens.repair.notes import Fitted, fit_notes
from tiltlens.repair.quantities import area, equal_gap
from tiltlens.repair.rows import AuditedRows
from tiltlens.repair.score_tilt import ScoreTilt
from tiltlens.repair.unlike import modelled_gap, moments, ranges_of
from tiltlens.rows.declared import declared_in
from tiltlens.rows.features import Feature
from tiltlens.sources.hashing import Hashes, row_hashes
from tiltlens.sources.messages import shown

REGULATED = "the group itself is needed for every new row: its use at prediction time may be regulated"
TOUCHED = "the sensitive attribute was used to fit the membership model and the multiplier, not to repair new rows"


def score_tilt(
    audited: AuditedRows,
    metric: str = MEAN,
    limit: float = 0.0,
    use_group: bool = False,
    threshold: float | None = None,
    seed: int = 0,
    estimator: Any = None,
) -> ScoreTilt:
    """Return the tilt after which no difference between the groups is larger than `limit`.

    The multipliers are solved on the rows' own group means, with chances of models that have not seen the row.
    """
    size, kind = checked_limit(limit), _checked_metric(metric, threshold, audited)
    if not isinstance(use_group, (bool, np.bool_)):
        raise DataError(f"`use_group` must be True or False, got {use_group!r}.", "True looks at the group itself.")
    _check_scores(audited.scores, threshold)
    audited, of_copies = audited.with_copies()
    asked = _asked(audited, kind, size)
    design, models, chances = _chances(audited, asked, use_group, seed, estimator)
    asked, measures = _measures(audited, asked, chances)
    mine = {group: audited.codes == code for code, group in enumerate(audited.groups)} if use_group else None
    unseen = gradients(asked, chances, mine)
    pairs = [(audited.members(one.cells[0]), audited.members(one.cells[1])) for one in asked]
    told = [] if use_group else told_apart(pairs, unseen, audited.weights, audited.clusters)
    a = unseen
    if design is not None and threshold is not None:
        a = gradients(asked, _of_alike(audited, design, models, chances), mine)
    constraints, after = solved(asked, a, measures, audited.scores, audited.weights, size, threshold, audited.clusters)
    shipped = a if design is None else gradients(asked, {one.cell: one.chance(design.table) for one in models}, mine)
    if design is not None and asked[0].event == EQUAL:
        constraints = tuple(
            _with_se(audited, one, models[-1].model.columns(design.table), after) for one in constraints
        )
    constraints = _with_modelled(audited, constraints, shipped, threshold)
    truth = audited.outcome, audited.weights, audited.clusters
    check_told(constraints, told, "use_group=True needs no features; or audit with other features, or more rows.")
    return ScoreTilt(
        criterion=kind,
        threshold=threshold,
        limit=size,
        use_group=bool(use_group),
        classes=audited.outcomes,
        constraints=constraints,
        nats=nats_moved(audited.scores, after, audited.weights) if threshold is None else None,
        models=models,
        given=dict(audited.given),
        favours_low=audited.favours_low,
        soft=audited.soft_estimates(after, threshold) if kind in (MEAN, DECISIONS) else {},
        ranges=ranges_of([one for one in audited.features if one.in_membership]) if models else {},
        declared=declared_in({one.name: one.levels.made_of for one in audited.features if one.levels is not None}),
        seen=Seen.of(audited.features, audited.scores, audited.places, audited.outcome, audited.clusters),
        notes=(
            *_notes(audited, constraints, measures, use_group, size),
            *fit_notes(constraints, measures, size, threshold, Fitted(audited.scores, after, *truth)),
            *(_nearly_constant(audited, constraints, shipped, threshold) if threshold is not None else ()),
            *of_copies,
            *_conditions(audited),
            *_exempt_notes(audited, kind),
        ),
    )


def solved(
    asked: Sequence[Constraint],
    a: Floats,
    measures: Floats,
    scores: Floats,
    weights: Floats,
    limit: float,
    threshold: float | None,
    clusters: Integers | None = None,
) -> tuple[tuple[Constraint, ...], Floats]:
    """Return the constraints with their multipliers, and the scores after; gradients and measures are (C, n)."""
    share = weights / weights.sum()
    classes, outcomes = np.array([one.score_class for one in asked]), 2 if scores.ndim == 1 else scores.shape[1]
    wholes = np.arange(len(asked)).reshape(-1, outcomes) if outcomes > 2 and limit > 0.0 else ()
    problem = GapProblem(
        logs=log_scores(scores),
        gradients=a,
        classes=classes,
        measures=measures,
        modelled=(a - (a @ share)[:, None]) * share,
        shares=share,
        limit=limit,
        names=[one.named(outcomes > 2) for one in asked],
        wholes=tuple(wholes),
        clusters=cluster_codes(clusters),
    )
    t = score_multipliers(problem) if threshold is None else decision_multipliers(problem, scores, threshold)
    before, after = (repaired(scores, shifts(part * t, a, classes, outcomes), threshold) for part in (0.0, 1.0))
    gaps = [gaps_of(one, measures, classes).tolist() for one in (before, after)]
    errors = [problem.errors(one).tolist() for one in (before, after)]
    found = [
        replace(
            one, multiplier=float(t[c]), gap_before=one.sign * old, gap_after=one.sign * new, se=se, se_before=first
        )
        for c, (one, old, new, first, se) in enumerate(zip(asked, *gaps, *errors, strict=True))
    ]
    return tuple(found), after


def _with_modelled(
    audited: AuditedRows, found: Sequence[Constraint], a: Floats, threshold: float | None
) -> tuple[Constraint, ...]:
    """Return the constraints with the gaps after that the shipped membership model, with gradients `a`, has."""
    t, classes = np.array([(one.multiplier, one.score_class) for one in found]).T
    after = repaired(audited.scores, shifts(t, a, classes.astype(np.intp), audited.outcomes), threshold)
    gaps = map(modelled_gap, moments(a, after, found, audited.weights))
    return tuple(replace(one, modelled=gap.value) for one, gap in zip(found, gaps, strict=True))


def measures_of(members: Sequence[tuple[Booleans, Booleans]], weights: Floats) -> Floats:
    """Return the rows' parts in each difference of two means: w over its sum in the first, less that in the second."""
    shares = [[weights * who / float(weights @ who) for who in pair] for pair in members]
    return np.array([first - second for first, second in shares])


def _measures(
    audited: AuditedRows, asked: Sequence[Constraint], chances: Mapping[Cell, Floats]
) -> tuple[list[Constraint], Floats]:
    """Return the constraints with the shares of the people they count, and the rows' parts in each difference."""
    found, measures, total = [], [], float(audited.weights.sum())
    for one in asked:
        first, second = (audited.members(cell) for cell in one.cells)
        own, other = overlaps(one, chances)
        weights = audited.weights * np.where(first, own, other)
        found.append(replace(one, shares=(float(weights @ first) / total, float(weights @ second) / total)))
        measures.append(measures_of([(first, second)], weights)[0])
    return found, np.array(measures)


def _with_se(audited: AuditedRows, one: Constraint, factors: Floats, after: Floats) -> Constraint:
    """Return a constraint with the error of its gap at equal exempt factors, smaller than that of two means."""
    if one.event != EQUAL:
        return one
    first, second = (audited.members(cell) for cell in one.cells)
    rows = Rows.of(first, audited.weights * (first | second), audited.clusters)
    error = equal_gap(rows, factors, after if after.ndim == 1 else after[:, one.score_class]).se
    return replace(one, se=error, se_before=None)


def _sides(measure: Floats) -> tuple[Booleans, Booleans]:
    return measure > 0.0, measure < 0.0


def _asked(audited: AuditedRows, kind: str, limit: float) -> list[Constraint]:
    """Return what is to be within the limit, without multipliers: group by group, event by event, class by class."""
    found = []
    for group in audited.groups[:-1]:
        for event in EVENTS[kind]:
            members = [audited.members((one, event)) for one in (group, audited.reference)]
            _check_people([int(who.sum()) for who in members], kind, group)
            which = EQUAL if event == ALL and audited.exempt else event
            classes = asked_classes(audited.outcomes, limit)
            found += [Constraint(group, audited.reference, which, y, (0.0, 0.0)) for y in classes]
    return found


def _check_people(sizes: Sequence[int], kind: str, group: str) -> None:
    if min(sizes) < MINIMUM_ROWS:
        raise DataError(
            f"`metric` must be of {MINIMUM_ROWS} people of each group at least, got {sizes[0]} of {shown(group)} "
            f"and {sizes[1]} of the reference for {kind!r}.",
            "bring more rows.",
        )


def _chances(
    audited: AuditedRows, asked: Sequence[Constraint], use_group: bool, seed: int, estimator: Any
) -> tuple[Design | None, tuple[CellModel, ...], Mapping[Cell, Floats]]:
    """Return the models of cells, and each row's chances of these by models that have not seen it."""
    cells = modelled_cells([cell for one in asked for cell in one.cells], audited.reference, use_group)
    if not cells and estimator is not None:
        raise DataError(
            f"`propensity_model` must be left out of a repair that knows the group, got {type(estimator).__name__}.",
            "it needs no model.",
        )
    design = _design(audited.features, estimator) if cells else None
    designs = {} if design is None else dict.fromkeys(cells, design)
    if any(one.event == EQUAL for one in asked):
        exempt = additive_design([one for one in audited.features if one.name in audited.exempt])
        design = exempt if design is None else design
        designs |= {(group, GIVEN_EXEMPT): exempt for group in audited.groups[:-1]}
    fold = group_folds(audited.codes, audited.clusters, FOLDS, seed, _strata(audited, asked))
    models, chances, everyone = [], {}, np.ones(audited.codes.size, dtype=np.bool_)
    for cell, own in designs.items():
        is_given = cell[1] == GIVEN_EXEMPT
        among = audited.members((cell[0], ALL)) if use_group and not is_given else everyone
        who = audited.members((cell[0], ALL) if is_given else cell)
        model, chances[cell] = cross_fitted(own, audited.weights, fold, who, among)
        models.append(CellModel(*cell, model))
    return design, tuple(models), chances


def _strata(audited: AuditedRows, asked: Sequence[Constraint]) -> Integers | None:
    """Return the outcome within each group, where it counts.

    Where a fold has more people with the outcome than others, a model of the others finds it rarer than it is there.
    """
    if audited.outcome is None or all(one.event == ALL for one in asked):
        return None
    return np.asarray(audited.codes * (UNKNOWN + 1) + audited.outcome)


def _design(features: Sequence[Feature], estimator: Any) -> Design:
    if not any(one.in_membership for one in features):
        raise DataError(
            "`use_group` must be True where no feature may tell the groups apart, got False.",
            "a repair without the group needs features that vary and are neither the group itself nor identifiers.",
        )
    return additive_design(features, estimator)


def cross_fitted(
    design: Design, weights: Floats, fold: Integers, labels: Booleans, among: Booleans
) -> tuple[CodedModel, Floats]:
    """Return the model of `labels` fitted on the rows `among`, and each row's chance by a model of the other folds."""
    chance = np.empty(labels.size)
    for one in range(FOLDS):
        held_out = np.flatnonzero(fold == one)
        part = fitted_model(design, np.flatnonzero(among & (fold != one)), labels, weights)
        chance[held_out] = expit(part.log_odds(design.table, held_out))
    return fitted_model(design, np.flatnonzero(among), labels, weights), chance


def _of_alike(
    audited: AuditedRows, design: Design, models: Sequence[CellModel], chances: Mapping[Cell, Floats]
) -> Mapping[Cell, Floats]:
    """Return chances with which people who are alike are decided alike, as those of new rows are.

    Models of the other folds give them five chances, and so decide some of them otherwise than the model of all rows.
    Where many people are alike in every feature its own chances serve: none of them counts for much in it.
    """
    alike = many_alike(row_hashes(design.table), audited.clusters)
    return {one.cell: np.where(alike, one.chance(design.table), chances[one.cell]) for one in models}


def many_alike(hashes: Hashes, clusters: Integers | None) -> Booleans:
    """Return which rows equal, by the `hashes` of their features, those of nine other people at least."""
    _, own = np.unique(hashes, return_inverse=True)
    codes = cluster_codes(clusters)
    people = own if codes is None else np.unique(np.stack([own, codes]), axis=1)[0]
    return np.asarray(np.bincount(people)[own] >= ALIKE)


def told_apart(
    pairs: Sequence[tuple[Booleans, Booleans]], a: Floats, weights: Floats, clusters: Integers | None
) -> list[Normal]:
    """Return how well the gradients `a`, (C, n), tell the people of each pair apart: the area under the curve.

    Raise where they do without fail: a repair without the group would be one with it.
    """
    found = []
    for (first, second), own in zip(pairs, a, strict=True):
        at = np.flatnonzero(first | second)
        rows = Rows.of(first[at], weights[at], None if clusters is None else clusters[at])
        share = rows.weights / rows.weights.sum()
        found.append(area(rows, own[at], np.where(rows.audited, WITH, WITHOUT), share).normal())
        check_overlap(found[-1].value)
    return found


def check_told(found: Sequence[Constraint], told: Sequence[Normal], hint: str) -> None:
    """Raise where a multiplier rests on features that may tell nothing of the group: it is then one of chance."""
    for one, auc in zip(found, told, strict=False):
        if one.multiplier and auc.value - 0.5 < SURELY_BEYOND * auc.se:
            raise SupportError(
                f"The features do not surely tell {shown(one.audited)} from {shown(one.reference)}: on rows that the "
                f"membership model has not seen its area under the curve is {auc.value:.3f}, with a standard error of "
                f"{auc.se:.3f}. A repair without the group would move scores by chance.",
                hint,
            )


def _notes(
    audited: AuditedRows,
    found: Sequence[Constraint],
    measures: Floats,
    use_group: bool,
    limit: float,
) -> list[str]:
    """Return what was done, and what to know."""
    notes = [REGULATED if use_group else TOUCHED]
    if max(abs(one.gap_before) for one in found) <= limit + REPAIRED:
        largest = max((one.gap_before for one in found), key=abs)
        what = "the difference" if len(found) == 1 else f"the largest of {len(found)} differences"
        notes.append(f"nothing to do: {what} is {largest:+.4f}, no larger than the limit")
    if any(one.event != ALL for one in found) and audited.outcome is not None:
        known = int((audited.outcome != UNKNOWN).sum())
        if known < audited.codes.size:
            notes.append(f"the outcome is known for {known} of {audited.codes.size} rows: error rates are of these")
    people = min(_people(who * measures[c], audited.clusters) for c in range(len(found)) for who in _sides(measures[c]))
    if people < FEW_REPAIRED:
        error = max(one.se or 0.0 for one in found)
        notes.append(
            f"a difference is of {people:.0f} people of a group: that of new people may lie {2.0 * error:.3f} or more "
            "from the limit by chance"
        )
    return notes


def _conditions(audited: AuditedRows) -> list[str]:
    which = condition_words(audited.given)
    return [f"fitted on rows with {which} alone: other rows are neither repaired nor billed"] if audited.given else []


def _exempt_notes(audited: AuditedRows, kind: str) -> list[str]:
    """Return what a repair makes of the exempt factors of the audit."""
    if not audited.exempt:
        return []
    named = ", ".join(map(shown, audited.exempt))
    if kind in (MEAN, DECISIONS):
        return [f"the repair closes the gap at equal {named}: what these exempt factors account for stays"]
    return [f"error rates are compared among all people: the exempt factors {named} are not held equal"]


def _nearly_constant(audited: AuditedRows, found: Sequence[Constraint], a: Floats, threshold: float) -> list[str]:
    """Return a note where decisions have become nearly the same for all; `a` are as new rows have them."""
    after = repaired(audited.scores, np.array([one.multiplier for one in found]) @ a, threshold)
    return nearly_constant(audited.scores >= threshold, after == 1.0, audited.weights)


def nearly_constant(before: Booleans, after: Booleans, weights: Floats) -> list[str]:
    """Return a note where a rule selects nearly nobody, or nearly everybody, and the rule before did not."""
    old, new = (float(weights @ one) / float(weights.sum()) for one in (before, after))
    if min(new, 1.0 - new) >= min(FEW_DECIDED, old, 1.0 - old):
        return []
    if after.all() or not after.any():
        return [f"the rule selects {'everybody' if after.all() else 'nobody'} (the model {100.0 * old:.1f}%)"]
    ends = f"fewer than {100.0 * FEW_DECIDED:.0f}%" if new < 0.5 else f"more than {100.0 - 100.0 * FEW_DECIDED:.0f}%"
    return [f"the rule selects {ends} of people (the model {100.0 * old:.1f}%)"]


def _people(shares: Floats, clusters: Integers | None) -> float:
    """Return how many independent people some shares of rows are worth: (Σw)²/Σw², w of clusters."""
    codes = cluster_codes(clusters)
    of_clusters = shares if codes is None else sums_by(codes, shares)
    return float(of_clusters.sum() ** 2 / (of_clusters @ of_clusters))


def _checked_metric(metric: Any, threshold: float | None, audited: AuditedRows) -> str:
    known = (MEAN, FPR, FNR, ODDS)
    if metric not in known:
        names = ", ".join(map(repr, known[:-1]))
        raise DataError(f"`metric` must be {names} or {ODDS!r}, got {metric!r}.", "threshold= is for decisions.")
    if metric == MEAN:
        return MEAN if threshold is None else DECISIONS
    if audited.outcome is None:
        raise DataError(
            f"`metric` {metric!r} must be of an audit with outcomes, got one without.", "audit with outcome=."
        )
    return str(metric)


def checked_limit(limit: Any) -> float:
    """Return the largest gap that is allowed, as a number."""
    return check_share("max_gap", limit, "0 closes the gap.")


def _check_scores(scores: Floats, threshold: float | None) -> None:
    if threshold is not None and scores.ndim == 2:
        raise DataError(
            f"`threshold` must be left out for scores of {scores.shape[1]} classes, got {threshold!r}.",
            "audit the score of one class to repair decisions.",
        )
    if threshold is not None:
        check_threshold(threshold, below_one=True)
    if np.isin(scores, (0.0, 1.0)).all():
        raise DataError(
            "the scores to repair must not all be 0 or 1: decisions cannot be tilted.",
            "audit the scores behind them, and repair with threshold=.",
        )
    if (scores.min(axis=0) == scores.max(axis=0)).all():
        raise DataError("the scores to repair must vary, got a constant model.", "there is nothing to repair.")
