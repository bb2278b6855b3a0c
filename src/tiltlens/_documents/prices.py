"""Documents on prices compared with observed costs, the discrimination-free price, and its effect on held-out data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl

from tiltlens._analysis.decomposition import PARTS as CONTRIBUTION_NAMES
from tiltlens._analysis.prices import Prices
from tiltlens._documents import document as doc
from tiltlens._documents import repair_sentences as sentences
from tiltlens._documents.quantities import (
    FEATURES,
    change_table,
    format_of,
    quantity,
    quantity_table,
    row_cell,
    row_cells,
    written,
)
from tiltlens._estimators.estimate import Estimate, Materiality
from tiltlens._formats import count, interval_name, label, minus, percent, sentence
from tiltlens._repair.evaluation import BEFORE_AFTER
from tiltlens._repair.free_price import DiscriminationFreePrice, PriceEvaluation
from tiltlens._results.comparison import Comparison
from tiltlens._rows.wording import Measure, ScoreType, Wording, measure_for

STATES = {
    Materiality.MATERIAL: "material proxy discrimination",
    Materiality.DETECTED: "proxy discrimination, perhaps not material",
    Materiality.NOT_MATERIAL: "no material proxy discrimination",
    Materiality.INCONCLUSIVE: "inconclusive: there may or may not be material proxy discrimination",
}
LIMITS = (
    "Expected costs are predicted by a regression for each group, fitted on other people. An omitted factor may be "
    "associated with both cost and group."
)
OF_CONTRIBUTIONS = (
    "Contributions to the gap beyond the mixture of expected costs. A feature that is associated with the price only "
    "through expected costs contributes nothing beyond the others. "
    "Intervals of alone and beyond the others are simultaneous confidence bands."
)
OF_SEGMENTS = (
    "A positive value means that the best price without the group exceeds the discrimination-free one. These segments "
    "were selected for their large values, so the values may be overestimated. Segments of fewer than ten people are "
    "suppressed."
)
NUMBERS = ("proxy_discrimination", "unfairness", "vulnerability", "unaware_gap", "free_gap", "proxy_gap")
MOST_CONTRIBUTIONS = 20  # features


def price_blocks(c: Comparison) -> list[doc.Block]:
    """Return the comparison of the price with observed costs; nothing if it was not computed."""
    costs, name = c.prices, doc.level_of(c)
    if costs is None:
        return []
    numbers = {key: getattr(costs, key) for key in NUMBERS}
    numbers |= {f"actual_to_expected_{who}": ratio for who, ratio in costs.actual_to_expected.items()}
    numbers["actual_to_expected_ratio"] = costs.actual_to_expected_ratio
    rows = ((quantity(key), estimate) for key, estimate in numbers.items())
    by_group = [(label(doc.group_of(c, who)), costs.by_decile.filter(group=who)) for who in doc.BOTH]
    return [
        doc.Heading("Price and observed cost"),
        doc.Paragraph(" ".join(price_words(c, costs))),
        quantity_table("prices", rows, doc.measure_of(c), name),
        doc.Paragraph(LIMITS, doc.QUIET),
        *_contributions(c, costs, name),
        *decile_blocks("Actual to expected by decile of the price", by_group, doc.measure_of(c), name),
        *_segments(c, costs, name),
    ]


def price_words(c: Comparison, costs: Prices) -> Iterator[str]:
    """Yield a sentence on proxy discrimination, and one on the nearest mixture of the groups' expected costs."""
    text = written(costs.proxy_discrimination, percent, doc.level_of(c))
    state, least = STATES[costs.status].capitalize(), percent(costs.materiality)
    yield f"{state}: {text} of the variance of the price, materiality threshold {least}."
    parts = " and ".join(f"{label(doc.group_of(c, who))} {percent(part)}" for who, part in costs.mixture.items())
    yield f"Weights of the closest mixture of expected costs: {parts}."


def _contributions(c: Comparison, costs: Prices, name: str) -> Iterator[doc.Block]:
    """Yield the contributions of features to the gap beyond the mixture of expected costs."""
    if costs.contributions.is_empty():
        return
    m, items = doc.measure_of(c), [FEATURES[key] for key in CONTRIBUTION_NAMES]
    rows = (
        (label(row["feature"]), *row_cells(row, items, m))
        for row in costs.contributions.head(MOST_CONTRIBUTIONS).iter_rows(named=True)
    )
    yield doc.Heading("Contributions to proxy discrimination")
    yield doc.Table.of("price-contributions", ("feature", *(item.name(m) for item in items)), rows, name)
    yield doc.Paragraph(OF_CONTRIBUTIONS, doc.QUIET)


def decile_blocks(
    title: str, columns: Sequence[tuple[str, pl.DataFrame]], m: Measure, level: str
) -> Iterator[doc.Block]:
    """Yield the table of A/E by decile of the price, with one column per head; nothing if there are no rows."""
    write = format_of(quantity("actual_to_expected").scale, m).value
    by_decile = [
        {row["decile"]: row_cell(row, "actual_to_expected", write) for row in rows.to_dicts()} for _, rows in columns
    ]
    deciles = sorted({decile for cells in by_decile for decile in cells})
    rows = ((decile, *(cells.get(decile, "") for cells in by_decile)) for decile in deciles)
    if deciles:
        heads = ("decile of the price", *(head for head, _ in columns))
        yield from (doc.Heading(title), doc.Table.of("actual-to-expected", heads, rows, level))


