"""The observed outcome of each row: a column of two values, the score being the probability of one; or a cost."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl

from tiltlens.errors import DataError, listed, shown
from tiltlens.estimators.error_rates import UNKNOWN, WITH, WITHOUT
from tiltlens.estimators.influence import Integers
from tiltlens.formats import text_of
from tiltlens.limits import LISTED_VALUES
from tiltlens.paper.checks import Floats
from tiltlens.rows.scores import Channel
from tiltlens.rows.weights import numbers_of

FEW_LISTED = 6  # values of an outcome in a message: more tell nothing more
CRITERIA = {"fpr": WITHOUT, "fnr": WITH}  # of each metric, the outcome of the people it is about
DECIDED = {"fdr": 1, "for": 0}  # of metrics of decisions, the decision of the people they are about
METRICS = (*CRITERIA, *DECIDED)
Meant = dict[str, int | None]  # the values of a column, and the outcome that each is; None where it has no name
PLAIN = {"0": WITHOUT, "1": WITH, "false": WITHOUT, "true": WITH}


def check_metric(metric: object, outcome: object, score_type: str) -> None:
    """Raise unless the metric is known, is of probabilities or decisions, and there is an outcome to judge by."""
    if metric is not None and metric not in METRICS:
        raise DataError(
            f"`metric` must be one of {', '.join(map(repr, METRICS))}, got {shown(metric)}.",
            "leave it out to audit the difference of the scores themselves.",
        )
    if metric is not None and outcome is None:
        raise DataError(
            f"`metric` must come with `outcome`, got {shown(metric)} alone.",
            "name the column of true outcomes, for example outcome='repaid'.",
        )
    if metric is not None and score_type != "probability":
        raise DataError(
            f"`metric` must be left out for score_type={shown(score_type)}, got {shown(metric)}.",
            "an error rate is of probabilities or decisions.",
        )


def wrong_decisions(metric: str, channel: Channel, y_true: Integers) -> Channel:
    """Return whether each decision is wrong as the channel that is audited; a person wants a right one."""
    if channel.outcomes != 2 or not np.isin(channel.scores[~channel.missing], (0.0, 1.0)).all():
        raise DataError(
            f"`metric` must be 'fpr' or 'fnr' for scores, got {shown(metric)}.",
            "give `threshold`, the score from which the decision is 1.",
        )
    wrong = np.where(channel.missing, np.nan, (y_true == WITH) != (channel.scores == 1.0))
    return replace(channel, scores=wrong, kind="decisions", favourable=0, labels=("correct", "wrong"), words=None)


def outcome_names(channel: Channel, favourable: object) -> dict[str, int]:
    """Return the outcome that each name stands for: 0 and 1, and those of the scores where these have names."""
    if channel.words is not None:
        return PLAIN | {text_of(favourable).casefold(): WITH}
    if channel.outcomes > 2:
        return PLAIN
    return PLAIN | {label.casefold(): outcome for outcome, label in enumerate(channel.labels)}


def outcome_codes(column: pl.Series, names: dict[str, int]) -> tuple[Integers, Meant]:
    """Return 0, 1 or `UNKNOWN` for each row, and some of the values: `check_outcome` judges those of all rows.

    A value without a name counts as 0: of two words one is enough to know the other.
    """
    observed = column.fill_nan(None) if column.dtype.is_float() else column
    values = observed.drop_nulls().unique().sort().to_list()
    having = [value for value in values if names.get(text_of(value).casefold()) == WITH]
    has_it = observed.is_in(having).fill_null(value=False).to_numpy()
    codes = np.where(observed.is_null().to_numpy(), UNKNOWN, np.where(has_it, WITH, WITHOUT))
    return codes, {text_of(value): names.get(text_of(value).casefold()) for value in values[:LISTED_VALUES]}


def observed_costs(column: pl.Series) -> Floats:
    """Return the observed cost of each row, NaN where it is missing."""
    costs = numbers_of("outcome", column)
    if np.isinf(costs).any():
        raise DataError(
            f"`outcome` must be finite costs, got {costs[np.isinf(costs)][0]} in column {shown(column.name)}.",
            "leave unknown costs empty.",
        )
    return costs


def _is_number(value: str) -> bool:
    """Return whether a value is a number: with 1 and 2 it is unclear which is the outcome."""
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def check_outcome(meanings: Meant, classes: int) -> None:
    """Raise unless the values that were meanings are two outcomes of which one is known to be 1; or one of these."""
    if classes > 2:
        raise DataError(
            f"`outcome` must be left out for scores of {classes} classes, got one.",
            "pass the probability of one class, or a column of decisions, as `scores`.",
        )
    values, meant = list(meanings), list(meanings.values())
    if len(values) > 2:
        few = listed(values) if len(values) <= FEW_LISTED else f"{listed(values[:FEW_LISTED])} and more"
        raise DataError(f"`outcome` must have two values, got {few}.", "make a column of 0 and 1 first.")
    has_one_name = set(meant) == {None, WITH} and not any(_is_number(value) for value in values if value not in PLAIN)
    if not has_one_name and (None in meant or len(set(meant)) < len(values) or not values):
        got = listed(values) if values else "only missing values"
        raise DataError(
            f"`outcome` must be 0 and 1, or name what the score is the probability of, got {got}.",
            "write it as 0 and 1; 1 is what a score of 1 predicts.",
        )
