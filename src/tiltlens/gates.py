"""Gates for pipelines: conditions on the numbers of an audit, or of a change, that make a run fail."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tiltlens.errors import TiltlensError
from tiltlens.estimators.estimate import Estimate
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


PASSED, FIRED = "passed", "fired"
UNDEFINED, OPEN, UNJUDGED = "not defined", "undecided", "not evaluated"  # of which only the first fails a run


@dataclass(frozen=True, slots=True)
class Judged:
    """What a gate says of one audited group, `None` where it is about all of them."""

    gate: str
    group: str | None
    status: str
    sentence: str

    @property
    def fails(self) -> bool:
        """Whether a run fails by it: not knowing is no reason to pass."""
        return self.status in (FIRED, UNDEFINED)

    def __str__(self) -> str:
        return f"{self.gate}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition such as "adverse_impact_ratio<0.8" or "gap.low>0.05"; it fires where the condition holds.

    A quantity that is not defined fires too: not knowing is no reason to pass. Groups too small to be compared have a
    quantity of their own, their number. A number of features that might be larger, were those decided that are not, is
    said to be undecided.
    """

    text: str
    quantity: str
    part: str
    compare: str
    limit: float

    def judged(self, audit: Audit | Change) -> list[Judged]:
        """Return what the gate says of each group, also of those that it could not be evaluated for."""
        if self.quantity == TOO_SMALL:
            return [self._judged_by_size(audit)]
        if self.quantity == DECISIONS_ONLY and audit.channel != "decisions":
            cut = "give `--threshold`, the cut that makes decisions; or " if audit.channel == "scores" else ""
            raise TiltlensError(
                f"a gate on {DECISIONS_ONLY} must be of decisions, got {self.text!r} for {audit.channel}.",
                f"{cut}gate on impact_ratio, a ratio of mean {audit.channel}.",
            )
        every: Mapping[str, Comparison | GroupChange] = audit.comparisons
        confidence = audit.confidence if isinstance(audit, Change) else audit.settings.confidence
        found = [self._judged(name, comparison, confidence) for name, comparison in every.items()]
        why = _unjudged_because(audit)
        return [
            *found,
            *(Judged(self.text, name, UNJUDGED, f"not evaluated for {name}, {why}") for name in audit.too_small),
        ]

    def fired(self, audit: Audit | Change) -> list[str]:
        """Return a sentence for each comparison in which the gate fires."""
        return [str(one) for one in self.judged(audit) if one.fails]

    def unjudged(self, audit: Audit | Change) -> str | None:
        """Return a sentence that names the groups which the gate could not be evaluated for, if there are any."""
        if self.quantity == TOO_SMALL or not audit.too_small:
            return None
        return f"{self.text}: not evaluated for {_names(audit)}, {_unjudged_because(audit)}"

    def _judged_by_size(self, audit: Audit | Change) -> Judged:
        count = len(audit.too_small)
        sentence = f"{TOO_SMALL} is {count}" + (f" ({_names(audit)})" if count else "")
        return Judged(self.text, None, FIRED if COMPARE[self.compare](count, self.limit) else PASSED, sentence)

    def _judged(self, name: str, comparison: Comparison | GroupChange, confidence: float) -> Judged:
        open_cases, beside = 0, ""  # features that may show evidence in more data
        if isinstance(comparison, Comparison) and self.quantity in (PROXIES, *COUNTED):
            value = self._counted(comparison)
            if self.quantity == PROXIES:
                open_cases = int((comparison.proxies["verdict"] == UNDECIDED).sum())
                beside = f", {open_cases} undecided" if open_cases else ""
        else:
            estimate: Estimate | None = getattr(comparison, self.quantity)
            value = None if estimate is None else getattr(estimate, self.part)
            beside = "" if estimate is None else _interval(estimate, confidence)
        if value is None:
            return Judged(self.text, name, UNDEFINED, f"{self._name} of {name} is not defined, so it cannot pass")
        holds, might = (COMPARE[self.compare](float(one), self.limit) for one in (value, value + open_cases))
        status = FIRED if holds else OPEN if might else PASSED
        return Judged(self.text, name, status, f"{self._name} of {name} is {value:.6g}{beside}")

    @property
    def _name(self) -> str:
        return self.quantity if self.part == "value" else f"{self.quantity}.{self.part}"

    def _counted(self, comparison: Comparison) -> float | None:
        verdicts = comparison.proxies["verdict"]
        if verdicts.is_empty():
            return None
        if self.quantity == PROXIES:
            return None if (verdicts == NOT_JUDGED).any() else float(verdicts.is_in(EVIDENCE).sum())
        return float((verdicts == COUNTED[self.quantity]).sum())


def _interval(estimate: Estimate, confidence: float) -> str:
    """Return the interval beside a value; nothing where it has none, or an open one."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f" ({100 * confidence:g} % interval {estimate.low:.6g} to {estimate.high:.6g})"


def _unjudged_because(audit: Audit | Change) -> str:
    return "which only one of the two audits has" if isinstance(audit, Change) else "too small to be compared"


def _names(audit: Audit | Change) -> str:
    return ", ".join(audit.too_small)


def gate(text: str, names: Sequence[str] = OF_AUDITS) -> Gate:
    """Return the gate that a condition on one of some quantities describes."""
    match = PATTERN.match(text)
    if match is None or match[1] not in names:
        raise TiltlensError(
            f"a gate must be QUANTITY<NUMBER, with <, <=, > or >=, got {text!r}.",
            f"the quantities are {', '.join(names)}; add .low or .high for an end of the interval.",
        )
    if match[2] is not None and match[1] in (PROXIES, *COUNTED, TOO_SMALL):
        raise TiltlensError(f"a gate must take {match[1]} as it is, a count, got {text!r}.", f"leave out .{match[2]}.")
    try:
        limit = float(match[4])
        if not math.isfinite(limit):
            raise ValueError
    except ValueError:
        raise TiltlensError(
            f"a gate must compare with a number, got {match[4]!r} in {text!r}.",
            f"for example {names[0]}>0.05.",
        ) from None
    return Gate(text.strip(), match[1], match[2] or "value", match[3], limit)


def assert_gate(audit: Audit | Change, *conditions: str) -> None:
    """Raise an AssertionError that names every condition that holds, and of whom; for tests.

    Parameters
    ----------
    audit
        What `tl.audit`, `tl.read_audit` or `tl.compare` returned.
    conditions
        As of `--fail-if`: "adverse_impact_ratio<0.8", "gap.low>0.05".
    """
    __tracebackhide__ = True
    if not conditions:
        raise TiltlensError("`conditions` must name a gate, got none.", 'for example "adverse_impact_ratio<0.8".')
    names = OF_CHANGES if isinstance(audit, Change) else OF_AUDITS
    fired = [sentence for text in conditions for sentence in gate(text, names).fired(audit)]
    if fired:
        who = f"{audit.group} against {audit.reference}"
        raise AssertionError("\n".join([f"{len(fired)} gates fired ({who}):", *fired]))
