"""Batches hold all rows, in order, with their numbers; whoever stops in the middle leaves nothing open."""

import threading
from contextlib import closing
from dataclasses import dataclass

import polars as pl
import pytest

from tiltlens._sources import engines, tables
from tiltlens._sources.tables import ROW, FrameBatches, folded, read_in_batches, regrouped
from tiltlens.errors import DataError


@dataclass(frozen=True)
class Seen:
    """The numbers of rows and what they hold, batch by batch."""

    parts: tuple[list[tuple[int, int]], ...]

    def __add__(self, other):
        return Seen(self.parts + other.parts)


def seen(frame):
    return Seen((list(zip(frame[ROW], frame["x"], strict=True)),))


@pytest.fixture(autouse=True)
def hundred_rows(monkeypatch):
    monkeypatch.setattr(tables, "BATCH_ROWS", 100)
    monkeypatch.setattr(engines, "BATCH_ROWS", 100)


@pytest.mark.parametrize("rows", [1, 7, 100, 101, 400, 401, 799, 12_345])
@pytest.mark.parametrize("held", ["polars", "polars lazy", "parquet files", "duckdb"], indirect=True)
def test_batches_hold_all_rows_in_order_with_their_numbers(rows, held):
    data = pl.DataFrame({"x": range(rows)})
    source = batches_of(held(data))
    parts = source.fold(["x"], seen).parts
    assert [pair for part in parts for pair in part] == [(row, row) for row in range(rows)]


def batches_of(data):
    from tiltlens._sources import engines as sources

    return sources.batches_of(data) or FrameBatches(data)


@pytest.mark.parametrize("rows", [1, 7, 400, 401, 799, 12_345])
def test_slices_are_even_so_that_two_threads_end_together(rows):
    sizes = [part.height for part in tables._slices(pl.DataFrame({"x": range(rows)}))]
    assert sum(sizes) == rows
    assert max(sizes) <= 200
    assert len(sizes) % 2 == 0 or rows <= 100
    assert max(sizes) - min(sizes) < len(sizes)


def test_small_frames_are_joined_and_empty_ones_left_out(refused):
    frames = [pl.DataFrame({"x": range(size)}) for size in (30, 0, 80, 0, 20, 20)]
    assert [frame.height for frame in regrouped(frames)] == [110, 40]
    empty = pl.DataFrame({"x": []}, schema={"x": pl.Int64})
    with refused(DataError, "`data`"):
        folded((frame for frame in [empty]), seen)


def watched(frames, closed):
    try:
        yield from frames
    finally:
        closed.append(True)


def test_a_step_that_fails_closes_what_it_read_from():
    closed, frame = [], pl.DataFrame({"x": range(150)})

    def step(batch):
        raise DataError("`data` must be better, got worse.", "try again.")

    before = threading.active_count()
    with pytest.raises(DataError, match="must be better"):
        folded(watched([frame] * 1_000, closed), step)
    assert closed == [True]
    assert threading.active_count() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interruption_closes_what_was_read_from_and_goes_on(error):
    closed, begun = [], []

    def frames():
        for _ in range(1_000):
            begun.append(True)
            if len(begun) == 5:
                raise error
            yield pl.DataFrame({"x": range(150)})

    with pytest.raises(error):
        folded(watched(frames(), closed), seen)
    assert closed == [True]
    assert len(begun) == 5


def test_a_lazy_frame_that_nobody_reads_on_stops():
    rows = pl.LazyFrame({"x": range(100_000)})
    with closing(read_in_batches(rows, "`data`")) as parts:
        assert next(parts).height > 0
    with closing(read_in_batches(rows, "`data`")) as parts:
        assert sum(part.height for part in parts) == 100_000


def test_a_lazy_frame_that_fails_late_is_named(refused):
    late = pl.LazyFrame({"x": ["1"] * 5_000 + ["word"]}).with_columns(pl.col("x").cast(pl.Int64))
    with refused(DataError, "`data`"):
        FrameBatches(late).fold(["x"], seen)
