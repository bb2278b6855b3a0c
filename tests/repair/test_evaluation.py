"""What a repair costs, on rows that nothing was fitted on."""

import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from tests.repair.test_score_tilt import gap, lending

import tiltlens as tl
from tiltlens.errors import DataError, TiltlensError


def borrowers(rows=3000, seed=0):
    """Return people with an outcome that is drawn by their score."""
    table = lending(rows, seed)
    drawn = np.random.default_rng([seed, 1]).random(rows) < table["score"].to_numpy()
    return table.with_columns(repaid=pl.Series(drawn.astype(int)))


@pytest.fixture(scope="module")
def tilt():
    table = borrowers()
    return tl.audit(table, group="group", reference="b", scores="score", exclude="repaid", folds=None)["a"].repair()


@pytest.fixture(scope="module")
def evaluation(tilt):
    return tilt.evaluate(borrowers(4000, 1), "score", "group", outcome="repaid")


def test_numbers_before_and_after_are_those_of_scikit_learn(tilt, evaluation):
    new = borrowers(4000, 1)
    y, before = new["repaid"].to_numpy(), new["score"].to_numpy()
    mine = (new["group"] == "a").to_numpy()
    for column, scores in (("before", before), ("after", tilt.apply(new, "score"))):
        decided = scores >= 0.5
        expected = {
            "gap": gap(new, scores),
            "impact_ratio": scores[mine].mean() / scores[~mine].mean(),
            "auc": roc_auc_score(y, scores),
            "auc_audited": roc_auc_score(y[mine], scores[mine]),
            "auc_reference": roc_auc_score(y[~mine], scores[~mine]),
            "log_loss": log_loss(y, scores),
            "brier": brier_score_loss(y, scores),
            "accuracy": (decided == y).mean(),
            "fpr_difference": scores[mine & (y == 0)].mean() - scores[~mine & (y == 0)].mean(),
            "fnr_difference": scores[~mine & (y == 1)].mean() - scores[mine & (y == 1)].mean(),
        }
        for name, value in expected.items():
            assert evaluation[name][column].value == pytest.approx(value, abs=1e-12), name
    assert evaluation["gap"]["change"].value == pytest.approx(
        evaluation["gap"]["after"].value - evaluation["gap"]["before"].value
    )


def test_changes_are_of_the_same_rows(tilt, evaluation):
    new = borrowers(4000, 1)
    moved = tilt.apply(new, "score") - new["score"].to_numpy()
    mine = (new["group"] == "a").to_numpy()
    error = np.sqrt(sum(moved[who].var() / who.sum() for who in (mine, ~mine)))
    found = evaluation["gap"]["change"]
    assert (found.high - found.low) / 2 == pytest.approx(1.959964 * error, rel=1e-6)


def test_decisions_that_change_are_counted_by_group(tilt, evaluation):
    new = borrowers(4000, 1)
    before, after = new["score"].to_numpy() >= 0.5, tilt.apply(new, "score") >= 0.5
    mine = (new["group"] == "a").to_numpy()
    assert evaluation.decisions["audited"]["up"] == int((mine & ~before & after).sum())
    assert evaluation.decisions["reference"]["down"] == int((~mine & before & ~after).sum())


def test_the_curve_runs_from_no_repair_to_the_whole(evaluation):
    assert evaluation.curve["part"].to_list()[0] == 0.0
    assert evaluation.curve["gap"][0] == pytest.approx(evaluation["gap"]["before"].value)
    assert evaluation.curve["gap"][-1] == pytest.approx(evaluation["gap"]["after"].value)
    assert evaluation.curve["gap"].abs().is_sorted(descending=True)
    assert evaluation.curve["auc"][-1] < evaluation.curve["auc"][0]


