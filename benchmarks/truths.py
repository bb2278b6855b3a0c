"""Worlds whose every number is known: features and scores to draw from, and what an audit of them should say.

Truths are sums over the joint distribution of the features that matter, on a grid so fine that more points change no
digit that is read; none of the library's estimators is used. Noise is independent of everything: it carries nothing.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from planted_proxies.grid import (
    Block,
    Columns,
    Customers,
    Floats,
    Joint,
    Random,
    correlated,
    exclusive_or,
    levels,
    noise,
    normal,
    values_on_grid,
)
from scipy.special import expit, logit, rel_entr
from sklearn.linear_model import LogisticRegression

CLIP = 4.0  # |ℓ| beyond this is set to it: the estimators' target is that of the clipped log-ratio
FINE, FINEST = 2_001, 20_001  # points of an axis along which a score jumps
OWN_GROUP = 0.8  # of the rows of a customer have the customer's group, the others one of their own
ALL = ("gap", "impact_ratio", "standardised_difference", "output_divergence", "descent_rate", "input_divergence")
ALL += ("adjusted_gap", "gap_explained_by_exempt", "gap_given_exempt")
ALL += ("fpr_difference", "fnr_difference", "calibration_difference", "auc_difference")
EACH = ("alone", "beyond_others", "share", "shapley")
MATERIALITY, AMOUNT_MATERIALITY = 0.005, 0.02  # points of scores, standard deviations of amounts


@dataclass(frozen=True)
class World:
    """Blocks of features, a score of them and perhaps of the group (`s`, 1 for the audited), and noise beside."""

    name: str
    blocks: tuple[Block, ...]
    score: Callable[[Mapping[str, Any], Any], Any]
    rows: int
    noise: int = 1
    audited: float = 0.4
    is_counted: bool = False  # so many rows are audited, to one, rather than each with that chance
    threshold: float | None = None
    is_drawn: bool = False  # the outputs are decisions, drawn with the score as their chance
    is_amount: bool = False  # the outputs are amounts, of which the score is the mean
    spread: float = 0.0  # of the logarithm of amounts around it, normal
    is_clustered: bool = False  # 2 to 6 rows are of one customer
    jitter: float = 0.0  # the score of a customer's rows is higher, or lower, by at most so much
    exempt: tuple[str, ...] = ()  # features that are lawful factors
    outcome: Callable[[Any, Any], Any] | None = None  # its chance by score and group; outputs alone are then audited
    is_given: bool = False  # P(audited|x) is a column, from a logistic model of as many other rows
    left_out: tuple[str, ...] = ()  # quantities whose truth is not what is estimated
    idle: tuple[str, ...] = ()  # features that carry nothing although the score or the group knows them

    @property
    def features(self) -> list[str]:
        """Return the names of the features that are on the grid."""
        return [name for block in self.blocks for name in block.names]

    @property
    def noises(self) -> list[str]:
        """Return the names of the features that carry nothing."""
        return [f"noise {j}" for j in range(self.noise)]

    def draw(self, seed: int, rows: int | None = None) -> tuple[pl.DataFrame, dict[str, Any]]:
        """Return a table and the options of its audit."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])  # worlds must not err together
        size = self.rows if rows is None else rows
        customer = np.arange(size)
        if self.is_clustered:
            customer = np.repeat(customer, rng.integers(2, 7, size))[:size]
        s, drawn = self._people(size, rng, customer)
        columns = {"group": np.where(s, "a", "b"), "score": self._outputs(drawn, s, rng, customer)}
        texts = {name for block in self.blocks if block.is_text for name in block.names}
        for name, values in drawn.items():
            columns[name] = np.char.add("level ", values.astype(str)) if name in texts else values
        columns |= {name: noise(j, s, rng) for j, name in enumerate(self.noises)}
        options: dict[str, Any] = {"group": "group", "reference": "b", "scores": "score", "threshold": self.threshold}
        options |= {"score_type": "amount" if self.is_amount else "probability", "exempt": list(self.exempt) or None}
        if self.is_clustered:
            columns["customer"], options["clusters"] = customer, "customer"
        if self.is_given:
            whose, others = self._people(size, rng, np.arange(size))
            known, unknown = (np.column_stack([one[name] for name in self.features]) for one in (others, drawn))
            columns["p"] = LogisticRegression(C=np.inf).fit(known, whose).predict_proba(unknown)[:, 1]
            options["propensity"] = "p"
        if self.outcome is not None:
            columns["outcome"] = (rng.random(size) < self.outcome(columns["score"], s)).astype(np.int64)
            options |= {"outcome": "outcome", "features": []}
        return pl.DataFrame(columns), options

    def _outputs(self, drawn: Columns, s: NDArray[np.bool_], rng: Random, customer: Customers) -> Floats:
        """Return everybody's score, decision or amount."""
        score: Floats = np.asarray(self.score(drawn, s), dtype=np.float64)
        if self.jitter:
            score = score + self.jitter * rng.uniform(-1, 1, len(s))[customer]
        if self.is_drawn:
            score = (rng.random(len(s)) < score).astype(np.float64)
        return score * np.exp(self.spread * rng.standard_normal(len(s)) - self.spread**2 / 2) if self.spread else score

    def _people(self, size: int, rng: Random, customer: Customers) -> tuple[NDArray[np.bool_], Columns]:
        """Return who is audited, and everybody's features; a customer may have rows of both groups."""
        s, drawn = rng.random(size) < self.audited, {}
        if self.is_counted:
            s = rng.permutation(size) < round(self.audited * size)
        if self.is_clustered:
            s = np.where(rng.random(size) < OWN_GROUP, (rng.random(size) < self.audited)[customer], s)
        for block in self.blocks:
            drawn |= block.draw(s, customer, rng)
        return s, drawn

    def truths(self) -> dict[str, float]:
        """Return the value of every quantity that is known: "gap", "alone(proxy)" and so on."""
        return _truths(self.name)

    def materiality(self) -> float:
        """Return the smallest difference that counts, unless an audit is asked for another: of amounts by their sd."""
        return AMOUNT_MATERIALITY * _Joint.of(self).spread(self.spread) if self.is_amount else MATERIALITY

    def _known(self) -> dict[str, float]:
        joint = _Joint.of(self)
        names, every = self.features, range(len(self.features))
        start = tuple(j for j in every if names[j] in self.exempt)
        y0, y1 = joint.means
        found = {"gap": y0 - y1, "impact_ratio": y0 / y1, "adjusted_gap": joint.coefficient(tuple(every))}
        found |= {"audited_rate": y0, "reference_rate": y1}
        if self.is_amount:
            found["standardised_difference"] = found["gap"] / joint.spread(self.spread)
        else:
            found["output_divergence"] = float(rel_entr([y0, 1 - y0], [y1, 1 - y1]).sum())
        if self.outcome is not None:
            return found | joint.error_rates(self)
        if start:
            left = joint.coefficient(start)
            found |= {"gap_explained_by_exempt": found["gap"] - left, "gap_given_exempt": left}
        g, ell = joint.gradient(self.is_amount)
        variance = joint.variance(g) + ((joint.slope * self.jitter) ** 2 / 3 if self.jitter else 0.0)  # of a uniform
        found |= {"descent_rate": -math.sqrt(variance), "input_divergence": float((joint.p0 * ell).sum())}
        for j, name in enumerate(names):
            if variance > 1e-12:
                found[f"share({name})"] = joint.variance(g, j) / variance
            if j not in start:
                others = tuple(i for i in every if i != j)
                alone = joint.coefficient(tuple(sorted((*start, j))))
                found[f"alone({name})"] = joint.coefficient(start) - alone
                found[f"beyond_others({name})"] = joint.coefficient(others) - found["adjusted_gap"]
                found[f"shapley({name})"] = joint.shapley(j, start)
        for name in self.noises:
            found |= {f"{quantity}({name})": 0.0 for quantity in EACH if quantity != "share" or variance > 1e-12}
        return {k: v for k, v in found.items() if k.split("(")[0] not in self.left_out}


