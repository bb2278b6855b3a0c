"""A batch of a stream as rows that count: who they are, what they score, what they weigh."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.engines.tables import shown
from tiltlens.errors import DataError, TiltlensError
from tiltlens.models.groups import JOINT, UNKNOWN, coded, group_columns
from tiltlens.models.scores import Channel, channel_of, score_columns
from tiltlens.models.weights import given_weights, matches, numbers_of
from tiltlens.paper.checks import Floats
from tiltlens.streams.texts import distinct_texts

ONE_AT_A_TIME = Lock()  # a user's model may not be made for several threads


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """How a batch is to be read: an audit's arguments that concern single rows. It travels to every worker."""

    group: tuple[str, ...]
    scores: tuple[str, ...]
    model: Any
    features: tuple[str, ...]
    favourable: Any
    threshold: float | None
    weights: str | None
    given: Mapping[str, Any]
    membership: str | None  # None where a model is to be fitted

    @property
    def name(self) -> str:
        """Of the group."""
        return JOINT.join(self.group)

    @property
    def columns(self) -> list[str]:
        """All that is read."""
        others = [*self.group, *self.scores, *self.given, self.membership, self.weights]
        return list(dict.fromkeys([*self.features, *(name for name in others if name is not None)]))


def asked_of_rows(
    names: Sequence[str],
    roles: Mapping[str, Any],
    model: Any,
    features: Sequence[str],
    favourable: Any,
    threshold: float | None,
    given: Mapping[str, Any] | None,
) -> Question:
    """Return an audit's arguments as a question to each row; in a stream, every role is a column's."""
    columns = {"group": group_columns(roles["group"], names), "scores": score_columns(roles["scores"], names)}
    for argument in ("group", "scores", "membership", "weights"):
        value = roles[argument]
        is_named = bool(columns[argument]) if argument in columns else isinstance(value, str)
        is_model = argument == "membership" and hasattr(value, "fit")
        if not is_named and not is_model and (value is not None or argument == "group"):
            raise _must_be_column(argument, value)
    if (roles["scores"] is None) == (model is None):
        channel_of(None, pl.DataFrame(), scores=roles["scores"], model=model)  # raises: exactly one of the two
    return Question(
        tuple(columns["group"]),
        tuple(columns["scores"]),
        model,
        tuple(features),
        favourable,
        threshold,
        roles["weights"],
        dict(given or {}),
        roles["membership"] if isinstance(roles["membership"], str) else None,
    )


def _must_be_column(argument: str, value: Any) -> DataError:
    hint = "put the values into a column of the data."
    if argument == "membership":
        hint = "put P(audited|x) into a column; or leave it out, and tiltlens fits a model on a sample of the rows."
    return DataError(f"`{argument}` must be the name of a column of streamed data, got {shown(value)}.", hint)


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """The rows of a batch that count.

    Attributes
    ----------
    table
        Their columns.
    left_out
        How many rows were left out for which reason.
    channel
        Of the whole batch; `scores`, (n,) or (n, K), are those of the rows that count.
    name, group
        Of the group, and the columns that make it.
    log_odds
        Of being audited, as given; not finite where the membership is not between 0 and 1; 0 where none is given.
    """

    table: pl.DataFrame
    left_out: dict[str, int]
    channel: Channel
    scores: Floats
    name: str
    group: tuple[pl.Series, ...]
    weights: Floats
    log_odds: Floats

    def coded(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return a code per row, −1 where the group is unknown, and the label of each code."""
        if not self._is_text:
            return coded(self.name, self.group)
        texts, codes = distinct_texts(self.group[0], first=0, missing=UNKNOWN)
        return codes, tuple(texts)

    @property
    def _is_text(self) -> bool:
        return len(self.group) == 1 and self.group[0].dtype == pl.String

    def members(self, *wanted: str) -> list[NDArray[np.bool_]]:
        """Return which rows are in each of some groups; of one column of texts, without coding it."""
        if self._is_text:
            return [self.group[0].eq_missing(label).to_numpy() for label in wanted]
        codes, labels = self.coded()
        return [codes == (labels.index(label) if label in labels else len(labels)) for label in wanted]


def reading(question: Question, table: pl.DataFrame) -> Reading:
    """Return the rows of a batch that count."""
    try:
        channel, weights = _channel(question, table), given_weights(question.weights, table)
    except TiltlensError as error:
        raise _of_batch(error) from None
    keep, left_out = _kept(question, table, channel, weights)
    scores, kept = channel.scores, table
    if any(left_out.values()):
        kept, scores, weights = table.filter(keep), scores[keep], weights[keep]
    if question.membership is None:
        log_odds = np.zeros(kept.height)
    else:
        log_odds = _logit(numbers_of("membership", kept[question.membership]))
    group = tuple(kept[column] for column in question.group)
    return Reading(kept, left_out, channel, scores, question.name, group, weights, log_odds)


def _logit(chance: Floats) -> Floats:
    """Return log p/(1 − p), wrong by the rounding of 1 at most, and made several times faster than by scipy."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = 1.0 - chance
        np.divide(chance, odds, out=odds)
        return np.log(odds, out=odds)


def _channel(question: Question, table: pl.DataFrame) -> Channel:
    with nullcontext() if question.model is None else ONE_AT_A_TIME:
        return channel_of(
            table,
            table,
            scores=list(question.scores) or None,
            model=question.model,
            features=question.features,
            favourable=question.favourable,
            threshold=question.threshold,
            is_part=True,
        )


def _of_batch(error: TiltlensError) -> TiltlensError:
    """Return an error whose row, if it names one, is not taken for a row of the whole table."""
    message, _, hint = str(error).partition("\nHint: ")
    return type(error)(re.sub(r" in row (\d+)\b", r" in row \1 of a batch", message), hint)


def _kept(
    question: Question, table: pl.DataFrame, channel: Channel, weights: Floats
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return which rows count, and how many do not for which reason; the first reason counts."""
    keep, left_out = np.ones(table.height, dtype=np.bool_), {}
    reasons = {f"not_given_{column}": ~matches(table[column], value) for column, value in question.given.items()}
    for reason, rows in (reasons | {"missing_score": channel.missing, "zero_weight": weights == 0}).items():
        left_out[reason] = int((keep & rows).sum())
        keep &= ~rows
    return keep, left_out
