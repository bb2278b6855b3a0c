"""How often do intervals hold the truth at every one of 1,000 looks at growing data?

Run `python -m benchmarks.looks --repetitions 300`. At each look a batch is added to the sums of an audit's state, and
the gap, the impact ratio and the gap in false positive rates are measured over all batches until then. "All looks":
the share of repetitions in which the confidence sequence holds the truth at all looks; "fixed": the same for the
interval of a single look. "False alarms": a gate `gap > limit` whose limit is the true gap fires at some look. It exits
with 1 if a sequence fails in more than 6%, or a gate fires in more than 5%, by more than two Monte Carlo errors.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

from tiltlens._analysis.periods import Measured, track
from tiltlens._estimators.estimate import Sequence, quantile
from tiltlens._results.monitor import LOOKS_AHEAD

MEASURED = Measured(is_amount=False, favours_low=False, has_metric=False)
RATES = {True: (0.30, 0.40), False: (0.05, 0.08)}  # of decisions, by whether they are common
WORLDS = {
    "decisions, 20 and 20 people a look": (20, 20, True),
    "decisions, 15 and 150 people a look": (15, 150, True),
    "rare decisions, 40 and 40 people a look": (40, 40, False),
}
QUANTITIES = ("gap", "impact_ratio", "fpr_difference")


def batch_sums(rng: np.random.Generator, rate: float, people: int, looks: int) -> np.ndarray:
    """Return the sums of a group by outcome at each look, (looks, 3, 6): outcomes are as likely as not."""
    outcome, decided = rng.integers(0, 2, (looks, people)), rng.random((looks, people)) < rate
    cells = np.stack([outcome == 0, outcome == 1, np.zeros_like(decided)], axis=1)
    count, chosen = cells.sum(axis=2), (cells & decided[:, None, :]).sum(axis=2)
    return np.cumsum(np.stack([count, count, count, chosen, chosen, chosen], axis=-1).astype(float), axis=0)


def repeat(rng: np.random.Generator, sizes: tuple[int, int], rates: tuple[float, float], looks: int) -> dict[str, bool]:
    """Return what failed at some look of one repetition."""
    sums = [batch_sums(rng, rate, people, looks) for rate, people in zip(rates, sizes, strict=True)]
    truth = {"gap": rates[0] - rates[1], "impact_ratio": math.log(rates[0] / rates[1])}
    truth["fpr_difference"] = truth["gap"]
    starts: dict[str, float] = {}
    failed = dict.fromkeys(
        [*(f"{name}, {kind}" for name in QUANTITIES for kind in ("sequence", "fixed")), "gate"], False
    )
    for audited, reference in zip(*sums, strict=True):
        for name, item in track(audited, reference, MEASURED).items():
            if name not in truth:
                continue
            start = starts.setdefault(name, LOOKS_AHEAD * item.size)
            ends = Sequence(item.value, item.se, item.size / start).estimate(0.95)
            failed[f"{name}, sequence"] |= not (ends.low or 0.0) <= truth[name] <= (ends.high or 0.0)
            failed[f"{name}, fixed"] |= abs(item.value - truth[name]) > quantile(0.95) * item.se
            failed["gate"] |= name == "gap" and (ends.low or 0.0) > truth[name]
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--looks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    missed = False
    for world, (few, many, is_common) in WORLDS.items():
        rng = np.random.default_rng(asked.seed)
        runs = [repeat(rng, (few, many), RATES[is_common], asked.looks) for _ in range(asked.repetitions)]
        shares = {name: sum(run[name] for run in runs) / len(runs) for name in runs[0]}
        for name in QUANTITIES:
            sequence, fixed = (1.0 - shares[f"{name}, {kind}"] for kind in ("sequence", "fixed"))
            print(f"{world}: {name}: all looks {sequence:.1%}, fixed {fixed:.1%} of {len(runs)}", flush=True)
            missed |= 1.0 - sequence > 0.06 + 2.0 * math.sqrt(0.06 * 0.94 / len(runs))
        print(f"{world}: false alarms of a gate {shares['gate']:.1%}", flush=True)
        missed |= shares["gate"] > 0.05 + 2.0 * math.sqrt(0.05 * 0.95 / len(runs))
    sys.exit(missed)


if __name__ == "__main__":
    main()
