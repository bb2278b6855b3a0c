"""Rows of a comparison as bins and cell sums, which can be added: what figures and the report are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tiltlens.engines.arrays import below, chunks
from tiltlens.estimators.shares import AuditedSums
from tiltlens.limits import (
    CACHE_CHUNK,
    CORRECTION_BINS,
    EDGE_ROUNDING,
    FINE,
    FINE_REACH,
    JOINT_VALUES,
    MOVING_VALUES,
    RATIO_BINS,
    SCORE_BINS,
)
from tiltlens.models.features import Feature
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.results.disclosure import Booleans, Integers, withheld

EVERYONE = "\0everyone"  # among features, as one of a single value; no table has a name with a NUL in it


@dataclass(frozen=True, slots=True, eq=False)
class Binned:
    """Rows of a comparison, all of them or a batch, ready to be binned.

    Attributes
    ----------
    audited, weights, outcome, scores
        Who is audited, row weights, the score whose gap is measured, and all scores, (n,) or (n, K).
    log_odds
        Of being audited, from one fit on all rows; with the prior.
    log_ratio
        Cross-fitted where there is a cross-fit, without the prior.
    features
        In the order of the table of proxy evidence.
    moved
        Each row's share of the audited group after the least change that removes the gap, up to a factor; None where
        there is none.
    """

    audited: Booleans
    weights: Floats
    outcome: Floats
    scores: Floats
    log_odds: Floats
    log_ratio: Floats
    features: tuple[Feature, ...]
    moved: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """People and their weights in each bin, in both groups, added with `+`."""

    counts: tuple[Integers, Integers]
    weights: tuple[Floats, Floats]

    def __add__(self, other: Tally) -> Tally:
        counts, weights = (
            tuple(one + more for one, more in zip(*both, strict=True))
            for both in ((self.counts, other.counts), (self.weights, other.weights))
        )
        return Tally((counts[0], counts[1]), (weights[0], weights[1]))

    def changed(self, change: Callable[[Any], Any]) -> Tally:
        """Return the tally in the bins that `change` makes of these."""
        counts, weights = ([change(one) for one in both] for both in (self.counts, self.weights))
        return Tally((counts[0], counts[1]), (weights[0], weights[1]))

    def shares(self, group: int) -> list[float | None]:
        """Return each bin's share of a group (0 the audited, 1 the reference), None where it is withheld."""
        share = self.weights[group] / self.weights[group].sum()
        hidden = withheld(self.counts[group])
        return [None if is_hidden else min(float(part), 1.0) for part, is_hidden in zip(share, hidden, strict=True)]


def _tally(audited: Booleans, weights: Floats | None, block: _Block) -> Tally:
    """Return the tally of both groups by the joint values of a block; no weights where all are 1."""
    bins = block.cells
    if weights is None:
        mine, everyone = np.bincount(block.mine, minlength=bins), np.bincount(block.codes, minlength=bins)
        return Tally((mine, everyone - mine), (mine.astype(np.float64), (everyone - mine).astype(np.float64)))
    of_both = block.codes + bins * ~audited
    counts, weighed = np.bincount(of_both, minlength=2 * bins), _weighed(of_both, weights, 2 * bins)
    return Tally((counts[:bins], counts[bins:]), (weighed[:bins], weighed[bins:]))


