"""The sample depends on what rows hold alone, and beyond it every number that needs sums only is that of all rows."""

from functools import cache, partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.people import assert_same_numbers, lending, note_codes

import tiltlens as tl
from tiltlens._rows.roles import GROUP, HASH, FeatureChoice, Request, resolve_roles
from tiltlens._rows.survey import RowSample, group_quota, survey_batch
from tiltlens._sources import tables
from tiltlens._sources.tables import FrameBatches, clean_batch

NAMES = ["region", "job", "amount", "years"]
QUESTION = {"group": "group", "reference": "b", "scores": "score", "features": NAMES, "audited": "a"}
WAYS = {
    "fitted": {"sample_weight": "weight"},
    "known": {"propensity": "chance"},
    "known, weights": {"propensity": "chance", "sample_weight": "weight"},
    "known, plug-in": {"propensity": "chance", "sample_weight": "weight", "folds": None},
    "classes": {"scores": ["none", "some", "all"], "favourable": "some"},
    "known, decisions": {"propensity": "chance", "threshold": 0.5},
}
OF_SUMS = ("gap", "impact_ratio", "shortfall", "standardised_difference", "output_divergence", "detection_sample_size")
OF_KNOWN = ("descent_rate", "input_divergence")
COUNTABLE = ("region", "job")
SIZE = 1_000


@cache
def complete(way):
    return tl.audit(lending(), **QUESTION | WAYS[way])["a"]


@cache
def sampled(way):
    return tl.audit(lending(), **QUESTION | WAYS[way], sample_rows=SIZE)["a"]


def assert_same_values(found, expected):
    assert_same_numbers(found.value, expected.value)


def width(estimate):
    return estimate.high - estimate.low


@pytest.mark.parametrize("way", WAYS)
def test_what_needs_sums_only_comes_from_all_rows(way):
    found, expected = sampled(way), complete(way)
    for name in OF_SUMS if way != "classes" else OF_SUMS[:-1]:
        assert_same_values(found.estimate(name), expected.estimate(name))
    for one, other in zip(found.rates, expected.rates, strict=True):
        assert_same_values(one, other)
    assert_same_numbers(found.outputs.means, expected.outputs.means)
    assert found.rows == expected.rows
    tables = (
        c.contributions_full.filter(pl.col("feature").is_in(COUNTABLE)).sort("feature") for c in (found, expected)
    )
    assert_same_numbers(*(table.select("alone", "reveals").to_dicts() for table in tables))


@pytest.mark.parametrize("way", [way for way in WAYS if way.startswith("known")])
def test_with_a_given_membership_the_correction_comes_from_all_rows_too(way):
    found, expected = sampled(way), complete(way)
    for name in OF_KNOWN:
        assert_same_values(found.estimate(name), expected.estimate(name))
    assert_same_numbers(found.correction.numbers, expected.correction.numbers)


@pytest.mark.parametrize("way", [way for way in WAYS if "plug-in" not in way])
def test_standard_errors_of_the_sample_are_those_of_all_rows_within_a_few_per_cent(way):
    """The spread of a score is known to 1/√(2n) from n rows of a group, here 450: to 3 %."""
    found, expected = sampled(way), complete(way)
    for name in OF_SUMS[:-1]:
        assert width(found.estimate(name)) == pytest.approx(width(expected.estimate(name)), rel=0.07), name
    for feature in COUNTABLE:  # bands of the sample's κ
        one, other = (
            c.contributions_full.row(by_predicate=pl.col("feature") == feature, named=True) for c in (found, expected)
        )
        assert one["alone_high"] - one["alone_low"] == pytest.approx(other["alone_high"] - other["alone_low"], rel=0.1)
    if way.startswith("known"):
        for name in OF_KNOWN:  # of squares and exponentials: their spread is known less well
            assert width(found.estimate(name)) == pytest.approx(width(expected.estimate(name)), rel=0.25), name


