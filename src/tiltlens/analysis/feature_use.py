"""Does the score use a feature, or does the feature stand in for one that is used?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiltlens.analysis.evidence import Evidence
from tiltlens.analysis.exempt import exempt_places
from tiltlens.analysis.partners import Partners
from tiltlens.analysis.presentation import OutputScale, output_scale
from tiltlens.analysis.settings import Settings
from tiltlens.estimators.cells import joint_codes
from tiltlens.estimators.influence import Integers, Rows
from tiltlens.estimators.sets import CellSets, RidgeSets, SetCoefficients
from tiltlens.estimators.use import UNUSED, Use, cell_products, squared_uses, uses
from tiltlens.estimators.verdicts import EVIDENCE, Band, Judgement, Verdict, is_beyond
from tiltlens.learners.score_use import ScoreUse
from tiltlens.limits import HIDDEN, MOST_STOOD_FOR, MOST_USES, SAME_OUTPUT, SMALL_RESIDUAL

UNSEEN = 0  # rows that had to be asked about, where the model does not see the feature
Measure = Callable[[Sequence[Sequence[str]], Sequence[str]], list[Use]]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureUses:
    """What is known of the use of features that a verdict would name.

    Attributes
    ----------
    use
        By feature; none where it was not looked at, or cannot be measured.
    asked
        The features that the model was asked about, and how many rows of other values left its outputs as they were;
        None where it changed one.
    copies
        The features of which one is used, as far as the data tell, and those that it cannot be told from.
    sure
        The features that are used, but so many of whose values were joined that nobody knows how much.
    unused
        The features that may be left out together without a material change of the score.
    """

    use: Mapping[str, Use] = field(default_factory=dict)
    asked: Mapping[str, int | None] = field(default_factory=dict)
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sure: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    def columns(self, name: str) -> dict[str, float | None]:
        """Return use and its ends."""
        found = self.use.get(name)
        value, low, high = (None, None, None) if found is None else found
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
    both = {name: [band for band in (alone.get(name), joint.get(name)) if band is not None] for name in evidence.table}
    named = [name for name, found in both.items() if any(is_beyond(band, m) for band in found)]
    named = [name for name in named if name not in evidence.question.exempt]
    named.sort(key=lambda name: (-max(abs(band.value) for band in both[name]), name))
    if not named:
        return FeatureUses()
    asked = _asked(evidence, settings, named[:MOST_USES])
    ignored = [name for name, rows in asked.items() if rows is not None]
    rest = [name for name in named[:MOST_USES] if name not in ignored]
    measured = _measured(evidence, settings, m)
    if measured is None:
        return FeatureUses(dict.fromkeys(ignored, UNUSED), asked, unused=tuple(ignored))
    found = dict(zip(rest, measured([[name] for name in rest], ignored), strict=True))
    sure = tuple(name for name in rest if name in evidence.nuisances.sets.pooled and found[name].low > 0.0)
    rest = [name for name in rest if name not in evidence.nuisances.sets.pooled]
    found = dict.fromkeys(ignored, UNUSED) | {name: found[name] for name in rest}
    hardly = [
        name for name in rest if found[name].high <= m and not evidence.question.is_decisions
    ]  # decisions are too noisy
    small = sorted(hardly, key=lambda name: (found[name].high, name))
    copies, dropped = _copies(small, ignored, measured, m)
    for name in rest:  # pairs that are used as surely as neither of them alone is
        other = pairs.get(name, Partners()).redundant_with
        is_open = other in rest and name not in copies and found[name].low == found[other].low == 0.0
        if other is not None and is_open and measured([[name, other]], ignored)[0].low > 0.0:
            copies |= {name: (other,), other: tuple({*copies.get(other, ()), name})}
    return FeatureUses(found, asked, copies, sure, (*ignored, *(name for name in dropped if name not in copies)))


def _copies(
    small: Sequence[str], ignored: Sequence[str], measured: Measure, m: float
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return which of the hardly used features are copies of each other, and those that are not used together.

    They are left out one by one, the least used first, while the use of all that are left out stays immaterial. Of
    copies, one is surely used though neither seems to be.
    """
    dropped: list[str] = []
    copies: dict[str, tuple[str, ...]] = {}
    for name in small:
        together = measured([[*dropped, name]], ignored)[0] if dropped else UNUSED
        if together.high <= m:
            dropped.append(name)
        elif together.low > 0.0:
            pairs = measured([[name, other] for other in dropped], ignored)
            group = [name, *([other for other, both in zip(dropped, pairs, strict=True) if both.low > 0.0] or dropped)]
            for one in group:
                copies[one] = tuple(sorted({*copies.get(one, ()), *group} - {one}))
    return copies, [name for name in dropped if name not in copies]


