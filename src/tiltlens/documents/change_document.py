"""The change between two audits as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tiltlens.documents.document import (
    HEADLINE,
    NAME,
    QUIET,
    TEXT,
    WARNING,
    Block,
    Bullets,
    Cell,
    Column,
    Document,
    FigureRef,
    Heading,
    Paragraph,
    Table,
    bullets,
    pair_heading,
)
from tiltlens.documents.labels import EVIDENCE, NOTHING, OPEN, level_of, measure_of, named_change, subject
from tiltlens.documents.quantities import (
    FEATURES,
    change_table,
    estimate_cell,
    estimate_words,
    quantity,
)
from tiltlens.documents.sentences import IS_NO_FINDING, simultaneous_words
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.verdicts import Materiality, is_beyond_zero, materiality
from tiltlens.formats import label, minus
from tiltlens.results.change import NUMBERS, QUANTITIES, Change, ChangeVerdict, GroupChange, Origin
from tiltlens.results.outputs import row_estimate

Row = Mapping[str, Any]  # of the frame of features
VERDICTS: dict[str, tuple[str, str]] = {  # of results → kind, as a sentence has it
    ChangeVerdict.MORE: (EVIDENCE, "contributes more than before"),
    ChangeVerdict.LESS: (EVIDENCE, "contributes less than before"),
    ChangeVerdict.TURNED: (EVIDENCE, "contributes in the opposite direction"),
    ChangeVerdict.NO_CHANGE: (NOTHING, str(ChangeVerdict.NO_CHANGE)),
}
FIRST = ("gap", "linear_gap", "adjusted_gap", "impact_ratio", "audited_rate", "reference_rate")
MOVED = (ChangeVerdict.MORE, ChangeVerdict.LESS, ChangeVerdict.TURNED)
MOST_NAMED = 5
SIDES = ("old", "new")


def change_document(change: Change) -> Document:
    """Return a change, the largest first."""
    change = named_change(change)
    origins = zip(SIDES, (change.old, change.new), strict=True)
    sides = (f"{which}: {_source(origin)} ({origin.rows['used']:,} rows)" for which, origin in origins)
    blocks: list[Block] = [Paragraph("; ".join(sides) + ".", QUIET)]
    largest = sorted(change.comparisons.values(), key=lambda c: -abs(c.changes["gap"] or 0.0))
    for c in largest:
        blocks += _group(c)
    for name, which in change.too_small.items():
        blocks.append(Paragraph(f"{label(name)} is in the {which} audit only and is not compared.", WARNING))
    pairing = f"{change.pairing[:1].upper()}{change.pairing[1:]}."
    notes = " ".join(filter(None, [pairing, simultaneous_words(change)]))
    title = f"Change of {subject(change)} by {label(change.group)}"
    return Document(title, (*blocks, Heading("Data"), Paragraph(notes), Paragraph(IS_NO_FINDING, QUIET)))


def _source(side: Origin) -> str:
    """Return the name of an audit: its model, its scores, or when it was made."""
    question, stated = side.provenance.question, side.provenance.stated
    made = (side.provenance.created or "no date")[:10]
    name = stated.get("model") or question["scores"] or question["model"]
    return f"{label(name, 40)}, {made}" if name else made


def _written(created: str | None) -> str:
    """Return a date and time as the report of an audit has it."""
    return f"{created[:16].replace('T', ' ')} UTC" if created else "no date"


def provenance_blocks(change: Change) -> list[Block]:
    """Return where both audits come from, for a page."""
    rows: dict[str, list[str]] = {}
    for index, side in enumerate((change.old.provenance, change.new.provenance)):
        question = {name: str(text) for name, text in side.question.items() if text and name != "where"}
        entries = side.stated | question | {"SHA-256 of the rows": side.data_sha256, "created": _written(side.created)}
        for name, text in entries.items():
            rows.setdefault(name, ["", ""])[index] = text
    columns = (Column("provenance", NAME), *(Column(which, TEXT) for which in SIDES))
    cells = (
        (Cell(label(name.replace("_", " "))), *(Cell(label(text, 400)) for text in both)) for name, both in rows.items()
    )
    return [Heading("Provenance", 2), Table("provenance", columns, tuple(cells))]


def _group(c: GroupChange) -> list[Block]:
    first, *others = headline(c)
    blocks: list[Block] = [
        pair_heading(c.audited, c.reference),
        Paragraph(first, HEADLINE),
        *(Paragraph(line) for line in others),
        _quantities(c),
    ]
    if not c.features.is_empty():
        m, level = measure_of(c), f"{100 * c.scale.confidence:g}%"
        blocks += [
            Heading(m.headed("Change of contributions")),
            FigureRef("change", (c,)),
            _features(c),
            Paragraph(
                f"New minus old. Intervals of alone and beyond the others are {level} simultaneous confidence bands, "
                "from which the verdicts are read. Materiality threshold: "
                f"{m.with_unit(m.size(c.scale.materiality))}.",
                QUIET,
            ),
            Bullets(tuple(f"{label(row['feature'])}: {minus(row['reason'])}." for row in _rows(c))),
        ]
    return blocks + bullets([minus(note) for note in c.notes], "Warnings")


def _rows(c: GroupChange) -> list[Row]:
    return [*c.features.iter_rows(named=True)]


def headline(c: GroupChange) -> list[str]:
    """Return how the gap changed, and which features' contributions did."""
    m, (old, new, change) = measure_of(c), map(_gap, (c.old, c.new, c.changes))
    values = [estimate_words(Estimate(gap.value), m) for gap in (old, new)]
    name = "Gap" if c.new["linear_gap"] is None else "Weighted gap"
    lines = [
        f"{name} in the {m.mean}s: {values[0]} before, {values[1]} now. Change "
        f"{estimate_words(change, m, level_of(c))}: {_status(change, old, c)}."
    ]
    moved = [row for row in _rows(c) if row["verdict"] in MOVED]
    if moved:
        more = f"; and {len(moved) - MOST_NAMED} more" if len(moved) > MOST_NAMED else ""
        lines.append("; ".join(_moved(row, c) for row in moved[:MOST_NAMED]) + more + ".")
    elif not c.features.is_empty():
        lines.append("No feature's contribution changed materially beyond doubt.")
    return lines


