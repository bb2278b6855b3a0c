"""Codes of joint values: several features as one."""

from __future__ import annotations

import numpy as np

from tiltlens.estimators.influence import Integers

CODES_A_ROW = 8  # values that may be counted for each row, rather than sorted
COUNTED_CODES = 1 << 16  # values that may be counted however few rows have them


def joint_codes(codes: Integers) -> tuple[Integers, Integers]:
    """Return a cell number for each row of codes, and the codes of each cell."""
    key: Integers = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        # Numbered anew after each column, codes stay below rows × values, whatever the number of columns.
        _, key = factorize_ints(key * (int(column.max()) + 1) + column)
    first = np.zeros(int(key.max()) + 1, dtype=np.intp)
    # The last write wins: in reverse order that is the first row of each cell.
    first[key[::-1]] = np.arange(len(codes))[::-1]
    return key, codes[first]


def factorize_ints(values: Integers) -> tuple[Integers, Integers]:
    """Return the distinct values in order, and the index of each among them; small values are counted, not sorted."""
    most = int(values.max(initial=0)) + 1
    if most > max(CODES_A_ROW * len(values), COUNTED_CODES):
        return np.unique(values, return_inverse=True)
    occurs = np.bincount(values, minlength=most) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1).take(values)
