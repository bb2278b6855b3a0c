"""How an audit was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from tiltmeter.errors import TiltmeterError
from tiltmeter.theory.checks import check_probability, check_weight


@dataclass(frozen=True, slots=True)
class Settings:
    """The numbers of an audit's arguments, checked.

    Attributes
    ----------
    input_weight, output_weight
        λ2 and λ4.
    confidence
        Of every interval.
    materiality
        Points of the score that matter.
    folds
        Of the cross-fit; None asks for the paper's plug-in values without intervals.
    seed
        Of everything random.
    total_shares
        Whether to fit what total shares need.
    """

    input_weight: float = 1.0
    output_weight: float = 1.0
    confidence: float = 0.95
    materiality: float = 0.005
    folds: int | None = 5
    seed: int = 0
    total_shares: bool = True

    def __post_init__(self) -> None:
        check_weight("input_weight", self.input_weight)
        check_weight("output_weight", self.output_weight)
        check_weight("materiality", self.materiality)
        check_probability("confidence", self.confidence)
        if self.input_weight + self.output_weight == 0:
            raise TiltmeterError(
                "`input_weight` and `output_weight` must not both be 0, got 0 and 0.", "leave both at 1."
            )
        if self.folds is not None and (not isinstance(self.folds, int) or self.folds < 3):
            raise TiltmeterError(
                f"`folds` must be a whole number of at least 3, or None, got {self.folds!r}.",
                "5 is the default; None gives the paper's plug-in values without intervals.",
            )
