"""Numbers and dates cut at quantiles, into bins that read well."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltlens.paper.checks import Floats
from tiltlens.sources.messages import text_of

EDGE_ERROR = 0.05  # of the narrower bin beside it, by which an edge may be rounded
WEIGHT_ROUNDING = 1e-9  # of a sum of weights


def quantile_bins(
    edges: Floats, is_date: bool, is_whole: bool, smallest: float, largest: float
) -> tuple[Floats, list[str]]:
    """Return quantiles as edges that read well, and the labels of the bins between them."""
    if not is_whole:
        edges = _whole_days(edges) if is_date else _rounded(edges, smallest, largest)
    return edges, _bin_labels(edges, smallest, is_whole, _day_text if is_date else text_of)


def counted_edges(numbers: Floats, people: NDArray[np.integer[Any]], weights: Floats | None, bins: int) -> Floats:
    """Return the distinct inner quantiles of sorted, distinct numbers that so many people have."""
    if weights is not None:
        return quantile_edges(numbers, weights, bins)
    steps, total = np.arange(1, bins), np.cumsum(people)
    ranks = np.ceil(steps * int(total[-1]) / bins).astype(np.int64) - 1
    return _inner_edges(numbers, numbers[np.searchsorted(total, ranks, side="right")])


def quantile_edges(numbers: Floats, weights: Floats | None, bins: int) -> Floats:
    """Return the distinct inner quantiles, each a value that occurs, below the largest."""
    steps = np.arange(1, bins)
    if weights is None:
        ranks = np.ceil(steps * numbers.size / bins).astype(np.int64) - 1
        quantiles = np.partition(numbers, ranks)[ranks]
    else:
        order = np.argsort(numbers, kind="stable")
        total = np.cumsum(weights[order])
        # A sum of weights may fall short of its quantile by rounding.
        reached = (1.0 - WEIGHT_ROUNDING) * total[-1] / bins
        quantiles = numbers[order][np.searchsorted(total, steps * reached)]
    return _inner_edges(numbers, quantiles)


def _inner_edges(numbers: Floats, quantiles: Floats) -> Floats:
    largest = numbers.max()
    edges = np.unique(quantiles[quantiles < largest])
    return edges if edges.size else np.array([numbers[numbers < largest].max()])


def _rounded(edges: Floats, smallest: float, largest: float) -> Floats:
    """Return the edges with as few digits as leave the bins what they were, so that labels are exact."""
    fenced = np.concatenate([[smallest], edges, [largest]])
    gaps = np.diff(fenced)
    room = EDGE_ERROR * np.minimum(gaps[:-1], gaps[1:])
    return np.unique([_shortest(edge, allowed) for edge, allowed in zip(edges.tolist(), room.tolist(), strict=True)])


def _shortest(edge: float, allowed: float) -> float:
    if allowed > 0:
        start = int(np.floor(-np.log10(allowed))) - 1
        for digits in range(start, start + 4):
            candidate = round(edge, digits) + 0.0  # no −0
            if abs(candidate - edge) <= allowed:
                return candidate
    return edge


def _whole_days(edges: Floats) -> Floats:
    """Return edges of times as whole days where these stay apart."""
    days = np.floor(edges)
    return days if np.unique(days).size == days.size else edges


def _day_text(days: float) -> str:
    moment = datetime(1970, 1, 1) + timedelta(days=float(days))
    return moment.isoformat(sep=" ", timespec="seconds").removesuffix(" 00:00:00")


def _bin_labels(edges: Floats, smallest: float, is_whole: bool, text: Callable[[float], str]) -> list[str]:
    """Return "≤ 3", "4 to 7", "> 7"; whole numbers name the values inside, others the edges."""
    first = text(edges[0]) if smallest == edges[0] else f"≤ {text(edges[0])}"
    inner = []
    for low, high in pairwise(edges.tolist()):
        start = low + 1 if is_whole else low
        inner.append(text(high) if is_whole and start == high else f"{text(start)} to {text(high)}")
    return [first, *inner, f"> {text(edges[-1])}"]
