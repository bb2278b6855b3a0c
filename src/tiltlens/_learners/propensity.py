"""The group-membership model P(audited | x): chosen and doubly cross-fitted, or taken as known.

Each evaluation fold has two models, fitted on disjoint halves of the other folds. With five folds, models on the ten
pairs of folds provide three such pairings.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit, logit

from tiltlens._estimators.crossfit import Pairing, clipped_share, given_pairing, pairing
from tiltlens._estimators.feature_gap import factorize_ints
from tiltlens._estimators.influence import Booleans, Integers, Rows, sums_by
from tiltlens._estimators.outputs import shares_below
from tiltlens._learners.candidates import (
    Candidate,
    FittedModel,
    Sample,
    Trial,
    candidates,
    choose_candidate,
    every_log_odds,
    fit_candidate,
    trial,
)
from tiltlens._learners.design import Block, Encoding, Table, code_columns, column_owners, encoded_rows, encoding
from tiltlens._limits import CLIP, FEW_COLUMNS, MODEL_CHUNK, MULTIPLIED
from tiltlens._rows.features import DesignColumn
from tiltlens._rows.predictions import UserModel
from tiltlens._sources.tables import NativeTable
from tiltlens._threads import each, in_threads, stage, steps_in_threads
from tiltlens.errors import DataError, SupportError, wrap_errors
from tiltlens.paper.checks import Floats

SEVERAL_PAIRINGS = 20_000  # rows up to which three pairings are averaged
FITTED_ROWS = 15_000  # of each fold, at most, that a model is fitted on
TRIED_PARTS = 2  # parts that try the candidates if rows or columns are many
Part = tuple[int, ...]  # the folds a model is fitted on


@dataclass(frozen=True, slots=True)
class PartFit:
    """One part of the data: its folds, the number of rows for fitting, and the trial of the candidates, if any."""

    folds: Part
    rows: int
    trial: Trial | None


@dataclass(frozen=True, slots=True, eq=False)
class Propensity:
    """The log-ratio ℓ = log P0/P1 of each row, from models that have not seen the row."""

    fold: Integers  # the fold in which each row is evaluated
    # The log-ratios of two models for each row, once or three times; `halves` are the same before normalisation by the
    # reference group, (2, n) each, so that swapping the groups changes only their signs
    pairings: tuple[Pairing, ...]
    log_odds: Floats  # log P(audited|x)/P(reference|x) of one model fitted on all rows: the paper's plug-in
    name: str  # the candidate that was fitted on every part, or the estimator given
    parts: tuple[PartFit, ...]  # what it was fitted on, and `part_log_odds` its log-odds on all rows, (parts, n)
    part_log_odds: Floats
    plan: tuple[Integers, ...]  # for each pairing and each fold the indices in `parts` of its two models
    clipped: float  # the larger of the groups' shares of rows with |ℓ| ≥ 4
    auc: float  # how often ℓ ranks an audited row before a reference row
    is_known: bool
    halves: tuple[Floats, ...]

    @property
    def log_ratio(self) -> Floats:
        """Return each row's mean cross-fitted ℓ."""
        if self.is_known:
            return self.pairings[0].a
        middles = [0.5 * (pair.a + pair.b) for pair in self.pairings]
        return sum(middles[1:], start=middles[0]) / len(middles)


def row_folds(rows: Rows, folds: int = 5, seed: int = 0) -> Integers:
    """Return each row's fold, by row index and seed: equally many rows, or clusters, of each group in every fold."""
    return group_folds(np.where(rows.audited, 0, 1), rows.clusters, folds, seed)


