"""The worlds: tables in which it is known what every feature is, and what it carries of the gap.

Kinds of features: *used* reveals the group and moves the score; *ignored* reveals it and is not used; *neutral* is used
and reveals nothing; a *pair* (or *triple*) reveals something together only; *copies* say the same; *noise* has to do
with nothing. A *stand-in* is not used, but correlated with a feature that is; a *moderator* only sets how far the group
itself counts.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planted_proxies.boosting import boosted
from planted_proxies.grid import (
    Block,
    Columns,
    Customers,
    Floats,
    Joint,
    Random,
    Score,
    correlated,
    density,
    exclusive_or,
    expit,
    in_cells,
    normal,
    soft_coefficient,
)

GROUP = "group"  # the name of the group where a model takes it as an input
SHIFT = 0.8  # standard deviations between the groups: beyond the thresholds that tools set to associations
POINTS = 41  # of an axis; half as many again change no truth by 1e-9
MATERIALITY, AMOUNT_MATERIALITY = 0.005, 0.02  # points of scores; standard deviations of amounts
CARRIERS = ("used", "pair", "triple", "copy")


class Truth(NamedTuple):
    """What a feature is, how much of the gap goes through it alone and is lost without it, and how far it is used.

    `use` is twice the standard deviation of the score within people equal in the group and all other features.
    """

    kind: str
    carries: bool
    alone: float
    joint: float
    use: float = 0.0


@dataclass(frozen=True)
class Copy:
    """A feature that is a function of another."""

    name: str
    source: str
    values: Callable[[Any], Any]


@dataclass(frozen=True)
class Draw:
    """A table, everybody's group and score, and the model that made the scores; numbers only."""

    world: World
    seed: int
    table: Columns
    audited: NDArray[np.bool_]  # of unobserved groups the likelier, as for tools that take no probabilities
    scores: Floats
    chance: Floats | None = None  # P(audited), where the group is not known

    @property
    def features(self) -> list[str]:
        """Return the names of the features; the group is not among them."""
        return list(self.table)

    @property
    def inputs(self) -> list[str]:
        """Return the names of the model's inputs, in its order."""
        return [*self.table, GROUP] if self.world.takes_group else list(self.table)

    @property
    def matrix(self) -> Floats:
        """Return the model's inputs, a column each."""
        columns = {**self.table, GROUP: self.audited}
        return np.column_stack([np.asarray(columns[name], dtype=np.float64) for name in self.inputs])

    def predict(self, matrix: Any) -> Floats:
        """Return the model's scores of rows like those of `matrix`."""
        columns = dict(zip(self.inputs, np.asarray(matrix, dtype=np.float64).T, strict=True))
        return np.asarray(self.world.score(columns, columns.get(GROUP, 0.0)), dtype=np.float64)


