"""Predictions of a fitted model, or of a function: checks of its columns, and scores of rows with other values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._estimators.influence import Integers
from tiltlens._formats import text_of
from tiltlens._notes import Note
from tiltlens._sources.tables import NativeTable, ValuesLike
from tiltlens.errors import DataError, DistributionError, TiltlensError, first_line, quoted, quoted_list, wrap_errors
from tiltlens.paper.checks import Floats

if TYPE_CHECKING:
    from tiltlens._rows.roles import ColumnRoles


UserModel: TypeAlias = Any  # an estimator or pipeline with `predict_proba` or `predict`, or a function of a table
METHODS = {"probability": "predict_proba", "amount": "predict"}  # of a model, by what its output is
AS_AMOUNT = 'score_type="amount" (--score-type amount)'


def number_matrix(argument: str, values: ValuesLike) -> Floats:
    """Return values from a user or a model as an (n, K) matrix of numbers."""
    try:
        matrix = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DistributionError(
            f"`{argument}` must give numbers, got {type(values).__name__}: {first_line(error)}",
            "one probability per row, or one column per outcome.",
        ) from None
    if matrix.ndim not in (1, 2) or matrix.shape[-1] == 0:
        raise DistributionError(
            f"`{argument}` must give shape (n,) or (n, K), got {matrix.shape}.",
            "one probability per row, or one column per outcome.",
        )
    return matrix if matrix.ndim == 2 else matrix[:, None]


def model_matrix(
    model: UserModel, data: object, table: pl.DataFrame, features: Sequence[str], score_type: str = "probability"
) -> tuple[Floats, tuple[str, ...]]:
    """Return the predictions of a fitted model or a function for every row, and the names of its outcomes."""
    method = METHODS[score_type]
    _check_model(model, features, score_type, method)
    predict: UserModel = getattr(model, method, model)
    _check_categories(model, model_columns(model, features), table)
    inputs = _model_inputs(model, data, table, features, method)
    given = f"it was given {type(inputs).__name__} with {quoted_list(list(features))}; is it fitted on these columns?"
    with wrap_errors("`model` cannot score the features", given):
        raw = predict(inputs)
    matrix = number_matrix("model", raw)
    if matrix.shape[0] != table.height:
        raise DistributionError(
            f"`model` must give one score per row, got {matrix.shape[0]} for {table.height} rows.",
            "it must not drop or repeat rows.",
        )
    classes = tuple(text_of(label) for label in getattr(model, "classes_", ()))
    return matrix, classes if len(classes) == max(matrix.shape[1], 2) else ()


def _check_model(model: UserModel, features: Sequence[str], score_type: str, method: str) -> None:
    if isinstance(model, type):
        raise DataError(f"`model` must be a fitted model, got the class {model.__name__}.", "fit one and pass that.")
    if not hasattr(model, method) and not callable(model):
        hint = "pass a function of the features that returns probabilities; save a booster and open it with load_model."
        if score_type == "amount":
            hint = "pass a fitted regressor, or a function of the features that returns amounts."
        elif hasattr(model, "predict"):
            hint += f" For the predictions of a regressor, pass {AS_AMOUNT}."
        raise DataError(f"`model` must have {method} or be a function, got {type(model).__name__}.", hint)
    if score_type == "amount" and hasattr(model, "predict_proba"):
        raise DataError(
            f"`model` must be a regressor or a function for amounts, got {type(model).__name__}, which has classes.",
            "leave out `score_type` to audit its probabilities; or pass its predict method where classes are amounts.",
        )
    unknown = [name for name in fitted_names(model) if name not in set(features)]
    if unknown:
        raise DataError(
            f"`features` must hold every column that `model` was fitted on, got none named {quoted_list(unknown)}.",
            "add them to `features`, or pass `scores` instead, made with all its columns.",
        )


def fitted_names(model: UserModel) -> list[str]:
    """Return the names of the columns a model was fitted on, none where it was fitted on an array."""
    for attribute in ("feature_names_in_", "feature_name_", "feature_names_"):
        try:
            names = getattr(model, attribute, None)
        except Exception:  # an unfitted LightGBM or XGBoost model raises here; predict_proba will say so
            names = None
        if names is not None and not callable(names):
            listed_names = [str(name) for name in names]
            is_invented = all(name == f"Column_{number}" for number, name in enumerate(listed_names))
            return [] if is_invented else listed_names
    return []


def model_columns(model: UserModel, features: Sequence[str]) -> list[str]:
    """Return the input columns of a model."""
    return fitted_names(model) or list(features)


def model_notes(model: UserModel, features: Sequence[str]) -> list[Note]:
    """Return a note on the order of columns if a model identifies them only by position."""
    if not any(hasattr(model, method) for method in METHODS.values()) or fitted_names(model):
        return []
    return [Note("model without names", columns=quoted_list(features))]


def _model_inputs(
    model: UserModel, data: NativeTable, table: pl.DataFrame, features: Sequence[str], method: str
) -> NativeTable:
    """Return the features as the model expects them.

    A function gets the user's own kind of table. An estimator fitted with names gets a pandas or Polars frame of
    those columns in their order; one fitted without names gets an array, since it would complain about names.
    """
    if not hasattr(model, method):
        return native_columns(data, table, features)
    names = fitted_names(model)
    if not names:
        return _feature_matrix(table.select(features))
    inputs = native_columns(data, table, names)
    is_frame = hasattr(inputs, "iloc") or isinstance(inputs, pl.DataFrame)
    return inputs if is_frame else pl.DataFrame(inputs)


def _feature_matrix(table: pl.DataFrame) -> NDArray[np.generic]:
    """Return the features as numbers, or as objects where some are not."""
    if all(dtype.is_numeric() or dtype == pl.Boolean for dtype in table.dtypes):
        return table.select(pl.all().cast(pl.Float64).fill_null(np.nan)).to_numpy()
    return table.to_numpy().astype(object)


def _check_categories(model: UserModel, names: Sequence[str], table: pl.DataFrame) -> None:
    """Raise for a column of numbers if the model's encoder was fitted on texts, or of texts if on numbers.

    An encoder that ignores unknown categories, as many do, would treat the number 1 as unknown if it was fitted on the
    text "01", and the model would return wrong scores without an error.
    """
    for name, categories in _encoded(model, list(names)):
        values = np.asarray(categories, dtype=object)
        fitted = [value for value in values if isinstance(value, str) or (isinstance(value, Number) and value == value)]
        column = table[name].drop_nulls()
        kinds = {isinstance(value, str) for value in fitted}
        is_text = column.dtype in (pl.String, pl.Enum)
        if not column.len() or kinds != {not is_text} or not (is_text or column.dtype.is_numeric()):
            continue
        expected, got = ("numbers", "texts") if is_text else ("texts", "numbers")
        raise DataError(
            f"The model was fitted on {expected} in {quoted(name)}, but the column has {got}, "
            f"first {quoted(column[0])}.",
            f"pass the column as it was when the model was fitted. Categories: {quoted_list(fitted)}.",
        )


def _encoded(model: UserModel, names: list[str]) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Yield the columns that reach an encoder unchanged, with its categories."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import FeatureUnion, Pipeline

    if hasattr(model, "best_estimator_"):
        yield from _encoded(model.best_estimator_, names)
    elif isinstance(model, Pipeline):
        for _, step in model.steps:
            yield from _encoded(step, names)
            if not _keeps(step, names):
                return
    elif isinstance(model, ColumnTransformer) and hasattr(model, "transformers_"):
        for _, part, columns in model.transformers_:
            yield from _encoded(part, _chosen(columns, names))
    elif isinstance(model, FeatureUnion):
        for _, part in model.transformer_list:
            yield from _encoded(part, names)
    elif hasattr(model, "categories_") and len(model.categories_) == len(names):
        yield from zip(names, model.categories_, strict=True)


def _keeps(step: UserModel, names: list[str]) -> bool:
    """Return whether a step of a pipeline returns its input columns, as one that fills missing values does."""
    if step is None or isinstance(step, str):
        return True
    try:
        return list(step.get_feature_names_out(names)) == names
    except (AttributeError, ValueError):  # the last step, or one without names
        return False


def _chosen(columns: Any, names: list[str]) -> list[str]:
    """Return the input columns of a part of a ColumnTransformer, given as names, positions or a mask."""
    if isinstance(columns, str):
        return [columns]
    if not isinstance(columns, slice) and all(isinstance(column, str) for column in columns):
        return list(columns)
    return [str(name) for name in np.asarray(names, dtype=object)[columns]]


def native_columns(data: NativeTable, table: pl.DataFrame, names: Sequence[str]) -> NativeTable:
    """Return the named columns as a table of the user's kind.

    For lazy data, they are taken from `table`, read before, because a second run of a query may change the row order.
    """
    if isinstance(data, Mapping):
        return {name: data[name] for name in names}
    frame = nw.from_native(data)
    return table.select(names) if isinstance(frame, nw.LazyFrame) else frame.select(*names).to_native()


def taken_rows(table: NativeTable, index: NDArray[np.integer]) -> NativeTable:
    """Return some rows of a table in memory as a table of the same kind; a pandas index is reset."""
    if isinstance(table, Mapping):
        return {
            name: values[index] if isinstance(values, pl.Series) else np.asarray(values)[index]
            for name, values in table.items()
        }
    return nw.maybe_reset_index(nw.from_native(table, eager_only=True)[index]).to_native()


def with_columns_of(table: NativeTable, other: NativeTable, names: Sequence[str]) -> NativeTable:
    """Return a table in memory with the named columns replaced by those of a table of the same kind and length."""
    if isinstance(table, Mapping):
        return {**table, **{name: other[name] for name in names}}
    frame, others = (nw.from_native(native, eager_only=True) for native in (table, other))
    return frame.with_columns(*(others[name] for name in names)).to_native()


ASKED_AGAIN = 500  # rows that are scored again: enough to detect a term of the group in one row of a hundred
SAME_ANSWERS = 1e-3  # mean difference, in points or sd, below which answers are equal: rounding may turn a decision


@dataclass(frozen=True, slots=True, eq=False)
class AskedModel:
    """A model, and the rows that it scored."""

    # The model, and how its outputs become scores
    model: object
    roles: ColumnRoles
    # The features of the rows, and the columns that they are made of; both clean
    table: pl.DataFrame
    inputs: pl.DataFrame
    # The columns as the model saw them, in the user's own table, and the position of each row in it; None if the model
    # saw `inputs`
    native: object = None
    row_number: Integers | None = None

    @property
    def features(self) -> list[str]:
        """The features that the model takes as inputs."""
        return self.roles.features_of(self.model)

    def rows(self, index: Integers) -> AskedModel:
        """Return the same for some of the rows."""
        row_number = None if self.row_number is None else self.row_number[index]
        table, inputs = (frame[pl.Series(index, dtype=pl.UInt32)] for frame in (self.table, self.inputs))
        return replace(self, table=table, inputs=inputs, row_number=row_number)

    def scores(self, feature: str, source: Integers) -> Floats:
        """Return the scores of all rows after each gets the value of a feature from its row in `source`."""
        other, names = self.rows(source), self.roles.declared.sources([feature])
        seen, inputs = (with_columns_of(*pair, names) for pair in zip(self._seen(), other._seen(), strict=True))
        return self.roles.channel(seen, inputs, self.model).scores

    def changes(self, scores: Floats, scale: float) -> bool:
        """Return whether the model's scores change when rows are scored in another order and number.

        They then depend on something other than the columns: a row's position, other rows, or chance.
        """
        index = np.random.default_rng(0).permutation(len(scores))[:ASKED_AGAIN]
        index = np.concatenate([index, index[: index.size // 2 + 1]])
        try:
            again = self.roles.channel(*self.rows(index)._seen(), self.model).scores
        except TiltlensError:  # it answered before
            return True
        return bool(np.abs(again - scores[index]).mean() > SAME_ANSWERS * scale)

    def _seen(self) -> tuple[NativeTable, pl.DataFrame]:
        """Return the columns in the form that the model takes, and clean."""
        return self.inputs if self.row_number is None else taken_rows(self.native, self.row_number), self.inputs
