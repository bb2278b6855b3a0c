"""The two models of the paper's experiment: plain logistic regressions on ordinal codes, fitted on all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class PaperModels:
    """Columns made by the paper's two models.

    Attributes
    ----------
    scores
        W(1|x), the predicted probability of the outcome.
    log_odds
        Log-odds of P(S=0|x), of being in the audited group.
    """

    scores: NDArray[np.float64]
    log_odds: NDArray[np.float64]


def paper_models(features: NDArray[np.float64], outcome: NDArray[np.int8], audited: NDArray[np.bool_]) -> PaperModels:
    """Return scores and membership log-odds of unpenalised logistic regressions on all rows."""
    from sklearn.linear_model import LogisticRegression

    def fitted(target: NDArray[np.int8] | NDArray[np.bool_]) -> LogisticRegression:
        return LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(features, target)

    return PaperModels(fitted(outcome).predict_proba(features)[:, 1], fitted(audited).decision_function(features))
