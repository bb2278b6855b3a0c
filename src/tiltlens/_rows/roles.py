"""The roles of columns: the arguments of an audit as columns of its table.

Arrays that are given with a table become columns of it, so that all engines share one reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from tiltlens._rows.groups import JOINT, check_known_groups, check_metric, group_columns, soft_columns
from tiltlens._rows.predictions import fitted_names, model_columns, model_matrix
from tiltlens._rows.scores import (
    Channel,
    RowName,
    channel_of,
    check_one_of_two,
    check_score_type,
    given_amounts,
    given_matrix,
    score_columns,
)
from tiltlens._rows.value_counts import GROUP, WEIGHT, Declared, declared_of
from tiltlens._sources.columns import check_index, column_of_values
from tiltlens.errors import DataError, check_columns, listed, shown, texts_of

MOST_FEATURES = 500  # of an audit: 20,000 rows then take minutes and 3 GiB, and the regressions have a column for each


# Names of columns that are added to those of the data, whose names never contain a NUL.
PROPENSITY, LOG_ODDS = "\0membership", "\0log-odds"
HASH, CLUSTER, SCORE = "\0hash", "\0cluster", "\0score "  # a score is followed by its number
OUTCOME, PERIOD, LABEL, CONTENT = "\0outcome", "\0period", "\0label", "\0content"

# Arguments that name at most one column (not a feature) or are an array, with the column that an array becomes.
ONE_COLUMN = {
    "propensity": PROPENSITY,
    "sample_weight": WEIGHT,
    "clusters": CLUSTER,
    "outcome": OUTCOME,
    "periods": PERIOD,
    "known_groups": LABEL,
}


@dataclass(frozen=True, slots=True, eq=False)
class FeatureChoice:
    """The arguments that choose and declare the features, as the user gave them."""

    features: str | Sequence[str] | None = None
    exclude: str | Sequence[str] | None = None
    categorical: str | Sequence[str] | None = None
    blocks: Mapping[str, str | Sequence[str]] | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Request:
    """The arguments of `tiltlens.audit` that define the comparison, as the user gave them."""

    group: object
    known_groups: object = None
    reference: object = None
    audited: object = None
    scores: object = None
    model: object = None
    score_type: str = "probability"
    favourable: object = "high"
    threshold: float | None = None
    outcome: object = None
    metric: str | None = None
    features: FeatureChoice = field(default_factory=FeatureChoice)
    exempt: str | Sequence[str] | None = None
    propensity: object = None
    sample_weight: object = None
    clusters: object = None
    periods: object = None
    where: Mapping[str, object] | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether a propensity model is to be fitted."""
        return self.propensity is None or hasattr(self.propensity, "fit")


