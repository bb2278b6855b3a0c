"""How often do the intervals of a rate and of a gap hold the truth, of few people or of very unequal weights?

Run `python -m benchmarks.few_people --repetitions 2000 --seed 70000`. The intervals are those of `rates` and
`gap`; the first draw of each design is checked against `tl.audit`. For bands of features run
`python -m benchmarks.coverage --truth 30-audited 30-audited-drawn …`. The coverage of value ± 1.96 standard errors is
printed for comparison. It exits with 1 if fewer than 92% hold, beyond chance.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import tiltlens as tl
from benchmarks.coverage import is_low
from tiltlens._estimators.influence import Rows
from tiltlens._estimators.outputs import Scores, gap_law, group_rates

Floats = NDArray[np.float64]


class Design(NamedTuple):
    """Who is drawn: how many audited and others, their rates (None for scores of mean one half), sd of log weights."""

    audited: int
    others: int
    rates: tuple[float, float] | None
    spread: float = 0.0

    @property
    def name(self) -> str:
        """Return the name of the design, as it is printed."""
        what = "scores" if self.rates is None else f"decisions at {self.rates[0]} and {self.rates[1]}"
        weights = f", log-normal weights of sd {self.spread}" if self.spread else ""
        return f"{self.audited} audited, {self.others} others, {what}{weights}"

    def draw(self, random: np.random.Generator) -> dict[str, NDArray[np.generic]]:
        """Return a table; scores are higher, in both groups, for people who weigh more."""
        size = self.audited + self.others
        mine = np.arange(size) < self.audited
        z = random.standard_normal(size)
        score = 1 / (1 + np.exp(-(z * bool(self.spread) + random.standard_normal(size))))
        if self.rates is not None:
            score = (random.random(size) < np.where(mine, *self.rates)).astype(np.float64)
        return {"group": np.where(mine, "a", "b"), "score": score, "weight": np.exp(self.spread * z)}


DESIGNS = [
    *(Design(30, 1500, rates) for rates in ((0.1, 0.1), (0.65, 0.5), (0.02, 0.02))),
    *(Design(20, 1500, rates) for rates in ((0.3, 0.5), None)),
    *(Design(60, 1500, rates) for rates in ((0.1, 0.2), None)),
    *(Design(150, 150, rates, 1.5) for rates in ((0.5, 0.5), (0.1, 0.1), None)),
    *(Design(500, 500, rates, 2.0) for rates in ((0.5, 0.5), None)),
]


def held(design: Design, seeds: range) -> Iterator[list[bool]]:
    """Yield, of each draw, whether printed and normal intervals hold: of the rate, then of the gap."""
    for seed in seeds:
        table = design.draw(np.random.default_rng(seed))
        rows = Rows.of(table["group"] == "a", table["weight"])
        outcome = Scores.of(rows, table["score"])
        rate, moved = group_rates(rows, outcome)[0].estimate(), gap_law(rows, outcome).estimate()
        if seed == seeds[0]:
            check_audit(table, rate, moved)
        if design.rates is None:  # the mean of people who weigh as much as they do
            truth, gap = weighted_mean(design.spread), 0.0
        else:
            truth, gap = design.rates[0], design.rates[0] - design.rates[1]
        errors = [standard_error(table, name) for name in "ab"]
        yield [
            rate.low <= truth <= rate.high,
            abs(rate.value - truth) <= 1.96 * errors[0],
            moved.low <= gap <= moved.high,
            abs(moved.value - gap) <= 1.96 * math.hypot(*errors),
        ]


def check_audit(table: dict[str, NDArray[np.generic]], rate: tl.Estimate, moved: tl.Estimate) -> None:
    """Assert that an audit prints these intervals."""
    c = tl.audit(table, "group", reference="b", scores="score", sample_weight="weight", features=[])["a"]
    for found, expected in ((c.rates.audited, rate), (c.gap, moved)):
        assert np.allclose([*found.to_dict().values()], [*expected.to_dict().values()], atol=1e-9), (found, expected)


def weighted_mean(spread: float) -> float:
    """Return the mean score of people who are drawn by their weight: e^(σz)·φ(z) is normal around σ."""
    points, chances = np.polynomial.hermite_e.hermegauss(80)
    shift = spread + points[:, None] if spread else np.zeros((1, 1))
    scores = 1 / (1 + np.exp(-(shift + points[None, :])))
    first = chances / chances.sum() if spread else np.ones(1)
    return float(first @ scores @ (chances / chances.sum()))


def standard_error(table: dict[str, NDArray[np.generic]], name: str) -> float:
    """Return √Σs²(x − mean)², s being shares of the weight."""
    mine = table["group"] == name
    weights, x = table["weight"][mine].astype(np.float64), table["score"][mine].astype(np.float64)
    shares = weights / weights.sum()
    return float(np.sqrt(shares**2 @ (x - shares @ x) ** 2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=70_000, help="the first of them")
    asked = parser.parse_args()
    missed = 0
    for design in DESIGNS:
        shares = np.mean(list(held(design, range(asked.seed, asked.seed + asked.repetitions))), axis=0)
        miss = any(is_low(float(shares[place]), asked.repetitions) for place in (0, 2))
        missed += miss
        rate, rate_normal, gap, gap_normal = (f"{100 * share:.1f} %" for share in shares)
        print(f"{design.name} | rate {rate} (normal {rate_normal}) | gap {gap} (normal {gap_normal})", end="")
        print(" | MISS" if miss else "", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
