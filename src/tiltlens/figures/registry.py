"""The figures of a comparison, by name."""

from __future__ import annotations

from collections.abc import Callable

from tiltlens.documents.document import FigureRef
from tiltlens.errors import DataError, NothingToDrawError
from tiltlens.figures.change import change
from tiltlens.figures.correction_paths import paths
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
from tiltlens.figures.repair import attainable, repair_curve, tolerances
from tiltlens.figures.sensitivity import sensitivity
from tiltlens.figures.shares import correction_shares, shares_along_tradeoff
from tiltlens.figures.splitting import splitting
from tiltlens.figures.trust import balance, calibration
from tiltlens.figures.waterfall import waterfall
from tiltlens.results.comparison import Comparison

COMPARISON_FIGURES: dict[str, Callable[[Comparison], Figure]] = {
    "score_distribution": score_distribution,
    "score_calibration": score_calibration,
    "features": features,
    "sensitivity": sensitivity,
    "splitting": splitting,
    "prices": prices,
    "periods": periods,
    "waterfall": waterfall,
    "proxy_map": proxy_map,
    "correction_shares": correction_shares,
    "shares_along_tradeoff": shares_along_tradeoff,
    "paths": paths,
    "correction_distribution": correction_distribution,
    "overlap": overlap,
    "calibration": calibration,
    "balance": balance,
}

FEATURE_FIGURES: dict[str, Callable[[Comparison, str], Figure]] = {
    "correction_by_value": correction_by_value,
    "profile": profile,
}


# Figures that documents refer to by name.
DOCUMENT_FIGURES: dict[str, Callable[..., Figure]] = {
    "features": features,
    "waterfall": waterfall,
    "change": change,
    "repair_curve": repair_curve,
    "price_effect": price_effect,
    "attainable": attainable,
    "tolerances": tolerances,
    "looks": looks,
    "intersections": intersections,
}


def draw(reference: FigureRef) -> Figure | None:
    """Return the figure that a document refers to; None where it has nothing to show."""
    try:
        return DOCUMENT_FIGURES[reference.name](*reference.parts)
    except NothingToDrawError:
        return None


def comparison_figure(c: Comparison, name: str, feature: str | None = None) -> Figure:
    """Return the figure of that name; those of one feature need its name too."""
    if name in COMPARISON_FIGURES and feature is None:
        return COMPARISON_FIGURES[name](c)
    if name in FEATURE_FIGURES and feature is not None:
        return FEATURE_FIGURES[name](c, feature)
    if name in COMPARISON_FIGURES or name in FEATURE_FIGURES:
        rule = "left out" if name in COMPARISON_FIGURES else "the name of a feature"
        raise DataError(f"`feature` must be {rule} for the figure {name!r}, got {feature!r}.", "see docs/gallery.md.")
    names = [*COMPARISON_FIGURES, *FEATURE_FIGURES]
    raise DataError(f"`name` must be one of the figures, got {name!r}.", f"they are {', '.join(names)}.")
