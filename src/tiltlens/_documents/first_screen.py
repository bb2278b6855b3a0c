"""The first screen of page, terminal and notebook: the finding, its numbers, their reliability and the next steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tiltlens._analysis.unobserved_groups import Status, UnobservedGroup
from tiltlens._documents.document import EVIDENCE, OPEN, SHORT, THE_GROUP, by_gap, fares_worse, level_of, measure_of
from tiltlens._documents.headline import (
    STATES,
    against_four_fifths,
    expected,
    gap_status,
    headline,
    is_of_decisions,
    named_list,
    of_kind,
    ratio_words,
)
from tiltlens._documents.quantities import brief, estimate_words, fill, format_of, quantity, range_words
from tiltlens._estimators.estimate import Estimate, Materiality, is_significant, materiality
from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import Shown, count, enumerate_words, interval, label, p_value, ratio, within
from tiltlens._notes import MODEL_ITSELF, SCORES_BEHIND
from tiltlens._results.audit import Audit
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import Contribution

UNDECIDED = (Verdict.INCONCLUSIVE, Verdict.SIZE_UNCLEAR)
OPEN_STATES = (Materiality.INCONCLUSIVE, Materiality.DETECTED)
DECISION = "what, if anything, should change. Record the decision with its reasons."


def next_steps(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the next steps suggested by all comparisons, one line per person responsible."""
    if any(c.gap.low is None for c in comparisons):
        repeat = "Repeat the audit with intervals (folds=5, --folds 5), because these are plug-in values."
        yield f"{_owner(comparisons)}: {repeat}"
        return
    lines = {
        "Reviewer": _review(comparisons),
        "Data owner": [*_group_labels(comparisons), *_missing_factors(comparisons), *_more_rows(comparisons)],
        _owner(comparisons): [*_features(comparisons), *_alternatives(comparisons)],
    }
    steps = {owner: sentences for owner, sentences in lines.items() if sentences}
    yield from (f"{owner}: {' '.join(sentences)}" for owner, sentences in steps.items())
    if not steps:
        m = measure_of(comparisons[0])
        yield f"{_owner(comparisons)}: Repeat the audit when the {m.each}s or the {m.people} change."
    names = _names(of_kind([row for c in comparisons for row in c.by_feature], EVIDENCE))
    legitimate = f"whether the use of {names} is legitimate and " if names else ""
    yield f"Legal and policy: Decide {legitimate}{DECISION}"


def _owner(comparisons: Sequence[Comparison]) -> str:
    """Return the owner of the outputs, not of a model, because people may have made the decisions."""
    return f"Owner of the {measure_of(comparisons[0]).each}s"


def _of(comparisons: Sequence[Comparison], chosen: Sequence[Comparison]) -> str:
    """Return the groups that a step is about, in brackets, if there are several."""
    return f" ({named_list([c.audited for c in chosen], 3)})" if len(comparisons) > 1 else ""


def _review(comparisons: Sequence[Comparison]) -> list[str]:
    failed = [c for c in comparisons if c.checks.is_adequate is False]
    who = _of(comparisons, failed)
    return [f"Do not rely on the adjusted gap yet{who}; its overlap and calibration checks failed."] if failed else []


