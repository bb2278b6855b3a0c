"""The discrimination-free price, and its effect on held-out data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tiltlens.documents import repair_sentences as sentences
from tiltlens.documents.document import (
    HEADLINE,
    QUIET,
    Block,
    Document,
    FigureRef,
    Paragraph,
    bullets,
    pair_heading,
    warnings,
)
from tiltlens.documents.measures import BOTH
from tiltlens.documents.prices import decile_blocks
from tiltlens.documents.quantities import change_table, quantity, written
from tiltlens.estimators.estimate import Estimate
from tiltlens.formats import count, interval_name, label, percent, sentence
from tiltlens.repair.evaluation import BEFORE_AFTER
from tiltlens.repair.free_price import DiscriminationFreePrice
from tiltlens.repair.price_evaluation import PriceEvaluation
from tiltlens.rows.wording import Measure, ScoreType, Wording, measure_for

Changed = Mapping[str, Estimate | None]  # a quantity before and after, and its change
BY_DECILE = "Actual to expected by group and decile of the price"
NOT_BY_GROUP = (
    "A discrimination-free price mixes the groups' expected costs, so the A/E of a group may differ from 1 where its "
    "costs do. The A/E of all people shows whether prices cover costs."
)
SIMPLER = "The audit's gap of a discrimination-free price may differ, because it does not rest on an additive model."
IS_NO_FINDING = (
    "Whether to change prices is a legal and policy decision, not a statistical one. The numbers apply to new people "
    "only if they resemble these."
)


def free_price_document(price: DiscriminationFreePrice) -> Document:
    """Return the discrimination-free price: its mixture, its features, and the gap on the audited rows."""
    m, shares = _measure(price.wording), {cost.group: cost.share for cost in price.costs}
    mixture = " and ".join(f"{label(group)} {percent(share)}" for group, share in shares.items())
    lines = [
        f"The price uses {sentences.listed(price.features)}. It does not use the group of new {m.people}.",
        *_audited_gaps(price, m),
        SIMPLER,
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
    rows = {name: evaluation[name] for name in evaluation.table["quantity"]}
    yield pair_heading(evaluation.audited, evaluation.reference)
    yield Paragraph(_gap_words(evaluation, rows["gap"], m, level), HEADLINE)
    yield Paragraph(_money_words(rows, m))
    items = ((quantity(name), [*row.values()]) for name, row in rows.items())
    yield change_table("estimates", items, BEFORE_AFTER, m, level)
    columns = [
        (f"{label(getattr(evaluation, who))} {which}", evaluation.by_decile.filter(group=who, which=which))
        for who in BOTH
        for which in ("before", "after")
    ]
    yield FigureRef("price_effect", (evaluation,))
    yield from decile_blocks(BY_DECILE, columns, m, level)
    yield from warnings(evaluation.notes)


def _gap_words(evaluation: PriceEvaluation, gap: Changed, m: Measure, level: str) -> str:
    before = m.difference(gap["before"])
    after, change = (written(gap[end], m.difference, name, m.unit) for end, name in (("after", level), ("change", "")))
    sizes = " and ".join(f"{count(size)} {label(getattr(evaluation, who))}" for who, size in evaluation.rows.items())
    return f"Gap in mean prices: {before} before, {after} after; change {change}, on held-out rows of {sizes}."


def _money_words(rows: Mapping[str, Changed], m: Measure) -> str:
    moved, rising, falling = (
        rows[name]["change"] for name in ("mean_absolute_change", "share_rising", "share_falling")
    )
    return (
        f"Prices change by {m.with_unit(m.size(moved or 0.0))} on average; they rise for {percent(rising)} of "
        f"{m.people} and fall for {percent(falling)}."
    )
