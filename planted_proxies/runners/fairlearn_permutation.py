"""Ask fairlearn for the difference between groups, and scikit-learn how it changes where an input is permuted.

The rule is that of https://scikit-learn.org/stable/modules/permutation_importance.html.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planted_proxies.runners import GAP, Answer
from planted_proxies.worlds import Draw

name = "fairlearn + permutation importance"
requires = ("fairlearn==0.15.0", "pandas", "scikit-learn")
page = "https://fairlearn.org/main/api_reference/generated/fairlearn.metrics.MetricFrame.html"
asked = "by how much the difference of mean predictions falls where an input is permuted"
given = "model"
rule = "mean − 2 sd of the importances is above 0, as in scikit-learn's guide of permutation importance"

REPEATS, REPLICATES = 5, 100  # as by default; of the bootstrap


def run(draw: Draw) -> dict[str, Answer]:
    """Return the importances, and the bootstrap interval of the gap."""
    import pandas as pd
    from fairlearn.metrics import MetricFrame, mean_prediction
    from sklearn.inspection import permutation_importance

    def frame(scores: Any, **options: Any) -> Any:
        nothing = np.zeros(len(scores))  # the metric does not look at outcomes
        return MetricFrame(
            metrics=mean_prediction, y_true=nothing, y_pred=scores, sensitive_features=draw.audited, **options
        )

    def difference(model: Any, X: Any, y: Any) -> float:
        return float(frame(model.predict(np.asarray(X))).difference())

    table = pd.DataFrame(draw.matrix, columns=draw.inputs)
    importance = permutation_importance(
        _Fitted(draw), table, draw.scores, scoring=difference, n_repeats=REPEATS, random_state=draw.seed
    )
    found = {
        one: Answer(float(mean), verdict=bool(mean - 2 * sd > 0))
        for one, mean, sd in zip(draw.inputs, importance.importances_mean, importance.importances_std, strict=True)
    }
    boot = frame(draw.scores, n_boot=REPLICATES, ci_quantiles=[0.025, 0.975], random_state=draw.seed)
    low, high = (float(one) for one in boot.difference_ci())
    return found | {GAP: Answer(float(boot.difference()), low, high)}


class _Fitted:
    """The model with the methods that scikit-learn asks for."""

    def __init__(self, draw: Draw) -> None:
        self.predict = draw.predict

    def fit(self, X: Any, y: Any) -> _Fitted:
        """Return the model, which is fitted already."""
        return self
