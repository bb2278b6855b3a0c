"""Read models from files, whose format is recognised by name and first bytes; pickles are never opened."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._model_files.file_model import Answer, Kind, ModelColumn, OpenModel, file_model, number_matrix_of
from tiltlens._rows.predictions import UserModel
from tiltlens.errors import (
    DataError,
    Errors,
    Input,
    MissingExtraError,
    existing_file,
    import_extra,
    quoted,
    quoted_list,
    remember,
    texts_of,
    wrap_errors,
)

Session: TypeAlias = Any  # onnxruntime need not be installed
# By the type of a tensor: its values, their numpy type, and whether they may be missing
KINDS: dict[str, tuple[Kind, type[np.generic], bool]] = {
    "tensor(float)": ("number", np.float32, True),
    "tensor(double)": ("number", np.float64, True),
    "tensor(int64)": ("whole number", np.int64, False),
    "tensor(int32)": ("whole number", np.int32, False),
    "tensor(bool)": ("whole number", np.bool_, False),
    "tensor(string)": ("text", np.object_, False),
}
EXPORT = "export it with one input for each column, or with one matrix of a fixed number of columns."
NUMBERS = ("tensor(float)", "tensor(double)")


def open_onnx(content: bytes) -> OpenModel:
    """Return the model of an ONNX file; its input is one matrix of all columns, or one named tensor per column."""
    ort = import_extra("onnxruntime", "Reading ONNX files", extra="models")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    hint = "export it again; weights in a second file are not read."
    with wrap_errors("The file is not a complete ONNX graph", hint, hide_cause=True):
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    columns = _columns(session)
    output, index = _output(session)

    def answer(table: pl.DataFrame) -> Answer:
        inputs = session.get_inputs()
        parts = [table] if len(inputs) == 1 else [table.select(tensor.name) for tensor in inputs]
        tensors = {own.name: _tensor(part, own.type) for own, part in zip(inputs, parts, strict=True)}
        return session.run(None, tensors)[index]

    return OpenModel(columns, output, (), answer)


def _columns(session: Session) -> tuple[ModelColumn, ...]:
    """Return the columns of a graph; columns of a single matrix have no names."""
    inputs = session.get_inputs()
    for tensor in inputs:
        if tensor.type not in KINDS or len(tensor.shape) != 2:
            raise DataError(
                f"Input {quoted(tensor.name)} of the ONNX graph is not a table of numbers or texts, but "
                f"{tensor.type} with shape {tensor.shape}.",
                EXPORT,
            )
    if len(inputs) > 1:
        several = [tensor.name for tensor in inputs if tensor.shape[1] not in (1, None)]
        if several:
            raise DataError(f"Input {quoted(several[0])} of the ONNX graph has several columns.", EXPORT)
        return tuple(ModelColumn(tensor.name, KINDS[tensor.type][0], (), KINDS[tensor.type][2]) for tensor in inputs)
    if not isinstance(inputs[0].shape[1], int):
        raise DataError("The ONNX graph does not say how many columns its matrix has.", EXPORT)
    kind, _, may_be_missing = KINDS[inputs[0].type]
    return (ModelColumn(None, kind, (), may_be_missing),) * inputs[0].shape[1]


def _tensor(table: pl.DataFrame, type_name: str) -> NDArray[np.generic]:
    kind, dtype, _ = KINDS[type_name]
    if kind == "text":
        return np.array(table.rows(), dtype=object).reshape(table.shape)
    return number_matrix_of(table).astype(dtype)


def _output(session: Session) -> tuple[Literal["probability"] | None, int]:
    """Return the type of the graph's predictions, and the index of the output with them.

    Converters return a class and then probabilities, as a matrix or as one map per row; for a graph with a single
    numeric output, the type is unknown.
    """
    outputs = session.get_outputs()
    maps = [index for index, tensor in enumerate(outputs) if tensor.type.startswith("seq(map(")]
    numbers = [index for index, tensor in enumerate(outputs) if tensor.type in NUMBERS]
    if not maps and any(tensor.type == "tensor(string)" for tensor in outputs):
        raise DataError(
            "The ONNX graph does not say which probability belongs to which outcome.",
            "export it with one map from outcomes to probabilities per row, as skl2onnx does unless zipmap is off.",
        )
    if maps or (len(outputs) > 1 and numbers):
        return "probability", (maps or numbers)[-1]
    if not numbers:
        given = ", ".join(f"{tensor.name} of type {tensor.type}" for tensor in outputs)
        raise DataError(f"The ONNX graph returns no numbers, but {given}.", "export it with probabilities.")
    return None, numbers[0]


Booster: TypeAlias = Any  # none of these libraries need be installed
# Objectives, or losses, with probabilities as predictions.
XGBOOST_PROBABILITIES = ("binary:logistic", "multi:softprob")
LIGHTGBM_PROBABILITIES = ("binary", "multiclass", "multiclassova", "cross_entropy")
CATBOOST_PROBABILITIES = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")
CATBOOST_LOGARITHMS = ("Poisson", "Tweedie")  # losses of models of the logarithm of amounts


def _check_complete(library: str, kinds: Errors) -> AbstractContextManager[None]:
    """Convert a library's errors to errors in the file."""
    return wrap_errors(f"The file is not a complete {library} model", "save it again.", kinds=kinds, hide_cause=True)