@dataclass(frozen=True)
class _Joint(Joint):
    """The grid of a world, and what an audit should say of it."""

    @classmethod
    def of(cls, world: World) -> _Joint:
        found = cls.of_blocks(world.blocks, world.score)
        if world.threshold is None:
            return found
        return cls(found.p0, found.p1, *((w > world.threshold).astype(np.float64) for w in (found.w0, found.w1)))

    def spread(self, of_logs: float) -> float:
        """Return √((Var0(W) + Var1(W))/2) of amounts whose logarithm has this spread around that of their mean."""
        variances = [
            float((p * w**2).sum()) * math.exp(of_logs**2) - mean**2
            for p, w, mean in zip((self.p0, self.p1), (self.w0, self.w1), self.means, strict=True)
        ]
        return math.sqrt(sum(variances) / 2)

    def gradient(self, is_amount: bool = False) -> tuple[Floats, Floats]:
        """Return g = ℓ + k·W of the audited, and ℓ; of amounts, whose channel is another, ℓ alone."""
        tiny = np.finfo(float).tiny
        ell = np.clip(np.log(np.maximum(self.p0, tiny)) - np.log(np.maximum(self.p1, tiny)), -CLIP, CLIP)
        return (ell, ell) if is_amount else (ell + self.slope * self.w0, ell)

    @property
    def slope(self) -> float:
        """Return k, of the score in g."""
        y0, y1 = self.means
        return float(logit(y0) - logit(y1))

    def variance(self, g: Floats, j: int | None = None) -> float:
        """Return Var0(g), or Var0(E0[g|X_j])."""
        centred = g - float((self.p0 * g).sum())
        if j is None:
            return float((self.p0 * centred**2).sum())
        others = tuple(axis for axis in range(g.ndim) if axis != j)
        chance, total = self.p0.sum(axis=others), (self.p0 * centred).sum(axis=others)
        return float((total**2 / np.maximum(chance, np.finfo(float).tiny)).sum())

    def error_rates(self, world: World) -> dict[str, float]:
        """Return the differences of error rates: sums over the grid, and over its pairs of points for the AUC."""
        at, found = values_on_grid(world.blocks), []
        for p, w, s in ((self.p0, self.w0, 1.0), (self.p1, self.w1, 0.0)):
            chance = np.broadcast_to(world.outcome(world.score(at, s), s), p.shape)
            having, lacking = p * chance, p * (1.0 - chance)
            fpr, tpr = (float((part * w).sum() / part.sum()) for part in (lacking, having))
            order = np.unique(w, return_inverse=True)[1].ravel()
            mass, below = np.bincount(order, having.ravel()), np.bincount(order, lacking.ravel())
            auc = float(mass @ (np.cumsum(below) - below / 2) / (mass.sum() * below.sum()))
            found.append((fpr, 1.0 - tpr, float((p * (chance - w)).sum()), auc))
        names = ("fpr_difference", "fnr_difference", "calibration_difference", "auc_difference")
        return {name: one - other for name, one, other in zip(names, *found, strict=True)}

    def shapley(self, j: int, start: tuple[int, ...] = ()) -> float:
        """Return feature j's Shapley value over c_E − c_{E∪A}, E the exempt ones; noise has no part in any set."""
        count = self.p0.ndim - len(start)
        others = [i for i in range(self.p0.ndim) if i != j and i not in start]
        total = 0.0
        for size in range(count):
            weight = math.factorial(size) * math.factorial(count - size - 1) / math.factorial(count)
            for kept in combinations(others, size):
                without = tuple(sorted((*start, *kept)))
                total += weight * (self.coefficient(without) - self.coefficient(tuple(sorted((*without, j)))))
        return total


