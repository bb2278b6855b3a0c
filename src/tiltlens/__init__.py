"""Which way does a model lean, and through which features?"""

from tiltlens.audit import Audit, audit
from tiltlens.errors import TiltlensError
from tiltlens.estimators.estimate import Estimate
from tiltlens.paper.correction import CorrectionFunction, correction_function
from tiltlens.paper.logistic import logistic_case
from tiltlens.paper.moments import GroupMoments
from tiltlens.paper.world import World
from tiltlens.results.comparison import Comparison
from tiltlens.rules.tables import RuleTables, rule_tables
from tiltlens.streams.sources import stream

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Comparison",
    "CorrectionFunction",
    "Estimate",
    "GroupMoments",
    "RuleTables",
    "TiltlensError",
    "World",
    "audit",
    "correction_function",
    "logistic_case",
    "rule_tables",
    "stream",
]
