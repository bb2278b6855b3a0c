"""How far the numbers of a comparison can be trusted: checks of the group-membership model, and warnings."""

from __future__ import annotations

from dataclasses import dataclass

from tiltlens.learners.balance import Balance


@dataclass(frozen=True, slots=True, eq=False)
class Checks:
    """The overlap and calibration checks of a comparison, and its warnings.

    Attributes
    ----------
    propensity
        Name of the group-membership model; "none" without features.
    balance
        Balance, overlap and calibration of that model; None for plug-in values, and without features.
    notes
        Warnings about rows and models.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women"] * 50 + ["men"] * 50, "years": [1] * 30 + [2] * 20 + [1] * 15 + [2] * 35}
    >>> scores = [0.2 * years + 0.3 for years in people["years"]]
    >>> c = tl.audit(people, "sex", reference="men", scores=scores)["women"]
    >>> c.checks.is_adequate, c.checks.propensity
    (True, 'linear, ridge')
    """

    propensity: str
    balance: Balance | None
    notes: tuple[str, ...]

    @property
    def is_adequate(self) -> bool | None:
        """Whether the group-membership model passed its checks; None without checks."""
        return None if self.balance is None else self.balance.is_adequate

    def _repr_html_(self) -> str:
        from tiltlens.render.notebook import checks_html

        return checks_html(self)

    def __str__(self) -> str:
        from tiltlens.render.terminal import checks_text

        return checks_text(self)
