"""What programs, shells and people do around an audit: processes, exit codes, spellings, odd arguments."""

import copy
import json
import multiprocessing
import os
import pickle
import subprocess
import sys

import click
import cloudpickle
import numpy as np
import polars as pl
import pytest
from tests.command import invoked

import tiltlens as tl
from tiltlens._commands.audit_file import read_audit_file
from tiltlens._gates import assert_gate

PEOPLE = {"sex": ["w", "m"] * 100, "hired": [0, 1, 1, 1, 0, 0, 1, 1, 0, 1] * 20, "score": [0.3, 0.5, 0.6, 0.8] * 50}
ASKED = ("--group", "sex", "--scores", "hired", "--features", "")


def audited(**options):
    return tl.audit(PEOPLE, "sex", **{"scores": "hired", "reference": "m", "features": []} | options)


@pytest.fixture
def folder(tmp_path):
    pl.DataFrame(PEOPLE).write_csv(tmp_path / "people.csv")
    return tmp_path


def test_the_package_travels_by_its_name():
    work = pickle.loads(cloudpickle.dumps(lambda: tl.audit))  # as joblib, dask and ray send it
    assert work() is tl.audit


def work_in_child(_):
    try:
        return float(audited()["w"].gap)
    except tl.TiltlensError as error:
        return str(error)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks where there are threads
def test_a_process_forked_after_an_audit_says_so_instead_of_waiting_for_ever():
    audited()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert "forked after its" in pool.map_async(work_in_child, [0]).get(timeout=60)[0]


def test_python_m_runs_the_command_line():
    done = subprocess.run([sys.executable, "-m", "tiltlens", "audti"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Usage: tiltlens " in done.stderr
    assert "'audti'. Did you mean 'audit'?" in done.stderr


def test_a_crash_has_another_exit_code_than_a_gate(folder, monkeypatch):
    assert invoked("audit", "people.csv", *ASKED, "--fail-if", "gap<0", cwd=folder).returncode == 1

    def broken(*_):
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(click.Command, "invoke", broken)
    done = invoked("audit", "people.csv", *ASKED, cwd=folder)
    assert done.returncode == 70
    assert "RuntimeError: a mistake" in done.stderr
    assert "Please report" in done.stderr


@pytest.mark.parametrize("more", [(), ("--json", "-")], ids=["text", "json"])
def test_a_reader_that_went_away_is_a_broken_pipe_to_the_shell(folder, more):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "tiltlens", "audit", "people.csv", *ASKED, *more]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=folder, check=False)
    os.close(write)
    assert (done.returncode, "Traceback" in done.stderr) == (141, False), done.stderr


def test_an_estimate_is_a_number():
    gap = audited()["w"].gap
    value = gap.value
    assert (gap + 1, 1 - gap, -gap, 100 * gap, gap / 2) == (value + 1, 1 - value, -value, 100 * value, value / 2)
    assert {type(one) for one in (gap + gap, -gap, gap * 2, sum([gap, gap]))} == {float}
    assert np.mean([gap, gap]) == value
    assert json.loads(json.dumps({"gap": gap})) == {"gap": value}
    again = pickle.loads(pickle.dumps(copy.deepcopy(gap)))
    assert (again, again.low, again.high) == (gap, gap.low, gap.high)


def test_either_spelling_of_favourable_is_taken(refused, folder):
    expected = audited(favourable="low")["w"].rates.audited.value
    assert audited(favorable="low")["w"].rates.audited.value == expected
    british, american = (
        tl.rule_tables(PEOPLE, "four-fifths", "sex", selected="hired", **{name: "low"})["sex"]
        for name in ("favourable", "favorable")
    )
    assert british.equals(american)
    done = invoked("audit", "people.csv", *ASKED, "--favorable", "low", "--json", "-", cwd=folder)
    assert json.loads(done.stdout)["favourable"] == "0"
    (folder / "a.yaml").write_text("data: people.csv\ngroup: sex\nscores: hired\nfavorable: low\n")
    assert read_audit_file(folder / "a.yaml").options["favourable"] == "low"
    (folder / "a.yaml").write_text("data: people.csv\nfavorable: low\nfavourable: high\n")
    with refused(tl.TiltlensError, "`favorable`"):
        read_audit_file(folder / "a.yaml")


