"""Validation at the edge of `paper`: each check returns clean values or raises an error with the invalid one.

And what all of its modules share: the types of its arrays, and log-ratios that are 0 where only rounding differs.
"""

from __future__ import annotations

import math
import numbers

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltlens._limits import EQUAL, LARGEST
from tiltlens.errors import DataError, DistributionError, TiltlensError, WeightsError

SUM_TOLERANCE = 1e-8  # largest deviation of a sum of probabilities from 1
SINGLE_TOLERANCE = 1e-5  # the same for numbers in single precision
SMALLEST_PROBABILITY = 1e-300  # smaller numbers would overflow in ratios and are set to zero
Floats = NDArray[np.float64]
Weights = tuple[float, float, float, float]
CUT = "for example 0.5: a decision is 1 where the score is at least the threshold."


def check_array(name: str, values: ArrayLike, dimensions: tuple[int, ...] = (1,)) -> Floats:
    """Return `values` as a finite float array with one of the given numbers of dimensions."""
    try:
        if np.ma.is_masked(values):
            raise ValueError("masked entries")
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
        index = np.argwhere(~np.isfinite(array))[0]
        raise DistributionError(
            f"`{name}` must be finite, got {array[tuple(index)]} at position {_position(index)}.",
            "remove or fill missing and infinite values first.",
        )
    if np.abs(array).max() > LARGEST:
        raise DistributionError(
            f"`{name}` must stay below {LARGEST:g} in size, got {array.flat[int(np.argmax(np.abs(array)))]}.",
            "rescale the numbers.",
        )
    return array


def _tolerance(values: ArrayLike) -> float:
    return SINGLE_TOLERANCE if getattr(values, "dtype", None) == np.float32 else SUM_TOLERANCE


def check_distribution(name: str, values: ArrayLike) -> Floats:
    """Return `values` as a probability vector, normalised to sum to 1."""
    array = check_array(name, values)
    if (array < 0).any():
        index = int(np.argmin(array))
        raise DistributionError(
            f"`{name}` must not be negative, got {array[index]} at position {index}.",
            "probabilities lie between 0 and 1.",
        )
    total = float(array.sum())
    if abs(total - 1) > _tolerance(values):
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
    slack = 0.0 if _tolerance(values) == SUM_TOLERANCE else SINGLE_TOLERANCE
    if (array < -slack).any() or (array > 1 + slack).any():
        index = np.argwhere((array < -slack) | (array > 1 + slack))[0]
        raise DistributionError(
            f"`{name}` must lie in [0, 1], got {array[tuple(index)]} at position {_position(index)}.",
            "pass probabilities, not log-odds, scores out of 100 or labels.",
        )
    array = np.where(array < SMALLEST_PROBABILITY, 0.0, np.minimum(array, 1.0))
    if array.ndim == 1:
        return np.column_stack([1.0 - array, array])
    totals = array.sum(axis=1)
    if (np.abs(totals - 1) > _tolerance(values)).any():
        index = int(np.argmax(np.abs(totals - 1)))
        raise DistributionError(
            f"each row of `{name}` must sum to 1, got a sum of {totals[index]} in row {index}.",
            "the columns are the probabilities of the K outcomes.",
        )
    rows: Floats = array / totals[:, None]
    return rows


def check_weights(weights: ArrayLike) -> Weights:
    """Return λ = (λ1, λ2, λ3, λ4) as finite, non-negative floats, at least one of which is positive."""
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (4,):
        raise WeightsError(
            f"`weights` must be four numbers (λ1, λ2, λ3, λ4), got {weights!r}.",
            "for example (0, 1, 0, 1) aligns inputs and outputs with equal weight.",
        )
    if not np.isfinite(values).all() or (values < 0).any() or values.max() > LARGEST:
        raise WeightsError(
            f"`weights` must be finite and not negative, and below {LARGEST:g}, got {weights!r}.",
            "leave a term out with a 0.",
        )
    if not values.any():
        raise WeightsError(f"`weights` must not all be zero, got {weights!r}.", "try (0, 1, 0, 1).")
    l1, l2, l3, l4 = values.tolist()
    return l1, l2, l3, l4


def check_weight(name: str, value: float) -> float:
    """Return one weight as a finite, non-negative float."""
    number = check_number(name, value)
    if number < 0 or number > LARGEST:
        raise WeightsError(
            f"`{name}` must be finite and not negative, and below {LARGEST:g}, got {value!r}.",
            "leave a term out with a 0.",
        )
    return number


def direction_weights(input_weight: float, output_weight: float) -> tuple[float, float, float]:
    """Return λ2 and λ4 divided by their sum, and the sum: directions do not depend on it, and underflow is avoided."""
    total = (input_weight + output_weight) or 1.0
    return input_weight / total, output_weight / total, total


def check_probability(name: str, value: float) -> float:
    """Return a number strictly between 0 and 1."""
    number = check_number(name, value)
    if not 0 < number < 1:
        hint = f"did you mean {number / 100:g}?" if 1 < number < 100 else "for example 0.05 or 0.95."
        raise TiltlensError(f"`{name}` must be between 0 and 1, got {number:g}.", hint)
    return number


def check_share(name: str, value: object, hint: str) -> float:
    """Return a number in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < 1:
        raise DataError(f"`{name}` must be a number from 0 to below 1, got {value!r}.", hint)
    return float(value)


def check_threshold(value: object, *, below_one: bool = False, name: str = "threshold", hint: str = CUT) -> float:
    """Return a threshold in (0, 1], or in (0, 1) if `below_one`."""
    number = math.nan if isinstance(value, bool) or not isinstance(value, numbers.Real) else float(value)
    if not 0 < number <= 1 or (below_one and number == 1):
        raise DataError(
            f"`{name}` must be a number above 0 and {'below' if below_one else 'at most'} 1, got {value!r}.", hint
        )
    return number


def check_number(name: str, value: object) -> float:
    """Return one finite number as a float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise TiltlensError(f"`{name}` must be a finite number, got {value!r}.", "give one plain number.")
    return float(value)


def _position(index: NDArray[np.intp]) -> int | tuple[int, ...]:
    return int(index[0]) if len(index) == 1 else tuple(int(i) for i in index)


def check_row_weights(weights: ArrayLike, rows: int) -> Floats:
    """Return row weights as a float array: finite, non-negative, one per row."""
    w = check_array("weights", weights)
    if len(w) != rows:
        raise DistributionError(
            f"`weights` must have one entry for each row, got {len(w)} for {rows} rows.", "one weight a row."
        )
    if (w < 0).any():
        index = int(np.argmin(w))
        raise DistributionError(
            f"`weights` must not be negative, got {w[index]} in row {index}.",
            "drop rows with a weight of 0 instead.",
        )
    return w


def check_outcomes(y: ArrayLike, outcomes: int) -> NDArray[np.intp]:
    """Return outcomes as indices 0 … K−1."""
    values = np.asarray(y)
    if not np.isin(values, np.arange(outcomes)).all():
        raise DataError(f"`y` must be outcomes from 0 to {outcomes - 1}, got {y!r}.", "count outcomes from 0.")
    return values.astype(np.intp)


def log_ratio(q: Floats, p: Floats) -> Floats:
    """Return log(q/p), exactly 0 where q and p differ by rounding only."""
    equal = np.abs(q - p) <= EQUAL * np.maximum(q, p)
    ratio: Floats = np.log(q / p)
    ratio[equal] = 0.0
    return ratio
