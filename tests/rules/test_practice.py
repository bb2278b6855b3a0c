"""The tests beside the tables of a rule: of the same people, against the same highest rate."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.rules.hiring import HAND, applicants

import tiltlens as tl
from tiltlens._estimators.verdicts import Count, fisher_p_value, odds_ratio, stratified, z_score
from tiltlens._notes import Note


def tables(data=HAND, group="sex", **options):
    return tl.rule_tables(data, **{"rule": "four-fifths", "group": group, "selected": "selected"} | options)


def test_every_number_of_a_row_by_hand():
    row = tables().tests["sex"].row(0, named=True)  # women 60 of 200, men 100 of 200
    women, men = Count(200, 60), Count(200, 100)
    assert tables().tests["sex"].height == 1
    assert (row["sex"], row["against"], row["shortfall"]) == ("F", "M", 40.0)
    assert row["z"] == z_score(women, men) == pytest.approx(-0.2 / (0.4 * 0.6 / 100) ** 0.5)
    assert row["fisher_p_value"] == fisher_p_value(women, men)
    assert row["odds_ratio"] == odds_ratio(women, men, 0.95).value == pytest.approx(60 * 100 / (100 * 140))
    assert row["ratio_flips"] == 20, "80 of 200 are four fifths of 100 of 200"
    assert (row["cmh_z"], row["common_odds_ratio"], row["strata"], row["note"]) == (None, None, None, "")


def test_strata_are_compared_within():
    row = tables(strata="race").tests["sex"].row(0, named=True)
    expected = stratified([(Count(120, 45), Count(120, 75)), (Count(80, 15), Count(80, 25))], 0.95)
    assert (row["cmh_z"], row["common_odds_ratio"]) == (expected.z, expected.odds_ratio.value)
    assert (row["strata"], row["idle_strata"]) == (2, 0)


def test_several_columns_of_strata_are_crossed():
    data = HAND.with_columns(a=pl.int_range(0, 400) % 3, b=pl.int_range(0, 400) % 2, both=pl.int_range(0, 400) % 6)
    crossed, one = (tables(data, strata=names).tests["sex"] for names in (["a", "b"], "both"))
    assert_frame_equal(crossed, one)


def test_strata_that_add_nothing_are_said_and_so_are_people_of_unknown_stratum():
    job = pl.when(pl.col("race") == "A").then(pl.lit("x")).when(pl.col("sex") == "F").then(pl.lit("y"))
    found = tables(HAND.with_columns(job=job), strata="job")  # men of race B have no job
    row = found.tests["sex"].row(0, named=True)
    assert (row["strata"], row["idle_strata"]) == (1, 1)
    assert row["note"] == Note("idle strata", idle=1, strata=2)
    assert Note("no stratum", people=80) in found.notes
    alone = tables(HAND.with_columns(job=pl.int_range(0, 400)), strata="job").tests["sex"].row(0, named=True)
    assert (alone["strata"], alone["cmh_z"], alone["cmh_p_value"], alone["common_odds_ratio"]) == (0, None, None, None)


def test_counts_of_zero():
    none = tables(applicants(("F", "A", 50, 0), ("M", "A", 50, 20)), strata="race").tests["sex"].row(0, named=True)
    assert (none["odds_ratio"], none["odds_ratio_low"], none["common_odds_ratio"]) == (0, 0, 0)
    assert none["common_odds_ratio_low"] is None
    assert none["note"] == Note("no interval within strata")
    everyone = tables(applicants(("F", "A", 50, 50), ("M", "A", 60, 60))).tests["sex"].row(0, named=True)
    assert (everyone["odds_ratio"], everyone["z"], everyone["fisher_p_value"]) == (None, None, 1.0)
    assert everyone["note"] == Note("same outcome")
    assert tables(applicants(("F", "A", 50, 0), ("M", "A", 50, 0))).tests["sex"].height == 0


def test_few_expected_people_are_fishers():
    row = tables(applicants(("F", "A", 10, 1), ("M", "A", 20, 3))).tests["sex"].row(0, named=True)
    assert row["note"].startswith("fewer than 5 people")


def test_groups_without_a_ratio_have_no_test():
    data = applicants(("F", "A", 490, 245), ("M", "B", 491, 200), ("F", "C", 19, 19), ("F", "D", 9, 2))
    found = tables(data, ["sex", "race"], rule="nyc-local-law-144")
    assert found.tests["race"]["race"].to_list() == ["B"]
    assert found.tests["race"]["ratio_flips"].to_list() == [None], "the rule states no threshold"
    assert found.tests["sex & race"]["against"].to_list() == ["F & A"]
    small = tables(applicants(("F", "A", 5, 2), ("M", "B", 6, 2)))
    assert small.tests["sex"].height == 0
    assert not [note for note in small.notes if "Tests are" in note]


def test_the_status_is_in_numbers_and_in_notebooks():
    found = tables()
    assert found.to_dict()["rule"]["status_dated"] == "5 July 2026"
    for part in ("the EEOC plans to rescind it", "RIN 3046-AB43", "odds ratio", "Fisher&#x27;s test"):
        assert part in found._repr_html_()
