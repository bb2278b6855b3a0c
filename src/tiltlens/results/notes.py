"""Notes: what each code says, once, and what a reader should know of the rows and models of a comparison."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from tiltlens.analysis.error_rates import outcome_notes
from tiltlens.analysis.evidence import Evidence
from tiltlens.analysis.periods import period_notes
from tiltlens.analysis.suppression import part_of_group
from tiltlens.analysis.unobserved_groups import soft_notes
from tiltlens.learners.balance import Balance

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


def evidence_notes(evidence: Evidence, checked: Balance | None) -> list[str]:
    """Return all notes that follow from the evidence."""
    return [
        *_balance_notes(checked),
        *_off_support(evidence),
        *_few_weights(evidence),
        *outcome_notes(evidence),
        *_constant_amounts(evidence),
        *soft_notes(evidence),
        *_soft_exempt(evidence),
        *period_notes(evidence),
        *_copy_notes(evidence),
        *_sample_notes(evidence),
    ]


def _balance_notes(checked: Balance | None) -> list[str]:
    if checked is None:
        return []
    return [Note("inadequate membership model", reason=reason) for reason in checked.reasons]


def _off_support(evidence: Evidence) -> list[str]:
    """Return a note on the audited people with a feature value that nobody in the reference has (positivity)."""
    alone, names = np.zeros(evidence.sample.audited.size, dtype=np.bool_), []
    for feature in evidence.rows.features:
        if feature.name in evidence.table:
            _, reference = evidence.sample.counts(feature.codes, len(feature.labels))
            unknown = evidence.sample.audited & (reference == 0)[feature.codes]
            alone |= unknown
            names += [feature.name] if unknown.any() else []
    if not names:
        return []
    share = evidence.sample.mean0(alone.astype(np.float64))
    people = part_of_group(share, int(alone.sum()), evidence.sample.count0)
    return [Note("off support", people=people, features=", ".join(sorted(names)))]


def _few_weights(evidence: Evidence) -> list[str]:
    """Return a note on a group whose weights rest on few people: (Σw)²/Σw² of them, by Kish."""
    rows = evidence.population
    groups = (
        (evidence.question.audited, rows.square0, rows.count0),
        (evidence.question.reference, rows.square1, rows.count1),
    )
    return [
        Note("few people behind weights", group=name, people=1.0 / square)
        for name, square, count in groups
        if 1.0 / square < FEW_PEOPLE <= count
    ]


def _constant_amounts(evidence: Evidence) -> list[str]:
    """Return a note on a group whose amounts are all the same: its rows do not show how sure its mean is."""
    if not evidence.rows.unit.is_amount:
        return []
    o = evidence.score
    groups = (
        (evidence.question.audited, o.mean0, o.covariance0),
        (evidence.question.reference, o.mean1, o.covariance1),
    )
    is_rounding = evidence.rows.unit.is_rounding
    names = [name for name, mean, square in groups if is_rounding(float(mean[0]), math.sqrt(max(square[0, 0], 0.0)))]
    if not names:
        return []
    return [Note("constant amounts", groups=" and ".join(names))]


def _soft_exempt(evidence: Evidence) -> list[str]:
    """Return what the two parts of the gap are of, where groups are known by probabilities."""
    if evidence.rows.probabilities is None or not evidence.question.exempt:
        return []
    return [Note("exempt factors of unobserved groups")]


def _copy_notes(evidence: Evidence) -> list[str]:
    """Return a note on rows that repeat others: intervals take them for as many people."""
    if not evidence.rows.facts.repeated_rows:
        return []
    count = evidence.rows.facts.repeated_rows
    return [Note("repeated row") if count == 1 else Note("repeated rows", rows=count)]


def _sample_notes(evidence: Evidence) -> list[str]:
    """Return what comes from a sample of the rows, where there are more."""
    if evidence.rows.facts.is_complete:
        return []
    sample, population = evidence.sample, evidence.population
    return [Note("sampled", rows=population.count0 + population.count1, sample=sample.audited.size)]
