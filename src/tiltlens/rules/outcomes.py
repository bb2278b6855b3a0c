"""What a rule counts in each row: a selection, or a score above the median of the sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.engines.columns import column_of_values
from tiltlens.engines.messages import check_columns, shown
from tiltlens.errors import DataError
from tiltlens.models.scores import decisions_in_words, favourable_word, is_words
from tiltlens.paper.checks import Floats
from tiltlens.rules.rule import Rate, Rule

Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Which rows count towards the rate, of those whose outcome is `known`.

    `median` and `at_median`, how many rows lie exactly there, are None for selections.
    """

    name: str
    rate: Rate
    counts: Booleans
    known: Booleans
    median: float | None = None
    at_median: int | None = None


def outcome_columns(rule: Rule, selected: Any, scores: Any, names: list[str]) -> list[str]:
    """Return the column of the outcome, none where it is an array; exactly one of the two must be given."""
    if (selected is None) == (scores is None):
        got = "neither" if selected is None else "both"
        raise DataError(
            f"exactly one of `selected` and `scores` must be given for the rule {shown(rule.id)}, got {got}.",
            "`selected` holds 0 and 1, or two words; `scores` holds numbers, which are compared with their median.",
        )
    argument, rate = ("selected", "selection") if scores is None else ("scores", "scoring")
    if rate not in rule.rates:
        raise DataError(
            f"the rule {shown(rule.id)} must be given `selected`, got `scores`.",
            "it compares selection rates: pass the decisions made from the scores as a column of 0 and 1.",
        )
    value = selected if scores is None else scores
    if not isinstance(value, str):
        return []
    check_columns(argument, [value], names)
    return [value]


def outcomes_of(table: pl.DataFrame, selected: Any, scores: Any, favourable: Any) -> Outcomes:
    """Return what counts in each row of a clean table."""
    argument, value = ("selected", selected) if scores is None else ("scores", scores)
    column = table[value] if isinstance(value, str) else column_of_values(argument, value, table.height)
    if scores is None and is_words(column):
        numbers, words = decisions_in_words(argument, column, favourable)
        favourable_word(argument, favourable, words)
        favourable = "high"
    else:
        numbers = _numbers(argument, column)
    if favourable not in ("high", "low"):
        raise DataError(
            f"`favourable` must be 'high' or 'low', got {shown(favourable)}.",
            "'high': a person wants 1, or a high score; 'low': the other way round.",
        )
    known = ~np.isnan(numbers)
    if not known.any():
        raise DataError(f"`{argument}` must be known for some rows, got only missing values.", "check the column.")
    name = value if isinstance(value, str) else argument
    if scores is None:
        _check_decisions(numbers, known)
        return Outcomes(name, "selection", known & (numbers == (favourable == "high")), known)
    return _scored(name, numbers, known, is_high=favourable == "high")


def _scored(name: str, numbers: Floats, known: Booleans, is_high: bool) -> Outcomes:
    """Return who lies strictly beyond the median of all known scores; a tie with it does not count."""
    _check_finite(numbers, known)
    ordered = np.sort(numbers[known])
    low, high = float(ordered[(ordered.size - 1) // 2]), float(ordered[ordered.size // 2])
    # Nobody lies between the two middle scores, so these comparisons are free of the rounding of their mean.
    counts = known & (numbers > low if is_high else numbers < high)
    median = low if low == high else low / 2 + high / 2
    return Outcomes(name, "scoring", counts, known, median, int((ordered == median).sum()))


def _numbers(argument: str, column: pl.Series) -> Floats:
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        rule = "0 and 1, or two words" if argument == "selected" else "numbers"
        raise DataError(
            f"`{argument}` must be {rule}, got {column.dtype} in column {shown(column.name)}.", "convert it first."
        )
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _check_decisions(numbers: Floats, known: Booleans) -> None:
    bad = known & (numbers != 0.0) & (numbers != 1.0)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"`selected` must be 0 or 1, got {numbers[row]:g} in row {row}.",
            "pass scores as `scores`, or the decisions made from them.",
        )


def _check_finite(numbers: Floats, known: Booleans) -> None:
    bad = known & ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"`scores` must be finite, got {numbers[row]:g} in row {row}.",
            "any scale will do; fill or drop rows whose score could not be made.",
        )
