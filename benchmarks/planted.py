"""Does the table tell proxies from what only looks like one? Planted truths, drawn again and again.

Run `python benchmarks/planted.py --seeds 50`. It prints how often each kind of feature got each verdict, and fails
where the table does not tell the kinds apart by more than chance.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

import tiltlens as tl
from tiltlens.estimators.verdicts import CLEARED, JOINT, NOT_JUDGED, PROXY, SOME, UNDECIDED
from tiltlens.results.comparison import Comparison

VERDICTS = (PROXY, JOINT, SOME, CLEARED, UNDECIDED, NOT_JUDGED)
SIZE = 5_000
NOISE = 30
ALPHA = 0.05
FURTHER = (1_000, 2_000, 3_000)  # added to a seed, for more draws of the pair


@dataclass(frozen=True)
class Draw:
    """A table of planted features, who is audited, and the score."""

    table: pl.DataFrame
    audited: np.ndarray
    score: np.ndarray

    def comparison(self, seed: int, membership: Any = None) -> Comparison:
        """Return what the audit says."""
        group = np.where(self.audited, "audited", "reference")
        options = {"reference": "reference", "scores": self.score, "membership": membership, "seed": seed}
        return tl.audit(self.table, group, **options)["audited"]


def many_features(size: int, noise: int, seed: int) -> Draw:
    """Return a proxy that is used and one that is ignored, two copies, a neutral feature that is used, and noise.

    `proxy`, `ignored` and `copy` are shifted by half a standard deviation.
    """
    rng = np.random.default_rng(seed)
    audited = rng.random(size) < 0.5
    proxy, ignored, copy = rng.standard_normal((3, size)) + 0.5 * audited
    neutral = rng.standard_normal(size)
    columns = {"proxy": proxy, "ignored": ignored, "copy": copy, "other copy": 7 - 3 * copy, "neutral": neutral}
    columns["noise, 50 levels"] = np.char.add("level ", rng.integers(0, 50, size).astype(str))
    columns |= {f"noise {j}": _noise(j, size, rng) for j in range(1, noise)}
    return Draw(pl.DataFrame(columns), audited, expit(-0.2 + 0.2 * proxy + 0.2 * copy + 0.12 * neutral))


def exclusive_or(size: int, seed: int, by_group: float = 0.0) -> Draw:
    """Return a pair whose product is 1 for 70 % of the audited and for half of the others, beside another proxy.

    Alone, `left` and `right` say nothing; the score uses their product, and perhaps the group.
    """
    rng = np.random.default_rng(seed)
    audited = rng.random(size) < 0.5
    third = rng.standard_normal(size) + 0.5 * audited
    left = rng.choice([-1, 1], size)
    right = left * np.where(rng.random(size) < np.where(audited, 0.7, 0.5), 1, -1)
    columns = {"left": left, "right": right, "third": third, "idle": rng.standard_normal(size)}
    return Draw(pl.DataFrame(columns), audited, expit(0.3 * left * right + 0.2 * third + by_group * audited))


def _noise(j: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return a normal, a skewed, a binary or a four-level column that has nothing to do with anything."""
    makers = (
        lambda: rng.standard_normal(size),
        lambda: rng.exponential(size=size),
        lambda: rng.integers(0, 2, size),
        lambda: np.array(["a", "b", "c", "d"])[rng.integers(0, 4, size)],
    )
    return makers[j % 4]()


def kind_of(name: str) -> str:
    """Return the name under which a feature is counted."""
    return "noise" if name.startswith("noise") and "levels" not in name else name


@dataclass
class Tally:
    """What the audits said of each kind of feature."""

    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    partners: Counter[str] = field(default_factory=Counter)
    redundant: Counter[str] = field(default_factory=Counter)
    noisy: int = 0  # audits in which a noise feature got evidence
    audits: int = 0
    pairs: int = 0  # draws of the pair, in which a few rows hold most of what is unexplained: more of them are needed
    unexplained: Counter[str] = field(default_factory=Counter)  # intervals that exclude 0
    seconds: list[float] = field(default_factory=list)

    def add(self, found: Comparison) -> None:
        """Count the rows of one table."""
        for row in found.proxies.to_dicts():
            kind = kind_of(row["feature"])
            self.verdicts.setdefault(kind, Counter())[row["verdict"]] += 1
            self.partners[f"{kind} → {row['partner']}"] += 1
            self.redundant[f"{kind} → {row['redundant_with']}"] += 1
        self.noisy += any(
            row["feature"].startswith("noise") and row["verdict"] in (PROXY, JOINT) for row in found.proxies.to_dicts()
        )

    def share(self, kind: str, *verdicts: str) -> float:
        """Return how often a kind of feature got one of the verdicts."""
        found = self.verdicts[kind]
        return sum(found[verdict] for verdict in verdicts) / found.total()


