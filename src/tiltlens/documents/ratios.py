"""The ratio of two rates in sentences."""

from __future__ import annotations

from tiltlens.analysis.decision_table import DecisionTable
from tiltlens.documents.measures import Result, measure_of
from tiltlens.documents.quantities import written
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.verdicts import side_of
from tiltlens.formats import p_value, ratio, whole
from tiltlens.limits import FOUR_FIFTHS
from tiltlens.results.comparison import Comparison


def is_of_decisions(result: Result) -> bool:
    """Return whether decisions were audited: four fifths is a line for their rates, not for scores."""
    return measure_of(result).each == "decision"


def unfavourable_words(c: Comparison) -> str:
    """Return the ratio of unfavourable rates, which says more where favourable ones are near 1."""
    audited, reference = (1.0 - rate.value for rate in c.outputs.rates)
    is_defined = not measure_of(c).is_amount and reference > 0.0
    return f"Ratio of unfavourable rates: {ratio(audited / reference)}." if is_defined else ""


def against_four_fifths(estimate: Estimate) -> str:
    """Return on which side of four fifths an adverse impact ratio lies, anywhere within its interval."""
    side = side_of(estimate.value, estimate.low, estimate.high, FOUR_FIFTHS)
    text = "inconclusive against 0.80" if side == "inconclusive" else f"{side} 0.80"
    return text if estimate.low is not None else f"{text}, without an interval"


def four_fifths_words(estimate: Estimate, level: str, among: str) -> str:
    """Return the adverse impact ratio and its relation to four fifths, as a sentence."""
    return f"Adverse impact ratio{among}: {written(estimate, ratio, level)}, {against_four_fifths(estimate)}."


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
        f"Sensitivity: {whole(table.ratio_flips)} changed decisions would move the ratio across 0.80; "
        f"{whole(table.z_flips)} would move the z test across {table.critical_z:.2f}."
    )
    return [f"{words}.", flips, *note]
