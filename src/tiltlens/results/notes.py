"""What a reader should know of the rows and the models behind a comparison, whatever its numbers say."""

from __future__ import annotations

import math

import numpy as np

from tiltlens.analysis.error_rates import outcome_notes
from tiltlens.analysis.evidence import Evidence
from tiltlens.analysis.periods import period_notes
from tiltlens.analysis.suppression import part_of_group
from tiltlens.analysis.unobserved_groups import soft_notes
from tiltlens.learners.balance import Balance
from tiltlens.results.note_texts import Note

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
