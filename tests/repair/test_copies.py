"""Rows that are equal by chance, and those that are copies."""

import numpy as np
import pytest

from tiltlens.datasets.compas import load_compas
from tiltlens.repair.copies import copies_of
from tiltlens.sources.hashing import row_hashes


def whole_numbers(people, copies, levels, columns, seed=0):
    """Return features and labels of people, each as often as there are copies."""
    rng = np.random.default_rng(seed)
    mine = rng.integers(0, 2, people)
    x = rng.integers(0, levels, (people, columns))
    x[:, 0] += 2 * mine
    y = rng.random(people) < 1 / (1 + np.exp(-0.5 * (x[:, 0] - levels / 2)))
    often = np.repeat(np.arange(people), copies)
    return {f"x{j}": x[often, j].astype(float) for j in range(columns)}, mine[often], y[often].astype(int)


def one_hot(table):
    return {f"{name} is {v}": (x == v).astype(float) for name, x in table.items() for v in np.unique(x)}


def twice(table):
    return table | {f"{name} again": x for name, x in table.items()}


@pytest.mark.parametrize("changed", [dict, one_hot, twice])
def test_copies_are_found_where_no_feature_is_continuous(changed):
    table, *labels = whole_numbers(300, 5, 10, 8)
    table = changed(table)
    own, copies = copies_of(table, row_hashes(table), *labels)
    assert copies == 1200
    assert (own.reshape(300, 5) == own.reshape(300, 5)[:, :1]).all()
    assert copies_of(table, row_hashes(table))[1] == 0  # without groups and outcomes it cannot be told


def test_copies_are_found_where_people_are_alike_by_chance_as_well():
    table, *labels = whole_numbers(1000, 5, 5, 4)
    own, copies = copies_of(table, row_hashes(table), *labels)
    assert copies == 4000
    assert (np.bincount(own) == 5).all()
    assert all(np.unique([own, x], axis=1).shape[1] == 1000 for x in (*table.values(), *labels))


def test_people_alike_whose_rare_outcome_is_of_few_cells_are_no_copies():
    rng = np.random.default_rng(1)
    cell = rng.integers(0, 1000, 30_000)
    outcome = ((cell < 50) & (rng.random(30_000) < 0.2)).astype(int)
    table = {"x": (cell // 32).astype(float), "y": (cell % 32).astype(float)}
    assert copies_of(table, row_hashes(table), np.zeros(30_000, dtype=int), outcome)[1] == 0


@pytest.mark.parametrize("changed", [dict, one_hot, twice])
@pytest.mark.parametrize(("people", "columns"), [(1500, 8), (2000, 4), (5000, 2), (400, 1)])
def test_people_alike_by_chance_are_no_copies(people, columns, changed):
    table, *labels = whole_numbers(people, 1, 10, columns)
    table = changed(table)
    assert copies_of(table, row_hashes(table), *labels)[1] == 0


@pytest.mark.parametrize(
    "features",
    [
        ["Age", "ChargeDegree", "Sex", "PriorCounts", "LengthOfStay"],
        ["age_years", "priors_count", "days_in_jail", "Sex"],
    ],
)
def test_people_of_the_compas_table_are_no_copies(features):
    compas = load_compas()
    labels = [compas[name].to_physical().to_numpy().astype(int) for name in ("race", "two_year_recid")]
    table = {name: compas[name].to_physical().to_numpy().astype(float) for name in features}
    assert copies_of(table, row_hashes(table), *labels)[1] == 0
