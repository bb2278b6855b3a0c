"""Rows of one cluster, such as a customer, err together."""

import math
from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.special import stdtrit
from scipy.stats import binomtest
from tests.command import invoked
from tests.people import assert_same_numbers, note_codes

import tiltlens as tl
from tiltlens._analysis.fitting import FEWEST_CLUSTERS, _influence_rows
from tiltlens._estimators.influence import Rows
from tiltlens._learners.propensity import row_folds
from tiltlens._notes import Note
from tiltlens._rows.roles import GROUP, HASH
from tiltlens._rows.survey import RowSample
from tiltlens.errors import DataError

OPTIONS = {"group": "group", "reference": "b", "scores": "score"}


def customers(count=300, size=1, seed=0):
    """Return so many customers with so many equal rows each."""
    rng = np.random.default_rng(seed)
    audited = rng.random(count) < 0.4
    x, owner = rng.standard_normal(count) + 0.6 * audited, rng.choice(["yes", "no"], count)
    table = pl.DataFrame(
        {
            "group": np.where(audited, "a", "b"),
            "x": x,
            "owner": owner,
            "score": 1 / (1 + np.exp(-x - 0.5 * (owner == "yes"))),
            "customer": np.arange(count),
            "chance": 1 / (1 + np.exp(np.log(0.6 / 0.4) - 0.6 * x + 0.18)),
        }
    )
    return pl.concat([table] * size)


def audited(table, **options):
    return tl.audit(table, **OPTIONS | {"propensity": "chance"} | options)["a"]


def numbers(c):
    return [
        {name: c.estimate(name).to_dict() for name in ("gap", "descent_rate", "input_divergence", "adjusted_gap")},
        c.contributions_full.drop("notes").to_dicts(),
    ]


def test_one_row_a_cluster_is_no_clusters():
    plain = audited(customers(), exclude="customer")
    for one, other in zip(numbers(audited(customers(), clusters="customer")), numbers(plain), strict=True):
        assert_same_numbers(one, other)


def test_rows_repeated_within_clusters_tell_no_more_than_one_of_each():
    one, three = audited(customers(), exclude="customer"), audited(customers(size=3), clusters="customer")
    assert three.gap.value == pytest.approx(one.gap.value)
    assert three.gap.high - three.gap.low == pytest.approx(one.gap.high - one.gap.low, rel=0.02)
    rows = [{row["feature"]: row for row in c.contributions_full.to_dicts()}["owner"] for c in (one, three)]
    assert rows[1]["alone"] == pytest.approx(rows[0]["alone"], abs=1e-4)
    assert rows[1]["alone_high"] - rows[1]["alone_low"] == pytest.approx(
        rows[0]["alone_high"] - rows[0]["alone_low"], rel=0.05
    )
    assert "repeated identifier" not in note_codes(three)
    ignored = audited(customers(size=3), exclude="customer")
    assert ignored.gap.high - ignored.gap.low < 0.6 * (one.gap.high - one.gap.low)


def test_the_standard_error_of_the_gap_is_the_sandwich_of_clusters():
    rng = np.random.default_rng(1)
    table = customers(200, size=2).with_columns(score=pl.Series(rng.random(400)))
    s, w = (table["group"] == "a").to_numpy(), table["score"].to_numpy()
    influence = np.where(s, (w - w[s].mean()) / s.sum(), -(w - w[~s].mean()) / (~s).sum())
    counts = s.sum() / 2, (~s).sum() / 2  # each customer is of one group: its two rows err together
    influence *= np.sqrt(np.where(s, counts[0] / (counts[0] - 1), counts[1] / (counts[1] - 1)))
    variance = (np.bincount(table["customer"], influence) ** 2).sum()
    gap = audited(table, clusters="customer").gap
    assert gap.high - gap.low == pytest.approx(2 * stdtrit(min(counts) - 1, 0.975) * math.sqrt(variance), rel=1e-9)


