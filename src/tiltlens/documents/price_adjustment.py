"""The discrimination-free price, and its effect on held-out data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tiltlens.documents import repair_sentences as sentences
from tiltlens.documents.document import (
    HEADLINE,
    NAME,
    QUIET,
    Block,
    Cell,
    Column,
    Document,
    Heading,
    Paragraph,
    Table,
    bullets,
)
from tiltlens.documents.quantities import estimate_cell, format_of, quantity, written
from tiltlens.formats import count, interval_name, label, minus, percent, sentence
from tiltlens.repair.free_price import DiscriminationFreePrice
from tiltlens.repair.price_evaluation import PriceEvaluation
from tiltlens.results.outputs import row_estimate
from tiltlens.rows.measures import Measure, ScoreType, measure_for
from tiltlens.rows.wording import Wording

Row = Mapping[str, Any]  # of a frame
ENDS = ("before", "after", "change")
BY_DECILE = "Actual to expected by group and decile of the price"
NOT_BY_GROUP = (
    "A discrimination-free price mixes the groups' expected costs, so the A/E of a group may differ from 1 where its "
    "costs do. The A/E of all people shows whether prices cover costs."
)
IS_NO_FINDING = (
    "Whether to change prices is a legal and policy decision, not a statistical one. The numbers hold for people like "
    "these."
)


def free_price_document(price: DiscriminationFreePrice) -> Document:
    """Return the discrimination-free price: its mixture, its features, and the gap on the audited rows."""
    m, shares = _measure(price.wording), {cost.group: cost.share for cost in price.costs}
    mixture = " and ".join(f"{label(group)} {percent(share)}" for group, share in shares.items())
    lines = [
        f"The price uses {sentences.listed(price.features)}, not the group of new {m.people}.",
        *_audited_gaps(price, m),
        f"Expected costs are multiplied by {price.factor:.4f}, so that prices add up to costs on the audited rows.",
        "Evaluate it on held-out data before you use it.",
    ]
    first = f"Mean of the expected costs of all groups, weighted by their shares of all exposure: {mixture}."
    notes = [*map(sentence, price.notes), sentences.REGULATED]
    blocks = [Paragraph(first, HEADLINE), *map(Paragraph, lines), *bullets(notes, "Use of the group")]
    return Document("Discrimination-free price", tuple(blocks))


def _audited_gaps(price: DiscriminationFreePrice, m: Measure) -> Iterator[str]:
    for group, gap in price.gap_before.items():
        before, after = (m.with_unit(m.difference(value)) for value in (gap, price.gap_after[group]))
        who = f"{label(group)} vs {label(price.reference)}"
        yield f"Gap of {who} on the audited rows: {before} before, {after} after."


def price_evaluation_document(evaluations: Iterable[PriceEvaluation]) -> Document:
    """Return the effect of a discrimination-free price on held-out data, for each audited group."""
    blocks: list[Block] = []
    for evaluation in evaluations:
        blocks += _evaluation(evaluation)
    blocks += [Paragraph(NOT_BY_GROUP, QUIET), Paragraph(IS_NO_FINDING, QUIET)]
    return Document("Effect of the discrimination-free price on held-out data", tuple(blocks))


def _measure(wording: Wording) -> Measure:
    return measure_for(ScoreType.AMOUNT, None, wording)


def _evaluation(evaluation: PriceEvaluation) -> Iterator[Block]:
    m, level = _measure(evaluation.wording), interval_name(evaluation.confidence)
    rows = sentences.rows_of(evaluation.table)
    who = f"{label(evaluation.audited)} (audited) vs {label(evaluation.reference)} (reference)"
    yield Heading(who, 2)
    yield Paragraph(_gap_words(evaluation, rows["gap"], m, level), HEADLINE)
    yield Paragraph(_money_words(rows, m))
    items = [(quantity(name), row) for name, row in rows.items()]
    cells = []
    for item, row in items:
        write = format_of(item.scale, m)
        of_change = write.value if row["before"] is None else write.change  # money moved is a change itself
        shown = (write.value, write.value, of_change)
        values = (estimate_cell(row_estimate(row, end), form) for end, form in zip(ENDS, shown, strict=True))
        cells.append((Cell(item.name(m)), *values))
    columns = (Column("quantity", NAME), *map(Column, ENDS))
    yield Table("estimates", columns, tuple(cells), level)
    yield from _deciles(evaluation, level)
    yield from bullets([minus(sentence(note)) for note in evaluation.notes], "Warnings")


def _gap_words(evaluation: PriceEvaluation, gap: Row, m: Measure, level: str) -> str:
    before = m.difference(gap["before"])
    after, change = (
        written(row_estimate(gap, end), m.difference, name, m.unit) for end, name in (("after", level), ("change", ""))
    )
    names = {"audited": evaluation.audited, "reference": evaluation.reference}
    sizes = " and ".join(f"{count(evaluation.rows[who])} {label(names[who])}" for who in evaluation.rows)
    return f"Gap of mean prices: {before} before, {after} after, change {change}; on {sizes} held out."


def _money_words(rows: Mapping[str, Row], m: Measure) -> str:
    moved, rising, falling = (
        rows[name]["change"] for name in ("mean_absolute_change", "share_rising", "share_falling")
    )
    return (
        f"Prices change by {m.with_unit(m.size(moved))} on average; they rise for {percent(rising)} of {m.people} and "
        f"fall for {percent(falling)}."
    )


def _deciles(evaluation: PriceEvaluation, level: str) -> Iterator[Block]:
    """Yield A/E by group and decile of the price before, and after."""
    cells = {(row["which"], row["group"], row["decile"]): row for row in evaluation.by_decile.iter_rows(named=True)}
    if not cells:
        return
    shown = format_of(quantity("actual_to_expected").scale, _measure(evaluation.wording)).value
    heads = [(which, who) for who in ("audited", "reference") for which in ("before", "after")]
    names = {"audited": evaluation.audited, "reference": evaluation.reference}
    columns = (Column("decile of the price", NAME), *(Column(f"{label(names[w])} {which}") for which, w in heads))
    rows = []
    for number in sorted({decile for *_, decile in cells}):
        every = (cells.get((which, who, number)) for which, who in heads)
        values = (
            Cell("") if row is None else estimate_cell(row_estimate(row, "actual_to_expected"), shown) for row in every
        )
        rows.append((Cell(str(number)), *values))
    yield Heading(BY_DECILE)
    yield Table("actual-to-expected", columns, tuple(rows), level)
