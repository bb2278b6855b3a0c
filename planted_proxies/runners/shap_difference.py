"""Ask shap for the difference of mean SHAP values between the groups, of the model itself."""

from __future__ import annotations

import numpy as np

from planted_proxies.runners import Answer
from planted_proxies.worlds import Draw

name = "shap, group difference"
requires = ("shap==0.51.0",)
page = "https://shap.readthedocs.io/en/latest/generated/shap.plots.group_difference.html"
asked = "the difference of mean SHAP values between the groups, input by input"
given = "model"
rule = None

BACKGROUND = 100  # rows, as many as a masker takes by default


def run(draw: Draw) -> dict[str, Answer]:
    """Return mean SHAP values of the audited less those of the others: what the plot shows, as numbers."""
    import shap

    rng = np.random.default_rng(draw.seed)
    background = draw.matrix[rng.choice(len(draw.scores), BACKGROUND, replace=False)]
    masker = shap.maskers.Independent(background, max_samples=BACKGROUND)
    explainer = shap.explainers.Permutation(draw.predict, masker, seed=draw.seed)
    inputs = len(draw.inputs)
    values = explainer(draw.matrix, max_evals=2 * inputs + 1, silent=True).values
    difference = values[draw.audited].mean(axis=0) - values[~draw.audited].mean(axis=0)
    return {one: Answer(float(value)) for one, value in zip(draw.inputs, difference, strict=True)}
