"""How the estimates of a comparison print: each with its unit and the confidence of its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tiltlens.formats import Display, number, percent, ratio, short_number, whole
from tiltlens.results.comparison import Comparison
from tiltlens.rows.measures import measure_for

BOTH = ("audited", "reference")
GAPS = (
    *("gap", "adjusted_gap", "gap_parts.gap_explained_by_exempt", "gap_parts.gap_given_exempt"),
    *("unobserved_group.weighted", "unobserved_group.linear"),
)
RANGES = ("unobserved_group.bracket", "unobserved_group.limits")
LEVELS = tuple(f"outputs.{name}.{group}" for name in ("rates", "metric_rates") for group in BOTH)
RATES = ("fpr", "fnr", "ppv", "npv", "fdr", "for_")
SHARES = tuple(f"error_rates.{name}.{group}" for name in RATES for group in BOTH)
POINTS = (
    *(f"error_rates.calibration.{group}" for group in BOTH),
    *(f"error_rates.{name}.difference" for name in (*RATES, "calibration")),
)
INDICES = (
    "outputs.standardised_difference",
    *(f"error_rates.{rate}.{name}" for rate in ("auc", "log_loss") for name in (*BOTH, "difference")),
)


def with_displays(c: Comparison) -> Comparison:
    """Return a comparison whose estimates print as a person would write them."""
    measure, confidence = measure_for(c.scale.score_type, c.scale.metric, c.scale.wording), c.scale.confidence
    write = measure.difference if measure.is_amount else None
    displays = {
        GAPS: Display(measure.unit, write, confidence),
        RANGES: Display(measure.unit, write, is_range=True),
        LEVELS: Display("", measure.level, confidence),
        ("shortfall",): Display("", measure.total, confidence),
        ("impact_ratio", "adverse_impact_ratio", "decision_table.odds_ratio"): Display("", ratio, confidence),
        SHARES: Display("", percent, confidence),
        POINTS: Display("points", None, confidence),
        INDICES: Display("", short_number, confidence),
        ("correction.input_divergence", "correction.output_divergence"): Display("nats", number, confidence),
        ("correction.descent_rate",): Display("", number, confidence),
        ("correction.detection_sample_size",): Display("", whole, confidence),
    }
    for paths, display in displays.items():
        for path in paths:
            c = _display_at(c, path.split("."), display)
    return c


def _display_at(part: Any, path: Sequence[str], display: Display) -> Any:
    """Return a part of a result with a display on the estimate at a path of attributes."""
    if part is None:
        return None
    if not path:
        return part.displayed(display)
    changed = {path[0]: _display_at(getattr(part, path[0]), path[1:], display)}
    return part._replace(**changed) if hasattr(part, "_replace") else replace(part, **changed)
