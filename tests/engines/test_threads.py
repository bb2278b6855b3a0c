"""Threads: results in order, few items in work, and a clean stop."""

import threading
import time

import pytest

from tiltmeter.engines import threads
from tiltmeter.engines.threads import made_in_order


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 2)


def test_results_come_in_the_order_of_the_items(two_cores):
    def slower_first(item):
        time.sleep(0.002 * (item % 3 == 0))
        return item

    assert list(made_in_order(slower_first, range(20))) == list(range(20))


def test_no_more_items_are_taken_than_threads_and_one(two_cores):
    taken = []

    def items():
        for item in range(50):
            taken.append(item)
            yield item

    for made in made_in_order(lambda item: item, items()):
        assert len(taken) - made <= 3


def test_an_error_stops_what_has_not_begun(two_cores):
    done = []

    def step(item):
        if item == 3:
            raise ValueError("item 3")
        done.append(item)

    with pytest.raises(ValueError, match="item 3"):
        list(made_in_order(step, range(1000)))
    assert len(done) < 10


def test_no_thread_is_left_when_the_caller_stops(two_cores):
    before = threading.active_count()
    parts = made_in_order(lambda item: item, range(1000))
    assert next(parts) == 0
    parts.close()
    assert threading.active_count() == before