def group_folds(
    groups: Integers, clusters: Integers | None, folds: int = 5, seed: int = 0, strata: Integers | None = None
) -> Integers:
    """Return the same for the codes of any number of groups; and of `strata` within them, as far as possible."""
    unit = np.arange(groups.size) if clusters is None else _by_appearance(clusters)
    has = [np.bincount(unit, groups == code) > 0 for code in range(int(groups.max()) + 1)]
    smallest = min(int(is_group.sum()) for is_group in has)
    if smallest < 2 * folds:
        what = "rows" if clusters is None else "clusters"
        raise DataError(
            f"The smallest group has {smallest} {what}, but {folds} folds need {2 * folds}.",
            "add rows of the smallest group, or pass folds=None (--folds 0) for values without intervals.",
        )
    generator = np.random.default_rng(seed)
    # by which groups, or strata, a cluster is of
    codes = groups if strata is None else np.unique(strata, return_inverse=True)[1]
    has = has if strata is None else [np.bincount(unit, codes == code) > 0 for code in range(int(codes.max()) + 1)]
    kinds = codes if clusters is None else np.unique(np.array(has).T, axis=0, return_inverse=True)[1].ravel()
    kinds = _by_appearance(kinds)  # independent of roles and names: swapping the groups does not change the folds
    fold = np.empty(kinds.size, dtype=np.intp)
    for kind in range(int(kinds.max()) + 1):
        members = np.flatnonzero(kinds == kind)
        # Equally many of each kind in every fold: a fold must not lack a group.
        fold[members] = generator.permutation(np.arange(members.size) % folds)
    return fold[unit]


def _by_appearance(codes: DesignColumn) -> Integers:
    """Return the codes as 0, 1, … in the order in which they first appear."""
    values, index = factorize_ints(codes)
    first = np.empty(len(values), dtype=np.intp)
    first[index[::-1]] = np.arange(len(index))[::-1]  # the last write wins
    return np.asarray(np.argsort(np.argsort(first)).take(index))


def in_folds(fold: Integers, some: Sequence[int] | Integers) -> Booleans:
    """Return whether each row is in one of some folds, which are looked up faster than they are searched for."""
    return np.isin(np.arange(int(fold.max()) + 1), some).take(fold)


def fold_pairings(folds: int, several: bool) -> list[list[tuple[Part, Part]]]:
    """Return, for each pairing and each evaluation fold, two disjoint halves of the other folds."""
    # Halves rotate with the fold, so that each pair of folds is fitted once and serves three folds.
    rotated = [[(fold + step) % folds for step in range(1, folds)] for fold in range(folds)]
    orders = [list(range(folds - 1))]
    if several and folds == 5:
        orders += [[0, 2, 1, 3], [0, 3, 1, 2]]
    half = (folds - 1) // 2
    return [[(_part(others, order[:half]), _part(others, order[half:])) for others in rotated] for order in orders]


def served_folds(plan: Sequence[Integers], part: int) -> Integers:
    """Return the folds that are evaluated with the model of a part, by either half of any pairing."""
    return np.flatnonzero(np.any([(half == part).any(axis=1) for half in plan], axis=0))


def _part(others: list[int], chosen: list[int]) -> Part:
    return tuple(sorted(others[index] for index in chosen))


def given_membership(rows: Rows, log_odds: Floats, auc: float) -> Propensity:
    """Return membership from given log-odds and the area under their curve, taken as known."""
    pair = given_pairing(rows, log_odds - prior_log_odds(rows))
    # A given column is a single fit, so both halves are the same (section 6, why two models).
    nothing, halves = np.empty((0, 0)), (np.array([pair.a, pair.b]),)
    return Propensity(pair.fold, (pair,), log_odds, "known", (), nothing, (), 0.0, check_overlap(auc), True, halves)


def prior_log_odds(rows: Rows) -> float:
    """Return logit(q) = log Σ w[S=0] − log Σ w[S=1]."""
    # (19): ℓ = logit m − logit q. With weights, as the model is fitted with them.
    return float(np.log(rows.weight0) - np.log(rows.weight1))


