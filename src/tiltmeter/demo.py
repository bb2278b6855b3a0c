"""The paper's experiment on the bundled COMPAS extract, as one summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.datasets import COMPAS_FEATURES, load_compas
from tiltmeter.engines.arrays import cell_sums, moments_by_group
from tiltmeter.models.paper import paper_models
from tiltmeter.theory.correction import CorrectionFunction, correction_function
from tiltmeter.theory.exponents import TestPair
from tiltmeter.theory.path import projection
from tiltmeter.theory.shares import share

AUDITED, REFERENCE, OUTCOME = "African-American", "Caucasian", "is_recid"


def paper_experiment() -> dict[str, Any]:
    """Return the paper's experiment as a plain dictionary, the summary that every view is made from."""
    data = load_compas()
    audited = (data["race"] == AUDITED).to_numpy()
    codes = data.select(f"{feature}_code" for feature in COMPAS_FEATURES).to_numpy().astype(np.float64)
    models = paper_models(codes, data[OUTCOME].to_numpy(), audited)
    log_odds, scores = models.log_odds, models.scores
    reference_moments, audited_moments = moments_by_group(log_odds, scores, audited, 2)
    correction = correction_function(audited_moments, reference_moments)
    at = {name: correction_function(audited_moments, reference_moments, *w) for name, w in DIAL.items()}
    values = correction(log_odds[audited], scores[audited])
    pair = TestPair(audited_moments.output, reference_moments.output)
    comparison = {
        "reference": REFERENCE,
        "rows": {"audited": audited_moments.rows, "reference": reference_moments.rows},
        "output": {"audited": float(pair.null[1]), "reference": float(pair.alternative[1])},
        "gap": _estimate(float(pair.null[1] - pair.alternative[1])),
        "output_divergence": _estimate(pair.stein),
        "descent_rate": _estimate(correction.descent_rate),
        "decisions_needed": pair.decisions_needed(),
        "epsilon_max": -1.0 / float(values.min()),
        "correction": correction.to_dict() | {"smallest": float(values.min()), "largest": float(values.max())},
        "proxies": _proxies(data.filter(audited), log_odds[audited], scores[audited], at),
        "prototypes": _prototypes(data.filter(audited), values),
        "least_change": _least_change(scores[audited], pair.alternative),
    }
    return {
        "dataset": "COMPAS, Broward County 2013-2014 (ProPublica)",
        "rows": {"read": len(data), "used": len(data)},
        "group": "race",
        "outcome": OUTCOME,
        "input_weight": 1.0,
        "output_weight": 1.0,
        "comparisons": {AUDITED: comparison},
    }


DIAL = {"share": (1.0, 1.0), "share_inputs_only": (1.0, 0.0), "share_outputs_only": (0.0, 1.0)}


def _proxies(
    data: pl.DataFrame, log_odds: NDArray[Any], scores: NDArray[Any], at: dict[str, CorrectionFunction]
) -> list[dict[str, Any]]:
    """Return each feature's share of the correction, at λ2 = λ4 = 1 and at both ends of the dial."""
    rows = []
    for feature in COMPAS_FEATURES:
        codes = data[f"{feature}_code"].to_numpy().astype(np.int64)
        cells = cell_sums(log_odds, scores, codes, int(codes.max()) + 1)
        rows.append({"feature": feature} | {name: share(cells, f) for name, f in at.items()})
    return sorted(rows, key=lambda row: -row["share"])


def _prototypes(data: pl.DataFrame, values: NDArray[Any]) -> dict[str, Any]:
    """Return the cells where f~ is largest, smallest and nearest to 0 (Table 1), with the people in them."""
    picks = {"max": np.argmax(values), "min": np.argmin(values), "near_zero": np.argmin(np.abs(values))}
    features = data.select(COMPAS_FEATURES)
    prototypes = {}
    for name, row in picks.items():
        labels = features.row(int(row), named=True)
        same = features.filter(*(pl.col(feature) == label for feature, label in labels.items()))
        prototypes[name] = {"values": labels, "count": len(same), "correction": float(values[row])}
    return prototypes


def _least_change(scores: NDArray[Any], target: NDArray[Any]) -> dict[str, float]:
    """Return the least change of the audited group's inputs that removes the gap, as an exponential tilt."""
    p0 = np.full(len(scores), 1.0 / len(scores))
    q, t = projection(p0, np.column_stack([1 - scores, scores]), target)
    return {"tilt": float(t[0]), "cost": float(q @ np.log(q / p0))}


def _estimate(value: float) -> dict[str, float | None]:
    return {"value": value, "low": None, "high": None}
