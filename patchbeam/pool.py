"""Threads inside one element: GDAL, NumPy, isal and CRC release the interpreter's lock."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

R = TypeVar("R")


def core_count() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


_POOLS: weakref.WeakSet[Pool] = weakref.WeakSet()


def close_pools() -> None:
    """Closes every pool of this process: work that waits is dropped, work that has begun is waited for.

    For the end of a run that failed: what is left behind can be removed only when nobody writes any more.
    """
    for pool in list(_POOLS):
        pool.close()


class Pool:
    """A pool of threads that keeps order; with one thread everything runs in the caller's.

    A pool is made on the worker and never pickled with work in it.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._ahead: ThreadPoolExecutor | None = None
        _POOLS.add(self)

    def map(self, function: Callable[..., R], *items: Iterable[Any]) -> Iterator[R]:
        """Yields ``function(item, …)`` in the order of the items; the first error is raised at its place."""
        if self.threads <= 1:
            return map(function, *items)
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.threads, thread_name_prefix="patchbeam")
        executor = self._executor
        return _in_order([executor.submit(function, *given) for given in zip(*items, strict=False)])

    def ahead(self, items: Iterable[R]) -> Iterator[R]:
        """Yields what an iterator yields, making the next item while the caller works on the last one.

        One item is ahead at the most, made by a thread of its own; errors are raised at their place.
        """
        source = iter(items)
        if self.threads <= 1:
            yield from source
            return
        if self._ahead is None:
            self._ahead = ThreadPoolExecutor(1, thread_name_prefix="patchbeam-ahead")
        end = object()
        coming = self._ahead.submit(next, source, end)
        try:
            while (item := coming.result()) is not end:
                coming = self._ahead.submit(next, source, end)
                yield item  # type: ignore[misc]
        finally:
            # who stops early must not leave an iterator at work behind; one that waits need not begin
            if not coming.cancel():
                wait([coming])

    def close(self) -> None:
        """Ends the threads; waits for work that has begun."""
        for executor in (self._ahead, self._executor):
            if executor is not None:
                executor.shutdown(wait=True, cancel_futures=True)
        self._ahead = self._executor = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> int:
        return self.threads

    def __setstate__(self, threads: int) -> None:
        self.__init__(threads)  # type: ignore[misc]


def _in_order(futures: list[Future[R]]) -> Iterator[R]:
    """Yields results in order; no work goes on after an error, or when nobody wants more."""
    futures.reverse()
    try:
        while futures:
            yield futures.pop().result()
    finally:
        # what has begun uses what the caller is about to close: files, whose numbers others then get
        wait([future for future in futures if not future.cancel()])
