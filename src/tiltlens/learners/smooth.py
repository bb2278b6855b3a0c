"""Regressions on one numeric feature: cubic splines, as good as unpenalised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tiltlens.estimators.influence import Integers
from tiltlens.learners.design import encoded_rows, encoding
from tiltlens.learners.logit import weighted_gram
from tiltlens.limits import BASIS_KNOTS, SMOOTH_RIDGE, SMOOTH_ROWS
from tiltlens.paper.checks import Floats


@dataclass(frozen=True, slots=True, eq=False)
class SmoothPart:
    """Targets to learn from some rows, (rows, t), and the rows at which their means are wanted."""

    train: Integers
    target: Floats
    wanted: Integers

    @classmethod
    def of(cls, target: Floats, train: Integers, wanted: Integers) -> SmoothPart:
        """Return the part, with fewer rows to learn from where they are many: so many tell a dozen slopes."""
        few = train[:: -(-train.size // SMOOTH_ROWS)]
        return cls(few, target[few], wanted)


def spline_means(column: Floats, parts: Sequence[SmoothPart], weights: Floats, seed: int) -> list[Floats]:
    """Return E[target|x] of each part at the rows where it is wanted."""
    table = {"x": column}
    encoder = encoding(table, encoded_rows(len(column), seed), BASIS_KNOTS)
    matrix = encoder.matrix(table, slice(None))
    means = []
    for part in parts:
        x, w = matrix[part.train], weights[part.train] / weights[part.train].sum()
        centre, level = w @ x, w @ part.target
        x = x - centre
        scale = np.sqrt(np.maximum(w @ x**2, 1e-12))
        gram = weighted_gram(x / scale, w) + SMOOTH_RIDGE * np.eye(x.shape[1])
        slopes = cho_solve(cho_factor(gram, lower=True), ((x / scale).T * w) @ (part.target - level))
        slopes = slopes / scale[:, None]
        means.append(np.asarray(matrix[part.wanted] @ slopes + (level - centre @ slopes)))
    return means
