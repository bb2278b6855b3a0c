"""The effect of a discrimination-free price on held-out data: who pays what, before and after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import numpy as np
import polars as pl

from tiltlens.analysis.prices import GROUPS, decile_cells, log_difference
from tiltlens.errors import DataError
from tiltlens.estimators.estimate import Estimate, HasInterval, LogNormal
from tiltlens.estimators.influence import Booleans, InfluenceEstimate, combine
from tiltlens.estimators.prices import CostRows, actual_to_expected, deviance, group_gap, unfairness
from tiltlens.limits import MINIMUM_ROWS
from tiltlens.paper.checks import Floats
from tiltlens.repair.held_out import HeldOutRows
from tiltlens.repair.quantities import ENDS, difference, interval_columns
from tiltlens.results.codec import to_plain
from tiltlens.results.json_file import write_json
from tiltlens.rows.wording import WORDING, Wording
from tiltlens.sources.tables import Record

if TYPE_CHECKING:
    from tiltlens.repair.free_price import DiscriminationFreePrice

EVALUATION_SCHEMA = "tiltlens/price_evaluations/1"
BEFORE_AFTER = ("before", "after", "change")
TABLE_SCHEMA = {
    "quantity": pl.String,
    **{f"{name}{end}": pl.Float64 for name in BEFORE_AFTER for end in ENDS},
}
DECILE_SCHEMA = {
    "which": pl.String,
    "group": pl.String,
    "decile": pl.Int64,
    "n": pl.Int64,
    "price": pl.Float64,
    **{f"actual_to_expected{end}": pl.Float64 for end in ENDS},
}
POWERS = {"deviance_poisson": 1.0, "deviance_tweedie": 1.5, "deviance_gamma": 2.0}


@dataclass(frozen=True, slots=True, eq=False)
class PriceEvaluation:
    """The effect of a discrimination-free price on held-out data.

    Attributes
    ----------
    audited, reference, group
        The groups that are compared, and the column of groups.
    features
        The columns that the price uses.
    table
        One row per quantity: before, after and change, each with its interval; changes are paired. Money moved has a
        change only.
    by_decile
        Actual to expected by group and decile of the price, before and after.
    rows, missing_outcome
        The number of rows of each group, and of rows without a cost; None where no costs were given.
    notes
        Warnings about the rows and about the price.
    confidence
        The confidence level of the intervals.
    wording
        The words and the unit of the audit.

    See Also
    --------
    tiltlens.repair.evaluation.RepairEvaluation : The effect of a repair of scores.
    """

    audited: str
    reference: str
    group: str
    features: tuple[str, ...]
    table: Annotated[pl.DataFrame, TABLE_SCHEMA]
    by_decile: Annotated[pl.DataFrame, DECILE_SCHEMA]
    rows: dict[str, int]
    missing_outcome: int | None
    notes: tuple[str, ...]
    confidence: float
    wording: Wording = WORDING

    def __getitem__(self, quantity: str) -> dict[str, Estimate | None]:
        """Return a quantity before and after, and its change; None where it is not defined."""
        selected = self.table.filter(quantity=quantity)
        if selected.is_empty():
            names = ", ".join(self.table["quantity"])
            raise DataError(f"The evaluation has no quantity {quantity!r}.", f"choose one of {names}.")
        row = selected.row(0, named=True)
        return {
            name: None if row[name] is None else Estimate(*(row[f"{name}{end}"] for end in ENDS))
            for name in BEFORE_AFTER
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as plain numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def to_json(self, path: str | Path | TextIO) -> None:
        """Write the evaluation to a JSON file, or to a file that is open for text."""
        write_json(price_evaluations_summary([self]), path)

    def report(self, path: str | Path | TextIO) -> None:
        """Write the evaluation as one HTML page that needs no network."""
        from tiltlens.render.document_page import write_evaluations

        write_evaluations([self], path)

    def _repr_html_(self) -> str:
        from tiltlens.render.notebook import evaluations_html

        return evaluations_html([self])

    def __str__(self) -> str:
        from tiltlens.render.terminal import evaluations_text

        return evaluations_text([self])

    def __repr__(self) -> str:
        return f"PriceEvaluation({self.audited!r} against {self.reference!r}: {len(self.table)} quantities)"


def price_evaluations_summary(evaluations: Iterable[PriceEvaluation]) -> dict[str, Any]:
    """Return the evaluations of a price, one for each audited group, as plain numbers."""
    by_group = {evaluation.audited: evaluation.to_dict() for evaluation in evaluations}
    return {"schema": EVALUATION_SCHEMA, "evaluations": by_group}


def evaluate_price(
    price: DiscriminationFreePrice, rows: HeldOutRows, after: Floats, audited: str, confidence: float
) -> PriceEvaluation:
    """Return the effect of a price on held-out rows of an audited group and the reference."""
    cost = np.full(after.size, np.nan) if rows.outcome is None else rows.outcome
    every = CostRows(rows.scores, cost, rows.rows.weights, rows.rows.audited, clusters=rows.rows.clusters)
    has_cost = np.isfinite(cost)
    known = _taken(every, has_cost)
    pairs = _gap_quantities(every, after) | _moved(every, after)
    records = [_record(name, pair, confidence) for name, pair in pairs.items()]
    deciles: list[Record] = []
    if min(int(known.audited.sum()), int((~known.audited).sum())) >= MINIMUM_ROWS:
        both = {"before": known, "after": replace(known, price=after[has_cost])}
        records += [_record(name, pair, confidence) for name, pair in _cost_quantities(*both.values()).items()]
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


@dataclass(frozen=True, slots=True)
class _Pair:
    """A quantity before and after, and its change; None where it is not defined."""

    before: HasInterval | None
    after: HasInterval | None
    change: HasInterval | None


def _record(name: str, pair: _Pair, confidence: float) -> Record:
    record: Record = {"quantity": name}
    for column, quantity in zip(BEFORE_AFTER, (pair.before, pair.after, pair.change), strict=True):
        record |= interval_columns(column, quantity, confidence)
    return record


def _taken(rows: CostRows, index: Booleans) -> CostRows:
    clusters = None if rows.clusters is None else rows.clusters[index]
    return CostRows(rows.price[index], rows.cost[index], rows.weights[index], rows.audited[index], clusters=clusters)


def _gap_quantities(rows: CostRows, after: Floats) -> dict[str, _Pair]:
    """Return the gap of mean prices, and the share of the price's variance between the groups."""
    old, new = (group_gap(rows, price) for price in (rows.price, after))
    share, share_after = (unfairness(rows, price) for price in (rows.price, after))
    return {
        "gap": _Pair(old.normal(), new.normal(), difference(new, old)),
        "unfairness": _Pair(share, share_after, None),
    }


