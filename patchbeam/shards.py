"""Packing records into shards: as Earth Engine does it, records are added while a shard stays at or
under ``maxFileSize`` (uncompressed, framing included), in patch order.

Pure arithmetic on sizes. Where every record has one size the shards are known beforehand; elsewhere
they are packed from the pieces' member tables, and only the member that straddles a limit is looked
into (``record_sizes``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from patchbeam.elements import Ints, Piece
from patchbeam.storage import crc32c_combine


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardBounds:
    """What can be said of shards before any record exists.

    Attributes:
        exact: whether lower and upper bounds are the same and certain.
        records: least and greatest number of records.
        shards: least and greatest number of shards.
        total_bytes: least and greatest uncompressed size of all shards together.
    """

    exact: bool
    records: tuple[int, int]
    shards: tuple[int, int]
    total_bytes: tuple[int, int]


def shard_bounds(records: int, size: tuple[int, int], limit: int, *, may_drop: bool) -> ShardBounds:
    """Returns bounds from the least and the greatest record size.

    Args:
        records: records if nothing is dropped.
        size: least and greatest size of a framed record, in bytes.
        limit: ``maxFileSize`` in bytes; at least ``size[0]``.
        may_drop: whether patches may be dropped, so that there may be no record at all.
    """
    least, greatest = size
    most_full = max(1, limit // least)
    least_full = max(1, limit // greatest)
    fewest = 0 if may_drop else records
    return ShardBounds(
        exact=least == greatest and not may_drop,
        records=(fewest, records),
        shards=(-(-fewest // most_full), -(-records // least_full)),
        total_bytes=(fewest * least, records * greatest),
    )


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a piece that goes into a shard.

    Attributes:
        path: the piece file.
        start: first stored byte.
        stored: stored bytes.
        skip: uncompressed bytes to leave out at the start; only with a part of one member.
        take: uncompressed bytes to take after them; ``-1`` for whole members.
        members: ``(member, [records, uncompressed bytes, stored bytes])``; for a part of a member one
            row, whose stored size is not known yet.
        crc: CRC-32C of the stored bytes.
        run: first patch of the run that the piece is of.
    """

    path: str
    start: int
    stored: int
    skip: int
    take: int
    members: Ints
    crc: int
    run: int

    @property
    def whole(self) -> bool:
        """Whether the span is whole members, to be copied as they are."""
        return self.take < 0


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard to be assembled.

    Attributes:
        number: from 0.
        first_record: index of its first record among all kept records.
        records: number of records.
        size_bytes: uncompressed size.
        spans: what it is made of, in order.
    """

    number: int
    first_record: int
    records: int
    size_bytes: int
    spans: tuple[Span, ...]


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


class _Open:
    """The shard being filled."""

    def __init__(self, number: int, first_record: int) -> None:
        self.number = number
        self.first_record = first_record
        self.records = 0
        self.size = 0
        self.spans: list[Span] = []

    def add(self, span: Span) -> None:
        self.spans.append(span)
        self.records += int(span.members[:, 0].sum())
        self.size += int(span.members[:, 1].sum())

    def close(self) -> Shard:
        return Shard(self.number, self.first_record, self.records, self.size, tuple(self.spans))


class RecordTooLarge(ValueError):
    """One record alone is larger than a shard may be; carries the piece and the record in it."""

    def __init__(self, piece: Piece, record: int, size: int) -> None:
        super().__init__(piece.path, record, size)
        self.piece = piece
        self.record = record
        self.size = size


def pack(
    pieces: Iterable[Piece], limit: int, record_sizes: Callable[[Piece, int, int, int], Ints]
) -> Iterator[Shard]:
    """Packs pieces, given in order, into shards.

    Args:
        pieces: in patch order.
        limit: largest uncompressed size of a shard in bytes.
        record_sizes: gives the sizes of the records of one member of a piece, from (piece, member,
            stored offset, stored size); asked for members that straddle a limit and whose records
            are not all of one size.

    Raises:
        RecordTooLarge: a record is larger than ``limit``.
    """
    shard = _Open(0, 0)
    for piece in pieces:
        offsets = np.concatenate([[0], np.cumsum(piece.members[:, 2])]) + (piece.start or 0)
        at = 0
        while at < len(piece.members):
            ends = np.cumsum(piece.members[at:, 1])
            whole = int(np.searchsorted(ends, limit - shard.size, side="right"))
            if whole:
                rows = piece.members[at : at + whole]
                start = int(offsets[at])
                stored = int(offsets[at + whole]) - start
                crc = _crc(piece, at, at + whole, stored)
                shard.add(Span(piece.path, start, stored, 0, -1, rows, crc, piece.order[0]))
                at += whole
            if at == len(piece.members):
                break
            # the next member does not fit whole: fill up with those of its records that do
            sizes = _sizes(piece, at, int(offsets[at]), record_sizes)
            done = 0
            while done < len(sizes):
                ends = np.cumsum(sizes[done:])
                fitting = int(np.searchsorted(ends, limit - shard.size, side="right"))
                if fitting:
                    skip, take = int(sizes[:done].sum()), int(ends[fitting - 1])
                    part = fitting < len(sizes)
                    rows = np.array([[fitting, take, 0 if part else piece.members[at, 2]]], np.int64)
                    start, stored = int(offsets[at]), int(piece.members[at, 2])
                    crc = _crc(piece, at, at + 1, stored)
                    only = (skip, take) if part else (0, -1)
                    shard.add(Span(piece.path, start, stored, *only, rows, crc, piece.order[0]))
                    done += fitting
                    if done == len(sizes):
                        break
                elif not shard.records:
                    record = int(piece.members[:at, 0].sum()) + done
                    raise RecordTooLarge(piece, record, int(sizes[done]))
                yield shard.close()
                shard = _Open(shard.number + 1, shard.first_record + shard.records)
            at += 1
    if shard.records:
        yield shard.close()


def _crc(piece: Piece, first: int, end: int, stored: int) -> int:
    """Returns the CRC-32C of some members: that up to their end, without what stands before them."""
    crc = int(piece.sums[end - 1])
    return crc ^ crc32c_combine(int(piece.sums[first - 1]), 0, stored) if first else crc


def _sizes(
    piece: Piece, member: int, offset: int, record_sizes: Callable[[Piece, int, int, int], Ints]
) -> Ints:
    count, size, stored = (int(n) for n in piece.members[member])
    if count == 1:
        return np.array([size], np.int64)
    if piece.record_size:
        return np.full(count, piece.record_size, np.int64)
    return record_sizes(piece, member, offset, stored)


def cut_at_shards(first_record: int, records: int, per_shard: int) -> list[int]:
    """Splits a run of equal records where shards end; returns the records of each part.

    Args:
        first_record: index of the run's first record among all records.
        records: records of the run.
        per_shard: records of a full shard.
    """
    parts = []
    while records:
        part = min(records, per_shard - first_record % per_shard)
        parts.append(part)
        first_record += part
        records -= part
    return parts
