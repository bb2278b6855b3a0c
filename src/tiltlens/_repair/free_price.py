"""The discrimination-free price h*(x) = k·Σ_d P(d)·μ_d(x): fitted, applied to rows, evaluated, and saved as numbers.

μ_d(x) = E[cost | x, group d] is an additive regression within each group, P(d) the group's share of all exposure, and k
scales prices so that they sum to costs on the fitted rows (Lindholm, Richman, Tsanakas & Wüthrich 2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import interval_schema
from tiltlens._analysis.prices import GROUPS, decile_cells, log_difference
from tiltlens._estimators.estimate import HasInterval
from tiltlens._estimators.influence import Booleans, InfluenceEstimate, Integers, combine
from tiltlens._estimators.prices import CostRows, actual_to_expected, balance_factor, deviance, group_gap, unfairness
from tiltlens._learners.design import Table
from tiltlens._learners.linear_models import CostSample, Link, cost_encoding
from tiltlens._learners.propensity import group_folds
from tiltlens._limits import FEWEST_KNOWN, FOLDS, LARGEST, MINIMUM_ROWS
from tiltlens._notes import KEEP_PRICES, Note
from tiltlens._repair.adjustment import Adjustment, Labels
from tiltlens._repair.constraints import AdditiveModel, category_levels, feature_table
from tiltlens._repair.evaluation import TABLE_SCHEMA, Evaluation, change_record
from tiltlens._repair.new_rows import apply_repair, checked_scores, read_held_out
from tiltlens._repair.rows import (
    COST,
    AuditedRowIndex,
    AuditedRows,
    NewRowSums,
    Range,
    audited_rows,
    condition_notes_of,
    ranges_of,
)
from tiltlens._results.audit import Audit
from tiltlens._results.comparison import Comparison
from tiltlens._rows.features import Feature
from tiltlens._rows.groups import observed_costs
from tiltlens._rows.roles import Declared
from tiltlens._rows.scores import RowName
from tiltlens._rows.wording import WORDING, Wording
from tiltlens._sources.tables import Record
from tiltlens._threads import one_thread
from tiltlens.errors import DataError, quoted
from tiltlens.paper.checks import Floats, check_number, check_probability

if TYPE_CHECKING:
    from tiltlens.figures import Figure

COUNTED = {"which": pl.String, "group": pl.String, "decile": pl.Int64, "n": pl.Int64, "price": pl.Float64}
DECILE_SCHEMA = COUNTED | interval_schema("actual_to_expected")
POWERS = {"deviance_poisson": 1.0, "deviance_tweedie": 1.5, "deviance_gamma": 2.0}


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveCost(AdditiveModel):
    """A fitted additive regression of costs with a link function."""

    link: Link

    def mean(self, table: Table) -> Floats:
        """Return the expected cost of rows of numbers and codes."""
        return self.link.mean(self.linear_predictor(table))


@dataclass(frozen=True, slots=True, eq=False)
class GroupCost:
    """A group, its share P(d) of all exposure, and the model of its expected cost."""

    group: str
    share: float
    model: AdditiveCost


@dataclass(frozen=True, slots=True, eq=False)
class DiscriminationFreePrice(Adjustment):
    """The discrimination-free price of an audited amount: a fixed mixture of the groups' expected costs.

    Attributes
    ----------
    reference
        The group that others are compared with.
    costs
        Each group with its share of all exposure and its model of costs, the reference first.
    factor
        The factor by which the mixture of expected costs is multiplied, so that prices sum to costs on the audited
        rows.
    gap_before, gap_after
        By audited group, the gap of the audited price and of the discrimination-free price on the audited rows,
        computed with models that have not seen these rows.
    row_index
        Hashes that identify audited rows, and the features that are hashed.
    notes
        Warnings about the fit.
    given
        The conditions that audited rows met, as texts by column: other rows keep their price.
    ranges
        The range of each number in the audited rows, from the tenth lowest to the tenth highest value.
    declared
        The features that are declared as categories, or as blocks of columns.
    wording
        The words and the unit of the audit.

    See Also
    --------
    ScoreTilt : The adjustment of probabilities and decisions.

    Examples
    --------
    >>> import tiltlens as tl
    >>> policies = {
    ...     "sex": ["women", "men"] * 200,
    ...     "km": [5, 5, 10, 10, 20, 20, 30, 30] * 50,
    ...     "price": [105.0, 105, 110, 110, 120, 120, 130, 130] * 50,
    ...     "cost": [110.0, 100, 115, 105, 125, 115, 135, 125] * 50,
    ... }
    >>> options = {"reference": "men", "scores": "price", "score_type": "amount", "outcome": "cost", "features": "km"}
    >>> free = tl.audit(policies, "sex", favourable="low", folds=None, **options)["women"].repair()
    >>> free.apply({"km": [5, 20]}, [105.0, 120.0]).round(0).tolist()
    [105.0, 120.0]
    """

    SCHEMA: ClassVar[str] = "tiltlens/price/1"
    LEARNT_BY: ClassVar[str] = COST

    reference: str = field()  # otherwise the property of the base class would be its default
    costs: tuple[GroupCost, ...]
    factor: float
    gap_before: Mapping[str, float]
    gap_after: Mapping[str, float]
    row_index: AuditedRowIndex
    notes: tuple[str, ...]
    given: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    declared: Declared = field(default_factory=Declared)
    wording: Wording = WORDING

    @property
    def groups(self) -> tuple[str, ...]:
        """The audited groups."""
        return tuple(cost.group for cost in self.costs if cost.group != self.reference)

    @property
    def _readers(self) -> tuple[AdditiveCost, ...]:
        return tuple(cost.model for cost in self.costs)

    @property
    def left_alone(self) -> str:
        """The treatment of rows that do not meet the conditions."""
        return KEEP_PRICES

    def apply(self, data: object, scores: object, out: str | Path | None = None) -> Any:
        """Return the discrimination-free prices of the rows of a table; no group is needed.

        Parameters
        ----------
        data
            A table in memory, files, a lazy frame, a DuckDB relation or a Spark data frame with the features of the
            models of costs. A warning counts values unseen in the audit and numbers beyond the audited range.
        scores
            The audited price: a column or, for a table in memory, an array. Rows that do not meet the conditions of the
            audit keep it.
        out
            A .parquet or .csv file to write: the table with the prices in a column whose name ends in "_repaired".

        Returns
        -------
        An array in the order of the rows; for Spark a data frame with the column of prices; with `out`, its path.
        """
        return apply_repair(self, data, scores, None, out)

    def evaluate(
        self,
        held_out: object,
        scores: object,
        group: object,
        outcome: object = None,
        confidence: float = 0.95,
        sample_weight: object = None,
        clusters: object = None,
        audited: str | None = None,
    ) -> PriceEvaluation:
        """Return the effect of the price on held-out data, which no model was fitted on.

        Parameters
        ----------
        held_out
            A table in memory, or files. Rows of other groups, and rows that do not meet the conditions of the audit,
            are left out. Audited rows raise an error.
        scores, group
            The audited prices, and the groups: columns or arrays; a list of columns for intersections.
        outcome
            The observed costs, which add actual to expected and deviances. Rows without a cost are used for all other
            results.
        confidence
            The confidence level of the intervals.
        sample_weight, clusters
            The exposure, and which rows belong together, such as those of one customer: columns or arrays.
        audited
            The group that is compared with the reference, if several were audited.
        """
        check_probability("confidence", confidence)
        rows = read_held_out(self, held_out, audited, scores, group, outcome, sample_weight, clusters)
        after = self.repair_batch(rows.frame, rows.scores)
        cost = np.full(after.size, np.nan) if rows.outcome is None else rows.outcome
        every = CostRows(rows.scores, cost, rows.rows.weights, rows.rows.audited, clusters=rows.rows.clusters)
        has_cost = np.isfinite(cost)
        costed = _taken(every, has_cost)
        pairs, deciles = _price_quantities(every, after), list[Record]()
        if min(int(costed.audited.sum()), int((~costed.audited).sum())) >= MINIMUM_ROWS:
            both = {"before": costed, "after": replace(costed, price=after[has_cost])}
            pairs |= _cost_quantities(*both.values())
            deciles = [
                {"which": which, **record}
                for which, priced in both.items()
                for record in decile_cells(priced, 1.0, confidence)
            ]
        records = [change_record(name, pair, confidence) for name, pair in pairs.items()]
        return PriceEvaluation(
            audited=rows.audited,
            reference=self.reference,
            group=rows.group_name,
            features=self.features,
            table=pl.DataFrame(records, schema=TABLE_SCHEMA),
            by_decile=pl.DataFrame(deciles, schema=DECILE_SCHEMA),
            rows={"audited": rows.rows.count0, "reference": rows.rows.count1},
            missing_outcome=None if rows.outcome is None else int((~has_cost).sum()),
            notes=(*rows.notes, *self.notes),
            confidence=confidence,
            wording=self.wording,
        )

    def mean(self, table: Table) -> Floats:
        """Return h*(x) for rows of numbers and codes."""
        return np.asarray(self.factor * sum(cost.share * cost.model.mean(table) for cost in self.costs))

    def repair_batch(
        self, frame: pl.DataFrame, scores: Floats, group: Labels | None = None, sums: list[NewRowSums] | None = None
    ) -> Floats:
        """Return the prices of a clean frame of rows, and append sums over them to `sums`."""
        if sums is not None:
            sums.append(self.row_sums(frame))
        return self.mean(self.table(frame))

    def read_scores(self, columns: Sequence[pl.Series], row_name: RowName = "row {}".format) -> Floats:
        """Return the audited prices, from clean columns."""
        self.check_score_columns(len(columns))
        return checked_scores(columns[0], -LARGEST, LARGEST, "finite amounts", row_name)

    def read_outcome(self, column: pl.Series) -> Floats:
        """Return the observed cost of each row, NaN where it is missing."""
        return observed_costs(column)

    def check_score_columns(self, count: int) -> None:
        """Raise unless there is exactly one column of audited prices."""
        if count != 1:
            raise DataError(f"`scores` must be one column, of the price, got {count}.", "name the audited price.")

    def check_whole(self) -> None:
        """Raise if a part is missing, or if parts do not fit together."""
        check_number("factor", self.factor)
        for cost in self.costs:
            check_number("share", cost.share)
            cost.model.mean(cost.model.blank_row())
        if self.reference not in {cost.group for cost in self.costs} or len(self.costs) < 2:
            raise ValueError("no costs of two groups")

    def evaluate_groups(
        self, held_out: object, scores: object, group: object, **options: Any
    ) -> dict[str, PriceEvaluation]:
        """Return the evaluation of each audited group against the reference; `options` are those of `evaluate`."""
        return {name: self.evaluate(held_out, scores, group, audited=name, **options) for name in self.groups}

    def __repr__(self) -> str:
        groups = ", ".join(map(repr, self.groups))
        return f"DiscriminationFreePrice({groups} against {self.reference!r}: {self.costs[0].model.link} link)"


def fit_free_price(source: Comparison | Audit) -> DiscriminationFreePrice:
    """Return the discrimination-free price of an audited amount with observed costs."""
    rows = audited_rows(source, "repair")
    if not rows.model_features:
        raise DataError(
            "No feature can predict costs, so there is no discrimination-free price.",
            "audit with features that vary and are neither the group nor identifiers.",
        )
    notes, index = [Note("group used to fit"), *condition_notes_of(rows)], _rows_with_costs(rows)
    if index.size < rows.codes.size:
        notes.append(Note("some costs", known=index.size, rows=rows.codes.size))
        rows = rows.take(index)
    features = rows.model_features
    table = feature_table(features)
    with one_thread():
        costs, cross_fitted = _group_costs(rows, features, table)
    expected = np.asarray(sum(cost.share * cost.model.mean(table) for cost in costs))
    assert rows.cost is not None
    factor = balance_factor(CostRows(expected, rows.cost, rows.weights, rows.codes == 1))
    shares = np.array([cost.share for cost in costs])
    return DiscriminationFreePrice(
        reference=rows.reference,
        costs=costs,
        factor=factor,
        gap_before=_gaps(rows, rows.scores),
        gap_after=_gaps(rows, factor * (shares @ cross_fitted)),
        row_index=AuditedRowIndex.of(rows),
        notes=tuple(notes),
        given=dict(rows.given),
        ranges=ranges_of(features),
        declared=rows.declared,
        wording=source.scale.wording if isinstance(source, Comparison) else source.wording,
    )


def _rows_with_costs(rows: AuditedRows) -> Integers:
    """Return the index of the rows with a cost; raise if a group has too few or no positive total."""
    cost = rows.cost
    if cost is None:
        raise DataError("The discrimination-free price needs observed costs.", "audit with outcome= (--outcome).")
    index = np.flatnonzero(np.isfinite(cost))
    for code, name in enumerate(rows.groups):
        own = index[rows.codes[index] == code]
        if own.size < FEWEST_KNOWN:
            raise DataError(
                f"The discrimination-free price needs {FEWEST_KNOWN} observed costs of each group, got {own.size} of "
                f"{quoted(name)}.",
                "add rows, or merge groups.",
            )
        if float(rows.weights[own] @ cost[own]) <= 0.0:
            raise DataError(f"The costs of {quoted(name)} do not add up to more than 0.", "check `outcome`.")
    return index


def _group_costs(rows: AuditedRows, features: Sequence[Feature], table: Table) -> tuple[tuple[GroupCost, ...], Floats]:
    """Return the models of each group, fitted on all its rows, and the cross-fitted expected costs, (groups, n)."""
    encoder, groups = cost_encoding(table), len(rows.groups)
    fold = group_folds(rows.codes, rows.clusters, FOLDS, 0)
    assert rows.cost is not None
    sample = CostSample(encoder, table, rows.codes, rows.cost, rows.weights, fold)
    settings = sample.choose(groups)
    levels, costs = category_levels(features), []
    for code, name in enumerate(rows.groups):
        own = np.flatnonzero(rows.codes == code)
        fit = sample.fit(own, settings)
        model = AdditiveCost.of(encoder, levels, fit.intercept, fit.slopes, fit.link)
        costs.append(GroupCost(name, float(rows.weights[own].sum() / rows.weights.sum()), model))
    return tuple(costs), sample.cross_fit(settings, groups)


def _gaps(rows: AuditedRows, price: Floats) -> dict[str, float]:
    gaps = {}
    for code, name in enumerate(rows.groups[1:], 1):
        compared = (rows.codes == code) | (rows.codes == 0)
        pair = CostRows(price[compared], price[compared], rows.weights[compared], rows.codes[compared] == code)
        gaps[name] = group_gap(pair, pair.price).value
    return gaps


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


# A quantity before and after, and its change; each is None if it is not defined
Pair = tuple[HasInterval | None, HasInterval | None, HasInterval | None]


def _taken(rows: CostRows, index: Booleans) -> CostRows:
    clusters = None if rows.clusters is None else rows.clusters[index]
    return CostRows(rows.price[index], rows.cost[index], rows.weights[index], rows.audited[index], clusters=clusters)


def _price_quantities(rows: CostRows, after: Floats) -> dict[str, Pair]:
    """Return the gap of mean prices, the share of their variance between the groups, and how many prices change."""
    old, new = (group_gap(rows, price) for price in (rows.price, after))
    share, share_after = (unfairness(rows, price) for price in (rows.price, after))
    change = after - rows.price
    columns = {
        "mean_absolute_change": (np.abs(change), np.inf),
        "share_rising": (change > 0.0, 1.0),
        "share_falling": (change < 0.0, 1.0),
    }
    means = {name: rows.mean(column.astype(np.float64)).normal(0.0, most) for name, (column, most) in columns.items()}
    return {
        "gap": (old.normal(), new.normal(), new.minus(old).normal()),
        "unfairness": (share, share_after, None),
        **{name: (None, None, mean) for name, mean in means.items()},
    }


def _cost_quantities(before: CostRows, after: CostRows) -> dict[str, Pair]:
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
            pairs[name] = (old.normal(0.0), new.normal(0.0), new.minus(old).normal())
    return pairs


def _ratios(old: InfluenceEstimate | None, new: InfluenceEstimate | None) -> Pair:
    """Return two ratios from their logs, and their difference with its delta-method standard error."""
    before, after = (None if log is None else log.exponential() for log in (old, new))
    if old is None or new is None:
        return before, after, None
    first, last = np.exp([old.value, new.value]).tolist()
    return before, after, combine(last - first, [(last, new), (-first, old)]).normal()
