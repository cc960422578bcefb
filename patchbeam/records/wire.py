"""Protobuf's base-128 varints: one at a time for headers, whole arrays for ``int64_list`` values.

A varint holds seven bits a byte, least significant first; the top bit says that another byte
follows. Negative int64 values are their two's complement, hence ten bytes. Written varints are
minimal; what is read may be padded, up to ten bytes (protobuf encoding specification).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import CorruptRecord

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

MAX_VARINT_BYTES = 10
"""Bytes of the longest varint: 64 bits in sevens."""

_LIMITS = tuple(1 << (7 * k) for k in range(1, MAX_VARINT_BYTES))
# Values handled at once: their matrices of ten bytes stay in the second-level cache.
_CHUNK = 1 << 15


def varint(value: int) -> bytes:
    """Returns ``value`` (0 ≤ value < 2**64) as a minimal varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_size(value: int) -> int:
    """Returns the number of bytes of ``varint(value)``."""
    return max(1, (value.bit_length() + 6) // 7)


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Reads the varint at ``position``.

    Returns:
        The value, below 2**64, and the position after it.

    Raises:
        CorruptRecord: ``data`` ends inside the varint, or it is longer than ten bytes.
    """
    value = shift = 0
    start = position
    size = len(data)
    while True:
        if position >= size:
            raise CorruptRecord(f"data ends inside the varint at its byte {start}")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift >= 7 * MAX_VARINT_BYTES:
            raise CorruptRecord(f"the varint at byte {start} of the data is longer than ten bytes")


def varint_lengths(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Returns the number of bytes, 1 to 10, of each value as a varint: uint8, shaped as ``values``.

    Args:
        values: integers, taken as int64.
    """
    unsigned = np.ascontiguousarray(values, np.int64).view(np.uint64)
    sizes = np.ones(unsigned.shape, np.uint8)
    largest = int(unsigned.max(initial=0))
    for limit in _LIMITS:
        if largest < limit:
            break
        sizes += unsigned >= np.uint64(limit)
    return sizes


def varint_sizes(values: NDArray[Any]) -> int:
    """Returns the total number of bytes of ``values`` as varints."""
    return int(varint_lengths(values).sum(dtype=np.int64))


def varint_matrix(values: NDArray[Any], width: int) -> Bytes:
    """Returns the varint bytes of each value, uint8 ``(value, width)``.

    What lies beyond a value's own length is not part of it; a value needing more than ``width``
    bytes is the caller's mistake.
    """
    unsigned = np.ascontiguousarray(values, np.int64).view(np.uint64).ravel()
    matrix = np.empty((unsigned.size, width), np.uint8)
    rest = unsigned
    for column in range(width):
        low = rest.astype(np.uint8)  # truncates
        rest = rest >> np.uint64(7)
        # A further byte follows where something is left of the value.
        matrix[:, column] = (low & 0x7F) | ((rest != 0).view(np.uint8) << 7)
    return matrix


def encode_varints(values: NDArray[Any]) -> Bytes:
    """Returns the bytes of ``values``, one minimal varint after the other.

    Args:
        values: integers, taken as int64, in row-major order. uint64 above 2**63-1 must have been
            refused before: it would come back negative.
    """
    flat = np.ascontiguousarray(values).ravel()
    if flat.size == 0:
        return np.empty(0, np.uint8)
    lowest, highest = int(flat.min()), int(flat.max())
    if lowest >= 0 and highest < 0x80:
        return flat.astype(np.uint8)
    if lowest >= 0x80 and highest < 0x4000:
        # Two bytes each: 0hhhhhhh 1lllllll as one little-endian number.
        pairs = flat.astype(np.uint16)
        return (((pairs << 1) & 0x7F00) | (pairs & 0x7F) | 0x80).astype("<u2", copy=False).view(np.uint8)
    parts = [_encode_mixed(flat[start : start + _CHUNK]) for start in range(0, flat.size, _CHUNK)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _encode_mixed(values: NDArray[Any]) -> Bytes:
    sizes = varint_lengths(values)
    width = int(sizes.max())
    matrix = varint_matrix(values, width)
    if int(sizes.min()) == width:
        return matrix.ravel()
    return matrix[np.arange(width, dtype=np.uint8) < sizes[:, None]]


def decode_varints(data: Bytes) -> Ints:
    """Returns the values of the varints in ``data``, int64.

    Raises:
        CorruptRecord: the last varint is not complete, or one is longer than ten bytes.
    """
    last = data < 0x80
    if data.size == 0 or last.all():
        return data.astype(np.int64)
    if not last[-1]:
        raise CorruptRecord("the int64 values end inside a varint")
    ends = np.flatnonzero(last)
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    sizes = ends - starts
    sizes += 1
    longest, shortest = int(sizes.max()), int(sizes.min())
    if longest > MAX_VARINT_BYTES:
        raise CorruptRecord(f"an int64 value is a varint of {longest} bytes; ten is the most")
    if longest == shortest:
        return _combine(data.reshape(-1, longest))
    low = data & 0x7F
    values = low[starts].astype(np.uint64)
    for column in range(1, longest):
        longer = np.flatnonzero(sizes > column)
        values[longer] |= low[starts[longer] + column].astype(np.uint64) << np.uint64(7 * column)
    return values.view(np.int64)


def _combine(matrix: Bytes) -> Ints:
    # Varints of one length, uint8 (value, byte).
    values = (matrix[:, 0] & 0x7F).astype(np.uint64)
    for column in range(1, matrix.shape[1]):
        values |= (matrix[:, column] & 0x7F).astype(np.uint64) << np.uint64(7 * column)
    return values.view(np.int64)
