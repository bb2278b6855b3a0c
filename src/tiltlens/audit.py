"""The audit: any table, any model, one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tiltlens.engines.batches import Batches
from tiltlens.engines.tables import column_names, shown
from tiltlens.errors import DataError
from tiltlens.memory import Request, RowAudit, audit_in_memory
from tiltlens.models.groups import group_columns
from tiltlens.models.scores import score_columns
from tiltlens.progress import Listener, told_to
from tiltlens.results.comparison import Comparison
from tiltlens.results.disclosure import told_rows
from tiltlens.results.profiles import People
from tiltlens.results.provenance import Provenance, check_provenance, provenance_of, stream_provenance
from tiltlens.results.settings import Settings
from tiltlens.streams.audit import check_streamed, streamed_audit
from tiltlens.streams.pair import needs_rows
from tiltlens.streams.reading import Question, asked_of_rows
from tiltlens.streams.sources import (
    are_few,
    collected,
    in_even_batches,
    is_long,
    read_into_memory,
    rows_in_memory,
    stream_of,
)
from tiltlens.views.json_file import write_json
from tiltlens.views.notebook import audit_html
from tiltlens.views.report.page import write_report

SCHEMA = "tiltlens/audit/1"  # of to_dict and to_json; a change that breaks a reader raises the number


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """The result of an audit.

    Attributes
    ----------
    comparisons
        One `Comparison` for each audited group, by name.
    rows
        Where every row went: read, used, and left out for which reason.
    group, reference
        What was compared.
    channel
        "scores", or "decisions" where every score is 0 or 1 or a threshold was given.
    favourable
        The outcome a person wants.
    too_small
        Groups nothing is said about, with their sizes.
    settings
        The numbers the audit was asked for with.
    provenance
        When, by which versions, from which data, and what the user said of them.
    """

    comparisons: dict[str, Comparison]
    rows: dict[str, int]
    group: str
    reference: str
    channel: str
    favourable: str
    too_small: dict[str, int]
    settings: Settings
    provenance: Provenance

    def __getitem__(self, audited: str) -> Comparison:
        if audited not in self.comparisons:
            raise DataError(
                f"`audited` must be one of the compared groups, got {audited!r}.", f"they are {list(self.comparisons)}."
            )
        return self.comparisons[audited]

    def __iter__(self) -> Iterator[str]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the audit, keyed by attribute name; the sizes of groups too small are withheld."""
        return {
            "schema": SCHEMA,
            "group": self.group,
            "reference": self.reference,
            "channel": self.channel,
            "favourable": self.favourable,
            "rows": told_rows(self.rows, self.too_small.values()),
            "too_small": dict.fromkeys(self.too_small),
            "settings": asdict(self.settings),
            "provenance": asdict(self.provenance),
            "comparisons": {name: comparison.to_dict() for name, comparison in self.comparisons.items()},
        }

    def to_json(self, path: str | Path) -> None:
        """Write every number of the audit to a JSON file, whole or not at all."""
        write_json(self.to_dict(), str(path))

    def report(self, path: str | Path) -> None:
        """Write the report, one HTML file that needs no network, whole or not at all."""
        write_report(self.to_dict(), path)

    def _repr_html_(self) -> str:
        return audit_html(repr(self), [comparison._repr_html_() for comparison in self.comparisons.values()])

    def __repr__(self) -> str:
        return f"Audit({self.group} against {self.reference!r}: {', '.join(map(repr, self.comparisons))})"


