"""What the verdicts of a summary mean: one table for the terminal, the page and notebooks."""

from __future__ import annotations

from typing import Any, NamedTuple

PROXY = "proxy evidence"
# Kinds, by which a verdict is marked.
EVIDENCE, THE_GROUP, OPEN, NOTHING, EXEMPT = "evidence", "group", "open", "nothing", "exempt"


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
    "the group itself": Verdict(
        THE_GROUP,
        "Among the features is the group itself, or a copy of it",
        "The feature is the group, a copy of it, or tells the group of everybody.",
    ),
    PROXY: Verdict(
        EVIDENCE,
        "Carry part of the difference by themselves (proxy evidence)",
        "By itself the feature carries at least so much of the difference as counts, anywhere within its band.",
    ),
    "joint proxy evidence": Verdict(
        EVIDENCE,
        "Carry part of the difference together with others, not alone (joint proxy evidence)",
        "Without the feature, at least so much of the difference as counts would be lost, anywhere within its band.",
    ),
    "some evidence": Verdict(
        OPEN,
        "Carry something, which may be less than what counts, {counts} (some evidence)",
        "A band excludes 0, but reaches below what counts.",
    ),
    "undecided": Verdict(
        OPEN,
        "Undecided: nothing, or more than what counts, {counts}",
        "A band holds 0 and reaches beyond what counts: these data cannot tell.",
    ),
    "no material evidence": Verdict(
        NOTHING,
        "No material evidence: less than {counts}, alone and with the others",
        "Both bands, alone and with the others, lie within what counts.",
    ),
    "exempt": Verdict(
        EXEMPT,
        "Named as lawful factors by whoever asked for this audit, and held equal (exempt)",
        "The feature was named as a lawful factor: what goes through it is told apart, and not judged.",
    ),
    "not judged": Verdict(
        OPEN, "Not judged", "Nothing is said of the feature, for the reason beside it: not the same as no evidence."
    ),
}


def verdict_of(row: dict[str, Any]) -> Verdict:
    """Return what the verdict of a feature means; one that the table does not hold settles nothing."""
    text = row["verdict"]
    return VERDICTS.get(text, Verdict(OPEN, text[:1].upper() + text[1:], ""))
