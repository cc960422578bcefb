"""Pieces to shards: concatenation, with no byte decoded except at the limits between shards.

The checksum that a shard must have follows from those of its pieces; one that has another is not kept.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator

import numpy as np
from crc32c import crc32c as crc_of

from patchbeam import counts, storage
from patchbeam.elements import Bytes, Ints, Piece
from patchbeam.errors import ReadFailed
from patchbeam.finished import forget_run
from patchbeam.finished_shards import find_shard, write_shard
from patchbeam.records.gzip import inflate, member
from patchbeam.records.tfrecord import record_offsets
from patchbeam.records.zlib6 import Zlib6Writer
from patchbeam.retry import retrying
from patchbeam.shards import AssembledShard as AssembledShard
from patchbeam.shards import Shard, Span
from patchbeam.storage import FileRange, Part, crc32c_combine, crc32c_text, read_bytes


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


def assemble(shard: Shard, folder: str, *, profile: str | None, threads: int = 1) -> AssembledShard:
    """Writes one shard under the temporary prefix, or finds the one that an earlier attempt has written.

    Args:
        shard: what it is made of.
        folder: the temporary prefix.
        profile: ``indexed``, ``zlib6``, or ``None`` for files that are not compressed.
        threads: that copy pieces, or sum what need not be copied.

    Raises:
        ReadFailed: a piece is missing, shorter than it was, or damaged.
        WriteFailed: the shard cannot be written.
    """

    def work() -> AssembledShard:
        found = find_shard(folder, shard, profile)
        return _assembled(shard, folder, profile, threads) if found is None else found

    return retrying(work)


def _assembled(shard: Shard, folder: str, profile: str | None, threads: int) -> AssembledShard:
    path = storage.join(folder, f"shard-{shard.number:05d}.{uuid.uuid4().hex[:8]}")
    tables: list[Ints] = []
    if profile == "zlib6":
        stat = storage.write_parts(path, _deflated(shard))
        crc32c = stat.crc32c or storage.crc32c_of(path)
    else:
        parts: list[Part] = []
        crc = 0
        for span in shard.spans:
            part, members, part_crc = _part(span, gzip=profile == "indexed")
            parts.append(part)
            tables.append(members)
            crc = crc32c_combine(crc, part_crc, int(members[:, 2].sum()))
        stat = storage.concat(parts, path, consume=True, threads=threads)
        crc32c = stat.crc32c or storage.crc32c_of(path, threads=threads)
        if crc32c != crc32c_text(crc):
            raise _damaged(shard, path)
    done = AssembledShard(
        number=shard.number,
        path=path,
        first_record=shard.first_record,
        records=shard.records,
        size_bytes=shard.size_bytes,
        stored_bytes=stat.size_bytes,
        crc32c=crc32c,
        members=np.concatenate(tables)[:, [0, 2]] if profile == "indexed" else np.empty((0, 2), np.int64),
    )
    write_shard(folder, shard, profile, done)
    return done


def _damaged(shard: Shard, path: str) -> ReadFailed:
    """Finds out which piece is not what was written, and sees to it that it is made again."""
    storage.delete(path)
    for span in shard.spans:
        crc = 0
        for chunk in storage.read_chunks(span.path, span.start, span.stored):
            crc = crc_of(chunk, crc)
        if crc != span.crc:
            return _refused(span, crc)
    failure = ReadFailed(f"{path}: the bytes of this shard are not those of its pieces, which are as written")
    failure.errno = errno.EIO  # damaged on the way; worth another try
    return failure


def _refused(span: Span, crc: int) -> ReadFailed:
    forget_run(storage.split(span.path)[0], span.run)
    return ReadFailed(
        f"{span.path}: {span.stored} bytes from byte {span.start} are not those that were written (their "
        f"CRC-32C is {crc32c_text(crc)}, not {crc32c_text(span.crc)}): the disk or a program has changed "
        "them; this piece will be made again"
    )


def _part(span: Span, *, gzip: bool) -> tuple[Part, Ints, int]:
    """Returns a part of the shard, its members, and its checksum."""
    if span.whole:
        return _whole(span), span.members, span.crc
    # the member that straddles a limit: its records go into two members
    data = _checked(span)
    if not gzip:
        plain = data[span.skip : span.skip + span.take]
        records, size = int(span.members[0, 0]), len(plain)
        return plain, np.array([[records, size, size]], np.int64), crc_of(plain)
    records = int(span.members[0, 0])
    again = member(inflate(data)[span.skip : span.skip + span.take], records=records)
    table = np.array([[records, span.take, len(again)]], np.int64)
    return again, table, crc_of(bytes(again))


def _checked(span: Span) -> bytes:
    data = _stored(span.path, span.start, span.stored)
    crc = crc_of(data)
    if crc != span.crc:
        raise _refused(span, crc)
    return data


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
        if not span.whole:
            writer.write(_checked(span)[span.skip : span.skip + span.take])
            counts.advance("compressed", span.take, span.take)
            yield np.frombuffer(sink.taken(), np.uint8)
            continue
        crc = 0
        for chunk in storage.read_chunks(span.path, span.start, span.stored):
            crc = crc_of(chunk, crc)
            writer.write(chunk)
            counts.advance("compressed", len(chunk), len(chunk))
            yield np.frombuffer(sink.taken(), np.uint8)
        if crc != span.crc:
            raise _refused(span, crc)
    writer.close()
    yield np.frombuffer(sink.taken(), np.uint8)
