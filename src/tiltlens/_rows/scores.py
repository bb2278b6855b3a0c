"""The fixed model as a channel W(y|x): probabilities of the outcomes per row, from scores or from a model."""

from __future__ import annotations

import numbers
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._formats import text_of
from tiltlens._limits import LARGEST, LISTED_VALUES, SCORE_ROUNDING
from tiltlens._rows.predictions import AS_AMOUNT, METHODS, UserModel, model_matrix, number_matrix
from tiltlens._sources.tables import ValuesLike, column_of_values
from tiltlens.errors import DataError, DistributionError, check_columns, names_in, quoted, quoted_list
from tiltlens.paper.checks import check_threshold

if TYPE_CHECKING:
    from tiltlens._rows.roles import ColumnRoles

TENTHS, PER_CENT = 10.0, 100.0  # the largest score out of ten, and in per cent
Floats = NDArray[np.float64]
RowName = Callable[[int], str]  # the name of the row at a position, in messages
Booleans = NDArray[np.bool_]
T = TypeVar("T")

ORDERED = ({"0", "1"}, {"False", "True"})  # outcomes with an evident high value
AMOUNTS = ("low", "high")  # the values that may be favourable for amounts
RANGE_HINT = (
    "pass probabilities: divide percentages by 100 and scores out of 10 by 10; turn log-odds into 1/(1+exp(−z)). "
    f"For money, days and other amounts, pass {AS_AMOUNT}."
)
NUMERIC_SCORES = "numbers between 0 and 1", "a score is a probability, or a decision written as 0 and 1."
NUMERIC_AMOUNTS = (
    "numbers where `score_type` is 'amount'",
    "remove currency signs and thousands separators; for decimal commas, use tl.read(path, decimal=',') "
    "(--decimal ','); decisions in words need no `score_type`.",
)
CODES = ([-1.0, 1.0], [1.0, 2.0])  # that decisions often have
CODES_HINT = "there are two values only: if they are codes of decisions, recode them as 0 and 1."
PER_CENT_HINT = (
    f"these look like percentages: divide them by 100. For amounts, such as money or days, pass {AS_AMOUNT}."
)


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """W(y|x) on the rows of a table.

    `scores` is (n,) = W(1|x) for two outcomes, else (n, K); NaN in the rows marked `missing`. `kind` is "decisions" if
    every probability is 0 or 1, which is a different channel from the scores behind them; for "amounts", `scores` are
    the amounts themselves. `words` are the words found if decisions are words, with 1 for the favourable one;
    `favourable_word` checks the words of all rows.
    """

    scores: Floats
    kind: Literal["scores", "decisions", "amounts"]
    outcomes: int
    favourable: int
    labels: tuple[str, ...]
    missing: Booleans
    words: tuple[str, ...] | None = None

    def reversed(self) -> Channel:
        """Return the channel of two outcomes as that of the other one, 1 − W, with the same favourable outcome."""
        return replace(self, scores=1.0 - self.scores, favourable=1 - self.favourable, labels=self.labels[::-1])


def channel_of(roles: ColumnRoles, data: object, table: pl.DataFrame, model: UserModel, row_name: RowName) -> Channel:
    """Return the channel given by a model or, without one, by the columns of scores.

    `table` is clean; `data` is the user's own table, from which the model takes its features as when it was fitted.
    `row_name` names a row in messages.
    """
    is_amount, words = roles.score_type == "amount", None
    if model is not None:
        matrix, named = model_scores(roles, data, table, model, row_name)
        missing = np.zeros(table.height, dtype=np.bool_)
    else:
        matrix, named, words = _read_amounts(roles, table) if is_amount else _read_scores(roles, table)
        missing = np.logical_or.reduce([np.isnan(column) for column in matrix.T])
        matrix = (_check_amounts if is_amount else _checked)("scores", matrix, missing, row_name)
    if is_amount:
        return Channel(matrix[:, 0], "amounts", 2, favourable_index(roles.favourable, AMOUNTS), AMOUNTS, missing)
    wanted = roles.favourable if words is None else 1
    return replace(_channel(matrix, missing, roles.labels or named, wanted, roles.threshold), words=words)


