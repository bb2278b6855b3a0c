"""Repeated audits: sums of batches merge, a batch counts once, and the state file is whole or not there."""

import json
import os
import subprocess
import sys
from functools import partial

import numpy as np
import polars as pl
import pytest
from tests.command import invoked

import tiltlens as tl
from tiltlens._gates import gate
from tiltlens._results.monitor import StateFile
from tiltlens.errors import DataError

AUDIT = partial(tl.audit, group="sex", reference="men", features=[])


def batch(seed, rows=200, rate=0.4):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["men", "women"], rows)
    hired = (rng.random(rows) < np.where(sex == "women", rate - 0.1, rate)).astype(int)
    return {"sex": sex, "hired": hired, "good": rng.integers(0, 2, rows), "w": rng.integers(1, 4, rows)}


def joined(*batches):
    return {name: np.concatenate([part[name] for part in batches]) for name in batches[0]}


@pytest.mark.parametrize(
    "options",
    [
        {"scores": "hired", "outcome": "good"},
        {"scores": "hired", "favourable": "low"},
        {"scores": "w", "score_type": "amount"},
        {"scores": "hired", "sample_weight": "w"},
        {"scores": "hired", "outcome": "good", "metric": "fpr"},
    ],
)
def test_looks_at_batches_equal_an_audit_of_all_rows(tmp_path, options):
    parts = [batch(seed) for seed in range(3)]
    for part in parts:
        monitored = AUDIT(part, monitor=tmp_path / "state.json", **options)
    whole, sequences = AUDIT(joined(*parts), **options)["women"], monitored.monitor.sequences["women"]
    assert sequences["gap"].value == pytest.approx(whole.gap.value, abs=1e-12)
    assert sequences["gap"].low < whole.gap.low
    assert whole.gap.high < sequences["gap"].high
    for key in sequences.keys() - {"gap"}:
        assert sequences[key].value == pytest.approx(whole.estimate(key).value, abs=1e-12)
    assert monitored.monitor.looks["look"].to_list() == [1, 2, 3]
    fixed = monitored.monitor.looks.row(-1, named=True)
    assert fixed["gap_high"] - fixed["gap_low"] == pytest.approx(whole.gap.high - whole.gap.low, rel=0.03)


def test_a_batch_counts_once_unless_it_is_said_to_be_another(refused, tmp_path):
    audit = partial(AUDIT, batch(0), scores="hired", monitor=tmp_path / "state.json")
    audit()
    before = (tmp_path / "state.json").read_bytes()
    with refused(DataError, "already counted"):
        audit()
    assert (tmp_path / "state.json").read_bytes() == before
    assert audit(provenance={"batch": "Tuesday"}).monitor.looks.height == 2


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"reference": "women"}, "reference"),
        ({"favourable": "low"}, "favourable"),
        ({"scores": "good"}, "scores"),
        ({"outcome": "good"}, "outcome"),
        ({"sample_weight": "w"}, "sample_weight"),
        ({"confidence": 0.9}, "confidence"),
        ({"features": ["w"], "folds": None}, "features"),
        ({"scores": "w", "score_type": "amount"}, "favourable"),
    ],
)
def test_another_question_is_refused(refused, tmp_path, options, name):
    AUDIT(batch(0), scores="hired", monitor=tmp_path / "state.json")
    with refused(DataError, f"`{name}`"):
        AUDIT(batch(1), **{"scores": "hired", "monitor": tmp_path / "state.json"} | options)


def test_rows_that_err_together_are_refused(tmp_path):
    with pytest.raises(DataError, match="without clusters"):
        AUDIT(batch(0), scores="hired", clusters="w", monitor=tmp_path / "state.json")
    assert not (tmp_path / "state.json").exists()


def test_other_files_are_no_states(refused, tmp_path):
    audit = AUDIT(batch(0), scores="hired", monitor=tmp_path / "state.json")
    audit.to_json(tmp_path / "audit.json")
    for name in ("audit.json", "empty.json"):
        (tmp_path / "empty.json").write_text("{}")
        with refused(DataError):
            AUDIT(batch(1), scores="hired", monitor=tmp_path / name)
    with pytest.raises(DataError, match="tiltlens/monitor/1"):
        tl.read_audit(tmp_path / "state.json")
    AUDIT(batch(1), scores="hired", monitor=tmp_path / "state.json")
    with refused(DataError, "part"):
        audit.to_json(tmp_path / "state.json")