def test_a_cluster_may_have_rows_of_both_groups_and_that_is_said():
    table = customers(200, size=2)
    mixed = table.with_columns(customer=pl.Series(np.arange(400) // 2))
    c = audited(mixed, clusters="customer")
    both = mixed.group_by("customer").agg(pl.col("group").n_unique() == 2)["group"].sum()
    (note,) = (note for note in c.checks.notes if note.code == "clusters")
    assert (note.values["rows"], note.values["clusters"], str(both) in note.values["mixed"]) == (400, 200, True)


@cache
def mixed(count=80):
    """Return households of 2 to 6 rows, some of both groups, whose scores and features have an effect in common."""
    rng = np.random.default_rng(2)
    household = np.repeat(np.arange(count), rng.integers(2, 7, count))
    rows = len(household)
    is_audited = np.where(rng.random(rows) < 0.8, (rng.random(count) < 0.4)[household], rng.random(rows) < 0.4)
    effect = rng.standard_normal(count)[household]
    x, lawful = (0.7 * effect + rng.standard_normal(rows) + shift * is_audited for shift in (0.6, 0.4))
    city = np.where(rng.random(rows) < 0.3 + 0.3 * is_audited, "North", "Süd")
    score = 1 / (1 + np.exp(-0.5 * x - 0.5 * lawful + 0.3 * (city == "North") - 0.3 * effect))
    group = np.where(is_audited, "a", "b")
    names = np.char.add("household ", household.astype(str))
    chance = 1 / (1 + np.exp(0.7 - 0.5 * x - 0.3 * lawful - (city == "North")))
    columns = {"group": group, "x": x, "lawful": lawful, "city": city, "score": score, "household": names}
    return pl.DataFrame(columns | {"chance": chance}).sample(fraction=1, shuffle=True, seed=1)


BOTH = OPTIONS | {"clusters": "household", "exempt": "lawful", "propensity": "chance"}


@cache
def expected():
    return tl.audit(mixed(), **BOTH).to_dict()


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("held", ["pandas", "csv files"], indirect=True)
def test_engines_give_the_same_of_clusters_and_exempt_factors(held):
    found = tl.audit(held(mixed()), **BOTH).to_dict()
    assert_same_numbers(found, expected())
    assert found["provenance"]["data_sha256"] == expected()["provenance"]["data_sha256"]


def test_an_array_of_clusters_is_a_column():
    array = mixed()["household"].to_numpy()
    found = tl.audit(mixed().drop("household"), **BOTH | {"clusters": array}).to_dict()
    codes = [
        [note.partition(":")[2] for note in one["comparisons"]["a"]["checks"].pop("notes")]
        for one in (found, expected())
    ]
    assert codes[0] == codes[1]
    assert_same_numbers(found, expected())


def test_clusters_are_sampled_whole():
    table = customers(2_000, size=3)
    c = audited(table, clusters="customer", sample_rows=1_200)
    assert c.gap.value == pytest.approx(audited(table, clusters="customer").gap.value)
    note = next(note for note in c.checks.notes if note.startswith("standard errors are clustered"))
    rows, count = (int(word.replace(",", "")) for word in note.split() if word.replace(",", "").isdigit())
    assert rows == 3 * count
    assert 1_000 < rows <= 1_200


def test_a_cluster_larger_than_the_sample_does_not_outgrow_it():
    rows = pl.DataFrame({HASH: np.full(5_000, 7, dtype=np.uint64), GROUP: ["a"] * 5_000})
    drawn = RowSample((rows, rows), {"a": 10_000}, 1_000).frame
    assert drawn.height == 1_000


def test_a_cluster_lies_in_one_fold():
    rng = np.random.default_rng(0)
    clusters = rng.integers(0, 80, 400)
    fold = row_folds(Rows.of(rng.random(400) < 0.4, None, clusters))
    assert all(np.unique(fold[clusters == one]).size == 1 for one in range(80))
    assert np.bincount(fold).min() > 40


def test_too_few_clusters_for_folds_say_so(refused):
    table = customers(300).with_columns(customer=pl.col("customer") % 8)
    with refused(DataError, "10"):
        audited(table, clusters="customer")


def test_missing_clusters_are_refused(refused):
    table = customers().with_columns(customer=pl.when(pl.col("customer") > 4).then("customer"))
    with refused(DataError, "`clusters`"):
        audited(table, clusters="customer")


def test_identifiers_that_repeat_are_noted():
    table = customers(150, size=2).rename({"customer": "customer_id"})
    assert "repeated identifier" in note_codes(audited(table))
    assert "repeated identifier" not in note_codes(audited(customers().rename({"customer": "customer_id"})))


def test_the_command_line_takes_clusters(tmp_path):
    customers(200, size=2).drop("chance").write_csv(tmp_path / "t.csv")
    result = invoked(
        "audit",
        str(tmp_path / "t.csv"),
        "--group",
        "group",
        "--scores",
        "score",
        "--clusters",
        "customer",
        cwd=tmp_path,
    )
    note = Note("clusters", column="customer", rows=400, clusters=200, mixed="")
    assert note[1:] in " ".join(result.stdout.split())


def test_clusters_that_all_have_one_decision_are_as_many_people_as_there_are_clusters():
    count, size = 30, 20
    cluster = np.repeat(np.arange(count), size)
    group = np.where(cluster < 12, "a", "b")
    decision = np.where(cluster < 12, 0, np.random.default_rng(0).integers(0, 2, count)[cluster])
    table = pl.DataFrame(
        {"group": group, "cluster": cluster, "score": decision, "outcome": np.arange(count * size) % 2}
    )
    c = tl.audit(table, "group", reference="b", scores="score", clusters="cluster", outcome="outcome", features=[])["a"]
    bound = 1 - 0.025 ** (1 / 12)  # exact binomial, of 12 who are independent: it was that of 240
    assert c.impact_ratio.high == pytest.approx(bound / c.rates.reference.value, rel=1e-9)
    wilson = binomtest(0, 12).proportion_ci(0.95, "wilson").high
    assert c.rates.audited.high == pytest.approx(wilson, rel=1e-9)
    assert c.error_rates.fpr.audited.high == pytest.approx(wilson, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_no_split_of_few_clusters_is_empty(seed):
    rng = np.random.default_rng(seed)
    rows = 60
    table = {"g": rng.integers(0, 2, rows), "c": rng.integers(0, 20, rows), "x": rng.standard_normal(rows)}
    table |= {"z": rng.integers(0, 6, rows).astype(str), "score": rng.random(rows)}
    assert tl.audit(pl.DataFrame(table), "g", scores="score", clusters="c", reference="1")["0"].gap.low is not None


def test_standard_errors_never_rest_on_a_few_of_many_large_clusters():
    cluster, audited = np.arange(36_000) // 3_000, np.arange(36_000) % 2 == 0
    shown = _influence_rows(Rows.of(audited, None, cluster), 3)
    assert np.unique(cluster[shown]).size == 12
    shown = _influence_rows(Rows.of(audited, None, np.arange(36_000) // 720), 3)
    assert np.unique(shown // 720).size == FEWEST_CLUSTERS
    shown = _influence_rows(Rows.of(audited, None, np.arange(36_000) // 10), 3)
    assert shown.size == 20_010
    cluster = np.arange(90_000) // 1_000
    shown = _influence_rows(Rows.of(cluster % 9 == 8, None, cluster), 3)  # the audited are the last of nine clusters
    assert np.unique(cluster[shown][cluster[shown] % 9 == 8]).size == 10


@pytest.mark.parametrize(
    "clusters", [np.zeros(240, dtype=int), np.arange(240) % 2, np.arange(240) * (np.arange(240) % 2)]
)
@pytest.mark.parametrize("features", [[], ["x"]])
def test_a_group_in_one_cluster_is_refused_because_its_error_is_unknown(clusters, features):
    rng = np.random.default_rng(0)
    data = {"g": ["a", "b"] * 120, "s": rng.random(240), "x": rng.random(240), "owner": clusters}
    with pytest.raises(DataError, match=r"Group 'a' has one cluster only \(`clusters`, 'owner'\)"):
        tl.audit(data, "g", scores="s", clusters="owner", features=features)


def test_periods_and_error_rates_in_one_cluster_have_no_interval_without_width():
    rng = np.random.default_rng(0)
    store, group = np.arange(2400) // 60, np.array(["a", "b"] * 1200)
    month = np.where(store == 3, "january", "february")
    outcome = (store == 3) | ((group == "a") & (rng.random(2400) < 0.5))
    data = {"g": group, "s": rng.random(2400), "store": store, "month": month, "y": outcome.astype(int)}
    options = {"scores": "s", "clusters": "store", "features": [], "outcome": "y", "periods": "month"}
    c = tl.audit(data, "g", reference="a", **options)["b"]
    assert dict(c.periods.frame.select("period", "reason").rows()) == {
        "january": "only one cluster of a group",
        "february": "",
    }
    assert (c.error_rates.fnr, c.error_rates.auc) == (None, None)
    assert c.error_rates.reasons["fnr"] == "people in only one cluster of the audited group are with the outcome"
    assert c.error_rates.fpr.audited.low < c.error_rates.fpr.audited.high