@dataclass(frozen=True, slots=True, eq=False)
class ColumnRoles:
    """The role of each column, by which a batch is read. It is sent to every worker."""

    group: tuple[str, ...]
    scores: tuple[str, ...]
    labels: tuple[str, ...]  # of the outcomes, where the columns of the scores do not name them
    model: object  # the model or function that computes the scores, if no column has them
    features: tuple[str, ...]
    exempt: tuple[str, ...]  # the features that are exempt factors
    favourable: object
    threshold: float | None
    sample_weight: str | None
    where: Mapping[str, object]
    propensity: str | None  # the column of P(audited|x); None where a model is to be fitted
    clusters: str | None = None
    # The column of observed outcomes or, for amounts, costs; and the error rate whose difference is audited
    outcome: str | None = None
    metric: str | None = None
    periods: str | None = None
    known_groups: str | None = None  # the column of known groups, used to check the probabilities
    # The unobserved groups, whose probabilities are the columns `group`; empty if a column has the groups
    soft: tuple[str, ...] = ()
    score_type: str = "probability"  # or "amount"
    # The declarations about columns; and whether the sample keeps a model's input columns, to score rows again
    declared: Declared = field(default_factory=Declared)
    keeps_inputs: bool = False

    @property
    def name(self) -> str:
        """The name of the group."""
        return "group" if self.soft or self.group == (GROUP,) else JOINT.join(self.group)

    @property
    def label(self) -> str | None:
        """The column of outcomes with two values."""
        return None if self.score_type == "amount" else self.outcome

    @property
    def cost(self) -> str | None:
        """The column of observed costs, of amounts."""
        return self.outcome if self.score_type == "amount" else None

    @property
    def sources(self) -> list[str]:
        """The columns from which features are made, as models take them."""
        return self.declared.sources(self.features)

    def features_of(self, model: object) -> list[str]:
        """Return the features of which a model uses at least one column."""
        seen = set(model_columns(model, self.sources))
        return [name for name in self.features if seen.intersection(self.declared.sources([name]))]

    def channel(self, data: object, table: pl.DataFrame, model: object, row_name: RowName = "row {}".format) -> Channel:
        """Return the scores of some rows, from `model` or, without a model, from their columns of scores.

        `table` is clean, and `data` is the same table in the form that the model takes.
        """
        return channel_of(
            data,
            table,
            scores=None if model is not None else list(self.scores) or None,
            model=model,
            score_type=self.score_type,
            features=self.sources,
            favourable=self.favourable,
            threshold=self.threshold,
            labels=self.labels,
            row_name=row_name,
        )

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights: their own, or the probabilities of groups."""
        return self.sample_weight is not None or bool(self.soft)

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        optional = (self.propensity, self.sample_weight, self.clusters, self.outcome, self.periods, self.known_groups)
        others = [*self.group, *self.scores, *self.where, *optional]
        return list(dict.fromkeys([*self.sources, *(name for name in others if name is not None)]))


def resolve_roles(names: Sequence[str], request: Request, may_have_arrays: bool) -> ColumnRoles:
    """Return the roles of a table's columns; an array given with a table in memory gets a reserved name."""
    soft = soft_columns(request.group, names)
    check_known_groups(request.known_groups, soft)
    group = list(soft.values()) or group_columns(request.group, names)
    scores = score_columns(request.scores, names)
    check_one_of_two(request.scores, request.model)
    check_score_type(request.score_type, request.threshold)
    check_metric(request.metric, request.outcome, request.score_type)
    if not may_have_arrays:
        _check_no_arrays(request, {"group": bool(group), "scores": bool(scores)})
    optional = _optional_columns(request, names)
    where = _checked_where(request.where, names)
    named = [column for column in optional.values() if column is not None and not column.startswith("\0")]
    features, declared = declared_features(request.features, request.model, names, [*group, *scores, *where, *named])
    for argument, is_used in (("model", request.model is not None), ("propensity", hasattr(request.propensity, "fit"))):
        if is_used:
            check_some(features, names, argument)
    return ColumnRoles(
        group=tuple(group) or (GROUP,),
        scores=tuple(scores),
        labels=(),
        model=request.model,
        features=tuple(features),
        exempt=_exempt_names(request.exempt, [*dict.fromkeys((*names, *features))], features, group),
        favourable=request.favourable,
        threshold=request.threshold,
        sample_weight=optional["sample_weight"],
        where=where,
        propensity=None if request.is_fitted else optional["propensity"],
        clusters=optional["clusters"],
        outcome=optional["outcome"],
        metric=request.metric,
        periods=optional["periods"],
        known_groups=optional["known_groups"],
        soft=tuple(soft),
        score_type=request.score_type,
        declared=declared,
        keeps_inputs=request.model is not None or hasattr(request.propensity, "fit"),
    )


def declared_features(
    choice: FeatureChoice, model: object, names: Sequence[str], used: Sequence[str]
) -> tuple[list[str], Declared]:
    """Return the features, by default the columns that a model lists, and the declarations about them."""
    left_out = texts_of("exclude", choice.exclude)
    declared = declared_of(choice.categorical, choice.blocks, names, [*used, *left_out])
    available = [*names, *(block for block in declared.blocks if block not in names)]
    of_model = [name for name in fitted_names(model) if name not in left_out]
    has_default = choice.features is None and of_model and set(of_model) <= set(names)
    chosen = feature_names(of_model if has_default else choice.features, available, used, left_out)
    features, declared = declared.of_features(chosen)
    if len(features) > MOST_FEATURES:
        raise DataError(
            f"`features` must be at most {MOST_FEATURES} columns, got {len(features):,}.",
            "list those that the model sees with `features`, or leave others out with `exclude`.",
        )
    return features, declared


def _optional_columns(request: Request, names: Sequence[str]) -> dict[str, str | None]:
    """Return the column of each argument that names one or is an array; an array gets a reserved name."""
    columns: dict[str, str | None] = {}
    for argument, reserved in ONE_COLUMN.items():
        value = getattr(request, argument)
        if isinstance(value, str):
            check_columns(argument, [value], names)
        columns[argument] = value if value is None or isinstance(value, str) else reserved
    return columns


