"""Changes between audits, score adjustments, their evaluation and less discriminatory alternatives as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import polars as pl

from tiltlens._documents import document as doc
from tiltlens._documents import repair_sentences as sentences
from tiltlens._documents.audit_document import audit_document, checks_document, comparison_document
from tiltlens._documents.prices import free_price_document, price_evaluation_document
from tiltlens._documents.quantities import (
    FEATURES,
    Quantity,
    change_table,
    column_format,
    estimate_cell,
    estimate_words,
    format_of,
    quantity,
    row_cell,
    row_cells,
)
from tiltlens._documents.sentences import IS_NO_FINDING, simultaneous_words
from tiltlens._documents.tables import rule_document
from tiltlens._estimators.estimate import Estimate, Materiality, materiality
from tiltlens._estimators.verdicts import is_beyond
from tiltlens._formats import (
    capitalised,
    count,
    interval_name,
    label,
    minus,
    percent,
    points,
    sentence,
    size,
    whole_percent,
)
from tiltlens._repair.adjustment import Adjustment
from tiltlens._repair.alternatives import Alternatives, AlternativesByGroup
from tiltlens._repair.constraints import DECISIONS
from tiltlens._repair.evaluation import BEFORE_AFTER, Evaluation, RepairEvaluation
from tiltlens._repair.free_price import DiscriminationFreePrice, PriceEvaluation
from tiltlens._repair.score_tilt import ScoreTilt
from tiltlens._results.audit import Audit
from tiltlens._results.change import NUMBERS, QUANTITIES, Change, ChangeVerdict, GroupChange, Origin
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import Checks, row_estimate
from tiltlens._rows.wording import POINTS
from tiltlens._rules.tables import RuleTables

Row = Mapping[str, Any]  # one row of the frame of features
VERDICTS: dict[str, tuple[str, str]] = {  # verdict of the result → kind of mark, and phrase for a sentence
    ChangeVerdict.MORE: (doc.EVIDENCE, "contributes more than before"),
    ChangeVerdict.LESS: (doc.EVIDENCE, "contributes less than before"),
    ChangeVerdict.TURNED: (doc.EVIDENCE, "contributes in the opposite direction"),
    ChangeVerdict.NO_CHANGE: (doc.NOTHING, str(ChangeVerdict.NO_CHANGE)),
}
FIRST = ("gap", "linear_gap", "adjusted_gap", "impact_ratio", "audited_rate", "reference_rate")
MOVED = (ChangeVerdict.MORE, ChangeVerdict.LESS, ChangeVerdict.TURNED)
MOST_NAMED = 5
SIDES = ("old", "new")


def change_document(change: Change) -> doc.Document:
    """Return the document of a change; the group with the largest change comes first."""
    change = doc.named_change(change)
    origins = zip(SIDES, (change.old, change.new), strict=True)
    sides = (f"{which}: {_source(origin)} ({origin.rows['used']:,} rows)" for which, origin in origins)
    blocks: list[doc.Block] = [doc.Paragraph("; ".join(sides) + ".", doc.QUIET)]
    largest = sorted(change.comparisons.values(), key=lambda c: -abs(c.changes["gap"] or 0.0))
    for c in largest:
        blocks += _group(c)
    for name, which in change.too_small.items():
        blocks.append(doc.Paragraph(f"{label(name)} is in the {which} audit only and is not compared.", doc.WARNING))
    pairing = f"{capitalised(change.pairing)}."
    notes = " ".join(filter(None, [pairing, simultaneous_words(change)]))
    title = f"Change in {doc.subject(change)} by {label(change.group)}"
    return doc.Document(
        title, (*blocks, doc.Heading("Data"), doc.Paragraph(notes), doc.Paragraph(IS_NO_FINDING, doc.QUIET))
    )


def _source(side: Origin) -> str:
    """Return the name of an audit: its model or scores, and its date."""
    question, stated = side.provenance.question, side.provenance.stated
    made = (side.provenance.created or "no date")[:10]
    name = stated.get("model") or question["scores"] or question["model"]
    return f"{label(name, 40)}, {made}" if name else made


def provenance_blocks(change: Change) -> list[doc.Block]:
    """Return the provenance of both audits as a table."""
    rows: dict[str, list[str]] = {}
    for index, side in enumerate((change.old.provenance, change.new.provenance)):
        question = {name: str(text) for name, text in side.question.items() if text and name != "where"}
        created = f"{side.created[:16].replace('T', ' ')} UTC" if side.created else "no date"
        entries = side.stated | question | {"SHA-256 of the rows": side.data_sha256, "created": created}
        for name, text in entries.items():
            rows.setdefault(name, ["", ""])[index] = text
    cells = ((label(name.replace("_", " ")), *(label(text, 400) for text in both)) for name, both in rows.items())
    heads = (doc.Column(which, doc.TEXT) for which in SIDES)
    return [doc.Heading("Provenance", 2), doc.Table.of("provenance", ("provenance", *heads), cells)]


def _group(c: GroupChange) -> list[doc.Block]:
    blocks = [*doc.pair_blocks(c, headline(c)), _quantities(c)]
    if not c.features.is_empty():
        m, level = doc.measure_of(c), f"{100 * c.scale.confidence:g}%"
        blocks += [
            doc.Heading(m.headed("Change in contributions")),
            doc.FigureRef("change", (c,)),
            _features(c),
            doc.Paragraph(
                f"New minus old. Intervals of alone and beyond the others are {level} simultaneous confidence bands, "
                "from which the verdicts are read. Materiality threshold: "
                f"{m.with_unit(m.size(c.scale.materiality))}.",
                doc.QUIET,
            ),
            doc.Bullets(tuple(f"{label(row['feature'])}: {minus(row['reason'])}." for row in _rows(c))),
        ]
    return blocks + doc.bullets([minus(note) for note in c.notes], "Warnings")


def _rows(c: GroupChange) -> list[Row]:
    return [*c.features.iter_rows(named=True)]


def headline(c: GroupChange) -> list[str]:
    """Return sentences on the change of the gap, and on the features whose contributions changed."""
    m, (old, new, change) = doc.measure_of(c), map(_gap, (c.old, c.new, c.changes))
    values = [estimate_words(Estimate(gap.value), m) for gap in (old, new)]
    name = "Gap" if c.new["linear_gap"] is None else "Weighted gap"
    lines = [
        f"{name} in the {m.mean}s: {values[0]} before, {values[1]} now. Change "
        f"{estimate_words(change, m, doc.level_of(c))}: {_status(change, old, c)}."
    ]
    moved = [row for row in _rows(c) if row["verdict"] in MOVED]
    if moved:
        more = f"; and {len(moved) - MOST_NAMED} more" if len(moved) > MOST_NAMED else ""
        lines.append("; ".join(_moved(row, c) for row in moved[:MOST_NAMED]) + more + ".")
    elif not c.features.is_empty():
        lines.append("No contribution is shown to have changed materially.")
    return lines


def _gap(side: Mapping[str, Estimate | None]) -> Estimate:
    gap = side["gap"]
    return Estimate(0.0) if gap is None else gap


def _moved(row: Row, c: GroupChange) -> str:
    """Return how a contribution changed, with the number on which its verdict is based."""
    ends = row["alone_change_low"], row["alone_change_high"]
    is_alone = materiality(*ends, c.scale.materiality) is Materiality.MATERIAL
    key = "alone" if is_alone or row["beyond_others_change"] is None else "beyond_others"
    change = estimate_words(Estimate(row[f"{key}_change"]), doc.measure_of(c))
    return f"{label(row['feature'])} {VERDICTS[row['verdict']][1]} ({change}, {FEATURES[key].head})"


def _status(change: Estimate, old: Estimate, c: GroupChange) -> str:
    status, m = materiality(change.low, change.high, c.scale.materiality), doc.measure_of(c)
    if status is None:
        return "no interval"
    if status is Materiality.NOT_MATERIAL:
        return f"no material change, less than {m.with_unit(m.size(c.scale.materiality))}"
    if not is_beyond(change):
        return "inconclusive, consistent with no change"
    wider = change.value * old.value >= 0.0 or abs(change.value) > 2 * abs(old.value)
    return "the gap became wider" if wider else "the gap became narrower"


def _quantities(c: GroupChange) -> doc.Table:
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
    return change_table("estimates", rows, ("old", "new", "change"), doc.measure_of(c), doc.level_of(c))


def _features(c: GroupChange) -> doc.Table:
    keys, m = [key for key in NUMBERS if c.features[f"{key}_change"].is_not_null().any()], doc.measure_of(c)
    names = [f"alone_{when}" for when in SIDES] + [f"{key}_change" for key in keys]
    write = {name: column_format(_rows(c), name, "gap", m) for name in names}
    heads = (doc.Column(f"change, {FEATURES[key].head}", is_optional=key == "shapley") for key in keys)
    both = (doc.Column(f"{when}, {FEATURES['alone'].head}", is_optional=True) for when in SIDES)
    rows = (
        (
            label(row["feature"]),
            *(write[name](row[name]) for name in names[: len(SIDES)]),
            *(row_cell(row, name, write[name]) for name in names[len(SIDES) :]),
            _verdict(row["verdict"]),
        )
        for row in _rows(c)
    )
    return doc.Table.of("contributions", ("feature", *both, *heads, doc.Column("verdict", doc.TEXT)), rows)


def _verdict(verdict: str) -> doc.Cell:
    kind, text = VERDICTS.get(verdict, (doc.OPEN, verdict))
    return doc.Cell(text, mark=kind)


ORDER = (
    *("gap", "exempt_gap", "impact_ratio", "decision_gap", "fpr_difference", "fnr_difference"),
    *("calibration_difference", "accuracy", "auc", "auc_audited", "auc_reference", "log_loss", "brier"),
)
CURVE = ("gap", "accuracy", "auc", "log_loss")
RATES = ("selected", "impact_ratio", "true_positive_rate")
COMPARED = ("audited rule", "alternative")
STEP = 2  # every second point of the curve is shown
RULES = 9  # rules of the curve that are shown
WHAT_IFS = 20  # maximum number shown, smallest gaps first


def repair_document(adjustment: Adjustment, group: str | None = None) -> doc.Document:
    """Return the document of an adjustment: goal, fit and use of the group; `group` is the group column."""
    if isinstance(adjustment, DiscriminationFreePrice):
        return free_price_document(adjustment)
    assert isinstance(adjustment, ScoreTilt)
    repair = sentences.named_repair(adjustment.summary(group))
    lines = [*sentences.goal(repair), *sentences.fit_sentences(repair)]
    notes = [*(minus(sentence(note)) for note in repair.notes), sentences.REGULATED]
    blocks = (*doc.pair_blocks(repair, lines), *doc.bullets(notes, "Use of the group"))
    return doc.Document("Score adjustment", blocks)


def evaluation_document(evaluations: Sequence[Evaluation]) -> doc.Document:
    """Return the document of an adjustment's effect on held-out data; the widest gap comes first."""
    prices = [each for each in evaluations if isinstance(each, PriceEvaluation)]
    if prices:
        return price_evaluation_document(prices)
    tilts = (each for each in evaluations if isinstance(each, RepairEvaluation))
    named = [replace(each, repair=sentences.named_repair(each.repair)) for each in tilts]
    named.sort(key=lambda each: -max(each.table.filter(quantity="gap")["before"].abs(), default=0.0))
    repair = named[0].repair
    blocks = [block for evaluation in named for block in _evaluation(evaluation)]
    notes = [*map(sentence, repair.notes), sentences.USED_TO_MEASURE, sentences.REGULATED]
    blocks += doc.bullets(list(map(minus, notes)), "Use of the group")
    blocks += doc.bullets([*sentences.goal(repair), *sentences.fit_sentences(repair)], "Adjustment")
    return doc.Document(
        "Effect of a score adjustment on held-out data",
        (*blocks, doc.Paragraph(sentences.IS_NO_FINDING.format(act="adjust scores"), doc.QUIET)),
    )


