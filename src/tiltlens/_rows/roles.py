"""The roles of columns: the arguments of an audit as columns of its table.

Arrays that are given with a table become columns of it, so that all engines share one reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from os.path import commonprefix

import polars as pl

from tiltlens._formats import text_of
from tiltlens._rows.groups import JOINT, check_known_groups, check_metric, group_columns, soft_columns
from tiltlens._rows.predictions import fitted_names, model_columns
from tiltlens._rows.scores import (
    Channel,
    RowName,
    channel_of,
    check_one_of_two,
    check_score_type,
    given_amounts,
    given_matrix,
    model_scores,
    score_columns,
)
from tiltlens._sources.tables import check_index, column_of_values
from tiltlens.errors import DataError, check_columns, quoted, quoted_list, texts_of

MOST_FEATURES = 500  # of an audit: 20,000 rows then take minutes and 3 GiB, and the regressions have a column for each


# Names of columns that are added to those of the data, whose names never contain a NUL.
GROUP, PEOPLE, WEIGHT = "\0group", "\0people", "\0weight"
INPUT = "\0input "  # before the name of a column in the form that the model takes
PROPENSITY, LOG_ODDS = "\0membership", "\0log-odds"
HASH, CLUSTER, SCORE = "\0hash", "\0cluster", "\0score "  # a score is followed by its number
OUTCOME, PERIOD, LABEL, CONTENT = "\0outcome", "\0period", "\0label", "\0content"

# Arguments that name at most one column (not a feature) or are an array, with the column that an array becomes.
# Fields of `Request` and `ColumnRoles` have the same names.
ONE_COLUMN = {
    "propensity": PROPENSITY,
    "sample_weight": WEIGHT,
    "clusters": CLUSTER,
    "outcome": OUTCOME,
    "periods": PERIOD,
    "known_groups": LABEL,
}


@dataclass(frozen=True, slots=True)
class Declared:
    """Columns to treat as categories whatever their values, and the columns of each block. Sent to every worker."""

    categorical: tuple[str, ...] = ()
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def sources(self, features: Sequence[str]) -> list[str]:
        """Return the columns of the data from which features are made, in the order of the features."""
        return [column for name in features for column in self.blocks.get(name, (name,))]

    def made_of(self, feature: str) -> tuple[str, ...]:
        """Return the columns from which a declared feature is made; empty for a feature that is used as read."""
        return (feature,) if feature in self.categorical else self.blocks.get(feature, ())

    def applied(self, table: pl.DataFrame, inputs: Sequence[str] = ()) -> pl.DataFrame:
        """Return a clean table with declared features as texts, where it has their columns, and a copy of `inputs`."""
        available = set(table.columns)
        made = [_category(table[name]) for name in self.categorical if name in available]
        made += [
            _joint(name, table.select(parts)) for name, parts in self.blocks.items() if available.issuperset(parts)
        ]
        return table.with_columns(*made, *(table[name].alias(f"{INPUT}{name}") for name in inputs))

    def of_features(self, features: Sequence[str]) -> tuple[list[str], Declared]:
        """Return the features with each block in place of its columns, and blocks of those columns that are listed."""
        kept = {name: parts if name in features else features for name, parts in self.blocks.items()}
        blocks = {
            name: tuple(column for column in parts if column in kept[name]) for name, parts in self.blocks.items()
        }
        owner = {column: name for name, parts in self.blocks.items() for column in parts}
        chosen = list(dict.fromkeys(owner.get(column, column) for column in features))
        check_columns("blocks", blocks, chosen, "feature")
        check_columns("categorical", self.categorical, [name for name in chosen if name not in blocks], "feature")
        return chosen, replace(self, blocks=blocks)


def declared_in(made_of: Mapping[str, Sequence[str]]) -> Declared:
    """Return the declarations, from the columns of which each feature is made (empty for a feature used as read)."""
    categorical = tuple(name for name, parts in made_of.items() if list(parts) == [name])
    blocks = {name: tuple(parts) for name, parts in made_of.items() if parts and list(parts) != [name]}
    return Declared(categorical, blocks)


def declared_of(categorical: object, blocks: object, names: Sequence[str], taken: Sequence[str]) -> Declared:
    """Return the declarations about a table's columns; patterns skip columns that are `taken` by other roles."""
    if blocks is not None and not isinstance(blocks, Mapping):
        raise DataError(f"`blocks` must be a dict, got {quoted(blocks)}.", "for example {'region': ['region_*']}.")
    columns_of: dict[str, tuple[str, ...]] = {}
    for block, patterns in (blocks or {}).items():
        used = {*taken, *(column for parts in columns_of.values() for column in parts)}
        wanted = [str(pattern) for pattern in texts_of("blocks", patterns)]
        matched = {name for name in names for text in wanted if name == text or fnmatchcase(name, text)} - used
        if len(matched) < 2:
            got = f"{len(matched)} that match {quoted_list(wanted)} and have no other role"
            raise DataError(
                f"`blocks` must have two or more columns for {quoted(block)}, got {got}.",
                f"available columns: {quoted_list(names)}.",
            )
        if block in names and block not in matched:
            raise DataError(f"`blocks` must have new names, but {quoted(block)} is a column.", "rename the block.")
        columns_of[str(block)] = tuple(name for name in names if name in matched)
    return Declared(tuple(dict.fromkeys(texts_of("categorical", categorical))), columns_of)


