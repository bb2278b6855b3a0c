"""The tilt of the scores: what it is, and how it is applied to rows, new ones too."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from tiltlens.engines.columns import column_of_values
from tiltlens.engines.messages import listed, shown, text_of
from tiltlens.engines.sources import collected
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats
from tiltlens.repair.additive import AdditiveLogit
from tiltlens.repair.least_change import tilted_score

SCHEMA = "tiltlens/repair/1"
MEAN, DECISIONS = "mean score", "decisions"


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTilt:
    """The least change of the scores, logit W' = logit W − t·a(x), or of decisions, 1 where W − τ > t·a(x).

    a(x) = m(x)/q − (1 − m(x))/(1 − q), m being the chance of being audited given x: no group is needed. With
    `use_group` m is 1 or 0.

    Attributes
    ----------
    criterion, threshold
        "mean score", or "decisions" at a threshold τ.
    limit
        The largest gap that is allowed.
    use_group
        Whether the group itself is used, which may be regulated.
    multiplier
        t; 0 where there is nothing to do.
    audited_share
        q.
    audited, reference
        The groups.
    gap_before, gap_after
        On the audited rows, by a membership model that has not seen them.
    nats
        E[KL(W'‖W)] on the same rows; None of decisions.
    membership
        The model m, fitted on all audited rows; None with the group.
    notes
        What was done, and what to know.
    """

    criterion: str
    threshold: float | None
    limit: float
    use_group: bool
    multiplier: float
    audited_share: float
    audited: str
    reference: str
    gap_before: float
    gap_after: float
    nats: float | None
    membership: AdditiveLogit | None
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
        if not self.multiplier and self.criterion == MEAN:
            return score
        return self.of(score, self._gradient(frame, group))

    def of(self, score: Floats, gradient: Floats) -> Floats:
        """Return the repaired scores of rows whose a(x) is known."""
        if self.criterion == DECISIONS and self.threshold is not None:
            return (score - self.threshold > self.multiplier * gradient).astype(np.float64)
        return tilted_score(score, self.multiplier * gradient)

    def _gradient(self, frame: pl.DataFrame, group: Any) -> Floats:
        if self.membership is not None:
            if group is not None:
                raise DataError(
                    "`group` must be left out of a repair that does not use it, got one.",
                    "use_group=True makes one that does.",
                )
            return gradient(expit(self.membership.of_frame(frame)), self.audited_share)
        if group is None:
            raise DataError("`group` must be given to a repair with use_group=True, got none.", "name its column.")
        column = frame[group] if isinstance(group, str) else column_of_values("group", group, frame.height)
        texts = [text_of(value) for value in column]
        unknown = sorted({text for text in texts if text not in (self.audited, self.reference)})
        if unknown:
            raise DataError(
                f"`group` must be {shown(self.audited)} or {shown(self.reference)}, got {listed(unknown)}.",
                "repair the rows of these two groups.",
            )
        return gradient(np.array([text == self.audited for text in texts], dtype=np.float64), self.audited_share)

    def to_dict(self) -> dict[str, Any]:
        """Return the repair as plain numbers and texts."""
        names = [name for name in self.__slots__ if name not in ("membership", "notes")]
        model = None if self.membership is None else self.membership.to_dict()
        return (
            {"schema": SCHEMA}
            | {name: getattr(self, name) for name in names}
            | {"membership": model, "notes": list(self.notes)}
        )

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
    model = found.pop("membership")
    notes = tuple(found.pop("notes"))
    return ScoreTilt(**found, membership=None if model is None else AdditiveLogit.from_dict(model), notes=notes)


def gradient(chance: Floats, audited_share: float) -> Floats:
    """Return a = m/q − (1 − m)/(1 − q)."""
    return np.asarray(chance / audited_share - (1.0 - chance) / (1.0 - audited_share))


def _numbers(argument: str, values: Any, frame: pl.DataFrame) -> Floats:
    if isinstance(values, str) and values not in frame.columns:
        raise DataError(
            f"`{argument}` must be a column of the data, got {shown(values)}.", f"see {listed(frame.columns)}."
        )
    column = frame[values] if isinstance(values, str) else column_of_values(argument, values, frame.height)
    numbers = column.cast(pl.Float64, strict=False).to_numpy()
    bad = ~((numbers >= 0.0) & (numbers <= 1.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"`{argument}` must be probabilities, got {column[row]} in row {row}.", "fill or leave out such rows first."
        )
    return np.asarray(numbers)
