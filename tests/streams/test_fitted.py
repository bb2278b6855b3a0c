"""A stream whose membership model is fitted: the formulas of rows, on sums; and the audit of memory, or nearly so."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from tests.streams.test_agreement import SOURCES
from tests.test_audit_engines import FEATURES, assert_same_numbers, people

import tiltlens as tl
from tiltlens.engines import batches
from tiltlens.engines.batches import FrameBatches, clean_batch
from tiltlens.estimators import crossfit
from tiltlens.estimators.dial import CORNERS
from tiltlens.estimators.influence import Rows
from tiltlens.models import balance as balances
from tiltlens.results.settings import Settings
from tiltlens.streams import audit as streams
from tiltlens.streams import sample
from tiltlens.streams.fitted import COLUMNS
from tiltlens.streams.plan import FeatureTable, PairBatch, pair_batch
from tiltlens.streams.reading import asked_of_rows
from tiltlens.streams.survey import surveyed

NAMES = ["region", "job", "amount", "years"]


@cache
def lending(rows=20_000, seed=0):
    """Return people of three groups whose group shows in region and amount, in a way that is known."""
    random = np.random.default_rng(seed)
    audited = random.random(rows) < 0.4
    region = np.where(audited & (random.random(rows) < 0.2), 0, random.integers(0, 6, rows))
    amount = random.normal(50 - 4 * audited, 10, rows)
    years, job = random.integers(0, 40, rows), random.integers(0, 8, rows)
    score = expit(0.04 * (amount - 48) - 0.3 * (region == 0) + 0.02 * (years - 20) + 0.1 * (job == 3))
    ell = np.where(region == 0, np.log((0.2 + 0.8 / 6) * 6), np.log(0.8)) - 4 * (amount - 48) / 100
    group = np.where(audited, "a", np.where(random.random(rows) < 0.05, "c", "b"))
    return pl.DataFrame(
        {
            "group": group,
            "region": region.astype(np.int8),
            "job": pl.Series(job).cast(pl.String),
            "amount": np.where(random.random(rows) < 0.03, np.nan, amount),
            "years": years,
            "score": score,
            "chance": expit(logit(0.4) + ell),
            "weight": random.integers(1, 4, rows).astype(float),
            "none": 0.6 * (1 - score),
            "some": 0.4 * (1 - score),
            "all": score,
        }
    )


QUESTION = {"group": "group", "reference": "b", "scores": "score", "features": NAMES, "audited": "a"}
WAYS = {
    "scores": {},
    "weights": {"weights": "weight"},
    "classes": {"scores": ["none", "some", "all"], "favourable": "some"},
    "decisions": {"threshold": 0.5},
}


@pytest.fixture
def streamed_from_few_rows(monkeypatch):
    monkeypatch.setattr("tiltlens.streams.sources.COLLECTED_ROWS", 100)
    monkeypatch.setattr("tiltlens.streams.sample.FITTED_ROWS", 1_500)


def pair_of(frame, estimator=None, **options):
    """Return the pair as sums, and its rows with the same models as arrays."""
    roles = {"group": "group", "scores": "score", "weights": None, "membership": None} | options
    source = FrameBatches(frame)
    question = asked_of_rows(
        source.names(), roles, None, NAMES, options.get("favourable", "high"), options.get("threshold"), None
    )
    survey = source.fold(question.columns, partial(surveyed, question, sample.Bound()))
    groups = streams._compared(question, survey, "b", "a")
    made = streams._Source(source, question.columns, question, survey, groups, Settings(), estimator)
    pair = made.pair("a")
    parts = frame.select(question.columns).iter_slices(batches.BATCH)
    return pair, joined([pair_batch(pair.plan, clean_batch(part)) for part in parts])


def joined(parts):
    """Return the batches of a stream as one."""

    def columns(every, names):
        return {name: np.concatenate([getattr(one, name) for one in every]) for name in names}

    return PairBatch(
        **columns(parts, ("audited", "weights", "log_odds", "log_ratio", "scores")),
        features=FeatureTable(parts[0].features.levels, pl.concat([part.features.table for part in parts])),
        pairings=[
            crossfit.Pairing(**columns(every, COLUMNS), fold=None)
            for every in zip(*(part.pairings for part in parts), strict=True)
        ],
        expect=lambda: np.concatenate([part.expect() for part in parts]),
    )


@pytest.mark.parametrize("way", list(WAYS))
def test_sums_of_a_fitted_model_give_the_estimates_of_its_rows(way, streamed_from_few_rows, monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 3_000)
    pair, batch = pair_of(lending(), **WAYS[way])
    rows = Rows.of(batch.audited, batch.weights)
    there = [replace(one, fold=rows.undivided) for one in batch.pairings]
    here = pair.summed.fitted.pairings
    outcome = batch.scores[:, pair.plan.measured - pair.plan.first_score]
    same(crossfit.input_divergence(pair.rows, here), crossfit.input_divergence(rows, there))
    expected = pair.expectation(None, 0)
    for formula in (crossfit.unexplained, crossfit.unexplained_remainder):
        same(formula(pair.rows, pair.outcome, expected, here), formula(rows, outcome, batch.expect(), there))
    for corner in CORNERS:
        found = [crossfit.gradient(pair.rows, pair.scores, one, *corner) for one in here]
        wanted = [crossfit.gradient(rows, batch.scores, one, *corner) for one in there]
        variance, truth = crossfit.gradient_variance(pair.rows, found), crossfit.gradient_variance(rows, wanted)
        same(variance, truth)
        for feature, codes in zip(pair.features, batch.features.codes, strict=True):
            share, exact = (
                crossfit.averaged([crossfit.explained_variance(some, one, by) for one in every]).over(whole)
                for some, every, by, whole in (
                    (pair.rows, found, feature.codes, variance),
                    (rows, wanted, codes, truth),
                )
            )
            for name in ("numerator", "denominator", "numerator_variance", "covariance", "denominator_variance"):
                assert getattr(share, name) == pytest.approx(getattr(exact, name), rel=1e-7, abs=1e-12), name


def same(found, expected):
    if isinstance(found, float):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)
        return
    assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-12)
    assert found.variance == pytest.approx(expected.variance, rel=1e-7, abs=1e-18)


class Memory(ClassifierMixin, BaseEstimator):
    """A classifier that recognises the rows it was fitted on, and nobody else."""

    def fit(self, x, y):
        self.classes_, self.seen_ = np.unique(y), set(x["amount"])
        return self

    def predict_proba(self, x):
        chance = np.where([value in self.seen_ for value in x["amount"]], 0.9, 0.5)
        return np.column_stack([1 - chance, chance])


def test_every_row_is_judged_by_models_that_do_not_know_it(streamed_from_few_rows, monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 3_000)
    pair, batch = pair_of(lending().drop_nans(), Memory())
    known = pair.learner.frame
    assert known.group_by(sample.GROUP, sample.QUARTER).len()["len"].to_list() == [375] * 8
    is_known = np.isin(batch.features.table["amount"].to_numpy(), known["amount"].to_numpy())
    assert is_known.sum() == known.height
    assert np.ptp(batch.log_odds[is_known]) == 0.0  # the model of the whole sample knows them
    assert batch.log_odds[is_known][0] > batch.log_odds[~is_known].max() + 1
    for one in batch.pairings:
        assert np.ptp(one.a) < 1e-12
        assert np.ptp(one.b) < 1e-12


def test_a_normalised_model_gives_both_groups_the_same_mass(streamed_from_few_rows):
    _, batch = pair_of(lending())
    rows = Rows.of(batch.audited, batch.weights)
    for pair in batch.pairings:
        for r in (pair.r_a, pair.r_b):
            assert rows.mean0(r) + rows.mean1(r) == pytest.approx(0.0, abs=1e-9)


def audit_of(data, **options):
    return tl.audit(data, **QUESTION | {"total_shares": False} | options)


@pytest.mark.parametrize("way", ["scores", "weights", "classes"])
def test_a_fitted_stream_is_the_same_again_and_nearly_so_in_other_parts(way, streamed_from_few_rows, monkeypatch):
    monkeypatch.setattr(batches, "BATCH", 3_000)
    one, again = (audit_of(tl.stream(data), **WAYS[way])["a"] for data in (lending(), lending().lazy()))
    assert_same_numbers(again.to_dict(), one.to_dict())
    monkeypatch.setattr(batches, "BATCH", 1_700)
    other = audit_of(tl.stream(lending().sample(fraction=1.0, shuffle=True, seed=3)), **WAYS[way])["a"]
    for name in ("gap", "impact_ratio", "output_divergence"):
        assert same_estimate(one, other, name), name
    for name in ("input_divergence", "descent_rate", "unexplained"):
        first, second = getattr(one, name), getattr(other, name)
        assert abs(first.value - second.value) < 0.5 * (first.high - first.low), name  # of models of 1,500 rows


def rows_of(frame, labels, codes=None):
    """Return rows of equal weight, log-odds and score."""
    nothing = np.zeros(frame.height)
    codes = nothing.astype(int) if codes is None else codes
    return sample.SampleRows(frame, codes, pl.Series(labels), None, nothing, np.full((1, frame.height), 0.5))


@pytest.mark.parametrize("copies", [1, 40])
def test_of_equal_rows_each_is_drawn_for_itself(copies):
    """Where all of a batch's rows are equal to those of another, the sample must not hold them together."""
    rows = pl.DataFrame({"x": np.repeat(np.arange(500), copies)})
    frames = [rows, rows.vstack(pl.DataFrame({"x": [7]}))]
    hashes = pl.concat([pl.Series(sample.single_hashes(rows_of(frame, ["a"]))) for frame in frames])
    assert hashes.n_unique() == len(hashes)
    nearest = pl.concat(frames).filter(hashes.rank() <= len(hashes) // 4)["x"].to_numpy()
    drawn = np.bincount(nearest, minlength=500)
    assert abs(drawn.var() / drawn.mean() - 0.75) < 0.2  # as if drawn without replacement, not in bundles


def test_a_fitted_stream_agrees_with_memory_and_with_the_known_truth(monkeypatch):
    monkeypatch.setattr("tiltlens.streams.sources.COLLECTED_ROWS", 100)
    frame = lending(60_000, 5).filter(pl.col("group") != "c").drop_nans()
    memory, stream = (audit_of(data)["a"] for data in (frame, tl.stream(frame)))
    for name in ("gap", "impact_ratio", "output_divergence", "standardised_difference"):
        assert getattr(stream, name) == pytest.approx(getattr(memory, name)) or same_estimate(stream, memory, name)
    for name in ("input_divergence", "descent_rate"):
        one, two = getattr(memory, name), getattr(stream, name)
        assert abs(one.value - two.value) < 0.25 * (one.high - one.low), name
    assert stream.input_divergence.low < 0.1611 < stream.input_divergence.high
    assert stream.unexplained.low <= 0.0 <= stream.unexplained.high
    assert stream.proxies["verdict"][0] == memory.proxies["verdict"][0] == "proxy evidence"
    assert stream.balance.is_adequate
    assert any("was fitted on a sample of" in note for note in stream.notes)


def same_estimate(one, two, name):
    a, b = getattr(one, name), getattr(two, name)
    return all(getattr(a, end) == pytest.approx(getattr(b, end), rel=1e-9) for end in ("value", "low", "high"))


@pytest.mark.parametrize("source", list(SOURCES))
def test_few_rows_of_a_stream_are_brought_together_for_a_fit(source, tmp_path):
    question = {"group": "group", "reference": "B", "scores": "score", "features": FEATURES, "total_shares": False}
    expected = tl.audit(people(400), **question).to_dict()
    found = tl.audit(tl.stream(SOURCES[source](people(400), tmp_path)), **question).to_dict()
    assert_same_numbers(found, expected)


def test_several_groups_each_have_a_model_of_their_own(streamed_from_few_rows):
    found = tl.audit(tl.stream(lending()), **QUESTION | {"audited": None, "total_shares": False})
    assert list(found.comparisons) == ["a", "c"]
    assert found.rows["used"] == found.rows["read"] == 20_000
    counts = lending()["group"].value_counts().rows_by_key("group", unique=True)
    assert found["c"].rows == {"audited": counts["c"][0], "reference": counts["b"][0]}
    assert found["c"].proxies["verdict"].to_list().count("proxy evidence") == 0
    assert found["a"].proxies["feature"][0] == "amount"


def test_a_classifier_is_fitted_on_the_sample_and_applied_to_every_row(streamed_from_few_rows):
    frame = lending().drop_nulls().drop_nans()
    found = tl.audit(tl.stream(frame), **QUESTION | {"features": ["amount", "years"]}, membership=LogisticRegression())[
        "a"
    ]
    assert found.membership == "LogisticRegression"
    plain = tl.audit(frame, **QUESTION | {"features": ["amount", "years"]}, membership=LogisticRegression())["a"]
    assert found.input_divergence.value == pytest.approx(plain.input_divergence.value, rel=0.1)
    assert found.proxies["total_share"].null_count() == 0
    with pytest.raises(tl.TiltlensError, match="`membership` must be an estimator that fits the features, got Logis"):
        tl.audit(tl.stream(frame), **QUESTION, membership=LogisticRegression())


def test_what_a_stream_cannot_fit_is_said_at_once(streamed_from_few_rows):
    with pytest.raises(tl.TiltlensError, match="`membership` must be the name of a column for plug-in values"):
        audit_of(tl.stream(lending()), folds=None)
    with pytest.raises(tl.TiltlensError, match="`membership` must be the name of a column of streamed data, got"):
        audit_of(tl.stream(lending()), membership=lending()["chance"].to_numpy())


def test_totals_and_shapley_values_of_a_fitted_stream_rest_on_its_sample(streamed_from_few_rows, monkeypatch):
    monkeypatch.setattr("tiltlens.streams.audit.MOST_JOINT", 10)
    monkeypatch.setattr("tiltlens.streams.powers.MOST_JOINT", 10)
    found = audit_of(tl.stream(lending()), total_shares=True)["a"]
    table = {row["feature"]: row for row in found.proxies.to_dicts()}
    assert table["amount"]["total_share_low"] < 0.45 < table["amount"]["total_share_high"] + 0.15
    assert table["job"]["total_share_low"] == 0.0
    assert table["amount"]["gap_shapley_low"] < -0.036 < table["amount"]["gap_shapley_high"]
    assert any("total_share rests on a sample of 3,000 of" in note for note in found.notes)
    assert any("gap_shapley rests on regressions with 3,000 of" in note for note in found.notes)


def test_balance_of_a_fitted_stream_is_that_of_its_rows(streamed_from_few_rows):
    frame = lending()
    found = audit_of(tl.stream(frame))["a"].balance
    _, batch = pair_of(frame)
    rows = Rows.of(batch.audited, batch.weights)
    r = sum(pair.r_a + pair.r_b for pair in batch.pairings) / 6
    noise = np.sqrt(1 + len(r) / 1_500)
    level = (batch.features.table["job"] == "3").to_numpy().astype(float)
    for name, x in (("score", batch.expect()), ("job = 3", level)):
        expected = balances.mismatch(rows, name, x, (r, r), noise)
        there = next(one for one in found.mismatches if one.name == name)
        assert there.difference == pytest.approx(expected.difference, abs=1e-9)
        assert there.se == pytest.approx(expected.se, rel=1e-6)


def test_intervals_of_a_fitted_stream_hold_the_truth(monkeypatch):
    """Two groups 0.6 standard deviations apart: KL = 0.18 and Var0(ℓ) = 0.36, whatever the sample's 800 rows say."""
    monkeypatch.setattr("tiltlens.streams.sample.FITTED_ROWS", 400)
    hits = np.zeros(2)
    for seed in range(24):
        random = np.random.default_rng(seed)
        audited = random.random(8_000) < 0.4
        x = random.normal(0.6 * audited, 1)
        columns = {"region": random.integers(0, 3, 8_000), "job": random.integers(0, 3, 8_000).astype(str)}
        frame = pl.DataFrame({"group": np.where(audited, "a", "b"), "amount": x, "score": expit(x), **columns})
        pair, _ = pair_of(frame.with_columns(years=random.normal(size=8_000)))
        pairings = pair.summed.fitted.pairings
        inputs = [crossfit.gradient(pair.rows, pair.scores, one, 1.0, 0.0) for one in pairings]
        found = crossfit.input_divergence(pair.rows, pairings), crossfit.gradient_variance(pair.rows, inputs)
        hits += [abs(one.value - truth) < 1.96 * one.se for one, truth in zip(found, (0.18, 0.36), strict=True)]
    assert hits.min() >= 20


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_batches_without_anyone_of_a_pair_add_nothing(estimator, streamed_from_few_rows, monkeypatch):
    """Rows in order of their group, of which only trees can make sense."""
    monkeypatch.setattr(batches, "BATCH", 500)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 6_000))
    together = random.random(6_000) < np.where(x * y > 0, 0.85, 0.15)
    group = np.where(random.random(6_000) < 0.3, "c", np.where(together, "a", "b"))
    frame = pl.DataFrame({"group": group, "x": x, "y": y, "score": expit(x)}).sort("group")
    options = {"group": "group", "reference": "b", "audited": "a", "scores": "score", "total_shares": False}
    found = tl.audit(tl.stream(frame), **options, membership=estimator)["a"]
    assert found.membership == ("trees" if estimator is None else "LogisticRegression")
    assert found.rows["audited"] == int((group == "a").sum())


