"""The audit of a table or model, and the search for less discriminatory alternatives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from tiltlens._repair.alternatives import Alternatives

from tiltlens._analysis.evidence import Question, Settings, usual_materiality
from tiltlens._analysis.fitting import FitSettings, gather_evidence
from tiltlens._analysis.intersections import FEWEST_GROUPS, find_intersections
from tiltlens._formats import text_of
from tiltlens._notes import Note
from tiltlens._results.audit import Audit
from tiltlens._results.build_comparison import compare
from tiltlens._results.comparison import Comparison
from tiltlens._results.monitor import Batch, StateFile
from tiltlens._results.outputs import check_provenance, describe_request, provenance_of
from tiltlens._rows.compared_rows import (
    EncodedSample,
    GroupSums,
    account_rows,
    check_same_rows,
    select_groups,
    select_rows,
    sum_batch,
    sum_rows,
)
from tiltlens._rows.features import check_clusters, cluster_note, leakage_notes, one_hot_notes, repeated_ids
from tiltlens._rows.groups import DECIDED, ComparedGroups, alike_notes
from tiltlens._rows.predictions import AskedModel, model_notes, native_columns
from tiltlens._rows.roles import ColumnRoles, FeatureChoice, Request, resolve_roles, with_arrays
from tiltlens._rows.scores import check_score_type, either_spelling
from tiltlens._rows.survey import Survey, survey_batch
from tiltlens._rows.wording import MEASURES, Wording, check_wording, score_type_of
from tiltlens._sources.engines import batches_of, frame_of, reading_notes
from tiltlens._sources.tables import Batches, FrameBatches, checked_columns, column_names
from tiltlens._threads import Listener, one_thread, report_to, stage
from tiltlens.errors import DataError, quoted

SURVEY, SUMS = 0.1, 0.2  # approximate shares of the time, at the end of the first and the second pass
FITS = 0.7  # approximate share of the time of a comparison


def audit(
    data: object,
    group: object,
    *positional: object,
    reference: object = None,
    audited: object = None,
    scores: object = None,
    model: object = None,
    score_type: str = "probability",
    favourable: object = "high",
    favorable: object = None,
    threshold: float | None = None,
    outcome: object = None,
    metric: str | None = None,
    features: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    exempt: str | Sequence[str] | None = None,
    categorical: str | Sequence[str] | None = None,
    blocks: Mapping[str, str | Sequence[str]] | None = None,
    propensity: object = None,
    sample_weight: object = None,
    clusters: object = None,
    periods: object = None,
    where: Mapping[str, object] | None = None,
    known_groups: object = None,
    confidence: float = 0.95,
    materiality: float | None = None,
    folds: int | None = 5,
    random_state: int = 0,
    sample_rows: int = 500_000,
    input_weight: float = 1.0,
    output_weight: float = 1.0,
    monitor: str | Path | StateFile | None = None,
    wording: Mapping[str, str] | None = None,
    provenance: Mapping[str, str] | None = None,
    progress: Listener | None = None,
) -> Audit:
    """Measure the gap between groups in a model's scores, and how much of it each feature accounts for.

    All parameters after `group` are keywords.

    Parameters
    ----------
    data : pandas or Polars frame, pyarrow table, DuckDB relation, Spark data frame, dict of arrays, path, or source
        Rows to audit, one per person. Files are named by a path, a pattern such as ``"data/*.parquet"``, a folder or a
        list of these; `tl.read` gives files and databases options for reading. Rows need not fit in memory.
    group : str, list of str, array-like, or dict
        Column of groups, columns whose intersections are the groups, or an array with the group of each row. For
        unobserved groups, a dict that maps each group to the column of its probability.
    reference : str, default=None
        Group that others are compared with. None takes the largest.
    audited : str or list of str, default=None
        Groups to compare with the reference. None takes all others.
    scores : str, list of str, or array-like, default=None
        Scores: probabilities of shape (n,) or (n, n_classes), decisions as 0 and 1 or two words, or amounts. Exactly
        one of `scores` and `model` is required.
    model : fitted model or callable, default=None
        Model that computes the scores from `features`.
    score_type : {"probability", "amount"}, default="probability"
        Type of scores. Amounts (premium, salary, days) are finite numbers, and gaps are in their unit.
    favourable, favorable : {"high", "low"} or str, default="high"
        Outcome that people want, in either spelling: the higher or lower score, or the name of a class.
    threshold : float, default=None
        Score from which the decision is 1. None audits the scores themselves.
    outcome : str or array-like, default=None
        Observed outcome, 0 and 1 or two words, such as loans repaid; adds error rates. For amounts, the observed cost.
    metric : {"fpr", "fnr", "fdr", "for"}, default=None
        Error rate whose gap is audited: among people without or with the outcome, or given decision 1 or 0. None audits
        the scores or decisions.
    features : str or list of str, default=None
        Inputs of the model. None takes the columns that the model lists, or all columns without another role. An empty
        list audits rates and gap alone.
    exclude : str or list of str, default=None
        Columns that are not features, such as labels and row numbers.
    exempt : str or list of str, default=None
        Features declared exempt (legitimate) factors. Other features contribute at equal exempt factors.
    categorical : str or list of str, default=None
        Features whose numbers are codes, such as those of branches.
    blocks : dict of str to str or list of str, default=None
        Columns, or patterns of their names, that form one feature, such as ``{"region": "region_*"}``.
    propensity : estimator, str, or array-like, default=None
        P(audited group | features): a scikit-learn classifier to cross-fit, or probabilities from a model fitted on
        other rows. None chooses a group-membership model.
    sample_weight : str or array-like, default=None
        Row weights. None counts every row once.
    clusters : str or array-like, default=None
        Identifier of rows that belong together, such as a customer number. None treats rows as independent.
    periods : str or array-like, default=None
        Period of each row, such as its month, with at most 60 values. It adds the gap over time.
    where : dict of str to value, default=None
        Value that each of these columns must have. Other rows are left out.
    known_groups : str or array-like, default=None
        Recorded group of the rows for which it is available, to check the probabilities of unobserved groups.
    confidence : float, default=0.95
        Confidence level of all intervals.
    materiality : float, default=None
        Materiality threshold. None takes 0.005 of the score, or 0.02 standard deviations of amounts.
    folds : {5, None}, default=5
        Number of folds of the cross-fit. None gives the paper's plug-in values without intervals.
    random_state : int, default=0
        Random seed.
    sample_rows : int, default=500_000
        Largest number of rows of the compared groups that models are fitted on. Rates and the gap use all rows.
    input_weight, output_weight : float, default=1.0
        Weights λ2 and λ4 of the paper's objective.
    monitor : str or Path, default=None
        State file of repeated audits, created if it does not exist. `data` has the rows since the last audit, the file
        has sums over all batches, and `audit.monitor` has intervals that are valid at all looks at once.
    wording : dict of str to str, default=None
        Words for sentences and figures: "people" (plural noun), "favourable" (what happens to a person with the
        favourable outcome) and "unit" (of amounts), such as ``{"people": "applicants", "favourable": "approved"}``.
    provenance : dict of str to str, default=None
        Facts about data and model for readers, such as ``{"model": "credit 3.1", "data": "applications of 2024"}``;
        figures name "data" as their source.
    progress : callable, default=None
        Function that is called with the current stage and the fraction done, from 0 to 1.

    Returns
    -------
    Audit
        One `Comparison` per audited group, by name.

    Raises
    ------
    TiltlensError
        If an argument or the data are not valid. `DataError` and other errors derive from it.

    See Also
    --------
    read : Read files and databases with options.
    compare : Compare two audits.
    alternatives : Search for less discriminatory alternatives.
    rule_tables : Make the tables that a published rule describes.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {
    ...     "sex": ["women", "men"] * 100,
    ...     "skill": [0, 1, 1, 2, 2, 2, 3, 3] * 25,
    ...     "score": [0.4, 0.5, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7] * 25,
    ... }
    >>> audit = tl.audit(people, "sex", reference="men", scores="score", features="skill", folds=None)  # no intervals
    >>> round(audit["women"].gap, 3)
    -0.05
    """
    if positional:
        raise DataError(
            f"tl.audit takes data and group by position, got {len(positional)} more.",
            "`scores` and all others are keywords: tl.audit(data, group, scores=…).",
        )
    if progress is not None and not callable(progress):
        raise DataError(f"`progress` must be a function, got {quoted(progress)}.", "for example print.")
    stated = check_provenance(provenance)
    check_score_type(score_type, threshold)
    words = check_wording(wording, score_type)
    counts = usual_materiality(score_type) if materiality is None else materiality
    settings = Settings(
        input_weight, output_weight, confidence, counts, folds, random_state=random_state, sample_rows=sample_rows
    )
    request = Request(
        group=group,
        known_groups=known_groups,
        reference=reference,
        audited=audited,
        scores=scores,
        model=model,
        score_type=score_type,
        favourable=either_spelling(favourable, favorable),
        threshold=threshold,
        outcome=outcome,
        metric=metric,
        features=FeatureChoice(features, exclude, categorical, blocks),
        exempt=exempt,
        propensity=propensity,
        sample_weight=sample_weight,
        clusters=clusters,
        periods=periods,
        where=where,
    )
    file = StateFile.read(monitor) if isinstance(monitor, str | Path) else monitor
    with report_to(progress):
        result = _run_audit(data, request, settings, stated, words, file)
    if isinstance(monitor, str | Path):
        result.count_batch()
    return result


def alternatives(
    data: object, group: object, *, outcome: object, tolerance: float = 0.005, threshold: float = 0.5, **options: Any
) -> dict[str, Alternatives]:
    """Search for less discriminatory alternatives: rules as accurate as the audited decisions with a smaller gap.

    Parameters
    ----------
    data, group
        Rows and groups, as in `audit`.
    outcome : str or array-like
        Observed outcome, as in `audit`.
    tolerance : float, default=0.005
        Largest loss of accuracy that still counts as equally accurate.
    threshold : float, default=0.5
        Score from which the audited decision is 1. It sets the cost of errors: a missed outcome costs
        (1 − threshold)/threshold times a false alarm.
    **options
        Other keywords of `audit`, such as `scores`, `features` and `reference`.

    Returns
    -------
    dict of str to Alternatives
        The result for each audited group.

    Raises
    ------
    TiltlensError
        If an argument or the data are not valid.

    See Also
    --------
    Comparison.alternatives : Do the same with an audit at hand.

    Examples
    --------
    >>> import numpy as np
    >>> import tiltlens as tl
    >>> rng = np.random.default_rng(0)
    >>> sex, skill = rng.choice(["men", "women"], 300), rng.integers(0, 4, 300)
    >>> score = 0.3 + 0.1 * skill
    >>> people = {"sex": sex, "skill": skill, "score": score, "repaid": (rng.random(300) < score).astype(int)}
    >>> results = tl.alternatives(people, "sex", reference="men", scores="score", outcome="repaid")
    >>> results["women"].verdict
    'inconclusive'
    """
    audits = audit(data, group, outcome=outcome, folds=None, **options).items()
    return {name: c.alternatives(tolerance, threshold) for name, c in audits}


def _run_audit(
    data: object, request: Request, settings: Settings, stated: dict[str, str], wording: Wording, file: StateFile | None
) -> Audit:
    """Return the audit: a survey with a sample, sums over all rows, fits, and comparisons."""
    with stage(0.0, SURVEY, "reading rows"):
        source = _open(data, request)
        roles = source.roles
        step = partial(survey_batch, roles, settings.sample_rows, {})
        survey: Survey = source.batches.fold(source.columns, step)
        favourable = survey.outcome(request.favourable)
        groups = select_groups(roles, survey, request.reference, request.audited)
        described, hashed = describe_request(request), survey.rows_fingerprint
        origin = provenance_of(survey.read, survey.fingerprint, roles.features, described, stated, hashed)
        look = None if file is None else file.look(Batch.of(roles, survey, origin, groups.reference), settings)
        sample = select_rows(roles, survey, groups)
    with stage(SURVEY, SUMS, "summing all rows"):
        sums = _sums(source, survey, sample)
    with stage(SUMS, 1.0), one_thread(is_fitting=bool(roles.features)):
        model, of_model = _model_to_ask(source, request.model, sample)
        notes = (*of_model, *_notes(source, request, survey, sample))
        question = _question(roles, groups, survey, stated.get("data", ""), wording, notes)
        native = pl.DataFrame(source.native) if isinstance(source.native, Mapping) else source.native
        fits = FitSettings(settings.folds, settings.random_state, request.estimator, native, model)
        comparisons = _comparisons(sample, sums, question, settings, fits)
    return Audit(
        comparisons=comparisons,
        rows=account_rows(survey, groups, bool(roles.soft)),
        group=roles.name,
        reference=groups.reference,
        score_type=next(iter(comparisons.values())).scale.score_type,
        favourable=favourable,
        too_small=dict(groups.too_small),
        settings=settings,
        provenance=origin,
        intersections=None
        if len(survey.totals) < FEWEST_GROUPS
        else find_intersections(survey.totals, len(roles.group), survey.is_decisions, settings),
        monitor=None if look is None else look.monitor,
        _rows=sample.rows,
        _look=look,
    )


def _question(
    roles: ColumnRoles, groups: ComparedGroups, survey: Survey, source: str, wording: Wording, notes: tuple[Note, ...]
) -> Question:
    """Return the question for the first audited group; the others only differ in the name."""
    return Question(
        audited=groups.audited[0],
        reference=groups.reference,
        comparisons=len(groups.audited),
        metric=roles.metric,
        wording=wording,
        source=source,
        is_decisions=survey.is_decisions,
        exempt=roles.exempt,
        given={name: text_of(value) for name, value in roles.where.items()},
        notes=notes,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """The data as batches, the roles of their columns, and the user's own table."""

    batches: Batches
    columns: list[str]
    roles: ColumnRoles
    native: object  # the features in the user's own table, for models; None if rows are read in batches


