"""Gzip members that can be sought, the profile ``indexed``.

An *indexed* file is a row of gzip members (RFC 1952). Each header has a ``FEXTRA`` subfield ``PB``
of 12 bytes: u64 size of the whole compressed member, u32 number of records in it, little-endian; as
BGZF does for its blocks. Every gzip reader skips the field and reads on into the next member; ours
walks from header to header and inflates members apart.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Protocol, runtime_checkable

import deflate
import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from patchbeam.errors import CorruptRecord
from patchbeam.records.crc import Buffer, masked_crc
from patchbeam.records.inflate import InflateError
from patchbeam.records.parse import as_view

GROUP_BYTES = 256 * 1024
"""Fewest bytes before compression of a member that holds several records."""

HEADER_BYTES = 28
TRAILER_BYTES = 8
LEVEL = 3
"""isal's level. 1 and 2 are no option: there ISA-L 2.32 takes the third position's hash from the address
of its own state, so that now and then the same bytes give another stream in another thread."""
_MAGIC = b"\x1f\x8b\x08"
# Magic, FLG = FEXTRA, MTIME 0, XFL 0, OS 255 (unknown), XLEN 16, subfield PB of 12 bytes.
_HEADER = _MAGIC + b"\x04" + bytes(5) + b"\xff" + struct.pack("<H", 16) + b"PB" + struct.pack("<H", 12)
# Deflate makes at most 258 bytes of two bits.
_MAX_RATIO = 1032
Profile = Literal["indexed", "zlib6"]


class Mapper(Protocol):
    """What runs a function over items side by side and keeps their order: an executor, a pool."""

    def map(self, function: Callable[..., bytes], /, *items: Iterable[Any]) -> Iterator[bytes]:
        """As the builtin ``map``."""
        ...


@runtime_checkable
class View(Protocol):
    """Stored bytes of which a piece at a time is read."""

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    def at(self, start: int, length: int, /) -> Buffer:
        """Returns a piece, shorter where they end."""
        ...


class _Bytes:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.size = len(data)

    def at(self, start: int, length: int, /) -> memoryview:
        return self._data[start : start + length]


@dataclass(frozen=True, slots=True)
class Member:
    """Where one member of an indexed file lies.

    Attributes:
        offset: of its first byte in the stored file.
        size: stored bytes, header and trailer included.
        records: how many records it holds.
    """

    offset: int
    size: int
    records: int


def sniff(first: bytes) -> Literal["plain", "gzip"]:
    """Tells a plain record file from a gzip file by its first 12 bytes (fewer when it is shorter).

    It is plain when bytes 8 to 11 are the masked CRC of bytes 0 to 7, or when it is empty; else gzip
    when it starts ``1f 8b 08``. (The magic alone is not enough: a plain record can start so.)

    Raises:
        CorruptRecord: it is neither.
    """
    if not first:
        return "plain"
    if len(first) >= 12 and struct.unpack_from("<I", first, 8)[0] == masked_crc(bytes(first[:8])):
        return "plain"
    if first[:3] == _MAGIC:
        return "gzip"
    raise CorruptRecord(
        f"starts {bytes(first[:12]).hex(' ')}: neither a record length with its CRC nor a gzip header; "
        "it is no TFRecord file or its first bytes are damaged",
        record=0,
        byte=0,
    )


def member(data: Buffer, *, records: int = 1) -> bytes:
    """Returns ``data`` as one indexed member.

    Args:
        data: whole framed records.
        records: how many records ``data`` holds.
    """
    view = as_view(data)
    body = isal_zlib.compress(view, LEVEL, -15)
    size = HEADER_BYTES + len(body) + TRAILER_BYTES
    trailer = struct.pack("<II", isal_zlib.crc32(view), len(view) & 0xFFFFFFFF)
    return b"".join((_HEADER, struct.pack("<QI", size, records), body, trailer))


def group_records(sizes: NDArray[Any] | Sequence[int], minimum: int = GROUP_BYTES) -> list[int]:
    """Returns how many records go into each member: as few as make ``minimum`` bytes.

    Args:
        sizes: bytes of each framed record, in order.
        minimum: bytes before compression at which a member is full; the last may hold less.
    """
    ends = np.cumsum(np.asarray(sizes, np.int64))
    groups = []
    first = 0
    filled = 0
    while first < ends.size:
        after = min(int(np.searchsorted(ends, filled + minimum)) + 1, ends.size)
        groups.append(after - first)
        filled = int(ends[after - 1])
        first = after
    return groups


def compress_members(
    data: Buffer, sizes: NDArray[Any] | Sequence[int], *, pool: Mapper | None = None
) -> list[bytes]:
    """Compresses consecutive records into indexed members, grouped by :func:`group_records`.

    Args:
        data: the framed records, one after the other.
        sizes: bytes of each; their sum is the size of ``data``.
        pool: where members are compressed side by side; the result is the same.
    """
    view = as_view(data)
    ends = np.concatenate(([0], np.cumsum(np.asarray(sizes, np.int64))))
    if int(ends[-1]) != len(view):
        raise ValueError(f"record sizes add up to {int(ends[-1])} bytes, the buffer holds {len(view)}")
    groups = group_records(sizes)
    bounds = ends[np.concatenate(([0], np.cumsum(groups, dtype=np.int64)))].tolist()
    parts = [view[start:end] for start, end in pairwise(bounds)]
    run = map if pool is None else pool.map
    return list(run(lambda part, records: member(part, records=records), parts, groups))


def member_size(header: Buffer) -> tuple[int, int] | None:
    """Returns the member's size in bytes and its number of records, or ``None`` when it is not indexed.

    Args:
        header: at least the member's first 28 bytes.
    """
    view = as_view(header)
    if len(view) < HEADER_BYTES or view[:16] != _HEADER:
        return None
    size, records = struct.unpack_from("<QI", view, 16)
    return size, records


def iter_members(source: View | Buffer, *, name: str | None = None) -> Iterator[Member]:
    """Walks the members of an indexed file by their headers; nothing is inflated.

    Args:
        source: the stored bytes, or what reads pieces of them.
        name: of the file, for errors.

    Raises:
        CorruptRecord: a header is damaged or missing, or a member would end after the file does.
            ``record`` is the number of records in the members before it. ``byte`` is ``None``, as
            the position in the uncompressed stream is not known; the message gives the stored one.
    """
    view = source if isinstance(source, View) else _Bytes(as_view(source))
    offset = records = 0
    while offset < view.size:
        found = member_size(view.at(offset, HEADER_BYTES))
        if found is None:
            raise CorruptRecord(f"no indexed gzip member at stored byte {offset}", file=name, record=records)
        size, count = found
        if size < HEADER_BYTES + TRAILER_BYTES or size > view.size - offset or count == 0:
            raise CorruptRecord(
                f"the gzip member at stored byte {offset} says {size} bytes and {count} records; "
                f"the file has {view.size - offset} bytes from there",
                file=name,
                record=records,
            )
        yield Member(offset, size, count)
        offset += size
        records += count


def inflate(data: Buffer) -> memoryview:
    """Inflates exactly one indexed member; the content cannot be written to.

    Raises:
        CorruptRecord: ``data`` is not one whole undamaged member.
    """
    view = as_view(data)
    found = member_size(view)
    if found is None or found[0] != len(view) or len(view) < HEADER_BYTES + TRAILER_BYTES:
        raise CorruptRecord(f"{len(view)} bytes that are not one whole indexed gzip member")
    crc, size = struct.unpack_from("<II", view, len(view) - TRAILER_BYTES)
    body = view[HEADER_BYTES:-TRAILER_BYTES]
    if size > len(body) * _MAX_RATIO:
        raise CorruptRecord(f"the gzip trailer says {size} bytes; {len(body)} bytes cannot inflate to that")
    # libdeflate is the faster of the two, and does not say what is wrong. Left to read the trailer itself it
    # would take the one where the stream ends, be that in the middle of what the header calls one member.
    # It has memory made for all that the trailer says, which a damaged one may say too much of.
    with suppress(deflate.DeflateError, MemoryError):
        whole = deflate.deflate_decompress(body, size)
        if len(whole) == size > 0 and isal_zlib.crc32(whole) == crc:
            return memoryview(whole).toreadonly()
    return memoryview(_inflate_slowly(body, size, crc))


def _inflate_slowly(body: memoryview, size: int, crc: int) -> bytes:
    stream = isal_zlib.decompressobj(-15)
    try:
        # One byte more than due shows a body that is too long without inflating all of it.
        out = stream.decompress(body, size + 1)
    except InflateError as error:
        raise CorruptRecord(f"the gzip member does not inflate: {error}") from None
    if not stream.eof or stream.unused_data or len(out) != size:
        raise CorruptRecord(f"the gzip member does not end after the {size} bytes that its trailer says")
    if isal_zlib.crc32(out) != crc:
        raise CorruptRecord("the gzip member's CRC-32 is not that of its content")
    return out
