"""Writes pieces of many records at once, each record at its own place in one buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.records.wire import Bytes, Ints, varint_column, varint_lengths

Rows = Ints | None
"""Numbers of the records that take part, ascending; ``None`` for all."""


class SizeClasses:
    """Heads that depend on a size: made once a distinct size, not once a record.

    Attributes:
        lengths: bytes of each record's head, int64, shaped as the sizes.
    """

    def __init__(self, sizes: Ints, make: Callable[[int], bytes]) -> None:
        """Makes the head of every size that occurs.

        Args:
            sizes: int64, of any shape.
            make: gives the head for a size.
        """
        lowest, highest = (int(sizes.min()), int(sizes.max())) if sizes.size else (0, 0)
        self._class: NDArray[np.intp] | None = None  # of each size; None when all are of one
        if lowest == highest:
            heads = [make(lowest)]
            self.lengths: Ints = np.broadcast_to(np.int64(len(heads[0])), sizes.shape)
        else:
            shifted = sizes - lowest
            present = np.flatnonzero(np.bincount(shifted.ravel()))
            heads = [make(int(size) + lowest) for size in present]
            table = np.zeros(highest - lowest + 1, np.intp)  # from a size to the row of its head
            table[present] = np.arange(present.size)
            self._class = table[shifted]
            self.lengths = np.array([len(head) for head in heads], np.int64)[self._class]
        self._length = np.array([len(head) for head in heads], np.int64)
        widest = int(self._length.max())
        self._heads = np.array([list(head.ljust(widest, b"\0")) for head in heads], np.uint8)
        self._distinct = sorted(set(self._length.tolist()))

    def put(self, pieces: Pieces, rows: Rows = None, at: int | None = None) -> None:
        """Writes the heads of ``rows``; of sizes ``(step, record)`` those of step ``at``."""
        if self._class is None:
            pieces.put(self._heads, rows)
            return
        chosen = self._class if at is None else self._class[at]
        if rows is not None:
            chosen = chosen[rows]
        if len(self._distinct) == 1:
            pieces.put(self._heads[chosen], rows)
            return
        lengths = self._length[chosen]
        for length in self._distinct:
            of_length = np.flatnonzero(lengths == length)
            if of_length.size:
                heads = np.ascontiguousarray(self._heads[:, :length])
                pieces.put(heads[chosen[of_length]], of_length if rows is None else rows[of_length])


class Pieces:
    """A buffer of records with a cursor in each.

    Attributes:
        buffer: uint8, the records one after the other.
        starts: where each record starts.
        ends: where it ends.
        record_size: bytes of every record, when they are all the same.
    """

    def __init__(self, sizes: Ints) -> None:
        """Makes room for records of ``sizes`` bytes, with each cursor at its record's start."""
        self.ends: Ints = np.cumsum(sizes)
        self.starts: Ints = self.ends - sizes
        self.buffer: Bytes = np.empty(int(self.ends[-1]) if sizes.size else 0, np.uint8)
        self.cursor: Ints = self.starts.copy()
        same = sizes.size > 0 and int(sizes.min()) == int(sizes.max())
        self.record_size: int | None = int(sizes[0]) if same else None

    def put(self, pieces: Bytes, rows: Rows = None) -> None:
        """Writes a piece of one length into each of ``rows`` and moves their cursors after it.

        Args:
            pieces: uint8 ``(row, length)``, or ``(1, length)`` for the same bytes everywhere; C order.
            rows: which records.
        """
        length = pieces.shape[1]
        if length == 0:
            return
        at = self.cursor if rows is None else self.cursor[rows]
        if at.size == 0:
            return
        # Every place where ``length`` bytes fit, as overlapping items: one copy a piece.
        dtype = f"V{length}"
        places = np.ndarray((self.buffer.size - length + 1,), dtype, self.buffer, 0, (1,))
        places[at] = pieces.view(dtype)[:, 0]
        if rows is None:
            self.cursor += length
        else:
            self.cursor[rows] += length

    def put_varints(self, values: NDArray[Any], rows: Rows = None) -> None:
        """Writes one varint into each of ``rows``.

        Args:
            values: integers, a value a row.
            rows: which records.
        """
        unsigned = np.ascontiguousarray(values, np.int64).view(np.uint64)
        sizes = varint_lengths(unsigned)
        at = self.cursor if rows is None else self.cursor[rows]
        for column in range(int(sizes.max(initial=0))):
            longer = np.flatnonzero(sizes > column)
            if longer.size == sizes.size:
                self.buffer[at + column] = varint_column(unsigned, sizes, column)
            else:
                piece = varint_column(unsigned[longer], sizes[longer], column)
                self.buffer[at[longer] + column] = piece
        if rows is None:
            self.cursor += sizes
        else:
            self.cursor[rows] += sizes
