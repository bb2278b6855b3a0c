"""The ratio of two rates in sentences."""

from __future__ import annotations

from typing import Any

from tiltlens.estimators.verdicts import side_of
from tiltlens.formats import interval_name, p_value, ratio, whole, with_interval
from tiltlens.limits import FOUR_FIFTHS
from tiltlens.rows.measures import measure_of


def is_of_decisions(audit: dict[str, Any]) -> bool:
    """Return whether decisions were audited: four fifths is a line for their rates, not for scores."""
    return measure_of(audit).each == "decision"


def unfavourable_words(c: dict[str, Any]) -> str:
    """Return the ratio of unfavourable rates, which says more where favourable ones are near 1."""
    audited, reference = (1.0 - c["outputs"]["rates"][who]["value"] for who in ("audited", "reference"))
    is_defined = not measure_of(c).is_amount and reference > 0.0
    return f"Ratio of unfavourable rates: {ratio(audited / reference)}." if is_defined else ""


def against_four_fifths(estimate: dict[str, Any]) -> str:
    """Return on which side of four fifths an adverse impact ratio lies, anywhere within its interval."""
    side = side_of(**estimate, line=FOUR_FIFTHS)
    text = "inconclusive against 0.80" if side == "inconclusive" else f"{side} 0.80"
    return text if estimate["low"] is not None else f"{text}, without an interval"


def four_fifths_words(estimate: dict[str, Any], confidence: float | None, among: str = "") -> str:
    """Return the adverse impact ratio and its relation to four fifths, as a sentence."""
    shown = with_interval(**estimate, shown=ratio, name=interval_name(confidence))
    return f"Adverse impact ratio{among}: {shown}, {against_four_fifths(estimate)}."


def decision_table_words(table: dict[str, Any], confidence: float | None, among: str = "") -> list[str]:
    """Return the tests of the 2×2 table of decisions, and how many changed decisions would change their result."""
    note = [f"{table['note'][:1].upper()}{table['note'][1:]}."] if table["note"] else []
    if table["z"] is None:
        return note
    words = (
        f"Audited vs reference{among}: {ratio(table['z'])} standard deviations (z test, "
        f"{p_value(table['z_p_value'])}); Fisher's exact test, {p_value(table['fisher_p_value'])}"
    )
    if table["odds_ratio"] is not None:
        words += f"; odds ratio {with_interval(**table['odds_ratio'], shown=ratio, name=interval_name(confidence))}"
    flips = (
        f"Sensitivity: {whole(table['ratio_flips'])} changed decisions would move the ratio across 0.80; "
        f"{whole(table['z_flips'])} would move the z test across {table['critical_z']:.2f}."
    )
    return [f"{words}.", flips, *note]