def _group_labels(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what is needed to judge the gap of unobserved groups."""
    unsure = [c for c in comparisons if c.unobserved_group and c.unobserved_group.status != Status.CHECKED]
    if not unsure:
        return
    if any(c.unobserved_group and c.unobserved_group.status == Status.NOT_JUDGED for c in unsure):
        yield f"Calibrate the group probabilities, or obtain group labels{_of(comparisons, unsure)}."
    else:
        yield f"Obtain group labels of some rows, to check the group probabilities{_of(comparisons, unsure)}."


def _missing_factors(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the advice to look for missing factors if the listed features leave a material gap."""
    if material := [c for c in _with_adjusted(comparisons, Materiality.MATERIAL) if c.checks.is_adequate is not False]:
        size = estimate_words(Estimate(material[0].adjusted_gap or 0.0), measure_of(material[0]))
        much = size if len(comparisons) == 1 else "a material gap"
        yield (
            "Look for factors missing from the data, because the listed features do not account for "
            f"{much}{_of(comparisons, material)}."
        )


def _more_rows(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the advice to add rows, with the results that are still inconclusive."""
    gaps = [c for c in comparisons if gap_status(c) in OPEN_STATES]
    adjusted = _with_adjusted(comparisons, *OPEN_STATES)
    features = _distinct([row for c in comparisons for row in c.by_feature if row.verdict in UNDECIDED])
    parts = [f"the gap{_of(comparisons, gaps)}"] * bool(gaps)
    parts += [f"the adjusted gap{_of(comparisons, adjusted)}"] * bool(adjusted)
    parts += [f"the contribution{'s' if len(features) > 1 else ''} of {named_list(features)}"] * bool(features)
    if parts:
        yield f"Add rows, if you can collect enough, to settle {enumerate_words(parts)}."


def _with_adjusted(comparisons: Sequence[Comparison], *states: Materiality) -> list[Comparison]:
    left = [(c, c.adjusted_gap) for c in comparisons]
    return [c for c, gap in left if gap is not None and materiality(gap.low, gap.high, c.scale.materiality) in states]


def _features(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the steps on features: list, remove, check or audit them."""
    rows, m = [row for c in comparisons for row in c.by_feature], measure_of(comparisons[0])
    if not rows:
        yield "Repeat the audit with features, to see what accounts for the gap."
    if names := _names(of_kind(rows, THE_GROUP)):
        yield f"Remove {names} from the features, or explain why the {m.each}s may use the group."
    if names := _names(of_kind(rows, EVIDENCE)):
        yield f"Check that records of {names} are accurate in all groups."
    if names := _names([row for row in rows if row.verdict == Verdict.PROXY_OR_STAND_IN]):
        behind = SCORES_BEHIND if m.each == "decision" else MODEL_ITSELF
        yield f"Audit {behind}, to show whether the {m.each}s use {names}."


def _alternatives(comparisons: Sequence[Comparison]) -> Iterator[str]:
    worse = [c for c in comparisons if gap_status(c) is Materiality.MATERIAL and fares_worse(c)]
    if worse and not measure_of(comparisons[0]).is_amount:
        has_outcomes = all(c.error_rates is not None for c in worse)
        needs = "" if has_outcomes else " (observed outcomes are needed)"
        yield f"Search for less discriminatory alternatives{needs}."


def _names(rows: Sequence[Contribution]) -> str:
    return named_list(_distinct(rows)) if rows else ""


def _distinct(rows: Sequence[Contribution]) -> list[str]:
    return [*dict.fromkeys(label(row.feature) for row in rows)]


NO_LINE = "the four-fifths rule is about decisions, not scores"


class Tile(NamedTuple):
    """A number of the first screen: its name, its value and a note."""

    name: str
    value: str
    note: str


class Doubt(NamedTuple):
    """A line about the reliability of a comparison."""

    text: str
    is_warning: bool


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """The finding on the group with the largest disadvantage and, if there are several groups, on all of them."""

    headline: str
    findings: tuple[str, ...]
    tiles: tuple[Tile, ...]
    reliability: tuple[Doubt, ...]
    next_steps: tuple[str, ...]
    lead: str = ""  # shown above the headline if there are several groups


def first_screen(audit: Audit) -> FirstScreen:
    """Return the first screen of an audit."""
    comparisons = [*by_gap(audit).comparisons.values()]
    if len(comparisons) == 1:
        return screen_of(comparisons[0], audit)
    c, steps = comparisons[0], tuple(next_steps(comparisons))
    lead = f"{'Largest disadvantage' if fares_worse(c) else 'Widest gap'} among {len(comparisons)} groups"
    doubts = tuple(_all_reliability(audit, comparisons))
    return FirstScreen(headline(audit, c)[0], tuple(_states(comparisons)), (), doubts, steps, lead)


def screen_of(c: Comparison, audit: Audit | None = None) -> FirstScreen:
    """Return the first screen of a comparison, with or without its audit."""
    first, *others = headline(audit, c)
    return FirstScreen(first, tuple(others), tuple(tiles(c)), tuple(reliability(audit, c)), tuple(next_steps([c])))


def _all_reliability(audit: Audit, comparisons: Sequence[Comparison]) -> Iterator[Doubt]:
    """Yield the reliability of an audit of several groups, summarised over the groups."""
    m, groups = measure_of(audit), len(comparisons)
    sizes = sorted(c.rows["audited"] for c in comparisons)
    people, others = f"{m.people}{expected(comparisons[0])}", count(comparisons[0].rows["reference"])
    ends = dict.fromkeys((count(sizes[0]), count(sizes[-1])))
    yield Doubt(f"{' to '.join(ends)} {people} per group, {others} in the reference", False)
    failed = [c.audited for c in comparisons if c.checks.is_adequate is False]
    if any(c.checks.is_adequate is not None for c in comparisons):
        text = f"failed for {named_list(failed)}" if failed else f"passed for all {groups} groups"
        yield Doubt(f"overlap and calibration checks {text}", bool(failed))
    if is_open := sum(bool(of_kind(c.by_feature, OPEN)) for c in comparisons):
        yield Doubt(f"features without a clear verdict in {is_open} of {groups} groups", True)
    if warned := sum(bool(c.checks.notes) for c in comparisons):
        yield Doubt(f"warnings about {warned} of {groups} groups below", True)
    if not audit.provenance.stated:
        yield Doubt("no provenance recorded", True)


def _states(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the number and names of groups with a material gap, with none, or with an inconclusive one."""
    other = label(comparisons[0].reference, SHORT)
    parts = []
    for status, words in STATES.items():
        for is_worse in (True, False) if status is Materiality.MATERIAL else (None,):
            chosen = [c for c in comparisons if gap_status(c) is status and is_worse in (None, fares_worse(c))]
            whose = {True: " to their disadvantage", False: " to their advantage", None: ""}[is_worse]
            if chosen:
                parts.append(f"{len(chosen)} with {words}{whose} ({named_list([c.audited for c in chosen])})")
    if parts:
        yield f"{len(comparisons)} groups were compared with {other}: {'; '.join(parts)}."


def tiles(c: Comparison) -> list[Tile]:
    """Return the tiles: gap, adjusted gap and ratio; without an adjusted gap also the shortfall."""
    if c.unobserved_group is not None:
        return list(_unobserved_tiles(c, c.unobserved_group))
    m, gaps = measure_of(c), {"gap": c.gap, "adjusted_gap": c.adjusted_gap}
    numbers = [_tile(c, key, gap, brief(gap, m)) for key, gap in gaps.items() if gap is not None]
    key = "adverse_impact_ratio" if is_of_decisions(c) else "impact_ratio"
    if (quotient := c.estimate(key)) is not None:
        line = [against_four_fifths(quotient) if is_of_decisions(c) else NO_LINE] * (not m.is_amount)
        numbers.append(_tile(c, key, quotient, ratio, *line, ratio_words(c, quotient)))
    if c.adjusted_gap is None and c.shortfall is not None:
        numbers.append(_tile(c, "shortfall", c.shortfall, m.total))
    return numbers


def _tile(c: Comparison, key: str, estimate: Estimate, write: Shown, *notes: str) -> Tile:
    """Return the tile of an estimate with its unit, its interval and notes, by default its definition."""
    m, item = measure_of(c), quantity(key)
    value = within(estimate.low, estimate.high, write)(estimate.value)
    ends = [] if estimate.low is None else [f"{level_of(c)} {interval(estimate.low, estimate.high, write)}"]
    note = "; ".join([*ends, *(notes or [fill(item.definition, m)])])
    return Tile(item.label, f"{value} {format_of(item.scale, m).unit}".rstrip(), note)


def _unobserved_tiles(c: Comparison, soft: UnobservedGroup) -> Iterator[Tile]:
    """Yield the tiles of both estimates and the limits of an unobserved group's gap."""
    m, limits = measure_of(c), quantity("limits")
    for key, estimate in (("weighted_gap", soft.weighted), ("linear", soft.linear)):
        if estimate is not None:
            yield _tile(c, key, estimate, brief(estimate, m))
    if soft.limits is not None:
        yield Tile(limits.label, range_words(soft.limits, m), limits.definition)


def reliability(audit: Audit | None, c: Comparison) -> Iterator[Doubt]:
    """Yield short lines on the reliability of a comparison."""
    rows, m = c.by_feature, measure_of(c)
    yield Doubt(f"{count(c.rows['audited'])} and {count(c.rows['reference'])} {m.people}{expected(c)}", False)
    if c.unobserved_group:
        status = c.unobserved_group.status
        yield Doubt(f"group probabilities: {status}", status != "checked")
    if c.gap.low is None:
        yield Doubt("plug-in values: no intervals, no verdicts", True)
    elif c.gap_test and audit is not None:
        p = c.gap_test.p_value
        is_sure = is_significant(p, audit.settings.confidence, len(audit))
        is_doubt = not is_sure and gap_status(c) is not Materiality.NOT_MATERIAL
        yield Doubt(f"gap {'' if is_sure else 'not '}statistically significant ({p_value(p)})", is_doubt)
    if (is_adequate := c.checks.is_adequate) is not None:
        yield Doubt(f"overlap and calibration checks {'passed' if is_adequate else 'failed'}", not is_adequate)
    if is_open := len(of_kind(rows, OPEN)):
        yield Doubt(f"{is_open} of {len(rows)} features without a clear verdict", True)
    if warnings := len(c.checks.notes):
        yield Doubt(f"{warnings} warning{'s' if warnings > 1 else ''} below", True)
    if audit is not None and not audit.provenance.stated:
        yield Doubt("no provenance recorded", True)
