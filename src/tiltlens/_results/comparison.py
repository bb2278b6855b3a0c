"""The results for one audited group compared with the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import polars as pl

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from tiltlens._repair.alternatives import Alternatives
    from tiltlens._repair.free_price import DiscriminationFreePrice
    from tiltlens._repair.reweigh import Reweighing
    from tiltlens._repair.score_tilt import ScoreTilt
    from tiltlens.figures import Figure

from tiltlens._analysis.adjusted_gap import Sensitivity
from tiltlens._analysis.bins import Bins
from tiltlens._analysis.contributions import SCHEMA as CONTRIBUTION_SCHEMA
from tiltlens._analysis.error_rates import ErrorRate, ErrorRates
from tiltlens._analysis.evidence import interval_schema
from tiltlens._analysis.influence_matching import ComparisonErrors
from tiltlens._analysis.output_tables import DecisionTable
from tiltlens._analysis.periods import PeriodTable
from tiltlens._analysis.prices import Prices
from tiltlens._analysis.splitting import Splitting
from tiltlens._analysis.unobserved_groups import UnobservedGroup
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.outputs import EqualOutputsTest
from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import typed
from tiltlens._results.codec import Json, to_plain
from tiltlens._results.outputs import CONTRIBUTIONS as OF_FEATURES
from tiltlens._results.outputs import Checks, Contribution, GapParts, Means, Outputs, Rates, Scale, displays_of
from tiltlens._results.profiles import Correction, Profiles
from tiltlens._rows.wording import Unit
from tiltlens.errors import DataError

ERROR_RATE_KEYS = ("fpr", "fnr", "calibration", "auc", "ppv", "npv", "fdr", "for", "log_loss")
ESTIMATES = {
    **{name: name for name in ("gap", "impact_ratio", "adverse_impact_ratio", "shortfall", "adjusted_gap")},
    **{f"{key}_difference": f"error_rates.{key}.difference" for key in ERROR_RATE_KEYS},
    "robustness_value": "gap_parts.sensitivity.adjusted_gap.robustness_value",
    "proxy_discrimination": "prices.proxy_discrimination",
    "actual_to_expected_ratio": "prices.actual_to_expected_ratio",
    **{key: f"unobserved_group.{key}" for key in ("bracket", "limits", "linear")},
}  # name in gates, tables and changes: path of JSON keys
# Estimates that are fields of a part are added below. Types are strings because annotations are postponed.
ESTIMATES |= {
    item.name: f"{part}.{item.name}"
    for part, kind in {"outputs": Outputs, "gap_parts": GapParts, "correction": Correction}.items()
    for item in fields(kind)
    if item.type == "Estimate | None"
}
CONTRIBUTION_COLUMNS = {
    "feature": str,
    "alone": Annotated[float | None, "The contribution alone; its ends are those of the band over all features."],
    "beyond_others": Annotated[
        float | None, "The contribution beyond the other features; its ends are those of the band."
    ],
    "reveals": Annotated[float | None, "How far the feature identifies the group: 1 is completely."],
    "use": Annotated[float | None, "How far the score moves with the feature, all else equal; null if not measured."],
    "use_low": Annotated[float | None, "0 if the score may not use the feature."],
    "use_high": Annotated[float | None, "One-sided where use_low is 0."],
    "verdict": Verdict,
    "reason": Annotated[str, "The reason for the verdict."],
    "direction": str,
    "notes": Annotated[str, "Notes on how the feature was treated: pooled, binned or left out."],
}  # of the contributions; all other columns are numbers or texts that may be missing
CONTRIBUTIONS = ("feature", *interval_schema(*OF_FEATURES), "verdict", "reason")  # columns of `contributions`


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonParts:
    """The parts of a comparison that take time to compute.

    Attributes
    ----------
    bins
        Histograms, profiles and paths for figures.
    splitting
        The gains from separate models for the two groups; None without observed outcomes.
    prices
        The price compared with observed costs; None for probabilities and decisions, and without costs.
    """

    bins: Bins
    splitting: Splitting | None
    prices: Prices | None


@dataclass(frozen=True, eq=False)  # without slots, so that `by_feature` can be cached
class Comparison:
    """The results for one audited group, compared with the reference.

    Every `Estimate` is cross-fitted and debiased; None if a quantity is not defined (`checks.notes` gives the reason).

    Attributes
    ----------
    rows
        Numbers of people of both groups.
    scale
        The score type, the metric, the materiality threshold and the confidence level.
    outputs
        Means and rates of both groups, and the standardised difference.
    gap
        Mean score, or amount, of the audited group minus that of the reference.
    adjusted_gap
        The gap among people with the same values of all listed features (c_all).
    gap_parts
        The gap explained by exempt factors, the gap given these factors, and the remainder of Shapley contributions.
    impact_ratio
        Favourable rate of the audited group divided by that of the reference; for scores, a ratio of mean scores; for
        amounts, of mean amounts.
    adverse_impact_ratio
        The lower decision rate divided by the higher; None for scores and amounts.
    shortfall
        Additional audited people who would have the favourable outcome at the reference's rate; for amounts, the total
        by which the audited group is worse off than at the reference's mean.
    gap_test
        Studentised test that the groups' means are equal, with its p-value.
    decision_table
        For decisions, the 2×2 table: z, Fisher's exact test, odds ratio, and the fewest changed decisions that would
        reverse the result; None for scores, with weights or clusters, and for plug-in values.
    contributions
        One row per feature, the largest contribution alone first; `alone` and `beyond_others` have simultaneous
        confidence bands over all features.
    contributions_full
        One row per feature, with all columns: reveals, drives, alignment, shares, direction, partner, redundant_with,
        notes.
    error_rates
        Error rates of both groups; None without observed outcomes, and with a metric.
    periods
        Rates, gap and ratio of each period, with a test of equal gaps; None without `periods`.
    unobserved_group
        For unobserved groups, four estimates of the gap; `gap` is then the weighted gap, and ratios, shortfall,
        standardised difference, output divergence, detection sample size and test are None.
    correction
        The correction function and the paper's quantities.
    checks
        Checks of the group-membership model, and warnings.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50, "hired": [0, 1, 1, 1, 0, 0, 1, 1, 0, 1] * 10}
    >>> c = tl.audit(people, "sex", reference="men", scores="hired")["women"]
    >>> c
    Comparison('women' against 'men': gap -40.0 points (95% CI -55.2 to -21.0), 0 features)
    >>> print(c.gap)
    −40.0 points (95% CI −55.2 to −21.0)
    >>> print(f"{c.adverse_impact_ratio:.2f}, {c.decision_table.ratio_flips} decisions from four fifths")
    0.50, 12 decisions from four fifths
    """

    audited: str
    reference: str
    rows: dict[str, int]
    scale: Scale
    outputs: Outputs
    gap: Estimate = field(metadata={"scale": "gap"})
    adjusted_gap: Estimate | None = field(metadata={"scale": "gap"})
    gap_parts: GapParts
    impact_ratio: Estimate | None = field(metadata={"scale": "ratio"})
    adverse_impact_ratio: Estimate | None = field(metadata={"scale": "ratio"})
    shortfall: Estimate | None = field(metadata={"scale": "total"})
    gap_test: EqualOutputsTest | None
    decision_table: DecisionTable | None
    contributions_full: Annotated[pl.DataFrame, CONTRIBUTION_SCHEMA, CONTRIBUTION_COLUMNS] = field(
        metadata={"key": "contributions"}
    )
    error_rates: ErrorRates | None
    periods: PeriodTable | None
    unobserved_group: UnobservedGroup | None
    correction: Correction
    checks: Checks
    _errors: ComparisonErrors | None = None

    @property
    def contributions(self) -> pl.DataFrame:
        """Each feature's contribution to the gap: alone, beyond the others and Shapley; its use, and a verdict."""
        return self.contributions_full.select(CONTRIBUTIONS)

    @cached_property
    def by_feature(self) -> tuple[Contribution, ...]:
        """The rows of `contributions_full`, each with its estimates."""
        return tuple(Contribution.of(row, self.scale) for row in self.contributions_full.iter_rows(named=True))

    @property
    def rates(self) -> Rates:
        """Favourable rate of each group; for amounts, the mean amounts."""
        return self.outputs.rates

    @property
    def _profiles(self) -> Profiles:
        return self.correction._profiles

    def estimate(self, name: str) -> Estimate | None:
        """Return an estimate by its name in gates; None if it is not defined."""
        if name == f"{self.scale.metric}_difference":
            return self.gap
        part: Any = self
        for key in ESTIMATES[name].split("."):
            part = part.get(key) if isinstance(part, dict) else getattr(part, "for_" if key == "for" else key, None)
        return cast(Estimate | None, part)

    def sensitivity(self, quantity: Literal["adjusted_gap", "gap_given_exempt"] = "adjusted_gap") -> Sensitivity:
        """Return how strong an omitted factor must be to account for an adjusted gap or a gap given exempt factors.

        It is not available for plug-in values, unobserved groups, and models that use only the features.
        """
        measured = self.gap_parts.sensitivity
        if quantity not in measured:
            if not measured:
                raise DataError("This comparison has no adjusted gap whose sensitivity could be estimated.")
            raise DataError(f"`quantity` must be {' or '.join(map(repr, measured))}, got {quantity!r}.")
        return measured[quantity]

    @property
    def splitting(self) -> Splitting | None:
        """The gain from separate models for the two groups, computed when first used; None without outcomes."""
        return None if self.scale.metric is not None else self._profiles.splitting

    @property
    def prices(self) -> Prices | None:
        """The price compared with observed costs, computed on first use; None unless amounts come with `outcome`."""
        return self._profiles.prices

    def bins(self) -> Bins:
        """Return the data of figures and report: distributions, profiles and paths."""
        bins, order = self._profiles.bins, self.contributions_full["feature"]
        return replace(bins, profiles={name: bins.profiles[name] for name in order if name in bins.profiles})

    def repair(
        self,
        max_gap: float = 0.0,
        use_group: bool = False,
        metric: str = "mean_score",
        threshold: float | None = None,
        propensity_model: object = None,
    ) -> ScoreTilt | DiscriminationFreePrice:
        """Find the smallest score adjustment after which the gap is at most `max_gap`.

        With exempt factors the gap is that at equal exempt factors. The gap after adjustment is measured on the audited
        rows, with models that have not seen them: evaluate the adjustment on held-out rows.

        Parameters
        ----------
        max_gap : float, default=0.0
            Largest gap that may remain.
        use_group : bool, default=False
            Whether the adjustment uses the person's group, which the law may restrict, or features only.
        metric : {"mean_score", "fpr", "fnr", "equalized_odds"}, default="mean_score"
            Quantity whose gap is closed: the mean score of all people, of people without the outcome, of those with it,
            or the last two together. All but the first need an audit with `outcome`.
        threshold : float, default=None
            Score from which the decision is 1. With it, decisions are adjusted in place of scores.
        propensity_model : scikit-learn classifier, default=None
            Group-membership model, cross-fitted and saved with skops. None takes an additive logistic model.

        Returns
        -------
        ScoreTilt or DiscriminationFreePrice
            The adjustment, which can be applied to new rows, evaluated and saved. For an audit of amounts with observed
            costs, it is the discrimination-free price, which takes none of the parameters.

        Raises
        ------
        TiltlensError
            If an argument is not valid, or no adjustment reaches `max_gap`.

        See Also
        --------
        Audit.repair : Adjust the scores of all audited groups at once.
        """
        from tiltlens._repair.solve import repair

        return repair(self, max_gap, use_group, metric, threshold, propensity_model)

    def reweigh(self, outcome: bool = False) -> Reweighing:
        """Return sample weights for retraining.

        By default, they are the least change of the audited group's inputs after which its mean score equals that of
        the reference (`project`). A model retrained with them keeps most of its gap: on the Adult census data, −18.1
        points become −18.0. With `outcome`, group and outcome are independent: −18.1 points become −11.3. Audit the
        new model.
        """
        from tiltlens._repair.reweigh import reweigh

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
        from tiltlens._repair.alternatives import find_alternatives

        return find_alternatives(self, tolerance, threshold)

    def to_dict(self) -> Json:
        """Return every number of the comparison, keyed by attribute name."""
        summary: Json = to_plain(self)
        summary["correction"] |= to_plain(self.correction.parts())
        summary |= to_plain(self.parts())
        return summary

    def parts(self) -> ComparisonParts:
        """Return the data, beyond the estimates, that JSON and the report need; computing them takes time."""
        return ComparisonParts(self.bins(), self.splitting, self.prices)

    def plot(self, name: str = "proxy_map", feature: str | None = None) -> Figure:
        """Draw one of the comparison's figures, with the numbers behind it and a description."""
        from tiltlens.figures import comparison_figure

        return comparison_figure(self, name, feature)

    def _repr_html_(self) -> str:
        from tiltlens._render.html import result_html

        return result_html(self)

    def __repr__(self) -> str:
        name = "gap" if self.unobserved_group is None else "weighted gap"
        features = f"{len(self.contributions_full)} features"
        return f"Comparison({self.audited!r} against {self.reference!r}: {name} {typed(str(self.gap))}, {features})"


