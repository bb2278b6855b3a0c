"""What is fitted on the sample: the membership model, and the regressions on the features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.analysis.evidence import NO_MODEL, Evidence, FeatureCells, Periods, RowKeys, TiltedMeans
from tiltlens.estimators.cells import joint_codes
from tiltlens.estimators.feature_gap import cell_sums_of, hidden_share
from tiltlens.estimators.influence import Integers, Population, Rows, sums_by
from tiltlens.estimators.outputs import Scores
from tiltlens.estimators.ridges import FoldRidges
from tiltlens.estimators.sets import CellSets, RidgeSets, evenly
from tiltlens.learners.basis import basis_grams, basis_of, pooled_features, widened_basis
from tiltlens.learners.blocks import BasisFit, Days, screen_of, widened
from tiltlens.learners.design import Block, Table, normal_scores
from tiltlens.learners.paper_fit import logistic_log_odds
from tiltlens.learners.propensity import (
    Membership,
    area_under_curve,
    check_overlap,
    chosen_membership,
    estimator_membership,
    fitted_log_odds,
    given_membership,
    prior_log_odds,
    row_folds,
    wrap_estimator_errors,
)
from tiltlens.learners.regressions import Expectations, best_expectations, expectations
from tiltlens.limits import (
    CELL_SET_ROWS,
    FEWEST_SHOWN,
    FOLDS,
    GRAM_WORK,
    HIDDEN,
    MODEL_CHUNK,
    MOST_CELL_FEATURES,
    REPEATED_ROWS,
    SHOWN_ROWS,
    WIDE_FEATURES,
)
from tiltlens.paper.checks import Floats
from tiltlens.paper.moments import GroupMoments
from tiltlens.progress import stage
from tiltlens.rows.compared_rows import ComparedRows
from tiltlens.rows.features import Feature, check_exempt, design_columns, flag_separating
from tiltlens.rows.rescoring import AskedModel
from tiltlens.rows.sample import group_quota
from tiltlens.rows.sums import GroupSums
from tiltlens.sources.arrays import chunks, moments_by_group
from tiltlens.sources.hashing import Hashes
from tiltlens.threads import in_threads

SETS, MEMBERSHIP = 0.2, 0.7  # of the time of a comparison's fits, about


Blocks = tuple[Block, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FitSettings:
    """How models are fitted: `folds` is None for plug-in values."""

    folds: int | None
    seed: int
    membership: Any  # an estimator to cross-fit, else None
    native: Any  # the features as the user gave them, for that estimator; None where they were never together
    model: AskedModel | None  # that makes the scores from the features alone; None where these were given
    exempt: tuple[str, ...] = ()
    criterion: str | None = None


def evidence_of(rows: ComparedRows, sums: GroupSums, label: str, settings: FitSettings) -> Evidence:
    """Return the evidence on one audited group and the reference."""
    code = rows.labels.index(label)
    index = np.flatnonzero((rows.group == code) | (rows.group == 0))
    is_all = index.size == rows.group.size
    clusters = None if rows.clusters is None else rows.clusters[index]
    sample = Rows.of(rows.group[index] == code, rows.weights[index], clusters)
    everyone = sample if rows.is_complete else sample.standing_for(_population(sums, code))
    features = tuple(rows.features if is_all else in_threads(lambda one: one.rows(index), rows.features, index.size))
    features = tuple(flag_separating(feature, sample.audited) for feature in features)
    check_exempt(features, settings.exempt)
    omega = 0.5 * (sample.audited_share + sample.reference_share)
    ordered = sorted(features, key=lambda one: (rows.places[one.name], one.name))
    table = normal_scores(design_columns(ordered), omega)
    channel = rows.channel[index]
    scores = _scores(channel, sums.moments[code], sums.moments[0])
    outcome, favourable = _measured(rows, sums, index, code, scores)
    cells = {one: FeatureCells(codes[index], sums.cells[one].of(code, 0)) for one, codes in rows.codes.items()}
    cells = {one.name: cells[one.name] for one in features if one.name in cells and _has_cells(one, cells[one.name])}
    values = {one: _all_values(one, column, cells) for one, column in table.items()}
    shown = _shown_rows(sample, len(table))
    with stage(0.0, SETS, "regressions on sets of features"):
        days = {one.name: one.values for one in features if one.kind == "date" and one.values is not None}
        sets, fit = _sets(sample, outcome.column, cells, values, days, shown, settings)
    blocks = () if fit is None else fit.basis.encoder.blocks
    with stage(SETS, MEMBERSHIP, "membership model"):
        membership, log_odds, name = _membership(rows, index, sample, everyone, features, table, blocks, settings)
    with stage(MEMBERSHIP, 1.0, "regressions"):
        expected = _expectations(sample, table, values, outcome.column, membership, blocks, settings)
        if expected is not None and fit is not None:
            residuals = partial(_part_residuals, fit, sample.audited.astype(np.float64), outcome.column)
            expected = best_expectations(sample, outcome.column, membership, expected, residuals, fit.hidden)
    return Evidence(
        audited=label,
        reference=rows.labels[0],
        comparisons=len(rows.labels) - 1,
        rows=sample,
        everyone=everyone,
        scores=scores,
        outcome=outcome,
        favourable=favourable,
        channel=channel,
        features=features,
        cells=cells,
        table=table,
        row_numbers=rows.row_numbers[index],
        membership=membership,
        log_odds=log_odds,
        membership_name=name,
        moments=_moments(rows, sums, code, sample, log_odds, channel),
        tilted=None if rows.log_odds is None else _tilted(sums),
        expectations=expected,
        sets=sets,
        shown=shown,
        model=None if settings.model is None else settings.model.rows(index),
        is_sampled=not rows.is_complete,
        copies=0 if rows.clusters is not None else rows.copies,
        truth=None if rows.truth is None else rows.truth[index],
        periods=_periods(rows, sums, code, index),
        criterion=settings.criterion,
        outcomes=None if sums.truth is None else sums.truth.of(code, 0),
        row_keys=_row_keys(rows, index),
        people=(rows.people[code], rows.people[0]),
        largest_weight=rows.largest_weight,
        soft=None if rows.soft is None else rows.soft.of(index, code),
        standing=None if rows.standing is None else rows.standing[index],
        unit=rows.unit,
        wants_less=rows.unit.is_amount and rows.favourable == 0,
        exempt=settings.exempt,
    )


def _periods(rows: ComparedRows, sums: GroupSums, code: int, index: Integers) -> Periods | None:
    if rows.periods is None or rows.period is None or sums.periods is None:
        return None
    return Periods(rows.periods, rows.period[index], sums.periods.of(code, 0))


def _row_keys(rows: ComparedRows, index: Integers) -> RowKeys:
    numbers = rows.row_numbers[index] if rows.is_numbered else None
    if rows.clusters is None:
        return RowKeys(rows.keys[index], numbers)
    if rows.has_clusters:
        return RowKeys(rows.clusters[index], None, are_ids=True)
    return RowKeys(_summed_keys(rows.keys, rows.clusters)[index], numbers)


def _summed_keys(keys: Hashes, clusters: Hashes) -> Hashes:
    """Return what each row with copies in several groups holds beside its scores: the sum over its copies."""
    _, own = np.unique(clusters, return_inverse=True)
    totals = np.zeros(int(own.max()) + 1, dtype=np.uint64)
    np.add.at(totals, own, keys)
    return np.asarray(totals[own])


def _has_cells(feature: Feature, cells: FeatureCells) -> bool:
    """Return whether a feature's values are compared one by one: numbers only where nearly all of them repeat."""
    return not feature.is_binned or hidden_share(cells.sums, REPEATED_ROWS) <= HIDDEN


