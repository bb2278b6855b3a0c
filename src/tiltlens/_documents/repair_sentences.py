"""Sentences on score adjustments, their effect on held-out data, and less discriminatory alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from tiltlens._analysis.unobserved_groups import UnobservedGroup
from tiltlens._documents.document import renamed
from tiltlens._documents.headline import named_list
from tiltlens._documents.quantities import format_of, quantity, written
from tiltlens._estimators.estimate import Estimate, Materiality, materiality
from tiltlens._formats import (
    count,
    interval,
    interval_name,
    label,
    number,
    percent,
    points,
    size,
    value_of,
    with_interval,
)
from tiltlens._limits import REPAIRED
from tiltlens._repair.alternatives import EXISTS, INCONCLUSIVE, NOT_FOUND, Alternatives
from tiltlens._repair.constraints import (
    DECISIONS,
    FNR,
    FPR,
    MEAN,
    ODDS,
    WITH_OUTCOME,
    WITHOUT_OUTCOME,
    Constraint,
    SoftChange,
    TiltSummary,
)
from tiltlens._repair.evaluation import Evaluation, RepairEvaluation
from tiltlens._repair.reweigh import Reweighing
from tiltlens._results.outputs import row_estimate
from tiltlens._rows.wording import POINTS

Row = Mapping[str, Any]  # of a frame
FALSE_POSITIVES, FALSE_NEGATIVES = "false positive rates", "false negative rates"
TARGETS = {  # for each metric: the quantities that it constrains, with their names
    MEAN: (("gap", "mean scores"),),
    DECISIONS: (("gap", "decision rates"),),
    FPR: (("fpr_difference", FALSE_POSITIVES),),
    FNR: (("fnr_difference", FALSE_NEGATIVES),),
    ODDS: (("fpr_difference", FALSE_POSITIVES), ("fnr_difference", FALSE_NEGATIVES)),
}
RATES = {WITHOUT_OUTCOME: FALSE_POSITIVES, WITH_OUTCOME: FALSE_NEGATIVES}  # by event
REGULATED = (
    "The law may restrict the use of the group, or of a model that predicts it, in decisions about people. Check "
    "before you deploy the adjustment."
)
USED_TO_MEASURE = "On held-out data, the group was used to measure the effect, not to fit the adjustment."
IS_NO_FINDING = (
    "Whether to {act} is a legal and policy decision, not a statistical one. The numbers apply to new people "
    "only if they resemble these."
)
OF_RULES = (
    "Each rule is evaluated on people it was not fitted on and uses the listed features only. Outcomes observed only "
    "for people with the favourable decision say nothing about the others. An alternative is a reason to look, not a "
    "finding of wrongdoing."
)
OF_TOLERANCES = (
    "Each row shows the rule with the smallest gap for that loss. The band and the verdicts cover all rows at once, so "
    "they need more evidence than the verdict on one loss above."
)
OF_WHAT_IFS = (
    "The audited model is applied again to changed features. A neutralised feature is averaged over the reference "
    "group's values; a coarsened one is cut at its quartiles, or its rare values are pooled. Changes are in points, "
    "with simultaneous intervals."
)
VERDICTS = {
    EXISTS: (
        "There is a rule that is no less accurate (within {points}) and has a {gap} that is {smaller} points smaller. "
        "{rates}"
    ),
    NOT_FOUND: "A rule no less accurate (within {points}) with a smaller {gap} was not found.",
    INCONCLUSIVE: "Inconclusive: no evidence for or against a rule as accurate (within {points}) with a smaller {gap}.",
}
GOAL_MET = {  # the state of the gap after the adjustment
    None: "No interval.",
    Materiality.MATERIAL: "The goal of {goal} is not met on these rows.",
    Materiality.NOT_MATERIAL: "The goal of {goal} is met.",
}
INCLUDES_GOAL = "The interval includes the goal of {goal}."
TOO_FEW = "The interval includes the goal of {goal}, but half of the gap or more may remain: too few rows to decide."
ESTIMATE = ("value", "low", "high")


def named_repair(repair: TiltSummary) -> TiltSummary:
    """Return an adjustment with readable group names; several audited groups are joined by commas."""
    several = ", ".join(dict.fromkeys(item.audited for item in repair.constraints))
    repair = replace(repair, audited=repair.audited or several)
    if (column := repair.group) is None:
        return repair
    return replace(renamed(repair, column), constraints=tuple(renamed(item, column) for item in repair.constraints))


def targets(repair: TiltSummary) -> tuple[tuple[str, str], ...]:
    """Return the quantities that an adjustment constrains, with their names."""
    search = TARGETS.get(repair.metric, (("gap", repair.metric),))
    if not repair.exempt:
        return search
    return (("exempt_gap", f"{search[0][1]} (people with the same {listed(repair.exempt)})"),)


def goal(repair: TiltSummary) -> list[str]:
    """Return sentences on the goal of an adjustment, and on the columns that it uses."""
    what = " and ".join(name for _, name in targets(repair))
    at = "" if repair.threshold is None else f" at the threshold {repair.threshold:g}"
    limit = f"at most {size(repair.max_gap)} points apart" if repair.max_gap else "equal"
    if not any(item.multiplier for item in repair.constraints):
        is_met = all(abs(item.gap_after) <= repair.max_gap + REPAIRED for item in repair.constraints)
        why = "The goal is met already" if is_met else "No change of the rule comes nearer to it"
        return [f"Goal: {what}{at} {limit}. {why}, so no score is changed."]
    uses = "the group of each new person" if repair.use_group else listed(repair.features)
    not_group = "" if repair.use_group else " It does not use the group of new people."
    goal = f"Goal: {what}{at} {limit}, with the smallest change in the scores."
    return [goal, f"The adjustment uses {uses}.{not_group}"]


def fit_sentences(repair: TiltSummary) -> list[str]:
    """Return the effect of an adjustment on the audited rows."""
    name = "Weighted gap" if repair.soft else "Gap"
    lines = [f"{name} in {_constraint(repair, item)}, on the audited rows." for item in repair.constraints]
    if repair.nats is not None:
        lines.append(f"Scores change by {number(repair.nats)} nats on average (Kullback–Leibler divergence).")
    lines.append("Evaluate it on held-out data before you use it.")
    return lines + [line for group, both in repair.soft.items() for line in _soft(label(group), both)]


def _soft(group: str, estimates: SoftChange) -> list[str]:
    """Return sentences on an unobserved group's gap after an adjustment, where both estimates are near 0 by design."""
    before, after = estimates
    lines = [f"{group} is an unobserved group, so the weighted gap shows only part of the gap."]
    if before.linear is not None and after.linear is not None:
        lines[0] += (
            f" The linear estimate changes from {points(before.linear.value)} to {points(after.linear.value)} points."
        )
    lines.append(
        f"Before: {bracket_line(before)}. Estimates near 0 after the adjustment do not show that the gap is near 0."
    )
    if after.limits is not None:
        allowed = interval(after.limits.low, after.limits.high, points)
        lines.append(f"After: calibrated group probabilities allow a gap of {allowed} points.")
    if after.signs is not None:
        ends = (getattr(after.signs.above_weighted, end) for end in ESTIMATE)
        value, low, high = (after.weighted.value + end for end in ends)
        lines.append(f"After: the gap on labelled rows is {with_interval(value, low, high, points, unit='points')}.")
    return lines


