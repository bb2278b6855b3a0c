"""A scikit-learn classifier whose scores are tilted until groups' gaps are no larger than a limit."""

from __future__ import annotations

import warnings
from dataclasses import asdict
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

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.learners.propensity import group_folds
from tiltlens.limits import MINIMUM_ROWS
from tiltlens.paper.checks import Floats, check_threshold
from tiltlens.repair.bill import Bill, bill_of
from tiltlens.repair.constraints import (
    ALL,
    DECISIONS,
    EVENTS,
    MEAN,
    OUTCOMES,
    Cell,
    Constraint,
    asked_classes,
    gradients,
    only,
)
from tiltlens.repair.copies import copies_of
from tiltlens.repair.least_change import repaired, shifts
from tiltlens.repair.notes import Fitted, fit_notes
from tiltlens.repair.solve import check_told, checked_limit, many_alike, measures_of, solved, told_apart
from tiltlens.sources.columns import check_index, clean_column, raw_column
from tiltlens.sources.hashing import row_hashes
from tiltlens.sources.messages import first_line, listed, shown

NO_GROUPS = (
    "TiltedClassifier was fitted without sensitive_features: nothing is repaired. With metadata routing, "
    "set_fit_request(sensitive_features=True)."
)


class TiltedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier with the least change of its scores that closes the gaps between groups.

    The group is needed to fit, not to predict: a model of it from the same columns says whose scores move. Multipliers
    and models behind them are cross-fitted, so that the gaps of new rows are within the limit up to chance.

    Parameters
    ----------
    estimator
        A classifier with `predict_proba`; logistic regression by default.
    max_gap
        The largest gap that is allowed.
    metric
        "mean_score": `predict_proba` of every class is tilted. Of two classes also "fpr", "fnr" or "equalized_odds":
        mean scores of people of the first class, of the second, and of either; and "decisions", at the threshold ½.
    threshold
        Decisions, 1 above it, meet the metric in place of scores: `predict` has equal rates of all people, or equal
        error rates, and `predict_proba` is that of `estimator`. Of two classes.
    propensity
        A classifier of the group, of error rates of group and class together, from the same columns; logistic
        regression by default, after the steps of `estimator` if that is a pipeline.
    cv
        How many folds, drawn by chance, the multipliers are cross-fitted with; or a splitter.
    reference
        The group that others are compared with; the largest by default, as of an audit.

    Attributes
    ----------
    estimator_, propensity_
        Fitted on all rows; `propensity_` is None without groups.
    groups_
        The groups, the reference last: a gap is the mean score of one less that of the last.
    constraints_
        One for each group, event and class: its multiplier, and the gap of cross-fitted scores before and after.
    multiplier_, gap_before_, gap_after_
        Of the only constraint; None where there are several, or no groups.

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
        estimator: Any = None,
        *,
        max_gap: float = 0.0,
        metric: str = MEAN,
        propensity: Any = None,
        cv: Any = 5,
        reference: Any = None,
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
        X: Any,
        y: ArrayLike,
        sensitive_features: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> TiltedClassifier:
        """Fit the classifier, the model of the group, and the multipliers; gaps are those of weighted rows."""
        limit = checked_limit(self.max_gap)
        validate_data(self, X, skip_check_array=True)
        labels = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, input_name="y")
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError("y has one class; the estimator needs two or more.")
        self._check_asked()
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        self.estimator_ = self._fitted(self.estimator, X, labels, weights)
        self.constraints_: tuple[Constraint, ...] = ()
        if sensitive_features is None:
            warnings.warn(NO_GROUPS, UserWarning, stacklevel=2)
            self.propensity_, self.groups_ = None, np.empty(0)
            return self
        group = self._group(sensitive_features, X, labels.size)
        cells = group if EVENTS[self.metric] == (ALL,) else 2 * group + codes
        try:
            self.propensity_ = self._fitted(self._member(), X, cells, weights)
        except (TypeError, ValueError) as error:
            name = "the default" if self.propensity is None else type(self.propensity).__name__
            raise DataError(
                f"`propensity` must be a classifier that can fit X, got {name}: {first_line(error)}",
                "pass propensity=, such as a pipeline that encodes texts.",
            ) from error
        self.constraints_ = self._solved(X, labels, codes, group, cells, limit, weights)
        return self

    def _check_asked(self) -> None:
        if self.metric not in EVENTS:
            raise DataError(f"`metric` must be one of {listed(list(EVENTS))}, got {self.metric!r}.", "see its docs.")
        if self.threshold is not None:
            check_threshold(self.threshold, below_one=True)
        if self.classes_.size > 2 and (self.metric != MEAN or self.threshold is not None):
            raise DataError(
                f"`metric` must be {MEAN!r} without a threshold for {self.classes_.size} classes, got {self.metric!r}.",
                "fit one class against the others.",
            )

    def _fitted(self, given: Any, X: Any, target: Any, weights: Floats | None) -> Any:
        return self._classifier(given).fit(X, target, **_weighted(given, weights))

    def _member(self) -> Any:
        """Return the model of the group; by default it reads X as `estimator` does, texts too."""
        if self.propensity is not None or not isinstance(self.estimator, Pipeline):
            return self.propensity
        return Pipeline([*self.estimator.steps[:-1], ("propensity", LogisticRegression())])

    def _solved(
        self, X: Any, labels: Any, codes: Integers, group: Integers, cells: Integers, limit: float, given: Floats | None
    ) -> tuple[Constraint, ...]:
        """Return the constraints with their multipliers, by models that have not seen the row, or hardly."""
        weights = np.ones(group.size) if given is None else given
        asked, pairs = self._asked(group, codes, limit, weights)
        table = _columns_of(X)
        hashes = row_hashes(table)
        people, copies = copies_of(table, hashes, group, codes)
        clusters = people if copies else None
        folds = self._folds(group, codes, clusters)
        found = [
            cross_val_predict(
                self._classifier(one), X, target, cv=folds, method="predict_proba", params=_weighted(one, given)
            )
            for one, target in ((self.estimator, labels), (self._member(), cells))
        ]
        told = told_apart(pairs, self._gradients(asked, found[1]), weights, clusters)
        if self._threshold is not None:
            alike = many_alike(hashes, clusters)[:, None]
            shipped = (self.estimator_, self.propensity_)
            found = [np.where(alike, one.predict_proba(X), own) for one, own in zip(shipped, found, strict=True)]
        a, score = self._gradients(asked, found[1]), self._scores(np.asarray(found[0], dtype=np.float64))
        measures = measures_of(pairs, weights)
        constraints, after = solved(asked, a, measures, score, weights, limit, self._threshold, clusters)
        check_told(constraints, told, "bring columns that tell it, or more rows.")
        fitted = Fitted(score, after, codes if score.ndim == 1 else None, weights, clusters)
        for note in fit_notes(constraints, measures, limit, self._threshold, fitted):
            warnings.warn(f"TiltedClassifier: {note}", UserWarning, stacklevel=3)
        return constraints

    def _folds(self, group: Integers, codes: Integers, clusters: Integers | None) -> Any:
        """Return a splitter; a number of folds is drawn by chance, as rows may be sorted, and keeps copies together."""
        splitter = check_cv(self.cv)
        if self.cv is not None and not isinstance(self.cv, Integral):
            return splitter
        strata = group * len(self.classes_) + codes
        return PredefinedSplit(group_folds(group, clusters, splitter.get_n_splits(), 0, strata))

    def _group(self, sensitive_features: ArrayLike, X: Any, rows: int) -> Integers:
        """Return the place of each row's group, the reference last."""
        values = self._groups_of(sensitive_features, X)
        found, counts = np.unique(values, return_counts=True)
        if values.shape != (rows,) or found.size < 2:
            raise DataError(
                f"`sensitive_features` must be a group for each of {rows} rows, two groups at least, got shape "
                f"{values.shape} and {found.size} groups.",
                "pass one column.",
            )
        last = found[counts.argmax()] if self.reference is None else self.reference
        if last not in found:
            raise DataError(
                f"`reference` must be one of the groups, got {shown(last)}.", f"they are {listed(found.tolist())}."
            )
        self.groups_ = np.append(found[found != last], last)
        return np.asarray((values[:, None] == self.groups_).argmax(axis=1))

    def _groups_of(self, sensitive_features: ArrayLike, X: Any) -> NDArray[Any]:
        """Return the groups as an array, of a table of one column too."""
        check_index("sensitive_features", sensitive_features, X, "X")
        values = np.asarray(sensitive_features)
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        empty = clean_column(raw_column("sensitive_features", values)).null_count() if values.ndim == 1 else 0
        if empty:
            raise DataError(
                f"`sensitive_features` must be a group for each row, got {empty} that are missing.",
                "leave these rows out, or give them a group of their own.",
            )
        return values

    def evaluate(
        self,
        X: Any,
        y: ArrayLike,
        sensitive_features: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        audited: Any = None,
        confidence: float = 0.95,
    ) -> Bill:
        """Return gaps, error rates and accuracy before and after, as `ScoreTilt.bill`, on rows it was not fitted on.

        `audited` is the group that is compared with the reference, where there are several. Of two classes.
        """
        score, shift = self._parts(X)
        known = [str(one) for one in self.groups_]
        who = known[0] if audited is None and len(known) == 2 else str(audited)
        if len(self.classes_) > 2 or who not in known[:-1]:
            raise DataError(
                f"`audited` must be one of {listed(known[:-1])}, of a classifier of two classes, got {who!r} and "
                f"{len(self.classes_)} classes.",
                "name a group that the classifier was fitted on.",
            )
        labels = self._groups_of(sensitive_features, X).astype(str)
        compared = np.flatnonzero(np.isin(labels, (who, known[-1])))
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)[compared]
        own, moved = score[compared], 0.0 if shift is None else shift[compared]
        columns = getattr(self, "feature_names_in_", [f"x{place}" for place in range(self.n_features_in_)])
        told = {
            "criterion": self.metric,
            "limit": self.max_gap,
            "threshold": self.threshold,
            "group": "group",
            "audited": who,
            "reference": known[-1],
            "use_group": False,
            "classes": 2,
            "favours_low": False,
            "notes": [],
        }
        told |= {"constraints": [asdict(one) for one in self.constraints_]}
        told |= {"features": [str(one) for one in columns]}

        def step(part: float) -> Floats:
            return repaired(own, part * moved, self._threshold)

        rows, outcome = Rows.of(labels[compared] == who, weights), np.asarray(y)[compared] == self.classes_[1]
        return bill_of(rows, step, outcome.astype(np.intp), self._threshold or 0.5, confidence, (), told)

    def _asked(
        self, group: Integers, codes: Integers, limit: float, weights: Floats
    ) -> tuple[list[Constraint], list[tuple[Booleans, Booleans]]]:
        """Return what is to be within the limit, and the rows whose means are compared."""
        asked, members, last = [], [], len(self.groups_) - 1
        for place in range(last):
            for event in EVENTS[self.metric]:
                counted = np.ones_like(group) > 0 if event == ALL else codes == OUTCOMES[event]
                pair = counted & (group == place), counted & (group == last)
                names = str(self.groups_[place]), str(self.groups_[last])
                if min(int(who.sum()) for who in pair) < MINIMUM_ROWS:
                    raise DataError(
                        f"`sensitive_features` must have {MINIMUM_ROWS} rows of each group at least, got fewer for "
                        f"{self.metric!r} of {names[0]!r} against {names[1]!r}.",
                        "join groups, or bring more rows.",
                    )
                shares = [float(weights @ who / weights.sum()) for who in pair]
                for y in asked_classes(len(self.classes_), limit):
                    asked.append(Constraint(*names, event, y, (shares[0], shares[1])))
                    members.append(pair)
        return asked, members

    def _gradients(self, asked: Any, chances: Floats) -> Floats:
        """Return a of each constraint from the chances of groups, or of groups and classes in this order."""
        names = [str(one) for one in self.groups_]
        if EVENTS[self.metric] == (ALL,):
            cells: list[Cell] = [(name, ALL) for name in names]
        else:
            cells = [(name, event) for name in names for event in OUTCOMES]
        return gradients(asked, dict(zip(cells, chances.T, strict=True)), None)

    @property
    def multiplier_(self) -> float | None:
        """The multiplier of the only constraint."""
        return only(self.constraints_, "multiplier")

    @property
    def gap_before_(self) -> float | None:
        """The gap of cross-fitted scores before."""
        return only(self.constraints_, "gap_before")

    @property
    def gap_after_(self) -> float | None:
        """The same, after."""
        return only(self.constraints_, "gap_after")

    @property
    def _threshold(self) -> float | None:
        """Decisions are 1 above ½, as scikit-learn's are, not at it."""
        given = 0.5 if self.threshold is None and self.metric == DECISIONS else self.threshold
        return None if given is None else float(np.nextafter(given, 1.0))

    def _classifier(self, given: Any) -> Any:
        return LogisticRegression() if given is None else clone(given)

    def _scores(self, probabilities: Floats) -> Floats:
        """Return W(1|x) of two classes, all of more."""
        return probabilities[:, 1] if len(self.classes_) == 2 else probabilities

    def _parts(self, X: Any) -> tuple[Floats, Floats | None]:
        """Return the scores before the tilt, and by how much they are shifted; None where they are not."""
        check_is_fitted(self)
        score = self._scores(np.asarray(self.estimator_.predict_proba(X), dtype=np.float64))
        validate_data(self, X, reset=False, skip_check_array=True)
        t = np.array([one.multiplier for one in self.constraints_])
        if self.propensity_ is None or not t.any():
            return score, None
        a = self._gradients(self.constraints_, np.asarray(self.propensity_.predict_proba(X), dtype=np.float64))
        classes = np.array([one.score_class for one in self.constraints_])
        return score, shifts(t, a, classes, len(self.classes_))

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of the classes, tilted unless decisions meet the metric."""
        score, shift = self._parts(X)
        if shift is not None and self._threshold is None:
            score = repaired(score, shift)
        return np.column_stack([1.0 - score, score]) if score.ndim == 1 else score

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row."""
        score, shift = self._parts(X)
        moves = shift is not None or self._threshold is not None
        after = repaired(score, 0.0 if shift is None else shift, self._threshold) if moves else score
        places = (after > 0.5).astype(np.intp) if after.ndim == 1 else after.argmax(axis=1)
        return np.asarray(self.classes_[places])

    def __sklearn_tags__(self) -> Tags:
        """As of scikit-learn: what the classifier within can read and tell apart."""
        tags = super().__sklearn_tags__()
        within = get_tags(self._classifier(self.estimator))
        tags.input_tags.sparse = within.input_tags.sparse
        tags.input_tags.allow_nan = within.input_tags.allow_nan
        tags.classifier_tags.multi_class = within.classifier_tags is None or within.classifier_tags.multi_class
        return tags


def _weighted(model: Any, weights: Floats | None) -> dict[str, Floats]:
    """Return how weights are passed to a classifier; a pipeline hands them to its last step."""
    name = f"{model.steps[-1][0]}__sample_weight" if isinstance(model, Pipeline) else "sample_weight"
    return {} if weights is None else {name: weights}


def _columns_of(X: Any) -> dict[str, Floats]:
    """Return the columns of any X as numbers, by which rows that are alike are known: texts by their codes."""
    is_sparse = bool(issparse(X))
    if is_sparse:  # equal rows have equal sums
        return {"": np.asarray(X @ np.random.default_rng(0).standard_normal(X.shape[1]), dtype=np.float64)}
    values = np.asarray(X)
    found = values.reshape(len(values), -1).T
    if values.dtype.kind not in "biuf":
        found = np.array([np.unique(column.astype(str), return_inverse=True)[1] for column in found])
    return {str(place): column for place, column in enumerate(np.ascontiguousarray(found, dtype=np.float64))}
