"""Runs of records to piece files: what a worker leaves under the temporary prefix.

A piece's name is that of its place in the plan plus an attempt suffix, so that a repeated or lost
attempt changes nothing: only pieces that the runner reports go into shards. Every piece knows the checksums
of its bytes, so that one that has been damaged meanwhile goes into no shard.

Where it is certain where in its shard every byte will be, pieces may be laid there at once, in one temporary
file a shard: nothing is left to copy then. An attempt that is repeated within a run writes the same bytes to
the same place; another run has files of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from crc32c import crc32c as crc_of

from patchbeam import storage
from patchbeam.elements import Bytes, Ints, Piece, RecordRun
from patchbeam.pool import Pool
from patchbeam.records.gzip import compress_members, group_records
from patchbeam.retry import retrying
from patchbeam.shards import cut_at_shards


class PieceWriter:
    """Writes runs as piece files.

    Args:
        folder: the temporary prefix, local or ``gs://``.
        gzip: whether pieces are made of indexed members; else they hold records as they are.
        records_per_shard: records of a full shard where that is certain, so that runs end where shards
            do; ``None`` when shards are packed afterwards.
        records_per_patch: records a patch.
        pool: the threads to use.
        laid: suffix of the files, this run's own, in which pieces are laid where ``records_per_shard`` is
            known; only for records as they are and a local folder. ``None``: each piece has its own file.
    """

    def __init__(
        self,
        folder: str,
        *,
        gzip: bool,
        records_per_shard: int | None,
        records_per_patch: int,
        pool: Pool,
        laid: str | None = None,
    ) -> None:
        self._folder = folder
        self._gzip = gzip
        self._per_shard = records_per_shard
        self._per_patch = records_per_patch
        self._pool = pool
        self._laid = laid

    def write(self, run: RecordRun) -> Iterator[Piece]:
        """Writes one run; yields a piece for each shard that it meets, one without records if it has none."""
        parts = [run.records]
        if self._per_shard is not None and run.records:
            parts = cut_at_shards(run.first_patch * self._per_patch, run.records, self._per_shard)
        sizes = run.sizes if run.sizes is not None else np.full(run.records, run.record_size, np.int64)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        first = 0
        for part, count in enumerate(parts):
            data = run.data[int(ends[first]) : int(ends[first + count])]
            path, start = self._place(run, part, first)
            members, sums = self._store(path, start, data, sizes[first : first + count])
            yield Piece(
                path=path if count else "",
                order=(run.first_patch, part),
                patches=0 if part else run.patches,
                kept=np.empty((0, 2), np.int64) if part else run.kept,
                record_size=run.record_size,
                members=members,
                sums=sums,
                moments=() if part else run.moments,
                rounded=() if part else run.rounded,
                start=start,
            )
            first += count

    def _place(self, run: RecordRun, part: int, record: int) -> tuple[str, int | None]:
        """Returns the file of a part of a run, and where in it the part begins if it is laid there."""
        if self._laid is None or self._per_shard is None:
            name = f"{run.first_patch:012d}-{part:05d}.{uuid.uuid4().hex[:8]}"
            return storage.join(self._folder, name), None
        shard, at = divmod(run.first_patch * self._per_patch + record, self._per_shard)
        return storage.join(self._folder, f"laid-{shard:05d}.{self._laid}"), at * run.record_size

    def _store(self, path: str, start: int | None, data: Bytes, sizes: Ints) -> tuple[Ints, Ints]:
        if not len(sizes):
            return np.empty((0, 3), np.int64), np.empty(0, np.int64)
        groups = group_records(sizes)
        ends = np.concatenate([[0], np.cumsum(sizes)])[np.concatenate([[0], np.cumsum(groups)])]
        raw = np.diff(ends)
        if self._gzip:
            members: list[Any] = compress_members(data, sizes, pool=self._pool)
            stored = np.array([len(member) for member in members], np.int64)
        else:
            members = [data]
            stored = raw
        if start is None:
            retrying(lambda: storage.write_parts(path, members))
        else:
            retrying(lambda: storage.write_at(path, start, data))
        table = np.stack([np.array(groups, np.int64), raw, stored], axis=1)
        return table, _sums(members if self._gzip else _cut(data, stored))


def _cut(data: Bytes, sizes: Ints) -> Iterator[Bytes]:
    ends = np.cumsum(sizes).tolist()
    return (data[start:end] for start, end in pairwise([0, *ends]))


def _sums(members: Iterable[Any]) -> Ints:
    """Returns the CRC-32C up to the end of each member."""
    return np.array(
        list(accumulate(members, lambda crc, member: crc_of(member, crc), initial=0))[1:], np.int64
    )
