"""What a rule counts in each row: a selection, or a score above the median of the sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats
from tiltlens.rows.roles import OUTCOME, PEOPLE
from tiltlens.rows.scores import decisions_in_words, favourable_word, is_words
from tiltlens.rules.rule import Rate, Rule
from tiltlens.sources.messages import check_columns, shown

Booleans = NDArray[np.bool_]
RowName = Callable[[int], str]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Which outcome was asked for: the argument, the column (or the array beside the data), and its favourable end."""

    argument: str
    value: Any
    favourable: Any

    @property
    def is_selection(self) -> bool:
        """Whether decisions are counted, and not scores."""
        return self.argument == "selected"

    @property
    def name(self) -> str:
        """What the outcome is called."""
        return self.value if isinstance(self.value, str) else self.argument

    @property
    def columns(self) -> list[str]:
        """Its column; none where it is an array."""
        return [self.value] if isinstance(self.value, str) else []


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Which of the tallied rows count towards the rate, of those whose outcome is `known`.

    `median` and `at_median`, how many people lie exactly there, are None for selections.
    """

    name: str
    rate: Rate
    counts: Booleans
    known: Booleans
    median: float | None = None
    at_median: int | None = None


def asked_outcome(rule: Rule, selected: Any, scores: Any, favourable: Any, names: list[str]) -> Asked:
    """Return which outcome was asked for; exactly one of the two must be given."""
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
    spec = Asked(argument, selected if scores is None else scores, favourable)
    check_columns(argument, spec.columns, names)
    return spec


def checked_outcome(spec: Asked, column: pl.Series, row_name: RowName) -> None:
    """Raise where a batch holds an outcome that cannot be counted."""
    if spec.is_selection and is_words(column):
        decisions_in_words(spec.argument, column, spec.favourable)
        return
    numbers = checked_numbers(spec, column)
    if spec.favourable not in ("high", "low"):
        raise DataError(
            f"`favourable` must be 'high' or 'low', got {shown(spec.favourable)}.",
            "'high': a person wants 1, or a high score; 'low': the other way round.",
        )
    (_check_decisions if spec.is_selection else _check_finite)(numbers, row_name)


def checked_numbers(spec: Asked, column: pl.Series) -> Floats:
    """Return an outcome as numbers, NaN where it is missing."""
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        rule = "0 and 1, or two words" if spec.is_selection else "numbers"
        raise DataError(
            f"`{spec.argument}` must be {rule}, got {column.dtype} in column {shown(spec.name)}.",
            "convert it first.",
        )
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def outcomes_of(spec: Asked, people: pl.DataFrame, middle: tuple[float, float] | None) -> Outcomes:
    """Return what counts in each tallied row; `middle` are the two middle scores."""
    column, is_high = people[OUTCOME], spec.favourable != "low"
    if spec.is_selection and is_words(column):
        numbers, words = decisions_in_words(spec.argument, column, spec.favourable)
        favourable_word(spec.argument, spec.favourable, words)
        is_high = True
    else:
        numbers = checked_numbers(spec, column)
    is_observed = ~np.isnan(numbers)
    if not is_observed.any():
        raise DataError(f"`{spec.argument}` must be known for some rows, got only missing values.", "check the column.")
    if middle is None:
        return Outcomes(spec.name, "selection", is_observed & (numbers == is_high), is_observed)
    low, high = middle
    at_median = int(people.filter(pl.Series(numbers == 0))[PEOPLE].sum())
    counts = is_observed & (numbers > 0 if is_high else numbers < 0)
    return Outcomes(spec.name, "scoring", counts, is_observed, low if low == high else low / 2 + high / 2, at_median)


def _check_decisions(numbers: Floats, row_name: RowName) -> None:
    bad = ~np.isnan(numbers) & (numbers != 0.0) & (numbers != 1.0)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"`selected` must be 0 or 1, got {numbers[row]:g} in {row_name(row)}.",
            "pass scores as `scores`, or the decisions made from them.",
        )


def _check_finite(numbers: Floats, row_name: RowName) -> None:
    bad = np.isinf(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"`scores` must be finite, got {numbers[row]:g} in {row_name(row)}.",
            "any scale will do; fill or drop rows whose score could not be made.",
        )