def test_paired_changes_cover_their_truth(tilt):
    big = borrowers(60_000, 99)
    whole = tilt.evaluate(big, "score", "group", outcome="repaid")
    names = ("gap", "auc", "brier", "accuracy", "fpr_difference")
    truth = {name: whole[name]["change"].value for name in names}
    hits = dict.fromkeys(names, 0)
    for seed in range(100, 160):
        found = tilt.evaluate(borrowers(800, seed), "score", "group", outcome="repaid")
        for name in names:
            hits[name] += found[name]["change"].low <= truth[name] <= found[name]["change"].high
    assert all(hits[name] >= 52 for name in names), hits  # of 60 at 95 %: fewer in 1 of 100 tries


def test_audited_rows_are_refused(refused, tilt, tmp_path):
    tilt.to_json(tmp_path / "repair.json")
    for saved in (tilt, tl.read_repair(tmp_path / "repair.json")):
        with refused(DataError, "`held_out`", "40"):
            saved.evaluate(pl.concat([borrowers(2000, 5), borrowers()[:40]]), "score", "group")


def plain(table, **options):
    return tl.audit(table, group="group", reference="b", scores="score", exclude="repaid", folds=None)["a"].repair(
        **options
    )


def visitors(people, seed, rows=1):
    """Return people of whole numbers, some alike by chance, each with several equal rows."""
    rng = np.random.default_rng(seed)
    mine = rng.random(people) < 0.5
    x = rng.integers(0, 8, (people, 5))
    x[:, 0] += 2 * ~mine
    score = expit(0.4 * (x[:, 0] - 4.5) + 0.2 * (x[:, 1] - 3.5))
    repaid = (rng.random(people) < score).astype(int)
    table = pl.DataFrame({"group": np.where(mine, "a", "b"), "score": score.round(3), "repaid": repaid})
    return table.hstack(pl.DataFrame(x, schema=list("vwxyz")))[np.repeat(np.arange(people), rows)]


@pytest.mark.parametrize("use_group", [False, True])
def test_audited_rows_are_refused_however_often_they_were_audited(refused, use_group):
    table = borrowers(500).with_columns(pl.col("score").round(2))
    tilt = plain(pl.concat([table, table[:250]]), use_group=use_group)
    others = borrowers(400, 6).with_columns(pl.col("score").round(2))
    for again in (table, table[:250], pl.concat([table[:200], others])):
        with refused(DataError, "were used"):
            tilt.evaluate(again, "score", "group")
    assert not tilt.evaluate(others, "score", "group").notes
    if use_group:
        notes = tilt.evaluate(others.select("score", "group"), "score", "group").notes
        assert ("rows not checked", {"column": "'income'"}) in [(note.code, note.values) for note in notes]


def test_rows_of_one_person_are_one_among_those_who_may_have_been_audited(refused):
    tilt, taken_for_audited = plain(visitors(1000, 0)), 0
    for seed in range(1, 21):
        people = np.repeat(np.arange(100), 5)
        for clusters in (people, None):
            try:
                tilt.evaluate(visitors(100, seed, 5), "score", "group", outcome="repaid", clusters=clusters)
            except DataError:
                taken_for_audited += 1
    assert taken_for_audited <= 1
    with refused(DataError, "`held_out`", "60"):
        tilt.evaluate(pl.concat([visitors(1000, 0)[:60], visitors(100, 99)]), "score", "group", outcome="repaid")


def test_rows_that_repeat_are_noted(tilt):
    often = pl.concat([borrowers(300, 6)] * 3)
    notes = tilt.evaluate(often, "score", "group").notes
    assert (notes[0].code, notes[0].values) == ("repeated held-out rows", {"rows": 600})
    assert not tilt.evaluate(often, "score", "group", clusters=np.tile(np.arange(300), 3)).notes


def test_rows_that_are_alike_by_nature_are_noted():
    def coarse(rows, seed):
        rng = np.random.default_rng(seed)
        mine = rng.random(rows) < 0.4
        owner = rng.random(rows) < 0.6 - 0.3 * mine
        return pl.DataFrame({"group": np.where(mine, "a", "b"), "owner": owner, "score": expit(owner - 0.4)})

    c = tl.audit(coarse(2000, 0), group="group", reference="b", scores="score", folds=None)["a"]
    found = c.repair(max_gap=0.05).evaluate(coarse(500, 1), "score", "group")
    assert found.notes[0].code == "audited rows"


