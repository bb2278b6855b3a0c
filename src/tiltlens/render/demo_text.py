"""The demo on the terminal: an audit, followed by the paper's numbers."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from tiltlens.documents.document import (
    HEADLINE,
    NAME,
    QUIET,
    TEXT,
    Block,
    Cell,
    Column,
    Document,
    Heading,
    Paragraph,
    Table,
)
from tiltlens.documents.quantities import FEATURES, estimate_cell, format_of, quantity, row_estimate
from tiltlens.documents.summary_access import estimate_of
from tiltlens.formats import number, percent
from tiltlens.render.terminal import print_audit, print_document
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
    """Print the paper's experiment: the cross-fitted audit, as of any other data, then the paper's numbers."""
    print_audit(summary["cross_fitted"], console)
    (audited,) = summary["comparisons"]
    paper, honest = (part["comparisons"][audited] for part in (summary, summary["cross_fitted"]))
    blocks = (
        Paragraph(
            "The paper fits one group-membership model on all rows and treats it as exact. The audit above applies "
            "models to rows on which they were not fitted. If the numbers differ, rely on those of the audit."
        ),
        *_correction(audited, paper),
        Heading("Profiles at the ends of the correction (the paper's Table 1)"),
        _prototypes(audited, paper),
        Heading("Share of the correction by feature"),
        _shares(paper),
        Paragraph(
            "The part of the correction that shifting this feature's distribution alone achieves. Features overlap, so "
            "shares do not sum to 100%. “Inputs only” aligns the groups' features, “outputs only” their scores.",
            QUIET,
        ),
        Heading("The paper's numbers and those of the audit"),
        _side_by_side(paper, honest),
    )
    console.print()
    print_document(Document("the paper's numbers (“On the Direction of Discrimination”)", blocks), console)


def _correction(audited: str, c: Record) -> list[Block]:
    f, ends = c["correction"]["numbers"], [c["correction"]["prototypes"][end]["correction"] for end in ("min", "max")]
    weights = [f"{'−' if f[key] < 0 else '+'} {abs(f[key]):.4f}" for key in ("on_log_odds", "on_score")]
    rows = ((Cell(name), Cell(number(f[name], 5)), Cell(meaning)) for name, meaning in PAPER_NAMES.items())
    return [
        Paragraph(
            f"f~(x) = {number(f['intercept'])} {weights[0]} × log-odds of {audited} {weights[1]} × score", HEADLINE
        ),
        Paragraph(
            f"f~ has mean 0 and variance 1 among {audited} defendants. Profiles with f~ > 0 are under-represented "
            f"among them, those with f~ < 0 over-represented. It ranges from {number(ends[0], 3)} to "
            f"{number(ends[1], 3)}; the largest valid step along it is {c['correction']['epsilon_max']:.3f}. The "
            f"smallest change of inputs that removes the gap costs {number(c['least_change']['cost'])} nats."
        ),
        Table("paper", (Column("name", NAME), Column("value"), Column("definition", TEXT)), tuple(rows)),
    ]


def _prototypes(audited: str, c: Record) -> Table:
    corners = {label: c["correction"]["prototypes"][key] for key, label in CORNERS.items()}
    rows = [
        (Cell(feature), *(Cell(str(corner["values"][feature])) for corner in corners.values()))
        for feature in c["correction"]["prototypes"]["max"]["values"]
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
        paper_cell, honest_cell = (estimate_cell(estimate_of(summary, key), write) for summary in (c, honest))
        rows.append((Cell(item.name(POINTS)), paper_cell, honest_cell))
    paper = {row["feature"]: row for row in c["contributions"]}
    for row in honest["contributions"]:
        name = f"{FEATURES['share'].label}, {row['feature']}"
        share = Cell(percent(paper[row["feature"]]["share"]))
        rows.append((Cell(name), share, estimate_cell(row_estimate(row, "share"), percent)))
    columns = (Column("quantity", NAME), Column("paper"), Column("cross-fitted"))
    return Table("compared", columns, tuple(rows), "95% CI")
