"""LightGBM's own files, which are text."""

from __future__ import annotations

from typing import Any

import polars as pl

from tiltlens.errors import DataError, MissingExtraError
from tiltlens.model_files.columns import ModelColumn, number_matrix_of
from tiltlens.model_files.file_model import OpenModel
from tiltlens.sources.messages import first_line

PROBABILITIES = ("binary", "multiclass", "multiclassova", "cross_entropy")


def open_lightgbm(content: bytes) -> OpenModel:
    """Return the model of a LightGBM file."""
    try:
        import lightgbm as lgb
    except ImportError:
        raise MissingExtraError(
            "LightGBM files must be read by lightgbm, which is not installed.", "pip install lightgbm"
        ) from None
    try:
        booster = lgb.Booster(model_str=content.decode("utf-8"))
        described = booster.dump_model()
    except (lgb.basic.LightGBMError, UnicodeDecodeError) as error:
        raise DataError(
            f"the file must hold a complete LightGBM model, got: {first_line(error)}", "save it again."
        ) from None
    objective = (described.get("objective") or "none").split()[0]

    def answer(table: pl.DataFrame) -> Any:
        return booster.predict(number_matrix_of(table))

    return OpenModel(
        _columns(booster, described), "probability" if objective in PROBABILITIES else "amount", (), answer
    )


def _columns(booster: Any, described: dict[str, Any]) -> tuple[ModelColumn, ...]:
    """Return the columns; categories of pandas are known by their places among those that the file lists."""
    names: list[str] = booster.feature_name()
    infos = described["feature_infos"]
    listed = booster.pandas_categorical or []
    categories = [name for name in names if infos.get(name, {}).get("values")]
    if listed and len(listed) != len(categories):
        raise DataError(
            f"the LightGBM file must tell which columns are categories, got {len(listed)} lists of levels for "
            f"{len(categories)} columns that it divides by categories.",
            "pass the model itself.",
        )
    levels = dict(zip(categories, listed, strict=False))
    is_invented = all(name == f"Column_{number}" for number, name in enumerate(names))
    return tuple(
        ModelColumn(
            None if is_invented else name, "category" if name in levels else "number", tuple(levels.get(name, ()))
        )
        for name in names
    )
