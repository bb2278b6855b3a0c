"""A stream gives the numbers that memory gives, to the ninth digit, whichever engine holds it and however it is cut."""

import pickle
from functools import cache
from importlib import import_module

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import expit, logit, softmax
from tests.test_audit_engines import FEATURES, assert_same_numbers, people

import tiltlens as tl
from tiltlens.datasets import COMPAS_FEATURES, load_compas
from tiltlens.engines import batches
from tiltlens.models.paper_fit import outcome_scores

WAYS = {
    "known": {},
    "weights": {"weights": "weight"},
    "uneven weights": {"weights": "uneven"},
    "plug-in": {"folds": None},
    "plug-in, weights": {"folds": None, "weights": "weight"},
    "outputs only": {"input_weight": 0.0, "favourable": "low"},
    "decisions": {"threshold": 0.5},
    "given": {"given": {"owner": True}},
    "classes": {"scores": ["none", "some", "all"], "favourable": "some"},
    "classes, plug-in": {"scores": ["none", "some", "all"], "favourable": "all", "folds": None, "weights": "weight"},
}
PEOPLE = {"group": "group", "reference": "B", "scores": "score", "features": FEATURES, "membership": "chance"}


@cache
def classed(rows=400):
    """Return people with probabilities of three classes beside their score."""
    frame = people(rows)
    score = frame["score"].to_numpy()
    classes = softmax(np.column_stack([0.3 - score, score**2, 2 * score]), axis=1)
    uneven = np.exp(np.random.default_rng(7).normal(0, 2, rows))  # no batch has the largest weight of another
    columns = (pl.Series(name, classes[:, y]) for y, name in enumerate(("none", "some", "all")))
    return frame.with_columns(*columns, uneven=pl.Series(uneven))


def in_files(frame, folder, ending, parts=3):
    for part in range(parts):
        rows = frame.slice(
            part * frame.height // parts, (part + 1) * frame.height // parts - part * frame.height // parts
        )
        path = folder / f"part-{part}.{ending}"
        rows.write_parquet(path) if ending == "parquet" else rows.write_csv(path)
    return str(folder / f"*.{ending}")


SOURCES = {
    "frame": lambda frame, _: frame,
    "lazy": lambda frame, _: frame.lazy(),
    "duckdb": lambda frame, _: duckdb.from_arrow(frame.to_arrow()),
    "parquet files": lambda frame, folder: in_files(frame, folder, "parquet"),
    "csv files": lambda frame, folder: in_files(frame, folder, "csv"),
}


@cache
def in_memory(way):
    return tl.audit(classed(), **PEOPLE | WAYS[way]).to_dict()


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 37)


@pytest.mark.parametrize("way", list(WAYS))
def test_a_stream_in_many_batches_gives_the_audit_of_memory(way, small_batches):
    found = tl.audit(tl.stream(classed()), **PEOPLE | WAYS[way]).to_dict()
    assert_same_numbers(found, in_memory(way))


@pytest.mark.parametrize("source", [name for name in SOURCES if name != "frame"])
@pytest.mark.parametrize("way", ["known", "weights"])
def test_every_source_of_a_stream_gives_the_audit_of_memory(source, way, tmp_path, small_batches):
    data = SOURCES[source](classed(), tmp_path)
    found = tl.audit(tl.stream(data), **PEOPLE | WAYS[way]).to_dict()
    assert_same_numbers(found, in_memory(way))


@pytest.mark.parametrize("source", ["parquet files", "csv files"])
def test_files_of_few_rows_are_read_into_memory(source, tmp_path):
    found = tl.audit(SOURCES[source](classed(), tmp_path), **PEOPLE).to_dict()
    assert_same_numbers(found, in_memory("known"))


def test_many_rows_are_streamed_without_asking(monkeypatch, tmp_path):
    monkeypatch.setattr("tiltlens.streams.sources.STREAMED_ROWS", 300)
    found = tl.audit(SOURCES["parquet files"](classed(), tmp_path), **PEOPLE)["A"]
    with pytest.raises(tl.TiltlensError, match="`path` must have rows in memory, got a comparison made of sums"):
        found.path([(1, 1, 1, 1)])
    fitted = tl.audit(classed().lazy(), **PEOPLE | {"membership": None, "total_shares": False})["A"]
    assert fitted.path([(1, 1, 1, 1)])  # a model is fitted on rows in memory


