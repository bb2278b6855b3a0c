"""Counts of fewer than ten people are withheld, and cannot be worked out from what is shown."""

import io
import json
from collections import defaultdict
from functools import cache
from itertools import product

import jsonschema
import numpy as np
import polars as pl
import pytest
from rich.console import Console
from tests.people import audited, people
from tests.schemas import SCHEMA

from tiltlens._analysis.bins import quantiles_of
from tiltlens._analysis.evidence import part_of_group, withheld
from tiltlens._limits import SUPPRESSED_BELOW
from tiltlens._notes import Note
from tiltlens._render.terminal import print_result
from tiltlens._results.audit import disclosed_rows
from tiltlens._results.profiles import _spread

TOP = 30  # counts up to which all tables are tried; sums of withheld counts beyond it are not judged


@cache
def tables_by_what_is_shown(cells):
    """Return all tables of so many counts by what a reader sees of them: the shown counts, and the total."""
    seen = defaultdict(list)
    for counts in product(range(TOP + 1), repeat=cells):
        hidden = withheld(counts)
        if sum(counts) >= SUPPRESSED_BELOW and 0 < sum(np.array(counts)[hidden]) <= TOP:
            shown = tuple(None if is_hidden else n for n, is_hidden in zip(counts, hidden, strict=True))
            seen[sum(counts), shown].append(counts)
    return seen


@pytest.mark.parametrize("cells", [2, 3])
def test_no_small_count_can_be_worked_out_by_a_reader_who_knows_the_rule(cells):
    for (total, shown), possible in tables_by_what_is_shown(cells).items():
        free = total - sum(n or 0 for n in shown) - shown.count(None) + 1
        least = 8 if any(shown) else min(9, free)
        for values in (set(column) for n, column in zip(shown, zip(*possible, strict=True), strict=True) if n is None):
            small = {value for value in values if value < SUPPRESSED_BELOW}
            assert not small or len(small) >= least, (total, shown, values)


def test_a_small_count_beside_a_shown_one_is_not_the_difference():
    assert withheld([9, 11, 11, 400]).tolist() == [True, True, False, False]  # 9 and 11 could be 8 and 12
    assert withheld([500, 9, 9, 20]).tolist() == [True, True, True, False]  # 18 would be two nines
    assert withheld([3, 4, 5, 300]).tolist() == [True, True, True, False]
    assert withheld([0, 12, 300]).tolist() == [False, False, False]
    assert withheld([2, 10, 40, 50]).tolist() == [True, True, True, False]


def with_hamlet(rows=400, size=4):
    """Return people of whom a few audited ones live in a city of their own."""
    mine = pl.col("group") == "A"
    lives = pl.when(mine & (mine.cum_sum() <= size)).then(pl.lit("Hamlet")).otherwise(pl.col("city"))
    return people(rows).with_columns(city=lives)


def test_withheld_values_have_no_distribution():
    c = audited(with_hamlet(), folds=None)["A"]
    values = c.bins().profiles["city"].values
    hidden = {value.value for value in values if value.n is None}
    assert "Hamlet" in hidden
    for value in values:
        assert (value.correction is None) == (value.n is None)
    rows = c.correction.distribution("city").filter(pl.col("value").is_in(hidden))
    assert rows["n"].null_count() == rows.height


def test_calibration_bins_hold_everyone_and_ten_of_each_group():
    c = audited(people(), propensity="chance")["A"]
    n0, n1 = c.rows["audited"], c.rows["reference"]
    bins = c.bins().calibration
    assert sum(one.n for one in bins) == n0 + n1
    assert 1 < len(bins) < 10
    for one in bins:  # n and the ratio of shares give the people of both groups
        reference = one.n / (1 + np.exp(one.observed) * n0 / n1)
        assert min(reference, one.n - reference) > SUPPRESSED_BELOW - 0.5