def model_scores(
    roles: ColumnRoles, data: object, table: pl.DataFrame, model: UserModel, row_name: RowName = "row {}".format
) -> tuple[Floats, tuple[str, ...]]:
    """Return the outputs of a model for all rows as an (n, 1) or (n, K) matrix, and the names of its outcomes."""
    matrix, labels = model_matrix(model, data, table, roles.sources, roles.score_type)
    missing = np.zeros(table.height, dtype=np.bool_)
    if roles.score_type == "amount":
        return _check_amounts("model", amount_column(matrix), missing, row_name), ()
    return _checked("model", matrix, missing, row_name), labels


def check_one_of_two(scores: object, model: object) -> None:
    """Raise unless exactly one of `scores` and `model` is given."""
    if (scores is None) == (model is None):
        got = "neither" if scores is None else "both"
        raise DataError(
            f"Exactly one of `scores` and `model` is required, got {got}.",
            "scores are columns or an array of probabilities; a model makes them from `features`.",
        )


def check_score_type(score_type: object, threshold: object = None) -> None:
    """Raise unless `score_type` is valid, and a threshold is given only for probabilities."""
    if not isinstance(score_type, str) or score_type not in METHODS:
        raise DataError(
            f"`score_type` must be 'probability' or 'amount', got {quoted(score_type)}.",
            "scores and decisions are probabilities; money, days and other numbers are amounts.",
        )
    if score_type == "amount" and threshold is not None:
        raise DataError(
            f"`threshold` must be left out for amounts, got {quoted(threshold)}.",
            "put the decisions that it makes into a column of 0 and 1, and audit that.",
        )
    if threshold is not None:
        check_threshold(threshold)


def _read_amounts(roles: ColumnRoles, table: pl.DataFrame) -> tuple[Floats, tuple[str, ...], None]:
    """Return the only column of amounts as an (n, 1) matrix."""
    if len(roles.scores) != 1:
        raise DataError(
            f"`scores` must be one column of amounts, got {quoted_list(roles.scores)}.", "audit one after another."
        )
    return _check_numeric(table[roles.scores[0]], *NUMERIC_AMOUNTS)[:, None], (), None


def _check_amounts(argument: str, matrix: Floats, missing: Booleans, row_name: RowName) -> Floats:
    """Return amounts that are finite, except in missing rows; raise for the first other row."""
    bad = ~(np.abs(matrix[:, 0]) <= LARGEST) & ~missing
    if bad.any():
        raise DistributionError(
            f"`{argument}` must give finite amounts, got {matrix[bad][0, 0]!s} in {row_name(int(np.argmax(bad)))}.",
            "leave out rows without a known amount, or leave the amount empty: such rows are set aside and counted.",
        )
    return matrix


def amount_column(matrix: Floats) -> Floats:
    """Return amounts from a user or a model, which must be one column."""
    if matrix.shape[1] != 1:
        raise DataError(
            f"`score_type='amount'` must have one number a row, got {matrix.shape[1]} columns.",
            "pass one column of amounts, or a model that gives one number for each row.",
        )
    return matrix


def kind_of(column: pl.Series) -> str:
    """Return in words what a column holds that should hold numbers: "text such as 'n/a'", "dates"."""
    if column.dtype == pl.String or isinstance(column.dtype, pl.Enum):
        values = column.drop_nulls().cast(pl.String)
        others = values.filter(values.cast(pl.Float64, strict=False).is_null())
        texts = values if others.is_empty() else others
        return "text" if texts.is_empty() else f"text such as {quoted(texts[0])}"
    return "dates" if column.dtype.is_temporal() else str(column.dtype)


def _check_numeric(column: pl.Series, rule: str, hint: str) -> Floats:
    """Return a column as numbers, NaN where missing."""
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise DistributionError(
            f"`scores` must be {rule}, got {kind_of(column)} in column {quoted(column.name)}.", hint
        )
    return column.cast(pl.Float64).to_numpy()