MEMORY = {
    "polars": lambda frame: frame,
    "pandas": lambda frame: frame.to_pandas(),
    "pyarrow": lambda frame: frame.to_arrow(),
    "dict": lambda frame: frame.to_dict(as_series=False),
}


@pytest.mark.parametrize("engine", list(MEMORY))
@pytest.mark.parametrize("way", ["known", "weights", "classes"])
def test_many_rows_in_memory_are_summed_and_still_there(engine, way, monkeypatch, small_batches):
    plain = tl.audit(classed(), **PEOPLE | WAYS[way])["A"]
    monkeypatch.setattr("tiltlens.streams.sources.STREAMED_ROWS", 300)
    passes = []
    monkeypatch.setattr(batches, "folded", spied(batches.folded, passes))
    found = tl.audit(MEMORY[engine](classed()), **PEOPLE | WAYS[way])
    assert len(passes) == 3
    assert_same_numbers(found.to_dict(), in_memory(way))
    summed = found["A"]
    np.testing.assert_allclose(summed.path([(1, 1, 1, 1)])[0].q, plain.path([(1, 1, 1, 1)])[0].q, atol=1e-9)
    assert summed.project().cost == pytest.approx(plain.project().cost)
    assert summed.distribution("income").equals(plain.distribution("income"))
    assert_same_numbers(summed.prototypes(suppress=False), plain.prototypes(suppress=False))


