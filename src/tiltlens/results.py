"""Types of the parts of results, for annotations and `isinstance`."""

from tiltlens._analysis.adjusted_gap import GapBounds, Sensitivity, Yardstick
from tiltlens._analysis.error_rates import ErrorRate, ErrorRates, SelectiveLabels
from tiltlens._analysis.intersections import Intersections
from tiltlens._analysis.output_tables import DecisionTable
from tiltlens._analysis.periods import PeriodTable
from tiltlens._analysis.prices import Prices
from tiltlens._analysis.splitting import SplitGains, Splitting
from tiltlens._analysis.unobserved_groups import UnobservedGroup
from tiltlens._learners.balance import Balance
from tiltlens._repair.alternatives import Alternatives
from tiltlens._repair.constraints import Constraint
from tiltlens._repair.evaluation import RepairEvaluation
from tiltlens._repair.free_price import PriceEvaluation
from tiltlens._repair.reweigh import Reweighing
from tiltlens._results.change import GroupChange
from tiltlens._results.monitor import Monitor
from tiltlens._results.outputs import GapParts, Outputs, Provenance, Scale
from tiltlens._rows.wording import Wording
from tiltlens._rules.rule import Rule

__all__ = [
    "Alternatives",
    "Balance",
    "Constraint",
    "DecisionTable",
    "ErrorRate",
    "ErrorRates",
    "GapBounds",
    "GapParts",
    "GroupChange",
    "Intersections",
    "Monitor",
    "Outputs",
    "PeriodTable",
    "PriceEvaluation",
    "Prices",
    "Provenance",
    "RepairEvaluation",
    "Reweighing",
    "Rule",
    "Scale",
    "SelectiveLabels",
    "Sensitivity",
    "SplitGains",
    "Splitting",
    "UnobservedGroup",
    "Wording",
    "Yardstick",
]
