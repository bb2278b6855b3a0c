"""ONNX files, run by onnxruntime on the processor. A graph holds no code of its own."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.errors import DataError, import_extra
from tiltlens.model_files.file_model import Answer, Kind, ModelColumn, OpenModel, number_matrix_of
from tiltlens.sources.messages import shown, wrap_errors

Session: TypeAlias = Any  # onnxruntime need not be installed
KINDS: dict[
    str, tuple[Kind, type[np.generic], bool]
] = {  # of a tensor: what it holds, of which type, and whether it may be missing
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
    """Return the model of an ONNX file: one matrix of all columns, or one tensor for each column by name."""
    ort = import_extra("onnxruntime", "Reading ONNX files", extra="models")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    hint = "export it again; weights in a second file are not read."
    with wrap_errors("The file is not a complete ONNX graph", hint, hide_cause=True):
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    columns = _columns(session)
    output, index = _output(session)

    def answer(table: pl.DataFrame) -> Answer:
        return session.run(None, _tensors(session, table))[index]

    return OpenModel(columns, output, (), answer)


def _columns(session: Session) -> tuple[ModelColumn, ...]:
    """Return the columns of a graph; those of one matrix have no names."""
    inputs = session.get_inputs()
    for tensor in inputs:
        if tensor.type not in KINDS or len(tensor.shape) != 2:
            raise DataError(
                f"Input {shown(tensor.name)} of the ONNX graph is not a table of numbers or texts, but "
                f"{tensor.type} with shape {tensor.shape}.",
                EXPORT,
            )
    if len(inputs) > 1:
        several = [tensor.name for tensor in inputs if tensor.shape[1] not in (1, None)]
        if several:
            raise DataError(f"Input {shown(several[0])} of the ONNX graph has several columns.", EXPORT)
        return tuple(ModelColumn(tensor.name, KINDS[tensor.type][0], (), KINDS[tensor.type][2]) for tensor in inputs)
    if not isinstance(inputs[0].shape[1], int):
        raise DataError("The ONNX graph does not say how many columns its matrix has.", EXPORT)
    kind, _, may_be_missing = KINDS[inputs[0].type]
    return (ModelColumn(None, kind, (), may_be_missing),) * inputs[0].shape[1]


def _tensors(session: Session, table: pl.DataFrame) -> dict[str, NDArray[np.generic]]:
    inputs = session.get_inputs()
    if len(inputs) == 1:
        return {inputs[0].name: _tensor(table, inputs[0].type)}
    return {tensor.name: _tensor(table.select(tensor.name), tensor.type) for tensor in inputs}


def _tensor(table: pl.DataFrame, type_name: str) -> NDArray[np.generic]:
    kind, dtype, _ = KINDS[type_name]
    if kind == "text":
        return np.array(table.rows(), dtype=object).reshape(table.shape)
    return number_matrix_of(table).astype(dtype)


def _output(session: Session) -> tuple[Literal["probability"] | None, int]:
    """Return what the graph gives, and which of its outputs that is.

    Converters give a class and then probabilities, as a matrix or as one map a row; a graph with one output of numbers
    does not say what they are.
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
