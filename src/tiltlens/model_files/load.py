"""Models read from files, whose format is known by name and first bytes; a pickle is never opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiltlens.errors import DataError, import_extra, listed, shown, texts_of, wrap_errors
from tiltlens.inputs import Input, existing_file, remember
from tiltlens.model_files.file_model import OpenModel, file_model
from tiltlens.model_files.model_formats import open_catboost, open_lightgbm, open_onnx, open_xgboost
from tiltlens.rows.predictions import UserModel

PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".sav", ".p")
PICKLE = b"\x80"  # opens every pickle since Python 2.3; older ones are refused as unknown


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """A format of model files; `starts` are its possible first bytes, none where they say nothing."""

    name: str
    endings: tuple[str, ...]
    starts: tuple[bytes, ...]
    reader: Callable[[bytes], OpenModel] | None  # None: skops, which gives the model itself


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
        A skops file (.skops), an ONNX graph (.onnx), or a model in the own format of XGBoost (.json, .ubj), LightGBM
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
            f"{shown(file.name)} must be a model that can be opened without running its code, got a pickle.",
            "if you trust it, save it again with skops.io.dump(model, 'model.skops') or as ONNX; or load it yourself "
            "and pass model=….",
        )
    model_format = next((candidate for candidate in FORMATS if file.suffix.lower() in candidate.endings), None)
    if model_format is None or not (not model_format.starts or content.startswith(model_format.starts)):
        endings = ", ".join(f"{', '.join(candidate.endings)} ({candidate.name})" for candidate in FORMATS)
        raise DataError(
            f"{shown(file.name)} must be a model file of a known format, by its name and content, got "
            f"{'an unknown name' if model_format is None else f'no {model_format.name} file'}.",
            f"known are {endings}.",
        )
    names = texts_of("trusted", trusted)
    if model_format.reader is None:
        return open_skops(file.name, content, names)
    if names:
        raise DataError(
            f"`trusted` must be left out for {model_format.name} files, got {shown(names[0])}.",
            "only skops files have types.",
        )
    return file_model(file.name, content, model_format.reader)


def open_skops(name: str, content: bytes, trusted: Sequence[str]) -> UserModel:
    """Return the scikit-learn model of a skops file, all of whose types must be known to skops or trusted."""
    sio = import_extra("skops.io", "Reading skops files", extra="models")
    problem = f"{shown(name)} is not a complete skops file"
    hint = "save the model again, with the versions of scikit-learn and skops that are installed here."
    with wrap_errors(problem, hint, hide_cause=True):  # a ZIP of another kind, or one cut short
        unknown = [type_name for type_name in sio.get_untrusted_types(data=content) if type_name not in trusted]
    if unknown:
        flags = " ".join(f"--trusted {type_name}" for type_name in unknown)
        raise DataError(
            f"{shown(name)} has types that skops does not know: {listed(unknown)}. Building them runs their code.",
            f"if you trust their source, pass trusted={unknown} ({flags}).",
        )
    with wrap_errors(problem, hint, hide_cause=True):  # a type of another version, or a package that is not installed
        model = sio.loads(content, trusted=list(trusted))
    if not any(hasattr(model, method) for method in ("predict_proba", "predict")):
        raise DataError(f"{shown(name)} has no model, but {type(model).__name__}.", "save the whole pipeline.")
    return model
