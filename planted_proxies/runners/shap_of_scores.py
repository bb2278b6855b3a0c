"""Ask shap for the difference of mean SHAP values of boosted trees fitted to the scores, where there is no model."""

from __future__ import annotations

import numpy as np

from planted_proxies.runners import Answer
from planted_proxies.worlds import Draw

name = "shap, of trees fitted to the scores"
requires = ("shap==0.51.0",)
page = "https://shap.readthedocs.io/en/latest/generated/shap.TreeExplainer.html"
asked = "the difference of mean SHAP values between the groups, of a model of the scores by the features"
given = "scores"
rule = None


def run(draw: Draw) -> dict[str, Answer]:
    """Return mean SHAP values of the audited less those of the others, of scikit-learn's trees at their defaults."""
    import shap
    from sklearn.ensemble import HistGradientBoostingRegressor

    table = np.column_stack([np.asarray(draw.table[one], dtype=np.float64) for one in draw.features])
    trees = HistGradientBoostingRegressor(random_state=draw.seed).fit(table, draw.scores)
    values = shap.TreeExplainer(trees).shap_values(table)
    difference = values[draw.audited].mean(axis=0) - values[~draw.audited].mean(axis=0)
    return {one: Answer(float(value)) for one, value in zip(draw.features, difference, strict=True)}
