"""Gates for pipelines: conditions on an audit or a change under which a run fails; and their JUnit XML."""

from __future__ import annotations

import math
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from tiltlens._documents.quantities import SEQUENCE_KEYS, fill, quantity
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.outputs import lower_over_higher
from tiltlens._estimators.verdicts import EVIDENCE, Verdict
from tiltlens._formats import interval_name
from tiltlens._results.audit import Audit
from tiltlens._results.change import LINEAR, QUANTITIES, Change, GroupChange
from tiltlens._results.comparison import ESTIMATES, Comparison
from tiltlens._results.monitor import Monitor
from tiltlens._rows.wording import MEASURES, POINTS, ScoreType
from tiltlens.errors import TiltlensError, nearest_name, quoted

COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
PATTERN = re.compile(r"^\s*(\w+)(?:\.(value|low|high))?\s*(<=|>=|<|>)\s*(\S+)\s*$")
PROXIES = "potential_proxies"  # features with such a verdict: alone, in combination, or unless stand-ins
# Counts of features with this verdict
COUNTED = {"undecided": Verdict.INCONCLUSIVE, "not_judged": Verdict.NOT_ASSESSED, "stand_ins": Verdict.STAND_IN}
DECISIONS_ONLY = "adverse_impact_ratio"
TOO_SMALL = "too_small"  # count of groups that are too small to compare
ENDS_ONLY = ("bracket", "limits")  # of unobserved groups: only their two ends are estimated
OF_UNOBSERVED = (*ENDS_ONLY, "linear")
OF_AUDITS = (*ESTIMATES, PROXIES, *COUNTED, TOO_SMALL)
OF_CHANGES = tuple(f"{name}_change" for name in QUANTITIES)
SEQUENCES = {name: name for name in SEQUENCE_KEYS} | {DECISIONS_ONLY: "impact_ratio"}  # in monitored audits
IN_UNITS = ("gap", "level", "range")  # scales of quantities in the unit of amounts, else in points
PASSED, FIRED = "passed", "fired"
NOT_WEIGHTED = ("gap", f"{LINEAR}_change", *OF_UNOBSERVED, PROXIES, *COUNTED)  # allowed for unobserved groups
UNDEFINED, OPEN, UNJUDGED = "not defined", "undecided", "not evaluated"  # only the first of these fails a run
# A gate that could not be evaluated has not passed, so it has an element of its own.
ELEMENTS = {FIRED: "failure", UNDEFINED: "error", OPEN: "skipped", UNJUDGED: "skipped"}
SUITE_COUNTS = {"failure": "failures", "error": "errors", "skipped": "skipped"}
NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a gate on one audited group; `group` is None for gates on all groups."""

    gate: str
    group: str | None
    status: str
    sentence: str

    @property
    def fails(self) -> bool:
        """Whether it makes a run fail; an undefined quantity does, because it cannot pass."""
        return self.status in (FIRED, UNDEFINED)

    def __str__(self) -> str:
        return f"{self.gate}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition such as "adverse_impact_ratio<0.8" or "gap.low>0.05"; it fires if the condition holds.

    It also fails if the quantity is undefined. `too_small` is the number of groups too small to compare. A count of
    features is undecided if inconclusive features could make the condition hold. For unobserved groups, the gap is
    judged at the worse end of its bracket, and a quantity that is only known weighted by group probabilities cannot
    pass. With a monitor, a quantity with a confidence sequence is judged at the end of it that must lie beyond the
    limit, so that the probability of a false alarm covers all looks together.
    """

    text: str
    quantity: str
    part: str
    compare: str
    limit: float

    def check_range(self, is_amount: bool) -> None:
        """Raise if the limit is outside all possible values, such as 10 for ten points."""
        name, limit = self.quantity.removesuffix("_change"), self.limit
        scale = quantity(name).scale
        is_difference = scale == "points" or name == "auc_difference" or (scale in IN_UNITS and not is_amount)
        if (is_difference and abs(limit) >= 1.0) or (name == DECISIONS_ONLY and not 0.0 <= limit <= 1.0):
            raise TiltlensError(
                f"A gate on {name} needs a number between {-1 if is_difference else 0} and 1, got {self.text!r}.",
                f"did you mean {limit / 100:g}? In gates, 10 points are 0.1.",
            )

    def judge(self, audit: Audit | Change) -> list[Judgement]:
        """Return the judgements on all groups, including groups for which the gate cannot be evaluated."""
        if self.quantity == TOO_SMALL:
            count = len(audit.too_small)
            sentence = f"{TOO_SMALL} is {count}" + (f" ({', '.join(audit.too_small)})" if count else "")
            return [Judgement(self.text, None, FIRED if self._holds(count) else PASSED, sentence)]
        self.check_range(audit.score_type == ScoreType.AMOUNT)
        if self.quantity == DECISIONS_ONLY and audit.score_type != ScoreType.DECISION:
            scores = f"{MEASURES[audit.score_type, None].each}s"
            cut = "pass `threshold`, or " if audit.score_type == ScoreType.PROBABILITY else ""
            raise TiltlensError(
                f"The gate {self.text!r} needs decisions, but the audit is of {scores}.",
                f"{cut}use impact_ratio, the ratio of mean {scores}.",
            )
        looks = self._looks(audit)
        if looks is not None:
            names = dict.fromkeys([*looks.sequences, *audit.too_small])
            return [self._judge_at_all_looks(name, looks, name in audit.too_small) for name in names]
        confidence = audit.confidence if isinstance(audit, Change) else audit.settings.confidence
        judgements = [self._judge(name, comparison, confidence) for name, comparison in audit.comparisons.items()]
        others = [Judgement(self.text, name, UNJUDGED, _not_evaluated([name], audit)) for name in audit.too_small]
        return judgements + others

    def not_evaluated(self, audit: Audit | Change) -> str | None:
        """Return a sentence with the groups for which the gate could not be evaluated; None if there are none."""
        if self.quantity == TOO_SMALL or not audit.too_small or self._looks(audit) is not None:
            return None
        return f"{self.text}: {_not_evaluated(audit.too_small, audit)}"

    def _holds(self, value: float) -> bool:
        return COMPARE[self.compare](value, self.limit)

    def _judge(self, name: str, comparison: Comparison | GroupChange, confidence: float) -> Judgement:
        open_cases, beside = 0, ""  # inconclusive features
        soft = comparison.new[LINEAR] if isinstance(comparison, GroupChange) else comparison.unobserved_group
        is_unobserved = soft is not None
        if isinstance(comparison, Comparison) and self.quantity in (PROXIES, *COUNTED):
            value = self._counted(comparison)
            if self.quantity == PROXIES:
                open_cases = int((comparison.contributions_full["verdict"] == Verdict.INCONCLUSIVE).sum())
                beside = f", {open_cases} inconclusive" if open_cases else ""
        else:
            estimate, part, is_bracket = _read(comparison, self.quantity), self.part, self.quantity in ENDS_ONLY
            if is_unobserved and self.quantity == "gap":
                worse = "low" if self.compare.startswith("<") else "high"
                part, is_bracket = worse if part == "value" else part, True
            value = None if estimate is None else getattr(estimate, part)
            beside = self._interval(estimate, "from" if is_bracket else interval_name(confidence))
        if value is None:
            why = "is not reported for unobserved groups" if is_unobserved else "is not defined"
            return self._judgement(name, UNDEFINED, f" {why}, so it cannot pass")
        holds, might = self._holds(float(value)), self._holds(float(value + open_cases))
        link = ":" if self.quantity in (PROXIES, *COUNTED) else " is"  # names of counts are plural
        words = f"{link} {self._number(value)}{beside}"
        if is_unobserved and not holds and self.quantity not in NOT_WEIGHTED:
            return self._judgement(name, UNDEFINED, f"{words}, weighted by group probabilities, so it cannot pass")
        return self._judgement(name, FIRED if holds else OPEN if might else PASSED, words)

    def _looks(self, audit: Audit | Change) -> Monitor | None:
        return audit.monitor if isinstance(audit, Audit) and self.quantity in SEQUENCES else None

    def _judge_at_all_looks(self, name: str, looks: Monitor, is_too_small: bool) -> Judgement:
        """Return the judgement from the confidence sequence, by default at the end that must lie beyond the limit."""
        estimate = looks.sequences.get(name, {}).get(SEQUENCES[self.quantity])
        if estimate is None:
            return self._judgement(name, UNJUDGED if is_too_small else UNDEFINED, " is not defined")
        if self.quantity == DECISIONS_ONLY:
            estimate = lower_over_higher(estimate)
        part = ("high" if self.compare.startswith("<") else "low") if self.part == "value" else self.part
        words = f" is {self._number(estimate.value)} over all looks{self._interval(estimate, 'confidence sequence')}"
        return self._judgement(name, FIRED if self._holds(float(getattr(estimate, part))) else PASSED, words)

    def _judgement(self, name: str, status: str, words: str) -> Judgement:
        label = fill(quantity(self.quantity.removesuffix("_change")).label, POINTS)
        label = f"change in {label}" if self.quantity.endswith("_change") else label
        label = label if self.part == "value" else f"{self.part} end of the {label}"
        return Judgement(self.text, name, status, f"{label} of {name}{words}")

    def _interval(self, estimate: Estimate | None, name: str) -> str:
        """Return an interval of this name, or the ends of a bracket, in parentheses; "" if it has none or is open."""
        if estimate is None or estimate.low is None or estimate.high is None:
            return ""
        return f" ({name} {self._number(estimate.low)} to {self._number(estimate.high)})"

    def _number(self, value: float) -> str:
        """Return a number with three digits, or as many as show its units and on which side of the limit it lies."""
        least = max(3, len(f"{abs(value):.0f}"))  # fewer would give 1.23e+04
        texts = (f"{value:.{digits}g}" for digits in range(least, least + 18))
        return next(text for text in texts if self._holds(float(text)) == self._holds(value)).replace("-", "−")

    def _counted(self, comparison: Comparison) -> float | None:
        verdicts = comparison.contributions_full["verdict"]
        if verdicts.is_empty():
            return None
        if self.quantity == PROXIES:
            count = float(verdicts.is_in([*EVIDENCE, Verdict.PROXY_OR_STAND_IN]).sum())
            return None if (verdicts == Verdict.NOT_ASSESSED).any() else count
        return float((verdicts == COUNTED[self.quantity]).sum())


