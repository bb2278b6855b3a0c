"""A repair in a file: numbers and texts only, checked as it is read."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np

from tiltlens.engines.messages import shown
from tiltlens.errors import DataError
from tiltlens.repair.additive import AdditiveLogit
from tiltlens.repair.score_tilt import SCHEMA, ScoreTilt


def read_repair(path: str | Path) -> ScoreTilt:
    """Return the repair that `to_json` wrote.

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
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"`path` must be a file of a repair, got {shown(str(path))}: {error}.", "see `to_json`."
        ) from None
    if not isinstance(found, dict) or found.pop("schema", None) != SCHEMA:
        raise DataError(f"`path` must be a repair of the schema {SCHEMA}, got {shown(str(path))}.", "see `to_json`.")
    try:
        return _tilt(found)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"`path` must be a whole repair, got {shown(str(path))} with a part missing or altered: {error}.",
            "write it again with `to_json`.",
        ) from None


def _tilt(found: dict[str, Any]) -> ScoreTilt:
    models = tuple(AdditiveLogit.from_dict(model) for model in found.pop("models"))
    q0, q1 = found.pop("shares")
    notes, seen = tuple(found.pop("notes")), np.frombuffer(b64decode(found.pop("seen")), dtype=np.uint64)
    return ScoreTilt(**found, shares=(q0, q1), models=models, seen=seen, notes=notes)