def test_a_state_that_another_run_has_changed_is_not_replaced(tmp_path):
    file = StateFile.read(tmp_path / "state.json")
    audit = AUDIT(batch(0), scores="hired", monitor=file)
    AUDIT(batch(1), scores="hired", monitor=tmp_path / "state.json")
    with pytest.raises(DataError, match="another run"):
        audit.count_batch()
    assert len(json.loads((tmp_path / "state.json").read_text())["batches"]) == 1


KILLED = """
import os, sys
from pathlib import Path
from tests.results.test_monitor import AUDIT, batch
Path.replace = lambda *_: os.kill(os.getpid(), 9)  # all is written, and nothing replaced yet
AUDIT(batch(1), scores="hired", monitor=sys.argv[1])
"""


def test_a_killed_run_leaves_a_state_that_reads(tmp_path):
    state = tmp_path / "state.json"
    AUDIT(batch(0), scores="hired", monitor=state)
    before = state.read_bytes()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(state)], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    assert [path for path in tmp_path.iterdir() if path != state]  # what was being written
    assert state.read_bytes() == before
    assert AUDIT(batch(1), scores="hired", monitor=state).monitor.looks.height == 2


def test_a_failed_write_leaves_the_state(tmp_path, monkeypatch):
    state = tmp_path / "state.json"
    AUDIT(batch(0), scores="hired", monitor=state)
    before = state.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(DataError, match="No space left"):
        AUDIT(batch(1), scores="hired", monitor=state)
    assert state.read_bytes() == before
    assert list(tmp_path.iterdir()) == [state]


def test_gates_read_the_end_of_the_sequence_that_must_lie_beyond_the_limit(tmp_path):
    for seed in range(3):
        audit = AUDIT(batch(seed), scores="hired", monitor=tmp_path / "state.json")
    gap = audit.monitor.sequences["women"]["gap"]
    assert gap.value < -0.05 < gap.high
    statuses = {
        text: gate(text).judge(audit)[0].status
        for text in ("gap<-0.05", f"gap<{gap.high + 0.001}", f"gap.low<{gap.low + 0.001}", "adverse_impact_ratio<0.5")
    }
    assert list(statuses.values()) == ["passed", "fired", "fired", "passed"]
    assert audit["women"].gap.value < -0.05  # this batch alone


def test_command_line_and_audit_file_count_batches(tmp_path):
    for name, seed in (("one", 0), ("two", 1), ("three", 2)):
        pl.DataFrame(batch(seed)).write_csv(tmp_path / f"{name}.csv")
    options = ["--group", "sex", "--reference", "men", "--scores", "hired", "--features", ""]
    run = partial(invoked, cwd=tmp_path)
    first = run("audit", "one.csv", *options, "--monitor", "state.json")
    assert first.returncode == 0, first.stderr
    again = run("audit", "one.csv", *options, "--monitor", "state.json")
    assert again.returncode == 2
    assert "already counted" in again.stderr
    same = run("audit", "two.csv", *options, "--monitor", "state.json", "--json", "state.json")
    assert same.returncode == 2
    assert "--monitor" in same.stderr
    data = run("audit", "two.csv", *options, "--monitor", "two.csv")
    assert data.returncode == 2
    assert "two.csv" in data.stderr
    (tmp_path / "audit.toml").write_text(
        'data = "two.csv"\ngroup = "sex"\nreference = "men"\nscores = "hired"\nfeatures = []\nmonitor = "state.json"\n'
        '[outputs]\njson = "audit.json"\n'
    )
    ran = run("run", "audit.toml")
    assert ran.returncode == 0, ran.stderr
    assert json.loads((tmp_path / "audit.json").read_text())["monitor"]["looks"][-1]["look"] == 2
    gated = run("audit", "three.csv", *options, "--monitor", "state.json", "--fail-if", "gap<0.5")
    assert gated.returncode == 1
    assert "over all looks" in gated.stderr


def test_saved_audit_report_and_notebook_hold_the_looks(tmp_path):
    for seed in range(2):
        audit = AUDIT(batch(seed), scores="hired", monitor=tmp_path / "state.json")
    audit.to_json(tmp_path / "audit.json")
    saved = tl.read_audit(tmp_path / "audit.json")
    assert saved.monitor.sequences == audit.monitor.sequences
    assert saved.monitor.looks.equals(audit.monitor.looks)
    audit.report(tmp_path / "page.html")
    assert "confidence sequence" in (tmp_path / "page.html").read_text()
    assert "confidence sequence" in audit._repr_html_()
    assert "confidence sequence" in str(audit)
