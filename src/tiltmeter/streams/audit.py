"""An audit of a stream: survey, sums, tallies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tiltmeter.comparison import Comparison, compare
from tiltmeter.engines.batches import Batches, checked_columns
from tiltmeter.errors import DataError, SupportError
from tiltmeter.models.features import design_columns
from tiltmeter.models.groups import ComparedGroups, compared_groups, natural_order
from tiltmeter.models.kept import check_unequal, not_found
from tiltmeter.models.membership import check_overlap, given_membership
from tiltmeter.progress import stage
from tiltmeter.settings import Settings
from tiltmeter.streams.levels import Levels, feature_levels, joint_bound, numbers_of
from tiltmeter.streams.pair import PairSums
from tiltmeter.streams.powers import MOST_JOINT, PairPlan, Powers, powers, summed
from tiltmeter.streams.reading import Question
from tiltmeter.streams.sample import GROUP, PEOPLE, SAMPLED, WEIGHT, RowSample
from tiltmeter.streams.survey import Survey, surveyed
from tiltmeter.streams.tallies import PairTallies, TallyPlan, pair_tallies
from tiltmeter.theory.checks import Floats
from tiltmeter.theory.intervals import term_of
from tiltmeter.theory.shapley import compact

SURVEY, SUMS = 0.4, 0.65  # of the time, about, after the first and the second pass
LARGEST_KEY = 2**62  # joint cells that an integer can number
FEW_CELLS = SAMPLED // 4  # distinct joint cells in the sample, for the joint cells of all rows to be worth keeping


@dataclass(frozen=True, slots=True, eq=False)
class StreamedAudit:
    """The parts of an audit."""

    comparisons: dict[str, Comparison]
    rows: dict[str, int]
    groups: ComparedGroups
    is_decisions: bool
    favourable: str
    fingerprint: int


def streamed_audit(
    batches: Batches, question: Question, reference: Any, audited: Any, settings: Settings
) -> StreamedAudit:
    """Return the audit of a stream, in three passes over it."""
    columns = checked_columns(batches, question.columns)
    with stage(0.0, SURVEY, "survey"):
        survey: Survey = batches.fold(columns, partial(surveyed, question))
    groups = _compared(question, survey, reference, audited)
    label = groups.audited[0]
    plan = _plan(question, survey, label, groups.reference)
    with stage(SURVEY, SUMS, "sums"):
        found: Powers = batches.fold(columns, partial(powers, plan))

    def tally(third: TallyPlan) -> PairTallies:
        return batches.fold(columns, partial(pair_tallies, third))

    sample = _pair_sample(survey.sample, plan)
    pair = PairSums(plan, found, summed(plan, found, _constants(survey, plan)), sample, tally)
    design_columns(pair.features)  # raises, with reasons, where no feature can tell groups apart
    with stage(SUMS, 1.0, label):
        comparison = _comparison(pair, settings)
    used = pair.rows.count0 + pair.rows.count1
    return StreamedAudit(
        {label: comparison},
        _accounted(survey, groups, used),
        groups,
        survey.is_decisions,
        survey.labels[survey.favourable],
        survey.fingerprint,
    )


def _comparison(pair: PairSums, settings: Settings) -> Comparison:
    log_odds, plan = pair.summed.log_odds, pair.plan
    auc = check_overlap(pair.auc)
    membership = log_odds if settings.folds is None else given_membership(pair.rows, log_odds, auc)
    found = compare(plan.audited, plan.reference, pair, membership, "given", settings)
    return replace(found, notes=(*found.notes, *_notes(pair)))


def _notes(pair: PairSums) -> list[str]:
    """Return what is approximate because the rows were never together."""
    notes = []
    sampled = [levels.name for levels in pair.plan.levels if any("sample" in note for note in levels.notes)]
    if sampled:
        notes.append(f"levels of {', '.join(sampled)} come from a sample of {pair.sample_rows.frame.height:,} rows")
    if not pair.sample_rows.is_complete:
        notes.append("the path and the least change rest on bins of log-odds and score, partners on a sample of rows")
    if pair.summed.joint is None:
        notes.append("prototypes are withheld: there are too many combinations of feature values to count")
    return notes


def _compared(question: Question, survey: Survey, reference: Any, audited: Any) -> ComparedGroups:
    for column, is_found in survey.found.items():
        if not is_found:
            raise not_found(column, question.given[column], list(survey.seen[column]))
    kept = survey.read - sum(survey.left_out.values())
    if not kept:
        raise DataError(
            f"the data must have rows left to compare, got none of {survey.read}.", f"left out: {survey.left_out}."
        )
    sizes = dict(zip(survey.groups[GROUP], survey.groups[PEOPLE], strict=True))
    counts = {label: sizes[label] for label in sorted(sizes, key=natural_order)}
    groups = compared_groups(question.name, counts, kept, reference, audited)
    if len(groups.audited) > 1:
        raise DataError(
            f"`membership` must be None or an estimator for several audited groups, got values for "
            f"{len(groups.audited)} of them.",
            "name one audited group: P(audited|x) is another one for each.",
        )
    return groups


def _plan(question: Question, survey: Survey, audited: str, reference: str) -> PairPlan:
    rows = {label: survey.groups.row(by_predicate=pl.col(GROUP) == label, named=True) for label in (audited, reference)}
    mine, other = rows[audited], rows[reference]
    if mine["outside"] + other["outside"]:
        raise DataError(
            f"`membership` must lie strictly between 0 and 1, got {mine['outside'] + other['outside']} rows that do "
            "not.",
            "it is P(audited|x); 0 or 1 says that the groups do not overlap there: leave such rows out.",
        )
    check_unequal(min(mine["least_weight"], other["least_weight"]), max(mine["most_weight"], other["most_weight"]))
    is_weighted = question.weights is not None
    pair, sample = (audited, reference), survey.sample
    levels = tuple(feature_levels(name, survey.values[name], sample, pair, is_weighted) for name in question.features)
    y0, y1 = (_means(row) for row in (mine, other))
    return PairPlan(
        question=question,
        audited=audited,
        reference=reference,
        levels=levels,
        prior=float(np.log(mine[WEIGHT]) - np.log(other[WEIGHT])),
        top=max(mine["most_log_odds"], other["most_log_odds"]),
        pivot=np.array([mine["log_odds"] / mine[WEIGHT], *y0]),
        slopes=None if len(y0) == 1 else _slopes(y0, y1),
        favourable=survey.favourable,
        is_weighted=is_weighted,
        has_joint=_has_joint(levels, sample),
        centres=tuple(_centre(one, sample) for one in levels if one.has_numbers),
    )


def _means(row: Mapping[str, Any]) -> Floats:
    return np.array([value / row[WEIGHT] for name, value in row.items() if name.startswith("score ")])


def _slopes(y0: Floats, y1: Floats) -> Floats:
    try:
        return term_of(None, y0, y1).slopes
    except SupportError:  # outputs cannot be aligned, and no number will ask for it
        return np.zeros_like(y0)


def _constants(survey: Survey, plan: PairPlan) -> list[int]:
    rows = survey.groups.filter(pl.col(GROUP).is_in([plan.audited, plan.reference]))
    ends = [(rows[f"least_score {y}"].min(), rows[f"most_score {y}"].max()) for y in range(plan.outcomes)]
    return [y for y, (least, most) in enumerate(ends) if least == most]


def _has_joint(levels: tuple[Levels, ...], sample: RowSample) -> bool:
    bound = joint_bound(levels)
    if bound <= MOST_JOINT or bound >= LARGEST_KEY:
        return bound <= MOST_JOINT
    codes = [one.codes(sample.frame[one.name]) for one in levels]
    return len(compact(np.column_stack(codes))[1]) <= (MOST_JOINT if sample.is_complete else FEW_CELLS)


def _centre(levels: Levels, sample: RowSample) -> float:
    numbers = numbers_of(sample.frame[levels.name])
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if known.size else 0.0


def _pair_sample(sample: RowSample, plan: PairPlan) -> RowSample:
    frame = sample.frame.filter(pl.col(GROUP).is_in([plan.audited, plan.reference]))
    return RowSample(frame, sample.is_complete)


def _accounted(survey: Survey, groups: ComparedGroups, used: int) -> dict[str, int]:
    """Return where every row went; what was used and what was left out add up to what was read."""
    gone = survey.left_out | {"missing_group": survey.unknown, "too_small_group": sum(groups.too_small.values())}
    rest = survey.read - used - sum(gone.values())
    return {"read": survey.read, "used": used} | gone | {"group_not_audited": rest}
