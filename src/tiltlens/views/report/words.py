"""A summary in plain words: what was audited, what was found, how sure that is, and what it does not show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiltlens.views.formats import interval, interval_name, label, number, p_value, percent
from tiltlens.views.verdicts import NOTHING, OPEN, PROXY, VERDICTS, Verdict, verdict_of

MOST_NAMED = 6

DOES_NOT_SHOW = (
    "It shows associations under this one model and these data. It shows no cause, and is no verdict on a model, a "
    "decision or a person.",
    "Proxy evidence is a reason to look at a feature: it reveals the group, moves the score, and the two go "
    "together. Whether the feature is legitimate is not a statistical question.",
    "That the data cannot tell is an answer of its own. It never means that there is no difference.",
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
    ends = _ends(gap, settings)
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


def _ends(estimate: dict[str, Any], settings: dict[str, Any]) -> str:
    return f"{interval_name(settings['confidence'])} {interval(estimate['low'], estimate['high'])}"


def _rates(c: dict[str, Any]) -> Iterator[str]:
    ratio, rates = c["impact_ratio"], c["favourable_rates"]
    if ratio is None:
        return
    ends = "" if ratio["low"] is None else f" (interval {interval(ratio['low'], ratio['high'], percent)})"
    yield (
        f"The favourable outcome is {percent(ratio['value'])} as frequent among {label(c['audited'])} as among "
        f"{label(c['reference'])}{ends}: {percent(rates['audited']['value'])} against "
        f"{percent(rates['reference']['value'])}."
    )


def _features(c: dict[str, Any], settings: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each verdict that was given, in the order of the table; others come last."""
    given: dict[str, list[dict[str, Any]]] = {verdict: [] for verdict in VERDICTS}
    for row in c["proxies"]:
        given.setdefault(row["verdict"], []).append(row)
    kinds = {verdict_of(row).kind for row in c["proxies"]}
    for verdict, rows in given.items():
        if rows:
            opening = verdict_of(rows[0]).opening.replace("{materiality}", number(settings["materiality"]))
            yield f"{label(opening, 200)}: {_named(rows, has_points=verdict == PROXY)}."
        elif verdict == PROXY and NOTHING in kinds and OPEN not in kinds:
            yield "No single feature shows proxy evidence."


def _named(rows: list[dict[str, Any]], has_points: bool) -> str:
    names = [label(row["feature"], 40) for row in rows[:MOST_NAMED]]
    if has_points:
        names = [f"{name} ({100 * row['gap']:+z.1f})" for name, row in zip(names, rows, strict=False)]
    rest = f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
    return ", ".join(names) + rest


def verdicts_given(summary: dict[str, Any]) -> dict[str, Verdict]:
    """Return the verdicts of the table that the summary has."""
    given = {row["verdict"] for c in summary["comparisons"].values() for row in c["proxies"]}
    return {text: verdict for text, verdict in VERDICTS.items() if text in given}


def _unexplained(c: dict[str, Any], settings: dict[str, Any]) -> Iterator[str]:
    left, limit = c["unexplained"], settings["materiality"]
    if left is None or left["low"] is None:
        return
    start = f"Between people with equal features {number(left['value'])} ({_ends(left, settings)}) of the gap is left"
    is_sure = left["low"] > 0 or left["high"] < 0
    is_small = -limit <= left["low"] and left["high"] <= limit
    if is_sure:
        size = ", though by less than what is material" if is_small else ""
        yield f"{start}: the score depends on the group beyond these features{size}{_doubts(c)}."
    elif is_small:
        yield f"{start}, which is not material: no sign of another way in."
    else:
        yield f"{start}: these data cannot tell whether there is another way in."


def _doubts(c: dict[str, Any]) -> str:
    """Return what else a dependence may be owed to."""
    is_inadequate = c["balance"] is not None and not c["balance"]["is_adequate"]
    blamed = ", unless the membership model is to blame, which is inadequate" if is_inadequate else ""
    return blamed + (" (see also “To know” below)" if c["notes"] else "")


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