def _segments(c: Comparison, costs: Prices, name: str) -> Iterator[doc.Block]:
    """Yield the table of feature values with the largest proxy vulnerability."""
    if costs.segments.is_empty():
        return
    m, item = doc.measure_of(c), FEATURES["segment_vulnerability"]
    rows = (
        (
            *(label(row["feature"]), minus(label(row["value"]))),
            doc.Cell(count(row["n"]), value=row["n"]),
            row_cell(row, "vulnerability", format_of(item.scale, m).value),
        )
        for row in costs.segments.iter_rows(named=True)
    )
    yield doc.Heading("Segments with the largest proxy vulnerability")
    yield doc.Table.of("segments", ("feature", doc.Column("value", doc.NAME), m.people, item.name(m)), rows, name)
    yield doc.Paragraph(OF_SEGMENTS, doc.QUIET)


Changed = Mapping[str, Estimate | None]  # a quantity before and after, and its change
BY_DECILE = "Actual to expected by group and decile of the price"
NOT_BY_GROUP = (
    "A discrimination-free price mixes the groups' expected costs, so the A/E of a group may differ from 1 if its "
    "costs differ from those of other groups. The A/E of all people shows whether prices cover costs."
)
SIMPLER = "The audit may report another gap for the discrimination-free price, because it uses no additive model."


def free_price_document(price: DiscriminationFreePrice) -> doc.Document:
    """Return the discrimination-free price: its mixture, its features, and the gap on the audited rows."""
    m, shares = _measure(price.wording), {cost.group: cost.share for cost in price.costs}
    mixture = " and ".join(f"{label(group)} {percent(share)}" for group, share in shares.items())
    gaps = (
        f"Gap on the audited rows, {label(group)} vs {label(price.reference)}: "
        f"{m.with_unit(m.difference(gap))} before, {m.with_unit(m.difference(price.gap_after[group]))} after."
        for group, gap in price.gap_before.items()
    )
    lines = [
        f"Mean of the expected costs of all groups, weighted by their shares of all exposure: {mixture}.",
        f"The price uses {sentences.listed(price.features)}. It does not use the group of new {m.people}.",
        *gaps,
        SIMPLER,
        f"Expected costs are multiplied by {price.factor:.4f}, so that prices add up to costs on the audited rows.",
        "Evaluate it on held-out data before you use it.",
    ]
    notes = [*map(sentence, price.notes), sentences.REGULATED]
    blocks = (*doc.headed(lines), *doc.bullets(notes, "Use of the group"))
    return doc.Document("Discrimination-free price", blocks)


def price_evaluation_document(evaluations: Iterable[PriceEvaluation]) -> doc.Document:
    """Return the effect of a discrimination-free price on held-out data, for each audited group."""
    blocks: list[doc.Block] = []
    for evaluation in evaluations:
        blocks += _evaluation(evaluation)
    blocks += [
        doc.Paragraph(NOT_BY_GROUP, doc.QUIET),
        doc.Paragraph(sentences.IS_NO_FINDING.format(act="change prices"), doc.QUIET),
    ]
    return doc.Document("Effect of the discrimination-free price on held-out data", tuple(blocks))


def _measure(wording: Wording) -> Measure:
    return measure_for(ScoreType.AMOUNT, None, wording)


def _evaluation(evaluation: PriceEvaluation) -> Iterator[doc.Block]:
    m, level = _measure(evaluation.wording), interval_name(evaluation.confidence)
    rows = {name: evaluation[name] for name in evaluation.table["quantity"]}
    yield from doc.pair_blocks(evaluation, [_gap_words(evaluation, rows["gap"], m, level), _money_words(rows, m)])
    items = ((quantity(name), [*row.values()]) for name, row in rows.items())
    yield change_table("estimates", items, BEFORE_AFTER, m, level)
    columns = [
        (f"{label(getattr(evaluation, who))} {which}", evaluation.by_decile.filter(group=who, which=which))
        for who in doc.BOTH
        for which in ("before", "after")
    ]
    yield doc.FigureRef("price_effect", (evaluation,))
    yield from decile_blocks(BY_DECILE, columns, m, level)
    yield from doc.warnings(evaluation.notes)


def _gap_words(evaluation: PriceEvaluation, gap: Changed, m: Measure, level: str) -> str:
    before = m.difference(gap["before"])
    after, change = (written(gap[end], m.difference, name, m.unit) for end, name in (("after", level), ("change", "")))
    sizes = sentences.people_words(evaluation)
    return f"Gap in mean prices: {before} before, {after} after; change {change}, on held-out rows of {sizes}."


def _money_words(rows: Mapping[str, Changed], m: Measure) -> str:
    moved, rising, falling = (
        rows[name]["change"] for name in ("mean_absolute_change", "share_rising", "share_falling")
    )
    return (
        f"Prices change by {m.with_unit(m.size(moved or 0.0))} on average; they rise for {percent(rising)} of "
        f"{m.people} and fall for {percent(falling)}."
    )