def _linear(at: Mapping[str, Any], s: Any) -> Any:
    return expit(-0.3 + 0.6 * at["proxy"] + 0.5 * at["neutral"])


def _forty(at: Mapping[str, Any], s: Any) -> Any:
    return expit(-0.3 + 0.5 * at["proxy"] + 0.4 * at["neutral"] - 0.2 * at["region"])


def _steps(at: Mapping[str, Any], s: Any) -> Any:
    x = at["proxy"]
    return 0.2 + 0.15 * (x > -1.0) + 0.25 * (x > 0.0) + 0.2 * (x > 0.8) + 0.1 * expit(at["neutral"])


def _direct(at: Mapping[str, Any], s: Any) -> Any:
    """Return a score that takes 5 points from the audited, whatever their features are."""
    return 0.1 + 0.8 * _linear(at, s) - 0.05 * np.asarray(s, dtype=np.float64)


def _repaid(score: Any, s: Any) -> Any:
    """Return the chance of an outcome that the audited have more often than the score says."""
    return 0.1 + 0.75 * score + 0.08 * np.asarray(s, dtype=np.float64)


def _lognormal(at: Mapping[str, Any], s: Any) -> Any:
    return 300.0 * np.exp(0.2 * at["proxy"] + 0.3 * at["neutral"])


