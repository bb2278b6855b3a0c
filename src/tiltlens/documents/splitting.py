"""Does one model serve both groups? The answer, and what separate models would gain."""

from __future__ import annotations

from collections.abc import Iterator

from tiltlens.analysis.splitting import Splitting
from tiltlens.documents.document import NAME, QUIET, Block, Cell, Column, Heading, Paragraph, Table
from tiltlens.documents.measures import BOTH, level_of
from tiltlens.documents.quantities import estimate_cell, estimate_words, format_of, quantity, written
from tiltlens.estimators.verdicts import Materiality
from tiltlens.formats import label, percent
from tiltlens.results.comparison import Comparison
from tiltlens.rows.wording import POINTS

COLUMNS = {"both": "equal weights", "audited": "audited", "reference": "reference", "largest": "largest"}
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


def splitting_blocks(c: Comparison) -> list[Block]:
    """Return what separate models would gain; nothing where it was not computed."""
    gains = c.splitting
    if gains is None:
        return []
    notes = f"Largest: at a weight of {percent(gains.brier.weight)} of the audited group (Brier score). {LIMITS}"
    return [
        Heading("One model or separate models"),
        Paragraph(" ".join(splitting_words(c, gains))),
        _gains(gains, level_of(c)),
        Paragraph(notes, QUIET),
    ]


def splitting_words(c: Comparison, gains: Splitting) -> Iterator[str]:
    """Yield the state of both groups together and of each, and what the outcome alone says."""
    names, brier = ("Both groups", label(c.audited), label(c.reference)), gains.brier
    parts = zip(("both", *BOTH), names, (brier.both, brier.audited, brier.reference), strict=True)
    for group, name, gain in parts:
        level, what = (level_of(c), "with a Brier score lower by ") if group == "both" else ("", "by ")
        size = written(gains.relative(gain), percent, level)
        yield f"{name[:1].upper()}{name[1:]}: {STATES[gains.status[group]]}, {what}{size}."
    threshold = percent(gains.materiality / gains.blind_brier)
    yield f"Materiality threshold: {threshold} of the Brier score of one model."
    if gains.least_gain.low is not None and gains.least_gain.low > 0.0:
        gap = estimate_words(gains.outcome_gap, POINTS)
        yield f"Among people with the same values of all features, the outcome itself differs by {gap}."


def _gains(gains: Splitting, level: str) -> Table:
    columns = (Column("gain", NAME), *(Column(text, is_optional=key == "largest") for key, text in COLUMNS.items()))
    rows = []
    for key, loss in (("brier", gains.brier), ("error_rate", gains.error_rate), ("log_loss", gains.log_loss)):
        item = quantity(key)
        shown = format_of(item.scale, POINTS).change
        rows.append((Cell(item.name(POINTS)), *(estimate_cell(loss.of(name), shown) for name in COLUMNS)))
    return Table("splitting", columns, tuple(rows), level)
