"""Buffers are used again, and never while somebody still holds them."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.buffers import BufferPool


def owner(buffer: np.ndarray) -> int:
    return buffer.__array_interface__["data"][0]


def test_a_buffer_comes_back_when_it_is_free() -> None:
    pool = BufferPool()
    first = pool.take(1000)
    assert first.shape == (1000,)
    assert first.dtype == np.uint8
    place = owner(first)
    assert owner(pool.take(10)) != place  # still held
    del first
    again = pool.take(900)
    assert owner(again) == place
    assert len(again) == 900


def test_a_view_holds_the_buffer() -> None:
    pool = BufferPool()
    first = pool.take(64)
    view = np.ndarray((4,), "<f4", first, 8)
    place = owner(first)
    del first
    view[...] = 7
    other = pool.take(64)
    assert owner(other) != place
    other[:] = 0
    assert view.tolist() == [7, 7, 7, 7]


@given(st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=30))
def test_no_two_holders_share(steps: list[tuple[int, bool]]) -> None:
    pool = BufferPool()
    held: list[tuple[np.ndarray, int]] = []
    for number, (size, release) in enumerate(steps):
        buffer = pool.take(size)
        assert len(buffer) == size
        buffer[:] = number % 256
        held.append((buffer, number % 256))
        del buffer
        if release:
            held.pop(0)
        assert all((kept == mark).all() for kept, mark in held)


def test_a_pool_travels_empty() -> None:
    pool = BufferPool()
    pool.take(10)
    assert len(pickle.dumps(pool)) < 200
    assert pickle.loads(pickle.dumps(pool)).take(5).shape == (5,)


def test_sizes_that_grow_leave_nothing_behind() -> None:
    pool = BufferPool(64)
    for size in range(1, 65):
        held = pool.take(4 * size), pool.take(size)
        assert [len(one) for one in held] == [4 * size, size]
        kept = sum(len(one) for one in pool._buffers)
        # those in use, and those that the ones before were
        assert kept <= 2 * 5 * size
        del held
