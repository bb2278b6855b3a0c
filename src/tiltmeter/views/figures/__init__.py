"""Figures: each a function of a summary, `Comparison.to_dict()` or `Audit.to_dict()`. Nothing is computed here."""

from tiltmeter.views.figures.correction_paths import simplex, ways
from tiltmeter.views.figures.corrections import correction_by_value, correction_distribution
from tiltmeter.views.figures.distributions import outputs, overlap
from tiltmeter.views.figures.figure import Figure
from tiltmeter.views.figures.profile import profile
from tiltmeter.views.figures.proxy_map import proxy_map
from tiltmeter.views.figures.rates import rates
from tiltmeter.views.figures.registry import COMPARISON_FIGURES, FEATURE_FIGURES, comparison_figure
from tiltmeter.views.figures.shares import shares, shares_along_dial
from tiltmeter.views.figures.trust import balance, calibration
from tiltmeter.views.figures.waterfall import waterfall

__all__ = [
    "COMPARISON_FIGURES",
    "FEATURE_FIGURES",
    "Figure",
    "balance",
    "calibration",
    "comparison_figure",
    "correction_by_value",
    "correction_distribution",
    "outputs",
    "overlap",
    "profile",
    "proxy_map",
    "rates",
    "shares",
    "shares_along_dial",
    "simplex",
    "waterfall",
    "ways",
]
