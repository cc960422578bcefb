"""Pieces to shards: concatenation, with no byte decoded except at the limits between shards."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from patchbeam import storage
from patchbeam.elements import Bytes, Ints, Piece
from patchbeam.errors import ReadFailed
from patchbeam.records.gzip import Zlib6Writer, inflate, member
from patchbeam.records.tfrecord import record_offsets
from patchbeam.retry import retrying
from patchbeam.shards import Shard, Span
from patchbeam.storage import FileRange, Part, read_bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AssembledShard:
    """A shard that stands under its temporary name.

    Attributes:
        number: from 0.
        path: its temporary name.
        first_record: index of its first record among all records written.
        records: number of records.
        size_bytes: uncompressed size.
        stored_bytes: size of the file.
        crc32c: of the stored bytes, base64.
        members: ``(member, [records, stored bytes])``; no rows for files that are not indexed.
    """

    number: int
    path: str
    first_record: int
    records: int
    size_bytes: int
    stored_bytes: int
    crc32c: str
    members: Ints


def member_records(piece: Piece, index: int, offset: int, stored: int, *, gzip: bool) -> Ints:
    """Returns the sizes of the framed records of one member of a piece, in bytes.

    Args:
        piece: the piece.
        index: number of the member in it.
        offset: its first stored byte.
        stored: its stored bytes.
        gzip: whether it is compressed.
    """
    data = _stored(piece.path, offset, stored)
    framed = inflate(data) if gzip else data
    return np.diff(record_offsets(framed, name=piece.path))


def assemble(shard: Shard, folder: str, *, profile: str | None) -> AssembledShard:
    """Writes one shard under the temporary prefix.

    Args:
        shard: what it is made of.
        folder: the temporary prefix.
        profile: ``indexed``, ``zlib6``, or ``None`` for files that are not compressed.

    Raises:
        ReadFailed: a piece is missing or shorter than it was.
        WriteFailed: the shard cannot be written.
    """
    return retrying(lambda: _assembled(shard, folder, profile))


def _assembled(shard: Shard, folder: str, profile: str | None) -> AssembledShard:
    path = storage.join(folder, f"shard-{shard.number:05d}.{uuid.uuid4().hex[:8]}")
    tables: list[Ints] = []
    if profile == "zlib6":
        storage.write_parts(path, _deflated(shard))
    else:
        parts: list[Part] = []
        for span in shard.spans:
            part, members = _part(span, gzip=profile == "indexed")
            parts.append(part)
            tables.append(members)
        storage.concat(parts, path, consume=True)
    stat = storage.stat(path)
    return AssembledShard(
        number=shard.number,
        path=path,
        first_record=shard.first_record,
        records=shard.records,
        size_bytes=shard.size_bytes,
        stored_bytes=stat.size_bytes,
        crc32c=stat.crc32c or storage.crc32c_of(path),
        members=np.concatenate(tables)[:, [0, 2]] if profile == "indexed" else np.empty((0, 2), np.int64),
    )


def _part(span: Span, *, gzip: bool) -> tuple[Part, Ints]:
    if span.whole:
        return _whole(span), span.members
    if not gzip:
        return FileRange(path=span.path, start=span.start + span.skip, length=span.take), span.members
    # the member that straddles a limit: its records go into two members
    data = inflate(_stored(span.path, span.start, span.stored))[span.skip : span.skip + span.take]
    records = int(span.members[0, 0])
    again = member(data, records=records)
    return again, np.array([[records, span.take, len(again)]], np.int64)


def _whole(span: Span) -> Part:
    if span.start == 0 and span.stored == storage.stat(span.path).size_bytes:
        return span.path
    return FileRange(path=span.path, start=span.start, length=span.stored)


def _stored(path: str, start: int, length: int) -> bytes:
    data = read_bytes(path, start, length)
    if len(data) != length:
        raise ReadFailed(
            f"{path}: ends at byte {start + len(data)}, {length} bytes are wanted from byte {start}"
        )
    return data


class _Sink:
    """Collects what the gzip writer makes until it is handed on."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def write(self, data: bytes) -> int:
        self.chunks.append(data)
        return len(data)

    def taken(self) -> bytes:
        data = b"".join(self.chunks)
        self.chunks.clear()
        return data


def _deflated(shard: Shard) -> Iterator[Bytes]:
    """Yields the one gzip member of a ``zlib6`` shard; its pieces are not compressed."""
    sink = _Sink()
    writer = Zlib6Writer(sink)  # type: ignore[arg-type]
    for span in shard.spans:
        start, length = (span.start, span.stored) if span.whole else (span.start + span.skip, span.take)
        for chunk in storage.read_chunks(span.path, start, length):
            writer.write(chunk)
            yield np.frombuffer(sink.taken(), np.uint8)
    writer.close()
    yield np.frombuffer(sink.taken(), np.uint8)
