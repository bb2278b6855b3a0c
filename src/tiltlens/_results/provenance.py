"""Provenance of a result: the time, the versions, the data, and the facts that the user stated."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any, TypedDict

import polars as pl

from tiltlens._formats import FieldTable, text_of
from tiltlens._rows.roles import Request
from tiltlens._sources.arrays import row_hashes
from tiltlens.errors import DataError, shown

EPOCH = "SOURCE_DATE_EPOCH"
LIBRARIES = ("tiltlens", "numpy", "scipy", "scikit-learn", "polars", "narwhals")


class Question(TypedDict, total=False):
    """The arguments: a column, the kind of a model, "an array", or None if not given; empty for a rule."""

    scores: str | None
    model: str | None
    propensity: str | None
    sample_weight: str | None
    exempt: str | None
    categorical: str | None
    clusters: str | None
    periods: str | None
    outcome: str | None
    known_groups: str | None
    score_type: str
    threshold: float | None
    metric: str | None
    where: dict[str, str]
    blocks: str | None


@dataclass(frozen=True, slots=True)
class Provenance(FieldTable):
    """The origin of an audit.

    Attributes
    ----------
    created
        Time in UTC, or that of SOURCE_DATE_EPOCH if it is set; None if the output must be the same byte for byte.
    versions
        Versions of Python and of the libraries that computed the numbers.
    data_sha256
        Hash of the number of used rows and of the sum of their hashes: the same rows in any order, from any engine,
        have the same hash.
    rows_sha256
        The same without scores: equal if two models were audited on the same rows. None for a rule's tables.
    features
        The columns taken as features.
    question
        The arguments: the sources of scores, propensity and weights, the threshold, and the filter.
    stated
        The user's facts about data and model.
    """

    created: str | None
    versions: dict[str, str]
    data_sha256: str
    rows_sha256: str | None
    features: tuple[str, ...]
    question: Question
    stated: dict[str, str]

    def undated(self) -> Provenance:
        """Return the origin without the time, so that the same arguments and data give the same bytes."""
        return self if EPOCH in os.environ else replace(self, created=None)


def describe_request(request: Request) -> Question:
    """Return the arguments of an audit as texts."""
    blocks = [f"{name} = {_source(columns)}" for name, columns in (request.features.blocks or {}).items()]
    return Question(
        scores=_source(request.scores),
        model=_source(request.model),
        propensity=_source(request.propensity),
        sample_weight=_source(request.sample_weight),
        exempt=_source(request.exempt),
        categorical=_source(request.features.categorical),
        clusters=_source(request.clusters),
        periods=_source(request.periods),
        outcome=_source(request.outcome),
        known_groups=_source(request.known_groups),
        score_type=request.score_type,
        threshold=request.threshold,
        metric=request.metric,
        where={str(name): text_of(value) for name, value in (request.where or {}).items()},
        blocks="; ".join(blocks) or None,
    )


def _source(value: Any) -> str | None:
    """Return the name of a column, the type of a model, or a phrase for values that were passed."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    if any(hasattr(value, name) for name in ("fit", "predict", "predict_proba")):
        return str(getattr(value, "origin", type(value).__name__))
    return "a function" if callable(value) else "an array"


def provenance_of(
    rows: int,
    fingerprint: int,
    features: Sequence[str],
    question: Question,
    stated: dict[str, str],
    rows_fingerprint: int | None = None,
) -> Provenance:
    """Return the provenance of an audit, from the number of its rows and the sums of their hashes."""
    created = _now().isoformat(timespec="seconds")
    of_rows = None if rows_fingerprint is None else _digest(rows, rows_fingerprint)
    digest = _digest(rows, fingerprint)
    return Provenance(created, dict(_versions()), digest, of_rows, tuple(features), question, stated)


def _now() -> datetime:
    """Return the current time, or that of SOURCE_DATE_EPOCH (reproducible-builds.org)."""
    told = os.environ.get(EPOCH)
    if told is None:
        return datetime.now(UTC)
    try:
        return datetime.fromtimestamp(int(told), UTC)
    except (ValueError, OverflowError, OSError):
        raise DataError(f"{EPOCH} must be seconds since 1970, got {shown(told)}.", "unset it.") from None


def _digest(rows: int, fingerprint: int) -> str:
    return hashlib.sha256(f"{rows} rows, {fingerprint:016x}".encode()).hexdigest()


def fingerprint_of(table: pl.DataFrame) -> int:
    """Return the sum of the hashes of a table's rows, modulo 2^64."""
    return int(row_hashes({name: table[name] for name in table.columns}).sum()) if table.height else 0


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}


def check_provenance(stated: Any) -> dict[str, str]:
    """Return the user's facts as texts by name; raise if they are not a dict of texts."""
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
