"""Assess whether the score uses a feature or is only correlated with it; find copies and interacting pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tiltlens._analysis.evidence import Evidence, OutputScale, Settings, output_scale
from tiltlens._estimators import crossfit
from tiltlens._estimators.feature_gap import joint_codes
from tiltlens._estimators.influence import Integers, Rows
from tiltlens._estimators.sets import CellSets, RidgeSets
from tiltlens._estimators.use import UNUSED, Use, cell_products, estimate_uses, squared_uses
from tiltlens._estimators.verdicts import EVIDENCE, Band, Judgement, Verdict, is_beyond
from tiltlens._formats import enumerate_words
from tiltlens._learners.score_use import ScoreUse
from tiltlens._limits import HIDDEN
from tiltlens._notes import MODEL_ITSELF, SCORES_BEHIND, Note
from tiltlens._rows.features import Feature

SYNERGY = 0.02  # smallest share of the correction that two features account for jointly, beyond both alone
PARTNER_SURE = 4.0  # standard errors: high, because many pairs are searched
REDUNDANT = 1.02  # duplicates: the joint share is below this multiple of the smaller share


class Partners(NamedTuple):
    """A feature's partner, whose joint share most exceeds the sum of both shares, and its duplicate, if any."""

    partner: str | None = None
    redundant_with: str | None = None


def partners(
    features: Sequence[Feature], rows: Rows, g: crossfit.Gradient, codes: Sequence[Integers]
) -> dict[str, Partners]:
    """Return the partner and the duplicate of each feature, from two-way tables of g."""
    total = max(crossfit.gradient_variance(rows, [g]).value, 1e-300)
    alone = [_explained(rows, g, code) / total for code in codes]
    related, best = {feature.name: Partners() for feature in features}, [0.0] * len(features)
    for j, k in combinations(range(len(features)), 2):
        width = int(codes[k].max()) + 1
        both = _explained(rows, g, codes[j] * width + codes[k]) / total
        # θ of two features together beyond the sum of both: 0 if g is additive and they are independent.
        synergy, less = both - alone[j] - alone[k], min(alone[j], alone[k])
        # √(2·df/n0² + 4·share·share/n0), its standard error for features that do not interact: df is the product of
        # both (levels − 1), and the second term is the chance correlation of their effects.
        degrees, square = int(codes[j].max()) * (width - 1), rows.square0
        noise = math.sqrt(2 * degrees * square**2 + 4 * alone[j] * alone[k] * square)
        for first, other in ((j, k), (k, j)):
            name, partner = features[first].name, features[other].name
            if synergy > max(SYNERGY, PARTNER_SURE * noise, best[first]):
                best[first], related[name] = synergy, related[name]._replace(partner=partner)
            if less > SYNERGY and both < REDUNDANT * less:
                related[name] = related[name]._replace(redundant_with=partner)
    return related


def _explained(rows: Rows, g: crossfit.Gradient, codes: Integers) -> float:
    """Return Var0(E0[g|cell])."""
    return max(crossfit.explained_variance(rows, g, codes).value, 0.0)


MOST_USES = 20  # features whose use is measured, the strongest first: each may need fits of its own
MOST_STOOD_FOR = 3  # most features that are named as correlated with an unused one
SAME_OUTPUT = 1e-6  # smaller differences between a model's outputs count as none: single precision
NO_INPUT = 0  # number of rows tried if the feature is not an input of the model
Measure = Callable[[Sequence[Sequence[str]]], list[Use]]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureUses:
    """The use of the features with a material contribution, whose verdicts depend on it."""

    use: Mapping[str, Use] = field(default_factory=dict)  # by feature; missing where use was not measured
    # By feature, where the model was asked: the number of rows in which other values left its output unchanged; None
    # where an output changed
    unchanged_rows: Mapping[str, int | None] = field(default_factory=dict)
    # By feature: the other features of a set of which at least one is used, but the data do not show which
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sure: tuple[str, ...] = ()  # the features that are used, but to an unknown extent because values are pooled
    unused: tuple[str, ...] = ()  # the features that may be left out together without a material change of the score

    def columns(self, name: str) -> dict[str, float | None]:
        """Return use and its interval."""
        value, low, high = self.use.get(name) or (None, None, None)
        return {"use": value, "use_low": low, "use_high": high}


