"""Where a result comes from: when, by which versions, from which data, and what the user said of them."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import polars as pl

from tiltlens.engines.tables import shown, text_of
from tiltlens.errors import DataError

LIBRARIES = ("tiltlens", "numpy", "scipy", "scikit-learn", "polars", "narwhals")
HASHED_ROWS = 100_000  # at a time: the text of a table is larger than the table


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of an audit.

    Attributes
    ----------
    created
        When, in UTC.
    versions
        Of Python and of the libraries that made the numbers.
    data_sha256
        Of the columns that were read, sorted by name, as CSV in the order of their rows; of a stream, which has no
        order, of the number of rows and the sum of their hashes.
    features
        The columns taken as features.
    question
        What was asked: where scores, membership and weights came from, the threshold, and the condition.
    stated
        What the user said of data and model.
    """

    created: str
    versions: dict[str, str]
    data_sha256: str
    features: tuple[str, ...]
    question: dict[str, Any]
    stated: dict[str, str]


def asked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an audit was asked, as texts; `arguments` are those of `tiltlens.audit`."""
    sources = {name: _source(arguments[name]) for name in ("scores", "model", "membership", "weights")}
    given = {str(name): text_of(value) for name, value in (arguments["given"] or {}).items()}
    return sources | {"threshold": arguments["threshold"], "given": given}


def _source(value: Any) -> str | None:
    """Return a column's name, the kind of a model, or that values were passed."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    if hasattr(value, "fit") or hasattr(value, "predict_proba"):
        return type(value).__name__
    return "a function" if callable(value) else "an array"


def provenance_of(
    table: pl.DataFrame, features: Sequence[str], question: dict[str, Any], stated: dict[str, str]
) -> Provenance:
    """Return the origin of an audit of these columns."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return Provenance(created, dict(_versions()), data_sha256(table), tuple(features), question, stated)


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}


def stream_provenance(
    rows: int, fingerprint: int, features: Sequence[str], question: dict[str, Any], stated: dict[str, str]
) -> Provenance:
    """Return the origin of an audit of a stream, from the number of its rows and the sum of their hashes."""
    digest = hashlib.sha256(f"{rows} rows, {fingerprint:016x}".encode()).hexdigest()
    return replace(provenance_of(pl.DataFrame(), features, question, stated), data_sha256=digest)


def data_sha256(table: pl.DataFrame) -> str:
    """Return the SHA-256 of a table as CSV, its columns sorted by name."""
    digest = hashlib.sha256()
    ordered = table.select(sorted(table.columns))
    for start in range(0, max(table.height, 1), HASHED_ROWS):
        part = ordered.slice(start, HASHED_ROWS)
        digest.update(part.write_csv(include_header=start == 0).encode())
    return digest.hexdigest()


def check_provenance(stated: Any) -> dict[str, str]:
    """Return what the user said, as texts by name."""
    if stated is None:
        return {}
    if not isinstance(stated, Mapping) or not all(isinstance(part, str) for pair in stated.items() for part in pair):
        raise DataError(
            f"`provenance` must be a dict of texts, got {shown(stated)}.",
            'for example {"group labels": "self-reported", "data window": "2024", "model": "credit 3.1"}.',
        )
    for text in (part for pair in stated.items() for part in pair):
        if not _is_unicode(text):
            raise DataError(
                f"`provenance` must be texts that can be written as UTF-8, got {text!r}.",
                "decode it as what it is first.",
            )
    return dict(stated)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
