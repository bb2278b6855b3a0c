"""The first pass: who is there and which values they have, from batches that know nothing of each other."""

from functools import partial

import numpy as np
import polars as pl
import pytest
from tests.people import FEATURES, people

from tiltlens._rows.levels import Levels, value_counts
from tiltlens._rows.roles import GROUP, PEOPLE, WEIGHT, FeatureChoice, Request, resolve_roles
from tiltlens._rows.survey import survey_batch
from tiltlens._sources import tables
from tiltlens._sources.arrays import factorize
from tiltlens._sources.tables import FrameBatches, clean_batch

COLUMNS = {
    "whole": pl.Series([3, 1, 3, None, 2, 1], dtype=pl.Int64),
    "whole floats": pl.Series([3.0, -1.0, 3.0, None, 0.0, -1.0]),
    "halves": pl.Series([0.5, 1.5, 0.5, None, 2.5, 0.5]),
    "nearly whole": pl.Series([0.0, 1e-17, 0.0, None, 1.0, 0.0]),
    "infinite": pl.Series([0.0, float("inf"), 0.0, None, 1.0, 0.0]),
    "huge": pl.Series([1e300, 1e300, 0.0, None, 1.0, 0.0]),
    "keys": pl.Series([10**18, 10**18 + 1, 10**18, None, 10**18 + 2, 10**18], dtype=pl.Int64),
    "least": pl.Series([-(2**63), -(2**63) + 1, None, None, -(2**63), 0], dtype=pl.Int64),
    "missing": pl.Series([None] * 6, dtype=pl.Int64),
    "booleans": pl.Series([True, False, True, None, False, True]),
    "texts": pl.Series(["b", "a", "b", None, "", "a"]),
    "levels": pl.Series(["b", "a", "b", None, "c", "a"], dtype=pl.Enum(["c", "b", "a", "z"])),
    "dates": pl.Series([3, 1, 3, None, 2, 1], dtype=pl.Int32).cast(pl.Date),
    "times": pl.Series([3, 1, 3, None, 2, 1], dtype=pl.Int64).cast(pl.Datetime("us")),
}


@pytest.mark.parametrize("name", list(COLUMNS))
@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 0.5, 4.0, 1.0, 3.0])])
def test_value_counts_are_those_of_grouped_rows(name, weights):
    column, codes = COLUMNS[name].alias("x"), np.array([0, 1, 0, 1, 1, 0])
    labels = pl.Series(GROUP, ["one", "two"])
    weighed = pl.Series(WEIGHT, np.ones(6) if weights is None else weights)
    rows, keys = pl.DataFrame([labels.gather(codes), column, weighed]), [GROUP, "x"]
    people_of = pl.len().cast(pl.Int64).alias(PEOPLE)
    expected = rows.group_by(keys).agg(people_of, pl.col(WEIGHT).sum()).sort(keys)
    whole = value_counts(column, factorize(column), codes, labels, weights)
    parts = [
        value_counts(column[at], factorize(column[at]), codes[at], labels, None if weights is None else weights[at])
        for at in (slice(0, 2), slice(2, 3), slice(3, 6))
    ]
    for found in (whole, parts[0] + parts[1] + parts[2]):
        assert found.frame.sort(keys).equals(expected)
        assert found.frame.schema == expected.schema
        ranges = found.ranges.sort(GROUP)
        assert ranges[PEOPLE].to_list() == [3, 3]
        assert ranges["missing"].sum() == column.null_count()
        assert ranges["infinite"].sum() == (name == "infinite")


def test_too_many_values_leave_their_ranges_however_they_are_cut(monkeypatch):
    monkeypatch.setattr("tiltlens._rows.levels.MOST_COUNTED", 50)
    column = pl.Series("x", np.arange(200) / 4).extend_constant(None, 4)
    codes, labels = np.arange(204) % 2, pl.Series(GROUP, ["one", "two"])
    cuts = ([slice(0, 204)], [slice(0, 30), slice(30, 60), slice(60, 204)])
    expected = None
    for cut in cuts:
        parts = [value_counts(column[at], factorize(column[at]), codes[at], labels, None) for at in cut]
        found = sum(parts[1:], parts[0])
        assert found.frame is None
        ranges = found.ranges.sort(GROUP).drop("is_whole")
        assert ranges["smallest"].to_list() == [0.0, 0.25]
        assert ranges["largest"].to_list() == [49.5, 49.75]
        assert (ranges[PEOPLE].sum(), ranges["missing"].sum()) == (204, 4)
        assert expected is None or ranges.equals(expected)
        expected = ranges


