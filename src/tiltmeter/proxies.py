"""The table of proxy evidence: what each feature carries of the gap and of the correction, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from tiltmeter.engines.arrays import cell_sums
from tiltmeter.models.features import Feature, design_columns, merged_feature
from tiltmeter.models.membership import Membership, prior_log_odds, sampled_membership
from tiltmeter.models.regressions import subset_expectations
from tiltmeter.settings import Settings
from tiltmeter.theory import crossfit
from tiltmeter.theory.carriers import Cells, carrier, cells, gap_factors
from tiltmeter.theory.checks import Floats
from tiltmeter.theory.correction import CorrectionFunction, correction_function
from tiltmeter.theory.shapley import compact, is_supported, joint_cells, shapley_gaps
from tiltmeter.theory.shares import share
from tiltmeter.theory.uncertainty import Estimate, Integers, Measured, Normal, Rows
from tiltmeter.theory.verdicts import UNDECIDED, holm_confidences, verdict

SAMPLED_ROWS = 20_000  # for total shares and partners, which fit and cross many tables
MOST_CROSSED = 40  # features whose pairs are all looked at
SYNERGY = 0.02  # of the correction, that two features carry together and not alone
THE_GROUP = "the group itself"
ENDS = {"share": None, "share_inputs": (1.0, 0.0), "share_outputs": (0.0, 1.0)}


@dataclass(frozen=True, slots=True, eq=False)
class ProxyInputs:
    """What the table is made from; `membership` is None for plug-in values."""

    audited: str
    rows: Rows
    outcome: Floats
    scores: Floats
    features: tuple[Feature, ...]
    membership: Membership | None
    correction: CorrectionFunction
    log_odds: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ProxyTable:
    """The table, and what a reader should know of how it was made."""

    frame: pl.DataFrame
    notes: tuple[str, ...]


def proxy_table(inputs: ProxyInputs, settings: Settings, is_adequate: bool) -> ProxyTable:
    """Return one row a feature, the strongest points of the gap first."""
    return _Table(inputs, settings, is_adequate).built()


class _Table:
    def __init__(self, inputs: ProxyInputs, settings: Settings, is_adequate: bool) -> None:
        self.inputs, self.settings, self.is_adequate = inputs, settings, is_adequate
        self.rows = inputs.rows
        nobody = np.zeros(len(inputs.outcome), dtype=np.intp)
        fold = nobody if inputs.membership is None else inputs.membership.fold
        self.features = [merged_feature(feature, self.rows.audited, fold) for feature in inputs.features]
        self.plain = [cells(self.rows, inputs.outcome, feature.codes) for feature in inputs.features]
        self.notes: list[str] = []

    @property
    def is_plug_in(self) -> bool:
        return self.settings.folds is None

    def built(self) -> ProxyTable:
        records: list[dict[str, Any]] = [{"feature": feature.name} for feature in self.features]
        gaps = self._carriers(records)
        self._shapley(records)
        gradients = self._gradients()
        self._shares(records, gradients)
        totals = self._totals(records)
        self._pairs(records)
        self._words(records, gaps, totals)
        order = sorted(range(len(records)), key=lambda j: (-abs(gaps[j].value), records[j]["feature"]))
        frame = pl.DataFrame([records[j] for j in order], schema=SCHEMA, infer_schema_length=None)
        return ProxyTable(frame, tuple(self.notes))

    def _put(self, record: dict[str, Any], name: str, measured: Measured | float | None) -> None:
        if measured is None:
            estimate: Estimate | None = None
        elif isinstance(measured, float):
            estimate = Estimate(measured)
        else:
            estimate = measured.estimate(self.settings.confidence)
        value, low, high = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
        ends = (None, None) if self.is_plug_in else (low, high)
        record |= {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}

    def _carriers(self, records: list[dict[str, Any]]) -> list[Normal]:
        """Put gap(j) and its factors: by plug-in their product is exact, otherwise each is debiased on its own."""
        gaps = []
        for record, feature, cell in zip(records, self.features, self.plain, strict=True):
            found = carrier(self.rows, self.inputs.outcome, feature.codes)
            gaps.append(found.gap)
            self._put(record, "gap", found.gap)
            factors = gap_factors(cell)
            for name in ("reveals", "drives", "alignment"):
                self._put(record, name, getattr(factors, name) if self.is_plug_in else getattr(found, name))
            if cell.unsupported > 0:
                share_of_rows = f"{100 * cell.unsupported:.1f} %"
                self.notes.append(
                    f"{feature.name}: {share_of_rows} of the reference group have values that nobody audited has"
                )
        return gaps

    def _shapley(self, records: list[dict[str, Any]]) -> None:
        joint = joint_cells(self.rows, self.inputs.outcome, [feature.codes for feature in self.features])
        supported = is_supported(joint, int(self.rows.audited.sum()))
        if not supported:
            self.notes.append(
                "gap_shapley is left out: too many combinations of feature values for the number of people"
            )
        values = shapley_gaps(joint) if supported else [None] * len(records)
        for record, value in zip(records, values, strict=True):
            self._put(record, "gap_shapley", value)

    def _pairings(self) -> list[crossfit.Pairing]:
        membership = self.inputs.membership
        if membership is not None:
            return list(membership.pairings)
        return [crossfit.known_pairing(self.rows, self.inputs.log_odds - prior_log_odds(self.rows))]

    def _gradients(self) -> dict[str, list[crossfit.Gradient]]:
        """Return g of every pairing at the settings' weights and at both ends of the dial."""
        ends = {name: weights or (self._weights()) for name, weights in ENDS.items()}
        return {
            name: [crossfit.gradient(self.rows, self.inputs.scores, pair, *weights) for pair in self._pairings()]
            for name, weights in ends.items()
        }

    def _weights(self) -> tuple[float, float]:
        return self.inputs.correction.input_weight, self.inputs.correction.output_weight

    def _shares(self, records: list[dict[str, Any]], gradients: dict[str, list[crossfit.Gradient]]) -> None:
        for name, found in gradients.items():
            if self.is_plug_in:
                self._plug_in_shares(records, name)
                continue
            variance = crossfit.gradient_variance(self.rows, found)
            for record, feature in zip(records, self.features, strict=True):
                ratio = crossfit.feature_share(self.rows, found, variance, feature.codes)
                if not ratio.is_determined:
                    self.notes.append(f"{name} is not determined: there is too little to correct")
                self._put(record, name, ratio)

    def _plug_in_shares(self, records: list[dict[str, Any]], name: str) -> None:
        rows, f = self.rows, self._correction_at(ENDS[name])
        mine = rows.audited
        scores = self.inputs.scores[:, 0] if self.inputs.scores.shape[1] == 1 else self.inputs.scores
        for record, feature in zip(records, self.features, strict=True):
            sums = cell_sums(
                self.inputs.log_odds[mine], scores[mine], feature.codes[mine], len(feature.labels), rows.weights[mine]
            )
            self._put(record, name, share(sums, f))

    def _correction_at(self, weights: tuple[float, float] | None) -> CorrectionFunction:
        f = self.inputs.correction
        if weights is None:
            return f
        return correction_function(f.audited, f.reference, *weights)

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
        codes = np.column_stack([feature.codes for feature in usable])
        if 5 * len(compact(codes)[1]) > int(self.rows.audited.sum()):
            self.notes.append("total_share is left out: too many combinations of feature values for the people")
            return None
        totals: list[dict[str, Measured]] = []
        gradients = self._gradients()
        for feature in self.features:
            rest = [other.codes for other in usable if other is not feature]
            cell = compact(np.column_stack(rest))[0] if rest else np.zeros(len(codes), dtype=np.int64)
            totals.append({name: self._cell_total(found, cell) for name, found in gradients.items()})
        return totals

    def _cell_total(self, found: list[crossfit.Gradient], cell: Integers) -> Measured:
        variance = crossfit.gradient_variance(self.rows, found)
        if self.is_plug_in:
            g = found[0].a
            sums = np.bincount(cell, self.rows.audited_share * g)
            size = np.bincount(cell, self.rows.audited_share)
            between = float((sums**2 / np.where(size > 0, size, 1.0)).sum())
            return Normal(1.0 - between / variance.value if variance.value > 0 else 0.0, 0.0, 0.0, 1.0)
        explained = crossfit.explained_variance(self.rows, found[0], cell)
        return explained.over(variance, is_complement=True)

    def _learned_totals(self, membership: Membership) -> list[dict[str, Measured]] | None:
        """Return the totals by regressions on all features but one, on a sample where there are many rows."""
        rows, scores, table, part = self._sampled(membership)
        if len(table) < 2:
            return [{name: Normal(1.0, 0.0, 0.0, 1.0) for name in ENDS} for _ in self.features]
        seed = self.settings.seed
        at = {
            name: [crossfit.gradient(rows, scores, pair, *(weights or self._weights())) for pair in part.pairings]
            for name, weights in ENDS.items()
        }
        variances = {name: crossfit.gradient_variance(rows, found) for name, found in at.items()}
        l2, l4 = self._weights()
        totals: list[dict[str, Measured]] = []
        for feature in self.features:
            if feature.name not in table:
                totals.append({})
                continue
            rest = [name for name in table if name != feature.name]
            inputs, outputs = (
                subset_expectations(rows, table, part, at[end][0], rest, seed)
                for end in ("share_inputs", "share_outputs")
            )
            both = [(l2 * i[0] + l4 * o[0], l2 * i[1] + l4 * o[1]) for i, o in zip(inputs, outputs, strict=True)]
            fitted = {"share": both, "share_inputs": inputs, "share_outputs": outputs}
            totals.append({name: crossfit.subset_total(rows, at[name], variances[name], fitted[name]) for name in ENDS})
        return totals

    def _sampled(self, membership: Membership) -> tuple[Rows, Floats, dict[str, Any], Membership]:
        table = design_columns(self.features)
        size = len(self.inputs.outcome)
        if size <= SAMPLED_ROWS:
            return self.rows, self.inputs.scores, table, membership
        self.notes.append(f"total_share rests on a sample of {SAMPLED_ROWS:,} of {size:,} rows")
        index = np.sort(np.random.default_rng(self.settings.seed).choice(size, SAMPLED_ROWS, replace=False))
        rows = Rows.of(self.rows.audited[index], self.rows.weights[index])
        sampled = {name: column[index] for name, column in table.items()}
        return rows, self.inputs.scores[index], sampled, sampled_membership(rows, membership, index)

    def _pairs(self, records: list[dict[str, Any]]) -> None:
        """Put the partner with which a feature carries most beyond what both carry alone, and its duplicate."""
        for record in records:
            record |= {"partner": None, "redundant_with": None}
        usable = [j for j, feature in enumerate(self.features) if feature.in_membership]
        if len(usable) > MOST_CROSSED:
            self.notes.append(f"partners are not looked for among more than {MOST_CROSSED} features")
            return
        explained, total = self._explained_by_pairs(usable)
        best: dict[int, float] = {}
        for (j, k), both in explained.items():
            if j == k:
                continue
            alone = (explained[j, j], explained[k, k])
            synergy = (both - sum(alone)) / total
            for one, other in ((j, k), (k, j)):
                if synergy > max(SYNERGY, best.get(one, 0.0)):
                    best[one], records[one]["partner"] = synergy, self.features[other].name
                if min(alone) > SYNERGY * total and both < 1.02 * min(alone):
                    records[one]["redundant_with"] = self.features[other].name

    def _explained_by_pairs(self, usable: list[int]) -> tuple[dict[tuple[int, int], float], float]:
        """Return Var0(E0[g|X_j, X_k]) of single features (j = k) and pairs, on a sample, and Var0(g)."""
        size = len(self.inputs.outcome)
        index = np.arange(size)
        if size > SAMPLED_ROWS:
            index = np.sort(np.random.default_rng(self.settings.seed).choice(size, SAMPLED_ROWS, replace=False))
        rows = Rows.of(self.rows.audited[index], self.rows.weights[index])
        ell = self.inputs.log_odds[index] - prior_log_odds(rows)
        pair = crossfit.known_pairing(rows, np.clip(ell, -crossfit.CLIP, crossfit.CLIP))
        g = crossfit.gradient(rows, self.inputs.scores[index], pair, *self._weights())
        variance = crossfit.gradient_variance(rows, [g]).value
        explained = {}
        for j, k in combinations([*usable, *usable], 2):
            if (j, k) in explained or (k, j) in explained:
                continue
            one, other = self.features[j].codes[index], self.features[k].codes[index]
            cell = one if j == k else compact(np.column_stack([one, other]))[0]
            explained[j, k] = max(crossfit.explained_variance(rows, g, cell).value, 0.0)
        return explained, max(variance, 1e-300)

    def _words(self, records: list[dict[str, Any]], gaps: list[Normal], totals: list[dict[str, Measured]]) -> None:
        judged = [j for j, feature in enumerate(self.features) if not feature.is_group]
        levels = holm_confidences([gaps[j] for j in judged], self.settings.materiality, self.settings.confidence)
        confidence = dict(zip(judged, levels, strict=True))
        for j, (record, feature) in enumerate(zip(records, self.features, strict=True)):
            record["direction"] = direction(feature, self.plain[j], self.inputs.features[j], self.inputs.audited)
            record["notes"] = "; ".join(feature.notes)
            record["verdict"] = THE_GROUP if feature.is_group else self._verdict(j, gaps[j], totals[j], confidence[j])

    def _verdict(self, j: int, gap: Normal, totals: dict[str, Measured], confidence: float) -> str:
        if self.is_plug_in:
            return UNDECIDED
        return verdict(
            gap,
            totals.get("share_inputs"),
            totals.get("share_outputs"),
            self.settings.materiality,
            confidence,
            self.is_adequate,
        )


