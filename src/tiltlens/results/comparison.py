"""One audited group against the reference: rows and models in, every number of a comparison out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tiltlens.errors import DataError, SupportError, TiltlensError
from tiltlens.estimators import crossfit, outputs
from tiltlens.estimators.dial import ShareForm, along
from tiltlens.estimators.estimate import Column, Estimate, Measured, Normal, without_noise
from tiltlens.models.balance import Balance
from tiltlens.models.features import OTHER, design_columns
from tiltlens.models.membership import Membership, prior_log_odds
from tiltlens.paper.correction import CorrectionFunction, correction_function
from tiltlens.paper.exponents import TestPair
from tiltlens.paper.path import PathPoint
from tiltlens.paper.world import Projection
from tiltlens.progress import stage
from tiltlens.results.disclosure import part_of_group
from tiltlens.results.pairs import Pair
from tiltlens.results.profiles import BINS, People, RowsOnDemand
from tiltlens.results.proxies import ProxyInputs, proxy_table
from tiltlens.results.settings import Settings
from tiltlens.views.figures import Figure, comparison_figure, shares_along_dial
from tiltlens.views.notebook import comparison_html

NEGLIGIBLE = 0.1  # of the materiality: among millions of rows, a dependence of no consequence is still significant
FEW_PEOPLE = 30


class Output(NamedTuple):
    """The output distributions of the two groups: Y(1) for two outcomes, all K probabilities for more."""

    audited: float | tuple[float, ...]
    reference: float | tuple[float, ...]


class Rates(NamedTuple):
    """The favourable rates of the two groups."""

    audited: Estimate
    reference: Estimate


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What the audit says of one audited group against the reference.

    Every `Estimate` is cross-fitted and debiased; None where a quantity is not defined (`notes` say why).
    `correction`, `epsilon_max`, `profile`, `prototypes`, `path` and `project` are the paper's plug-in quantities from
    one membership fit on all rows.

    Attributes
    ----------
    gap
        Mean score of the audited group minus that of the reference.
    impact_ratio
        Favourable rate of the audited group divided by that of the reference.
    shortfall
        How many more of the audited group would have the favourable outcome at the reference's rate.
    standardised_difference
        The gap over √((Var0(W) + Var1(W))/2).
    unexplained
        The gap left between people with equal features.
    decisions_needed
        Decisions that tell the groups apart with both errors 5 %.
    equal_outputs
        Studentised test of equal outputs.
    proxies
        One row a feature, strongest points of the gap first.
    dial
        Each feature's share of the correction at every (λ2, λ4), with its interval; None where the outputs have no
        finite divergence.
    shapley_remainder
        The gap less the features' Shapley values: what they do not explain.
    balance
        How far the membership model can be trusted; None for plug-in values.
    """

    audited: str
    reference: str
    rows: dict[str, int]
    output: Output
    favourable_rates: Rates
    gap: Estimate
    impact_ratio: Estimate | None
    shortfall: Estimate
    standardised_difference: Estimate | None
    output_divergence: Estimate | None
    input_divergence: Estimate | None
    descent_rate: Estimate | None
    unexplained: Estimate | None
    decisions_needed: Estimate | None
    equal_outputs: outputs.EqualOutputsTest | None
    correction: CorrectionFunction
    epsilon_max: float
    proxies: pl.DataFrame
    dial: dict[str, ShareForm] | None
    shapley_remainder: float | None
    balance: Balance | None
    membership: str
    notes: tuple[str, ...]
    _people: People

    @property
    def people(self) -> People:
        """What tells of kinds of people."""
        return self._people

    def with_rows(self, rows: Callable[[], People]) -> Comparison:
        """Return the comparison with someone to ask for what its sums do not tell."""
        return replace(self, _people=RowsOnDemand(self._people, rows))

    def profile(self, feature: str) -> pl.DataFrame:
        """Return, per value of a feature, how many people, their mean f~ and score, and the spread of f~.

        Nothing is said of values held by fewer than ten audited people, nor counts below ten shown; a quantile needs
        ten people who have it, or ten below and ten above.
        """
        return self._people.profile(feature)

    def distribution(self, feature: str, bins: int = BINS) -> pl.DataFrame:
        """Return the distribution of f~ per value of a feature (the paper's Fig. 2), as counts in equal bins.

        Bins with fewer than ten people have no count, nor has any bin of a value whose people are withheld.
        """
        return self._people.distribution(feature, bins)

    def shares_along_dial(self, positions: int = 21, confidence: float = 0.95) -> pl.DataFrame:
        """Return each feature's share of the correction from "align inputs" (position 0) to "align outputs" (1).

        Strongest feature first; no intervals for plug-in values; no rows where outputs have no finite divergence.
        """
        if not isinstance(positions, int) or isinstance(positions, bool) or positions < 2:
            raise DataError(f"`positions` must be a whole number of at least 2, got {positions!r}.", "21 is usual.")
        forms = {} if self.dial is None else {name: self.dial[name] for name in self.proxies["feature"]}
        is_plug_in = self.balance is None
        records = along(forms, np.linspace(0.0, 1.0, positions).tolist(), None if is_plug_in else confidence)
        return pl.DataFrame(records, schema=ALONG_SCHEMA)

    def bins(self) -> dict[str, Any]:
        """Return what figures and the report are made of: distributions, profiles and the path, as plain numbers."""
        return self._people.bins(self.proxies["feature"].to_list())

    def prototypes(self, suppress: bool = True) -> dict[str, dict[str, Any]]:
        """Return the feature values where f~ is largest, smallest and nearest to 0 (the paper's Table 1).

        Cells with fewer than ten audited people are withheld unless `suppress` is False, as it may be for public
        data.
        """
        return self._people.prototypes(suppress)

    def path(self, weights: Sequence[Any], divergence: str = "kl") -> list[PathPoint]:
        """Return the correction path, one point for each of the weights (λ1, λ2, λ3, λ4).

        `q` of a point has an entry for each audited row that was used, in the order of the table. A comparison of a
        stream has no rows, and raises; so do `project` and `distribution`.
        """
        return self._people.path(weights, divergence)

    def project(self) -> Projection:
        """Return the least change of the audited group's inputs that removes the gap, as weights on its rows."""
        return self._people.project()

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the comparison, keyed by attribute name."""
        dial_table = self.shares_along_dial().to_dicts()
        return self._numbers() | {"prototypes": self.prototypes(), "dial_table": dial_table, "bins": self.bins()}

    def plot(self, name: str = "proxy_map", feature: str | None = None) -> Figure:
        """Return one of the comparison's figures: its chart, the numbers behind it, and words for both."""
        if name == "shares_along_dial":
            return shares_along_dial(self._numbers(), self.shares_along_dial())
        return comparison_figure(self.to_dict(), name, feature)

    def _repr_html_(self) -> str:
        return comparison_html(self._numbers())

    def _numbers(self) -> dict[str, Any]:
        """Return what needs no further pass over the rows."""
        summary = {name: getattr(self, name) for name in PLAIN}
        summary["output"] = self.output._asdict()
        summary["favourable_rates"] = {k: v.to_dict() for k, v in self.favourable_rates._asdict().items()}
        for name in ESTIMATES:
            estimate = getattr(self, name)
            summary[name] = None if estimate is None else estimate.to_dict()
        test = self.equal_outputs
        summary["equal_outputs"] = None if test is None else {"statistic": test.statistic, "p_value": test.p_value}
        summary["correction"] = self.correction.to_dict()
        summary["proxies"] = self.proxies.to_dicts()
        summary["balance"] = None if self.balance is None else balance_dict(self.balance)
        summary["notes"] = list(self.notes)
        return summary

    def __repr__(self) -> str:
        return (
            f"Comparison({self.audited!r} against {self.reference!r}: gap {self.gap.value:+.4f}, "
            f"{len(self.proxies)} features)"
        )