@dataclass(frozen=True)
class World:
    """Blocks of features, copies of some of them, noise beside, and a model of them and perhaps of the group."""

    name: str
    says: str
    blocks: tuple[Block, ...]
    score: Score
    kinds: Mapping[str, str]
    copies: tuple[Copy, ...] = ()
    noise: int = 3
    takes_group: bool = False
    is_amount: bool = False
    signal: float = 0.0  # log-odds of the group by standard deviation of what is known; 0: the group is known
    stream: str = ""  # worlds of one stream have the same people

    @property
    def noises(self) -> list[str]:
        """Return the names of the features that have to do with nothing."""
        return [f"noise {j}" for j in range(1, self.noise + 1)]

    def draw(self, seed: int, rows: int) -> Draw:
        """Return a table of `rows` people; half of them are audited, each with a chance of its own."""
        rng = np.random.default_rng([seed, zlib.crc32((self.stream or self.name).encode())])
        chance = expit(self.signal * rng.standard_normal(rows)) if self.signal else None
        audited = rng.random(rows) < (0.5 if chance is None else chance)
        table: Columns = {}
        for block in self.blocks:
            table |= block.draw(audited, np.arange(rows), rng)
        table |= {copy.name: copy.values(table[copy.source]) for copy in self.copies}
        table |= {name: _noise(j, rows, rng) for j, name in enumerate(self.noises)}
        scores = np.asarray(self.score(table, audited), dtype=np.float64)
        likelier = audited if chance is None else chance >= 0.5
        return Draw(self, seed, table, likelier, scores, chance)

    @property
    def truths(self) -> dict[str, Truth]:
        """Return what every feature is."""
        return _truths(self.name)[0]

    @property
    def gap(self) -> float:
        """Return the difference of mean scores, audited − reference; of unobserved groups the weighted one."""
        return _truths(self.name)[1]

    @property
    def adjusted_gap(self) -> float:
        """Return the difference left between people alike in all features."""
        return _truths(self.name)[2]

    @property
    def materiality(self) -> float:
        """Return the least difference that counts."""
        return _truths(self.name)[3]

    def known(self) -> tuple[dict[str, Truth], float, float, float]:
        """Return truths, gap, adjusted gap and materiality, by sums over the grid."""
        names = [name for block in self.blocks for name in block.names]
        coefficient, spread = self._soft() if self.signal else self._hard()
        every, used = tuple(range(len(names))), Joint.of_blocks(self.blocks, self._on_grid).uses
        gap, left = coefficient(()), coefficient(every)
        found = {}
        for j, name in enumerate(names):
            others = tuple(i for i in every if i != j)
            is_copied = any(copy.source == name for copy in self.copies)
            joint = 0.0 if is_copied else coefficient(others) - left
            found[name] = self._truth(name, gap - coefficient((j,)), joint, 0.0 if is_copied else used[j])
        found |= {copy.name: self._truth(copy.name, found[copy.source].alone, 0.0, 0.0) for copy in self.copies}
        found |= {name: Truth("noise", False, 0.0, 0.0) for name in self.noises}
        return found, gap, left, AMOUNT_MATERIALITY * spread if self.is_amount else MATERIALITY

    def _truth(self, name: str, alone: float, joint: float, use: float) -> Truth:
        return Truth(self.kinds[name], self.kinds[name] in CARRIERS, alone, joint, use)

    def _on_grid(self, at: Mapping[str, Any], s: Any) -> Any:
        return self.score({**at, **{copy.name: copy.values(at[copy.source]) for copy in self.copies}}, s)

    def _hard(self) -> tuple[Callable[[tuple[int, ...]], float], float]:
        """Return c_A by the axes of A, and the standard deviation of scores within groups."""
        joint = Joint.of_blocks(self.blocks, self._on_grid)
        parts = zip((joint.p0, joint.p1), (joint.w0, joint.w1), joint.means, strict=True)
        return joint.coefficient, float(np.sqrt(np.mean([(p * (w - mean) ** 2).sum() for p, w, mean in parts])))

    def _soft(self) -> tuple[Callable[[tuple[int, ...]], float], float]:
        """Return c_A where the group is known by chances: the first axis of the grid is what is known of it."""
        joint = Joint.of_blocks(self.blocks, self._on_grid)
        z = np.linspace(-6.0, 6.0, POINTS)
        b, mass = expit(self.signal * z), density(z) / density(z).sum()
        shape = (-1, *[1] * joint.p0.ndim)
        # P̄ of (z, x): both groups are half of all, so that the weights of rows are those of people
        weight = (mass * b).reshape(shape) * joint.p0 + (mass * (1 - b)).reshape(shape) * joint.p1
        chance = np.broadcast_to(b.reshape(shape), weight.shape)
        return lambda kept: soft_coefficient(weight, chance, joint.w0[None], tuple(1 + j for j in kept)), 1.0


def _noise(j: int, rows: int, rng: Random) -> NDArray[Any]:
    """Return a normal, a skewed, a binary or a four-valued column."""
    makers = (
        lambda: rng.standard_normal(rows),
        lambda: rng.integers(0, 2, rows),
        lambda: rng.exponential(size=rows),
        lambda: rng.integers(0, 4, rows),
    )
    return makers[j % 4]()