def score_columns(scores: object, names: Sequence[str]) -> list[str]:
    """Return the columns that `scores` names, none where it is an array."""
    columns = names_in(scores) or []
    check_columns("scores", columns, names)
    return columns


def _read_scores(roles: ColumnRoles, table: pl.DataFrame) -> tuple[Floats, tuple[str, ...], tuple[str, ...] | None]:
    """Return scores as an (n, 1) or (n, K) matrix, the outcomes if columns name them, and the words of decisions."""
    columns = [table[name] for name in roles.scores]
    if len(columns) == 1 and is_words(columns[0]):
        decisions, words = decisions_in_words("scores", columns[0], roles.favourable)
        return decisions[:, None], (), words
    parts = [_check_numeric(column, *NUMERIC_SCORES) for column in columns]
    return (parts[0][:, None], (), None) if len(parts) == 1 else (np.column_stack(parts), roles.scores, None)


def is_words(column: pl.Series) -> bool:
    """Return whether a column contains texts."""
    return column.dtype in (pl.String, pl.Enum)


def decisions_in_words(argument: str, column: pl.Series, favourable: object) -> tuple[Floats, tuple[str, ...]]:
    """Return 1 for the favourable word and 0 for others, NaN where missing; and the words that were found."""
    texts = column.cast(pl.String)
    words = tuple(texts.drop_nulls().unique().sort().head(LISTED_VALUES))
    _check_two(argument, words)
    return (texts == _word(favourable, words)).cast(pl.Float64).to_numpy(), words


def favourable_word(argument: str, favourable: object, words: tuple[str, ...]) -> str:
    """Return the word of the favourable decision; `words` are those of all rows."""
    _check_two(argument, words)
    word = _word(favourable, words)
    if words and word not in words:
        raise _not_an_outcome(favourable, words)
    return word


def _word(favourable: object, words: tuple[str, ...]) -> str:
    """Return the favourable word; for "True" and "False", "high" and "low" are understood too."""
    boolean_word = {"high": "True", "low": "False"} if set(words) <= {"True", "False"} else {}
    return boolean_word.get(text_of(favourable), text_of(favourable))


def _check_two(argument: str, words: tuple[str, ...]) -> None:
    if len(words) > 2:
        hint = "a score is a probability; a decision is 0 or 1, or one of two words such as 'approved' and 'denied'."
        if all(re.fullmatch(r"[-+]?\d*[.,]?\d+\s*%?", word.strip()) for word in words):
            hint = "these are numbers stored as text: convert the column to numbers, and divide percentages by 100."
            if any("," in word for word in words):
                hint = "if the comma is the decimal mark, pass decimal=',' (--decimal ',')."
        raise DistributionError(
            f"`{argument}` must be numbers, or decisions in two words, got {quoted_list(words)}.", hint
        )


def given_amounts(scores: ValuesLike, rows: int) -> Floats:
    """Return an array of amounts as an (n, 1) matrix, missing ones as NaN."""
    if np.ndim(scores) == 1:
        return _check_numeric(column_of_values("scores", scores, rows), *NUMERIC_AMOUNTS)[:, None]
    return amount_column(number_matrix("scores", scores))


def given_matrix(scores: ValuesLike, rows: int, favourable: object) -> tuple[Floats, tuple[str, ...]]:
    """Return an array of scores as an (n, 1) or (n, K) matrix without gaps, and the outcomes where words name them."""
    labels: tuple[str, ...] = ()
    if np.ndim(scores) == 1:
        column = column_of_values("scores", scores, rows)
        if is_words(column):
            decisions, words = decisions_in_words("scores", column, favourable)
            wanted = favourable_word("scores", favourable, words)
            labels = (next((word for word in words if word != wanted), f"not {wanted}"), wanted)
        else:
            decisions = _check_numeric(column, *NUMERIC_SCORES)
        matrix = decisions[:, None]
    else:
        matrix = number_matrix("scores", scores)
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


