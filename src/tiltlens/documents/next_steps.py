"""What to do after an audit, and who: at most one line each for reviewer, owners of data and outputs, and legal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiltlens.analysis.feature_use import BEHIND, MODEL
from tiltlens.analysis.unobserved_groups import Status
from tiltlens.documents.headline import gap_status, listed, named_list, of_kind
from tiltlens.documents.measures import fares_worse, measure_of
from tiltlens.documents.quantities import estimate_words
from tiltlens.documents.verdict_texts import EVIDENCE, THE_GROUP
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.verdicts import Materiality, Verdict, materiality
from tiltlens.formats import label
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import Contribution

UNDECIDED = (Verdict.INCONCLUSIVE, Verdict.SIZE_UNCLEAR)
OPEN_STATES = (Materiality.INCONCLUSIVE, Materiality.DETECTED)
DECISION = "what, if anything, should change. Record the decision with its reasons."


def next_steps(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the steps that the numbers of all compared groups suggest, one line per owner."""
    if any(c.gap.low is None for c in comparisons):
        yield f"{_owner(comparisons)}: Repeat the audit with intervals (folds=5); these are plug-in values."
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
    yield f"Legal and policy: {_decide(comparisons)}"


def _owner(comparisons: Sequence[Comparison]) -> str:
    """Return who answers for the outputs: decisions may come from people, without a model."""
    return f"Owner of the {measure_of(comparisons[0]).each}s"


def _of(comparisons: Sequence[Comparison], chosen: Sequence[Comparison]) -> str:
    """Return whose comparisons a step is about, where there are several."""
    return f" ({named_list([c.audited for c in chosen], 3)})" if len(comparisons) > 1 else ""


def _review(comparisons: Sequence[Comparison]) -> list[str]:
    failed = [c for c in comparisons if c.checks.is_adequate is False]
    who = _of(comparisons, failed)
    return [f"Do not rely on the adjusted gap yet{who}; its overlap and calibration checks failed."] if failed else []


def _group_labels(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what unobserved groups need before their gap can be judged."""
    unsure = [c for c in comparisons if c.unobserved_group and c.unobserved_group.status != Status.CHECKED]
    if not unsure:
        return
    if any(c.unobserved_group and c.unobserved_group.status == Status.NOT_JUDGED for c in unsure):
        yield f"Calibrate the group probabilities, or obtain group labels{_of(comparisons, unsure)}."
    else:
        yield f"Obtain group labels of some rows, to check the group probabilities{_of(comparisons, unsure)}."


def _missing_factors(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what to look for where the listed features leave a material gap."""
    if material := [c for c in _with_adjusted(comparisons, Materiality.MATERIAL) if c.checks.is_adequate is not False]:
        size = estimate_words(Estimate(material[0].adjusted_gap or 0.0), measure_of(material[0]))
        much = size if len(comparisons) == 1 else "a material gap"
        yield (
            "Look for factors missing from the data, because the listed features do not account for "
            f"{much}{_of(comparisons, material)}."
        )


def _more_rows(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what more rows would settle."""
    gaps = [c for c in comparisons if gap_status(c) in OPEN_STATES]
    adjusted = _with_adjusted(comparisons, *OPEN_STATES)
    features = _distinct([row for c in comparisons for row in c.by_feature if row.verdict in UNDECIDED])
    parts = [f"the gap{_of(comparisons, gaps)}"] * bool(gaps)
    parts += [f"the adjusted gap{_of(comparisons, adjusted)}"] * bool(adjusted)
    parts += [f"the contribution{'s' if len(features) > 1 else ''} of {named_list(features)}"] * bool(features)
    if parts:
        yield f"Add rows, if you can collect enough, to settle {listed(parts)}."


def _with_adjusted(comparisons: Sequence[Comparison], *states: Materiality) -> list[Comparison]:
    left = [(c, c.adjusted_gap) for c in comparisons]
    return [c for c, gap in left if gap is not None and materiality(gap.low, gap.high, c.scale.materiality) in states]


def _features(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what the features ask of the owner of the model."""
    rows, m = [row for c in comparisons for row in c.by_feature], measure_of(comparisons[0])
    if not rows:
        yield "Repeat the audit with features, to see what accounts for the gap."
    if names := _names(of_kind(rows, THE_GROUP)):
        yield f"Remove {names} from the features, or explain why the {m.each}s may use the group."
    if names := _names(of_kind(rows, EVIDENCE)):
        yield f"Check that records of {names} are accurate in all groups."
    if names := _names([row for row in rows if row.verdict == Verdict.PROXY_OR_STAND_IN]):
        yield f"Audit {BEHIND if m.each == 'decision' else MODEL}, to show whether the {m.each}s use {names}."


def _alternatives(comparisons: Sequence[Comparison]) -> Iterator[str]:
    worse = [c for c in comparisons if gap_status(c) is Materiality.MATERIAL and fares_worse(c)]
    if worse and not measure_of(comparisons[0]).is_amount:
        has_outcomes = all(c.error_rates is not None for c in worse)
        needs = "" if has_outcomes else " (observed outcomes are needed)"
        yield f"Search for less discriminatory alternatives{needs}."


def _decide(comparisons: Sequence[Comparison]) -> str:
    names = _names(of_kind([row for c in comparisons for row in c.by_feature], EVIDENCE))
    return f"Decide whether the use of {names} is legitimate and {DECISION}" if names else f"Decide {DECISION}"


def _names(rows: Sequence[Contribution]) -> str:
    return named_list(_distinct(rows)) if rows else ""


def _distinct(rows: Sequence[Contribution]) -> list[str]:
    return [*dict.fromkeys(label(row.feature) for row in rows)]
