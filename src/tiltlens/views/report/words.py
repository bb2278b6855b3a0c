"""A summary in plain words: what was audited, what was found, how sure that is, and what it does not show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiltlens.views.formats import label, number, p_value, percent

PROXY, JOINT, NOTHING, UNDECIDED = "proxy evidence", "joint proxy evidence", "no material evidence", "too little data"
THE_GROUP = "the group itself"
MOST_NAMED = 6
DEPENDS = "the score depends on the group beyond these features"  # how the audit's own note begins

DOES_NOT_SHOW = (
    "It shows associations under this one model and these data. It shows no cause, and is no verdict on a model, a "
    "decision or a person.",
    "Proxy evidence is a reason to look at a feature: it reveals the group, moves the score, and the two go "
    "together. Whether the feature is legitimate is not a statistical question.",
    "“Too little data” is an answer of its own. It never means that there is no difference.",
    "The correction says in which direction inputs would have to move for the groups to meet, near where they are now. "
    "It is not a plan to change anybody.",
    "It rests on the group labels, scores and features that were supplied. Errors in them are errors here.",
)

GLOSSARY = {
    "audited, reference": "The group looked at, and the group it is compared with.",
    "score": "The number a model gives a person, between 0 and 1; its mean is the expected rate of that outcome.",
    "favourable rate": "How often a group gets the outcome that a person wants.",
    "gap": "Mean score of the audited group minus that of the reference group.",
    "impact ratio": "Favourable rate of the audited group divided by that of the reference group.",
    "shortfall": "How many more audited people would have the favourable outcome at the reference group's rate.",
    "interval": "A range that holds the true value in the stated share of samples such as this one.",
    "points of the gap": "What a feature's different distribution in the two groups carries of the gap, in hundredths "
    "of the score. Features overlap, so these do not add up; their Shapley version does.",
    "reveals": "How far apart the two groups are in this feature: 0 when it is distributed alike.",
    "drives": "How far the mean score moves along this feature within the audited group.",
    "alignment": "Whether what reveals the group is what drives the score: 1 or −1 when fully, 0 when not at all. "
    "Points of the gap are reveals × drives × alignment.",
    "correction": "The direction in which the audited group's inputs would have to shift for the distance between the "
    "groups to fall fastest. Positive where people would have to become more common, negative where rarer.",
    "share, total share": "The part of the correction to be had by moving this feature's distribution alone; and the "
    "part lost when it may not be moved.",
    "unexplained": "The part of the gap between people with equal features: the score knows the group in another way.",
    "membership model": "A model of who is in the audited group, from the features; needed to know how far apart the "
    "groups' inputs are.",
    "descent rate": "How fast a small step along the correction lowers the objective.",
    "divergence": "A distance between two distributions (Kullback–Leibler), in nats; 0 when they are equal.",
    "dial": "Whether the correction is asked to align the inputs of the groups (left), their outputs (right) or both.",
}


def audited_words(summary: dict[str, Any]) -> list[str]:
    """Return what was audited, and on which condition."""
    names = ", ".join(label(name) for name in list(summary["comparisons"])[:MOST_NAMED])
    more = len(summary["comparisons"]) - MOST_NAMED
    features = len(next(iter(summary["comparisons"].values()))["proxies"])
    rows, asked = summary["rows"], summary["provenance"]["question"]
    lines = [
        f"The {summary['channel']} of a fixed model, by {label(summary['group'])}: "
        f"{names}{f' and {more} more' if more > 0 else ''} against {label(summary['reference'])}, with {features} "
        f"feature{'s' if features != 1 else ''}. {rows['used']:,} of {rows['read']:,} rows were used. What a person "
        f"wants is {favourable_words(summary)}."
    ]
    if asked["given"]:
        conditions = " and ".join(f"{label(name)} = {label(value)}" for name, value in asked["given"].items())
        lines.append(f"Only rows with {conditions} were looked at: what follows holds for them alone.")
    if asked["threshold"] is not None:
        lines.append(f"Scores of {asked['threshold']:g} or more count as decision 1, lower ones as 0.")
    if asked["weights"]:
        lines.append(f"Rows count by their weight ({label(asked['weights'])}).")
    return lines


def favourable_words(summary: dict[str, Any]) -> str:
    """Return the outcome a person wants, as a reader would say it."""
    outcome = label(summary["favourable"])
    is_binary = isinstance(next(iter(summary["comparisons"].values()))["output"]["audited"], int | float)
    if is_binary and outcome in ("0", "1"):
        thing = "score" if summary["channel"] == "scores" else "decision"
        if thing == "decision":
            return f"the decision {outcome}"
        return f"a {'high' if outcome == '1' else 'low'} score (the outcome “{outcome}”)"
    return f"the outcome “{outcome}”"


def found_words(c: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """Return what was found about one audited group, a sentence each."""
    return [_gap(c, settings), *_rates(c), *_features(c, settings), *_unexplained(c, settings)]


def _gap(c: dict[str, Any], settings: dict[str, Any]) -> str:
    gap, who, reference = c["gap"], label(c["audited"]), label(c["reference"])
    if gap["low"] is None:
        return f"{_difference(c)}. No interval was asked for."
    ends = f"{_percent_of(settings)} interval {number(gap['low'])} to {number(gap['high'])}"
    if gap["low"] <= 0 <= gap["high"]:
        return (
            f"These data cannot tell whether the mean scores of {who} and {reference} differ: the gap is "
            f"{number(gap['value'])} ({ends})."
        )
    return f"{_difference(c)} (gap {number(gap['value'])}, {ends})."


def _difference(c: dict[str, Any]) -> str:
    value, who, reference = c["gap"]["value"], label(c["audited"]), label(c["reference"])
    if value == 0:
        return f"The mean scores of {who} and {reference} are equal in these data"
    return (
        f"The mean score of {who} is {number(abs(value))} {'higher' if value > 0 else 'lower'} than that of {reference}"
    )


def _percent_of(settings: dict[str, Any]) -> str:
    return f"{100 * settings['confidence']:g} %"


def _rates(c: dict[str, Any]) -> Iterator[str]:
    ratio, rates = c["impact_ratio"], c["favourable_rates"]
    if ratio is None:
        return
    ends = "" if ratio["low"] is None else f" (interval {percent(ratio['low'])} to {percent(ratio['high'])})"
    yield (
        f"The favourable outcome is {percent(ratio['value'])} as frequent among {label(c['audited'])} as among "
        f"{label(c['reference'])}{ends}: {percent(rates['audited']['value'])} against "
        f"{percent(rates['reference']['value'])}."
    )


def _features(c: dict[str, Any], settings: dict[str, Any]) -> Iterator[str]:
    named = {verdict: _named(c, verdict) for verdict in (THE_GROUP, JOINT, UNDECIDED, NOTHING)}
    carriers = [row for row in c["proxies"] if row["verdict"] == PROXY]
    if named[THE_GROUP]:
        yield f"Among the features is the group itself, or a copy of it: {named[THE_GROUP]}."
    if carriers:
        listed = ", ".join(f"{label(row['feature'], 40)} ({100 * row['gap']:+.1f})" for row in carriers[:MOST_NAMED])
        rest = f" and {len(carriers) - MOST_NAMED} more" if len(carriers) > MOST_NAMED else ""
        yield f"Proxy evidence, in hundredths of the score: {listed}{rest}."
    elif named[NOTHING] and not named[UNDECIDED]:
        yield "No single feature shows proxy evidence."
    if named[JOINT]:
        yield f"Joint proxy evidence (together with others, not alone): {named[JOINT]}."
    if named[UNDECIDED]:
        yield f"Too little data to say: {named[UNDECIDED]}."
    if named[NOTHING]:
        limit = number(settings["materiality"])
        yield f"No material evidence (within ±{limit} of the score): {named[NOTHING]}."


def _named(c: dict[str, Any], verdict: str) -> str:
    names = [label(row["feature"], 40) for row in c["proxies"] if row["verdict"] == verdict]
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + rest


def _unexplained(c: dict[str, Any], settings: dict[str, Any]) -> Iterator[str]:
    left, limit = c["unexplained"], settings["materiality"]
    if left is None or left["low"] is None:
        return
    size = f"{number(left['value'])} ({_percent_of(settings)} interval {number(left['low'])} to {number(left['high'])})"
    start = f"Between people with equal features {size} of the gap is left"
    depends = next((note for note in c["notes"] if note.startswith(DEPENDS)), None)
    if depends is not None:
        yield f"{start}: {label(depends.rpartition(': between')[0], 600)}."
    elif -limit <= left["low"] and left["high"] <= limit:
        yield f"{start}, which is not material: no sign of another way in."
    else:
        yield f"{start}: these data cannot tell whether there is another way in."


def sure_words(c: dict[str, Any]) -> list[str]:
    """Return how sure the findings about one audited group are."""
    lines = []
    if c["equal_outputs"] is None:
        lines.append("These are plug-in values, as in the paper: they have no intervals and no verdicts.")
    else:
        tested = p_value(c["equal_outputs"]["p_value"])
        lines.append(f"Test of equal outputs: {tested} (how often chance alone would make a difference as large).")
    found = c["balance"]
    if found is not None and found["is_adequate"]:
        lines.append(
            "The checks of the membership model, on which shares and the correction rest, found nothing amiss."
        )
    elif found is not None:
        lines.append("The membership model is inadequate, so shares and verdicts that rest on it are in doubt.")
    return lines
