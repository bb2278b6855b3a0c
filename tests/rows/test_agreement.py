"""Passes over batches give the numbers of one batch, to the ninth digit, however the table is held, cut and ordered."""

import pickle
from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tests.people import (
    FEATURES,
    SOURCES,
    SPARK,
    along,
    assert_same_numbers,
    classed,
    in_arrays,
    in_pandas,
    people,
)

import tiltlens as tl
from tiltlens._learners.candidates import outcome_scores
from tiltlens._sources import tables
from tiltlens.datasets import COMPAS_FEATURES, load_compas

WAYS = {
    "fitted, weights": {"sample_weight": "weight"},
    "classes": {"propensity": "chance", "scores": ["none", "some", "all"], "favourable": "some"},
    "known": {"propensity": "chance"},
    "weights": {"propensity": "chance", "sample_weight": "weight"},
    "uneven weights": {"propensity": "chance", "sample_weight": "uneven"},
    "plug-in": {"folds": None},
    "plug-in, weights": {"folds": None, "propensity": "chance", "sample_weight": "weight"},
    "outputs only": {"propensity": "chance", "input_weight": 0.0, "favourable": "low"},
    "decisions": {"propensity": "chance", "threshold": 0.5},
    "given": {"propensity": "chance", "where": {"owner": True}},
    "classes, plug-in": {
        "scores": ["none", "some", "all"],
        "favourable": "all",
        "folds": None,
        "sample_weight": "weight",
    },
}
PEOPLE = {"group": "group", "reference": "B", "scores": "score", "features": FEATURES}


@cache
def in_one_batch(way):
    return tl.audit(classed(), **PEOPLE | WAYS[way]).to_dict()


@pytest.mark.parametrize(
    ("held", "way"),
    [*along(["csv files", SPARK], "classes, plug-in"), ("csv files", "fitted, weights")],
    indirect=["held"],
)
def test_many_batches_of_a_source_give_the_audit_of_one(held, way, small_batches):
    """Of all sources `tests/rows/test_sources.py` compares the rows and sums, of which every audit is made."""
    assert_same_numbers(tl.audit(held(classed()), **PEOPLE | WAYS[way]).to_dict(), in_one_batch(way))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "known"])  # which is there with weights
def test_many_batches_of_another_order_of_rows_and_columns_give_the_same_audit(way, small_batches):
    shuffled = classed().sample(fraction=1, shuffle=True, seed=0)
    turned = shuffled.select(reversed(shuffled.columns))
    found = tl.audit(turned, **PEOPLE | {"features": FEATURES[::-1]} | WAYS[way]).to_dict()
    assert_same_numbers(found, in_one_batch(way))
    assert found["provenance"]["data_sha256"] == in_one_batch(way)["provenance"]["data_sha256"]


@cache
def compas():
    data = load_compas()
    return data.with_columns(score=pl.Series(outcome_scores(data, COMPAS_FEATURES, "is_recid")))


def test_compas_in_another_order_and_many_batches_is_compas(monkeypatch):
    arguments = {"group": "race", "reference": "Caucasian", "scores": "score", "features": COMPAS_FEATURES}
    arguments |= {"favourable": "low"}
    plain = tl.audit(compas(), **arguments)
    monkeypatch.setattr(tables, "BATCH_ROWS", 500)
    found = tl.audit(compas().sample(fraction=1, shuffle=True, seed=1).lazy(), **arguments)
    assert_same_numbers(found.to_dict(), plain.to_dict())
    one, two = (audit["African-American"] for audit in (plain, found))
    assert_same_numbers(two.correction.prototypes(suppress=False), one.correction.prototypes(suppress=False))
    for feature in COMPAS_FEATURES:
        assert_same_numbers(two.correction.profile(feature).to_dicts(), one.correction.profile(feature).to_dicts())


