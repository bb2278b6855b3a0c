"""Row-wise errors of a comparison, kept so that two audits of the same rows can be subtracted row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import Evidence, levels
from tiltlens._estimators import outputs
from tiltlens._estimators.influence import Booleans, InfluenceEstimate, Integers, quotient, tail_factor
from tiltlens._estimators.outputs import Scores
from tiltlens._estimators.sets import SetCoefficients
from tiltlens._limits import NOISE, OF_PAIRINGS, SMALLEST_SHARE
from tiltlens._sources.arrays import Hashes, mixed_hashes, row_hashes
from tiltlens.errors import DataError, SupportError
from tiltlens.paper.checks import Floats

NAME_AN_ID = "name a column that identifies rows with `clusters` in both audits, or use paired=False."
ErrorKey = str | tuple[str, str]  # the name of an estimate; or of one of a feature, and the feature


@dataclass(frozen=True, slots=True, eq=False)
class RowErrors:
    """Components of an estimate's error; its variance is the sum of all their squares."""

    parts: Floats  # by row or cluster, (n, k), with k > 1 columns for a mean over k pairings
    between: Floats = field(default_factory=lambda: np.zeros(0))  # deviations between pairings
    unseen: tuple[float, float] = (0.0, 0.0)  # unseen error of a group with equal decisions; negative if all are 0

    def times(self, factor: float) -> RowErrors:
        """Return the errors of a multiple of the number."""
        return RowErrors(factor * self.parts, factor * self.between, (factor * self.unseen[0], factor * self.unseen[1]))


@dataclass(frozen=True, slots=True, eq=False)
class RowIdentities:
    """Identities of the rows, or clusters, behind some errors, by which another audit matches them.

    `columns` has one fingerprint per feature, of its values with row numbers and groups: equal only for the same rows.
    """

    hashes: Hashes
    numbers: Integers | None
    audited: Booleans | None
    are_ids: bool = False
    columns: dict[str, int] = field(default_factory=dict)

    def shares_people(self, other: RowIdentities) -> bool:
        """Return whether both have an id in common, or the same rows by the fingerprints of all common features."""
        if self.are_ids and other.are_ids:
            return bool(np.isin(self.hashes, other.hashes).any())
        common = self.columns.keys() & other.columns.keys()
        return bool(common) and all(self.columns[name] == other.columns[name] for name in common)


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonErrors:
    """Row-wise errors of a comparison: of estimates from the sample, and of those from its rows with influences."""

    sample: RowIdentities
    reported: RowIdentities
    of_sample: dict[ErrorKey, RowErrors]
    of_reported: dict[ErrorKey, RowErrors]


def row_identities(evidence: Evidence, index: Integers) -> RowIdentities:
    """Return the identities of the sample's rows `index`, or of their clusters."""
    rows, sample = evidence.rows, evidence.sample.take(index)
    are_ids = rows.facts.has_clusters
    hashes, numbers = rows.row_key[index], rows.row_number[index] if rows.facts.is_numbered and not are_ids else None
    if sample.clusters is not None:
        _, first = np.unique(sample.clusters, return_index=True)
        return RowIdentities(hashes[first], None if numbers is None else numbers[first], None, are_ids)
    if numbers is None:
        return RowIdentities(hashes, None, None if are_ids else sample.audited, are_ids)
    identity = {"number": numbers, "group": sample.audited.astype(np.int64)}
    values = {part.name: (part.codes if part.values is None else part.values)[index] for part in rows.features}
    columns = {name: int(row_hashes(identity | {"value": column}).sum()) for name, column in values.items()}
    return RowIdentities(hashes, numbers, sample.audited, columns=columns)


def errors_of(estimate: InfluenceEstimate) -> RowErrors:
    """Return the row-wise errors of an influence estimate."""
    pairings, factor = len(estimate.parts), tail_factor(estimate)
    # Scaled so that the variance (27) is the plain sum of all squares.
    parts = np.column_stack(estimate.parts) * (factor / math.sqrt(pairings))
    return RowErrors(parts, estimate.between * (factor * math.sqrt(2.0 / pairings)))


def set_errors(coefficients: SetCoefficients) -> list[RowErrors]:
    """Return the row-wise errors of each coefficient of sets of features."""
    between = coefficients.between * math.sqrt(OF_PAIRINGS / max(len(coefficients.between), 1))
    return [RowErrors(coefficients.influence[:, [k]], between[:, k]) for k in range(len(coefficients.values))]


def output_errors(evidence: Evidence) -> dict[ErrorKey, RowErrors]:
    """Return the row-wise errors of the gap, rates, ratio and standardised difference, as far as these are defined."""
    rows = evidence.population
    favourable = levels(evidence)
    p, p1 = favourable.means
    rates = outputs.both_rates(rows, favourable)
    e0, e1 = _unseen(evidence, favourable)
    errors: dict[ErrorKey, RowErrors] = {
        "gap": replace(errors_of(outputs.gap(rows, evidence.score)), unseen=_unseen(evidence, evidence.score)).times(
            evidence.rows.unit.scale
        ),
        "audited_rate": replace(errors_of(rates[0]), unseen=(e0, 0.0)),
        "reference_rate": replace(errors_of(rates[1]), unseen=(0.0, e1)),
    }
    if p1 > SMALLEST_SHARE and (p > 0.0 or favourable.is_probability):
        # Delta method of p/p1 (section 14), not of its logarithm: two ratios are subtracted.
        errors["impact_ratio"] = replace(errors_of(quotient(*rates)), unseen=(e0 / p1, e1 * p / p1**2))
    try:
        return errors | {"standardised_difference": errors_of(outputs.standardised_difference(rows, evidence.score))}
    except SupportError:
        return errors