def choose_membership(
    rows: Rows,
    table: Table,
    folds: int = 5,
    seed: int = 0,
    offered: Sequence[Candidate] | None = None,
    blocks: Sequence[Block] = (),
) -> Propensity:
    """Return cross-fitted membership by the candidate with the least bias.

    Each training part (a few of them where rows are many) tries the candidates on its own rows; their mean decides
    for all parts. `blocks` are additional columns of the features.
    """
    fold = row_folds(rows, folds, seed)
    plan = fold_pairings(folds, rows.audited.size <= SEVERAL_PAIRINGS)
    index = _fitted_rows(fold, folds, seed)
    encoder = encoding(table, encoded_rows(rows.audited.size, seed)).widened(blocks)
    sample, at = encode_sample(rows, table, encoder, index), fold[index]
    parts = _parts(plan)
    everyone = tuple(range(folds))
    is_wide = len(encoder.kinds) > FEW_COLUMNS
    tried = parts[:TRIED_PARTS] if is_wide or rows.audited.size > SEVERAL_PAIRINGS else parts
    offered = offered or candidates(is_wide=len(table) > MULTIPLIED, has_blocks=bool(blocks))

    def take_part(part: Part) -> Sample:
        return sample if part == everyone else sample.rows(in_folds(at, part))

    with stage(0.0, 0.6):
        trials = steps_in_threads(lambda part: trial(take_part(part), offered, seed), tried, fold.size)
    candidate = choose_candidate(trials, offered)
    with stage(0.6, 0.9):
        fit = partial(fit_candidate, candidate, seed=seed)
        whole, *models = steps_in_threads(lambda part: fit(take_part(part)), (everyone, *parts), fold.size)
    log_odds = _evaluate([*models, whole], encoder, table, fold.size)
    untried: list[Trial | None] = [None] * (len(parts) - len(trials))
    sizes = [int(in_folds(at, part).sum()) for part in parts]
    fits = [PartFit(*record) for record in zip(parts, sizes, [*trials, *untried], strict=True)]
    return _assemble(rows, fold, _index_parts(plan, parts), log_odds, candidate.name, tuple(fits))


def _parts(plan: list[list[tuple[Part, Part]]]) -> list[Part]:
    return sorted({half for pairs in plan for halves in pairs for half in halves})


def _fitted_rows(fold: Integers, folds: int, seed: int) -> Integers:
    """Return the rows that models are fitted on: all, or a seeded sample of each fold where there are many."""
    generator = np.random.default_rng(seed)
    chosen = [np.flatnonzero(fold == f) for f in range(folds)]
    # Beyond this many rows the error of a fit no longer shrinks; (28) measures it.
    chosen = [m if m.size <= FITTED_ROWS else generator.choice(m, FITTED_ROWS, replace=False) for m in chosen]
    return np.sort(np.concatenate(chosen))


def encode_sample(rows: Rows, table: Table, encoder: Encoding, index: Integers) -> Sample:
    """Return some rows, ready for candidates to be fitted on."""
    return Sample(
        encoder.large_matrix(table, index),
        np.arange(index.size),
        encoder.kinds,
        column_owners(table, encoder),
        encoder.raw(table, index),
        code_columns(table),
        rows.audited[index],
        rows.weights[index],
        None if rows.clusters is None else rows.clusters[index],
    )


def _evaluate(models: list[FittedModel], encoder: Encoding, table: Table, size: int) -> Floats:
    """Return every model's log-odds on every row, (models, n), a chunk of rows at a time."""
    log_odds = np.empty((len(models), size))

    def evaluate(start: int) -> None:
        chunk = slice(start, min(start + MODEL_CHUNK, size))
        log_odds[:, chunk] = every_log_odds(models, encoder, table, chunk)

    in_threads(evaluate, range(0, size, MODEL_CHUNK), size)
    return log_odds


def _index_parts(plan: list[list[tuple[Part, Part]]], parts: list[Part]) -> tuple[Integers, ...]:
    """Return the plan with each part replaced by its index in `parts`, (folds, 2) for each pairing."""
    return tuple(np.array([[parts.index(a), parts.index(b)] for a, b in pairs]) for pairs in plan)


def _assemble(
    rows: Rows,
    fold: Integers,
    plan: tuple[Integers, ...],
    log_odds: Floats,
    name: str,
    parts: tuple[PartFit, ...],
) -> Propensity:
    """Return the membership from the log-odds of each part's model and, last, of the model of all rows."""
    prior, everyone = prior_log_odds(rows), np.arange(fold.size)
    pairs, clipped, middle = [], 0.0, np.zeros(fold.size)
    halves = tuple(log_odds[half[fold].T, everyone] - prior for half in plan)
    for a, b in halves:
        # Shares of rows where ℓ is clipped at ±4, which changes the estimand (section 6).
        clipped = max(clipped, clipped_share(rows, a), clipped_share(rows, b))
        middle += a + b
        pairs.append(pairing(rows, a, b, fold, _fold_cycle(parts, plan, log_odds, prior)))
    auc = check_overlap(area_under_curve(rows, middle))
    halves = tuple(np.clip(both, -CLIP, CLIP) for both in halves)
    return Propensity(fold, tuple(pairs), log_odds[-1], name, parts, log_odds[:-1], plan, clipped, auc, False, halves)


