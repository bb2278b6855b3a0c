"""A scikit-learn classifier whose scores are tilted until two groups' gap is no larger than a limit."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.utils import Tags, check_array, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats
from tiltlens.repair.least_change import multiplier, repaired
from tiltlens.repair.score_tilt import DECISIONS, MEAN, gradient
from tiltlens.repair.solve import checked_limit, decision_multiplier

NO_GROUPS = (
    "TiltedClassifier was fitted without sensitive_features: nothing is repaired. With metadata routing, "
    "set_fit_request(sensitive_features=True)."
)


class TiltedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of two classes with the least change of its scores that closes the gap between two groups.

    The group is needed to fit, not to predict: a model of it from the same columns says whose scores move. Multiplier
    and models behind it are cross-fitted, so that the gap of new rows is the limit up to chance.

    Parameters
    ----------
    estimator
        A classifier with `predict_proba`; logistic regression by default.
    limit
        The largest gap that is allowed.
    criterion
        "mean score": `predict_proba` is tilted. "decisions": `predict` has equal rates, and `predict_proba` is that of
        `estimator`.
    membership
        A classifier of the group from the same columns; logistic regression by default.
    cv
        How many folds the multiplier is cross-fitted with, or a splitter.

    Attributes
    ----------
    estimator_, membership_
        Fitted on all rows; `membership_` is None without groups.
    groups_
        The two groups in order: a gap is the mean score of the first less that of the second.
    multiplier_, gap_before_, gap_after_
        Of the tilt, and the gap of cross-fitted scores without it and with it.

    Examples
    --------
    >>> import numpy as np
    >>> import tiltlens as tl
    >>> rng = np.random.default_rng(0)
    >>> sex, skill = rng.choice(["men", "women"], 400), rng.normal(size=(400, 1))
    >>> y = rng.random(400) < 1 / (1 + np.exp(-skill[:, 0] - (sex == "men")))
    >>> skill[:, 0] += sex == "men"
    >>> model = tl.TiltedClassifier(limit=0.0).fit(skill, y, sensitive_features=sex)
    >>> round(model.gap_before_, 2), abs(round(model.gap_after_, 6))
    (0.19, 0.0)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        limit: float = 0.0,
        criterion: str = MEAN,
        membership: Any = None,
        cv: Any = 5,
    ) -> None:
        self.estimator = estimator
        self.limit = limit
        self.criterion = criterion
        self.membership = membership
        self.cv = cv

    def fit(self, X: Any, y: ArrayLike, sensitive_features: ArrayLike | None = None) -> TiltedClassifier:
        """Fit the classifier, the model of the group, and the multiplier."""
        limit = checked_limit(self.limit)
        if self.criterion not in (MEAN, DECISIONS):
            raise DataError(f"`criterion` must be {MEAN!r} or {DECISIONS!r}, got {self.criterion!r}.", "see its docs.")
        validate_data(self, X, skip_check_array=True)
        labels = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, input_name="y")
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if self.classes_.size != 2:
            noun = "class" if self.classes_.size == 1 else "classes"
            raise ValueError(
                f"Only binary classification is supported: y has {self.classes_.size} {noun}; the estimator needs two."
            )
        self.estimator_ = self._classifier(self.estimator).fit(X, labels)
        if sensitive_features is None:
            warnings.warn(NO_GROUPS, UserWarning, stacklevel=2)
            self.membership_, self.groups_, self.multiplier_ = None, np.empty(0), 0.0
            return self
        audited = self._audited(sensitive_features, labels.size)
        score = self._cross_fitted(self.estimator, X, labels)
        chance = self._cross_fitted(self.membership, X, audited)
        self.membership_ = self._classifier(self.membership).fit(X, audited)
        self.shares_ = float(audited.mean()), 1.0 - float(audited.mean())
        self._solve(score, gradient(chance, 1.0 - chance, self.shares_), audited == 1, limit)
        return self

    def _audited(self, sensitive_features: ArrayLike, rows: int) -> NDArray[np.int64]:
        values = np.asarray(sensitive_features)
        self.groups_ = np.unique(values)
        if values.shape != (rows,) or self.groups_.size != 2:
            raise DataError(
                f"`sensitive_features` must be one of two groups for each of {rows} rows, got shape {values.shape} and "
                f"{self.groups_.size} groups.",
                "compare two groups at a time.",
            )
        return np.asarray(values == self.groups_[0], dtype=np.int64)

    def _solve(self, score: Floats, a: Floats, audited: Any, limit: float) -> None:
        def gap_at(t: float) -> float:
            after = self._after(score, t * a)
            return float(after[audited].mean() - after[~audited].mean())

        self.gap_before_, self.multiplier_ = gap_at(0.0), 0.0
        if abs(self.gap_before_) > limit:
            solve = multiplier if self.criterion == MEAN else decision_multiplier
            self.multiplier_ = solve(gap_at, math.copysign(limit, self.gap_before_))
        self.gap_after_ = gap_at(self.multiplier_)

    def _after(self, score: Floats, shift: Floats) -> Floats:
        return repaired(score, shift, None if self.criterion == MEAN else 0.5)

    def _classifier(self, given: Any) -> Any:
        return LogisticRegression() if given is None else clone(given)

    def _cross_fitted(self, given: Any, X: Any, labels: Any) -> Floats:
        found = cross_val_predict(self._classifier(given), X, labels, cv=self.cv, method="predict_proba")
        return np.asarray(found[:, 1], dtype=np.float64)

    def _parts(self, X: Any) -> tuple[Floats, Floats]:
        """Return the scores before the tilt, and by how much they are shifted."""
        check_is_fitted(self)
        score = np.asarray(self.estimator_.predict_proba(X)[:, 1], dtype=np.float64)
        validate_data(self, X, reset=False, skip_check_array=True)
        if self.membership_ is None or not self.multiplier_:
            return score, np.zeros_like(score)
        chance = np.asarray(self.membership_.predict_proba(X)[:, 1], dtype=np.float64)
        return score, self.multiplier_ * gradient(chance, 1.0 - chance, self.shares_)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of both classes, tilted where the criterion is the mean score."""
        score, shift = self._parts(X)
        if self.criterion == MEAN and shift.any():
            score = repaired(score, shift)
        return np.column_stack([1.0 - score, score])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row."""
        score, shift = self._parts(X)
        after = self._after(score, shift) if shift.any() else score
        return np.asarray(self.classes_[(after > 0.5).astype(np.intp)])

    def __sklearn_tags__(self) -> Tags:
        """As of scikit-learn: two classes, and what the classifier within can read."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        within = get_tags(self._classifier(self.estimator))
        tags.input_tags.sparse = within.input_tags.sparse
        tags.input_tags.allow_nan = within.input_tags.allow_nan
        return tags
