"""The audit: any table, any model, one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from tiltlens.repair.alternatives import Alternatives

from tiltlens.analysis.evidence import Question
from tiltlens.analysis.fitting import FitSettings, gather_evidence
from tiltlens.analysis.settings import Settings, usual_materiality
from tiltlens.errors import DataError
from tiltlens.progress import Listener, stage, told_to
from tiltlens.repair.rows import AuditedRows
from tiltlens.results.audit import Audit
from tiltlens.results.build_comparison import compare
from tiltlens.results.comparison import Comparison
from tiltlens.results.provenance import Provenance, check_provenance, describe_request, provenance_of
from tiltlens.rows.clusters import cluster_note, repeated_ids
from tiltlens.rows.compared_rows import EncodedSample, select_groups, select_rows
from tiltlens.rows.declared import one_hot_notes
from tiltlens.rows.groups import ComparedGroups, alike_notes
from tiltlens.rows.leakage import leakage_notes
from tiltlens.rows.measures import MEASURES, channel_of
from tiltlens.rows.predictions import model_notes
from tiltlens.rows.rescoring import OTHER_ANSWERS, AskedModel
from tiltlens.rows.roles import ColumnRoles, Request, resolve_roles, with_arrays
from tiltlens.rows.sample import HashThreshold
from tiltlens.rows.sampled_rows import SampledRows
from tiltlens.rows.scores import check_output, either_spelling
from tiltlens.rows.sums import GroupSums, SumPlan, sum_batch, sum_rows
from tiltlens.rows.survey import Survey, survey_batch
from tiltlens.sources.batches import Batches, FrameBatches, checked_columns
from tiltlens.sources.messages import shown, text_of
from tiltlens.sources.opening import batches_of, frame_of, reading_notes
from tiltlens.sources.read_options import ReadOptions, read_options
from tiltlens.sources.tables import column_names, native_columns
from tiltlens.threads import one_thread

SURVEY, SUMS = 0.1, 0.2  # of the time, about, after the first and the second pass
FITS = 0.7  # of the time of a comparison, about


def audit(
    data: Any,
    group: Any,
    *positional: Any,
    labels: Any = None,
    reference: Any = None,
    audited: Any = None,
    scores: Any = None,
    model: Any = None,
    output: str = "probability",
    favourable: Any = "high",
    favorable: Any = None,
    threshold: float | None = None,
    outcome: Any = None,
    criterion: str | None = None,
    features: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    exempt: str | Sequence[str] | None = None,
    categorical: str | Sequence[str] | None = None,
    blocks: Mapping[str, str | Sequence[str]] | None = None,
    membership: Any = None,
    weights: Any = None,
    clusters: Any = None,
    periods: Any = None,
    given: Mapping[str, Any] | None = None,
    na_values: str | Sequence[str] | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    query: str | None = None,
    input_weight: float = 1.0,
    output_weight: float = 1.0,
    confidence: float = 0.95,
    materiality: float | None = None,
    folds: int | None = 5,
    seed: int = 0,
    sample_rows: int = 500_000,
    provenance: Mapping[str, str] | None = None,
    progress: Listener | None = None,
) -> Audit:
    """Return how a fixed model's outputs differ between groups, and which features carry the difference.

    Parameters
    ----------
    data
        A pandas or Polars frame (eager or lazy), a pyarrow table, a DuckDB relation, a Spark data frame, a dict of
        arrays, or files (CSV, Parquet, Arrow, JSON lines, Excel): a path, a pattern such as ``"data/*.parquet"``, a
        folder, a list of these; or, with a `query`, the URL of a database. It may be larger than memory: see
        `docs/scale.md`.
    group
        A column, several columns (their intersections), or an array as long as the data. Where groups are known by
        probabilities, {group: column of its probability}.
    labels
        Beside probabilities: the column or array of the group where it is known. It is used to check them alone.
    reference, audited
        The group others are compared with (default: the largest), and those others (default: all).
    scores, model
        Exactly one: columns or an array of probabilities, (n,) or (n, K), or of decisions as 0 and 1 or two words; or
        a fitted model or function that makes them from `features`.
    output
        What scores are: "probability", or "amount" (premium, salary, credit limit, days): one column or array of finite
        numbers, or what a regressor predicts. Differences are then in units of the amount.
    favourable, favorable
        The outcome a person wants (either spelling): of 0 and 1, and of amounts, "high" or "low", of others its name.
    threshold
        A cut on the score that makes decisions.
    outcome
        What came of each person, such as "repaid": a column or an array of 0 and 1, or of two words of which one is
        what the score is the probability of. It adds error rates of both groups: false positives and negatives,
        calibration, area under the curve.
    criterion
        "fpr" or "fnr": audit the difference of that error rate, among people without or with the outcome.
    features, exclude
        Default: every column not used otherwise; and columns that are no features, such as labels and row numbers.
        Without any (`features=[]`, or where no other column is left) outputs alone are compared.
    exempt
        Features that you hold to be lawful factors: the gap is told apart into what goes through them and what is left
        between people equal in them, and what other features carry is of the latter.
    categorical
        Features whose numbers are codes, such as those of branches: each value is a category.
    blocks
        {feature: columns}: several columns that are one feature, such as {"region": ["region_*"]}. Names may be
        patterns. Columns of 0 and 1 become the name of the one that is 1; others become their joint value.
    membership
        P(audited|x): None to choose a model, a scikit-learn classifier to cross-fit, or a column or array that a model
        of other rows gave.
    weights
        Row weights: a column or an array.
    clusters
        Which rows belong together, such as those of one customer: a column or an array. Standard errors, folds and the
        sample are then those of clusters.
    periods
        When each row is from, such as its month: a column or an array of at most 60 values. Rates, gap and ratio are
        then told along time too, with a test of equal gaps.
    given
        {column: value}: look only at rows with this value.
    na_values
        Texts that stand for missing values in CSV files, beside "", "?", "-", ".", "NA", "N/A", "NaN" and "NULL".
    encoding, sheet, query
        Of CSV files their encoding, such as "cp1252" (default: found out, and told in the notes); of an Excel file with
        several sheets the one; of a database, such as "sqlite:///people.db", the SQL.
    input_weight, output_weight
        λ2 and λ4.
    confidence, materiality, folds, seed
        Of the intervals; points of the score that matter, of amounts standard deviations (default: 0.005 and 0.02); of
        the cross-fit (None: the paper's plug-in values, no
        intervals); of everything random.
    sample_rows
        Rows of the compared groups that are kept, at most; of fewer rows all are. Sums are over all rows in any case.
    provenance
        What a reader of the report should know of the data and the model, e.g. {"group labels": "self-reported",
        "data window": "2024", "model": "credit 3.1"}.
    progress
        A function that is told, again and again, the stage of the work and the fraction done, up to 1.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {
    ...     "sex": ["women", "men"] * 100,
    ...     "skill": [0, 1, 1, 2, 2, 2, 3, 3] * 25,
    ...     "score": [0.4, 0.5, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7] * 25,
    ... }
    >>> audit = tl.audit(people, "sex", reference="men", scores="score", features="skill", folds=None)  # no intervals
    >>> audit["women"]
    Comparison('women' against 'men': gap -0.0500, 1 features)
    >>> round(audit["women"].gap, 3)
    -0.05
    """
    if positional:
        raise DataError(
            f"tl.audit takes data and group by position, got {len(positional)} more.",
            "`scores` and all others are keywords: tl.audit(data, group, scores=…).",
        )
    if progress is not None and not callable(progress):
        raise DataError(
            f"`progress` must be a function of a stage and a fraction, got {shown(progress)}.", "for example print."
        )
    stated = check_provenance(provenance)
    reading = read_options(na_values, encoding, sheet, query)
    check_output(output, threshold)
    counts = usual_materiality(output) if materiality is None else materiality
    settings = Settings(input_weight, output_weight, confidence, counts, folds, seed=seed, sample_rows=sample_rows)
    request = Request(
        group=group,
        labels=labels,
        reference=reference,
        audited=audited,
        scores=scores,
        model=model,
        output=output,
        favourable=either_spelling(favourable, favorable),
        threshold=threshold,
        outcome=outcome,
        criterion=criterion,
        features=features,
        exclude=exclude,
        exempt=exempt,
        categorical=categorical,
        blocks=blocks,
        membership=membership,
        weights=weights,
        clusters=clusters,
        periods=periods,
        given=given,
    )
    with told_to(progress):
        return _run_audit(data, request, reading, settings, stated)


def alternatives(
    data: Any, group: Any, *, outcome: Any, tolerance: float = 0.005, threshold: float = 0.5, **options: Any
) -> dict[str, Alternatives]:
    """Return, for each audited group, whether a rule that is no less accurate leans less.

    Parameters
    ----------
    data, group, outcome
        As of `audit`; the outcome is needed.
    tolerance
        The loss of accuracy that counts as none, 0.005 by default.
    threshold
        Decisions of the audited model are 1 from this score on, 0.5 by default. It also says what errors cost: a missed
        outcome (1 − threshold)/threshold times a false alarm.
    options
        Others of `audit`, such as `scores`, `features` and `reference`.

    Examples
    --------
    >>> import numpy as np
    >>> import tiltlens as tl
    >>> rng = np.random.default_rng(0)
    >>> sex, skill = rng.choice(["men", "women"], 300), rng.integers(0, 4, 300)
    >>> score = 0.3 + 0.1 * skill
    >>> people = {"sex": sex, "skill": skill, "score": score, "repaid": (rng.random(300) < score).astype(int)}
    >>> found = tl.alternatives(people, "sex", reference="men", scores="score", outcome="repaid")
    >>> found["women"].verdict
    'cannot be told'
    """
    found = audit(data, group, outcome=outcome, folds=None, **options)
    return {name: c.alternatives(tolerance, threshold) for name, c in found.items()}


def _run_audit(data: Any, request: Request, reading: ReadOptions, settings: Settings, stated: dict[str, str]) -> Audit:
    """Return the audit: survey and sample, sums, fits, and then arithmetic."""
    with stage(0.0, SURVEY, "survey"):
        source = _open(data, request, reading)
        step = partial(survey_batch, source.roles, settings.sample_rows, HashThreshold())
        survey: Survey = source.batches.fold(source.columns, step)
        favourable = survey.outcome(request.favourable)
        groups = select_groups(source.roles, survey, request.reference, request.audited)
        sample = select_rows(source.roles, survey, groups)
    with stage(SURVEY, SUMS, "sums"):
        sums = _sums(source, survey, sample)
    with stage(SUMS, 1.0), one_thread():
        model, of_model = _model_to_ask(source, sample)
        question = Question(
            audited=groups.audited[0],
            reference=groups.reference,
            comparisons=len(groups.audited),
            criterion=source.roles.criterion,
            is_decisions=survey.is_decisions,
            exempt=source.roles.exempt,
            given={name: text_of(value) for name, value in source.roles.given.items()},
            notes=(*of_model, *_notes(source, request, survey, sample)),
        )
        comparisons = _comparisons(sample, sums, question, settings, _fit_settings(source, settings, model))
    return Audit(
        comparisons=comparisons,
        rows=_account_for_rows(survey, groups, bool(source.roles.soft)),
        group=source.roles.name,
        reference=groups.reference,
        channel=next(iter(comparisons.values())).channel,
        favourable=favourable,
        too_small=dict(groups.too_small),
        settings=settings,
        provenance=_provenance(source, survey, request, stated),
        _rows=_audited_rows(sample.rows, comparisons, question.given),
    )


def _provenance(source: _Source, survey: Survey, request: Request, stated: dict[str, str]) -> Provenance:
    return provenance_of(
        survey.read,
        survey.fingerprint,
        source.roles.features,
        describe_request(request),
        stated,
        survey.rows_fingerprint,
    )


def _audited_rows(rows: SampledRows, comparisons: Mapping[str, Comparison], given: Mapping[str, str]) -> AuditedRows:
    """Return the rows of all groups, with the features that tell no group from the reference without fail."""
    separating = {feature.name for c in comparisons.values() for feature in c._profiles.features if feature.is_group}
    pair = next(iter(comparisons.values()))._audited_rows("repair")
    return AuditedRows(
        groups=(*rows.groups[1:], rows.groups[0]),
        codes=(rows.group - 1) % len(rows.groups),  # the reference last
        weights=rows.sampling_weight,
        clusters=rows.cluster,
        features=[replace(part, is_group=part.is_group or part.name in separating) for part in rows.features],
        scores=rows.scores,
        outcome=rows.y_true,
        given=given,
        favours_low=pair.favours_low,
        exempt=pair.exempt,
        soft={name: c._profiles.soft for name, c in comparisons.items() if c._profiles.soft is not None},
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """The data as batches, the roles of their columns, and what only the user's own table can give."""

    batches: Batches
    columns: list[str]
    roles: ColumnRoles
    estimator: Any  # of membership, to be cross-fitted
    native: Any  # the features as the user holds them, for models; None where rows are read in batches
    model: Any  # that makes the scores, else None


