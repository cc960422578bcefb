"""Work ahead of the caller: in order, errors in their place, nothing left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from patchbeam.pool import Pool


def test_work_ahead_keeps_order_and_raises_in_its_place() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for i in range(5):
            made.append(i)
            if i == 3:
                raise ValueError("item 3")
            yield i

    for threads in (1, 2):
        made.clear()
        seen = []
        with Pool(threads) as pool, pytest.raises(ValueError, match="item 3"):
            for item in pool.ahead(items()):
                seen.append(item)
                assert len(made) <= item + 2
        assert seen == [0, 1, 2]


def test_work_ahead_is_over_when_the_caller_stops() -> None:
    def items() -> Iterator[int]:
        yield from range(100)

    with Pool(2) as pool:
        for item in pool.ahead(items()):
            if item == 2:
                break
    assert not any(t.name.startswith("patchbeam-ahead") for t in threading.enumerate())


def test_closing_a_pool_does_not_hang_who_has_an_item_waiting() -> None:
    pool, held = Pool(2), threading.Event()
    items = pool.ahead(iter(range(5)))
    assert next(items) == 0
    assert pool._ahead is not None
    pool._ahead.submit(held.wait)
    assert next(items) == 1  # the one after that waits behind it
    closing = threading.Thread(target=pool.close)
    closing.start()
    stopping = threading.Thread(target=items.close, daemon=True)
    stopping.start()
    held.set()
    closing.join(10)
    stopping.join(10)
    assert not closing.is_alive() and not stopping.is_alive()


def test_an_error_is_raised_when_no_other_work_goes_on() -> None:
    begun, over = threading.Barrier(3), []

    def work(number: int) -> int:
        if number < 3:
            begun.wait(10)
            if number == 0:
                raise ValueError("item 0")
            time.sleep(0.2)
        over.append(number)
        return number

    with Pool(3) as pool:
        with pytest.raises(ValueError, match="item 0"):
            list(pool.map(work, range(50)))
        seen = sorted(over)
        assert seen[:2] == [1, 2] and len(seen) < 50
    assert sorted(over) == seen


def test_work_is_over_when_the_caller_wants_no_more() -> None:
    over = []

    def work(number: int) -> int:
        if number:
            time.sleep(0.1)
        over.append(number)
        return number

    with Pool(2) as pool:
        for number in pool.map(work, range(50)):
            assert number == 0
            break
        seen = list(over)
        time.sleep(0.3)
        assert over == seen and len(over) < 50
