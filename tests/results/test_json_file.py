"""Files are written whole or not at all."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tiltlens as tl
from tiltlens._results.codec import check_target, write_json, write_text


def test_a_failed_write_keeps_the_old_file(refused, tmp_path, monkeypatch):
    target = tmp_path / "out.json"
    target.write_text("old")

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with refused(tl.TiltlensError, "No space left"):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_interrupted_write_keeps_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "out.json"
    target.write_text("old")

    def interrupt(self, other):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_json_never_holds_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json({"value": float("nan")}, str(tmp_path / "out.json"))
    assert list(tmp_path.iterdir()) == []


def test_a_written_file_has_the_usual_permissions(tmp_path):
    target = tmp_path / "out.json"
    write_text(target, "{}")
    plain = tmp_path / "plain"
    plain.write_text("{}")
    assert target.stat().st_mode == plain.stat().st_mode


def test_a_link_stays_a_link_to_the_file_that_is_written(tmp_path):
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["", "."])
def test_a_file_without_a_name_is_an_error(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tl.TiltlensError, match="must"):
        write_json({}, name)


def test_a_file_that_the_system_stops_half_way_leaves_the_old_one(tmp_path):
    """The kernel refuses the write after 64 KiB, as a full disk does: no simulated call is in the way."""
    target = tmp_path / "audit.json"
    target.write_text("the old audit")
    script = (
        "import resource, signal, sys; from pathlib import Path; from tiltlens._results.codec import write_text\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
        "try:\n    write_text(Path(sys.argv[1]), 'x' * 1_000_000)\n"
        "except Exception as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(target)], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert target.read_text() == "the old audit"
    assert [file.name for file in tmp_path.iterdir()] == ["audit.json"]


@pytest.mark.parametrize("name", ["nowhere/out.json", "folder", "", "/proc/out.json"])
def test_a_place_that_cannot_be_written_is_known_before(refused, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with refused(tl.TiltlensError):
        check_target(name)


def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path):
    pipe, old = tmp_path / "pipe", tmp_path / "old"
    os.mkfifo(pipe)
    old.write_text("old")
    for target in (None, "-", str(pipe), str(old), str(tmp_path / "new"), "/dev/null"):
        check_target(target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "pipe"]
    assert old.read_text() == "old"


def test_an_open_file_is_written_to(refused, tmp_path):
    stream = io.StringIO()
    write_json({"value": 1}, stream)
    assert json.loads(stream.getvalue()) == {"value": 1}
    for target in (io.BytesIO(), 7):
        with refused(tl.TiltlensError, "a file"):
            write_text(target, "text")