def _triple(names: tuple[str, str, str], audited: float, reference: float) -> Block:
    """Return three signs whose product is 1 with a chance that depends on the group, any two of them fair coins."""
    signs = np.array([-1.0, 1.0])
    product = signs[:, None, None] * signs[:, None] * signs
    p0, p1 = (np.where(product > 0, p, 1 - p) / 4 for p in (audited, reference))

    def draw(s: NDArray[np.bool_], _: Customers, rng: Random) -> Columns:
        one, two = rng.choice([-1, 1], (2, len(s)))
        agree = np.where(rng.random(len(s)) < np.where(s, audited, reference), 1, -1)
        return dict(zip(names, (one, two, one * two * agree), strict=True))

    return Block(names, (signs, signs, signs), p0, p1, draw)


def _mark() -> Block:
    """Return a flag, and a mark that shows the group of 95% of the people who have the flag and of nobody else."""
    names, flags = ("flag", "mark"), np.array([0.0, 1.0])

    def draw(s: NDArray[np.bool_], _: Customers, rng: Random) -> Columns:
        flag, shows = rng.integers(0, 2, len(s)), rng.random(len(s)) < 0.95
        mark = np.where(flag == 1, np.where(shows, s, ~s), rng.integers(0, 2, len(s)))
        return dict(zip(names, (flag, mark), strict=True))

    p0, p1 = (np.array([[0.25, 0.25], [0.5 - 0.5 * p, 0.5 * p]]) for p in (0.95, 0.05))
    return Block(names, (flags, flags), p0, p1, draw)


def _stand_in(correlation: float, own: float = 0.0) -> dict[str, Any]:
    """Return a feature that is correlated with a used one, and moves the log-odds by `own` itself."""
    x = _Features()
    return {
        "blocks": (correlated(x.used, normal("stand-in", 0.0, POINTS), 0.0, correlation), x.neutral),
        "score": lambda at, s: expit(-0.2 + 0.5 * at["used"] + own * at["stand-in"] + 0.3 * at["neutral"]),
        "kinds": {"used": "used", "stand-in": "used" if own else "stand-in", "neutral": "neutral"},
    }


def _continuous(pair: Block) -> Block:
    """Return two numbers whose signs are those of a pair, and whose sizes say nothing."""

    def draw(s: NDArray[np.bool_], customer: Customers, rng: Random) -> Columns:
        signs = pair.draw(s, customer, rng)
        return {name: sign * np.abs(rng.standard_normal(len(s))) for name, sign in signs.items()}

    return Block(pair.names, pair.points, pair.audited, pair.reference, draw)


def _direct(at: Mapping[str, Any], s: Any) -> Any:
    """Return a score that gives the audited five points, whatever their features are."""
    return _no_direct(at, s) + 0.05 * np.asarray(s, dtype=np.float64)


def _no_direct(at: Mapping[str, Any], s: Any) -> Any:
    return 0.1 + 0.8 * expit(-0.3 + 0.5 * at["used"] + 0.4 * at["neutral"])


@dataclass(frozen=True)
class _Features:
    """The features that worlds share."""

    used: Block = field(default_factory=lambda: normal("used", SHIFT, POINTS))
    ignored: Block = field(default_factory=lambda: normal("ignored", SHIFT, POINTS))
    copy: Block = field(default_factory=lambda: normal("copy", SHIFT, POINTS))
    neutral: Block = field(default_factory=lambda: normal("neutral", 0.0, POINTS))
    plain: Mapping[str, str] = field(default_factory=lambda: {k: k for k in ("used", "ignored", "neutral")})


