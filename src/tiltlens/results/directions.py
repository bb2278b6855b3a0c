"""Which way a feature points, in words."""

from __future__ import annotations

import numpy as np

from tiltlens.estimators.estimate import NOISE, Integers
from tiltlens.estimators.feature_gap import Cells
from tiltlens.models.features import Feature
from tiltlens.paper.checks import Floats
from tiltlens.results.disclosure import SUPPRESSED_BELOW


def direction(feature: Feature, cell: Cells, plain: Feature, audited: str, people: tuple[Integers, Integers]) -> str:
    """Return in words how the score and the group follow the feature; `people` are both groups' by level.

    Nothing is said of levels with fewer than ten people of a group, unless nobody has them.
    """
    used = cell.p0 > 0
    if used.sum() < 2:
        return f"does not vary among {audited}"
    if np.ptp(cell.means[used]) < NOISE:
        return "the score does not follow it"
    if np.abs(cell.p0 - cell.p1).max() < NOISE:
        return "equally common in both groups"
    if plain.kind in ("numeric", "date"):
        level = np.arange(len(cell.p0), dtype=np.float64)
        higher = _trend(cell.p0, level, cell.means) > 0
        commoner = float(cell.p0 @ level) > float(cell.p1 @ level)
        return (
            f"more {feature.name} → {'higher' if higher else 'lower'} score, and "
            f"{'more' if commoner else 'less'} common among {audited}"
        )
    told = used & ~np.any([(n > 0) & (n < SUPPRESSED_BELOW) for n in people], axis=0)[: len(used)]
    if not told.any():
        return "too few people have each of its levels to describe one"
    pull = (cell.p0 - cell.p1) * cell.means
    top = int(np.argmax(np.where(told, np.abs(pull), -1.0)))
    return (
        f"{feature.name} = {plain.labels[top]} → {'higher' if cell.means[top] > 0 else 'lower'} score, and "
        f"{'more' if cell.p0[top] > cell.p1[top] else 'less'} common among {audited}"
    )


def _trend(weight: Floats, x: Floats, y: Floats) -> float:
    share_of = weight / weight.sum()
    return float(share_of @ ((x - share_of @ x) * (y - share_of @ y)))
