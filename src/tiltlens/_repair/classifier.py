"""A scikit-learn classifier whose scores are tilted until no gap between groups exceeds a limit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, check_cv, cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_array, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from tiltlens._estimators.influence import Integers, Rows
from tiltlens._learners.propensity import group_folds
from tiltlens._repair.adjustment import have_many_equal_rows
from tiltlens._repair.constraints import (
    ALL,
    DECISIONS,
    EVENTS,
    MEAN,
    OUTCOMES,
    Constraint,
    TiltSummary,
    check_max_gap,
    gradients,
    only,
    shift_of,
)
from tiltlens._repair.evaluation import RepairEvaluation, evaluate_parts
from tiltlens._repair.least_change import repaired
from tiltlens._repair.problem import RepairProblem, constraints_for, fit_notes
from tiltlens._repair.quantities import EvaluationRows
from tiltlens._repair.rows import AuditedRows, duplicate_clusters
from tiltlens._rows.predictions import UserModel
from tiltlens._sources.arrays import row_hashes
from tiltlens._sources.tables import ValuesLike, check_index, clean_column, raw_column
from tiltlens.errors import DataError, first_line, quoted, quoted_list
from tiltlens.paper.checks import Floats, check_threshold

NO_GROUPS = (
    "TiltedClassifier was fitted without sensitive_features, so its scores are not adjusted. With metadata routing, "
    "call set_fit_request(sensitive_features=True)."
)


# scikit-learn ships no types, so its base classes are Any.
class TiltedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with the smallest change of its scores that closes the gaps between groups.

    The group is needed to fit but not to predict: a group-membership model of the same columns decides whose scores
    move. The multipliers are cross-fitted, so that the gaps of new rows are within the limit up to sampling error.

    Parameters
    ----------
    estimator
        A classifier with `predict_proba`; logistic regression by default.
    max_gap
        The largest gap that is allowed.
    metric
        "mean_score": `predict_proba` of every class is tilted. For two classes also "fpr", "fnr" or "equalized_odds":
        mean scores of people in the first class, in the second, or in each of the two; and "decisions", at the
        threshold ½.
    threshold
        Score above which the decision is 1. With it, decisions meet the metric instead of scores: `predict` has equal
        rates, or equal error rates, and `predict_proba` is that of `estimator`. For two classes only.
    propensity
        A classifier of the group (for error rates, of group and class) from the same columns; by default logistic
        regression, after the steps of `estimator` if that is a pipeline.
    cv
        The number of random folds for cross-fitting, or a splitter.
    reference
        The group that others are compared with; the largest by default.

    Attributes
    ----------
    estimator_, propensity_
        Fitted on all rows; `propensity_` is None without groups.
    groups_
        The groups, the reference last.
    constraints_
        One per group, event and class: its multiplier, and the gap of cross-fitted scores before and after.
    multiplier_, gap_before_, gap_after_
        Values of the only constraint; None if there are several, or no groups.

    Examples
    --------
    >>> import numpy as np
    >>> import tiltlens as tl
    >>> rng = np.random.default_rng(0)
    >>> sex, X = rng.choice(["men", "women"], 400), rng.normal(size=(400, 2))
    >>> X[:, 1] += sex == "men"
    >>> y = rng.random(400) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))
    >>> model = tl.TiltedClassifier(max_gap=0.0, reference="women").fit(X, y, sensitive_features=sex)
    >>> round(model.gap_before_, 2), abs(round(model.gap_after_, 6))
    (0.18, 0.0)
    """

    def __init__(
        self,
        estimator: object = None,
        *,
        max_gap: float = 0.0,
        metric: str = MEAN,
        propensity: object = None,
        cv: object = 5,
        reference: object = None,
        threshold: float | None = None,
    ) -> None:
        self.estimator = estimator
        self.max_gap = max_gap
        self.metric = metric
        self.propensity = propensity
        self.cv = cv
        self.reference = reference
        self.threshold = threshold

    def fit(
        self,
        X: object,
        y: ArrayLike,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> TiltedClassifier:
        """Fit the classifier, the model of the group, and the multipliers."""
        limit = check_max_gap(self.max_gap)
        validate_data(self, X, skip_check_array=True)
        labels = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, input_name="y")
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError("y has one class; the estimator needs two or more.")
        self._check_metric()
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        self.estimator_ = _fit(self.estimator, X, labels, weights)
        self._keep(())
        if sensitive_features is None:
            warnings.warn(NO_GROUPS, UserWarning, stacklevel=2)
            self.propensity_, self.groups_ = None, np.empty(0)
            return self
        group = self._group(sensitive_features, X, labels.size)
        cells = group if EVENTS[self.metric] == (ALL,) else 2 * group + codes
        self.propensity_ = self._fit_membership(X, cells, weights)
        rows = AuditedRows(
            groups=(str(self.groups_[-1]), *map(str, self.groups_[:-1])),
            codes=(group + 1) % len(self.groups_),  # the reference first
            weights=np.ones(group.size) if weights is None else weights,
            clusters=None,
            features=(),
            scores=self._scores(self.estimator_.predict_proba(X)),
            outcome=codes if self.classes_.size == 2 else None,
        )
        self._keep(self._solve(X, rows, (labels, cells), codes, limit, weights))
        return self

    def _keep(self, constraints: tuple[Constraint, ...]) -> None:
        self.constraints_ = constraints
        self.multiplier_ = only(constraints, "multiplier")
        self.gap_before_, self.gap_after_ = only(constraints, "gap_before"), only(constraints, "gap_after")

    def _check_metric(self) -> None:
        if self.metric not in EVENTS:
            raise DataError(
                f"`metric` must be one of {quoted_list(list(EVENTS))}, got {self.metric!r}.",
                "see the documentation of TiltedClassifier.",
            )
        if self.threshold is not None:
            check_threshold(self.threshold, below_one=True)
        if self.classes_.size > 2 and (self.metric != MEAN or self.threshold is not None):
            raise DataError(
                f"`metric` must be {MEAN!r} without a threshold for {self.classes_.size} classes, got {self.metric!r}.",
                "fit one class against the others.",
            )

    def _membership_model(self) -> UserModel:
        """Return the group-membership model; by default it preprocesses X, including text, as `estimator` does."""
        if self.propensity is not None or not isinstance(self.estimator, Pipeline):
            return self.propensity
        return Pipeline([*self.estimator.steps[:-1], ("propensity", LogisticRegression())])

    def _fit_membership(self, X: object, cells: Integers, weights: Floats | None) -> UserModel:
        try:
            return _fit(self._membership_model(), X, cells, weights)
        except (TypeError, ValueError) as error:
            name = "The default `propensity`" if self.propensity is None else type(self.propensity).__name__
            raise DataError(
                f"{name} cannot fit X: {first_line(error)}", "pass propensity=, such as a pipeline that encodes texts."
            ) from error

    def _solve(
        self,
        X: object,
        rows: AuditedRows,
        targets: tuple[Any, Any],
        codes: Integers,
        limit: float,
        weights: Floats | None,
    ) -> tuple[Constraint, ...]:
        """Return the constraints with their multipliers, solved with cross-fitted scores and probabilities."""
        constraints = constraints_for(rows, self.metric, limit)
        table = _columns_of(X)
        hashes = row_hashes(table)
        rows = replace(rows, clusters=duplicate_clusters(table, rows.codes, codes))
        folds = self._folds(rows.codes, codes, rows.clusters)
        options: dict[str, Any] = {"cv": folds, "method": "predict_proba"}
        scores, cells = (
            cross_val_predict(_classifier(model), X, y, params=_weight_arguments(model, weights), **options)
            for model, y in zip((self.estimator, self._membership_model()), targets, strict=True)
        )
        problem = RepairProblem.of(rows, constraints, {}, limit, self._threshold)
        crossed = self._gradients(problem.constraints, cells)
        if self._threshold is not None:
            alike = have_many_equal_rows(hashes, rows.clusters)[:, None]
            scores = np.where(alike, self.estimator_.predict_proba(X), scores)
            cells = np.where(alike, self._predict_cells(X), cells)
        problem = replace(problem, rows=replace(rows, scores=self._scores(scores)))
        hint = "add columns that separate the groups, or rows."
        solved, after = problem.solve(self._gradients(problem.constraints, cells), crossed, hint)
        for note in fit_notes(problem, solved, after):
            warnings.warn(f"TiltedClassifier: {note}", UserWarning, stacklevel=3)
        return solved

    def _folds(self, group: Integers, codes: Integers, clusters: Integers | None) -> Any:
        """Return a splitter; numbered folds are random because rows may be sorted, and keep duplicates together."""
        splitter = check_cv(self.cv)
        if self.cv is not None and not isinstance(self.cv, Integral):
            return splitter
        strata = group * len(self.classes_) + codes
        return PredefinedSplit(group_folds(group, clusters, splitter.get_n_splits(), 0, strata))

    def _group(self, sensitive_features: ArrayLike, X: object, rows: int) -> Integers:
        """Return the position of each row's group in `groups_`, the reference last."""
        values = self._groups_of(sensitive_features, X)
        groups, counts = np.unique(values, return_counts=True)
        if values.shape != (rows,) or groups.size < 2:
            raise DataError(
                f"`sensitive_features` must be one group for each of {rows} rows and hold two groups or more, got "
                f"shape {values.shape} and {groups.size} groups.",
                "pass one column.",
            )
        reference: Any = groups[counts.argmax()] if self.reference is None else self.reference
        if reference not in groups:
            raise DataError(
                f"No row has group {quoted(reference)} (`reference`).",
                f"the groups are {quoted_list(groups.tolist())}.",
            )
        self.groups_ = np.append(groups[groups != reference], reference)
        return np.asarray((values[:, None] == self.groups_).argmax(axis=1))

    def _groups_of(self, sensitive_features: ArrayLike, X: object) -> NDArray[np.generic]:
        """Return the groups as an array, also from a table with one column."""
        check_index("sensitive_features", sensitive_features, X, "X")
        values = np.asarray(sensitive_features)
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        empty = clean_column(raw_column("sensitive_features", values)).null_count() if values.ndim == 1 else 0
        if empty:
            raise DataError(
                f"`sensitive_features` is missing in {empty} rows.",
                "exclude these rows, or assign them to a separate group.",
            )
        return values

    def evaluate(
        self,
        X: object,
        y: ArrayLike,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        audited: object = None,
        confidence: float = 0.95,
    ) -> RepairEvaluation:
        """Return the effect on held-out rows, as `ScoreTilt.evaluate` does; for two classes only.

        `audited` is the group to compare with the reference; it is required if there are several.
        """
        score, shift = self._score_and_shift(X)
        *others, reference = (str(group) for group in self.groups_)
        group = others[0] if audited is None and len(others) == 1 else str(audited)
        if len(self.classes_) > 2 or group not in others:
            raise DataError(
                f"`audited` must be one of {quoted_list(others)}, of a classifier of two classes, got {group!r} and "
                f"{len(self.classes_)} classes.",
                "name a group that the classifier was fitted on.",
            )
        labels = self._groups_of(sensitive_features, X).astype(str)
        index = np.flatnonzero(np.isin(labels, (group, reference)))
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)[index]
        outcome = (np.asarray(y)[index] == self.classes_[1]).astype(np.intp)
        rows, has_multipliers = Rows.of(labels[index] == group, weights), any(c.multiplier for c in self.constraints_)
        data = EvaluationRows(rows, outcome, self._threshold or 0.5, moves=has_multipliers)

        def scores_after(part: float) -> Floats:
            return repaired(score[index], 0.0 if shift is None else part * shift[index], self._threshold)

        return evaluate_parts(data, scores_after, confidence, self._summary(group, reference))

    def _summary(self, audited: str, reference: str) -> TiltSummary:
        """Return the summary of the adjustment, as `ScoreTilt.summary` does."""
        columns = getattr(self, "feature_names_in_", [f"x{n}" for n in range(self.n_features_in_)])
        return TiltSummary(
            group="group",
            metric=self.metric,
            threshold=self.threshold,
            max_gap=self.max_gap,
            use_group=False,
            classes=2,
            constraints=self.constraints_,
            multiplier=self.multiplier_,
            audited=audited,
            reference=reference,
            gap_before=self.gap_before_,
            gap_after=self.gap_after_,
            features=tuple(map(str, columns)),
        )

    def _predict_cells(self, X: object) -> Floats:
        model: UserModel = self.propensity_
        return np.asarray(model.predict_proba(X), dtype=np.float64)

    def _gradients(self, constraints: Sequence[Constraint], probabilities: ArrayLike) -> Floats:
        """Return a_c(x) of each constraint from the probabilities of groups, or of groups and classes in this order."""
        events = (ALL,) if EVENTS[self.metric] == (ALL,) else OUTCOMES
        cells = [(str(group), event) for group in self.groups_ for event in events]
        return gradients(constraints, dict(zip(cells, np.asarray(probabilities).T, strict=True)), None)

    @property
    def _threshold(self) -> float | None:
        """The threshold, moved up to the next float, since scikit-learn decides 1 above it and not at it."""
        threshold = 0.5 if self.threshold is None and self.metric == DECISIONS else self.threshold
        return None if threshold is None else float(np.nextafter(threshold, 1.0))

    def _scores(self, predictions: object) -> Floats:
        """Return W(1|x) for two classes, and the scores of all classes for more."""
        probabilities = np.asarray(predictions, dtype=np.float64)
        return probabilities[:, 1] if len(self.classes_) == 2 else probabilities

    def _score_and_shift(self, X: object) -> tuple[Floats, Floats | None]:
        """Return the scores before the tilt, and their shift; None if no multiplier differs from 0."""
        check_is_fitted(self)
        score = self._scores(self.estimator_.predict_proba(X))
        validate_data(self, X, reset=False, skip_check_array=True)
        if not any(constraint.multiplier for constraint in self.constraints_):
            return score, None
        a = self._gradients(self.constraints_, self._predict_cells(X))
        return score, shift_of(self.constraints_, a, len(self.classes_))

    def predict_proba(self, X: object) -> Floats:
        """Return the class probabilities, tilted unless the metric is met by decisions."""
        score, shift = self._score_and_shift(X)
        if shift is not None and self._threshold is None:
            score = repaired(score, shift)
        return np.column_stack([1.0 - score, score]) if score.ndim == 1 else score

    def predict(self, X: object) -> NDArray[np.generic]:
        """Return the class of each row."""
        score, shift = self._score_and_shift(X)
        moves = shift is not None or self._threshold is not None
        after = repaired(score, 0.0 if shift is None else shift, self._threshold) if moves else score
        index = (after > 0.5).astype(np.intp) if after.ndim == 1 else after.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags, with those of the wrapped classifier."""
        tags = super().__sklearn_tags__()
        within = get_tags(_classifier(self.estimator))
        tags.input_tags.sparse = within.input_tags.sparse
        tags.input_tags.allow_nan = within.input_tags.allow_nan
        tags.classifier_tags.multi_class = within.classifier_tags is None or within.classifier_tags.multi_class
        return tags


def _classifier(model: UserModel) -> UserModel:
    return LogisticRegression() if model is None else clone(model)


def _fit(model: UserModel, X: object, target: object, weights: Floats | None) -> UserModel:
    return _classifier(model).fit(X, target, **_weight_arguments(model, weights))


def _weight_arguments(model: object, weights: Floats | None) -> dict[str, Floats]:
    """Return the keyword arguments that pass weights to a classifier, or to the last step of a pipeline."""
    name = f"{model.steps[-1][0]}__sample_weight" if isinstance(model, Pipeline) else "sample_weight"
    return {} if weights is None else {name: weights}


def _columns_of(X: ValuesLike) -> dict[str, Floats]:
    """Return the columns of X as numbers, with texts as codes, so that equal rows have equal hashes."""
    if bool(issparse(X)):  # equal rows have equal random projections
        return {"": np.asarray(X @ np.random.default_rng(0).standard_normal(X.shape[1]), dtype=np.float64)}
    values = np.asarray(X)
    columns = values.reshape(len(values), -1).T
    if values.dtype.kind not in "biuf":
        columns = np.array([np.unique(column.astype(str), return_inverse=True)[1] for column in columns])
    return {str(n): column for n, column in enumerate(np.ascontiguousarray(columns, dtype=np.float64))}