def _open(data: Any, request: Request, reading: ReadOptions) -> _Source:
    """Return the data, in memory or not, as batches whose columns have roles."""
    estimator = request.membership if hasattr(request.membership, "fit") else None
    batches = batches_of(data, reading)
    if batches is not None:
        roles = resolve_roles(batches.names(), request, may_have_arrays=False)
        columns = checked_columns(batches, roles.columns)
        return _Source(batches, columns, roles, estimator, None, request.model)
    roles = resolve_roles(column_names(data), request, may_have_arrays=True)
    named = [name for name in roles.columns if not name.startswith("\0")]
    frame = frame_of(data, named)
    columns = checked_columns(FrameBatches(frame), named)
    frame, roles = with_arrays(frame.select(columns), data, request, roles)
    is_native = estimator is not None or request.model is not None
    native = native_columns(data, frame, roles.sources) if is_native else None
    return _Source(FrameBatches(frame), list(frame.columns), roles, estimator, native, request.model)


def _sums(source: _Source, survey: Survey, sample: EncodedSample) -> GroupSums:
    """Return the sums over all rows: of the sample where it is complete, else by another pass."""
    rows = sample.rows
    shift = 0.0 if rows.log_odds is None else float(rows.log_odds.max())
    if rows.facts.is_complete:
        return sum_rows(rows, sample.sizes, shift)
    plan = SumPlan(
        roles=source.roles,
        groups=rows.groups,
        levels=tuple(sample.levels.values()),
        labels=rows.labels,
        unit=rows.unit,
        largest_weight=rows.facts.largest_weight,
        shift=shift,
    )
    sums: GroupSums = source.batches.fold(source.columns, partial(sum_batch, plan))
    _check_same_rows(survey, rows.groups, sums)
    return sums


