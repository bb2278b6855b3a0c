"""One audited group against the reference: rows and models in, every number of a comparison out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.bins import QUANTILES, SUPPRESSED_BELOW, Binned, binned, withheld
from tiltmeter.engines.arrays import moments_by_group
from tiltmeter.errors import DataError, SupportError, TiltmeterError, WeightsError
from tiltmeter.models.balance import Balance, balance
from tiltmeter.models.features import OTHER, Feature, design_columns
from tiltmeter.models.membership import Membership, prior_log_odds
from tiltmeter.models.regressions import reference_expectation
from tiltmeter.progress import stage
from tiltmeter.proxies import ProxyInputs, proxy_table
from tiltmeter.settings import Settings
from tiltmeter.theory import crossfit, intervals
from tiltmeter.theory.checks import Floats, check_weights
from tiltmeter.theory.correction import CorrectionFunction, correction_function
from tiltmeter.theory.dial import ShareForm, along
from tiltmeter.theory.divergence import check_divergence
from tiltmeter.theory.exponents import TestPair
from tiltmeter.theory.path import Inputs, PathPoint, path_point, projection
from tiltmeter.theory.uncertainty import Estimate, Measured, Normal, Rows, without_noise
from tiltmeter.theory.ways import ways
from tiltmeter.theory.world import Projection
from tiltmeter.views.figures import Figure, comparison_figure, shares_along_dial
from tiltmeter.views.notebook import comparison_html

BINS = 40
NEGLIGIBLE = 0.1  # of the materiality: among millions of rows, a dependence of no consequence is still significant
FEW_PEOPLE = 30
TIED = 1e-9  # corrections, and shares of people, no further apart are equal up to rounding


@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """The rows of one audited group and the reference.

    Attributes
    ----------
    rows
        Which are audited, and their weights.
    scores
        W(1|x) as (n,), or (n, K).
    outcome
        The score whose means are compared: W(1|x), or of the favourable class where there are more than two.
    favourable
        Probability of the favourable outcome.
    features
        The features on these rows.
    places
        The rows' places in the table.
    """

    rows: Rows
    scores: Floats
    outcome: Floats
    favourable: Floats
    features: tuple[Feature, ...]
    places: NDArray[np.intp]


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
    equal_outputs: intervals.EqualOutputsTest | None
    correction: CorrectionFunction
    epsilon_max: float
    proxies: pl.DataFrame
    dial: dict[str, ShareForm] | None
    shapley_remainder: float | None
    balance: Balance | None
    membership: str
    notes: tuple[str, ...]
    _pair: PairRows
    _log_odds: Floats
    _log_ratio: Floats

    def profile(self, feature: str) -> pl.DataFrame:
        """Return, per value of a feature, how many people, their mean f~ and score, and the spread of f~.

        Nothing is said of values held by fewer than ten audited people, nor counts below ten shown; a quantile needs
        ten people beyond it.
        """
        found = self._feature(feature)
        mine = self._pair.rows.audited
        f, score, weights = self._values(mine), self._pair.outcome[mine], self._pair.rows.weights[mine]
        audited, reference = (np.bincount(found.codes[who], minlength=len(found.labels)) for who in (mine, ~mine))
        shown, shown_reference = ([_shown(*one) for one in _counted(counts)] for counts in (audited, reference))
        records = []
        for code, label in enumerate(found.labels):
            record: dict[str, Any] = {"value": label, "n": shown[code], "n_reference": shown_reference[code]}
            if shown[code]:
                cell = found.codes[mine] == code
                record |= _spread(f[cell], weights[cell])
                record["score"] = float(np.average(score[cell], weights=weights[cell]))
            records.append(record)
        return pl.DataFrame(records, schema=PROFILE_SCHEMA)

    def distribution(self, feature: str, bins: int = BINS) -> pl.DataFrame:
        """Return the distribution of f~ per value of a feature (the paper's Fig. 2), as counts in equal bins.

        Bins with fewer than ten people have no count.
        """
        if not isinstance(bins, int) or isinstance(bins, bool) or bins < 1:
            raise DataError(f"`bins` must be a whole number of at least 1, got {bins!r}.", "40 is the default.")
        found = self._feature(feature)
        mine = self._pair.rows.audited
        f, codes = self._values(mine), found.codes[mine]
        edges = np.histogram_bin_edges(f, bins)
        records = []
        for code, label in enumerate(found.labels):
            counts = np.histogram(f[codes == code], edges)[0]
            for start, stop, one in zip(edges, edges[1:], _counted(counts), strict=False):
                records.append({"value": label, "from": float(start), "to": float(stop), "n": _shown(*one)})
        schema = {"value": pl.String, "from": pl.Float64, "to": pl.Float64, "n": pl.Int64}
        return pl.DataFrame(records, schema=schema)

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
        order = {name: place for place, name in enumerate(self.proxies["feature"])}
        features = tuple(sorted(self._pair.features, key=lambda feature: order[feature.name]))
        pair, atoms, found = self._pair, self._atoms(), ways(self._inputs())
        favourable, moved = pair.favourable[atoms], None
        if found.end is not None:
            moved = np.zeros(len(pair.outcome))
            moved[atoms] = found.end
        rows = Binned(
            pair.rows, pair.outcome, pair.scores, self._log_odds, self._log_ratio, features, self.correction, moved
        )
        rate = None if found.end is None else float(found.end @ favourable)
        return binned(rows) | {
            "path": {name: [_stop(point, favourable) for point in getattr(found, name)] for name in ("green", "red")},
            "least_change": None if found.end is None else {"cost": found.cost, "favourable_rate": rate},
        }

    def prototypes(self, suppress: bool = True) -> dict[str, dict[str, Any]]:
        """Return the feature values where f~ is largest, smallest and nearest to 0 (the paper's Table 1).

        Cells with fewer than ten audited people are withheld unless `suppress` is False, as it may be for public
        data.
        """
        mine = np.flatnonzero(self._pair.rows.audited)
        f = self._values(self._pair.rows.audited)
        codes = np.column_stack([feature.codes[mine] for feature in self._pair.features])
        places = {"max": _first(-f, codes), "min": _first(f, codes), "near_zero": _first(np.abs(f), codes)}
        result: dict[str, dict[str, Any]] = {}
        for name, place in places.items():
            count = int((codes == codes[place]).all(axis=1).sum())
            shown = not suppress or count >= SUPPRESSED_BELOW
            labels = {
                feature.name: feature.labels[code] if shown else None
                for feature, code in zip(self._pair.features, codes[place], strict=True)
            }
            result[name] = {"values": labels, "count": count if shown else None, "correction": float(f[place])}
        return result

    def path(self, weights: Sequence[Any], divergence: str = "kl") -> list[PathPoint]:
        """Return the correction path, one point for each of the weights (λ1, λ2, λ3, λ4).

        `q` of a point has an entry for each audited row that was used, in the order of the table.
        """
        inputs, chosen = self._inputs(), check_divergence(divergence)
        if not np.iterable(weights) or isinstance(weights, str):
            raise WeightsError(f"`weights` must be a list of four numbers each, got {weights!r}.", "see World.path.")
        points: list[PathPoint] = []
        for lam in [check_weights(four) for four in weights]:
            try:
                points.append(path_point(inputs, lam, chosen, points[-1].multipliers if points else None))
            except SupportError:
                hint = "give λ4 the weight 0, or use a divergence that stays finite: 'hellinger', 'js' or 'tv'."
                raise self._out_of_reach(inputs, hint) from None
        return points

    def project(self) -> Projection:
        """Return the least change of the audited group's inputs that removes the gap, as weights on its rows."""
        inputs = self._inputs()
        try:
            q, t = projection(inputs.p0, inputs.channel, inputs.y1)
        except SupportError:
            hint = f"no change of the features of {self.audited!r} alone removes the gap of this model."
            raise self._out_of_reach(inputs, hint) from None
        return Projection(q, check_divergence("kl").between(q, inputs.p0), t)

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the comparison, keyed by attribute name."""
        dial = None if self.dial is None else {name: form.to_dict() for name, form in self.dial.items()}
        return self._numbers() | {"prototypes": self.prototypes(), "dial": dial, "bins": self.bins()}

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

    def _feature(self, name: str) -> Feature:
        for feature in self._pair.features:
            if feature.name == name:
                return feature
        names = [feature.name for feature in self._pair.features]
        raise DataError(f"`feature` must be one of the audit's features, got {name!r}.", f"they are {names}.")

    def _values(self, mine: NDArray[np.bool_]) -> Floats:
        return np.asarray(self.correction(self._log_odds[mine], self._pair.scores[mine]))

    def _atoms(self) -> NDArray[np.intp]:
        """Return the audited rows that count, in the order of the table."""
        rows = self._pair.rows
        mine = np.flatnonzero(rows.audited & (rows.weights > 0))
        return mine[np.argsort(self._pair.places[mine])]

    def _out_of_reach(self, inputs: Inputs, hint: str) -> SupportError:
        """Return the error for outputs that no weights on the audited rows can have, in terms of the scores.

        Every audited row has mass in both groups' distributions of the features; only the scores can lack support.
        """
        low, high = inputs.channel.min(axis=0), inputs.channel.max(axis=0)
        is_binary = len(low) == 2
        y = 1 if is_binary else int(np.argmax(np.maximum(inputs.y1 - high, low - inputs.y1)))
        outcome = "" if is_binary else f" of outcome {y}"
        return SupportError(
            f"the mean score{outcome} of {self.reference!r} must be within reach of the scores of {self.audited!r}, "
            f"got {inputs.y1[y]:.4g} and scores from {low[y]:.4g} to {high[y]:.4g}.",
            hint,
        )

    def _inputs(self) -> Inputs:
        """Return the rows as a finite world: P0 on the audited rows, P1/P0 = e^{−ℓ}, Y1 from the reference rows.

        The atoms are the audited rows in the order of the table.
        """
        rows, scores, mine = self._pair.rows, self._pair.scores, self._atoms()
        channel = scores if scores.ndim == 2 else np.column_stack([1.0 - scores, scores])
        p0 = rows.audited_share[mine]
        log_odds = self._log_odds[mine]
        p1 = p0 * np.exp(-(log_odds - log_odds.min()))
        return Inputs(p0, p1 / p1.sum(), channel[mine], rows.audited_share @ channel, rows.reference_share @ channel)


def _stop(point: PathPoint, favourable: Floats) -> dict[str, float | None]:
    """Return one point of a way: how far the inputs have moved, what is left of the output divergence, the rate."""
    return {
        "weight": point.weights[3],
        "input_change": point.terms[0],
        "output_divergence": point.terms[3],
        "favourable_rate": float(point.q @ favourable),
    }


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
PROFILE_SCHEMA = {
    "value": pl.String,
    "n": pl.Int64,
    "n_reference": pl.Int64,
    "correction": pl.Float64,
    **{f"correction_{round(100 * q)}": pl.Float64 for q in QUANTILES},
    "score": pl.Float64,
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
            for m in sorted(found.mismatches, key=lambda m: (-round(abs(m.difference), 9), m.name))[:20]
        ],
    }


def compare(
    audited: str, reference: str, pair: PairRows, membership: Membership | Floats, name: str, settings: Settings
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
        pair: PairRows,
        membership: Membership | Floats,
        name: str,
        settings: Settings,
    ) -> None:
        self.audited, self.reference, self.pair, self.name, self.settings = audited, reference, pair, name, settings
        self.membership = membership if isinstance(membership, Membership) else None
        self.log_odds = membership.log_odds if isinstance(membership, Membership) else membership
        self.scores = intervals.check_scores(pair.scores, pair.rows)
        self.table = design_columns(sorted(pair.features, key=lambda feature: feature.name))
        with stage(0.0, 0.2, "regressions"):
            self.expected = self._expected_outcome()
        self.notes: list[str] = []

    def comparison(self) -> Comparison:
        pair, rows = self.pair, self.pair.rows
        correction, epsilon_max = self._correction()
        checked = None
        if self.membership is not None:
            # The score itself may depend on the group; what the features lead to expect of it may not.
            labels = {feature.name: feature.labels for feature in pair.features}
            checked = balance(rows, self.table, self.membership, self.expected, labels)
            if not checked.is_adequate:
                self.notes += [f"the membership model is inadequate: {reason}" for reason in checked.reasons]
        inputs = ProxyInputs(
            self.audited, rows, pair.outcome, self.scores, pair.features, self.membership, correction, self.log_odds
        )
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
            rows={"audited": int(rows.audited.sum()), "reference": int((~rows.audited).sum())},
            output=self._output(),
            favourable_rates=Rates(
                *(self._estimate(intervals.group_rate(rows, pair.favourable, who).normal()) for who in (True, False))
            ),
            gap=self._estimate(intervals.gap(rows, pair.outcome).normal()),
            impact_ratio=self._defined(lambda: intervals.impact_ratio(rows, pair.favourable)),
            shortfall=self._estimate(intervals.shortfall(rows, pair.favourable).normal()),
            standardised_difference=self._defined(lambda: intervals.standardised_difference(rows, pair.outcome)),
            output_divergence=self._defined(lambda: intervals.output_divergence(rows, self.scores)),
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
            _pair=pair,
            _log_odds=self.log_odds,
            _log_ratio=self._log_ratio(),
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

    def _output(self) -> Output:
        rows, scores = self.pair.rows, self.scores
        y0, y1 = rows.audited_share @ scores, rows.reference_share @ scores
        if scores.shape[1] == 1:
            return Output(float(y0[0]), float(y1[0]))
        return Output(tuple(y0.tolist()), tuple(y1.tolist()))

    def _correction(self) -> tuple[CorrectionFunction, float]:
        rows, scores = self.pair.rows, self.pair.scores
        weights = None if (rows.weights == 1).all() else rows.weights
        reference, audited = moments_by_group(self.log_odds, scores, rows.audited, 2, weights)
        try:
            correction = correction_function(
                audited, reference, self.settings.input_weight, self.settings.output_weight
            )
        except SupportError as error:
            self.notes.append(f"{str(error).splitlines()[0]} The correction aligns the inputs only.")
            correction = correction_function(audited, reference, self.settings.input_weight or 1.0, 0.0)
        mine = rows.audited & (rows.weights > 0)
        smallest = float(np.min(correction(self.log_odds[mine], scores[mine])))
        return correction, -1.0 / smallest if smallest < 0 else 0.0

    def _log_ratio(self) -> Floats:
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
            return self._defined(lambda: intervals.output_descent_rate(rows, self.scores, settings.output_weight))

        def measured() -> Measured:
            gradients = [
                crossfit.gradient(rows, self.scores, pair, settings.input_weight, settings.output_weight)
                for pair in pairs
            ]
            return crossfit.gradient_variance(rows, gradients).square_root(sign=-1)

        return self._defined(measured)

    def _expected_outcome(self) -> Floats:
        """Return E1[W|X], learnt where the membership is; a constant where nothing is learnt."""
        rows, outcome = self.pair.rows, self.pair.outcome
        if self.membership is None or self.membership.is_known:
            return np.full(len(outcome), rows.mean0(outcome))
        return reference_expectation(rows, self.table, outcome, self.membership.fold, self.settings.seed)

    def _unexplained(self) -> Measured:
        """Return the gap between people with equal features: doubly robust, or by weighting where ℓ is given."""
        rows = self.pair.rows
        if self.membership is None or self.membership.is_known:
            pairs = [crossfit.known_pairing(rows, self.log_odds - prior_log_odds(rows))]
        else:
            pairs = list(self.membership.pairings)
        return crossfit.unexplained(rows, self.pair.outcome, self.expected, pairs).normal()

    def _without_equals(self) -> float:
        """Note and return the share of audited people with a feature value that nobody in the reference has."""
        rows = self.pair.rows
        alone, names = np.zeros(rows.audited.size, dtype=np.bool_), []
        for feature in self.pair.features:
            if feature.name in self.table:
                known = np.bincount(feature.codes[~rows.audited], minlength=len(feature.labels)) > 0
                found = rows.audited & ~known[feature.codes]
                alone |= found
                names += [feature.name] if found.any() else []
        share = rows.mean0(alone.astype(np.float64))
        if names:
            self.notes.append(
                f"{100 * share:.1f} % of the audited group have values that nobody in the reference group has "
                f"({', '.join(sorted(names))}): what is said of them is extrapolated"
            )
        return share

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
        for name, of_group in ((self.audited, rows.audited_share), (self.reference, rows.reference_share)):
            effective = 1.0 / float(of_group @ of_group)
            if effective < FEW_PEOPLE <= np.count_nonzero(of_group):
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
        gap = self._estimate(intervals.gap(rows, self.pair.outcome).normal())
        if gap.low is None or gap.high is None:
            return Estimate(value)
        near, far = sorted((abs(gap.low), abs(gap.high)))
        ends = [_at_gap(p, p1, size) for size in (far, near)]
        return Estimate(value, ends[0], None if gap.low * gap.high <= 0 else ends[1])

    def _test(self) -> intervals.EqualOutputsTest | None:
        if self.settings.folds is None:
            return None
        return intervals.equal_outputs_test(self.pair.rows, self.scores, seed=self.settings.seed)


def _spread(f: Floats, weights: Floats) -> dict[str, float | None]:
    """Return mean and quantiles of f~; a weight counts as that many rows."""
    levels = np.array(QUANTILES) * (1.0 - TIED)  # sums of weights reach a level up to rounding
    ends = np.quantile(f, levels, weights=weights, method="inverted_cdf").tolist()
    quantiles: dict[str, float | None] = {
        f"correction_{round(100 * q)}": end if f.size * min(q, 1 - q) >= SUPPRESSED_BELOW else None
        for q, end in zip(QUANTILES, ends, strict=True)
    }
    return quantiles | {"correction": float(np.average(f, weights=weights))}


def _first(values: Floats, codes: NDArray[np.int64]) -> int:
    """Return the row of the least value, of equals that of the first feature values: the order of rows is no matter."""
    tied = np.flatnonzero(values <= values.min() + TIED)
    return int(tied[np.lexsort(codes[tied].T[::-1])[0]])


def _counted(counts: NDArray[np.integer[Any]]) -> Iterator[tuple[int, bool]]:
    """Yield each count and whether it is kept back."""
    return zip(counts.tolist(), withheld(counts).tolist(), strict=True)


def _shown(count: int, is_withheld: bool) -> int | None:
    """Return a count that no person can be picked out of, else None."""
    return None if is_withheld else count


def _at_gap(p: float, p1: float, size: float) -> float | None:
    """Return the decisions needed if the two rates were `size` apart around the same middle."""
    middle, half = (p + p1) / 2, np.copysign(size / 2, p - p1)
    return _decisions_needed(*(float(np.clip(middle + side * half, 1e-9, 1 - 1e-9)) for side in (1, -1)))


def _decisions_needed(p: float, p1: float) -> float | None:
    pair = TestPair(np.array([1 - p, p]), np.array([1 - p1, p1]))
    try:
        needed = pair.decisions_needed()
    except TiltmeterError:
        return None
    return None if needed is None else float(needed)
