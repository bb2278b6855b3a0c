"""Groups that are known by probabilities, in words: two estimates, what lies between them, and whether that holds."""

from __future__ import annotations

from typing import Any

from tiltlens.views.formats import interval, minus, number, points, with_interval

OWN_ERROR = (
    "The error of the probabilities themselves is in none of these intervals. What is said of features is of the "
    "weighted difference."
)


def soft_headline(c: dict[str, Any]) -> list[str]:
    """Return where the difference lies, none of groups that are known: one estimate alone would mislead."""
    if c["soft_group"] is None:
        return []
    return [_bracket(c["soft_group"])]


def soft_words(c: dict[str, Any]) -> list[str]:
    """Return what probabilities of groups tell of the difference; nothing of groups that are known."""
    found = c["soft_group"]
    if found is None:
        return []
    estimates = [f"weighted, each row in both groups by its chances: {_points(found['weighted'])}"]
    if found["linear"] is not None:
        estimates.append(f"linear, by the slope of the score on the chance: {_points(found['linear'])}")
    lines = [
        "Groups are known by probabilities, so the difference is not known but estimated in two ways, in points: "
        f"{'; '.join(estimates)}.",
        _bracket(found),
        *_checks(found),
    ]
    if found["limits"] is not None:
        ends = interval(found["limits"]["low"], found["limits"]["high"], points)
        lines.append(f"Whatever else holds, probabilities that are right on average allow {ends} points.")
    return [*lines, OWN_ERROR]


def _bracket(found: dict[str, Any]) -> str:
    if found["status"] == "not judged":
        return f"Not judged: {minus(found['reason'])}. Where the true difference lies cannot be told."
    if found["bracket"] is None:
        return "Everybody has the same chances: nothing can be told of the difference."
    ends = interval(found["bracket"]["low"], found["bracket"]["high"], points)
    return (
        f"The true difference lies from {ends} points if the probabilities are right on average and the two "
        f"estimates lie on either side of it ({found['status']}: {found['reason']})."
    )


def _checks(found: dict[str, Any]) -> list[str]:
    if found["calibration"] is None or found["signs"] is None:
        return []
    how_many = "fewer than 10" if found["labelled"] is None else f"{found['labelled']:,}"
    slope, sides = found["calibration"]["slope"], found["signs"]
    return [
        f"On {how_many} labelled rows the group has the slope {_number(slope)} on its probability (1 where that is "
        f"right), and the difference lies {_points(sides['above_weighted'])} points above the weighted estimate and "
        f"{_points(sides['below_linear'])} below the linear one: between them where both have one sign."
    ]


def _points(found: dict[str, Any]) -> str:
    return with_interval(found["value"], found["low"], found["high"], points)


def _number(found: dict[str, Any]) -> str:
    return with_interval(found["value"], found["low"], found["high"], lambda value: number(value, 2))