def _category(column: pl.Series) -> pl.Series:
    """Return any values as texts, 1 and 1.0 as the same; booleans are categories as they are."""
    if column.dtype in (pl.Boolean, pl.String):
        return column
    distinct = column.drop_nulls().unique()
    texts = pl.Series([text_of(value) for value in distinct], dtype=pl.String)
    return column.replace_strict(distinct, texts, default=None, return_dtype=pl.String)


def _joint(name: str, table: pl.DataFrame) -> pl.Series:
    """Return the joint values of columns as texts; of columns of 0 and 1, the names of those that are 1.

    A text depends only on its row, so that every batch and every engine gives the same.
    """
    prefix, distinct = common_prefix(table.columns), table.unique()
    names = [name.removeprefix(prefix) or name for name in table.columns]
    texts = [", ".join(filter(None, map(_part, names, row))) or "(none)" for row in distinct.iter_rows()]
    made = distinct.with_columns(pl.Series(INPUT, texts, dtype=pl.String))
    joined = table.join(made, on=table.columns, how="left", nulls_equal=True, maintain_order="left")
    is_missing = pl.all_horizontal(pl.col(table.columns).is_null())
    return joined.select(pl.when(~is_missing).then(pl.col(INPUT)).alias(name)).to_series()


def _part(name: str, value: object) -> str:
    if value in (0, 1):
        return name if value else ""
    return f"{name}={'(missing)' if value is None else text_of(value)}"


