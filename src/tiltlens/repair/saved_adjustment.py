"""Adjustments read from the JSON files that they were saved in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tiltlens.errors import DataError, shown, texts_of
from tiltlens.inputs import Input, remember
from tiltlens.repair.free_price import DiscriminationFreePrice
from tiltlens.repair.membership import load_estimator
from tiltlens.repair.score_tilt import ScoreTilt
from tiltlens.results.codec import from_plain

KINDS: dict[str, type[ScoreTilt] | type[DiscriminationFreePrice]] = {
    kind.SCHEMA: kind for kind in (ScoreTilt, DiscriminationFreePrice)
}


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
    if schema not in KINDS:
        raise DataError(
            f"{shown(str(path))} is not an adjustment of the schema {' or '.join(KINDS)}.",
            "fit it again, and save it.",
        )
    remember(Input.file(path, schema))
    for model in _saved_classifiers(saved):
        model["estimator"] = load_estimator(str(model["estimator"]), texts_of("trusted", trusted))
    try:
        adjustment = from_plain(KINDS[schema], saved)
        adjustment.check_whole()
        return adjustment
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{shown(str(path))} is not a whole adjustment: a part is missing or altered ({error}).",
            "write it again with `to_json`.",
        ) from None


def _saved_classifiers(saved: dict[str, object]) -> list[dict[str, object]]:
    """Return the models that are classifiers, in a file that may be damaged."""
    models = saved.get("models")
    parts = [entry.get("model") for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    return [part for part in parts if isinstance(part, dict) and "estimator" in part]
