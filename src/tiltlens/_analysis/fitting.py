"""Evidence on two groups: their rows and sums, the propensity model, and the regressions on the features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import NO_MODEL, Evidence, FeatureCells, Nuisances, Question, TiltedMeans
from tiltlens._estimators.feature_gap import cell_sums_of, hidden_share, joint_codes
from tiltlens._estimators.influence import Integers, Population, Rows, sums_by
from tiltlens._estimators.outputs import Scores
from tiltlens._estimators.ridges import FoldRidges
from tiltlens._estimators.sets import CellSets, RidgeSets, TargetErrors, evenly
from tiltlens._learners import propensity as membership
from tiltlens._learners.blocks import BasisFit, screen_of, widened
from tiltlens._learners.candidates import logistic_log_odds
from tiltlens._learners.design import Block, Table, normal_scores
from tiltlens._learners.linear_models import Basis, basis_grams, basis_of, pooled_features, widen_basis
from tiltlens._learners.propensity import Propensity, prior_log_odds, row_folds
from tiltlens._learners.regressions import Expectations, best_expectations, expectations
from tiltlens._limits import FOLDS, HIDDEN
from tiltlens._rows.compared_rows import EncodedSample, GroupSums
from tiltlens._rows.features import DesignColumn, check_exempt, design_columns, flag_separating
from tiltlens._rows.groups import NO_GROUP
from tiltlens._rows.predictions import AskedModel
from tiltlens._rows.sampled_rows import SampledRows
from tiltlens._rows.survey import group_quota
from tiltlens._sources.arrays import chunked_moments
from tiltlens._sources.tables import NativeTable
from tiltlens._threads import in_threads, stage
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import GroupMoments

REPEATED_ROWS = 10.0  # effective rows per distinct number below which a spline estimates better than a cell mean
INFLUENCE_ROWS = 20_000  # most rows with influences: a standard error is then accurate to one per cent
WIDE_FEATURES = 50  # the number of rows is divided by 1 + features // this, because sets grow with the features
FEWEST_INFLUENCE_ROWS = 5_000  # rows with influences: a standard error is then accurate to two per cent
FEWEST_CLUSTERS = 30  # of each group, whose rows have influences: a standard error is then accurate to 13 per cent
MOST_CELL_FEATURES = 10  # most features for cells of joint values: 2^10 sets
CELL_SET_ROWS = 5  # mean effective rows of the smaller group per cell of joint values, at least
GRAM_WORK = 4e10  # most multiplications for Gram matrices: rows × columns²


SETS, PROPENSITY = 0.2, 0.7  # approximate shares of the fitting time

Blocks = tuple[Block, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FitSettings:
    """How models are fitted: `folds` is None for plug-in values."""

    folds: int | None
    seed: int
    estimator: object  # the user's estimator of the propensity, to be cross-fitted; else None
    native: NativeTable  # the features as the user gave them, for that estimator; None if they were never in one table
    model: AskedModel | None  # the model that computes the scores from the features alone; None if scores were given


@dataclass(frozen=True, slots=True, eq=False)
class _FitData:
    """The data that models are fitted on."""

    # As in `Evidence`
    rows: SampledRows
    sample: Rows
    population: Rows
    score: Floats  # the score whose gap is measured
    # The features as models take them; and with the codes of all values in place of texts
    table: Table
    values: Table
    cells: dict[str, FeatureCells]  # all values of the features that are countable
    inputs: NativeTable  # the rows as the user's estimator takes them, where there is one
    settings: FitSettings


def gather_evidence(encoded: EncodedSample, sums: GroupSums, question: Question, settings: FitSettings) -> Evidence:
    """Return the evidence on one audited group and the reference."""
    pair = (question.audited, question.reference)
    # The reference has code 0 in the table, the audited group code 0 in a comparison.
    code, rows = encoded.rows.groups.index(question.audited), encoded.rows.of_groups(*pair)
    is_audited = rows.group == 0
    rows = replace(rows, features=tuple(flag_separating(feature, is_audited) for feature in rows.features))
    check_exempt(rows.features, question.exempt)
    scores = _scores(rows.scores, sums.moments[code], sums.moments[0])
    score, favourable = _measured_scores(rows, sums, code, scores)
    data = _fit_data(encoded, rows, score.column, sums, settings)
    nuisances = _fit_nuisances(data)
    return Evidence(
        question=question,
        rows=rows,
        sample=data.sample,
        population=data.population,
        scores=scores,
        score=score,
        favourable=favourable,
        table=data.table,
        cells=data.cells,
        nuisances=nuisances,
        model=None if settings.model is None else settings.model.rows(_index(encoded, rows)),
        moments=_moments(data, sums, code, nuisances.log_odds),
        tilted=None if rows.log_odds is None else _tilted_means(sums),
        sums_by={name: by_code.of(code, 0) for name, by_code in sums.by_column.items()},
    )


def _index(encoded: EncodedSample, rows: SampledRows) -> Integers:
    """Return the sample positions of the rows of the two compared groups."""
    return np.flatnonzero(encoded.rows.code_groups(rows.groups) != NO_GROUP)


def _fit_data(
    encoded: EncodedSample, rows: SampledRows, score: Floats, sums: GroupSums, settings: FitSettings
) -> _FitData:
    code = encoded.rows.groups.index(rows.groups[0])
    sample = Rows.of(rows.group == 0, rows.weights, rows.cluster)
    # Not in the order of columns or names: renaming a column must not change results.
    ordered = sorted(rows.features, key=lambda feature: (encoded.feature_order[feature.name], feature.name))
    # Ranks, with half of the weight in each group: results are invariant to monotone transforms.
    table = normal_scores(design_columns(ordered), sample.balanced_weights)
    every = {name: FeatureCells(codes, sums.cells[name].of(code, 0)) for name, codes in rows.value_codes.items()}
    cells = {
        feature.name: every[feature.name]
        for feature in rows.features
        if feature.name in every
        # A numeric feature gets one cell per value only if nearly all values repeat.
        and (not feature.is_binned or hidden_share(every[feature.name].sums, REPEATED_ROWS) <= HIDDEN)
    }
    return _FitData(
        rows=rows,
        sample=sample,
        population=sample if rows.facts.is_complete else sample.represent(_population(sums, code)),
        score=score,
        table=table,
        values={name: _all_values(name, column, cells) for name, column in table.items()},
        cells=cells,
        inputs=None if settings.estimator is None else _estimator_inputs(encoded, rows, settings.native),
        settings=settings,
    )


def _estimator_inputs(encoded: EncodedSample, rows: SampledRows, native: NativeTable) -> NativeTable:
    from sklearn.utils import _safe_indexing

    if native is None:
        return encoded.inputs[pl.Series(_index(encoded, rows), dtype=pl.UInt32)]
    return _safe_indexing(native, rows.row_number)


def _fit_nuisances(data: _FitData) -> Nuisances:
    """Fit the regressions on sets of features, the propensity model and the regressions of E[W|X], in this order."""
    influence_rows = _influence_rows(data.sample, len(data.table))
    with stage(0.0, SETS, "regressions on sets of features"):
        sets: CellSets | RidgeSets | None = _cell_sets(data, influence_rows)
        fit: BasisFit | None = None
        if sets is None and data.table:
            sets, fit = _ridge_sets(data, influence_rows)
    blocks = () if fit is None else fit.basis.encoder.blocks
    with stage(SETS, PROPENSITY, "group-membership model"):
        propensity, log_odds, name = _propensity(data, blocks)
    with stage(PROPENSITY, 1.0, "regressions"):
        expected = _fit_expectations(data, propensity, blocks, fit)
    return Nuisances(
        propensity=propensity,
        log_odds=log_odds,
        name=name,
        expectations=expected,
        sets=sets,
        basis=None if fit is None else fit.basis,
        influence_rows=influence_rows,
    )


def _all_values(name: str, column: DesignColumn, cells: dict[str, FeatureCells]) -> DesignColumn:
    """Return a feature's numbers, or the codes of all its values."""
    return cells[name].codes if name in cells and column.dtype.kind != "f" else column


