"""The base class of adjustments, and cross-fitted group-membership models.

The additive logistic model, log-odds(x) = intercept + Σ_j f_j(x_j), where f_j is a spline of a number or has one effect
per level of a category, can be inspected and saved as numbers. Any scikit-learn classifier may replace it; it is saved
as a skops file within the JSON, which contains data and type names but no code.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit

from tiltlens._estimators.error_rates import UNKNOWN
from tiltlens._estimators.influence import Booleans, Integers, cluster_codes
from tiltlens._learners.candidates import ridge_logit
from tiltlens._learners.design import Encoding, Table, encoding
from tiltlens._learners.propensity import estimator_log_odds, fit_clone, group_folds
from tiltlens._limits import FOLDS, RIDGE, SUPPRESSED_BELOW, SURELY_BEYOND, WEAK_RIDGE
from tiltlens._notes import Note
from tiltlens._repair.constraints import (
    ALL,
    EQUAL,
    GIVEN_EXEMPT,
    AdditiveModel,
    CategoryLevels,
    Cell,
    CodedFeatures,
    Constraint,
    category_levels,
    feature_table,
)
from tiltlens._repair.rows import AuditedRowIndex, AuditedRows, NewRowSums, Range
from tiltlens._results.codec import to_plain, write_json
from tiltlens._results.outputs import DocumentView
from tiltlens._rows.features import DesignColumn, Feature
from tiltlens._rows.roles import Declared
from tiltlens._rows.sampled_rows import ONE_AT_A_TIME
from tiltlens._rows.scores import RowName
from tiltlens._sources.arrays import Hashes, row_hashes
from tiltlens.errors import DataError, MissingExtraError, first_line, quoted
from tiltlens.paper.checks import Floats

Labels = NDArray[np.str_]


class Adjustment(DocumentView, ABC):
    """An adjustment of outputs that can be applied to rows, evaluated, printed, and saved as JSON.

    The subclasses are dataclasses: they declare these fields in the order of their files.
    """

    __slots__ = ()

    SCHEMA: ClassVar[str]
    LEARNT_BY: ClassVar[str]  # the name of the models in notes

    given: Mapping[str, str]
    ranges: Mapping[str, Range]
    declared: Declared
    row_index: AuditedRowIndex

    @property
    @abstractmethod
    def reference(self) -> str:
        """The group that others are compared with."""

    @property
    @abstractmethod
    def groups(self) -> tuple[str, ...]:
        """The audited groups."""

    @property
    @abstractmethod
    def left_alone(self) -> str:
        """The treatment of rows that do not meet the conditions, as phrases of notes have it."""

    @property
    @abstractmethod
    def _readers(self) -> Sequence[CodedFeatures]:
        """The fitted models; all features can be read with the first."""

    @property
    def _derived(self) -> Mapping[str, object]:
        """The derived values that files contain in addition to the fields."""
        return {}

    @property
    def _changes_outputs(self) -> bool:
        return True

    @property
    def audited(self) -> str | None:
        """The audited group; None where there are several."""
        return self.groups[0] if len(self.groups) == 1 else None

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that the adjustment needs in addition to the outputs."""
        names = dict.fromkeys(name for model in self._readers for name in model.features if self._changes_outputs)
        return tuple(self.declared.sources(list(names)))

    @property
    def text_features(self) -> frozenset[str]:
        """The features that are read as text, even if all their values look like numbers."""
        return frozenset(name for model in self._readers for name in model.levels)

    @abstractmethod
    def read_scores(self, columns: Sequence[pl.Series], row_name: RowName = "row {}".format) -> Floats:
        """Return the outputs to adjust, from clean columns: (n,), or (n, K)."""

    @abstractmethod
    def read_outcome(self, column: pl.Series) -> DesignColumn:
        """Return the observed outcome of each row."""

    @abstractmethod
    def check_score_columns(self, count: int) -> None:
        """Raise if `count` is not the number of output columns that the adjustment needs."""

    @abstractmethod
    def check_whole(self) -> None:
        """Raise if a part is missing, or if parts do not fit together."""

    @abstractmethod
    def repair_batch(
        self, frame: pl.DataFrame, scores: Floats, group: Labels | None = None, sums: list[NewRowSums] | None = None
    ) -> Floats:
        """Return the adjusted outputs of a clean frame of rows; `group` has their groups if the adjustment uses them.

        Sums by which the rows are compared with the audited ones are appended to `sums`.
        """

    def unadjusted(self, scores: Floats) -> Floats:
        """Return the outputs of rows that do not meet the conditions."""
        return scores.copy()

    def table(self, frame: pl.DataFrame) -> dict[str, DesignColumn]:
        """Return the features of a clean frame as numbers and codes."""
        return self._readers[0].checked_table(frame) if self._readers else {}

    def row_sums(self, frame: pl.DataFrame) -> NewRowSums:
        """Return the number of rows of a clean frame with unseen levels, or with numbers beyond the audited range."""
        reads, table = bool(self._readers) and self._changes_outputs, self.table(frame)
        unseen = self._readers[0].unseen_levels(frame) if reads else {}
        ends = {name: self.ranges[name][:2] for name in table if name in self.ranges}
        beyond = {name: int(((table[name] < a) | (table[name] > b)).sum()) for name, (a, b) in ends.items()}
        return NewRowSums(0, 0, Counter(unseen), Counter(beyond))

    def row_notes(self, sums: NewRowSums) -> list[Note]:
        """Return notes on rows that differ from the audited ones, from their sums."""
        rows = sums.rows - sums.outside
        notes = [
            Note("unseen values", count=count, rows=rows, feature=quoted(name), model=self.LEARNT_BY)
            for name, count in sums.unseen.items()
        ]
        for name, count in sums.beyond.items():
            feature, (low, high, audited) = quoted(name), self.ranges[name]
            expected = 2.0 * SUPPRESSED_BELOW * rows / audited  # negative binomial: beyond two order statistics
            if count > expected + 2.0 * SURELY_BEYOND * math.sqrt(expected * (1.0 + rows / audited)):
                code = "beyond the audited range"
                notes.append(Note(code, count=count, rows=rows, feature=feature, low=low, high=high))
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return the adjustment as plain numbers and texts, including its models and the hashes of audited rows."""
        return {"schema": self.SCHEMA, **to_plain(self), **to_plain(self._derived)}

    def to_json(self, path: str | Path) -> None:
        """Write the adjustment to a JSON file, which `tl.read_repair` reads.

        The file contains numbers and texts, and a user's own group-membership model in skops format.
        """
        write_json(self.to_dict(), str(path))


MIN_IDENTICAL_PEOPLE = 10  # with equal features: one of them hardly influences a model fitted on so many


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorLogit(CodedFeatures):
    """A fitted classifier that predicts from a Polars frame: numbers (NaN if missing) and texts of audited levels.

    Levels that no audited row has are passed as missing.
    """

    estimator: object

    def disclosed(self) -> EstimatorLogit:
        """Return a copy whose classifier is the text of a skops file, as it is saved."""
        try:
            import skops.io as sio
        except ImportError:
            raise MissingExtraError("Saving a classifier requires skops.", extra="models") from None
        return replace(self, estimator=b64encode(sio.dumps(self.estimator)).decode())

    def linear_predictor(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the log-odds of rows of numbers and codes."""
        inputs = _inputs(self.levels, {name: table[name][index] for name in self.features})
        try:
            with ONE_AT_A_TIME:
                return estimator_log_odds(self.estimator, inputs)
        except Exception as error:  # the user's code
            raise _refused(self.estimator, "predict", error) from error


