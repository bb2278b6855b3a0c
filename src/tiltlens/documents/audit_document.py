"""An audit as a document: findings, quantities, contributions, warnings; the correction last."""

from __future__ import annotations

from collections.abc import Iterator

from tiltlens.analysis.periods import PeriodTable
from tiltlens.documents.audit_tables import (
    MATRIX_NOTE,
    contribution_table,
    correction_table,
    decile_table,
    estimate_table,
    group_matrix,
    has_bands,
    reason,
    shapley_words,
)
from tiltlens.documents.display_names import named
from tiltlens.documents.document import (
    HEADLINE,
    NAME,
    QUIET,
    WARNING,
    Block,
    Bullets,
    Cell,
    Column,
    Details,
    Document,
    FigureRef,
    Heading,
    Paragraph,
    Table,
    bullets,
)
from tiltlens.documents.error_rates import error_rate_blocks
from tiltlens.documents.first_screen import FirstScreen, first_screen, screen_of
from tiltlens.documents.headline import headline
from tiltlens.documents.labels import SHORT
from tiltlens.documents.measures import BOTH, by_gap, group_of, level_of, measure_of, subject
from tiltlens.documents.overall import overall_blocks
from tiltlens.documents.prices import price_blocks
from tiltlens.documents.quantities import CONTRIBUTIONS, FEATURES, estimate_cell, fill, quantity
from tiltlens.documents.ratios import decision_table_words, four_fifths_words, is_of_decisions
from tiltlens.documents.sensitivity import sensitivity_blocks
from tiltlens.documents.sentences import IS_NO_FINDING, checks_words, favourable_words, rows_words, simultaneous_words
from tiltlens.documents.splitting import splitting_blocks
from tiltlens.documents.unobserved_groups import expected, soft_words, weighted
from tiltlens.formats import count, label, minus, p_value, sentence
from tiltlens.results.audit import Audit
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import Checks, row_estimate

MOST_NAMED = 8  # features that one sentence lists
FEW = "few"  # in the place of an interval


def audit_document(audit: Audit, is_brief: bool = False, has_fits: bool = False) -> Document:
    """Return an audit of one or more groups: the first screen, then each group; with `is_brief` folded if several.

    `has_fits` adds separate models and prices, which are fitted when they are first asked for.
    """
    audit = by_gap(named(audit))
    comparisons = [*audit.comparisons.values()]
    is_single = len(comparisons) == 1
    blocks = [*_screen(first_screen(audit))]
    if not is_single:
        blocks += [group_matrix(audit), Paragraph(MATRIX_NOTE, QUIET)]
    if is_brief and is_single:
        blocks += _figures(comparisons[0])
    for c in comparisons:
        section = comparison_blocks(audit, c, not is_single, has_fits)
        blocks += [Details(_who_and_gap(c), tuple(section[1:]))] if is_brief and not is_single else section
    blocks += overall_blocks(audit)
    blocks += [Heading("Data"), Paragraph(" ".join(filter(None, _data(audit))))]
    if audit.too_small:
        names = ", ".join(label(name) for name in audit.too_small)
        blocks.append(Paragraph(f"Groups of fewer than 10 people are not analysed: {names}.", WARNING))
    return Document(audit_title(audit), (*blocks, Paragraph(IS_NO_FINDING, QUIET)))


def audit_title(audit: Audit) -> str:
    """Return what was audited: "Audit of decisions by race: Black vs White"."""
    names, more = [label(name, SHORT) for name in audit.comparisons], len(audit.comparisons) - 1
    groups = names[0] if len(names) == 1 else f"{names[0]} and {more} more group{'s' if more > 1 else ''}"
    return f"Audit of {subject(audit)} by {label(audit.group)}: {groups} vs {label(audit.reference, SHORT)}"


def checks_document(checks: Checks) -> Document:
    """Return the checks of the group-membership model, and the warnings of a comparison."""
    reasons = [] if checks.balance is None else checks.balance.reasons
    blocks = [Paragraph(checks_words(checks)), *bullets([label(reason, 1000) for reason in reasons], "Reasons")]
    warnings = bullets([minus(sentence(note)) for note in checks.notes], "Warnings")
    return Document("Overlap and calibration checks", (*blocks, *warnings))


def _screen(screen: FirstScreen) -> Iterator[Block]:
    """Yield the finding, its numbers, how reliable they are and what to do next."""
    if screen.lead:
        yield Paragraph(f"{screen.lead}:", QUIET)
    yield Paragraph(screen.headline, HEADLINE)
    yield from (Paragraph(line) for line in screen.findings)
    yield Paragraph(f"Reliability: {'; '.join(doubt.text for doubt in screen.reliability)}.")
    yield from bullets(screen.next_steps, "Next steps")


def comparison_document(c: Comparison) -> Document:
    """Return one comparison, with a figure of its decomposition and with what takes a fit of its own."""
    _, *others = comparison_blocks(None, c, has_headline=False, has_fits=True)
    return Document("", (Heading(who(c), 2), *_screen(screen_of(c)), *_figures(c), *others))


def _figures(c: Comparison) -> list[Block]:
    """Return the decomposition of the gap, or the contributions where there is none."""
    if not c.by_feature:
        return []
    has_parts = c.gap_parts.gap_explained_by_exempt is not None
    has_parts |= any(row.shapley is not None for row in c.by_feature)
    return [FigureRef("waterfall" if has_parts else "features", (c,))]


