"""Notes for readers of a rule's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from tiltlens.estimators.estimate import quantile
from tiltlens.limits import MINIMUM_ROWS
from tiltlens.rows.groups import alike_notes
from tiltlens.rules.measures import Limits, decimals
from tiltlens.rules.rule import Rule
from tiltlens.rules.tally import Outcomes
from tiltlens.sources.messages import listed, shown


def notes_of(
    rule: Rule, frames: Mapping[str, pl.DataFrame], outcomes: Outcomes, favourable: str, limits: Limits
) -> Iterator[str]:
    """Yield notes on the groups, the thresholds, the outcome and the intervals."""
    if len(frames) > 1:
        yield rule.intersections
    elif len(rule.attributes) > 1:
        wanted = " and by ".join(rule.attributes)
        yield f"The rule asks for tables by {wanted}; these are by {shown(next(iter(frames)))} only."
    for name, frame in frames.items():
        names = frame[name] if name in frame.columns else ()  # intersections repeat the notes on their parts
        yield from (f"{note[:1].upper()}{note[1:]}." for note in alike_notes(names))
    yield from _on_limits(rule, limits)
    yield from _on_outcome(outcomes, favourable)
    if len(frames) > 1 and any(frame["rate"].null_count() for frame in frames.values()):
        yield "A rate that one table suppresses may follow from the others: check before you publish them."
    yield "Intervals and tests take the group with the highest rate as given; they are not adjusted for several groups."


def test_notes(tests: Mapping[str, pl.DataFrame], strata: Sequence[str], unknown: int, limits: Limits) -> Iterator[str]:
    """Yield notes on the tests, and on people without a stratum."""
    if not any(frame.height for frame in tests.values()):
        return
    yield "Tests count people, not weights."
    yield "The odds ratio is that of the sample; its interval contains the ratios that the z test does not reject."
    ends = f"the rate lies on the other side of {quantile(limits.confidence):.2f} standard deviations below the highest"
    if limits.threshold is not None:
        ends = f"the ratio lies on the other side of {decimals(limits.threshold)}, or {ends}"
    yield f"Flips: the fewest changed decisions in both groups together after which {ends}."
    if strata:
        of = listed(list(strata))
        yield f"Strata are the values of {of}; the Cochran–Mantel–Haenszel test has no continuity correction."
    if unknown:
        yield f"{unknown:,} people without a stratum are left out of this test."


def _on_limits(rule: Rule, limits: Limits) -> Iterator[str]:
    """Yield notes on numbers that are not the rule's own."""
    if limits.threshold is None:
        yield "The rule states no threshold."
    elif limits.threshold != rule.threshold:
        stated = "none" if rule.threshold is None else decimals(rule.threshold)
        yield f"The threshold of {decimals(limits.threshold)} was chosen here; the rule states {stated}."
    if limits.smallest_share != (rule.smallest_share or 0.0):
        stated = "none" if rule.smallest_share is None else f"{100 * rule.smallest_share:g}%"
        yield f"The smallest share of {100 * limits.smallest_share:g}% was chosen here; the rule states {stated}."


def _on_outcome(outcomes: Outcomes, favourable: str) -> Iterator[str]:
    """Yield notes on the favourable outcome, and on people whose score is the median."""
    if favourable == "low":
        what = "a 0 counts as selected" if outcomes.median is None else "the rate is the share below the median"
        yield f"Low is favourable here: {what}."
    elif favourable != "high":
        yield f"{shown(favourable)} counts as selected."
    if outcomes.at_median is not None and outcomes.at_median >= MINIMUM_ROWS:
        side = "above" if favourable == "high" else "below"
        yield f"{outcomes.at_median:,} people have exactly the median score; they do not count as {side} it."
