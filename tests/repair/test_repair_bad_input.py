"""What a repair says of rows that it can do little with, or nothing: each is named, none is silent."""

import numpy as np
import polars as pl
import pytest
from benchmarks.repair_limits import CLASSES, town
from scipy.special import expit
from tests.repair.test_evaluation import borrowers
from tests.repair.test_score_tilt import gap, lending

import tiltlens as tl
from tiltlens._notes import EQUAL_DECISIONS
from tiltlens.errors import DataError, SupportError

COMMON = {"group": "group", "reference": "b", "scores": "score", "folds": None}


def test_a_limit_beyond_reach_says_how_near_it_comes(refused):
    table = lending(1000).with_columns(
        score=pl.when(pl.col("noise") > -1.5).then(pl.col("score").round()).otherwise("score")
    )
    c = tl.audit(table, **COMMON)["a"]
    with refused(SupportError, "'a'", "'b'", "(limit 0)"):
        c.repair()


def test_nothing_to_repair_is_noted():
    tilt = tl.audit(borrowers(800), outcome="repaid", **COMMON)["a"].repair(metric="equalized_odds", max_gap=0.9)
    assert not any(one.multiplier for one in tilt.constraints)
    (note,) = (note for note in tilt.notes if note.code == "nothing to adjust")
    assert "largest of 2" in note.values["gap"]
    assert tilt.nats == pytest.approx(0.0, abs=1e-15)


def test_features_that_separate_the_groups_together_are_refused(refused):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (2, 800))
    mine = x + y > 0
    table = pl.DataFrame({"group": np.where(mine, "a", "b"), "x": x, "y": y, "score": expit(x + rng.normal(size=800))})
    table = table.filter((pl.col("x") + pl.col("y")).abs() > 0.15)
    c = tl.audit(table, propensity=np.full(table.height, 0.5), **COMMON)["a"]  # an audit without it refuses as well
    with refused(SupportError, "separate the two"):
        c.repair()
    assert c.repair(use_group=True).gap_after == pytest.approx(0.0, abs=1e-9)


def test_scores_alone_can_be_repaired_with_the_group_only(refused):
    c = tl.audit(lending(400), features=[], **COMMON)["a"]
    with refused(DataError, "No feature"):
        c.repair()
    assert c.repair(use_group=True).gap_after == pytest.approx(0.0, abs=1e-9)


def test_twenty_people_are_repaired_with_a_warning_of_chance(refused):
    table = pl.concat([lending(3000).filter(group="a")[:20], lending(3000).filter(group="b")[:400]])
    c = tl.audit(table, **COMMON)["a"]
    with refused(SupportError, "'a'", "'b'"):
        c.repair()
    tilt = c.repair(use_group=True)
    (one,) = tilt.constraints
    assert one.gap_after == pytest.approx(0.0, abs=1e-9)
    assert one.se > 0.02
    (note,) = (note for note in tilt.notes if note.code == "few people in a group")
    assert note.values["people"] == pytest.approx(20)


@pytest.mark.parametrize("known", [1.0, 0.6])
def test_error_rates_are_of_people_whose_outcome_is_known(known):
    table = borrowers(2000)
    some = table.with_columns(repaid=pl.when(pl.int_range(2000) < known * 2000).then("repaid"))
    tilt = tl.audit(some, outcome="repaid", **COMMON)["a"].repair(metric="fpr")
    mine = some.filter(repaid=0)
    assert tilt.gap_before == pytest.approx(gap(mine, mine["score"].to_numpy()), abs=1e-12)
    notes = [note.values for note in tilt.notes if note.code == "some outcomes"]
    assert notes == ([] if known == 1.0 else [{"known": 1200, "rows": 2000}])


def test_too_few_people_with_an_outcome_are_named(refused):
    table = borrowers(600).with_columns(repaid=pl.when(pl.col("group") == "a").then(1).otherwise("repaid"))
    with refused(DataError, "'equalized_odds'", "'a'"):
        tl.audit(table, outcome="repaid", **COMMON)["a"].repair(metric="equalized_odds")