def bracket_line(soft: UnobservedGroup) -> str:
    """Return the range of the gap of an unobserved group."""
    if soft.bracket is None:
        return f"the gap cannot be estimated ({soft.reason})"
    ends = interval(soft.bracket.low, soft.bracket.high, points)
    return f"the gap is {ends} points if the two estimates err in opposite directions ({soft.status})"


def _constraint(repair: TiltSummary, item: Constraint) -> str:
    before, after = points(item.gap_before), points(item.gap_after)
    what = RATES.get(item.event, targets(repair)[0][1])
    of_class = "" if repair.classes == 2 else f" of class {item.score_class}"
    several = len({other.audited for other in repair.constraints}) > 1
    whose = f" for {label(item.audited)}" if several else ""
    return f"{what}{of_class}{whose}: {before} points before, {after} after"


def rows_of(table: pl.DataFrame) -> dict[str, Row]:
    """Return the rows of a table by their quantities."""
    return {row["quantity"]: row for row in table.iter_rows(named=True)}


def headline(evaluation: RepairEvaluation) -> list[str]:
    """Return sentences on the effect on held-out data: the gap, whether the goal is met, and the cost in accuracy."""
    repair, table = evaluation.repair, rows_of(evaluation.table)
    lines: list[str] = []
    for key, what in targets(repair):
        if (row := table.get(key)) is not None:
            level = interval_name(evaluation.confidence)
            change = written(row_estimate(row, "change"), points, unit="points")
            before, after = points(row["before"]), written(row_estimate(row, "after"), points, level, "points")
            lines.append(f"Gap in {what}: {before} points before, {after} after. {_goal_met(repair, row)}")
            lines.append(f"Change: {change}, on held-out data of {people_words(evaluation)}.{_fit_error(repair, what)}")
    return [*lines, _cost(table)]


