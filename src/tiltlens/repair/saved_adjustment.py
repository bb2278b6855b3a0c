"""Adjustments read from the JSON files that they were saved in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tiltlens.errors import DataError
from tiltlens.inputs import Input, remember
from tiltlens.paper.checks import check_number
from tiltlens.repair.constraints import check_max_gap
from tiltlens.repair.free_price import PRICE_SCHEMA, DiscriminationFreePrice
from tiltlens.repair.membership import load_estimator
from tiltlens.repair.score_tilt import SCHEMA, ScoreTilt
from tiltlens.results.codec import from_plain
from tiltlens.sources.messages import shown, texts_of

SCHEMAS = (SCHEMA, PRICE_SCHEMA)


def read_repair(path: str | Path, trusted: str | Sequence[str] = ()) -> ScoreTilt | DiscriminationFreePrice:
    """Read an adjustment that `to_json` wrote.

    Parameters
    ----------
    path
        The file.
    trusted
        Names of types of your own group-membership model that may be loaded although skops does not recognise them.
        Loading them runs their code.

    Returns
    -------
    ScoreTilt or DiscriminationFreePrice
        The adjustment, ready to apply and to evaluate.

    Raises
    ------
    TiltlensError
        If the file has another version, missing parts or types that are not trusted.

    See Also
    --------
    ScoreTilt.to_json : Write the file.

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
            f"Cannot read an adjustment from {shown(str(path))}: {error}.", "write one with `to_json`."
        ) from None
    schema = saved.pop("schema", None) if isinstance(saved, dict) else None
    if schema not in SCHEMAS:
        raise DataError(
            f"{shown(str(path))} is not an adjustment of the schema {' or '.join(SCHEMAS)}.",
            "fit it again, and save it.",
        )
    remember(Input.file(path, schema))
    for model in _saved_classifiers(saved):
        model["estimator"] = load_estimator(model["estimator"], texts_of("trusted", trusted))
    try:
        return _whole(schema, saved)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{shown(str(path))} is not a whole adjustment: a part is missing or altered ({error}).",
            "write it again with `to_json`.",
        ) from None


def _saved_classifiers(saved: dict[str, object]) -> list[dict[str, Any]]:
    """Return the models that are classifiers, in a file that may be damaged."""
    models = saved.get("models")
    parts = [entry.get("model") for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    return [part for part in parts if isinstance(part, dict) and "estimator" in part]


def _whole(schema: str, saved: object) -> ScoreTilt | DiscriminationFreePrice:
    """Return an adjustment whose parts fit together; raise where one is missing."""
    if schema == PRICE_SCHEMA:
        price = from_plain(DiscriminationFreePrice, saved)
        price.check_whole()
        return price
    return _check_whole(from_plain(ScoreTilt, saved))


def _check_whole(tilt: ScoreTilt) -> ScoreTilt:
    """Return a repair whose parts fit together; raise where a slope, a level or a constraint is missing."""
    for model in tilt.models:
        kinds = {name: np.intp if name in model.model.levels else np.float64 for name in model.model.features}
        model.probability({name: np.zeros(1, dtype=kind) for name, kind in kinds.items()})
    if not tilt.constraints:
        raise ValueError("no constraints")
    check_max_gap(tilt.max_gap)
    for constraint in tilt.constraints:
        check_number("multiplier", constraint.multiplier)
    return tilt
