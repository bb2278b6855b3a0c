"""The tilt of the scores: what it is, and how it is applied to rows, new ones too."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from tiltlens.engines.columns import column_of_values
from tiltlens.engines.hashing import Hashes, row_hashes
from tiltlens.engines.messages import listed, shown, text_of
from tiltlens.engines.sources import collected
from tiltlens.errors import DataError
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.limits import MINIMUM_ROWS, REPEATED_ROWS
from tiltlens.models.design import Table
from tiltlens.paper.checks import Floats
from tiltlens.repair.additive import AdditiveLogit
from tiltlens.repair.bill import Bill, bill_of
from tiltlens.repair.least_change import tilted_score

SCHEMA = "tiltlens/repair/1"
MEAN, DECISIONS, FPR, FNR = "mean score", "decisions", "fpr", "fnr"


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTilt:
    """The least change of the scores, logit W' = logit W − t·a(x), or of decisions, 1 where W − τ ≥ t·a(x).

    a(x) = p0(x)/q0 − p1(x)/q1, p0 and p1 being the chances of being counted in the audited and in the reference group
    given x, and q0, q1 their means: no group is needed. All are counted for the mean score and decisions, those without
    the outcome for the "fpr", those with it for the "fnr". With `use_group` chances of the other group are 0.

    Attributes
    ----------
    criterion, threshold
        "mean score"; "decisions" at a threshold τ; "fpr" or "fnr": mean scores of people without and with the outcome.
    limit
        The largest gap that is allowed.
    use_group
        Whether the group itself is used, which may be regulated.
    multiplier
        t; 0 where there is nothing to do.
    shares
        q0 and q1.
    audited, reference
        The groups.
    gap_before, gap_after
        On the audited rows, by a membership model that has not seen them.
    nats
        E[KL(W'‖W)] on the same rows; None of decisions.
    models
        Of p0, and of p1 where it is not 1 − p0, fitted on all audited rows; with the group, of the outcome in either.
    seen
        Hashes of the audited rows, by which they are known again.
    notes
        What was done, and what to know.
    """

    criterion: str
    threshold: float | None
    limit: float
    use_group: bool
    multiplier: float
    shares: tuple[float, float]
    audited: str
    reference: str
    gap_before: float
    gap_after: float
    nats: float | None
    models: tuple[AdditiveLogit, ...]
    seen: Hashes
    notes: tuple[str, ...]

    def apply(self, data: Any, scores: Any, group: Any = None) -> Floats:
        """Return the repaired scores, or decisions, of the rows of a table.

        Parameters
        ----------
        data
            A table in memory, or files: it holds the features of the membership model.
        scores
            The scores to repair: a column, or an array as long as the table.
        group
            The column or array of groups; only where `use_group` is.
        """
        frame = collected(data)
        score = _numbers("scores", scores, frame)
        if not self.multiplier and self.criterion != DECISIONS:
            return score
        return self.of(score, self._gradient(frame, group))

    def of(self, score: Floats, gradient: Floats) -> Floats:
        """Return the repaired scores of rows whose a(x) is known."""
        if self.criterion == DECISIONS and self.threshold is not None:
            return (score - self.threshold >= self.multiplier * gradient).astype(np.float64)
        return tilted_score(score, self.multiplier * gradient)

    def _gradient(self, frame: pl.DataFrame, group: Any) -> Floats:
        chances = [expit(model.of_frame(frame)) for model in self.models]
        if not self.use_group:
            if group is not None:
                raise DataError(
                    "`group` must be left out of a repair that does not use it, got one.",
                    "use_group=True makes one that does.",
                )
            return gradient(chances[0], 1.0 - chances[0] if len(chances) == 1 else chances[1], self.shares)
        if group is None:
            raise DataError("`group` must be given to a repair with use_group=True, got none.", "name its column.")
        texts = _texts(group, frame)
        unknown = sorted({text for text in texts if text not in (self.audited, self.reference)})
        if unknown:
            raise DataError(
                f"`group` must be {shown(self.audited)} or {shown(self.reference)}, got {listed(unknown)}.",
                "repair the rows of these two groups.",
            )
        mine = np.array([text == self.audited for text in texts], dtype=np.float64)
        p0, p1 = chances or (np.ones_like(mine), np.ones_like(mine))
        return gradient(mine * p0, (1.0 - mine) * p1, self.shares)

    def bill(
        self,
        holdout: Any,
        scores: Any,
        group: Any,
        outcome: Any = None,
        threshold: float = 0.5,
        confidence: float = 0.95,
    ) -> Bill:
        """Return what the repair costs on rows that nothing was fitted on.

        Parameters
        ----------
        holdout
            A table in memory, or files: rows of the two groups; others are left out. Audited rows are refused.
        scores, group
            The scores before the repair, and the groups: columns or arrays.
        outcome
            The true outcome, 0 or 1, where it is known: for error rates, AUC, accuracy, log-loss and Brier score.
        threshold
            Of decisions; that of the repair where it has one.
        """
        frame = collected(holdout)
        labels = np.array(_texts(group, frame))
        keep = np.flatnonzero((labels == self.audited) | (labels == self.reference))
        frame = frame[pl.Series(keep, dtype=pl.UInt32)]
        score, audited = _numbers("scores", scores, frame, keep), labels[keep] == self.audited
        sizes = int(audited.sum()), int((~audited).sum())
        if min(sizes) < MINIMUM_ROWS:
            raise DataError(
                f"`holdout` must have {MINIMUM_ROWS} rows of each group at least, got {sizes[0]} and {sizes[1]}.",
                f"the groups are {shown(self.audited)} and {shown(self.reference)}: bring more rows of them.",
            )
        notes = self._check_unseen(frame, score, audited)
        a = self._gradient(frame, labels[keep] if self.use_group else None)
        cut = threshold if self.threshold is None else self.threshold
        before = score if self.criterion != DECISIONS else (score >= cut).astype(np.float64)

        def step(part: float) -> Floats:
            return replace(self, multiplier=part * self.multiplier).of(score, a)

        known = None if outcome is None else _outcome_codes(outcome, frame, keep)
        return bill_of(Rows.of(audited), before, step, known, cut, confidence, notes)

    def _check_unseen(self, frame: pl.DataFrame, score: Floats, audited: Booleans) -> tuple[str, ...]:
        """Raise where rows were audited; a note where these may be other people that are alike."""
        table = self.models[0].table(frame) if self.models else {}
        again = int(np.isin(hashed_rows(table, score, audited), self.seen).sum())
        repeated = 1.0 - np.unique(self.seen).size / max(self.seen.size, 1)
        if again and repeated <= REPEATED_ROWS:
            raise DataError(
                f"`holdout` must hold rows that nothing was fitted on, got {again} that were audited.",
                "a bill of the rows of the fit is too small.",
            )
        return (f"{again} rows equal audited ones: they may be the same people",) if again else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the repair as plain numbers and texts."""
        names = [name for name in self.__slots__ if name not in ("models", "seen", "notes", "shares")]
        models = [model.to_dict() for model in self.models]
        found = {"schema": SCHEMA} | {name: getattr(self, name) for name in names} | {"shares": list(self.shares)}
        seen = b64encode(self.seen.tobytes()).decode()
        return found | {"models": models, "seen": seen, "notes": list(self.notes)}

    def to_json(self, path: str | Path) -> None:
        """Write the repair to a JSON file that holds numbers and texts only."""
        Path(path).write_text(json.dumps(self.to_dict(), allow_nan=False, indent=1), encoding="utf-8")


def read_repair(path: str | Path) -> ScoreTilt:
    """Return the repair that `to_json` wrote."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"`path` must be a file of a repair, got {shown(str(path))}: {error}.", "see `to_json`."
        ) from None
    if not isinstance(found, dict) or found.pop("schema", None) != SCHEMA:
        raise DataError(f"`path` must be a repair of the schema {SCHEMA}, got {shown(str(path))}.", "see `to_json`.")
    models = tuple(AdditiveLogit.from_dict(model) for model in found.pop("models"))
    q0, q1 = found.pop("shares")
    notes, seen = tuple(found.pop("notes")), np.frombuffer(b64decode(found.pop("seen")), dtype=np.uint64)
    return ScoreTilt(**found, shares=(q0, q1), models=models, seen=seen, notes=notes)


def hashed_rows(table: Table, score: Floats, audited: Booleans) -> Hashes:
    """Return a hash of what each row holds: features of the membership model, score and group."""
    return row_hashes({**table, "\0score": score, "\0audited": audited.astype(np.float64)})


def gradient(p0: Floats, p1: Floats, shares: tuple[float, float]) -> Floats:
    """Return a = p0/q0 − p1/q1."""
    return np.asarray(p0 / shares[0] - p1 / shares[1])


def _texts(group: Any, frame: pl.DataFrame) -> list[str]:
    column = _column("group", group, frame)
    return ["" if value is None else text_of(value) for value in column]


def _outcome_codes(outcome: Any, frame: pl.DataFrame, keep: Integers) -> Integers:
    """Return 0, 1, or 2 where the outcome is not known."""
    column = _column("outcome", outcome, frame, keep)
    numbers = column.cast(pl.Float64, strict=False)
    bad = (numbers.is_null() & column.is_not_null()) | (numbers.is_not_null() & ~numbers.is_in([0.0, 1.0]))
    if bad.any():
        raise DataError(
            f"`outcome` must be 0 or 1, got {shown(column.filter(bad)[0])}.", "write the outcome of the scores as 1."
        )
    return numbers.fill_null(2.0).cast(pl.Int64).to_numpy()


def _column(argument: str, values: Any, frame: pl.DataFrame, keep: Integers | None = None) -> pl.Series:
    """Return a column of the frame, or an array as long as the table that it is part of."""
    if isinstance(values, str):
        if values not in frame.columns:
            raise DataError(
                f"`{argument}` must be a column of the data, got {shown(values)}.", f"see {listed(frame.columns)}."
            )
        return frame[values]
    size = frame.height if keep is None else int(np.size(values))
    column = column_of_values(argument, values, size)
    return column if keep is None else column[pl.Series(keep, dtype=pl.UInt32)]


def _numbers(argument: str, values: Any, frame: pl.DataFrame, keep: Integers | None = None) -> Floats:
    column = _column(argument, values, frame, keep)
    numbers = column.cast(pl.Float64, strict=False).to_numpy()
    bad = ~((numbers >= 0.0) & (numbers <= 1.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"`{argument}` must be probabilities, got {column[row]} in row {row}.", "fill or leave out such rows first."
        )
    return np.asarray(numbers)