@cache
def numbered(last):
    serial = pl.Series("serial", [place // 200 for place in range(399)] + [last], dtype=pl.UInt64)
    return classed().with_columns(serial)


@cache
def of_serials(last):
    return tl.audit(numbered(last), **PEOPLE | {"features": ["city", "serial"], "folds": None})["A"]


@pytest.mark.parametrize("held", [name for name in SOURCES if name not in ("dict of numpy", SPARK)], indirect=True)
@pytest.mark.parametrize("last", [2**64 - 1, 1])
def test_whole_numbers_too_large_in_one_batch_are_texts_in_all(held, last, small_batches):
    found = tl.audit(held(numbered(last)), **PEOPLE | {"features": ["city", "serial"], "folds": None})["A"]
    assert_same_numbers(found.to_dict(), of_serials(last).to_dict())
    assert found.correction.profile("serial")["value"].to_list() == [*"01", *[str(last)] * (last > 1)]


def test_a_model_scores_batch_by_batch(small_batches):
    def model(frame):
        return expit(0.05 * (frame["income"].fill_null(48.0).to_numpy() - 48) + 0.5 * frame["owner"].to_numpy())

    arguments = PEOPLE | {"scores": None, "model": model, "propensity": "chance"}
    plain, found = (tl.audit(data, **arguments).to_dict() for data in (classed(), classed().lazy()))
    assert_same_numbers(found, plain)


def by_classifier(data, folds):
    model = make_pipeline(OneHotEncoder(), LogisticRegression(C=100))
    return tl.audit(data, **PEOPLE | {"features": ["city", "owner"], "folds": folds, "propensity": model})


@cache
def by_classifier_in_memory(folds):
    return by_classifier(classed(), folds).to_dict()


@pytest.mark.parametrize("held", ["polars lazy", "duckdb", "parquet files", "csv files"], indirect=True)
@pytest.mark.parametrize("folds", [5, None])
def test_a_classifier_is_cross_fitted_on_the_rows_that_were_read(held, folds, small_batches):
    found = by_classifier(held(classed()), folds)
    assert found["A"].checks.propensity == "Pipeline"
    assert_same_numbers(found.to_dict(), by_classifier_in_memory(folds))


def test_a_membership_that_says_nothing_is_no_mistake(small_batches):
    c = tl.audit(classed().with_columns(chance=pl.lit(0.4)), **PEOPLE, propensity="chance")["A"]
    assert c.correction.input_divergence.value == pytest.approx(0.0, abs=1e-9)
    assert_same_numbers(c.gap.value, in_one_batch("known")["comparisons"]["A"]["gap"]["value"], within=1e-12)


def test_arrays_beside_rows_in_memory_are_taken_row_by_row(small_batches):
    frame = classed()
    arrays = PEOPLE | {"propensity": frame["chance"].to_numpy(), "sample_weight": frame["weight"].to_list()}
    arrays |= {"group": frame["group"].to_numpy(), "scores": frame["score"].to_numpy()}
    found = tl.audit(frame.drop("group", "chance", "score", "weight"), **arrays)["A"].to_dict()
    assert_same_numbers(found, in_one_batch("weights")["comparisons"]["A"])


HOLDERS = {
    "pandas": (in_pandas, lambda table: table.__setitem__("score", table["score"] ** 2)),
    "dict of numpy": (
        lambda frame: {name: np.array(values) for name, values in in_arrays(frame).items()},
        lambda table: np.square(table["score"], out=table["score"]),
    ),
}


@pytest.mark.parametrize("holder", list(HOLDERS))
def test_what_takes_rows_is_told_of_the_table_as_it_was_audited(holder):
    hold, change = HOLDERS[holder]
    table = hold(classed().drop_nulls())
    found = tl.audit(table, **PEOPLE, folds=None)["A"]
    expected = tl.audit(classed().drop_nulls(), **PEOPLE, folds=None)["A"]
    change(table)
    assert found.correction.project().cost == pytest.approx(expected.correction.project().cost, abs=1e-12)
    assert_same_numbers(found.to_dict(), expected.to_dict())


def test_a_path_follows_the_rows_of_the_table_however_they_were_read(small_batches, tmp_path):
    frame = classed()
    frame.write_parquet(tmp_path / "people.parquet")
    plain, *others = (
        tl.audit(data, **PEOPLE, folds=None)["A"]
        for data in (frame, frame.lazy(), tmp_path / "people.parquet", in_pandas(frame))
    )
    for found in others:
        np.testing.assert_allclose(
            found.correction.path([(1, 1, 1, 1)])[0].q, plain.correction.path([(1, 1, 1, 1)])[0].q, atol=1e-9
        )
        np.testing.assert_allclose(found.correction.project().q, plain.correction.project().q, atol=1e-9)
        assert found.correction.project().q @ frame.filter(group="A")["score"].to_numpy() == pytest.approx(
            plain.outputs.means.reference
        )


def test_an_audit_can_be_pickled_without_what_was_no_part_of_it():
    unlisted = pl.Series("note", [f"file {row} of Ms Meyer" for row in range(classed().height)])
    found = tl.audit(classed().with_columns(unlisted), **PEOPLE, folds=None)
    pickled = pickle.dumps(found)
    assert b"of Ms Meyer" not in pickled
    again = pickle.loads(pickled)
    assert_same_numbers(again.to_dict(), found.to_dict(), within=0.0)
    assert again["A"].correction.project().cost == found["A"].correction.project().cost


@cache
def all_kinds(rows=900, seed=2):
    """Return features of every kind: copies, constants, keys, gaps, many levels, declared orders, times."""
    random = np.random.default_rng(seed)
    frame = people(rows)
    size = pl.Series(random.choice(["small", "mid", "large"], rows)).cast(pl.Enum(["small", "mid", "large"]))
    gaps = random.random(rows) < 0.1
    moments = pl.datetime_range(pl.datetime(2020, 1, 1), pl.datetime(2020, 3, 1), "1h", eager=True)
    level = random.zipf(1.5, rows) % 90
    return frame.with_columns(
        size=size,
        copy=pl.col("group").replace({"A": "yes", "B": "no"}),
        constant=pl.lit("same"),
        nothing=pl.lit(None, pl.String),
        id=pl.Series(random.permutation(rows)),
        key=pl.Series([f"k{row}" for row in range(rows)]),
        maybe=pl.Series(random.random(rows) < 0.5).set(pl.Series(gaps), None),
        town=pl.Series([f"town {number}" for number in level]).set(pl.Series(gaps), None),
        when=moments.sample(rows, with_replacement=True, seed=1),
        few=pl.Series(random.integers(-2, 3, rows)).set(pl.Series(gaps), None),
        wide=pl.Series(random.integers(-5000, 5000, rows)),
        tenths=pl.Series(random.normal(0, 1e6, rows)).round(1),
        empty=pl.Series(random.choice(["", " ", "x", "y" * 100], rows)),
    )


@pytest.mark.parametrize(
    ("part", "options"),
    [
        *((part, {"folds": None}) for part in range(4)),
        *((part, {"propensity": "chance", "sample_weight": "weight"}) for part in range(4)),
        (3, {}),
    ],
)
def test_features_of_every_kind_have_the_levels_and_notes_of_one_batch(part, options, monkeypatch):
    names = [name for name in all_kinds().columns if name not in ("group", "score", "weight", "chance")]
    features = (names[:6], names[6:11], names[11:], ["town", "when", "copy"])[part]
    arguments = PEOPLE | {"features": features} | options
    plain = tl.audit(all_kinds(), **arguments).to_dict()
    monkeypatch.setattr(tables, "BATCH_ROWS", 37)
    shuffled = all_kinds().sample(fraction=1, shuffle=True, seed=4).lazy()
    assert_same_numbers(tl.audit(shuffled, **arguments).to_dict(), plain)


@cache
def of_its_own_name():
    return tl.audit(people(), **PEOPLE | {"features": ["city", "owner", "since"], "propensity": "chance"})["A"]


@pytest.mark.parametrize(
    "name", ["(group)", "(weight)", "(log-odds)", "(hash)", "(score) 0", "score 0", "score", "(everyone)", "len"]
)
def test_features_may_have_any_name(name):
    frame = people().rename({"score": "risk", "city": name})
    features = [name, "owner", "since"]
    found = tl.audit(frame, **PEOPLE | {"scores": "risk", "features": features, "propensity": "chance"})["A"]
    expected = of_its_own_name()
    assert_same_numbers(found.correction.descent_rate.to_dict(), expected.correction.descent_rate.to_dict())
    mine, theirs = (
        c.contributions_full.select("alone", "share", "reveals", "feature").row(by_predicate=pl.col("feature") == one)[
            :3
        ]
        for c, one in ((found, name), (expected, "city"))
    )
    assert_same_numbers(mine, theirs)