def direction(feature: Feature, cell: Cells, plain: Feature, audited: str) -> str:
    """Return in words how the score and the group follow the feature."""
    used = cell.p0 > 0
    if used.sum() < 2:
        return "does not vary"
    if plain.is_ordered:
        level = np.arange(len(cell.p0), dtype=np.float64)
        higher = _trend(cell.p0, level, cell.means) > 0
        commoner = float(cell.p0 @ level) > float(cell.p1 @ level)
        return (
            f"more {feature.name} → {'higher' if higher else 'lower'} score, and "
            f"{'more' if commoner else 'less'} common among {audited}"
        )
    pull = (cell.p0 - cell.p1) * cell.means
    top = int(np.argmax(np.abs(np.where(used, pull, 0.0))))
    return (
        f"{feature.name} = {plain.labels[top]} → {'higher' if cell.means[top] > 0 else 'lower'} score, and "
        f"{'more' if cell.p0[top] > cell.p1[top] else 'less'} common among {audited}"
    )


def _trend(weight: Floats, x: Floats, y: Floats) -> float:
    share_of = weight / weight.sum()
    return float(share_of @ ((x - share_of @ x) * (y - share_of @ y)))


def _with_ends(names: tuple[str, ...]) -> dict[str, Any]:
    return {column: pl.Float64 for name in names for column in (name, f"{name}_low", f"{name}_high")}


SCHEMA: dict[str, Any] = (
    {"feature": pl.String}
    | _with_ends(("gap", "gap_shapley", "reveals", "drives", "alignment", "share", "share_inputs", "share_outputs"))
    | _with_ends(("total_share",))
    | dict.fromkeys(("direction", "partner", "redundant_with", "verdict", "notes"), pl.String)
)
