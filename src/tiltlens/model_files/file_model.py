"""A model that was read from a file, as audits ask one: `predict_proba`, `predict`, or a function of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from tiltlens.model_files.columns import ModelColumn, checked_table


@dataclass(frozen=True, slots=True, eq=False)
class OpenModel:
    """What a library makes of a file.

    Attributes
    ----------
    columns
        That it was fitted on, in its order.
    output
        "probability", "amount", or None where the file does not say.
    classes
        The outcomes, where they are known.
    answer
        What it says of a table of these columns: numbers, or for each row a map of outcomes to their probabilities.
    """

    columns: tuple[ModelColumn, ...]
    output: Literal["probability", "amount"] | None
    classes: tuple[Any, ...]
    answer: Callable[[pl.DataFrame], Any]


class FileModel:
    """A model from a file: it travels as the bytes of the file, and is opened where it is asked."""

    def __init__(self, name: str, content: bytes, reader: Callable[[bytes], OpenModel], model: OpenModel) -> None:
        self.name, self.content, self.reader = name, content, reader
        self._model: OpenModel | None = model
        self._named: tuple[Any, ...] = ()  # outcomes, as an answer named them

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_model": None}

    @property
    def model(self) -> OpenModel:
        """The model, opened."""
        if self._model is None:
            self._model = self.reader(self.content)
        return self._model

    @property
    def origin(self) -> str:
        """Where it comes from, for the record."""
        return f"{self.name} (model file)"

    @property
    def feature_names_in_(self) -> list[str] | None:
        """The names of the columns that it was fitted on; None where it knows their places alone."""
        names = [column.name for column in self.model.columns if column.name is not None]
        return names or None

    def _answer(self, inputs: Any) -> Any:
        answer = self.model.answer(checked_table(self.model.columns, inputs))
        if isinstance(answer, list):
            self._named = tuple(answer[0]) if answer else ()
            answer = [list(row.values()) for row in answer]
        return np.asarray(answer, dtype=np.float64)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class FileClassifier(FileModel):
    """A model from a file that gives probabilities."""

    @property
    def classes_(self) -> tuple[Any, ...]:
        """The outcomes, where they are known; a graph of ONNX names them with its first answer."""
        return self.model.classes or self._named

    def predict_proba(self, inputs: Any) -> Any:
        """Return the probabilities of the outcomes per row; of two, that of the second may stand alone."""
        return self._answer(inputs)


class FileRegressor(FileModel):
    """A model from a file that gives amounts."""

    def predict(self, inputs: Any) -> Any:
        """Return one amount per row."""
        return self._answer(inputs).reshape(-1)


class FileFunction(FileRegressor):
    """A model from a file that does not say whether its numbers are probabilities or amounts: the audit must."""

    def __call__(self, inputs: Any) -> Any:
        """Return what the model says of each row."""
        return self._answer(inputs)


def file_model(name: str, content: bytes, reader: Callable[[bytes], OpenModel]) -> FileModel:
    """Return the model that a reader makes of a file's content."""
    model = reader(content)
    kinds = {"probability": FileClassifier, "amount": FileRegressor, None: FileFunction}
    return kinds[model.output](name, content, reader, model)
