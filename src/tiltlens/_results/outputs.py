"""Parts of results: checks, outputs, contributions of features and parts of the gap; and the provenance."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple, TypedDict

import polars as pl

from tiltlens._analysis.adjusted_gap import Sensitivity
from tiltlens._analysis.output_tables import DECILE_SCHEMA
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import Display, FieldTable, number, percent, ratio, short_number, text_of, whole
from tiltlens._learners.balance import Balance
from tiltlens._rows.roles import Request
from tiltlens._rows.wording import ScoreType, Wording, measure_for
from tiltlens._sources.arrays import row_hashes
from tiltlens.errors import DataError, quoted


class DocumentView:
    """A result that `print` and notebooks show as its document."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from tiltlens._render.html import result_html

        return result_html(self)

    def __str__(self) -> str:
        from tiltlens._render.terminal import result_text

        return result_text(self)


@dataclass(frozen=True, slots=True, eq=False)
class Checks(DocumentView):
    """The overlap and calibration checks of a comparison, and its warnings.

    Attributes
    ----------
    propensity
        Name of the group-membership model; "none" without features.
    balance
        Balance, overlap and calibration of that model; None for plug-in values, and without features.
    notes
        Warnings about rows and models.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women"] * 50 + ["men"] * 50, "years": [1] * 30 + [2] * 20 + [1] * 15 + [2] * 35}
    >>> scores = [0.2 * years + 0.3 for years in people["years"]]
    >>> c = tl.audit(people, "sex", reference="men", scores=scores)["women"]
    >>> c.checks.is_adequate, c.checks.propensity
    (True, 'linear, ridge')
    """

    propensity: str
    balance: Balance | None
    notes: tuple[str, ...]

    @property
    def is_adequate(self) -> bool | None:
        """Whether the group-membership model passed its checks; None without checks."""
        return None if self.balance is None else self.balance.is_adequate


CONTRIBUTIONS = ("alone", "beyond_others", "shapley", "use")
FACTORS = ("reveals", "drives", "alignment", "share", "share_inputs", "share_outputs")
# The scale of each estimate of a feature: the first two have bands, as in verdicts.
KINDS = ("band", "band", "gap", "gap", "index", "level", "index", "share", "share", "share")
SCALES = dict(zip((*CONTRIBUTIONS, *FACTORS), KINDS, strict=True))


class Means(NamedTuple):
    """The mean outputs of the two groups: one number for two outcomes, all K probabilities for more."""

    audited: float | tuple[float, ...]
    reference: float | tuple[float, ...]


class Rates(NamedTuple):
    """A rate of the two groups."""

    audited: Estimate
    reference: Estimate


@dataclass(frozen=True, slots=True)
class Scale(FieldTable):
    """The score type, the materiality threshold and the words of a comparison.

    Attributes
    ----------
    score_type
        "probability", "decision" or "amount".
    metric
        "fpr", "fnr", "fdr" or "for" if the gap is that of an error rate.
    materiality
        The materiality threshold, in points of a score or units of the amount.
    confidence
        The confidence level of intervals.
    wording
        The user's words for people, the favourable outcome and the unit of amounts.
    source
        The data, as stated in the provenance; "" if not stated.
    wants_less
        Whether low amounts are favourable, such as prices.
    """

    score_type: ScoreType
    metric: str | None
    materiality: float
    confidence: float
    wording: Wording
    source: str = ""
    wants_less: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Outputs(FieldTable):
    """Means and rates of both groups.

    Attributes
    ----------
    means
        The mean score, or amount, of each group; for more than two classes, the mean probability of each class.
    rates
        Favourable rate of each group; for amounts, the mean amounts.
    metric_rates
        The audited error rate of each group; None without a metric.
    standardised_difference
        The gap divided by the standard deviation within the groups, √((Var0(W) + Var1(W))/2).
    decile_shares
        For amounts: the share of each group above each overall decile, and the difference.
    """

    means: Means
    rates: Rates = field(metadata={"scale": "level"})
    metric_rates: Rates | None = field(metadata={"scale": "level"})
    standardised_difference: Estimate | None = field(metadata={"scale": "index"})
    decile_shares: Annotated[pl.DataFrame, DECILE_SCHEMA]


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """The results for one feature: a row of `contributions_full`, whose docs define the columns."""

    feature: str
    alone: Estimate | None
    beyond_others: Estimate | None
    shapley: Estimate | None
    use: Estimate | None
    reveals: Estimate | None
    drives: Estimate | None
    alignment: Estimate | None
    share: Estimate | None
    share_inputs: Estimate | None
    share_outputs: Estimate | None
    direction: str
    partner: str | None
    redundant_with: str | None
    verdict: Verdict
    reason: str
    notes: str

    @classmethod
    def of(cls, row: Mapping[str, Any], scale: Scale) -> Contribution:
        """Return a row of the frame, whose estimates are columns NAME, NAME_low and NAME_high."""
        displays, parts = displays_of(scale), dict(row) | {"verdict": Verdict(row["verdict"])}
        for name, kind in SCALES.items():
            estimate = row_estimate(row, name)
            parts[name] = None if estimate is None else estimate.displayed(displays[kind])
        return cls(**{field.name: parts[field.name] for field in fields(cls)})


