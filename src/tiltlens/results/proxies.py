"""The table of proxy evidence: what each feature carries of the gap and of the correction, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tiltlens.errors import SupportError
from tiltlens.estimators import crossfit
from tiltlens.estimators.dial import CORNERS, ShareForm, plug_in_form, share_form
from tiltlens.estimators.estimate import (
    Codes,
    Column,
    Estimate,
    Functional,
    Integers,
    Measured,
    Normal,
    Ratio,
    Rows,
    RowSums,
    averaged,
    combined,
    without_noise,
)
from tiltlens.estimators.feature_gap import carrier, cells, gap_factors
from tiltlens.estimators.outputs import output_term
from tiltlens.estimators.shapley import MOST_FEATURES, is_supported, shapley_gaps, summed_cells
from tiltlens.estimators.verdicts import NOT_JUDGED, holm_confidences, verdict
from tiltlens.models.features import Feature, joined_feature
from tiltlens.models.membership import Membership, prior_log_odds
from tiltlens.models.regressions import left_out_expectations, part_log_ratios
from tiltlens.models.shapley import learned_shapley
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.progress import stage
from tiltlens.results.directions import direction
from tiltlens.results.disclosure import part_of_group
from tiltlens.results.pairs import Learning, Pair
from tiltlens.results.partners import Partners, partners
from tiltlens.results.settings import Settings
from tiltlens.threads import in_threads, steps_in_threads

MOST_CROSSED = 40  # features whose pairs are all looked at
UNLEARNED = 0.005  # of the variance, that regressions may miss without a word
THE_GROUP = "the group itself"

Means = list[tuple[Floats, Floats]]  # of both models, for each pairing


@dataclass(frozen=True, slots=True, eq=False)
class ProxyInputs:
    """What the table is made from; `membership` is None for plug-in values."""

    audited: str
    pair: Pair
    scores: Column
    membership: Membership | None
    correction: CorrectionFunction
    log_odds: Column

    @property
    def rows(self) -> RowSums:
        """What is summed over."""
        return self.pair.rows

    @property
    def outcome(self) -> Column:
        """The score whose gap is measured."""
        return self.pair.outcome

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features on these rows."""
        return self.pair.features


