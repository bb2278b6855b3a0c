"""Gates for pipelines: conditions on the numbers of an audit, or of a change, that make a run fail."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tiltlens.errors import TiltlensError
from tiltlens.estimators.verdicts import EVIDENCE, NOT_JUDGED, UNDECIDED
from tiltlens.results.audit import Audit
from tiltlens.results.change import CHANGES, Change, GroupChange
from tiltlens.results.comparison import ESTIMATES, Comparison

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
PATTERN = re.compile(r"^\s*(\w+)(?:\.(value|low|high))?\s*(<=|>=|<|>)\s*(\S+)\s*$")
PROXIES = "proxies"  # how many features show proxy evidence
COUNTED = {"undecided": UNDECIDED, "not_judged": NOT_JUDGED}  # how many features have this verdict
DECISIONS_ONLY = "adverse_impact_ratio"
TOO_SMALL = "too_small"  # how many groups have too few rows to be compared
OF_AUDITS = (*ESTIMATES, PROXIES, *COUNTED, TOO_SMALL)
OF_CHANGES = CHANGES


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition such as "adverse_impact_ratio<0.8" or "gap.low>0.05"; it fires where the condition holds.

    A quantity that is not defined fires too: not knowing is no reason to pass. Groups too small to be compared have a
    quantity of their own, their number.
    """

    text: str
    quantity: str
    part: str
    compare: str
    limit: float

    def fired(self, audit: Audit | Change) -> list[str]:
        """Return a sentence for each comparison in which the gate fires."""
        if self.quantity == TOO_SMALL:
            return self._fired_by_size(audit)
        if self.quantity == DECISIONS_ONLY and audit.channel != "decisions":
            cut = "give `--threshold`, the cut that makes decisions; or " if audit.channel == "scores" else ""
            raise TiltlensError(
                f"`--fail-if` must ask for {DECISIONS_ONLY} of decisions, got {self.text!r} for {audit.channel}.",
                f"{cut}gate on impact_ratio, a ratio of mean {audit.channel}.",
            )
        found = []
        every: Mapping[str, Comparison | GroupChange] = audit.comparisons
        for name, comparison in every.items():
            value = self._value(comparison)
            if value is None:
                found.append(f"{self.text}: {self.quantity} of {name} is not defined, so it cannot pass")
            elif COMPARE[self.compare](value, self.limit):
                found.append(f"{self.text}: {self.quantity} of {name} is {value:.6g}")
        return found

    def unjudged(self, audit: Audit | Change) -> str | None:
        """Return a sentence that names the groups which the gate could not be evaluated for, if there are any."""
        if self.quantity == TOO_SMALL or not audit.too_small:
            return None
        reason = "which only one of the two audits has" if isinstance(audit, Change) else "too small to be compared"
        return f"{self.text}: not evaluated for {_names(audit)}, {reason}"

    def _fired_by_size(self, audit: Audit | Change) -> list[str]:
        count = len(audit.too_small)
        if not COMPARE[self.compare](count, self.limit):
            return []
        return [f"{self.text}: {TOO_SMALL} is {count}" + (f" ({_names(audit)})" if count else "")]

    def _value(self, comparison: Comparison | GroupChange) -> float | None:
        if isinstance(comparison, Comparison) and self.quantity in (PROXIES, *COUNTED):
            return self._counted(comparison)
        estimate = getattr(comparison, self.quantity)
        value = None if estimate is None else getattr(estimate, self.part)
        return None if value is None else float(value)

    def _counted(self, comparison: Comparison) -> float | None:
        verdicts = comparison.proxies["verdict"]
        if verdicts.is_empty():
            return None
        if self.quantity == PROXIES:
            return None if (verdicts == NOT_JUDGED).any() else float(verdicts.is_in(EVIDENCE).sum())
        return float((verdicts == COUNTED[self.quantity]).sum())


def _names(audit: Audit | Change) -> str:
    return ", ".join(audit.too_small)


def gate(text: str, names: Sequence[str] = OF_AUDITS) -> Gate:
    """Return the gate that a condition on one of some quantities describes."""
    match = PATTERN.match(text)
    if match is None or match[1] not in names:
        raise TiltlensError(
            f"`--fail-if` must be QUANTITY<NUMBER, with <, <=, > or >=, got {text!r}.",
            f"the quantities are {', '.join(names)}; add .low or .high for an end of the interval.",
        )
    if match[2] is not None and match[1] in (PROXIES, *COUNTED, TOO_SMALL):
        raise TiltlensError(
            f"`--fail-if` must take {match[1]} as it is, a count, got {text!r}.", f"leave out .{match[2]}."
        )
    try:
        limit = float(match[4])
        if not math.isfinite(limit):
            raise ValueError
    except ValueError:
        raise TiltlensError(
            f"`--fail-if` must compare with a number, got {match[4]!r} in {text!r}.",
            f"for example {names[0]}>0.05.",
        ) from None
    return Gate(text.strip(), match[1], match[2] or "value", match[3], limit)
