"""How often do the intervals of an evaluation hold the truth, and how often do alternatives exist that do not?

Run `python -m benchmarks.repair_coverage evaluations --repetitions 200 --seed 60000`, and the same with `alternatives`
and `what-ifs`. The truth is that of the same repair on 300,000 rows. For alternatives the best rule is known: where
no rule of the features is both no less accurate and of a smaller gap, "exists" is false, and should be said in 5 % at
most; where one does, it should be found. Where few people are decided 1, intervals may hold more often. Quantities
outside 92 to 98 %, or 5 %, by more than two Monte Carlo errors are marked MISS.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit, ndtri
from sklearn.metrics import roc_auc_score

import tiltlens as tl
from benchmarks.coverage import share

LARGE = 300_000  # rows of the truth: its own error is a seventeenth of that of a thousand
FITTED = 4_000  # rows that a repair is made on
FALSE = 0.05  # of the worlds without an alternative, at most

Generator = np.random.Generator
Floats = NDArray[np.float64]


class People(NamedTuple):
    """Who is audited, the features, P(Y = 1|x), and the score."""

    audited: NDArray[np.bool_]
    features: dict[str, Any]
    eta: Floats
    score: Floats

    def table(self, rng: Generator, columns: dict[str, Any] | None = None) -> pl.DataFrame:
        """Return the table of an audit, with outcomes drawn anew."""
        drawn = (rng.random(self.eta.size) < self.eta).astype(int)
        group = np.where(self.audited, "a", "b")
        return pl.DataFrame({"group": group, **self.features, "score": self.score, "repaid": drawn, **(columns or {})})


def smooth(rng: Generator, rows: int, is_best: bool = False) -> People:
    """Outcomes go by x; the score leans on z too, which tells the group, or is the best there is."""
    mine = rng.random(rows) < 0.4
    x, z = rng.standard_normal(rows) - 0.8 * mine, rng.standard_normal(rows) - 1.2 * mine
    eta = expit(1.5 * x)
    return People(mine, {"x": x, "z": z}, eta, eta if is_best else expit(1.2 * x + z))


def xor(rng: Generator, rows: int, is_best: bool = False) -> People:
    """The outcome goes by two features together, and so does the group; neither tells anything alone."""
    mine = rng.random(rows) < 0.4
    u, v = rng.random(rows) < 0.5, rng.random(rows) < 0.5
    flipped = rng.random(rows) < np.where(mine, 0.3, 0.6)  # of the audited fewer differ
    v = np.where(flipped, ~u, u)
    z = rng.standard_normal(rows) - 1.2 * mine
    eta = np.where(u ^ v, 0.75, 0.3)
    return People(mine, {"u": u, "v": v, "z": z}, eta, eta if is_best else expit(1.2 * (u ^ v) - 0.6 + z))


def many(rng: Generator, rows: int, is_best: bool = False) -> People:
    """Forty features, of which one predicts, one tells the group, and the others are noise."""
    found = smooth(rng, rows, is_best)
    noise = {f"n{k}": rng.standard_normal(rows) for k in range(38)}
    return found._replace(features=found.features | noise)


def apart(rng: Generator, rows: int, is_best: bool = False) -> People:
    """A level that hardly anybody audited has sets part of the outcome."""
    mine = rng.random(rows) < 0.4
    served = rng.random(rows) < np.where(mine, 0.002, 0.4)
    x, z = rng.standard_normal(rows), rng.standard_normal(rows) - 1.2 * mine
    eta = expit(x + 1.0 * served - 0.3)
    features = {"served": np.where(served, "yes", "no"), "x": x, "z": z}
    return People(mine, features, eta, eta if is_best else expit(x + 1.0 * served + z))


def level(rng: Generator, rows: int, is_best: bool = False) -> People:
    """The score does not lean at all: no gap is smaller, however much accuracy may be lost."""
    found = smooth(rng, rows)
    x = rng.standard_normal(rows)
    return found._replace(features={"x": x, "z": found.features["z"]}, eta=expit(1.5 * x), score=expit(1.2 * x))


def rare(rng: Generator, rows: int, is_best: bool = False) -> People:
    """One person in eight has the outcome; the score is P(Y = 1|x), or leans on z too, which tells the group."""
    mine = rng.random(rows) < 0.4
    x, v, z = rng.standard_normal(rows) - 0.6 * mine, rng.standard_normal(rows), rng.standard_normal(rows) - 1.2 * mine
    eta = expit(-2.2 + x + 0.8 * v)
    features = {"x": x, "v": v} | ({} if is_best else {"z": z})
    return People(mine, features, eta, eta if is_best else expit(-1.9 + x + 0.8 * v + z))


WORLDS: dict[str, Callable[..., People]] = {
    "smooth": smooth,
    "xor": xor,
    "many": many,
    "apart": apart,
    "level": level,
    "rare": rare,
}


def copies(rng: Generator, rows: int) -> tuple[People, dict[str, Any]]:
    """Return customers with two to five rows each, alike in everything but the outcome, and whose row is whose."""
    customers = smooth(rng, rows // 2)
    own = np.repeat(np.arange(customers.eta.size), rng.integers(2, 6, customers.eta.size))
    features = {name: values[own] for name, values in customers.features.items()}
    return People(customers.audited[own], features, customers.eta[own], customers.score[own]), {"customer": own}


def weighted(rng: Generator, rows: int) -> tuple[People, dict[str, Any]]:
    """Return people with weights from 1 to 9 that go with what they hold."""
    found = smooth(rng, rows)
    return found, {"weight": 1.0 + 8.0 * expit(found.features["x"] + rng.standard_normal(rows))}


def scarce(level: float) -> Callable[[Generator, int], tuple[People, dict[str, Any]]]:
    """Return how people are drawn of whom few have the outcome, and fewer still are decided 1; scores are right."""

    def draw(rng: Generator, rows: int) -> tuple[People, dict[str, Any]]:
        mine = rng.random(rows) < 0.4
        x, z = rng.standard_normal(rows) - 0.5 * mine, rng.standard_normal(rows) - 1.0 * mine
        eta = expit(level + 2.0 * x)
        return People(mine, {"x": x, "z": z}, eta, eta), {}

    return draw


class Setting(NamedTuple):
    """One table of evaluations: source and number of rows, the repair, and other options of the evaluation."""

    name: str
    draw: Callable[[Generator, int], tuple[People, dict[str, Any]]]
    rows: int
    repair: Mapping[str, Any] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})
    is_scarce: bool = False  # so few are decided 1 that intervals may hold more often than they say


def plain(world: Callable[..., People]) -> Callable[[Generator, int], tuple[People, dict[str, Any]]]:
    return lambda rng, rows: (world(rng, rows), {})


DECISIONS: dict[str, Any] = {"threshold": 0.5}
AWARE: dict[str, Any] = DECISIONS | {"use_group": True}
SETTINGS = (
    Setting("smooth, blind", plain(smooth), 1000),
    Setting("smooth, with the group", plain(smooth), 1000, {"use_group": True}),
    Setting("smooth, decisions", plain(smooth), 1000, {"threshold": 0.5}),
    Setting("smooth, blind, few rows", plain(smooth), 200),
    Setting("smooth, decisions, few rows", plain(smooth), 200, {"threshold": 0.5}),
    Setting("xor, blind", plain(xor), 1000),
    Setting("forty features, blind", plain(many), 1000),
    Setting("a level that one group hardly has, blind", plain(apart), 1000),
    Setting("weights, blind", weighted, 1000, {}, {"sample_weight": "weight"}),
    *(
        Setting(f"base rate {base}%, {name}", scarce(level), rows, repair, is_scarce=True)
        for base, level in ((2, -5.3), (5, -4.1), (10, -3.1))
        for name, repair in (("scores", {}), ("decisions", DECISIONS), ("decisions with the group", AWARE))
        for rows in (200, 500, 1000)
    ),
    Setting("clusters of 2 to 5 rows, blind", copies, 600, {}, {"clusters": "customer"}),
)


def drawn(setting: Setting, seed: int, rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    people, columns = setting.draw(rng, rows)
    return people.table(rng, columns)


def evaluations(repetitions: int, seed: int, names: list[str]) -> Iterator[str]:
    """Yield a line for each setting and quantity."""
    for setting in SETTINGS:
        if names and setting.name not in names:
            continue
        first = drawn(setting, seed - 1, FITTED)
        unused = ["customer", "weight", "repaid"]
        question = {
            "reference": "b",
            "scores": "score",
            "folds": None,
            "exclude": [u for u in unused if u in first.columns],
        }
        c = tl.audit(first, "group", **question)["a"]
        tilt = c.repair(**setting.repair)
        options = {"outcome": "repaid", **setting.options}
        truth = tilt.evaluate(drawn(setting, seed - 2, LARGE), "score", "group", **options)
        found = [
            tilt.evaluate(drawn(setting, one, setting.rows), "score", "group", **options)
            for one in range(seed, seed + repetitions)
        ]
        for name in truth.table["quantity"]:
            yield covered(setting, name, truth, found)


def covered(setting: Setting, name: str, truth: Any, found: list[Any]) -> str:
    """Return how often before, after and change of a quantity hold the truth."""
    parts, is_off = [], False
    given = [evaluation[name] for evaluation in found if name in evaluation.table["quantity"]]
    for part in ("before", "after", "change"):
        right = truth[name][part].value
        hits = sum(one[part].low <= right <= one[part].high for one in given)
        coverage, error = share(hits, len(given))
        parts.append(f"{part} {100 * coverage:5.1f}")
        is_judged = len(given) >= len(found) / 2 and (part == "change" or setting.is_scarce)
        most = 1.0 if setting.is_scarce else 0.98 + 2 * error
        is_off |= is_judged and not 0.92 - 2 * error <= coverage <= most
    mark = "MISS  " if is_off else "      "
    of = "" if len(given) == len(found) else f", given in {len(given)}"
    return f"{mark}{setting.name}, n = {setting.rows:,} | {name} | {' '.join(parts)} % of {len(found)}{of}"


class Search(NamedTuple):
    """A world where it is known whether an alternative exists."""

    name: str
    world: str
    rows: int
    exists: bool
    tolerance: float = 0.0
    copies: int = 1
    is_told: bool = True
    threshold: float = 0.5


SEARCHES = (
    Search("smooth", "smooth", 1000, False),
    Search("a score that does not lean, tolerance 0.5 points", "level", 1000, False, 0.005),
    Search("smooth, few rows", "smooth", 200, False),
    Search("xor", "xor", 1000, False),
    Search("a level that one group hardly has", "apart", 1000, False),
    Search("each row three times, in clusters", "smooth", 1500, False, 0.0, 3),
    Search("each row three times, without clusters", "smooth", 1500, False, 0.0, 3, is_told=False),
    Search("forty features", "many", 1000, False),
    *(
        Search(f"rare, threshold {tau:g}, tolerance {100 * most:g} points", "rare", 2000, False, most, threshold=tau)
        for tau in (0.1, 0.15, 0.3, 0.5)
        for most in (0.0, 0.005)
    ),
    Search("smooth", "smooth", 1000, True),
    Search("smooth, few rows", "smooth", 200, True),
    Search("xor", "xor", 1000, True),
    Search("a level that one group hardly has", "apart", 1000, True),
    Search("each row three times, in clusters", "smooth", 1500, True, 0.0, 3),
    Search("forty features", "many", 1000, True),
    *(Search(f"rare, threshold {tau:g}", "rare", 2000, True, threshold=tau) for tau in (0.15, 0.3)),
)
POWER = 4  # times fewer draws, where an alternative exists


def alternatives(repetitions: int, seed: int, names: list[str]) -> Iterator[str]:
    """Yield a line for each world: what was said how often."""
    for search in SEARCHES:
        if names and search.name not in names:
            continue
        said: Counter[str] = Counter()
        draws = repetitions // POWER if search.exists else repetitions
        for one in range(seed, seed + draws):
            rng = np.random.default_rng(one)
            table = WORLDS[search.world](rng, search.rows // search.copies, not search.exists).table(rng)
            options: dict[str, Any] = {"reference": "b", "scores": "score", "outcome": "repaid"}
            if search.copies > 1 and search.is_told:
                table, options = table.with_row_index("customer"), options | {"clusters": "customer"}
            table = pl.concat([table] * search.copies)
            asked = {"tolerance": search.tolerance, "threshold": search.threshold}
            said[tl.alternatives(table, "group", **asked, **options)["a"].verdict] += 1
        rate, error = share(said["exists"], draws)
        is_off = not search.exists and rate - 2 * error > FALSE
        words = ", ".join(f"{verdict} {count}" for verdict, count in said.most_common())
        truth = "one exists" if search.exists else "none exists"
        mark = "MISS  " if is_off else "      "
        found = f"said to exist in {100 * rate:.1f} % ± {100 * error:.1f} ({words})"
        yield f"{mark}{search.name}, n = {search.rows:,}, {truth} | {found}"


def leaning(rows: Any) -> Floats:
    """Return the scores of a model that leans on z."""
    return np.asarray(expit(1.2 * rows["x"].to_numpy() + rows["z"].to_numpy()))


def neutralised(rng: Generator) -> dict[tuple[str, str], float]:
    """Return by how much gaps, accuracy and AUC of many people change where x or z is neutralised."""
    people = smooth(rng, LARGE)
    table = people.table(rng)
    quantiles = ndtri((np.arange(200) + 0.5) / 200)  # both are standard normal in the reference
    found = {}
    for name in ("x", "z"):
        after = np.mean([leaning(table.with_columns(pl.lit(value).alias(name))) for value in quantiles], axis=0)
        old, new = (points(table, scores) for scores in (people.score, after))
        found |= {(name, quantity): new[quantity] - old[quantity] for quantity in new}
    return found


def points(table: pl.DataFrame, scores: Floats) -> dict[str, float]:
    mine, y = (table["group"] == "a").to_numpy(), table["repaid"].to_numpy()
    decided = scores >= 0.5
    return {
        "gap": decided[mine].mean() - decided[~mine].mean(),
        "score_gap": scores[mine].mean() - scores[~mine].mean(),
        "accuracy": (decided == y).mean(),
        "auc": roc_auc_score(y, scores),
    }


def what_ifs(repetitions: int, seed: int, names: list[str]) -> Iterator[str]:
    """Yield how often the interval of each change, which are of all what-ifs at once, holds its truth."""
    truth, hits = neutralised(np.random.default_rng(seed - 2)), Counter[tuple[str, str]]()
    for one in range(seed, seed + repetitions):
        rng = np.random.default_rng(one)
        table = smooth(rng, 1000).table(rng).drop("score")
        options: dict[str, Any] = {"reference": "b", "model": leaning, "outcome": "repaid"}
        found = tl.alternatives(table, "group", **options)["a"].what_ifs
        rows = {row["feature"]: row for row in found.filter(what_if="neutralised").iter_rows(named=True)}
        for (name, quantity), right in truth.items():
            ends = [rows[name][f"{quantity}_change{end}"] for end in ("_low", "_high")]
            hits[name, quantity] += ends[0] <= right <= ends[1]
    for (name, quantity), right in truth.items():
        coverage, error = share(hits[name, quantity], repetitions)
        mark = "MISS  " if coverage + 2 * error < 0.95 else "      "  # one alone holds more often
        held = f"truth {right:+.4f}, holds {100 * coverage:.1f} % ± {100 * error:.1f} of {repetitions}"
        yield f"{mark}{name} neutralised, n = 1,000 | {quantity} change | {held}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {"evaluations": evaluations, "alternatives": alternatives, "what-ifs": what_ifs}
    parser.add_argument("what", choices=tuple(kinds))
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=60_000, help="the first of them")
    parser.add_argument("--only", nargs="*", default=[], help="names of settings or worlds")
    asked = parser.parse_args(arguments)
    missed = 0
    for line in kinds[asked.what](asked.repetitions, asked.seed, asked.only):
        print(line, flush=True)
        missed += line.startswith("MISS")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