def _moved(rows: CostRows, after: Floats) -> dict[str, _Pair]:
    """Return how much money the change moves, and the shares of people whose price rises and falls."""
    change = after - rows.price
    columns = {"mean_absolute_change": np.abs(change), "share_rising": change > 0.0, "share_falling": change < 0.0}
    means = {name: rows.mean(column.astype(np.float64)) for name, column in columns.items()}
    most = {"mean_absolute_change": np.inf, "share_rising": 1.0, "share_falling": 1.0}
    return {name: _Pair(None, None, replace(mean.normal(0.0), most=most[name])) for name, mean in means.items()}


def _cost_quantities(before: CostRows, after: CostRows) -> dict[str, _Pair]:
    """Return actual to expected of all people, of each group and their ratio, and the deviances that are defined."""
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
            pairs[name] = _Pair(old.normal(0.0), new.normal(0.0), difference(new, old))
    return pairs


def _ratios(old: InfluenceEstimate | None, new: InfluenceEstimate | None) -> _Pair:
    """Return two ratios by their logs, and their difference, whose error is that of both logs."""
    before, after = (None if log is None else LogNormal(log.value, log.se) for log in (old, new))
    if old is None or new is None:
        return _Pair(before, after, None)
    first, last = np.exp([old.value, new.value]).tolist()
    return _Pair(before, after, combine(last - first, [(last, new), (-first, old)]).normal())
