"""The ratio of two rates in words; "impact ratio" is what published rules call a rate ÷ the highest of all groups."""

from __future__ import annotations

from typing import Any

from tiltlens.formats import interval, interval_name, p_value, ratio, signed, whole
from tiltlens.limits import FOUR_FIFTHS
from tiltlens.rows.measures import measure_of


def is_of_decisions(audit: dict[str, Any]) -> bool:
    """Return whether decisions were audited: four fifths is a line for their rates, not for scores."""
    return bool(audit["channel"] == "decisions")


def ratio_name(audit: dict[str, Any]) -> str:
    """Return what the ratio of the two favourable rates is called."""
    return "rate ratio" if is_of_decisions(audit) else measure_of(audit).ratio


def unfavourable_words(c: dict[str, Any]) -> str:
    """Return the ratio of unfavourable rates, which tells more where favourable ones are near 1."""
    audited, reference = (1.0 - c["favourable_rates"][who]["value"] for who in ("audited", "reference"))
    return (
        "" if measure_of(c).unit == "units" or reference <= 0.0 else f"unfavourable rates {ratio(audited / reference)}"
    )


def against_four_fifths(found: dict[str, Any]) -> str:
    """Return on which side of four fifths the lower ÷ higher rate lies, anywhere within its interval."""
    if found["low"] is None or found["high"] is None:
        side = "below" if found["value"] < FOUR_FIFTHS else "not below"
        return f"{side} 0.80; no interval"
    if found["high"] < FOUR_FIFTHS:
        return "below 0.80"
    return "above 0.80" if found["low"] > FOUR_FIFTHS else "cannot be told from 0.80"


def four_fifths_words(found: dict[str, Any], confidence: float, among: str = "") -> str:
    """Return the lower ÷ higher rate and its relation to four fifths, as a sentence; `among` says of whom alone."""
    ends = (
        "" if found["low"] is None else f" ({interval_name(confidence)} {interval(found['low'], found['high'], ratio)})"
    )
    start = f"The lower rate of decisions{among.removeprefix(',')} is {ratio(found['value'])} of the higher{ends}"
    return f"{start}: {against_four_fifths(found)}."


def two_by_two_words(found: dict[str, Any], confidence: float, among: str = "") -> list[str]:
    """Return what the 2×2 table of decisions says: how far apart, how easily by chance, and what would flip that."""
    note = [f"{found['note'][:1].upper()}{found['note'][1:]}."] if found["note"] else []
    if found["z"] is None:
        return note
    odds = found["odds_ratio"]
    words = (
        f"Audited against reference{among}: {signed(found['z'], 2)} standard deviations (z test, "
        f"{p_value(found['z_p_value'])}); Fisher's exact test, {p_value(found['fisher_p_value'])}"
    )
    if odds is not None:
        ends = f"{interval_name(confidence)} {interval(odds['low'], odds['high'], ratio)}"
        words += f"; odds ratio {ratio(odds['value'])} ({ends})"
    flips = (
        f"Fewest changed decisions that would flip it: {whole(found['z_flips'])} to pass "
        f"{found['critical_z']:.2f} standard deviations, {whole(found['ratio_flips'])} to pass four fifths."
    )
    return [f"{words}.", flips, *note]