def _evaluation(evaluation: RepairEvaluation) -> list[doc.Block]:
    level = interval_name(evaluation.confidence)
    blocks = doc.pair_blocks(evaluation.repair, sentences.headline(evaluation))
    blocks += [_before_after("estimates", evaluation, evaluation.table, BEFORE_AFTER, level)]
    blocks += [doc.Heading(f"Changed decisions at the threshold {evaluation.threshold:g}"), _decisions(evaluation)]
    if (costs := evaluation.cost_of_blindness) is not None:
        columns = ("with_group", "without_group", "cost")
        blocks += [doc.Heading("Cost of not using the group"), doc.Paragraph(sentences.blindness_words(costs))]
        blocks += [_before_after("cost_of_blindness", evaluation, costs, columns, level)]
    blocks += [doc.Heading("Partial adjustments"), doc.FigureRef("repair_curve", (evaluation,)), _curve(evaluation)]
    return blocks + doc.warnings(evaluation.notes)


def _label(evaluation: RepairEvaluation, key: str) -> Quantity:
    """Return the quantity of a key; "gap" is a gap in decision rates or in mean scores."""
    repair = evaluation.repair
    is_decisions = repair.metric == DECISIONS
    item = quantity({"gap": "decision_gap" if is_decisions else "score_gap"}.get(key, key))
    if key == "impact_ratio" and repair.favours_low:
        return replace(item, label=f"{item.label}, low is favourable")
    return item


