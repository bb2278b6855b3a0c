"""Tables whose truth is known by construction, for the benchmarks that take time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy.special import expit, logit

ADULT_ROWS = 19_537  # of the census table by sex, as the fair-learning literature audits it
ADULT_LEVELS = {"workclass": 8, "education": 16, "occupation": 14, "race": 5, "native-country": 41}
MARRIED, HUSBAND, WIFE = "married", "husband", "wife"


def mixed_features(
    rows: int, seed: int = 0, numbers: int = 12, levels: Sequence[int] = (4, 5, 6, 8, 10, 12, 20, 50)
) -> pl.DataFrame:
    """Return numeric and categorical features, a group that some of them reveal, and a score that uses some."""
    rng = np.random.default_rng(seed)
    audited = rng.random(rows) < 0.4
    numeric = rng.normal(size=(rows, numbers)) + 0.3 * audited[:, None] * (np.arange(numbers) < 4)
    codes = [rng.integers(0, k, rows) for k in levels]
    codes[0] = np.where(audited & (rng.random(rows) < 0.2), 0, codes[0])
    score = expit(0.6 * numeric[:, 0] - 0.3 * numeric[:, 5] + 0.4 * (codes[0] == 0) + 0.2 * (codes[3] > 3) - 0.5)
    columns = {f"x{j}": numeric[:, j] for j in range(numbers)}
    columns |= {f"c{j}": pl.Series(code).cast(pl.String) for j, code in enumerate(codes)}
    return pl.DataFrame({"group": np.where(audited, "a", "b"), "score": score, **columns})


def many_features(rows: int = 20_000, features: int = 200, seed: int = 0) -> pl.DataFrame:
    """Return many numeric features, every tenth of which reveals the group, and the chance of being in it."""
    rng = np.random.default_rng(seed)
    audited = rng.random(rows) < 0.4
    x = rng.normal(size=(rows, features)) + 0.3 * audited[:, None] * (np.arange(features) % 10 == 0)
    columns = {f"x{j}": x[:, j] for j in range(features)}
    tells = x[:, ::10]
    chance = expit(logit(0.4) + 0.3 * tells.sum(axis=1) - 0.5 * 0.3**2 * tells.shape[1])
    score = expit(0.5 * x[:, 0] - 0.2 * x[:, 1])
    return pl.DataFrame({"group": np.where(audited, "a", "b"), "score": score, "chance": chance, **columns})


def like_adult(rows: int = ADULT_ROWS, seed: int = 0) -> pl.DataFrame:
    """Return a table like the Adult census by sex: six categories, five numbers, two of them nearly always 0.

    As there, wives and husbands tell the group almost completely, and marriage carries most of the gap.
    """
    rng = np.random.default_rng(seed)
    women = rng.random(rows) < 1 / 3
    age = np.clip(np.round(rng.gamma(8, 5, rows) - 1.5 * women), 17, 90)
    married = rng.random(rows) < np.where(women, 0.15, 0.62)
    spouse = np.where(women ^ (rng.random(rows) < 0.0005), WIFE, HUSBAND)
    single = rng.choice(["not in family", "own child", "unmarried", "other relative"], rows, p=[0.5, 0.27, 0.18, 0.05])
    hours = np.clip(np.round(rng.normal(np.where(women, 36.5, 42.5), 12)), 1, 99)
    levels = {name: rng.zipf(1.6, rows) % size for name, size in ADULT_LEVELS.items()}
    levels["occupation"] = np.where(women & (rng.random(rows) < 0.25), 3, levels["occupation"])
    gain = np.where(rng.random(rows) < np.where(women, 0.06, 0.1), np.round(rng.lognormal(8, 1.3, rows)), 0.0)
    loss = np.where(rng.random(rows) < 0.047, np.round(rng.normal(1_870, 370, rows)), 0.0)
    pull = 0.03 * (age - 40) + 2.3 * married + 0.03 * (hours - 40) + 0.15 * (levels["education"] - 3) + 2e-4 * gain
    return pl.DataFrame(
        {
            "sex": np.where(women, "Female", "Male"),
            "score": expit(-2.6 + pull + 6e-4 * loss),
            "age": age.astype(np.int64),
            "marital-status": np.where(married, MARRIED, rng.choice(["never", "divorced", "widowed"], rows)),
            "relationship": np.where(married, spouse, single),
            **{name: pl.Series(codes).cast(pl.String) for name, codes in levels.items()},
            "hours-per-week": hours.astype(np.int64),
            "capital-gain": gain.astype(np.int64),
            "capital-loss": loss.astype(np.int64),
        }
    )
