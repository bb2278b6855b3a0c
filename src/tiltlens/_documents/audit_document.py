"""The document of an audit: findings, quantities, contributions, warnings, all groups; the correction comes last."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tiltlens._analysis.intersections import Intersections
from tiltlens._analysis.periods import ONE_CLUSTER, PeriodTable
from tiltlens._documents import document as doc
from tiltlens._documents import sentences as words
from tiltlens._documents import tables
from tiltlens._documents.first_screen import FirstScreen, first_screen, screen_of
from tiltlens._documents.headline import (
    expected,
    four_fifths_words,
    headline,
    is_of_decisions,
    unobserved_group_sentences,
    weighted,
)
from tiltlens._documents.prices import price_blocks
from tiltlens._documents.quantities import (
    CONTRIBUTIONS,
    FEATURES,
    INTERSECTION_KEYS,
    SEQUENCE_KEYS,
    estimate_words,
    fill,
    quantity,
    quantity_cell,
    quantity_table,
    row_cell,
)
from tiltlens._estimators.estimate import Estimate, Materiality, materiality
from tiltlens._formats import NOTHING, capitalised, count, interval, label, minus, p_value
from tiltlens._results.audit import Audit
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import Checks
from tiltlens._rows.wording import Measure

STATES = {
    None: "",
    Materiality.MATERIAL: " It is material.",
    Materiality.DETECTED: " It is not 0, but may be below the materiality threshold.",
    Materiality.NOT_MATERIAL: " It is not material.",
    Materiality.INCONCLUSIVE: " It is inconclusive.",
}
ALWAYS = "A confidence sequence is valid at all looks together; a confidence interval only at one planned look."
SHRUNKEN = (
    "Each deviation from the overall mean is shrunk towards 0, more so if it is noisy. Intervals cover the true value "
    "for the share of groups in their name (such as 95%) on average. Ranks are shown only if intervals separate the "
    "groups."
)
LAST_LOOKS, LISTED_GROUPS = 12, 20  # rows of tables
NAMED_GROUPS = 3  # groups whose looks are shown one by one


def overall_blocks(audit: Audit) -> list[doc.Block]:
    """Return the blocks on monitoring and on many groups; empty if the audit has neither."""
    return [*_looks(audit), *_intersections(audit)]


def _state(audit: Audit, estimate: Estimate) -> str:
    threshold = audit[0].scale.materiality
    return STATES[materiality(estimate.low, estimate.high, threshold)]


def _looks(audit: Audit) -> Iterator[doc.Block]:
    monitor, m = audit.monitor, doc.measure_of(audit)
    if monitor is None:
        return
    level = f"{100 * audit.settings.confidence:g}%"
    sequences, last = monitor.sequences, max(monitor.looks["look"], default=0)
    yield doc.Heading(f"Gap over {last} {'look' if last == 1 else 'looks'}", 2)
    for name, quantities in [*sequences.items()][:NAMED_GROUPS]:
        gap = estimate_words(quantities["gap"], m, f"{level} confidence sequence")
        yield doc.Paragraph(f"{label(name)}: gap {gap} over all looks.{_state(audit, quantities['gap'])}")
    keys = [key for key in SEQUENCE_KEYS if any(key in quantities for quantities in sequences.values())]
    heads = ("group", *(quantity(key).name(m) for key in keys))
    rows = (
        (label(name), *(quantity_cell(quantity(key), quantities.get(key), m) for key in keys))
        for name, quantities in sequences.items()
    )
    yield doc.Table.of("sequences", heads, rows, f"{level} confidence sequence")
    for name in [*sequences][:NAMED_GROUPS]:
        looks = monitor.looks.filter(audited=name).tail(LAST_LOOKS)
        yield doc.FigureRef("looks", (audit, name))
        yield _look_table(looks, name, m, level)
    yield doc.Paragraph(ALWAYS, doc.QUIET)


def _look_table(looks: pl.DataFrame, name: str, m: Measure, level: str) -> doc.Table:
    heads = (f"look, {label(name)}", quantity("gap").name(m), f"{level} CI", f"{level} confidence sequence")
    cells = (
        (
            *(row["look"], doc.Cell(m.difference(row["gap"]), value=row["gap"])),
            *(interval(row[f"{key}_low"], row[f"{key}_high"], m.difference) for key in ("gap", "sequence")),
        )
        for row in looks.iter_rows(named=True)
    )
    return doc.Table.of("looks", heads, cells)


def _intersections(audit: Audit) -> Iterator[doc.Block]:
    if audit.intersections is None:
        return
    every, m = audit.intersections.disclosed(), doc.measure_of(audit)
    level, spread = f"{100 * audit.settings.confidence:g}%", every.between_groups
    yield doc.Heading(f"All {every.groups:,} groups together", 2)
    size = estimate_words(spread, m, f"{level} CI")
    test = f"Test of equal means: {p_value(every.equal_means)}."
    yield doc.Paragraph(f"Standard deviation of the {m.mean} between groups: {size}.{_state(audit, spread)} {test}")
    bound = f"{m.size(every.tail_bound)} {m.unit}"
    yield doc.Paragraph(
        f"For any set of groups with a tenth of the people, the mean is at most {bound} from the overall mean."
    )
    parts = zip(INTERSECTION_KEYS, (spread, every.main_effects, every.interaction), strict=True)
    present = [(quantity(key), estimate) for key, estimate in parts if estimate is not None]
    yield quantity_table("intersections", present, m, f"{level} CI")
    if not every.frame.is_empty():
        yield doc.FigureRef("intersections", (audit,))
        yield _group_table(audit, every, level)
    yield doc.Paragraph(f"{_left_out(every)} {SHRUNKEN}".strip(), doc.QUIET)


def _left_out(every: Intersections) -> str:
    """Return a sentence on the groups that are counted but not listed."""
    unlisted, alone = every.groups - every.frame.height, every.singletons
    texts = [
        f"{unlisted:,} groups count, but are suppressed, because they or a neighbour have fewer than 10 people."
        if unlisted
        else "",
        f"{alone:,} groups of one person are left out." if alone else "",
    ]
    return " ".join(filter(None, texts))


def _group_table(audit: Audit, every: Intersections, level: str) -> doc.Table:
    half, m = LISTED_GROUPS // 2, doc.measure_of(audit)
    rows = sorted(every.frame.iter_rows(named=True), key=lambda row: row["deviation"])
    listed = rows if len(rows) <= LISTED_GROUPS else [*rows[:half], *rows[-half:]]
    cells = (
        (
            *(label(doc.group_name(audit.group, row["group"])), count(row["people"])),
            row_cell(row, "deviation", m.difference),
            _rank(row["rank_low"], row["rank_high"], every.groups),
        )
        for row in listed
    )
    heads = ("group", "people", quantity("deviation").name(m), "rank, lowest first")
    return doc.Table.of("all-groups", heads, cells, f"{level} CI")


def _rank(low: int, high: int, groups: int) -> str:
    return NOTHING if (low, high) == (1, groups) else f"{low} to {high}"


MOST_NAMED = 8  # features listed in one sentence
FEW = "few"  # shown instead of an interval


def audit_document(audit: Audit, is_brief: bool = False, has_fits: bool = False) -> doc.Document:
    """Return the document of an audit: the first screen, then each group, folded if `is_brief` and there are several.

    `has_fits` adds separate models and prices, which are fitted on first use.
    """
    audit = doc.by_gap(doc.named(audit))
    comparisons = [*audit.comparisons.values()]
    is_single = len(comparisons) == 1
    blocks = [*_screen(first_screen(audit))]
    if not is_single:
        blocks += [tables.group_matrix(audit), doc.Paragraph(tables.matrix_note(audit), doc.QUIET)]
    if is_brief and is_single:
        blocks += _figures(comparisons[0])
    for c in comparisons:
        section, m = comparison_blocks(audit, c, not is_single, has_fits), doc.measure_of(c)
        if is_brief and not is_single:
            gap = m.with_unit(m.difference(c.gap.value))
            section = [doc.Details(f"{label(c.audited)} vs {label(c.reference)}: {gap}", tuple(section[1:]))]
        blocks += section
    blocks += overall_blocks(audit)
    data = [
        words.rows_words(audit),
        f"Favourable outcome: {words.favourable_words(audit)}.",
        words.simultaneous_words(audit),
    ]
    blocks += [doc.Heading("Data"), doc.Paragraph(" ".join(filter(None, data)))]
    if audit.too_small:
        names = ", ".join(label(name) for name in audit.too_small)
        blocks.append(doc.Paragraph(f"Groups of fewer than 10 people are not analysed: {names}.", doc.WARNING))
    return doc.Document(audit_title(audit), (*blocks, doc.Paragraph(words.IS_NO_FINDING, doc.QUIET)))


def audit_title(audit: Audit) -> str:
    """Return the title, such as "Audit of decisions by race: Black vs White"."""
    names, more = [label(name, doc.SHORT) for name in audit.comparisons], len(audit.comparisons) - 1
    groups = names[0] if len(names) == 1 else f"{names[0]} and {more} more group{'s' if more > 1 else ''}"
    return f"Audit of {doc.subject(audit)} by {label(audit.group)}: {groups} vs {label(audit.reference, doc.SHORT)}"


def checks_document(checks: Checks) -> doc.Document:
    """Return the document of the checks of the group-membership model and the warnings of a comparison."""
    reasons = [] if checks.balance is None else checks.balance.reasons
    blocks = [
        doc.Paragraph(words.checks_words(checks)),
        *doc.bullets([label(reason, 1000) for reason in reasons], "Reasons"),
    ]
    warnings = doc.warnings(checks.notes)
    return doc.Document("Overlap and calibration checks", (*blocks, *warnings))


def _screen(screen: FirstScreen) -> Iterator[doc.Block]:
    """Yield the finding, its numbers, their reliability and the next steps."""
    if screen.lead:
        yield doc.Paragraph(f"{screen.lead}:", doc.QUIET)
    yield from doc.headed([screen.headline, *screen.findings])
    yield doc.Paragraph(f"Reliability: {'; '.join(doubt.text for doubt in screen.reliability)}.")
    yield from doc.bullets(screen.next_steps, "Next steps")


def comparison_document(c: Comparison) -> doc.Document:
    """Return the document of one comparison, with the figure of its decomposition and with separately fitted models."""
    _, *others = comparison_blocks(None, c, has_headline=False, has_fits=True)
    return doc.Document("", (doc.Heading(who(c), 2), *_screen(screen_of(c)), *_figures(c), *others))


def _figures(c: Comparison) -> list[doc.Block]:
    """Return the figure of the gap's decomposition, or of the contributions if there is none."""
    if not c.by_feature:
        return []
    has_parts = c.gap_parts.gap_explained_by_exempt is not None
    has_parts |= any(row.shapley is not None for row in c.by_feature)
    return [doc.FigureRef("waterfall" if has_parts else "features", (c,))]


