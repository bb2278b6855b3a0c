"""Parts of a comparison: outputs, parts of the gap, checks, and the correction function of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, NamedTuple

import polars as pl

from tiltlens._analysis.evidence import interval_schema
from tiltlens._analysis.sensitivity import Sensitivity
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.use import ShareForm
from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import Display, FieldTable, percent, short_number
from tiltlens._learners.balance import Balance
from tiltlens._limits import DIAL_POSITIONS, DISTRIBUTION_BINS
from tiltlens._results.profiles import NO_ROWS, SHARES_SCHEMA, Profiles, Prototype
from tiltlens._rows.wording import ScoreType, Wording, measure_for
from tiltlens.errors import DataError
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.paper.path import PathPoint
from tiltlens.paper.world import Projection


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
        from tiltlens._render.html import checks_html

        return checks_html(self)

    def __str__(self) -> str:
        from tiltlens._render.terminal import checks_text

        return checks_text(self)


CONTRIBUTIONS = ("alone", "beyond_others", "shapley", "use")
FACTORS = ("reveals", "drives", "alignment", "share", "share_inputs", "share_outputs")
BEYOND = ("audited", "reference", "difference")
DECILE_SCHEMA: Mapping[str, type[pl.DataType]] = {"amount": pl.Float64} | interval_schema(*BEYOND)


class Means(NamedTuple):
    """The mean outputs of the two groups: one number for two outcomes, all K probabilities for more."""

    audited: float | tuple[float, ...]
    reference: float | tuple[float, ...]


class Rates(NamedTuple):
    """A rate of the two groups."""

    audited: Estimate
    reference: Estimate


@dataclass(frozen=True, slots=True)
class Scale(FieldTable):
    """The score type, the materiality threshold and the words of a comparison.

    Attributes
    ----------
    score_type
        "probability", "decision" or "amount".
    metric
        "fpr", "fnr", "fdr" or "for" if the gap is that of an error rate.
    materiality
        The materiality threshold, in points of a score or units of the amount.
    confidence
        The confidence level of intervals.
    wording
        The user's words for people, the favourable outcome and the unit of amounts.
    source
        The data, as stated in the provenance; "" if not stated.
    wants_less
        Whether low amounts are favourable, such as prices.
    """

    score_type: ScoreType
    metric: str | None
    materiality: float
    confidence: float
    wording: Wording
    source: str = ""
    wants_less: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Outputs(FieldTable):
    """Means and rates of both groups.

    Attributes
    ----------
    means
        The mean score, or amount, of each group; for more than two classes, the mean probability of each class.
    rates
        Favourable rate of each group; for amounts, the mean amounts.
    metric_rates
        The audited error rate of each group; None without a metric.
    standardised_difference
        The gap divided by the standard deviation within the groups, √((Var0(W) + Var1(W))/2).
    decile_shares
        For amounts: the share of each group above each overall decile, and the difference.
    """

    means: Means
    rates: Rates
    metric_rates: Rates | None
    standardised_difference: Estimate | None
    decile_shares: Annotated[pl.DataFrame, DECILE_SCHEMA]


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """The results for one feature: a row of `contributions_full`, whose docs define the columns."""

    feature: str
    alone: Estimate | None
    beyond_others: Estimate | None
    shapley: Estimate | None
    use: Estimate | None
    reveals: Estimate | None
    drives: Estimate | None
    alignment: Estimate | None
    share: Estimate | None
    share_inputs: Estimate | None
    share_outputs: Estimate | None
    direction: str
    partner: str | None
    redundant_with: str | None
    verdict: Verdict
    reason: str
    notes: str

    @classmethod
    def of(cls, row: Mapping[str, Any], scale: Scale) -> Contribution:
        """Return a row of the frame, whose estimates are columns NAME, NAME_low and NAME_high."""
        displays, estimates = _displays(scale), dict[str, Estimate | None]()
        for name in (*CONTRIBUTIONS, *FACTORS):
            estimate = row_estimate(row, name)
            estimates[name] = None if estimate is None else estimate.displayed(displays[name])
        parts = dict(row) | estimates | {"verdict": Verdict(row["verdict"])}
        return cls(**{field.name: parts[field.name] for field in fields(cls)})


def _displays(scale: Scale) -> dict[str, Display]:
    """Return the display of each estimate of a feature; `alone` and `beyond_others` have bands, as in verdicts."""
    measure = measure_for(scale.score_type, scale.metric, scale.wording)
    write, confidence = measure.difference if measure.is_amount else None, scale.confidence
    band, gap = (Display(measure.unit, write, confidence, kind=kind) for kind in ("band", "CI"))
    level, share = Display("", measure.level, confidence), Display("", percent, confidence)
    index = Display("", short_number, confidence)
    displays = (band, band, gap, gap, index, level, index, share, share, share)
    return dict(zip((*CONTRIBUTIONS, *FACTORS), displays, strict=True))


def row_estimate(row: Mapping[str, Any], name: str) -> Estimate | None:
    """Return the estimate in the columns NAME, NAME_low and NAME_high of a row; None if its value is missing."""
    return None if row[name] is None else Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


@dataclass(frozen=True, slots=True, eq=False)
class GapParts(FieldTable):
    """The parts of the gap that exempt factors and features account for.

    Attributes
    ----------
    exempt
        The exempt factors.
    gap_explained_by_exempt, gap_given_exempt
        The gap in two parts: explained by exempt factors, and among people with the same values of them. The
        contributions of other features are parts of the second.
    shapley_remainder
        The gap minus the sum of the Shapley contributions, an estimate of the adjusted gap.
    band_factor
        κ of the simultaneous bands of contributions, value ± κ·se.
    sensitivity
        How far an omitted factor may move the "adjusted_gap" and the "gap_given_exempt".
    """

    exempt: tuple[str, ...]
    gap_explained_by_exempt: Estimate | None
    gap_given_exempt: Estimate | None
    shapley_remainder: float | None
    band_factor: float | None
    sensitivity: dict[str, Sensitivity]


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionParts:
    """The parts of a correction that take time to compute.

    Attributes
    ----------
    prototypes
        The feature values where f~ is largest, smallest and nearest to 0.
    tradeoff_table
        The share of each feature in the correction at 21 positions of the slider; empty if it is not determined.
    """

    prototypes: dict[str, Prototype]
    tradeoff_table: Annotated[pl.DataFrame, SHARES_SCHEMA]


@dataclass(frozen=True, slots=True, eq=False)
class Correction(FieldTable):
    """The correction function f~ of a comparison, and the quantities of the paper.

    Every `Estimate` is cross-fitted and debiased. `function`, `epsilon_max`, `profile`, `prototypes`, `path` and
    `project` are plug-in quantities from one fit of the group-membership model on all rows of the sample.

    Attributes
    ----------
    numbers
        The paper's numbers of f~, λ2 and λ4 as input_weight and output_weight, and its affine form; None if there are
        neither features nor a propensity column.
    epsilon_max
        The largest valid step along f~; None without f~.
    descent_rate
        Rate at which a small step along f~ lowers the objective.
    input_divergence, output_divergence
        Divergence between the groups' features, and between their outputs, in nats.
    detection_sample_size
        Sample size to detect the gap, both errors at 5%.
    function
        f~ itself, to be called with log-odds and scores; None if `numbers` is None.
    tradeoff
        Each feature's share of the correction at every (λ2, λ4), with its interval; None where the outputs have no
        finite divergence, or the group-membership model fails its checks.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women"] * 50 + ["men"] * 50, "years": [1] * 30 + [2] * 20 + [1] * 15 + [2] * 35}
    >>> scores = [0.2 * years + 0.3 for years in people["years"]]
    >>> c = tl.audit(people, "sex", reference="men", scores=scores)["women"]
    >>> print(f"{c.correction.descent_rate:.2f}, {c.correction.project().cost:.2f} nats")
    -0.69, 0.18 nats
    >>> c.correction.prototypes()["max"]["values"]
    {'years': '2'}
    """

    numbers: dict[str, float | None] | None
    epsilon_max: float | None
    descent_rate: Estimate | None
    input_divergence: Estimate | None
    output_divergence: Estimate | None
    detection_sample_size: Estimate | None
    function: CorrectionFunction | None = field(default=None, metadata={"key": None})
    tradeoff: dict[str, ShareForm] | None = field(default=None, metadata={"key": None})
    _confidence: float | None = None  # level of the intervals of shares; None for plug-in values
    _profiles: Profiles = NO_ROWS

    def profile(self, feature: str) -> pl.DataFrame:
        """Return, per value of a feature, the number of people, their mean f~ and score, and the spread of f~.

        Values of fewer than ten audited people and counts below ten are suppressed; a quantile needs
        ten people who have it, or ten below and ten above.
        """
        return self._profiles.profile(feature)

    def distribution(self, feature: str, bins: int = DISTRIBUTION_BINS) -> pl.DataFrame:
        """Return the distribution of f~ per value of a feature (the paper's Fig. 2), as counts in equal bins.

        Counts of bins with fewer than ten people are suppressed, and so are all bins of a suppressed value.
        """
        return self._profiles.distribution(feature, bins)

    def shares_along_tradeoff(self, positions: int = DIAL_POSITIONS, confidence: float | None = None) -> pl.DataFrame:
        """Return each feature's share of the correction from "align inputs" (position 0) to "align outputs" (1).

        The strongest feature comes first. Plug-in values have no intervals, and the table is empty if outputs have no
        finite divergence. The default confidence is the audit's.
        """
        if not isinstance(positions, int) or isinstance(positions, bool) or positions < 2:
            raise DataError(f"`positions` must be a whole number of at least 2, got {positions!r}.", "21 is usual.")
        level = self._confidence if confidence is None or self._confidence is None else confidence
        return self._profiles.shares_along_tradeoff(self.tradeoff or {}, positions, level)

    def prototypes(self, suppress: bool = True) -> dict[str, Prototype]:
        """Return the feature values where f~ is largest, smallest and nearest to 0 (the paper's Table 1).

        Cells with fewer than ten audited people are suppressed unless `suppress` is False; use that for public data
        only.
        """
        return self._profiles.prototypes(suppress)

    def path(self, weights: Sequence[Any], divergence: str = "kl") -> list[PathPoint]:
        """Return the correction path, one point for each of the weights (λ1, λ2, λ3, λ4).

        `q` of a point has an entry for each audited row of the sample, in the order of the table.
        """
        return self._profiles.path(weights, divergence)

    def project(self) -> Projection:
        """Return the least change of the audited group's inputs that removes the gap, as weights on its rows."""
        return self._profiles.project()

    def parts(self) -> CorrectionParts:
        """Return the data, beyond the estimates, that JSON and the report need; computing them takes time."""
        return CorrectionParts(self.prototypes(), self.shares_along_tradeoff())

    def __repr__(self) -> str:
        rate = "not defined" if self.descent_rate is None else f"{self.descent_rate.value:.4f}"
        return f"Correction(descent rate {rate})"