def _all_values(name: str, column: NDArray[Any], cells: dict[str, FeatureCells]) -> NDArray[Any]:
    """Return a feature's numbers, or the codes of all its values."""
    return cells[name].codes if name in cells and column.dtype.kind != "f" else column


def _population(sums: GroupSums, code: int) -> Population:
    audited, reference = sums.moments[code], sums.moments[0]
    squares = [float(sums.square[one]) / sums.moments[one].weight ** 2 for one in (code, 0)]
    return Population(audited.rows, reference.rows, audited.weight, reference.weight, squares[0], squares[1])


def _scores(channel: Floats, audited: GroupMoments, reference: GroupMoments) -> Scores:
    """Return the sample's scores with the means and covariances of all rows; W_0 is what W_1, W_2, … leave."""
    parts = (audited.mean[1:], reference.mean[1:], audited.covariance[1:, 1:], reference.covariance[1:, 1:])
    if channel.ndim == 1:
        return Scores(channel[:, None], *parts)
    others = channel.shape[1] - 1
    mix, level = np.hstack([-np.ones((others, 1)), np.eye(others)]), np.eye(1 + others)[0]
    means = [level + parts[k] @ mix for k in (0, 1)]
    return Scores(channel, means[0], means[1], mix.T @ parts[2] @ mix, mix.T @ parts[3] @ mix)