def people_words(evaluation: Evaluation) -> str:
    """Return the number of rows of each group."""
    return " and ".join(f"{count(size)} {label(getattr(evaluation, who))}" for who, size in evaluation.rows.items())


def _goal_met(repair: TiltSummary, row: Row) -> str:
    """Return whether the interval after the adjustment lies within the goal."""
    goal = f"{size(repair.max_gap)} points" if repair.max_gap else "0"
    status = materiality(row["after_low"], row["after_high"], repair.max_gap)
    if status in GOAL_MET:
        return GOAL_MET[status].format(goal=goal)
    left = max(-row["after_low"], row["after_high"]) - repair.max_gap
    excess = abs(row["before"]) - repair.max_gap
    return (TOO_FEW if left > 0.5 * excess > 0.0 else INCLUDES_GOAL).format(goal=goal)


def _fit_error(repair: TiltSummary, what: str) -> str:
    """Return a sentence on the standard error of the fit, which held-out intervals exclude, or ""."""
    errors = [
        item.se for item in repair.constraints if item.audited == repair.audited and RATES.get(item.event, what) == what
    ]
    if len(errors) != 1 or errors[0] is None:
        return ""
    return (
        f" The intervals exclude the error of fitting the adjustment (standard error at least {size(errors[0])} "
        "points)."
    )


def _cost(table: Mapping[str, Row]) -> str:
    parts = []
    for key, change in _accuracy_changes(table, "change"):
        write, row = format_of(quantity(key).scale, POINTS).value, table[key]
        parts.append(
            f"{quantity(key).label} {write(row['before'])} before, {write(row['after'])} after, change {change}"
        )
    return f"Cost: {'; '.join(parts)}." if parts else "Cost in accuracy: unknown, because no outcome was given."


def blindness_words(table: pl.DataFrame) -> str:
    """Return sentences on the cost of not using the group."""
    parts = [f"{quantity(key).label} {cost}" for key, cost in _accuracy_changes(rows_of(table), "cost")]
    compared = f" Not using the group changes the results by: {'; '.join(parts)}." if parts else ""
    return f"An adjustment that uses the group changes the scores less.{compared}"


def _accuracy_changes(table: Mapping[str, Row], column: str) -> Iterator[tuple[str, str]]:
    """Yield AUC and accuracy, if they were computed, each with its change."""
    for key, unit in (("auc", ""), ("accuracy", "points")):
        if key in table:
            estimate, write = row_estimate(table[key], column), format_of(quantity(key).scale, POINTS).change
            yield key, written(estimate, write, unit=unit)