def displays_of(scale: Scale) -> dict[str, Display]:
    """Return the display of the estimates of each scale, with the confidence level."""
    measure = measure_for(scale.score_type, scale.metric, scale.wording)
    write, confidence = measure.difference if measure.is_amount else None, scale.confidence
    without_unit = {"level": measure.level, "total": measure.total, "ratio": ratio, "share": percent}
    without_unit |= {"index": short_number, "number": number, "count": whole}
    return {name: Display("", write, confidence) for name, write in without_unit.items()} | {
        "gap": Display(measure.unit, write, confidence),
        "band": Display(measure.unit, write, confidence, kind="band"),
        "range": Display(measure.unit, write, is_range=True),
        "points": Display("points", None, confidence),
        "nats": Display("nats", number, confidence),
    }


def row_estimate(row: Mapping[str, Any], name: str) -> Estimate | None:
    """Return the estimate in the columns NAME, NAME_low and NAME_high of a row; None if its value is missing."""
    return None if row[name] is None else Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


@dataclass(frozen=True, slots=True, eq=False)
class GapParts(FieldTable):
    """The parts of the gap that exempt factors and features account for.

    Attributes
    ----------
    exempt
        The exempt factors.
    gap_explained_by_exempt, gap_given_exempt
        The gap in two parts: explained by exempt factors, and among people with the same values of them. The
        contributions of other features are parts of the second.
    shapley_remainder
        The gap minus the sum of the Shapley contributions, an estimate of the adjusted gap.
    band_factor
        κ of the simultaneous bands of contributions, value ± κ·se.
    sensitivity
        How far an omitted factor may move the "adjusted_gap" and the "gap_given_exempt".
    """

    exempt: tuple[str, ...]
    gap_explained_by_exempt: Estimate | None = field(metadata={"scale": "gap"})
    gap_given_exempt: Estimate | None = field(metadata={"scale": "gap"})
    shapley_remainder: float | None
    band_factor: float | None
    sensitivity: dict[str, Sensitivity]


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


def _source(value: object) -> str | None:
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
    seconds = os.environ.get(EPOCH)
    if seconds is None:
        return datetime.now(UTC)
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        raise DataError(f"{EPOCH} must be seconds since 1970, got {quoted(seconds)}.", "unset it.") from None


def _digest(rows: int, fingerprint: int) -> str:
    return hashlib.sha256(f"{rows} rows, {fingerprint:016x}".encode()).hexdigest()


def fingerprint_of(table: pl.DataFrame) -> int:
    """Return the sum of the hashes of a table's rows, modulo 2^64."""
    return int(row_hashes({name: table[name] for name in table.columns}).sum()) if table.height else 0


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}


def check_provenance(stated: object) -> dict[str, str]:
    """Return the user's facts as texts by name; raise if they are not a dict of texts."""
    if stated is None:
        return {}
    if not isinstance(stated, Mapping) or not all(isinstance(part, str) for pair in stated.items() for part in pair):
        raise DataError(
            f"`provenance` must be a dict of texts, got {quoted(stated)}.",
            'for example {"group labels": "self-reported", "data window": "2024", "model": "credit 3.1"}.',
        )
    for text in (part for pair in stated.items() for part in pair):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"`provenance` must be texts that can be written as UTF-8, got {text!r}.",
                "decode it as what it is first.",
            ) from None
    return dict(stated)
