"""Exact duplicates, and different people who happen to have equal features."""

import numpy as np
import pytest

from tiltlens._repair.rows import check_not_audited, count_duplicates, duplicate_clusters
from tiltlens.datasets import load_compas
from tiltlens.errors import DataError


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


@pytest.mark.parametrize("changed", [dict, one_hot])
def test_duplicates_are_one_cluster(changed):
    table, *labels = whole_numbers(300, 5, 10, 8)
    clusters = duplicate_clusters(changed(table), *labels)
    assert count_duplicates(clusters) == 1200
    assert (clusters.reshape(300, 5) == clusters.reshape(300, 5)[:, :1]).all()


@pytest.mark.parametrize("changed", [dict, one_hot])
@pytest.mark.parametrize(("people", "columns"), [(1500, 8), (2000, 4), (5000, 2), (400, 1)])
def test_people_with_equal_features_are_no_duplicates(people, columns, changed):
    table, *labels = whole_numbers(people, 1, 10, columns)
    assert duplicate_clusters(changed(table), *labels) is None


def test_people_of_a_rare_group_with_equal_features_are_no_duplicates():
    rng = np.random.default_rng(1)
    table = {"x": rng.integers(0, 20_000, 10_000).astype(float)}
    assert duplicate_clusters(table, (rng.random(10_000) < 0.02).astype(int), None) is None


@pytest.mark.parametrize(
    "features",
    [
        ["Age", "ChargeDegree", "Sex", "PriorCounts", "LengthOfStay"],
        ["age_years", "priors_count", "days_in_jail", "Sex"],
    ],
)
def test_people_of_the_compas_table_are_no_duplicates(features):
    compas = load_compas()
    labels = [compas[name].to_physical().to_numpy().astype(int) for name in ("race", "two_year_recid")]
    table = {name: compas[name].to_physical().to_numpy().astype(float) for name in features}
    assert duplicate_clusters(table, *labels) is None


def test_rows_without_features_are_no_duplicates():
    assert duplicate_clusters({}, np.zeros(9, dtype=int), None) is None


def test_a_few_matches_are_noted_and_many_are_refused(refused):
    audited = np.repeat(np.arange(3000), 1 + (np.arange(3000) < 60)).astype(np.uint64)  # two in a hundred equal another
    fresh = np.arange(10_000, 11_000).astype(np.uint64)
    assert check_not_audited(fresh, audited) == []
    (note,) = check_not_audited(np.concatenate([fresh, audited[:30]]), audited)
    assert (note.code, note.values) == ("audited rows", {"rows": 30})
    assert check_not_audited(np.concatenate([fresh, audited[-1:]]), audited)[0].code == "audited row"
    with refused(DataError, "`held_out`", "300"):
        check_not_audited(np.concatenate([fresh, audited[-300:]]), audited)


def test_matches_by_chance_are_no_reason_to_refuse(refused):
    rng = np.random.default_rng(0)
    audited = rng.integers(0, 10**9, 4000).astype(np.uint64)
    others = rng.integers(0, 10**9, 1_000_000).astype(np.uint64)
    assert check_not_audited(others, audited)[0].code == "audited rows"
    with refused(DataError, "were used"):
        check_not_audited(np.concatenate([others, audited]), audited)
