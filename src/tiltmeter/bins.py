"""What figures and the report are made of: bins and cell sums of a comparison, never people's rows.

Nothing is said of cells with fewer than ten people, nor can their counts be had by subtraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltmeter.engines.arrays import cell_sums
from tiltmeter.errors import SupportError
from tiltmeter.models.features import Feature
from tiltmeter.theory.checks import Floats
from tiltmeter.theory.correction import CorrectionFunction, correction_function
from tiltmeter.theory.uncertainty import Rows, sums_by

Booleans = NDArray[np.bool_]
Integers = NDArray[np.integer[Any]]

SUPPRESSED_BELOW = 10
POSITIONS = 21  # of the dial, from "align inputs" (0) to "align outputs" (1)
SCORE_BINS = 20
FINE, REACH = 600, 6.0  # bins of f~ that quantiles are read from, and where they end
CORRECTION_BINS = 40  # of f~ from −4 to 4, the ends open
RATIO_BINS = 32  # of log-ratios from −4 to 4
CALIBRATION_BINS = 10
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
VALUE_BINS = 80  # of f~ from −4 to 4 for one value of a feature
MOVING_VALUES = 600  # feature values with distributions of their own, which follow the dial: the page must stay small
EDGE = 1e-9  # values no further below an edge than this are above it: rounding decides nothing


@dataclass(frozen=True, slots=True, eq=False)
class Binned:
    """The rows of a comparison, ready to be binned.

    Attributes
    ----------
    rows, outcome, scores
        Who is audited, the score whose gap is measured, and all scores, (n,) or (n, K).
    log_odds
        Of being audited, from one fit on all rows; with the prior.
    log_ratio
        Cross-fitted where there is a cross-fit, without the prior.
    features
        In the order of the table of proxy evidence.
    moved
        Each row's share of the audited group after the least change that removes the gap; None where there is none.
    """

    rows: Rows
    outcome: Floats
    scores: Floats
    log_odds: Floats
    log_ratio: Floats
    features: tuple[Feature, ...]
    correction: CorrectionFunction
    moved: Floats | None


def binned(found: Binned) -> dict[str, Any]:
    """Return every bin and cell sum of a comparison, as plain numbers."""
    dialled = dial_corrections(found.correction)
    return {
        "score": score_bins(found.rows, found.outcome),
        "overlap": ratio_bins(found.rows, found.log_ratio),
        "calibration": calibration_bins(found.rows, found.log_ratio),
        "dial": [_coefficients(position, f) for position, f in dialled],
        "correction": [correction_bins(found, f) for _, f in dialled],
        "profiles": profiles(found, [f for _, f in dialled]),
    }


def withheld(counts: Integers) -> Booleans:
    """Return which counts are kept back: those from 1 to 9, and one more where these could be had by subtraction."""
    counts = np.asarray(counts)
    small = (counts > 0) & (counts < SUPPRESSED_BELOW)
    if small.any() and int(counts[small].sum()) < SUPPRESSED_BELOW:
        others = np.flatnonzero(~small & (counts > 0))
        small[others[np.argmin(counts[others])] if others.size else np.flatnonzero(small)[0]] = True
    return small


def _shares(rows: Rows, places: Integers, bins: int, is_audited: bool) -> list[float | None]:
    """Return each bin's share of a group, None where it is withheld."""
    mine = rows.audited if is_audited else ~rows.audited
    counts = np.bincount(places[mine], minlength=bins)
    share = np.bincount(places, rows.audited_share if is_audited else rows.reference_share, bins)
    return [None if hidden else min(float(part), 1.0) for part, hidden in zip(share, withheld(counts), strict=True)]


def _places(values: Floats, low: float, high: float, bins: int) -> Integers:
    """Return the bin of each value among equal ones, the ends open."""
    return np.clip(np.floor((values - low) * (bins / (high - low)) + EDGE), 0, bins - 1).astype(np.intp)


def _both_groups(rows: Rows, places: Integers, low: float, high: float, bins: int) -> list[dict[str, Any]]:
    edges = np.linspace(low, high, bins + 1).tolist()
    shares = zip(*(_shares(rows, places, bins, who) for who in (True, False)), strict=True)
    return [
        {"from": start, "to": stop, "audited": audited, "reference": reference}
        for start, stop, (audited, reference) in zip(edges, edges[1:], shares, strict=False)
    ]


def score_bins(rows: Rows, outcome: Floats) -> list[dict[str, Any]]:
    """Return the distribution of the score in both groups."""
    return _both_groups(rows, _places(outcome, 0.0, 1.0, SCORE_BINS), 0.0, 1.0, SCORE_BINS)


def ratio_bins(rows: Rows, log_ratio: Floats) -> list[dict[str, Any]]:
    """Return the distribution of the log-ratio in both groups: where one is empty, they do not overlap."""
    return _both_groups(rows, _places(log_ratio, -4.0, 4.0, RATIO_BINS), -4.0, 4.0, RATIO_BINS)


def calibration_bins(rows: Rows, log_ratio: Floats) -> list[dict[str, Any]]:
    """Return, by tenths of the log-ratio, the expected and the observed log of P0/P1; bins of few people are left out.

    Expected is the log of the mean e^ℓ over the bin's reference rows; ℓ is right where the two agree.
    """
    edges = np.unique(np.quantile(log_ratio, np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]))
    places = np.searchsorted(edges, log_ratio + EDGE, side="right")
    bins = []
    for place in range(len(edges) + 1):
        here = places == place
        audited = here & rows.audited
        if min(int(audited.sum()), int((here & ~rows.audited).sum())) < SUPPRESSED_BELOW:
            continue
        at_audited, at_reference = float(rows.audited_share[here].sum()), float(rows.reference_share[here].sum())
        expected = float(rows.reference_share[here] @ np.exp(log_ratio[here])) / at_reference
        bins.append(
            {"expected": float(np.log(expected)), "observed": float(np.log(at_audited / at_reference))}
            | {"n": int(here.sum())}
        )
    return bins


