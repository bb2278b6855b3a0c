"""What a repair does and costs, and what other rules attain, in words: the same on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tiltlens.documents.change_sentences import Quantity
from tiltlens.formats import count, interval, label, number, percent, points, ratio, signed, size, with_interval
from tiltlens.limits import REPAIRED

Record = dict[str, Any]
DECISIONS = "decisions"
FALSE_POSITIVES, FALSE_NEGATIVES = "false positive rates", "false negative rates"
TARGETS = {  # of each metric: the quantities of an evaluation that it is about, and what they are called
    "mean_score": (("gap", "mean scores"),),
    DECISIONS: (("gap", "shares of people decided 1"),),
    "fpr": (("fpr_difference", FALSE_POSITIVES),),
    "fnr": (("fnr_difference", FALSE_NEGATIVES),),
    "equalized_odds": (("fpr_difference", FALSE_POSITIVES), ("fnr_difference", FALSE_NEGATIVES)),
}
DIFFERENCES = {"without the outcome": FALSE_POSITIVES, "with the outcome": FALSE_NEGATIVES}  # of people of an event
QUANTITIES = (
    Quantity("gap of mean scores, in points", "gap", points, points),
    Quantity("gap at equal exempt factors, in points", "exempt_gap", points, points),
    Quantity("ratio of mean scores", "impact_ratio", ratio, signed),
    Quantity("gap of decision rates, in points", "decision_gap", points, points),
    Quantity("false positive rates, difference in points", "fpr_difference", points, points),
    Quantity("false negative rates, difference in points", "fnr_difference", points, points),
    Quantity("calibration, difference in points", "calibration_difference", points, points),
    Quantity("accuracy of decisions", "accuracy", percent, points),
    Quantity("area under the curve", "auc", number, signed),
    Quantity("area under the curve, audited", "auc_audited", number, signed),
    Quantity("area under the curve, reference", "auc_reference", number, signed),
    Quantity("log-loss (lower is better)", "log_loss", number, signed),
    Quantity("Brier score (lower is better)", "brier", number, signed),
)
OF_DECISIONS = {"gap": "gap of decision rates, in points", "impact_ratio": "ratio of decision rates"}
REGULATED = (
    "Whether the group, or a model that tells it, may be used to decide on people may itself be regulated: ask before "
    "a repair is put to use."
)
IS_NO_FINDING = (
    "Whether and how to intervene is a policy decision, not a statistical one. The numbers hold for data like these."
)
OF_RULES = (
    "Each rule is measured on people it was not fitted on, and is one of these features alone. Outcomes known for some "
    "people only, such as those who were accepted, speak of these. A rule that leans less is a reason to look, not a "
    "finding of wrongdoing."
)
OF_WHAT_IFS = (
    "The audited model itself, asked again: neutralised is averaged over the reference's values, coarsened to "
    "quartiles, or rare levels together. In points; the intervals hold for all what-ifs at once."
)
RATES = {  # of decisions: the model's beside the alternative's
    "selected": ("people selected (decision 1)", percent),
    "impact_ratio": ("impact ratio", ratio),
    "true_positive_rate": ("true positive rate", percent),
}
ESTIMATE = ("value", "low", "high")
WHAT_IFS = 20  # rows that are printed, the smallest gaps first
RULES = 9  # of the curve that are printed


def some_rules(curve: list[Record]) -> list[tuple[int, Record]]:
    """Return a few rules from one end of the curve to the other, numbered from 1 on."""
    step = max(1, (len(curve) - 1) // (RULES - 1))
    return list(enumerate(curve, 1))[::step]


def quantities(evaluation: Record, rows: Iterable[Record]) -> list[tuple[Quantity, Record]]:
    """Return the quantities of a table, in the order in which they are told, each with its row."""
    found, names = {row["quantity"]: row for row in rows}, {}
    if evaluation["repair"]["criterion"] == DECISIONS:
        names = OF_DECISIONS
        found.pop("decision_gap", None)  # it is the gap
    if evaluation["repair"].get("favours_low"):
        names = names | {"impact_ratio": "ratio of favourable (low) scores or decisions"}
    known = [one._replace(name=names.get(one.key, one.name)) for one in QUANTITIES if one.key in found]
    told = {one.key for one in QUANTITIES}
    others = [Quantity(key.replace("_", " "), key, number, signed) for key in found if key not in told]
    return [(one, found[one.key]) for one in (*known, *others)]


def targets(repair: Record) -> tuple[tuple[str, str], ...]:
    """Return the quantities of an evaluation that a repair is about, and what they are called."""
    found = TARGETS.get(repair["criterion"], (("gap", repair["criterion"]),))
    if not repair.get("exempt"):
        return found
    return (("exempt_gap", f"{found[0][1]} (people equal in {_listed(repair['exempt'])})"),)


def asked_words(repair: Record) -> list[str]:
    """Return what a repair was asked to do, and what it looks at."""
    what = " and ".join(name for _, name in targets(repair))
    at = "" if repair["threshold"] is None else f" at the threshold {repair['threshold']:g}"
    limit = f"at most {size(repair['limit'])} points apart" if repair["limit"] else "equal"
    if not any(one["multiplier"] for one in repair["constraints"]):
        is_so = all(abs(one["gap_after"]) <= repair["limit"] + REPAIRED for one in repair["constraints"])
        why = "That is so already" if is_so else "No change of the rule comes nearer to it"
        return [f"Asked for: {what}{at} {limit}. {why}: nothing is changed."]
    if repair["use_group"]:
        looks = "It looks at the group of every new person"
    else:
        looks = f"It does not look at the group of new people, but at {_listed(repair['features'])}"
    return [f"Asked for: {what}{at} {limit}, by the least change that does it.", f"{looks}."]


def audited_words(repair: Record) -> list[str]:
    """Return what the repair did to the audited rows: a line for each difference, and where to look on."""
    found = [_constraint_words(repair, one) for one in repair["constraints"]]
    weighted = "weighted difference" if repair.get("soft") else "difference"
    soft = [line for group, both in repair.get("soft", {}).items() for line in _soft_words(label(group), **both)]
    holds = "Evaluate cost and effect on held-out data."
    if len(found) == 1:
        return [f"On the audited rows the {weighted} of {found[0]}. {holds}", *soft]
    return [f"On the audited rows the {weighted} of", *(f"- {one}" for one in found), holds, *soft]


def _soft_words(group: str, before: Record, after: Record) -> list[str]:
    """Return what probabilities of groups tell of the gap after a repair: both estimates are then near 0, by design."""
    lines = [f"{group} are an unobserved group: the weighted gap shows a part of the true one."]
    if before["linear"] is not None and after["linear"] is not None:
        ends = " to ".join(points(one["linear"]["value"]) for one in (before, after))
        lines[0] += f" The linear estimate goes from {ends} points."
    lines.append(f"Before, {bracket_line(before)}. That both estimates are near 0 after does not show that the gap is.")
    if after["limits"] is not None:
        allowed = interval(after["limits"]["low"], after["limits"]["high"], points)
        lines.append(f"After, group probabilities that are right on average allow a true gap of {allowed} points.")
    if after["signs"] is not None:
        value, low, high = (after["weighted"]["value"] + after["signs"]["above_weighted"][end] for end in ESTIMATE)
        lines.append(f"After, the gap of labelled rows is {with_interval(value, low, high, points)} points.")
    return lines


def bracket_line(soft: Record) -> str:
    """Return where the true gap of an unobserved group lies."""
    if soft["bracket"] is None:
        return f"where the true gap lies cannot be told ({soft['reason']})"
    ends = interval(soft["bracket"]["low"], soft["bracket"]["high"], points)
    return f"the true gap lies from {ends} points if the two estimates lie on either side of it ({soft['status']})"


def _constraint_words(repair: Record, one: Record) -> str:
    ends = " to ".join(points(one[name]) for name in ("gap_before", "gap_after"))
    what = DIFFERENCES.get(one["event"], targets(repair)[0][1])
    of_class = "" if repair["classes"] == 2 else f" of class {one['score_class']}"
    several = len({other["audited"] for other in repair["constraints"]}) > 1
    whose = f" for {label(one['audited'])}" if several else ""
    return f"{what}{of_class}{whose} goes from {ends} points"


def headline(evaluation: Record) -> list[str]:
    """Return what the repair did on the held-out rows, whether its limit is met there, and what it costs."""
    repair, table = evaluation["repair"], {row["quantity"]: row for row in evaluation["table"]}
    lines: list[str] = []
    for key, what in targets(repair):
        if (row := table.get(key)) is not None:
            ends = " to ".join(points(row[when]) for when in ("before", "after"))
            moved = with_interval(row["change"], row["change_low"], row["change_high"], points)
            whose = "" if lines else f"That is on {_people(evaluation)} people that nothing was fitted on. "
            lines.append(f"The difference of {what} goes from {ends} points, by {moved}.")
            lines.append(f"{whose}{_limit_words(repair, row)}{_fit_words(repair, what)}")
    lines.append(_cost_words(table))
    return lines


def _people(evaluation: Record) -> str:
    sizes = evaluation["rows"]
    return " and ".join(f"{count(sizes[who])} {label(evaluation['repair'].get(who, who))}" for who in sizes)


def _limit_words(repair: Record, row: Record) -> str:
    after = with_interval(row["after"], row["after_low"], row["after_high"], points)
    asked = f"the limit of {size(repair['limit'])} points" if repair["limit"] else "0"
    low, high = row["after_low"], row["after_high"]
    if low is None or high is None:
        return f"After the repair the difference is {after}."
    if low > repair["limit"] or high < -repair["limit"]:
        return f"After the repair the difference is {after}: beyond {asked} on these rows."
    inside = -repair["limit"] <= low and high <= repair["limit"]
    found = f"within {asked}" if inside else f"{asked} lies in that interval{_too_few(repair, row)}"
    return f"After the repair the difference is {after}: {found}."


def _too_few(repair: Record, row: Record) -> str:
    """Return that rows do not tell whether the repair holds, where half of what it was to take away may be left."""
    left = max(-row["after_low"], row["after_high"]) - repair["limit"]
    asked = abs(row["before"]) - repair["limit"]
    if asked <= 0.0 or left <= 0.5 * asked:
        return ""
    return ", but half of the difference before may be left, or more: these rows are too few to tell"


def _fit_words(repair: Record, what: str) -> str:
    """Return how sure the fit is, which intervals of the held-out rows do not hold."""
    errors = [
        one["se"]
        for one in repair["constraints"]
        if one["audited"] == repair["audited"] and DIFFERENCES.get(one["event"], what) == what
    ]
    known = len(errors) == 1 and errors[0] is not None
    if not known:
        return ""
    besides = "" if repair["use_group"] else ", beside the chance in the membership model"
    return f" The fit, on other rows, has a standard error of {size(errors[0])} points of its own{besides}."


def _cost_words(table: Record) -> str:
    parts = [
        f"{name} goes from {shown(row['before'])} to {shown(row['after'])}, by "
        f"{with_interval(row['change'], row['change_low'], row['change_high'], changed)}{_unit(changed)}"
        for key, name, shown, changed in (
            ("auc", "the area under the curve", number, signed),
            ("accuracy", "accuracy at the threshold", percent, points),
        )
        if (row := table.get(key)) is not None
    ]
    if not parts:
        return "What it costs in accuracy is not known: the outcome of these people was not given."
    return f"What it costs: {'; '.join(parts)}."


def _unit(changed: Any) -> str:
    return " points" if changed is points else ""


def decision_lines(evaluation: Record) -> list[str]:
    """Return who gets another decision, by group."""
    repair = evaluation["repair"]
    return [
        f"{label(repair.get(who, who))}: {count(moved['up'])} of {count(evaluation['rows'][who])} from 0 to 1, "
        f"{count(moved['down'])} from 1 to 0"
        for who, moved in evaluation["decisions"].items()
    ]


def cost_of_blindness_words(evaluation: Record) -> str:
    """Return the cost of not using the group in a sentence."""
    rows = {row["quantity"]: row for row in evaluation["cost_of_blindness"]}
    parts = [
        f"{name} {with_interval(row['cost'], row['cost_low'], row['cost_high'], changed)}{_unit(changed)}"
        for key, name, changed in (("auc", "area under the curve", signed), ("accuracy", "accuracy", points))
        if (row := rows.get(key)) is not None
    ]
    costs = f" Without the group, compared with it: {', '.join(parts)}." if parts else ""
    return f"A repair that uses the group of each person needs a smaller change than one that does not.{costs}"


def sensitive_lines(evaluation: Record) -> list[str]:
    """Return where the sensitive attribute was used, and what to ask."""
    notes = [sentence(note) for note in evaluation["repair"]["notes"]]
    return [*notes, "On the held-out rows the group was used to measure, not to fit.", REGULATED]


def sentence(note: str) -> str:
    """Return a note as a sentence."""
    return f"{note[:1].upper()}{note[1:]}."


def verdict_words(found: Record, who: Record) -> list[str]:
    """Return what can be said of alternatives, and the numbers it is said from."""
    accuracy, gap = found["accuracy"], found["gap"]
    less, moved, tau = found["gap_reduction"], found["accuracy_change"], found["threshold"]
    times = number((1.0 - tau) / tau, 2)
    return [
        found["words"],
        f"The audited decisions: {accuracy_name(found)} {with_interval(**accuracy, shown=percent)} among people whose "
        f"outcome is known; {gap_name(found)} of {label(who['audited'])} against {label(who['reference'])} "
        f"{with_interval(**gap, shown=points)} points.",
        f"The alternative, chosen on other rows: accuracy {_either(moved, 'higher', 'lower')}; gap "
        f"{_either(less, 'smaller', 'larger')}.",
        *(f"Of the {which}, {bracket_line(soft)}." for which, soft in found.get("soft", {}).items()),
        *([] if tau == 0.5 else [f"At the threshold {tau:g} a missed outcome costs {times} times a false alarm."]),
    ]


def rates(found: Record) -> list[tuple[str, list[Record], Any]]:
    """Return what the model and the alternative decide, as far as it is defined: name, both, and how it is shown."""
    both = {key: [found["rates"][rule][key] for rule in ("model", "alternative")] for key in RATES}
    return [(RATES[key][0], pair, RATES[key][1]) for key, pair in both.items() if None not in pair]


def gap_name(found: Record) -> str:
    """Return what the gap of alternatives is called: of unobserved groups it is weighted by their probabilities."""
    return "weighted gap" if found.get("soft") else "gap"


def accuracy_name(found: Record) -> str:
    """Return what the accuracy of alternatives is called: the threshold may weigh errors differently."""
    return "accuracy" if found["threshold"] == 0.5 else "cost-weighted accuracy"


def _either(found: Record, more: str, less: str) -> str:
    """Return by how many points something is more or less, and its interval, without signs."""

    def told(value: float, unit: str = "") -> str:
        return f"{abs(100 * value):.2f}{unit} {more if value >= 0.0 else less}"

    value, *ends = (found[name] for name in ("value", "low", "high"))
    behind = "no interval" if None in ends else " to ".join(map(told, ends))
    return f"{told(value, ' points')} ({behind})"


def _listed(names: list[str], most: int = 6) -> str:
    if not names:
        return "nothing else"
    shown = [label(name, 40) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")
