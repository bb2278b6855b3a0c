"""Figures: each a function of a summary, `Comparison.to_dict()` or `Audit.to_dict()`. Nothing is computed here."""

from tiltlens.views.figures.change import change
from tiltlens.views.figures.correction_paths import simplex, ways
from tiltlens.views.figures.corrections import correction_by_value, correction_distribution
from tiltlens.views.figures.distributions import outputs, overlap
from tiltlens.views.figures.error_rates import score_calibration
from tiltlens.views.figures.features import features
from tiltlens.views.figures.figure import Figure
from tiltlens.views.figures.periods import periods
from tiltlens.views.figures.profile import profile
from tiltlens.views.figures.proxy_map import proxy_map
from tiltlens.views.figures.rates import rates
from tiltlens.views.figures.registry import COMPARISON_FIGURES, FEATURE_FIGURES, comparison_figure
from tiltlens.views.figures.repair import attainable, repair_curve
from tiltlens.views.figures.shares import shares, shares_along_dial
from tiltlens.views.figures.trust import balance, calibration
from tiltlens.views.figures.waterfall import waterfall

__all__ = [
    "COMPARISON_FIGURES",
    "FEATURE_FIGURES",
    "Figure",
    "attainable",
    "balance",
    "calibration",
    "change",
    "comparison_figure",
    "correction_by_value",
    "correction_distribution",
    "features",
    "outputs",
    "overlap",
    "periods",
    "profile",
    "proxy_map",
    "rates",
    "repair_curve",
    "score_calibration",
    "shares",
    "shares_along_dial",
    "simplex",
    "waterfall",
    "ways",
]
