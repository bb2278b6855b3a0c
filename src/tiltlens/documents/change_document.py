"""The change between two audits as a document."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.display_names import named
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
)
from tiltlens.documents.quantities import (
    CONTRIBUTIONS,
    FEATURES,
    estimate_cell,
    estimate_words,
    format_of,
    quantity,
    row_estimate,
)
from tiltlens.documents.sentences import IS_NO_FINDING, simultaneous_words
from tiltlens.documents.verdict_texts import EVIDENCE, NOTHING, OPEN
from tiltlens.estimators.verdicts import Materiality, is_beyond_zero, materiality
from tiltlens.formats import interval_name, label, minus
from tiltlens.results.change import QUANTITIES, ChangeVerdict
from tiltlens.rows.measures import measure_of, subject

Record = dict[str, Any]
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


def change_document(summary: Record) -> Document:
    """Return a change, the largest first."""
    summary = named(summary, summary["group"])
    sides = (f"{which}: {_source(summary[which])} ({summary[which]['rows']['used']:,} rows)" for which in SIDES)
    blocks: list[Block] = [Paragraph("; ".join(sides) + ".", QUIET)]
    largest = sorted(summary["comparisons"].values(), key=lambda c: -abs(c["changes"]["gap"]["value"]))
    for c in largest:
        blocks += _group(summary, c)
    for name, which in summary["too_small"].items():
        blocks.append(Paragraph(f"{label(name)} is in the {which} audit only and is not compared.", WARNING))
    pairing = f"{summary['pairing'][:1].upper()}{summary['pairing'][1:]}."
    notes = " ".join(filter(None, [pairing, simultaneous_words(summary, summary["confidence"])]))
    title = f"Change of {subject(summary)} by {label(summary['group'])}"
    return Document(title, (*blocks, Heading("Data"), Paragraph(notes), Paragraph(IS_NO_FINDING, QUIET)))


def _source(side: Record) -> str:
    """Return the name of an audit: its model, its scores, or when it was made."""
    question, stated = side["provenance"]["question"], side["provenance"]["stated"]
    made = (side["provenance"]["created"] or "no date")[:10]
    name = stated.get("model") or question.get("scores") or question.get("model")
    return f"{label(name, 40)}, {made}" if name else made


def provenance_blocks(summary: Record) -> list[Block]:
    """Return where both audits come from, for a page."""
    rows: dict[str, list[str]] = {}
    for index, which in enumerate(SIDES):
        side = summary[which]["provenance"]
        entries = side["stated"] | {name: text for name, text in side["question"].items() if text and name != "where"}
        entries |= {"SHA-256 of the rows": side["data_sha256"], "made": side["created"] or "no date"}
        for name, text in entries.items():
            rows.setdefault(name, ["", ""])[index] = str(text)
    columns = (Column("provenance", NAME), *(Column(which, TEXT) for which in SIDES))
    cells = ((Cell(label(name)), *(Cell(label(text, 400)) for text in both)) for name, both in rows.items())
    return [Heading("Provenance", 2), Table("provenance", columns, tuple(cells))]


def _group(summary: Record, c: Record) -> list[Block]:
    first, *others = headline(summary, c)
    blocks: list[Block] = [
        Heading(f"{label(c['audited'])} (audited) vs {label(c['reference'])} (reference)", 2),
        Paragraph(first, HEADLINE),
        *(Paragraph(line) for line in others),
        _quantities(summary, c),
    ]
    if c["features"]:
        m, level = measure_of(c), f"{100 * summary['confidence']:g}%"
        blocks += [
            Heading(m.headed("Change of contributions")),
            FigureRef("change", c),
            _features(c),
            Paragraph(
                f"New minus old. Intervals of alone and beyond the others are {level} simultaneous confidence bands, "
                "from which the verdicts are read. Materiality threshold: "
                f"{m.with_unit(m.size(c['scale']['materiality']))}.",
                QUIET,
            ),
            Bullets(tuple(f"{label(row['feature'])}: {minus(row['reason'])}." for row in c["features"])),
        ]
    return blocks + bullets([minus(note) for note in c["notes"]], "Warnings")


def headline(summary: Record, c: Record) -> list[str]:
    """Return how the gap changed, and which features' contributions did."""
    old, new, change, m = c["old"]["gap"], c["new"]["gap"], c["changes"]["gap"], measure_of(c)
    values = [estimate_words({"value": item["value"], "low": None, "high": None}, m) for item in (old, new)]
    name = "Gap" if c["new"]["linear_gap"] is None else "Weighted gap"
    lines = [
        f"{name} in the {m.mean}s: {values[0]} before, {values[1]} now. Change "
        f"{estimate_words(change, m, interval_name(summary['confidence']))}: {_status(change, old, c)}."
    ]
    moved = [row for row in c["features"] if row["verdict"] in MOVED]
    if moved:
        more = f"; and {len(moved) - MOST_NAMED} more" if len(moved) > MOST_NAMED else ""
        lines.append("; ".join(_moved(row, c) for row in moved[:MOST_NAMED]) + more + ".")
    elif c["features"]:
        lines.append("No feature's contribution changed materially beyond doubt.")
    return lines


def _moved(row: Record, c: Record) -> str:
    """Return how a contribution changed, with the number that the verdict was read from."""
    alone = row_estimate(row, "alone_change")
    is_alone = materiality(alone["low"], alone["high"], c["scale"]["materiality"]) is Materiality.MATERIAL
    key = "alone" if is_alone or row["beyond_others_change"] is None else "beyond_others"
    change = estimate_words({"value": row[f"{key}_change"], "low": None, "high": None}, measure_of(c))
    return f"{label(row['feature'])} {VERDICTS[row['verdict']][1]} ({change}, {FEATURES[key].head})"


def _status(change: Record, old: Record, c: Record) -> str:
    status, m = materiality(change["low"], change["high"], c["scale"]["materiality"]), measure_of(c)
    if status is None:
        return "no interval"
    if status is Materiality.NOT_MATERIAL:
        return f"no material change, less than {m.with_unit(m.size(c['scale']['materiality']))}"
    if not is_beyond_zero(change["low"], change["high"]):
        return "inconclusive, consistent with no change"
    wider = change["value"] * old["value"] >= 0.0 or abs(change["value"]) > 2 * abs(old["value"])
    return "the gap became wider" if wider else "the gap became narrower"


def _quantities(summary: Record, c: Record) -> Table:
    audited_rate = f"{c['scale']['metric']}_difference"  # it is the gap
    keys = [*FIRST, *(key for key in QUANTITIES if key not in FIRST)]
    rows = []
    for key in keys:
        if c["changes"][key] is None or key == audited_rate:
            continue
        item = quantity(key)
        written = format_of(item.scale, measure_of(c))
        name = "weighted " * (key == "gap" and c["new"]["linear_gap"] is not None) + item.name(measure_of(c))
        values = (Cell(written.value(c[when][key]["value"])) for when in SIDES)
        rows.append((Cell(name), *values, estimate_cell(c["changes"][key], written.change)))
    columns = (Column("quantity", NAME), Column("old"), Column("new"), Column("change"))
    return Table("estimates", columns, tuple(rows), interval_name(summary["confidence"]))


def _features(c: Record) -> Table:
    write = measure_of(c).difference
    keys = [key for key in CONTRIBUTIONS if any(row.get(f"{key}_change") is not None for row in c["features"])]
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
        for row in c["features"]
    )
    return Table("contributions", columns, tuple(rows))


def _verdict(verdict: str) -> Cell:
    kind, text = VERDICTS.get(verdict, (OPEN, verdict))
    return Cell(text, mark=kind)