def open_xgboost(content: bytes) -> OpenModel:
    """Return the model of an XGBoost file; after early stopping, only trees up to the best iteration are used."""
    xgb = import_extra("xgboost", "Reading XGBoost files")
    booster = xgb.Booster()
    with _check_complete("XGBoost", xgb.core.XGBoostError):
        booster.load_model(bytearray(content))
        learner = json.loads(booster.save_config())["learner"]
    objective = learner["objective"]["name"]
    if objective == "multi:softmax":  # which only predicts the class
        objective = "multi:softprob"
        booster.set_param({"objective": objective})
    best = booster.attr("best_iteration")
    trees = (0, 0) if best is None else (0, int(best) + 1)
    columns = _xgboost_columns(booster)

    def answer(table: pl.DataFrame) -> Answer:
        names, types = booster.feature_names, booster.feature_types
        rows = xgb.DMatrix(number_matrix_of(table), feature_names=names, feature_types=types, enable_categorical=True)
        return booster.predict(rows, iteration_range=trees)

    return OpenModel(columns, "probability" if objective in XGBOOST_PROBABILITIES else "amount", (), answer)


def _xgboost_columns(booster: Booster) -> tuple[ModelColumn, ...]:
    """Return the columns; categories are encoded by position, so the file must list them in order."""
    count = booster.num_features()
    names = booster.feature_names or [None] * count
    types = booster.feature_types or ["float"] * count
    levels, columns = _xgboost_levels(booster) if "c" in types else {}, []
    for name, kind in zip(names, types, strict=True):
        if kind == "c" and not levels.get(name):
            raise DataError(
                f"The XGBoost file does not have the categories of {quoted(name)}.",
                "save it with XGBoost 3.1 or newer, fitted on a frame; or pass the model itself.",
            )
        columns.append(ModelColumn(name, "category", levels[name]) if kind == "c" else ModelColumn(name))
    return tuple(columns)


def _xgboost_levels(booster: Booster) -> dict[str, tuple[object, ...]]:
    try:
        categories = booster.get_categories(export_to_arrow=True).to_arrow()
    except (AttributeError, TypeError):  # before XGBoost 3.1
        return {}
    except ImportError:
        problem = "Reading categories of an XGBoost file requires pyarrow, which is not installed."
        raise MissingExtraError(problem, "pip install pyarrow") from None
    return {name: tuple(levels.to_pylist()) for name, levels in categories if levels is not None}