def _check_same_rows(survey: Survey, groups: Sequence[str], sums: GroupSums) -> None:
    """Raise for data that had other rows when it was read again, as a query that draws them by chance has."""
    for label, moments in zip(groups, sums.moments, strict=True):
        if moments.rows != survey.sample.counts[label]:
            raise DataError(
                f"`data` must have the same rows each time it is read, got {survey.sample.counts[label]:,} and then "
                f"{moments.rows:,} of {shown(label)}.",
                "write what a query draws by chance, or what others still write to, to a file first.",
            )


def _notes(source: _Source, request: Request, survey: Survey, sample: EncodedSample) -> tuple[str, ...]:
    """Return what to know of the data and the model, whoever is compared."""
    rows = sample.rows
    return (
        *reading_notes(source.batches, source.columns),
        *model_notes(request.model, source.roles.sources),
        *alike_notes(survey.sample.counts),
        *_cluster_notes(source.roles, sample),
        *one_hot_notes(sample.table),
        *leakage_notes(
            rows.features,
            rows.score,
            rows.row_number,
            source.roles.features_of(request.model),
            MEASURES[channel_of(survey.is_decisions, rows.unit.is_amount), None].each,
            [*source.roles.given, *([] if source.roles.outcome is None else [source.roles.outcome])],
        ),
    )