def test_a_third_position_is_said_to_be_a_keyword(refused):
    with refused(tl.TiltlensError, "`scores`"):
        tl.audit(PEOPLE, "sex", "hired")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tl.load_model(None), "`path` must be the name of a file, got None"),
        (lambda: tl.read_repair(None), "Cannot read an adjustment from 'None'"),
        (
            lambda: audited(scores="score").repair(use_group=True).evaluate(PEOPLE, "score", "sex", compare_with=5),
            "`compare_with`",
        ),
        (lambda: assert_gate(5, "gap<0"), "`audit` must be an audit or a change, got 5"),
        (lambda: assert_gate(audited(), ["gap<0"]), "is not a gate"),
        (lambda: assert_gate(audited(), "gapp<0"), "did you mean gap?"),
        (lambda: tl.audit("-", "sex", scores="hired"), "Data cannot come from standard input"),
        (lambda: audited(confidence=95), "did you mean 0.95?"),
        (lambda: audited(clusters=[None] * 5 + list(range(195))), "known for every row, got 5 without one"),
    ],
)
def test_odd_arguments_are_named(call, message):
    with pytest.raises(tl.TiltlensError, match=message):
        call()


def test_files_that_cannot_be_read_say_why(refused, folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = (folder / "people.csv").read_text()
    (folder / "link.csv").symlink_to("nowhere.csv")
    (folder / "titled.csv").write_text(f"Made by us\n{text}")
    odd = os.fsdecode(b"caf\xe9.csv")
    (folder / odd).write_text(text)
    for name, message in (
        ("link.csv", "'link.csv' is a link to 'nowhere.csv', which does not exist"),
        ("titled.csv", "if line 1 is a title or a comment, delete it"),
        (odd, "its name is not valid UTF-8"),
    ):
        with pytest.raises(tl.TiltlensError, match=message):
            tl.audit(name, "sex", scores="hired", features=[])
    (folder / "a.toml").write_text('data = "people.csv"\nprovenence = {model = "1"}\n')
    with refused(tl.TiltlensError, "did you mean"):
        read_audit_file(folder / "a.toml")


def test_true_and_false_written_as_text_are_decisions_of_which_true_is_the_high_one():
    data = PEOPLE | {"written": [str(bool(one)) for one in PEOPLE["hired"]]}
    for wanted in ("high", "low"):
        text, plain = (
            tl.audit(data, "sex", scores=name, favourable=wanted, features=[])[0] for name in ("written", "hired")
        )
        for side in ("audited", "reference"):
            rates = [getattr(one.rates, side).value for one in (text, plain)]
            assert rates[0] == pytest.approx(rates[1])


def test_intersections_are_found_by_their_parts():
    data = PEOPLE | {"old": ["no", "no", "yes", "yes"] * 50}
    audit = tl.audit(data, ["sex", "old"], scores="hired", reference="m & no", features=[])
    assert audit["w", "yes"] is audit["w & yes"]


def test_a_list_of_columns_may_have_commas_and_spaces(folder):
    (pl.read_csv(folder / "people.csv").with_columns(x=pl.int_range(200) % 7)).write_csv(folder / "more.csv")
    for option, features in (("--features", ["score", "x"]), ("--exclude", [])):
        line = (*ASKED[:4], option, "score, x", "--folds", "0", "--json", "-")
        done = invoked("audit", "more.csv", *line, cwd=folder)
        assert json.loads(done.stdout)["provenance"]["features"] == features


def test_a_saved_repair_can_be_looked_at_without_rows(folder):
    audited(scores="score").repair(use_group=True).to_json(folder / "repair.json")
    done = invoked("repair", "repair.json", cwd=folder)
    assert (done.returncode, "w" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("value", [np.float32(0.5), 0.5, np.float64(0.5)])
def test_every_threshold_takes_every_kind_of_number(refused, value):
    outcome = {"paid": [0, 1, 1, 0, 1] * 40, "x": np.arange(200) % 7}
    audit = tl.audit(
        PEOPLE | outcome, "sex", scores="score", outcome="paid", features=["x"], folds=None, threshold=value
    )
    assert audit.score_type == "decision"
    c = tl.audit(PEOPLE | outcome, "sex", scores="score", outcome="paid", features=["x"], folds=None)["w"]
    assert c.repair(threshold=value, use_group=True).threshold == 0.5
    assert c.alternatives(threshold=value).threshold == 0.5
    for bad in (0, 1.5, True, "0.5", float("nan")):
        for call in (c.repair, c.alternatives):
            with refused(tl.TiltlensError, "`threshold`"):
                call(threshold=bad)