def _weighed(places: Integers, weights: Floats, bins: int) -> Floats:
    return np.asarray(np.bincount(places, weights, bins), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class ValueTally:
    """Sums over each value of a feature, added with `+`.

    Attributes
    ----------
    people
        Both groups' people.
    sums
        Of (ℓ, W_1, …) over the audited people.
    score, moved
        Σ w·W of the audited people, and their weight after the least change (None where there is none).
    fine
        Their weight by value and fine bin of f~, for each dial position and then the correction; none where values are
        too many.
    crowd
        How many of them there; `fine` itself where every weight is 1.
    """

    people: Tally
    sums: AuditedSums
    score: Floats
    moved: Floats | None
    fine: Floats
    crowd: Floats

    def __add__(self, other: ValueTally) -> ValueTally:
        fine, is_plain = self.fine + other.fine, self.crowd is self.fine and other.crowd is other.fine
        return ValueTally(
            self.people + other.people,
            self.sums + other.sums,
            self.score + other.score,
            None if self.moved is None or other.moved is None else self.moved + other.moved,
            fine,
            fine if is_plain else self.crowd + other.crowd,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Tallies:
    """Every bin and cell sum of a comparison, added with `+`.

    `expected` is Σ w·e^ℓ over the reference people of each calibration bin.
    """

    score: Tally
    overlap: Tally
    calibration: Tally
    expected: Floats
    correction: tuple[Tally, ...]
    profiles: dict[str, ValueTally]

    def __add__(self, other: Tallies) -> Tallies:
        return Tallies(
            self.score + other.score,
            self.overlap + other.overlap,
            self.calibration + other.calibration,
            self.expected + other.expected,
            tuple(one + more for one, more in zip(self.correction, other.correction, strict=True)),
            {name: one + other.profiles[name] for name, one in self.profiles.items()},
        )


def tallied(found: Binned, positions: Sequence[CorrectionFunction], edges: Floats) -> Tallies:
    """Return the bins of these rows, f~ at each position among them; `edges` are those of the calibration.

    Positions are those of the dial, and then the correction.
    """
    places, bins = below(edges, found.log_ratio + EDGE_ROUNDING, or_equal=True), len(edges) + 1
    mine, others = np.flatnonzero(found.audited), np.flatnonzero(~found.audited)
    ratio = found.weights[others] * np.exp(found.log_ratio[others])
    is_weighted = not bool((found.weights == 1.0).all())

    def tally(block: _Block) -> Tally:
        return _tally(found.audited, found.weights if is_weighted else None, block)

    score, overlap = _places(found.outcome, 0.0, 1.0, SCORE_BINS), _places(found.log_ratio, -4.0, 4.0, RATIO_BINS)
    columns = {"calibration": (places, bins), "overlap": (overlap, RATIO_BINS), "score": (score, SCORE_BINS)}
    plain = _block(len(places), columns, mine)
    counted = tally(plain)
    rows = _audited(found, mine, is_weighted, positions[-1].audited.mean)
    room = int((np.cumsum([len(feature.labels) for feature in found.features]) <= MOVING_VALUES).sum())
    drawn = [_feature_block(len(places), features, mine) for features in _packed(found.features[:room])]
    undrawn = [_feature_block(len(places), [feature], mine) for feature in found.features[room:]]
    fine, crowd = _fine_tables(rows, drawn, positions)
    profiles: dict[str, ValueTally] = {}
    for block in (*drawn, *undrawn):
        profiles |= _value_tallies(rows, block, tally(block), fine, crowd)
    return Tallies(
        score=counted.changed(partial(plain.by_value, "score")),
        overlap=counted.changed(partial(plain.by_value, "overlap")),
        calibration=counted.changed(partial(plain.by_value, "calibration")),
        expected=_weighed(places[others], ratio, bins),
        correction=tuple(_correction_tally(*both) for both in zip(crowd[EVERYONE], fine[EVERYONE], strict=True)),
        profiles=profiles,
    )


def _places(values: Floats, low: float, high: float, bins: int) -> Integers:
    """Return the bin of each value among equal ones, the ends open; made in a few rows' space, which is reused."""
    places = np.empty(len(values), dtype=np.intp)
    space = np.empty(min(len(values), CACHE_CHUNK))
    for part in chunks(len(values), CACHE_CHUNK):
        x = space[: len(values[part])]
        np.subtract(values[part], low, out=x)
        x *= bins / (high - low)
        x += EDGE_ROUNDING
        places[part] = np.clip(x, 0, bins - 1, out=x)
    return places


class _Block(NamedTuple):
    """Columns whose values are counted together: how many each has, joint codes of everyone and of the audited."""

    sizes: dict[str, int]
    codes: Integers
    mine: Integers

    @property
    def cells(self) -> int:
        """How many joint values there may be."""
        return math.prod(self.sizes.values())

    def by_value(self, name: str, table: Any) -> Any:
        """Return a table of joint values, its first axis, as one of the values of a column, or of everyone."""
        apart = table.reshape(*self.sizes.values(), *table.shape[1:])
        return apart.sum(axis=tuple(axis for axis, other in enumerate(self.sizes) if other != name))


def _block(rows: int, columns: Mapping[str, tuple[Integers, int]], mine: Integers) -> _Block:
    """Return columns as a block, each by its codes and how many there may be; `mine` are the audited rows."""
    joint = np.zeros(rows, dtype=np.intp)
    for codes, size in columns.values():
        joint *= size
        joint += codes
    return _Block({name: size for name, (_, size) in columns.items()}, joint, joint[mine])


def _feature_block(rows: int, features: Sequence[Feature], mine: Integers) -> _Block:
    return _block(rows, {one.name: (one.codes, len(one.labels)) for one in features}, mine)


def _packed(features: Sequence[Feature]) -> list[list[Feature]]:
    """Return features in as few parts as keep the joint values of each few."""
    parts: list[list[Feature]] = [[]]
    for feature in sorted(features, key=lambda one: len(one.labels)):
        if parts[-1] and math.prod(len(one.labels) for one in (*parts[-1], feature)) > JOINT_VALUES:
            parts.append([])
        parts[-1].append(feature)
    return parts


def _fine_tables(
    rows: _Audited, blocks: Sequence[_Block], positions: Sequence[CorrectionFunction]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return f~ of the audited people in fine bins at each position, by value of each feature: weights, and people."""
    sizes = {EVERYONE: 1} | {name: size for block in blocks for name, size in block.sizes.items()}
    crowd = {name: np.empty((len(positions), size, FINE)) for name, size in sizes.items()}
    fine = crowd if rows.weights is None else {name: np.empty_like(table) for name, table in crowd.items()}
    wanted = [(crowd, None)] if rows.weights is None else [(crowd, None), (fine, rows.weights)]
    starts = [block.mine * FINE for block in blocks]
    places, keys = (np.empty(len(rows.log_odds), dtype=np.intp) for _ in range(2))
    for number, f in enumerate(map(_in_fine_bins, positions)):
        for part in chunks(len(places), CACHE_CHUNK):
            x = np.asarray(f(rows.log_odds[part], rows.scores[part]))
            places[part] = np.clip(x, 0, FINE - 1, out=x)
        for block, start in zip(blocks, starts, strict=True):
            np.add(start, places, out=keys)
            for tables, weights in wanted:
                table = np.bincount(keys, weights, block.cells * FINE).reshape(-1, FINE)
                for name in (EVERYONE, *block.sizes):
                    tables[name][number] = block.by_value(name, table)
    return fine, crowd


def _in_fine_bins(f: CorrectionFunction) -> CorrectionFunction:
    """Return f~ with the fine bins as its unit, from where the first begins."""
    unit = 2 * FINE_REACH / FINE
    on_scores = tuple(on / unit for on in f.on_scores)
    return replace(
        f,
        intercept=(f.intercept + FINE_REACH) / unit + EDGE_ROUNDING,
        on_log_odds=f.on_log_odds / unit,
        on_scores=on_scores,
    )


def _correction_tally(crowd: Floats, fine: Floats) -> Tally:
    """Return the tally of f~ of the audited people in wider bins; nobody else is counted."""
    counts, weights = (coarse(one[0], CORRECTION_BINS) for one in (crowd.astype(np.int64), fine))
    return Tally((counts, np.zeros_like(counts)), (weights, np.zeros_like(weights)))


class _Audited(NamedTuple):
    """The audited rows of a batch; no weights where all are 1. `centred` are w·(ℓ, W_1, …) less its pivot."""

    weights: Floats | None
    log_odds: Floats
    scores: Floats
    outcome: Floats
    moved: Floats | None
    pivot: Floats
    centred: list[Floats]


def _audited(found: Binned, mine: Integers, is_weighted: bool, pivot: Floats) -> _Audited:
    weights = found.weights[mine] if is_weighted else None
    log_odds, scores = found.log_odds[mine], found.scores[mine]
    columns = [log_odds, *(scores[:, 1:].T if scores.ndim == 2 else [scores])]
    centred = [column - at for column, at in zip(columns, pivot, strict=True)]
    outcome, moved = found.outcome[mine], None if found.moved is None else found.moved[mine]
    if weights is not None:
        centred, outcome = [weights * column for column in centred], weights * outcome
    return _Audited(weights, log_odds, scores, outcome, moved, pivot, centred)


def _value_tallies(
    rows: _Audited, block: _Block, people: Tally, fine: dict[str, Floats], crowd: dict[str, Floats]
) -> dict[str, ValueTally]:
    """Return the sums by value of each feature of a block."""
    sums = np.column_stack([_weighed(block.mine, column, block.cells) for column in rows.centred])
    score = _weighed(block.mine, rows.outcome, block.cells)
    moved = None if rows.moved is None else _weighed(block.mine, rows.moved, block.cells)
    nothing, found = np.zeros((0, 0, FINE)), {}
    for name in block.sizes:
        by_value = partial(block.by_value, name)
        mine = people.changed(by_value)
        found[name] = ValueTally(
            people=mine,
            sums=AuditedSums(rows.pivot, mine.weights[0], by_value(sums)),
            score=by_value(score),
            moved=None if moved is None else by_value(moved),
            fine=fine.get(name, nothing),
            crowd=crowd.get(name, nothing),
        )
    return found


def coarse(fine: Any, bins: int) -> Any:
    """Return counts or weights in equal bins from −4 to 4, the ends open, each a union of fine bins."""
    wide = round(FINE * 8.0 / (2 * FINE_REACH) / bins)
    starts = round(FINE * (FINE_REACH - 4.0) / (2 * FINE_REACH)) + wide * np.arange(bins)
    starts[0] = 0
    return np.add.reduceat(fine, starts, axis=-1)