def _check_no_arrays(request: Request, is_column: Mapping[str, bool]) -> None:
    """Raise where an argument is an array but the data are read in batches."""
    for argument in (*is_column, *ONE_COLUMN):
        value = getattr(request, argument)
        is_name = is_column.get(argument, isinstance(value, str))
        is_estimator = argument == "propensity" and hasattr(value, "fit")
        if not (is_name or is_estimator) and (value is not None or argument == "group"):
            raise must_be_column(argument, value)


def must_be_column(argument: str, value: object) -> DataError:
    """Return the error for an array where the data are read in batches."""
    hint = "put the values into a column of the data."
    if argument == "propensity":
        hint = "put P(audited|x) into a column; or leave it out, and tiltlens fits a model on a sample of the rows."
    return DataError(
        f"`{argument}` must be the name of a column of data that is read in batches, got {shown(value)}.", hint
    )


def _checked_where(where: object, names: Sequence[str]) -> dict[str, object]:
    if where is None:
        return {}
    if not isinstance(where, Mapping) or not where:
        raise DataError(
            f"`where` must be a dict that maps columns to values, got {shown(where)}.", "for example {'repaid': 1}."
        )
    check_columns("where", where, names)
    return dict(where)


def feature_names(
    features: str | Sequence[str] | None,
    names: Sequence[str],
    used: Sequence[str] = (),
    exclude: str | Sequence[str] | None = None,
) -> list[str]:
    """Return the listed features, or by default every column that is neither used otherwise nor excluded.

    There may be none: then only outputs are compared.
    """
    left_out = texts_of("exclude", exclude)
    check_columns("exclude", left_out, names)
    if features is None:
        taken = {*used, *left_out}
        chosen = [name for name in names if name not in taken]
    else:
        chosen = list(dict.fromkeys(texts_of("features", features)))
        check_columns("features", chosen, names)
        both = [name for name in chosen if name in left_out]
        if both:
            raise DataError(
                f"`exclude` must not name listed features, got {shown(both[0])}.", "list it in one of the two."
            )
    return chosen


def _exempt_names(
    exempt: str | Sequence[str] | None, names: Sequence[str], features: Sequence[str], group: Sequence[str]
) -> tuple[str, ...]:
    """Return the exempt factors: some of the features, each once, and not the group."""
    chosen = texts_of("exempt", exempt)
    check_columns("exempt", chosen, names)
    for name in chosen:
        if name in group:
            raise DataError(f"`exempt` must not name the group, got {shown(name)}.", "name other factors.")
        if name not in features:
            raise DataError(f"{shown(name)} is not a listed feature (`exempt`).", "list it in `features` too.")
        if chosen.count(name) > 1:
            raise DataError(
                f"`exempt` must name different features, got {shown(name)} twice.", "name each of them once."
            )
    return tuple(chosen)


def check_some(features: Sequence[str], names: Sequence[str], needed_by: str) -> None:
    """Raise if there are no features for an argument that needs them."""
    if not features:
        raise DataError(
            f"`features` must name at least one column for `{needed_by}`, got none.",
            f"the columns are {listed(names)}; those used as group, score or weight are not features.",
        )


def with_arrays(
    table: pl.DataFrame, data: object, request: Request, roles: ColumnRoles
) -> tuple[pl.DataFrame, ColumnRoles]:
    """Return a table in memory with the given arrays as columns, and their roles.

    `data` is the user's own table, from which a model takes its features as when it was fitted.
    """
    for argument in ("group", "scores", *ONE_COLUMN):
        check_index(argument, getattr(request, argument), data)
    arrays = {"group": GROUP} | ONE_COLUMN
    columns = [
        column_of_values(argument, getattr(request, argument), table.height).alias(reserved)
        for argument, reserved in arrays.items()
        if reserved in roles.columns
    ]
    if roles.scores:
        return table.with_columns(columns), roles
    if request.model is not None:
        matrix, labels = model_matrix(request.model, data, table, roles.sources, request.score_type)
    elif request.score_type == "amount":
        matrix, labels = given_amounts(request.scores, table.height), ()
    else:
        matrix, labels = given_matrix(request.scores, table.height, request.favourable)
    names = tuple(f"{SCORE}{y}" for y in range(matrix.shape[1]))
    columns += [pl.Series(name, matrix[:, y]) for y, name in enumerate(names)]
    labels = labels or tuple(str(y) for y in range(max(len(names), 2)))
    return table.with_columns(columns), replace(roles, scores=names, labels=labels, model=None)
