"""Which way a feature points, in words."""

from __future__ import annotations

import numpy as np

from tiltlens.analysis.evidence import Evidence
from tiltlens.analysis.presentation import output_measure
from tiltlens.limits import NOISE, SUPPRESSED_BELOW
from tiltlens.paper.checks import Floats
from tiltlens.rows.features import Feature


def direction(evidence: Evidence, feature: Feature, part: float | None = None) -> str:
    """Return in words how the score and the group follow the feature.

    It is a way of the feature's `part` in the gap: what goes the other way is not named. Nothing is said of levels with
    fewer than ten people of a group, unless nobody has them.
    """
    rows, w, codes = evidence.sample, evidence.score.column, feature.codes
    p0, p1 = _filled(rows.sums0(codes), feature), _filled(rows.sums1(codes), feature)
    first = _filled(rows.sums0(codes, w), feature) + _filled(rows.sums1(codes, w), feature)
    used = p0 + p1 > 0
    means = np.divide(first, p0 + p1, out=np.zeros_like(first), where=used)
    audited, score = evidence.question.audited, output_measure(evidence).output
    if feature.kind == "identifier":
        return "has no direction: every value occurs once"
    if used.sum() < 2:
        return "does not vary"
    if np.ptp(means[used]) < NOISE:
        return f"the {score} does not follow it"
    if np.abs(p0 - p1).max() < NOISE:
        return "equally common in both groups"
    if feature.kind in ("numeric", "date"):
        level = np.arange(len(p0), dtype=np.float64)
        higher = _trend(p0 + p1, level, means) > 0
        commoner = float(p0 @ level) > float(p1 @ level)
        if not part or (part > 0.0) == (higher == commoner):
            return (
                f"more {feature.name} → {'higher' if higher else 'lower'} {score}, and "
                f"{'more' if commoner else 'less'} common among {audited}"
            )
    people = rows.counts(codes, len(feature.labels))
    is_common = used & ~np.any([(n > 0) & (n < SUPPRESSED_BELOW) for n in people], axis=0)
    if not is_common.any():
        return "each of its values is too rare to describe"
    # A level's part in Σ (P0 − P1)·E[W|level], the gap without holding the group fixed.
    pull = (p0 - p1) * (means - 0.5 * float((p0 + p1) @ means))
    is_common &= (pull * part > 0.0) if part else is_common
    if not is_common.any():
        return "no common value has the direction of its contribution"
    top = int(np.argmax(np.where(is_common, np.abs(pull), -1.0)))
    is_higher = means[top] > 0.5 * float((p0 + p1) @ means)
    return (
        f"{feature.name} = {feature.labels[top]} → {'higher' if is_higher else 'lower'} {score}, and "
        f"{'more' if p0[top] > p1[top] else 'less'} common among {audited}"
    )


def _filled(sums: Floats, feature: Feature) -> Floats:
    """Return the sums of all levels, the last of which may have no rows."""
    return np.pad(sums, (0, len(feature.labels) - len(sums)))


def _trend(weight: Floats, x: Floats, y: Floats) -> float:
    share = weight / weight.sum()
    return float(share @ ((x - share @ x) * (y - share @ y)))
