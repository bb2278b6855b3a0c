"""What to do after an audit: what to look at, what would settle what is inconclusive, and who decides."""

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
WHO_DECIDES = (
    "Whether a feature is legitimate, and whether to change the model, is a legal and policy decision. Record who "
    "takes it in the sign-off."
)


def next_steps(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the steps that the numbers of all compared groups suggest, the most urgent first."""
    if any(c.gap.low is None for c in comparisons):
        yield "Repeat the audit with intervals (folds=5); these are plug-in values."
        return
    yield from _checks(comparisons)
    steps = [*_adjusted(comparisons), *_features(comparisons), *_inconclusive(comparisons)]
    m = measure_of(comparisons[0])
    if any(gap_status(c) is Materiality.MATERIAL and fares_worse(c) for c in comparisons) and not m.is_amount:
        steps.append(
            "Search for less discriminatory alternatives (tiltlens alternatives), which needs observed outcomes."
        )
    if not steps and any(c.by_feature for c in comparisons):
        steps.append(
            f"These numbers do not suggest further steps. Repeat the audit when the model or the {m.people} change."
        )
    if not any(c.by_feature for c in comparisons):
        steps.append("List the features of the model to see what accounts for the gap.")
    yield from steps
    yield WHO_DECIDES


def _of(comparisons: Sequence[Comparison], chosen: Sequence[Comparison]) -> str:
    """Return whose comparisons a step is about, where there are several."""
    return f" ({named_list([c.audited for c in chosen])})" if len(comparisons) > 1 else ""


def _checks(comparisons: Sequence[Comparison]) -> Iterator[str]:
    failed = [c for c in comparisons if c.checks.is_adequate is False]
    if failed:
        yield (
            f"Do not rely on the adjusted gap yet{_of(comparisons, failed)}: the overlap and calibration checks "
            "failed. The reasons are in “For statisticians”."
        )


def _adjusted(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield what to do about what the listed features leave."""
    material = [
        c for c in comparisons if _adjusted_status(c) is Materiality.MATERIAL and c.checks.is_adequate is not False
    ]
    if material:
        size = estimate_words(Estimate(abs(material[0].adjusted_gap or 0.0)), measure_of(material[0]))
        much = size if len(comparisons) == 1 else "a material gap"
        yield (
            f"Look for factors missing from the data: the listed features leave {much} unaccounted for"
            f"{_of(comparisons, material)}."
        )
    is_open = [c for c in comparisons if _adjusted_status(c) in (Materiality.INCONCLUSIVE, Materiality.DETECTED)]
    if is_open and not material:
        yield f"Audit more rows to settle the adjusted gap{_of(comparisons, is_open)}."


def _adjusted_status(c: Comparison) -> Materiality | None:
    left = c.adjusted_gap
    return None if left is None else materiality(left.low, left.high, c.scale.materiality)


def _features(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield which features to review, and what would tell proxies from stand-ins."""
    rows = [row for c in comparisons for row in c.by_feature]
    m = measure_of(comparisons[0])
    if names := _names(of_kind(rows, THE_GROUP)):
        yield f"Remove {names} from the features, or explain why the model may use the group."
    if names := _names(of_kind(rows, EVIDENCE)):
        yield f"Check whether {names} (potential proxies) are accurate in all groups and legitimate."
    if names := _names([row for row in rows if row.verdict == Verdict.PROXY_OR_STAND_IN]):
        what = ", or the scores behind the decisions" if m.each == "decision" else ""
        yield f"Obtain the model{what}, to see whether it uses {names} (model=)."


def _inconclusive(comparisons: Sequence[Comparison]) -> Iterator[str]:
    undecided = [c for c in comparisons if gap_status(c) in (Materiality.INCONCLUSIVE, Materiality.DETECTED)]
    if undecided:
        yield f"Audit more rows to settle the gap{_of(comparisons, undecided)}."
    names = _names([row for c in comparisons for row in c.by_feature if row.verdict in UNDECIDED])
    if names:
        yield f"Audit more rows to settle {names}; the reason next to each verdict says how many."


def _names(rows: Sequence[Contribution]) -> str:
    return named_list([*dict.fromkeys(label(row.feature) for row in rows)]) if rows else ""
