"""Validation at the edge of `theory`: each check returns clean arrays or says what is wrong and where."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltmeter.errors import DistributionError, TiltmeterError, WeightsError

Floats = NDArray[np.float64]
Weights = tuple[float, float, float, float]

SUM_TOLERANCE = 1e-8
SMALLEST_PROBABILITY = 1e-300  # anything smaller overflows in a ratio and counts as zero


def check_array(name: str, values: ArrayLike, dimensions: tuple[int, ...] = (1,)) -> Floats:
    """Return `values` as a finite float array with one of the given numbers of dimensions."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DistributionError(
            f"`{name}` must be an array of numbers, got {type(values).__name__}.",
            f"convert it first, e.g. numpy.asarray(…, dtype=float) ({error}).",
        ) from None
    if array.ndim not in dimensions:
        allowed = " or ".join(str(d) for d in dimensions)
        raise DistributionError(
            f"`{name}` must have {allowed} dimension(s), got shape {array.shape}.",
            "one entry (or row) per atom.",
        )
    if array.size == 0:
        raise DistributionError(f"`{name}` must not be empty, got shape {array.shape}.", "give at least one atom.")
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0]
        raise DistributionError(
            f"`{name}` must be finite, got {array[tuple(place)]} at position {_place(place)}.",
            "remove or fill missing and infinite values first.",
        )
    return array


def check_distribution(name: str, values: ArrayLike) -> Floats:
    """Return `values` as a probability vector that sums to 1 exactly."""
    array = check_array(name, values)
    if (array < 0).any():
        place = int(np.argmin(array))
        raise DistributionError(
            f"`{name}` must not be negative, got {array[place]} at position {place}.",
            "probabilities lie between 0 and 1.",
        )
    total = float(array.sum())
    if abs(total - 1) > SUM_TOLERANCE:
        raise DistributionError(
            f"`{name}` must sum to 1, got a sum of {total!r}.",
            f"divide by the sum if these are counts: {name} / {name}.sum().",
        )
    probabilities: Floats = np.where(array < SMALLEST_PROBABILITY, 0.0, array)
    probabilities /= probabilities.sum()
    return probabilities


def check_same_length(**arrays: Floats) -> None:
    """Raise unless all arrays have as many entries as the first."""
    (first, reference), *others = arrays.items()
    for name, array in others:
        if len(array) != len(reference):
            raise DistributionError(
                f"`{name}` must be as long as `{first}`, got {len(array)} and {len(reference)} entries.",
                "both describe the same atoms, in the same order.",
            )


def check_channel(name: str, values: ArrayLike) -> Floats:
    """Return a channel as an (n, K) matrix W(y|x); (n,) is read as W(1|x)."""
    array = check_array(name, values, dimensions=(1, 2))
    if array.ndim == 2 and array.shape[1] < 2:
        raise DistributionError(
            f"`{name}` must have at least two outcomes, got K = {array.shape[1]} column(s).",
            "for a binary model pass the one-dimensional W(1|x).",
        )
    if (array < 0).any() or (array > 1).any():
        place = np.argwhere((array < 0) | (array > 1))[0]
        raise DistributionError(
            f"`{name}` must lie in [0, 1], got {array[tuple(place)]} at position {_place(place)}.",
            "pass probabilities, not log-odds, scores out of 100 or labels.",
        )
    if array.ndim == 1:
        return np.column_stack([1.0 - array, array])
    totals = array.sum(axis=1)
    if (np.abs(totals - 1) > SUM_TOLERANCE).any():
        place = int(np.argmax(np.abs(totals - 1)))
        raise DistributionError(
            f"each row of `{name}` must sum to 1, got a sum of {totals[place]} in row {place}.",
            "the columns are the probabilities of the K outcomes.",
        )
    rows: Floats = array / totals[:, None]
    return rows


def check_weights(weights: Any) -> Weights:
    """Return λ = (λ1, λ2, λ3, λ4) as floats, not negative, finite, not all zero."""
    values = np.asarray(weights, dtype=np.float64) if np.ndim(weights) == 1 else np.empty(0)
    if values.shape != (4,):
        raise WeightsError(
            f"`weights` must be four numbers (λ1, λ2, λ3, λ4), got {weights!r}.",
            "for example (0, 1, 0, 1) aligns inputs and outputs with equal weight.",
        )
    if not np.isfinite(values).all() or (values < 0).any():
        raise WeightsError(f"`weights` must be finite and not negative, got {weights!r}.", "leave a term out with a 0.")
    if not values.any():
        raise WeightsError(f"`weights` must not all be zero, got {weights!r}.", "try (0, 1, 0, 1).")
    l1, l2, l3, l4 = values.tolist()
    return l1, l2, l3, l4


def check_weight(name: str, value: float) -> float:
    """Return one weight as a finite float that is not negative."""
    if not np.isfinite(value) or value < 0:
        raise WeightsError(f"`{name}` must be finite and not negative, got {value!r}.", "leave a term out with a 0.")
    return float(value)


def direction_weights(input_weight: float, output_weight: float) -> tuple[float, float, float]:
    """Return λ2 and λ4 divided by their sum, and the sum: a direction does not depend on it, but underflow does."""
    total = (input_weight + output_weight) or 1.0
    return input_weight / total, output_weight / total, total


def check_probability(name: str, value: float) -> float:
    """Return a number strictly between 0 and 1."""
    if not 0 < value < 1:
        raise TiltmeterError(f"`{name}` must lie strictly between 0 and 1, got {value!r}.", "0.05 is usual.")
    return float(value)


def _place(index: NDArray[np.intp]) -> int | tuple[int, ...]:
    return int(index[0]) if len(index) == 1 else tuple(int(i) for i in index)
