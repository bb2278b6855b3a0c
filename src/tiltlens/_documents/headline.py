"""The finding in sentences: gap, disadvantage, adjusted gap and contributions; ratios; unobserved groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiltlens._analysis.unobserved_groups import Status, UnobservedGroup
from tiltlens._documents import document as doc
from tiltlens._documents.quantities import Quantity, brief, estimate_words, fill, quantity, range_words, written
from tiltlens._estimators.estimate import Estimate, Materiality, materiality, side_of
from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import capitalised, enumerate_words, label, minus, number, percent, ratio
from tiltlens._limits import FOUR_FIFTHS
from tiltlens._notes import MAY_ACCOUNT_FOR
from tiltlens._results.audit import Audit
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import Contribution
from tiltlens._rows.wording import Measure

OWN_ERROR = (
    "These intervals exclude the error of the probabilities themselves. Contributions are those to the weighted gap."
)
WEIGHTED = "weighted by group probability"


def expected(c: Comparison) -> str:
    """Return " expected", to follow a number of people that is a sum of group probabilities, or ""."""
    return "" if c.unobserved_group is None else " expected"


def weighted(gap: Quantity, c: Comparison) -> Quantity:
    """Return the quantity of the gap, labelled "weighted gap" for unobserved groups."""
    return replace(gap, label=gap_name(c))


def gap_name(c: Comparison) -> str:
    """Return the label of the gap: "weighted gap" for unobserved groups."""
    return quantity("weighted_gap" if c.unobserved_group else "gap").label


def unobserved_group_sentences(c: Comparison) -> list[str]:
    """Return how to read the estimates of an unobserved group's gap; nothing for observed groups."""
    if c.unobserved_group is None:
        return []
    soft, measure = c.unobserved_group.disclosed(), doc.measure_of(c)
    lines = [
        "Weighted: each row counts in both groups by its probabilities. Linear: the slope of the "
        f"{measure.each} on the group probability.",
        *_checks(soft, measure),
    ]
    if soft.limits is not None:
        lines.append(f"If the probabilities are calibrated, the gap is {range_words(soft.limits, measure)}.")
    return [*lines, OWN_ERROR]


def bracket_words(soft: UnobservedGroup, measure: Measure, groups: str) -> list[str]:
    """Return the range of an unobserved group's gap with its assumptions, because one estimate would mislead."""
    between = f"gap in the {measure.mean} between {groups}"
    if soft.status is Status.NOT_JUDGED:
        return [f"The {between} is not estimated, because {minus(soft.reason)}."]
    if soft.bracket is None:
        return [f"The {between} cannot be estimated: everybody has the same group probabilities."]
    return [
        f"The {between} is estimated at {range_words(soft.bracket, measure)}.",
        "This range is right if the probabilities are calibrated and the two estimates err in opposite directions "
        f"({soft.status}: {minus(soft.reason)}).",
    ]


def _checks(soft: UnobservedGroup, measure: Measure) -> list[str]:
    if soft.calibration is None or soft.signs is None:
        return []
    rows = "fewer than 10" if soft.labelled is None else f"{soft.labelled:,}"
    slope = written(soft.calibration.slope, lambda value: number(value, 2))
    above, below = (estimate_words(sign, measure) for sign in soft.signs)
    return [
        f"On {rows} labelled rows, the group has slope {slope} on its probability (1 if calibrated). There, the gap "
        f"minus the weighted estimate is {above}, and the linear estimate minus the gap is {below}. The gap lies "
        "between both estimates if these two differences have the same sign."
    ]


def is_of_decisions(result: doc.Result) -> bool:
    """Return whether decisions were audited; the four-fifths rule is not for scores."""
    return doc.measure_of(result).each == "decision"


def ratio_words(c: Comparison, estimate: Estimate) -> str:
    """Return which rates an impact ratio divides; if low scores are favourable, they are not the means of the gap."""
    m, names, rates = (
        doc.measure_of(c),
        [label(name, doc.SHORT) for name in (c.audited, c.reference)],
        [*c.outputs.rates],
    )
    if c.impact_ratio is not None and (c.impact_ratio > 1.0) != (estimate > 1.0):  # lower ÷ higher
        names, rates = names[::-1], rates[::-1]
    who = " ÷ ".join(names)
    if doc.is_favourable_mean(c) or m.is_amount or doc.metric_of(c):
        return f"{fill(divided(c), m)}{m.among}, {who}"
    numbers = " ÷ ".join(m.level(rate.value) for rate in rates)
    if m.each == "decision":
        return f"rates of the favourable decision{f' ({m.favoured})' if m.favoured else ''}: {numbers}, {who}"
    return f"100% minus the {m.mean} ({numbers}, {who})"


