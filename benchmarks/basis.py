"""Do the regressions see what is there? Worlds in which simple columns see nothing, and others that nobody tuned for.

Run `python -m benchmarks.basis --repetitions 20 --rows 3000 --jobs 2`, with names of worlds for some of them. For each
world it prints how often all bands hold at once, how often a feature that contributes is called immaterial, and how
often the adjusted gap, which is 0 in every world, is called material. It exits with 1 where one of them misses its
target by more than chance.

The score is a function of independent features, and so is the probability of the audited group. Hence e_A and m_A of
any set A are means over draws of the other features, and no estimator of the library takes part in the truths.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

import tiltlens as tl
from benchmarks.coverage import one_core
from tiltlens._estimators.verdicts import Verdict

Columns = Mapping[str, NDArray[Any]]
Function = Callable[[Columns], NDArray[np.float64]]
Draw = Callable[[np.random.Generator, int], NDArray[Any]]

MATERIALITY = 0.005
POINTS, DRAWS = 100_000, 50  # of a truth: it is then known to about 0.02 points
TREE_POINTS, TREE_DRAWS = 20_000, 25  # of scores that take long
SURE = 0.01  # chance below which a count is a miss


@dataclass(frozen=True)
class World:
    """Independent features, log-odds of the audited group and a score of them; `shown` is how a feature is stored."""

    features: Mapping[str, Draw]
    log_odds: Function
    score: Function
    shown: Mapping[str, Callable[[NDArray[Any]], Any]] = field(default_factory=dict)
    points: int = POINTS
    draws: int = DRAWS

    def drawn(self, rng: np.random.Generator, size: int) -> dict[str, NDArray[Any]]:
        """Return features of so many people."""
        return {name: draw(rng, size) for name, draw in self.features.items()}

    @cached_property
    def shift(self) -> float:
        """The intercept with which half of the people are audited."""
        log_odds, low, high = self.log_odds(self.drawn(np.random.default_rng(1), POINTS)), -20.0, 20.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if expit(log_odds + middle).mean() < 0.5 else (low, middle)
        return low

    def chance(self, x: Columns) -> NDArray[np.float64]:
        """Return the probability of the audited group."""
        return np.asarray(expit(self.log_odds(x) + self.shift))

    def table(self, seed: int, rows: int) -> pl.DataFrame:
        """Return a table to audit."""
        rng = np.random.default_rng(seed)
        x = self.drawn(rng, rows)
        group = np.where(rng.random(rows) < self.chance(x), "a", "b")
        shown = {name: self.shown.get(name, np.asarray)(values) for name, values in x.items()}
        return pl.DataFrame({"group": group, "score": self.score(x), **shown})

    @cached_property
    def truths(self) -> dict[str, float]:
        """gap(j) and joint(j) of every feature."""
        rng = np.random.default_rng(7)
        x = self.drawn(rng, self.points)
        p, w = self.chance(x), self.score(x)

        def mean(function: Function, kept: set[str]) -> NDArray[np.float64]:
            mixed = ({name: x[name] if name in kept else other[name] for name in x} for other in others())
            return np.asarray(sum(function(one) for one in mixed)) / self.draws

        def others() -> Any:
            return (self.drawn(rng, self.points) for _ in range(self.draws))

        def c(kept: set[str]) -> float:
            e, again, m = mean(self.chance, kept), mean(self.chance, kept), mean(self.score, kept)
            return float(((p - e) * (w - m)).mean() / (p * (1 - p) + (p - e) * (p - again)).mean())

        whole = c(set())
        found = {f"alone({name})": whole - c({name}) for name in x}
        return found | {f"beyond_others({name})": c(set(x) - {name}) for name in x}


def normal(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Return standard normal numbers."""
    return rng.standard_normal(size)