def _open(data: object, request: Request) -> _Source:
    """Return the data as batches with the roles of their columns, whether they are in memory or not."""
    batches = batches_of(data)
    if batches is not None:
        roles = resolve_roles(batches.names(), request, may_have_arrays=False)
        columns = checked_columns(batches.names(), roles.columns)
        return _Source(batches, columns, roles, None)
    roles = resolve_roles(column_names(data), request, may_have_arrays=True)
    named = [name for name in roles.columns if not name.startswith("\0")]
    frame = frame_of(data, named)
    columns = checked_columns(column_names(frame), named)
    frame, roles = with_arrays(frame.select(columns), data, request, roles)
    native = native_columns(data, frame, roles.sources) if roles.keeps_inputs else None
    return _Source(FrameBatches(frame), list(frame.columns), roles, native)


def _sums(source: _Source, survey: Survey, sample: EncodedSample) -> GroupSums:
    """Return the sums over all rows: from the sample if it is complete, else from a second pass."""
    rows = sample.rows
    shift = 0.0 if rows.log_odds is None else float(rows.log_odds.max())
    if rows.facts.is_complete:
        return sum_rows(rows, sample.sizes, shift)
    sums: GroupSums = source.batches.fold(source.columns, partial(sum_batch, sample.emptied(), source.roles, shift))
    check_same_rows(survey.sample.counts, rows.groups, sums)
    return sums


