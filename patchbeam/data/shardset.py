"""The records of an export's shards by number; a shard is fetched, inflated and indexed when first needed."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.database import digest
from patchbeam.data.inorder import InOrder, Stream
from patchbeam.data.order import Ints
from patchbeam.data.shardfile import Shard, index_shard, reads_in_order
from patchbeam.errors import CountMismatch
from patchbeam.pool import Pool, core_count
from patchbeam.records.crc import masked_crc, masked_crcs
from patchbeam.records.files import RecordFiles
from patchbeam.records.view import map_file

_STATE = ("shards", "_name", "_records", "_counts", "_root", "_offline")
Rows = NDArray[np.uint8]
# Records are compared with their CRCs, and copied, so many at once that they stay in the processor's cache.
_GROUP_BYTES = 1 << 18


class ShardSet:
    """The records of several shards as one sequence. Threads may share it; it pickles as a recipe.

    Attributes:
        shards: in order.
    """

    _starts: Ints | None

    def __init__(
        self,
        shards: Sequence[Shard],
        *,
        name: str,
        records: int | None = None,
        root: str | Path | None = None,
        offline: bool | None = None,
    ) -> None:
        """Opens nothing where the counts are known; else indexes the shards that can be sought.

        Args:
            shards: in order.
            name: of the export, for messages.
            records: of all shards, where a mixer says it.
            root: of the cache.
            offline: whether nothing may be fetched.

        Raises:
            CorruptRecord: a shard that has to be indexed is damaged; with file, record and byte.
            CountMismatch: there are more or fewer records than ``records``.
            ReadFailed: one cannot be read.
        """
        self.shards = tuple(shards)
        self._name = name
        self._records = records
        self._root = root
        self._offline = offline
        self._counts = [shard.records for shard in self.shards]
        self._start()
        lazy = [
            at
            for at, n in enumerate(self._counts)
            if n is None and records is not None and self._streamed(at)
        ]
        self._count_all(lazy)
        if not lazy:
            _ = self.starts

    def __len__(self) -> int:
        return int(self.starts[-1]) if self._records is None else self._records

    @property
    def starts(self) -> Ints:
        """``(shards + 1,)`` number of the first record of each shard, and of all.

        Raises:
            CorruptRecord: a shard that has to be indexed for it is damaged.
            CountMismatch: there are more or fewer records than the mixer says.
        """
        if self._starts is None:
            self._count_all()
            starts: Ints = np.cumsum([0, *(count or 0 for count in self._counts)], dtype=np.int64)
            if self._records is not None and starts[-1] != self._records:
                counts = ", ".join(f"{s.name}: {n}" for s, n in zip(self.shards, self._counts, strict=True))
                raise CountMismatch(
                    f"{self._name}: {starts[-1]} records ({counts}), but the mixer says {self._records} "
                    "patches; give all files of the export, or the mixer that belongs to them"
                )
            self._starts = starts
        return self._starts

    def _count_all(self, but: Sequence[int] = ()) -> None:
        unknown = [at for at, count in enumerate(self._counts) if count is None and at not in but]
        if unknown:
            with Pool(min(core_count(), len(unknown))) as pool:
                for at, files in zip(unknown, pool.map(self.open, unknown), strict=True):
                    self._counts[at] = len(files)

    def _place(self, record: int) -> tuple[int, int]:
        """Returns the shard that holds a record, and its number there, as far as shards have been counted.

        Past the last shard the shard is one that there is not.
        """
        if self._starts is not None:
            at = int(self._starts.searchsorted(record, "right")) - 1
            return at, record - int(self._starts[at])
        for at, count in enumerate(self._counts):
            if count is None or record < count:
                return at, record
            record -= count
        return len(self._counts), record

    def __getitem__(self, record: int) -> memoryview:
        """Returns the data of a record, its CRC compared.

        Raises:
            CorruptRecord: it is damaged; with file, record and byte.
        """
        if not 0 <= record < len(self):
            raise IndexError(f"record {record} of {len(self)}")
        _ = self.starts
        at, number = self._place(record)
        return self.open(at)[number]

    def first(self) -> memoryview:
        """Returns the data of the first record, which costs no more than that."""
        data = self._in_order.peek(0) if self._open[0] is None else None
        return self[0] if data is None else memoryview(data)

    def blocks(self, records: Ints) -> Generator[memoryview | Rows]:
        """Yields the data of records, their CRC compared; faster than one by one. To be closed.

        Gzip files that cannot be sought are read as they are the first time that they are asked for in order.

        Yields:
            The data of the next record, good until the next is asked for; or of several as uint8
            ``(record, byte)``, where they lie one after the other in a plain file and have one size.

        Raises:
            CorruptRecord: the next record is damaged; with file, record and byte.
            CountMismatch: there are more or fewer records than the mixer or manifest says.
        """
        if None in self._open and bool((np.diff(records) == 1).all()):
            return self._through(int(records[0]), int(records[-1]) + 1)
        return self._anywhere(records)

    def _through(self, record: int, stop: int) -> Generator[memoryview | Rows]:
        while record < stop:
            at, number = self._place(record)
            if at == len(self.shards):
                if self._starts is not None:
                    raise IndexError(f"record {record} of {len(self)}")
                _ = self.starts  # which says that there are too few
                continue
            count = self._counts[at]
            if count is None and at + 1 == len(self.shards) and self._records is not None:
                count = self._records - record + number
            end = stop if count is None else min(stop, record - number + count)
            if self._open[at] is None:
                last = count is not None and record - number + count == end
                taken = yield from self._in_order.take(at, number, end - record, last=last)
                record += taken
                stream = self._in_order.streams.get(at)
                if stream is not None and stream.ended:
                    if self._counts[at] is None:
                        self._counts[at] = stream.position
                    if number + taken >= stream.position == self._counts[at]:
                        continue  # the others are in the next shard
            if record < end:
                yield from self._anywhere(np.arange(record, end))
                record = end

    def _anywhere(self, records: Ints) -> Generator[memoryview | Rows]:
        shards = self.starts.searchsorted(records, "right") - 1
        numbers = records - self.starts[shards]
        apart = np.flatnonzero((np.diff(records) != 1) | (np.diff(shards) != 0)) + 1
        for first, end in pairwise([0, *apart.tolist(), len(records)]):
            at, number = int(shards[first]), int(numbers[first])
            files = self._open[at] or self.open(at)
            rows = self._rows[at]
            if rows is not None:
                yield from _checked(rows, files, number, number + end - first)
            elif end - first == 1:
                yield files[number]
            else:
                yield from files.read_range(number, end - first, keep=True)

    def where(self, record: int) -> str:
        """Returns file and number of a record, for messages."""
        at, number = self._place(record)
        return f"{self.shards[at].name}, record {number}"

    @property
    def fingerprint(self) -> str:
        """A digest of the shards' names, counts and, where known, checksums."""
        counts = self.starts.tolist() if self._records is None else self._records
        return digest([(s.name.rpartition("/")[2], s.crc32c) for s in self.shards], counts)

    def open(self, at: int) -> RecordFiles:
        """Returns the records of one shard.

        Raises:
            CountMismatch: it is not what the manifest says.
        """
        found = self._open[at]
        if found is not None:
            return found
        lock = self._locks[at]
        if not lock.acquire(blocking=False):
            # Another thread is at it. Waiting helps nobody: what follows is needed next.
            self._open_another(at)
            lock.acquire()
        try:
            found = self._open[at]
            if found is None:
                index = index_shard(self.shards[at], self._root, self._offline)
                if index.record_size and index.records:
                    whole = np.frombuffer(map_file(index.path), np.uint8, index.records * index.record_size)
                    self._rows[at] = whole.reshape(index.records, index.record_size)
                found = self._open[at] = RecordFiles([index])
                self._in_order.drop(at)
        finally:
            lock.release()
        return found

    def _open_another(self, after: int) -> None:
        for at in range(after + 1, len(self.shards)):
            if self._open[at] is None and not self._locks[at].locked():
                with suppress(Exception):  # told to whoever needs that shard
                    self.open(at)
                return

    def _stream(self, at: int) -> Stream | None:
        """Returns a shard as one to be read from its start, if it is best read so."""
        name = self.shards[at].name
        return Stream(name, name) if self._streamed(at) else None

    def _streamed(self, at: int) -> bool:
        return self._open[at] is None and reads_in_order(self.shards[at], self._root)

    def _start(self) -> None:
        self._starts = None
        self._in_order = InOrder(self._stream, len(self.shards))
        self._open: list[RecordFiles | None] = [None] * len(self.shards)
        # of plain files of records of one size: the framed records
        self._rows: list[Rows | None] = [None] * len(self.shards)
        self._locks = [threading.Lock() for _ in self.shards]

    def __getstate__(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in _STATE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()


def _checked(rows: Rows, files: RecordFiles, first: int, end: int) -> Generator[memoryview | Rows]:
    """Yields the data of ``rows[first:end]``, framed records of ``files``, their CRC compared."""
    step = max(1, _GROUP_BYTES // rows.shape[1])
    if end - first == 1 or step == 1:
        for number in range(first, end):
            row = rows[number]
            data = row[12:-4]
            if masked_crc(data) == int.from_bytes(row[-4:].data, "little"):
                yield data.data
            else:
                yield files[number]  # which says what is wrong, and where
        return
    for start in range(first, end, step):
        group = rows[start : min(start + step, end)]
        datas = group[:, 12:-4]
        wrong = masked_crcs(datas, len(datas)) != group[:, -4:].copy().view("<u4")[:, 0]  # type: ignore[arg-type]
        if not wrong.any():
            yield datas
            continue
        sound = int(wrong.argmax())
        if sound:
            yield datas[:sound]
        yield files[start + sound]
        return
