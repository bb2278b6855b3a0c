"""Which way does a model lean, and through which features?"""

from tiltmeter.audit import Audit, audit
from tiltmeter.comparison import Comparison
from tiltmeter.errors import TiltmeterError
from tiltmeter.rules.tables import RuleTables, rule_tables
from tiltmeter.streams.sources import stream
from tiltmeter.theory.correction import CorrectionFunction, correction_function
from tiltmeter.theory.logistic import logistic_case
from tiltmeter.theory.moments import GroupMoments
from tiltmeter.theory.uncertainty import Estimate
from tiltmeter.theory.world import World

__version__ = "0.1.0"

__all__ = [
    "Audit",
    "Comparison",
    "CorrectionFunction",
    "Estimate",
    "GroupMoments",
    "RuleTables",
    "TiltmeterError",
    "World",
    "audit",
    "correction_function",
    "logistic_case",
    "rule_tables",
    "stream",
]