def test_decisions_have_an_evaluation_of_their_own():
    table = borrowers()
    c = tl.audit(table, group="group", reference="b", scores="score", exclude="repaid", folds=None)["a"]
    found = c.repair(threshold=0.5).evaluate(borrowers(4000, 1), "score", "group", outcome="repaid")
    assert abs(found["gap"]["after"].value) < abs(found["gap"]["before"].value) / 3
    assert "auc" not in found.table["quantity"]
    assert -0.05 < found["accuracy"]["change"].value <= 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outcome": "area"}, "`outcome` must have two values"),
        ({"outcome": "income"}, "`outcome` must have two values"),
        ({"outcome": "nobody"}, "nobody"),
        ({"group": "area"}, "rows of each group"),
        ({"outcome": np.zeros(499)}, "`outcome` must have one value per row, got 499 for 500 rows"),
        ({"scores": np.full(300, 0.5)}, "`scores` must have one value per row, got 300 for 500 rows"),
        *(({"threshold": bad}, "`threshold` must") for bad in (50, -1, float("nan"), True, "0.5", None)),
        *(({"confidence": bad}, "`confidence` must") for bad in (95, 1.0, "a", None)),
        ({"score_class": 0}, "`score_class` must be left out, or 1, for two classes, got 0"),
        ({"clusters": np.zeros(500)}, "`clusters` must be two or more of each group, got 1 of 'a'"),
        ({"clusters": "group"}, "`clusters` must be two or more of each group, got 1 of 'a'"),
    ],
)
def test_mistakes_are_named(tilt, options, message):
    with pytest.raises(TiltlensError, match=message):
        tilt.evaluate(borrowers(500, 7), **{"scores": "score", "group": "group"} | options)


def test_missing_outcomes_are_left_out_of_what_needs_them(tilt):
    new = borrowers(3000, 8)
    some = new.with_columns(repaid=pl.when(pl.int_range(3000) < 1000).then(None).otherwise("repaid"))
    found, rest = (tilt.evaluate(one, "score", "group", outcome="repaid") for one in (some, new[1000:]))
    assert found["auc"]["after"].value == pytest.approx(rest["auc"]["after"].value, abs=1e-12)
    assert found["gap"]["after"].value != rest["gap"]["after"].value


@pytest.mark.parametrize("use_group", [False, True])
@pytest.mark.parametrize("metric", ["fpr", "fnr"])
def test_error_rates_of_new_rows_are_equal(metric, use_group):
    c = tl.audit(borrowers(), group="group", reference="b", scores="score", outcome="repaid", folds=None)["a"]
    tilt = c.repair(metric=metric, use_group=use_group)
    found = tilt.evaluate(borrowers(20_000, 1), "score", "group", outcome="repaid")[f"{metric}_difference"]
    assert tilt.gap_before == pytest.approx(c.estimate(f"{metric}_difference").value, abs=1e-12)
    assert tilt.gap_after == pytest.approx(0.0, abs=1e-9)
    assert abs(found["before"].value) > 0.08
    assert abs(found["after"].value) < 0.02
    again = tl.ScoreTilt(**{name: getattr(tilt, name) for name in tilt.__slots__})
    assert again.to_dict() == tilt.to_dict()


def test_criteria_that_cannot_be(refused, tmp_path):
    plain = tl.audit(lending(400), group="group", reference="b", scores="score", folds=None)["a"]
    with refused(DataError, "needs outcomes,"):
        plain.repair(metric="fpr")
    with refused(DataError, "`metric`", "'mean_score'"):
        plain.repair(metric="parity")
    of_rate = tl.audit(
        borrowers(400), group="group", reference="b", scores="score", outcome="repaid", metric="fpr", folds=None
    )
    with pytest.raises(DataError, match="without a `metric`"):
        of_rate["a"].repair()


