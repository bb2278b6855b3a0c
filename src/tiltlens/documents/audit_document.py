"""An audit as a document: findings, quantities, contributions, warnings; the correction last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiltlens.documents.audit_tables import (
    BOTH,
    MATRIX_NOTE,
    contribution_table,
    correction_table,
    decile_table,
    estimate_table,
    group_matrix,
    reason,
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
from tiltlens.documents.first_screen import first_screen
from tiltlens.documents.headline import headline
from tiltlens.documents.labels import SHORT
from tiltlens.documents.overall import overall_blocks
from tiltlens.documents.prices import price_blocks
from tiltlens.documents.quantities import CONTRIBUTIONS, FEATURES, estimate_cell, fill, quantity, row_estimate
from tiltlens.documents.ratios import decision_table_words, four_fifths_words, is_of_decisions
from tiltlens.documents.sensitivity import sensitivity_blocks
from tiltlens.documents.sentences import IS_NO_FINDING, checks_words, remainder_name, simultaneous_words
from tiltlens.documents.splitting import splitting_blocks
from tiltlens.documents.summary_access import by_gap, warnings_of
from tiltlens.documents.unobserved_groups import expected, soft_words, weighted
from tiltlens.formats import count, interval_name, label, minus, p_value
from tiltlens.rows.measures import measure_of, subject

Record = dict[str, Any]
NOT_COUNTED = ("read", "used")
MOST_NAMED = 8  # features that one sentence lists
NEGLIGIBLE = 0.1  # parts of the materiality threshold that a note leaves out
FEW = "few"  # in the place of an interval


def audit_document(summary: Record, is_brief: bool = False) -> Document:
    """Return an audit of one or more groups: the first screen, then each group; with `is_brief` folded if several."""
    summary = by_gap(named(summary, summary["group"]))
    comparisons = [*summary["comparisons"].values()]
    is_single = len(comparisons) == 1
    blocks = [*_first_screen(summary)]
    if not is_single:
        blocks += [group_matrix(summary), Paragraph(MATRIX_NOTE, QUIET)]
    if is_brief and is_single:
        blocks += _figures(comparisons[0])
    for c in comparisons:
        section = comparison_blocks(summary, c, has_headline=not is_single)
        blocks += [Details(_who_and_gap(c), tuple(section[1:]))] if is_brief and not is_single else section
    blocks += overall_blocks(summary)
    confidence = summary["settings"]["confidence"]
    text = " ".join(filter(None, [_rows(summary), simultaneous_words(summary, confidence)]))
    blocks += [Heading("Data"), Paragraph(text)]
    if summary["too_small"]:
        names = ", ".join(label(name) for name in summary["too_small"])
        blocks.append(Paragraph(f"Groups of fewer than 10 people are not analysed: {names}.", WARNING))
    return Document(audit_title(summary), (*blocks, Paragraph(IS_NO_FINDING, QUIET)))


def audit_title(summary: Record) -> str:
    """Return what was audited: "Audit of decisions by race: Black vs White"."""
    names, more = [label(name, SHORT) for name in summary["comparisons"]], len(summary["comparisons"]) - 1
    groups = names[0] if len(names) == 1 else f"{names[0]} and {more} more group{'s' if more > 1 else ''}"
    return f"Audit of {subject(summary)} by {label(summary['group'])}: {groups} vs {label(summary['reference'], SHORT)}"


def checks_document(checks: Record) -> Document:
    """Return the checks of the group-membership model, and the warnings of a comparison."""
    reasons = [] if checks["balance"] is None else checks["balance"]["reasons"]
    blocks = [Paragraph(checks_words(checks)), *bullets([label(reason, 1000) for reason in reasons], "Reasons")]
    warnings = bullets([minus(note) for note in checks["notes"]], "Warnings")
    return Document("Overlap and calibration checks", (*blocks, *warnings))


def _first_screen(summary: Record) -> Iterator[Block]:
    """Yield the finding, its numbers, how reliable they are and what to do next."""
    screen = first_screen(summary)
    if screen.lead:
        yield Paragraph(f"{screen.lead}:", QUIET)
    yield Paragraph(screen.headline, HEADLINE)
    yield from (Paragraph(line) for line in screen.findings)
    yield Paragraph(f"Reliability: {'; '.join(doubt.text for doubt in screen.reliability)}.")
    yield from bullets(screen.next_steps, "Next steps")


def comparison_document(c: Record) -> Document:
    """Return one comparison, with a figure of its decomposition."""
    _, *others = comparison_blocks(c, c, has_headline=False)
    return Document("", (Heading(who(c), 2), *_first_screen(c), *_figures(c), *others))


def _figures(c: Record) -> list[Block]:
    """Return the decomposition of the gap, or the contributions where there is none."""
    if not c["contributions"]:
        return []
    has_parts = (
        any(row["shapley"] is not None for row in c["contributions"]) or c["gap_parts"]["gap_explained_by_exempt"]
    )
    return [FigureRef("waterfall" if has_parts else "features", c)]


def comparison_blocks(summary: Record, c: Record, has_headline: bool = True) -> list[Block]:
    """Return the findings about one audited group; `summary` is the audit, or the comparison where that is alone."""
    settings = summary.get("settings")
    confidence = settings and settings["confidence"]
    blocks: list[Block] = [Heading(who(c), 2)]
    if has_headline:
        first, *others = headline(summary, c)
        blocks += [Paragraph(first, HEADLINE), *(Paragraph(line) for line in others)]
    blocks += bullets([minus(line) for line in soft_words(c)], "Unobserved groups")
    blocks += [estimate_table(summary, c), *_tests(summary, c, confidence)]
    if c["contributions"]:
        blocks += [Heading(measure_of(c).headed("Contributions of features")), *contribution_blocks(c, settings)]
    blocks += sensitivity_blocks(c)
    if c["error_rates"] is not None:
        blocks += [Heading("Error rates by group"), *error_rate_blocks(c, confidence)]
    blocks += [*splitting_blocks(c, confidence), *price_blocks(c, confidence)]
    if c.get("periods"):
        blocks += [Heading("Gap over time"), *_periods(c, confidence)]
    if c["outputs"]["decile_shares"]:
        blocks += [Heading("Share of each group above each overall decile"), decile_table(c, confidence)]
    blocks += bullets([minus(note) for note in warnings_of(c)], "Warnings")
    return [*blocks, *_correction(summary, c)]


def _who_and_gap(c: Record) -> str:
    m = measure_of(c)
    return f"{label(c['audited'])} vs {label(c['reference'])}: {m.with_unit(m.difference(c['gap']['value']))}"


def who(c: Record) -> str:
    """Return the two groups with their sizes."""
    sizes = (f"{label(c[group])} ({count(c['rows'][group])}{expected(c)}, {group})" for group in BOTH)
    return " vs ".join(sizes)


def _tests(summary: Record, c: Record, confidence: float | None) -> Iterator[Block]:
    """Yield the test of equal means and, for decisions, what is asked of their rates."""
    if c["gap"]["low"] is None:
        yield Paragraph("Plug-in values, as in the paper: no intervals.", QUIET)
    elif c["gap_test"]:
        yield Paragraph(f"Test of equal means: {p_value(c['gap_test']['p_value'])}.", QUIET)
    among = measure_of(c).among
    if is_of_decisions(summary) and c["adverse_impact_ratio"] is not None:
        yield Paragraph(four_fifths_words(c["adverse_impact_ratio"], confidence, among))
    for line in decision_table_words(c["decision_table"], confidence, among) if c["decision_table"] else ():
        yield Paragraph(line)


def contribution_blocks(c: Record, settings: Record | None) -> list[Block]:
    """Return the table of contributions, how to read it, and the reasons of its verdicts."""
    table = contribution_table(c)
    return [table, Paragraph(_reading(c, settings), QUIET), Bullets(tuple(_reasons(c)))]


def _reading(c: Record, settings: Record | None) -> str:
    """Return how the table of contributions is to be read."""
    m = measure_of(c)
    whole = "gap given exempt factors" if c["gap_parts"]["exempt"] else "gap"
    used = [key for key in CONTRIBUTIONS if any(row[key] is not None for row in c["contributions"])]
    lines = [f"{FEATURES[key].head}: {fill(FEATURES[key].definition, m)}" for key in used if key != "shapley"]
    if "shapley" in used:
        left = c["gap_parts"]["shapley_remainder"] or 0.0
        is_seen = abs(left) >= NEGLIGIBLE * c["scale"]["materiality"]
        rest = f" minus {remainder_name(c)} ({m.difference(left)})" if is_seen else ""
        lines.append(f"Shapley: sums to the {whole}{rest}")
    text = f"Contributions to the {whole}. " * bool(c["gap_parts"]["exempt"]) + "; ".join(lines)
    text = f"{text[:1].upper()}{text[1:]}."
    if settings and any(row["alone_low"] is not None for row in c["contributions"]):
        level = f"{100 * settings['confidence']:g}%"
        text += (
            f" Intervals of alone and beyond the others are {level} simultaneous confidence bands, from which the "
            f"verdicts are read; others are {level} CIs. Materiality threshold: {m.counted(c, settings)}."
        )
    return text


def _reasons(c: Record) -> Iterator[str]:
    """Yield the reason of each verdict; equal ones once."""
    given: dict[str, list[str]] = {}
    for row in c["contributions"]:
        given.setdefault(reason(row), []).append(label(row["feature"]))
    for sentence, names in given.items():
        more = len(names) - MOST_NAMED
        yield f"{', '.join(names[:MOST_NAMED])}{f' and {more} more' if more > 0 else ''}: {sentence}"


def _periods(c: Record, confidence: float | None) -> Iterator[Block]:
    """Yield the table of periods, and the test that their gaps are equal."""
    m, periods = measure_of(c), c["periods"]
    columns = (Column("period", NAME), Column(weighted(quantity("gap"), c).name(m)), *(Column(group) for group in BOTH))
    rows = (
        (
            Cell(label(row["period"])),
            Cell("–", FEW) if row["reason"] else estimate_cell(row_estimate(row, "gap"), m.difference),
            *(Cell(m.level(row[f"{group}_rate"])) for group in BOTH),
        )
        for row in periods["table"]
    )
    yield Table("periods", columns, tuple(rows), interval_name(confidence))
    notes = [f"audited, reference: {m.rate} of each group{m.among}."]
    if any(row["reason"] for row in periods["table"]):
        notes.append(f"{FEW}: fewer than 10 people in a group.")
    if periods["equal_gaps"] is not None:
        notes.append(f"Test of equal gaps in all periods: {p_value(periods['equal_gaps']['p_value'])}.")
    yield Paragraph(" ".join(notes), QUIET)


def _correction(summary: Record, c: Record) -> Iterator[Block]:
    blocks: list[Block] = []
    if (table := correction_table(summary, c)) is not None:
        blocks.append(table)
    if c["correction"]["numbers"] is not None:
        blocks.append(Paragraph(f"Group-membership model (propensity): {label(c['checks']['propensity'])}.", QUIET))
    if blocks:
        yield Details("Correction (for statisticians)", tuple(blocks))


def _rows(summary: Record) -> str:
    rows = summary["rows"]
    dropped = {reason.replace("_", " "): size for reason, size in rows.items() if reason not in NOT_COUNTED}
    parts = [f"{size:,} {reason}" for reason, size in dropped.items() if size]
    parts += [f"rows with {reason} (not counted)" for reason, size in dropped.items() if size is None]
    left_out = f"; excluded: {', '.join(parts)}" if parts else ""
    outcome = label(summary["favourable"])
    m = measure_of(summary)
    wanted = f"a {outcome} amount" if m.is_amount else m.favoured or outcome
    return f"{rows['read']:,} rows read, {rows['used']:,} used{left_out}. Favourable outcome: {wanted}."