def test_classes_cannot_be_decided_by_a_threshold_nor_be_constant(refused):
    common = {"group": "group", "reference": "a", "features": ["income", "area"], "folds": None}
    audit = tl.audit(town(600, 0), scores=CLASSES, favourable="large", **common)
    with refused(DataError, "`threshold`"):
        audit.repair(threshold=0.5)
    even = town(600, 0).with_columns(pl.lit(1 / 3).alias(name) for name in CLASSES)
    with refused(DataError, "The scores"):
        tl.audit(even, scores=CLASSES, favourable="large", **common).repair()


def test_scores_of_other_classes_are_refused():
    common = {"group": "group", "reference": "a", "features": ["income", "area"], "folds": None}
    of_classes, new = tl.audit(town(600, 0), scores=CLASSES, favourable="large", **common).repair(), town(50, 1)
    of_two = tl.audit(town(600, 0), scores="score", **common).repair()
    for tilt, scores, message in (
        (of_classes, "score", "`scores` must be 3 columns, one for each class, got 1"),
        (of_classes, CLASSES[:2], "got 2"),
        (of_two, CLASSES, r"`scores` must be one column, of W\(1\|x\), got 3"),
        (of_classes, ["score", *CLASSES[:2]], "`scores` must add up to 1 in each row, got .* in row 0"),
    ):
        with pytest.raises(DataError, match=message):
            tilt.apply(new, scores)


def test_integer_weights_are_repeated_rows():
    table = lending(1000)
    weighted = table.with_columns(times=pl.when(pl.col("area") == "north").then(3).otherwise(1))
    repeated = pl.concat([table, *[table.filter(area="north")] * 2])
    options = COMMON | {"features": ["income"]}
    one, other = tl.audit(weighted, sample_weight="times", **options), tl.audit(repeated, **options)
    for asked in ({}, {"threshold": 0.5}):
        found, expected = (audit["a"].repair(use_group=True, **asked) for audit in (one, other))
        assert found.multiplier == pytest.approx(expected.multiplier, abs=1e-9)
        assert found.gap_before == pytest.approx(expected.gap_before, abs=1e-12)


def test_rows_of_a_cluster_err_together_and_stay_together():
    table = lending(600).with_row_index("customer")
    twice = pl.concat([table, table])
    options = COMMON | {"exclude": "customer"}
    apart, joined = tl.audit(twice, **options), tl.audit(twice, clusters="customer", **options)
    single = tl.audit(table, **options)["a"].repair().constraints[0].se
    assert joined["a"].repair().constraints[0].se == pytest.approx(single, rel=0.02)
    copied = apart["a"].repair()
    assert copied.constraints[0].se == pytest.approx(single, rel=0.02)
    assert {"rows": 600} in [note.values for note in copied.notes if note.code == "duplicates count once"]


def test_groups_known_by_probabilities_are_repaired_without_the_group():
    rng = np.random.default_rng(1)
    table = lending(2000)
    mine = (table["group"] == "a").to_numpy()
    b = np.clip(np.where(mine, 0.9, 0.1) + rng.uniform(-0.05, 0.05, 2000), 0, 1)
    soft = table.drop("group").with_columns(p=pl.Series(b), q=pl.Series(1 - b))
    audit = tl.audit(soft, {"a": "p", "b": "q"}, reference="b", scores="score", folds=None)
    tilt = audit["a"].repair()
    after, weight = tilt.apply(table, "score"), b / b.sum() - (1 - b) / (1 - b).sum()
    assert tilt.gap_before == pytest.approx(weight @ table["score"].to_numpy(), abs=1e-12)
    assert weight @ after == pytest.approx(0.0, abs=4 * tilt.constraints[0].se)
    for asked in (audit, audit["a"]):
        with pytest.raises(DataError, match="`use_group` needs observed groups"):
            asked.repair(use_group=True)


def is_in_steps(tilt):
    """Return whether a note says that the gap can change only in steps."""
    reasons = [note.values["reason"] for note in tilt.notes if note.code == "limit missed"]
    return EQUAL_DECISIONS in reasons or "closed further" in {note.code for note in tilt.notes}


