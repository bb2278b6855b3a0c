"""The paper's experiment on the bundled COMPAS extract, through the same audit as any other data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tiltlens._pipeline import audit
from tiltlens.datasets import COMPAS_FEATURES, load_compas
from tiltlens.learners.logit import outcome_scores
from tiltlens.results.audit import Audit
from tiltlens.results.saved_audits import SavedParts

PROVENANCE = {
    "data": "COMPAS, Broward County 2013-2014 (ProPublica)",
    "group labels": "race as recorded in those data",
    "model": "logistic regression of re-arrest on five features, as in the paper",
}
WORDING = {"people": "defendants"}
AUDITED, REFERENCE, OUTCOME = "African-American", "Caucasian", "is_recid"


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """The paper's plug-in numbers as an audit, and the cross-fitted audit of the same data.

    Attributes
    ----------
    least_change
        The least change of the audited group's inputs that removes the gap: its tilt, and its cost in nats.
    """

    plug_in: Audit
    cross_fitted: Audit
    least_change: dict[str, float]

    def to_dict(self) -> dict[str, object]:
        """Return the numbers of the first audit, with those of the second under "cross_fitted"."""
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
    """Return an audit of public data: prototypes of few people are in its summary too."""
    c = result[AUDITED]
    parts = replace(c.correction.parts(), prototypes=c.correction.prototypes(suppress=False))
    saved: Any = SavedParts(parts, c.parts(), c.scale.confidence)
    return replace(result, comparisons={AUDITED: replace(c, correction=replace(c.correction, _profiles=saved))})
