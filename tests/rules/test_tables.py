"""The tables of a rule, against numbers worked out by hand."""

import json
import math
from datetime import date
from importlib.resources import files

import jsonschema
import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.people import IN_PROCESS, SOURCES, assert_same_numbers
from tests.rules.hiring import HAND, NEVER, applicants
from tests.schemas import strict

import tiltlens as tl
from tiltlens._estimators.verdicts import Count, rate_ratio
from tiltlens._notes import Note
from tiltlens._rules import rule
from tiltlens._rules.measures import Limits, measure_groups
from tiltlens.errors import DataError, TiltlensError

Z = 1.959963984540054
MEASURES = ["n", "share", "rate", "impact_ratio", "impact_ratio_low", "impact_ratio_high"]
OPEN = "inconclusive, because the interval includes it"
MEASURES += ["is_excluded", "is_below_threshold", "is_surely_below_threshold", "note"]


def column(frame, name):
    return dict(zip(frame.select(frame.columns[: -len(MEASURES)]).rows(), frame[name], strict=True))


def by_hand(chosen, size, top_chosen, top_size):
    """Return the ratio with the log interval, written out: se² = 1/a − 1/n + 1/b − 1/m."""
    ratio = (chosen / size) / (top_chosen / top_size)
    reach = Z * math.sqrt(1 / chosen - 1 / size + 1 / top_chosen - 1 / top_size)
    return ratio, ratio * math.exp(-reach), ratio * math.exp(reach)


def test_a_two_way_table_worked_out_by_hand():
    found = tl.rule_tables(HAND, "four-fifths", ["sex", "race"], selected="selected")
    assert list(found) == ["sex", "race", "sex & race"]
    assert found["sex"].columns == ["sex", *MEASURES]
    assert column(found["sex"], "n") == {("F",): 200, ("M",): 200}
    assert column(found["sex"], "rate") == {("F",): 0.3, ("M",): 0.5}
    assert column(found["race"], "rate") == {("A",): 0.5, ("B",): 0.25}
    assert column(found["sex"], "share") == {("F",): 0.5, ("M",): 0.5}
    women = found["sex"].row(0, named=True)
    expected = by_hand(60, 200, 100, 200)
    assert [women[f"impact_ratio{end}"] for end in ("", "_low", "_high")] == pytest.approx(expected, rel=1e-12)
    assert women["impact_ratio"] == pytest.approx(0.6)
    assert (women["is_below_threshold"], women["note"]) == (
        True,
        Note("side of the threshold", side="below", threshold="0.80"),
    )
    men = found["sex"].row(1, named=True)
    assert (men["impact_ratio"], men["impact_ratio_low"], men["is_below_threshold"]) == (1.0, None, False)
    assert men["note"].startswith("highest rate")


def test_intersections_are_divided_by_their_own_highest_rate():
    joint = tl.rule_tables(HAND, "nyc-local-law-144", ["sex", "race"], selected="selected")["sex & race"]
    assert joint.columns == ["sex", "race", *MEASURES]
    ratios = column(joint, "impact_ratio")
    assert ratios == pytest.approx({("F", "A"): 0.6, ("F", "B"): 0.3, ("M", "A"): 1.0, ("M", "B"): 0.5})
    row = joint.row(1, named=True)
    expected = by_hand(15, 80, 75, 120)
    assert [row[f"impact_ratio{end}"] for end in ("", "_low", "_high")] == pytest.approx(expected, rel=1e-12)


def test_the_interval_is_that_of_the_audit_for_the_same_two_groups():
    data = HAND.with_columns(income=pl.Series(np.random.default_rng(0).normal(size=HAND.height)))
    options = {"group": "sex", "reference": "M", "scores": "selected", "features": ["income"]}
    theirs = tl.audit(data, **options)["F"].impact_ratio
    ours = tl.rule_tables(data, "four-fifths", "sex", selected="selected")["sex"].row(0, named=True)
    assert ours["impact_ratio"] == pytest.approx(theirs.value, rel=1e-9)
    assert ours["impact_ratio_low"] == pytest.approx(theirs.low, rel=1e-9)
    assert ours["impact_ratio_high"] == pytest.approx(theirs.high, rel=1e-9)


