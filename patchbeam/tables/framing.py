"""Rows of entries as Examples, framed as records; rows of one size or one pattern of nulls all at once."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import EncodeError
from patchbeam.records.crc import masked_crc, masked_crcs
from patchbeam.records.layout import FRAME_BYTES, MAX_MESSAGE_BYTES, field
from patchbeam.records.parse import as_view
from patchbeam.records.scatter import Pieces, SizeClasses
from patchbeam.records.wire import Bytes, Ints
from patchbeam.tables.crctable import TemplateCrcs
from patchbeam.tables.entries import Entries, ScalarEntries

_TABLE_ROWS = 1 << 12
_TABLE_COLUMNS = 32
"""Tables for CRCs pay from so many rows on, and take half a megabyte a column."""

_PATTERNS = 64
"""Patterns of nulls in one batch that are encoded apart."""


def join_rows(columns: Sequence[Entries], count: int) -> tuple[Bytes, Ints]:
    """Returns the entries of each row one after the other, and the bytes of each row; nothing is framed."""
    sizes = _total(columns, count)
    pieces = Pieces(sizes)
    for column in columns:
        column.put(pieces)
    return pieces.buffer, sizes


def frame_rows(columns: Sequence[Entries], count: int) -> tuple[Bytes, Ints]:
    """Returns the framed records of ``count`` rows, uint8, and the bytes of each, int64.

    Raises:
        EncodeError: a record is larger than protobuf runtimes read.
    """
    scalars = [column for column in columns if isinstance(column, ScalarEntries)]
    if count and len(scalars) == len(columns):
        if all(column.rows is None for column in scalars):
            framed = _frame_equal([c.head for c in scalars], [c.values for c in scalars], count)
            return framed, np.full(count, framed.size // count, np.int64)
        if len(scalars) < 63:
            found = _frame_patterns(scalars, count)
            if found is not None:
                return found
    total = _total(columns, count)
    largest = int(total.max(initial=0))
    if largest > MAX_MESSAGE_BYTES - 8:
        raise EncodeError(
            f"row {int(total.argmax())}: its record would take {largest} bytes, more than protobuf reads "
            f"({MAX_MESSAGE_BYTES}); leave out the large properties with selectors"
        )
    heads = SizeClasses(total, _frame_head)
    pieces = Pieces(heads.lengths + total + 4)
    heads.put(pieces)
    for column in columns:
        column.put(pieces)
    sizes = pieces.ends - pieces.starts
    buffer = pieces.buffer
    if pieces.record_size is not None:
        crcs = _crcs_of_equal(buffer, count, pieces.record_size)
    else:
        view = as_view(buffer)
        bounds = zip((pieces.starts + 12).tolist(), (pieces.ends - 4).tolist(), strict=True)
        crcs = masked_crcs((bytes(view[start:end]) for start, end in bounds), count)
    pieces.put(crcs.astype("<u4").view(np.uint8).reshape(-1, 4))
    return buffer, sizes


def _frame_equal(heads: Sequence[Bytes], values: Sequence[NDArray[np.float32]], count: int) -> Bytes:
    # Every record differs from the next in its numbers alone: the rest is written once and copied.
    template = _template(tuple(head.tobytes() for head in heads))
    size = template.record.size
    buffer = np.empty(count * size, np.uint8)
    buffer.reshape(count, size)[:] = template.record
    for column, place in zip(values, template.places, strict=True):
        np.ndarray((count,), "<f4", buffer, 12 + place, (size,))[:] = column
    if count >= _TABLE_ROWS and 0 < len(heads) <= _TABLE_COLUMNS:
        crcs = _tables(tuple(head.tobytes() for head in heads)).of(values)
    else:
        crcs = _crcs_of_equal(buffer, count, size)
    np.ndarray((count,), "<u4", buffer, size - 4, (size,))[:] = crcs
    return buffer


def _frame_patterns(columns: Sequence[ScalarEntries], count: int) -> tuple[Bytes, Ints] | None:
    """Frames rows of numbers and nulls, those with the same nulls together; ``None`` for many patterns."""
    pattern = np.zeros(count, np.int64)
    for bit, column in enumerate(columns):
        if column.rows is None:
            pattern |= 1 << bit
        else:
            pattern[column.rows] |= 1 << bit
    patterns = np.unique(pattern)
    if len(patterns) > _PATTERNS:
        return None
    groups = []
    sizes = np.empty(count, np.int64)
    for one in patterns.tolist():
        rows = np.flatnonzero(pattern == one).astype(np.int64)
        there = [column for bit, column in enumerate(columns) if one >> bit & 1]
        framed = _frame_equal([c.head for c in there], [c.values[rows] for c in there], len(rows))
        size = framed.size // len(rows)
        sizes[rows] = size
        groups.append((rows, framed.reshape(len(rows), size)))
    pieces = Pieces(sizes)
    for rows, framed in groups:
        pieces.put(framed, rows)
    return pieces.buffer, sizes


@dataclass(frozen=True, slots=True, eq=False)
class _Template:
    record: Bytes
    places: tuple[int, ...]


@lru_cache(maxsize=256)
def _template(heads: tuple[bytes, ...]) -> _Template:
    """Returns a framed record whose numbers are all 0, and where each of them stands in its data."""
    frame = _frame_head(sum(len(head) + 4 for head in heads))
    record = np.frombuffer(frame + b"".join(head + bytes(4) for head in heads) + bytes(4), np.uint8)
    ends = np.cumsum([len(head) + 4 for head in heads])
    return _Template(record, tuple(len(frame) - 12 + int(end) - 4 for end in ends))


@lru_cache(maxsize=2)
def _tables(heads: tuple[bytes, ...]) -> TemplateCrcs:
    template = _template(heads)
    return TemplateCrcs(template.record[12:-4], template.places)


def _crcs_of_equal(buffer: Bytes, count: int, size: int) -> NDArray[np.uint32]:
    data: Any = np.ndarray((count,), f"V{size - FRAME_BYTES}", buffer, 12, (size,))
    return masked_crcs(data.tolist(), count)


def _frame_head(size: int) -> bytes:
    inner = field(1, size)
    length = struct.pack("<Q", len(inner) + size)
    return length + struct.pack("<I", masked_crc(length)) + inner


def _total(columns: Sequence[Entries], count: int) -> Ints:
    total = np.zeros(count, np.int64)
    for column in columns:
        total += column.lengths
    return total
