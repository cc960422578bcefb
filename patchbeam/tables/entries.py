"""Map entries of ``tf.train.Example``, a column at a time for many rows.

One row's Example is a row of entries, an entry a feature (tensorflow/core/example/feature.proto). Each
column knows how many bytes its entry takes in every row and writes all of them at once; a null takes
none, so that its key is absent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patchbeam.records.layout import Kind, entry_head, field
from patchbeam.records.scatter import Pieces, SizeClasses
from patchbeam.records.wire import Bytes, Ints

Rows = Ints | None
"""Numbers of the rows that have a value, ascending; ``None`` for all."""


class ScalarEntries:
    """A feature of one float in every row that has it.

    Attributes:
        lengths: bytes of each row's entry, int64; 0 where there is none.
    """

    def __init__(self, name: str, values: NDArray[np.float32], rows: Rows = None) -> None:
        """Takes ``values``, float32 ``(row,)``; those of rows that are not in ``rows`` do not count."""
        self.head = np.frombuffer(entry_head(name, "float", 4), np.uint8)
        self.values = values
        self.rows = rows
        self.size = self.head.size + 4
        self.lengths: Ints = _only(np.full(len(values), self.size, np.int64), rows)

    def put(self, pieces: Pieces) -> None:
        """Writes every row's entry at its cursor."""
        values = np.ascontiguousarray(self.values if self.rows is None else self.values[self.rows], "<f4")
        entries = np.empty((len(values), self.size), np.uint8)
        entries[:, : self.head.size] = self.head
        entries[:, self.head.size :] = values.view(np.uint8).reshape(-1, 4)
        pieces.put(entries, self.rows)


class RaggedEntries:
    """A feature of another number of bytes in every row: text, lists.

    Attributes:
        lengths: bytes of each row's entry, int64; 0 where there is none.
    """

    def __init__(
        self,
        name: str,
        kind: Kind,
        data: Bytes,
        starts: Ints,
        sizes: Ints,
        rows: Rows = None,
        *,
        many: bool = False,
    ) -> None:
        """Takes the values of every row as bytes of ``data``.

        Args:
            name: the key.
            kind: ``float`` (packed float32) or ``bytes``.
            data: uint8.
            starts: first byte of each row, int64 ``(row,)``.
            sizes: bytes of each row.
            rows: which rows have a value.
            many: for ``bytes``, whether a row's bytes are a list of encoded values, not one value.
        """
        self._data, self._starts = data, starts
        self._sizes = _only(sizes, rows)
        self._rows = rows
        make = (lambda size: _texts_head(name, size)) if many else (lambda size: entry_head(name, kind, size))
        self._heads = SizeClasses(self._sizes, make)
        self.lengths: Ints = _only(self._heads.lengths + self._sizes, rows)

    def put(self, pieces: Pieces) -> None:
        """Writes every row's entry at its cursor."""
        self._heads.put(pieces, self._rows)
        put_ragged(pieces, self._data, self._starts, self._sizes, self._rows)


class RawEntries:
    """Entries that have been encoded before: any number of features a row.

    Attributes:
        lengths: bytes of each row's entries, int64.
    """

    def __init__(self, data: Bytes, starts: Ints, lengths: Ints) -> None:
        self._data, self._starts = data, starts
        self.lengths: Ints = lengths

    def put(self, pieces: Pieces) -> None:
        """Writes every row's entries at its cursor."""
        put_ragged(pieces, self._data, self._starts, self.lengths, None)


class BlockEntries:
    """A feature of the same number of floats in every row, such as a chip.

    Attributes:
        lengths: bytes of each row's entry, int64; 0 where there is none.
    """

    def __init__(self, name: str, values: NDArray[np.float32], rows: Rows = None) -> None:
        """Takes ``values``, float32 ``(row, value)``."""
        self._values = values
        self._rows = rows
        self._head = np.frombuffer(entry_head(name, "float", 4 * values.shape[1]), np.uint8)
        size = self._head.size + 4 * values.shape[1]
        self.lengths: Ints = _only(np.full(len(values), size, np.int64), rows)

    def put(self, pieces: Pieces) -> None:
        """Writes every row's entry at its cursor."""
        pieces.put(self._head[None], self._rows)
        values = np.ascontiguousarray(self._values if self._rows is None else self._values[self._rows], "<f4")
        if values.size:
            pieces.put(values.view(np.uint8).reshape(len(values), -1), self._rows)


Entries = ScalarEntries | RaggedEntries | RawEntries | BlockEntries


def _only(sizes: Ints, rows: Rows) -> Ints:
    if rows is None:
        return sizes
    kept = np.zeros_like(sizes)
    kept[rows] = sizes[rows]
    return kept


def _texts_head(name: str, size: int) -> bytes:
    key = name.encode()
    head = field(1, size)  # bytes_list
    inner = field(1, len(key)) + key + field(2, len(head) + size) + head
    return field(1, len(inner) + size) + inner


def put_ragged(pieces: Pieces, data: Bytes, starts: Ints, sizes: Ints, rows: Rows) -> None:
    """Writes a stretch of ``data`` into each of ``rows`` and moves their cursors after it.

    Args:
        pieces: the records.
        data: uint8.
        starts: first byte for each record, those without a value included.
        sizes: bytes for each record.
        rows: which records.
    """
    at = pieces.cursor
    if rows is not None:
        at, starts, sizes = at[rows], starts[rows], sizes[rows]
    total = int(sizes.sum())
    if total:
        # long stretches one by one, short ones byte by byte but all at once
        if total > 1024 * len(sizes):
            for to, start, size in zip(at.tolist(), starts.tolist(), sizes.tolist(), strict=True):
                pieces.buffer[to : to + size] = data[start : start + size]
        else:
            within = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            pieces.buffer[np.repeat(at, sizes) + within] = data[np.repeat(starts, sizes) + within]
    if rows is None:
        pieces.cursor += sizes
    else:
        pieces.cursor[rows] += sizes