def _gap(side: Mapping[str, Estimate | None]) -> Estimate:
    gap = side["gap"]
    return Estimate(0.0) if gap is None else gap


def _moved(row: Row, c: GroupChange) -> str:
    """Return how a contribution changed, with the number that the verdict was read from."""
    ends = row["alone_change_low"], row["alone_change_high"]
    is_alone = materiality(*ends, c.scale.materiality) is Materiality.MATERIAL
    key = "alone" if is_alone or row["beyond_others_change"] is None else "beyond_others"
    change = estimate_words(Estimate(row[f"{key}_change"]), measure_of(c))
    return f"{label(row['feature'])} {VERDICTS[row['verdict']][1]} ({change}, {FEATURES[key].head})"


def _status(change: Estimate, old: Estimate, c: GroupChange) -> str:
    status, m = materiality(change.low, change.high, c.scale.materiality), measure_of(c)
    if status is None:
        return "no interval"
    if status is Materiality.NOT_MATERIAL:
        return f"no material change, less than {m.with_unit(m.size(c.scale.materiality))}"
    if not is_beyond_zero(change.low, change.high):
        return "inconclusive, consistent with no change"
    wider = change.value * old.value >= 0.0 or abs(change.value) > 2 * abs(old.value)
    return "the gap became wider" if wider else "the gap became narrower"


def _quantities(c: GroupChange) -> Table:
    audited_rate = f"{c.scale.metric}_difference"  # it is the gap
    keys = [*FIRST, *(key for key in QUANTITIES if key not in FIRST)]
    rows = []
    for key in keys:
        change, item = c.changes[key], quantity(key)
        if change is None or key == audited_rate:
            continue
        if key == "gap" and c.new["linear_gap"] is not None:
            item = replace(item, label=f"weighted {item.label}")
        old, new = (None if side is None else Estimate(side.value) for side in (c.old[key], c.new[key]))
        rows.append((item, (old, new, change)))
    return change_table("estimates", rows, ("old", "new", "change"), measure_of(c), level_of(c))


def _features(c: GroupChange) -> Table:
    write = measure_of(c).difference
    keys = [key for key in NUMBERS if c.features[f"{key}_change"].is_not_null().any()]
    heads = (Column(f"change, {FEATURES[key].head}", is_optional=key == "shapley") for key in keys)
    both = (Column(f"{when}, {FEATURES['alone'].head}", is_optional=True) for when in SIDES)
    columns = (Column("feature", NAME), *both, *heads, Column("verdict", TEXT))
    rows = (
        (
            Cell(label(row["feature"])),
            *(Cell(write(row[f"alone_{when}"])) for when in SIDES),
            *(estimate_cell(row_estimate(row, f"{key}_change"), write) for key in keys),
            _verdict(row["verdict"]),
        )
        for row in _rows(c)
    )
    return Table("contributions", columns, tuple(rows))


def _verdict(verdict: str) -> Cell:
    kind, text = VERDICTS.get(verdict, (OPEN, verdict))
    return Cell(text, mark=kind)
