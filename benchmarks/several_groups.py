"""How often is one of eight groups said to differ, where none does?

Run `python -m benchmarks.several_groups --repetitions 200 --seed 70000`. Amounts depend on one number and on chance,
never on the group; `materiality` is 0, so that every sure difference is a claim. "All groups": some interval of the
audit leaves out 0, as it is printed. "One at a time": the same intervals at the level of a single group. It exits
with 1 where the printed intervals claim something more often than 5 % allow.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import tiltlens as tl
from tiltlens._estimators.estimate import Estimate, quantile

GROUPS, CONFIDENCE, SURE = 8, 0.95, 0.01
QUANTITIES = {"gap": "gap", "adjusted_gap": "adjusted gap"}


def drawn(seed: int, rows: int) -> dict[str, np.ndarray]:
    """Return people of nine groups, among whom the group plays no part."""
    random = np.random.default_rng(seed)
    group = random.choice([*"RABCDEFGH"], rows, p=[0.36, *[0.08] * GROUPS])
    x = random.integers(0, 3, rows)
    return {"group": group, "x": x, "pay": 1000 + 50 * x + random.normal(0, 100, rows)}


def claims(found: Estimate | None, scale: float) -> bool:
    """Return whether the interval, made narrower by `scale`, leaves out 0."""
    if found is None or found.low is None or found.high is None:
        return False
    return abs(found.value) > scale * (found.high - found.low) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=70000)
    asked = parser.parse_args()
    single = quantile(CONFIDENCE) / quantile(CONFIDENCE ** (1 / GROUPS))
    counts = {(name, scale): 0 for name in QUANTITIES for scale in (single, 1.0)}
    for seed in range(asked.seed, asked.seed + asked.repetitions):
        audit = tl.audit(
            drawn(seed, asked.rows),
            group="group",
            reference="R",
            scores="pay",
            score_type="amount",
            propensity=LogisticRegression(),
            materiality=0.0,
            confidence=CONFIDENCE,
        )
        assert len(audit) == GROUPS
        for name, scale in counts:
            counts[name, scale] += any(claims(c.estimate(name), scale) for c in audit.comparisons.values())
    most = binom.ppf(1 - SURE, asked.repetitions, 1 - CONFIDENCE)
    for name, words in QUANTITIES.items():
        alone, every = (counts[name, scale] / asked.repetitions for scale in (single, 1.0))
        print(f"{words}: one at a time {alone:.1%}, all groups {every:.1%} of {asked.repetitions} audits")
    sys.exit(any(counts[name, 1.0] > most for name in QUANTITIES))


if __name__ == "__main__":
    main()
