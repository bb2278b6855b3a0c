"""A summary in plain words: what was audited, what was found, how sure that is, and what it does not show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiltmeter.views.formats import label, number, p_value, percent

PROXY, JOINT, NOTHING, UNDECIDED = "proxy evidence", "joint proxy evidence", "no material evidence", "too little data"
MOST_NAMED = 6

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


def audited_words(summary: dict[str, Any]) -> str:
    """Return what was audited."""
    names = ", ".join(label(name) for name in summary["comparisons"])
    features = len(next(iter(summary["comparisons"].values()))["proxies"])
    rows = summary["rows"]
    return (
        f"The {summary['channel']} of a fixed model, by {label(summary['group'])}: {names} against "
        f"{label(summary['reference'])}, with {features} feature{'s' if features != 1 else ''}. "
        f"{rows['used']:,} of {rows['read']:,} rows were used. The outcome a person wants is "
        f"“{label(summary['favourable'])}”."
    )


def found_words(c: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """Return what was found about one audited group, a sentence each."""
    return [_gap(c, settings), *_rates(c), *_features(c, settings), *_unexplained(c, settings)]


def _gap(c: dict[str, Any], settings: dict[str, Any]) -> str:
    gap, who, reference = c["gap"], label(c["audited"]), label(c["reference"])
    size, direction = number(abs(gap["value"])), "higher" if gap["value"] > 0 else "lower"
    if gap["low"] is None:
        return f"The mean score of {who} is {size} {direction} than that of {reference}. No interval was asked for."
    ends = f"{_percent_of(settings)} interval {number(gap['low'])} to {number(gap['high'])}"
    if gap["low"] <= 0 <= gap["high"]:
        return (
            f"These data cannot tell whether the mean scores of {who} and {reference} differ: the gap is "
            f"{number(gap['value'])} ({ends})."
        )
    return f"The mean score of {who} is {size} {direction} than that of {reference} ({ends})."


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
    named = {verdict: _named(c, verdict) for verdict in (PROXY, JOINT, UNDECIDED, NOTHING)}
    carriers = [row for row in c["proxies"] if row["verdict"] == PROXY]
    if carriers:
        listed = ", ".join(f"{label(row['feature'], 40)} ({100 * row['gap']:+.1f})" for row in carriers[:MOST_NAMED])
        rest = f" and {len(carriers) - MOST_NAMED} more" if len(carriers) > MOST_NAMED else ""
        yield f"Proxy evidence, in hundredths of the score: {listed}{rest}."
    elif any(named.values()):
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
    left = c["unexplained"]
    if left is None or left["low"] is None:
        return
    size = f"{number(left['value'])} ({_percent_of(settings)} interval {number(left['low'])} to {number(left['high'])})"
    if left["low"] <= 0 <= left["high"] or abs(left["value"]) < settings["materiality"] / 10:
        yield f"Between people with equal features {size} of the gap is left: no sign of another way in."
    else:
        yield f"Between people with equal features {size} of the gap is left: the score knows the group in another way."


def sure_words(c: dict[str, Any]) -> list[str]:
    """Return how sure the findings about one audited group are."""
    lines = []
    if c["equal_outputs"] is None:
        lines.append("These are plug-in values, as in the paper: they have no intervals and no verdicts.")
    else:
        tested = p_value(c["equal_outputs"]["p_value"])
        lines.append(f"If the groups' outputs were equal, a difference as large would be this rare: {tested}.")
    found = c["balance"]
    if found is not None and found["is_adequate"]:
        lines.append("Nothing speaks against the membership model on which shares and the correction rest.")
    elif found is not None:
        lines.append("The membership model is inadequate, so shares and verdicts that rest on it are in doubt.")
    return lines
