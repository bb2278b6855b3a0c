"""XGBoost's own files, JSON and UBJSON."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from tiltlens.errors import DataError, MissingExtraError
from tiltlens.model_files.columns import ModelColumn, number_matrix_of
from tiltlens.model_files.file_model import OpenModel
from tiltlens.sources.messages import first_line, shown

PROBABILITIES = ("binary:logistic", "multi:softprob")


def open_xgboost(content: bytes) -> OpenModel:
    """Return the model of an XGBoost file, with the trees up to the best iteration where training stopped early."""
    try:
        import xgboost as xgb
    except ImportError:
        raise MissingExtraError(
            "XGBoost files must be read by xgboost, which is not installed.", "pip install xgboost"
        ) from None
    booster = xgb.Booster()
    try:
        booster.load_model(bytearray(content))
        learner = json.loads(booster.save_config())["learner"]
    except xgb.core.XGBoostError as error:
        raise DataError(
            f"the file must hold a complete XGBoost model, got: {first_line(error)}", "save it again."
        ) from None
    objective = learner["objective"]["name"]
    if objective == "multi:softmax":  # which gives the class alone
        objective = "multi:softprob"
        booster.set_param({"objective": objective})
    best = booster.attr("best_iteration")
    trees = (0, 0) if best is None else (0, int(best) + 1)
    columns = _columns(booster)

    def answer(table: pl.DataFrame) -> Any:
        types = booster.feature_types
        rows = xgb.DMatrix(
            number_matrix_of(table), feature_names=booster.feature_names, feature_types=types, enable_categorical=True
        )
        return booster.predict(rows, iteration_range=trees)

    return OpenModel(columns, "probability" if objective in PROBABILITIES else "amount", (), answer)


def _columns(booster: Any) -> tuple[ModelColumn, ...]:
    """Return the columns; categories are known by their places, so the file must have them in their order."""
    count = booster.num_features()
    names = booster.feature_names or [None] * count
    types = booster.feature_types or ["float"] * count
    levels = _levels(booster) if "c" in types else {}
    for name, kind in zip(names, types, strict=True):
        if kind == "c" and not levels.get(name):
            raise DataError(
                f"the categories of {shown(name)} must be in the XGBoost file, got none.",
                "save it with XGBoost 3.1 or newer, fitted on a frame; or pass the model itself.",
            )
    return tuple(
        ModelColumn(name, "category", levels[name]) if kind == "c" else ModelColumn(name)
        for name, kind in zip(names, types, strict=True)
    )


def _levels(booster: Any) -> dict[str, tuple[Any, ...]]:
    try:
        categories = booster.get_categories(export_to_arrow=True).to_arrow()
    except (AttributeError, TypeError):  # before XGBoost 3.1
        return {}
    except ImportError:
        raise MissingExtraError(
            "categories of an XGBoost file must be read by pyarrow, which is not installed.", "pip install pyarrow"
        ) from None
    return {name: tuple(levels.to_pylist()) for name, levels in categories if levels is not None}