def divided(c: Comparison) -> str:
    """Return what an impact ratio divides, with placeholders for words of the measure."""
    if doc.measure_of(c).each != "score":
        return "{rate}"
    return "{predicted}" if doc.is_favourable_mean(c) or doc.metric_of(c) else "100% minus the {mean}"


def unfavourable_words(c: Comparison) -> str:
    """Return the ratio of unfavourable rates, which is more informative if favourable rates are near 1."""
    audited, reference = (1.0 - rate.value for rate in c.outputs.rates)
    if doc.measure_of(c).is_amount or reference <= 0.0:
        return ""
    who, other = label(c.audited, doc.SHORT), label(c.reference, doc.SHORT)
    rates = f"{percent(audited)} ÷ {percent(reference)}, {who} ÷ {other}"
    return f"Ratio of unfavourable rates: {ratio(audited / reference)} ({rates})."


def against_four_fifths(estimate: Estimate) -> str:
    """Return whether the interval of an adverse impact ratio is above, below or includes four fifths."""
    side = side_of(estimate.value, estimate.low, estimate.high, FOUR_FIFTHS)
    if estimate.low is None:
        return f"{side} four fifths (0.80), without an interval"
    ends = f"the interval lies {side} four fifths (0.80)"
    return "inconclusive: the interval includes four fifths (0.80)" if side == "inconclusive" else ends


def four_fifths_words(estimate: Estimate, level: str, among: str) -> str:
    """Return the adverse impact ratio and its relation to four fifths, as a sentence."""
    name, side = quantity("adverse_impact_ratio").label, against_four_fifths(estimate)
    return f"{capitalised(name)}{among}: {written(estimate, ratio, level)}. {capitalised(side)}."


MOST_NAMED = 6
HEADLINED = 3  # number of features in the first sentences
NO_FEATURES = "No features were listed, so contributions were not estimated."
OVERLAP = "They overlap and do not sum to the gap"
MAY_ACCOUNT = capitalised(MAY_ACCOUNT_FOR)
STATES = {
    Materiality.MATERIAL: "a material gap",
    Materiality.DETECTED: "a gap that may be below the threshold",
    Materiality.NOT_MATERIAL: "no material gap",
    Materiality.INCONCLUSIVE: "an inconclusive gap",
}


def headline(audit: Audit | None, c: Comparison) -> list[str]:
    """Return the main result: the gap, the adjusted gap and the largest contributions.

    For unobserved groups it starts with the range of the gap, because one estimate would mislead.
    """
    if (soft := c.unobserved_group) is None:
        return [gap_sentence(audit, c), *adjusted_gap(c), *_largest(c)]
    both = f"{doc.group_words(c, 'audited')} and {doc.group_words(c, 'reference')}"
    first, *others = bracket_words(soft, doc.measure_of(c), both)
    first = f"{first.removesuffix('.')}{_disadvantage_of_all(c, soft)}."
    return [first, *others, _weighted_sentence(c, soft), *_largest(c)]


def _disadvantage_of_all(c: Comparison, soft: UnobservedGroup) -> str:
    """Return whom each gap in the range disadvantages, if it is one group."""
    ends = soft.bracket
    if soft.status is Status.NOT_JUDGED or ends is None or ends.low is None or (ends.high or 0.0) * ends.low <= 0:
        return ""
    role = "audited" if ends.low * doc.disadvantage_sign(c) > 0 else "reference"
    return f", to the disadvantage of {doc.group_words(c, role)}"


def gap_status(c: Comparison) -> Materiality | None:
    """Return whether the gap is material; None without an interval, and for unobserved groups."""
    if c.unobserved_group:
        return None
    return materiality(c.gap.low, c.gap.high, c.scale.materiality)