def _tariff(at: Mapping[str, Any], s: Any) -> Any:
    """Return a price: a base, times what is charged for the zone, for the young and for many kilometres."""
    zone = np.array([1.0, 1.15, 1.4])[np.asarray(at["zone"], dtype=np.intp)]
    young = np.where(np.asarray(at["age"]) == 0, 1.8, 1.0)
    return 400.0 * zone * young * (1.0 + 0.1 * (at["km"] > -0.5) + 0.15 * (at["km"] > 1.0))


def _rare(at: Mapping[str, Any], s: Any) -> Any:
    return expit(-4.3 + 0.6 * at["proxy"] + 0.4 * at["neutral"])


def _zip(size: int, tilt: float, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return how a feature of many values leans, and the chances of its values in either group."""
    lean = np.random.default_rng(seed).standard_normal(size)
    return lean, np.exp(tilt * lean), np.exp(-tilt * lean)


def _worlds() -> list[World]:
    lean40, p40, q40 = _zip(40, 0.4, 1)
    lean400, p400, q400 = _zip(400, 0.45, 2)
    even = np.ones(5)
    proxy, neutral = normal("proxy", 0.6), normal("neutral")
    many = levels("region", [3, 2, 2, 2, 1], [1, 2, 2, 2, 3])
    shares = ("descent_rate", "input_divergence", "share")
    return [
        World(
            "null",
            (normal("used"), levels("kind", even, even)),
            lambda at, s: expit(-0.3 + 0.8 * at["used"] + 0.2 * (at["kind"] == 2)),
            2_000,
            noise=2,
            idle=("used", "kind"),
        ),
        World("linear", (proxy, neutral), _linear, 2_000, noise=2, idle=("neutral",)),
        World("determines", (proxy,), lambda at, s: expit(-0.3 + 0.9 * at["proxy"]), 2_000, noise=2),
        World("steps", (normal("proxy", 0.6, FINEST), neutral), _steps, 3_000, noise=1, idle=("neutral",)),
        World("direct", (proxy, neutral), _direct, 3_000, noise=2, idle=("neutral",)),
        World(
            "xor",
            (exclusive_or("left", "right", 0.7, 0.5), normal("third", 0.5)),
            lambda at, s: expit(0.3 * at["left"] * at["right"] + 0.2 * at["third"]),
            3_000,
        ),
        World(
            "ignored",
            (normal("ignored", 0.9), proxy, neutral),
            lambda at, s: expit(-0.2 + 0.3 * at["proxy"] + 0.5 * at["neutral"]),
            2_000,
            idle=("ignored", "neutral"),
        ),
        World(
            "army",
            (levels("army", [4_997, 3], [1, 1]), neutral),
            lambda at, s: 0.3 + 0.4 * at["army"] + 0.1 * expit(at["neutral"]),
            5_000,
            audited=0.5,
            left_out=shares,
            idle=("neutral",),
        ),
        World(
            "rare-40-levels",
            (levels("job", p40, q40), neutral),
            lambda at, s: expit(lean40[np.asarray(at["job"], dtype=np.intp)] * 0.8 + 0.3 * at["neutral"]),
            5_000,
            audited=0.05,
            idle=("neutral",),
        ),
        World(
            "400-levels",
            (levels("zip", p400, q400), neutral),
            lambda at, s: expit(lean400[np.asarray(at["zip"], dtype=np.intp)] + 0.3 * at["neutral"]),
            5_000,
            idle=("neutral",),
        ),
        World(
            "40-features",
            (proxy, neutral, normal("ignored", 0.5), many),
            _forty,
            3_000,
            noise=36,
            idle=("neutral", "ignored"),
        ),
        World(
            "decisions",
            (normal("proxy", 0.6, FINE), normal("neutral", 0.0, FINE)),
            _linear,
            3_000,
            threshold=0.5,
            noise=1,
            idle=("neutral",),
        ),
        World(
            "drawn",
            (normal("ignored", 0.9), proxy, neutral),
            _linear,
            3_000,
            is_drawn=True,
            left_out=("descent_rate", "share"),
            idle=("ignored", "neutral"),
        ),
        World(
            "40-drawn",
            (proxy, neutral, normal("ignored", 0.5), many),
            _forty,
            3_000,
            noise=36,
            is_drawn=True,
            left_out=("descent_rate", "share"),
            idle=("neutral", "ignored"),
        ),
        World(
            "clusters-2-6",
            (normal("proxy", 0.6, shared=0.6), normal("neutral", shared=0.6)),
            lambda at, s: 0.1 + 0.8 * _linear(at, s),
            3_000,
            is_clustered=True,
            jitter=0.1,
            idle=("neutral",),
        ),
        World(
            "exempt",
            (correlated(normal("lawful", 0.5), proxy, 0.4, 0.5), neutral),
            lambda at, s: _direct({"proxy": at["proxy"], "neutral": at["neutral"] + at["lawful"]}, s),
            3_000,
            exempt=("lawful",),
            idle=("neutral",),
        ),
        World("outcome", (proxy, neutral), _linear, 1_000, noise=0, outcome=_repaid),
        World(
            "outcome-decisions",
            (normal("proxy", 0.6, FINE), normal("neutral", 0.0, FINE)),
            _linear,
            1_000,
            noise=0,
            threshold=0.5,
            outcome=_repaid,
        ),
        World("given", (proxy, neutral), _linear, 3_000, is_given=True, idle=("neutral",)),
        World(
            "log-normal amounts",
            (proxy, neutral),
            _lognormal,
            3_000,
            is_amount=True,
            spread=0.4,
            left_out=("descent_rate", "share"),
            idle=("neutral",),
        ),
        World(
            "tariff",
            (
                levels("zone", [2, 3, 5], [4, 4, 2]),
                levels("age", [3, 7, 5], [3, 7, 5]),
                normal("km", 0.3, FINEST),
            ),
            _tariff,
            3_000,
            is_amount=True,
            left_out=("descent_rate", "share"),
            idle=("age",),
        ),
        World("few-rows", (proxy, neutral), _linear, 400, noise=2, idle=("neutral",)),
        World(
            "rare-decisions",
            (proxy, neutral),
            _rare,
            4_000,
            audited=0.03,
            is_drawn=True,
            is_given=True,
            left_out=(*shares, "output_divergence"),
            idle=("neutral",),
        ),
        *(_few(audited, is_drawn) for audited in (30, 60, 150) for is_drawn in (False, True)),
    ]


def _few(audited: int, is_drawn: bool) -> World:
    """Return few audited people among 1,500 others, five features that go with no group, and one of them rare.

    Bands need no membership model: a column of it saves its fit.
    """
    return World(
        f"{audited}-audited{'-drawn' if is_drawn else ''}",
        (
            normal("used"),
            levels("rare", [9, 1], [9, 1]),
            levels("kind", *2 * [np.ones(4)]),
            levels("flag", *2 * [[1, 1]]),
        ),
        lambda at, s: expit(-0.3 + 0.8 * at["used"] + 1.2 * at["rare"] + 0.3 * (at["kind"] == 2) + 0.4 * at["flag"]),
        1_500 + audited,
        audited=audited / (1_500 + audited),
        is_counted=True,
        is_drawn=is_drawn,
        is_given=True,
        left_out=("descent_rate", "input_divergence", "share", "output_divergence"),
        idle=("used", "rare", "kind", "flag"),
    )


WORLDS = {world.name: world for world in _worlds()}


@cache
def _truths(name: str) -> dict[str, float]:
    return WORLDS[name]._known()