def _read(comparison: Comparison | GroupChange, key: str) -> Estimate | None:
    """Return an estimate of a comparison or change; the gap of unobserved groups is their bracket."""
    if isinstance(comparison, GroupChange):
        return comparison.changes[key.removesuffix("_change")]
    soft = comparison.unobserved_group
    key = "bracket" if soft is not None and key == "gap" else key
    return comparison.estimate(key)


def _not_evaluated(groups: Iterable[str], audit: Audit | Change) -> str:
    why = "which only one of the two audits has" if isinstance(audit, Change) else "too small to be compared"
    return f"not evaluated for {', '.join(groups)}, {why}"


def gate(text: str, names: Sequence[str] = OF_AUDITS) -> Gate:
    """Return the gate of a condition; raise unless it is on one of the quantities in `names`."""
    match = PATTERN.match(text) if isinstance(text, str) else None
    if match is None or match[1] not in names:
        nearest = None if match is None else nearest_name(match[1], names)
        raise TiltlensError(
            f"{quoted(text)} is not a gate: write QUANTITY<NUMBER, with <, <=, > or >=.",
            f"{'' if nearest is None else f'did you mean {nearest}? '}The quantities are {', '.join(names)}; add .low "
            "or .high for an end of the interval.",
        )
    if match[1] in ENDS_ONLY and match[2] not in ("low", "high"):
        raise TiltlensError(f"A gate on {match[1]} needs one of its ends, got {text!r}.", f"write {match[1]}.low.")
    if match[2] is not None and match[1] in (PROXIES, *COUNTED, TOO_SMALL):
        raise TiltlensError(f"{match[1]} is a count without an interval, got {text!r}.", f"leave out .{match[2]}.")
    try:
        limit = float(match[4])
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise TiltlensError(
            f"A gate compares with a number, got {match[4]!r} in {text!r}.", f"for example {names[0]}>0.05."
        )
    return Gate(text.strip(), match[1], match[2] or "value", match[3], limit)