def test_decisions_of_few_kinds_of_people_are_noted_where_they_miss_the_limit():
    rng = np.random.default_rng(2)
    mine, owner = rng.random(1000) < 0.4, rng.random(1000)
    owner = owner < np.where(mine, 0.3, 0.6)
    table = pl.DataFrame({"group": np.where(mine, "a", "b"), "owner": owner, "score": np.where(owner, 0.7, 0.4)})
    tilt = tl.audit(table, **COMMON)["a"].repair(threshold=0.5, max_gap=0.1)
    assert tilt.gap_after == pytest.approx(gap(table, tilt.apply(table, "score")))  # of the rule that is shipped
    within = abs(tilt.gap_after) < 0.1
    assert is_in_steps(tilt)
    selected = [note.values["people"] for note in tilt.notes if note.code == "nearly constant rule"]
    assert within is bool({"nobody", "everybody"} & {*selected})


def test_what_new_rows_lack_is_told_on_the_evaluation_too():
    tilt, new = tl.audit(lending(), **COMMON)["a"].repair(), lending(600, 5)
    odd = new.with_columns(
        area=pl.when(pl.int_range(600) < 30).then(pl.lit("west")).otherwise("area"),
        noise=pl.when(pl.int_range(600) < 12).then(None).otherwise("noise"),
    )
    notes = tilt.evaluate(odd, "score", "group").notes
    assert {note.code for note in notes} == {"unseen values"}
    counts = [(note.values["count"], note.values["rows"], note.values["feature"]) for note in notes]
    assert counts == [(12, 600, "'noise'"), (30, 600, "'area'")]
    assert not tilt.evaluate(new, "score", "group").notes


def test_options_of_another_kind_are_named():
    comparison = tl.audit(lending(300), **COMMON)["a"]
    for asked, message in (
        ({"threshold": "a"}, "`threshold` must be a number above 0 and below 1, got 'a'"),
        ({"threshold": float("nan")}, "`threshold` must be a number above 0 and below 1, got nan"),
        ({"use_group": "yes"}, "`use_group` must be True or False, got 'yes'"),
    ):
        with pytest.raises(DataError, match=message):
            comparison.repair(**asked)


def few_kinds(rows, seed):
    """Return people of eight kinds, which the groups have in other shares; the score goes by the kind alone."""
    rng = np.random.default_rng(seed)
    mine = rng.random(rows) < 0.5
    has = rng.random((rows, 3)) < np.where(mine[:, None], [0.3, 0.5, 0.35], [0.55, 0.6, 0.65])
    columns = {f"has{place}": np.where(one, "yes", "no") for place, one in enumerate(has.T)}
    return pl.DataFrame({"group": np.where(mine, "a", "b"), **columns, "score": expit(has @ [1.0, 0.7, 0.9] - 1.2)})


def test_decisions_of_few_kinds_of_people_are_claimed_as_they_will_be():
    new, z = few_kinds(20_000, 100), []
    for seed in range(8):
        tilt = tl.audit(few_kinds(1000, seed), **COMMON)["a"].repair(threshold=0.5)
        z.append((gap(new, tilt.apply(new, "score")) - tilt.gap_after) / tilt.constraints[0].se)
        assert is_in_steps(tilt) is (abs(tilt.gap_after) > 0.003)
    assert np.sqrt(np.mean(np.square(z))) < 1.6  # five chances for each kind of people: 2.7


@pytest.mark.parametrize("options", [{}, {"threshold": 0.5}])
def test_features_that_say_nothing_of_the_group_are_refused(refused, options):
    rng = np.random.default_rng(7)
    hardly_distinguished = 0
    for _ in range(3):
        mine, x = rng.random(800) < 0.5, rng.normal(size=(800, 3))
        table = pl.DataFrame({"group": np.where(mine, "a", "b"), **{f"x{k}": one for k, one in enumerate(x.T)}})
        table = table.with_columns(score=pl.Series(expit(x[:, 0] + rng.normal(size=800) - 0.8 * mine)))
        c = tl.audit(table, **COMMON)["a"]
        with refused(SupportError, "'a'", "'b'") as error:
            c.repair(**options)
        hardly_distinguished += "hardly distinguish" in str(error.value)
        assert "use_group=True" in str(error.value)
        assert c.repair(use_group=True, **options).gap_after == pytest.approx(0.0, abs=0.01)
        assert c.repair(max_gap=0.9, **options).multiplier == 0.0
    assert hardly_distinguished
