"""How a result shows itself: printed, in a notebook, and by its groups."""

import base64
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest
from tests.people import audited, people

from tiltlens._gates import gate
from tiltlens._notes import Note
from tiltlens._render.terminal import result_text
from tiltlens.errors import DataError


@cache
def shown_audit():
    return audited(people(), propensity="chance")


def of_groups(*names):
    """Return an audit of groups with these names."""
    comparison = shown_audit()["A"]
    return replace(shown_audit(), comparisons={name: replace(comparison, audited=name) for name in names})


def test_a_printed_audit_is_the_page_of_the_command_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = str(shown_audit())
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    for part in (
        "400 rows were used",
        "favourable rate, audited",
        "potential proxy",
        "income",
        "they do not establish causes",
    ):
        assert part in text
    assert repr(shown_audit()).startswith("Audit(")


def test_a_printed_audit_is_100_columns_wide_where_there_is_no_terminal():
    script = "from tests.results.test_audit_shown import shown_audit; print(shown_audit())"
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert max(map(len, found.stdout.splitlines())) == 100


def test_groups_are_found_by_name_and_by_position():
    audit = of_groups("x", "y", "z")
    for key, name in (("y", "y"), (0, "x"), (2, "z"), (-1, "z"), (-3, "x")):
        assert audit[key].audited == name
    assert [name for name, _ in audit.items()] == list(audit) == ["x", "y", "z"]


def test_a_number_is_a_name_where_names_are_numbers(refused):
    audit = of_groups("2", "1")
    assert audit[1].audited == audit["1"].audited == audit[1.0].audited == "1"
    for key in (0, -1):
        with refused(DataError, "Group"):
            audit[key]


@pytest.mark.parametrize("key", ["X", 3, -4, False, None, 1.5])
def test_an_unknown_group_is_an_error_that_names_the_groups(refused, key):
    with refused(DataError, repr(key), "'x', 'y', 'z'"):
        of_groups("x", "y", "z")[key]


def test_a_balance_is_shown_in_a_few_lines():
    found = shown_audit()["A"].checks.balance
    text = repr(found)
    assert text.startswith(f"Balance(adequate, AUC {found.auc:.3f}, ")
    assert len(text.splitlines()) == 3
    assert len(text) < 300
    reason = str(Note("poor fit", size="1 point"))
    refused = repr(replace(found, reasons=(reason,)))
    assert refused.startswith("Balance(not adequate")
    assert f"{reason})" in refused
    assert "mismatches: none" in repr(replace(found, mismatches=()))


def test_a_notebook_shows_rates_notes_and_one_picture():
    c = shown_audit()["A"]
    c = replace(c, checks=replace(c.checks, notes=("the groups are <few>",)))
    html = c._repr_html_()
    for part in ("favourable rate, audited", "45.5%", "The groups are &lt;few&gt;", "potential proxy"):
        assert part in html
    picture = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert base64.b64decode(picture[1]).startswith(b"<svg")
    several = of_groups("x", "y")._repr_html_()
    assert (several.count("<img"), several.count('class="matrix')) == (0, 1)


def test_a_notebook_without_altair_shows_the_tables_alone(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr("tiltlens._render.html.find_spec", lambda name: None if name == "altair" else found(name))
    html = shown_audit()._repr_html_()
    assert "<img" not in html
    assert "income" in html


def calls_to_the_paper(show, result):
    """Return the functions of `tiltlens.paper` that showing a result calls."""
    called = set()

    def note(frame, event, _):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("tiltlens.paper"):
            called.add(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        show(result)
    finally:
        sys.setprofile(None)
    return called


def test_showing_an_audit_solves_nothing():
    audit = shown_audit()
    for show in (str, repr, lambda audit: audit._repr_html_(), lambda audit: gate("gap<-0.5").judge(audit)):
        assert calls_to_the_paper(show, audit) == set()
    assert "path_point" in calls_to_the_paper(lambda audit: audit.to_dict(), audit)


@pytest.mark.parametrize("options", [{"threshold": 0.5}, {"score_type": "amount"}, {"features": []}])
def test_a_printed_audit_says_what_its_whole_summary_says(options):
    audit = audited(people(), propensity="chance", folds=None, **options)
    assert str(audit) == result_text(audit)
