"""Notes: what each code says, once, and what a reader should know of the rows and models of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from tiltlens.analysis.evidence import Evidence
from tiltlens.analysis.suppression import part_of_group
from tiltlens.estimators.error_rates import UNKNOWN
from tiltlens.learners.balance import Balance
from tiltlens.limits import SUPPRESSED_BELOW

MAY_ACCOUNT_FOR = (
    "an omitted factor, use of the group, or features that act together in a way that the regressions miss"
)
SENTENCES = {
    "inadequate membership model": "the group-membership model failed its checks: {reason}",
    "off support": (
        "{people} of the audited group have values that nobody in the reference group has ({features}), so the "
        "correction is extrapolated there"
    ),
    "few people behind weights": "the effective sample size of {group} is {people:.1f}: intervals are unreliable",
    "constant amounts": "all amounts of {groups} are equal, so the intervals leave out the error of their means",
    "unknown outcomes": "{people} of the people have no outcome, so error rates leave them out",
    "no period": "{rows} rows have no period: they are in all numbers but those of periods",
    "unobserved groups": (
        "not reported for unobserved groups: ratios, shortfall, standardised difference, output divergence, "
        "sample size to detect, test of equal means; weighted by group probabilities they may understate the gap"
    ),
    "exempt factors of unobserved groups": (
        "gap_explained_by_exempt and gap_given_exempt decompose the weighted gap, which understates gaps among people "
        "with the same values of exempt factors that predict the group probabilities"
    ),
    "repeated row": (
        "1 row is an exact duplicate and counts as a separate person. If it is not, pass clusters=; otherwise "
        "intervals are too narrow"
    ),
    "repeated rows": (
        "{rows:,} rows are exact duplicates and count as separate people. If they are not, pass clusters=; otherwise "
        "intervals are too narrow"
    ),
    "sampled": (
        "rates, gap, ratios and contributions alone of features with few values come from all {rows:,} rows; models, "
        "estimates based on them, and all standard errors come from a sample of {sample:,}"
    ),
    "no inputs": "correction, input_divergence and descent_rate require features or a propensity column",
    "open-ended": (
        "input_divergence and descent_rate have one-sided bounds, because the group-membership model fits poorly"
    ),
    "too many values": "{quantity} is not determined: {features} has too many values for the rows",
    "undefined": "{reason}",
    "inputs only": "{reason} The correction aligns the inputs only.",
    "outputs too close": "the groups' outputs are too close to be distinguished by decisions",
}


class Note(str):
    """A sentence about a comparison, with the code and the values that it is made of."""

    __slots__ = ("code", "values")
    code: str
    values: dict[str, Any]

    def __new__(cls, code: str, **values: Any) -> Note:
        """Return the sentence of a code."""
        note = super().__new__(cls, SENTENCES[code].format(**values))
        note.code, note.values = code, values
        return note

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return partial(Note, **self.values), (self.code,)


FEW_PEOPLE = 30  # that weights are worth, below which no interval can be relied on


def evidence_notes(evidence: Evidence, checked: Balance | None) -> Iterator[Note]:
    """Yield all notes that follow from the evidence."""
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
    """Yield a note on each group whose weights rest on few people: (Σw)²/Σw² of them, by Kish."""
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
    """Yield a note on groups whose amounts are all the same: their rows do not show how sure the mean is."""
    o, is_rounding = evidence.score, evidence.rows.unit.is_rounding
    parts = zip(evidence.rows.groups, ((o.mean0, o.covariance0), (o.mean1, o.covariance1)), strict=True)
    names = [name for name, (mean, square) in parts if is_rounding(float(mean[0]), math.sqrt(max(square[0, 0], 0.0)))]
    if names:
        yield Note("constant amounts", groups=" and ".join(names))


def _rows_without_period(evidence: Evidence) -> Iterator[Note]:
    """Yield a note on rows without a period: they are in no row of the table."""
    # Codes of missing periods follow those of the labels.
    missing = int(evidence.sums_by["period"].people[:, len(evidence.rows.labels["period"]) :].sum())
    if missing:
        yield Note("no period", rows=f"fewer than {SUPPRESSED_BELOW}" if missing < SUPPRESSED_BELOW else f"{missing:,}")