def comparison_blocks(
    audit: Audit | None, c: Comparison, has_headline: bool = True, has_fits: bool = False
) -> list[doc.Block]:
    """Return the blocks on one audited group; `audit` is None for a comparison on its own."""
    blocks: list[doc.Block] = [doc.Heading(who(c), 2)]
    if has_headline:
        blocks += doc.headed(headline(audit, c))
    blocks += doc.bullets([minus(line) for line in unobserved_group_sentences(c)], "Unobserved groups")
    blocks += [tables.estimate_table(c), *_tests(c)]
    if c.by_feature:
        blocks += [doc.Heading(doc.measure_of(c).headed("Contributions of features")), tables.contribution_table(c)]
        blocks += [doc.Paragraph(_reading(audit, c), doc.QUIET), doc.Bullets(tuple(_reasons(c)))]
    blocks += words.sensitivity_blocks(c)
    if c.error_rates is not None:
        blocks += [doc.Heading("Error rates by group"), *words.error_rate_blocks(c, c.error_rates)]
    if has_fits:
        blocks += [*words.splitting_blocks(c), *price_blocks(c)]
    if c.periods is not None:
        blocks += [doc.Heading("Gap over time"), *_periods(c, c.periods)]
    if not c.outputs.decile_shares.is_empty():
        blocks += [doc.Heading("Share of each group above each overall decile"), tables.decile_table(c)]
    blocks += doc.warnings(c.checks.notes)
    return [*blocks, *_correction(c)]