def _notes(source: _Source, request: Request, survey: Survey, sample: EncodedSample) -> tuple[Note, ...]:
    """Return the notes on the data and the model that apply to all comparisons."""
    rows = sample.rows
    return (
        *reading_notes(source.batches, source.columns),
        *([] if request.model is None else model_notes(request.model, source.roles.sources)),
        *alike_notes(survey.sample.counts),
        *_cluster_notes(source.roles, sample),
        *one_hot_notes(sample.table),
        *leakage_notes(
            rows.features,
            rows.score,
            rows.row_number,
            source.roles.features_of(request.model),
            MEASURES[score_type_of(survey.is_decisions, rows.unit.is_amount), None].each,
            [*source.roles.where, *([] if source.roles.outcome is None else [source.roles.outcome])],
        ),
    )


def _cluster_notes(roles: ColumnRoles, sample: EncodedSample) -> Iterable[Note]:
    """Return the note on clusters, or on identifiers that repeat; raise if a group is in one cluster."""
    clusters = sample.rows.cluster
    if roles.clusters is None or clusters is None:
        return repeated_ids(sample.table)
    name = roles.clusters.lstrip("\0")
    check_clusters(name, clusters, sample.rows.group, sample.rows.groups)
    return [cluster_note(name, clusters, sample.rows.group)]


