"""CatBoost's own files."""

from __future__ import annotations

from typing import Any

import polars as pl

from tiltlens.errors import DataError, MissingExtraError
from tiltlens.model_files.columns import ModelColumn
from tiltlens.model_files.file_model import OpenModel
from tiltlens.sources.messages import first_line

PROBABILITIES = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")

LOGARITHMS = ("Poisson", "Tweedie")  # of amounts, that such models add up


def open_catboost(content: bytes) -> OpenModel:
    """Return the model of a CatBoost file; its categories are texts, of which the file has hashes only."""
    try:
        import catboost
    except ImportError:
        raise MissingExtraError(
            "CatBoost files must be read by catboost, which is not installed.", "pip install catboost"
        ) from None
    size = int.from_bytes(content[4:8], "little")  # CatBoost believes it, beyond the end of the file
    try:
        if size == 0 or len(content) < 8 + size:
            raise catboost.CatBoostError("the file is cut short")
        model = catboost.CatBoost().load_model(blob=content)
    except catboost.CatBoostError as error:
        raise DataError(
            f"the file must hold a complete CatBoost model, got: {first_line(error)}", "save it again."
        ) from None
    loss = str(model.get_all_params().get("loss_function")).split(":")[0]
    is_probability = loss in PROBABILITIES
    kind = "Probability" if is_probability else "Exponent" if loss in LOGARITHMS else "RawFormulaVal"
    columns = _columns(model)

    def answer(table: pl.DataFrame) -> Any:
        return model.predict(table.to_pandas(), prediction_type=kind)

    classes = tuple(model.classes_) if is_probability else ()
    return OpenModel(columns, "probability" if is_probability else "amount", classes, answer)


def _columns(model: Any) -> tuple[ModelColumn, ...]:
    names = model.feature_names_
    texts = {*model.get_cat_feature_indices(), *model.get_text_feature_indices()}
    is_invented = all(name == str(number) for number, name in enumerate(names))
    return tuple(
        ModelColumn(None if is_invented else name, *(("text", (), False) if number in texts else ("number",)))
        for number, name in enumerate(names)
    )
