"""Regressions on one numeric feature: cubic splines, as good as unpenalised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tiltlens.estimators.influence import Integers
from tiltlens.limits import BASIS_KNOTS, SMOOTH_RIDGE, SMOOTH_ROWS
from tiltlens.models.design import encoded_rows, encoding
from tiltlens.models.logit import weighted_gram
from tiltlens.paper.checks import Floats


def spline_means(
    column: Floats, targets: Sequence[Floats], trains: Sequence[Integers], weights: Floats, seed: int
) -> list[Floats]:
    """Return E[target|x] at every row for each part: `targets` are (n, t) and are learnt from the rows `trains`."""
    table = {"x": column}
    encoder = encoding(table, encoded_rows(len(column), seed), BASIS_KNOTS)
    matrix = encoder.matrix(table, slice(None))
    found = []
    for target, every in zip(targets, trains, strict=True):
        train = every[:: -(-every.size // SMOOTH_ROWS)]  # so many rows tell a dozen slopes to three digits
        x, w = matrix[train], weights[train] / weights[train].sum()
        centre, level = w @ x, w @ target[train]
        x = x - centre
        scale = np.sqrt(np.maximum(w @ x**2, 1e-12))
        gram = weighted_gram(x / scale, w) + SMOOTH_RIDGE * np.eye(x.shape[1])
        slopes = cho_solve(cho_factor(gram, lower=True), ((x / scale).T * w) @ (target[train] - level))
        slopes = slopes / scale[:, None]
        found.append(np.asarray(matrix @ slopes + (level - centre @ slopes)))
    return found
