"""Which way does a model lean, and through which features?"""

from tiltlens.audit import Audit, audit
from tiltlens.comparison import Comparison
from tiltlens.errors import TiltlensError
from tiltlens.rules.tables import RuleTables, rule_tables
from tiltlens.streams.sources import stream
from tiltlens.theory.correction import CorrectionFunction, correction_function
from tiltlens.theory.logistic import logistic_case
from tiltlens.theory.moments import GroupMoments
from tiltlens.theory.uncertainty import Estimate
from tiltlens.theory.world import World

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
