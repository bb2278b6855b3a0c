"""Which parts of a comparison a figure draws, and the room they need."""

from __future__ import annotations

from itertools import pairwise

from tiltlens.analysis.bins import ValueProfile
from tiltlens.documents.labels import DRAWN, labels
from tiltlens.errors import DataError
from tiltlens.formats import label, number
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import Contribution

SHOWN = 20  # features of a chart with one row each
VALUES = 24  # values of a feature
FULL = 200  # letters of a name where a reader points at it


def features(c: Comparison, limit: int | None = SHOWN, longest: int = DRAWN) -> list[tuple[str, Contribution]]:
    """Return the contributions of features, strongest first, each with a label that can be drawn."""
    rows = c.by_feature[:limit]
    return [*zip(labels((row.feature for row in rows), longest), rows, strict=True)]


def profile_of(c: Comparison, feature: str) -> list[tuple[str, ValueProfile]]:
    """Return the values of a feature in their order, each with a label that can be drawn."""
    profiles = c.bins().profiles
    if feature not in profiles:
        names = [label(name) for name in list(profiles)[:SHOWN]]
        raise DataError(f"`feature` must be one of the audit's features, got {label(feature)!r}.", f"they are {names}.")
    values = profiles[feature].values[:VALUES]
    return [*zip(labels(value.value for value in values), values, strict=True)]


def values_shown(c: Comparison, feature: str) -> str:
    """Return how many values of a feature are shown, where not all are."""
    count = len(c.bins().profiles[feature].values)
    return f"the first {VALUES} of {count} values" if count > VALUES else ""


def dial_place(c: Comparison, position_index: int | None = None) -> int:
    """Return a place on the dial, by default the nearest to the audit's own λ4/(λ2 + λ4).

    Only the first exists where outputs cannot be aligned.
    """
    last = max(len(c.bins().tradeoff) - 1, 0)
    if position_index is not None:
        if not isinstance(position_index, int) or position_index < 0:
            raise DataError(
                f"`position_index` must be a position of the weighting slider, got {position_index!r}.",
                "10 is its middle.",
            )
        return min(position_index, last)
    numbers = c.correction.numbers or {}
    inputs, outputs = (
        1.0 if (part := numbers.get(name)) is None else part for name in ("input_weight", "output_weight")
    )
    largest = max(inputs, outputs)  # weights may be as large as floats go
    share = outputs / largest / (inputs / largest + outputs / largest) if largest else 0.5
    positions = [point.position for point in c.bins().tradeoff]
    return min(range(len(positions)), key=lambda place: abs(positions[place] - share), default=0)


def dial_words(c: Comparison, place: int) -> str:
    """Return where the dial stands; nothing where there is no dial."""
    dial = c.bins().tradeoff
    return f"weighting slider at {number(dial[place].position, 2)} (0 aligns inputs, 1 aligns outputs)" if dial else ""


def span(values: list[float], room: float = 0.06, least: float = 1e-6) -> list[float]:
    """Return a domain that holds the values with room to spare; one around 0 where there are none."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    reach = max(high - low, least)
    return [low - room * reach, high + room * reach]


def steps(low: float, high: float, count: int) -> list[tuple[float, float]]:
    """Return the edges of equal bins, free of the noise of repeated sums."""
    edges = [round(low + (high - low) * place / count, 10) for place in range(count + 1)]
    return list(pairwise(edges))
