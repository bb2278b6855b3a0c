"""Score adjustments, their evaluation, and less discriminatory alternatives as documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tiltlens.documents import repair_sentences as sentences
from tiltlens.documents.display_names import named
from tiltlens.documents.document import (
    HEADLINE,
    NAME,
    QUIET,
    TEXT,
    Block,
    Cell,
    Column,
    Document,
    FigureRef,
    Heading,
    Paragraph,
    Table,
    bullets,
)
from tiltlens.documents.price_adjustment import (
    PRICE,
    PRICE_EVALUATIONS,
    free_price_document,
    price_evaluation_document,
)
from tiltlens.documents.quantities import Quantity, estimate_cell, format_of, quantity, row_estimate
from tiltlens.formats import count, interval_name, label, minus, percent, points, size, whole_percent
from tiltlens.rows.measures import POINTS

Record = dict[str, Any]
BOTH = ("audited", "reference")
ORDER = (
    *("gap", "exempt_gap", "impact_ratio", "decision_gap", "fpr_difference", "fnr_difference"),
    *("calibration_difference", "accuracy", "auc", "auc_audited", "auc_reference", "log_loss", "brier"),
)
CURVE = ("gap", "accuracy", "auc", "log_loss")
RATES = ("selected", "impact_ratio", "true_positive_rate")
COMPARED = ("audited model", "alternative")
STEP = 2  # every second point of the curve is shown
RULES = 9  # rules of the curve that are shown
WHAT_IFS = 20  # the smallest gaps first


def repair_document(repair: Record) -> Document:
    """Return an adjustment: its goal, its fit, and where it uses the group."""
    if repair.get("schema") == PRICE:  # the summary of a tilt has none
        return free_price_document(repair)
    repair = sentences.named_repair(repair)
    first, *others = [*sentences.goal(repair), *sentences.fit_sentences(repair)]
    notes = [*map(sentences.sentence, repair["notes"]), sentences.REGULATED]
    blocks = [_who(repair), Paragraph(first, HEADLINE), *map(Paragraph, others), *bullets(notes, "Use of the group")]
    return Document("Score adjustment", tuple(blocks))


def evaluation_document(summary: Record) -> Document:
    """Return the effect of an adjustment on held-out data, the widest gaps first."""
    if summary.get("schema") == PRICE_EVALUATIONS:
        return price_evaluation_document(summary)
    evaluations = [
        evaluation | {"repair": sentences.named_repair(evaluation["repair"])}
        for evaluation in summary["evaluations"].values()
    ]
    evaluations.sort(key=_width)
    blocks: list[Block] = []
    for evaluation in evaluations:
        blocks += _evaluation(evaluation)
    repair = evaluations[0]["repair"]
    blocks += bullets(list(map(minus, sentences.group_use(evaluations[0]))), "Use of the group")
    blocks += bullets([*sentences.goal(repair), *sentences.fit_sentences(repair)], "Adjustment")
    return Document(
        "Effect of a score adjustment on held-out data", (*blocks, Paragraph(sentences.IS_NO_FINDING, QUIET))
    )


def _width(evaluation: Record) -> float:
    return -max((abs(row["before"]) for row in evaluation["table"] if row["quantity"] == "gap"), default=0.0)


def _who(record: Record) -> Heading:
    return Heading(f"{label(record['audited'])} (audited) vs {label(record['reference'])} (reference)", 2)


def _evaluation(evaluation: Record) -> list[Block]:
    first, *others = sentences.headline(evaluation)
    repair, level = evaluation["repair"], interval_name(evaluation["confidence"])
    blocks: list[Block] = [_who(repair), Paragraph(first, HEADLINE), *map(Paragraph, others)]
    blocks += [_before_after("estimates", evaluation, evaluation["table"], ("before", "after", "change"), level)]
    blocks += [Heading(f"Changed decisions at the threshold {evaluation['threshold']:g}"), _decisions(evaluation)]
    if evaluation["cost_of_blindness"] is not None:
        columns = ("with_group", "without_group", "cost")
        blocks += [Heading("Cost of not using the group"), Paragraph(sentences.cost_of_blindness(evaluation))]
        blocks += [_before_after("cost_of_blindness", evaluation, evaluation["cost_of_blindness"], columns, level)]
    blocks += [Heading("Partial adjustments"), FigureRef("repair_curve", evaluation), _curve(evaluation)]
    return blocks + bullets([minus(sentences.sentence(note)) for note in evaluation["notes"]], "Warnings")


def _label(evaluation: Record, key: str) -> Quantity:
    """Return the quantity that a key stands for: the gap of decisions is that of their rates."""
    repair = evaluation["repair"]
    is_decisions = repair["metric"] == sentences.DECISIONS
    item = quantity({"gap": "decision_gap" if is_decisions else "score_gap"}.get(key, key))
    if key == "impact_ratio" and repair.get("favours_low"):
        return replace(item, label=f"{item.label}, low is favourable")
    return item


def _before_after(
    name: str, evaluation: Record, rows: Iterable[Record], keys: tuple[str, str, str], level: str
) -> Table:
    """Return two values of each quantity and their difference."""
    by_key = {row["quantity"]: row for row in rows}
    if evaluation["repair"]["metric"] == sentences.DECISIONS:
        by_key.pop("decision_gap", None)  # it is the gap
    ordered = [*(key for key in ORDER if key in by_key), *(key for key in by_key if key not in ORDER)]
    cells = []
    for key in ordered:
        item, row = _label(evaluation, key), by_key[key]
        written = format_of(item.scale, POINTS)
        values = (Cell(written.value(row[which])) for which in keys[:2])
        cells.append((Cell(item.name(POINTS)), *values, estimate_cell(row_estimate(row, keys[2]), written.change)))
    labels = (
        keys[0].replace("_", " "),
        keys[1].replace("_", " "),
        "difference" if name == "cost_of_blindness" else keys[2],
    )
    return Table(name, (Column("quantity", NAME), *map(Column, labels)), tuple(cells), level)


def _decisions(evaluation: Record) -> Table:
    columns = (Column("group", NAME), Column("people"), Column("from 0 to 1"), Column("from 1 to 0"))
    rows = (
        (
            Cell(label(evaluation["repair"].get(group, group))),
            Cell(count(evaluation["rows"][group])),
            *(Cell(count(moved[way])) for way in ("up", "down")),
        )
        for group, moved in evaluation["decisions"].items()
    )
    return Table("decisions", columns, tuple(rows))


def _curve(evaluation: Record) -> Table:
    keys = [key for key in CURVE if key in evaluation["curve"][0]]
    quantities = [_label(evaluation, key) for key in keys]
    columns = (Column("part", NAME), *(Column(item.name(POINTS)) for item in quantities))
    rows = (
        (
            Cell(whole_percent(row["part"])),
            *(Cell(format_of(item.scale, POINTS).value(row[key])) for key, item in zip(keys, quantities, strict=True)),
        )
        for row in evaluation["curve"][::STEP]
    )
    return Table("curve", columns, tuple(rows))


def alternatives_document(summary: Record) -> Document:
    """Return the search for less discriminatory alternatives, the widest gaps first."""
    comparisons = named(summary, summary["group"])["comparisons"].values()
    blocks: list[Block] = []
    for search in sorted(comparisons, key=lambda item: -abs(item["gap"]["value"])):
        blocks += _alternatives(search)
    title = f"Less discriminatory alternatives by {label(summary['group'])}"
    return Document(title, (*blocks, Paragraph(sentences.OF_RULES, QUIET)))


def _alternatives(search: Record) -> list[Block]:
    first, *others = sentences.verdict_words(search, search)
    level = interval_name(search["confidence"])
    blocks: list[Block] = [
        _who(search),
        Paragraph(minus(first), HEADLINE),
        *(Paragraph(minus(line)) for line in others),
    ]
    blocks += [_compared(search, level), _differences(search, level)]
    blocks.append(
        Paragraph(
            f"Scores from {search['threshold']:g} on count as decision 1; a loss of accuracy of up to "
            f"{size(search['tolerance'])} points counts as none. People without a known outcome are left out.",
            QUIET,
        )
    )
    blocks += [Heading("Accepted loss of accuracy"), FigureRef("tolerances", search), _tolerances(search, level)]
    blocks.append(Paragraph(sentences.OF_TOLERANCES, QUIET))
    blocks += [Heading("Other rules"), FigureRef("attainable", search), _attained(search, level)]
    if search["what_ifs"]:
        blocks += [Heading("Effect of features of the audited model"), _what_ifs(search)]
        blocks.append(Paragraph(sentences.OF_WHAT_IFS, QUIET))
    return blocks + bullets([minus(sentences.sentence(note)) for note in search["notes"]], "Warnings")


def _compared(search: Record, level: str) -> Table:
    """Return the rates of the audited model and of the alternative, as far as they are defined."""
    rates = search["rates"]
    cells = [
        (
            Cell(quantity(key).name(POINTS)),
            *(estimate_cell(rates[rule][key], format_of(quantity(key).scale, POINTS).value) for rule in rates),
        )
        for key in RATES
        if all(rates[rule][key] is not None for rule in rates)
    ]
    return Table("compared", (Column("quantity", NAME), *map(Column, COMPARED)), tuple(cells), level)


def _differences(search: Record, level: str) -> Table:
    """Return the numbers that the verdict was read from."""
    keys = ("score_gap", *(["auc"] if search["auc"] else []), "accuracy_change", "gap_reduction")
    cells = [
        (Cell(quantity(key).name(POINTS)), estimate_cell(search[key], format_of(quantity(key).scale, POINTS).value))
        for key in keys
    ]
    return Table("estimates", (Column("quantity", NAME), Column("value")), tuple(cells), level)


def _tolerances(search: Record, level: str) -> Table:
    """Return the reduction of the gap for each loss of accuracy that counts as none."""
    keys = ("accuracy_change", "gap_reduction", "ratio_gain")
    columns = (Column("accepted loss (points)", NAME), *(Column(quantity(key).name(POINTS)) for key in keys))
    rows = (
        (
            Cell(f"{100 * row['tolerance']:g}"),
            *(estimate_cell(row_estimate(row, key), format_of(quantity(key).scale, POINTS).value) for key in keys),
            Cell(row["verdict"]),
        )
        for row in search["tolerances"]
    )
    band = f"{level.removesuffix(' CI')} simultaneous band"
    return Table("tolerances", (*columns, Column("alternative", TEXT)), tuple(rows), band)


def _attained(search: Record, level: str) -> Table:
    heads = (f"{sentences.gap_name(search)} (points)", sentences.accuracy_name(search))
    rows = [("audited model", search["gap"], search["accuracy"])]
    step = max(1, (len(search["curve"]) - 1) // (RULES - 1))
    rows += [
        (f"rule {index} of {len(search['curve'])}", row_estimate(row, "gap"), row_estimate(row, "accuracy"))
        for index, row in [*enumerate(search["curve"], 1)][::step]
    ]
    cells = ((Cell(name), estimate_cell(gap, points), estimate_cell(accuracy, percent)) for name, gap, accuracy in rows)
    return Table("rules", (Column("rule", NAME), *map(Column, heads)), tuple(cells), level)


def _what_ifs(search: Record) -> Table:
    columns = (
        Column("feature", NAME),
        Column("what if", TEXT),
        Column(quantity("gap").label),
        *(Column(quantity(key).label) for key in ("gap_change", "accuracy_change")),
    )
    rows = (
        (
            Cell(label(row["feature"])),
            Cell(row["what_if"]),
            Cell(points(row["gap"])),
            *(estimate_cell(row_estimate(row, key), points) for key in ("gap_change", "accuracy_change")),
        )
        for row in search["what_ifs"][:WHAT_IFS]
    )
    return Table("what-ifs", columns, tuple(rows))
