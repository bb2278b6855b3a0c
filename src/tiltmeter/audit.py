"""The audit: any table, any model, one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.bins import told_rows
from tiltmeter.comparison import Comparison, compare
from tiltmeter.engines.tables import (
    check_columns,
    column_names,
    column_of_values,
    native_columns,
    read_table,
    shown,
)
from tiltmeter.errors import DataError
from tiltmeter.models.channel import Channel, channel_of, score_columns
from tiltmeter.models.features import Feature, design_columns, encode_features, feature_names
from tiltmeter.models.groups import Groups, group_columns, groups_of
from tiltmeter.models.kept import equal_to, numbers_of, weights_of
from tiltmeter.models.membership import (
    Membership,
    area_under_curve,
    check_overlap,
    chosen_membership,
    estimator_membership,
    fitted_log_odds,
    known_membership,
    naming,
)
from tiltmeter.models.paper import logistic_log_odds
from tiltmeter.pairs import PairRows
from tiltmeter.progress import Listener, stage, told_to
from tiltmeter.provenance import Provenance, asked, check_provenance, provenance_of, stream_provenance
from tiltmeter.settings import Settings
from tiltmeter.streams.audit import StreamedAudit, check_streamed, streamed_audit
from tiltmeter.streams.reading import Question, asked_of_rows
from tiltmeter.streams.sources import are_few, collected, read_into_memory, stream_of
from tiltmeter.theory.checks import Floats
from tiltmeter.theory.uncertainty import Rows
from tiltmeter.threads import in_threads, one_thread
from tiltmeter.views.json_file import write_json
from tiltmeter.views.notebook import audit_html
from tiltmeter.views.report.page import write_report

Booleans = NDArray[np.bool_]
SCHEMA = "tiltmeter/audit/1"  # of to_dict and to_json; a change that breaks a reader raises the number
READING = 0.05  # of the time, about
MEMBERSHIP = 0.4  # of the time of a comparison, about


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """The result of an audit.

    Attributes
    ----------
    comparisons
        One `Comparison` for each audited group, by name.
    rows
        Where every row went: read, used, and left out for which reason.
    group, reference
        What was compared.
    channel
        "scores", or "decisions" where every score is 0 or 1 or a threshold was given.
    favourable
        The outcome a person wants.
    too_small
        Groups nothing is said about, with their sizes.
    settings
        The numbers the audit was asked for with.
    provenance
        When, by which versions, from which data, and what the user said of them.
    """

    comparisons: dict[str, Comparison]
    rows: dict[str, int]
    group: str
    reference: str
    channel: str
    favourable: str
    too_small: dict[str, int]
    settings: Settings
    provenance: Provenance

    def __getitem__(self, audited: str) -> Comparison:
        if audited not in self.comparisons:
            raise DataError(
                f"`audited` must be one of the compared groups, got {audited!r}.", f"they are {list(self.comparisons)}."
            )
        return self.comparisons[audited]

    def __iter__(self) -> Iterator[str]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the audit, keyed by attribute name; the sizes of groups too small are withheld."""
        return {
            "schema": SCHEMA,
            "group": self.group,
            "reference": self.reference,
            "channel": self.channel,
            "favourable": self.favourable,
            "rows": told_rows(self.rows, self.too_small.values()),
            "too_small": dict.fromkeys(self.too_small),
            "settings": asdict(self.settings),
            "provenance": asdict(self.provenance),
            "comparisons": {name: comparison.to_dict() for name, comparison in self.comparisons.items()},
        }

    def to_json(self, path: str | Path) -> None:
        """Write every number of the audit to a JSON file, whole or not at all."""
        write_json(self.to_dict(), str(path))

    def report(self, path: str | Path) -> None:
        """Write the report, one HTML file that needs no network, whole or not at all."""
        write_report(self.to_dict(), path)

    def _repr_html_(self) -> str:
        return audit_html(repr(self), [comparison._repr_html_() for comparison in self.comparisons.values()])

    def __repr__(self) -> str:
        return f"Audit({self.group} against {self.reference!r}: {', '.join(map(repr, self.comparisons))})"