def _population(sums: GroupSums, code: int) -> Population:
    audited, reference = sums.moments[code], sums.moments[0]
    return Population(
        audited.rows,
        reference.rows,
        audited.weight,
        reference.weight,
        square0=float(sums.square[code]) / audited.weight**2,
        square1=float(sums.square[0]) / reference.weight**2,
    )


def _scores(channel: Floats, audited: GroupMoments, reference: GroupMoments) -> Scores:
    """Return the sample's scores with the means and covariances of all rows, including those of W_0 for classes."""
    parts = (audited.mean[1:], reference.mean[1:], audited.covariance[1:, 1:], reference.covariance[1:, 1:])
    if channel.ndim == 1:
        return Scores(channel[:, None], *parts)
    others = channel.shape[1] - 1
    # W_0 = 1 − ΣW_y is linear in the others, and so are its moments.
    mix, level = np.hstack([-np.ones((others, 1)), np.eye(others)]), np.eye(1 + others)[0]
    return replace(Scores(channel[:, 1:], *parts).mix(mix, level), values=channel)


def _measured_scores(rows: SampledRows, sums: GroupSums, code: int, scores: Scores) -> tuple[Scores, Scores]:
    """Return the score whose gap is measured, and that of the favourable outcome; for amounts both are the amount."""
    if not rows.unit.is_amount:
        return scores.outcome(1 if rows.scores.ndim == 1 else rows.favourable), scores.outcome(rows.favourable)
    audited, reference = sums.amounts[code], sums.amounts[0]
    parts = (audited.mean, reference.mean, audited.covariance, reference.covariance)
    amount = Scores(rows.score[:, None], *parts, is_probability=False)
    return amount, amount