def _unseen(evidence: Evidence, outcome: Scores) -> tuple[float, float]:
    return signed(outputs.unseen_se(evidence.population, outcome), outcome.means)


def signed(unseen: tuple[float, float], means: tuple[float, float]) -> tuple[float, float]:
    """Return the unseen errors of both groups, negative for a group whose decisions are all 0."""
    errors = [math.copysign(error, mean - 0.5) if error else 0.0 for error, mean in zip(unseen, means, strict=True)]
    return errors[0], errors[1]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Matched rows of two audits: the position of each audit's rows among the `size` distinct rows of both."""

    old: Integers
    new: Integers
    size: int

    @property
    def alone(self) -> int:
        """Number of rows, or clusters, that only one of the two audits has."""
        return 2 * self.size - self.old.size - self.new.size

    def change(self, old: RowErrors, new: RowErrors) -> RowErrors:
        """Return the errors of new − old: subtracted for rows in both audits, unchanged for rows in one only."""
        before, after = old.parts, new.parts
        if before.shape[1] != after.shape[1]:
            before, after = (x.sum(axis=1, keepdims=True) / math.sqrt(x.shape[1]) for x in (before, after))
        parts = np.zeros((self.size, after.shape[1]))
        parts[self.new] = after
        parts[self.old] -= before
        # The same folds and pairings in both: their deviations are subtracted like rows.
        same = old.between.size == new.between.size
        between = new.between - old.between if same else np.concatenate([new.between, old.between])
        # The same unseen error in both audits cancels in their difference.
        unseen = [0.0 if a == b else math.hypot(a, b) for a, b in zip(old.unseen, new.unseen, strict=True)]
        return RowErrors(parts, between, (unseen[0], unseen[1]))


def standard_error(errors: RowErrors) -> float:
    """Return √ of the sum of all squares."""
    unseen = float(sum(value**2 for value in errors.unseen))
    return math.sqrt(float((errors.parts**2).sum()) + float(errors.between @ errors.between) + unseen)


def paired(
    old: RowIdentities, new: RowIdentities, same_rows: bool, scores: tuple[RowErrors, RowErrors] | None
) -> Pairs:
    """Match the rows of two audits by ids, by row number if both tables have the same order, or by content.

    Only row numbers distinguish rows that differ only in their scores. Without usable numbers their order is irrelevant
    if one of the two models gives all of them the same score (`scores` are the gap's errors), else an error is raised.
    """
    if old.are_ids != new.are_ids:
        raise DataError("`paired` must be of audits that both name `clusters`, got one that does.", NAME_AN_ID)
    if old.are_ids:
        return _side_by_side(old.hashes, new.hashes)
    if old.numbers is not None and new.numbers is not None:
        _, at_old, at_new = np.intersect1d(old.numbers, new.numbers, assume_unique=True, return_indices=True)
        # Rows with equal numbers match in content or, of different tables, at least in group.
        before, after = (old.hashes, new.hashes) if same_rows else (old.audited, new.audited)
        if before is not None and after is not None and at_old.size and (before[at_old] == after[at_new]).all():
            return _side_by_side(old.numbers, new.numbers)
    if not same_rows and (old.audited is not None or new.audited is not None):
        raise DataError("`paired` requires rows that both audits have, got tables with different contents.", NAME_AN_ID)
    if scores is not None and _differ_alike(old, new, scores):
        raise DataError(
            "`paired` requires rows that can be matched, got rows in another order that differ by their scores alone.",
            NAME_AN_ID,
        )
    return _side_by_side(*(mixed_hashes(rows.hashes, _occurrence(rows.hashes)) for rows in (old, new)))


def _side_by_side(old: Integers, new: Integers) -> Pairs:
    every, index = np.unique(np.concatenate([old, new]), return_inverse=True)
    return Pairs(index[: old.size], index[old.size :], every.size)


def _occurrence(keys: Hashes) -> Integers:
    """Return 0 for the first of equal keys, 1 for the second, and so on."""
    number = pl.int_range(pl.len(), dtype=pl.Int64).over("key")
    return pl.DataFrame({"key": keys}).select(number).to_series().to_numpy()


def _differ_alike(old: RowIdentities, new: RowIdentities, scores: tuple[RowErrors, RowErrors]) -> bool:
    """Return whether some rows with equal contents have different scores in both audits."""
    before, after = (_several(rows.hashes, errors.parts[:, 0]) for rows, errors in zip((old, new), scores, strict=True))
    return bool(np.isin(before, after).any())


def _several(keys: Hashes, values: Floats) -> Hashes:
    """Return the keys whose rows have different values."""
    spread = pl.col("value").max() - pl.col("value").min()
    least = NOISE * max(float(np.abs(values).max()), NOISE)
    groups = pl.DataFrame({"key": keys, "value": values}).group_by("key").agg(spread.alias("spread"))
    return groups.filter(pl.col("spread") > least)["key"].to_numpy()