@pytest.mark.parametrize("last", [32_766, 32_767, 32_768])
def test_numbers_have_the_same_codes_by_their_values_and_one_by_one(last):
    column = pl.Series("x", np.arange(last + 1)).append(pl.Series("x", [0] * 40_000)).extend_constant(None, 3)
    edges = pl.Series([10.0, 500.0, 20_000.0])
    found = Levels("x", "numeric", ("a", "b", "c", "d", "?"), (), edges, is_binned=True, missing=4)
    expected = np.searchsorted(edges.to_numpy(), column.fill_null(0).to_numpy())
    assert np.array_equal(found.codes(column), np.where(column.is_null().to_numpy(), 4, expected))


def messy():
    """Return people of whom some have no group, no score, no weight or another owner."""
    row = pl.int_range(pl.len())
    return people(600).with_columns(
        group=pl.when(row % 7 > 0).then("group"),
        score=pl.when(row % 11 > 0).then("score"),
        weight=pl.when(row % 13 > 0).then("weight").otherwise(0),
        chance=pl.when(row % 17 > 0).then("chance").otherwise(1.0),
    )


ROLES = resolve_roles(
    people().columns,
    Request(
        group="group",
        scores="score",
        propensity="chance",
        sample_weight="weight",
        features=FeatureChoice(FEATURES),
        where={"owner": True},
    ),
    may_have_arrays=False,
)


def test_a_survey_of_batches_is_that_of_all_rows(monkeypatch):
    whole = survey_batch(ROLES, 10**6, {}, clean_batch(messy()))
    monkeypatch.setattr(tables, "BATCH_ROWS", 50)
    shuffled = messy().sample(fraction=1, shuffle=True, seed=2)
    for frame in (messy(), shuffled):
        found = FrameBatches(frame).fold(ROLES.columns, partial(survey_batch, ROLES, 10**6, {}))
        for name in (
            "read",
            "left_out",
            "without_group",
            "weight_range",
            "outside",
            "is_decisions",
            "seen",
        ):
            assert getattr(found, name) == getattr(whole, name), name
        assert found.fingerprint == whole.fingerprint
        assert found.sample.counts == whole.sample.counts
        for name in FEATURES:
            one, other = (one.values[name].frame.sort(GROUP, name) for one in (found, whole))
            assert one.equals(other)


def test_a_survey_counts_who_was_left_out_by_the_first_reason():
    found = survey_batch(ROLES, 10**6, {}, clean_batch(messy()))
    kept = messy().filter("owner")
    assert found.read == 600
    assert found.left_out["not_given_owner"] == 600 - kept.height
    assert found.left_out["missing_score"] == kept["score"].null_count()
    scored = kept.filter(pl.col("score").is_not_null())
    assert found.left_out["zero_weight"] == scored.filter(weight=0).height
    weighed = scored.filter(pl.col("weight") > 0)
    assert found.without_group == weighed["group"].null_count()
    used = weighed.filter(pl.col("group").is_not_null())
    assert sum(found.sample.counts.values()) == used.height
    outside = used.filter(chance=1.0)["group"].value_counts()
    assert {group: count for group, count in found.outside.items() if count} == dict(outside.iter_rows())
    assert found.seen == {"owner": (False, True)}


def test_one_changed_value_changes_the_fingerprint():
    plain = survey_batch(ROLES, 10**6, {}, clean_batch(people()))
    owner = people()["owner"].arg_max()
    for name, value in (("income", 1.0), ("city", "West"), ("score", 0.125), ("weight", 9), ("chance", 0.125)):
        changed = people().with_columns(
            pl.when(pl.int_range(pl.len()) == owner).then(pl.lit(value)).otherwise(name).alias(name)
        )
        assert survey_batch(ROLES, 10**6, {}, clean_batch(changed)).fingerprint != plain.fingerprint, name