@dataclass(frozen=True, slots=True, eq=False)
class ProxyTable:
    """The table, and what a reader should know of how it was made."""

    frame: pl.DataFrame
    dial: dict[str, ShareForm] | None  # None where outputs have no finite divergence
    remainder: float | None  # of the gap, that the Shapley values leave
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Total:
    """The total share of a feature.

    Attributes
    ----------
    added
        (Var0(E0[g|X]) − Var0(E0[g|X without j]))/Var0(g), in which what neither regression can learn cancels.
    left
        1 − Var0(E0[g|X without j])/Var0(g), which holds it: the same where g can be learnt from X.
    unlearned
        1 − Var0(E0[g|X])/Var0(g). Where it is material, the interval reaches up to that of `left`.
    """

    added: Ratio
    left: Ratio
    unlearned: Ratio

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return what the feature adds, and its interval."""
        added, left = self.added.estimate(confidence), self.left.estimate(confidence)
        if (self.unlearned.estimate(confidence).low or 0.0) <= UNLEARNED:
            return added
        return Estimate(added.value, added.low, max(added.high or 0.0, left.high or 0.0))


def _total(everything: Functional, rest: Functional, variance: Functional) -> Total:
    """Return the total share of a feature from what all features explain, and all but this one."""
    lost = combined(everything.value - rest.value, [(1.0, everything), (-1.0, rest)])
    unlearned = everything.over(variance, is_complement=True)
    return Total(lost.over(variance), rest.over(variance, is_complement=True), unlearned)


def proxy_table(inputs: ProxyInputs, settings: Settings, is_adequate: bool) -> ProxyTable:
    """Return one row a feature, the strongest points of the gap first."""
    return _Table(inputs, settings, is_adequate).built()


class _Table:
    def __init__(self, inputs: ProxyInputs, settings: Settings, is_adequate: bool) -> None:
        self.inputs, self.settings, self.is_adequate = inputs, settings, is_adequate
        self.rows = inputs.rows
        self.features = self.carried = list(inputs.features)
        if inputs.membership is not None:  # a level too rare to leave a row out of has no place in a cross-fit
            self.carried = [joined_feature(one, self.rows, self.rows.undivided) for one in inputs.features]
            self.features = [joined_feature(one, self.rows, inputs.membership.fold) for one in inputs.features]
        self.in_memory = self.rows.audited.size if isinstance(self.rows, Rows) else 0  # of a stream, none
        self.plain = in_threads(
            lambda one: cells(self.rows, inputs.outcome, one.codes), inputs.features, self.in_memory
        )
        self.remainder: float | None = None
        self.forms: dict[str, ShareForm] = {}
        self.learnt: Learning | None = None
        self.has_outputs = self._has_outputs()
        self.notes: list[str] = []

    @property
    def is_plug_in(self) -> bool:
        return self.settings.folds is None

    def built(self) -> ProxyTable:
        records: list[dict[str, Any]] = [{"feature": feature.name} for feature in self.features]
        gaps = self._carriers(records)
        with stage(0.0, 0.2, "Shapley values"):
            self._shapley(records)
        with stage(0.2, 0.3, "shares"):
            self._shares(records)
        with stage(0.3, 0.9, "total shares"):
            totals = self._totals(records)
        with stage(0.9, 1.0, "partners"):
            self._pairs(records)
        self._words(records, gaps, totals)
        order = sorted(range(len(records)), key=lambda j: (-round(abs(gaps[j].value), 12), records[j]["feature"]))
        frame = pl.DataFrame([records[j] for j in order], schema=SCHEMA, infer_schema_length=None)
        dial = self.forms if self.has_outputs else None
        return ProxyTable(frame, dial, self.remainder, tuple(self.notes))

    def _put(self, record: dict[str, Any], name: str, measured: Measured | float | None) -> None:
        if measured is None:
            estimate: Estimate | None = None
        elif isinstance(measured, float):
            estimate = Estimate(measured)
        else:
            estimate = measured.estimate(self.settings.confidence)
        numbers = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
        value, low, high = (None if number is None else without_noise(number) for number in numbers)
        ends = (None, None) if self.is_plug_in else (low, high)
        record |= {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}

    def _carriers(self, records: list[dict[str, Any]]) -> list[Normal]:
        """Put gap(j) and its factors: by plug-in their product is exact, otherwise each is debiased on its own."""
        gaps = []
        outcome = self.inputs.outcome
        every = in_threads(lambda feature: carrier(self.rows, outcome, feature.codes), self.carried, self.in_memory)
        for record, feature, cell, found in zip(records, self.carried, self.plain, every, strict=True):
            gaps.append(found.gap)
            self._put(record, "gap", found.gap)
            factors = gap_factors(cell)
            for name in ("reveals", "drives", "alignment"):
                self._put(record, name, getattr(factors, name) if self.is_plug_in else getattr(found, name))
            if cell.unsupported > 0:
                people0, people1 = self.rows.counts(cell.codes, len(cell.p0))
                who = part_of_group(cell.unsupported, int(people1[people0 == 0].sum()), self.rows.count1)
                self.notes.append(f"{feature.name}: {who} of the reference group have values that nobody audited has")
        return gaps

    def _shapley(self, records: list[dict[str, Any]]) -> None:
        """Put Shapley values from joint cells or, where these are too many for the people, from regressions."""
        found = self._exact_shapley()
        membership = self.inputs.membership
        if not found and membership is not None and not membership.is_known:
            found = self._learned_shapley(membership)
        if not found:
            self.notes.append(
                "gap_shapley is left out: too many combinations of feature values for the number of people"
            )
        for record in records:
            self._put(record, "gap_shapley", found.get(record["feature"]))
        if found:
            whole = self.rows.mean0(self.inputs.outcome) - self.rows.mean1(self.inputs.outcome)
            self.remainder = without_noise(whole - sum(value.value for value in found.values()))

    def _exact_shapley(self) -> dict[str, Normal]:
        if len(self.features) > MOST_FEATURES:
            return {}
        crossed = self.inputs.pair.joint(self.carried)
        if crossed is None:
            return {}
        joint = summed_cells(self.rows, self.inputs.outcome, *crossed)
        if not is_supported(joint, self.rows.count0):
            return {}
        return {feature.name: value for feature, value in zip(self.features, shapley_gaps(joint), strict=True)}

    def _learned_shapley(self, membership: Membership) -> dict[str, Normal]:
        here = self._learning(membership)
        fold = here.membership.fold
        learned = learned_shapley(here.rows, here.table, here.outcome, fold, self.settings.seed)
        self.notes.append(
            f"gap_shapley rests on regressions with {len(here.outcome):,} of {self.people:,} rows, in "
            f"{learned.orders} orders of the features; its outputs hold the error of both"
        )
        return dict(zip(here.table, learned.values, strict=True))

    def _learning(self, membership: Membership) -> Learning:
        """Return the rows that regressions learn from, the same each time."""
        if self.learnt is None:
            self.learnt = self.inputs.pair.learning(membership, self.features, self.settings.seed)
        return self.learnt

    @property
    def people(self) -> int:
        return self.rows.count0 + self.rows.count1

    def _pairings(self) -> list[crossfit.Pairing]:
        membership = self.inputs.membership
        if membership is not None:
            return list(membership.pairings)
        return [crossfit.known_pairing(self.rows, self.inputs.log_odds - prior_log_odds(self.rows))]

    def _gradients(
        self, rows: RowSums, scores: Column, outcome: Column, pairs: Sequence[crossfit.Pairing]
    ) -> dict[str, list[crossfit.Gradient]]:
        """Return g of every pairing, and its two ends: ℓ alone, and the score W whose gap is measured."""
        return {
            "share": [crossfit.gradient(rows, scores, pair, *self._weights()) for pair in pairs],
            "share_inputs": [crossfit.gradient(rows, scores, pair, 1.0, 0.0) for pair in pairs],
            "share_outputs": [_score_gradient(rows, outcome, pair) for pair in pairs],
        }

    def _weights(self) -> tuple[float, float]:
        return self.inputs.correction.input_weight, self.inputs.correction.output_weight

    def _has_outputs(self) -> bool:
        """Return whether the outputs have a finite divergence, so that they can be aligned."""
        try:
            output_term(self.rows, self.inputs.scores)
        except SupportError:
            return False
        return True

    def _shares(self, records: list[dict[str, Any]]) -> None:
        """Put the shares of g, of ℓ and of W, and keep those of g for every (λ2, λ4)."""
        if self.is_plug_in:
            self._plug_in_shares(records)
            return
        pairs = self._pairings()
        scored = [_score_gradient(self.rows, self.inputs.outcome, pair) for pair in pairs]
        spread = crossfit.gradient_variance(self.rows, scored)
        corners = self._corners(pairs)
        wholes = [crossfit.gradient_variance(self.rows, corner) for corner in corners]

        def shared(feature: Feature) -> tuple[ShareForm, Ratio]:
            parts = [self._explained_by(corner, feature) for corner in corners]
            return share_form(_three(parts), _three(wholes)), self._explained_by(scored, feature).over(spread)

        found = steps_in_threads(shared, self.features, self.in_memory)
        for record, feature, (form, outputs) in zip(records, self.features, found, strict=True):
            self.forms[feature.name] = form
            self._put_share(record, feature, "share", form.at(*self._weights()))
            self._put_share(record, feature, "share_inputs", form.at(1.0, 0.0))
            self._put_share(record, feature, "share_outputs", outputs)

    def _corners(self, pairs: Sequence[crossfit.Pairing]) -> list[list[crossfit.Gradient]]:
        """Return g at the corners of the dial: at the first only where outputs cannot be aligned."""
        corners = CORNERS if self.has_outputs else CORNERS[:1]
        return [
            [crossfit.gradient(self.rows, self.inputs.scores, pair, *corner) for pair in pairs] for corner in corners
        ]

    def _explained_by(self, gradients: list[crossfit.Gradient], feature: Feature) -> Functional:
        return averaged([crossfit.explained_variance(self.rows, g, feature.codes) for g in gradients])

    def _put_share(self, record: dict[str, Any], feature: Feature, name: str, ratio: Ratio) -> None:
        plain = next(one for one in self.inputs.features if one.name == feature.name)
        is_pooled = len(feature.labels) == 1 < len(plain.labels)
        if not ratio.is_determined:
            self.notes.append(f"{name} is not determined: what it is a share of cannot be told from 0")
        if is_pooled:
            self.notes.append(f"{feature.name}: too few people for any of its values to have a share")
        self._put(record, name, None if is_pooled else ratio)

    def _plug_in_shares(self, records: list[dict[str, Any]]) -> None:
        f, w = self.inputs.correction, self.inputs.outcome
        slopes = f.log_output_ratio[1:] - f.log_output_ratio[0] if self.has_outputs else np.zeros(f.outcomes - 1)
        spread = self.rows.mean0((w - self.rows.mean0(w)) ** 2)
        for record, feature in zip(records, self.features, strict=True):
            drives = gap_factors(cells(self.rows, w, feature.codes)).drives
            sums = self.inputs.pair.cell_sums(self.inputs.log_odds, feature)
            form = self.forms[feature.name] = plug_in_form(sums.between, f.audited.covariance, slopes)
            self._put(record, "share", form.at(*self._weights()).estimate().value)
            self._put(record, "share_inputs", form.at(1.0, 0.0).estimate().value)
            self._put(record, "share_outputs", drives**2 / spread if spread > 0 else 0.0)

    def _totals(self, records: list[dict[str, Any]]) -> list[dict[str, Measured]]:
        """Put total_share and return, per feature, the totals of ℓ and of W that the verdict needs."""
        membership = self.inputs.membership
        if membership is not None and not membership.is_known:
            totals = self._learned_totals(membership) if self.settings.total_shares else None
        else:
            totals = self._cell_totals()
        for j, record in enumerate(records):
            self._put(record, "total_share", totals[j].get("share") if totals else None)
        return totals or [{} for _ in records]

    def _cell_totals(self) -> list[dict[str, Measured]] | None:
        """Return the totals by joint cells of all features but one, where they hold enough people."""
        usable = [feature for feature in self.features if feature.in_membership]
        crossed = self.inputs.pair.joint(usable)
        if crossed is None or 5 * len(crossed[1]) > self.rows.count0:
            self.notes.append("total_share is left out: too many combinations of feature values for the people")
            return None
        totals: list[dict[str, Measured]] = []
        gradients = self._gradients(self.rows, self.inputs.scores, self.inputs.outcome, self._pairings())
        everything = {name: self._cell_explained(found, crossed[0]) for name, found in gradients.items()}
        for feature in self.features:
            rest = [other for other in usable if other is not feature]
            joint = self.inputs.pair.joint(rest) if rest else None
            cell = self.rows.undivided if joint is None else joint[0]
            names = {"share"} if not rest else set(gradients)  # a single feature is no part of a joint proxy
            totals.append({name: self._cell_total(gradients[name], everything[name], cell) for name in names})
        return totals

    def _cell_total(self, found: list[crossfit.Gradient], everything: Functional, cell: Codes) -> Measured:
        """Return what the cells of all features explain beyond those of all but one."""
        variance = crossfit.gradient_variance(self.rows, found)
        rest = self._cell_explained(found, cell)
        if not self.is_plug_in:
            return _total(everything, rest, variance)
        lost = (everything.value - rest.value) / variance.value if variance.value > 0 else 0.0
        return Normal(lost, 0.0, 0.0, 1.0)

    def _cell_explained(self, found: list[crossfit.Gradient], cell: Codes) -> Functional:
        """Return Var0(E0[g|cell])."""
        if not self.is_plug_in:
            return crossfit.explained_variance(self.rows, found[0], cell)
        sums, size = self.rows.sums0(cell, found[0].a), self.rows.sums0(cell)
        return Functional(float((sums**2 / np.where(size > 0, size, 1.0)).sum()), np.zeros(0))

    def _learned_totals(self, membership: Membership) -> list[dict[str, Measured]]:
        """Return the totals by regressions on all features and on all but one, on a sample where rows are many."""
        here = self._learning(membership)
        if len(here.outcome) < self.people:
            self.notes.append(f"total_share rests on a sample of {len(here.outcome):,} of {self.people:,} rows")
        totals = {feature.name: _certain_totals(feature, len(here.table)) for feature in self.features}
        if len(here.table) == 1:
            return list(totals.values())
        at = self._gradients(here.rows, here.scores, here.outcome, here.membership.pairings)
        for name, fitted in self._expectations(here, at["share"][0]).items():
            variance = crossfit.gradient_variance(here.rows, at[name])
            everything, *others = (_explained(here.rows, at[name], one) for one in fitted)
            for feature, rest in zip(here.table, others, strict=True):
                totals[feature][name] = _total(everything, rest, variance)
        return list(totals.values())

    def _expectations(self, here: Learning, g: crossfit.Gradient) -> dict[str, list[Means]]:
        """Return the regressions of ℓ, of W and of g = λ2·ℓ + λ4·T on all features and on all but each one."""
        (l2, l4), parts = self._weights(), len(here.membership.parts)

        def learned(targets: list[Floats]) -> list[Means]:
            return list(left_out_expectations(here.rows, here.table, here.membership, targets, self.settings.seed))

        with stage(0.0, 0.4):
            inputs = learned(part_log_ratios(here.rows, here.membership))
        with stage(0.4, 0.8):
            outputs = learned([here.outcome] * parts)
        found = {"share_inputs": inputs, "share_outputs": outputs}
        if g.output is None:
            return found | {"share": _mixed(inputs, outputs, l2, 0.0)}
        if g.output.slopes.size == 1:
            return found | {"share": _mixed(inputs, outputs, l2, l4 * float(g.output.slopes[0]))}
        with stage(0.8, 1.0):
            term = learned([g.output.values()] * parts)
        return found | {"share": _mixed(inputs, term, l2, l4)}

    def _pairs(self, records: list[dict[str, Any]]) -> None:
        """Put the partner with which a feature carries most beyond what both carry alone, and its duplicate."""
        usable = [feature for feature in self.features if feature.in_membership]
        found: dict[str, Partners] = {}
        if len(usable) > MOST_CROSSED:
            self.notes.append(f"partners are not looked for among more than {MOST_CROSSED} features")
        else:
            found = partners(usable, *self._plug_in_gradient(usable))
        for record in records:
            record |= found.get(record["feature"], Partners())._asdict()

    def _plug_in_gradient(self, features: list[Feature]) -> tuple[Rows, crossfit.Gradient, tuple[Integers, ...]]:
        """Return g of the model fitted on all rows, and the features' codes, on a sample where there are many rows."""
        found = self.inputs.pair.sample(self.inputs.log_odds, features, self.settings.seed)
        ell = found.log_odds - prior_log_odds(found.rows)
        pair = crossfit.known_pairing(found.rows, np.clip(ell, -crossfit.CLIP, crossfit.CLIP))
        return found.rows, crossfit.gradient(found.rows, found.scores, pair, *self._weights()), found.codes

    def _words(self, records: list[dict[str, Any]], gaps: list[Normal], totals: list[dict[str, Measured]]) -> None:
        judged = [j for j, feature in enumerate(self.features) if not feature.is_group]
        levels = holm_confidences([gaps[j] for j in judged], self.settings.materiality, self.settings.confidence)
        adjusted = dict(zip(judged, levels, strict=True))
        for j, (record, feature) in enumerate(zip(records, self.features, strict=True)):
            plain = self.inputs.features[j]
            people = self.rows.counts(plain.codes, len(plain.labels))
            record["direction"] = direction(feature, self.plain[j], plain, self.inputs.audited, people)
            record["notes"] = "; ".join(feature.notes)
            record["verdict"] = THE_GROUP if feature.is_group else self._verdict(gaps[j], totals[j], adjusted[j])

    def _verdict(self, gap: Normal, totals: dict[str, Measured], adjusted: float) -> str:
        if self.is_plug_in:
            return NOT_JUDGED
        inputs, outputs = totals.get("share_inputs"), totals.get("share_outputs")
        confidence, materiality = self.settings.confidence, self.settings.materiality
        return verdict(gap, inputs, outputs, materiality, confidence, adjusted, self.is_adequate)


