"""The paper's experiment on the bundled COMPAS extract, through the same audit as any other data."""

from __future__ import annotations

from typing import Any

from tiltlens._pipeline import audit
from tiltlens.datasets import COMPAS_FEATURES, load_compas
from tiltlens.learners.paper_fit import outcome_scores

PROVENANCE = {
    "data": "COMPAS, Broward County 2013-2014 (ProPublica)",
    "group labels": "race as recorded in those data",
    "model": "logistic regression of re-arrest on five features, as in the paper",
}
WORDING = {"people": "defendants"}
AUDITED, REFERENCE, OUTCOME = "African-American", "Caucasian", "is_recid"


def paper_experiment() -> dict[str, Any]:
    """Return the experiment as one summary: the paper's plug-in numbers, and the cross-fitted ones beside them."""
    data = load_compas()
    scores = outcome_scores(data, COMPAS_FEATURES, OUTCOME)
    arguments: dict[str, Any] = {"group": "race", "reference": REFERENCE, "audited": AUDITED, "favourable": "low"}
    arguments |= {"scores": scores, "features": COMPAS_FEATURES, "provenance": PROVENANCE, "wording": WORDING}
    paper, honest = (audit(data, **arguments, folds=folds) for folds in (None, 5))
    summary = paper.to_dict()
    comparison, c = summary["comparisons"][AUDITED], paper[AUDITED]
    least = c.project()
    comparison["prototypes"] = c.prototypes(suppress=False)  # public data
    cross_fitted = honest.to_dict()
    cross_fitted["comparisons"][AUDITED]["prototypes"] = honest[AUDITED].prototypes(suppress=False)
    comparison["least_change"] = {"tilt": float(least.multipliers[0]), "cost": least.cost}
    return summary | {
        "dataset": PROVENANCE["data"],
        "outcome": OUTCOME,
        "cross_fitted": cross_fitted,
    }
