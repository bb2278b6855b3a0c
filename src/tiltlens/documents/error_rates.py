"""Error rates of both groups: their table, and what they do not show."""

from __future__ import annotations

from collections.abc import Iterator

from tiltlens.analysis.error_rates import ErrorRates
from tiltlens.analysis.selective_labels import SelectiveLabels
from tiltlens.documents.document import NAME, QUIET, Block, Cell, Column, Paragraph, Table
from tiltlens.documents.measures import BOTH, level_of, measure_of, metric_of
from tiltlens.documents.quantities import ERROR_RATE_KEYS, estimate_cell, format_of, quantity
from tiltlens.formats import NOTHING, count, label
from tiltlens.results.audit import Audit
from tiltlens.results.comparison import Comparison
from tiltlens.rows.wording import METRICS, POINTS, WHOSE

OF_SCORES = {"fpr": "mean score", "fnr": "1 minus the mean score"}
OF_DECISIONS = {
    "fpr": "share given decision 1",
    "fnr": "share given decision 0",
    "fdr": "share without the outcome",
    "for": "share with the outcome",
}
DOES_NOT_SHOW = (
    "Error rates also differ where the outcome is more frequent in one group, even for scores that are calibrated in "
    "both. Outcomes observed only for people with the favourable decision say nothing about the others."
)


def error_rate_blocks(c: Comparison, rates: ErrorRates) -> list[Block]:
    """Return the error rates of both groups and their gaps, with how to read them."""
    m = measure_of(c)
    columns = (Column("quantity", NAME), *(Column(who) for who in BOTH), Column("audited minus reference"))
    rows, notes = [], [f"People: {_people(c, rates)}."]
    # Decisions have no calibration or AUC, and scores no predictive values.
    keys = ERROR_RATE_KEYS if m.each != "decision" else OF_DECISIONS
    for key in keys:
        item, rate = quantity(key), rates.rate(key)
        if rate is None and key not in rates.reasons:
            continue
        notes.append(
            f"{item.label[:1].upper()}{item.label[1:]}: {definition(key, m.each)}."
            if rate is not None
            else f"{item.label[:1].upper()}{item.label[1:]} is not measured: {rates.reasons[key]}."
        )
        if rate is not None:
            written = format_of(item.scale, m)
            cells = [estimate_cell(side, written.value) for side in (rate.audited, rate.reference)]
            rows.append((Cell(item.name(m)), *cells, estimate_cell(rate.difference, written.change)))
        else:
            rows.append((Cell(item.name(m)), *[Cell(NOTHING)] * 3))
    table = Table("error-rates", columns, tuple(rows), level_of(c))
    bounds = [Paragraph(line) for line in selective_words(rates.selective_labels)]
    return [table, Paragraph(" ".join(notes), QUIET), *bounds, Paragraph(DOES_NOT_SHOW, QUIET)]


def selective_words(labels: SelectiveLabels | None) -> Iterator[str]:
    """Yield how far the unobserved may differ from the observed before the sign of a gap is open."""
    for key, gamma in labels.sign_gamma.items() if labels is not None else ():
        gap, name = quantity(f"{key}_difference").label, quantity("sign_gamma")
        if gamma.value == 0.0:
            yield f"Unobserved outcomes leave the sign of the {gap} open."
            continue
        if gamma.value == 1.0:
            yield f"The sign of the {gap} does not depend on the outcomes that were not observed."
            continue
        shown = format_of(name.scale, POINTS).value
        interval = f" (with its interval: {shown(gamma.low)})" if gamma.low is not None else ""
        yield (
            f"The sign of the {gap} is determined while outcomes that were not observed are as frequent as observed "
            f"ones at equal score, give or take {shown(gamma.value)} points{interval}."
        )


def definition(key: str, each: str) -> str:
    """Return the definition of an error rate for decisions, or for scores."""
    if key not in WHOSE:
        return quantity(key).definition.replace("{each}", each)
    return f"{(OF_DECISIONS if each == 'decision' else OF_SCORES)[key]} among {WHOSE[key]}"


def _people(c: Comparison, rates: ErrorRates) -> str:
    parts = ["expected by group probability"] if c.unobserved_group else []
    for group in BOTH:
        people = rates.people[group]
        counts = (_counted(people[which]) for which in ("without", "with"))
        parts.append("{}: {} without, {} with the outcome".format(group, *counts))
        parts[-1] += f", {count(people['unknown'])} unknown" if people["unknown"] else ""
    return "; ".join(parts)


def _counted(people: int | None) -> str:
    return "a suppressed number" if people is None else count(people)


def metric_words(audit: Audit) -> str:
    """Return which error rate was audited."""
    key, m = metric_of(audit) or "", measure_of(audit)
    outcome = label(audit.provenance.question["outcome"])
    return f"The audit compares the {METRICS[key]}: {definition(key, m.each)} (outcome: {outcome}). {DOES_NOT_SHOW}"