def test_a_person_of_great_weight_is_no_quantile():
    first = pl.int_range(pl.len()) == 0
    data = (
        people(600)
        .sort("group")
        .with_columns(
            score=pl.when(first).then(0.999).otherwise("score"),
            chance=pl.when(first).then(0.01).otherwise("chance"),
            weight=pl.when(first).then(1e4).otherwise(1.0),
        )
    )
    c = audited(data, folds=None, propensity="chance", sample_weight="weight", features=["owner", "city"])["A"]
    with_them = str(data["owner"][0])
    row = c.correction.profile("owner").filter(pl.col("value") == with_them).row(0, named=True)
    assert row["n"] > 50
    assert {end for name, end in row.items() if name.startswith("correction_")} == {None}
    value = next(one for one in c.bins().profiles["owner"].values if one.value == with_them)
    assert value.quantiles[0] == value.quantiles[-1] == [None] * 5


def test_a_quantile_has_ten_people_strictly_beyond_it():
    shown = [_spread(np.arange(float(size)), np.ones(size))["correction_5"] for size in (200, 201)]
    assert shown == [None, 10.0]
    fine = np.zeros((1, 600))
    fine[0, 100:300] = 1.0
    assert not quantiles_of(fine, fine)[1][0, 0]
    fine[0, 300] = 1.0
    assert quantiles_of(fine, fine)[1][0, 0]


def test_a_quantile_that_many_people_have_is_shown():
    data = people().with_columns(score=pl.lit(0.3) + 0.4 * pl.col("owner"), chance=pl.lit(0.4) + 0.1 * pl.col("owner"))
    values = audited(data, propensity="chance", features=["owner"])["A"].correction.profile("owner")
    assert values["correction_50"].null_count() == 0


def test_notes_tell_no_count_below_ten():
    mine = pl.col("group") == "A"
    data = with_hamlet().with_columns(city=pl.when(~mine & (mine.not_().cum_sum() <= 11)).then(None).otherwise("city"))
    c = audited(data, propensity="chance", features=["city"])["A"]
    assert c.contributions_full["notes"].to_list() == [Note("missing values")]
    (note,) = (note for note in c.checks.notes if note.code == "off support")
    assert note.values["people"] == part_of_group(9 / 500, 9, 500)


def test_a_share_of_a_group_tells_no_count_below_ten(worded):
    words = [part_of_group(people / 500, people, 500) for people in (9, 10, 490, 491)]
    assert words[1:3] == ["2.0%", "98.0%"]
    worded(words)


def test_a_direction_names_no_level_of_few_people():
    data = with_hamlet(size=9).with_columns(
        score=pl.when(pl.col("city") == "Hamlet").then(0.99).otherwise(0.5 * pl.col("score"))
    )
    found = audited(data, propensity="chance", features=["city"])["A"].contributions_full["direction"][0]
    assert found.startswith("city = ")
    assert "Hamlet" not in found


def test_a_direction_of_few_people_in_every_level_is_not_told():
    cities = [f"city {place % 25}" for place in range(400)]
    data = people().with_columns(pl.Series("city", cities))
    found = audited(data, propensity="chance", features=["city", "owner"], folds=None)["A"].contributions_full
    assert found.filter(pl.col("feature") == "city")["direction"][0] == Note("rare values")


@pytest.mark.parametrize(("sizes", "told"), [([], 0), ([3], None), ([9, 9], None), ([1, 1, 1], None), ([2, 4, 6], 12)])
def test_rows_of_small_groups_are_told_where_they_tell_no_group(sizes, told):
    rows = {"read": 100 + sum(sizes), "used": 90, "missing_score": 10, "too_small_group": sum(sizes)}
    found = disclosed_rows(rows, sizes)
    assert found["too_small_group"] == told
    assert found["read"] == sum(count or 0 for reason, count in found.items() if reason != "read")


def test_the_terminal_names_small_groups_without_their_sizes(worded):
    three = pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("C")).otherwise("group")
    found = audited(people().with_columns(group=three), folds=None)
    summary = found.to_dict()
    assert (found.too_small, summary["too_small"]) == ({"C": 3}, {"C": None})
    assert (found.rows["read"], summary["rows"]["read"], summary["rows"]["too_small_group"]) == (400, 397, None)
    jsonschema.validate(json.loads(json.dumps(summary)), SCHEMA)
    console = Console(record=True, width=110, file=io.StringIO())
    print_result(found, console)
    text = console.export_text()
    worded(line.strip() for line in text.splitlines() if "397 rows" in line or "group = C" in line)
