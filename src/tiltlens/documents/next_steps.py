"""What to do after an audit, and who: at most one line each for reviewer, data owner, model owner and legal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiltlens.documents.headline import gap_status, named_list, of_kind
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
DECISION = "whether the model should change, and record the decision in the sign-off."


def next_steps(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the steps that the numbers of all compared groups suggest, one line per owner."""
    if any(c.gap.low is None for c in comparisons):
        yield "Model owner: Repeat the audit with intervals (folds=5); these are plug-in values."
        return
    lines = {
        "Reviewer": _review(comparisons),
        "Data owner": [*_missing_factors(comparisons), *_more_rows(comparisons)],
        "Model owner": [*_features(comparisons), *_alternatives(comparisons)],
    }
    steps = {owner: sentences for owner, sentences in lines.items() if sentences}
    yield from (f"{owner}: {' '.join(sentences)}" for owner, sentences in steps.items())
    if not steps:
        people = measure_of(comparisons[0]).people
        yield f"Model owner: Repeat the audit when the model or the {people} change. No other step is suggested."
    yield f"Legal and policy: {_decide(comparisons)}"


def _of(comparisons: Sequence[Comparison], chosen: Sequence[Comparison]) -> str:
    """Return whose comparisons a step is about, where there are several."""
    return f" ({named_list([c.audited for c in chosen], 3)})" if len(comparisons) > 1 else ""


def _review(comparisons: Sequence[Comparison]) -> list[str]:
    failed = [c for c in comparisons if c.checks.is_adequate is False]
    who = _of(comparisons, failed)
    return [f"Do not rely on the adjusted gap yet{who}; its overlap and calibration checks failed."] if failed else []


def _missing_factors(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what to look for where the listed features leave a material gap."""
    if material := [c for c in _with_adjusted(comparisons, Materiality.MATERIAL) if c.checks.is_adequate is not False]:
        size = estimate_words(Estimate(abs(material[0].adjusted_gap or 0.0)), measure_of(material[0]))
        much = size if len(comparisons) == 1 else "a material gap"
        yield (
            "Look for factors missing from the data, because the listed features do not account for "
            f"{much}{_of(comparisons, material)}."
        )


def _more_rows(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what more rows would settle."""
    gaps = [c for c in comparisons if gap_status(c) in OPEN_STATES]
    adjusted = _with_adjusted(comparisons, *OPEN_STATES)
    features = _names([row for c in comparisons for row in c.by_feature if row.verdict in UNDECIDED])
    parts = [f"the gap{_of(comparisons, gaps)}"] * bool(gaps)
    parts += [f"the adjusted gap{_of(comparisons, adjusted)}"] * bool(adjusted)
    if parts or features:
        enough = f"if you can collect enough{' (see the reason of each verdict)' if features else ''}"
        yield f"Add rows, {enough}, to settle {', '.join(filter(None, [*parts, features]))}."


def _with_adjusted(comparisons: Sequence[Comparison], *states: Materiality) -> list[Comparison]:
    left = [(c, c.adjusted_gap) for c in comparisons]
    return [c for c, gap in left if gap is not None and materiality(gap.low, gap.high, c.scale.materiality) in states]


def _features(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what the features ask of the owner of the model."""
    rows, m = [row for c in comparisons for row in c.by_feature], measure_of(comparisons[0])
    if not rows:
        yield "List the features of the model, to see what accounts for the gap."
    if names := _names(of_kind(rows, THE_GROUP)):
        yield f"Remove {names} from the features, or explain why the model may use the group."
    if names := _names(of_kind(rows, EVIDENCE)):
        yield f"Check that records of {names} are accurate in all groups."
    if names := _names([row for row in rows if row.verdict == Verdict.PROXY_OR_STAND_IN]):
        what = ", or the scores behind the decisions," if m.each == "decision" else ""
        yield f"Provide the model{what} to show whether it uses {names}."


def _alternatives(comparisons: Sequence[Comparison]) -> Iterator[str]:
    worse = [c for c in comparisons if gap_status(c) is Materiality.MATERIAL and fares_worse(c)]
    if worse and not measure_of(comparisons[0]).is_amount:
        yield "Search for less discriminatory alternatives, which needs observed outcomes."


def _decide(comparisons: Sequence[Comparison]) -> str:
    names = _names(of_kind([row for c in comparisons for row in c.by_feature], EVIDENCE))
    return f"Decide whether the use of {names} is legitimate and {DECISION}" if names else f"Decide {DECISION}"


def _names(rows: Sequence[Contribution]) -> str:
    return named_list([*dict.fromkeys(label(row.feature) for row in rows)]) if rows else ""