def test_the_denominator_is_the_highest_rate_not_the_largest_group():
    data = applicants(("x", "A", 500, 100), ("x", "B", 50, 30), ("y", "C", 100, 40))
    race = tl.rule_tables(data, "four-fifths", "race", selected="selected")["race"]
    assert race["impact_ratio"].to_list() == pytest.approx([0.2 / 0.6, 1.0, 0.4 / 0.6])


def test_of_equally_high_rates_the_larger_group_is_the_denominator():
    data = applicants(("x", "A", 20, 10), ("x", "B", 200, 100), ("y", "C", 100, 40))
    race = tl.rule_tables(data, "four-fifths", "race", selected="selected")["race"]
    assert race["impact_ratio"].to_list() == pytest.approx([1.0, 1.0, 0.8])
    assert race["impact_ratio_low"].is_null().to_list() == [False, True, False]


def test_less_than_two_percent_is_shown_but_has_no_ratio_and_is_no_denominator():
    data = applicants(("F", "A", 490, 245), ("M", "B", 491, 200), ("F", "C", 19, 19))  # C: 1.9 %, everyone selected
    race = tl.rule_tables(data, "nyc-local-law-144", ["sex", "race"], selected="selected")["race"]
    left_out = race.row(2, named=True)
    assert (left_out["n"], left_out["rate"], left_out["is_excluded"], left_out["impact_ratio"]) == (19, 1.0, True, None)
    assert left_out["note"] == Note("no impact ratio", share=2)
    assert race["impact_ratio"][0] == 1.0
    kept = tl.rule_tables(data, "nyc-local-law-144", ["sex", "race"], selected="selected", smallest_share=0)
    assert kept["race"]["is_excluded"].to_list() == [False] * 3
    assert kept["race"]["impact_ratio"].to_list() == pytest.approx([0.5, 200 / 491, 1.0])
    assert Note("other smallest share", share=0, stated="2%") in kept.notes


def test_exactly_two_percent_is_kept():
    data = applicants(("F", "A", 490, 245), ("M", "B", 490, 200), ("F", "C", 20, 10))
    assert not tl.rule_tables(data, "nyc-local-law-144", "race", selected="selected")["race"]["is_excluded"].any()


def test_fewer_than_ten_people_have_no_rate():
    data = applicants(("F", "A", 50, 25), ("M", "B", 50, 20), ("M", "C", 9, 9))
    small = tl.rule_tables(data, "four-fifths", "race", selected="selected")["race"].row(2, named=True)
    assert (small["n"], small["rate"], small["impact_ratio"], small["is_below_threshold"]) == (9, None, None, None)
    assert small["note"] == Note("no rate", minimum=10)


def test_a_reader_is_told_that_tables_together_may_tell_what_one_withholds():
    data = applicants(("F", "A", 50, 25), ("F", "B", 5, 1), ("M", "A", 50, 25), ("M", "B", 50, 20))
    told = "A rate that one table suppresses may follow from the others: check before you publish them."
    assert told in tl.rule_tables(data, "four-fifths", ["sex", "race"], selected="selected").notes
    assert told not in tl.rule_tables(data, "four-fifths", "race", selected="selected").notes
    assert told not in tl.rule_tables(HAND, "four-fifths", ["sex", "race"], selected="selected").notes


def test_only_small_groups_are_a_table_without_ratios():
    data = applicants(("F", "A", 5, 2), ("M", "B", 6, 2))
    race = tl.rule_tables(data, "four-fifths", "race", selected="selected")["race"]
    assert race["n"].to_list() == [5, 6]
    assert race["rate"].null_count() == race["impact_ratio"].null_count() == 2