def test_arrays_beside_the_table_are_matched_before_rows_are_left_out(tilt):
    new = borrowers(3000, 9)
    others = pl.concat([new[:1000].with_columns(group=pl.lit("c")), new[1000:]])
    by_name = tilt.evaluate(others, "score", "group", outcome="repaid")
    as_arrays = tilt.evaluate(others, others["score"].to_numpy(), others["group"].to_list(), outcome=others["repaid"])
    assert as_arrays.to_dict() == by_name.to_dict()
    assert by_name.to_dict() == tilt.evaluate(new[1000:], "score", "group", outcome="repaid").to_dict()


def test_a_series_of_another_index_is_refused(refused, tilt):
    new = borrowers(500, 10).to_pandas()
    with refused(DataError, "`scores`", "`data`"):
        tilt.evaluate(new, new["score"].sort_values(), "group")


def test_a_series_in_another_order_than_a_table_without_an_index_is_refused(refused, tilt):
    new = borrowers(500, 10)
    repaid = new["repaid"].to_pandas()
    tilt.evaluate(new, "score", "group", outcome=repaid)
    mixed = repaid.sample(frac=1.0, random_state=0)
    with refused(DataError, "`outcome`"):
        tilt.evaluate(new, "score", "group", outcome=mixed)
    assert tilt.evaluate(new, "score", "group", outcome=mixed.to_numpy()).notes == ()


def test_the_cost_of_blindness_is_of_the_same_rows():
    table, new = borrowers(), borrowers(2000, 1)
    c = tl.audit(table, group="group", reference="b", scores="score", exclude="repaid", folds=None)["a"]
    blind, aware = c.repair(), c.repair(use_group=True)
    found = blind.evaluate(new, "score", "group", outcome="repaid", compare_with=aware)
    y = new["repaid"].to_numpy()
    losses = [
        -np.where(y, np.log(scores), np.log1p(-scores))
        for scores in (blind.apply(new, "score"), aware.apply(new, "score", "group"))
    ]
    row = found.cost_of_blindness.filter(quantity="log_loss").row(0, named=True)
    moved = losses[0] - losses[1]
    assert (row["without_group"], row["with_group"]) == pytest.approx((losses[0].mean(), losses[1].mean()), abs=1e-12)
    assert row["cost"] == pytest.approx(moved.mean(), abs=1e-12)
    half = 1.959964 * moved.std() / np.sqrt(len(moved))
    assert (row["cost_low"], row["cost_high"]) == pytest.approx((moved.mean() - half, moved.mean() + half), rel=1e-3)
    other = aware.evaluate(new, "score", "group", outcome="repaid", compare_with=blind)
    assert other.cost_of_blindness.equals(found.cost_of_blindness)
    assert other.compared_with.table.equals(found.table)


def test_a_repair_to_compare_with_must_differ_by_the_group_alone(refused, tilt):
    new = borrowers(500, 1)
    with refused(DataError):
        tilt.evaluate(new, "score", "group", compare_with=tilt)
    with refused(DataError, "same groups, metric"):
        tilt.evaluate(new, "score", "group", compare_with=plain(borrowers(), use_group=True, max_gap=0.05))
    with refused(DataError, "`held_out`", "500"):
        tilt.evaluate(new, "score", "group", compare_with=plain(new, use_group=True))


def test_repairs_of_other_people_or_at_equal_factors_show_no_cost_of_blindness(refused, tilt):
    table = borrowers().with_columns(kind=pl.Series(["old", "new"]).gather(pl.int_range(borrowers().height) % 2))
    new, question = borrowers(500, 1), {"group": "group", "reference": "b", "scores": "score", "folds": None}
    of_others, at_equal_kinds = {"where": {"kind": "new"}}, {"exempt": "kind"}
    for options in (of_others, at_equal_kinds):
        other = tl.audit(table, exclude="repaid", **question, **options)["a"].repair(use_group=True)
        with refused(DataError, "exempt factors and conditions"):
            tilt.evaluate(new, "score", "group", compare_with=other)


