"""Work ahead of the caller: in order, errors in their place, nothing left behind."""

from __future__ import annotations

import threading
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
