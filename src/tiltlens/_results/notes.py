"""The sentences of all notes, and the units and formats in which the numbers of a comparison are displayed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import (
    Columns,
    Evidence,
    Settings,
    interval_columns,
    interval_schema,
    may_show,
    part_of_group,
)
from tiltlens._estimators.error_rates import UNKNOWN
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.influence import Integers
from tiltlens._estimators.outputs import Scores, gap_law, group_rates
from tiltlens._formats import Display, number, percent, ratio, short_number, whole
from tiltlens._learners.balance import Balance
from tiltlens._limits import SUPPRESSED_BELOW
from tiltlens._notes import Note
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import BEYOND, DECILE_SCHEMA, Means, Rates
from tiltlens._rows.wording import Unit, measure_for

FEW_PEOPLE = 30  # effective sample size below which intervals are unreliable


def evidence_notes(evidence: Evidence, checked: Balance | None) -> Iterator[Note]:
    """Yield all notes that follow from the evidence, such as failed checks, missing outcomes and duplicate rows."""
    rows, population = evidence.rows, evidence.population
    for reason in () if checked is None else checked.reasons:
        yield Note("inadequate membership model", reason=reason)
    yield from _off_support(evidence)
    yield from _few_weights(evidence)
    if evidence.y_true is not None:
        yield from _unknown_outcomes(evidence)
    if rows.unit.is_amount:
        yield from _constant_amounts(evidence)
    if rows.probabilities is not None:
        yield Note("unobserved groups")
        if evidence.question.exempt:
            yield Note("exempt factors of unobserved groups")
    if rows.period is not None:
        yield from _rows_without_period(evidence)
    if count := rows.facts.repeated_rows:
        yield Note("repeated row") if count == 1 else Note("repeated rows", rows=count)
    if not rows.facts.is_complete:
        yield Note("sampled", rows=population.count0 + population.count1, sample=evidence.sample.audited.size)


def _off_support(evidence: Evidence) -> Iterator[Note]:
    """Yield a note on the audited people with a feature value that nobody in the reference has (positivity)."""
    alone, names = np.zeros(evidence.sample.audited.size, dtype=np.bool_), []
    for feature in evidence.rows.features:
        if feature.name in evidence.table:
            _, reference = evidence.sample.counts(feature.codes, len(feature.labels))
            unknown = evidence.sample.audited & (reference == 0)[feature.codes]
            alone |= unknown
            names += [feature.name] if unknown.any() else []
    if names:
        share = evidence.sample.mean0(alone.astype(np.float64))
        people = part_of_group(share, int(alone.sum()), evidence.sample.count0)
        yield Note("off support", people=people, features=", ".join(sorted(names)))


def _few_weights(evidence: Evidence) -> Iterator[Note]:
    """Yield a note on each group whose effective sample size, Kish's (Σw)²/Σw², is small."""
    rows = evidence.population
    sizes = ((rows.square0, rows.count0), (rows.square1, rows.count1))
    for name, (square, count) in zip(evidence.rows.groups, sizes, strict=True):
        if 1.0 / square < FEW_PEOPLE <= count:
            yield Note("few people behind weights", group=name, people=1.0 / square)


def _unknown_outcomes(evidence: Evidence) -> Iterator[Note]:
    people = evidence.sums_by["y_true"].people
    unknown, everybody = int(people[:, UNKNOWN].sum()), int(people.sum())
    if unknown:
        yield Note("unknown outcomes", people=part_of_group(unknown / everybody, unknown, everybody))


def _constant_amounts(evidence: Evidence) -> Iterator[Note]:
    """Yield a note on groups whose amounts are all equal, so that the standard error of their mean is unknown."""
    o, is_rounding = evidence.score, evidence.rows.unit.is_rounding
    parts = zip(evidence.rows.groups, ((o.mean0, o.covariance0), (o.mean1, o.covariance1)), strict=True)
    names = [name for name, (mean, square) in parts if is_rounding(float(mean[0]), math.sqrt(max(square[0, 0], 0.0)))]
    if names:
        yield Note("constant amounts", groups=" and ".join(names))


def _rows_without_period(evidence: Evidence) -> Iterator[Note]:
    """Yield a note on rows without a period, which the table of periods leaves out."""
    # Codes of missing periods come after those of the labels.
    missing = int(evidence.sums_by["period"].people[:, len(evidence.rows.labels["period"]) :].sum())
    if missing:
        yield Note("no period", rows=f"fewer than {SUPPRESSED_BELOW}" if missing < SUPPRESSED_BELOW else f"{missing:,}")


BOTH = ("audited", "reference")
GAPS = (
    *("gap", "adjusted_gap", "gap_parts.gap_explained_by_exempt", "gap_parts.gap_given_exempt"),
    *("unobserved_group.weighted", "unobserved_group.linear"),
)
RANGES = ("unobserved_group.bracket", "unobserved_group.limits")
LEVELS = tuple(f"outputs.{name}.{group}" for name in ("rates", "metric_rates") for group in BOTH)
RATES = ("fpr", "fnr", "ppv", "npv", "fdr", "for_")
SHARES = tuple(f"error_rates.{name}.{group}" for name in RATES for group in BOTH)
POINTS = (
    *(f"error_rates.calibration.{group}" for group in BOTH),
    *(f"error_rates.{name}.difference" for name in (*RATES, "calibration")),
)
INDICES = (
    "outputs.standardised_difference",
    *(f"error_rates.{rate}.{name}" for rate in ("auc", "log_loss") for name in (*BOTH, "difference")),
)


