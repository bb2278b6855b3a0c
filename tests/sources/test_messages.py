"""What messages are made of: names, values and lists as a line can show them."""

from datetime import date, datetime

import numpy as np
import pytest

from tiltlens._formats import text_of
from tiltlens.errors import DataError, check_columns, nearest_name, quoted


def test_check_columns_names_the_argument_and_lists_only_the_first_names(refused):
    names = [f"c{number}" for number in range(30)]
    with refused(DataError, "'C7x'", "'c7'"):
        check_columns("group", ["C7x"], names)
    with refused(DataError, "'zzzzz'"):
        check_columns("group", ["zzzzz"], names)


def test_the_nearest_name_ignores_case():
    assert nearest_name("PRIOR_COUNTS", ["age", "prior_counts"]) == "prior_counts"


def test_values_are_shown_on_one_line():
    assert quoted("a\nb") == "'a\\nb'"
    assert len(quoted("x" * 1000)) <= 60


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (np.float64(2), "2"),
        (np.bool_(True), "True"),
        (7, "7"),
        (date(2020, 1, 1), "2020-01-01"),
        (datetime(2020, 1, 1), "2020-01-01"),
        (datetime(2020, 1, 1, 5), "2020-01-01 05:00:00"),
        ("x", "x"),
    ],
)
def test_values_are_written_as_people_write_them(value, text):
    assert text_of(value) == text
