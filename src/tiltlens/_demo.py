"""The paper's experiment on the bundled COMPAS extract, with the same audit as for any other data, and its text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from tiltlens._documents.document import (
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
from tiltlens._documents.quantities import FEATURES, estimate_cell, format_of, quantity
from tiltlens._formats import number, percent
from tiltlens._learners.candidates import outcome_scores
from tiltlens._pipeline import audit
from tiltlens._render.terminal import print_document, print_result
from tiltlens._results.audit import Audit
from tiltlens._results.comparison import Comparison
from tiltlens._results.saved_audits import SavedParts
from tiltlens._rows.wording import POINTS
from tiltlens.datasets import COMPAS_FEATURES, load_compas

PROVENANCE = {
    "data": "COMPAS, Broward County 2013-2014 (ProPublica)",
    "group labels": "race as recorded in those data",
    "model": "logistic regression of re-arrest on five features, as in the paper",
}
WORDING = {"people": "defendants"}
AUDITED, REFERENCE, OUTCOME = "African-American", "Caucasian", "is_recid"


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """The audit of the data with the paper's plug-in values, and the cross-fitted audit.

    Attributes
    ----------
    least_change
        The smallest change of the audited group's inputs that removes the gap: its "tilt", and its "cost" in nats.
    """

    plug_in: Audit
    cross_fitted: Audit
    least_change: dict[str, float]

    def to_dict(self) -> dict[str, object]:
        """Return the numbers of the plug-in audit, with those of the cross-fitted one under "cross_fitted"."""
        summary = self.plug_in.to_dict()
        summary["comparisons"][AUDITED]["least_change"] = self.least_change
        return summary | {"cross_fitted": self.cross_fitted.to_dict()}


def paper_experiment() -> Experiment:
    """Return both audits of the paper's data."""
    data = load_compas()
    scores = outcome_scores(data, COMPAS_FEATURES, OUTCOME)
    audits = [
        audit(
            data,
            "race",
            reference=REFERENCE,
            audited=AUDITED,
            scores=scores,
            favourable="low",
            features=COMPAS_FEATURES,
            folds=folds,
            wording=WORDING,
            provenance=PROVENANCE,
        )
        for folds in (None, 5)
    ]
    least = audits[0][AUDITED].correction.project()
    change = {"tilt": float(least.multipliers[0]), "cost": least.cost}
    plug_in, cross_fitted = map(_with_all_prototypes, audits)
    return Experiment(plug_in, cross_fitted, change)


def _with_all_prototypes(result: Audit) -> Audit:
    """Return an audit of public data whose summary includes prototypes of few people."""
    c = result[AUDITED]
    parts = replace(c.correction.parts(), prototypes=c.correction.prototypes(suppress=False))
    saved: Any = SavedParts(c.bins(), c.splitting, c.prices, parts, c.scale.confidence)
    return replace(result, comparisons={AUDITED: replace(c, correction=replace(c.correction, _profiles=saved))})


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
SHARES = ("share", "inputs only", "outputs only")
CORNERS = {"max": "f~ largest", "min": "f~ smallest", "near_zero": "f~ nearest 0"}


def print_demo(experiment: Experiment, console: Console) -> None:
    """Print the paper's experiment: the cross-fitted audit as for any other data, then the paper's numbers."""
    print_result(experiment.cross_fitted, console, has_fits=True)
    paper, honest = experiment.plug_in[0], experiment.cross_fitted[0]
    blocks = (
        Paragraph(
            "The paper fits one group-membership model on all rows and treats it as exact. The audit above applies "
            "models to rows on which they were not fitted. If the numbers differ, rely on those of the audit."
        ),
        *_correction(paper, experiment.least_change["cost"]),
        Heading("Profiles at the ends of the correction (the paper's Table 1)"),
        _prototypes(paper),
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


def _correction(c: Comparison, cost: float) -> list[Block]:
    f, audited, prototypes = c.correction.numbers or {}, c.audited, c.correction.prototypes()
    ends = [prototypes[end]["correction"] for end in ("min", "max")]
    weights = [f"{'−' if (f[key] or 0.0) < 0 else '+'} {abs(f[key] or 0.0):.4f}" for key in ("on_log_odds", "on_score")]
    rows = ((Cell(name), Cell(number(f[name], 5)), Cell(meaning)) for name, meaning in PAPER_NAMES.items())
    return [
        Paragraph(
            f"f~(x) = {number(f['intercept'])} {weights[0]} × log-odds of {audited} {weights[1]} × score", HEADLINE
        ),
        Paragraph(
            f"f~ has mean 0 and variance 1 among {audited} defendants. Profiles with f~ > 0 are under-represented "
            f"among them, those with f~ < 0 over-represented. It ranges from {number(ends[0], 3)} to "
            f"{number(ends[1], 3)}; the largest valid step along it is {c.correction.epsilon_max:.3f}. The "
            f"smallest change of inputs that removes the gap costs {number(cost)} nats."
        ),
        Table("paper", (Column("name", NAME), Column("value"), Column("definition", TEXT)), tuple(rows)),
    ]


def _prototypes(c: Comparison) -> Table:
    corners = [c.correction.prototypes()[key] for key in CORNERS]
    rows = [(feature, *(str(corner["values"][feature]) for corner in corners)) for feature in corners[0]["values"]]
    rows.append(("value of f~", *(number(corner["correction"], 3) for corner in corners)))
    rows.append((f"{c.audited} people", *(f"{corner['count']:,}" for corner in corners)))
    columns = (Column("feature", NAME), *(Column(label, TEXT) for label in CORNERS.values()))
    return Table("prototypes", columns, tuple(tuple(map(Cell, row)) for row in rows))


def _shares(c: Comparison) -> Table:
    rows = (
        (Cell(row.feature), *(Cell(percent(share)) for share in (row.share, row.share_inputs, row.share_outputs)))
        for row in c.by_feature
    )
    return Table("shares", (Column("feature", NAME), *map(Column, SHARES)), tuple(rows))


def _side_by_side(c: Comparison, honest: Comparison) -> Table:
    rows = []
    for key in COMPARED:
        item = quantity(key)
        write = format_of(item.scale, POINTS).value
        rows.append((Cell(item.name(POINTS)), *(estimate_cell(side.estimate(key), write) for side in (c, honest))))
    shares = {row.feature: row.share for row in c.by_feature}
    for row in honest.by_feature:
        name, share = f"{FEATURES['share'].label}, {row.feature}", Cell(percent(shares[row.feature]))
        rows.append((Cell(name), share, estimate_cell(row.share, percent)))
    columns = (Column("quantity", NAME), Column("paper"), Column("cross-fitted"))
    return Table("compared", columns, tuple(rows), "95% CI")