PLAIN = ("audited", "reference", "rows", "epsilon_max", "membership", "shapley_remainder")
ESTIMATES = (
    "gap",
    "impact_ratio",
    "shortfall",
    "standardised_difference",
    "output_divergence",
    "input_divergence",
    "descent_rate",
    "unexplained",
    "decisions_needed",
)

ALONG_SCHEMA = {
    "position": pl.Float64,
    "feature": pl.String,
    "share": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


def balance_dict(found: Balance) -> dict[str, Any]:
    """Return the balance as a plain dictionary."""
    return {
        "is_adequate": found.is_adequate,
        "reasons": list(found.reasons),
        "auc": found.auc,
        "calibration": {"intercept": found.calibration[0], "slope": found.calibration[1]},
        "clipped": found.clipped,
        "mismatches": [
            {"name": m.name, "difference": m.difference, "se": m.se}
            for m in sorted(found.mismatches, key=lambda m: (-round(abs(m.difference), 6), m.name))[:20]
        ],
    }


def compare(
    audited: str, reference: str, pair: Pair, membership: Membership | Column, name: str, settings: Settings
) -> Comparison:
    """Return the comparison of one audited group with the reference.

    `membership` is cross-fitted or known, or, for plug-in values, the log-odds of one fit on all rows.
    """
    return _Builder(audited, reference, pair, membership, name, settings).comparison()


class _Builder:
    """Collects the numbers of a comparison, and a note for each that is not defined."""

    def __init__(
        self,
        audited: str,
        reference: str,
        pair: Pair,
        membership: Membership | Column,
        name: str,
        settings: Settings,
    ) -> None:
        self.audited, self.reference, self.pair, self.name, self.settings = audited, reference, pair, name, settings
        self.membership = membership if isinstance(membership, Membership) else None
        self.log_odds = membership.log_odds if isinstance(membership, Membership) else membership
        self.scores = pair.score_columns()
        self.table = design_columns(sorted(pair.features, key=lambda feature: feature.name))
        with stage(0.0, 0.2, "regressions"):
            self.expected = pair.expectation(self.membership, settings.seed)
        self.notes: list[str] = []

    def comparison(self) -> Comparison:
        pair, rows = self.pair, self.pair.rows
        correction, epsilon_max = self._correction()
        checked = None
        if self.membership is not None:
            # The score itself may depend on the group; what the features lead to expect of it may not.
            checked = pair.balance(self.membership, self.expected)
            if not checked.is_adequate:
                self.notes += [f"the membership model is inadequate: {reason}" for reason in checked.reasons]
        inputs = ProxyInputs(self.audited, pair, self.scores, self.membership, correction, self.log_odds)
        is_adequate = checked is None or checked.is_adequate
        with stage(0.2, 0.95):
            table = proxy_table(inputs, self.settings, is_adequate)
        unexplained = self._defined(self._unexplained)
        alone = self._without_equals()
        self._note_dependence(unexplained, is_adequate, alone)
        self._note_few_weights()
        return Comparison(
            audited=self.audited,
            reference=self.reference,
            rows={"audited": rows.count0, "reference": rows.count1},
            output=self._output(),
            favourable_rates=self._rates(),
            gap=self._gap(),
            impact_ratio=self._defined(lambda: outputs.impact_ratio(rows, pair.favourable)),
            shortfall=self._shortfall(),
            standardised_difference=self._defined(lambda: outputs.standardised_difference(rows, pair.outcome)),
            output_divergence=self._defined(lambda: outputs.output_divergence(rows, self.scores)),
            input_divergence=self._defined(self._input_divergence),
            descent_rate=self._descent_rate(correction),
            unexplained=unexplained,
            decisions_needed=self._decisions(),
            equal_outputs=self._test(),
            correction=correction,
            epsilon_max=epsilon_max,
            proxies=table.frame,
            dial=table.dial,
            shapley_remainder=table.remainder,
            balance=checked,
            membership=self.name,
            notes=(*dict.fromkeys([*self.notes, *table.notes]),),
            _people=pair.people((self.audited, self.reference), correction, self.log_odds, self._log_ratio()),
        )

    def _estimate(self, measured: Measured) -> Estimate:
        found = measured.estimate(self.settings.confidence)
        ends = (None, None) if self.settings.folds is None else (found.low, found.high)
        low, high = (None if end is None else without_noise(end) for end in ends)
        return Estimate(without_noise(found.value), low, high)

    def _defined(self, make: Callable[[], Measured]) -> Estimate | None:
        try:
            return self._estimate(make())
        except SupportError as error:
            self.notes.append(str(error).splitlines()[0])
            return None

    def _rates(self) -> Rates:
        rows, favourable = self.pair.rows, self.pair.favourable
        unseen = outputs.unseen_se(rows, favourable)
        rates = (outputs.group_rate(rows, favourable, who).normal(0.0, 1.0) for who in (True, False))
        return Rates(*(self._estimate(rate.widened(error)) for rate, error in zip(rates, unseen, strict=True)))

    def _gap(self) -> Estimate:
        rows, outcome = self.pair.rows, self.pair.outcome
        return self._estimate(outputs.gap(rows, outcome).normal().widened(*outputs.unseen_se(rows, outcome)))

    def _shortfall(self) -> Estimate:
        rows, favourable = self.pair.rows, self.pair.favourable
        unseen = (rows.count0 * error for error in outputs.unseen_se(rows, favourable))
        return self._estimate(outputs.shortfall(rows, favourable).normal().widened(*unseen))

    def _output(self) -> Output:
        rows, scores = self.pair.rows, self.scores
        y0, y1 = rows.means0(scores), rows.means1(scores)
        if scores.shape[1] == 1:
            return Output(float(y0[0]), float(y1[0]))
        return Output(tuple(y0.tolist()), tuple(y1.tolist()))

    def _correction(self) -> tuple[CorrectionFunction, float]:
        reference, audited = self.pair.moments(self.log_odds)
        try:
            correction = correction_function(
                audited, reference, self.settings.input_weight, self.settings.output_weight
            )
        except SupportError as error:
            self.notes.append(f"{str(error).splitlines()[0]} The correction aligns the inputs only.")
            correction = correction_function(audited, reference, self.settings.input_weight or 1.0, 0.0)
        smallest = self.pair.smallest(correction, self.log_odds)
        return correction, -1.0 / smallest if smallest < 0 else 0.0

    def _log_ratio(self) -> Column:
        """Return ℓ, cross-fitted where there is a cross-fit."""
        if self.membership is not None:
            return self.membership.log_ratio
        return self.log_odds - prior_log_odds(self.pair.rows)

    def _input_divergence(self) -> Measured:
        if self.membership is not None:
            return crossfit.input_divergence(self.pair.rows, self.membership.pairings).normal(least=0.0)
        return Normal(self.pair.rows.mean0(self._log_ratio()), 0.0)

    def _descent_rate(self, correction: CorrectionFunction) -> Estimate | None:
        if self.membership is None:
            return Estimate(correction.descent_rate)
        rows, settings = self.pair.rows, self.settings
        pairs = self.membership.pairings
        if settings.input_weight == 0 and self.scores.shape[1] == 1:
            return self._defined(lambda: outputs.output_descent_rate(rows, self.scores, settings.output_weight))

        def measured() -> Measured:
            gradients = [
                crossfit.gradient(rows, self.scores, pair, settings.input_weight, settings.output_weight)
                for pair in pairs
            ]
            return crossfit.gradient_variance(rows, gradients).square_root(sign=-1)

        return self._defined(measured)

    def _unexplained(self) -> Measured:
        """Return the gap between people with equal features: doubly robust, or by weighting where ℓ is given."""
        rows = self.pair.rows
        if self.membership is None or self.membership.is_known:
            pairs = [crossfit.known_pairing(rows, self.log_odds - prior_log_odds(rows))]
        else:
            pairs = list(self.membership.pairings)
        found = crossfit.unexplained(rows, self.pair.outcome, self.expected, pairs)
        remainder = crossfit.unexplained_remainder(rows, self.pair.outcome, self.expected, pairs)
        return found.normal().widened(remainder, *outputs.unseen_se(rows, self.pair.outcome))

    def _without_equals(self) -> float:
        """Note and return the share of audited people with a feature value that nobody in the reference has."""
        found = self.pair.without_equals(self.table)
        if found.features:
            who = part_of_group(found.share, found.people, self.pair.rows.count0)
            self.notes.append(
                f"{who} of the audited group have values that nobody in the reference group has "
                f"({', '.join(sorted(found.features))}): what is said of them is extrapolated"
            )
        return found.share

    def _note_dependence(self, unexplained: Estimate | None, is_adequate: bool, alone: float) -> None:
        """Note a score that knows the group beyond the features, when that is both sure and not negligible."""
        if unexplained is None or unexplained.low is None or unexplained.high is None:
            return
        is_sure = unexplained.low > 0 or unexplained.high < 0
        if is_sure and abs(unexplained.value) > NEGLIGIBLE * self.settings.materiality:
            doubts = [] if is_adequate else ["the membership model is to blame"]
            doubts += ["it is owed to people without equals in the reference group"] if alone > 0 else []
            pooled = [feature.name for feature in self.pair.features if OTHER in feature.labels]
            doubts += [f"it is owed to values of {', '.join(pooled)} that were pooled"] if pooled else []
            doubt = f", unless {' or '.join(doubts)}" if doubts else ""
            self.notes.append(
                f"the score depends on the group beyond these features{doubt}: between people with equal features "
                f"{unexplained.value:+.4f} of the gap is left ({unexplained.low:+.4f} to {unexplained.high:+.4f})"
            )

    def _note_few_weights(self) -> None:
        """Note a group whose weights rest on few people: (Σw)²/Σw² of them, by Kish."""
        rows = self.pair.rows
        groups = ((self.audited, rows.square0, rows.count0), (self.reference, rows.square1, rows.count1))
        for name, square, count in groups:
            effective = 1.0 / square
            if effective < FEW_PEOPLE <= count:
                self.notes.append(f"the weights make {name} worth {effective:.1f} people: no interval can be relied on")

    def _decisions(self) -> Estimate | None:
        """Return the decisions needed, and at both ends of the gap's interval; no upper end where it holds 0."""
        if self.scores.shape[1] != 1:
            return None
        rows = self.pair.rows
        p, p1 = rows.mean0(self.pair.outcome), rows.mean1(self.pair.outcome)
        value = _decisions_needed(p, p1)
        if value is None:
            self.notes.append("the groups' outputs are too close for decisions to tell them apart")
            return None
        gap = self._gap()
        if gap.low is None or gap.high is None:
            return Estimate(value)
        near, far = sorted((abs(gap.low), abs(gap.high)))
        ends = [_at_gap(p, p1, size) for size in (far, near)]
        return Estimate(value, ends[0], None if gap.low * gap.high <= 0 else ends[1])

    def _test(self) -> outputs.EqualOutputsTest | None:
        if self.settings.folds is None:
            return None
        return self.pair.equal_outputs(self.settings.seed)


def _at_gap(p: float, p1: float, size: float) -> float | None:
    """Return the decisions needed if the two rates were `size` apart around the same middle."""
    middle, half = (p + p1) / 2, np.copysign(size / 2, p - p1)
    return _decisions_needed(*(float(np.clip(middle + side * half, 1e-9, 1 - 1e-9)) for side in (1, -1)))


def _decisions_needed(p: float, p1: float) -> float | None:
    pair = TestPair(np.array([1 - p, p]), np.array([1 - p1, p1]))
    try:
        needed = pair.decisions_needed()
    except TiltlensError:
        return None
    return None if needed is None else float(needed)
