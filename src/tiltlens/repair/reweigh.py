"""Sample weights for re-training: the tilt of the inputs, or of group and outcome; and what they cost in rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiltlens.errors import DataError
from tiltlens.estimators.error_rates import WITH
from tiltlens.estimators.influence import Booleans, Integers
from tiltlens.limits import SUPPRESSED_BELOW
from tiltlens.paper.checks import Floats
from tiltlens.rows.features import Feature


@dataclass(frozen=True, slots=True, eq=False)
class Reweighing:
    """Weights under which the groups' mean scores are equal, or the outcome is independent of the group.

    Attributes
    ----------
    sample_weight
        One per row of the sample, in the order of the table; `row_numbers` are theirs. Weights of the outcome leave out
        rows without one; the others leave the reference's as they are. The largest weight of the audit's rows is 1.
    nats
        KL(Q‖P) of the change: of the audited group's rows, or of all rows with an outcome.
    effective_rows
        (Σw)²/Σw² of the audited group before and after: how many rows its weights are worth.
    changes
        By feature and value: the audited group's share before and after, the largest change first; values of fewer than
        ten audited people are left out.
    """

    sample_weight: Floats
    row_numbers: Integers
    nats: float
    effective_rows: tuple[float, float]
    changes: pl.DataFrame

    def __str__(self) -> str:
        more = self.changes.filter(pl.col("after") > pl.col("before")).head(3)
        named = ", ".join(
            f"{row['feature']} = {row['value']} ({100 * row['before']:.0f} % → {100 * row['after']:.0f} %)"
            for row in more.to_dicts()
        )
        before, after = self.effective_rows
        return (
            f"Commoner in the audited group: {named or 'nothing'}. Its {before:,.0f} rows are then worth {after:,.0f}."
        )


def independent_weights(weights: Floats, audited: Booleans, outcome: Integers) -> tuple[Floats, float]:
    """Return w·P(s)·P(y)/P(s, y) of rows with group s and outcome y (Kamiran and Calders 2012), and KL(Q‖P).

    Of all laws Q in which Y is independent of S, this one has the least KL(P‖Q). Of those that also keep the shares of
    groups and of outcomes, it has the least KL(Q‖P).
    """
    cell = 2 * audited + (outcome == WITH)
    mass = np.bincount(cell, weights, 4).reshape(2, 2) / weights.sum()
    if not mass.all():
        raise DataError(
            "`outcome` must be 0 for some people and 1 for others in each group, got a group with one of them only.",
            "no weights make it independent of the group; bring more rows.",
        )
    ratio = np.outer(mass.sum(axis=1), mass.sum(axis=0)) / mass
    return weights * ratio.ravel()[cell], float((mass * ratio * np.log(ratio)).sum())


def reweighing(
    old: Floats, new: Floats, features: Sequence[Feature], row_numbers: Integers, audited: Integers, nats: float
) -> Reweighing:
    """Return what `new` weights change for the rows at the places `audited`, and what they are worth there."""
    worth = [float(one[audited].sum() ** 2 / (one[audited] @ one[audited])) for one in (old, new)]
    order, shares = np.argsort(row_numbers, kind="stable"), [one / one[audited].sum() for one in (old, new)]
    records = [record for one in features for record in _changes(one, audited, *shares)]
    schema = {"feature": pl.String, "value": pl.String, "before": pl.Float64, "after": pl.Float64}
    table = pl.DataFrame(records, schema=schema).with_columns(change=pl.col("after") - pl.col("before"))
    changes = table.sort(pl.col("change").abs().round(12), "feature", "value", descending=[True, False, False])
    return Reweighing(new[order], row_numbers[order], nats, (worth[0], worth[1]), changes)


def _changes(feature: Feature, audited: Integers, old: Floats, new: Floats) -> Iterator[dict[str, Any]]:
    """Yield the shares of each value among the audited, before and after."""
    codes, size = feature.codes[audited], len(feature.labels)
    people = np.bincount(codes, minlength=size)
    before, after = (np.bincount(codes, one[audited], size) for one in (old, new))
    for code in np.flatnonzero(people >= SUPPRESSED_BELOW).tolist():
        shares = {"before": float(before[code]), "after": float(after[code])}
        yield {"feature": feature.name, "value": feature.labels[code]} | shares
