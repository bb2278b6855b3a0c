"""Confidence sequences: intervals that hold at all looks at growing data at once.

See docs/methods.md, section 20, after Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiltlens.errors import DataError
from tiltlens.estimators.estimate import Estimate


def sequence_factor(time: float, confidence: float) -> float:
    """Return √((2(c + 1)/c)·log(√(c + 1)/α)), c = nρ² (45): standard errors that the sequence reaches, tightest at 1.

    `time` is n/n₀, and ρ² = (−2·log α + log(−2·log α) + 1)/n₀.
    """
    if not 0.0 < confidence < 1.0:
        raise DataError(f"`confidence` must lie between 0 and 1, got {confidence!r}.", "0.95 is usual.")
    # ρ² makes the sequence tightest about n₀ people; at any other number it is valid too.
    log_alpha = math.log1p(-confidence)
    c = time * (-2.0 * log_alpha + math.log(-2.0 * log_alpha) + 1.0)
    return math.sqrt(2.0 * (c + 1.0) / c * (0.5 * math.log1p(c) - log_alpha))


@dataclass(frozen=True, slots=True)
class Sequence:
    """An estimator at one of many looks: value, standard error, n/n₀, and whether it is the logarithm of a ratio."""

    value: float
    se: float
    time: float
    is_log: bool = False

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the value with its interval, which holds at all looks at once."""
        reach = sequence_factor(self.time, confidence) * self.se
        estimate = Estimate(self.value, self.value - reach, self.value + reach)
        return estimate.mapped(math.exp) if self.is_log else estimate