def uniform(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Return numbers between 0 and 1."""
    return rng.random(size)


def codes(count: int) -> Draw:
    """Return a draw of equally frequent codes."""
    return lambda rng, size: rng.integers(0, count, size)


def texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return codes as texts."""
    return np.char.add("level ", values.astype(str))


def dates(values: NDArray[Any]) -> NDArray[Any]:
    """Return days since a Monday as dates."""
    return np.datetime64("2022-01-03") + values.astype("timedelta64[D]")


def numbered(values: NDArray[Any]) -> NDArray[Any]:
    """Return codes as numbers that say nothing."""
    return (np.random.default_rng(3).permutation(900)[:300] + 100)[values]


def of(hidden: Function, features: Mapping[str, Draw], strength: float = 1.0, **shown: Any) -> World:
    """Return a world in which a function of some features drives both the group and the score; z drives the score."""
    return World(
        {**features, "z": normal},
        lambda x: 1.2 * strength * hidden(x),
        lambda x: expit(-0.2 + 0.8 * strength * hidden(x) + 0.5 * x["z"]),
        shown,
    )


def sign(condition: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return 1 where a condition holds, else −1."""
    return np.where(condition, 1.0, -1.0)


EFFECTS = np.random.default_rng(5).normal(size=300)
GRID = np.random.default_rng(6).normal(size=(12, 12))
TWO, THREE = {"x": normal, "y": normal}, {"a": codes(2), "b": codes(2), "c": codes(2)}


def heaped(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Return incomes, a third of them rounded to 10,000."""
    income = np.exp(10.5 + 0.5 * rng.standard_normal(size))
    return np.where(rng.random(size) < 1 / 3, np.round(income, -4), np.round(income))


def spiked(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Return amounts, nine in ten of them 0, the others with a long tail."""
    return np.where(rng.random(size) < 0.9, 0.0, (1.0 - rng.random(size)) ** -2.0)


def gaps(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Return normal numbers, a quarter of them missing."""
    return np.where(rng.random(size) < 0.25, np.nan, rng.standard_normal(size))


def square(x: Columns, cells: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the square of a map that a place lies in."""
    return tuple(np.minimum((x[name] * cells).astype(int), cells - 1) for name in ("lat", "lon"))  # type: ignore[return-value]


MIXED: dict[str, Draw] = {
    "x": normal,
    "tail": lambda rng, size: np.exp(2 * rng.standard_normal(size)),
    "count": codes(5),
    "region": codes(6),
    "flag": codes(2),
}


def mixed_log_odds(x: Columns) -> NDArray[np.float64]:
    """Return log-odds with two ands."""
    both = (x["tail"] > 1) & (x["flag"] == 1)
    return np.asarray(0.7 * x["x"] + 1.2 * both - 0.8 * ((x["region"] < 2) & (x["count"] > 2)))


@cache
def fitted_score(kind: str) -> Any:
    """Return a model of trees that learnt from labels which are biased by group."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    rng = np.random.default_rng(11)
    x = {name: draw(rng, 8_000) for name, draw in MIXED.items()}
    audited = rng.random(8_000) < expit(mixed_log_odds(x))
    pull = 0.8 * x["x"] + 0.5 * np.log(x["tail"]) * (x["flag"] - 0.3) + 0.4 * (x["region"] < 2) + 0.5 * audited
    labels = rng.random(8_000) < expit(pull - 0.5)
    model = (
        HistGradientBoostingClassifier(max_iter=60, random_state=0)
        if kind == "boosted"
        else RandomForestClassifier(30, max_depth=7, min_samples_leaf=20, random_state=0)
    )
    return model.fit(np.column_stack(list(x.values())), labels)


def of_trees(kind: str) -> World:
    """Return a world whose score is made by trees of mixed features."""
    return World(
        MIXED,
        mixed_log_odds,
        lambda x: np.asarray(fitted_score(kind).predict_proba(np.column_stack([x[one] for one in MIXED]))[:, 1]),
        {"region": texts},
        TREE_POINTS,
        TREE_DRAWS,
    )


MAP = {"lat": uniform, "lon": uniform}
KNOWN: dict[str, World] = {  # the worlds in which a basis of splines, levels and simple products was wrong
    "two categories": of(lambda x: sign(x["a"] % 2 == x["b"] % 2), {"a": codes(4), "b": codes(4)}, a=texts, b=texts),
    "slope by category": of(lambda x: np.where(x["a"] < 2, x["x"], -x["x"]), {"a": codes(4), "x": normal}, a=texts),
    "bend": of(lambda x: np.cos(np.pi * x["x"]) * x["y"], TWO),
    "weekend": of(lambda x: 1.0 * (x["day"] % 7 > 4), {"day": codes(730)}, 1.5, day=dates),
    "60 codes": of(lambda x: EFFECTS[x["code"]], {"code": codes(60)}, code=numbered),
    "200 codes": of(lambda x: EFFECTS[x["code"]], {"code": codes(200)}, 0.5, code=numbered),
    "map": of(lambda x: GRID[square(x, 5)], MAP),
    "spike": of(lambda x: (x["x"] > 0) + 1.2 * (x["x"] > 1_000), {"x": spiked}),
    "long tail": of(lambda x: np.arcsinh(x["x"]) / 3, {"x": lambda rng, size: np.sinh(3 * normal(rng, size))}),
    "three flags": of(lambda x: sign((x["a"] + x["b"] + x["c"]) % 2 == 1), THREE, a=texts, b=texts, c=texts),
    "normal": of(lambda x: x["x"], TWO),
    "boosted trees": of_trees("boosted"),
    "random forest": of_trees("forest"),
}
OTHERS: dict[str, World] = {  # invented afterwards, to refute
    "waves": of(lambda x: np.sin(6 * np.pi * x["x"]), {"x": uniform}),
    "chessboard": of(lambda x: sign((square(x, 4)[0] + square(x, 4)[1]) % 2 == 1), MAP),
    "ratio": of(
        lambda x: sign(x["x"] / x["y"] > 1),
        {"x": lambda r, n: np.exp(normal(r, n)), "y": lambda r, n: np.exp(normal(r, n))},
    ),
    "larger of two": of(lambda x: np.maximum(x["x"], x["y"]), TWO),
    "12 by 9 levels": of(lambda x: GRID[x["a"], x["b"]], {"a": codes(12), "b": codes(9)}, a=texts, b=texts),
    "sum of three": of(lambda x: sign(x["x"] + x["y"] + x["u"] > 0), {**TWO, "u": normal}),
    "narrow band": of(lambda x: 1.0 * (np.abs(x["x"]) < 0.2), {"x": normal}, 1.5),
    "end of month": of(
        lambda x: 1.0 * (dates(x["day"]).astype("datetime64[M]") != dates(x["day"] + 4).astype("datetime64[M]")),
        {"day": codes(1_460)},
        1.5,
        day=dates,
    ),
    "ring": of(lambda x: sign(np.hypot(x["x"], x["y"]) > 1.2), TWO),
    "weekday by category": of(
        lambda x: sign((x["day"] % 7 > 4) == (x["a"] == 0)), {"day": codes(730), "a": codes(2)}, day=dates, a=texts
    ),
    "round incomes": of(lambda x: 1.5 * (x["x"] % 10_000 == 0), {"x": heaped}),
    "missing by category": of(lambda x: sign(np.isnan(x["x"]) == (x["a"] == 0)), {"x": gaps, "a": codes(2)}, a=texts),
    "threshold by category": of(lambda x: sign(x["x"] > (x["a"] - 1.0)), {"x": normal, "a": codes(3)}, a=texts),
    "difference of two": of(lambda x: sign(np.abs(x["x"] - x["y"]) < 0.8), TWO),
}
WORLDS = KNOWN | OTHERS


@cache
def _truths(name: str) -> dict[str, float]:
    return WORLDS[name].truths


def audited(rows: int, task: tuple[str, int]) -> tuple[str, dict[str, float]]:
    """Return which bands of one audit hold, what was called immaterial though it is not, and the adjusted gap."""
    name, seed = task
    start = time.process_time()
    c = tl.audit(WORLDS[name].table(seed, rows), "group", reference="b", scores="score")["a"]
    found = {"bands": 1.0, "cleared": 0.0, "seconds": time.process_time() - start}
    for row in c.contributions_full.to_dicts():
        truths = {kind: _truths(name)[f"{kind}({row['feature']})"] for kind in ("alone", "beyond_others")}
        for kind, truth in truths.items():
            if row[kind] is not None and not row[f"{kind}_low"] - 2e-4 <= truth <= row[f"{kind}_high"] + 2e-4:
                found["bands"] = 0.0
                found[f"miss {kind}({row['feature']}) {100 * truth:+.1f}"] = 1.0
        if (
            row["verdict"] == Verdict.NO_MATERIAL_CONTRIBUTION
            and max(abs(truth) for truth in truths.values()) > MATERIALITY
        ):
            found["cleared"] = 1.0
        found[f"{row['feature']}: {row['verdict']}"] = 1.0
    left = c.adjusted_gap
    found["material"] = float(left is not None and ((left.low or 0) > MATERIALITY or (left.high or 0) < -MATERIALITY))
    found["adjusted"] = 0.0 if left is None else 100 * left.value
    return name, found


def main() -> int:
    """Print a line for each world; return 1 where one misses its target by more than chance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help=f"default: all of {', '.join(WORLDS)}")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=90_000)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    names = asked.worlds or list(WORLDS)
    failed = False
    with multiprocessing.get_context("spawn").Pool(asked.jobs, one_core) as pool:
        for name in names:
            tasks = [(name, asked.seed + k) for k in range(asked.repetitions)]
            results = [found for _, found in pool.imap_unordered(partial(audited, asked.rows), tasks)]
            failed |= _printed(name, results)
    return int(failed)


def _printed(name: str, results: list[dict[str, float]]) -> bool:
    """Print the line of a world, and what was missed in it; return whether a target is missed by more than chance."""
    count = len(results)
    total = {key: sum(one.get(key, 0.0) for one in results) for key in sorted({key for one in results for key in one})}
    bands, cleared, material = (int(total[key]) for key in ("bands", "cleared", "material"))
    is_missed = binom.cdf(bands, count, 0.92) < SURE or any(
        binom.sf(wrong - 1, count, 0.05) < SURE for wrong in (cleared, material)
    )
    mean = {key: total[key] / count for key in ("adjusted", "seconds")}
    print(
        f"{name:22s} bands {bands}/{count}, wrongly immaterial {cleared}, adjusted gap material {material} "
        f"(mean {mean['adjusted']:+.2f} points), {mean['seconds']:.1f} s{'  MISSED' if is_missed else ''}"
    )
    rest = {key: int(value) for key, value in total.items() if key.startswith("miss ") or ": " in key}
    print("    " + "; ".join(f"{key} {value}" for key, value in rest.items()), flush=True)
    return is_missed


if __name__ == "__main__":
    sys.exit(main())
