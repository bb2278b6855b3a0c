"""CatBoost's own files."""

from __future__ import annotations

from typing import Any

import polars as pl

from tiltlens.engines.messages import first_line
from tiltlens.errors import DataError, MissingExtraError
from tiltlens.model_files.columns import ModelColumn
from tiltlens.model_files.file_model import OpenModel

PROBABILITIES = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")


def open_catboost(content: bytes) -> OpenModel:
    """Return the model of a CatBoost file; its categories are texts, of which the file has hashes only."""
    try:
        import catboost
    except ImportError:
        raise MissingExtraError(
            "CatBoost files must be read by catboost, which is not installed.", "pip install catboost"
        ) from None
    try:
        model = catboost.CatBoost().load_model(blob=content)
    except catboost.CatBoostError as error:
        raise DataError(
            f"the file must hold a complete CatBoost model, got: {first_line(error)}", "save it again."
        ) from None
    loss = str(model.get_all_params().get("loss_function")).split(":")[0]
    is_probability = loss in PROBABILITIES
    columns = _columns(model)

    def answer(table: pl.DataFrame) -> Any:
        kind = "Probability" if is_probability else "RawFormulaVal"
        return model.predict(table.to_pandas(), prediction_type=kind)

    classes = tuple(model.classes_) if is_probability else ()
    return OpenModel(columns, "probability" if is_probability else "amount", classes, answer)


def _columns(model: Any) -> tuple[ModelColumn, ...]:
    names = model.feature_names_
    texts = {*model.get_cat_feature_indices(), *model.get_text_feature_indices()}
    is_invented = all(name == str(place) for place, name in enumerate(names))
    return tuple(
        ModelColumn(None if is_invented else name, *(("text", (), False) if place in texts else ("number",)))
        for place, name in enumerate(names)
    )