def test_one_group_that_is_large_enough_has_nobody_to_be_compared_with():
    data = applicants(("F", "A", 50, 25), ("M", "B", 6, 2))
    race = tl.rule_tables(data, "four-fifths", "race", selected="selected")["race"]
    assert race["note"][0] == Note("only rate")


def test_unknown_groups_are_counted_for_each_table_and_missing_outcomes_once():
    extra = applicants((None, "A", 3, 1), ("F", None, 4, 2), (None, None, 2, 0)).with_columns(selected=pl.lit(1))
    gone = pl.DataFrame({"sex": ["F"], "race": ["A"], "selected": [None]}, schema_overrides={"selected": pl.Int64})
    data = pl.concat([HAND, extra.cast({"selected": pl.Int64}), gone])
    found = tl.rule_tables(data, "nyc-local-law-144", ["sex", "race"], selected="selected")
    assert found.unknown == {"sex": 5, "race": 6, "sex & race": 9}
    assert found.rows == {"read": 410, "used": 409, "missing_outcome": 1}
    assert found["sex & race"]["n"].sum() == 400


def test_intersections_that_nobody_is_known_to_be_in_are_an_empty_table():
    data = applicants(("F", None, 20, 5), ("M", None, 20, 9), (None, "A", 20, 5), (None, "B", 20, 7))
    found = tl.rule_tables(data, "nyc-local-law-144", ["sex", "race"], selected="selected")
    assert found["sex & race"].height == 0
    assert found["sex & race"].schema["rate"] == pl.Float64
    assert found.unknown["sex & race"] == 80
    json.dumps(found.to_dict())


@pytest.mark.parametrize(
    ("group", "highest", "answer", "words"),
    [
        (Count(1000, 300), Count(1000, 500), True, "below the threshold of 0.80"),
        (Count(1000, 480), Count(1000, 500), False, "at or above the threshold of 0.80"),
        (Count(60, 18), Count(60, 26), None, f"below the threshold of 0.80; {OPEN}"),
        (Count(60, 24), Count(60, 26), None, f"at or above the threshold of 0.80; {OPEN}"),
        (Count(60, 24), Count(60, 30), None, f"at or above the threshold of 0.80; {OPEN}"),
        (Count(100, 0), Count(100, 50), True, "below the threshold of 0.80"),
        (Count(10, 0), Count(10, 3), None, f"below the threshold of 0.80; {OPEN}"),
        (Count(40, 12), Count(80, 48), None, f"below the threshold of 0.80; {OPEN}"),  # the textbook's: ratio .50
    ],
)
def test_what_the_interval_allows_to_be_said(group, highest, answer, words):
    entry = measure_groups([group, highest], Limits(0.8, 0.0, 0.95))[0]
    assert entry["is_surely_below_threshold"] is answer
    assert entry["is_below_threshold"] is words.startswith("below")  # what the text asks
    assert entry["note"].startswith(words)


def test_ten_of_ten_is_no_proof():
    """The normal interval of 10 of 10 against 12 of 12 has no width; the exact bound of 10 of 10 is 0.025^(1/10)."""
    found = rate_ratio(Count(10, 10), Count(12, 12), 0.95)
    assert found.value == pytest.approx(1.0)
    assert found.low < 0.025**0.1 < 0.025 ** (-1 / 12) < found.high, "the exact bounds of either group are inside"
    assert (
        measure_groups([Count(10, 10), Count(12, 12)], Limits(0.8, 0.0, 0.95))[0]["is_surely_below_threshold"] is None
    )
    many = measure_groups([Count(1000, 1000), Count(1200, 1200)], Limits(0.8, 0.0, 0.95))[0]
    assert many["is_surely_below_threshold"] is False


def test_every_interval_of_small_groups_is_finite_and_holds_its_value():
    for chosen, top in np.ndindex(11, 12):
        group, highest = Count(10, chosen), Count(12, top + 1)
        if group.rate <= highest.rate:
            found = rate_ratio(group, highest, 0.95)
            assert 0 <= found.low <= found.value <= found.high < math.inf