def feature_uses(
    evidence: Evidence,
    settings: Settings,
    alone: Mapping[str, Band],
    joint: Mapping[str, Band],
    pairs: Mapping[str, Partners],
) -> FeatureUses:
    """Return the use of the features with a band beyond the materiality threshold, the strongest first."""
    if settings.folds is None or evidence.nuisances.sets is None:
        return FeatureUses()
    m = output_scale(evidence, settings).materiality
    named = _material_features(evidence, alone, joint, m)
    if not named:
        return FeatureUses()
    unchanged_rows = _count_unchanged_rows(evidence, settings, named)
    ignored = [name for name, rows in unchanged_rows.items() if rows is not None]
    rest = [name for name in named if name not in ignored]
    measure = _make_measure(evidence, settings, m, rest, ignored)
    if measure is None:
        return FeatureUses(dict.fromkeys(ignored, UNUSED), unchanged_rows, unused=tuple(ignored))
    use, pooled = dict(zip(rest, measure([[name] for name in rest]), strict=True)), evidence.nuisances.sets.pooled
    sure = tuple(name for name in rest if name in pooled and use[name].low > 0.0)
    rest = [name for name in rest if name not in pooled]
    use = dict.fromkeys(ignored, UNUSED) | {name: use[name] for name in rest}
    # Decisions are too noisy.
    small = [] if evidence.question.is_decisions else [name for name in rest if use[name].high <= m]
    ordered = sorted(small, key=lambda name: (use[name].high, name))
    copies, dropped = _find_copies({name: use[name] for name in ordered}, measure, m)
    for name in rest:  # pairs with significant joint use, although neither feature has significant use given the other
        other = pairs.get(name, Partners()).redundant_with
        is_open = other in rest and name not in copies and use[name].low == use[other].low == 0.0
        if other is not None and is_open and measure([[name, other]])[0].low > 0.0:
            copies |= {name: (other,), other: tuple({*copies.get(other, ()), name})}
    return FeatureUses(use, unchanged_rows, copies, sure, (*ignored, *(name for name in dropped if name not in copies)))


def _material_features(evidence: Evidence, alone: Mapping[str, Band], joint: Mapping[str, Band], m: float) -> list[str]:
    """Return the features with a band beyond the threshold that are not exempt, the strongest first, up to a limit."""
    bands = {name: [band for band in (alone.get(name), joint.get(name)) if band is not None] for name in evidence.table}
    named = [name for name, both in bands.items() if any(is_beyond(band, m) for band in both)]
    named = [name for name in named if name not in evidence.question.exempt]
    return sorted(named, key=lambda name: (-max(abs(band.value) for band in bands[name]), name))[:MOST_USES]