def _moments(data: _FitData, sums: GroupSums, code: int, log_odds: Floats) -> tuple[GroupMoments, GroupMoments]:
    """Return the moments of (log-odds, scores): of all rows where the log-odds are given, else of the sample's."""
    if data.rows.log_odds is not None:
        return sums.moments[code], sums.moments[0]
    weights = None if (data.sample.weights == 1).all() else data.sample.weights
    columns = [log_odds, *data.rows.free_scores]
    reference, audited = chunked_moments(columns, data.sample.audited, 2, weights)
    return audited, reference


def _tilted_means(sums: GroupSums) -> TiltedMeans:
    mass, *others = sums.exponential[0]
    return TiltedMeans(sums.shift + math.log(mass / sums.moments[0].weight), np.array(others) / mass)


def _propensity(data: _FitData, blocks: Blocks) -> tuple[Propensity | None, Floats, str]:
    """Return the propensity, cross-fitted or given (None for plug-in values), the log-odds and the model's name.

    The log-odds use the prior of all rows, not that of the sample.
    """
    sample, log_odds = data.sample, data.rows.log_odds
    # A sample may have other shares of the groups than the table; ℓ must not depend on them (19).
    shift = prior_log_odds(data.population)
    if log_odds is not None:
        area = membership.area_under_curve(sample, log_odds)
        given = membership.given_membership(sample, log_odds - shift + prior_log_odds(sample), area)
        return None if data.settings.folds is None else given, log_odds, "given"
    propensity, log_odds, name = _fit_propensity(data, blocks)
    return propensity, log_odds - prior_log_odds(sample) + shift, name


def _fit_propensity(data: _FitData, blocks: Blocks) -> tuple[Propensity | None, Floats, str]:
    sample, settings = data.sample, data.settings
    if not data.rows.features:
        return None, sample.constant(prior_log_odds(sample)), NO_MODEL
    if settings.estimator is not None:
        return _fit_estimator(data)
    if settings.folds is None:
        log_odds = logistic_log_odds(data.rows.features, sample.audited, sample.weights)
        membership.check_overlap(membership.area_under_curve(sample, log_odds))
        return None, log_odds, "logistic"
    chosen = membership.choose_membership(sample, data.table, settings.folds, settings.seed, blocks=blocks)
    return chosen, chosen.log_odds, chosen.name