def spied(function, calls):
    def call(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return call


def test_what_takes_rows_is_told_of_the_table_that_was_audited(monkeypatch):
    monkeypatch.setattr("tiltlens.streams.sources.STREAMED_ROWS", 300)
    table = classed().to_pandas()
    found = tl.audit(table, **PEOPLE)["A"]
    cost = tl.audit(classed(), **PEOPLE | {"membership": classed()["chance"].to_numpy()})["A"].project().cost
    table["score"] = table["score"] ** 2
    assert found.project().cost == pytest.approx(cost)


def test_an_audit_by_sums_can_be_pickled_without_its_table(monkeypatch):
    monkeypatch.setattr("tiltlens.streams.sources.STREAMED_ROWS", 300)
    unlisted = pl.Series("note", [f"file {row} of Ms Meyer" for row in range(classed().height)])
    found = tl.audit(classed().with_columns(unlisted), **PEOPLE)
    pickled = pickle.dumps(found)
    assert b"of Ms Meyer" not in pickled
    assert not any(score.tobytes() in pickled for score in classed()["score"].to_numpy()[2:50])
    again = pickle.loads(pickled)
    assert_same_numbers(again.to_dict(), found.to_dict())
    with pytest.raises(tl.TiltlensError, match="must have rows in memory"):
        again["A"].project()


@pytest.mark.parametrize("ask", [tl.Audit.to_dict, lambda audit: audit["A"].profile("city"), pickle.dumps])
def test_bins_of_rows_in_memory_are_made_when_asked_for(ask, monkeypatch):
    made = counted_calls(monkeypatch, "tiltlens.streams.tallies._bins")
    found = tl.audit(tl.stream(classed()), **PEOPLE)
    assert not made
    ask(found)
    passes = len(made)
    assert passes >= 1
    found.to_dict()
    assert len(made) == passes


def test_whole_numbers_too_large_in_one_batch_are_texts_in_all(monkeypatch, small_batches):
    serial = pl.Series("serial", [*range(399), 2**64 - 1], dtype=pl.UInt64) // 200 * 200
    frame, options = classed().with_columns(serial), PEOPLE | {"features": [*FEATURES, "serial"]}
    expected = tl.audit(frame, **options).to_dict()
    assert_same_numbers(tl.audit(tl.stream(frame), **options).to_dict(), expected)
    monkeypatch.setattr("tiltlens.streams.sources.STREAMED_ROWS", 300)
    assert_same_numbers(tl.audit(frame, **options).to_dict(), expected)


@pytest.mark.parametrize("counted", [1 << 16, 0])
def test_joint_cells_are_the_same_however_the_filled_ones_are_found(counted, monkeypatch):
    expected = tl.audit(tl.stream(classed()), **PEOPLE).to_dict()
    monkeypatch.setattr("tiltlens.streams.powers.FEW_JOINT", 0)
    monkeypatch.setattr("tiltlens.estimators.shapley.FEW_VALUES", counted)
    monkeypatch.setattr("tiltlens.estimators.shapley.A_ROW", 0)
    monkeypatch.setattr(batches, "BATCH", 37)  # batches with other cells
    assert_same_numbers(tl.audit(tl.stream(classed()), **PEOPLE).to_dict(), expected)


def test_bins_of_a_stream_are_made_while_it_flows(monkeypatch):
    made = counted_calls(monkeypatch, "tiltlens.streams.tallies._bins")
    found = tl.audit(tl.stream(classed().lazy()), **PEOPLE)
    passes = len(made)
    assert passes >= 1
    found.to_dict()
    assert len(made) == passes


CHANGES = {
    "all scores": lambda frame: frame["score"].to_numpy() * 0.5,
    "scores of the reference": lambda frame: np.where(frame["group"] == "B", 0.5, frame["score"].to_numpy()),
    "scores in another order": lambda frame: np.sort(frame["score"].to_numpy()),
    "missing scores": lambda frame: np.full(frame.height, np.nan),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_figures_of_a_table_that_was_changed_are_refused(change):
    scores = classed()["score"].to_numpy().copy()
    frame = classed().with_columns(pl.Series("score", pa.array(scores)))
    assert np.shares_memory(frame["score"].to_numpy(), scores)
    found = tl.audit(tl.stream(frame), **PEOPLE)
    scores[:] = CHANGES[change](classed())
    with pytest.raises(tl.TiltlensError, match="must stay as it was audited"):
        found["A"].bins()


def test_figures_of_a_table_whose_features_were_changed_are_refused():
    income = classed()["income"].to_numpy().copy()
    frame = classed().with_columns(pl.Series("income", pa.array(income, from_pandas=True)))
    found = tl.audit(tl.stream(frame), **PEOPLE)
    income[:] = income[::-1].copy()
    changed = not np.array_equal(frame["income"].to_numpy(), classed()["income"].to_numpy(), equal_nan=True)
    assert changed
    with pytest.raises(tl.TiltlensError, match="must stay as it was audited"):
        found["A"].profile("income")


def counted_calls(monkeypatch, path):
    """Return a list that grows with each call of a function."""
    module, name = path.rsplit(".", 1)
    plain, calls = getattr(import_module(module), name), []
    monkeypatch.setattr(path, lambda *given: calls.append(None) or plain(*given))
    return calls


def test_a_membership_that_says_nothing_is_no_mistake(monkeypatch):
    frame = classed().with_columns(chance=pl.lit(0.4))
    expected = tl.audit(frame, **PEOPLE).to_dict()
    assert_same_numbers(tl.audit(tl.stream(frame), **PEOPLE).to_dict(), expected)


def test_arrays_beside_many_rows_in_memory_are_taken_row_by_row(monkeypatch):
    monkeypatch.setattr("tiltlens.streams.sources.STREAMED_ROWS", 300)
    frame = classed()
    arrays = PEOPLE | {"membership": frame["chance"].to_numpy()}
    assert_same_numbers(tl.audit(frame, **arrays)["A"].to_dict(), in_memory("known")["comparisons"]["A"])


@cache
def compas():
    data = load_compas()
    frame = data.with_columns(score=pl.Series(outcome_scores(data, COMPAS_FEATURES, "is_recid")))
    frame = frame.filter(pl.col("race").is_in(["African-American", "Caucasian"]))
    chance = outcome_scores(
        frame.with_columns((pl.col("race") == "African-American").cast(pl.Int64).alias("target")),
        COMPAS_FEATURES,
        "target",
    )
    return frame.with_columns(chance=pl.Series(chance))


def test_compas_as_a_stream_is_compas_in_memory(monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 1000)
    arguments = {
        "group": "race",
        "reference": "Caucasian",
        "scores": "score",
        "features": COMPAS_FEATURES,
        "membership": "chance",
        "favourable": "low",
    }
    plain, found = (tl.audit(data, **arguments) for data in (compas(), tl.stream(compas())))
    assert_same_numbers(found.to_dict(), plain.to_dict())
    one, two = (audit["African-American"] for audit in (plain, found))
    assert_same_numbers(two.prototypes(suppress=False), one.prototypes(suppress=False))
    for feature in COMPAS_FEATURES:
        expected, streamed = one.profile(feature), two.profile(feature)
        assert streamed.select("value", "n", "n_reference").equals(expected.select("value", "n", "n_reference"))
        for column in ("correction", "score"):
            np.testing.assert_allclose(streamed[column], expected[column], atol=1e-9)
        for column in ("correction_25", "correction_50", "correction_75"):
            np.testing.assert_allclose(streamed[column], expected[column], atol=0.021)


def test_more_joint_cells_than_are_kept_leave_out_what_needs_them(monkeypatch, small_batches):
    monkeypatch.setattr("tiltlens.streams.powers.MOST_JOINT", 50)
    monkeypatch.setattr("tiltlens.streams.audit.MOST_JOINT", 50)
    found = tl.audit(tl.stream(classed()), **PEOPLE).to_dict()["comparisons"]["A"]
    expected = in_memory("known")["comparisons"]["A"]
    for name in ("gap", "descent_rate", "input_divergence", "unexplained", "balance", "dial"):
        assert_same_numbers(found[name], expected[name])
    assert found["prototypes"]["max"]["count"] is None
    assert any("prototypes are withheld" in note for note in found["notes"])


@cache
def many(rows=60_000, seed=1):
    """Return people of whom every row is another, with a numeric feature of too many values to count."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.4
    amount = random.normal(10 - 2 * audited, 3, rows)
    region = random.integers(0, 4, rows) + (audited & (random.random(rows) < 0.2))
    ell = logit(0.4) - (amount - 9.2) * 2 / 9 + 0.15 * region
    score = expit(0.2 * (amount - 9) - 0.1 * region + 0.2 * random.normal(size=rows))
    columns = {"group": np.where(audited, "a", "b"), "amount": amount, "region": region, "score": score}
    return pl.DataFrame(columns | {"chance": expit(ell)})


def test_edges_come_from_a_sample_where_values_are_too_many_and_the_notes_say_so():
    arguments = {"group": "group", "reference": "b", "scores": "score", "membership": "chance"}
    plain, found = (tl.audit(data, **arguments)["a"] for data in (many(), tl.stream(many())))
    for name in ("gap", "output_divergence", "input_divergence", "descent_rate", "unexplained"):
        assert_same_numbers(getattr(found, name).to_dict(), getattr(plain, name).to_dict())
    assert any("levels of amount come from a sample of 20,000 rows" in note for note in found.notes)
    rows = {row["feature"]: row for row in found.proxies.to_dicts()}
    expected = {row["feature"]: row for row in plain.proxies.to_dicts()}
    assert rows["amount"]["gap"] == pytest.approx(expected["amount"]["gap"], rel=0.01)
    assert_same_numbers(
        {k: rows["region"][k] for k in ("gap", "gap_low", "share", "share_high", "reveals", "alignment")},
        {k: expected["region"][k] for k in ("gap", "gap_low", "share", "share_high", "reveals", "alignment")},
    )
    assert found.balance.auc == pytest.approx(plain.balance.auc, abs=1e-6)
    cost, streamed = (c.bins()["least_change"]["cost"] for c in (plain, found))
    assert streamed == pytest.approx(cost, rel=1e-3)


def test_the_order_of_rows_and_the_cut_of_batches_are_no_matter(monkeypatch):
    arguments = {"group": "group", "reference": "b", "scores": "score", "membership": "chance"}
    one = tl.audit(tl.stream(many()), **arguments).to_dict()
    monkeypatch.setattr(batches, "BATCH", 7_001)
    two = tl.audit(tl.stream(many().sample(fraction=1.0, shuffle=True, seed=5)), **arguments).to_dict()
    assert_same_numbers(two, one)
    assert two["provenance"]["data_sha256"] == one["provenance"]["data_sha256"]


def test_a_model_scores_batch_by_batch(small_batches):
    def model(frame):
        return expit(0.05 * (frame["income"].fill_null(48.0).to_numpy() - 48) + 0.5 * frame["owner"].to_numpy())

    arguments = PEOPLE | {"scores": None, "model": model}
    plain, found = (tl.audit(data, **arguments).to_dict() for data in (classed(), tl.stream(classed())))
    assert_same_numbers(found, plain)


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


@pytest.mark.parametrize("folds", [5, None])
@pytest.mark.parametrize("weights", [None, "weight"])
def test_features_of_every_kind_have_the_levels_and_notes_of_memory(folds, weights, small_batches):
    names = [name for name in all_kinds().columns if name not in ("group", "score", "weight", "chance")]
    arguments = PEOPLE | {"folds": folds, "weights": weights}
    for features in (names[:6], names[6:11], names[11:], ["town", "when", "copy"]):
        plain, found = (
            tl.audit(data, **arguments | {"features": features}).to_dict()
            for data in (all_kinds(), tl.stream(all_kinds()))
        )
        assert_same_numbers(found, plain)