def comparison_blocks(
    audit: Audit | None, c: Comparison, has_headline: bool = True, has_fits: bool = False
) -> list[Block]:
    """Return the findings about one audited group, of an audit or alone."""
    blocks: list[Block] = [Heading(who(c), 2)]
    if has_headline:
        first, *others = headline(audit, c)
        blocks += [Paragraph(first, HEADLINE), *(Paragraph(line) for line in others)]
    blocks += bullets([minus(line) for line in soft_words(c)], "Unobserved groups")
    blocks += [estimate_table(c), *_tests(c)]
    if c.by_feature:
        blocks += [Heading(measure_of(c).headed("Contributions of features")), *contribution_blocks(audit, c)]
    blocks += sensitivity_blocks(c)
    if c.error_rates is not None:
        blocks += [Heading("Error rates by group"), *error_rate_blocks(c, c.error_rates)]
    if has_fits:
        blocks += [*splitting_blocks(c), *price_blocks(c)]
    if c.periods is not None:
        blocks += [Heading("Gap over time"), *_periods(c, c.periods)]
    if not c.outputs.decile_shares.is_empty():
        blocks += [Heading("Share of each group above each overall decile"), decile_table(c)]
    blocks += bullets([minus(sentence(note)) for note in c.checks.notes], "Warnings")
    return [*blocks, *_correction(c)]


def _who_and_gap(c: Comparison) -> str:
    m = measure_of(c)
    return f"{label(c.audited)} vs {label(c.reference)}: {m.with_unit(m.difference(c.gap.value))}"


def who(c: Comparison) -> str:
    """Return the two groups with their sizes."""
    sizes = (f"{label(group_of(c, group))} ({count(c.rows[group])}{expected(c)}, {group})" for group in BOTH)
    return " vs ".join(sizes)


def _data(audit: Audit) -> list[str]:
    return [rows_words(audit), f"Favourable outcome: {favourable_words(audit)}.", simultaneous_words(audit)]


def _tests(c: Comparison) -> Iterator[Block]:
    """Yield the test of equal means and, for decisions, what is asked of their rates."""
    if c.gap.low is None:
        yield Paragraph("Plug-in values, as in the paper: no intervals.", QUIET)
    elif c.gap_test:
        yield Paragraph(f"Test of equal means: {p_value(c.gap_test.p_value, c.gap_test.permutations)}.", QUIET)
    among = measure_of(c).among
    if is_of_decisions(c) and c.adverse_impact_ratio is not None:
        yield Paragraph(four_fifths_words(c.adverse_impact_ratio, level_of(c), among))
    for line in decision_table_words(c.decision_table, level_of(c), among) if c.decision_table else ():
        yield Paragraph(line)


def contribution_blocks(audit: Audit | None, c: Comparison) -> list[Block]:
    """Return the table of contributions, how to read it, and the reasons of its verdicts."""
    table = contribution_table(c)
    return [table, Paragraph(_reading(audit, c), QUIET), Bullets(tuple(_reasons(c)))]


def _reading(audit: Audit | None, c: Comparison) -> str:
    """Return how the table of contributions is to be read."""
    m = measure_of(c)
    whole = "gap given exempt factors" if c.gap_parts.exempt else "gap"
    used = [key for key in CONTRIBUTIONS if any(getattr(row, key) is not None for row in c.by_feature)]
    lines = [f"{FEATURES[key].head}: {fill(FEATURES[key].definition, m)}" for key in used if key != "shapley"]
    rest = shapley_words(c) if "shapley" in used else ""
    text = f"Contributions to the {whole}. " * bool(c.gap_parts.exempt) + "; ".join(lines)
    text = f"{text[:1].upper()}{text[1:]}."
    text += f" {rest}" if rest else ""
    if audit is not None and has_bands(c):
        level, threshold = f"{100 * c.scale.confidence:g}%", m.with_unit(m.size(c.scale.materiality))
        threshold += f" ({m.threshold(audit.settings.materiality)})" if m.is_amount else ""
        text += (
            f" Intervals of alone and beyond the others are {level} simultaneous confidence bands, from which the "
            f"verdicts are read; others are {level} CIs. Materiality threshold: {threshold}."
        )
    return text


def _reasons(c: Comparison) -> Iterator[str]:
    """Yield the reason of each verdict; equal ones once."""
    given: dict[str, list[str]] = {}
    for row in c.by_feature:
        given.setdefault(reason(row), []).append(label(row.feature))
    for why, names in given.items():
        more = len(names) - MOST_NAMED
        yield f"{', '.join(names[:MOST_NAMED])}{f' and {more} more' if more > 0 else ''}: {why}"


def _periods(c: Comparison, periods: PeriodTable) -> Iterator[Block]:
    """Yield the table of periods, and the test that their gaps are equal."""
    m, every = measure_of(c), periods.frame.to_dicts()
    columns = (Column("period", NAME), Column(weighted(quantity("gap"), c).name(m)), *(Column(group) for group in BOTH))
    rows = (
        (
            Cell(label(row["period"])),
            Cell("–", FEW) if row["reason"] else estimate_cell(row_estimate(row, "gap"), m.difference),
            *(Cell(m.level(row[f"{group}_rate"])) for group in BOTH),
        )
        for row in every
    )
    yield Table("periods", columns, tuple(rows), level_of(c))
    notes = [f"audited, reference: {m.rate} of each group{m.among}."]
    if any(row["reason"] for row in every):
        notes.append(f"{FEW}: fewer than 10 people in a group.")
    if periods.equal_gaps is not None:
        notes.append(f"Test of equal gaps in all periods: {p_value(periods.equal_gaps.p_value)}.")
    yield Paragraph(" ".join(notes), QUIET)


def _correction(c: Comparison) -> Iterator[Block]:
    blocks: list[Block] = []
    if (table := correction_table(c)) is not None:
        blocks.append(table)
    if c.correction.numbers is not None:
        blocks.append(Paragraph(f"Group-membership model (propensity): {label(c.checks.propensity)}.", QUIET))
    if blocks:
        yield Details("Correction (for statisticians)", tuple(blocks))
