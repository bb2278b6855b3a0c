"""A membership model of the user's: any scikit-learn classifier, fitted in place of the additive one.

It is saved as a skops file within the JSON, which holds data and names of types, and no code.
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
from tiltlens.model_files.load import open_skops
from tiltlens.paper.checks import Floats
from tiltlens.repair.additive import Design, fit_additive
from tiltlens.repair.tabular_model import CategoryLevels, TabularModel
from tiltlens.rows.batch_rows import ONE_AT_A_TIME
from tiltlens.sources.messages import first_line


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorLogit(TabularModel):
    """A fitted classifier of a Polars frame: numbers, NaN where missing, and texts of the audited levels.

    It sees a level that no audited row had as missing.
    """

    names: tuple[str, ...]
    levels: Mapping[str, CategoryLevels]
    missing: tuple[str, ...]  # features whose numbers were missing in audited rows
    estimator: Any

    @property
    def features(self) -> tuple[str, ...]:
        """The columns it needs."""
        return self.names

    def learnt_missing(self, name: str) -> bool:
        """Return whether it was fitted on missing numbers of a feature."""
        return name in self.missing

    def log_odds(self, table: Table, index: Integers | slice = slice(None)) -> Floats:
        """Return the log-odds of rows of numbers and codes."""
        inputs = _inputs(self.levels, {name: table[name][index] for name in self.names})
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
            raise MissingExtraError("Saving a classifier requires skops.", extra="models") from None
        levels = [{"feature": name} | own.to_dict() for name, own in self.levels.items()]
        content = b64encode(sio.dumps(self.estimator)).decode()
        return {"features": list(self.names), "levels": levels, "missing": list(self.missing), "skops": content}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], trusted: Sequence[str]) -> EstimatorLogit:
        """Return the model that `to_dict` wrote, if skops knows all of its types or they are trusted."""
        levels = {column["feature"]: CategoryLevels.from_dict(column) for column in saved["levels"]}
        estimator = open_skops("the membership model", b64decode(saved["skops"]), trusted)
        return cls(tuple(saved["features"]), levels, tuple(saved["missing"]), estimator)


def _inputs(levels: Mapping[str, CategoryLevels], table: Table) -> pl.DataFrame:
    return pl.DataFrame(
        {name: levels[name].texts(column) if name in levels else pl.Series(column) for name, column in table.items()}
    )


def _refused(estimator: Any, method: str, error: Exception) -> TiltlensError:
    return DataError(
        f"`propensity_model` {type(estimator).__name__} cannot {method} the features: {first_line(error)}",
        "pass a pipeline that encodes texts (handle_unknown='ignore') and fills missing numbers.",
    )


def fit_membership(design: Design, rows: Integers, labels: Booleans, weights: Floats) -> TabularModel:
    """Return the membership model fitted on some rows: the additive one, or the classifier of the design."""
    if design.estimator is None:
        return fit_additive(design, rows, labels, weights)
    inputs = _inputs(design.levels, {name: column[rows] for name, column in design.table.items()})
    try:
        estimator = fitted_clone(design.estimator, inputs, labels[rows], weights[rows])
    except Exception as error:  # the user's code
        raise _refused(design.estimator, "fit", error) from error
    numbers = [name for name in design.table if name not in design.levels]
    missing = tuple(name for name in numbers if np.isnan(design.table[name]).any())
    return EstimatorLogit(tuple(design.table), design.levels, missing, estimator)
