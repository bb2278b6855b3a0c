"""The validated numeric options of an audit."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import TypeGuard

from tiltlens.errors import TiltlensError
from tiltlens.estimators.estimate import Estimate, HasInterval, without_noise
from tiltlens.limits import FOLDS, MATERIALITY
from tiltlens.paper.checks import check_number, check_probability, check_weight

AMOUNT_MATERIALITY = 0.02  # standard deviations of amounts: a tenth of a small effect (Cohen's d of 0.2)
LARGEST_SEED = 2**32 - 1  # the largest that scikit-learn accepts
FEWEST_SAMPLED = 1_000  # rows: models are fitted on two fifths of them


@dataclass(frozen=True, slots=True)
class Settings:
    """The numbers of an audit's arguments, checked.

    Attributes
    ----------
    input_weight, output_weight
        λ2 and λ4.
    confidence
        The confidence level of every interval.
    materiality
        The materiality threshold, in points of the score; for amounts in standard deviations.
    folds
        The number of folds; None gives the paper's plug-in values without intervals.
    random_state
        The seed of everything random.
    sample_rows
        Rows that are kept of the data, at most: models are fitted on them, and standard errors come from them.
    """

    input_weight: float = 1.0
    output_weight: float = 1.0
    confidence: float = 0.95
    materiality: float = MATERIALITY
    folds: int | None = 5
    random_state: int = 0
    sample_rows: int = 500_000

    def __post_init__(self) -> None:
        checked = {
            "input_weight": check_weight("input_weight", self.input_weight),
            "output_weight": check_weight("output_weight", self.output_weight),
            "confidence": check_probability("confidence", self.confidence),
            "materiality": _check_materiality(self.materiality),
            "folds": None if self.folds is None else _check_folds(self.folds),
            "random_state": _check_random_state(self.random_state),
            "sample_rows": _check_sample_rows(self.sample_rows),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.input_weight + self.output_weight == 0:
            raise TiltlensError(
                "`input_weight` and `output_weight` must not both be 0, got 0 and 0.", "leave both at 1."
            )

    def for_all(self, comparisons: int) -> Settings:
        """Return settings whose intervals are simultaneous over this many comparisons (Šidák 1967)."""
        return replace(self, confidence=self.confidence ** (1.0 / comparisons))

    def estimate(self, measured: HasInterval) -> Estimate:
        """Return an estimate at the confidence level, without an interval for plug-in values."""
        estimate = measured.estimate(self.confidence)
        ends = (None, None) if self.folds is None else (estimate.low, estimate.high)
        # Rounding noise differs between machines, and would print as a gap of −0.0.
        return Estimate(without_noise(estimate.value), *(None if end is None else without_noise(end) for end in ends))


def usual_materiality(score_type: str) -> float:
    """Return the default materiality threshold: in points of a probability, or in standard deviations of an amount."""
    return AMOUNT_MATERIALITY if score_type == "amount" else MATERIALITY


def _check_materiality(value: object) -> float:
    number = check_number("materiality", value)
    if not 0 <= number < 1:
        raise TiltlensError(
            f"`materiality` must be at least 0 and below 1, got {value!r}.",
            "it is in points of a score between 0 and 1 (0.005 is the default), of amounts in standard deviations "
            "(0.02).",
        )
    return number


def _check_folds(value: object) -> int:
    if not _is_whole(value) or value != FOLDS:
        raise TiltlensError(
            f"`folds` must be {FOLDS} or None (on the command line 0), got {value!r}.",
            "the variance between pairings is derived for five folds; None gives the paper's plug-in "
            "values without intervals.",
        )
    return int(value)


def _check_sample_rows(value: object) -> int:
    if not _is_whole(value) or value < FEWEST_SAMPLED:
        raise TiltlensError(
            f"`sample_rows` must be a whole number of at least {FEWEST_SAMPLED}, got {value!r}.",
            "500,000 is the default.",
        )
    return int(value)


def _check_random_state(value: object) -> int:
    if not _is_whole(value) or not 0 <= value <= LARGEST_SEED:
        raise TiltlensError(
            f"`random_state` must be a whole number from 0 to {LARGEST_SEED}, got {value!r}.",
            "0 is the default; the same number gives the same numbers.",
        )
    return int(value)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
