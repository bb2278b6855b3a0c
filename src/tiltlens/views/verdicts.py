"""What the verdicts of a summary mean: one table for the terminal, the page and notebooks."""

from __future__ import annotations

from typing import Any, NamedTuple

PROXY = "proxy evidence"
EVIDENCE, THE_GROUP, OPEN, NOTHING = "evidence", "group", "open", "nothing"  # kinds, by which a verdict is marked


class Verdict(NamedTuple):
    """What a verdict says.

    Attributes
    ----------
    kind
        How it is marked; "open" where the data do not settle the question.
    opening
        How a sentence that lists its features begins; {materiality} stands for the audit's own.
    meaning
        What it means, in the glossary.
    """

    kind: str
    opening: str
    meaning: str


VERDICTS = {
    "the group itself": Verdict(
        THE_GROUP,
        "Among the features is the group itself, or a copy of it",
        "The feature tells the group of everybody.",
    ),
    PROXY: Verdict(
        EVIDENCE,
        "Proxy evidence, in hundredths of the score",
        "By itself the feature carries a part of the gap whose whole interval lies beyond the materiality.",
    ),
    "joint proxy evidence": Verdict(
        EVIDENCE,
        "Joint proxy evidence (together with others, not alone)",
        "The feature carries a part of the gap together with others, though not by itself.",
    ),
    "some evidence": Verdict(
        OPEN,
        "Some evidence, which may be less than what counts (±{materiality} of the score)",
        "The interval of what the feature carries of the gap excludes 0, but reaches below the materiality.",
    ),
    "undecided": Verdict(
        OPEN,
        "Undecided, for want of data",
        "These data cannot tell whether the feature carries a material part of the gap.",
    ),
    "too little data": Verdict(
        OPEN, "Too little data to say", "These data cannot tell whether the feature carries a material part of the gap."
    ),
    "no material evidence": Verdict(
        NOTHING,
        "No material evidence (within ±{materiality} of the score)",
        "The whole interval of what the feature carries of the gap lies within the materiality.",
    ),
    "not judged": Verdict(OPEN, "Not judged", "Nothing was said of the feature, which is not the same as no evidence."),
}


def verdict_of(row: dict[str, Any]) -> Verdict:
    """Return what the verdict of a feature means; one that the table does not hold settles nothing."""
    text = row["verdict"]
    return VERDICTS.get(text, Verdict(OPEN, text[:1].upper() + text[1:], ""))
