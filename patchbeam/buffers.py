"""Buffers used again: fresh memory costs more than filling it (page faults)."""

from __future__ import annotations

import sys

import numpy as np

from patchbeam.elements import Bytes


class BufferPool:
    """Hands out uint8 arrays and takes one back as soon as nobody holds it or a view of it.

    Not safe across threads: one pool a worker's thread.

    Args:
        kept: buffers held at the most; the oldest is let go.
    """

    def __init__(self, kept: int = 4) -> None:
        self._kept = kept
        self._buffers: list[Bytes] = []
        self._idle = self._references(np.empty(1, np.uint8))

    @staticmethod
    def _references(buffer: Bytes) -> int:
        return sys.getrefcount(buffer)

    def take(self, size_bytes: int) -> Bytes:
        """Returns an array of ``size_bytes``, its contents undefined."""
        best = outgrown = -1
        for i in range(len(self._buffers)):
            # one reference more than a temporary has: the list's
            if self._references(self._buffers[i]) > self._idle + 1:
                continue
            length = len(self._buffers[i])
            if length >= size_bytes:
                if best < 0 or length < len(self._buffers[best]):
                    best = i
            elif outgrown < 0 or length > len(self._buffers[outgrown]):
                outgrown = i
        if best < 0:
            if outgrown >= 0:  # else sizes that grow would leave one of each behind
                del self._buffers[outgrown]
            fresh = np.empty(size_bytes, np.uint8)
            self._buffers.append(fresh)
            if len(self._buffers) > self._kept:
                del self._buffers[0]
            return fresh[:size_bytes]
        return self._buffers[best][:size_bytes]

    def __reduce__(self) -> tuple[type[BufferPool], tuple[int]]:
        return BufferPool, (self._kept,)
