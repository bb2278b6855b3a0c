"""What the verdicts of a summary mean: one table for the terminal, the page and notebooks."""

from __future__ import annotations

from typing import Any, NamedTuple

PROXY = "potential proxy"
# Kinds, by which a verdict is marked.
EVIDENCE, THE_GROUP, STAND_IN, OPEN, NOTHING, EXEMPT = "evidence", "group", "stand-in", "open", "nothing", "exempt"


class Verdict(NamedTuple):
    """What a verdict says.

    Attributes
    ----------
    kind
        How it is marked; "open" where the data do not settle the question.
    opening
        How a sentence that lists its features begins; {counts} stands for what counts in the audit, in words.
    meaning
        What it means, in the glossary.
    """

    kind: str
    opening: str
    meaning: str


VERDICTS = {
    "identifies the group": Verdict(
        THE_GROUP,
        "Identify the group",
        "The feature is the group, a copy or recoding of it, or its values separate the groups completely.",
    ),
    PROXY: Verdict(
        EVIDENCE,
        "Potential proxies, by their contribution alone",
        "The contribution alone exceeds the materiality threshold anywhere within its band. A reason to look, never a "
        "finding.",
    ),
    "potential proxy in combination": Verdict(
        EVIDENCE,
        "Potential proxies in combination, by their contribution beyond the others",
        "The contribution beyond the other features exceeds the materiality threshold anywhere within its band.",
    ),
    "potential proxy or stand-in": Verdict(
        OPEN,
        "Potential proxies or stand-ins, because the data do not show whether the score uses them",
        "A contribution exceeds the materiality threshold, but the data do not show whether the score uses the "
        "feature.",
    ),
    "stand-in": Verdict(
        STAND_IN,
        "Stand-ins, which the score does not use but which are correlated with features that it uses",
        "A contribution exceeds the materiality threshold, but the score does not use the feature. Removing it from "
        "the model would change nothing.",
    ),
    "detected, size unclear": Verdict(
        OPEN,
        "Detected, size unclear (threshold {counts})",
        "A band excludes 0, but includes values below the materiality threshold.",
    ),
    "inconclusive": Verdict(
        OPEN,
        "Inconclusive, consistent with 0 and with more than {counts}",
        "A band includes 0 and reaches beyond the materiality threshold: more rows are needed.",
    ),
    "no material contribution": Verdict(
        NOTHING,
        "No material contribution, less than {counts} alone and beyond the others",
        "Both bands, alone and beyond the others, lie within the materiality threshold.",
    ),
    "exempt (declared)": Verdict(
        EXEMPT,
        "Exempt (declared) and held equal",
        "The feature was declared an exempt factor. The gap through it is reported separately.",
    ),
    "not assessed": Verdict(
        OPEN, "Not assessed", "The feature could not be assessed, for the reason given. It may still contribute."
    ),
}


def verdict_of(row: dict[str, Any]) -> Verdict:
    """Return what the verdict of a feature means; one that the table does not hold settles nothing."""
    text = row["verdict"]
    return VERDICTS.get(text, Verdict(OPEN, text[:1].upper() + text[1:], ""))
