"""The gap over time: by period within one audit, and by look at growing data in monitoring."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import Evidence, Settings, disclosed_counts, estimate_columns, interval_schema
from tiltlens._estimators.error_rates import WITH, WITHOUT, GroupPair, mean_pair
from tiltlens._estimators.estimate import HasInterval, student_factor, unseen_mean_se
from tiltlens._estimators.group_means import PEOPLE, GroupMeans
from tiltlens._estimators.influence import Booleans, InfluenceEstimate, Integers
from tiltlens._estimators.outputs import EqualGapsTest, equal_gaps_test, ratio_of_means
from tiltlens._formats import FieldTable
from tiltlens._limits import MINIMUM_ROWS, SMALLEST_SHARE
from tiltlens._sources.tables import Record
from tiltlens.paper.checks import Floats

FEW = f"fewer than {MINIMUM_ROWS} people of a group"
ONE_CLUSTER = "only one cluster of a group"


@dataclass(frozen=True, slots=True, eq=False)
class PeriodTable(FieldTable):
    """Gap, rates and error rates of each period, in order.

    Attributes
    ----------
    frame
        One row per period: people of both groups, gap, rates, ratio and error rates, each with its own interval;
        `reason` says why a period has no estimates.
    equal_gaps
        Test that the gap is the same in all measured periods; None for fewer than two, or with too few clusters.
    """

    frame: Annotated[pl.DataFrame, SCHEMA] = field(metadata={"key": "table"})
    equal_gaps: EqualGapsTest | None


def period_table(evidence: Evidence, codes: Integers, settings: Settings) -> PeriodTable:
    """Return the table of periods, given the period of each row of the sample."""
    labels = evidence.rows.labels["period"]
    people = evidence.sums_by["period"].people[:, : len(labels)].astype(np.int64)
    disclosed = [disclosed_counts(counts) for counts in people]
    records: list[Record] = []
    influences: list[InfluenceEstimate] = []
    for code, label in enumerate(labels):
        audited, reference = (counts[code] for counts in disclosed)
        record: Record = {"period": label, "n_audited": audited, "n_reference": reference, "reason": FEW}
        # At least two of either group in the sample
        if people[:, code].min() >= MINIMUM_ROWS and _people(evidence, codes == code) >= 2:
            record["reason"] = ONE_CLUSTER
            if evidence.sample.has_errors(codes == code):
                measured, pair = _measure_period(evidence, codes == code, code)
                influences.append(pair.influence)
                record["reason"] = ""
                record |= estimate_columns({name: settings.estimate(law) for name, law in measured.items()})
        records.append(record)
    frame = pl.DataFrame(records, schema=SCHEMA, infer_schema_length=None)
    is_tested = settings.folds is not None and len(influences) > 1
    return PeriodTable(frame, equal_gaps_test(influences) if is_tested else None)


def _people(evidence: Evidence, chosen: Booleans) -> int:
    audited = evidence.sample.audited
    return min(int((chosen & audited).sum()), int((chosen & ~audited).sum()))


def _measure_period(evidence: Evidence, chosen: Booleans, code: int) -> tuple[dict[str, HasInterval], GroupPair]:
    """Return the estimates of one period, and the gap with its influences; gap and rates use all rows."""
    unit, sums = evidence.rows.unit, evidence.sums_by["period"]
    score, favourable = unit.level(evidence.score.column), unit.level(evidence.favourable.column)
    means = unit.level(sums.first[:, code] / sums.weight[:, code])
    ends = ([0.0, 0.0], -math.inf, math.inf) if unit.is_amount else ()
    pair = mean_pair(evidence.population, score, chosen, means, *ends)
    is_reversed = not unit.is_amount and not np.array_equal(score, favourable)
    # The gap is that of the score as given, the rates those of the favourable outcome.
    rates = mean_pair(evidence.population, favourable, chosen, 1.0 - means) if is_reversed else pair
    measured: dict[str, HasInterval] = {
        "gap": pair.difference,
        "audited_rate": rates.audited,
        "reference_rate": rates.reference,
    }
    if min(mean.value for mean in rates.means) > SMALLEST_SHARE and evidence.rows.probabilities is None:
        measured["impact_ratio"] = ratio_of_means(rates.means, rates.unseen)
    return measured | _error_rates(evidence, chosen), pair


def _error_rates(evidence: Evidence, chosen: Booleans) -> dict[str, HasInterval]:
    """Return differences of error rates in one period, from the sample, if enough people have the outcome."""
    measured: dict[str, HasInterval] = {}
    if evidence.y_true is None:
        return measured
    rows, score = evidence.sample, evidence.score.column
    for name, code, x in (("fpr", WITHOUT, score), ("fnr", WITH, 1.0 - score)):
        is_counted = chosen & (evidence.y_true == code)
        if _people(evidence, is_counted) >= MINIMUM_ROWS and rows.has_errors(is_counted):
            measured[f"{name}_difference"] = mean_pair(rows, x, is_counted).difference
    return measured


SCHEMA: dict[str, type[pl.DataType]] = (
    {"period": pl.String, "n_audited": pl.Int64, "n_reference": pl.Int64}
    | interval_schema("gap", "audited_rate", "reference_rate", "impact_ratio", "fpr_difference", "fnr_difference")
    | {"reason": pl.String}
)


class Measured(NamedTuple):
    """Whether scores are amounts, whether low ones are favourable, and whether an error rate is audited instead."""

    is_amount: bool
    favours_low: bool
    has_metric: bool


class Tracked(NamedTuple):
    """A quantity of two groups: value, standard error, and effective sample size 1/(1/n0 + 1/n1)."""

    value: float
    se: float
    size: float
    is_log: bool = False


def track(audited: Floats, reference: Floats, measured: Measured) -> dict[str, Tracked]:
    """Return the monitored quantities from both groups' sums by outcome, (3, 6); those of few people are left out."""
    whole = _means(audited.sum(axis=0), reference.sum(axis=0))
    if whole is None:
        return {}
    quantities = {"gap": _difference(whole, measured.is_amount)}
    rates = 1.0 - whole.mean if measured.favours_low and not measured.is_amount else whole.mean
    if rates.min() > SMALLEST_SHARE and not measured.has_metric:
        # Delta method of log p, with the error that equal decisions do not show (9).
        errors = np.hypot(np.sqrt(whole.variance), _unseen(whole, measured.is_amount)) / rates
        size = quantities["gap"].size
        quantities["impact_ratio"] = Tracked(math.log(rates[0] / rates[1]), math.hypot(*errors), size, is_log=True)
    if not measured.is_amount and not measured.has_metric:
        for name, code, sign in (("fpr_difference", WITHOUT, 1.0), ("fnr_difference", WITH, -1.0)):
            if (means := _means(audited[code], reference[code])) is not None:
                difference = _difference(means, is_amount=False)
                quantities[name] = difference._replace(value=sign * difference.value)
    return quantities


def _means(audited: Floats, reference: Floats) -> GroupMeans | None:
    if min(audited[PEOPLE], reference[PEOPLE]) < MINIMUM_ROWS:
        return None
    means = GroupMeans.of(np.array([audited, reference]))
    # First looks have few people, so Student's factor matters.
    return replace(means, variance=student_factor(means.size - 1.0) ** 2 * means.variance)


def _difference(means: GroupMeans, is_amount: bool) -> Tracked:
    se = math.hypot(*np.sqrt(means.variance).tolist(), *_unseen(means, is_amount))
    return Tracked(float(means.mean[0] - means.mean[1]), se, float(1.0 / (1.0 / means.size).sum()))


def _unseen(means: GroupMeans, is_amount: bool) -> list[float]:
    """Return the unseen error of each group, positive only if all its decisions are equal (9)."""
    both = zip(means.mean.tolist(), means.size.tolist(), strict=True)
    return [0.0 if is_amount else unseen_mean_se(mean, size) for mean, size in both]
