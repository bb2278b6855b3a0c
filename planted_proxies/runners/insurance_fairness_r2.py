"""Ask insurance-fairness which factors predict the group: its CatBoost proxy R²."""

from __future__ import annotations

from planted_proxies.runners import Answer
from planted_proxies.worlds import Draw

name = "insurance-fairness, proxy R²"
requires = ("insurance-fairness==1.2.2", "pandas")
page = "https://burning-cost.github.io/libraries/insurance-fairness/"
asked = "detect_proxies: how well each factor predicts the group, and its status"
given = "nothing"
rule = "its status is amber or red (R² above .05)"
takes_chances = True  # "can be binary, categorical, or continuous"


def run(draw: Draw) -> dict[str, Answer]:
    """Return R² and status of each factor; everything else at its default."""
    import polars as pl
    from insurance_fairness import detect_proxies

    protected = draw.audited.astype(int) if draw.chance is None else draw.chance
    found = detect_proxies(
        pl.DataFrame({**draw.table, "protected": protected}),
        protected_col="protected",
        factor_cols=draw.features,
        run_mutual_info=False,
        run_partial_corr=False,
    )
    return {
        one.factor: Answer(float(one.proxy_r2 or 0.0), verdict=one.rag in ("amber", "red"), word=one.rag)
        for one in found.scores
    }