def _checked(argument: str, matrix: Floats, missing: Booleans, row_name: RowName) -> Floats:
    """Return probabilities in [0, 1] whose rows sum to 1, NaN in missing rows; raise for the first row that fails."""
    if missing.any():
        checked, index = np.full(matrix.shape, np.nan), np.flatnonzero(~missing)
        observed = matrix[index]
        checked[index] = _checked(argument, observed, missing[index], lambda row: row_name(int(index[row])))
        return checked

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
        is_per_cent = matrix.min() >= 0.0 and TENTHS < matrix.max() <= PER_CENT
        raise DistributionError(
            f"`{argument}` must give scores between 0 and 1, got {matrix[bad][0]!s} in {row(bad)}.",
            CODES_HINT if np.unique(matrix).tolist() in CODES else PER_CENT_HINT if is_per_cent else RANGE_HINT,
        )
    return np.clip(matrix, 0.0, 1.0)


def _channel(
    matrix: Floats, missing: Booleans, labels: tuple[str, ...], favourable: object, threshold: float | None
) -> Channel:
    """Return the channel of checked probabilities; of two columns, which sum to 1, only one is kept.

    If two outcomes have names, the score is the probability of the favourable one: unlike 0 and 1, names have no order.
    """
    outcomes = max(matrix.shape[1], 2)
    labels = labels or tuple(str(outcome) for outcome in range(outcomes))
    wanted = favourable_index(favourable, labels)
    scores = matrix[:, -1] if outcomes == 2 else matrix
    if outcomes == 2 and wanted == 0 and set(labels) not in ORDERED:
        scores, labels, wanted = 1.0 - scores, labels[::-1], 1
    if threshold is not None and outcomes > 2:
        raise DataError(
            f"`threshold` must be left out for scores of {outcomes} outcomes, got {quoted(threshold)}.",
            "pass the decisions themselves, one 0/1 column per outcome.",
        )
    if threshold is not None:
        scores = np.where(missing, np.nan, scores >= threshold)
    kind: Literal["scores", "decisions"] = "decisions" if _are_decisions(scores, missing) else "scores"
    return Channel(scores, kind, outcomes, wanted, labels, missing)


def _are_decisions(scores: Floats, missing: Booleans) -> bool:
    """Return whether every known score is 0 or 1; often the first few rows decide."""
    few = slice(0, 1000)
    return all(
        np.isin(part[~gone], (0.0, 1.0)).all() for part, gone in ((scores[few], missing[few]), (scores, missing))
    )


def either_spelling(favourable: T, favorable: T | None) -> T:
    """Return the favourable outcome, given in British or American spelling."""
    if favorable is not None and favourable != "high":
        raise DataError(
            f"`favourable` and `favorable` are one option, got {quoted(favourable)} and {quoted(favorable)}.",
            "give one of them.",
        )
    return favourable if favorable is None else favorable


def favourable_index(favourable: object, labels: tuple[str, ...]) -> int:
    """Return the favourable outcome, given as a label or, for 0 and 1, as "high", "low" or a number."""
    if text_of(favourable) in labels:
        return labels.index(text_of(favourable))
    if set(labels) in ORDERED:
        if isinstance(favourable, str) and favourable in ("high", "low"):
            return int(favourable == "high")
        if isinstance(favourable, numbers.Integral) and favourable in (0, 1):
            return int(favourable)
    raise _not_an_outcome(favourable, labels)


def _not_an_outcome(favourable: object, labels: Sequence[str]) -> DataError:
    if tuple(labels) == AMOUNTS:
        return DataError(
            f"`favourable` must be 'high' or 'low' for amounts, got {quoted(favourable)}.",
            "high: a person wants a large amount, such as a salary; low: a small one, such as a premium.",
        )
    if set(labels) in ORDERED:
        rule, example = "'high', 'low' or one of the outcomes", ""
    else:
        rule = "the name of an outcome if the outcomes are not 0 and 1"
        example = f"; which does a person want? For example favourable={quoted(labels[0])}"
    return DataError(
        f"`favourable` must be {rule}, got {quoted(favourable)}.", f"the outcomes are {quoted_list(labels)}{example}."
    )
