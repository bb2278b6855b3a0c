"""Ask fairxplainer for fairness influence functions: the part of each feature in the difference of decision rates."""

from __future__ import annotations

from typing import Any

import numpy as np

from planted_proxies.runners import Answer
from planted_proxies.worlds import GROUP, Draw

name = "fairxplainer, influence functions"
requires = (
    "fairxplainer==0.4.0",
    "numpy<2",
    "pandas<3",
    "scipy",
    "scikit-learn",
    "tqdm",
    "matplotlib",
    "feature-engine",
)
page = "https://github.com/ReAILe/bias-explainer"
asked = "the influence of features, and of pairs of them, on the difference of decision rates (scores above their mean)"
given = "model"
rule = None


def run(draw: Draw) -> dict[str, Answer]:
    """Return, of each feature, the largest influence among its own and those of its pairs; orders up to two, as given.

    Its theory is of decisions, so a model with scores decides by their mean. The group is not among the features of
    which it has an influence.
    """
    import pandas as pd
    from fairxplainer.fair_explainer import FairXplainer

    names = {one: f"f{place}" for place, one in enumerate(draw.features)}  # "/" and "_" have a meaning there
    table = pd.DataFrame({names[one]: np.asarray(draw.table[one], dtype=np.float64) for one in draw.features})
    table[GROUP] = draw.audited.astype(np.int64)
    explainer = FairXplainer(_Decides(draw), table, [GROUP])
    explainer.compute(maxorder=2, seed=draw.seed)
    weights = explainer.get_top_k_weights()["weight"].to_dict()
    return {one: Answer(_largest(weights, short)) for one, short in names.items()}


def _largest(weights: dict[str, float], short: str) -> float:
    return float(max((value for subset, value in weights.items() if short in subset.split("/")), key=abs, default=0.0))


class _Decides:
    """The model as a classifier: 1 where the score is above the mean of the draw."""

    def __init__(self, draw: Draw) -> None:
        self.draw, self.cut = draw, float(np.mean(draw.scores))

    def predict(self, table: Any) -> Any:
        """Return decisions; the table has the group last, as the model has it where it takes it."""
        matrix = np.asarray(table, dtype=np.float64)
        return (self.draw.predict(matrix[:, : len(self.draw.inputs)]) > self.cut).astype(np.int64)