def _cluster_notes(roles: ColumnRoles, sample: EncodedSample) -> Iterable[str]:
    clusters = sample.rows.cluster
    if roles.clusters is None or clusters is None:
        return repeated_ids(sample.table)
    return [cluster_note(roles.clusters.lstrip("\0"), clusters, sample.rows.group)]


def _model_to_ask(source: _Source, sample: EncodedSample) -> tuple[AskedModel | None, list[str]]:
    """Return the model to ask again; none, and a note, where its scores are not made of the features alone."""
    if source.model is None:
        return None, []
    rows = sample.rows
    row_number = None if source.native is None else rows.row_number
    model = AskedModel(source.model, source.roles, sample.table, sample.inputs, source.native, row_number)
    before = rows.unit.level(rows.score) if rows.unit.is_amount else rows.scores
    changes = model.changes(1.0 - before if source.roles.criterion == "fnr" else before, rows.unit.scale)
    return (None, [OTHER_ANSWERS]) if changes else (model, [])


def _fit_settings(source: _Source, settings: Settings, model: AskedModel | None) -> FitSettings:
    native = pl.DataFrame(source.native) if isinstance(source.native, Mapping) else source.native
    return FitSettings(settings.folds, settings.seed, source.estimator, native, model)


def _comparisons(
    sample: EncodedSample, sums: GroupSums, question: Question, settings: Settings, fits: FitSettings
) -> dict[str, Comparison]:
    """Return the comparisons, each an equal part of the work."""
    comparisons, audited = {}, sample.rows.groups[1:]
    for number, label in enumerate(audited):
        with stage(number / len(audited), (number + 1) / len(audited), label):
            with stage(0.0, FITS):
                evidence = gather_evidence(sample, sums, replace(question, audited=label), fits)
            with stage(FITS, 1.0, "comparison"):
                comparisons[label] = compare(evidence, settings)
    return comparisons


def _account_for_rows(survey: Survey, groups: ComparedGroups, is_soft: bool) -> dict[str, int]:
    """Return where every row went; what was used and what was left out add up to what was read."""
    used, small = sum(survey.sample.counts[label] for label in (groups.reference, *groups.audited)), groups.too_small
    if is_soft:
        used, small = survey.kept, {}  # each row may be of every group
    gone = survey.left_out | {"missing_group": survey.without_group, "too_small_group": sum(small.values())}
    rest = survey.read - used - sum(gone.values())
    return {"read": survey.read, "used": used} | gone | {"group_not_audited": rest}