def _fold_cycle(
    parts: tuple[PartFit, ...], plan: tuple[Integers, ...], log_odds: Floats, prior: float
) -> Floats | None:
    """Return the log-ratios of the parts, each of which shares a fold with the next.

    None with several pairings, whose deviations measure the same.
    """
    folds = [part.folds for part in parts]
    # The ring of section 6: models of folds {f, f + 1}; neighbours share one fold, the next two none.
    cycle = [folds.index(_part([f, (f + 1) % 5], [0, 1])) for f in range(5)] if len(folds) == 5 else []
    return log_odds[cycle] - prior if len(plan) == 1 and cycle else None


def area_under_curve(rows: Rows, log_odds: Floats) -> float:
    """Return P(log-odds of an audited row > of a reference row), ties counted half."""
    _, code = np.unique(log_odds, return_inverse=True)
    audited, reference = sums_by(code, rows.audited_share), sums_by(code, rows.reference_share)
    return float(audited @ shares_below(reference))


def check_overlap(auc: float) -> float:
    """Return the area under the curve; raise where the features separate the groups completely."""
    # P0 ≪ P1 fails: no density ratio exists (section 10).
    if auc >= 1.0 - 1e-6:
        raise SupportError(
            "The features separate the two groups completely, so no reference row is comparable to an audited row.",
            "leave out the features that together identify the group, such as a copy of it.",
        )
    return auc


def estimator_membership(
    rows: Rows, estimator: object, inputs: NativeTable, folds: int = 5, seed: int = 0
) -> Propensity:
    """Return cross-fitted membership of a scikit-learn classifier; `inputs` is whatever table it fits on."""
    fold = row_folds(rows, folds, seed)
    plan = fold_pairings(folds, rows.audited.size <= SEVERAL_PAIRINGS)
    parts = _parts(plan)
    trains = [in_folds(fold, part) for part in parts] + [np.ones(fold.size, dtype=np.bool_)]
    log_odds = np.array([fit_log_odds(rows, estimator, inputs, train) for train in each(trains)])
    fits = [PartFit(part, int(train.sum()), None) for part, train in zip(parts, trains, strict=False)]
    name = type(estimator).__name__
    return _assemble(rows, fold, _index_parts(plan, parts), log_odds, name, tuple(fits))


def wrap_estimator_errors(estimator: object) -> AbstractContextManager[None]:
    """Raise errors of a user's classifier as an error that names it."""
    problem = f"`propensity` ({type(estimator).__name__}) cannot be fitted to the features"
    return wrap_errors(problem, "pass a pipeline that encodes them, or leave `propensity` out.")


def fit_log_odds(rows: Rows, estimator: object, inputs: NativeTable, train: Booleans) -> Floats:
    """Return the log-odds of being audited on all rows, from a clone of `estimator` fitted on the rows `train`."""
    from sklearn.utils import _safe_indexing

    training = _safe_indexing(inputs, np.flatnonzero(train))
    return estimator_log_odds(fit_clone(estimator, training, rows.audited[train], rows.weights[train]), inputs)


def fit_clone(estimator: object, inputs: NativeTable, labels: Booleans, weights: Floats) -> UserModel:
    """Return a clone of `estimator` fitted on all given rows, with weights if they differ."""
    from sklearn.base import clone

    keywords = {} if (weights == weights[0]).all() else {"sample_weight": weights / weights.mean()}
    return clone(estimator).fit(inputs, labels, **keywords)


def estimator_log_odds(model: UserModel, inputs: NativeTable) -> Floats:
    """Return a fitted classifier's log-odds of being audited."""
    probability = np.asarray(model.predict_proba(inputs), dtype=np.float64)[:, 1]
    if hasattr(model, "decision_function"):
        margin = np.asarray(model.decision_function(inputs), dtype=np.float64)
        if np.allclose(expit(margin), probability, atol=1e-6):  # a margin is not always log-odds
            return margin
    return np.asarray(logit(np.clip(probability, 1e-9, 1 - 1e-9)))
