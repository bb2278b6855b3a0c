"""Figures as functions of results, such as a `Comparison`, and their names. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Callable

from tiltlens._documents.document import FigureRef
from tiltlens._results.comparison import Comparison
from tiltlens.errors import DataError, NothingToDrawError
from tiltlens.figures._changes import attainable, change, looks, periods, repair_curve, tolerances
from tiltlens.figures._contributions import correction_shares, features, proxy_map, shares_along_tradeoff
from tiltlens.figures._corrections import correction_by_value, correction_distribution, paths, simplex
from tiltlens.figures._distributions import balance, calibration, overlap, profile, score_distribution
from tiltlens.figures._figure import Figure
from tiltlens.figures._gaps import intersections, rates, waterfall
from tiltlens.figures._outcomes import price_effect, prices, score_calibration, sensitivity, splitting

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

Draw = Callable[..., Figure]


def _by_name(*draws: Draw) -> dict[str, Draw]:
    return {draw.__name__: draw for draw in draws}


COMPARISON_FIGURES = _by_name(
    *(score_distribution, score_calibration, features, sensitivity, splitting, prices, periods, waterfall, proxy_map),
    *(correction_shares, shares_along_tradeoff, paths, correction_distribution, overlap, calibration, balance),
)
FEATURE_FIGURES = _by_name(correction_by_value, profile)
# Documents refer to these by name.
DOCUMENT_FIGURES = COMPARISON_FIGURES | _by_name(
    change, repair_curve, price_effect, attainable, tolerances, looks, intersections
)


def draw(reference: FigureRef) -> Figure | None:
    """Return the figure of a reference in a document; None if it has nothing to show."""
    try:
        return DOCUMENT_FIGURES[reference.name](*reference.parts)
    except NothingToDrawError:
        return None


def comparison_figure(c: Comparison, name: str, feature: str | None = None) -> Figure:
    """Return the figure of a given name; figures of one feature also need its name."""
    if name in COMPARISON_FIGURES and feature is None:
        return COMPARISON_FIGURES[name](c)
    if name in FEATURE_FIGURES and feature is not None:
        return FEATURE_FIGURES[name](c, feature)
    if name in COMPARISON_FIGURES or name in FEATURE_FIGURES:
        rule = "left out" if name in COMPARISON_FIGURES else "the name of a feature"
        raise DataError(f"`feature` must be {rule} for the figure {name!r}, got {feature!r}.", "see docs/gallery.md.")
    names = [*COMPARISON_FIGURES, *FEATURE_FIGURES]
    raise DataError(f"`name` must be one of the figures, got {name!r}.", f"they are {', '.join(names)}.")