def _measured(rows: ComparedRows, sums: GroupSums, index: Integers, code: int, scores: Scores) -> tuple[Scores, Scores]:
    """Return the score whose gap is measured, and that of the favourable outcome; of amounts both are the amount."""
    if not rows.unit.is_amount:
        return scores.outcome(1 if rows.channel.ndim == 1 else rows.favourable), scores.outcome(rows.favourable)
    audited, reference = sums.amounts[code], sums.amounts[0]
    parts = (audited.mean, reference.mean, audited.covariance, reference.covariance)
    amount = Scores(rows.outcome[index][:, None], *parts, is_probability=False)
    return amount, amount


def _moments(
    rows: ComparedRows, sums: GroupSums, code: int, sample: Rows, log_odds: Floats, channel: Floats
) -> tuple[GroupMoments, GroupMoments]:
    """Return the moments of (log-odds, scores): of all rows where the log-odds are given, else of the sample's."""
    if rows.log_odds is not None:
        return sums.moments[code], sums.moments[0]
    weights = None if (sample.weights == 1).all() else sample.weights
    reference, audited = moments_by_group(log_odds, channel, sample.audited, 2, weights)
    return audited, reference


def _tilted(sums: GroupSums) -> TiltedMeans:
    mass, *others = sums.exponential[0]
    return TiltedMeans(sums.shift + math.log(mass / sums.moments[0].weight), np.array(others) / mass)


def _membership(
    rows: ComparedRows,
    index: Integers,
    sample: Rows,
    everyone: Rows,
    features: Any,
    table: Table,
    blocks: Blocks,
    settings: FitSettings,
) -> tuple[Membership | None, Floats, str]:
    """Return the membership of these rows, cross-fitted or given (None for plug-in values), log-odds and a name.

    Log-odds have the prior of all rows, whatever share of each group the sample has.
    """
    if rows.log_odds is not None:
        log_odds = rows.log_odds[index]
        given = given_membership(
            sample, log_odds - prior_log_odds(everyone) + prior_log_odds(sample), area_under_curve(sample, log_odds)
        )
        return None if settings.folds is None else given, log_odds, "given"
    membership, log_odds, name = _fitted(rows, index, sample, features, table, blocks, settings)
    return membership, log_odds - prior_log_odds(sample) + prior_log_odds(everyone), name


def _fitted(
    rows: ComparedRows,
    index: Integers,
    sample: Rows,
    features: Any,
    table: Table,
    blocks: Blocks,
    settings: FitSettings,
) -> tuple[Membership | None, Floats, str]:
    if not features:
        return None, sample.constant(prior_log_odds(sample)), NO_MODEL
    if settings.membership is not None:
        return _of_estimator(rows, index, sample, settings)
    if settings.folds is None:
        log_odds = logistic_log_odds(features, sample.audited, sample.weights)
        check_overlap(area_under_curve(sample, log_odds))
        return None, log_odds, "logistic"
    chosen = chosen_membership(sample, table, settings.folds, settings.seed, blocks=blocks)
    return chosen, chosen.log_odds, chosen.name


def _of_estimator(
    rows: ComparedRows, index: Integers, sample: Rows, settings: FitSettings
) -> tuple[Membership | None, Floats, str]:
    from sklearn.utils import _safe_indexing

    estimator = settings.membership
    if settings.native is None:
        inputs: Any = rows.inputs[pl.Series(index, dtype=pl.UInt32)]
    else:
        inputs = _safe_indexing(settings.native, rows.row_numbers[index])
    with wrap_estimator_errors(estimator):
        if settings.folds is None:
            everyone = np.ones(index.size, dtype=np.bool_)
            return None, fitted_log_odds(sample, estimator, inputs, everyone), type(estimator).__name__
        fitted = estimator_membership(sample, estimator, inputs, settings.folds, settings.seed)
        return fitted, fitted.log_odds, type(estimator).__name__


