"""Does one model serve both groups? The answer, and what separate models would gain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiltlens.documents.document import NAME, QUIET, Block, Cell, Column, Heading, Paragraph, Table
from tiltlens.documents.quantities import estimate_cell, estimate_words, format_of, quantity
from tiltlens.estimators.verdicts import Materiality
from tiltlens.formats import interval_name, label, percent, with_interval
from tiltlens.rows.measures import POINTS

Record = dict[str, Any]
GROUPS = ("both", "audited", "reference")
COLUMNS = {"both": "equal weights", "audited": "audited", "reference": "reference", "largest": "largest"}
LOSSES = ("brier", "error_rate", "log_loss")
STATES = {
    Materiality.MATERIAL: "separate models would predict better",
    Materiality.DETECTED: "separate models would predict better, perhaps not materially",
    Materiality.NOT_MATERIAL: "no material gain from separate models",
    Materiality.INCONCLUSIVE: "inconclusive whether separate models would predict better",
}
LIMITS = (
    "Gains are relative to the best model without the group. All models use the same features and other rows. "
    "Richer models may gain more. Whether a model may use the group is a policy and legal question."
)


def splitting_blocks(c: Record, confidence: float | None) -> list[Block]:
    """Return what separate models would gain; nothing where it was not computed."""
    found = c.get("splitting")
    if not found:
        return []
    lines = " ".join(splitting_words(c, found, confidence))
    notes = f"Largest: at a weight of {percent(found['brier']['weight'])} of the audited group (Brier score). {LIMITS}"
    return [
        Heading("Does one model serve both groups?"),
        Paragraph(lines),
        _gains(found, confidence),
        Paragraph(notes, QUIET),
    ]


def splitting_words(c: Record, found: Record, confidence: float | None) -> Iterator[str]:
    """Yield the state of both groups together and of each, and what the outcome alone says."""
    names = {"both": "Both groups", "audited": label(c["audited"]), "reference": label(c["reference"])}
    for group in GROUPS:
        gain, whole = found["brier"][group], found["blind_brier"]
        value, low, high = (gain[end] / whole for end in ("value", "low", "high"))
        text = with_interval(value, low, high, shown=percent, name=interval_name(confidence) if group == "both" else "")
        what = "with a Brier score lower by " if group == "both" else "by "
        yield f"{names[group]}: {STATES[found['status'][group]]}, {what}{text}."
    threshold = percent(found["materiality"] / found["blind_brier"])
    yield f"Materiality threshold: {threshold} of the Brier score of one model."
    if found["least_gain"]["low"] > 0.0:
        gap = estimate_words(found["outcome_gap"], POINTS)
        yield f"Among people equal on all features the outcome itself differs by {gap}."


def _gains(found: Record, confidence: float | None) -> Table:
    columns = (Column("gain", NAME), *(Column(text, is_optional=key == "largest") for key, text in COLUMNS.items()))
    rows = []
    for loss in LOSSES:
        item = quantity(loss)
        shown = format_of(item.scale, POINTS).change
        rows.append((Cell(item.name(POINTS)), *(estimate_cell(found[loss][key], shown) for key in COLUMNS)))
    return Table("splitting", columns, tuple(rows), interval_name(confidence))