def assert_gate(audit: Audit | Change, *conditions: str) -> None:
    """Raise an AssertionError that names every condition that holds, with the group; for tests.

    Warns of conditions that are undecided or could not be evaluated for a group.

    Parameters
    ----------
    audit : Audit or Change
        The result of `tl.audit`, `tl.read_audit` or `tl.compare`.
    conditions : str
        As for `--fail-if`, such as "adverse_impact_ratio<0.8" or "gap.low>0.05".
    """
    __tracebackhide__ = True
    if not isinstance(audit, Audit | Change):
        raise TiltlensError(f"`audit` must be an audit or a change, got {audit!r}.", "pass the result of tl.audit.")
    if not conditions:
        raise TiltlensError("No gate given (`conditions`).", 'for example "adverse_impact_ratio<0.8".')
    names = OF_CHANGES if isinstance(audit, Change) else OF_AUDITS
    judgements = [judgement for text in conditions for judgement in gate(text, names).judge(audit)]
    fired = [str(judgement) for judgement in judgements if judgement.fails]
    if unknown := [str(judgement) for judgement in judgements if judgement.status in (OPEN, UNJUDGED)]:
        warnings.warn(f"Gates that are undecided or not evaluated: {'; '.join(unknown)}.", UserWarning, stacklevel=2)
    if fired:
        who = f"{audit.group} against {audit.reference}"
        raise AssertionError("\n".join([f"{len(fired)} gates fired ({who}):", *fired]))


def junit(result: Audit | Change, judgements: Sequence[Judgement]) -> str:
    """Return JUnit XML with the judgements of gates on an audit or a change."""
    every = ET.Element("testsuites")
    suite = ET.SubElement(every, "testsuite", name=_text(f"tiltlens, {result.group}"), tests=str(len(judgements)))
    for element, count in SUITE_COUNTS.items():
        suite.set(count, str(sum(ELEMENTS.get(part.status) == element for part in judgements)))
    for part in judgements:
        who = "all groups" if part.group is None else f"{part.group} against {result.reference}"
        case = ET.SubElement(suite, "testcase", classname=_text(who), name=_text(part.gate))
        if part.status in ELEMENTS:
            ET.SubElement(case, ELEMENTS[part.status], message=_text(part.sentence), type=part.status)
        else:
            ET.SubElement(case, "system-out").text = _text(part.sentence)
    ET.indent(every)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(every, encoding="unicode")}\n'


def _text(value: str) -> str:
    """Return a text without characters that are invalid in XML, since names come from data."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)
