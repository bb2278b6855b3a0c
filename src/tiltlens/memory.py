"""An audit of rows in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.engines.tables import check_columns, column_names, column_of_values, native_columns, read_table, shown
from tiltlens.errors import DataError
from tiltlens.estimators.estimate import Rows
from tiltlens.models.features import Feature, design_columns, encode_features, feature_names
from tiltlens.models.groups import Groups, group_columns, groups_of
from tiltlens.models.membership import (
    Membership,
    area_under_curve,
    check_overlap,
    chosen_membership,
    estimator_membership,
    fitted_log_odds,
    known_membership,
    naming,
)
from tiltlens.models.paper_fit import logistic_log_odds
from tiltlens.models.scores import Channel, channel_of, score_columns
from tiltlens.models.weights import equal_to, numbers_of, weights_of
from tiltlens.paper.checks import Floats
from tiltlens.progress import stage
from tiltlens.results.comparison import Comparison, compare
from tiltlens.results.pairs import PairRows
from tiltlens.results.provenance import asked
from tiltlens.results.settings import Settings
from tiltlens.threads import in_threads, one_thread

Booleans = NDArray[np.bool_]
READING = 0.05  # of the time, about
MEMBERSHIP = 0.4  # of the time of a comparison, about


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """The arguments of an audit but its data; `roles` are those of `group`, `scores`, `membership` and `weights`."""

    roles: Mapping[str, Any]
    model: Any
    features: str | Sequence[str] | None
    favourable: Any
    threshold: float | None
    given: Mapping[str, Any] | None
    reference: Any
    audited: Any
    settings: Settings

    def used(self, names: Sequence[str]) -> list[str]:
        """Return the columns with a role of their own, which are no features unless listed."""
        used = [*group_columns(self.roles["group"], names), *score_columns(self.roles["scores"], names)]
        for argument in ("membership", "weights"):
            if isinstance(self.roles[argument], str):
                check_columns(argument, [self.roles[argument]], names)
                used.append(self.roles[argument])
        if self.given is not None:
            if not isinstance(self.given, Mapping) or not self.given:
                raise DataError(
                    f"`given` must be a dict of column: value, got {shown(self.given)}.", "e.g. {'repaid': 1}."
                )
            check_columns("given", self.given, names)
            used += self.given
        return list(dict.fromkeys(used))

    def chosen(self, names: Sequence[str]) -> list[str]:
        """Return the features."""
        return feature_names(self.features, names, self.used(names))

    def words(self) -> dict[str, Any]:
        """Return what was asked, as texts."""
        return asked({**self.roles, "model": self.model, "threshold": self.threshold, "given": self.given})


@dataclass(frozen=True, slots=True, eq=False)
class RowAudit:
    """The parts of an audit."""

    comparisons: dict[str, Comparison]
    rows: dict[str, int]
    groups: Groups
    channel: Channel
    table: pl.DataFrame
    features: list[str]


def audit_in_memory(data: Any, request: Request) -> RowAudit:
    """Return the audit of a table whose rows are in memory."""
    roles, settings = request.roles, request.settings
    with stage(0.0, READING, "reading"):
        names = column_names(data)
        chosen = request.chosen(names)
        table = read_table(data, [*dict.fromkeys([*chosen, *request.used(names)])])
        channel = channel_of(
            data,
            table,
            scores=roles["scores"],
            model=request.model,
            features=chosen,
            favourable=request.favourable,
            threshold=request.threshold,
        )
        weights = weights_of(roles["weights"], table)
        keep, left_out = _kept(table, channel, weights, request.given)
    groups = groups_of(
        table.filter(keep), _kept_values(roles["group"], names, keep), request.reference, request.audited
    )
    everyone = _compared(table, groups, keep, chosen, channel, weights, roles["weights"] is not None)
    source = _MembershipSource(roles["membership"], data, table, chosen, settings, len(groups.audited))
    with stage(READING, 1.0), one_thread():
        comparisons = _comparisons(groups, channel, everyone, source, settings)
    rows = _accounted(table.height, left_out, groups, everyone.index.size)
    return RowAudit(comparisons, rows, groups, channel, table, chosen)


def _compared(
    table: pl.DataFrame,
    groups: Groups,
    keep: Booleans,
    chosen: Sequence[str],
    channel: Channel,
    weights: Floats,
    is_weighted: bool,
) -> _Compared:
    """Return the rows of the groups that are compared, with their features."""
    compared = np.isin(groups.codes, [groups.labels.index(label) for label in (groups.reference, *groups.audited)])
    index, codes = np.flatnonzero(keep)[compared], groups.codes[compared]
    rows = table if index.size == table.height else table[index]
    encoded = encode_features(rows, chosen, codes, weights[index] if is_weighted else None)
    telling = sorted(feature.name for feature in encoded if feature.in_membership)
    order = _canonical_order(rows.select(telling), codes, channel.scores[index], weights[index])
    return _Compared(index, codes, weights[index], encoded, order)


def _kept(
    table: pl.DataFrame, channel: Channel, weights: Floats, given: Mapping[str, Any] | None
) -> tuple[Booleans, dict[str, int]]:
    """Return which rows can be used, and how many were left out for which reason; the first reason counts."""
    keep = np.ones(table.height, dtype=np.bool_)
    left_out: dict[str, int] = {}

    def leave_out(reason: str, rows: Booleans) -> None:
        left_out[reason] = int((keep & rows).sum())
        keep[rows] = False

    for column, value in (given or {}).items():
        leave_out(f"not_given_{column}", ~equal_to(table[column], value))
    leave_out("missing_score", channel.missing)
    leave_out("zero_weight", weights == 0)
    if not keep.any():
        raise DataError(
            f"the data must have rows left to compare, got none of {table.height}.", f"left out: {left_out}."
        )
    return keep, left_out


def _kept_values(values: Any, names: Sequence[str], keep: Booleans) -> Any:
    """Return an array argument for the kept rows only; column names stay as they are."""
    if group_columns(values, names):
        return values
    column = column_of_values("group", values, len(keep))
    return column.filter(pl.Series(keep))


def _canonical_order(
    features: pl.DataFrame, codes: NDArray[np.int64], scores: Floats, weights: Floats
) -> NDArray[np.intp]:
    """Return an order of the rows that depends on what they hold alone, so that folds and samples do too.

    Kinds that differ from engine to engine are hashed as one.
    """
    columns = [pl.Series("group", codes), pl.Series("weight", weights)]
    columns += [pl.Series(f"score {y}", column).round(9) for y, column in enumerate(np.atleast_2d(scores.T))]
    for number, column in enumerate(features.get_columns()):
        if column.dtype.is_temporal():
            column = column.cast(pl.Datetime("us")).to_physical()
        as_one = pl.Float64 if column.dtype.is_numeric() else pl.String
        columns.append(column.cast(as_one).alias(f"feature {number}"))
    hashes = pl.DataFrame(columns).hash_rows(seed=0)
    return np.argsort(hashes.to_numpy(), kind="stable")


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """The rows of the reference and of all audited groups: their places in the table, groups, weights, features.

    `order` is the order in which the rows are taken.
    """

    index: NDArray[np.intp]
    codes: NDArray[np.int64]
    weights: Floats
    features: tuple[Feature, ...]
    order: NDArray[np.intp]


def _accounted(read: int, left_out: dict[str, int], groups: Groups, used: int) -> dict[str, int]:
    """Return where every row went; what was used and what was left out add up to what was read."""
    gone = left_out | {"missing_group": groups.unknown, "too_small_group": sum(groups.too_small.values())}
    return {"read": read, "used": used} | gone | {"group_not_audited": read - used - sum(gone.values())}


def _comparisons(
    groups: Groups, channel: Channel, everyone: _Compared, source: _MembershipSource, settings: Settings
) -> dict[str, Comparison]:
    """Return the comparisons, each an equal part of the work."""
    found, count = {}, len(groups.audited)
    for place, label in enumerate(groups.audited):
        with stage(place / count, (place + 1) / count, label):
            found[label] = _compare(label, groups, channel, everyone, source, settings)
    return found


def _compare(
    label: str, groups: Groups, channel: Channel, everyone: _Compared, source: _MembershipSource, settings: Settings
) -> Comparison:
    both = (groups.labels.index(label), groups.labels.index(groups.reference))
    place = everyone.order[np.isin(everyone.codes[everyone.order], both)]
    index = everyone.index[place]
    rows = Rows.of(everyone.codes[place] == both[0], everyone.weights[place])
    scores, favourable = channel.scores[index], channel.of_favourable()[index]
    features = tuple(in_threads(lambda feature: feature.rows(place), everyone.features, place.size))
    design_columns(features)  # raises, with reasons, where no feature can tell groups apart
    pair = PairRows(rows, scores, scores if scores.ndim == 1 else favourable, favourable, features, index)
    with stage(0.0, MEMBERSHIP, "membership model"):
        found, name = source.of(rows, features, index)
    with stage(MEMBERSHIP, 1.0):
        return compare(label, groups.reference, pair, found, name, settings)


@dataclass(frozen=True, slots=True, eq=False)
class _MembershipSource:
    """Where P(audited|x) comes from."""

    given: Any
    data: Any
    table: pl.DataFrame
    features: list[str]
    settings: Settings
    comparisons: int

    def of(self, rows: Rows, features: tuple[Feature, ...], index: NDArray[np.intp]) -> tuple[Membership | Floats, str]:
        """Return the membership of these rows, cross-fitted or known, or log-odds where plug-in values are wanted."""
        folds, seed = self.settings.folds, self.settings.seed
        if self.given is None:
            if folds is None:
                log_odds = logistic_log_odds(features, rows.audited, rows.weights)
                check_overlap(area_under_curve(rows, log_odds))
                return log_odds, "logistic"
            chosen = chosen_membership(rows, design_columns(features), folds, seed)
            return chosen, chosen.name
        if hasattr(self.given, "fit"):
            return self._of_estimator(rows, index)
        known = known_membership(rows, self._probabilities(index))
        return (known.log_odds, "given") if folds is None else (known, "given")

    def _of_estimator(self, rows: Rows, index: NDArray[np.intp]) -> tuple[Membership | Floats, str]:
        from sklearn.utils import _safe_indexing

        name = type(self.given).__name__
        native = native_columns(self.data, self.table, self.features)
        native = pl.DataFrame(native) if isinstance(native, Mapping) else native
        inputs = _safe_indexing(native, index)
        with naming(self.given):
            if self.settings.folds is None:
                everyone = np.ones(len(index), dtype=np.bool_)
                return fitted_log_odds(rows, self.given, inputs, everyone), name
            return estimator_membership(rows, self.given, inputs, self.settings.folds, self.settings.seed), name

    def _probabilities(self, index: NDArray[np.intp]) -> Floats:
        if self.comparisons > 1:
            raise DataError(
                f"`membership` must be None or an estimator for several audited groups, got values for "
                f"{self.comparisons} of them.",
                "name one audited group: P(audited|x) is another one for each.",
            )
        if isinstance(self.given, str):
            column = self.table[self.given]
        else:
            column = column_of_values("membership", self.given, self.table.height)
        values = numbers_of("membership", column)[index]
        bad = ~((values > 0) & (values < 1))
        if bad.any():
            row = int(index[np.argmax(bad)])
            raise DataError(
                f"`membership` must lie strictly between 0 and 1, got {column[row]} in row {row}.",
                "it is P(audited|x); 0 or 1 says that the groups do not overlap there: leave such rows out.",
            )
        return values