Fitted = EstimatorLogit | AdditiveModel  # log-odds(x)


def _inputs(levels: Mapping[str, CategoryLevels], table: Table) -> pl.DataFrame:
    return pl.DataFrame(
        {name: levels[name].texts(column) if name in levels else pl.Series(column) for name, column in table.items()}
    )


def _refused(estimator: object, method: str, error: Exception) -> DataError:
    return DataError(
        f"`propensity_model` {type(estimator).__name__} cannot {method} the features: {first_line(error)}",
        "pass a pipeline that encodes texts (handle_unknown='ignore') and fills missing numbers.",
    )


class Design(NamedTuple):
    """The encoding of the features (without products), the levels of categories, and the rows as a table.

    `estimator` is a classifier to fit instead of the additive model.
    """

    encoding: Encoding
    levels: Mapping[str, CategoryLevels]
    table: dict[str, DesignColumn]
    estimator: object = None


def additive_design(features: Sequence[Feature], estimator: object = None) -> Design:
    """Return the design of the features that the membership model may use."""
    used = [feature for feature in features if feature.in_membership]
    table = feature_table(used)
    whole = encoding(table, np.arange(len(next(iter(table.values())))), multiplied=frozenset(), spike_share=1.0)
    kinds = whole.kinds[whole.kinds != "bent"]
    return Design(Encoding(whole.numeric, whole.levels, (), kinds), category_levels(used), table, estimator)


def fit_membership(design: Design, rows: Integers, labels: Booleans, weights: Floats) -> Fitted:
    """Return the membership model fitted on these rows: the additive model, or the classifier of the design."""
    if design.estimator is None:
        encoded = design.encoding
        # Splines and rare levels are shrunk towards 0, so that they do not fit single people.
        penalty = np.where(encoded.kinds == "spline", RIDGE, WEAK_RIDGE)
        fit = ridge_logit(encoded.matrix(design.table, rows), labels[rows], weights[rows], penalty)
        return AdditiveModel.of(encoded, design.levels, fit.intercept, fit.slopes)
    inputs = _inputs(design.levels, {name: column[rows] for name, column in design.table.items()})
    try:
        estimator = fit_clone(design.estimator, inputs, labels[rows], weights[rows])
    except Exception as error:  # the user's code
        raise _refused(design.estimator, "fit", error) from error
    numbers = [name for name in design.table if name not in design.levels]
    missing = tuple(name for name in numbers if np.isnan(design.table[name]).any())
    return EstimatorLogit(tuple(design.table), design.levels, missing, estimator)


