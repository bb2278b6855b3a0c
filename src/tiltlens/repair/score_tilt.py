"""The tilt of the scores: what it is, and how it is applied to rows, new ones too."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit

from tiltlens.engines.hashing import Hashes, row_hashes
from tiltlens.engines.messages import listed, shown
from tiltlens.errors import DataError
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.limits import MINIMUM_ROWS, REPEATED_ROWS
from tiltlens.models.design import Table
from tiltlens.paper.checks import Floats
from tiltlens.repair.additive import AdditiveLogit
from tiltlens.repair.apply import applied
from tiltlens.repair.bill import Bill, bill_of, price_of_blindness
from tiltlens.repair.columns import RepairTable
from tiltlens.repair.least_change import repaired
from tiltlens.views.json_file import write_json

SCHEMA = "tiltlens/repair/1"
MEAN, DECISIONS, FPR, FNR = "mean score", "decisions", "fpr", "fnr"
TOLD = (
    *("criterion", "threshold", "limit", "use_group", "multiplier"),
    *("audited", "reference", "gap_before", "gap_after", "nats"),
)


class _HeldOut(NamedTuple):
    """Rows that nothing was fitted on: features, groups, scores, outcomes where known, and what to know."""

    frame: pl.DataFrame
    labels: NDArray[np.str_]
    score: Floats
    outcome: Integers | None
    of_groups: Rows
    notes: tuple[str, ...]


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

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {
    ...     "sex": ["women", "men"] * 100,
    ...     "skill": [0, 1, 1, 2, 2, 2, 3, 3] * 25,
    ...     "score": [0.4, 0.5, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7] * 25,
    ... }
    >>> c = tl.audit(people, "sex", reference="men", scores="score", features="skill", folds=None)["women"]
    >>> tilt = c.repair(limit=0.01)
    >>> round(tilt.gap_before, 3), round(tilt.gap_after, 3)
    (-0.05, -0.01)
    >>> tilt.apply({"skill": [0, 3]}, [0.4, 0.7]).round(3).tolist()
    [0.527, 0.695]
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

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that it needs beside the scores."""
        return tuple(dict.fromkeys(name for model in self.models for name in model.features if self._moves))

    @property
    def _moves(self) -> bool:
        return bool(self.multiplier) or self.criterion == DECISIONS

    def apply(self, data: Any, scores: Any, group: Any = None, output: str | Path | None = None) -> Any:
        """Return the repaired scores, or decisions, of the rows of a table.

        Parameters
        ----------
        data
            A table in memory, files, a lazy frame, a DuckDB relation or a Spark data frame: it holds the features of
            the membership model.
        scores
            The scores to repair: a column; of a table in memory also an array as long as it.
        group
            The column or array of groups; only where `use_group` is.
        output
            A .parquet or .csv file for the table with the repaired scores beside, in a column named like that of the
            scores with "_repaired" after it. It is written batch by batch, so that files may be larger than memory,
            and whole or not at all.

        Returns
        -------
        An array in the order of the rows; of Spark a data frame with the repaired column, which the executors make when
        they are asked for it; with `output`, its path.
        """
        self.check_group_given(group)
        return applied(self, data, scores, group, output)

    def repaired_batch(self, frame: pl.DataFrame, scores: Floats, group: NDArray[np.str_] | None = None) -> Floats:
        """Return the repaired scores of a clean frame of rows; `group` are its groups as texts, where `use_group`."""
        self._check_group(group)
        if not self._moves:
            return scores
        return repaired(scores, self.multiplier * self._gradient(frame, group), self.threshold)

    def check_group_given(self, group: Any) -> None:
        """Raise for a group that is not used, and for none where it is."""
        if not self.use_group and group is not None:
            raise DataError(
                "`group` must be left out of a repair that does not use it, got one.",
                "use_group=True makes one that does.",
            )
        if self.use_group and group is None:
            raise DataError("`group` must be given to a repair with use_group=True, got none.", "name its column.")

    def _check_group(self, group: NDArray[np.str_] | None) -> None:
        self.check_group_given(group)
        unknown = [] if group is None else sorted(set(group.tolist()) - {self.audited, self.reference})
        if unknown:
            raise DataError(
                f"`group` must be {shown(self.audited)} or {shown(self.reference)}, got {listed(unknown)}.",
                "repair the rows of these two groups.",
            )

    def _gradient(self, frame: pl.DataFrame, group: NDArray[np.str_] | None) -> Floats:
        chances = [expit(model.of_frame(frame)) for model in self.models]
        if group is None:
            return gradient(chances[0], 1.0 - chances[0] if len(chances) == 1 else chances[1], self.shares)
        mine = (group == self.audited).astype(np.float64)
        p0, p1 = chances or (np.ones_like(mine), np.ones_like(mine))
        return gradient(mine * p0, (1.0 - mine) * p1, self.shares)

    def without_rows(self) -> ScoreTilt:
        """Return the repair as it is sent to where rows lie: without the hashes of those audited."""
        return replace(self, seen=np.empty(0, dtype=np.uint64))

    def bill(
        self,
        holdout: Any,
        scores: Any,
        group: Any,
        outcome: Any = None,
        threshold: float = 0.5,
        confidence: float = 0.95,
        beside: ScoreTilt | None = None,
        weights: Any = None,
        clusters: Any = None,
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
        beside
            A repair of the same rows that uses the group, or does not where this one does: for the price of blindness.
        weights, clusters
            Row weights, and which rows belong together, such as those of one customer: columns or arrays.
        """
        self._check_beside(beside)
        cut = threshold if self.threshold is None else self.threshold
        rows = self._held_out(holdout, scores, group, outcome, weights, clusters)
        asked = {"group": group if isinstance(group, str) else "group"}

        def billed(tilt: ScoreTilt) -> tuple[Bill, Floats]:
            shift = tilt.multiplier * tilt._gradient(rows.frame, rows.labels if tilt.use_group else None)

            def step(part: float) -> Floats:
                return repaired(rows.score, part * shift, tilt.threshold)

            told = asked | tilt.summary()
            return bill_of(rows.of_groups, step, rows.outcome, cut, confidence, rows.notes, told), step(1.0)

        found, after = billed(self)
        if beside is None:
            return found
        other, otherwise = billed(beside)
        pair = (after, otherwise) if self.use_group else (otherwise, after)
        price = price_of_blindness(rows.of_groups, *pair, rows.outcome, cut, confidence)
        return replace(found, beside=other, price=price)

    def _held_out(self, holdout: Any, scores: Any, group: Any, outcome: Any, weights: Any, clusters: Any) -> _HeldOut:
        """Return the rows of the two groups that nothing was fitted on."""
        table = RepairTable(holdout)
        labels, score = table.texts("group", group), table.probabilities("scores", scores)
        known = None if outcome is None else table.outcomes("outcome", outcome)
        own, together = table.weights("weights", weights), table.clusters("clusters", clusters)
        keep = ((labels == self.audited) | (labels == self.reference)) & (own > 0.0)
        frame, labels, score = table.frame.filter(keep), labels[keep], score[keep]
        audited = labels == self.audited
        sizes = int(audited.sum()), int((~audited).sum())
        if min(sizes) < MINIMUM_ROWS:
            raise DataError(
                f"`holdout` must have {MINIMUM_ROWS} rows of each group at least, got {sizes[0]} and {sizes[1]}.",
                f"the groups are {shown(self.audited)} and {shown(self.reference)}: bring more rows of them.",
            )
        notes = self._check_unseen(frame, score, audited)
        rows = Rows.of(audited, own[keep], None if together is None else together[keep])
        return _HeldOut(frame, labels, score, None if known is None else known[keep], rows, notes)

    def _check_beside(self, beside: ScoreTilt | None) -> None:
        """Raise where another repair is not this one with, or without, the group."""
        same = ("audited", "reference", "criterion", "threshold")
        if beside is not None and (
            beside.use_group is self.use_group or any(getattr(beside, name) != getattr(self, name) for name in same)
        ):
            raise DataError(
                f"`beside` must be the same repair with use_group={not self.use_group}, got another.",
                "it has the same groups, criterion and threshold.",
            )

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

    def summary(self) -> dict[str, Any]:
        """Return what a reader is told of the repair: neither its models nor the hashes of rows."""
        features = sorted({name for model in self.models for name in model.features})
        return {name: getattr(self, name) for name in TOLD} | {"features": features, "notes": list(self.notes)}

    def to_dict(self) -> dict[str, Any]:
        """Return the repair as plain numbers and texts."""
        models = [model.to_dict() for model in self.models]
        found = {"schema": SCHEMA} | {name: getattr(self, name) for name in TOLD} | {"shares": list(self.shares)}
        seen = b64encode(self.seen.tobytes()).decode()
        return found | {"models": models, "seen": seen, "notes": list(self.notes)}

    def to_json(self, path: str | Path) -> None:
        """Write the repair to a JSON file that holds numbers and texts only."""
        write_json(self.to_dict(), str(path))

    def __str__(self) -> str:
        from tiltlens.views.repair_text import repair_text

        return repair_text(self.summary())

    def __repr__(self) -> str:
        way = "with" if self.use_group else "without"
        return f"ScoreTilt({self.audited!r} against {self.reference!r}, {way} the group: {self.criterion})"


def hashed_rows(table: Table, score: Floats, audited: Booleans) -> Hashes:
    """Return a hash of what each row holds: features of the membership model, score and group."""
    return row_hashes({**table, "\0score": score, "\0audited": audited.astype(np.float64)})


def gradient(p0: Floats, p1: Floats, shares: tuple[float, float]) -> Floats:
    """Return a = p0/q0 − p1/q1."""
    return np.asarray(p0 / shares[0] - p1 / shares[1])