def _expectations(
    sample: Rows,
    table: Table,
    values: Table,
    outcome: Floats,
    membership: Membership | None,
    blocks: Blocks,
    settings: FitSettings,
) -> Expectations | None:
    if settings.folds is None or not table:
        return None
    return expectations(sample, table, values, outcome, membership, settings.folds, settings.seed, blocks)


def _shown_rows(sample: Rows, features: int) -> Integers:
    """Return the places of all rows, or of evenly many of each group, or of whole clusters.

    The order of rows, and the numbers of clusters, tell nothing about them.
    """
    places = [np.flatnonzero(group) for group in (sample.audited, ~sample.audited)]
    most = max(SHOWN_ROWS // (1 + features // WIDE_FEATURES), FEWEST_SHOWN)
    if sample.clusters is not None:
        last = int(np.searchsorted(np.cumsum(np.bincount(sample.clusters)), most, side="right"))
        return np.flatnonzero(sample.clusters <= last)
    quota = group_quota({str(group): one.size for group, one in enumerate(places)}, most)
    return np.sort(np.concatenate([evenly(one, quota) for one in places]))


def _sets(
    sample: Rows,
    outcome: Floats,
    cells: dict[str, FeatureCells],
    table: Table,
    days: Days,
    shown: Integers,
    settings: FitSettings,
) -> tuple[CellSets | RidgeSets | None, BasisFit | None]:
    """Return the regressions on sets of the table's features, and the basis that these are on.

    They are by joint values where these are few, else by ridges.
    """
    if not table:
        return None, None
    if len(table) <= MOST_CELL_FEATURES and all(name in cells for name in table):
        key, levels = joint_codes(np.column_stack([cells[name].codes for name in table]))
        if CELL_SET_ROWS * len(levels) <= 1.0 / max(sample.square0, sample.square1):
            sums = cell_sums_of(sample, outcome, key, len(levels))
            at = _standing_for(sample, shown, np.arange(len(outcome)))
            return CellSets(sums, levels, key[shown], outcome[shown], at, settings.folds is not None), None
    audited = sample.audited.astype(np.float64)
    omega = 0.5 * (sample.audited_share + sample.reference_share)
    fold = row_folds(sample, FOLDS, settings.seed)
    first = basis_of(table, audited, outcome, omega, settings.seed)

    screen = screen_of(table, days, (audited, outcome), omega, fold, settings.seed)

    def fitted(blocks: Sequence[Block]) -> BasisFit:
        basis = widened_basis(first, table, blocks, settings.seed) if blocks else first
        index = _gram_rows(len(outcome), len(basis.owners) + 3)
        grams = basis_grams(basis, table, audited, outcome, omega, fold, index)
        shares = omega[index] / omega[index].sum()
        shares = shares if sample.clusters is None else sums_by(sample.clusters[index], shares)
        return BasisFit(screen, basis, FoldRidges(grams, basis.owners, basis.blocks, 1.0 / float(shares @ shares)))

    fit, hidden = widened((audited, outcome), omega, fitted)
    at = _standing_for(sample, shown, _gram_rows(len(outcome), len(fit.basis.owners) + 3))
    pooled = tuple(pooled_features(table, fit.basis, omega))
    z = fit.basis.rows(table, shown, audited, outcome)
    return RidgeSets(fit.ridges, len(table), z, fold[shown], at, pooled, hidden), fit


def _part_residuals(fit: BasisFit, audited: Floats, outcome: Floats) -> Floats:
    """Return S̄ − e and W − m of every row by the regressions of each part on the basis, (2, parts, n)."""
    rows = (fit.basis.rows(fit.screen.table, chunk, audited, outcome) for chunk in chunks(len(outcome), MODEL_CHUNK))
    return np.concatenate([fit.ridges.part_residuals(z) for z in rows], axis=2)


def _gram_rows(rows: int, columns: int) -> Integers:
    """Return the rows that Gram matrices of so many columns are made from: all, or some where that is too much work."""
    return np.arange(0, rows, max(math.ceil(rows * columns**2 / GRAM_WORK), 1))


def _standing_for(sample: Rows, shown: Integers, index: Integers) -> Rows:
    """Return some rows of the sample that stand for those which a regression used."""
    return sample.taken(shown).standing_for(sample.taken(index).as_population)