def _before_after(
    name: str, evaluation: RepairEvaluation, table: pl.DataFrame, keys: tuple[str, str, str], level: str
) -> doc.Table:
    """Return a table with two values of each quantity and their difference."""
    by_key = sentences.rows_of(table)
    if evaluation.repair.metric == DECISIONS:
        by_key.pop("decision_gap", None)  # the same number as the gap
    ordered = [*(key for key in ORDER if key in by_key), *(key for key in by_key if key not in ORDER)]
    rows = []
    for key in ordered:
        before, after, change = (row_estimate(by_key[key], column) for column in keys)
        plain = (None if estimate is None else Estimate(estimate.value) for estimate in (before, after))
        rows.append((_label(evaluation, key), (*plain, change)))
    heads = [key.replace("_", " ").replace("cost", "difference") for key in keys]
    return change_table(name, rows, heads, POINTS, level)


def _decisions(evaluation: RepairEvaluation) -> doc.Table:
    rows = (
        (label(getattr(evaluation.repair, who)), *map(count, (evaluation.rows[who], moved["up"], moved["down"])))
        for who, moved in evaluation.decisions.items()
    )
    return doc.Table.of("decisions", ("group", "people", "from 0 to 1", "from 1 to 0"), rows)


def _curve(evaluation: RepairEvaluation) -> doc.Table:
    items = {key: _label(evaluation, key) for key in CURVE if key in evaluation.curve.columns}
    rows = (
        (whole_percent(row["part"]), *(format_of(item.scale, POINTS).value(row[key]) for key, item in items.items()))
        for row in evaluation.curve[::STEP].iter_rows(named=True)
    )
    return doc.Table.of("curve", ("part", *(item.name(POINTS) for item in items.values())), rows)


