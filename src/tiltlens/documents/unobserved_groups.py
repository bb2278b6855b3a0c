"""Groups that are known by probabilities, in words: two estimates, what lies between them, and whether that holds."""

from __future__ import annotations

from typing import Any

from tiltlens.formats import Shown, interval, minus, number, with_interval
from tiltlens.rows.measures import Measure, measure_of

OWN_ERROR = (
    "The error of the probabilities themselves is in none of these intervals. What is said of features is of the "
    "weighted difference."
)


WEIGHTED = "weighted by group probability"


def expected(c: dict[str, Any]) -> str:
    """Return what a number of people is followed by: of chances it is an expected one."""
    return "" if c["soft_group"] is None else " expected"


def gap_name(c: dict[str, Any]) -> str:
    """Return what the gap is called: of chances it is one of two estimates."""
    return "weighted gap" if c.get("soft_group") else "gap"


def soft_estimates(c: dict[str, Any]) -> dict[str, dict[str, Any] | None]:
    """Return what stands beside the weighted gap; None each where groups are observed."""
    return {name: (c.get("soft_group") or {}).get(name) for name in ("linear", "bracket", "limits")}


def bracket_words(c: dict[str, Any]) -> str:
    """Return where the difference lies: one estimate alone would mislead."""
    return _bracket(c["soft_group"], measure_of(c))


def soft_doubt(c: dict[str, Any]) -> str:
    """Return in a few words what stands behind the chances; nothing of groups that are known."""
    return "" if c["soft_group"] is None else f"probabilities of groups: {c['soft_group']['status']}"


def soft_words(c: dict[str, Any]) -> list[str]:
    """Return what probabilities of groups tell of the difference; nothing of groups that are known."""
    found, measure = c["soft_group"], measure_of(c)
    if found is None:
        return []
    estimates = [f"weighted, each row in both groups by its chances: {_shown(found['weighted'], measure.difference)}"]
    if found["linear"] is not None:
        estimates.append(
            f"linear, by the slope of the {measure.each} on the chance: {_shown(found['linear'], measure.difference)}"
        )
    lines = [
        f"Groups are known by probabilities, so the difference is not known but estimated in two ways, in "
        f"{measure.unit}: {'; '.join(estimates)}.",
        _bracket(found, measure),
        *_checks(found, measure),
    ]
    if found["limits"] is not None:
        ends = interval(found["limits"]["low"], found["limits"]["high"], measure.difference)
        lines.append(f"Whatever else holds, probabilities that are right on average allow {ends} {measure.unit}.")
    return [*lines, OWN_ERROR]


def _bracket(found: dict[str, Any], measure: Measure) -> str:
    if found["status"] == "not judged":
        return f"Where the true difference lies cannot be told (not judged): {minus(found['reason'])}."
    if found["bracket"] is None:
        return "Everybody has the same chances: nothing can be told of the difference."
    ends = interval(found["bracket"]["low"], found["bracket"]["high"], measure.difference)
    return (
        f"The true difference lies from {ends} {measure.unit} if the probabilities are right on average and the two "
        f"estimates lie on either side of it ({found['status']}: {found['reason']})."
    )


def _checks(found: dict[str, Any], measure: Measure) -> list[str]:
    if found["calibration"] is None or found["signs"] is None:
        return []
    how_many = "fewer than 10" if found["labelled"] is None else f"{found['labelled']:,}"
    slope, sides = _shown(found["calibration"]["slope"], lambda value: number(value, 2)), found["signs"]
    above, below = (_shown(sides[name], measure.difference) for name in ("above_weighted", "below_linear"))
    return [
        f"On {how_many} labelled rows the group has the slope {slope} on its probability (1 where that is "
        f"right), and the difference lies {above} {measure.unit} above the weighted estimate and "
        f"{below} below the linear one: between them where both have one sign."
    ]


def _shown(found: dict[str, Any], shown: Shown) -> str:
    return with_interval(found["value"], found["low"], found["high"], shown)
