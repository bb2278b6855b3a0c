"""Gaps between groups in scores, decisions and prices, and the features that account for them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltlens._pipeline import alternatives as alternatives
    from tiltlens._pipeline import audit as audit
    from tiltlens.errors import TiltlensError as TiltlensError
    from tiltlens.estimators.estimate import Estimate as Estimate
    from tiltlens.model_files.load import load_model as load_model
    from tiltlens.paper.correction import CorrectionFunction as CorrectionFunction
    from tiltlens.paper.correction import GroupMoments as GroupMoments
    from tiltlens.paper.correction import correction_function as correction_function
    from tiltlens.paper.examples import logistic_case as logistic_case
    from tiltlens.paper.world import World as World
    from tiltlens.repair.classifier import TiltedClassifier as TiltedClassifier
    from tiltlens.repair.free_price import DiscriminationFreePrice as DiscriminationFreePrice
    from tiltlens.repair.score_tilt import ScoreTilt as ScoreTilt
    from tiltlens.repair.solve import read_repair as read_repair
    from tiltlens.results.audit import Audit as Audit
    from tiltlens.results.audit_comparison import compare as compare
    from tiltlens.results.change import Change as Change
    from tiltlens.results.comparison import Comparison as Comparison
    from tiltlens.results.outputs import Checks as Checks
    from tiltlens.results.outputs import Correction as Correction
    from tiltlens.results.saved_audits import read_audit as read_audit
    from tiltlens.rules.tables import RuleTables as RuleTables
    from tiltlens.rules.tables import rule_tables as rule_tables
    from tiltlens.sources.text_columns import read as read

__version__ = "0.1.0"

HOMES = {
    "Audit": "results.audit",
    "Change": "results.change",
    "Checks": "results.outputs",
    "Comparison": "results.comparison",
    "Correction": "results.outputs",
    "CorrectionFunction": "paper.correction",
    "DiscriminationFreePrice": "repair.free_price",
    "Estimate": "estimators.estimate",
    "GroupMoments": "paper.correction",
    "RuleTables": "rules.tables",
    "ScoreTilt": "repair.score_tilt",
    "TiltedClassifier": "repair.classifier",
    "TiltlensError": "errors",
    "World": "paper.world",
    "alternatives": "_pipeline",
    "audit": "_pipeline",
    "compare": "results.audit_comparison",
    "correction_function": "paper.correction",
    "load_model": "model_files.load",
    "logistic_case": "paper.examples",
    "read": "sources.text_columns",
    "read_audit": "results.saved_audits",
    "read_repair": "repair.solve",
    "rule_tables": "rules.tables",
}
__all__ = sorted(HOMES)


def __getattr__(name: str) -> Any:
    """Return a public name, imported on first use, so that `--help` does not wait for Polars."""
    if name not in HOMES:
        raise AttributeError(f"module 'tiltlens' has no attribute {name!r}")
    value = getattr(import_module(f"tiltlens.{HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
