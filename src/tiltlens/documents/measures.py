"""How the numbers of a result are written, and what its gap is of."""

from __future__ import annotations

from dataclasses import replace

from tiltlens.estimators.estimate import Estimate
from tiltlens.formats import interval_name
from tiltlens.results.audit import Audit
from tiltlens.results.change import Change, GroupChange
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import Rates
from tiltlens.rows.wording import Measure, measure_for

Result = Audit | Change | Comparison | GroupChange
BOTH = ("audited", "reference")
SAME = 1e-9  # between a mean and a rate that are the same number


def group_of(c: Comparison | GroupChange, role: str) -> str:
    """Return the name of the group in a role, "audited" or "reference"."""
    return c.audited if role == "audited" else c.reference


def first_of(result: Result) -> Comparison | GroupChange | None:
    """Return the first comparison of an audit or a change, of others themselves; None of a change without groups."""
    if isinstance(result, Comparison | GroupChange):
        return result
    comparisons: list[Comparison | GroupChange] = [*result.comparisons.values()]
    return comparisons[0] if comparisons else None


def measure_of(result: Result) -> Measure:
    """Return how the numbers of a result are written."""
    if (c := first_of(result)) is None:
        return measure_for(result.score_type if isinstance(result, Audit | Change) else result.scale.score_type)
    measure = measure_for(c.scale.score_type, c.scale.metric, c.scale.wording)
    is_rate = measure.each == "decision" and measure.favoured and not measure.among
    return replace(measure, mean=measure.rate) if is_rate and is_favourable_mean(c) else measure


def metric_of(result: Result) -> str | None:
    """Return the error rate whose difference was audited, if one was."""
    c = first_of(result)
    return None if c is None else c.scale.metric


def level_of(c: Comparison | GroupChange) -> str:
    """Return the name of the intervals of a comparison: "95% CI"."""
    return interval_name(c.scale.confidence)


def subject(result: Result) -> str:
    """Return what an audit, or a change, is of: the scores, or an error rate of theirs."""
    measure = measure_of(result)
    return f"{measure.each}s, their {measure.output}s," if metric_of(result) else f"{measure.each}s"


def is_favourable_mean(c: Comparison | GroupChange) -> bool:
    """Return whether the means whose difference is the gap are favourable rates, or amounts of which more is better."""
    if isinstance(c, GroupChange):
        return False
    pairs = zip(c.outputs.means, c.outputs.rates, strict=True)  # of several classes the favourable one counts
    return all(isinstance(mean, tuple) or abs(mean - rate.value) < SAME for mean, rate in pairs)


def means(c: Comparison) -> tuple[float, float]:
    """Return the two means whose difference is the gap; of more than two classes, those of the favourable one."""
    audited, reference = (
        rate.value if isinstance(mean, tuple) else mean
        for mean, rate in zip(c.outputs.means, c.outputs.rates, strict=True)
    )
    return audited, reference


def mean_estimates(c: Comparison) -> Rates:
    """Return both groups' means in the direction of the gap, with their intervals; for low scores 1 minus the rates."""
    if c.outputs.metric_rates is not None:
        return c.outputs.metric_rates
    return c.outputs.rates if is_favourable_mean(c) else Rates(*map(_opposite, c.outputs.rates))


def _opposite(rate: Estimate) -> Estimate:
    low, high = (None if end is None else 1.0 - end for end in (rate.high, rate.low))
    return Estimate(1.0 - rate.value, low, high)


def by_gap(audit: Audit) -> Audit:
    """Return the audit with those first who surely fare worse than the reference; the widest gaps before others."""
    widest = sorted(audit.items(), key=lambda pair: -abs(pair[1].gap.value))
    return replace(audit, comparisons=dict(sorted(widest, key=lambda pair: not fares_worse(pair[1]))))


def fares_worse(c: Comparison) -> bool:
    """Return whether the audited group surely has less of what a person wants; unobserved groups have no shortfall."""
    if c.shortfall is None:
        return False
    return (c.shortfall.value if c.shortfall.low is None else c.shortfall.low) > 0.0
