"""The tilt of the scores: what it is, and how it is applied to rows, new ones too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError
from tiltlens.estimators.influence import Integers, Rows
from tiltlens.limits import MINIMUM_ROWS
from tiltlens.paper.checks import Floats, check_probability, check_threshold
from tiltlens.repair.apply import applied
from tiltlens.repair.bill import Bill, bill_of, price_of_blindness
from tiltlens.repair.columns import RepairTable, check_clusters, condition_notes, meets
from tiltlens.repair.constraints import GIVEN_EXEMPT, CellModel, Constraint, gradients, only
from tiltlens.repair.copies import Seen
from tiltlens.repair.least_change import repaired, shifts
from tiltlens.repair.quantities import Judged
from tiltlens.repair.unlike import Looked, Range, beyond_notes, moments, unseen_notes, values_beyond
from tiltlens.results.json_file import write_json
from tiltlens.rows.declared import Declared
from tiltlens.rows.groups import JOINT
from tiltlens.sources.messages import listed, shown

SCHEMA = "tiltlens/repair/2"
PLAIN = ("criterion", "threshold", "limit", "use_group", "classes", "nats")
TOLD = (*PLAIN, "multiplier", "audited", "reference", "gap_before", "gap_after")
Texts = NDArray[np.str_]


class _HeldOut(NamedTuple):
    """Rows that nothing was fitted on: features, groups, scores, outcomes where known, and what to know."""

    frame: pl.DataFrame
    labels: Texts
    scores: Floats
    outcome: Integers | None
    of_groups: Rows
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTilt:
    """The least change of the scores, W'_y ∝ W_y·exp(−Σ_c t_c·a_c(x)·[y = y_c]), or of decisions.

    Of two outcomes logit W' = logit W − Σ_c t_c·a_c(x); decisions are 1 where W − τ ≥ Σ_c t_c·a_c(x). Of a constraint
    a(x) = p0(x)/q0 − p1(x)/q1, p0 and p1 being the chances of being counted in the audited and in the reference group
    given x, and q0, q1 their means: no group is needed. All are counted for the mean score and decisions, those without
    the outcome for the "fpr", those with it for the "fnr". With `use_group` chances of other groups are 0.

    Attributes
    ----------
    criterion, threshold
        "mean_score"; "decisions" at a threshold τ; "fpr" or "fnr": mean scores of people without and with the outcome,
        or their decisions at a threshold; "equalized_odds": both.
    limit, use_group
        The largest difference that is allowed; and whether the group itself is used, which may be regulated.
    classes
        How many the scores are of.
    constraints
        One for each audited group, event and class: its multiplier, and the difference before and after.
    nats
        E[KL(W'‖W)] on the audited rows; None of decisions.
    models
        Of the chances p, fitted on all audited rows; that of the reference among all people is what others leave. With
        the group, of the outcome within each.
    seen
        Hashes of the audited rows, by which they are known again, and the features that these are of.
    notes
        What was done, and what to know.
    given, soft
        The conditions that audited rows met, as texts by column: other rows are neither repaired nor billed. And of
        unobserved groups, by name, what probabilities tell of the gap before and after.
    favours_low
        Whether people want low scores: ratios of a bill are then those of 1 − score.
    ranges
        Of each number in the audited rows, without ten people at either end: values beyond it are counted in new rows.
    declared
        The features that are categories, or blocks of columns, by declaration.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {
    ...     "sex": ["women", "men"] * 100,
    ...     "skill": [0, 1, 1, 2, 2, 2, 3, 3] * 25,
    ...     "score": [0.4, 0.5, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7] * 25,
    ... }
    >>> c = tl.audit(people, "sex", reference="men", scores="score", features="skill", folds=None)["women"]
    >>> tilt = c.repair(max_gap=0.01)
    >>> round(tilt.gap_before, 3), round(tilt.gap_after, 3)
    (-0.05, -0.01)
    >>> tilt.apply({"skill": [0, 3]}, [0.4, 0.7]).round(3).tolist()
    [0.525, 0.695]
    """

    criterion: str
    threshold: float | None
    limit: float
    use_group: bool
    classes: int
    constraints: tuple[Constraint, ...]
    nats: float | None
    models: tuple[CellModel, ...]
    seen: Seen
    notes: tuple[str, ...]
    given: Mapping[str, str] = field(default_factory=dict)
    favours_low: bool = False
    soft: Mapping[str, Any] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    declared: Declared = field(default_factory=Declared)

    @property
    def groups(self) -> tuple[str, ...]:
        """The audited groups."""
        return tuple(dict.fromkeys(one.audited for one in self.constraints))

    @property
    def audited(self) -> str | None:
        """The audited group; None where there are several."""
        return self.groups[0] if len(self.groups) == 1 else None

    @property
    def reference(self) -> str:
        """The group that others are compared with."""
        return self.constraints[0].reference

    @property
    def multiplier(self) -> float | None:
        """The multiplier t of the only constraint; None where there are several."""
        return only(self.constraints, "multiplier")

    @property
    def gap_before(self) -> float | None:
        """The difference of the only constraint on the audited rows, before; None where there are several."""
        return only(self.constraints, "gap_before")

    @property
    def gap_after(self) -> float | None:
        """The same, after."""
        return only(self.constraints, "gap_after")

    def part(self, fraction: float) -> ScoreTilt:
        """Return a part of the repair, from nothing (0) to the whole (1)."""
        parts = [replace(one, multiplier=fraction * one.multiplier, modelled=None) for one in self.constraints]
        return replace(self, constraints=tuple(parts))

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that it needs beside the scores."""
        names = dict.fromkeys(name for model in self.models for name in model.features if self._moves)
        return tuple(self.declared.sources(list(names)))

    @property
    def _moves(self) -> bool:
        return self.threshold is not None or any(one.multiplier for one in self.constraints)

    def apply(
        self,
        data: Any,
        scores: Any,
        group: Any = None,
        out: str | Path | None = None,
    ) -> Any:
        """Return the repaired scores, or decisions, of the rows of a table.

        A warning counts values that the membership model has not learnt (new, rare, missing, infinite) and numbers
        beyond the audited range. Another says if, by that model, half of the gap is left. On Spark both look at 10,000
        rows. Rows that do not meet the conditions of the audit keep their scores, with a warning too.

        Parameters
        ----------
        data
            A table in memory, files, a lazy frame, a DuckDB relation or a Spark data frame: it holds the features of
            the membership model.
        scores
            The scores to repair: a column, of several classes one for each; of a table in memory also an array as long
            as it.
        group
            The column or array of groups, or columns whose intersections they are; only where `use_group` is.
        out
            A .parquet or .csv file for the table with the repaired scores beside, in a column named like that of the
            scores with "_repaired" after it. It is written batch by batch, so that files may be larger than memory,
            and whole or not at all.

        Returns
        -------
        An array in the order of the rows; of Spark a data frame with the repaired column, which the executors make when
        they are asked for it; with `out`, its path.
        """
        self.check_group_given(group)
        return applied(self, data, scores, group, out)

    def repaired_batch(
        self, frame: pl.DataFrame, scores: Floats, group: Texts | None = None, looked: list[Looked] | None = None
    ) -> Floats:
        """Return the repaired scores of a clean frame of rows; `group` are its groups as texts, where `use_group`.

        What tells whether rows are like the audited ones is added to `looked`.
        """
        self._check_group(group)
        if not self._moves:
            return scores
        table = self._table(frame)
        a = self._gradients(table, group)
        after = repaired(scores, self._shift(a), self.threshold)
        if looked is not None:
            sums, beyond = moments(a, after, self.constraints), values_beyond(table, self.ranges)
            looked.append(Looked(0, 0, Counter(self.unseen(frame)), beyond, sums))
        return after

    def unseen(self, frame: pl.DataFrame) -> dict[str, int]:
        """Return, by feature, how many rows of a clean frame hold a value that the model has not learnt."""
        return self.models[0].model.unseen(frame) if self.models and self._moves else {}

    def check_group_given(self, group: Any) -> None:
        """Raise for a group that is not used, and for none where it is."""
        if not self.use_group and group is not None:
            raise DataError(
                "`group` must be left out of a repair that does not use it, got one.",
                "use_group=True makes one that does.",
            )
        if self.use_group and group is None:
            raise DataError("`group` must be given to a repair with use_group=True, got none.", "name its column.")

    def _check_group(self, group: Texts | None) -> None:
        self.check_group_given(group)
        known = [*self.groups, self.reference]
        unknown = [] if group is None else sorted(set(group.tolist()) - set(known))
        if unknown:
            raise DataError(
                f"`group` must be {' or '.join(map(shown, known))}, got {listed(unknown)}.",
                "repair the rows of these groups.",
            )

    def _table(self, frame: pl.DataFrame) -> dict[str, Any]:
        return self.models[0].model.checked_table(frame) if self.models else {}  # all are of the same features

    def _gradients(self, table: Mapping[str, Any], group: Texts | None) -> Floats:
        chances = {one.cell: one.chance(table) for one in self.models}
        mine = None if group is None else {name: group == name for name in (*self.groups, self.reference)}
        return gradients(self.constraints, chances, mine)

    def _shift(self, a: Floats) -> Floats:
        """Return by how much the log-odds, or log-scores, of rows are shifted."""
        t = np.array([one.multiplier for one in self.constraints])
        classes = np.array([one.score_class for one in self.constraints])
        return shifts(t, a, classes, self.classes)

    @property
    def exempt(self) -> tuple[str, ...]:
        """The exempt factors at equal values of which the gap is closed."""
        return next((one.features for one in self.models if one.event == GIVEN_EXEMPT), ())

    def _factors(self, frame: pl.DataFrame) -> Floats | None:
        """Return the exempt factors of rows as columns; None where there are none."""
        models = [one.model for one in self.models if one.event == GIVEN_EXEMPT]
        return models[0].columns(models[0].checked_table(frame)) if models else None

    def without_rows(self) -> ScoreTilt:
        """Return the repair as it is sent to where rows lie: without the hashes of those audited."""
        none = np.empty(0, dtype=np.uint64)
        return replace(self, seen=Seen({}, none, none))

    def bill(
        self,
        holdout: Any,
        scores: Any,
        group: Any,
        outcome: Any = None,
        threshold: float = 0.5,
        confidence: float = 0.95,
        beside: ScoreTilt | None = None,
        sample_weight: Any = None,
        clusters: Any = None,
        audited: str | None = None,
        score_class: int | None = None,
    ) -> Bill:
        """Return what the repair costs on rows that nothing was fitted on.

        Parameters
        ----------
        holdout
            A table in memory, or files: rows of the two groups that meet the conditions of the audit; others are left
            out. Audited rows are refused.
        scores, group
            The scores before the repair, and the groups: columns or arrays; of intersections a list of columns.
        outcome
            The true outcome, 0 or 1, where it is known: for error rates, AUC, accuracy, log-loss and Brier score.
        threshold
            Of decisions; that of the repair where it has one.
        beside
            A repair of the same rows that uses the group, or does not where this one does: for the price of blindness.
        sample_weight, clusters
            Row weights, and which rows belong together, such as those of one customer: columns or arrays.
        audited
            Which group is compared with the reference, where several were audited: see `bills`.
        score_class
            Of several classes, the one whose score the bill is of; `outcome` is then whether it came true.
        """
        self._check_beside(beside)
        check_threshold(threshold, below_one=True)
        check_probability("confidence", confidence)
        who, column = self._billed_group(audited), self._billed_class(score_class)
        cut = threshold if self.threshold is None else self.threshold
        rows = self._held_out(holdout, scores, group, outcome, sample_weight, clusters, who)
        if beside is not None:
            beside._check_unseen(rows)
        is_crossed = isinstance(group, (list, tuple)) and all(one in rows.frame.columns for one in group)
        asked = {"group": group if isinstance(group, str) else JOINT.join(group) if is_crossed else "group"}

        def billed(tilt: ScoreTilt) -> tuple[Bill, Floats]:
            shift = tilt._shift(tilt._gradients(tilt._table(rows.frame), rows.labels if tilt.use_group else None))

            def step(part: float) -> Floats:
                after = repaired(rows.scores, part * shift, tilt.threshold)
                return after if after.ndim == 1 else after[:, column]

            told, factors = asked | tilt.summary() | {"audited": who}, tilt._factors(rows.frame)
            return bill_of(rows.of_groups, step, rows.outcome, cut, confidence, rows.notes, told, factors), step(1.0)

        found, after = billed(self)
        if beside is None:
            return found
        other, otherwise = billed(beside)
        pair = (after, otherwise) if self.use_group else (otherwise, after)
        price = price_of_blindness(Judged(rows.of_groups, rows.outcome, cut, self.favours_low), *pair, confidence)
        return replace(found, beside=other, price=price)

    def _held_out(
        self, holdout: Any, scores: Any, group: Any, outcome: Any, weights: Any, clusters: Any, who: str
    ) -> _HeldOut:
        """Return the rows of a group and of the reference that nothing was fitted on."""
        table = RepairTable(holdout)
        labels, found = table.texts("group", group), table.scores("scores", scores, self.classes)
        known = None if outcome is None else table.outcomes("outcome", outcome)
        own, together = table.weights("sample_weight", weights), table.clusters("clusters", clusters)
        meeting, compared = meets(table.frame, self.given), (labels == who) | (labels == self.reference)
        keep = compared & (own > 0.0) & meeting
        outside = int((compared & ~meeting).sum())
        of_given = condition_notes(self.given, table.frame.columns, outside, int(compared.sum()), "they are left out")
        frame, labels, found = self.declared.applied(table.frame.filter(keep)), labels[keep], found[keep]
        mine = labels == who
        sizes = int(mine.sum()), int((~mine).sum())
        if min(sizes) < MINIMUM_ROWS:
            raise DataError(
                f"`holdout` must have {MINIMUM_ROWS} rows of each group at least, got {sizes[0]} and {sizes[1]}.",
                f"the groups are {shown(who)} and {shown(self.reference)}: bring more rows of them.",
            )
        known, together = (None if one is None else one[keep] for one in (known, together))
        rows = _HeldOut(frame, labels, found, known, Rows.of(mine, own[keep], together), ())
        check_clusters(rows.of_groups, (who, self.reference))
        beyond = beyond_notes(values_beyond(self._table(frame), self.ranges), frame.height, self.ranges)
        of_rows = (*self._check_unseen(rows), *unseen_notes(self.unseen(frame), frame.height), *beyond)
        return rows._replace(notes=(*of_given, *of_rows))

    def _check_beside(self, beside: ScoreTilt | None) -> None:
        """Raise where another repair is not this one with, or without, the group."""
        same = ("groups", "reference", "criterion", "threshold", "limit", "classes")
        if beside is not None and (
            not isinstance(beside, ScoreTilt)
            or beside.use_group is self.use_group
            or any(getattr(beside, name) != getattr(self, name) for name in same)
        ):
            raise DataError(
                f"`beside` must be the same repair with use_group={not self.use_group}, got another.",
                "it has the same groups, metric, threshold and max_gap.",
            )

    def bills(self, holdout: Any, scores: Any, group: Any, **options: Any) -> dict[str, Bill]:
        """Return the bill of each audited group against the reference; `options` are those of `bill`."""
        return {one: self.bill(holdout, scores, group, audited=one, **options) for one in self.groups}

    def _billed_group(self, audited: str | None) -> str:
        who = self.audited if audited is None else audited
        if who is None or who not in self.groups:
            got = "none" if audited is None else shown(audited)
            raise DataError(f"`audited` must be one of {listed(self.groups)}, got {got}.", "`bills` has one for each.")
        return who

    def _billed_class(self, score_class: int | None) -> int:
        if self.classes == 2 and score_class is None:
            return 1
        known = range(self.classes)[1 if self.classes == 2 else 0 :]
        if score_class is None or score_class not in known:
            rule = "left out, or 1, of two classes" if self.classes == 2 else f"a class from 0 to {self.classes - 1}"
            raise DataError(
                f"`score_class` must be {rule}, got {score_class!r}.", "a bill is of the score of one class."
            )
        return score_class

    def _check_unseen(self, rows: _HeldOut) -> list[str]:
        """Raise where rows were audited; notes on rows that equal others."""
        self._table(rows.frame)
        names = [self.reference, *self.groups[::-1]]
        place = np.select([rows.labels == name for name in names], np.arange(len(names)))
        return self.seen.notes(rows.frame, rows.scores, place, rows.outcome, rows.of_groups.clusters)

    def summary(self) -> dict[str, Any]:
        """Return what a reader is told of the repair: neither its models nor the hashes of rows."""
        features = sorted({name for model in self.models for name in model.features})
        return {name: getattr(self, name) for name in TOLD} | {
            "constraints": [asdict(one) | {"shares": list(one.shares)} for one in self.constraints],
            "features": features,
            "exempt": list(self.exempt),
            "given": dict(self.given),
            "favours_low": self.favours_low,
            "soft": dict(self.soft),
            "notes": list(self.notes),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the repair as plain numbers and texts: what `summary` has, its models, and the hashes of rows."""
        models = [one.to_dict() for one in self.models]
        ranges, declared = {name: list(one) for name, one in self.ranges.items()}, asdict(self.declared)
        kept = {"models": models, "seen": self.seen.to_dict(), "ranges": ranges, "declared": declared}
        return {"schema": SCHEMA} | self.summary() | kept

    def to_json(self, path: str | Path) -> None:
        """Write the repair to a JSON file: numbers and texts, and a given membership model as skops writes it."""
        write_json(self.to_dict(), str(path))

    def __str__(self) -> str:
        from tiltlens.render.repair_text import repair_text

        return repair_text(self.summary())

    def __repr__(self) -> str:
        way = "with" if self.use_group else "without"
        who = ", ".join(map(repr, self.groups))
        return f"ScoreTilt({who} against {self.reference!r}, {way} the group: {self.criterion})"