@pytest.mark.parametrize(
    "name", ["(group)", "(weight)", "(log-odds)", "(hash)", "(score) 0", "score 0", "score", "(everyone)"]
)
def test_features_may_have_any_name(name, streamed_from_few_rows):
    frame = lending().rename({"score": "risk"}).rename({"amount": name})
    options = QUESTION | {"scores": "risk", "features": [*NAMES[:2], name, "years"], "total_shares": False}
    found = tl.audit(tl.stream(frame), **options)["a"]
    expected = audit_of(tl.stream(lending()))["a"]
    assert found.input_divergence.value == pytest.approx(expected.input_divergence.value, abs=0.02)
    assert found.proxies.filter(pl.col("feature") == name)["gap"][0] == pytest.approx(
        expected.proxies.filter(pl.col("feature") == "amount")["gap"][0]
    )
    assert {m.name for m in found.balance.mismatches} >= {"score", name, f"{name}²"}


def test_several_groups_have_the_levels_of_memory(streamed_from_few_rows):
    options = QUESTION | {"audited": None, "total_shares": False}
    memory, stream = (tl.audit(data, **options) for data in (lending(), tl.stream(lending())))
    for label in ("a", "c"):
        one, two = (found[label].proxies.sort("feature") for found in (memory, stream))
        for column in ("gap", "gap_low", "gap_high", "reveals", "drives", "alignment"):
            np.testing.assert_allclose(two[column], one[column], atol=1e-9)


def test_many_groups_share_the_rows_that_are_kept(monkeypatch):
    monkeypatch.setattr(sample, "MOST_FITTED", 300)
    random = np.random.default_rng(0)
    rows, codes = pl.DataFrame({"x": random.normal(size=5_000)}), random.integers(0, 10, 5_000)
    labels = [str(group) for group in range(10)]
    whole = sample.group_sample(rows_of(rows, labels, codes))
    slices = [slice(start, start + 1_000) for start in range(0, 5_000, 1_000)]
    parts = [sample.group_sample(rows_of(rows[part], labels, codes[part])) for part in slices]
    for found in (whole, sum(parts[1:], parts[0])):
        assert found.frame[sample.GROUP].value_counts()["count"].to_list() == [30] * 10