@pytest.mark.parametrize("way", ["fitted", "classes"])
def test_what_is_fitted_on_the_sample_has_the_samples_error_and_agrees(way):
    found, expected = sampled(way), complete(way)
    for name in ("input_divergence", "descent_rate", "adjusted_gap"):
        one, other = found.estimate(name), expected.estimate(name)
        assert abs(one.value - other.value) < width(one), name  # 3.9 standard errors: six numbers are looked at
        assert width(one) > 1.2 * width(other), name  # √2, and the spread of both
    one, other = (
        c.contributions_full.row(by_predicate=pl.col("feature") == "amount", named=True) for c in (found, expected)
    )
    assert one["alone_low"] < other["alone"] < one["alone_high"]
    assert one["verdict"] == other["verdict"] == "potential proxy"


def test_a_sampled_audit_says_so_and_a_complete_one_does_not():
    size = sum(sampled("fitted").rows.values())
    drawn = sampled("fitted")._profiles.rows.audited.size
    told = [note for note in sampled("fitted").checks.notes if "a sample of" in note]
    assert len(told) == 1
    assert f"{size:,} rows" in told[0]
    assert f"a sample of {drawn:,}" in told[0]
    assert 850 < drawn <= SIZE
    assert "sampled" not in note_codes(complete("fitted"))


@pytest.mark.parametrize("way", ["fitted", "known, weights", "classes"])
@pytest.mark.parametrize("rows", [333])
def test_neither_order_nor_batches_change_any_number_of_a_sampled_audit(way, rows, monkeypatch):
    monkeypatch.setattr(tables, "BATCH_ROWS", rows)
    shuffled = lending().sample(fraction=1, shuffle=True, seed=rows)
    options = QUESTION | WAYS[way] | {"sample_rows": SIZE, "features": NAMES[::-1]}
    found = tl.audit(shuffled.select(reversed(shuffled.columns)), **options)["a"]
    assert_same_numbers(found.to_dict(), sampled(way).to_dict())


@pytest.mark.parametrize("held", ["duckdb", "csv files"], indirect=True)
def test_engines_draw_the_same_sample(held, small_batches):
    """Of all sources `tests/rows/test_sources.py` compares the sampled rows."""
    rows = lending().with_columns(pl.col("amount").fill_nan(None))
    found = tl.audit(held(rows), **QUESTION | WAYS["known"], sample_rows=SIZE)
    assert_same_numbers(found["a"].to_dict(), sampled("known").to_dict())


def test_no_more_rows_than_the_sample_may_have_are_all_of_them():
    rows = lending().height
    options = QUESTION | WAYS["known"]
    exact, fewer = (tl.audit(lending(), **options, sample_rows=size)["a"] for size in (rows, rows - 1))
    assert_same_numbers(exact.to_dict(), complete("known").to_dict())
    assert "sampled" in note_codes(fewer)


@given(counts=st.lists(st.integers(0, 50), min_size=1, max_size=8), size=st.integers(1, 120))
def test_the_quota_is_the_largest_for_which_there_is_room(counts, size):
    quota = group_quota({str(group): count for group, count in enumerate(counts)}, size)

    def taken(most):
        return sum(min(count, most) for count in counts)

    assert taken(quota) <= size
    assert taken(quota) == sum(counts) or taken(quota + 1) > size


ROLES = resolve_roles(
    lending().columns,
    Request(group="group", scores="score", sample_weight="weight", features=FeatureChoice(NAMES)),
    may_have_arrays=False,
)


def survey_of(frame, size=SIZE, threshold=None):
    return survey_batch(ROLES, size, {} if threshold is None else threshold, clean_batch(frame))


def folded_sample(frame, size=SIZE):
    """Return the sample of all batches of a frame, as an audit draws it."""
    return FrameBatches(frame).fold(frame.columns, partial(survey_batch, ROLES, size, {})).sample


