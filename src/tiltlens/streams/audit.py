"""An audit of a stream: survey, sums, tallies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tiltlens.engines.batches import Batches, checked_columns
from tiltlens.errors import DataError, SupportError
from tiltlens.estimators.outputs import term_of
from tiltlens.estimators.shapley import compact
from tiltlens.models.features import design_columns
from tiltlens.models.groups import ComparedGroups, compared_groups, natural_order
from tiltlens.models.membership import Membership, check_overlap, given_membership
from tiltlens.models.weights import check_unequal, not_found
from tiltlens.paper.checks import Floats
from tiltlens.progress import stage
from tiltlens.results.comparison import Comparison, compare
from tiltlens.results.counting import Tallies
from tiltlens.results.settings import Settings
from tiltlens.streams.fitted import Fitted, Norms
from tiltlens.streams.later import Later
from tiltlens.streams.learning import Learner
from tiltlens.streams.levels import Levels, design_table, feature_levels, joint_bound, numbers_of
from tiltlens.streams.pair import PairSums
from tiltlens.streams.plan import PairPlan, normed
from tiltlens.streams.powers import MOST_JOINT, Powers, powers, summed
from tiltlens.streams.reading import Question
from tiltlens.streams.sample import GROUP, HASH, LOG_ODDS, PEOPLE, QUARTER, SAMPLED, WEIGHT, Bound, RowSample
from tiltlens.streams.survey import Survey, surveyed
from tiltlens.streams.tallies import LateBins, PairChecks, PairTallies, TallyPlan, late_bins, pair_checks, pair_tallies
from tiltlens.threads import one_thread

SURVEY = 0.3  # of the time, about, after the first pass
FITTED, SUMS = 0.3, 0.6  # of a pair's time, after the membership model and after the second pass
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
    batches: Batches, question: Question, reference: Any, audited: Any, settings: Settings, estimator: Any = None
) -> StreamedAudit:
    """Return the audit of a stream: a survey, then two passes for each audited group, three where a model is fitted.

    Of rows in memory the bins for figures take one more, when these are asked for.
    """
    columns = checked_columns(batches, question.columns)
    with stage(0.0, SURVEY, "survey"):
        survey: Survey = batches.fold(columns, partial(surveyed, question, Bound()))
    groups = _compared(question, survey, reference, audited)
    source = _Source(batches, columns, question, survey, groups, settings, estimator)
    comparisons, count = {}, len(groups.audited)
    for place, label in enumerate(groups.audited):
        start, stop = (SURVEY + (1.0 - SURVEY) * part / count for part in (place, place + 1))
        with stage(start, stop, label):
            comparisons[label] = _comparison(source.pair(label), settings)
    people = dict(zip(survey.groups[GROUP], survey.groups[PEOPLE], strict=True))
    used = sum(people[label] for label in (groups.reference, *groups.audited))
    return StreamedAudit(
        comparisons,
        _accounted(survey, groups, used),
        groups,
        survey.is_decisions,
        survey.labels[survey.favourable],
        survey.fingerprint,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """A stream after the survey, from which the pairs of groups are made."""

    batches: Batches
    columns: list[str]
    question: Question
    survey: Survey
    groups: ComparedGroups
    settings: Settings
    estimator: Any

    def pair(self, audited: str) -> PairSums:
        """Return one audited group and the reference, as sums."""
        reference = self.groups.reference
        plan = _plan(self.question, self.survey, audited, self.groups)
        design_columns([levels.feature(None) for levels in plan.levels])  # raises where none can tell groups apart
        learner = None
        if self.survey.fit is not None:
            learner = Learner(self.survey.fit.of(audited, reference), self.estimator, self.settings.folds or 0)
            plan = self._fitted(plan, learner)
        with stage(FITTED, SUMS, "sums"):
            found: Powers = self.batches.fold(self.columns, partial(powers, plan))
        sample = _pair_sample(self.survey.sample, plan)
        sums = summed(plan, found, _constants(self.survey, plan))
        return PairSums(plan, found, sums, sample, self._tally, learner)

    def _tally(self, third: TallyPlan) -> tuple[PairChecks, Later[Tallies]]:
        """Make the third pass; of rows that stay in memory, the bins for figures are made when one asks for them."""
        if self.batches.is_at_hand:
            return self.batches.fold(self.columns, partial(pair_checks, third)), Later(partial(self._late_bins, third))
        found: PairTallies = self.batches.fold(self.columns, partial(pair_tallies, third))
        return found.checks, Later.of(found.bins)

    def _late_bins(self, third: TallyPlan) -> Tallies:
        found: LateBins = self.batches.fold(self.columns, partial(late_bins, third))
        if found.fingerprint != self.survey.fingerprint:
            raise DataError(
                "`data` must stay as it was audited until its figures are made, got other values in its place.",
                "audit it again; or ask for bins() or to_dict() before the table is changed.",
            )
        return found.bins

    def _fitted(self, plan: PairPlan, learner: Learner) -> PairPlan:
        """Return the plan with a membership model that was fitted on the sample and normalised on all rows."""
        with stage(0.0, FITTED / 2, "membership model"), one_thread():
            applied = learner.applied(plan, self.settings.seed)
        fitted = Fitted.of(applied, *(learner.frame[name].to_numpy() for name in (HASH, QUARTER)))
        with stage(FITTED / 2, FITTED, "membership model"):
            found: Norms = self.batches.fold(self.columns, partial(normed, replace(plan, fitted=fitted)))
        weights = self._weight(plan.audited), self._weight(plan.reference)
        pivot = np.array([found.total / weights[0], *plan.pivot[1:]])
        return replace(plan, fitted=fitted.normalised(found, weights), pivot=pivot, top=found.top)

    def _weight(self, label: str) -> float:
        return float(self.survey.groups.row(by_predicate=pl.col(GROUP) == label, named=True)[WEIGHT])


def _comparison(pair: PairSums, settings: Settings) -> Comparison:
    name = "given" if pair.plan.fitted is None else pair.plan.fitted.applied.name
    membership = pair.summed.log_odds if settings.folds is None else _membership(pair)
    with stage(SUMS, 1.0), one_thread():
        found = compare(pair.plan.audited, pair.plan.reference, pair, membership, name, settings)
    return replace(found, notes=(*found.notes, *_notes(pair)))


def _membership(pair: PairSums) -> Membership:
    auc, log_odds = check_overlap(pair.auc), pair.summed.log_odds
    fitted, there = pair.plan.fitted, pair.summed.fitted
    if fitted is None or there is None:
        return given_membership(pair.rows, log_odds, auc)
    return Membership(
        fold=pair.rows.undivided,
        pairings=there.pairings,
        log_odds=log_odds,
        name=fitted.applied.name,
        parts=fitted.applied.parts,
        part_log_odds=np.empty((0, 0)),
        plan=(),
        clipped=fitted.clipped,
        auc=auc,
        is_known=False,
    )


def _notes(pair: PairSums) -> list[str]:
    """Return what is approximate because the rows were never together."""
    notes = []
    fitted, people = pair.plan.fitted, pair.rows.count0 + pair.rows.count1
    if fitted is not None:
        notes.append(
            f"the membership model was fitted on a sample of {fitted.applied.rows:,} rows, and measured on all of the "
            f"{people:,}"
        )
    sampled = [levels.name for levels in pair.plan.levels if any("sample" in note for note in levels.notes)]
    if sampled:
        notes.append(f"levels of {', '.join(sampled)} come from a sample of {pair.sample_rows.frame.height:,} rows")
    if not pair.sample_rows.is_complete:
        notes.append("the path and the least change rest on bins of log-odds and score, partners on a sample of rows")
    if pair.summed.joint is None:
        notes.append("prototypes are withheld: there are too many combinations of feature values to count")
    return notes


def check_streamed(question: Question, settings: Settings) -> None:
    """Raise where an audit asks of a stream what only rows in memory can tell."""
    if question.membership is None and settings.folds is None:
        raise DataError(
            "`membership` must be the name of a column for plug-in values of a stream, got none.",
            "leave out `folds=None`, or put P(audited|x) into a column; plug-in values fit one model on all rows.",
        )


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
    if len(groups.audited) > 1 and question.membership is not None:
        raise DataError(
            f"`membership` must be None or an estimator for several audited groups, got values for "
            f"{len(groups.audited)} of them.",
            "name one audited group: P(audited|x) is another one for each.",
        )
    return groups


def _plan(question: Question, survey: Survey, audited: str, groups: ComparedGroups) -> PairPlan:
    """Return how a pair is summed; the levels of features are those of all groups that are compared."""
    reference = groups.reference
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
    sample, compared = survey.sample, (reference, *groups.audited)
    values = survey.values
    levels = tuple(feature_levels(name, values[name], sample, compared, is_weighted) for name in question.features)
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
    if plan.fitted is not None:
        features = frame.select(plan.question.features)
        log_ratios = plan.fitted.applied.log_ratios(design_table(plan.levels, frame), features)
        frame = frame.with_columns(pl.Series(LOG_ODDS, log_ratios[-1] + plan.prior))
    return RowSample(frame, sample.is_complete)


def _accounted(survey: Survey, groups: ComparedGroups, used: int) -> dict[str, int]:
    """Return where every row went; what was used and what was left out add up to what was read."""
    gone = survey.left_out | {"missing_group": survey.unknown, "too_small_group": sum(groups.too_small.values())}
    rest = survey.read - used - sum(gone.values())
    return {"read": survey.read, "used": used} | gone | {"group_not_audited": rest}
