"""An audit as a document: findings, quantities, contributions, warnings; the correction last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiltlens.documents.audit_tables import (
    BOTH,
    contribution_table,
    correction_table,
    decile_table,
    estimate_table,
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
from tiltlens.documents.overall import overall_blocks
from tiltlens.documents.quantities import CONTRIBUTIONS, FEATURES, estimate_cell, fill, quantity, row_estimate
from tiltlens.documents.ratios import decision_table_words, four_fifths_words, is_of_decisions
from tiltlens.documents.sensitivity import sensitivity_blocks
from tiltlens.documents.sentences import IS_NO_FINDING, checks_words, headline, simultaneous_words
from tiltlens.documents.splitting import splitting_blocks
from tiltlens.documents.unobserved_groups import expected, soft_words, weighted
from tiltlens.formats import count, interval_name, label, minus, p_value
from tiltlens.rows.measures import UNITS, measure_of, subject

Record = dict[str, Any]
NOT_COUNTED = ("read", "used")
MOST_NAMED = 8  # features that one sentence lists
NEGLIGIBLE = 0.1  # parts of the materiality threshold that a note leaves out
FEW = "few"  # in the place of an interval


def audit_document(summary: Record) -> Document:
    """Return an audit of one or more groups."""
    summary = named(summary, summary["group"])
    blocks: list[Block] = []
    for c in summary["comparisons"].values():
        blocks += comparison_blocks(summary, c)
    blocks += overall_blocks(summary)
    confidence = summary["settings"]["confidence"]
    text = " ".join(filter(None, [_rows(summary), simultaneous_words(summary, confidence)]))
    blocks += [Heading("Data"), Paragraph(text)]
    if summary["too_small"]:
        names = ", ".join(label(name) for name in summary["too_small"])
        blocks.append(Paragraph(f"Groups of fewer than 10 people are not analysed: {names}.", WARNING))
    title = f"Audit of {subject(summary)} by {label(summary['group'])}"
    return Document(title, (*blocks, Paragraph(IS_NO_FINDING, QUIET)))


def comparison_document(c: Record, is_drawn: bool = True) -> Document:
    """Return one comparison, with a figure of its contributions."""
    blocks = comparison_blocks(c, c)
    figure: list[Block] = [FigureRef("features", c)] if is_drawn and c["contributions"] else []
    return Document("", (*blocks, *figure))


def checks_document(checks: Record) -> Document:
    """Return the checks of the group-membership model, and the warnings of a comparison."""
    reasons = [] if checks["balance"] is None else checks["balance"]["reasons"]
    blocks = [Paragraph(checks_words(checks)), *bullets([label(reason, 1000) for reason in reasons], "Reasons")]
    return Document("Overlap and calibration checks", (*blocks, *_warnings(checks)))


def comparison_blocks(summary: Record, c: Record) -> list[Block]:
    """Return the findings about one audited group; `summary` is the audit, or the comparison where that is alone."""
    settings = summary.get("settings")
    confidence = settings and settings["confidence"]
    first, *others = headline(summary, c)
    blocks: list[Block] = [Heading(who(c), 2), Paragraph(first, HEADLINE)]
    blocks += [Paragraph(line) for line in others]
    blocks += bullets([minus(line) for line in soft_words(c)], "Unobserved groups")
    blocks += [estimate_table(summary, c), *_tests(summary, c, confidence)]
    if c["contributions"]:
        blocks += [Heading(f"Contributions of features ({measure_of(c).unit})"), *contribution_blocks(c, settings)]
    blocks += sensitivity_blocks(c)
    if c["error_rates"] is not None:
        blocks += [Heading("Error rates by group"), *error_rate_blocks(c, confidence)]
    blocks += splitting_blocks(c, confidence)
    if c.get("periods"):
        blocks += [Heading("Gap over time"), *_periods(c, confidence)]
    if c["outputs"]["decile_shares"]:
        blocks += [Heading("Share of each group above each overall decile"), decile_table(c, confidence)]
    return [*blocks, *_warnings(c["checks"]), *_correction(summary, c)]


def _warnings(checks: Record) -> list[Block]:
    return bullets([minus(note) for note in checks["notes"]], "Warnings")


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
        rest = (
            f" minus the {m.difference(left)} adjusted" if abs(left) >= NEGLIGIBLE * c["scale"]["materiality"] else ""
        )
        lines.append(f"Shapley: sums to the {whole}{rest}")
    text = f"Of the {whole}. " * bool(c["gap_parts"]["exempt"]) + "; ".join(lines)
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
    wanted = f"a {outcome} amount" if measure_of(summary) is UNITS else outcome
    return f"{rows['read']:,} rows read, {rows['used']:,} used{left_out}. Favourable outcome: {wanted}."