def dial_corrections(correction: CorrectionFunction) -> list[tuple[float, CorrectionFunction]]:
    """Return f~ at each position t of the dial, λ = (1 − t, t); only at 0 where outputs have no finite divergence."""
    found = []
    for position in np.linspace(0.0, 1.0, POSITIONS).tolist():
        try:
            f = correction_function(correction.audited, correction.reference, 1.0 - position, position)
        except SupportError:
            break
        found.append((position, f))
    return found


def _coefficients(position: float, f: CorrectionFunction) -> dict[str, Any]:
    return {
        "position": position,
        "intercept": f.intercept,
        "on_log_odds": f.on_log_odds,
        "on_scores": list(f.on_scores),
        "descent_rate": f.descent_rate,
    }


def correction_bins(found: Binned, f: CorrectionFunction) -> list[float | None]:
    """Return the distribution of f~ over the audited group, in 40 bins from −4 to 4."""
    values = np.asarray(f(found.log_odds, found.scores))
    return _shares(found.rows, _places(values, -4.0, 4.0, CORRECTION_BINS), CORRECTION_BINS, True)


def profiles(found: Binned, dialled: Sequence[CorrectionFunction]) -> dict[str, dict[str, Any]]:
    """Return, per feature and value: how many people, what they score, and where f~ lies at each dial position."""
    fine = _fine_places(found, dialled)
    values = np.asarray(found.correction(found.log_odds, found.scores))[found.rows.audited]
    at = _places(values, -4.0, 4.0, VALUE_BINS)
    result, room = {}, MOVING_VALUES
    for feature in found.features:
        room -= len(feature.labels)
        result[feature.name] = {
            "kind": feature.kind,
            "is_ordered": feature.is_ordered,
            "values": _profile(found, feature, fine if room >= 0 else [], at if room >= 0 else None),
        }
    return result


def _fine_places(found: Binned, dialled: Sequence[CorrectionFunction]) -> list[Integers]:
    """Return the fine bin of f~ of each audited row at each position."""
    mine = found.rows.audited
    log_odds, scores = found.log_odds[mine], found.scores[mine]
    return [_places(np.asarray(f(log_odds, scores)), -REACH, REACH, FINE) for f in dialled]


def _profile(found: Binned, feature: Feature, fine: list[Integers], at: Integers | None) -> list[dict[str, Any]]:
    rows, mine, size = found.rows, found.rows.audited, len(feature.labels)
    codes = feature.codes[mine]
    audited, reference = (np.bincount(feature.codes[who], minlength=size) for who in (mine, ~mine))
    hidden, hidden_reference = withheld(audited), withheld(reference)
    sums = cell_sums(found.log_odds[mine], found.scores[mine], codes, size, rows.weights[mine])
    means = sums.means + sums.pivot
    score = sums_by(codes, rows.audited_share[mine] * found.outcome[mine])
    p0, p1 = (np.bincount(feature.codes, share, size) for share in (rows.audited_share, rows.reference_share))
    moved = None if found.moved is None else np.bincount(feature.codes, found.moved, size)
    quantiles = _quantiles(codes, rows.audited_share[mine], audited, fine)
    records = []
    for value, label in enumerate(feature.labels):
        is_shown = audited[value] > 0 and not hidden[value]
        record: dict[str, Any] = {
            "value": label,
            "n": None if hidden[value] else int(audited[value]),
            "n_reference": None if hidden_reference[value] else int(reference[value]),
            "share_audited": None if hidden[value] else min(float(p0[value]), 1.0),
            "share_reference": None if hidden_reference[value] else min(float(p1[value]), 1.0),
            "score": float(score[value] / p0[value]) if is_shown else None,
            "log_odds": float(means[value, 0]) if is_shown else None,
            "scores": means[value, 1:].tolist() if is_shown else None,
            "share_moved": None if moved is None or hidden[value] else min(float(moved[value]), 1.0),
            "correction": None if at is None else _distribution(at[codes == value]),
            "quantiles": quantiles[value] if is_shown and quantiles else None,
        }
        records.append(record)
    return records


def _distribution(places: Integers) -> list[int | None]:
    """Return how many people are in each bin, None where that is withheld."""
    counts = np.bincount(places, minlength=VALUE_BINS)
    return [None if hidden else count for count, hidden in zip(counts.tolist(), withheld(counts), strict=True)]


def _quantiles(
    codes: Integers, weights: Floats, counts: Integers, fine: list[Integers]
) -> list[list[list[float | None]]]:
    """Return f~'s quantiles per value and dial position, to a fiftieth of its spread.

    A quantile is shown where at least ten people lie beyond it.
    """
    width, size = 2 * REACH / FINE, len(counts)
    by_position = []
    for places in fine:
        sums = np.bincount(codes * FINE + places, weights, size * FINE).reshape(size, FINE)
        total = np.cumsum(sums, axis=1)
        whole = np.where(total[:, -1:] > 0, total[:, -1:], 1.0)
        reached = [(total / whole < q - EDGE).sum(axis=1) for q in QUANTILES]
        by_position.append(-REACH + width * (np.array(reached) + 0.5))
    enough = [[n * min(q, 1 - q) >= SUPPRESSED_BELOW for q in QUANTILES] for n in counts.tolist()]
    return (
        [
            [
                [round(float(at[q, value]), 2) if enough[value][q] else None for q in range(len(QUANTILES))]
                for at in by_position
            ]
            for value in range(size)
        ]
        if by_position
        else []
    )
