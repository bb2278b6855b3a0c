"""Sample weights for re-training, from a tilt of the inputs or of group and outcome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tiltlens._estimators.error_rates import UNKNOWN as OUTCOME_MISSING
from tiltlens._estimators.error_rates import WITH
from tiltlens._estimators.influence import Booleans, Integers
from tiltlens._formats import FieldTable
from tiltlens._limits import SUPPRESSED_BELOW
from tiltlens._repair.quantities import effective_size
from tiltlens._results.profiles import NoRows, Profiles, needs_rows
from tiltlens._rows.features import Feature
from tiltlens._rows.sampled_rows import SampledRows
from tiltlens._sources.tables import Record
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Reweighing(FieldTable):
    """Weights under which the groups' mean scores are equal, or the outcome is independent of the group.

    Attributes
    ----------
    sample_weight
        One per row of the sample, in the order of the table, with their `row_numbers`. Outcome weights leave out rows
        without an outcome; the others keep the reference's weights. They refer to audit weights with maximum 1.
    nats
        KL(Q‖P) of the change, over the audited group's rows or all rows with an outcome.
    effective_rows
        (Σw)²/Σw² of the audited group before and after: its effective number of rows.
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
        from tiltlens._documents.repair_sentences import reweighing_sentence

        return reweighing_sentence(self)


def reweigh(profiles: Profiles, outcome: bool) -> Reweighing:
    """Return sample weights that equalise mean scores or, with `outcome`, make group and outcome independent."""
    if isinstance(profiles, NoRows):
        raise needs_rows("reweigh")
    if profiles.sampled.unit.is_amount:
        raise DataError("Amounts have no `reweigh`, which needs scores between 0 and 1.", "audit a score.")
    if not outcome:
        projected, audited, old = profiles.project(), profiles.atoms(), profiles.rows.weights
        new = old.astype(np.float64)
        new[audited] = old[audited].sum() * projected.q
        return _reweighing(profiles.sampled, old, new, audited, projected.cost)
    if profiles.sampled.y_true is None:
        raise DataError("`outcome` must be False for an audit without outcomes, got True.", "audit with outcome=.")
    rows = profiles.sampled.take(np.flatnonzero(profiles.sampled.y_true != OUTCOME_MISSING))
    is_audited = rows.group == 0
    new, nats = _independent_weights(rows.sampling_weight, is_audited, np.asarray(rows.y_true))
    return _reweighing(rows, rows.sampling_weight, new, np.flatnonzero(is_audited), nats)


def _independent_weights(weights: Floats, audited: Booleans, outcome: Integers) -> tuple[Floats, float]:
    """Return w·P(s)·P(y)/P(s, y) for rows with group s and outcome y (Kamiran and Calders 2012), and KL(Q‖P).

    Q minimises KL(P‖Q) over all distributions in which Y is independent of S, and KL(Q‖P) over those that also keep the
    shares of groups and of outcomes.
    """
    cell = 2 * audited + (outcome == WITH)
    mass = np.bincount(cell, weights, 4).reshape(2, 2) / weights.sum()
    if not mass.all():
        raise DataError(
            "`outcome` must be 0 for some people and 1 for others in each group, got a group with one of them only.",
            "no weights make it independent of the group; add rows.",
        )
    ratio = np.outer(mass.sum(axis=1), mass.sum(axis=0)) / mass
    return weights * ratio.ravel()[cell], float((mass * ratio * np.log(ratio)).sum())


def _reweighing(rows: SampledRows, old: Floats, new: Floats, audited: Integers, nats: float) -> Reweighing:
    """Return new weights with their effect on the feature shares and the effective size of the audited group."""
    effective = effective_size(old[audited]), effective_size(new[audited])
    order, shares = np.argsort(rows.row_number, kind="stable"), [own / own[audited].sum() for own in (old, new)]
    records = [record for feature in rows.features for record in _changes(feature, audited, *shares)]
    schema = {"feature": pl.String, "value": pl.String, "before": pl.Float64, "after": pl.Float64}
    table = pl.DataFrame(records, schema=schema).with_columns(change=pl.col("after") - pl.col("before"))
    changes = table.sort(pl.col("change").abs().round(12), "feature", "value", descending=[True, False, False])
    return Reweighing(new[order], rows.row_number[order], nats, effective, changes)


def _changes(feature: Feature, audited: Integers, old: Floats, new: Floats) -> Iterator[Record]:
    """Yield the share of each value in the audited group before and after; values of few people are omitted."""
    codes, size = feature.codes[audited], len(feature.labels)
    people = np.bincount(codes, minlength=size)
    before, after = (np.bincount(codes, own[audited], size) for own in (old, new))
    for code in np.flatnonzero(people >= SUPPRESSED_BELOW).tolist():
        record: Record = {"feature": feature.name, "value": feature.labels[code]}
        yield record | {"before": float(before[code]), "after": float(after[code])}