def _asked(evidence: Evidence, settings: Settings, names: Sequence[str]) -> dict[str, int | None]:
    """Return for each feature the rows whose values were exchanged without any change of the model's outputs.

    None where an output changed. A feature whose values are all equal is left out.
    """
    if evidence.model is None:
        return {}
    at, seen = evidence.nuisances.influence_rows, set(evidence.model.features)
    model = evidence.model.rows(at)
    before = evidence.rows.unit.level(evidence.score.column) if evidence.rows.unit.is_amount else evidence.rows.scores
    before = (1.0 - before if evidence.question.criterion == "fnr" else before)[at]
    order = np.random.default_rng(settings.random_state).permutation(at.size)
    source = np.empty_like(order)
    source[order] = np.roll(order, 1)
    found: dict[str, int | None] = {}
    for name in names:
        values = np.asarray(evidence.table[name])[at]
        differs = (values != values[source]) & ~((values != values) & (values[source] != values[source]))
        if name not in seen:
            found[name] = UNSEEN
        elif differs.any():
            moved = np.abs(model.scores(name, source) - before) > SAME_OUTPUT * evidence.rows.unit.scale
            found[name] = None if moved.any() else int(differs.sum())
    return found


def _measured(evidence: Evidence, settings: Settings, m: float) -> Measure | None:
    """Return what measures the use of sets of features, others being left out before; None where nothing can."""
    sets, order = evidence.nuisances.sets, list(evidence.table)
    squared: Callable[[Sequence[Sequence[int]]], SetCoefficients] | None = None
    missed: Callable[[], float] = float
    if isinstance(sets, CellSets):
        squared = _cell_squares(sets)
    elif isinstance(sets, RidgeSets):
        table = {name: column[evidence.nuisances.influence_rows] for name, column in evidence.table.items()}
        numbers = {
            one.name: one.values[evidence.nuisances.influence_rows]
            for one in evidence.rows.features
            if one.values is not None
        }
        has_odds, is_decided = evidence.score.is_probability, evidence.question.is_decisions
        least = SMALL_RESIDUAL * m
        use = ScoreUse.of(
            sets, table, numbers, has_odds and not is_decided, not is_decided, least, seed=settings.random_state
        )
        squared, missed = use.squared, float if is_decided else lambda: use.missed
    if squared is None:
        return None
    confidence = settings.for_all(evidence.question.comparisons).confidence

    def measured(names: Sequence[Sequence[str]], before: Sequence[str]) -> list[Use]:
        if not names:
            return []
        places = [[order.index(one) for one in (*before, *own)] for own in names]
        found = squared([*places, places[0][: len(before)]] if before else places)
        if before:
            found = found.combined(np.vstack([np.eye(len(names)), -np.ones((1, len(names)))]))
        return uses(found, confidence, missed(), m)

    return measured