def _worlds() -> list[World]:
    x = _Features()
    direct = {"blocks": (x.used, x.ignored, x.neutral), "kinds": x.plain, "takes_group": True, "stream": "direct"}
    return [
        World(
            "table",
            "a feature that is used, one that is ignored, a neutral one, two copies, noise",
            (x.used, x.ignored, x.copy, x.neutral),
            lambda at, s: expit(
                -0.2 + 0.25 * at["used"] + 0.12 * at["copy"] + 0.12 * (7 - at["other copy"]) / 3 + 0.2 * at["neutral"]
            ),
            {**x.plain, "copy": "copy", "other copy": "copy"},
            copies=(Copy("other copy", "copy", lambda v: 7 - 3 * v),),
            noise=4,
        ),
        World(
            "pair",
            "the product of two signs is 1 for 70% of the audited group and 50% of the reference; "
            "each sign alone is unrelated to both",
            (exclusive_or("left", "right", 0.7, 0.5), x.used),
            lambda at, s: expit(0.4 * at["left"] * at["right"] + 0.2 * at["used"]),
            {"left": "pair", "right": "pair", "used": "used"},
        ),
        World("direct", "the score gives five points to members of the audited group", score=_direct, **direct),
        World("not direct", "the same people and model without these five points", score=_no_direct, **direct),
        World(
            "amounts",
            "a price instead of a score",
            (x.used, x.ignored, x.neutral),
            lambda at, s: 300.0 * np.exp(0.2 * at["used"] + 0.3 * at["neutral"]),
            x.plain,
            is_amount=True,
        ),
        World(
            "unobserved groups",
            "only a probability of the group is observed (AUC 0.86)",
            (x.used, x.ignored, x.neutral),
            lambda at, s: expit(-0.2 + 0.6 * at["used"] + 0.4 * at["neutral"]),
            x.plain,
            signal=2.0,
        ),
        *(
            World(
                f"stand-in{f' {rho}' if rho != 0.8 else ''}",
                f"a feature that the model ignores, but that is correlated with one it uses ({rho})",
                **_stand_in(rho),
            )
            for rho in (0.5, 0.8, 0.95)
        ),
        *(
            World(
                f"used a little {points}",
                f"the same feature (correlation 0.8), which the model uses by {points} point{'s' * (points > 1)}",
                **_stand_in(0.8, own),
            )
            for points, own in ((1, 0.0366), (2, 0.0733), (4, 0.148))
        ),
        World(
            "varying",
            "the score gives 20 points to members of the audited group with a flag; "
            "it ignores a feature that marks the group",
            (_mark(),),
            lambda at, s: 0.5 + 0.2 * s * at["flag"],
            {"flag": "moderator", "mark": "ignored"},
            takes_group=True,
        ),
        World(
            "trees",
            "boosted trees of two features; two others, whose correlation with them is 0.8, are not inputs",
            tuple(
                correlated(
                    in_cells(normal(f"used {k}", SHIFT, POINTS), SHIFT), normal(f"unused {k}", 0.0, POINTS), 0.0, 0.8
                )
                for k in (1, 2)
            ),
            boosted(("used 1", "used 2"), SHIFT, 0.5 * (x.used.points[0][1:] + x.used.points[0][:-1])),
            {"used 1": "used", "used 2": "used", "unused 1": "stand-in", "unused 2": "stand-in"},
        ),
        World(
            "triple",
            "the product of three signs is 1 for 75% of the audited group and 50% of the reference; "
            "no two signs are informative",
            (_triple(("one", "two", "three"), 0.75, 0.5),),
            lambda at, s: expit(0.5 * at["one"] * at["two"] * at["three"]),
            dict.fromkeys(("one", "two", "three"), "triple"),
        ),
        World(
            "signs",
            "a pair as above, of continuous numbers whose signs alone count",
            (_continuous(exclusive_or("left", "right", 0.75, 0.5)),),
            lambda at, s: expit(0.5 * np.sign(at["left"]) * np.sign(at["right"])),
            dict.fromkeys(("left", "right"), "pair"),
        ),
    ]


WORLDS = {world.name: world for world in _worlds()}


@cache
def _truths(name: str) -> tuple[dict[str, Truth], float, float, float]:
    return WORLDS[name].known()