def test_the_sample_is_the_rows_of_the_smallest_hashes_of_each_group(monkeypatch):
    whole = survey_of(lending(), size=10**9).sample
    assert whole.is_complete
    counts = dict(lending()["group"].value_counts().iter_rows())
    quota = group_quota(counts, SIZE)
    assert counts["c"] < quota < counts["a"]
    ranked = whole.frame.with_columns(rank=pl.col(HASH).rank("ordinal").over(GROUP))
    lowest = np.sort(ranked.filter(pl.col("rank") <= quota)[HASH].to_numpy())
    for rows in (1 << 18, 999, 100):
        monkeypatch.setattr(tables, "BATCH_ROWS", rows)
        found = folded_sample(lending().sample(fraction=1, shuffle=True, seed=rows))
        assert found.counts == counts
        assert not found.is_complete
        assert np.array_equal(np.sort(found.frame[HASH].to_numpy()), lowest)


def test_a_rare_group_is_kept_whole_first():
    found = tl.audit(lending(), **QUESTION | {"audited": None, "folds": None}, sample_rows=SIZE)
    rare = lending().filter(group="c").height
    kept = found["c"]._profiles.rows
    assert (kept.count0, found["c"].rows["audited"]) == (rare, rare)
    assert kept.count1 == found["a"]._profiles.rows.count0 == (SIZE - rare) // 2


def test_each_of_many_groups_has_the_same_room():
    random = np.random.default_rng(0)
    frame = lending(5_000).with_columns(group=pl.Series(random.integers(0, 10, 5_000).astype(str)))
    found = survey_of(frame)
    parts = [survey_of(part) for part in frame.iter_slices(700)]
    for sample in (found.sample, sum(parts[1:], parts[0]).sample):
        assert sample.frame[GROUP].value_counts()["count"].to_list() == [SIZE // 10] * 10


def test_samples_can_be_added_in_any_order():
    parts = [survey_of(part).sample for part in lending().iter_slices(450)]
    forth, back = sum(parts[1:], parts[0]), sum(parts[-2::-1], parts[-1])
    assert isinstance(forth, RowSample)
    assert forth.counts == back.counts
    assert forth.frame.sort(HASH).equals(back.frame.sort(HASH))


def test_a_threshold_spares_work_and_changes_nothing():
    threshold = {}
    first = survey_of(lending(), threshold=threshold).sample.frame
    again = survey_of(lending(), threshold=threshold).sample
    assert set(threshold) == {"a", "b"}
    assert again.parts[0].height < lending().height / 2
    assert again.frame.sort(HASH).equals(first.sort(HASH))


def test_of_copies_of_a_row_each_is_drawn_for_itself():
    """Of equal rows a hash would draw all or none: of a table of few distinct rows most would never be looked at."""
    distinct = lending(200).filter(pl.col("group") != "c")
    rows = clean_batch(distinct[np.tile(np.arange(distinct.height), 40)])
    numbered = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(tables.ROW))
    for parts in ([numbered], list(numbered.iter_slices(1_000))):
        surveys = [survey_batch(ROLES, SIZE, {}, part) for part in parts]
        frame = sum(surveys[1:], surveys[0]).sample.frame
        assert frame.height == SIZE
        for _, group in frame.group_by(GROUP):
            drawn = group.group_by(NAMES).len()["len"]
            assert drawn.len() > 0.9 * distinct.filter(pl.col("group") == group[GROUP][0]).height
            assert drawn.var() / drawn.mean() < 1.5  # as if drawn without replacement, not in bundles


def test_a_table_of_copies_is_sampled_like_any_other():
    few = lending(400, 3).drop_nans()
    rows = few[np.repeat(np.arange(few.height), 10)]
    options = QUESTION | {"features": ["region", "job", "years"], "propensity": "chance"}
    whole = tl.audit(rows, **options)["a"]
    part = tl.audit(rows, **options, sample_rows=SIZE)["a"]
    for name in OF_SUMS[:-1]:
        assert_same_values(part.estimate(name), whole.estimate(name))
        assert width(part.estimate(name)) == pytest.approx(width(whole.estimate(name)), rel=0.15)
