"""The ratio of two rates in words: of decisions it stands beside four fifths, of scores it does not."""

from __future__ import annotations

from typing import Any

from tiltlens.views.formats import interval, interval_name, ratio

FOUR_FIFTHS = 0.8


def is_of_decisions(audit: dict[str, Any]) -> bool:
    """Return whether decisions were audited: of scores there is no adverse impact ratio."""
    return bool(audit["channel"] == "decisions")


def ratio_name(audit: dict[str, Any]) -> str:
    """Return what the ratio of the two favourable rates is called."""
    return "impact ratio" if is_of_decisions(audit) else "ratio of mean scores"


def against_four_fifths(found: dict[str, Any]) -> str:
    """Return on which side of four fifths an adverse impact ratio lies, anywhere within its interval."""
    if found["low"] is None or found["high"] is None:
        side = "below" if found["value"] < FOUR_FIFTHS else "not below"
        return f"{side} 0.80; no interval"
    if found["high"] < FOUR_FIFTHS:
        return "below 0.80"
    return "above 0.80" if found["low"] > FOUR_FIFTHS else "cannot be told from 0.80"


def four_fifths_words(found: dict[str, Any], confidence: float) -> str:
    """Return the adverse impact ratio and its relation to four fifths, as a sentence."""
    ends = (
        "" if found["low"] is None else f" ({interval_name(confidence)} {interval(found['low'], found['high'], ratio)})"
    )
    return f"The lower rate of decisions is {ratio(found['value'])} of the higher{ends}: {against_four_fifths(found)}."
