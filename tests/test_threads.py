"""Threads change how long an audit takes, and no number of it."""

from __future__ import annotations

import threading
import time
import warnings

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_info

import tiltlens as tl
from tiltlens import _threads as threads
from tiltlens._threads import in_threads, map_in_order, report_to, stage, steps_in_threads


@pytest.mark.parametrize("rows", [1, threads.THREADED_ROWS])
def test_results_come_in_the_order_of_the_items(rows):
    assert in_threads(lambda item: item**2, range(50), rows) == [item**2 for item in range(50)]


@pytest.mark.parametrize("rows", [1, threads.THREADED_ROWS])
def test_items_are_equal_steps_of_a_stage(rows):
    heard = []
    with report_to(lambda name, part: heard.append(part)), stage(0.0, 1.0, "work"):
        steps_in_threads(abs, range(4), rows)
    assert heard[:5] == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_libraries_have_one_thread_inside_and_theirs_again_afterwards():
    before = threadpool_info()
    found = in_threads(lambda _: [pool["num_threads"] for pool in threadpool_info()], range(3), threads.THREADED_ROWS)
    assert {count for counts in found for count in counts} == {1}
    assert [pool["num_threads"] for pool in threadpool_info()][: len(before)] == [p["num_threads"] for p in before]


def test_warnings_are_shown_afterwards_as_before():
    x, before = np.random.default_rng(0).normal(size=(500, 3)), list(warnings.filters)

    def fit(_):
        return HistGradientBoostingRegressor(max_iter=2).fit(x, x[:, 0], sample_weight=x[:, 1] ** 2)

    in_threads(fit, range(8), threads.THREADED_ROWS)
    assert list(warnings.filters) == before


def test_whoever_leaves_last_puts_the_limits_back():
    before = {(pool["user_api"], pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"}
    filters = list(warnings.filters)
    first, second = threads.one_thread(), threads.one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    inside = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    second.__exit__(None, None, None)
    assert inside == {1}
    assert {(p["user_api"], p["num_threads"]) for p in threadpool_info() if p["user_api"] == "blas"} == before
    assert list(warnings.filters) == filters


def test_a_mistake_in_a_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda item: 1 / item, [1, 0], threads.THREADED_ROWS)


def test_an_audit_in_threads_equals_one_without(monkeypatch):
    rng = np.random.default_rng(1)
    x, place = rng.normal(size=600), rng.integers(0, 4, 600).astype(str)
    group = np.where(rng.random(600) < 1 / (1 + np.exp(-x)), "a", "b")
    data = pl.DataFrame({"group": group, "x": x, "y": rng.normal(size=600), "place": place, "score": rng.random(600)})
    found = []
    for few in (10**9, 0):
        monkeypatch.setattr(threads, "THREADED_ROWS", few)
        audit = tl.audit(data, group="group", reference="b", scores="score")
        found.append(audit["a"].to_dict())
    assert found[0] == found[1]


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 2)


def test_what_is_made_comes_in_the_order_of_the_items(two_cores):
    def slower_first(item):
        time.sleep(0.002 * (item % 3 == 0))
        return item

    assert list(map_in_order(slower_first, range(20))) == list(range(20))


def test_no_more_items_are_taken_than_threads_and_one(two_cores):
    taken = []

    def items():
        for item in range(50):
            taken.append(item)
            yield item

    for made in map_in_order(lambda item: item, items()):
        assert len(taken) - made <= 3


def test_an_error_stops_what_has_not_begun(two_cores):
    done = []

    def step(item):
        if item == 3:
            raise ValueError("item 3")
        done.append(item)

    with pytest.raises(ValueError, match="item 3"):
        list(map_in_order(step, range(1000)))
    assert len(done) < 10


def test_no_thread_is_left_when_the_caller_stops(two_cores):
    before = threading.active_count()
    parts = map_in_order(lambda item: item, range(1000))
    assert next(parts) == 0
    parts.close()
    assert threading.active_count() == before