def alternatives_document(alternatives: AlternativesByGroup) -> doc.Document:
    """Return the document of a search for less discriminatory alternatives; the widest gap comes first."""
    blocks: list[doc.Block] = []
    for search in sorted(alternatives.comparisons.values(), key=lambda search: -abs(search.gap)):
        blocks += _alternatives(doc.renamed(search, alternatives.group))
    title = f"Less discriminatory alternatives by {label(alternatives.group)}"
    return doc.Document(title, (*blocks, doc.Paragraph(sentences.OF_RULES, doc.QUIET)))


def _alternatives(search: Alternatives) -> list[doc.Block]:
    level = interval_name(search.confidence)
    keys = ("score_gap", "auc", "accuracy_change", "gap_reduction")  # the last two decide the verdict
    differences = ((quantity(key), [getattr(search, key)]) for key in keys if getattr(search, key) is not None)
    counted = (
        f"Scores from {search.threshold:g} on count as decision 1; a loss of accuracy of up to "
        f"{size(search.tolerance)} points counts as none. People without a known outcome are left out."
    )
    blocks: list[doc.Block] = [
        *doc.pair_blocks(search, [*map(minus, sentences.verdict_words(search))]),
        _compared(search, level),
        change_table("estimates", differences, ["value"], POINTS, level),
        doc.Paragraph(counted, doc.QUIET),
        *(doc.Heading("Accepted loss of accuracy"), doc.FigureRef("tolerances", (search,)), _tolerances(search)),
        doc.Paragraph(sentences.OF_TOLERANCES, doc.QUIET),
        *(doc.Heading("Other rules"), doc.FigureRef("attainable", (search,)), _attained(search, level)),
    ]
    if not search.what_ifs.is_empty():
        blocks += [doc.Heading("Effect of features of the audited model"), _what_ifs(search)]
        blocks.append(doc.Paragraph(sentences.OF_WHAT_IFS, doc.QUIET))
    return blocks + doc.warnings(search.notes)


