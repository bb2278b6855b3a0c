"""The paper's experiment on the bundled COMPAS extract, through the same audit as any other data."""

from __future__ import annotations

from tiltlens._pipeline import audit
from tiltlens.datasets import COMPAS_FEATURES, load_compas
from tiltlens.documents.summary_access import Record
from tiltlens.learners.paper_fit import outcome_scores

PROVENANCE = {
    "data": "COMPAS, Broward County 2013-2014 (ProPublica)",
    "group labels": "race as recorded in those data",
    "model": "logistic regression of re-arrest on five features, as in the paper",
}
WORDING = {"people": "defendants"}
AUDITED, REFERENCE, OUTCOME = "African-American", "Caucasian", "is_recid"


def paper_experiment() -> Record:
    """Return the summary of the paper's plug-in numbers, with that of the cross-fitted audit under "cross_fitted"."""
    data = load_compas()
    scores, summaries = outcome_scores(data, COMPAS_FEATURES, OUTCOME), []
    for folds in (None, 5):
        result = audit(
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
        summaries.append(result.to_dict())
        comparison, correction = summaries[-1]["comparisons"][AUDITED], result[AUDITED].correction
        comparison["correction"]["prototypes"] = correction.prototypes(suppress=False)  # public data
        if folds is None:
            least = correction.project()
            comparison["least_change"] = {"tilt": float(least.multipliers[0]), "cost": least.cost}
    return summaries[0] | {"cross_fitted": summaries[1]}
