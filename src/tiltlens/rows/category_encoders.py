"""The categories that encoders in a fitted scikit-learn model know, and the columns checked against them.

An encoder that ignores what it does not know, as many do, would take the number 1 for no category at all where it was
fitted on the text "01": the model would answer, and wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Number
from typing import Any

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.sources.messages import listed, shown


def check_categories(model: Any, names: Sequence[str], table: pl.DataFrame) -> None:
    """Raise for a column of numbers where the model's encoder knows texts, or of texts where it knows numbers."""
    for name, categories in _encoded(model, list(names)):
        values = np.asarray(categories, dtype=object)
        known = [one for one in values if isinstance(one, str) or (isinstance(one, Number) and one == one)]
        column = table[name].drop_nulls()
        kinds = {isinstance(one, str) for one in known}
        is_text = column.dtype in (pl.String, pl.Enum)
        if not column.len() or kinds != {not is_text} or not (is_text or column.dtype.is_numeric()):
            continue
        expected, got = ("numbers", "texts") if is_text else ("texts", "numbers")
        raise DataError(
            f"the model must have {expected} in {shown(name)}, as it was fitted on, got {got}, first "
            f"{shown(column[0])}.",
            f"it knows {listed(known)}; give it the column as it was when the model was fitted.",
        )


def _encoded(model: Any, names: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the columns that reach an encoder as they are, with the categories that it knows."""
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


def _keeps(step: Any, names: list[str]) -> bool:
    """Return whether a step of a pipeline gives the columns that it takes, such as one that fills gaps."""
    if step is None or isinstance(step, str):
        return True
    try:
        return list(step.get_feature_names_out(names)) == names
    except (AttributeError, ValueError):  # the last step, or one that knows no names
        return False


def _chosen(columns: Any, names: list[str]) -> list[str]:
    """Return the names that a part of a ColumnTransformer takes: it has names, places, or a mask."""
    if isinstance(columns, str):
        return [columns]
    if not isinstance(columns, slice) and all(isinstance(one, str) for one in columns):
        return list(columns)
    return [str(name) for name in np.asarray(names, dtype=object)[columns]]
