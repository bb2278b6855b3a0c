"""The tilt of the inputs as sample weights for re-training: what changes, and what it costs in rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiltlens.estimators.influence import Integers, Rows
from tiltlens.limits import SUPPRESSED_BELOW
from tiltlens.models.features import Feature
from tiltlens.paper.checks import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Reweighing:
    """Weights under which the audited group's outputs are those of the reference, by the least change of its inputs.

    Attributes
    ----------
    sample_weight
        One for each row of the sample, in the order of the table; `row_numbers` are theirs. The reference has its own.
        All are of one scale: the largest weight of the audit's rows is 1.
    nats
        KL(Q‖P0) of the change.
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


def reweighing(
    rows: Rows, features: Sequence[Feature], row_numbers: Integers, audited: Integers, q: Floats, nats: float
) -> Reweighing:
    """Return the weights under which the rows at the places `audited` have the shares `q` of their group."""
    old, total = rows.weights, float(rows.weights[audited].sum())
    new = old.astype(np.float64)
    new[audited] = total * q
    worth = [total**2 / float(one[audited] @ one[audited]) for one in (old, new)]
    order = np.argsort(row_numbers, kind="stable")
    records = [record for one in features for record in _changes(one, audited, old / total, new / total)]
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
