"""Score adjustments, their evaluation, and less discriminatory alternatives as documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from tiltlens.documents import repair_sentences as sentences
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
    pair_heading,
    warnings,
)
from tiltlens.documents.labels import group_name
from tiltlens.documents.prices import free_price_document, price_evaluation_document
from tiltlens.documents.quantities import Quantity, change_table, estimate_cell, format_of, quantity, quantity_cell
from tiltlens.estimators.estimate import Estimate
from tiltlens.formats import count, interval_name, label, minus, percent, points, sentence, size, whole_percent
from tiltlens.repair.adjustment import Adjustment
from tiltlens.repair.alternatives import Alternatives, AlternativesByGroup
from tiltlens.repair.evaluation import Evaluation, RepairEvaluation
from tiltlens.repair.free_price import DiscriminationFreePrice
from tiltlens.repair.price_evaluation import PriceEvaluation
from tiltlens.repair.score_tilt import ScoreTilt
from tiltlens.results.outputs import row_estimate
from tiltlens.rows.wording import POINTS

ORDER = (
    *("gap", "exempt_gap", "impact_ratio", "decision_gap", "fpr_difference", "fnr_difference"),
    *("calibration_difference", "accuracy", "auc", "auc_audited", "auc_reference", "log_loss", "brier"),
)
CURVE = ("gap", "accuracy", "auc", "log_loss")
RATES = ("selected", "impact_ratio", "true_positive_rate")
COMPARED = ("audited rule", "alternative")
STEP = 2  # every second point of the curve is shown
RULES = 9  # rules of the curve that are shown
WHAT_IFS = 20  # the smallest gaps first


def repair_document(adjustment: Adjustment, group: str | None = None) -> Document:
    """Return an adjustment: its goal, its fit, and where it uses the group, by the column of groups."""
    if isinstance(adjustment, DiscriminationFreePrice):
        return free_price_document(adjustment)
    assert isinstance(adjustment, ScoreTilt)
    repair = sentences.named_repair(adjustment.summary(group))
    first, *others = [*sentences.goal(repair), *sentences.fit_sentences(repair)]
    notes = [*map(sentence, repair.notes), sentences.REGULATED]
    who = pair_heading(str(repair.audited), repair.reference)
    blocks = [who, Paragraph(first, HEADLINE), *map(Paragraph, others), *bullets(notes, "Use of the group")]
    return Document("Score adjustment", tuple(blocks))


def evaluation_document(evaluations: Sequence[Evaluation]) -> Document:
    """Return the effect of an adjustment on held-out data, the widest gaps first."""
    prices = [each for each in evaluations if isinstance(each, PriceEvaluation)]
    if prices:
        return price_evaluation_document(prices)
    tilts = (each for each in evaluations if isinstance(each, RepairEvaluation))
    named = [replace(each, repair=sentences.named_repair(each.repair)) for each in tilts]
    named.sort(key=_width)
    repair = named[0].repair
    blocks = [block for evaluation in named for block in _evaluation(evaluation)]
    blocks += bullets(list(map(minus, sentences.group_use(named[0]))), "Use of the group")
    blocks += bullets([*sentences.goal(repair), *sentences.fit_sentences(repair)], "Adjustment")
    return Document(
        "Effect of a score adjustment on held-out data", (*blocks, Paragraph(sentences.IS_NO_FINDING, QUIET))
    )


def _width(evaluation: RepairEvaluation) -> float:
    return -max(evaluation.table.filter(quantity="gap")["before"].abs(), default=0.0)


def _evaluation(evaluation: RepairEvaluation) -> list[Block]:
    first, *others = sentences.headline(evaluation)
    repair, level = evaluation.repair, interval_name(evaluation.confidence)
    who = pair_heading(str(repair.audited), repair.reference)
    blocks: list[Block] = [who, Paragraph(first, HEADLINE), *map(Paragraph, others)]
    blocks += [_before_after("estimates", evaluation, evaluation.table, ("before", "after", "change"), level)]
    blocks += [Heading(f"Changed decisions at the threshold {evaluation.threshold:g}"), _decisions(evaluation)]
    if (costs := evaluation.cost_of_blindness) is not None:
        columns = ("with_group", "without_group", "cost")
        blocks += [Heading("Cost of not using the group"), Paragraph(sentences.blindness_words(costs))]
        blocks += [_before_after("cost_of_blindness", evaluation, costs, columns, level)]
    blocks += [Heading("Partial adjustments"), FigureRef("repair_curve", (evaluation,)), _curve(evaluation)]
    return blocks + warnings(evaluation.notes)


def _label(evaluation: RepairEvaluation, key: str) -> Quantity:
    """Return the quantity that a key stands for: the gap of decisions is that of their rates."""
    repair = evaluation.repair
    is_decisions = repair.metric == sentences.DECISIONS
    item = quantity({"gap": "decision_gap" if is_decisions else "score_gap"}.get(key, key))
    if key == "impact_ratio" and repair.favours_low:
        return replace(item, label=f"{item.label}, low is favourable")
    return item


def _before_after(
    name: str, evaluation: RepairEvaluation, table: pl.DataFrame, keys: tuple[str, str, str], level: str
) -> Table:
    """Return two values of each quantity and their difference."""
    by_key = sentences.rows_of(table)
    if evaluation.repair.metric == sentences.DECISIONS:
        by_key.pop("decision_gap", None)  # it is the gap
    ordered = [*(key for key in ORDER if key in by_key), *(key for key in by_key if key not in ORDER)]
    rows = []
    for key in ordered:
        before, after, change = (row_estimate(by_key[key], column) for column in keys)
        plain = (None if estimate is None else Estimate(estimate.value) for estimate in (before, after))
        rows.append((_label(evaluation, key), (*plain, change)))
    heads = [key.replace("_", " ").replace("cost", "difference") for key in keys]
    return change_table(name, rows, heads, POINTS, level)


def _decisions(evaluation: RepairEvaluation) -> Table:
    columns = (Column("group", NAME), Column("people"), Column("from 0 to 1"), Column("from 1 to 0"))
    rows = (
        (label(getattr(evaluation.repair, who)), *map(count, (evaluation.rows[who], moved["up"], moved["down"])))
        for who, moved in evaluation.decisions.items()
    )
    return Table("decisions", columns, tuple(tuple(map(Cell, row)) for row in rows))


def _curve(evaluation: RepairEvaluation) -> Table:
    items = {key: _label(evaluation, key) for key in CURVE if key in evaluation.curve.columns}
    columns = (Column("part", NAME), *(Column(item.name(POINTS)) for item in items.values()))
    rows = (
        (whole_percent(row["part"]), *(format_of(item.scale, POINTS).value(row[key]) for key, item in items.items()))
        for row in evaluation.curve[::STEP].iter_rows(named=True)
    )
    return Table("curve", columns, tuple(tuple(map(Cell, row)) for row in rows))


def alternatives_document(found: AlternativesByGroup) -> Document:
    """Return the search for less discriminatory alternatives, the widest gaps first."""
    blocks: list[Block] = []
    for search in sorted(found.comparisons.values(), key=lambda search: -abs(search.gap)):
        audited, reference = (group_name(found.group, name) for name in (search.audited, search.reference))
        blocks += _alternatives(replace(search, audited=audited, reference=reference))
    title = f"Less discriminatory alternatives by {label(found.group)}"
    return Document(title, (*blocks, Paragraph(sentences.OF_RULES, QUIET)))


def _alternatives(search: Alternatives) -> list[Block]:
    first, *others = sentences.verdict_words(search)
    level = interval_name(search.confidence)
    counted = (
        f"Scores from {search.threshold:g} on count as decision 1; a loss of accuracy of up to "
        f"{size(search.tolerance)} points counts as none. People without a known outcome are left out."
    )
    blocks: list[Block] = [
        pair_heading(search.audited, search.reference),
        Paragraph(minus(first), HEADLINE),
        *(Paragraph(minus(line)) for line in others),
        _compared(search, level),
        _differences(search, level),
        Paragraph(counted, QUIET),
        *(Heading("Accepted loss of accuracy"), FigureRef("tolerances", (search,)), _tolerances(search, level)),
        Paragraph(sentences.OF_TOLERANCES, QUIET),
        *(Heading("Other rules"), FigureRef("attainable", (search,)), _attained(search, level)),
    ]
    if not search.what_ifs.is_empty():
        blocks += [Heading("Effect of features of the audited model"), _what_ifs(search)]
        blocks.append(Paragraph(sentences.OF_WHAT_IFS, QUIET))
    return blocks + warnings(search.notes)


def _cell(key: str, estimate: Estimate | None) -> Cell:
    return quantity_cell(quantity(key), estimate, POINTS)


def _name(key: str) -> str:
    return quantity(key).name(POINTS)


def _compared(search: Alternatives, level: str) -> Table:
    """Return the rates of the audited model and of the alternative, as far as they are defined."""
    rates = search.rates.values()
    keys = [key for key in RATES if all(own[key] is not None for own in rates)]
    cells = ((Cell(_name(key)), *(_cell(key, own[key]) for own in rates)) for key in keys)
    return Table("compared", (Column("quantity", NAME), *map(Column, COMPARED)), tuple(cells), level)


def _differences(search: Alternatives, level: str) -> Table:
    """Return the numbers that the verdict was read from."""
    keys = ("score_gap", "auc", "accuracy_change", "gap_reduction")
    cells = ((Cell(_name(key)), _cell(key, estimate)) for key in keys if (estimate := getattr(search, key)) is not None)
    return Table("estimates", (Column("quantity", NAME), Column("value")), tuple(cells), level)


def _tolerances(search: Alternatives, level: str) -> Table:
    """Return the reduction of the gap for each loss of accuracy that counts as none."""
    keys = ("accuracy_change", "gap_reduction", "ratio_gain")
    columns = (Column("accepted loss (points)", NAME), *(Column(_name(key)) for key in keys))
    rows = (
        (
            Cell(f"{100 * row['tolerance']:g}"),
            *(_cell(key, row_estimate(row, key)) for key in keys),
            Cell(row["verdict"]),
        )
        for row in search.tolerances.iter_rows(named=True)
    )
    band = f"{level.removesuffix(' CI')} simultaneous band"
    return Table("tolerances", (*columns, Column("alternative", TEXT)), tuple(rows), band)


def _attained(search: Alternatives, level: str) -> Table:
    heads = (f"{sentences.gap_name(search)} (points)", sentences.accuracy_name(search))
    rows = search.curve.rows(named=True)
    cells = [(Cell("audited rule"), estimate_cell(search.gap, points), estimate_cell(search.accuracy, percent))]
    for index in range(0, len(rows), max(1, (len(rows) - 1) // (RULES - 1))):
        gap, accuracy = (row_estimate(rows[index], key) for key in ("gap", "accuracy"))
        name = Cell(f"rule {index + 1} of {len(rows)}")
        cells.append((name, estimate_cell(gap, points), estimate_cell(accuracy, percent)))
    return Table("rules", (Column("rule", NAME), *map(Column, heads)), tuple(cells), level)


def _what_ifs(search: Alternatives) -> Table:
    changes = ("gap_change", "accuracy_change")
    heads = (Column(quantity(key).label) for key in ("gap", *changes))
    rows = (
        (
            *map(Cell, (label(row["feature"]), row["what_if"], points(row["gap"]))),
            *(estimate_cell(row_estimate(row, key), points) for key in changes),
        )
        for row in search.what_ifs.head(WHAT_IFS).iter_rows(named=True)
    )
    return Table("what-ifs", (Column("feature", NAME), Column("what if", TEXT), *heads), tuple(rows))