def threshold_words(c: Comparison) -> str:
    """Return the materiality threshold as a phrase with its value."""
    m = doc.measure_of(c)
    return f"the materiality threshold of {m.with_unit(m.size(c.scale.materiality))}"


def gap_sentence(audit: Audit | None, c: Comparison) -> str:
    """Return a sentence on the groups compared, the size of the gap, and whether it is material."""
    (audited, reference), m, status = doc.means(c), doc.measure_of(c), gap_status(c)
    who, other = doc.group_words(c, "audited"), doc.group_words(c, "reference")
    numbers = f"{m.level(audited)} vs {m.level(reference)}, a gap of {estimate_words(c.gap, m, doc.level_of(c))}"
    if status is Materiality.NOT_MATERIAL:
        return f"No material gap between {who} and {other}: {numbers}, within {threshold_words(c)}."
    if status is Materiality.INCONCLUSIVE:
        return f"The data neither show nor rule out a material gap between {who} and {other}: {numbers}."
    doubt = f", possibly by less than {threshold_words(c)}" if status is Materiality.DETECTED else ""
    finding = _compare_people(audit, c) if doc.has_noun(c) else _compare_groups(audit, c)
    return capitalised(f"{finding}{_disadvantage(c)}{doubt}: {numbers}.")


def _compare_people(audit: Audit | None, c: Comparison) -> str:
    """Return a comparison of groups of people: "Black applicants are approved less often than White applicants"."""
    (audited, reference), m = doc.means(c), doc.measure_of(c)
    who, other = doc.group_words(c, "audited"), doc.group_words(c, "reference")
    often = "less often than" if audited < reference else "more often than"
    if is_of_rates(c) and doc.is_favourable_mean(c):
        return f"{who} {f'are {m.favoured}' if m.favoured else 'receive the favourable decision'} {often} {other}"
    if is_of_rates(c):
        return f"{who} receive the unfavourable decision{_not_favoured(m)} {often} {other}"
    side = "lower" if audited < reference else "higher"
    return f"{who} have a {side} {_mean_name(audit, c, m)} than {other}"


def _compare_groups(audit: Audit | None, c: Comparison) -> str:
    """Return a comparison for group names that are not nouns: "The mean score is lower for A than for B"."""
    (audited, reference), m = doc.means(c), doc.measure_of(c)
    both = f"for {doc.group_words(c, 'audited')} than for {doc.group_words(c, 'reference')}"
    if is_of_rates(c):
        often = "less" if audited < reference else "more"
        favoured = f"the favourable decision{f' ({m.favoured})' if m.favoured else ''}"
        what = favoured if doc.is_favourable_mean(c) else f"the unfavourable decision{_not_favoured(m)}"
        return f"{what} is {often} frequent {both}"
    return f"the {_mean_name(audit, c, m)} is {'lower' if audited < reference else 'higher'} {both}"


def _not_favoured(m: Measure) -> str:
    return f" (not {m.favoured})" if m.favoured else ""


def is_of_rates(c: Comparison) -> bool:
    """Return whether the gap is in decision rates, and not in an error rate."""
    return doc.measure_of(c).each == "decision" and doc.metric_of(c) is None


def _mean_name(audit: Audit | None, c: Comparison, m: Measure) -> str:
    """Return the name of the mean; for more than two classes, of the favourable class."""
    if not isinstance(c.outputs.means.audited, tuple):
        return f"{m.mean}{m.among}"
    return m.rate if audit is None else f"{m.rate} of “{label(audit.favourable)}”"


def _disadvantage(c: Comparison) -> str:
    """Return whom the gap disadvantages, or "" if the comparison already implies it."""
    lacks = 0.0 if c.shortfall is None else c.shortfall.value
    if not lacks or is_of_rates(c):
        return ""
    if lacks > 0 and doc.has_noun(c):
        return ", to their disadvantage"
    return f", to the disadvantage of {doc.group_words(c, 'audited' if lacks > 0 else 'reference')}"


def _weighted_sentence(c: Comparison, soft: UnobservedGroup) -> str:
    (audited, reference), m = doc.means(c), doc.measure_of(c)
    other = "" if soft.linear is None else f"; {quantity('linear').label} {estimate_words(soft.linear, m)}"
    return (
        f"{WEIGHTED.capitalize()}, the {m.mean} is {m.level(audited)} vs {m.level(reference)}: {gap_name(c)} "
        f"{estimate_words(c.gap, m, doc.level_of(c))}{other}."
    )