def _compared(search: Alternatives, level: str) -> doc.Table:
    """Return the rates of the audited model and of the alternative that are defined for both."""
    rows = ((quantity(key), [own[key] for own in search.rates.values()]) for key in RATES)
    return change_table("compared", (row for row in rows if None not in row[1]), COMPARED, POINTS, level)


def _tolerances(search: Alternatives) -> doc.Table:
    """Return the reduction of the gap for each tolerated loss of accuracy."""
    items = [quantity(key) for key in ("accuracy_change", "gap_reduction", "ratio_gain")]
    heads = ("accepted loss (points)", *(item.name(POINTS) for item in items), doc.Column("alternative", doc.TEXT))
    rows = (
        (f"{100 * row['tolerance']:g}", *row_cells(row, items, POINTS), row["verdict"])
        for row in search.tolerances.iter_rows(named=True)
    )
    return doc.Table.of("tolerances", heads, rows, interval_name(search.confidence, "simultaneous band"))


def _attained(search: Alternatives, level: str) -> doc.Table:
    heads = ("rule", f"{sentences.gap_name(search)} (points)", sentences.accuracy_name(search))
    curve = search.curve.rows(named=True)
    rows = [("audited rule", search.gap, search.accuracy)] + [
        (f"rule {index + 1} of {len(curve)}", row_estimate(curve[index], "gap"), row_estimate(curve[index], "accuracy"))
        for index in range(0, len(curve), max(1, (len(curve) - 1) // (RULES - 1)))
    ]
    cells = ((rule, estimate_cell(gap, points), estimate_cell(accuracy, percent)) for rule, gap, accuracy in rows)
    return doc.Table.of("rules", heads, cells, level)


def _what_ifs(search: Alternatives) -> doc.Table:
    changes = ("gap_change", "accuracy_change")
    heads = ("feature", doc.Column("what if", doc.TEXT), *(quantity(key).label for key in ("gap", *changes)))
    rows = (
        (label(row["feature"]), row["what_if"], points(row["gap"]), *(row_cell(row, key, points) for key in changes))
        for row in search.what_ifs.head(WHAT_IFS).iter_rows(named=True)
    )
    return doc.Table.of("what-ifs", heads, rows)


@singledispatch
def document_of(result: object, **options: bool | str) -> doc.Document:
    """Return the document of a result, or of a list of evaluations."""
    raise TypeError(f"There is no document of {type(result).__name__}.")


@document_of.register
def _evaluation_document(evaluation: Evaluation) -> doc.Document:
    return evaluation_document([evaluation])


document_of.register(Audit, audit_document)
document_of.register(Comparison, comparison_document)
document_of.register(Checks, checks_document)
document_of.register(Change, change_document)
document_of.register(Adjustment, repair_document)
document_of.register(list, evaluation_document)
document_of.register(AlternativesByGroup, alternatives_document)
document_of.register(RuleTables, rule_document)