def _cell_squares(sets: CellSets) -> Callable[[Sequence[Sequence[int]]], SetCoefficients] | None:
    """Return what makes U of sets from cells; None where too many people have no equal in their group."""

    def codes(left_out: Sequence[int]) -> Integers:
        kept = [place for place in range(sets.features) if place not in left_out]
        cells = joint_codes(sets.levels[:, kept])[0] if kept else np.zeros(len(sets.levels), dtype=np.intp)
        return np.asarray(cells[sets.codes])

    def squared(left_out: Sequence[Sequence[int]]) -> SetCoefficients:
        return squared_uses(at, cell_products(at, sets.outcome, [codes(one) for one in ((), *left_out)])[0])

    at = Rows.of(sets.at.audited, sets.at.weights, sets.at.clusters)
    return squared if cell_products(at, sets.outcome, [codes(())])[1] <= HIDDEN else None


def judged_use(evidence: Evidence, settings: Settings, known: FeatureUses, name: str, found: Judgement) -> Judgement:
    """Return the verdict of a feature with a material contribution: whether the score uses it, or it stands in."""
    if found.verdict not in EVIDENCE:
        return found
    words, use = output_scale(evidence, settings), known.use.get(name)
    was_changed = name in known.asked and known.asked[name] is None
    if name in known.copies and not was_changed:
        return Judgement(
            Verdict.PROXY_OR_STAND_IN,
            f"one of {_listed(sorted([name, *known.copies[name]]))}; the data cannot tell which",
        )
    is_shown = known.asked.get(name) is not None or not evidence.question.is_decisions
    if use is not None and use.high <= words.materiality and is_shown and name not in known.copies:
        with_others = _stands_for(evidence, known, name, words.materiality)
        return Judgement(
            Verdict.STAND_IN, f"{_unused(known.asked.get(name), use, words)}; it is correlated with {with_others}"
        )
    if was_changed or name in known.sure or (use is not None and use.low > 0.0):
        return found
    return Judgement(Verdict.PROXY_OR_STAND_IN, f"{found.reason}; {_unsettled(evidence, use, words)}")


def _unused(asked: int | None, use: Use, words: OutputScale) -> str:
    if asked == UNSEEN and asked is not None:
        return "the model does not take it as an input"
    if asked is not None:
        return (
            f"the model's output never changed with it ({asked:,} rows asked, so in less than {3 / asked:.2%} of rows)"
        )
    most = f" (at most {words.size(use.high)} {words.measure.unit})" if use.high > 0.01 * words.materiality else ""
    return f"{_user(words)} does not use it{most}"


def _user(words: OutputScale) -> str:
    return "the score" if words.measure.output == "score" else "the model"


def _unsettled(evidence: Evidence, use: Use | None, words: OutputScale) -> str:
    """Return why it is not known whether the score uses a feature, and what would settle it."""
    if use is None:
        return f"whether {_user(words)} uses it was not measured, and `model` would settle it"
    known = f"{_user(words)} may not use it (use 0 to {words.size(use.high)} {words.measure.unit})"
    scores = "the scores behind the decisions" if evidence.question.is_decisions else "more rows"
    return f"{known}, and `model` or {scores} would settle it"


def _stands_for(evidence: Evidence, known: FeatureUses, name: str, m: float) -> str:
    """Return the features beside which a stand-in adds nothing material, found one by one; c_E − c_{E∪j} shows it."""
    order, sets = list(evidence.table), evidence.nuisances.sets
    others = [place for place, one in enumerate(order) if one not in (*known.unused, *evidence.question.exempt, name)]
    chosen, own = exempt_places(evidence), order.index(name)
    start = len(chosen)
    while others and sets is not None and len(chosen) - start < MOST_STOOD_FOR:
        tried = [[*chosen, one] for one in others]
        values = sets.values([*tried, *([*one, own] for one in tried)])
        left = np.abs(values[: len(tried)] - values[len(tried) :])
        best = int(left.argmin())
        chosen = tried[best]
        others.pop(best)
        if left[best] <= m:
            return _listed([order[place] for place in chosen[start:]])
    return "other features"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