def verdict_sentence(search: Alternatives) -> str:
    """Return the verdict on alternatives; with the rates of both rules if there is one."""
    reduction = search.gap_reduction
    low, high = (100 * (end or 0.0) for end in (reduction.low, reduction.high))
    return VERDICTS[search.verdict].format(
        points=f"{100 * search.tolerance:g} points",
        gap=gap_name(search),
        smaller=f"{low:.1f} to {high:.1f}" if low > 0.0 else f"{100 * reduction.value:.1f}",
        rates=_rates(**search.rates) if search.verdict == EXISTS else "",
    )


def _rates(model: Mapping[str, Estimate | None], alternative: Mapping[str, Estimate | None]) -> str:
    """Return a sentence with the rates of both rules, because a rule may be accurate by selecting almost nobody."""
    selected, true_positives, ratio = (
        f"{alternative[name]:{form}} (audited rule: {model[name]:{form}})"
        if None not in (alternative[name], model[name])
        else ""
        for name, form in (("selected", ".1%"), ("true_positive_rate", ".1%"), ("impact_ratio", ".2f"))
    )
    words = f"It selects {selected} of people and {true_positives} of those with the outcome"
    return f"{words}; its impact ratio is {ratio}." if ratio else f"{words}."


def verdict_words(search: Alternatives) -> list[str]:
    """Return the verdict on alternatives, and the numbers on which it is based."""
    tau, name, level = search.threshold, accuracy_name(search), interval_name(search.confidence)
    times = number((1.0 - tau) / tau, 2)
    return [
        verdict_sentence(search),
        f"Audited rule: {name} {written(search.accuracy, percent, level)} among people with a "
        f"known outcome; {gap_name(search)} of {label(search.audited)} vs {label(search.reference)} "
        f"{written(search.gap, points, unit='points')}.",
        f"Alternative, chosen on other rows: accuracy {_either(search.accuracy_change, 'higher', 'lower')}; gap "
        f"{_either(search.gap_reduction, 'smaller', 'larger')}.",
        *(f"For the {which}, {bracket_line(soft)}." for which, soft in search.soft.items()),
        *([] if tau == 0.5 else [f"At the threshold {tau:g} a missed outcome costs {times} times a false alarm."]),
    ]


def gap_name(search: Alternatives) -> str:
    """Return the label of the gap in a search for alternatives: "weighted gap" for unobserved groups."""
    return "weighted gap" if search.soft else "gap"


def accuracy_name(search: Alternatives) -> str:
    """Return the label of the accuracy in a search for alternatives, which the threshold may weight by cost."""
    return "accuracy" if search.threshold == 0.5 else "cost-weighted accuracy"


def _either(estimate: Estimate, more: str, less: str) -> str:
    """Return a difference in points with its interval, in words such as "higher" instead of signs."""

    def unsigned(value: float | None, unit: str = "") -> str:
        return "no limit" if value is None else f"{abs(100 * value):.2f}{unit} {more if value >= 0.0 else less}"

    low, high = estimate.low, estimate.high
    ends = "" if low is None or high is None else f" ({interval(low, high, unsigned)})"
    return f"{unsigned(estimate.value, ' points')}{ends}"


def reweighing_sentence(weights: Reweighing) -> str:
    """Return the values that weights make more common in the audited group, and their effect on its size."""
    increased = weights.changes.filter(pl.col("after") > pl.col("before")).head(3)
    values = ", ".join(
        f"{value_of(row['feature'], row['value'])} ({100 * row['before']:.0f}% before, {100 * row['after']:.0f}% after)"
        for row in increased.to_dicts()
    )
    before, after = weights.effective_rows
    return (
        f"More common in the audited group after weighting: {values or 'nothing'}. Its effective size falls from "
        f"{before:,.0f} to {after:,.0f} rows."
    )


def listed(names: Sequence[str]) -> str:
    """Return the first few names of columns as a list for a sentence."""
    return named_list(names) if names else "nothing else"
