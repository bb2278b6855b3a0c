"""Saved repairs: files of numbers and texts, checked when they are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tiltlens.errors import DataError, TiltlensError
from tiltlens.inputs import Input, remember
from tiltlens.paper.checks import check_number
from tiltlens.repair.constraints import CellModel, Constraint
from tiltlens.repair.duplicates import AuditedRowIndex
from tiltlens.repair.problem import check_limit
from tiltlens.repair.score_tilt import SCALARS, SCHEMA, ScoreTilt
from tiltlens.rows.declared import Declared
from tiltlens.sources.messages import shown, texts_of


def read_repair(path: str | Path, trusted: str | Sequence[str] = ()) -> ScoreTilt:
    """Return the repair that `to_json` wrote.

    Parameters
    ----------
    path
        The file.
    trusted
        Names of types of a membership model of your own that may be built although skops does not know them; building
        them runs their code.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50, "score": [0.4, 0.5, 0.6, 0.8] * 25}
    >>> tilt = tl.audit(people, "sex", reference="men", scores="score")["women"].repair(use_group=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tilt.to_json(Path(folder, "repair.json"))
    ...     again = tl.read_repair(Path(folder, "repair.json"))
    >>> again.multiplier == tilt.multiplier
    True
    """
    try:
        saved = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError) as error:
        raise DataError(
            f"Cannot read a repair from {shown(str(path))}: {error}.", "write one with `to_json`."
        ) from None
    schema = saved.pop("schema", None) if isinstance(saved, dict) else None
    if schema != SCHEMA:
        raise DataError(
            f"{shown(str(path))} is not a repair of the schema {SCHEMA}.", "fit the repair again, and save it."
        )
    remember(Input.file(path, SCHEMA))
    try:
        return _read_tilt(saved, texts_of("trusted", trusted))
    except TiltlensError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{shown(str(path))} is not a whole repair: a part is missing or altered ({error}).",
            "write it again with `to_json`.",
        ) from None


def _read_tilt(saved: dict[str, Any], trusted: Sequence[str]) -> ScoreTilt:
    models = tuple(CellModel.from_dict(model, trusted) for model in saved["models"])
    for model in models:  # a missing slope or level shows in any row
        types = {name: np.intp if name in model.model.levels else np.float64 for name in model.features}
        model.probability({name: np.zeros(1, dtype=dtype) for name, dtype in types.items()})
    constraints = tuple(_read_constraint(constraint) for constraint in saved["constraints"])
    if not constraints:
        raise ValueError("no constraints")
    check_limit(saved["limit"])
    declared = saved["declared"]
    blocks = {name: tuple(columns) for name, columns in declared["blocks"].items()}
    return ScoreTilt(
        **{name: saved[name] for name in SCALARS},
        constraints=constraints,
        models=models,
        row_index=AuditedRowIndex.from_dict(saved["row_index"]),
        notes=tuple(saved["notes"]),
        given=dict(saved["given"]),
        favours_low=bool(saved["favours_low"]),
        soft=dict(saved["soft"]),
        ranges={name: (float(low), float(high), int(n)) for name, (low, high, n) in saved["ranges"].items()},
        declared=Declared(tuple(declared["categorical"]), blocks),
    )


def _read_constraint(saved: dict[str, Any]) -> Constraint:
    q0, q1 = saved["shares"]
    constraint = Constraint(**saved | {"shares": (float(q0), float(q1))})
    check_number("multiplier", constraint.multiplier)
    return constraint
