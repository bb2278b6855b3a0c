"""Swapping the groups flips signs and nothing else; names of columns, levels and groups change nothing at all."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import tiltlens as tl

NUMBERS = (
    "alone",
    "alone_low",
    "alone_high",
    "beyond_others",
    "beyond_others_low",
    "beyond_others_high",
    "shapley",
    "share",
    "reveals",
    "drives",
)
COLUMNS = {"x": "zinc", "area": "b", "flag": "z", "z": "area"}
LEVELS = {"north": "z", "south": "a", "west": "k", "yes": "no", "no": "yes"}


def people(rows=400):
    rng = np.random.default_rng(8)
    mine = rng.random(rows) < 0.4
    x, z = rng.standard_normal((2, rows)) + 0.6 * np.array([mine, 0 * mine])
    area = np.array(["north", "south", "west"])[np.minimum(rng.poisson(0.6 + 0.6 * mine), 2)]
    flag = np.where(rng.random(rows) < 0.5, "yes", "no")
    score = 1 / (1 + np.exp(-0.5 * x - 0.5 * z - 0.4 * (area == "west") - 0.3 * x * (flag == "yes")))
    group = np.where(mine, "men", "women")
    return pl.DataFrame({"group": group, "score": score, "x": x, "area": area, "flag": flag, "z": z})


def audited(table, audited="men", reference="women", **options):
    return tl.audit(table, "group", audited=audited, reference=reference, scores="score", **options)[audited]


def table_of(c):
    return {row["feature"]: row for row in c.contributions_full.to_dicts()}


@pytest.fixture(scope="module")
def whole():
    return audited(people())


def test_swapping_the_groups_flips_signs_and_nothing_else(whole):
    other = audited(people(), "women", "men")
    for name in ("gap", "adjusted_gap"):
        found, expected = other.estimate(name), whole.estimate(name)
        assert [-found.value, -found.high, -found.low] == pytest.approx([*expected.to_dict().values()], abs=1e-9)
    rows = table_of(other)
    for feature, row in table_of(whole).items():
        for name in ("alone", "beyond_others", "shapley"):
            found = [rows[feature][f"{name}{end}"] for end in ("", "_high", "_low")]
            assert [-one for one in found] == pytest.approx(
                [row[f"{name}{end}"] for end in ("", "_low", "_high")], abs=1e-9
            )
        assert [rows[feature][name] for name in ("reveals", "drives", "verdict")] == [
            pytest.approx(row["reveals"], abs=1e-9),
            pytest.approx(row["drives"], abs=1e-9),
            row["verdict"],
        ]


def test_names_of_columns_levels_and_groups_change_nothing(whole):
    table = people().with_columns(pl.col("area", "flag").replace(LEVELS), pl.col("group").replace({"men": "z"}))
    other = audited(table.rename(COLUMNS)[::-1], "z", "women")
    for name in ("gap", "adjusted_gap", "descent_rate", "input_divergence"):
        assert other.estimate(name).value == pytest.approx(whole.estimate(name).value, abs=1e-9)
    rows = table_of(other)
    for feature, row in table_of(whole).items():
        found = rows[COLUMNS[feature]]
        assert [found[name] for name in NUMBERS] == pytest.approx([row[name] for name in NUMBERS], abs=1e-9)
        assert (found["verdict"], found["reason"]) == (row["verdict"], row["reason"])


def test_clusters_of_swapped_groups_lie_in_the_same_folds():
    table = people().with_columns(home=pl.Series(np.arange(400) // 2))
    options = {"clusters": "home", "exclude": ["home"], "propensity": None, "features": ["x", "area"]}
    one, other = (audited(table, *who, **options) for who in (("men", "women"), ("women", "men")))
    renamed = audited(table.with_columns(pl.format("home {}", 997 - pl.col("home")).alias("home")), **options)
    for feature, row in table_of(one).items():
        assert -table_of(other)[feature]["beyond_others"] == pytest.approx(row["beyond_others"], abs=1e-9)
        assert table_of(renamed)[feature]["beyond_others"] == pytest.approx(row["beyond_others"], abs=1e-9)


@pytest.mark.parametrize("kind", ["two columns alike", "levels of equal counts"])
def test_what_only_names_tell_apart_does_not_make_the_order_of_rows_matter(kind):
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2, (2, 100))
    if kind == "two columns alike":
        a, b = np.concatenate([a, b]), np.concatenate([b, a])
    else:
        a, b = np.concatenate([a, 1 - a]), np.concatenate([b, b])
    rows = pl.DataFrame({"group": np.tile(["u", "v"], 100), "score": rng.random(200), "a": a, "b": b})
    rows = rows.with_columns(pl.col("a", "b").cast(pl.String), pl.Series("n", rng.standard_normal(200)))
    one, other = (
        audited(table, "u", "v", folds=5) for table in (rows, rows.sample(fraction=1.0, shuffle=True, seed=3))
    )
    assert one.to_dict()["contributions"] == other.to_dict()["contributions"]
