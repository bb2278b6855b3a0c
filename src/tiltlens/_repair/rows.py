"""Rows of an adjustment: the audited rows, exact duplicates, checks of held-out rows, and sums over new rows.

New rows may have unseen values or numbers beyond the audited range, so the gap may not close on them.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import polars as pl

from tiltlens._estimators.estimate import Normal
from tiltlens._estimators.influence import Booleans, Integers, Rows
from tiltlens._learners.design import Table
from tiltlens._limits import SUPPRESSED_BELOW, SURELY_BEYOND
from tiltlens._notes import Note
from tiltlens._repair.constraints import (
    ALL,
    OUTCOMES,
    CategoryLevels,
    Cell,
    Constraint,
    SoftChange,
    category_levels,
    feature_table,
)
from tiltlens._results.audit import Audit
from tiltlens._results.comparison import Comparison
from tiltlens._results.profiles import NoRows, SoftScores, needs_rows
from tiltlens._rows.features import Feature
from tiltlens._rows.groups import equals_mask
from tiltlens._rows.levels import numbers_of
from tiltlens._rows.predictions import AskedModel
from tiltlens._rows.roles import Declared, declared_in
from tiltlens._rows.sampled_rows import SampledRows
from tiltlens._rows.wording import ScoreType
from tiltlens._sources.arrays import Hashes, row_hashes
from tiltlens.errors import DataError, quoted
from tiltlens.paper.checks import Floats

MIXED_DUPLICATES = 0.1  # times the disagreement of random pairs; beyond it, equal rows are different people
MEMBERSHIP, COST = "group-membership model", "model of costs"
MORE_ALIKE = 2.0  # times the matches with audited rows expected by chance: beyond it, rows were audited

Range = tuple[float, float, int]  # the tenth lowest and tenth highest value, and the number of values


def duplicate_clusters(table: Table, group: Integers, outcome: Integers | None) -> Integers | None:
    """Return clusters of rows with equal features; None if there are none, or if such rows are different people.

    Duplicates agree in group and outcome. Different people with equal features often disagree: two of them with
    probability 1 − Σπ², where π are the shares of the labels, unless the features determine the labels.
    """
    if not table:
        return None
    _, cells, sizes = np.unique(row_hashes(table), return_inverse=True, return_counts=True)
    if sizes.max() == 1:
        return None
    labels = group if outcome is None else group * (int(outcome.max()) + 1) + outcome
    shares = np.bincount(labels) / labels.size
    labels_of_cells = np.bincount(np.unique(cells * shares.size + labels) // shares.size)
    is_mixed = labels_of_cells[sizes > 1] > 1
    return None if is_mixed.mean() > MIXED_DUPLICATES * (1.0 - shares @ shares) else cells


def count_duplicates(clusters: Integers) -> int:
    """Return the number of rows that repeat another row of their cluster."""
    return int(clusters.size - np.unique(clusters).size)


@dataclass(frozen=True, slots=True, eq=False)
class AuditedRowIndex:
    """The features of audited rows that are hashed, and one hash of features, scores and group per person.

    `features` maps categories to their levels and numbers to None. `encoded` has the hashes as base64.
    """

    features: Mapping[str, CategoryLevels | None] = field(default_factory=dict)
    encoded: str = ""

    @classmethod
    def of(cls, rows: AuditedRows) -> AuditedRowIndex:
        """Return the index of audited rows."""
        used = rows.model_features
        table, levels = feature_table(used), category_levels(used)
        hashes = _hash_people(table, rows.scores, rows.codes, rows.clusters)
        return cls({name: levels.get(name) for name in table}, b64encode(hashes.tobytes()).decode())

    @property
    def hashes(self) -> Hashes:
        """The hash of each audited person."""
        return np.frombuffer(b64decode(self.encoded), dtype=np.uint64)

    def check(
        self,
        frame: pl.DataFrame,
        scores: Floats,
        group: Integers,
        outcome: Integers | None,
        clusters: Integers | None,
    ) -> list[Note]:
        """Raise if rows of a clean frame were audited; return notes on duplicate rows."""
        for name, levels in self.features.items():
            if name not in frame.columns or (levels is None and frame[name].dtype == pl.String):
                return [Note("rows not checked", column=quoted(name))]
        table = {
            name: numbers_of(frame[name]) if levels is None else levels.codes(frame[name])
            for name, levels in self.features.items()
        }
        notes = []
        if clusters is None:
            clusters = duplicate_clusters(table, group, outcome)
            if clusters is not None:
                notes.append(Note("repeated held-out rows", rows=count_duplicates(clusters)))
        return notes + check_not_audited(_hash_people(table, scores, group, clusters), self.hashes)


def _hash_people(table: Table, scores: Floats, group: Integers, clusters: Integers | None) -> Hashes:
    """Return the hash of each row; equal rows of one cluster are hashed once."""
    columns = {"\0score": scores} if scores.ndim == 1 else {f"\0score{y}": column for y, column in enumerate(scores.T)}
    columns = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    hashes = row_hashes({**table, **columns, "\0group": group.astype(np.float64)})
    if clusters is None:
        return hashes
    order = np.lexsort((hashes, clusters))
    hashes, clusters = hashes[order], clusters[order]
    is_first = np.ones(hashes.size, dtype=np.bool_)
    is_first[1:] = (hashes[1:] != hashes[:-1]) | (clusters[1:] != clusters[:-1])
    return hashes[is_first]


def check_not_audited(hashes: Hashes, audited: Hashes) -> list[Note]:
    """Raise if people were audited; return a note if some rows equal audited ones, which may be by chance.

    The expected matches by chance are the share of audited people who equal another one, allowing for one pair more.
    """
    matches = int(np.isin(hashes, audited).sum())
    _, counts = np.unique(audited, return_counts=True)
    expected = hashes.size * (float(counts[counts > 1].sum()) + 2.0) / max(audited.size, 1)
    if matches > MORE_ALIKE * expected + SURELY_BEYOND * math.sqrt(expected):
        raise DataError(
            f"{matches:,} rows of `held_out` were used in the audit.",
            "use rows that were not; otherwise the cost is understated.",
        )
    if not matches:
        return []
    return [Note("audited row") if matches == 1 else Note("audited rows", rows=matches)]


@dataclass(frozen=True, slots=True, eq=False)
class NewRowSums:
    """Sums over rows to which an adjustment was applied; they add up over batches."""

    rows: int = 0
    outside: int = 0  # number of rows that do not meet the conditions of the audit
    unseen: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    sums: Floats = field(default_factory=lambda: np.zeros(1))  # Σ a^i·W'^j of each constraint, (C, 3, 3)

    def __add__(self, other: NewRowSums) -> NewRowSums:
        return NewRowSums(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))


def ranges_of(features: Sequence[Feature]) -> dict[str, Range]:
    """Return the range of each number, from the tenth lowest to the tenth highest value; extremes are suppressed."""
    ranges, k = {}, SUPPRESSED_BELOW
    for feature in features:
        values = None if feature.values is None else feature.values[np.isfinite(feature.values)]
        if values is not None and values.size >= 2 * k:
            low, high = np.sort(values)[[k - 1, -k]].tolist()
            ranges[feature.name] = (float(low), float(high), int(values.size))
    return ranges


def moments(a: Floats, after: Floats, constraints: Sequence[Constraint], weights: Floats | float = 1.0) -> Floats:
    """Return the sums for `modelled_gap`, from adjusted scores and gradients (C, n)."""
    scores = [after if after.ndim == 1 else after[:, constraint.score_class] for constraint in constraints]
    powers = [[np.stack([np.ones_like(x), x, x * x]) for x in pair] for pair in zip(a, scores, strict=True)]
    return np.array([(weights * first) @ second.T for first, second in powers])


def modelled_gap(sums: Floats) -> Normal:
    """Return E[(a − E[a])·W'], the gap of the adjusted scores if the membership model is correct."""
    means = sums / sums[0, 0]
    a, w = float(means[1, 0]), float(means[0, 1])
    gap = float(means[1, 1]) - a * w
    square = np.array([a * a, -2.0 * a, 1.0]) @ means @ np.array([w * w, -2.0 * w, 1.0])
    return Normal(gap, math.sqrt(max(float(square) - gap * gap, 0.0) / float(sums[0, 0])))


@dataclass(frozen=True, slots=True, eq=False)
class AuditedRows:
    """The audited rows of two or more groups."""

    # The reference and the audited groups; and the index of each row's group among them
    groups: tuple[str, ...]
    codes: Integers
    # Sample weights, and the cluster of each row; None if each row is a cluster of its own
    weights: Floats
    clusters: Integers | None
    # Scores are W(1|x), or (n, K), or amounts; outcomes are None if the audit had none
    features: Sequence[Feature]
    scores: Floats
    outcome: Integers | None = None
    cost: Floats | None = None  # the observed cost, for amounts; NaN if missing, None if not given
    model: AskedModel | None = None  # the audited model, if it can predict again
    given: Mapping[str, str] = field(default_factory=dict)  # the conditions that all rows meet, as texts by column
    favours_low: bool = False  # whether 0 is the favourable outcome, so that ratios use low scores
    exempt: tuple[str, ...] = ()  # the exempt factors of the audit
    # By audited group, a function that returns the estimates of the gap of other scores; empty if groups are
    # observed
    soft: Mapping[str, SoftScores] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        """The rows of the reference and the first audited group."""
        return self.compared(self.codes == 1)

    def compared(self, first: Booleans, index: Integers | slice = slice(None)) -> Rows:
        """Return all rows, or those of an index, as two groups: the rows in `first`, and the others."""
        clusters = None if self.clusters is None else self.clusters[index]
        return Rows.of(first[index], self.weights[index], clusters)

    @property
    def reference(self) -> str:
        """The group that others are compared with."""
        return self.groups[0]

    @property
    def model_features(self) -> list[Feature]:
        """The features that models may use."""
        return [feature for feature in self.features if feature.in_membership]

    @property
    def declared(self) -> Declared:
        """The features that are declared as categories, or as blocks of columns."""
        return declared_in({own.name: own.levels.made_of for own in self.features if own.levels is not None})

    @property
    def outcomes(self) -> int:
        """The number of classes of the scores."""
        return 2 if self.scores.ndim == 1 else self.scores.shape[1]

    def take(self, index: Integers) -> AuditedRows:
        """Return the rows with this index."""
        columns = {name: getattr(self, name) for name in ("codes", "weights", "clusters", "scores", "outcome", "cost")}
        taken = {name: column[index] for name, column in columns.items() if column is not None}
        features = [feature.rows(index) for feature in self.features]
        return replace(self, features=features, model=self.model and self.model.rows(index), **taken)

    def with_duplicates(self) -> tuple[AuditedRows, list[Note]]:
        """Return the rows with duplicates as clusters, if no clusters are given, and a note.

        A model fitted on a duplicate of a row has seen its group and its outcome.
        """
        if self.clusters is not None:
            return self, []
        clusters = duplicate_clusters(feature_table(self.features), self.codes, self.outcome)
        if clusters is None:
            return self, []
        copies = count_duplicates(clusters)
        note = Note("duplicate counts once") if copies == 1 else Note("duplicates count once", rows=copies)
        return replace(self, clusters=clusters), [note]

    def soft_estimates(self, after: Floats, threshold: float | None) -> dict[str, SoftChange]:
        """Return the estimates of each unobserved group's gap before and after; empty for more than two classes."""
        before = self.scores if threshold is None else (self.scores >= threshold).astype(np.float64)
        estimates = {}
        for group, estimate in self.soft.items() if after.ndim == 1 else ():
            index = self.members((group, ALL)) | self.members((self.reference, ALL))
            estimates[group] = SoftChange(estimate(before[index]), estimate(after[index]))
        return estimates

    def members(self, cell: Cell) -> Booleans:
        """Return which rows belong to a cell, that is to a group and an event."""
        group, event = cell
        of_group = np.asarray(self.codes == self.groups.index(group))
        return of_group if event == ALL or self.outcome is None else of_group & (self.outcome == OUTCOMES[event])


def audited_rows(source: Comparison | Audit, action: str, use_group: bool = False) -> AuditedRows:
    """Return the rows of a comparison, or of all comparisons of an audit; raise if they do not allow the action."""
    if isinstance(source, Comparison):
        return _comparison_rows(source, action, use_group)
    parts, rows = [_comparison_rows(own, action, use_group) for own in source.comparisons.values()], source._rows
    if rows is None:
        raise needs_rows(action)
    identifying = {feature.name for part in parts for feature in part.features if feature.is_group}
    return replace(
        parts[0],
        groups=rows.groups,
        codes=rows.group,
        weights=rows.sampling_weight,
        clusters=rows.cluster,
        features=[replace(own, is_group=own.is_group or own.name in identifying) for own in rows.features],
        scores=_outputs(rows),
        outcome=rows.y_true,
        cost=rows.cost,
        model=None,
        soft={group: estimate for part in parts for group, estimate in part.soft.items()},
    )


def _outputs(rows: SampledRows) -> Floats:
    """Return the scores of rows or, for amounts, the amounts."""
    return rows.unit.level(rows.score) if rows.unit.is_amount else rows.scores


def _comparison_rows(comparison: Comparison, action: str, use_group: bool) -> AuditedRows:
    _check(comparison, action, use_group)
    profiles = comparison._profiles
    if isinstance(profiles, NoRows):
        raise needs_rows(action)
    audited, reference = profiles.sampled.groups
    return AuditedRows(
        groups=(reference, audited),
        codes=profiles.rows.audited.astype(np.intp),
        weights=profiles.sampled.sampling_weight,
        clusters=profiles.rows.clusters,
        features=profiles.sampled.features,
        scores=_outputs(profiles.sampled),
        outcome=profiles.sampled.y_true,
        cost=profiles.sampled.cost,
        model=profiles.model,
        given=profiles.given,
        favours_low=not np.array_equal(profiles.favourable, profiles.score),
        exempt=comparison.gap_parts.exempt,
        soft={} if profiles.soft is None else {audited: profiles.soft},
    )


def _check(comparison: Comparison, action: str, use_group: bool) -> None:
    """Raise if the audit does not allow the action: amounts, a `metric`, or unobserved groups."""
    is_amount = comparison.scale.score_type == ScoreType.AMOUNT
    if is_amount and action != "repair":
        raise DataError(f"Amounts have no `{action}`, which needs scores between 0 and 1.", "audit a score.")
    if comparison.scale.metric is not None:
        raise DataError(
            f"`{action}` needs an audit without a `metric`, got one of the {comparison.scale.metric!r}.",
            f"audit all rows with outcome=, and repair with metric={comparison.scale.metric!r}.",
        )
    if comparison.unobserved_group is not None and (is_amount or use_group):
        what, hint = "`use_group`", "leave it out."
        if is_amount:
            what, hint = "The discrimination-free price", "audit people whose group is known."
        raise DataError(f"{what} needs observed groups, but these are known by probabilities only.", hint)


def condition_notes_of(rows: AuditedRows) -> list[Note]:
    """Return a note on the conditions that all audited rows meet."""
    return [Note("fitted on a condition", conditions=condition_words(rows.given))] if rows.given else []


def condition_words(given: Mapping[str, str]) -> str:
    """Return the conditions as text."""
    return " and ".join(f"{quoted(name)} = {quoted(value)}" for name, value in given.items())


def meets(frame: pl.DataFrame, given: Mapping[str, str]) -> Booleans:
    """Return which rows of a clean frame meet the conditions whose column the frame has."""
    is_met = np.ones(frame.height, dtype=np.bool_)
    for name in given.keys() & set(frame.columns):
        is_met &= equals_mask(frame[name], given[name])
    return is_met


def condition_notes(
    given: Mapping[str, str], names: Sequence[str], outside: int, rows: int, treatment: str
) -> list[Note]:
    """Return notes on rows that do not meet the conditions, and on conditions that cannot be checked."""
    missing = {name: value for name, value in given.items() if name not in names}
    notes = []
    if outside:
        conditions = condition_words(given)
        notes.append(Note("condition not met", outside=outside, rows=rows, conditions=conditions, treatment=treatment))
    if missing:
        notes.append(Note("condition not checked", conditions=condition_words(missing)))
    return notes
