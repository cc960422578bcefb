"""Streaming gzip reading that takes nothing on trust.

Stock readers stop silently at a missing trailer or at bytes after the last member that are no gzip
header. Here either is an error, memory is bounded whatever the input claims, and the sizes that
indexed members state are compared with what they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from isal import isal_zlib

from patchbeam.errors import CorruptRecord

InflateError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # typed as an instance
_READ_BYTES = 1 << 18
_OUT_BYTES = 1 << 18
_FTEXT, _FHCRC, _FEXTRA, _FNAME, _FCOMMENT = (1 << bit for bit in range(5))
# A file name or comment longer than this is damage, not a name.
_MAX_TEXT = 1 << 16


def inflated(file: BinaryIO, first: bytes = b"") -> Iterator[bytes]:
    """Inflates every member of a gzip file.

    Args:
        file: open for reading.
        first: bytes already read from its start.

    Yields:
        Content in pieces of at most 256 KiB. It is given out before the checksum at the end of its
        member has been seen, as in every streaming reader; records have their own.

    Raises:
        CorruptRecord: no gzip header where one belongs (as with bytes after the last member), a
            stream that does not inflate, a file that ends inside a member, or a member whose
            checksum, length or stated size is not that of its content.
    """
    stored = _Stored(file, first)
    while stored.more():
        start = stored.position
        stated = _read_header(stored)
        crc = size = 0
        stream = isal_zlib.decompressobj(-15)
        pending = b""
        while not stream.eof:
            if not pending:
                pending = stored.chunk()
                if not pending:
                    raise CorruptRecord(f"the file ends inside the gzip member at stored byte {start}")
            try:
                out = stream.decompress(pending, _OUT_BYTES)
            except InflateError as error:
                raise CorruptRecord(f"the gzip member at stored byte {start} is damaged: {error}") from None
            pending = stream.unconsumed_tail
            if out:
                crc = isal_zlib.crc32(out, crc)
                size += len(out)
                yield out
        stored.put_back(stream.unused_data)
        if stored.take(8) != struct.pack("<II", crc, size & 0xFFFFFFFF):
            raise CorruptRecord(
                f"the gzip member at stored byte {start} ends with a CRC-32 or length not its own"
            )
        if stated is not None and stated != stored.position - start:
            raise CorruptRecord(
                f"the gzip member at stored byte {start} says it has {stated} bytes; "
                f"it has {stored.position - start}"
            )


def _read_header(stored: _Stored) -> int | None:
    # Returns the size that an indexed member states.
    start = stored.position
    head = stored.take(10)
    if head[:3] != b"\x1f\x8b\x08" or head[3] & 0xE0:
        raise CorruptRecord(
            f"no gzip member at stored byte {start}, where one has to start: {head[:4].hex(' ')}; "
            "damage, or bytes after the last member"
        )
    flags = head[3]
    stated = None
    seen = [head]
    if flags & _FEXTRA:
        seen.append(stored.take(2))
        extra = stored.take(int.from_bytes(seen[-1], "little"))
        seen.append(extra)
        if extra[:4] == b"PB\x0c\x00" and len(extra) == 16:
            stated = int.from_bytes(extra[4:12], "little")
    for flag in (_FNAME, _FCOMMENT):
        if flags & flag:
            seen.append(stored.take_text())
    if (
        flags & _FHCRC
        and int.from_bytes(stored.take(2), "little") != isal_zlib.crc32(b"".join(seen)) & 0xFFFF
    ):
        raise CorruptRecord(f"the header CRC of the gzip member at stored byte {start} is wrong")
    return stated


class _Stored:
    """The stored bytes of the file, with the position in them."""

    def __init__(self, file: BinaryIO, first: bytes) -> None:
        self._file = file
        self._kept = first
        self.position = 0

    def more(self) -> bool:
        if not self._kept:
            self._kept = self._file.read(_READ_BYTES)
        return bool(self._kept)

    def chunk(self) -> bytes:
        self.more()
        chunk, self._kept = self._kept, b""
        self.position += len(chunk)
        return chunk

    def put_back(self, data: bytes) -> None:
        self._kept = data + self._kept
        self.position -= len(data)

    def take(self, size: int) -> bytes:
        parts = []
        start = self.position
        while size:
            if not self.more():
                raise CorruptRecord(
                    f"the file ends inside a gzip header or trailer, from stored byte {start}"
                )
            parts.append(self._kept[:size])
            self._kept = self._kept[size:]
            size -= len(parts[-1])
            self.position += len(parts[-1])
        return b"".join(parts)

    def take_text(self) -> bytes:
        parts: list[bytes] = []
        start = self.position
        while not parts or parts[-1] != b"\x00":
            parts.append(self.take(1))
            if len(parts) > _MAX_TEXT:
                raise CorruptRecord(f"a gzip header has a text of more than {_MAX_TEXT} bytes at {start}")
        return b"".join(parts)
