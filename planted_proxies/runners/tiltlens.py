"""Ask tiltlens: gap(j), joint(j) with one band for all of them, and the verdict of its table."""

from __future__ import annotations

from typing import Any

import numpy as np

from planted_proxies.runners import GAP, Answer
from planted_proxies.worlds import GROUP, Draw

name = "tiltlens"
requires = ("tiltlens",)
page = "docs/concepts/contributions.md"
asked = "which features account for the gap, alone or in combination; the adjusted gap"
given = "scores"
rule = (
    "the verdict is potential proxy, alone or in combination, or one of copies; a stand-in is not used; direct use: "
    "the adjusted gap is significantly beyond the materiality threshold"
)
takes_chances = True

EVIDENCE = ("potential proxy", "potential proxy in combination")
COPIES = "potential proxy or stand-in"  # of copies one is used, and both are named


def run(draw: Draw) -> dict[str, Answer]:
    """Return the larger of gap(j) and joint(j), the band of gap(j), and the verdict."""
    import tiltlens as tl

    options: dict[str, Any] = {"scores": draw.scores, "score_type": "amount" if draw.world.is_amount else "probability"}
    table, group = dict(draw.table), np.where(draw.audited, "audited", "reference")
    if draw.chance is not None:
        table |= {"chance": draw.chance, "rest": 1 - draw.chance}
        group = {"audited": "chance", "reference": "rest"}
    c = tl.audit(table, group, reference="reference", features=draw.features, random_state=draw.seed, **options)[
        "audited"
    ]
    found = {row["feature"]: _answer(row) for row in c.contributions_full.to_dicts()}
    found[GAP] = Answer(c.gap.value, c.gap.low, c.gap.high)
    if c.adjusted_gap is not None:
        left, m = c.adjusted_gap, draw.world.materiality
        found[GROUP] = Answer(left.value, left.low, left.high, bool(left.low > m or left.high < -m))
    return found


def _answer(row: dict[str, Any]) -> Answer:
    """Return what the table says of a feature: with the copies or the partner that it names."""
    value = max((row["alone"] or 0.0, row["beyond_others"] or 0.0), key=abs)
    is_copy = row["verdict"] == COPIES and row["redundant_with"] is not None
    is_evidence, word = row["verdict"] in EVIDENCE or is_copy, row["verdict"]
    if is_evidence and row["redundant_with"]:
        word += f", the same as {row['redundant_with']}"
    elif is_evidence and row["partner"]:
        word += f", with {row['partner']}"
    return Answer(value, row["alone_low"], row["alone_high"], is_evidence, word)
