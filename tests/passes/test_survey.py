"""The parts of the three passes against plain sums over rows."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from tiltlens.streams import cells, levels, places, sample, survey, texts, values
from tiltlens.streams.cells import power_sums, recipe

from tiltlens.engines import batches
from tiltlens.engines.arrays import below

POWERS = ((0,), (1,), (2,), (3,))
EXPONENTS = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (0, 3), (2, 2))


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("sizes", [(1,), (7, 40), (70_000,)])
def test_sums_of_powers_by_cell_are_those_of_the_rows(is_weighted, sizes, monkeypatch):
    monkeypatch.setattr(cells, "CHUNK", 64)  # cells begin and end anywhere in a chunk
    random = np.random.default_rng(0)
    x, y, w = random.normal(size=(3, 1000))
    w, audited = np.abs(w), random.random(1000) < 0.4
    splits = [(random.integers(0, size, 1000), size) for size in sizes]
    found = power_sums([x, y], w if is_weighted else None, audited, splits, EXPONENTS)
    for (codes, size), pair in zip(splits, found, strict=True):
        for who, sums in zip((audited, ~audited), pair, strict=True):
            assert np.array_equal(sums.counts, np.bincount(codes[who], minlength=size))
            for place, (i, j) in enumerate(EXPONENTS):
                for power, table in ((1, sums.first), (2, sums.second)):
                    terms = (w**power if is_weighted else 1.0) * x**i * y**j
                    assert_allclose(table[:, place], np.bincount(codes[who], terms[who], size), atol=1e-10)


def test_no_rows_have_sums_of_zero():
    nothing = np.empty(0)
    ((audited, _),) = power_sums([nothing, nothing], None, nothing > 0, [(nothing.astype(int), 3)], EXPONENTS)
    assert audited.counts.tolist() == [0, 0, 0]
    assert not audited.first.any()


def test_every_power_is_made_of_one_that_was_made_before():
    made = {0}
    for place, lower, _, powers in recipe(EXPONENTS):
        assert set(range(lower, lower + powers)) <= made
        made |= set(range(place, place + powers))
    assert made >= set(range(len(EXPONENTS)))


def test_powers_of_one_variable_are_made_one_after_another():
    sums, _ = power_sums(np.array([[2.0, 3.0]]), None, np.ones(2, dtype=bool), [(np.zeros(2, int), 1)], POWERS)[0]
    assert sums.first.tolist() == [[2.0, 5.0, 13.0, 35.0]]


def test_powers_that_lie_side_by_side_are_made_together():
    steps = recipe(tuple((i, j) for total in range(5) for i in range(total + 1) for j in [total - i]))
    assert max(step.powers for step in steps) == 4
    assert all(step.lower + step.powers <= step.place for step in steps)


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
    labels = pl.Series(sample.GROUP, ["one", "two"])
    found = values.value_counts(column, places.placed(column), codes, labels, weights)
    weighed = pl.Series(sample.WEIGHT, np.ones(6) if weights is None else weights)
    rows = pl.DataFrame([labels.gather(codes), column, weighed])
    keys = [sample.GROUP, "x"]
    people = pl.len().cast(pl.Int64).alias(sample.PEOPLE)
    expected = rows.group_by(keys).agg(people, pl.col(sample.WEIGHT).sum()).sort(keys)
    assert found.frame.sort(keys).equals(expected)
    assert found.frame.schema == expected.schema
    ranges = found.ranges.sort(sample.GROUP)
    assert ranges[sample.PEOPLE].to_list() == [3, 3]
    assert ranges["missing"].sum() == column.null_count()
    assert ranges["infinite"].sum() == (name == "infinite")


def rows_to_draw(frame, scores=()):
    """Return rows of one group, of equal weight and log-odds."""
    nothing = np.zeros(frame.height)
    return sample.SampleRows(frame, nothing.astype(int), pl.Series(["a"]), None, nothing, scores)


def test_the_sample_is_the_rows_of_the_smallest_hashes_with_their_people(monkeypatch):
    monkeypatch.setattr(sample, "SAMPLED", 50)
    random = np.random.default_rng(1)
    rows = pl.DataFrame({"x": random.integers(0, 300, 2000), "y": random.integers(0, 2, 2000).astype(str)})
    hashes = pl.Series(rows_to_draw(rows).hashes())
    lowest = hashes.unique().sort()[:50]
    parts = [
        sample.sampled(rows_to_draw(rows[start : start + 400]), sample.Bound())[0] for start in range(0, 2000, 400)
    ]
    for found in (sample.sampled(rows_to_draw(rows), sample.Bound())[0], sum(parts[1:], parts[0])):
        assert found.frame[sample.HASH].equals(lowest.alias(sample.HASH))
        assert not found.is_complete
        people = hashes.filter(hashes.is_in(lowest.implode())).len()
        assert found.frame[sample.PEOPLE].sum() == people


@pytest.mark.parametrize("kind", [pl.Int8, pl.Int64, pl.UInt16, pl.Float32, pl.Float64])
def test_numbers_of_any_kind_have_the_same_hashes(kind):
    numbers = pl.Series([0, 1, 2, 100, None], dtype=pl.Int32)
    expected = rows_to_draw(pl.DataFrame({"x": numbers})).hashes()
    assert np.array_equal(rows_to_draw(pl.DataFrame({"x": numbers.cast(kind)})).hashes(), expected)
    assert len(np.unique(expected)) == 5


def test_numbers_that_differ_by_rounding_have_the_same_hash():
    found = rows_to_draw(pl.DataFrame({"x": [0.1 + 0.2, 0.3, -1e-12, 0.0, 0.3 + 1e-8]})).hashes()
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(np.unique(found)) == 3


@pytest.mark.parametrize("unit", [1.0, 0.5, 10.0])
def test_rows_that_differ_by_signs_have_other_hashes(unit):
    numbers = unit * np.arange(-500, 500)
    rows = pl.DataFrame({"x": np.repeat(numbers, 1000), "y": np.tile(numbers, 1000)})
    assert len(np.unique(rows_to_draw(rows).hashes())) == 1_000_000
    found = {name: places.placed(rows[name]) for name in rows.columns}
    assert len(np.unique(replace(rows_to_draw(rows), placed=found).hashes())) == 1_000_000


def test_of_rows_that_differ_by_rounding_the_first_is_kept_whatever_the_bound(monkeypatch):
    monkeypatch.setattr(sample, "SAMPLED", 500)
    monkeypatch.setattr(sample, "MANY", 20_000)
    values = np.tile(np.random.default_rng(5).random(3_000), 10) + 1e-13 * np.repeat(np.arange(10), 3_000)
    rows, low = rows_to_draw(pl.DataFrame({"x": values})), sample.Bound()
    first = sample.sampled(rows, low)[0].frame
    again = sample.sampled(rows, low)[0].frame
    assert low.limit < sample.ALL_HASHES
    assert np.isin(first["x"].to_numpy(), values[:3_000]).all()
    assert first.equals(again)


@pytest.mark.parametrize("last", [32_766, 32_767, 32_768])
def test_numbers_have_the_same_codes_by_their_values_and_one_by_one(last):
    column = pl.Series("x", np.arange(last + 1)).append(pl.Series("x", [0] * 40_000)).extend_constant(None, 3)
    edges = pl.Series([10.0, 500.0, 20_000.0])
    found = levels.Levels("x", "numeric", ("a", "b", "c", "d", "?"), (), edges, is_binned=True, missing=4)
    expected = np.searchsorted(edges.to_numpy(), column.fill_null(0).to_numpy())
    assert np.array_equal(found.codes(column), np.where(column.is_null().to_numpy(), 4, expected))


@pytest.mark.parametrize("name", list(COLUMNS))
def test_a_column_known_by_its_values_has_the_hashes_of_its_rows(name):
    column = COLUMNS[name].alias("x")
    rows, found = rows_to_draw(pl.DataFrame([column])), places.placed(column)
    if found is not None:
        assert found.values.gather(found.places).equals(column)
    assert np.array_equal(replace(rows, placed={"x": found}).hashes(), rows.hashes())


@pytest.mark.parametrize("many", [False, True])
def test_groups_are_stretches_of_sorted_rows(many, monkeypatch):
    monkeypatch.setattr(survey, "FEW_GROUPS", 1 if many else 8)
    random = np.random.default_rng(4)
    codes, weights, log_odds = random.integers(0, 3, 500), random.random(500), random.normal(size=500)
    scores, labels = random.random((1, 500)), pl.Series(sample.GROUP, ["one", "two", "three"])
    for given in (None, weights):
        found = survey._groups(codes, labels, given, log_odds, scores)
        for group, row in enumerate(found.iter_rows(named=True)):
            mine = codes == group
            w = np.ones(500) if given is None else given
            assert row[sample.PEOPLE] == mine.sum()
            assert row[sample.WEIGHT] == pytest.approx(w[mine].sum())
            assert row["log_odds"] == pytest.approx(w[mine] @ log_odds[mine])
            assert row["score 0"] == pytest.approx(w[mine] @ scores[0, mine])
            assert (row["least_weight"], row["most_weight"]) == (w[mine].min(), w[mine].max())
            assert (row["least_log_odds"], row["most_log_odds"]) == (log_odds[mine].min(), log_odds[mine].max())
            assert (row["least_score 0"], row["most_score 0"]) == (scores[0, mine].min(), scores[0, mine].max())


@pytest.mark.parametrize("count", [1, 8, 300, 20_000])
def test_codes_of_texts_are_their_places(count):
    random = np.random.default_rng(3)
    known = pl.Series([f"text {place}" for place in range(count)])
    at = random.integers(0, count + 2, 60_000)
    column = pl.concat([known, pl.Series(["unheard of", None])]).gather(at)
    assert np.array_equal(texts.text_codes(column, known, first=5, other=-1), np.where(at < count, 5 + at, -1))
    found, codes = texts.distinct_texts(column, first=1, missing=0)
    again = pl.concat([pl.Series([None], dtype=pl.String), found]).gather(codes)
    assert again.equals(column)
    assert found.n_unique() == len(found)


@pytest.mark.parametrize("count", [1, 9, 200])
@pytest.mark.parametrize(("or_equal", "side"), [(False, "left"), (True, "right")])
def test_edges_below_are_those_of_a_search(count, or_equal, side):
    random = np.random.default_rng(2)
    edges = np.unique(random.integers(0, 500, count) / 4)
    numbers = random.integers(-10, 600, 40_000) / 4
    assert np.array_equal(below(edges, numbers, or_equal), np.searchsorted(edges, numbers, side=side))


@pytest.mark.parametrize("rows", [1, 7, 400, 401, 799, 12_345])
def test_even_batches_hold_all_rows_and_no_more_than_twice_as_many_as_others(rows, monkeypatch):
    monkeypatch.setattr(batches, "BATCH_ROWS", 100)
    sizes = [part.height for part in pl.DataFrame({"x": range(rows)}).iter_slices(batches.even_batch(rows))]
    assert sum(sizes) == rows
    assert max(sizes) <= 200
    assert len(sizes) % 2 == 0 or rows == 1
    assert max(sizes) - min(sizes) < len(sizes)
