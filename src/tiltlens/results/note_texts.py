"""The notes of a comparison: what each code says, once."""

from __future__ import annotations

from functools import partial
from typing import Any

SENTENCES = {
    "inadequate membership model": "the membership model is inadequate: {reason}",
    "off support": (
        "{people} of the audited group have values that nobody in the reference group has ({features}): what is said "
        "of the correction there is extrapolated"
    ),
    "few people behind weights": "the weights make {group} worth {people:.1f} people: no interval can be relied on",
    "constant amounts": "every amount of {groups} is the same: the intervals know nothing of its error",
    "exempt factors of unobserved groups": (
        "gap_explained_by_exempt and gap_given_exempt are of the weighted gap: where exempt factors tell the "
        "probabilities of groups, little of a difference between people equal in them shows"
    ),
    "repeated row": ("1 row repeats another in everything: every interval takes such rows for people of their own"),
    "repeated rows": (
        "{rows:,} rows repeat another in everything: every interval takes such rows for people of their own"
    ),
    "sampled": (
        "rates, gap, ratios and the gaps of features with countable values come from all {rows:,} rows; models, what "
        "is made of them, and every standard error from a sample of {sample:,}"
    ),
    "no inputs": "correction, input_divergence and descent_rate need features, or a column of membership",
    "open-ended": (
        "input_divergence and descent_rate have one end: an inadequate membership model misses part of them"
    ),
    "too many values": "{quantity} is not determined: {features} has too many values for the rows",
    "undefined": "{reason}",
    "inputs only": "{reason} The correction aligns the inputs only.",
    "outputs too close": "the groups' outputs are too close for decisions to tell them apart",
}


class Note(str):
    """A sentence about a comparison, with the code and the values that it is made of."""

    __slots__ = ("code", "values")
    code: str
    values: dict[str, Any]

    def __new__(cls, code: str, **values: Any) -> Note:
        """Return the sentence of a code."""
        note = super().__new__(cls, SENTENCES[code].format(**values))
        note.code, note.values = code, values
        return note

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return partial(Note, **self.values), (self.code,)