def _find_copies(small: Mapping[str, Use], measure: Measure, m: float) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return which of the little-used features are copies of each other, and which may be dropped together.

    Features are dropped one by one, the least used first, while the use of the dropped set stays immaterial. Copies
    are used more as a set than each alone, because either can replace the other.
    """
    dropped: list[str] = []
    copies: dict[str, tuple[str, ...]] = {}
    for name in small:
        together = measure([[*dropped, name]])[0] if dropped else UNUSED
        if together.high <= m:
            dropped.append(name)
        elif together.low > 0.0 and together.value > max(small[each].high for each in (*dropped, name)):
            pairs = zip(dropped, measure([[name, other] for other in dropped]), strict=True)
            most = {other: max(small[name].high, small[other].high) for other in dropped}
            used = [other for other, both in pairs if both.low > 0.0 and both.value > most[other]]
            group = [name, *(used or dropped)]
            for member in group:
                copies[member] = tuple(sorted({*copies.get(member, ()), *group} - {member}))
    return copies, [name for name in dropped if name not in copies]


def _count_unchanged_rows(evidence: Evidence, settings: Settings, names: Sequence[str]) -> dict[str, int | None]:
    """Return for each feature the number of rows in which another value left the model's output unchanged.

    It is None if any output changed. A feature whose values are all equal is left out.
    """
    if evidence.model is None:
        return {}
    at, inputs = evidence.nuisances.influence_rows, set(evidence.model.features)
    model = evidence.model.rows(at)
    before = evidence.rows.unit.level(evidence.score.column) if evidence.rows.unit.is_amount else evidence.rows.scores
    before = (1.0 - before if evidence.question.metric == "fnr" else before)[at]
    # Each row gets a value that occurs in another row: a cyclic shift of a random order leaves no row in place.
    order = np.random.default_rng(settings.random_state).permutation(at.size)
    source = np.empty_like(order)
    source[order] = np.roll(order, 1)
    unchanged: dict[str, int | None] = {}
    for name in names:
        values = np.asarray(evidence.table[name])[at]
        differs = (values != values[source]) & ~((values != values) & (values[source] != values[source]))
        if name not in inputs:
            unchanged[name] = NO_INPUT
        elif differs.any():
            moved = np.abs(model.scores(name, source) - before) > SAME_OUTPUT * evidence.rows.unit.scale
            unchanged[name] = None if moved.any() else int(differs.sum())
    return unchanged


def _make_measure(
    evidence: Evidence, settings: Settings, m: float, candidates: Sequence[str], ignored: Sequence[str]
) -> Measure | None:
    """Return the function that measures the use of sets of features; None where use cannot be measured.

    The features `ignored` are left out of all regressions, because the model does not use them.
    """
    sets, order = evidence.nuisances.sets, list(evidence.table)
    confidence = settings.for_all(evidence.question.comparisons).confidence

    def positions(names: Sequence[str]) -> list[int]:
        return [order.index(name) for name in names]

    if isinstance(sets, CellSets):
        return _measure_cells(sets, positions, positions(ignored), confidence)
    if not isinstance(sets, RidgeSets):
        return None
    index, features = evidence.nuisances.influence_rows, evidence.rows.features
    use = ScoreUse.of(
        sets,
        {name: column[index] for name, column in evidence.table.items()},
        {feature.name: feature.values[index] for feature in features if feature.values is not None},
        positions(candidates),
        positions(ignored),
        is_probability=evidence.score.is_probability,
        is_decision=evidence.question.is_decisions,
        materiality=m,
        seed=settings.random_state,
    )
    return lambda names: use.measure([positions(own) for own in names], confidence)


def _measure_cells(
    sets: CellSets, positions: Callable[[Sequence[str]], list[int]], ignored: Sequence[int], confidence: float
) -> Measure | None:
    """Return the function that measures use from cells; None if too many people are alone in a cell and group."""

    def codes(left_out: Sequence[int]) -> Integers:
        kept = [position for position in range(sets.features) if position not in left_out]
        cells = joint_codes(sets.levels[:, kept])[0] if kept else np.zeros(len(sets.levels), dtype=np.intp)
        return np.asarray(cells[sets.codes])

    def measure(names: Sequence[Sequence[str]]) -> list[Use]:
        without = [ignored, *([*ignored, *positions(own)] for own in names)]
        products, _ = cell_products(at, sets.outcome, [codes(left_out) for left_out in without])
        return estimate_uses(squared_uses(at, products), confidence)

    at = Rows.of(sets.at.audited, sets.at.weights, sets.at.clusters)
    return measure if cell_products(at, sets.outcome, [codes(())])[1] <= HIDDEN else None


def judged_use(evidence: Evidence, settings: Settings, uses: FeatureUses, name: str, verdict: Judgement) -> Judgement:
    """Return the verdict on a feature, refined by whether the score uses it if its contribution is material."""
    if verdict.verdict not in EVIDENCE:
        return verdict
    words, use = output_scale(evidence, settings), uses.use.get(name)
    has_changed = name in uses.unchanged_rows and uses.unchanged_rows[name] is None
    if name in uses.copies and not has_changed:
        features = enumerate_words(sorted([name, *uses.copies[name]]))
        return Judgement(
            Verdict.PROXY_OR_STAND_IN, Note("one of several used", output=words.measure.each, features=features)
        )
    rows, is_decided = uses.unchanged_rows.get(name), evidence.question.is_decisions
    can_stand_in = (rows is not None or not is_decided) and name not in uses.copies
    if use is not None and use.high <= words.materiality and can_stand_in:
        others = _stands_for(evidence, uses, name, words.materiality)
        return Judgement(Verdict.STAND_IN, Note("stand-in", unused=_unused(rows, use, words), others=others))
    if has_changed or name in uses.sure or (use is not None and use.low > 0.0):
        return verdict
    reason = Note("unsettled use", reason=verdict.reason, doubt=_unsettled(is_decided, use, words))
    return Judgement(Verdict.PROXY_OR_STAND_IN, reason)


def _unused(unchanged_rows: int | None, use: Use, words: OutputScale) -> Note:
    if unchanged_rows == NO_INPUT:
        return Note("not an input")
    if unchanged_rows is not None:
        return Note("model never changed", rows=unchanged_rows, share=3 / unchanged_rows)
    if use.high > 0.01 * words.materiality:
        return Note("scores hardly use", output=words.measure.each, most=words.size_words(use.high))
    return Note("scores do not use", output=words.measure.each)


def _unsettled(is_decided: bool, use: Use | None, words: OutputScale) -> Note:
    """Return why it is open whether the score uses a feature, and what would settle it."""
    if use is None:
        return Note("use not measured", output=words.measure.each)
    settles = f"an audit of {SCORES_BEHIND}," if is_decided else f"more rows or an audit of {MODEL_ITSELF}"
    return Note("use not shown", output=words.measure.each, most=words.size_words(use.high), settles=settles)


def _stands_for(evidence: Evidence, uses: FeatureUses, name: str, m: float) -> str:
    """List features, chosen greedily, given which an unused feature's c_E − c_{E∪j} is not material."""
    order, sets = list(evidence.table), evidence.nuisances.sets
    others = [order.index(other) for other in order if other not in (*uses.unused, *evidence.question.exempt, name)]
    chosen, own = evidence.exempt, order.index(name)
    start = len(chosen)
    while others and sets is not None and len(chosen) - start < MOST_STOOD_FOR:
        candidates = [[*chosen, other] for other in others]
        values = sets.values([*candidates, *([*candidate, own] for candidate in candidates)])
        added = np.abs(values[: len(candidates)] - values[len(candidates) :])
        best = int(added.argmin())
        chosen = candidates[best]
        others.pop(best)
        if added[best] <= m:
            return enumerate_words([order[position] for position in chosen[start:]])
    return "other features"
