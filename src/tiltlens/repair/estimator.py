"""A membership model that the user brings: any scikit-learn classifier, fitted in place of the additive one.

It is carried as a skops file within the JSON, which holds data and names of types, and no code.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiltlens.errors import DataError, MissingExtraError, TiltlensError
from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.learners.design import Table
from tiltlens.learners.propensity import estimator_log_odds, fitted_clone
from tiltlens.model_files.skops_file import open_skops
from tiltlens.paper.checks import Floats
from tiltlens.repair.additive import Design, fitted_logit
from tiltlens.repair.coded import CodedModel, Texts
from tiltlens.rows.batch_rows import ONE_AT_A_TIME
from tiltlens.sources.messages import first_line


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorLogit(CodedModel):
    """A fitted classifier, asked about a Polars frame: numbers, NaN where missing, and texts of the audited levels.

    A level that no audited row had is missing to it.
    """

    names: tuple[str, ...]
    texts: Mapping[str, Texts]
    missing: tuple[str, ...]  # features whose numbers were missing in audited rows
    estimator: Any

    @property
    def features(self) -> tuple[str, ...]:
        """The columns it needs."""
        return self.names

    def learnt_missing(self, name: str) -> bool:
        """As of `CodedModel`."""
        return name in self.missing

    def log_odds(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """As of `CodedModel`."""
        inputs = _inputs(self.texts, {name: table[name][index] for name in self.names})
        try:
            with ONE_AT_A_TIME:
                return estimator_log_odds(self.estimator, inputs)
        except Exception as error:  # the user's code
            raise _refused(self.estimator, "predict", error) from error

    def to_dict(self) -> dict[str, Any]:
        """Return the model as texts: its levels, and the classifier as skops writes it."""
        try:
            import skops.io as sio
        except ImportError:
            raise MissingExtraError(
                "a classifier must be written by skops, which is not installed.", extra="models"
            ) from None
        levels = [{"feature": name} | texts.to_dict() for name, texts in self.texts.items()]
        content = b64encode(sio.dumps(self.estimator)).decode()
        return {"features": list(self.names), "levels": levels, "missing": list(self.missing), "skops": content}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], trusted: Sequence[str]) -> EstimatorLogit:
        """Return the model that `to_dict` wrote, if skops knows all of its types or they are trusted."""
        texts = {one["feature"]: Texts.from_dict(one) for one in found["levels"]}
        estimator = open_skops("the membership model", b64decode(found["skops"]), trusted)
        return cls(tuple(found["features"]), texts, tuple(found["missing"]), estimator)


def _inputs(texts: Mapping[str, Texts], table: Table) -> pl.DataFrame:
    columns = {name: texts[name].texts(one) if name in texts else pl.Series(one) for name, one in table.items()}
    return pl.DataFrame(columns)


def _refused(estimator: Any, what: str, error: Exception) -> TiltlensError:
    return DataError(
        f"`propensity_model` must be a classifier that can {what} the features, got {type(estimator).__name__}: "
        f"{first_line(error)}",
        "give a pipeline that encodes texts (handle_unknown='ignore') and fills missing numbers.",
    )


def fitted_model(design: Design, rows: Integers, labels: Booleans, weights: Floats) -> CodedModel:
    """Return the design's model of some labels, fitted on some rows: additive, or the classifier that was given."""
    if design.estimator is None:
        return fitted_logit(design, rows, labels, weights)
    inputs = _inputs(design.texts, {name: column[rows] for name, column in design.table.items()})
    try:
        estimator = fitted_clone(design.estimator, inputs, labels[rows], weights[rows])
    except Exception as error:  # the user's code
        raise _refused(design.estimator, "fit", error) from error
    numbers = [name for name in design.table if name not in design.texts]
    missing = tuple(name for name in numbers if np.isnan(design.table[name]).any())
    return EstimatorLogit(tuple(design.table), design.texts, missing, estimator)
