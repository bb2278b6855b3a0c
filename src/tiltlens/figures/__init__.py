"""Figures: each a function of a result, such as a `Comparison`. Nothing is computed here."""

from tiltlens.figures.change import change
from tiltlens.figures.correction_paths import paths, simplex
from tiltlens.figures.corrections import correction_by_value, correction_distribution
from tiltlens.figures.distributions import overlap, score_distribution
from tiltlens.figures.error_rates import score_calibration
from tiltlens.figures.features import features
from tiltlens.figures.figure import Figure
from tiltlens.figures.overall import intersections, looks
from tiltlens.figures.periods import periods
from tiltlens.figures.prices import price_effect, prices
from tiltlens.figures.profile import profile
from tiltlens.figures.proxy_map import proxy_map
from tiltlens.figures.rates import rates
from tiltlens.figures.registry import COMPARISON_FIGURES, FEATURE_FIGURES, comparison_figure
from tiltlens.figures.repair import attainable, repair_curve, tolerances
from tiltlens.figures.sensitivity import sensitivity
from tiltlens.figures.shares import correction_shares, shares_along_tradeoff
from tiltlens.figures.splitting import splitting
from tiltlens.figures.trust import balance, calibration
from tiltlens.figures.waterfall import waterfall

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
    "correction_shares",
    "features",
    "intersections",
    "looks",
    "overlap",
    "paths",
    "periods",
    "price_effect",
    "prices",
    "profile",
    "proxy_map",
    "rates",
    "repair_curve",
    "score_calibration",
    "score_distribution",
    "sensitivity",
    "shares_along_tradeoff",
    "simplex",
    "splitting",
    "tolerances",
    "waterfall",
]