def _certain_totals(feature: Feature, features: int) -> dict[str, Measured]:
    """Return the totals that need no regression: none for a feature that does not vary, all for the only one.

    The only feature has no totals of ℓ and of W: there is nothing for it to be a joint proxy with.
    """
    if feature.kind == "constant":
        return dict.fromkeys(("share", "share_inputs", "share_outputs"), Normal(0.0, 0.0))
    return {"share": Normal(1.0, 0.0)} if features == 1 and feature.in_membership else {}


def _three(corners: list[Functional]) -> list[Functional]:
    """Return the values at the three corners of the dial; outputs that cannot be aligned count for nothing."""
    if len(corners) == 3:
        return corners
    inputs = corners[0]
    return [inputs, combined(0.0, [(0.0, inputs)]), inputs]


def _score_gradient(rows: RowSums, outcome: Column, pair: crossfit.Pairing) -> crossfit.Gradient:
    """Return W as a gradient: the slope k of T = k·W cancels in every share, and its error with it."""
    centred = crossfit.fold_centred(rows, outcome, pair.fold) * float(not rows.is_constant(outcome))  # 0, not rounding
    return crossfit.Gradient(centred, centred, pair, None, 0.0, 0.0, pair.a is pair.b)


def _mixed(inputs: list[Means], outputs: list[Means], l2: float, l4: float) -> list[Means]:
    """Return λ2·E0[ℓ|·] + λ4·E0[T|·] of both models of every pairing."""
    return [
        [(l2 * i[0] + l4 * o[0], l2 * i[1] + l4 * o[1]) for i, o in zip(*one, strict=True)]
        for one in zip(inputs, outputs, strict=True)
    ]


def _explained(rows: Rows, gradients: list[crossfit.Gradient], fitted: Means) -> Functional:
    """Return Var0(E0[g|X_A]), averaged over pairings, from its regressions."""
    return averaged([crossfit.learned_variance(rows, g, *m) for g, m in zip(gradients, fitted, strict=True)])


def _with_ends(names: tuple[str, ...]) -> dict[str, Any]:
    return {column: pl.Float64 for name in names for column in (name, f"{name}_low", f"{name}_high")}


SCHEMA: dict[str, Any] = (
    {"feature": pl.String}
    | _with_ends(("gap", "gap_shapley", "reveals", "drives", "alignment", "share", "share_inputs", "share_outputs"))
    | _with_ends(("total_share",))
    | dict.fromkeys(("direction", "partner", "redundant_with", "verdict", "notes"), pl.String)
)
