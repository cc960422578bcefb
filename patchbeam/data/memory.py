"""Memory for batches: fresh arrays without fresh pages.

Copying into memory that the system has just handed out runs at a tenth of the speed of a copy, because
every page of it faults. Here a batch's memory comes back when the batch and every view of it are gone,
and only then is it given out again: no two arrays in use ever share a byte.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Below this a new allocation costs less than the bookkeeping.
_SMALLEST_BYTES = 1 << 20


class _Lease:
    """Owns a block of memory while any array stands on it."""

    __slots__ = ("__array_interface__", "_block", "_pool")

    def __init__(self, pool: BatchMemory, block: NDArray[np.uint8]) -> None:
        self._pool = pool
        self._block = block
        self.__array_interface__ = block.__array_interface__

    def __del__(self) -> None:
        self._pool._take_back(self._block)


class BatchMemory:
    """Gives out arrays whose memory is used again once nothing refers to it; safe between threads."""

    def __init__(self, keep: int = 8) -> None:
        """Keeps at most ``keep`` blocks that are not in use."""
        self._keep = keep
        self._free: list[NDArray[np.uint8]] = []
        # A lease may end inside this very lock, when the collector runs there.
        self._lock = threading.RLock()

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Returns a writable C-ordered array with undefined values."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < _SMALLEST_BYTES:
            return np.empty(shape, dtype)
        block = self._block(size)
        return np.asarray(_Lease(self, block))[:size].view(dtype).reshape(shape)

    def _block(self, size: int) -> NDArray[np.uint8]:
        with self._lock:
            for at, block in enumerate(self._free):
                # not a block so large that a small batch would hold on to it
                if size <= block.size <= 2 * size:
                    return self._free.pop(at)
        return np.empty(size, np.uint8)

    def _take_back(self, block: NDArray[np.uint8]) -> None:
        with self._lock:
            self._free.append(block)
            if len(self._free) > self._keep:
                self._free.pop(0)

    def __getstate__(self) -> int:
        return self._keep

    def __setstate__(self, keep: int) -> None:
        self.__init__(keep)  # type: ignore[misc]


MEMORY = BatchMemory()
"""What every database of records takes its batches from."""
