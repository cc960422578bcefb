"""TFRecord files: framing, and readers and writers of whole files, plain or gzip.

A record is a u64 length, the masked CRC-32C of those 8 bytes, the data, and the masked CRC-32C of
the data, all little-endian. A plain file cut exactly between two records, or a gzip file cut exactly
between two members, is a valid shorter file: counts in the manifest tell, nothing in the file does.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import CorruptRecord
from patchbeam.records.crc import Buffer, masked_crc
from patchbeam.records.gzip import GROUP_BYTES, Profile, member, sniff
from patchbeam.records.inflate import inflated
from patchbeam.records.layout import FRAME_BYTES, MAX_MESSAGE_BYTES
from patchbeam.records.parse import as_view
from patchbeam.records.zlib6 import Target, Zlib6Writer
from patchbeam.storage.replace import Replacing

__all__ = ["frame", "masked_crc", "read_records", "record_offsets", "write_records"]

_READ_BYTES = 1 << 20
_SMALL = 1 << 12
# Most records of a file have one of a few lengths: headers seen are not checked again.
_KNOWN_HEADERS = 1 << 12


def frame(data: Buffer) -> bytes:
    """Returns ``data`` as one framed record."""
    view = as_view(data)
    length = struct.pack("<Q", len(view))
    return b"".join(
        (length, struct.pack("<I", masked_crc(length)), view, struct.pack("<I", masked_crc(data)))
    )


def record_length(header: Buffer, available: int | None = None) -> int:
    """Checks a record's 12-byte header and returns the length of its data.

    Args:
        header: the header's bytes.
        available: bytes between the header and the end of the file, when that is known.

    Raises:
        CorruptRecord: the header is cut short, its CRC is wrong, or the length is more than any
            protobuf message or than the file has. No memory is taken for it before.
    """
    view = as_view(header)
    if len(view) < 12:
        raise CorruptRecord(f"the file ends inside a record header, after {len(view)} of its 12 bytes")
    length, crc = struct.unpack_from("<QI", view)
    if masked_crc(bytes(view[:8])) != crc:
        raise CorruptRecord(f"the CRC of the record's length ({length}) is wrong: damaged data")
    if length > MAX_MESSAGE_BYTES:
        raise CorruptRecord(
            f"the record says {length} bytes; protobuf messages have at most {MAX_MESSAGE_BYTES}"
        )
    if available is not None and length + 4 > available:
        raise CorruptRecord(_cut_short(length, available))
    return int(length)


def _cut_short(length: int, available: int) -> str:
    return f"the record says {length} bytes of data and the file ends {available} bytes after its header"


def check_data(data: Buffer, footer: bytes | memoryview) -> None:
    """Compares a record's data with its masked CRC.

    Raises:
        CorruptRecord: they differ.
    """
    stored = int.from_bytes(footer, "little")
    # A small view is cheaper to copy than to wrap.
    found = masked_crc(bytes(data) if len(data) < _SMALL else data)
    if stored != found:
        raise CorruptRecord(f"the data's CRC is {found:#010x}, the record says {stored:#010x}: damaged data")


def record_offsets(data: Buffer, *, name: str | None = None, first: int = 0) -> NDArray[np.int64]:
    """Walks the headers of the framed records in ``data``; the data itself is not touched.

    Args:
        data: whole framed records: a plain file, or an inflated member.
        name: of the file, for errors.
        first: number of the first record, for errors.

    Returns:
        Where each record starts and, last, where the last one ends: int64 ``(records + 1,)``.

    Raises:
        CorruptRecord: a header is damaged, or the data ends inside a record.
    """
    view = as_view(data)
    offsets = [0]
    position = 0
    size = len(view)
    known: dict[bytes, int] = {}
    while position < size:
        header = bytes(view[position : position + 12])
        step = known.get(header)
        if step is None or position + step > size:
            try:
                step = record_length(header, size - position - 12) + FRAME_BYTES
            except CorruptRecord as error:
                raise _placed(error, name, first + len(offsets) - 1, position) from None
            if len(known) < _KNOWN_HEADERS:
                known[header] = step
        position += step
        offsets.append(position)
    return np.array(offsets, np.int64)


def read_records(
    source: str | PathLike[str] | BinaryIO,
    *,
    check: bool = True,
    name: str | None = None,
    reuse: bool = False,
) -> Iterator[memoryview]:
    """Reads the data of every record of a file, plain or gzip by its content, in bounded memory.

    Args:
        source: a path, or a file open for reading in binary.
        check: whether to compare the data with its CRC. Lengths are always checked.
        name: of the file, for errors; by default the path.
        reuse: whether the data of a record may be overwritten when the next one is asked for.

    Yields:
        The data of each record. A view that is kept keeps up to 1 MiB round it.

    Raises:
        CorruptRecord: with the file, the number of the record and the byte of the uncompressed
            stream at which it starts. Damage to the end of a gzip member is reported at the record
            that would follow it.
    """
    if isinstance(source, (str, PathLike)):
        with open(source, "rb") as file:
            yield from read_records(file, check=check, name=name or fspath(source), reuse=reuse)
        return
    record = position = 0
    known: dict[bytes, int] = {}
    try:
        stream = _Stream(_chunks(source), reuse)
        while not stream.at_end():
            header = stream.peek(12)
            length = known.get(header)
            if length is None:
                length = record_length(stream.take(12))
                if len(known) < _KNOWN_HEADERS:
                    known[header] = length
            else:
                stream.skip(12)
            # Most often the chunk holds the data and its CRC; else the pieces are joined.
            both = stream.take(length + 4)
            data, footer = both[:length], both[length:]
            if len(footer) < 4:
                raise CorruptRecord(_cut_short(length, len(both)))
            if check:
                check_data(data, footer)
            yield data
            record += 1
            position += length + FRAME_BYTES
    except CorruptRecord as error:
        raise _placed(error, name, record, position) from None


def write_records(path: str | PathLike[str], datas: Iterable[Buffer], gzip: Profile | None = None) -> int:
    """Writes a file of records.

    The file appears when all of it is written: where ``datas`` raises, what was there before stays.

    Args:
        path: of a local file, which is replaced.
        datas: the data of each record, without framing.
        gzip: ``None`` for a plain file, or the profile.

    Returns:
        How many records were written.

    Raises:
        WriteFailed: it cannot be written.
    """
    name = fspath(path)
    if os.path.exists(name) and not os.path.isfile(name):  # a pipe or a device: nothing to put beside it
        with open(name, "wb") as file:
            return _write(file, datas, gzip)
    with Replacing(name) as file:
        return _write(file, datas, gzip)


def _write(file: Target, datas: Iterable[Buffer], gzip: Profile | None) -> int:
    count = 0
    if gzip == "indexed":
        group: list[bytes] = []
        size = 0
        for data in datas:
            group.append(frame(data))
            size += len(group[-1])
            count += 1
            if size >= GROUP_BYTES:
                file.write(member(b"".join(group), records=len(group)))
                group, size = [], 0
        if group:
            file.write(member(b"".join(group), records=len(group)))
        return count
    writer = Zlib6Writer(file) if gzip == "zlib6" else file
    for data in datas:
        writer.write(frame(data))
        count += 1
    if isinstance(writer, Zlib6Writer):
        writer.close()
    return count


def _placed(error: CorruptRecord, name: str | None, record: int, byte: int) -> CorruptRecord:
    return CorruptRecord(error.what, file=name, record=record, byte=byte)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    first = file.read(_READ_BYTES)
    if sniff(first[:12]) == "gzip":
        yield from inflated(file, first)
        return
    while first:
        yield first
        first = file.read(_READ_BYTES)


class _Stream:
    """Takes byte counts from a row of chunks; a view of the chunk where that is possible."""

    def __init__(self, chunks: Iterator[bytes], reuse: bool) -> None:
        self._chunks = chunks
        self._reuse = reuse
        self._joined = memoryview(b"")
        self._chunk = b""
        self._view = memoryview(b"")
        self._at = 0

    def at_end(self) -> bool:
        while self._at == len(self._chunk):
            chunk = next(self._chunks, None)
            if chunk is None:
                return True
            self._chunk, self._view, self._at = chunk, memoryview(chunk), 0
        return False

    def peek(self, size: int) -> bytes:
        # Fewer bytes than asked for when the chunk ends.
        return self._chunk[self._at : self._at + size]

    def skip(self, size: int) -> None:
        # At most what was peeked at.
        self._at += size

    def take(self, size: int) -> memoryview:
        # Fewer bytes than asked for when the stream ends. Memory grows with what has come, never
        # with what was asked for.
        start, end = self._at, self._at + size
        if end <= len(self._chunk):
            self._at = end
            return self._view[start:end]
        if size <= len(self._joined):
            return self._fill(size)
        parts = []
        missing = size
        while missing and not self.at_end():
            parts.append(self._view[self._at : self._at + missing])
            self._at += len(parts[-1])
            missing -= len(parts[-1])
        if self._reuse and not missing:
            self._joined = memoryview(bytearray(size))  # for the next
        return memoryview(b"".join(parts))

    def _fill(self, size: int) -> memoryview:
        have = 0
        while have < size and not self.at_end():
            part = self._view[self._at : self._at + size - have]
            self._joined[have : have + len(part)] = part
            self._at += len(part)
            have += len(part)
        return self._joined[:have]
