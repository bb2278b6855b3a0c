"""What figures and the report are made of: bins and cell sums of a comparison as plain numbers, never people's rows.

Nothing is said of cells with fewer than ten people, nor can their counts be had by subtraction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tiltlens.analysis.histograms import Binned, Tallies, Tally, ValueTally, coarse, score_span, score_tally, tally_rows
from tiltlens.analysis.suppression import may_show, withheld
from tiltlens.errors import SupportError
from tiltlens.estimators.influence import Booleans, Integers, Rows
from tiltlens.limits import DIAL_POSITIONS, EDGE_ROUNDING, FINE, FINE_REACH, SUPPRESSED_BELOW
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction, correction_function
from tiltlens.rows.features import Feature

CALIBRATION_BINS = 10  # of the log-ratio, equally full
VALUE_BINS = 80  # of f~ from −4 to 4 for one value of a feature
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def calibration_edges(quantiles: Callable[[Floats], Floats]) -> Floats:
    """Return the tenths of the log-ratio, whose quantiles these are."""
    return np.unique(quantiles(np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]))


def binned(found: Binned, correction: CorrectionFunction) -> dict[str, Any]:
    """Return every bin and cell sum of a comparison whose rows are in memory, as plain numbers."""
    positions = [*(f for _, f in dial_corrections(correction)), correction]
    edges = calibration_edges(partial(np.quantile, found.log_ratio))
    return described(tally_rows(found, positions, edges), correction, found.features)


def of_scores_alone(rows: Rows, outcome: Floats, is_amount: bool = False) -> dict[str, Any]:
    """Return the bins of a comparison that knows nothing of the inputs."""
    nothing: dict[str, Any] = {name: [] for name in ("overlap", "calibration", "tradeoff", "correction")}
    span = score_span(outcome, is_amount)
    score = _both_groups(score_tally(rows, outcome, span), span.low, span.high)
    return nothing | {"score": score, "profiles": {}, "path": {"green": [], "red": []}, "least_change": None}


def described(tallies: Tallies, correction: CorrectionFunction, features: Sequence[Feature]) -> dict[str, Any]:
    """Return every bin and cell sum of a comparison, as plain numbers."""
    dialled = dial_corrections(correction)
    return {
        "score": _both_groups(tallies.score, tallies.span.low, tallies.span.high),
        "overlap": _both_groups(tallies.overlap, -4.0, 4.0),
        "calibration": _calibration_bins(tallies),
        "tradeoff": [_coefficients(position, f) for position, f in dialled],
        "correction": [tally.shares(0) for tally in tallies.correction[: len(dialled)]],
        "profiles": {
            feature.name: _profile(tallies.profiles[feature.name], feature, [f for _, f in dialled])
            for feature in features
        },
    }


def _both_groups(tally: Tally, low: float, high: float) -> list[dict[str, Any]]:
    """Return the distribution of a number in both groups; for log-ratios, where one is empty they do not overlap."""
    edges = np.linspace(low, high, len(tally.counts[0]) + 1).tolist()
    shares = zip(tally.shares(0), tally.shares(1), strict=True)
    return [
        {"from": start, "to": stop, "audited": audited, "reference": reference}
        for start, stop, (audited, reference) in zip(edges, edges[1:], shares, strict=False)
    ]


def _calibration_bins(tallies: Tallies) -> list[dict[str, Any]]:
    """Return, by tenths of the log-ratio, the expected and the observed log of P0/P1; few people join their neighbours.

    Expected is the log of the mean e^ℓ over the bin's reference rows; ℓ is right where the two agree. A bin left out
    could be had by subtraction: what is known of the others gives the people of both groups.
    """
    (audited, reference), (weight, weight1) = tallies.calibration.counts, tallies.calibration.weights
    whole, whole1 = weight.sum(), weight1.sum()
    bins = []
    for part in _joined(audited, reference):
        expected = float(tallies.expected[part].sum() / weight1[part].sum())
        observed = float((weight[part].sum() / whole) / (weight1[part].sum() / whole1))
        people = int(audited[part].sum() + reference[part].sum())
        bins.append({"expected": float(np.log(expected)), "observed": float(np.log(observed)), "n": people})
    return bins


def _joined(audited: Integers, reference: Integers) -> list[slice]:
    """Return runs of bins, each with ten people of both groups; none where a group has fewer."""
    starts, most = [0], len(audited)
    for place in range(1, most):
        before, after = slice(starts[-1], place), slice(place, most)
        if min(counts[part].sum() for counts in (audited, reference) for part in (before, after)) >= SUPPRESSED_BELOW:
            starts.append(place)
    parts = [slice(start, stop) for start, stop in zip(starts, [*starts[1:], most], strict=True)]
    return [part for part in parts if min(audited[part].sum(), reference[part].sum()) >= SUPPRESSED_BELOW]


def dial_corrections(correction: CorrectionFunction) -> list[tuple[float, CorrectionFunction]]:
    """Return f~ at each position t of the dial, λ = (1 − t, t); only at 0 where outputs have no finite divergence."""
    found = []
    for position in np.linspace(0.0, 1.0, DIAL_POSITIONS).tolist():
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


def _profile(tally: ValueTally, feature: Feature, dialled: Sequence[CorrectionFunction]) -> dict[str, Any]:
    """Return, per value of a feature: how many people, what they score, and where f~ lies at each dial position."""
    (audited, reference), (weight, weight1) = tally.people.counts, tally.people.weights
    hidden, hidden_reference = withheld(audited), withheld(reference)
    means = tally.means
    p0, p1 = weight / weight.sum(), weight1 / weight1.sum()
    moved = None if tally.moved is None else tally.moved / tally.moved.sum()
    at = None if tally.crowd is None else coarse(tally.crowd[-1], VALUE_BINS)
    quantiles: list[list[list[float | None]]] = []
    if tally.fine is not None and tally.crowd is not None:
        quantiles = _quantiles(tally.fine[: len(dialled)], tally.crowd[: len(dialled)])
    records = []
    for value, label in enumerate(feature.labels):
        is_shown = audited[value] > 0 and not hidden[value]
        record: dict[str, Any] = {
            "value": label,
            "n": None if hidden[value] else int(audited[value]),
            "n_reference": None if hidden_reference[value] else int(reference[value]),
            "share_audited": None if hidden[value] else min(float(p0[value]), 1.0),
            "share_reference": None if hidden_reference[value] else min(float(p1[value]), 1.0),
            "score": float(tally.score[value] / weight[value]) if is_shown else None,
            "log_odds": float(means[value, 0]) if is_shown else None,
            "scores": means[value, 1:].tolist() if is_shown else None,
            "share_moved": None if moved is None or hidden[value] else min(float(moved[value]), 1.0),
            "correction": None if at is None or hidden[value] else _distribution(at[value]),
            "quantiles": quantiles[value] if is_shown and quantiles else None,
            "mean_correction": [_mean(f, means[value]) for f in dialled] if is_shown else None,
        }
        records.append(record)
    return {"kind": feature.kind, "is_ordered": feature.is_ordered, "values": records}


def _mean(f: CorrectionFunction, means: Floats) -> float:
    """Return E0[f~|value], which is f~ of the means: it is affine."""
    return float(f.intercept + f.on_log_odds * means[0] + np.asarray(f.on_scores) @ means[1:])


def _distribution(counts: Integers) -> list[int | None]:
    """Return how many people are in each bin, None where that is withheld."""
    return [None if hidden else count for count, hidden in zip(counts.tolist(), withheld(counts), strict=True)]


def _quantiles(fine: Floats, crowd: Floats) -> list[list[list[float | None]]]:
    """Return f~'s quantiles per value and dial position, to a fiftieth of its spread; None where one is withheld."""
    pairs = [quantiles_of(*one) for one in zip(fine, crowd, strict=True)]
    found, is_shown = (np.array(one).transpose(2, 0, 1) for one in zip(*pairs, strict=True))
    rounded = np.where(is_shown, np.round(found, 2), np.nan).tolist()
    return [[[None if end != end else end for end in ends] for ends in value] for value in rounded]  # NaN ≠ NaN


def quantiles_of(fine: Floats, crowd: Floats) -> tuple[Floats, Booleans]:
    """Return the quantiles of f~ from its weight in fine bins, one row a quantile, and which of them may be shown.

    They are good to a fiftieth of f~'s spread; `crowd` are the people in those bins.
    """
    total = np.cumsum(fine, axis=-1)
    whole = np.where(total[..., -1:] > 0, total[..., -1:], 1.0)
    reached = np.array([(total / whole < q - EDGE_ROUNDING).sum(axis=-1) for q in QUANTILES])
    people = np.cumsum(crowd, axis=-1)
    to, of_all = np.minimum(reached, FINE - 1), people[..., -1]
    up_to = np.array([np.take_along_axis(people, at[..., None], axis=-1)[..., 0] for at in to])
    here = np.array([np.take_along_axis(crowd, at[..., None], axis=-1)[..., 0] for at in to])
    return np.asarray(-FINE_REACH + 2 * FINE_REACH / FINE * (reached + 0.5)), may_show(
        up_to - here, here, of_all - up_to
    )