def audit(
    data: Any,
    group: Any,
    reference: Any = None,
    audited: Any = None,
    scores: Any = None,
    model: Any = None,
    favourable: Any = "high",
    threshold: float | None = None,
    features: str | Sequence[str] | None = None,
    membership: Any = None,
    weights: Any = None,
    given: Mapping[str, Any] | None = None,
    input_weight: float = 1.0,
    output_weight: float = 1.0,
    confidence: float = 0.95,
    materiality: float = 0.005,
    folds: int | None = 5,
    seed: int = 0,
    total_shares: bool = True,
    provenance: Mapping[str, str] | None = None,
    progress: Listener | None = None,
) -> Audit:
    """Return how a fixed model's outputs differ between groups, and which features carry the difference.

    Parameters
    ----------
    data
        A pandas or Polars frame (eager or lazy), a pyarrow table, a DuckDB relation, a Spark data frame, a dict of
        arrays, or files: a path, a pattern such as "data/*.parquet", a folder, a list of these. What is larger than
        memory is streamed: see `docs/scale.md`.
    group
        A column, several columns (their intersections), or an array as long as the data.
    reference, audited
        The group others are compared with (default: the largest), and those others (default: all).
    scores, model
        Exactly one: columns or an array of probabilities, (n,) or (n, K); or a fitted model or function that makes
        them from `features`.
    favourable
        The outcome a person wants: "high", "low" or a class.
    threshold
        A cut on the score that makes decisions.
    features
        Default: every column not used otherwise.
    membership
        P(audited|x): None to choose a model, a scikit-learn classifier to cross-fit, or a column or array to be taken
        as known.
    weights
        Row weights: a column or an array.
    given
        {column: value}: look only at rows with this value, e.g. of the true outcome.
    input_weight, output_weight
        λ2 and λ4.
    confidence, materiality, folds, seed
        Of the intervals; points of the score that matter; of the cross-fit (None: the paper's plug-in values, no
        intervals); of everything random.
    total_shares
        Whether to fit what total shares and joint proxy evidence need.
    provenance
        What a reader of the report should know of the data and the model, e.g. {"group labels": "self-reported",
        "data window": "2024", "model": "credit 3.1"}.
    progress
        A function that is told, again and again, the stage of the work and the fraction done, up to 1.
    """
    if progress is not None and not callable(progress):
        raise DataError(
            f"`progress` must be a function of a stage and a fraction, got {shown(progress)}.", "for example print."
        )
    stated = check_provenance(provenance)
    roles = {"group": group, "scores": scores, "membership": membership, "weights": weights}
    settings = Settings(input_weight, output_weight, confidence, materiality, folds, seed, total_shares)
    with told_to(progress):
        streamed = stream_of(data)
        if streamed is not None:
            question = _question(streamed.names(), roles, model, features, favourable, threshold, given)
            if question.membership is not None or not are_few(streamed):
                check_streamed(question, settings)
                found = streamed_audit(streamed, question, reference, audited, settings, membership)
                words = asked(roles | {"model": model, "threshold": threshold, "given": given})
                return _of_stream(found, question, settings, words, stated)
            data, features = collected(streamed, question.columns), list(question.features)
        with stage(0.0, READING, "reading"):
            data = read_into_memory(data)
            names = column_names(data)
            used = _used_columns(names, group, scores, membership, weights, given)
            chosen = feature_names(features, names, used)
            table = read_table(data, [*dict.fromkeys([*chosen, *used])])
            channel = channel_of(
                data, table, scores=scores, model=model, features=chosen, favourable=favourable, threshold=threshold
            )
            row_weights = weights_of(weights, table)
            keep, left_out = _kept(table, channel, row_weights, given)
        groups = groups_of(table.filter(keep), _kept_values(group, names, keep), reference, audited)
        compared = np.isin(groups.codes, [groups.labels.index(label) for label in (groups.reference, *groups.audited)])
        index, codes = np.flatnonzero(keep)[compared], groups.codes[compared]
        used_rows = table if index.size == table.height else table[index]
        encoded = encode_features(used_rows, chosen, codes, None if weights is None else row_weights[index])
        source = _MembershipSource(membership, data, table, chosen, settings, len(groups.audited))
        telling = sorted(feature.name for feature in encoded if feature.in_membership)
        order = _canonical_order(used_rows.select(telling), codes, channel.scores[index], row_weights[index])
        everyone = _Compared(index, codes, row_weights[index], encoded, order)
        with stage(READING, 1.0), one_thread():
            comparisons = _comparisons(groups, channel, everyone, source, settings)
    return Audit(
        comparisons=comparisons,
        rows=_accounted(table.height, left_out, groups, index.size),
        group=groups.name,
        reference=groups.reference,
        channel=channel.kind,
        favourable=channel.labels[channel.favourable],
        too_small=dict(groups.too_small),
        settings=settings,
        provenance=provenance_of(
            table, chosen, asked(roles | {"model": model, "threshold": threshold, "given": given}), stated
        ),
    )


def _question(
    names: Sequence[str],
    roles: Mapping[str, Any],
    model: Any,
    features: str | Sequence[str] | None,
    favourable: Any,
    threshold: float | None,
    given: Mapping[str, Any] | None,
) -> Question:
    """Return what an audit asks of each row of a stream."""
    used = _used_columns(names, roles["group"], roles["scores"], roles["membership"], roles["weights"], given)
    chosen = feature_names(features, names, used)
    return asked_of_rows(names, roles, model, chosen, favourable, threshold, given)


def _of_stream(
    found: StreamedAudit, question: Question, settings: Settings, words: dict[str, Any], stated: dict[str, str]
) -> Audit:
    return Audit(
        comparisons=found.comparisons,
        rows=found.rows,
        group=question.name,
        reference=found.groups.reference,
        channel="decisions" if found.is_decisions else "scores",
        favourable=found.favourable,
        too_small=dict(found.groups.too_small),
        settings=settings,
        provenance=stream_provenance(found.rows["read"], found.fingerprint, question.features, words, stated),
    )


def _used_columns(
    names: Sequence[str], group: Any, scores: Any, membership: Any, weights: Any, given: Mapping[str, Any] | None
) -> list[str]:
    """Return the columns with a role of their own, which are no features unless listed."""
    used = [*group_columns(group, names), *score_columns(scores, names)]
    for argument, value in (("membership", membership), ("weights", weights)):
        if isinstance(value, str):
            check_columns(argument, [value], names)
            used.append(value)
    if given is not None:
        if not isinstance(given, Mapping) or not given:
            raise DataError(f"`given` must be a dict of column: value, got {shown(given)}.", "e.g. {'repaid': 1}.")
        check_columns("given", given, names)
        used += given
    return list(dict.fromkeys(used))


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
