"""Ask statsmodels' Oaxaca–Blinder decomposition in detail: difference of means times pooled coefficient."""

from __future__ import annotations

import numpy as np

from planted_proxies.runners import Answer
from planted_proxies.worlds import GROUP, Draw

name = "Oaxaca–Blinder, in detail"
requires = ("statsmodels==0.15.0",)
page = "https://www.statsmodels.org/stable/generated/statsmodels.stats.oaxaca.OaxacaBlinder.html"
asked = "each feature's part of what a linear regression with the group explains, and what it does not"
given = "scores"
rule = None


def run(draw: Draw) -> dict[str, Answer]:
    """Return the parts by the coefficients of the class's pooled model, and its unexplained effect."""
    from statsmodels.stats.oaxaca import OaxacaBlinder

    columns = np.column_stack([np.asarray(draw.table[one], dtype=np.float64) for one in draw.features])
    table = np.column_stack([columns, (~draw.audited).astype(float)])  # the first group is that of the smaller value
    model = OaxacaBlinder(draw.scores, table, table.shape[1] - 1, hasconst=False, swap=False)
    unexplained = model.two_fold(two_fold_type="pooled").params[0]
    slopes = model.t_params[: len(draw.features)]
    difference = columns[draw.audited].mean(axis=0) - columns[~draw.audited].mean(axis=0)
    found = {one: Answer(float(part)) for one, part in zip(draw.features, slopes * difference, strict=True)}
    return found | {GROUP: Answer(float(unexplained))}
