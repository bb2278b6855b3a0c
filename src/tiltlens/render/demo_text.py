"""The demo on the terminal: the paper's experiment, its numbers beside the cross-fitted ones."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from tiltlens.documents.audit_document import contribution_blocks
from tiltlens.documents.document import (
    HEADLINE,
    NAME,
    QUIET,
    TEXT,
    Block,
    Bullets,
    Cell,
    Column,
    Document,
    Heading,
    Paragraph,
    Table,
)
from tiltlens.documents.headline import gap_sentence
from tiltlens.documents.quantities import FEATURES, estimate_cell, format_of, quantity, row_estimate
from tiltlens.documents.sentences import IS_NO_FINDING
from tiltlens.formats import number, percent
from tiltlens.render.terminal import print_document
from tiltlens.rows.measures import POINTS

Record = dict[str, Any]
PAPER_NAMES = {
    "rho_m": "maximal correlation of inputs and outcome",
    "a1": "overlap of f_l (inputs) and f_m (outputs)",
    "a2": "part of f_l beyond f_m",
    "b1": "weight of the output difference",
    "n_l": "weight of f_l in f~",
    "n_m": "weight of f_m in f~",
    "descent_rate": "descent rate of the objective along f~",
}
COMPARED = ("gap", "output_divergence", "input_divergence", "descent_rate", "detection_sample_size")
SHARES = {"share": "share", "share_inputs": "inputs only", "share_outputs": "outputs only"}
CORNERS = {"max": "f~ largest", "min": "f~ smallest", "near_zero": "f~ nearest 0"}


def print_demo(summary: Record, console: Console) -> None:
    """Print the paper's experiment: the question, the answers, how reliable they are, and what they do not show."""
    title = "the experiment of “On the Direction of Discrimination” on real data"
    blocks: list[Block] = []
    for audited, c in summary["comparisons"].items():
        blocks += _blocks(summary, audited, c, summary["cross_fitted"]["comparisons"][audited])
    print_document(Document(title, tuple(blocks)), console)


def _blocks(summary: Record, audited: str, c: Record, honest: Record) -> list[Block]:
    cross_fitted = summary["cross_fitted"]
    return [
        Paragraph(
            f"A logistic model predicts re-arrest ({summary['outcome']}) from five features. It does not use race. Is "
            f"there a gap between {audited} ({c['rows']['audited']:,} people, audited) and {c['reference']} "
            f"({c['rows']['reference']:,} people, reference) defendants, and which features account for it?"
        ),
        Paragraph(f"Data: {summary['dataset']}, {summary['rows']['used']:,} records.", QUIET),
        Paragraph(gap_sentence(cross_fitted, honest), HEADLINE),
        Heading("The correction function (the paper's way: one fit, taken as known)"),
        *_correction(audited, c),
        Heading("Profiles at the ends of the correction (the paper's Table 1)"),
        _prototypes(audited, c),
        Heading("Share of the correction by feature"),
        _shares(c),
        Paragraph(
            "The part of the correction that shifting this feature's distribution alone achieves. Features overlap, so "
            "shares do not sum to 100%. “Inputs only” aligns the groups' features, “outputs only” their scores.",
            QUIET,
        ),
        Heading("The paper's numbers and the cross-fitted ones"),
        _side_by_side(c, honest),
        Paragraph(
            "The paper fits one membership model on all rows and takes it as known, so noise counts as divergence. "
            "Cross-fitted numbers use models that have not seen the rows they are applied to, correct the first-order "
            f"error, and choose the model on held-out data (here: {honest['propensity']}). Where they differ, prefer "
            "the cross-fitted one.",
            QUIET,
        ),
        Heading("Contributions of features, cross-fitted (points)"),
        *contribution_blocks(honest, cross_fitted["settings"]),
        Heading("Limits"),
        Bullets(_limits(c)),
    ]


def _correction(audited: str, c: Record) -> list[Block]:
    f, ends = c["correction"], [c["prototypes"][end]["correction"] for end in ("min", "max")]
    weights = [f"{'−' if f[key] < 0 else '+'} {abs(f[key]):.4f}" for key in ("on_log_odds", "on_score")]
    rows = ((Cell(name), Cell(number(f[name], 5)), Cell(meaning)) for name, meaning in PAPER_NAMES.items())
    return [
        Paragraph(
            f"f~(x) = {number(f['intercept'])} {weights[0]} × log-odds of {audited} {weights[1]} × score", HEADLINE
        ),
        Paragraph(
            f"f~ has mean 0 and variance 1 among {audited} defendants. Profiles with f~ > 0 are under-represented "
            f"among them, those with f~ < 0 over-represented. It ranges from {number(ends[0], 3)} to "
            f"{number(ends[1], 3)}; the largest valid step along it is {c['epsilon_max']:.3f}. The smallest change of "
            f"inputs that removes the gap costs {number(c['least_change']['cost'])} nats."
        ),
        Table("paper", (Column("name", NAME), Column("value"), Column("definition", TEXT)), tuple(rows)),
    ]


def _prototypes(audited: str, c: Record) -> Table:
    corners = {label: c["prototypes"][key] for key, label in CORNERS.items()}
    rows = [
        (Cell(feature), *(Cell(str(corner["values"][feature])) for corner in corners.values()))
        for feature in c["prototypes"]["max"]["values"]
    ]
    rows.append((Cell("value of f~"), *(Cell(number(corner["correction"], 3)) for corner in corners.values())))
    rows.append((Cell(f"{audited} people"), *(Cell(f"{corner['count']:,}") for corner in corners.values())))
    return Table("prototypes", (Column("feature", NAME), *(Column(label, TEXT) for label in corners)), tuple(rows))


def _shares(c: Record) -> Table:
    rows = ((Cell(row["feature"]), *(Cell(percent(row[key])) for key in SHARES)) for row in c["contributions"])
    return Table("shares", (Column("feature", NAME), *map(Column, SHARES.values())), tuple(rows))


def _side_by_side(c: Record, honest: Record) -> Table:
    rows = []
    for key in COMPARED:
        item = quantity(key)
        write = format_of(item.scale, POINTS).value
        rows.append((Cell(item.name(POINTS)), Cell(write(c[key]["value"])), estimate_cell(honest[key], write)))
    paper = {row["feature"]: row for row in c["contributions"]}
    for row in honest["contributions"]:
        name = f"{FEATURES['share'].label}, {row['feature']}"
        share = Cell(percent(paper[row["feature"]]["share"]))
        rows.append((Cell(name), share, estimate_cell(row_estimate(row, "share"), percent)))
    columns = (Column("quantity", NAME), Column("paper"), Column("cross-fitted"))
    return Table("compared", columns, tuple(rows), "95% CI")


def _limits(c: Record) -> tuple[str, ...]:
    first, last = c["contributions"][0], c["contributions"][-1]
    smallest = min(cell["count"] for cell in c["prototypes"].values())
    return (
        f"{first['feature']} is the strongest potential proxy, however inputs and outputs are weighted.",
        f"{last['feature']} looks negligible at equal weights ({percent(last['share'])}), but has "
        f"{percent(last['share_outputs'])} when only the scores are aligned: check several settings.",
        f"Profiles at the ends can rest on very few people (here as few as {smallest}); read them as illustrations.",
        IS_NO_FINDING,
    )