def _model_to_ask(source: _Source, model: object, sample: EncodedSample) -> tuple[AskedModel | None, list[Note]]:
    """Return the model for further predictions; None, with a note, if they differ from the audited scores."""
    if model is None or source.roles.metric in DECIDED:  # such scores are also based on outcomes
        return None, []
    rows = sample.rows
    row_number = None if source.native is None else rows.row_number
    rescorer = AskedModel(model, source.roles, sample.table, sample.inputs, source.native, row_number)
    before = rows.unit.level(rows.score) if rows.unit.is_amount else rows.scores
    changes = rescorer.changes(1.0 - before if source.roles.metric == "fnr" else before, rows.unit.scale)
    return (None, [Note("other answers")]) if changes else (rescorer, [])


def _comparisons(
    sample: EncodedSample, sums: GroupSums, question: Question, settings: Settings, fits: FitSettings
) -> dict[str, Comparison]:
    """Return the comparisons; each counts as an equal part of the work."""
    comparisons, audited = {}, sample.rows.groups[1:]
    for number, label in enumerate(audited):
        with stage(number / len(audited), (number + 1) / len(audited), label):
            with stage(0.0, FITS):
                evidence = gather_evidence(sample, sums, replace(question, audited=label), fits)
            with stage(FITS, 1.0, "estimating contributions"):
                comparisons[label] = compare(evidence, settings)
    return comparisons
