"""One audited group against the reference: evidence in, every number of a comparison out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from tiltlens.figures import Figure
    from tiltlens.repair.alternatives import Alternatives
    from tiltlens.repair.reweigh import Reweighing
    from tiltlens.repair.score_tilt import ScoreTilt

from tiltlens.analysis.contributions import SCHEMA as CONTRIBUTION_SCHEMA
from tiltlens.analysis.decision_table import DecisionTable
from tiltlens.analysis.error_rates import ErrorRate, ErrorRates
from tiltlens.analysis.influence_matching import ComparisonErrors
from tiltlens.analysis.periods import PeriodTable
from tiltlens.analysis.unobserved_groups import UnobservedGroup
from tiltlens.errors import DataError
from tiltlens.estimators.dial import ShareForm
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.outputs import EqualOutputsTest
from tiltlens.estimators.verdicts import Verdict
from tiltlens.formats import typed
from tiltlens.learners.balance import Balance
from tiltlens.limits import DIAL_POSITIONS, DISTRIBUTION_BINS
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.paper.path import PathPoint
from tiltlens.paper.world import Projection
from tiltlens.results.codec import to_plain
from tiltlens.results.parts import NO_ROWS, Bins, ComparisonParts, Prototype
from tiltlens.results.profiles import Profiles
from tiltlens.rows.measures import ScoreType, signed_amount
from tiltlens.rows.wording import Wording

ESTIMATES = (
    "gap",
    "impact_ratio",
    "adverse_impact_ratio",
    "shortfall",
    "standardised_difference",
    "output_divergence",
    "input_divergence",
    "descent_rate",
    "adjusted_gap",
    "gap_explained_by_exempt",
    "gap_given_exempt",
    "fpr_difference",
    "fnr_difference",
    "calibration_difference",
    "auc_difference",
    "detection_sample_size",
)
CONTRIBUTION_COLUMNS = {
    "feature": str,
    "alone": Annotated[float | None, "The contribution alone; its ends are those of the band over all features."],
    "beyond_others": Annotated[
        float | None, "The contribution beyond the other features; its ends are those of the band."
    ],
    "reveals": Annotated[float | None, "How far the feature identifies the group: 1 is completely."],
    "use": Annotated[float | None, "How far the score moves with the feature, all else equal; null if not measured."],
    "use_low": Annotated[float | None, "0 where the score may not use the feature."],
    "use_high": Annotated[float | None, "One-sided where use_low is 0."],
    "verdict": Verdict,
    "reason": Annotated[str, "The sentence beside the verdict."],
    "direction": str,
    "notes": Annotated[str, "What was done to the feature: pooled, binned, left out."],
}  # of the contributions; other columns are numbers or texts that may be missing
CONTRIBUTIONS = (
    "feature",
    *(f"{name}{end}" for name in ("alone", "beyond_others", "shapley", "use") for end in ("", "_low", "_high")),
    *("verdict", "reason"),
)  # columns of Comparison.contributions
BEYOND = ("audited", "reference", "difference")
DECILE_SCHEMA: dict[str, Any] = {"amount": pl.Float64} | {
    f"{name}{end}": pl.Float64 for name in BEYOND for end in ("", "_low", "_high")
}


class Output(NamedTuple):
    """The output distributions of the two groups: Y(1) for two outcomes, all K probabilities for more."""

    audited: float | tuple[float, ...]
    reference: float | tuple[float, ...]


class Rates(NamedTuple):
    """A rate of the two groups."""

    audited: Estimate
    reference: Estimate


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What the audit says of one audited group against the reference.

    Every `Estimate` is cross-fitted and debiased; None where a quantity is not defined (`notes` say why).
    `correction`, `epsilon_max`, `profile`, `prototypes`, `path` and `project` are the paper's plug-in quantities from
    one fit of the group-membership model on all rows of the sample.

    Attributes
    ----------
    rows
        How many people of either group there are.
    score_type, materiality
        What the scores are: "probability", "decision" or "amount"; and the materiality threshold, in points of a score
        or units of the amount.
    rates
        Favourable rate of each group; for amounts, the mean amounts.
    gap
        Mean score, or amount, of the audited group minus that of the reference.
    impact_ratio
        Favourable rate of the audited group divided by that of the reference; of scores, a ratio of mean scores; of
        amounts, of mean amounts.
    adverse_impact_ratio
        The lower rate of decisions divided by the higher; None of scores and amounts.
    shortfall
        How many more of the audited group would have the favourable outcome at the reference's rate; of amounts, how
        much they lack in total of the reference's mean, or have beyond it where a person wants little.
    decile_shares
        Of amounts: the share of each group beyond each pooled decile, and the difference.
    standardised_difference
        The gap over √((Var0(W) + Var1(W))/2).
    adjusted_gap
        The gap among people equal on all features (c_all).
    metric, metric_rates
        "fpr" or "fnr" if `gap` is the gap in that error rate, and the rate of each group.
    wording
        The user's words for people, the favourable outcome and the unit of amounts.
    periods
        Rates, gap and ratio of each period, with a test of equal gaps; None where none were asked for.
    error_rates
        How right the scores are of either group; None without true outcomes, and with a metric.
    exempt, gap_explained_by_exempt, gap_given_exempt
        The exempt factors, and the gap in two parts: explained by them, and among people equal on them. The
        contributions of other features are parts of the second.
    detection_sample_size
        Number of decisions needed to detect the gap, both errors at 5%.
    gap_test
        Studentised test of equal outputs.
    decision_table
        Of decisions, the 2×2 table: z, Fisher's exact test, odds ratio, decisions that would flip the finding; None of
        scores, with weights or clusters, and for plug-in values.
    unobserved_group
        Where groups are known by probabilities: what the gap may be; `gap` is then the weighted one, and ratios,
        shortfall, standardised difference, output divergence, decisions needed and the test are None.
    contributions
        One row per feature, the largest contribution alone first; `alone` and `beyond_others` have simultaneous
        confidence bands over all features.
    contributions_full
        The same rows with all columns: reveals, drives, alignment, shares, direction, partner, redundant_with, notes.
    band_factor
        κ of these bands, value ± κ·se.
    tradeoff
        Each feature's share of the correction at every (λ2, λ4), with its interval; None where the outputs have no
        finite divergence, or the membership model fails its checks.
    shapley_remainder
        The gap minus the sum of the Shapley contributions: the adjusted gap.
    correction, epsilon_max
        f~ and the largest valid step along it; None without features or a column of membership.
    correction_numbers
        The paper's numbers of f~, λ2 and λ4 as input_weight and output_weight, and its affine form.
    balance
        How far the membership model can be trusted; None for plug-in values, and without features.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50, "hired": [0, 1, 1, 1, 0, 0, 1, 1, 0, 1] * 10}
    >>> c = tl.audit(people, "sex", reference="men", scores="hired")["women"]
    >>> c
    Comparison('women' against 'men': gap -0.4000, 0 features)
    >>> print(f"{c.gap:+.2f}, {c.gap.low:+.2f} to {c.gap.high:+.2f}")
    -0.40, -0.55 to -0.21
    >>> print(f"{c.adverse_impact_ratio:.2f}, {c.decision_table.ratio_flips} decisions from four fifths")
    0.50, 12 decisions from four fifths
    """

    audited: str
    reference: str
    rows: dict[str, int]
    score_type: ScoreType
    materiality: float
    metric: str | None
    wording: Wording
    epsilon_max: float | None
    propensity: str
    shapley_remainder: float | None
    band_factor: float | None
    output: Output
    rates: Rates
    metric_rates: Rates | None
    gap: Estimate
    impact_ratio: Estimate | None
    adverse_impact_ratio: Estimate | None
    shortfall: Estimate | None
    standardised_difference: Estimate | None
    output_divergence: Estimate | None
    input_divergence: Estimate | None
    descent_rate: Estimate | None
    adjusted_gap: Estimate | None
    gap_explained_by_exempt: Estimate | None
    gap_given_exempt: Estimate | None
    detection_sample_size: Estimate | None
    gap_test: EqualOutputsTest | None
    decision_table: DecisionTable | None
    correction_numbers: dict[str, float | None] | None = field(metadata={"key": "correction"})
    contributions_full: Annotated[pl.DataFrame, CONTRIBUTION_SCHEMA, CONTRIBUTION_COLUMNS] = field(
        metadata={"key": "contributions"}
    )
    decile_shares: Annotated[pl.DataFrame, DECILE_SCHEMA]
    balance: Balance | None
    periods: PeriodTable | None
    error_rates: ErrorRates | None
    unobserved_group: UnobservedGroup | None
    exempt: tuple[str, ...]
    notes: tuple[str, ...]
    correction: CorrectionFunction | None = None
    _profiles: Profiles = NO_ROWS
    confidence: float = 0.95
    tradeoff: dict[str, ShareForm] | None = None
    _errors: ComparisonErrors | None = None

    JSON_KEYS: ClassVar = (
        *(
            "audited",
            "reference",
            "rows",
            "score_type",
            "materiality",
            "metric",
            "wording",
            "epsilon_max",
            "propensity",
        ),
        *("shapley_remainder", "band_factor", "output", "rates", "metric_rates", *ESTIMATES),
        *(
            "gap_test",
            "decision_table",
            "correction_numbers",
            "contributions_full",
            "decile_shares",
            "balance",
            "periods",
        ),
        *("error_rates", "unobserved_group", "exempt", "notes"),
    )

    @property
    def contributions(self) -> pl.DataFrame:
        """Each feature's contribution to the gap: alone, beyond the others and Shapley; its use, and a verdict."""
        return self.contributions_full.select(CONTRIBUTIONS)

    @property
    def fpr_difference(self) -> Estimate | None:
        """False positive rate of the audited group less that of the reference."""
        return self._difference_of("fpr")

    @property
    def fnr_difference(self) -> Estimate | None:
        """False negative rate of the audited group less that of the reference."""
        return self._difference_of("fnr")

    @property
    def calibration_difference(self) -> Estimate | None:
        """Mean of outcome less score of the audited group, less that of the reference."""
        return self._difference_of("calibration")

    @property
    def auc_difference(self) -> Estimate | None:
        """Area under the curve of the audited group less that of the reference."""
        return self._difference_of("auc")

    def _difference_of(self, name: str) -> Estimate | None:
        if self.metric == name:
            return self.gap
        rate: ErrorRate | None = getattr(self.error_rates, name, None)
        return None if rate is None else rate.difference

    def profile(self, feature: str) -> pl.DataFrame:
        """Return, per value of a feature, how many people, their mean f~ and score, and the spread of f~.

        Nothing is said of values held by fewer than ten audited people, nor counts below ten shown; a quantile needs
        ten people who have it, or ten below and ten above.
        """
        return self._profiles.profile(feature)

    def distribution(self, feature: str, bins: int = DISTRIBUTION_BINS) -> pl.DataFrame:
        """Return the distribution of f~ per value of a feature (the paper's Fig. 2), as counts in equal bins.

        Bins with fewer than ten people have no count, nor has any bin of a value whose people are withheld.
        """
        return self._profiles.distribution(feature, bins)

    def shares_along_tradeoff(self, positions: int = DIAL_POSITIONS, confidence: float | None = None) -> pl.DataFrame:
        """Return each feature's share of the correction from "align inputs" (position 0) to "align outputs" (1).

        Strongest feature first; no intervals for plug-in values; no rows where outputs have no finite divergence. The
        default confidence is the audit's.
        """
        if not isinstance(positions, int) or isinstance(positions, bool) or positions < 2:
            raise DataError(f"`positions` must be a whole number of at least 2, got {positions!r}.", "21 is usual.")
        forms = (
            {} if self.tradeoff is None else {name: self.tradeoff[name] for name in self.contributions_full["feature"]}
        )
        level = None if self.balance is None else self.confidence if confidence is None else confidence
        return self._profiles.shares_along_tradeoff(forms, positions, level)

    def parts(self) -> ComparisonParts:
        """Return what JSON, figures and the report need beyond the estimates; it takes time to compute."""
        return ComparisonParts(self.prototypes(), self.shares_along_tradeoff(), self.bins())

    def bins(self) -> Bins:
        """Return what figures and the report are made of: distributions, profiles and the path, as plain numbers."""
        return self._profiles.bins(self.contributions_full["feature"].to_list())

    def prototypes(self, suppress: bool = True) -> dict[str, Prototype]:
        """Return the feature values where f~ is largest, smallest and nearest to 0 (the paper's Table 1).

        Cells with fewer than ten audited people are withheld unless `suppress` is False, as it may be for public
        data.
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

    def repair(
        self,
        max_gap: float = 0.0,
        use_group: bool = False,
        metric: str = "mean_score",
        threshold: float | None = None,
        propensity_model: Any = None,
    ) -> ScoreTilt:
        """Find the smallest score adjustment after which the gap is at most `max_gap`.

        With exempt factors the gap is that at equal exempt factors. The gap after adjustment is measured on the audited
        rows, with models that have not seen them: evaluate the adjustment on held-out rows.

        Parameters
        ----------
        max_gap : float, default=0.0
            Largest gap that may remain.
        use_group : bool, default=False
            Whether adjusting a score needs the person's group, which may be regulated, or features only.
        metric : {"mean_score", "fpr", "fnr", "equalized_odds"}, default="mean_score"
            Quantity whose gap is closed: the mean score of all people, of people without the outcome, of those with it,
            or the last two together. All but the first need an audit with `outcome`.
        threshold : float, default=None
            Score from which the decision is 1. With it, decisions are adjusted in place of scores.
        propensity_model : scikit-learn classifier, default=None
            Group-membership model, cross-fitted and saved with skops. None takes an additive logistic model.

        Returns
        -------
        ScoreTilt
            The adjustment, which can be applied to new rows, evaluated and saved.

        Raises
        ------
        TiltlensError
            If an argument is not valid, or no adjustment reaches `max_gap`.

        See Also
        --------
        Audit.repair : Adjust the scores of all audited groups at once.
        """
        from tiltlens.repair.solve import repair

        return repair(self, metric, max_gap, use_group, threshold, propensity_model)

    def reweigh(self, outcome: bool = False) -> Reweighing:
        """Return sample weights for re-training.

        By default they are the least change of the audited group's inputs after which its mean score equals that of the
        reference (`project`). They depend on the features alone, so a model of the outcome that is trained with them
        keeps most of its gap: on Adult, −18.1 points become −18.0. With `outcome` they depend on group and outcome, and
        make the two independent: −18.1 points become −11.3. Audit the new model.
        """
        from tiltlens.repair.reweigh import reweigh

        return reweigh(self._profiles, outcome)

    def alternatives(self, tolerance: float = 0.005, threshold: float = 0.5) -> Alternatives:
        """Search for a less discriminatory alternative: a rule as accurate as the audited one, with a smaller gap.

        It needs an audit with outcomes. Rules are measured on rows that they were not fitted on.

        Parameters
        ----------
        tolerance : float, default=0.005
            Largest loss of accuracy that still counts as equally accurate.
        threshold : float, default=0.5
            Score from which the audited decision is 1. A missed outcome costs (1 − threshold)/threshold false alarms.
        """
        from tiltlens.repair.alternatives import find_alternatives

        return find_alternatives(self, tolerance, threshold, self.confidence)

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the comparison, keyed by attribute name."""
        return {**to_plain(self), **to_plain(self.parts())}

    def plot(self, name: str = "proxy_map", feature: str | None = None) -> Figure:
        """Return one of the comparison's figures: its chart, the numbers behind it, and words for both."""
        from tiltlens.figures import comparison_figure

        return comparison_figure(self.to_dict(), name, feature)

    def _repr_html_(self) -> str:
        from tiltlens.render.notebook import comparison_html

        return comparison_html(to_plain(self))

    def __repr__(self) -> str:
        gap = typed(signed_amount(self.gap.value)) if self.score_type == ScoreType.AMOUNT else f"{self.gap.value:+.4f}"
        name = "gap" if self.unobserved_group is None else "weighted gap"
        features = f"{len(self.contributions_full)} features"
        return f"Comparison({self.audited!r} against {self.reference!r}: {name} {gap}, {features})"
