"""What a reader of a rule's tables has to know, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from tiltlens.estimators.estimate import quantile
from tiltlens.limits import MINIMUM_ROWS
from tiltlens.rows.groups import alike_notes
from tiltlens.rules.outcomes import Outcomes
from tiltlens.rules.ratios import Limits, decimals
from tiltlens.rules.rule import Rule
from tiltlens.sources.messages import listed, shown


def notes_of(
    rule: Rule, frames: Mapping[str, pl.DataFrame], outcomes: Outcomes, favourable: str, limits: Limits
) -> Iterator[str]:
    """Yield the sentences: on the groups, on what was asked for, on the outcome, on the intervals."""
    if len(frames) > 1:
        yield rule.intersections
    elif len(rule.attributes) > 1:
        wanted = " and by ".join(rule.attributes)
        yield f"The rule asks for tables by {wanted}; these are by {shown(next(iter(frames)))} only."
    for name, frame in frames.items():
        names = frame[name] if name in frame.columns else ()  # of intersections the parts have said it
        yield from (f"{note[:1].upper()}{note[1:]}." for note in alike_notes(names))
    yield from _on_limits(rule, limits)
    yield from _on_outcome(outcomes, favourable)
    if len(frames) > 1 and any(frame["rate"].null_count() for frame in frames.values()):
        yield "Where one group is too small for a rate, the tables together may still tell it: look before publishing."
    yield "Intervals and tests take the group with the highest rate as given, and each other group by itself."


def test_notes(tests: Mapping[str, pl.DataFrame], strata: Sequence[str], unknown: int, limits: Limits) -> Iterator[str]:
    """Yield what the tests are of, and who is in no stratum."""
    if not any(frame.height for frame in tests.values()):
        return
    yield "Tests are of people, not of weights."
    yield "The odds ratio is the sample's; its interval holds the ratios that the z test would not reject."
    ends = f"the rate lies on the other side of {quantile(limits.confidence):.2f} standard deviations below the highest"
    if limits.threshold is not None:
        ends = f"the ratio lies on the other side of {decimals(limits.threshold)}, or {ends}"
    yield f"Flips: the fewest changed decisions, in the two groups together, after which {ends}."
    if strata:
        of = listed(list(strata))
        yield f"Strata are the values of {of}; the Cochran–Mantel–Haenszel test has no continuity correction."
    if unknown:
        yield f"{unknown:,} people whose stratum is unknown add nothing to that test."


def _on_limits(rule: Rule, limits: Limits) -> Iterator[str]:
    """Yield which numbers are not the rule's own."""
    if limits.threshold is None:
        yield "The rule states no threshold, and none was asked for."
    elif limits.threshold != rule.threshold:
        own = "none" if rule.threshold is None else decimals(rule.threshold)
        yield f"The threshold of {decimals(limits.threshold)} was asked for here; the rule states {own}."
    if limits.smallest_share != (rule.smallest_share or 0.0):
        own = "none" if rule.smallest_share is None else f"{100 * rule.smallest_share:g} %"
        yield f"The smallest share of {100 * limits.smallest_share:g} % was asked for here; the rule states {own}."


def _on_outcome(outcomes: Outcomes, favourable: str) -> Iterator[str]:
    """Yield which end of the outcome counts, and how many lie exactly at the median."""
    if favourable == "low":
        what = "a 0 counts as selected" if outcomes.median is None else "the rate is the share below the median"
        yield f"Low is favourable here: {what}."
    elif favourable != "high":
        yield f"{shown(favourable)} counts as selected."
    if outcomes.at_median is not None and outcomes.at_median >= MINIMUM_ROWS:
        side = "above" if favourable == "high" else "below"
        yield f"{outcomes.at_median:,} people score exactly the median; they do not count as {side} it."
