"""Whether `use` and the verdicts that follow from it are right, on worlds whose truth is known.

Run `python -m benchmarks.use [--draws 200] [--worlds smooth,trees]`. Each world is audited from its scores alone.
Truths are of a million draws of the feature given the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

import tiltlens as tl
from benchmarks.timing import Row, printed

ROWS = 5_000
MATERIALITY = 0.005
RHO = 0.6  # correlation of the eight inputs of learnt scores
Draw = tuple[dict[str, Any], dict[str, float]]  # columns, and the true use of features


@dataclass(frozen=True)
class World:
    """How rows are drawn, which features are stand-ins, and which must not be called so."""

    draw: Callable[[np.random.Generator], Draw]
    stand_ins: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    decisions: bool = False
    is_judged: bool = True  # whether the limits of the issue are asked of it


def smooth(own: float, rho: float, decisions: bool = False) -> Callable[[np.random.Generator], Draw]:
    """Return u and t of a given correlation within groups, W = σ(u + own·t + .3x)."""

    @lru_cache(maxsize=1)
    def truth() -> dict[str, float]:
        rng, size = np.random.default_rng(1), 1_000_000
        u = 0.8 * (rng.random(size) < 0.5) + rng.standard_normal(size)
        x, noise = rng.standard_normal((2, size))
        spread = np.sqrt(1 - rho**2)
        t = [rho * u + spread * one for one in (noise, rng.standard_normal(size))]
        pair = [expit(u + own * one + 0.3 * x) for one in t]
        return {"t": float(2.0 * np.sqrt(0.5 * np.mean((pair[0] - pair[1]) ** 2)))}

    def draw(rng: np.random.Generator) -> Draw:
        group = rng.random(ROWS) < 0.5
        u = 0.8 * group + rng.standard_normal(ROWS)
        t = rho * u + np.sqrt(1 - rho**2) * rng.standard_normal(ROWS)
        x = rng.standard_normal(ROWS)
        score = expit(u + own * t + 0.3 * x)
        score = (rng.random(ROWS) < score) * 1.0 if decisions else score
        return {"group": group, "u": u, "t": t, "x": x, "score": score}, truth()

    return draw


def own_effect(use: float, rho: float) -> float:
    """Return the coefficient of t with which its use is `use`, by bisection of the truth."""
    low, high = 0.0, 4.0
    for _ in range(25):
        middle = 0.5 * (low + high)
        found = smooth(middle, rho)(np.random.default_rng(0))[1]["t"]
        low, high = (middle, high) if found < use else (low, middle)
    return 0.5 * (low + high)


def direct_use(rng: np.random.Generator) -> Draw:
    """Return direct use of the group that varies with x, and an ignored j that tells the group where x is 1."""
    group = rng.random(ROWS) < 0.5
    x = rng.integers(0, 2, ROWS)
    tells = rng.random(ROWS) < 0.95
    j = np.where(x == 1, np.where(tells, group, ~group), rng.random(ROWS) < 0.5)
    v = rng.standard_normal(ROWS)  # a number, so that the features are regressed on
    score = 0.5 + 0.2 * group * x + 0.05 * v
    return {"group": group, "x": x.astype(str), "j": j.astype(str), "v": v, "score": score}, {"j": 0.0}


def _inputs(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    group = rng.random(rows) < 0.5
    root = np.linalg.cholesky(np.full((8, 8), RHO) + (1 - RHO) * np.eye(8))
    return rng.standard_normal((rows, 8)) @ root.T + 0.5 * group[:, None], group


def _forest(leaf: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(100, min_samples_leaf=leaf, random_state=0)


def _boosted() -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(random_state=0)


def learnt(make: Callable[[], Any], own: float = 0.0) -> Callable[[np.random.Generator], Draw]:
    """Return scores of trees on five of eight correlated inputs; x7 may have a small linear effect of its own."""

    @lru_cache(maxsize=1)
    def fitted() -> tuple[Any, dict[str, float]]:
        rng = np.random.default_rng(7)
        x, _ = _inputs(rng, 8_000)
        odds = x[:, 0] + 0.7 * x[:, 1] * (x[:, 2] > 0) - 0.5 * np.abs(x[:, 3]) + 0.6 * x[:, 4]
        model = make().fit(x[:, :5], rng.random(8_000) < expit(odds))
        return model, {f"x{j}": _use_of(model, j, own) for j in (2, 3, 4, 5, 6, 7)}

    def draw(rng: np.random.Generator) -> Draw:
        model, truth = fitted()
        x, group = _inputs(rng, ROWS)
        return {"group": group, "score": _scored(model, x, own)} | {f"x{j}": x[:, j] for j in range(8)}, truth

    return draw


def _scored(model: Any, x: np.ndarray, own: float) -> np.ndarray:
    return np.clip(model.predict_proba(x[:, :5])[:, 1] + own * x[:, 7], 0.0, 1.0)


def _use_of(model: Any, j: int, own: float) -> float:
    """Return the use of one input: two draws of it given the others and the group, which are normal."""
    rng = np.random.default_rng(j)
    x, group = _inputs(rng, 100_000)
    others = [k for k in range(8) if k != j]
    slope = RHO / (1 + 6 * RHO)  # of each other input
    mean = 0.5 * group + slope * (x[:, others] - 0.5 * group[:, None]).sum(axis=1)
    spread = np.sqrt(1 - 7 * RHO * slope)
    pair = []
    for _ in range(2):
        x[:, j] = mean + spread * rng.standard_normal(len(x))
        pair.append(_scored(model, x, own))
    return float(2.0 * np.sqrt(0.5 * np.mean((pair[0] - pair[1]) ** 2)))


UNUSED = ("x5", "x6", "x7")
WORLDS: dict[str, Callable[[], World]] = {
    "smooth, correlation .5": lambda: World(smooth(0.0, 0.5), ("t",)),
    "smooth, correlation .8": lambda: World(smooth(0.0, 0.8), ("t",)),
    "smooth, correlation .95": lambda: World(smooth(0.0, 0.95), ("t",)),
    "smooth, use 2m, correlation .5": lambda: World(smooth(own_effect(0.01, 0.5), 0.5), used=("t",)),
    "smooth, use 2m, correlation .95": lambda: World(smooth(own_effect(0.01, 0.95), 0.95), used=("t",)),
    "smooth, use 4 points, correlation .8": lambda: World(smooth(own_effect(0.04, 0.8), 0.8), used=("t",)),
    "direct use": lambda: World(direct_use, ("j",)),
    "decisions, use 2m": lambda: World(smooth(own_effect(0.01, 0.8), 0.8, True), used=("t", "u"), decisions=True),
    "decisions, use 4 points": lambda: World(smooth(own_effect(0.04, 0.8), 0.8, True), used=("t", "u"), decisions=True),
    "forest, leaves of 50": lambda: World(learnt(lambda: _forest(50)), UNUSED),
    "forest, leaves of 50, use 2m": lambda: World(learnt(lambda: _forest(50), 0.0075), used=("x7",)),
    "forest, leaves of 10": lambda: World(learnt(lambda: _forest(10)), UNUSED, is_judged=False),
    "boosted trees": lambda: World(learnt(_boosted), UNUSED, is_judged=False),
    "boosted trees, use 2m": lambda: World(learnt(_boosted, 0.0075), used=("x7",)),
}


@dataclass
class Counts:
    """How often something was so, of how many times."""

    hits: int = 0
    times: int = 0
    misses: list[int] = field(default_factory=list)

    def add(self, is_so: bool, seed: int) -> None:
        """Count once more."""
        self.hits, self.times = self.hits + is_so, self.times + 1
        if not is_so:
            self.misses.append(seed)

    @property
    def share(self) -> float:
        """In per cent."""
        return 100.0 * self.hits / self.times if self.times else float("nan")


def measured(name: str, draws: int) -> Iterator[Row]:
    """Yield how often verdicts and intervals of a world are right."""
    world = WORLDS[name]()
    counts = {key: Counts() for key in ("stand-in", "false stand-in", "upper end", "interval", "still a proxy")}
    for seed in range(draws):
        columns, truth = world.draw(np.random.default_rng(1000 + seed))
        table = pl.DataFrame(columns).with_columns(pl.col("group").cast(pl.String))
        found = tl.audit(table, "group", reference="false", scores="score")["true"].proxies
        for row in found.iter_rows(named=True):
            if row["feature"] in world.stand_ins and row["use"] is not None:
                counts["stand-in"].add(row["verdict"] == "stand-in", seed)
            if row["feature"] in world.used:
                counts["false stand-in"].add(row["verdict"] == "stand-in", seed)
            if row["feature"] == "u" and world.decisions:
                counts["still a proxy"].add(row["verdict"] == "potential proxy", seed)
            if row["use"] is not None and row["feature"] in truth:
                true = truth[row["feature"]]
                counts["upper end"].add(true <= row["use_high"], seed)
                if true > 2 * MATERIALITY:
                    counts["interval"].add(row["use_low"] <= true <= row["use_high"], seed)
    limits = {"stand-in": (95.0, None), "false stand-in": (None, 5.0), "upper end": (93.0, None)}
    limits |= {"interval": (92.0, None), "still a proxy": (95.0, None)}
    for key, count in counts.items():
        if count.times:
            least, most = limits[key] if world.is_judged else (None, None)
            yield Row(f"{name}: {key}", count.share, "%", most, least, f"{count.hits} of {count.times}")


def main() -> int:
    """Print how often `use` is right; return how many numbers miss their limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--worlds", default="", help="words that names of worlds hold, separated by commas; all")
    options = parser.parse_args()
    chosen = [name for name in WORLDS if any(word in name for word in options.worlds.split(","))]
    return printed(row for name in chosen for row in measured(name, options.draws))


if __name__ == "__main__":
    raise SystemExit(main() > 0)
