"""What the verdicts of a summary mean: one table for the terminal, the page and notebooks."""

from __future__ import annotations

from typing import NamedTuple

from tiltlens.results.outputs import Contribution

PROXY = "potential proxy"
# Kinds, by which a verdict is marked.
EVIDENCE, THE_GROUP, STAND_IN, OPEN, NOTHING, EXEMPT = "evidence", "group", "stand-in", "open", "nothing", "exempt"


class Verdict(NamedTuple):
    """How a verdict is marked ("open" where the data do not decide), and what it means."""

    kind: str
    meaning: str


VERDICTS = {
    "identifies the group": Verdict(
        THE_GROUP, "The feature is the group, a copy or recoding of it, or its values separate the groups completely."
    ),
    PROXY: Verdict(
        EVIDENCE,
        "The contribution alone exceeds the materiality threshold anywhere within its band. A reason to look, never a "
        "finding.",
    ),
    "potential proxy in combination": Verdict(
        EVIDENCE,
        "The contribution beyond the other features exceeds the materiality threshold anywhere within its band.",
    ),
    "potential proxy or stand-in": Verdict(
        OPEN,
        "A contribution exceeds the materiality threshold, but the data do not show whether the score uses the "
        "feature.",
    ),
    "stand-in": Verdict(
        STAND_IN,
        "A contribution exceeds the materiality threshold, but the score does not use the feature. Removing it "
        "would change nothing.",
    ),
    "detected, size unclear": Verdict(OPEN, "A band excludes 0, but includes values below the materiality threshold."),
    "inconclusive": Verdict(
        OPEN, "A band includes 0 and reaches beyond the materiality threshold: more rows are needed."
    ),
    "no material contribution": Verdict(
        NOTHING, "Both bands, alone and beyond the others, lie within the materiality threshold."
    ),
    "exempt (declared)": Verdict(
        EXEMPT, "The feature was declared an exempt factor. The gap through it is reported separately."
    ),
    "not assessed": Verdict(OPEN, "The feature could not be assessed, for the reason given. It may still contribute."),
}


def kind_of(row: Contribution) -> str:
    """Return how the verdict of a feature is marked."""
    return VERDICTS[row.verdict].kind
