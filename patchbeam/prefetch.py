"""Reads ahead: a thread prepares the next items while this one works on those before."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_WAIT_S = 0.1


def prefetched(items: Iterable[T], ahead: int = 2) -> Iterator[T]:
    """Yields ``items``, which a thread makes up to ``ahead`` early; what it raises is raised in its place.

    When the consumer stops early, the thread ends at its next item.
    """
    ready: queue.Queue[tuple[T | None, BaseException | None, bool]] = queue.Queue(maxsize=ahead)
    stopped = threading.Event()

    def put(entry: tuple[T | None, BaseException | None, bool]) -> None:
        while not stopped.is_set():
            try:
                return ready.put(entry, timeout=_WAIT_S)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((item, None, False))
                if stopped.is_set():
                    return
        except BaseException as error:
            put((None, error, True))
        else:
            put((None, None, True))

    thread = threading.Thread(target=work, name="patchbeam-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item, error, last = ready.get()
            if error is not None:
                raise error
            if last:
                return
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join()