def run(seeds: range, size: int = SIZE, noise: int = NOISE) -> Tally:
    """Return the tally over seeds; every seed audits three tables."""
    tally = Tally()
    for seed in seeds:
        start = time.perf_counter()
        many = many_features(size, noise, seed).comparison(seed)
        tally.seconds.append(time.perf_counter() - start)
        pair = exclusive_or(size, seed).comparison(seed)
        by_group = exclusive_or(size, seed, 0.2).comparison(seed)
        tally.audits += 1
        tally.add(many)
        tally.add(pair)
        further = [exclusive_or(size, seed + step).comparison(seed) for step in FURTHER]
        tally.pairs += 1 + len(further)
        for name, found in (("many", many), ("group", by_group), *(("pair", one) for one in (pair, *further))):
            assert found.unexplained is not None
            tally.unexplained[name] += found.unexplained.low > 0 or found.unexplained.high < 0
    return tally


def most_allowed(draws: int) -> float:
    """Return how many of the draws may err at the promised rate, and two standard errors more."""
    return ALPHA * draws + 2 * sqrt(ALPHA * (1 - ALPHA) * draws)


def failures(tally: Tally) -> Iterator[str]:
    """Yield what the table fails to tell, beyond two standard errors of the count where a rate is promised."""
    slack, most = 2 * sqrt(ALPHA * (1 - ALPHA) / tally.audits), most_allowed(tally.audits)
    claims = {
        "(a) the proxy gets proxy evidence": tally.share("proxy", PROXY) >= 0.95 - slack,
        "(b) the ignored proxy gets no evidence": tally.share("ignored", PROXY, JOINT) <= ALPHA + slack,
        "(b) most often it gets no material evidence": tally.share("ignored", CLEARED) > 0.5,
        "(c) the neutral feature gets no evidence": tally.share("neutral", PROXY, JOINT) <= ALPHA + slack,
        "(c) most often it gets no material evidence": tally.share("neutral", CLEARED) > 0.5,
        "(f) noise gets evidence in 5 % of audits at most": tally.noisy <= most,
        "(f) most often it gets no material evidence": tally.share("noise", CLEARED) > 0.5,
        "(g) a score that uses the group shows it": tally.unexplained["group"] >= (0.95 - slack) * tally.audits,
        "(g) a score of many features that does not, does not": tally.unexplained["many"] <= most,
        "(g) a score of a pair that does not, does not": tally.unexplained["pair"] <= most_allowed(tally.pairs),
    }
    for one, other in (("left", "right"), ("right", "left")):
        claims[f"(d) {one} gets joint evidence"] = tally.share(one, JOINT, PROXY) >= 0.9 - slack
        claims[f"(d) {one} names {other}"] = tally.partners[f"{one} → {other}"] >= (0.95 - slack) * tally.audits
    for one, other in (("copy", "other copy"), ("other copy", "copy")):
        claims[f"(e) {one} gets proxy evidence"] = tally.share(one, PROXY) >= 0.95 - slack
        claims[f"(e) {one} names {other}"] = tally.redundant[f"{one} → {other}"] >= (0.95 - slack) * tally.audits
    yield from (claim for claim, holds in claims.items() if not holds)


def report(tally: Tally) -> None:
    """Print one row a kind of feature."""
    print("| feature | " + " | ".join(VERDICTS) + " | partner named | redundancy named |")
    print("|---|" + "---|" * (len(VERDICTS) + 2))
    for kind, found in tally.verdicts.items():
        shares = [found[verdict] / found.total() for verdict in VERDICTS]
        shares += [1 - named[f"{kind} → None"] / found.total() for named in (tally.partners, tally.redundant)]
        print(f"| {kind} | " + " | ".join(f"{100 * share:.0f} %" for share in shares) + " |")
    print(f"\nOf {tally.audits} audits, some noise feature got evidence in {tally.noisy}.")
    for name in ("left → right", "right → left"):
        print(f"{name}: partner in {tally.partners[name]}.")
    for name in ("copy → other copy", "other copy → copy"):
        print(f"{name}: redundant in {tally.redundant[name]}.")
    without = f"{tally.unexplained['many']} and in {tally.unexplained['pair']} of {tally.pairs} of the pair"
    print(f"Unexplained excludes 0 in {tally.unexplained['group']} where the score uses the group, else in {without}.")
    print(f"Seconds an audit of the many features: median {np.median(tally.seconds):.1f}.")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--n", type=int, default=SIZE)
    parser.add_argument("--noise", type=int, default=NOISE)
    options = parser.parse_args(arguments)
    print(f"{options.seeds} draws, n = {options.n:,}, {5 + options.noise} and 4 features.\n")
    tally = run(range(options.first, options.first + options.seeds), options.n, options.noise)
    report(tally)
    failed = list(failures(tally))
    print("\n" + "\n".join(["It does not tell:", *failed] if failed else ["It tells them apart."]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