def test_a_ratio_of_exactly_the_threshold_is_not_below_it():
    entry = measure_groups([Count(60_000, 24_000), Count(60_000, 30_000)], Limits(0.8, 0.0, 0.01))[0]
    assert entry["impact_ratio"] == pytest.approx(0.8)
    assert "at or above" in entry["note"]


def test_nobody_selected_is_a_ratio_that_is_not_defined():
    found = tl.rule_tables(applicants(("F", "A", 20, 0), ("M", "B", 20, 0)), "four-fifths", "sex", selected="selected")
    assert found["sex"]["rate"].to_list() == [0.0, 0.0]
    assert found["sex"]["impact_ratio"].null_count() == 2
    assert found["sex"]["note"].to_list() == [Note("highest rate is 0")] * 2


def test_favourable_low_counts_the_zeros():
    low = tl.rule_tables(HAND, "four-fifths", "sex", selected="selected", favourable="low")
    flipped = HAND.with_columns(selected=1 - pl.col("selected"))
    assert_frame_equal(low["sex"], tl.rule_tables(flipped, "four-fifths", "sex", selected="selected")["sex"])
    assert Note("low decisions are favourable") in low.notes


def scored(scores, sexes="FM"):
    return pl.DataFrame({"sex": list(sexes) * (len(scores) // len(sexes)), "score": scores})


def test_the_scoring_rate_is_the_share_strictly_above_the_median_of_everyone():
    # Women hold 1…30 and 61…70, men the rest of 1…80; the median is 40.5.
    women = [*range(1, 31), *range(61, 71)]
    data = pl.DataFrame({"score": list(range(1, 81)), "sex": ["F" if s in women else "M" for s in range(1, 81)]})
    found = tl.rule_tables(data, "nyc-local-law-144", "sex", scores="score")
    assert (found.rate, found.median) == ("scoring", 40.5)
    assert found["sex"]["rate"].to_list() == [10 / 40, 30 / 40]
    assert found["sex"]["impact_ratio"][0] == pytest.approx(1 / 3)


def test_people_of_unknown_group_count_towards_the_median():
    data = pl.concat([scored([1, 2] * 10), pl.DataFrame({"sex": [None] * 30, "score": [9] * 30})])
    found = tl.rule_tables(data, "nyc-local-law-144", "sex", scores="score")
    assert found.median == 9
    assert found["sex"]["rate"].to_list() == [0.0, 0.0]


def test_ties_with_the_median_are_not_above_it():
    data = scored([0, 1, 1, 1, 1, 2] * 10, "FM")  # the median is 1; F holds 0, 1, 1 and M holds 1, 1, 2
    found = tl.rule_tables(data, "nyc-local-law-144", "sex", scores="score")
    assert found["sex"]["rate"].to_list() == [0.0, pytest.approx(1 / 3)]
    assert Note("people at the median", people=40, side="above") in found.notes
    low = tl.rule_tables(data, "nyc-local-law-144", "sex", scores="score", favourable="low")
    assert low["sex"]["rate"].to_list() == [pytest.approx(1 / 3), 0.0]


def test_constant_scores_leave_nobody_above_the_median():
    found = tl.rule_tables(scored([0.5] * 60), "nyc-local-law-144", "sex", scores="score")
    assert found["sex"]["rate"].to_list() == [0.0, 0.0]
    assert found["sex"]["note"].to_list() == [Note("highest rate is 0")] * 2
    assert Note("people at the median", people=60, side="above") in found.notes


@pytest.mark.parametrize("pair", [(1.0, math.nextafter(1.0, 2.0)), (-1.7e308, 1.7e308), (5e-324, 1e-323)])
def test_half_of_two_scores_is_above_their_median_whatever_their_scale(pair):
    found = tl.rule_tables(scored(list(pair) * 20), "nyc-local-law-144", "sex", scores="score")
    assert found["sex"]["rate"].to_list() == [0.0, 1.0]


def test_the_scale_of_the_scores_is_no_matter():
    scores = np.random.default_rng(1).random(200)
    frames = [
        tl.rule_tables(scored(list(values)), "nyc-local-law-144", "sex", scores="score")["sex"]
        for values in (scores, 100 * scores, np.log(scores))
    ]
    assert_frame_equal(frames[0], frames[1])
    assert_frame_equal(frames[0], frames[2])


def test_a_threshold_that_was_asked_for_is_said_to_be_so():
    found = tl.rule_tables(HAND, "nyc-local-law-144", ["sex", "race"], selected="selected", ratio_threshold=0.8)
    assert found["sex"]["is_below_threshold"].to_list() == [True, False]
    assert Note("other threshold", threshold="0.80", stated="none") in found.notes
    assert found.rule.threshold is None
    plain = tl.rule_tables(HAND, "nyc-local-law-144", ["sex", "race"], selected="selected")
    assert plain["sex"]["is_below_threshold"].null_count() == 2
    assert Note("no threshold") in plain.notes


def test_notes_have_codes():
    found = tl.rule_tables(HAND, "nyc-local-law-144", "sex", selected="selected", ratio_threshold=0.8)
    assert [note.code for note in found.notes] == [
        *("tables missing", "other threshold", "highest rate as given"),
        *("people, not weights", "odds ratio of the sample", "flips"),
    ]
    assert found.notes[1].values == {"threshold": "0.80", "stated": "none"}


def test_one_attribute_is_less_than_new_york_asks_for():
    found = tl.rule_tables(HAND, "nyc-local-law-144", "sex", selected="selected")
    assert (found.notes[0].code, found.notes[0].values["column"]) == ("tables missing", "'sex'")
    assert list(found) == ["sex"]


MESSY = pl.concat([HAND, applicants((None, "A", 12, 3), ("F", "É & <b>", 15, 4))]).with_columns(
    score=pl.Series(np.random.default_rng(2).random(427)),
    selected=pl.when(pl.int_range(0, 427) % 50 != 7).then(pl.col("selected")),
    job=pl.when(pl.int_range(0, 427) % 60 != 9).then(pl.int_range(0, 427) % 7),
    site=pl.Series(["north", "south", "west"]).gather(pl.Series(np.arange(427) // 5 % 3)),
)


def assert_the_same_tables(data, **outcome):
    options = {"rule": "nyc-local-law-144", "group": ["sex", "race"], "strata": ["job", "site"], "ratio_threshold": 0.8}
    found, expected = (tl.rule_tables(one, **options, **outcome).to_dict() for one in (data, MESSY))
    assert_same_numbers(found, expected, within=0)
    assert found["provenance"]["data_sha256"] == expected["provenance"]["data_sha256"]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("held", IN_PROCESS, indirect=True)
def test_every_engine_gives_the_same_tables_of_scores(held):
    assert_the_same_tables(held(MESSY), scores="score")


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("held", SOURCES, indirect=True)
def test_every_engine_gives_the_same_tables(held):
    assert_the_same_tables(held(MESSY), selected="selected")


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("rows", [426, 427])
@pytest.mark.parametrize("scale", [1e-300, 1.0, -1e300])
def test_the_median_of_batches_is_that_of_all(rows, scale):
    scores = scale * np.random.default_rng(5).standard_normal(rows).round(2)
    found = tl.rule_tables(
        scored(list(scores), "F" * 200 + "M" * (rows - 200)), "nyc-local-law-144", "sex", scores="score"
    )
    assert found.median == np.median(scores)
    above = [(scores[mine] > np.median(scores)).mean() for mine in (slice(200), slice(200, None))]
    assert found["sex"]["rate"].to_list() == above


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("held", ["duckdb", "parquet files"], indirect=True)
def test_words_of_decisions_are_those_of_all_batches(refused, held):
    words = HAND.with_columns(selected=pl.Series(["no", "hired"]).gather(HAND["selected"])).sort("selected")
    found = tl.rule_tables(held(words), "four-fifths", "sex", selected="selected", favourable="hired")
    assert_frame_equal(found["sex"], tl.rule_tables(HAND, "four-fifths", "sex", selected="selected")["sex"])
    three = words.with_columns(selected=pl.when(pl.int_range(0, 400) < 30).then(pl.lit("?")).otherwise("selected"))
    with refused(TiltlensError, "decisions in two"):
        tl.rule_tables(held(three), "four-fifths", "sex", selected="selected", favourable="hired")


def test_an_array_needs_data_in_memory(refused):
    with refused(DataError, "`selected`"):
        tl.rule_tables(HAND.lazy(), "four-fifths", "sex", selected=HAND["selected"])


def test_keys_are_no_groups(refused, monkeypatch):
    monkeypatch.setattr(rule, "MOST_TALLIED", 100)
    with refused(DataError, "100"):
        tl.rule_tables(HAND.with_row_index(), "four-fifths", "sex", selected="selected", strata="index")


def test_the_order_of_the_rows_is_no_matter():
    shuffled = MESSY.sample(fraction=1, shuffle=True, seed=4)
    for data in (shuffled, shuffled.to_pandas()):
        found = tl.rule_tables(data, "nyc-local-law-144", ["sex", "race"], selected="selected")
        for name, frame in tl.rule_tables(
            MESSY, "nyc-local-law-144", ["sex", "race"], selected="selected"
        ).tables.items():
            assert_frame_equal(found[name], frame)


def test_arrays_and_booleans_give_the_same_as_a_column_of_0_and_1():
    expected = tl.rule_tables(HAND, "four-fifths", "sex", selected="selected")["sex"]
    array = HAND["selected"].to_numpy()
    for values in (array, array.astype(bool), array.tolist(), pd.Series(array.astype(float))):
        assert_frame_equal(tl.rule_tables(HAND, "four-fifths", "sex", selected=values)["sex"], expected)


def test_groups_of_numbers_and_declared_levels_keep_their_order():
    data = HAND.with_columns(band=pl.Series([2, 10, 1, 10] * 100))
    assert tl.rule_tables(data, "four-fifths", "band", selected="selected")["band"]["band"].to_list() == [
        "1",
        "2",
        "10",
    ]
    levels = pl.Enum(["M", "unused", "F"])
    ordered = HAND.with_columns(pl.col("sex").cast(levels))
    assert tl.rule_tables(ordered, "four-fifths", "sex", selected="selected")["sex"]["sex"].to_list() == ["M", "F"]


def test_hostile_names_are_kept_in_numbers_and_escaped_in_html():
    name, value = "sex\n<script>alert(1)</script>", "[red]F[/red] & \x1b[31m"
    data = HAND.rename({"sex": name}).with_columns(pl.col(name).replace("F", value))
    found = tl.rule_tables(data, "four-fifths", [name, "race"], selected="selected")
    assert value in found[name][name].to_list()
    html = found._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert json.loads(json.dumps(found.to_dict()))["tables"][0]["rows"][0]["group"] == {name: found[name][name][0]}


def test_the_summary_is_plain_and_its_words_promise_nothing(tmp_path):
    found = tl.rule_tables(HAND, "four-fifths", ["sex", "race"], selected="selected", provenance={"window": "2024"})
    summary = found.to_dict()
    assert summary["schema"] == "tiltlens/rule_tables/1"
    assert summary["rule"]["citation"] == "29 CFR 1607.4(D)"
    assert (summary["threshold"], summary["confidence"]) == (0.8, 0.95)
    assert summary["provenance"]["stated"] == {"window": "2024"}
    found.to_json(tmp_path / "tables.json")
    assert json.loads((tmp_path / "tables.json").read_text()) == summary
    text = (json.dumps(summary) + found._repr_html_() + repr(found)).lower()
    assert not [word for word in NEVER if word in text]
    assert repr(found) == "RuleTables(four-fifths: 'sex', 'race', 'sex & race')"


SCHEMA = json.loads(files("tiltlens._results").joinpath("rule_tables.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "four-fifths", "group": "sex", "selected": "selected"},
        {"rule": "four-fifths", "group": ["sex", "race"], "selected": "selected", "strata": ["job", "site"]},
        {"rule": "nyc-local-law-144", "group": ["sex", "race"], "scores": "score", "provenance": {"window": "2024"}},
        {"rule": "nyc-local-law-144", "group": ["sex", "race"], "selected": "selected", "ratio_threshold": 0.9},
    ],
)
def test_the_summary_follows_its_schema_and_has_no_other_keys(options):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    summary = json.loads(json.dumps(tl.rule_tables(MESSY, **options).to_dict(), allow_nan=False))
    jsonschema.Draft202012Validator(strict(SCHEMA)).validate(summary)


def test_the_users_data_stay_as_they_are():
    data = HAND.to_pandas()
    before = data.copy(deep=True)
    tl.rule_tables(data, "four-fifths", ["sex", "race"], selected="selected")
    pd.testing.assert_frame_equal(data, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rule": "80 percent"},
            r"Unknown rule '80 percent'(.|\n)*four-fifths",
        ),
        ({"selected": None}, r"got neither `selected` nor `scores`"),
        ({"scores": "race"}, r"got both"),
        ({"selected": None, "scores": "selected"}, r"needs `selected`, not `scores`"),
        ({"selected": "selectd"}, r"Column 'selectd' not found .*\nHint: did you mean 'selected'\?"),
        ({"group": "sexe"}, r"Column 'sexe' not found .*\nHint: did you mean 'sex'\?"),
        ({"group": []}, r"`group` must name columns of groups .* got \[\]"),
        ({"group": np.array(["F"] * 400)}, r"`group` must name columns of groups"),
        ({"group": "selected"}, r"`group` and the outcome must be different columns, got 'selected' for both"),
        ({"strata": "sex"}, r"`group` and `strata` must be different columns, got 'sex' for both"),
        ({"strata": "selected"}, r"`strata` and the outcome must be different columns, got 'selected' for both"),
        ({"strata": "rac"}, r"Column 'rac' not found .*\nHint: did you mean 'race'\?"),
        ({"strata": 3}, r"`strata` must name columns, got 3\.\nHint: the columns are"),
        ({"data": HAND.with_columns(race=None), "strata": "race"}, r"All values of `strata`"),
        ({"data": HAND.rename({"sex": "z"}), "group": "z"}, r"The tables have a column 'z'"),
        ({"selected": "race", "group": "sex"}, r"`favourable` must be the name of an outcome .* got 'high'"),
        (
            {"selected": ["a", "b", "c", "d"] * 100},
            r"`selected` must be numbers, or decisions in two words, got 'a', 'b'",
        ),
        ({"selected": [date(2024, 1, 1)] * 400}, r"`selected` must be 0 and 1, or two words, got dates"),
        ({"selected": [0, 1, 2, 0] * 100}, r"`selected` must be 0 or 1, got 2 in row 2\.\nHint: pass scores as"),
        ({"selected": [0.5] * 400}, r"`selected` must be 0 or 1, got 0.5 in row 0"),
        ({"selected": [1, 0]}, r"`selected` must have one value per row, got 2 for 400 rows"),
        ({"selected": [None] * 400}, r"`selected` (must be 0 and 1|are missing)"),
        ({"selected": [float("nan")] * 400}, r"All values of `selected`"),
        ({"favourable": "yes"}, r"`favourable` must be 'high' or 'low', got 'yes'"),
        ({"favourable": 1}, r"`favourable` must be 'high' or 'low', got 1"),
        ({"ratio_threshold": 80}, r"`ratio_threshold` must be a number above 0 and at most 1, got 80"),
        ({"smallest_share": 2}, r"`smallest_share` must be .* got 2"),
        ({"confidence": 95}, r"`confidence` must be between 0 and 1, got 95"),
        ({"provenance": "2024"}, r"`provenance` must be a dict of texts"),
        ({"data": HAND.filter(pl.col("sex") == "F")}, r"`group` \('sex'\) must have at least two values, got 'F' only"),
        ({"data": HAND.with_columns(sex=None)}, r"`group` \('sex'\) must have at least two values, got missing values"),
        ({"data": HAND.rename({"sex": "n"}), "group": "n"}, r"The tables have a column 'n'"),
        ({"data": HAND.clear()}, r"`data` has no rows"),
        ({"data": 7}, r"`data` must be a pandas or Polars frame"),
    ],
)
def test_mistakes_name_argument_rule_value_and_next_step(options, message):
    arguments = {"data": HAND, "rule": "four-fifths", "group": "sex", "selected": "selected"} | options
    with pytest.raises(TiltlensError, match=message) as error:
        tl.rule_tables(**arguments)
    assert "\nHint: " in str(error.value)


def test_scores_may_be_of_any_scale_but_must_be_finite_numbers(refused):
    with refused(DataError, "`scores`"):
        tl.rule_tables(scored([1.0, 2.0, 3.0, float("inf")] * 10), "nyc-local-law-144", "sex", scores="score")
    data = scored([1, 2] * 10).with_columns(sex2=pl.col("sex"))
    with refused(DataError, "`scores`", "'sex2'"):
        tl.rule_tables(data, "nyc-local-law-144", "sex", scores="sex2")


def test_a_table_that_is_not_there_names_those_that_are(refused):
    with refused(DataError, "`name`", "'race'"):
        tl.rule_tables(HAND, "four-fifths", "sex", selected="selected")["race"]


def test_two_words_are_selections_of_which_the_favourable_one_counts():
    word = pl.when(pl.col("selected") == 1).then(pl.lit("hired")).otherwise(pl.lit("not hired"))
    numbers = tl.rule_tables(HAND, "four-fifths", "sex", selected="selected")
    words = tl.rule_tables(
        HAND.with_columns(selected=word), "four-fifths", "sex", selected="selected", favourable="hired"
    )
    assert words["sex"].equals(numbers["sex"])
    assert Note("favourable word", word="'hired'") in words.notes


def test_groups_that_are_probably_one_are_noted():
    data = HAND.with_columns(sex=pl.when(pl.int_range(400) % 7 == 0).then(pl.lit("f ")).otherwise("sex"))
    found = tl.rule_tables(data, "four-fifths", ["sex", "race"], selected="selected")
    note = "The groups 'F', 'f ' differ by spaces or letter case only: if they are one, use one name."
    assert found.notes.count(note) == 1


def test_a_series_with_another_index_than_the_data_is_refused(refused):
    frame = HAND.to_pandas()
    with refused(TiltlensError, "`selected`", "`data`"):
        tl.rule_tables(frame, "four-fifths", "sex", selected=frame["selected"][::-1])


def test_texts_that_stand_for_missing_values_in_a_csv_are_an_unknown_group(tmp_path):
    data = HAND.with_columns(sex=pl.when(pl.int_range(400) % 10 == 0).then(pl.lit("not told")).otherwise("sex"))
    data.write_csv(tmp_path / "a.csv")
    found = tl.rule_tables(tl.read(tmp_path / "a.csv", na_values="not told"), "four-fifths", "sex", selected="selected")
    assert found.unknown == {"sex": 40}


def test_scores_with_decimal_commas_are_read_where_the_option_says_so(tmp_path):
    data = pl.DataFrame({"sex": ["women", "men"] * 200, "score": [0.25, 0.5, 0.75, 0.125] * 100})
    data.write_csv(tmp_path / "a.csv", separator=";", decimal_comma=True)
    expected = tl.rule_tables(data, "nyc-local-law-144", "sex", scores="score")
    tables = tl.rule_tables(tl.read(tmp_path / "a.csv", decimal=","), "nyc-local-law-144", "sex", scores="score")
    assert tables["sex"].equals(expected["sex"])
