"""Ask insurance-fairness which factors drive proxy discrimination: the Shapley effects of its audit."""

from __future__ import annotations

from planted_proxies.runners import Answer
from planted_proxies.worlds import Draw

name = "insurance-fairness, ProxyDiscriminationAudit"
requires = ("insurance-fairness==1.2.2", "pandas")
page = "https://burning-cost.github.io/libraries/insurance-fairness/"
asked = "which rating factors drive proxy discrimination: Shapley effects phi and their status"
given = "scores"
rule = "its status is amber or red (phi of .10 or more)"

PERMUTATIONS, EXPLAINED = 32, 2_000  # its defaults are 256 and 10,000


def run(draw: Draw) -> dict[str, Answer]:
    """Return phi and status of each factor. It fits models like the audited one again: boosted trees of the scores."""
    import polars as pl
    from insurance_fairness.diagnostics import ProxyDiscriminationAudit
    from sklearn.ensemble import HistGradientBoostingRegressor

    table = pl.DataFrame(dict(draw.table)).cast(pl.Float64)
    audit = ProxyDiscriminationAudit(
        model=HistGradientBoostingRegressor(random_state=draw.seed).fit(table.to_numpy(), draw.scores),
        X=table.with_columns(protected=draw.audited.astype(int)),
        y=draw.scores,
        sensitive_col="protected",
        rating_factors=draw.features,
        n_perms=PERMUTATIONS,
        subsample_n=EXPLAINED,
        random_state=draw.seed,
    )
    found = audit.fit().shapley_effects
    return {one: Answer(float(e.phi), verdict=e.rag in ("amber", "red"), word=e.rag) for one, e in found.items()}
