"""Rows keep their optional columns in step from the batches to the results."""

from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest

from tiltlens._rows import row_columns as module
from tiltlens._rows.compared_rows import select_groups, select_rows, sum_batch, sum_rows
from tiltlens._rows.groups import NO_GROUP, encode_periods, read_periods, sort_periods
from tiltlens._rows.roles import ColumnRoles, FeatureChoice, Request, resolve_roles
from tiltlens._rows.row_columns import ROW_COLUMNS, RowColumn
from tiltlens._rows.sampled_rows import SampledRows, SampleFacts
from tiltlens._rows.survey import survey_batch
from tiltlens._sources import tables
from tiltlens._sources.tables import FrameBatches

GROUPS = ("a", "b", "c")
REQUEST = Request(
    group="group",
    scores="score",
    propensity="chance",
    sample_weight="weight",
    clusters="person",
    outcome="repaid",
    periods="month",
    features=FeatureChoice(["x"]),
)


def table(rows=400, seed=0):
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "group": random.choice(["a", "b"], rows),
            "x": random.integers(0, 5, rows),
            "score": random.random(rows),
            "chance": random.uniform(0.2, 0.8, rows),
            "weight": random.integers(1, 4, rows).astype(float),
            "person": random.integers(0, rows // 2, rows),
            "repaid": pl.Series(random.integers(0, 3, rows)).replace(2, None),
            "month": random.choice(["May", "April", "June"], rows),
            "branch": random.choice(["north", "south"], rows),
        }
    )


def rows_of(size=60):
    random = np.random.default_rng(1)
    score = random.random(size)
    return SampledRows(
        groups=GROUPS,
        group=random.integers(0, 3, size),
        weights=random.random(size),
        scores=score,
        score=score,
        columns={
            "y_true": random.integers(0, 3, size),
            "probabilities": random.dirichlet(np.ones(3), size),
            "known_group": random.integers(NO_GROUP, 3, size),
            "row_number": np.arange(size),
        },
        facts=SampleFacts(people=(10.0, 20.0, 30.0)),
    )


def survey_of(roles, frame, monkeypatch, sample_rows=10**6):
    monkeypatch.setattr(tables, "BATCH_ROWS", 90)
    names = [*roles.columns, "branch"]
    return FrameBatches(frame).fold(names, partial(survey_batch, roles, sample_rows, {}))


def test_every_declared_column_has_a_role():
    assert all(hasattr(ColumnRoles, column.role) for column in ROW_COLUMNS)


def test_take_keeps_all_columns_in_step():
    rows, index = rows_of(), np.array([5, 3, 41])
    some = rows.take(index)
    assert some.row_number.tolist() == [5, 3, 41]
    np.testing.assert_array_equal(some.group, rows.group[index])
    np.testing.assert_array_equal(some.probabilities, rows.probabilities[index])
    np.testing.assert_array_equal(some.sampling_weight, rows.weights[index])  # rows stand for their weights


def test_of_groups_codes_the_audited_group_0_and_the_reference_1():
    rows = rows_of()
    pair = rows.of_groups("c", "a")
    kept = np.flatnonzero(rows.group != 1)
    assert pair.row_number.tolist() == kept.tolist()
    assert pair.group.tolist() == [0 if code == 2 else 1 for code in rows.group[kept]]
    np.testing.assert_array_equal(pair.probabilities, rows.probabilities[kept][:, [2, 0]])
    expected = {2: 0, 0: 1, 1: NO_GROUP, NO_GROUP: NO_GROUP}
    assert pair.known_group.tolist() == [expected[code] for code in rows.known_group[kept]]
    assert pair.facts.people == (30.0, 10.0)


def test_optional_columns_of_a_sample_are_those_of_the_table(monkeypatch):
    frame = table()
    roles = resolve_roles(frame.columns, REQUEST, may_have_arrays=False)
    survey = survey_of(roles, frame, monkeypatch)
    rows = select_rows(roles, survey, select_groups(roles, survey, "a", None)).rows
    source = frame[pl.Series(rows.row_number)]
    assert rows.labels["period"] == ("April", "May", "June")
    assert [rows.labels["period"][code] for code in rows.period] == source["month"].to_list()
    assert rows.y_true.tolist() == source["repaid"].fill_null(2).to_list()
    np.testing.assert_allclose(rows.log_odds, np.log(source["chance"] / (1 - source["chance"])), rtol=1e-12)
    same_person = source["person"].to_numpy()[:, None] == source["person"].to_numpy()
    np.testing.assert_array_equal(rows.cluster[:, None] == rows.cluster, same_person)


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_new_column_is_one_entry(monkeypatch, is_complete):
    branch = RowColumn(
        "branch",
        "features",  # any role that is set
        lambda roles, batch: read_periods(batch["branch"]),
        collect=sort_periods,
        encode=encode_periods,
        is_summed=True,
        count_codes=lambda labels: len(labels) + 1,
    )
    monkeypatch.setattr(module, "ROW_COLUMNS", (*ROW_COLUMNS, branch))
    frame = table()
    roles = resolve_roles(frame.columns, replace(REQUEST, sample_weight=None), may_have_arrays=False)
    survey = survey_of(roles, frame, monkeypatch, 10**6 if is_complete else 150)
    sample = select_rows(roles, survey, select_groups(roles, survey, "a", None))
    rows = sample.rows
    names = np.array(rows.labels["branch"])[rows.columns["branch"]]
    assert names.tolist() == frame[pl.Series(rows.row_number)]["branch"].to_list()
    if is_complete:
        sums = sum_rows(rows, sample.sizes, 0.0)
    else:
        step = partial(sum_batch, sample.emptied(), roles, 0.0)
        sums = FrameBatches(frame).fold([*roles.columns, "branch"], step)
    people = frame.group_by("group", "branch").agg(pl.len(), pl.sum("score")).sort("group", "branch")
    np.testing.assert_array_equal(sums.by_column["branch"].people[:, :2].ravel(), people["len"])
    np.testing.assert_allclose(sums.by_column["branch"].first[:, :2].ravel(), people["score"], rtol=1e-12)