def adjusted_gap(c: Comparison) -> Iterator[str]:
    """Yield sentences on the part of the gap that features account for, and on the adjusted gap."""
    left, m = c.adjusted_gap, doc.measure_of(c)
    if left is None or left.low is None:
        return
    if left.low == left.high == 0:
        is_equal = c.gap.low == c.gap.high == 0
        why = f"all {m.each}s are equal" if is_equal else f"the {m.each}s use only the listed features"
        yield f"The adjusted gap is 0, because {why}."
        return
    estimate, threshold = estimate_words(left, m, doc.level_of(c)), threshold_words(c)
    among = fill(quantity("adjusted_gap").definition, m)
    start = f"{_explained(c, left)}The adjusted gap, {among}, is {estimate}"
    status = materiality(left.low, left.high, c.scale.materiality)
    if status is Materiality.NOT_MATERIAL:
        if c.unobserved_group:
            yield f"{start}. It is part of the weighted gap, so it may understate the adjusted gap."
            return
        near_zero = f"A value near 0 is expected if the {m.each}s use only these features"
        yield f"{start}, below {threshold}. {near_zero}; it does not show that their use is justified."
    elif c.checks.is_adequate is False:
        yield f"{start}. The overlap and calibration checks failed, so this number may be wrong."
    elif status is Materiality.MATERIAL:
        yield f"{start}. {MAY_ACCOUNT} may account for it."
    elif status is Materiality.DETECTED:
        yield f"{start}. It is not zero, but may be below {threshold}."
    else:
        yield f"{start}. It is inconclusive: it may be 0 or exceed {threshold}."


def _explained(c: Comparison, left: Estimate) -> str:
    """Return how much of the gap the listed features account for, or "" if that is not a part of it."""
    m, gap = doc.measure_of(c), c.gap.value
    explained = gap - left
    is_part = explained * gap > 0 and left * gap > 0
    if not is_part or gap_status(c) not in (Materiality.MATERIAL, Materiality.DETECTED):
        return ""
    number = len(c.by_feature)
    features = "The listed feature accounts" if number == 1 else f"The {number} listed features account"
    write = brief(Estimate(gap), m)
    part, whole = write(explained), write(gap)
    return f"{features} for {'almost all' if part == whole else part} of the {m.with_unit(whole)}. "


def _largest(c: Comparison) -> Iterator[str]:
    """Yield the features with the largest contributions; contributions against the gap come separately."""
    rows = c.by_feature
    if not rows:
        yield NO_FEATURES
        return
    yield from (f"{label(row.feature, doc.SHORT)} identifies the group." for row in of_kind(rows, doc.THE_GROUP)[:1])
    yield from exempt_parts(c)
    evidence = [row for row in rows if row.alone is not None and is_contribution(row)]
    unsettled = [row.feature for row in evidence if row.verdict == Verdict.PROXY_OR_STAND_IN]
    uses = (
        f"The data do not show whether the {doc.measure_of(c).each}s use {named_list(unsettled)}." if unsettled else ""
    )
    gap = c.gap if c.gap_parts.gap_given_exempt is None else c.gap_parts.gap_given_exempt
    if evidence and gap.low is not None and gap.high is not None and gap.low <= 0 <= gap.high:
        yield f"Material contributions in either direction,{_listed(c, evidence)}. {uses}".rstrip()
        return
    with_it = [row for row in evidence if (_judged_part(row, c)[0] > 0) == (gap.value > 0)]
    against = [row for row in evidence if row not in with_it]
    if with_it:
        sums = f"; {shapley_parts(c)} do." if any(row.shapley is not None for row in rows) else "."
        yield f"Largest contribution{'s' if len(with_it) > 1 else ''}{_listed(c, with_it)}." + (
            f" {OVERLAP}{sums}" if len(with_it) > 1 else ""
        )
    if against:
        yield f"Contribution{'s' if len(against) > 1 else ''} in the opposite direction{_listed(c, against)}."
    if used := [row.feature for row in evidence if row.feature not in unsettled]:
        others = [row.feature for row in of_kind(rows, doc.OPEN) if row.use is None and not is_contribution(row)]
        unassessed = f" Their use of {named_list(others)} was not assessed." if others else ""
        yield f"The {doc.measure_of(c).each}s use {named_list(used)}.{unassessed}"
    if uses:
        yield uses
    if c.gap.low is None:
        yield "Contributions are plug-in values without verdicts."
    elif not evidence and len(of_kind(rows, doc.EXEMPT)) < len(rows):
        yield _without_evidence(rows)