def test_weights_count_as_repeated_rows(refused, tilt):
    new = borrowers(1500, 11).with_columns(weight=pl.int_range(1500) % 3)
    weighted = tilt.evaluate(new, "score", "group", outcome="repaid", sample_weight="weight")
    repeated = tilt.evaluate(
        new.select(pl.exclude("weight").repeat_by("weight").explode()), "score", "group", outcome="repaid"
    )
    for name in weighted.table["quantity"]:
        for part in ("before", "after", "change"):
            assert weighted[name][part].value == pytest.approx(repeated[name][part].value, abs=1e-12), name
    assert weighted.rows["audited"] + weighted.rows["reference"] == 1000  # a weight of 0 counts for nothing
    with refused(DataError, "`sample_weight`"):
        tilt.evaluate(new, "score", "group", sample_weight=[-1] * 1500)


def test_rows_of_one_customer_are_one(tilt):
    new = borrowers(1_200, 12)
    once = tilt.evaluate(new, "score", "group", outcome="repaid")
    own = np.tile(np.arange(1_200), 4)
    often = tilt.evaluate(pl.concat([new] * 4), "score", "group", outcome="repaid", clusters=own)
    for name in once.table["quantity"]:
        ours, theirs = often[name]["change"], once[name]["change"]
        assert ours.value == pytest.approx(theirs.value, abs=1e-12), name
        assert ours.high - ours.low == pytest.approx(theirs.high - theirs.low, rel=0.01), name


def test_what_would_be_of_few_people_is_not_told(tilt):
    new = borrowers(300, 13)
    mine = new["group"] == "a"
    few = new.with_columns(
        repaid=pl.when(mine & (pl.col("repaid") == 1) & (mine.cum_sum() > 15)).then(0).otherwise("repaid")
    )
    found = tilt.evaluate(few, "score", "group", outcome="repaid")
    assert {"fpr_difference", "auc_audited"}.isdisjoint(found.table["quantity"])
    assert {"auc", "auc_reference", "accuracy"} <= set(found.table["quantity"])
    assert (found.notes[-1].code, found.notes[-1].values) == ("few people with an outcome", {"minimum": 10})


def test_missing_outcomes_are_counted(tilt):
    new = borrowers(600, 14).with_columns(repaid=pl.when(pl.int_range(600) < 100).then(None).otherwise("repaid"))
    found = tilt.evaluate(new, "score", "group", outcome="repaid")
    assert found.missing_outcome == 100
    assert (found.notes[0].code, found.notes[0].values) == ("rows without outcome", {"missing": 100, "rows": 600})


def test_no_changed_decision_is_not_surely_none(tilt):
    new = borrowers(4000, 15)
    same = (tilt.apply(new, "score") >= 0.5) == (new["score"] >= 0.5).to_numpy()
    evaluation = tilt.evaluate(new.filter(same), "score", "group", outcome="repaid")
    for name in ("decision_gap", "accuracy"):
        found = evaluation[name]["change"]
        assert found.value == 0.0
        assert found.high > 0.0005  # about three over the number of people


def scarce(rows, seed):
    """Return people of whom one in thirty has the outcome, and one in a hundred a score above ½."""
    rng = np.random.default_rng(seed)
    mine = rng.random(rows) < 0.4
    x, z = rng.normal(size=rows) - 0.5 * mine, rng.normal(size=rows) - mine
    score = expit(-4.6 + 2.0 * x)
    repaid = (rng.random(rows) < score).astype(int)
    return pl.DataFrame({"group": np.where(mine, "a", "b"), "x": x, "z": z, "score": score, "repaid": repaid})


