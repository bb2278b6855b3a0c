"""The notes of a comparison: what each code says, once."""

from __future__ import annotations

from functools import partial
from typing import Any

SENTENCES = {
    "inadequate membership model": "the group-membership model failed its checks: {reason}",
    "off support": (
        "{people} of the audited group have values that nobody in the reference group has ({features}), so the "
        "correction is extrapolated there"
    ),
    "few people behind weights": "the effective sample size of {group} is {people:.1f}: intervals are unreliable",
    "constant amounts": "all amounts of {groups} are equal, so the intervals leave out the error of their means",
    "exempt factors of unobserved groups": (
        "gap_explained_by_exempt and gap_given_exempt decompose the weighted gap, which understates gaps among people "
        "equal on exempt factors that predict the group probabilities"
    ),
    "repeated row": (
        "1 row is an exact duplicate and counts as a separate person. If it is not, pass clusters=; otherwise "
        "intervals are too narrow"
    ),
    "repeated rows": (
        "{rows:,} rows are exact duplicates and count as separate people. If they are not, pass clusters=; otherwise "
        "intervals are too narrow"
    ),
    "sampled": (
        "rates, gap, ratios and contributions alone of features with few values come from all {rows:,} rows; models, "
        "estimates based on them, and all standard errors come from a sample of {sample:,}"
    ),
    "no inputs": "correction, input_divergence and descent_rate require features or a propensity column",
    "open-ended": (
        "input_divergence and descent_rate have one-sided bounds, because the group-membership model fits poorly"
    ),
    "too many values": "{quantity} is not determined: {features} has too many values for the rows",
    "undefined": "{reason}",
    "inputs only": "{reason} The correction aligns the inputs only.",
    "outputs too close": "the groups' outputs are too close to be distinguished by decisions",
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
