"""Small data that ships with the package."""

from __future__ import annotations

from tiltlens.datasets.compas import FEATURES as COMPAS_FEATURES
from tiltlens.datasets.compas import LABELS as COMPAS_LABELS
from tiltlens.datasets.compas import load_compas

__all__ = ["COMPAS_FEATURES", "COMPAS_LABELS", "load_compas"]
