"""Does the band of the curve of tolerances hold all of its numbers at once?

Run `python -m benchmarks.tolerances --repetitions 300`. Rules are functions of twelve cells, so that the true accuracy,
gap and impact ratio of those that were chosen, fold by fold, are known. "Band": all rows and all three numbers lie
within it; "intervals": the same for ordinary intervals. It exits with 1 if the band covers everything in less than 93%.
"""

from __future__ import annotations

import argparse
import sys
from types import SimpleNamespace

import numpy as np
from scipy.special import expit

from tiltlens._estimators.estimate import quantile
from tiltlens._estimators.influence import Rows
from tiltlens._limits import FOLDS
from tiltlens._repair.alternatives import TOLERANCES, PairedRows, choose_rules, measure_folds, tolerance_table

CELLS = 12
ETA = expit(np.linspace(-2.5, 2.0, CELLS))  # P(Y = 1 | cell)
SHARES = {group: np.exp(tilt * np.linspace(-1, 1, CELLS)) for group, tilt in ((True, -0.8), (False, 0.3))}
SHARES = {group: shares / shares.sum() for group, shares in SHARES.items()}
SCORE = expit(np.linspace(-2.0, 2.0, CELLS) + np.tile([0.6, -0.6], CELLS // 2))
A = SHARES[True] - SHARES[False]
RULES = [mu * A / (SHARES[True] + SHARES[False]) < ETA - 0.5 for mu in np.linspace(-1, 1, 21)]


def true_changes(cell: np.ndarray, mine: np.ndarray, fold: np.ndarray, chosen: np.ndarray) -> list[float]:
    """Return the true change of accuracy, reduction of the gap and gain of the ratio of rules by fold."""
    values = []
    for by_fold in (False, True):
        accuracy, rates = 0.0, {True: 0.0, False: 0.0}
        for k in range(FOLDS):
            rule = SCORE >= 0.5
            if by_fold:
                rule = np.array([chosen[(fold == k) & (cell == c)][:1].sum() > 0 for c in range(CELLS)])
            for group, shares in SHARES.items():
                weight = float((mine[fold == k] == group).sum())
                accuracy += weight / mine.size * float(shares @ np.where(rule, ETA, 1 - ETA))
                rates[group] += weight / (mine == group).sum() * float(shares @ rule)
        low, high = sorted(rates.values())
        values.append((accuracy, abs(rates[True] - rates[False]), low / high))
    before, after = values
    return [after[0] - before[0], before[1] - after[1], after[2] - before[2]]


def repeat(seed: int, rows: int) -> tuple[bool, bool]:
    """Return whether the band, and whether ordinary intervals, hold all numbers."""
    rng = np.random.default_rng(seed)
    mine = rng.random(rows) < 0.4
    cell = np.where(mine, rng.choice(CELLS, rows, p=SHARES[True]), rng.choice(CELLS, rows, p=SHARES[False]))
    outcome = (rng.random(rows) < ETA[cell]).astype(int)
    audited = SimpleNamespace(scores=SCORE[cell], favours_low=False, soft={})
    data = PairedRows(audited, Rows.of(mine), outcome, rng.integers(0, FOLDS, rows), 0.5)
    rules, sure = [rule[cell] for rule in RULES], quantile(0.9)
    folds = measure_folds(data, rules)
    table = tolerance_table(data, rules, folds, TOLERANCES[0], (sure, 0.95))
    within = {"band": True, "intervals": True}
    for row in table.to_dicts():
        chosen, _ = choose_rules(data, rules, folds, row["tolerance"], sure)
        estimates = data.changes(chosen)
        names = ("accuracy_change", "gap_reduction", "ratio_gain")
        for name, estimate, truth in zip(names, estimates, true_changes(cell, mine, data.fold, chosen), strict=True):
            within["band"] &= row[f"{name}_low"] - 1e-9 <= truth <= row[f"{name}_high"] + 1e-9
            within["intervals"] &= abs(estimate.value - truth) <= quantile(0.95) * estimate.se + 1e-9
    return within["band"], within["intervals"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    held = np.mean([repeat(asked.seed + index, asked.rows) for index in range(asked.repetitions)], axis=0)
    print(f"band {held[0]:.1%}, intervals {held[1]:.1%} of {asked.repetitions}")
    sys.exit(bool(held[0] < 0.93))


if __name__ == "__main__":
    main()