def with_displays(c: Comparison) -> Comparison:
    """Return a comparison whose estimates print on the scales of their fields, with the confidence level."""
    displays = displays_of(c.scale)
    return _with_estimates(c, lambda estimate, scale: estimate.displayed(displays[scale]))


T = TypeVar("T", bound="DataclassInstance")
EstimateChange = Callable[[Estimate, str], Estimate]  # takes an estimate and its scale
PARTS = ("outputs", "gap_parts", "decision_table", "error_rates", "unobserved_group", "correction")


def _with_estimates(part: T, change: EstimateChange) -> T:
    """Return a comparison, or a part of it, after a change of all estimates whose fields state their scale."""
    changed: dict[str, Any] = {}
    for item in fields(part):
        value, scale = getattr(part, item.name), item.metadata.get("scale")
        if value is not None and scale is not None:
            changed[item.name] = _changed(value, scale, change)
        elif value is not None and item.name in PARTS:
            changed[item.name] = _with_estimates(value, change)
    return replace(part, **changed)


def _changed(value: Any, scale: str, change: EstimateChange) -> Any:
    """Return an estimate, a pair of estimates, or an error rate after a change; shares differ by points."""
    if isinstance(value, Estimate):
        return change(value, scale)
    if isinstance(value, ErrorRate):
        difference = change(value.difference, "points" if scale == "share" else scale)
        return ErrorRate(change(value.audited, scale), change(value.reference, scale), difference)
    return value.__class__(*(change(estimate, scale) for estimate in value))


IN_UNITS = ("alone", "shapley", "beyond_others", "drives", "use")  # columns of the contributions in the unit of the gap


def in_units(comparison: Comparison, unit: Unit) -> Comparison:
    """Return a comparison with amounts in the user's unit, W = centre + scale·w."""
    if not unit.is_amount:
        return comparison
    units: dict[str, Callable[[float], float]] = dict.fromkeys(("gap", "range", "total"), unit.difference)
    units["level"] = unit.level
    c = _with_estimates(comparison, lambda estimate, scale: estimate.mapped(units.get(scale, float)))
    remainder = c.gap_parts.shapley_remainder
    return replace(
        c,
        gap_parts=replace(
            c.gap_parts,
            shapley_remainder=None if remainder is None else unit.difference(remainder),
            sensitivity={name: sensitivity.in_units(unit) for name, sensitivity in c.gap_parts.sensitivity.items()},
        ),
        outputs=replace(
            c.outputs, means=Means(*(unit.level(mean) for mean in c.outputs.means if isinstance(mean, float)))
        ),
        scale=replace(c.scale, materiality=unit.difference(c.scale.materiality)),
        contributions_full=c.contributions_full.with_columns(pl.col(*interval_schema(*IN_UNITS)) * unit.scale),
    )
