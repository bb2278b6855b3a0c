"""How many decisions would have to change for a finding about two groups to change."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator

from tiltlens.estimators.decision_table import Count, z_score
from tiltlens.estimators.estimate import quantile
from tiltlens.limits import NOISE

Finding = Callable[[Count, Count], bool]


def ratio_flips(group: Count, highest: Count, threshold: float) -> int:
    """Return the fewest changed decisions after which the ratio lies on the other side of the threshold."""
    return _fewest(group, highest, lambda flipped, top: flipped.rate < (threshold - NOISE) * top.rate)


def z_flips(group: Count, highest: Count, confidence: float) -> int:
    """Return the fewest changed decisions after which z lies on the other side of −z(confidence), such as −1.96."""
    critical = quantile(confidence)
    return _fewest(group, highest, lambda flipped, top: (z_score(flipped, top) or 0.0) <= -critical)


def _fewest(group: Count, highest: Count, is_found: Finding) -> int:
    """Return the fewest changes that make or unmake a finding which a lower first rate and a higher second one favour.

    One change more can only help, so the number is found by bisection.
    """
    was_found = is_found(group, highest)
    up = 1 if was_found else -1
    rooms = (
        (group.size - group.counted, highest.counted) if was_found else (group.counted, highest.size - highest.counted)
    )

    def is_enough(flips: int) -> bool:
        return any(is_found(*changed) != was_found for changed in _changed(group, highest, up, flips, rooms))

    return bisect_left(range(sum(rooms)), True, key=is_enough)


def _changed(
    group: Count, highest: Count, up: int, flips: int, rooms: tuple[int, int]
) -> Iterator[tuple[Count, Count]]:
    """Yield the ways to share changes among the groups that may be the best: all in one group, or where |z| is least.

    With x of n and y = x + d of n1 counted, |z| ∝ |x/n − y/n1|/√((x + y)(N − x − y)) is quasi-convex in x; where its
    slope is 0 solves a linear equation.
    """
    least, most = max(0, flips - rooms[1]), min(flips, rooms[0])
    n, n1 = group.size, highest.size
    d, N = highest.counted - group.counted - up * flips, n + n1
    slope = (1 / n - 1 / n1) * (N - 2 * d) - 4 * d / n1
    best = up * (d * (d / n1 - (N - d) / n) / slope - group.counted) if slope else least
    for share in {least, most, *(min(max(whole(best), least), most) for whole in (math.floor, math.ceil))}:
        yield Count(n, group.counted + up * share), Count(n1, highest.counted - up * (flips - share))
