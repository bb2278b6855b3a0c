"""The fixed model as a channel W(y|x): probabilities of the outcomes per row, from scores or from a model."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.engines.columns import column_of_values
from tiltlens.engines.messages import check_columns, first_line, listed, shown, text_of
from tiltlens.engines.tables import native_columns
from tiltlens.errors import DataError, DistributionError
from tiltlens.limits import LISTED_VALUES, SCORE_ROUNDING

Floats = NDArray[np.float64]
RowName = Callable[[int], str]  # how a message calls the row at a place
Booleans = NDArray[np.bool_]

ORDERED = ({"0", "1"}, {"False", "True"})  # outcomes of which everybody knows the high one
RANGE_HINT = (
    "pass probabilities: divide percentages by 100 and scores out of 10 by 10; turn log-odds into 1/(1+exp(−z))."
)


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """W(y|x) on the rows of a table.

    `scores` is (n,) = W(1|x) for two outcomes, else (n, K); NaN in the rows that `missing` sets aside. `kind` is
    "decisions" where every probability is 0 or 1: that is another channel than the scores it came from. `words` are
    those found where decisions are words, of which 1 is the favourable one: `favourable_word` checks those of all rows.
    """

    scores: Floats
    kind: Literal["scores", "decisions"]
    outcomes: int
    favourable: int
    labels: tuple[str, ...]
    missing: Booleans
    words: tuple[str, ...] | None = None

    def reversed(self) -> Channel:
        """Return the channel of two outcomes as that of the other one, 1 − W; a person wants what they wanted."""
        return replace(self, scores=1.0 - self.scores, favourable=1 - self.favourable, labels=self.labels[::-1])

    def of_favourable(self) -> Floats:
        """Return the probability of the favourable outcome per row."""
        if self.scores.ndim == 2:
            return self.scores[:, self.favourable]
        return self.scores if self.favourable == 1 else 1.0 - self.scores


def channel_of(
    data: Any,
    table: pl.DataFrame,
    *,
    scores: Any = None,
    model: Any = None,
    features: Sequence[str] = (),
    favourable: Any = "high",
    threshold: float | None = None,
    labels: tuple[str, ...] = (),
    row_name: RowName = "row {}".format,
) -> Channel:
    """Return the channel given by exactly one of `scores` and `model`.

    `table` holds the scores and features, clean; `data` is the user's own table, whose `features` the model sees as it
    saw them when it was fitted. `labels` name the outcomes where columns do not, `row_name` a row in a message.
    """
    check_one_of_two(scores, model)
    words = None
    if model is not None:
        matrix, named = model_matrix(model, data, table, features)
        matrix, missing = _checked("model", matrix, row_name), np.zeros(table.height, dtype=np.bool_)
    else:
        matrix, named, words = _given_scores(scores, table, favourable)
        missing = np.logical_or.reduce([np.isnan(column) for column in matrix.T])
        matrix = _checked_known(matrix, missing, row_name) if missing.any() else _checked("scores", matrix, row_name)
    wanted = favourable if words is None else 1
    return replace(_channel(matrix, missing, labels or named, wanted, threshold), words=words)


def check_one_of_two(scores: Any, model: Any) -> None:
    """Raise unless exactly one of `scores` and `model` is given."""
    if (scores is None) == (model is None):
        got = "neither" if scores is None else "both"
        raise DataError(
            f"exactly one of `scores` and `model` must be given, got {got}.",
            "scores are columns or an array of probabilities; a model makes them from `features`.",
        )


def score_columns(scores: Any, names: Sequence[str]) -> list[str]:
    """Return the columns that `scores` names, none where it is an array."""
    if isinstance(scores, str):
        scores = [scores]
    is_names = isinstance(scores, (list, tuple)) and len(scores) > 0 and all(isinstance(s, str) for s in scores)
    if not is_names:
        return []
    check_columns("scores", scores, names)
    return list(scores)


def _given_scores(
    scores: Any, table: pl.DataFrame, favourable: Any
) -> tuple[Floats, tuple[str, ...], tuple[str, ...] | None]:
    """Return scores as an (n, 1) or (n, K) matrix, the outcomes where columns name them, and words where these do."""
    columns = score_columns(scores, table.columns)
    if not columns:
        return *given_matrix(scores, table.height, favourable), None
    if len(columns) == 1 and is_words(table[columns[0]]):
        decisions, words = decisions_in_words("scores", table[columns[0]], favourable)
        return decisions[:, None], (), words
    parts = [_numeric_scores(f"column {shown(name)}", table[name]) for name in columns]
    return (parts[0][:, None], (), None) if len(parts) == 1 else (np.column_stack(parts), tuple(columns), None)


def is_words(column: pl.Series) -> bool:
    """Return whether a column holds texts."""
    return column.dtype in (pl.String, pl.Enum)


def decisions_in_words(argument: str, column: pl.Series, favourable: Any) -> tuple[Floats, tuple[str, ...]]:
    """Return 1 for the favourable word and 0 for others, NaN where missing; and the words that were found."""
    texts = column.cast(pl.String)
    words = tuple(texts.drop_nulls().unique().sort().head(LISTED_VALUES))
    _check_two(argument, words)
    return (texts == text_of(favourable)).cast(pl.Float64).to_numpy(), words


def favourable_word(argument: str, favourable: Any, words: tuple[str, ...]) -> str:
    """Return the word of decisions that a person wants; `words` are those of all rows."""
    _check_two(argument, words)
    if words and text_of(favourable) not in words:
        raise _not_an_outcome(favourable, words)
    return text_of(favourable)


def _check_two(argument: str, words: tuple[str, ...]) -> None:
    if len(words) > 2:
        raise DistributionError(
            f"`{argument}` must be numbers, or decisions in two words, got {listed(words)}.",
            "a score is a probability; a decision is 0 or 1, or one of two words such as 'approved' and 'denied'.",
        )


def given_matrix(scores: Any, rows: int, favourable: Any) -> tuple[Floats, tuple[str, ...]]:
    """Return an array of scores as an (n, 1) or (n, K) matrix without gaps, and the outcomes where words name them."""
    labels: tuple[str, ...] = ()
    if np.ndim(scores) == 1:
        column = column_of_values("scores", scores, rows)
        if is_words(column):
            decisions, words = decisions_in_words("scores", column, favourable)
            wanted = favourable_word("scores", favourable, words)
            labels = (next((word for word in words if word != wanted), f"not {wanted}"), wanted)
        else:
            decisions = _numeric_scores("the array", column)
        matrix = decisions[:, None]
    else:
        matrix = _number_matrix("scores", scores)
    if matrix.shape[0] != rows:
        raise DataError(
            f"`scores` must have one row per row of the data, got {matrix.shape[0]} for {rows} rows.",
            "pass the scores of the same rows, in the same order.",
        )
    missing = np.isnan(matrix).any(axis=1)
    if missing.any():
        raise DistributionError(
            f"`scores` must not be missing, got {int(missing.sum())} NaN, the first in row {int(np.argmax(missing))}.",
            "put the scores in a column of the data: rows without a score are then set aside and counted.",
        )
    return matrix, labels


def _numeric_scores(place: str, column: pl.Series) -> Floats:
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise DistributionError(
            f"`scores` must be numbers between 0 and 1, got {column.dtype} in {place}.",
            "a score is a probability, or a decision written as 0 and 1.",
        )
    return column.cast(pl.Float64).to_numpy()


def _number_matrix(argument: str, values: Any) -> Floats:
    """Return what a user or a model gave as an (n, K) matrix of numbers."""
    try:
        matrix = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DistributionError(
            f"`{argument}` must give numbers, got {type(values).__name__}: {first_line(error)}",
            "one probability per row, or one column per outcome.",
        ) from None
    if matrix.ndim not in (1, 2) or matrix.shape[-1] == 0:
        raise DistributionError(
            f"`{argument}` must give shape (n,) or (n, K), got {matrix.shape}.",
            "one probability per row, or one column per outcome.",
        )
    return matrix if matrix.ndim == 2 else matrix[:, None]


def _checked_known(matrix: Floats, missing: Booleans, row_name: RowName) -> Floats:
    """Return the scores, checked where they are not missing."""
    known = np.flatnonzero(~missing)
    checked = np.full(matrix.shape, np.nan)
    checked[known] = _checked("scores", matrix[known], lambda row: row_name(int(known[row])))
    return checked


def _checked(argument: str, matrix: Floats, row_name: RowName) -> Floats:
    """Return probabilities in [0, 1] whose rows sum to 1, or say which row is not."""

    def row(bad: Booleans) -> str:
        return row_name(int(np.argmax(bad.any(axis=1))))

    if matrix.size and not (matrix.min() >= 0.0 and matrix.max() <= 1.0):
        matrix = _within(argument, matrix, row)
    if matrix.shape[1] == 1:
        return matrix
    totals = matrix.sum(axis=1, keepdims=True)
    off = np.abs(totals - 1.0) > SCORE_ROUNDING
    if off.any():
        raise DistributionError(
            f"each row of `{argument}` must sum to 1, got {totals[off][0]:.6g} in {row(off)}.",
            "the columns are the probabilities of all outcomes; divide each row by its sum if they were rounded.",
        )
    return np.asarray(matrix / totals)


def _within(argument: str, matrix: Floats, row: Callable[[Booleans], str]) -> Floats:
    """Return numbers that miss [0, 1] by rounding as probabilities, and raise for others."""
    bad = ~np.isfinite(matrix)
    if bad.any():
        raise DistributionError(
            f"`{argument}` must give finite scores, got {matrix[bad][0]} in {row(bad)}.",
            "a model that cannot score a row needs its missing values filled first.",
        )
    bad = (matrix < -SCORE_ROUNDING) | (matrix > 1.0 + SCORE_ROUNDING)
    if bad.any():
        raise DistributionError(
            f"`{argument}` must give scores between 0 and 1, got {matrix[bad][0]!s} in {row(bad)}.", RANGE_HINT
        )
    return np.clip(matrix, 0.0, 1.0)


def _channel(
    matrix: Floats, missing: Booleans, labels: tuple[str, ...], favourable: Any, threshold: float | None
) -> Channel:
    """Return the channel of checked probabilities; two columns say the same as one of them alone.

    Of two outcomes with names the score is the probability of the favourable one: they have no order as 0 and 1 have.
    """
    outcomes = max(matrix.shape[1], 2)
    labels = labels or tuple(str(outcome) for outcome in range(outcomes))
    wanted = favourable_index(favourable, labels)
    scores = matrix[:, -1] if outcomes == 2 else matrix
    if outcomes == 2 and wanted == 0 and set(labels) not in ORDERED:
        scores, labels, wanted = 1.0 - scores, labels[::-1], 1
    if threshold is not None:
        limit = _check_threshold(threshold, outcomes)
        scores = np.where(missing, np.nan, scores >= limit)
    kind: Literal["scores", "decisions"] = "decisions" if _are_decisions(scores, missing) else "scores"
    return Channel(scores, kind, outcomes, wanted, labels, missing)


def _are_decisions(scores: Floats, missing: Booleans) -> bool:
    """Return whether every known score is 0 or 1; the first few rows often tell."""
    few = slice(0, 1000)
    return all(
        np.isin(part[~gone], (0.0, 1.0)).all() for part, gone in ((scores[few], missing[few]), (scores, missing))
    )


def _check_threshold(threshold: Any, outcomes: int) -> float:
    is_number = isinstance(threshold, numbers.Real) and not isinstance(threshold, bool)
    if not is_number or not 0 < threshold <= 1:
        raise DataError(
            f"`threshold` must be a number above 0 and at most 1, got {shown(threshold)}.",
            "a row is decided 1 where its score is at or above the threshold.",
        )
    if outcomes > 2:
        raise DataError(
            f"`threshold` must be left out for scores of {outcomes} outcomes, got {shown(threshold)}.",
            "pass the decisions themselves, one 0/1 column per outcome.",
        )
    return float(threshold)


def favourable_index(favourable: Any, labels: tuple[str, ...]) -> int:
    """Return the outcome a person wants: a label; of 0 and 1 also "high", "low" and a number that is one of them."""
    if text_of(favourable) in labels:
        return labels.index(text_of(favourable))
    if set(labels) in ORDERED:
        if isinstance(favourable, str) and favourable in ("high", "low"):
            return int(favourable == "high")
        if isinstance(favourable, numbers.Integral) and favourable in (0, 1):
            return int(favourable)
    raise _not_an_outcome(favourable, labels)


def _not_an_outcome(favourable: Any, labels: Sequence[str]) -> DataError:
    if set(labels) in ORDERED:
        rule, example = "'high', 'low' or one of the outcomes", ""
    else:
        rule = "the name of an outcome where these are not 0 and 1"
        example = f"; which does a person want? For example favourable={shown(labels[0])}"
    return DataError(
        f"`favourable` must be {rule}, got {shown(favourable)}.", f"the outcomes are {listed(labels)}{example}."
    )


def model_matrix(model: Any, data: Any, table: pl.DataFrame, features: Sequence[str]) -> tuple[Floats, tuple[str, ...]]:
    """Return what a fitted model or a function says of every row, and the names of its outcomes."""
    _check_model(model, features)
    predict = getattr(model, "predict_proba", model)
    inputs = _model_inputs(model, data, table, features)
    try:
        raw = predict(inputs)
    except Exception as error:  # the user's code: whatever it raises, the audit could not ask it
        raise DataError(
            f"`model` must score the features, got {type(error).__name__}: {first_line(error)}",
            f"it was given {type(inputs).__name__} with {listed(list(features))}; is it fitted on these columns?",
        ) from error
    matrix = _number_matrix("model", raw)
    if matrix.shape[0] != table.height:
        raise DistributionError(
            f"`model` must give one score per row, got {matrix.shape[0]} for {table.height} rows.",
            "it must not drop or repeat rows.",
        )
    classes = tuple(text_of(label) for label in getattr(model, "classes_", ()))
    return matrix, classes if len(classes) == max(matrix.shape[1], 2) else ()


def _check_model(model: Any, features: Sequence[str]) -> None:
    if isinstance(model, type):
        raise DataError(f"`model` must be a fitted model, got the class {model.__name__}.", "fit one and pass that.")
    if not hasattr(model, "predict_proba") and not callable(model):
        raise DataError(
            f"`model` must have predict_proba or be a function, got {type(model).__name__}.",
            "pass a function of the features that returns probabilities, for example booster.predict.",
        )
    if not features:
        raise DataError("`features` must name the columns that `model` sees, got none.", "list them in its order.")
    unknown = [name for name in _fitted_names(model) if name not in set(features)]
    if unknown:
        raise DataError(
            f"`features` must hold every column that `model` was fitted on, got none named {listed(unknown)}.",
            "add them to `features`, or pass `scores` instead, made with all its columns.",
        )


def _fitted_names(model: Any) -> list[str]:
    """Return the names of the columns a model was fitted on, none where it was fitted on an array."""
    for attribute in ("feature_names_in_", "feature_name_", "feature_names_"):
        try:
            names = getattr(model, attribute, None)
        except Exception:  # an unfitted LightGBM or XGBoost model raises here; predict_proba will say so
            names = None
        if names is not None and not callable(names):
            listed_names = [str(name) for name in names]
            is_invented = all(name == f"Column_{place}" for place, name in enumerate(listed_names))
            return [] if is_invented else listed_names
    return []


def model_columns(model: Any, features: Sequence[str]) -> list[str]:
    """Return the columns that a model sees, none where there is no model."""
    return [] if model is None else _fitted_names(model) or list(features)


def model_notes(model: Any, features: Sequence[str]) -> list[str]:
    """Return a note on the order of columns where a model knows them by their place alone."""
    if not hasattr(model, "predict_proba") or _fitted_names(model):
        return []
    return [f"the model knows no column names: it was given {listed(features)} in this order"]


def _model_inputs(model: Any, data: Any, table: pl.DataFrame, features: Sequence[str]) -> Any:
    """Return the features as the model expects them.

    A function gets the user's own kind of table. An estimator fitted with names gets a pandas or Polars frame of
    those columns in their order; one fitted without names gets an array, since it would complain about names.
    """
    if not hasattr(model, "predict_proba"):
        return native_columns(data, table, features)
    names = _fitted_names(model)
    if not names:
        return _feature_matrix(table.select(features))
    inputs = native_columns(data, table, names)
    is_frame = hasattr(inputs, "iloc") or isinstance(inputs, pl.DataFrame)
    return inputs if is_frame else pl.DataFrame(inputs)


def _feature_matrix(table: pl.DataFrame) -> Any:
    """Return the features as numbers, or as objects where some are not."""
    if all(dtype.is_numeric() or dtype == pl.Boolean for dtype in table.dtypes):
        return table.select(pl.all().cast(pl.Float64).fill_null(np.nan)).to_numpy()
    return table.to_numpy().astype(object)