def who(c: Comparison) -> str:
    """Return a heading with both groups and their sizes."""
    sizes = (f"{label(doc.group_of(c, group))} ({count(c.rows[group])}{expected(c)}, {group})" for group in doc.BOTH)
    return " vs ".join(sizes)


def _tests(c: Comparison) -> Iterator[doc.Block]:
    """Yield the test of equal means and, for decisions, the four-fifths rule and the tests of the 2×2 table."""
    if c.gap.low is None:
        yield doc.Paragraph("Plug-in values, as in the paper: no intervals.", doc.QUIET)
    elif c.gap_test:
        yield doc.Paragraph(f"Test of equal means: {p_value(c.gap_test.p_value)}.", doc.QUIET)
    among = doc.measure_of(c).among
    if is_of_decisions(c) and c.adverse_impact_ratio is not None:
        yield doc.Paragraph(four_fifths_words(c.adverse_impact_ratio, doc.level_of(c), among))
    for line in words.decision_table_words(c.decision_table, doc.level_of(c), among) if c.decision_table else ():
        yield doc.Paragraph(line)


def _reading(audit: Audit | None, c: Comparison) -> str:
    """Return a note on how to read the table of contributions."""
    m = doc.measure_of(c)
    whole = quantity("gap_given_exempt" if c.gap_parts.exempt else "gap").label
    used = [key for key in CONTRIBUTIONS if any(getattr(row, key) is not None for row in c.by_feature)]
    lines = [f"{FEATURES[key].head}: {fill(FEATURES[key].definition, m)}" for key in used if key != "shapley"]
    rest = tables.shapley_words(c) if "shapley" in used else ""
    text = f"Contributions to the {whole}. " * bool(c.gap_parts.exempt) + "; ".join(lines)
    text = f"{capitalised(text)}."
    text += f" {rest}" if rest else ""
    if audit is not None and tables.has_bands(c):
        level, threshold = f"{100 * c.scale.confidence:g}%", m.with_unit(m.size(c.scale.materiality))
        threshold += f" ({m.threshold(audit.settings.materiality)})" if m.is_amount else ""
        text += (
            f" Intervals of alone and beyond the others are {level} simultaneous confidence bands, from which the "
            f"verdicts are read; others are {level} CIs. Materiality threshold: {threshold}."
        )
    return text