def test_intervals_have_a_width_where_few_are_decided_1():
    question = {"reference": "b", "scores": "score", "exclude": "repaid", "folds": None}
    tilt = tl.audit(scarce(4000, 0), "group", **question)["a"].repair(threshold=0.5, use_group=True)
    truth = tilt.evaluate(scarce(100_000, 1), "score", "group", outcome="repaid")
    hits = dict.fromkeys([(name, part) for name in ("gap", "accuracy") for part in ("before", "after", "change")], 0)
    for seed in range(100, 130):
        found = tilt.evaluate(scarce(300, seed), "score", "group", outcome="repaid")
        for name, part in hits:
            hits[name, part] += found[name][part].low <= truth[name][part].value <= found[name][part].high
    assert all(count >= 25 for count in hits.values()), hits  # of 30 at 95 %: fewer in 1 of 100 tries


def test_an_interval_of_few_decisions_is_newcombes():
    tilt = plain(borrowers(800), threshold=0.5, max_gap=0.5)  # nothing to do: decisions are those of the scores
    score = np.repeat([0.9, 0.1, 0.9, 0.1], [7, 27, 1, 33])  # 7 of 34 and 1 of 34
    group = np.repeat(["a", "b"], 34)
    found = tilt.evaluate(borrowers(68, 3), score, group)["gap"]["after"]
    assert (found.low, found.high) == pytest.approx((0.019, 0.340), abs=0.001)  # Newcombe (1998), method 10
    assert tilt.evaluate(borrowers(68, 3), score, group)["gap"]["change"].high == 0.0


@pytest.mark.parametrize("options", [{}, {"threshold": 0.5}], ids=["scores", "decisions"])
def test_ratios_are_those_of_the_favourable_outcome(options, tmp_path):
    question = {"reference": "b", "scores": "score", "exclude": "repaid", "folds": None, "favourable": "low"}
    new = borrowers(900, 1)
    audit = tl.audit(borrowers(800), "group", **question)
    tilt = audit["a"].repair(**options)
    tilt.to_json(tmp_path / "repair.json")
    score = (new["score"] >= 0.5).cast(float) if options else new["score"]
    expected = tl.audit(new.with_columns(score=score), "group", **question)["a"].impact_ratio.value
    for one in (tilt, audit.repair(**options), tl.read_repair(tmp_path / "repair.json")):
        evaluation = one.evaluate(new, "score", "group")
        assert evaluation["impact_ratio"]["before"].value == pytest.approx(expected, abs=1e-12)
    assert "ratio, low is" in str(evaluation)


def test_groups_may_be_intersections():
    def crossed(rows, seed):
        return borrowers(rows, seed).with_columns(sex=pl.Series(["f", "m"] * (rows // 2)))

    question = {"reference": "b & m", "scores": "score", "exclude": "repaid", "folds": None}
    tilt = tl.audit(crossed(800, 0), ["group", "sex"], **question)["a & f"].repair()
    found = tilt.evaluate(crossed(600, 1), "score", ["group", "sex"])
    joined = crossed(600, 1).with_columns(both=pl.concat_str("group", "sex", separator=" & "))
    assert found.table.equals(tilt.evaluate(joined, "score", "both").table)
    assert found.repair.group == "group & sex"


@pytest.mark.parametrize("options", [{}, {"threshold": 0.5}], ids=["scores", "decisions"])
def test_intervals_before_are_those_of_the_audit(options):
    new = scarce(300, 7)
    found = plain(borrowers(400), **options).evaluate(
        new.with_columns(income=0.0, area=pl.lit("east"), noise="x"), "score", "group"
    )
    decided = new.with_columns((pl.col("score") >= 0.5).cast(float)) if options else new
    audit = tl.audit(decided, "group", reference="b", scores="score", features=[])["a"]
    for end in ("value", "low", "high"):
        assert getattr(found["gap"]["before"], end) == pytest.approx(getattr(audit.gap, end), abs=1e-12)
