"""Which parts of a summary a figure draws."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

from tiltlens.documents.labels import DRAWN, labels
from tiltlens.errors import DataError
from tiltlens.formats import label, number
from tiltlens.results.comparison import ESTIMATES
from tiltlens.rows.measures import is_favourable_mean

SHOWN = 20  # features of a chart with one row each
VALUES = 24  # values of a feature
FULL = 200  # letters of a name where a reader points at it

Record = dict[str, Any]
OPPOSITE = {"value": "value", "low": "high", "high": "low"}  # ends of 1 minus a rate


def estimate_of(comparison: Record, key: str) -> Record | None:
    """Return an estimate of a comparison by the name that gates have for it; None where it has none."""
    part: Any = comparison
    for name in ESTIMATES.get(key, key).split("."):
        part = None if part is None else part.get(name)
    return cast(Record | None, part)


def means(comparison: Record) -> tuple[float, float]:
    """Return the two means whose difference is the gap; of more than two classes, those of the favourable one."""
    output = comparison["outputs"]["means"]
    if isinstance(output["audited"], int | float):
        return float(output["audited"]), float(output["reference"])
    rates = comparison["outputs"]["rates"]
    return float(rates["audited"]["value"]), float(rates["reference"]["value"])


def mean_estimates(comparison: Record) -> dict[str, Record]:
    """Return both groups' means in the direction of the gap, with their intervals; for low scores 1 minus the rates."""
    estimates: dict[str, Record] = comparison["outputs"]["metric_rates"] or comparison["outputs"]["rates"]
    if comparison["outputs"]["metric_rates"] or is_favourable_mean(comparison):
        return estimates
    return {
        role: {end: None if (rate := estimates[role][of]) is None else 1.0 - rate for end, of in OPPOSITE.items()}
        for role in ("audited", "reference")
    }


def checks_of(comparison: Record) -> Record | None:
    """Return the overlap and calibration checks; None where there are none."""
    checks: Record | None = comparison["checks"]["balance"]
    return checks


def warnings_of(comparison: Record) -> list[str]:
    """Return the warnings about the data of a comparison."""
    return list(comparison["checks"]["notes"])


def by_gap(summary: Record) -> Record:
    """Return the summary with those first who surely fare worse than the reference; the widest gaps before others."""
    widest = sorted(summary["comparisons"].items(), key=lambda pair: -abs(pair[1]["gap"]["value"]))
    return summary | {"comparisons": dict(sorted(widest, key=lambda pair: not fares_worse(pair[1])))}


def fares_worse(c: Record) -> bool:
    """Return whether the audited group surely has less of what a person wants; unobserved groups have no shortfall."""
    shortfall = c["shortfall"] or {"value": 0.0, "low": None}
    return bool((shortfall["value"] if shortfall["low"] is None else shortfall["low"]) > 0.0)


def features(comparison: Record, limit: int | None = SHOWN, longest: int = DRAWN) -> list[Record]:
    """Return the table of proxy evidence, strongest first, each row with a label that can be drawn and a full name."""
    rows = comparison["contributions"][:limit]
    texts = labels((row["feature"] for row in rows), longest)
    return [row | {"label": text, "full": label(row["feature"], FULL)} for row, text in zip(rows, texts, strict=True)]


def profile_of(comparison: Record, feature: str) -> list[Record]:
    """Return the values of a feature in their order, each with a label that can be drawn."""
    found = comparison["bins"]["profiles"]
    if feature not in found:
        names = [label(name) for name in list(found)[:SHOWN]]
        raise DataError(f"`feature` must be one of the audit's features, got {label(feature)!r}.", f"they are {names}.")
    values = found[feature]["values"][:VALUES]
    texts = labels(value["value"] for value in values)
    return [
        value | {"label": text, "full": label(value["value"], FULL)} for value, text in zip(values, texts, strict=True)
    ]


def values_shown(comparison: Record, feature: str) -> str:
    """Return how many values of a feature are shown, where not all are."""
    count = len(comparison["bins"]["profiles"][feature]["values"])
    return f"the first {VALUES} of {count} values" if count > VALUES else ""


def dial_place(comparison: Record, position_index: int | None = None) -> int:
    """Return a place on the dial, by default the nearest to the audit's own λ4/(λ2 + λ4).

    Only the first exists where outputs cannot be aligned.
    """
    last = max(len(comparison["bins"]["tradeoff"]) - 1, 0)
    if position_index is not None:
        if not isinstance(position_index, int) or position_index < 0:
            raise DataError(
                f"`position_index` must be a place on the dial, got {position_index!r}.", "10 is its middle."
            )
        return min(position_index, last)
    correction = comparison["correction"]["numbers"] or {}
    inputs, outputs = (correction.get(name, 1.0) for name in ("input_weight", "output_weight"))
    largest = max(inputs, outputs)  # weights may be as large as floats go
    share = outputs / largest / (inputs / largest + outputs / largest) if largest else 0.5
    positions = [one["position"] for one in comparison["bins"]["tradeoff"]]
    return min(range(len(positions)), key=lambda place: abs(positions[place] - share), default=0)


def dial_words(comparison: Record, place: int) -> str:
    """Return where the dial stands; nothing where there is no dial."""
    dial = comparison["bins"]["tradeoff"]
    return f"dial at {number(dial[place]['position'], 2)} (0 aligns inputs, 1 aligns outputs)" if dial else ""


def span(values: list[float], room: float = 0.06, least: float = 1e-6) -> list[float]:
    """Return a domain that holds the values with room to spare; one around 0 where there are none."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    reach = max(high - low, least)
    return [low - room * reach, high + room * reach]


def steps(low: float, high: float, count: int) -> list[tuple[float, float]]:
    """Return the edges of equal bins, free of the noise of repeated sums."""
    edges = [round(low + (high - low) * place / count, 10) for place in range(count + 1)]
    return list(pairwise(edges))
