"""Ask statsmodels' Oaxaca–Blinder decomposition of one feature at a time, with its bootstrapped errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from planted_proxies.runners import Answer
from planted_proxies.worlds import GROUP, Draw

name = "Oaxaca–Blinder, one by one"
requires = ("statsmodels==0.15.0",)
page = "https://www.statsmodels.org/stable/generated/statsmodels.stats.oaxaca.OaxacaBlinder.two_fold.html"
asked = "the explained effect of each feature alone, the unexplained effect of all of them, with standard errors"
given = "scores"
rule = "the effect is more than 1.96 standard errors from 0"

REPLICATES = 100  # its default of 5,000 takes two minutes a table
Z = 1.96


def run(draw: Draw) -> dict[str, Answer]:
    """Return explained effects ± 1.96 standard errors."""
    found = {one: _effect(draw, [one], "explained") for one in draw.features}
    found[GROUP] = _effect(draw, draw.features, "unexplained")
    return found


def _effect(draw: Draw, features: list[str], which: str) -> Answer:
    from statsmodels.stats.oaxaca import OaxacaBlinder

    columns: list[Any] = [np.asarray(draw.table[one], dtype=np.float64) for one in features]
    table = np.column_stack([*columns, (~draw.audited).astype(float)])  # the first group is that of the smaller value
    model = OaxacaBlinder(draw.scores, table, len(features), hasconst=False, swap=False, rng=draw.seed)
    result = model.two_fold(std=True, two_fold_type="pooled", n=REPLICATES)
    place = ("unexplained", "explained").index(which)
    value, error = float(result.params[place]), float(result.std[place])
    return Answer(value, value - Z * error, value + Z * error, abs(value) > Z * error)