def audit(
    data: Any,
    group: Any,
    reference: Any = None,
    audited: Any = None,
    scores: Any = None,
    model: Any = None,
    favourable: Any = "high",
    threshold: float | None = None,
    features: str | Sequence[str] | None = None,
    membership: Any = None,
    weights: Any = None,
    given: Mapping[str, Any] | None = None,
    input_weight: float = 1.0,
    output_weight: float = 1.0,
    confidence: float = 0.95,
    materiality: float = 0.005,
    folds: int | None = 5,
    seed: int = 0,
    total_shares: bool = True,
    provenance: Mapping[str, str] | None = None,
    progress: Listener | None = None,
) -> Audit:
    """Return how a fixed model's outputs differ between groups, and which features carry the difference.

    Parameters
    ----------
    data
        A pandas or Polars frame (eager or lazy), a pyarrow table, a DuckDB relation, a Spark data frame, a dict of
        arrays, or files: a path, a pattern such as "data/*.parquet", a folder, a list of these. What is larger than
        memory is streamed: see `docs/scale.md`.
    group
        A column, several columns (their intersections), or an array as long as the data.
    reference, audited
        The group others are compared with (default: the largest), and those others (default: all).
    scores, model
        Exactly one: columns or an array of probabilities, (n,) or (n, K); or a fitted model or function that makes
        them from `features`.
    favourable
        The outcome a person wants: "high", "low" or a class.
    threshold
        A cut on the score that makes decisions.
    features
        Default: every column not used otherwise.
    membership
        P(audited|x): None to choose a model, a scikit-learn classifier to cross-fit, or a column or array to be taken
        as known.
    weights
        Row weights: a column or an array.
    given
        {column: value}: look only at rows with this value, e.g. of the true outcome.
    input_weight, output_weight
        λ2 and λ4.
    confidence, materiality, folds, seed
        Of the intervals; points of the score that matter; of the cross-fit (None: the paper's plug-in values, no
        intervals); of everything random.
    total_shares
        Whether to fit what total shares and joint proxy evidence need.
    provenance
        What a reader of the report should know of the data and the model, e.g. {"group labels": "self-reported",
        "data window": "2024", "model": "credit 3.1"}.
    progress
        A function that is told, again and again, the stage of the work and the fraction done, up to 1.
    """
    if progress is not None and not callable(progress):
        raise DataError(
            f"`progress` must be a function of a stage and a fraction, got {shown(progress)}.", "for example print."
        )
    stated = check_provenance(provenance)
    roles = {"group": group, "scores": scores, "membership": membership, "weights": weights}
    settings = Settings(input_weight, output_weight, confidence, materiality, folds, seed, total_shares)
    request = Request(roles, model, features, favourable, threshold, given, reference, audited, settings)
    with told_to(progress):
        streamed = stream_of(data)
        if streamed is not None:
            question = _question(streamed.names(), request)
            if question.membership is not None or not are_few(streamed):
                return _streamed(streamed, question, request, stated)
            data, request = collected(streamed, question.columns), replace(request, features=question.features)
        data = read_into_memory(data)
        if _may_be_summed(data, request):
            return _summed(data, request, stated)
        return _of_rows(audit_in_memory(data, request), request, stated)


def _of_rows(found: RowAudit, request: Request, stated: dict[str, str]) -> Audit:
    return Audit(
        comparisons=found.comparisons,
        rows=found.rows,
        group=found.groups.name,
        reference=found.groups.reference,
        channel=found.channel.kind,
        favourable=found.channel.labels[found.channel.favourable],
        too_small=dict(found.groups.too_small),
        settings=request.settings,
        provenance=provenance_of(found.table, found.features, request.words(), stated),
    )


def _may_be_summed(data: Any, request: Request) -> bool:
    """Return whether a table in memory is so long that it is summed, and all that is asked of its rows in columns."""
    roles = request.roles
    if not isinstance(roles["membership"], str) or request.model is not None or not is_long(rows_in_memory(data)):
        return False
    names = column_names(data)
    is_named = bool(group_columns(roles["group"], names)) and bool(score_columns(roles["scores"], names))
    return is_named and (roles["weights"] is None or isinstance(roles["weights"], str))


def _summed(data: Any, request: Request, stated: dict[str, str]) -> Audit:
    """Return the audit of a long table by sums; what only rows can tell is worked out from them when it is asked."""
    question = _question(column_names(data), request)
    batches = in_even_batches(data, question.columns)
    found = _streamed(batches, question, request, stated)
    rows = _RowsLater(batches.frame, replace(request, features=question.features))
    comparisons = {name: one.with_rows(partial(rows.people, name)) for name, one in found.comparisons.items()}
    return replace(found, comparisons=comparisons)


class _RowsLater:
    """A table that is audited row by row when someone asks; it is left behind when an audit is pickled."""

    def __init__(self, table: Any, request: Request | None) -> None:
        self.table, self.request = table, request
        self.found: dict[str, Comparison] = {}

    def people(self, name: str) -> People:
        """Return what the rows tell of a comparison."""
        if self.request is None:
            raise needs_rows("the comparison", "ask before it is pickled")
        if not self.found:
            self.found = audit_in_memory(self.table, self.request).comparisons
        return self.found[name].people

    def __reduce__(self) -> tuple[Any, ...]:
        return _RowsLater, (None, None)


def _streamed(batches: Batches, question: Question, request: Request, stated: dict[str, str]) -> Audit:
    check_streamed(question, request.settings)
    membership = request.roles["membership"]
    found = streamed_audit(batches, question, request.reference, request.audited, request.settings, membership)
    return Audit(
        comparisons=found.comparisons,
        rows=found.rows,
        group=question.name,
        reference=found.groups.reference,
        channel="decisions" if found.is_decisions else "scores",
        favourable=found.favourable,
        too_small=dict(found.groups.too_small),
        settings=request.settings,
        provenance=stream_provenance(found.rows["read"], found.fingerprint, question.features, request.words(), stated),
    )


def _question(names: Sequence[str], request: Request) -> Question:
    """Return what an audit asks of each row of a stream."""
    return asked_of_rows(
        names,
        request.roles,
        request.model,
        request.chosen(names),
        request.favourable,
        request.threshold,
        request.given,
    )