def leaves_adjusted_gap(c: Comparison) -> bool:
    """Return whether the remainder of Shapley contributions equals the adjusted gap up to the threshold."""
    left, adjusted = c.gap_parts.shapley_remainder, c.adjusted_gap
    return left is not None and adjusted is not None and abs(adjusted - left) < c.scale.materiality


def shapley_parts(c: Comparison) -> str:
    """Return the terms that sum to the gap: "Shapley contributions and the adjusted gap"."""
    rest = f"the {quantity('adjusted_gap').label}" if leaves_adjusted_gap(c) else "a remainder"
    exempt = [f"the {quantity('gap_explained_by_exempt').label}"] * (c.gap_parts.gap_explained_by_exempt is not None)
    return enumerate_words(["Shapley contributions", rest, *exempt])


def is_contribution(row: Contribution) -> bool:
    """Return whether a feature has a material contribution and the score uses it or may use it."""
    return doc.kind_of(row) == doc.EVIDENCE or row.verdict == Verdict.PROXY_OR_STAND_IN


def of_kind(rows: Sequence[Contribution], kind: str) -> list[Contribution]:
    """Return the features whose verdict is of this kind."""
    return [row for row in rows if doc.kind_of(row) == kind]


def exempt_parts(c: Comparison) -> Iterator[str]:
    """Yield the two parts of the gap if exempt factors were declared."""
    parts = [c.gap_parts.gap_explained_by_exempt, c.gap_parts.gap_given_exempt]
    present = [estimate_words(part, doc.measure_of(c), doc.level_of(c)) for part in parts if part is not None]
    if len(present) < len(parts):
        return
    through, left = present
    explained, given = (capitalised(quantity(f"gap_{part}").label) for part in ("explained_by_exempt", "given_exempt"))
    yield f"{explained} ({named_list(c.gap_parts.exempt)}): {through}. {given}: {left}."


def named_list(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """Return names as a list for a sentence, with a count of those beyond `most`."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return enumerate_words([*(label(name, doc.SHORT) for name in names[:most]), *more])


def _judged_part(row: Contribution, c: Comparison) -> tuple[float, str]:
    """Return the contribution on which a verdict is based, and its name."""
    alone, beyond = Estimate(0.0) if row.alone is None else row.alone, row.beyond_others
    is_alone = row.verdict == Verdict.POTENTIAL_PROXY or beyond is None
    if row.verdict == Verdict.PROXY_OR_STAND_IN and not is_alone:
        is_alone = materiality(alone.low, alone.high, c.scale.materiality) is Materiality.MATERIAL
    return (alone.value, "alone") if is_alone or beyond is None else (beyond.value, "beyond the others")


def _without_evidence(rows: Sequence[Contribution]) -> str:
    """Return what the verdicts say together if none of them is a contribution."""
    if all(row.verdict in (Verdict.NOT_ASSESSED, Verdict.EXEMPT) for row in rows):
        return "The contributions of features were not assessed."
    is_open = bool(of_kind(rows, doc.OPEN))
    return "The contributions of features are inconclusive." if is_open else "No feature contributes materially."


def _listed(c: Comparison, rows: Sequence[Contribution]) -> str:
    """Return features with the contributions on which their verdicts are based, and the names of these."""
    m, judged = doc.measure_of(c), [_judged_part(row, c) for row in rows[:HEADLINED]]
    common = judged[0][1] if len({which for _, which in judged}) == 1 else ""
    parts = [
        f"{label(row.feature, doc.SHORT)} {estimate_words(Estimate(value), m)}{'' if common else f' {which}'}"
        for row, (value, which) in zip(rows, judged, strict=False)
    ]
    return f"{f' {common}' if common else ''}: {enumerate_words(parts)}"
