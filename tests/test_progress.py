"""How far an audit has come: told in order, to the one who asked, and shown on a terminal only."""

import os
import pty
import subprocess
import sys
import threading
from io import StringIO
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from tests.people import assert_same_numbers, audited, people

import tiltlens as tl
from tiltlens._render.terminal import progress_bar
from tiltlens._threads import each, report_to, stage

STAGES = ["regressions on sets of features", "group-membership model", "regressions", "estimating contributions"]


def watched(data, **options):
    told = []
    found = audited(data, progress=lambda *what: told.append(what), **options)
    return found, told


def names_in_order(told):
    return list(dict.fromkeys(name for name, _ in told))


def test_an_audit_tells_its_stages_in_order_and_ends_at_1():
    _, told = watched(people())
    fractions = [fraction for _, fraction in told]
    assert told[0] == ("reading rows", 0.0)
    assert told[-1] == ("done", 1.0)
    assert all(a <= b + 1e-12 for a, b in pairwise(fractions))
    assert names_in_order(told) == ["reading rows", "summing all rows", "A", *(f"A: {name}" for name in STAGES), "done"]
    assert sum(name == "A: group-membership model" for name, _ in told) > 10  # every fit is told


def test_no_long_part_of_the_work_stands_still():
    """D14: 27 of 45 seconds stood at 76%."""
    random = np.random.default_rng(0)
    data = {f"x{number}": random.normal(size=400) for number in range(9)}
    data |= {"group": ["A", "B"] * 200, "score": random.random(400)}
    told = []
    tl.audit(data, "group", reference="B", scores="score", progress=lambda *what: told.append(what))
    for name in ("regressions on sets of features", "estimating contributions"):
        fractions = {fraction for stage_name, fraction in told if stage_name == f"A: {name}"}
        assert len(fractions) > 6, name


def test_the_fraction_never_falls():
    told = []
    with report_to(lambda *what: told.append(what)), stage(0.0, 1.0, "fits"):
        list(each([1, 2]))
        list(each([1, 2, 3, 4]))  # as steps whose number is not known before
    assert [fraction for _, fraction in told] == sorted(fraction for _, fraction in told)


@pytest.mark.parametrize(
    "options",
    [{"folds": None}, {"propensity": "chance"}, {"propensity": LogisticRegression(), "features": ["owner", "weight"]}],
)
def test_every_way_to_a_membership_ends_at_1(options):
    _, told = watched(people(), **options)
    fractions = [fraction for _, fraction in told]
    assert all(a <= b + 1e-12 for a, b in pairwise(fractions))
    assert told[-1] == ("done", 1.0)


def test_several_outcomes_and_groups_move_on_only():
    random = np.random.default_rng(0)
    data = people().with_columns(group=pl.Series(random.choice(["A", "B", "C"], 400)))
    scores = random.dirichlet(np.ones(3), 400)
    _, told = watched(data, scores=scores, favourable=1, features=["city", "income"])
    assert all(a <= b + 1e-12 for (_, a), (_, b) in pairwise(told))
    assert [name for name in names_in_order(told) if ":" not in name] == [
        "reading rows",
        "summing all rows",
        "A",
        "C",
        "done",
    ]


def test_being_watched_changes_no_number():
    found, plain = watched(people(), propensity="chance")[0], audited(people(), propensity="chance")
    assert_same_numbers(found.to_dict(), plain.to_dict(), within=0.0)


def test_an_audit_that_fails_is_never_done_and_leaves_no_listener():
    told = []
    with pytest.raises(tl.TiltlensError):
        audited(people(), scores="nothing", progress=lambda *what: told.append(what))
    before = list(told)
    assert before
    assert "done" not in names_in_order(before)
    audited(people(), folds=None)
    assert told == before


def test_other_threads_are_told_nothing():
    told = []
    with report_to(lambda *what: told.append(what)), stage(0.0, 1.0, "mine"):
        other = threading.Thread(target=lambda: list(each([1, 2, 3])))
        other.start()
        other.join()
        assert told == [("mine", 0.0)]
        assert list(each([1, 2])) == [1, 2]
    assert told == [("mine", 0.0), ("mine", 0.5), ("mine", 1.0), ("mine", 1.0), ("done", 1.0)]


def test_a_listener_that_is_none_is_an_error(refused):
    with refused(tl.TiltlensError, "`progress`"):
        audited(people(), progress=3)


def test_the_bar_shows_names_as_they_are_and_goes_away():
    screen = StringIO()
    with progress_bar(Console(file=screen, force_terminal=True, width=100)) as move:
        move("[red]A\x07: shares", 0.5)
    assert "[red]A�: shares" in screen.getvalue()
    assert "50%" in screen.getvalue()


def run(folder, *arguments, stderr):
    command = [sys.executable, "-c", "from tiltlens._cli import main; main()", "audit", "people.parquet"]
    common = ("--group", "group", "--scores", "score", "--features", "")
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    return subprocess.run(
        [*command, *common, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=stderr, env=environment, check=True
    )


@pytest.mark.parametrize(("arguments", "is_shown"), [((), True), (("--json", "-"), False)])
def test_a_terminal_shows_a_bar_unless_json_is_written_to_standard_output(tmp_path, arguments, is_shown):
    people().write_parquet(tmp_path / "people.parquet")
    terminal, end = pty.openpty()
    run(tmp_path, *arguments, stderr=end)
    os.set_blocking(terminal, False)
    os.write(end, b"|")  # something to read where nothing was shown
    assert ("%" in os.read(terminal, 100_000).decode()) is is_shown
    os.close(end)
    os.close(terminal)


def test_nothing_is_shown_where_standard_error_is_no_terminal(tmp_path):
    people().write_parquet(tmp_path / "people.parquet")
    assert run(tmp_path, stderr=subprocess.PIPE).stderr == b""