def with_displays(c: Comparison) -> Comparison:
    """Return a comparison whose estimates are formatted with their unit and confidence level."""
    measure, confidence = measure_for(c.scale.score_type, c.scale.metric, c.scale.wording), c.scale.confidence
    write = measure.difference if measure.is_amount else None
    displays = {
        GAPS: Display(measure.unit, write, confidence),
        RANGES: Display(measure.unit, write, is_range=True),
        LEVELS: Display("", measure.level, confidence),
        ("shortfall",): Display("", measure.total, confidence),
        ("impact_ratio", "adverse_impact_ratio", "decision_table.odds_ratio"): Display("", ratio, confidence),
        SHARES: Display("", percent, confidence),
        POINTS: Display("points", None, confidence),
        INDICES: Display("", short_number, confidence),
        ("correction.input_divergence", "correction.output_divergence"): Display("nats", number, confidence),
        ("correction.descent_rate",): Display("", number, confidence),
        ("correction.detection_sample_size",): Display("", whole, confidence),
    }
    for paths, display in displays.items():
        for path in paths:
            c = _display_at(c, path.split("."), display)
    return c


def _display_at(part: Any, path: Sequence[str], display: Display) -> Any:
    """Return a part of a result with a display set on the estimate at a path of attributes."""
    if part is None:
        return None
    if not path:
        return part.displayed(display)
    changed = {path[0]: _display_at(getattr(part, path[0]), path[1:], display)}
    return part._replace(**changed) if hasattr(part, "_replace") else replace(part, **changed)


IN_UNITS = ("alone", "shapley", "beyond_others", "drives", "use")  # columns of the contributions in the unit of the gap


def decile_shares(evidence: Evidence, settings: Settings) -> pl.DataFrame:
    """Return the share of each group above each pooled decile, and their difference, with intervals.

    A decile is left out if it separates 1 to 9 people of a group, or could be one person's amount.
    """
    edges = evidence.rows.unit.edges or ()
    is_disclosed = _disclosed_edges(evidence, len(edges))
    records = []
    for edge in np.flatnonzero(is_disclosed).tolist():
        share = _beyond(evidence.scores, edge)
        rates = group_rates(evidence.population, share)
        both = gap_law(evidence.population, share)
        record: Columns = {"amount": edges[edge]}
        for name, law in zip(BEYOND, (*rates, both), strict=True):
            record |= interval_columns(name, settings.estimate(law))
        records.append(record)
    return pl.DataFrame(records, schema=DECILE_SCHEMA)


def _beyond(deciles: Scores, edge: int) -> Scores:
    """Return the indicator of amounts above an edge: the sum of all bins above it."""
    bins = deciles.values.shape[1]
    if bins == 1:
        return deciles
    return deciles.mix((np.arange(bins) > edge).astype(np.float64)[:, None], np.zeros(1))


def _disclosed_edges(evidence: Evidence, edges: int) -> list[bool]:
    """Return which edges may be disclosed: each group has 0 or at least ten people between any two, and above each."""
    counts, amounts = _people(evidence), evidence.score.column
    at = evidence.rows.unit.seen(np.array(evidence.rows.unit.edges or ()))
    is_common = [may_show((amounts < x).sum(), (amounts == x).sum(), (amounts > x).sum()) for x in at]
    is_disclosed, start = [], 0
    for edge in range(1, edges + 1):
        parts = [x[part].sum() for x in counts for part in (slice(start, edge), slice(edge, None))]
        is_told = bool(is_common[edge - 1]) and all(part == 0 or part >= SUPPRESSED_BELOW for part in parts)
        is_disclosed.append(is_told)
        start = edge if is_told else start
    return is_disclosed


def _people(evidence: Evidence) -> list[Integers]:
    """Return the number of people of each group in each bin; a lower bound if rows are a sample."""
    rows, values = evidence.sample, evidence.scores.values
    bins = values if values.shape[1] > 1 else np.column_stack([1.0 - values, values])
    people = []
    for group, mean in ((rows.audited, evidence.scores.mean0), (~rows.audited, evidence.scores.mean1)):
        shares = mean if mean.size > 1 else np.array([1.0 - mean[0], mean[0]])
        counts = bins[group].sum(axis=0).astype(np.int64)
        people.append(np.where((counts == 0) & (not evidence.rows.facts.is_complete) & (shares > 0.0), 1, counts))
    return people


def in_units(comparison: Comparison, unit: Unit) -> Comparison:
    """Return a comparison with amounts in the user's unit, W = centre + scale·w."""
    if not unit.is_amount:
        return comparison

    def rescaled(estimate: Estimate | None) -> Estimate | None:
        return None if estimate is None else estimate.mapped(unit.difference)

    outputs, parts, soft = comparison.outputs, comparison.gap_parts, comparison.unobserved_group
    means = [unit.level(mean) for mean in outputs.means if isinstance(mean, float)]
    remainder = parts.shapley_remainder
    return replace(
        comparison,
        gap=comparison.gap.mapped(unit.difference),
        shortfall=rescaled(comparison.shortfall),
        adjusted_gap=rescaled(comparison.adjusted_gap),
        gap_parts=replace(
            parts,
            gap_explained_by_exempt=rescaled(parts.gap_explained_by_exempt),
            gap_given_exempt=rescaled(parts.gap_given_exempt),
            shapley_remainder=None if remainder is None else unit.difference(remainder),
            sensitivity={name: sensitivity.in_units(unit) for name, sensitivity in parts.sensitivity.items()},
        ),
        outputs=replace(
            outputs, means=Means(*means), rates=Rates(*(rate.mapped(unit.level) for rate in outputs.rates))
        ),
        scale=replace(comparison.scale, materiality=unit.difference(comparison.scale.materiality)),
        unobserved_group=None if soft is None else soft.in_units(unit),
        contributions_full=comparison.contributions_full.with_columns(pl.col(*interval_schema(*IN_UNITS)) * unit.scale),
    )
