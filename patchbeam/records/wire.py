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
_U = np.uint64
# By length of a varint: the payload bits of its first eight bytes.
_KEEP = np.array([0x7F7F7F7F7F7F7F7F & ((1 << 8 * min(k, 8)) - 1) for k in range(11)], np.uint64)
# Values handled at once: their temporaries stay in the second-level cache.
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


def varint_column(unsigned: NDArray[np.uint64], sizes: NDArray[np.uint8], column: int) -> Bytes:
    """Returns byte ``column`` of each value's varint, uint8; meaningless where ``sizes <= column``."""
    low = (unsigned >> np.uint64(7 * column)).astype(np.uint8)  # truncates
    more = (sizes > column + 1).view(np.uint8)
    low &= 0x7F
    low |= more << 7
    return low


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
        pairs = flat.astype("<u2")
        joined: NDArray[Any] = ((pairs << 1) & 0x7F00) | (pairs & 0x7F) | 0x80
        flat_bytes: Bytes = joined.astype("<u2", copy=False).view(np.uint8)
        return flat_bytes
    parts = [_encode_mixed(flat[start : start + _CHUNK]) for start in range(0, flat.size, _CHUNK)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _encode_mixed(values: NDArray[Any]) -> Bytes:
    unsigned = np.ascontiguousarray(values, np.int64).view(np.uint64)
    sizes = varint_lengths(unsigned)
    width = int(sizes.max())
    if int(sizes.min()) == width:
        return np.stack([varint_column(unsigned, sizes, column) for column in range(width)], 1).ravel()
    starts = np.cumsum(sizes, dtype=np.int64)
    total = int(starts[-1])
    starts -= sizes
    out = np.empty(total + width, np.uint8)
    # From the last column to the first: a value shorter than ``column`` spoils a byte of a later
    # value, which is then written in this column by that value (of equal indices the last counts)
    # or in a lower one.
    for column in reversed(range(width)):
        out[starts + column] = varint_column(unsigned, sizes, column)
    return out[:total]


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
    if data.size % 2 == 0 and not last[::2].any() and last[1::2].all():
        pairs = np.frombuffer(data.tobytes(), "<u2")
        return ((pairs & 0x7F) | ((pairs >> 1) & 0x3F80)).astype(np.int64)
    ends = np.flatnonzero(last)
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    sizes = ends - starts
    sizes += 1
    longest = int(sizes.max())
    if longest > MAX_VARINT_BYTES:
        raise CorruptRecord(f"an int64 value is a varint of {longest} bytes; ten is the most")
    padded = np.empty(data.size + MAX_VARINT_BYTES, np.uint8)
    padded[: data.size] = data
    values = np.empty(starts.size, np.uint64)
    for start in range(0, starts.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        values[part] = _combine(padded, starts[part], sizes[part], longest)
    return values.view(np.int64)


def _combine(padded: Bytes, starts: Ints, sizes: Ints, longest: int) -> NDArray[np.uint64]:
    # The eight bytes from each start as one number, then the sevens pushed together: pairs of
    # bytes to 14 bits, pairs of those to 28, and of those to 56.
    words = np.ndarray((padded.size - 7,), "<u8", padded, 0, (1,)).take(starts)
    words = words & _KEEP[sizes]
    words = (words & _U(0x007F007F007F007F)) | ((words & _U(0x7F007F007F007F00)) >> _U(1))
    if longest > 2:
        words = (words & _U(0x00003FFF00003FFF)) | ((words & _U(0x3FFF00003FFF0000)) >> _U(2))
    if longest > 4:
        words = (words & _U(0x000000000FFFFFFF)) | ((words & _U(0x0FFFFFFF00000000)) >> _U(4))
    for column in range(8, longest):
        longer = np.flatnonzero(sizes > column)
        words[longer] |= (padded[starts[longer] + column] & 0x7F).astype(np.uint64) << _U(7 * column)
    return words
