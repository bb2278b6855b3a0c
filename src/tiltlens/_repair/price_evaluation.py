"""The effect of a discrimination-free price on held-out data: prices, gaps and costs before and after."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import interval_schema
from tiltlens._analysis.prices import GROUPS, decile_cells, log_difference
from tiltlens._estimators.estimate import HasInterval, LogNormal
from tiltlens._estimators.influence import Booleans, InfluenceEstimate, combine
from tiltlens._estimators.prices import CostRows, actual_to_expected, deviance, group_gap, unfairness
from tiltlens._limits import MINIMUM_ROWS
from tiltlens._repair.evaluation import TABLE_SCHEMA, Evaluation, change_record
from tiltlens._repair.new_rows import HeldOutRows
from tiltlens._rows.wording import WORDING, Wording
from tiltlens._sources.columns import Record
from tiltlens.paper.checks import Floats

if TYPE_CHECKING:
    from tiltlens._repair.free_price import DiscriminationFreePrice
    from tiltlens.figures import Figure

COUNTED = {"which": pl.String, "group": pl.String, "decile": pl.Int64, "n": pl.Int64, "price": pl.Float64}
DECILE_SCHEMA = COUNTED | interval_schema("actual_to_expected")
POWERS = {"deviance_poisson": 1.0, "deviance_tweedie": 1.5, "deviance_gamma": 2.0}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PriceEvaluation(Evaluation):
    """The effect of a discrimination-free price on held-out data.

    Attributes
    ----------
    audited, reference, group
        The groups that are compared, and the column of groups.
    features
        The columns that the price uses.
    table
        One row per quantity: before, after and change, each with its interval; changes are paired. The mean absolute
        change and the shares of rising and falling prices have a change only.
    by_decile
        Actual to expected by group and decile of the price, before and after.
    rows, missing_outcome
        The number of rows of each group, and of rows without a cost; None if no costs were given.
    notes
        Warnings about the rows and about the price.
    confidence
        The confidence level of the intervals.
    wording
        The words and the unit of the audit.

    See Also
    --------
    tiltlens._repair.evaluation.RepairEvaluation : The effect of a score adjustment.
    """

    SCHEMA: ClassVar[str] = "tiltlens/price_evaluations/1"

    audited: str = field()  # otherwise the properties of the base class would be their defaults
    reference: str = field()
    group: str
    features: tuple[str, ...]
    table: Annotated[pl.DataFrame, TABLE_SCHEMA]
    by_decile: Annotated[pl.DataFrame, DECILE_SCHEMA]
    rows: dict[str, int]
    missing_outcome: int | None
    notes: tuple[str, ...]
    confidence: float
    wording: Wording = WORDING

    def plot(self) -> Figure:
        """Return the figure of actual to expected by group and decile of the price, before and after."""
        from tiltlens.figures import price_effect

        return price_effect(self)


def evaluate_price(
    price: DiscriminationFreePrice, rows: HeldOutRows, after: Floats, audited: str, confidence: float
) -> PriceEvaluation:
    """Return the effect of the price on held-out rows of an audited group and the reference."""
    cost = np.full(after.size, np.nan) if rows.outcome is None else rows.outcome
    every = CostRows(rows.scores, cost, rows.rows.weights, rows.rows.audited, clusters=rows.rows.clusters)
    has_cost = np.isfinite(cost)
    known = _taken(every, has_cost)
    pairs = _gap_quantities(every, after) | _moved(every, after)
    records = [change_record(name, pair, confidence) for name, pair in pairs.items()]
    deciles: list[Record] = []
    if min(int(known.audited.sum()), int((~known.audited).sum())) >= MINIMUM_ROWS:
        both = {"before": known, "after": replace(known, price=after[has_cost])}
        records += [change_record(name, pair, confidence) for name, pair in _cost_quantities(*both.values()).items()]
        deciles = [
            {"which": which, **record}
            for which, priced in both.items()
            for record, _ in decile_cells(priced, 1.0, confidence)
        ]
    return PriceEvaluation(
        audited=audited,
        reference=price.reference,
        group=rows.group_name,
        features=price.features,
        table=pl.DataFrame(records, schema=TABLE_SCHEMA),
        by_decile=pl.DataFrame(deciles, schema=DECILE_SCHEMA),
        rows={"audited": rows.rows.count0, "reference": rows.rows.count1},
        missing_outcome=None if rows.outcome is None else int((~has_cost).sum()),
        notes=(*rows.notes, *price.notes),
        confidence=confidence,
        wording=price.wording,
    )


class _Pair(NamedTuple):
    """A quantity before and after, and its change; each is None if it is not defined."""

    before: HasInterval | None
    after: HasInterval | None
    change: HasInterval | None


def _taken(rows: CostRows, index: Booleans) -> CostRows:
    clusters = None if rows.clusters is None else rows.clusters[index]
    return CostRows(rows.price[index], rows.cost[index], rows.weights[index], rows.audited[index], clusters=clusters)


def _gap_quantities(rows: CostRows, after: Floats) -> dict[str, _Pair]:
    """Return the gap of mean prices, and the share of the price's variance between the groups."""
    old, new = (group_gap(rows, price) for price in (rows.price, after))
    share, share_after = (unfairness(rows, price) for price in (rows.price, after))
    return {
        "gap": _Pair(old.normal(), new.normal(), new.minus(old).normal()),
        "unfairness": _Pair(share, share_after, None),
    }


def _moved(rows: CostRows, after: Floats) -> dict[str, _Pair]:
    """Return the mean absolute change of the price, and the shares of people whose price rises and falls."""
    change = after - rows.price
    columns = {"mean_absolute_change": np.abs(change), "share_rising": change > 0.0, "share_falling": change < 0.0}
    means = {name: rows.mean(column.astype(np.float64)) for name, column in columns.items()}
    most = {"mean_absolute_change": np.inf, "share_rising": 1.0, "share_falling": 1.0}
    return {name: _Pair(None, None, replace(mean.normal(0.0), most=most[name])) for name, mean in means.items()}


def _cost_quantities(before: CostRows, after: CostRows) -> dict[str, _Pair]:
    """Return actual to expected overall, by group and their ratio, and the deviances that are defined."""
    everyone = np.ones(before.cost.size, dtype=np.bool_)
    members = {name: before.in_group[at] > 0 for name, at in GROUPS.items()}
    chosen = {"actual_to_expected": everyone} | {f"actual_to_expected_{name}": own for name, own in members.items()}
    logs = {name: [actual_to_expected(rows, own) for rows in (before, after)] for name, own in chosen.items()}
    of_groups = zip(logs["actual_to_expected_audited"], logs["actual_to_expected_reference"], strict=True)
    logs["actual_to_expected_ratio"] = [log_difference(first, other) for first, other in of_groups]
    pairs = {name: _ratios(*both) for name, both in logs.items()}
    for name, power in POWERS.items():
        old, new = (deviance(rows, power) for rows in (before, after))
        if old is not None and new is not None:
            pairs[name] = _Pair(old.normal(0.0), new.normal(0.0), new.minus(old).normal())
    return pairs


def _ratios(old: InfluenceEstimate | None, new: InfluenceEstimate | None) -> _Pair:
    """Return two ratios from their logs, and their difference with its delta-method standard error."""
    before, after = (None if log is None else LogNormal(log.value, log.se) for log in (old, new))
    if old is None or new is None:
        return _Pair(before, after, None)
    first, last = np.exp([old.value, new.value]).tolist()
    return _Pair(before, after, combine(last - first, [(last, new), (-first, old)]).normal())