def open_lightgbm(content: bytes) -> OpenModel:
    """Return the model of a LightGBM file."""
    lgb = import_extra("lightgbm", "Reading LightGBM files")
    with _check_complete("LightGBM", (lgb.basic.LightGBMError, UnicodeDecodeError)):
        booster = lgb.Booster(model_str=content.decode("utf-8"))
        described = booster.dump_model()
    objective = (described.get("objective") or "none").split()[0]

    def answer(table: pl.DataFrame) -> Answer:
        return booster.predict(number_matrix_of(table))

    columns = _lightgbm_columns(booster, described["feature_infos"])
    return OpenModel(columns, "probability" if objective in LIGHTGBM_PROBABILITIES else "amount", (), answer)


def _lightgbm_columns(booster: Booster, infos: Mapping[str, Mapping[str, object]]) -> tuple[ModelColumn, ...]:
    """Return the columns; pandas categories are encoded by their positions in the lists of the file."""
    names: list[str] = booster.feature_name()
    in_order = booster.pandas_categorical or []
    categories = [name for name in names if infos.get(name, {}).get("values")]
    if in_order and len(in_order) != len(categories):
        raise DataError(
            f"The LightGBM file has {len(in_order)} lists of levels, but {len(categories)} categorical columns.",
            "pass the model itself.",
        )
    levels = dict(zip(categories, in_order, strict=False))
    return tuple(
        ModelColumn(own, "category" if name in levels else "number", tuple(levels.get(name, ())))
        for own, name in zip(_given(names, "Column_{}"), names, strict=True)
    )


def _given(names: Sequence[str], invented: str) -> Sequence[str | None]:
    """Return the names of columns, or None for each if the library invented them from their numbers."""
    return [None] * len(names) if all(name == invented.format(n) for n, name in enumerate(names)) else names


def open_catboost(content: bytes) -> OpenModel:
    """Return the model of a CatBoost file; categories are passed as text, because the file only has their hashes."""
    catboost = import_extra("catboost", "Reading CatBoost files")
    size = int.from_bytes(content[4:8], "little")  # CatBoost trusts it, even beyond the end of the file
    with _check_complete("CatBoost", catboost.CatBoostError):
        if size == 0 or len(content) < 8 + size:
            raise catboost.CatBoostError("the file is cut short")
        model = catboost.CatBoost().load_model(blob=content)
    loss = str(model.get_all_params().get("loss_function")).split(":")[0]
    is_probability = loss in CATBOOST_PROBABILITIES
    kind = "Probability" if is_probability else "Exponent" if loss in CATBOOST_LOGARITHMS else "RawFormulaVal"
    columns = _catboost_columns(model)

    def answer(table: pl.DataFrame) -> Answer:
        return model.predict(table.to_pandas(), prediction_type=kind)

    classes = tuple(model.classes_) if is_probability else ()
    return OpenModel(columns, "probability" if is_probability else "amount", classes, answer)


def _catboost_columns(model: Booster) -> tuple[ModelColumn, ...]:
    names = enumerate(_given(model.feature_names_, "{}"))
    texts = {*model.get_cat_feature_indices(), *model.get_text_feature_indices()}
    return tuple(ModelColumn(name, "text", (), False) if n in texts else ModelColumn(name) for n, name in names)


PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".sav", ".p")
PICKLE = b"\x80"  # first byte of every pickle since Python 2.3; older ones are of unknown format


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """A format of model files; `starts` has the possible first bytes, and is empty if they are not characteristic."""

    name: str
    endings: tuple[str, ...]
    starts: tuple[bytes, ...]
    reader: Callable[[bytes], OpenModel] | None  # None for skops, which returns the model itself


