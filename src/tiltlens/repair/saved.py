"""A repair in a file: numbers and texts only, checked as it is read."""

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
from tiltlens.repair.copies import Seen
from tiltlens.repair.score_tilt import PLAIN, SCHEMA, ScoreTilt
from tiltlens.repair.solve import checked_limit
from tiltlens.rows.declared import Declared
from tiltlens.sources.messages import shown, texts_of


def read_repair(path: str | Path, trusted: str | Sequence[str] = ()) -> ScoreTilt:
    """Return the repair that `to_json` wrote.

    Parameters
    ----------
    path
        The file.
    trusted
        Types of a membership model of the user's, by name, that may be built though skops does not know them: building
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
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError) as error:
        raise DataError(
            f"`path` must be a file of a repair, got {shown(str(path))}: {error}.", "see `to_json`."
        ) from None
    schema = found.pop("schema", None) if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise DataError(f"`path` must be a repair of the schema {SCHEMA}, got {shown(str(path))}.", "see `to_json`.")
    remember(Input.file(path, SCHEMA))
    try:
        return _tilt(found, texts_of("trusted", trusted))
    except TiltlensError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"`path` must be a whole repair, got {shown(str(path))} with a part missing or altered: {error}.",
            "write it again with `to_json`.",
        ) from None


def _tilt(found: dict[str, Any], trusted: Sequence[str]) -> ScoreTilt:
    models = tuple(CellModel.from_dict(model, trusted) for model in found.pop("models"))
    for model in models:  # a slope or a level that is missing shows in any row
        kinds = {name: np.intp if name in model.model.texts else np.float64 for name in model.features}
        model.chance({name: np.zeros(1, dtype=kind) for name, kind in kinds.items()})
    constraints = tuple(Constraint(**one | {"shares": _pair(one["shares"])}) for one in found.pop("constraints"))
    if not constraints:
        raise ValueError("no constraints")
    checked_limit(found["limit"])
    for one in constraints:
        check_number("multiplier", one.multiplier)
    plain = {name: found[name] for name in PLAIN}
    plain |= {"given": dict(found.get("given", {})), "favours_low": bool(found.get("favours_low", False))}
    plain |= {"soft": dict(found.get("soft", {}))}
    plain["ranges"] = {name: (float(a), float(b), int(n)) for name, (a, b, n) in found.get("ranges", {}).items()}
    declared = found.get("declared", {})
    blocks = {name: tuple(own) for name, own in declared.get("blocks", {}).items()}
    plain["declared"] = Declared(tuple(declared.get("categorical", ())), blocks)
    seen, notes = Seen.from_dict(found["seen"]), tuple(found["notes"])
    return ScoreTilt(**plain, constraints=constraints, models=models, seen=seen, notes=notes)


def _pair(shares: Any) -> tuple[float, float]:
    q0, q1 = shares
    return float(q0), float(q1)
