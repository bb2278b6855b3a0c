"""Cross-fitted models of group membership, and of group and outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from tiltlens.errors import DataError
from tiltlens.estimators.error_rates import UNKNOWN
from tiltlens.estimators.influence import Booleans, Integers, cluster_codes
from tiltlens.learners.design import Table
from tiltlens.learners.propensity import group_folds
from tiltlens.limits import FOLDS
from tiltlens.paper.checks import Floats
from tiltlens.repair.coded_features import AdditiveModel
from tiltlens.repair.constraints import ALL, EQUAL, GIVEN_EXEMPT, Cell, Constraint, modelled_cells
from tiltlens.repair.membership import Design, Fitted, additive_design, fit_membership
from tiltlens.repair.rows import AuditedRows
from tiltlens.rows.features import Feature
from tiltlens.sources.hashing import Hashes, row_hashes

MIN_IDENTICAL_PEOPLE = 10  # with equal features: a membership model of so many hardly depends on one of them


@dataclass(frozen=True, slots=True, eq=False)
class CellModel:
    """A model of P(group and event|x); with the group, of P(event|x) within it."""

    group: str
    event: str
    model: Fitted

    @property
    def cell(self) -> Cell:
        """The group and event that it predicts."""
        return self.group, self.event

    def probability(self, table: Table) -> Floats:
        """Return the probabilities of rows of numbers and codes."""
        return np.asarray(expit(self.model.log_odds(table)))


@dataclass(frozen=True, slots=True, eq=False)
class MembershipFit:
    """Models of the cells of some constraints."""

    design: Design | None  # the design of the models; None where no model is needed
    models: tuple[CellModel, ...]  # fitted on all rows: these are saved, and applied to new rows
    cross_fitted: Mapping[Cell, Floats]  # the probabilities of each row by models that were fitted on the other folds

    def fitted(self) -> Mapping[Cell, Floats]:
        """Return the probabilities of each row by the models of all rows."""
        return (
            {} if self.design is None else {model.cell: model.probability(self.design.table) for model in self.models}
        )

    def for_decisions(self, clusters: Integers | None) -> Mapping[Cell, Floats]:
        """Return probabilities with which people with equal features get equal decisions, as new rows do.

        The models of the five folds differ, and would decide some of them differently. Where many people share all
        features, the models of all rows serve: no single person matters to them.
        """
        if self.design is None:
            return self.cross_fitted
        alike, fitted = many_alike(row_hashes(self.design.table), clusters), self.fitted()
        return {cell: np.where(alike, fitted[cell], own) for cell, own in self.cross_fitted.items()}


def exempt_model(models: Sequence[CellModel]) -> AdditiveModel | None:
    """Return the model of the group given the exempt factors, where there are any; it is always additive."""
    exempt = [model.model for model in models if model.event == GIVEN_EXEMPT]
    return next((model for model in exempt if isinstance(model, AdditiveModel)), None)


def fit_cells(
    rows: AuditedRows, constraints: Sequence[Constraint], use_group: bool, estimator: object
) -> MembershipFit:
    """Return the models of the cells whose probabilities the constraints need."""
    cells = modelled_cells([cell for each in constraints for cell in each.cells], rows.reference, use_group)
    if not cells and estimator is not None:
        raise DataError(
            f"An adjustment with use_group=True needs no `propensity_model` here, got {type(estimator).__name__}.",
            "omit it.",
        )
    design = _design(rows.features, estimator) if cells else None
    designs = {} if design is None else dict.fromkeys(cells, design)
    if any(constraint.event == EQUAL for constraint in constraints):
        exempt = additive_design([feature for feature in rows.features if feature.name in rows.exempt])
        design = exempt if design is None else design
        designs |= {(group, GIVEN_EXEMPT): exempt for group in rows.groups[1:]}
    fold = group_folds(rows.codes, rows.clusters, FOLDS, 0, _strata(rows, constraints))
    models, cross_fitted, everyone = [], {}, np.ones(rows.codes.size, dtype=np.bool_)
    for cell, own in designs.items():
        group, event = cell
        is_exempt = event == GIVEN_EXEMPT
        among = rows.members((group, ALL)) if use_group and not is_exempt else everyone
        labels = rows.members((group, ALL) if is_exempt else cell)
        model, cross_fitted[cell] = cross_fit(own, rows.weights, fold, labels, among)
        models.append(CellModel(group, event, model))
    return MembershipFit(design, tuple(models), cross_fitted)


def cross_fit(
    design: Design, weights: Floats, fold: Integers, labels: Booleans, among: Booleans
) -> tuple[Fitted, Floats]:
    """Return a model of `labels` fitted on the rows `among`, and each row's probability by models of other folds."""
    probability = np.empty(labels.size)
    for k in range(FOLDS):
        held_out = np.flatnonzero(fold == k)
        part = fit_membership(design, np.flatnonzero(among & (fold != k)), labels, weights)
        probability[held_out] = expit(part.log_odds(design.table, held_out))
    return fit_membership(design, np.flatnonzero(among), labels, weights), probability


def _strata(rows: AuditedRows, constraints: Sequence[Constraint]) -> Integers | None:
    """Return group and outcome as strata of the folds, where the outcome counts.

    If one fold had more people with the outcome than the others, models of the others would find it too rare there.
    """
    if rows.outcome is None or all(constraint.event == ALL for constraint in constraints):
        return None
    return np.asarray(rows.codes * (UNKNOWN + 1) + rows.outcome)


def _design(features: Sequence[Feature], estimator: object) -> Design:
    if not any(feature.in_membership for feature in features):
        raise DataError(
            "No feature can separate the groups, so scores cannot be adjusted without the group.",
            "repair with use_group=True, or audit with features that vary and are neither the group nor identifiers.",
        )
    return additive_design(features, estimator)


def many_alike(hashes: Hashes, clusters: Integers | None) -> Booleans:
    """Return which rows have the features, by their `hashes`, of at least nine other people."""
    _, cells = np.unique(hashes, return_inverse=True)
    codes = cluster_codes(clusters)
    people = cells if codes is None else np.unique(np.stack([cells, codes]), axis=1)[0]
    return np.asarray(np.bincount(people)[cells] >= MIN_IDENTICAL_PEOPLE)