FORMATS = (
    ModelFormat("skops", (".skops",), (b"PK\x03\x04",), None),
    ModelFormat("ONNX", (".onnx",), (), open_onnx),
    ModelFormat("XGBoost", (".json", ".ubj"), (b'{"learner"', b"{L"), open_xgboost),
    ModelFormat("LightGBM", (".txt", ".lgb"), (b"tree\n", b"tree\r\n"), open_lightgbm),
    ModelFormat("CatBoost", (".cbm",), (b"CBM1",), open_catboost),
)


def load_model(path: str | os.PathLike[str], trusted: str | Sequence[str] = ()) -> UserModel:
    """Load a fixed model from a file, for `audit(model=…)`.

    Parameters
    ----------
    path
        A skops file (.skops), an ONNX graph (.onnx), or a model in the native format of XGBoost (.json, .ubj), LightGBM
        (.txt, .lgb) or CatBoost (.cbm). A pickle raises an error, because opening it would run any code that it
        contains.
    trusted
        Names of types in a skops file that may be loaded although skops does not recognise them.

    Returns
    -------
    model
        An object for the argument `model` of `audit`.

    Raises
    ------
    TiltlensError
        If the file is a pickle, has types that are not trusted, or cannot be read.

    See Also
    --------
    audit : Audit the model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import skops.io
    >>> from sklearn.linear_model import LogisticRegression
    >>> import tiltlens as tl
    >>> path = Path(tempfile.mkdtemp()) / "credit.skops"
    >>> skops.io.dump(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), path)
    >>> tl.load_model(path)
    LogisticRegression()
    """
    file = existing_file(path)
    remember(Input.file(file))
    content = file.read_bytes()
    if file.suffix.lower() in PICKLES or content.startswith(PICKLE):
        raise DataError(
            f"{quoted(file.name)} must be a model that can be opened without running its code, got a pickle.",
            "if you trust it, save it again with skops.io.dump(model, 'model.skops') or as ONNX; or load it yourself "
            "in Python and pass it to tl.audit.",
        )
    model_format = next((candidate for candidate in FORMATS if file.suffix.lower() in candidate.endings), None)
    if model_format is None or not content.startswith(model_format.starts or b""):
        endings = ", ".join(f"{', '.join(candidate.endings)} ({candidate.name})" for candidate in FORMATS)
        raise DataError(
            f"{quoted(file.name)} must be a model file whose name and content agree with a known format, got "
            f"{'an unknown name' if model_format is None else f'no {model_format.name} file'}.",
            f"known are {endings}.",
        )
    names = texts_of("trusted", trusted)
    if model_format.reader is None:
        return open_skops(file.name, content, names)
    if names:
        raise DataError(
            f"`trusted` must be left out for {model_format.name} files, got {quoted(names[0])}.",
            "only skops files have types.",
        )
    return file_model(file.name, content, model_format.reader)


def open_skops(name: str, content: bytes, trusted: Sequence[str]) -> UserModel:
    """Return the scikit-learn model of a skops file; raise if it has types that are neither known nor trusted."""
    sio = import_extra("skops.io", "Reading skops files", extra="models")
    problem = f"{quoted(name)} is not a complete skops file"
    hint = "save the model again, with the versions of scikit-learn and skops that are installed here."
    with wrap_errors(problem, hint, hide_cause=True):  # a ZIP of another kind, or one cut short
        unknown = [type_name for type_name in sio.get_untrusted_types(data=content) if type_name not in trusted]
    if unknown:
        flags = " ".join(f"--trusted {type_name}" for type_name in unknown)
        raise DataError(
            f"{quoted(name)} has types that skops does not know: {quoted_list(unknown)}. "
            "Building them runs their code.",
            f"if you trust their source, pass trusted={unknown} ({flags}).",
        )
    with wrap_errors(problem, hint, hide_cause=True):  # a type of another version, or a package that is not installed
        model = sio.loads(content, trusted=list(trusted))
    if not any(hasattr(model, method) for method in ("predict_proba", "predict")):
        raise DataError(f"{quoted(name)} has no model, but {type(model).__name__}.", "save the whole pipeline.")
    return model
