"""Ask insurance-fairness for its SHAP proxy scores: does what a factor adds to the price go with the group?"""

from __future__ import annotations

from typing import Any

import numpy as np

from planted_proxies.runners import Answer
from planted_proxies.worlds import GROUP, Draw

name = "insurance-fairness, SHAP proxy score"
requires = ("insurance-fairness==1.2.2", "pandas")
page = "https://burning-cost.github.io/libraries/insurance-fairness/"
asked = "shap_proxy_scores of a CatBoost model of the scores, and counterfactual_fairness for direct use"
given = "scores"
rule = None
takes_chances = True


def run(draw: Draw) -> dict[str, Answer]:
    """Return |Spearman(SHAP value, group)| of each factor, and the mean change where the group is flipped."""
    import polars as pl
    from insurance_fairness.proxy_detection import shap_proxy_scores

    table = pl.DataFrame(dict(draw.table)).cast(pl.Float64)
    model = _catboost(draw.seed).fit(table.to_pandas(), draw.scores)
    protected = draw.audited.astype(int) if draw.chance is None else draw.chance
    scores = shap_proxy_scores(
        table.with_columns(protected=protected), protected_col="protected", factor_cols=draw.features, model=model
    )
    found = {one: Answer(float(value)) for one, value in scores.items()}
    return found | ({GROUP: _flipped(draw)} if draw.world.takes_group else {})


def _flipped(draw: Draw) -> Answer:
    """Return by how much of itself a price changes where the group is flipped, in a model that takes it."""
    import polars as pl
    from insurance_fairness import counterfactual_fairness

    table = pl.DataFrame(dict(zip(draw.inputs, draw.matrix.T, strict=True))).with_columns(pl.col(GROUP).cast(pl.Int64))
    model = _catboost(draw.seed).fit(table.to_pandas(), draw.scores)
    found = counterfactual_fairness(model, table, GROUP, draw.inputs, flip_values={0: 1, 1: 0})
    return Answer(float(np.abs(found.policy_level_impacts.to_numpy() - 1.0).mean()))


def _catboost(seed: int) -> Any:
    from catboost import CatBoostRegressor

    return CatBoostRegressor(iterations=300, depth=6, random_seed=seed, verbose=0, allow_writing_files=False)