def common_prefix(names: Sequence[str]) -> str:
    """Return the common prefix of names, up to its last character that is neither a letter nor a digit."""
    return re.sub(r"[^\W_]+$", "", commonprefix(list(names)))  # noqa: RUF071 - names, not paths


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
    def estimator(self) -> object:
        """The classifier that is to be cross-fitted as propensity model; None if a column is given, or nothing."""
        return self.propensity if hasattr(self.propensity, "fit") else None


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
        seen = set() if model is None else set(model_columns(model, self.sources))
        return [name for name in self.features if seen.intersection(self.declared.sources([name]))]

    def channel(self, data: object, table: pl.DataFrame, model: object, row_name: RowName = "row {}".format) -> Channel:
        """See `channel_of`."""
        return channel_of(self, data, table, model, row_name)

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights: their own, or the probabilities of groups."""
        return self.sample_weight is not None or bool(self.soft)

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        others = [*self.group, *self.scores, *self.where, *(getattr(self, argument) for argument in ONE_COLUMN)]
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
    for argument, value, columns in (("group", request.group, group), ("scores", request.scores, scores)):
        if not (may_have_arrays or columns) and (value is not None or argument == "group"):
            raise must_be_column(argument, value)
    optional = _optional_columns(request, names, may_have_arrays)
    where = _checked_where(request.where, names)
    named = [column for column in optional.values() if column is not None and not column.startswith("\0")]
    features, declared = declared_features(request.features, request.model, names, [*group, *scores, *where, *named])
    for argument, user in (("model", request.model), ("propensity", request.estimator)):
        if user is not None:
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
        where=where,
        metric=request.metric,
        soft=tuple(soft),
        score_type=request.score_type,
        declared=declared,
        keeps_inputs=request.model is not None or request.estimator is not None,
        **optional,
    )


def declared_features(
    choice: FeatureChoice, model: object, names: Sequence[str], used: Sequence[str]
) -> tuple[list[str], Declared]:
    """Return the features, by default the columns that a model lists, and the declarations about them."""
    left_out = texts_of("exclude", choice.exclude)
    declared = declared_of(choice.categorical, choice.blocks, names, [*used, *left_out])
    available = [*names, *(block for block in declared.blocks if block not in names)]
    of_model = [] if model is None else [name for name in fitted_names(model) if name not in left_out]
    has_default = choice.features is None and of_model and set(of_model) <= set(names)
    chosen = feature_names(of_model if has_default else choice.features, available, used, left_out)
    features, declared = declared.of_features(chosen)
    if len(features) > MOST_FEATURES:
        raise DataError(
            f"`features` must be at most {MOST_FEATURES} columns, got {len(features):,}.",
            "list those that the model sees with `features`, or leave others out with `exclude`.",
        )
    return features, declared


def _optional_columns(request: Request, names: Sequence[str], may_have_arrays: bool) -> dict[str, str | None]:
    """Return the column of each argument that names one or is an array, which gets a reserved name; else None."""
    columns: dict[str, str | None] = {}
    for argument, reserved in ONE_COLUMN.items():
        value = getattr(request, argument)
        is_array = not (value is None or isinstance(value, str) or value is request.estimator)
        if is_array and not may_have_arrays:
            raise must_be_column(argument, value)
        check_columns(argument, [value] if isinstance(value, str) else [], names)
        columns[argument] = reserved if is_array else value if isinstance(value, str) else None
    return columns


def must_be_column(argument: str, value: object) -> DataError:
    """Return the error for an array where the data are read in batches."""
    hint = "put the values into a column of the data."
    if argument == "propensity":
        hint = "put P(audited|x) into a column; or leave it out, and tiltlens fits a model on a sample of the rows."
    return DataError(
        f"`{argument}` must be the name of a column of data that is read in batches, got {quoted(value)}.", hint
    )


def _checked_where(where: object, names: Sequence[str]) -> dict[str, object]:
    if where is None:
        return {}
    if not isinstance(where, Mapping) or not where:
        raise DataError(
            f"`where` must be a dict that maps columns to values, got {quoted(where)}.", "for example {'repaid': 1}."
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
                f"`exclude` must not name listed features, got {quoted(both[0])}.", "list it in one of the two."
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
            raise DataError(f"`exempt` must not name the group, got {quoted(name)}.", "name other factors.")
        if name not in features:
            raise DataError(f"{quoted(name)} is not a listed feature (`exempt`).", "list it in `features` too.")
        if chosen.count(name) > 1:
            raise DataError(
                f"`exempt` must name different features, got {quoted(name)} twice.", "name each of them once."
            )
    return tuple(chosen)


def check_some(features: Sequence[str], names: Sequence[str], needed_by: str) -> None:
    """Raise if there are no features for an argument that needs them."""
    if not features:
        raise DataError(
            f"`features` must name at least one column for `{needed_by}`, got none.",
            f"the columns are {quoted_list(names)}; those used as group, score or weight are not features.",
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
        matrix, labels = model_scores(roles, data, table, request.model)
    elif request.score_type == "amount":
        matrix, labels = given_amounts(request.scores, table.height), ()
    else:
        matrix, labels = given_matrix(request.scores, table.height, request.favourable)
    names = tuple(f"{SCORE}{y}" for y in range(matrix.shape[1]))
    columns += [pl.Series(name, matrix[:, y]) for y, name in enumerate(names)]
    labels = labels or tuple(str(y) for y in range(max(len(names), 2)))
    return table.with_columns(columns), replace(roles, scores=names, labels=labels, model=None)