def _reasons(c: Comparison) -> Iterator[str]:
    """Yield the reason for each verdict, once for features with the same reason."""
    given: dict[str, list[str]] = {}
    for row in c.by_feature:
        given.setdefault(tables.reason(row), []).append(label(row.feature))
    for why, names in given.items():
        more = len(names) - MOST_NAMED
        yield f"{', '.join(names[:MOST_NAMED])}{f' and {more} more' if more > 0 else ''}: {why}"


def _periods(c: Comparison, periods: PeriodTable) -> Iterator[doc.Block]:
    """Yield the table of periods, and the test of equal gaps."""
    m, every = doc.measure_of(c), periods.frame.to_dicts()
    rows = (
        (
            label(row["period"]),
            doc.Cell("–", FEW) if row["reason"] else row_cell(row, "gap", m.difference),
            *(m.level(row[f"{group}_rate"]) for group in doc.BOTH),
        )
        for row in every
    )
    yield doc.Table.of("periods", ("period", weighted(quantity("gap"), c).name(m), *doc.BOTH), rows, doc.level_of(c))
    notes = [f"audited, reference: {m.rate} of each group{m.among}."]
    if any(row["reason"] for row in every):
        cluster = ", or one cluster only" if any(row["reason"] == ONE_CLUSTER for row in every) else ""
        notes.append(f"{FEW}: fewer than 10 people in a group{cluster}.")
    if periods.equal_gaps is not None:
        notes.append(f"Test of equal gaps in all periods: {p_value(periods.equal_gaps.p_value)}.")
    yield doc.Paragraph(" ".join(notes), doc.QUIET)


def _correction(c: Comparison) -> Iterator[doc.Block]:
    table = tables.correction_table(c)
    blocks: list[doc.Block] = [table] if table else []
    if c.correction.numbers is not None:
        blocks.append(doc.Paragraph(f"Group-membership model (propensity): {label(c.checks.propensity)}.", doc.QUIET))
    if blocks:
        yield doc.Details("Correction (for statisticians)", tuple(blocks))