@dataclass(frozen=True, slots=True, eq=False)
class CellModel:
    """A model of P(group and event|x) or, if the group is used, of P(event|x) within the group."""

    group: str
    event: str
    model: Fitted

    @property
    def cell(self) -> Cell:
        """The group and event whose probability is predicted."""
        return self.group, self.event

    def probability(self, table: Table) -> Floats:
        """Return the probabilities of rows of numbers and codes."""
        return np.asarray(expit(self.model.linear_predictor(table)))


@dataclass(frozen=True, slots=True, eq=False)
class MembershipFit:
    """Fitted models of the cells of the constraints."""

    design: Design | None  # the design of the models; None if no model is needed
    models: tuple[CellModel, ...]  # fitted on all rows; saved, and applied to new rows
    cross_fitted: Mapping[Cell, Floats]  # each row's probabilities, by models fitted on the other folds

    def fitted(self) -> Mapping[Cell, Floats]:
        """Return the probabilities of each row by the models fitted on all rows."""
        table = {} if self.design is None else self.design.table
        return {model.cell: model.probability(table) for model in self.models}

    def for_decisions(self, clusters: Integers | None) -> Mapping[Cell, Floats]:
        """Return probabilities for which people with equal features get equal decisions, as they do in new rows.

        The models of the five folds differ, and could decide differently for equal people. Where at least ten people
        share all features, the models of all rows are used, since no single person influences them much.
        """
        if self.design is None:
            return self.cross_fitted
        alike, fitted = have_many_equal_rows(row_hashes(self.design.table), clusters), self.fitted()
        return {cell: np.where(alike, fitted[cell], own) for cell, own in self.cross_fitted.items()}


def exempt_model(models: Sequence[CellModel]) -> AdditiveModel | None:
    """Return the model of the group given the exempt factors, which is always additive; None if there is none."""
    fits = (model.model for model in models if model.event == GIVEN_EXEMPT)
    return next((fit for fit in fits if isinstance(fit, AdditiveModel)), None)


def fit_cells(
    rows: AuditedRows, constraints: Sequence[Constraint], use_group: bool, estimator: object
) -> MembershipFit:
    """Return models of the cells whose probabilities the constraints need."""
    # With the group, P(ALL|group) is 1; without it, the reference's P(ALL|x) is 1 minus that of the other groups.
    certain = [(name, ALL) for name in (rows.groups if use_group else rows.groups[:1])]
    cells = [cell for cell in dict.fromkeys(cell for each in constraints for cell in each.cells) if cell not in certain]
    if not cells and estimator is not None:
        raise DataError(
            f"An adjustment with use_group=True needs no `propensity_model` here, got {type(estimator).__name__}.",
            "omit it.",
        )
    if cells and not rows.model_features:
        raise DataError(
            "No feature can separate the groups, so scores cannot be adjusted without the group.",
            "repair with use_group=True, or audit with features that vary and are neither the group nor identifiers.",
        )
    design = additive_design(rows.features, estimator) if cells else None
    designs = {} if design is None else dict.fromkeys(cells, design)
    if any(constraint.event == EQUAL for constraint in constraints):
        exempt = additive_design([feature for feature in rows.features if feature.name in rows.exempt])
        design = exempt if design is None else design
        designs |= {(group, GIVEN_EXEMPT): exempt for group in rows.groups[1:]}
    strata = None
    if rows.outcome is not None and any(constraint.event != ALL for constraint in constraints):
        # If the outcome were more frequent in one fold, models of the others would underestimate its rate there.
        strata = rows.codes * (UNKNOWN + 1) + rows.outcome
    fold = group_folds(rows.codes, rows.clusters, FOLDS, 0, strata)
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
    """Return a model of `labels` fitted on the rows `among`, and the cross-fitted probability of each row."""
    probability = np.empty(labels.size)
    for k in range(FOLDS):
        held_out = np.flatnonzero(fold == k)
        part = fit_membership(design, np.flatnonzero(among & (fold != k)), labels, weights)
        probability[held_out] = expit(part.linear_predictor(design.table, held_out))
    return fit_membership(design, np.flatnonzero(among), labels, weights), probability


def have_many_equal_rows(hashes: Hashes, clusters: Integers | None) -> Booleans:
    """Return which rows have at least nine other people with the same features, compared by `hashes`."""
    _, cells = np.unique(hashes, return_inverse=True)
    codes = cluster_codes(clusters)
    people = cells if codes is None else np.unique(np.stack([cells, codes]), axis=1)[0]
    return np.asarray(np.bincount(people)[cells] >= MIN_IDENTICAL_PEOPLE)
