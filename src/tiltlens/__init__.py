"""Gaps between groups in scores, decisions and prices, and the features that account for them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltlens._estimators.estimate import Estimate as Estimate
    from tiltlens._model_files.load import load_model as load_model
    from tiltlens._pipeline import alternatives as alternatives
    from tiltlens._pipeline import audit as audit
    from tiltlens._repair.classifier import TiltedClassifier as TiltedClassifier
    from tiltlens._repair.free_price import DiscriminationFreePrice as DiscriminationFreePrice
    from tiltlens._repair.score_tilt import ScoreTilt as ScoreTilt
    from tiltlens._repair.solve import read_repair as read_repair
    from tiltlens._results.audit import Audit as Audit
    from tiltlens._results.audit_comparison import compare as compare
    from tiltlens._results.change import Change as Change
    from tiltlens._results.comparison import Comparison as Comparison
    from tiltlens._results.outputs import Checks as Checks
    from tiltlens._results.profiles import Correction as Correction
    from tiltlens._results.saved_audits import read_audit as read_audit
    from tiltlens._rules.tables import RuleTables as RuleTables
    from tiltlens._rules.tables import rule_tables as rule_tables
    from tiltlens._sources.text_columns import read as read
    from tiltlens.errors import TiltlensError as TiltlensError
    from tiltlens.paper.correction import CorrectionFunction as CorrectionFunction
    from tiltlens.paper.correction import GroupMoments as GroupMoments
    from tiltlens.paper.correction import correction_function as correction_function
    from tiltlens.paper.examples import logistic_case as logistic_case
    from tiltlens.paper.world import World as World

__version__ = "0.1.0"

HOMES = {
    "Audit": "_results.audit",
    "Change": "_results.change",
    "Checks": "_results.outputs",
    "Comparison": "_results.comparison",
    "Correction": "_results.profiles",
    "CorrectionFunction": "paper.correction",
    "DiscriminationFreePrice": "_repair.free_price",
    "Estimate": "_estimators.estimate",
    "GroupMoments": "paper.correction",
    "RuleTables": "_rules.tables",
    "ScoreTilt": "_repair.score_tilt",
    "TiltedClassifier": "_repair.classifier",
    "TiltlensError": "errors",
    "World": "paper.world",
    "alternatives": "_pipeline",
    "audit": "_pipeline",
    "compare": "_results.audit_comparison",
    "correction_function": "paper.correction",
    "load_model": "_model_files.load",
    "logistic_case": "paper.examples",
    "read": "_sources.text_columns",
    "read_audit": "_results.saved_audits",
    "read_repair": "_repair.solve",
    "rule_tables": "_rules.tables",
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
