"""The ratio of two rates in sentences."""

from __future__ import annotations

from tiltlens.analysis.decision_table import DecisionTable
from tiltlens.documents.labels import SHORT
from tiltlens.documents.measures import Result, is_favourable_mean, measure_of, metric_of
from tiltlens.documents.quantities import fill, written
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.verdicts import side_of
from tiltlens.formats import label, p_value, percent, ratio, whole
from tiltlens.limits import FOUR_FIFTHS
from tiltlens.results.comparison import Comparison


def is_of_decisions(result: Result) -> bool:
    """Return whether decisions were audited: four fifths is a line for their rates, not for scores."""
    return measure_of(result).each == "decision"


def ratio_words(c: Comparison, estimate: Estimate) -> str:
    """Return whose rates a ratio divides, and rates of what: for low scores they are not the means of the gap."""
    m, names, rates = measure_of(c), [label(name, SHORT) for name in (c.audited, c.reference)], [*c.outputs.rates]
    if c.impact_ratio is not None and (c.impact_ratio > 1.0) != (estimate > 1.0):  # lower ÷ higher
        names, rates = names[::-1], rates[::-1]
    who = " ÷ ".join(names)
    if is_favourable_mean(c) or m.is_amount or metric_of(c):
        return f"{fill(_divided(c), m)}{m.among}, {who}"
    numbers = " ÷ ".join(m.level(rate.value) for rate in rates)
    if m.each == "decision":
        return f"rates of the favourable decision{f' ({m.favoured})' if m.favoured else ''}: {numbers}, {who}"
    return f"100% minus the {m.mean}: {numbers}, {who}"


def ratio_definition(c: Comparison) -> str:
    """Return what an impact ratio divides, with names of the measure in braces."""
    return f"{_divided(c)}, audited ÷ reference{{among}}"


def _divided(c: Comparison) -> str:
    if measure_of(c).each != "score":
        return "{rate}"
    return "{predicted}" if is_favourable_mean(c) or metric_of(c) else "100% minus the {mean}"


def unfavourable_words(c: Comparison) -> str:
    """Return the ratio of unfavourable rates, which says more where favourable ones are near 1."""
    audited, reference = (1.0 - rate.value for rate in c.outputs.rates)
    if measure_of(c).is_amount or reference <= 0.0:
        return ""
    who, other = label(c.audited, SHORT), label(c.reference, SHORT)
    rates = f"{percent(audited)} ÷ {percent(reference)}, {who} ÷ {other}"
    return f"Ratio of unfavourable rates: {ratio(audited / reference)} ({rates})."


def against_four_fifths(estimate: Estimate) -> str:
    """Return on which side of four fifths an adverse impact ratio lies, anywhere within its interval."""
    side = side_of(estimate.value, estimate.low, estimate.high, FOUR_FIFTHS)
    if estimate.low is None:
        return f"{side} four fifths (0.80), without an interval"
    ends = f"the interval {'includes' if side == 'inconclusive' else f'lies {side}'} four fifths (0.80)"
    return f"inconclusive, because {ends}" if side == "inconclusive" else ends


def four_fifths_words(estimate: Estimate, level: str, among: str) -> str:
    """Return the adverse impact ratio and its relation to four fifths, as a sentence."""
    side = against_four_fifths(estimate)
    return f"Adverse impact ratio{among}: {written(estimate, ratio, level)}. {side[:1].upper()}{side[1:]}."


def decision_table_words(table: DecisionTable, level: str, among: str) -> list[str]:
    """Return the tests of the 2×2 table of decisions, and how many changed decisions would change their result."""
    note = [f"{table.note[:1].upper()}{table.note[1:]}."] if table.note else []
    if table.z is None or table.z_p_value is None:
        return note
    words = (
        f"Audited vs reference{among}: {ratio(table.z)} standard deviations (z test, "
        f"{p_value(table.z_p_value)}); Fisher's exact test, {p_value(table.fisher_p_value)}"
    )
    if table.odds_ratio is not None:
        words += f"; odds ratio {written(table.odds_ratio, ratio, level)}"
    flips = (
        f"Sensitivity: at least {whole(table.ratio_flips)} decisions would have to change for the ratio to cross 0.80, "
        f"and {whole(table.z_flips)} for the z test to cross {table.critical_z:.2f}."
    )
    return [f"{words}.", flips, *note]