def _fit_estimator(data: _FitData) -> tuple[Propensity | None, Floats, str]:
    sample, settings = data.sample, data.settings
    estimator, name = settings.estimator, type(settings.estimator).__name__
    with membership.wrap_estimator_errors(estimator):
        if settings.folds is None:
            everybody = np.ones(sample.audited.size, dtype=np.bool_)
            return None, membership.fit_log_odds(sample, estimator, data.inputs, everybody), name
        fitted = membership.estimator_membership(sample, estimator, data.inputs, settings.folds, settings.seed)
        return fitted, fitted.log_odds, name


def _fit_expectations(
    data: _FitData, propensity: Propensity | None, blocks: Blocks, fit: BasisFit | None
) -> Expectations | None:
    """Return the cross-fitted E[W|X]; None for plug-in values, and without features."""
    sample, settings = data.sample, data.settings
    if settings.folds is None or not data.table:
        return None
    expected = expectations(
        sample, data.table, data.values, data.score, propensity, folds=settings.folds, seed=settings.seed, blocks=blocks
    )
    return expected if fit is None else best_expectations(sample, data.score, propensity, expected, fit)


def _influence_rows(sample: Rows, features: int) -> Integers:
    """Return the positions of the rows with influences: all, evenly spaced ones of each group, or whole clusters.

    Of each group, `FEWEST_CLUSTERS` clusters are kept however large they are, as one cluster shows no error at all. The
    order of rows and the numbering of clusters do not depend on their contents.
    """
    groups = [np.flatnonzero(group) for group in (sample.audited, ~sample.audited)]
    # An influence is a matrix of rows × sets, and sets grow with the features.
    most = max(INFLUENCE_ROWS // (1 + features // WIDE_FEATURES), FEWEST_INFLUENCE_ROWS)
    if sample.clusters is not None:
        first = np.arange(1 + np.searchsorted(np.cumsum(np.bincount(sample.clusters)), most, side="right"))
        of_groups = [np.unique(sample.clusters[members])[:FEWEST_CLUSTERS] for members in groups]
        return np.flatnonzero(np.isin(sample.clusters, np.concatenate([first, *of_groups])))
    # Balanced, since the smaller group makes most of every variance.
    quota = group_quota({str(group): members.size for group, members in enumerate(groups)}, most)
    return np.sort(np.concatenate([evenly(members, quota) for members in groups]))


def _cell_sets(data: _FitData, influence_rows: Integers) -> CellSets | None:
    """Return the regressions by cells of joint values; None without any, or if there are too many for the rows."""
    sample, cells = data.sample, data.cells
    if not 0 < len(data.table) <= MOST_CELL_FEATURES or not all(name in cells for name in data.table):
        return None
    codes = np.column_stack([cells[name].codes for name in data.table])
    sets = cell_sets(sample, codes, data.score, influence_rows, data.settings.folds is not None)
    # 1/Σ of squared shares: the n of (3), of the smaller group.
    is_sparse = CELL_SET_ROWS * len(sets.levels) > 1.0 / max(sample.square0, sample.square1)
    return None if is_sparse else sets


def cell_sets(
    rows: Rows, codes: Integers, target: Floats, influence_rows: Integers, leaves_one_out: bool = True
) -> CellSets:
    """Return the regressions of a target by the joint values of features, given as columns of codes."""
    key, levels = joint_codes(codes)
    sums = cell_sums_of(rows, target, key, len(levels))
    at = _as_sample_of(rows, influence_rows, np.arange(len(target)))
    return CellSets(sums, levels, key[influence_rows], target[influence_rows], at, leaves_one_out)


def _ridge_sets(data: _FitData, influence_rows: Integers) -> tuple[RidgeSets, BasisFit]:
    """Return the regressions by ridges on a basis, which is widened where residuals show structure."""
    sample, table, score, seed = data.sample, data.values, data.score, data.settings.seed
    days, numbers = (
        {
            feature.name: feature.values
            for feature in data.rows.features
            if feature.kind == kind and feature.values is not None
        }
        for kind in ("date", "numeric")
    )
    audited, omega = sample.audited.astype(np.float64), sample.balanced_weights
    fold = row_folds(sample, FOLDS, seed)
    first = basis_of(table, audited, score, omega, seed)
    screen = screen_of(table, days, numbers, (audited, score), omega, fold, seed)

    def fit_basis(blocks: Sequence[Block]) -> BasisFit:
        basis = widen_basis(first, table, blocks, seed) if blocks else first
        index = _gram_rows(len(score), len(basis.owners) + 3)
        return BasisFit.of(screen, basis, _fold_ridges(basis, table, sample, score, omega, fold, index))

    fit = widened(omega, fit_basis)
    at = _as_sample_of(sample, influence_rows, _gram_rows(len(score), len(fit.basis.owners) + 3))
    z, pooled = fit.basis.rows(table, influence_rows, audited, score), pooled_features(table, fit.basis, omega)
    sets = RidgeSets(fit.ridges, len(table), z, fold[influence_rows], at, pooled=tuple(pooled), hidden=fit.left)
    return sets, fit


def sets_of_target(
    evidence: Evidence, target: Floats, errors: TargetErrors, index: Integers, seed: int
) -> CellSets | RidgeSets | None:
    """Return the regressions of an estimated target on sets of features; only the rows `index` have the target."""
    old, basis, sample = evidence.nuisances.sets, evidence.nuisances.basis, evidence.sample
    own = sample.take(index)
    influence_rows = _influence_rows(own, len(evidence.table))
    sets: CellSets | RidgeSets
    if isinstance(old, CellSets):
        codes = np.column_stack([evidence.cells[name].codes[index] for name in evidence.table])
        sets = cell_sets(own, codes, target, influence_rows)
    elif old is None or basis is None:
        return None
    else:
        table = {name: _all_values(name, column, evidence.cells) for name, column in evidence.table.items()}
        omega, outcome = np.zeros((2, sample.audited.size))
        omega[index], outcome[index] = own.balanced_weights, target
        fold, used = row_folds(sample, FOLDS, seed), index[_gram_rows(index.size, len(basis.owners) + 3)]
        ridges, influential = _fold_ridges(basis, table, sample, outcome, omega, fold, used), index[influence_rows]
        z = basis.rows(table, influential, sample.audited.astype(np.float64), outcome)
        at = _as_sample_of(sample, influential, used)
        sets = RidgeSets(ridges, len(table), z, fold[influential], at, pooled=old.pooled)
    return replace(sets, target=errors.take(influence_rows, own.audited, sets.at))


def _fold_ridges(
    basis: Basis, table: Table, sample: Rows, target: Floats, omega: Floats, fold: Integers, index: Integers
) -> FoldRidges:
    """Return the ridge regressions of group and target on a basis, from the rows `index`."""
    grams = basis_grams(basis, table, sample.audited.astype(np.float64), target, omega, fold=fold, index=index)
    shares = omega[index] / omega[index].sum()
    shares = shares if sample.clusters is None else sums_by(sample.clusters[index], shares)
    apply = partial(in_threads, rows=len(basis.owners) ** 2)  # what takes time are products of columns
    return FoldRidges(grams, basis.owners, basis.blocks, 1.0 / float(shares @ shares), apply)


def _gram_rows(rows: int, columns: int) -> Integers:
    """Return the rows for Gram matrices with this many columns: all, or every k-th so that the work is bounded."""
    return np.arange(0, rows, max(math.ceil(rows * columns**2 / GRAM_WORK), 1))


def _as_sample_of(sample: Rows, influence_rows: Integers, index: Integers) -> Rows:
    """Return the rows with influences as a sample of the rows `index` that a regression used."""
    return sample.take(influence_rows).represent(sample.take(index))
