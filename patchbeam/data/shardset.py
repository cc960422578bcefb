"""The records of an export's shards by number; a shard is fetched, inflated and indexed when first needed."""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
import uuid
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam import storage
from patchbeam.data.cachedir import cache_root, locked, must_be_inflated, short_digest
from patchbeam.data.database import digest
from patchbeam.data.order import Ints
from patchbeam.data.remote import fetch, is_url
from patchbeam.errors import CorruptRecord, CountMismatch
from patchbeam.pool import Pool, core_count
from patchbeam.records.crc import masked_crc, masked_crcs
from patchbeam.records.files import RecordFiles
from patchbeam.records.index import FileIndex, index_file
from patchbeam.records.view import map_file

Rows = NDArray[np.uint8]
# Records are compared with their CRCs, and copied, so many at once that they stay in the processor's cache.
_GROUP_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shard:
    """One record file, and what its manifest says of it.

    Attributes:
        name: a local path or a URL.
        records: how many it holds, where that is known.
        stored_bytes: its size, where that is known.
        crc32c: of its bytes, in base64, where that is known.
        members: stored bytes and records of its gzip members, where they are known.
    """

    name: str
    records: int | None = None
    stored_bytes: int | None = None
    crc32c: str | None = None
    members: tuple[Ints, Ints] | None = None


class ShardSet:
    """The records of several shards as one sequence. Threads may share it; it pickles as a recipe.

    Attributes:
        shards: in order.
        starts: ``(shards + 1,)`` number of the first record of each shard, and of all.
    """

    def __init__(
        self, shards: Sequence[Shard], *, root: str | Path | None = None, offline: bool | None = None
    ) -> None:
        """Opens nothing where the manifest gives the counts; else indexes every shard.

        Raises:
            CorruptRecord: a shard that has to be indexed is damaged; with file, record and byte.
            ReadFailed: one cannot be read.
        """
        self.shards = tuple(shards)
        self._root = root
        self._offline = offline
        self._start()
        counts = [shard.records for shard in self.shards]
        if None in counts:
            with Pool(min(core_count(), len(counts))) as pool:
                counts = list(pool.map(lambda at: len(self.open(at)), range(len(counts))))
        self.starts: Ints = np.cumsum([0, *(count or 0 for count in counts)], dtype=np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def locate(self, record: int) -> tuple[int, int]:
        """Returns the position of the shard that holds a record, and the record's number in it."""
        at = int(self.starts.searchsorted(record, "right")) - 1
        return at, record - int(self.starts[at])

    def __getitem__(self, record: int) -> memoryview:
        """Returns the data of a record, its CRC compared.

        Raises:
            CorruptRecord: it is damaged; with file, record and byte.
        """
        if not 0 <= record < len(self):
            raise IndexError(f"record {record} of {len(self)}")
        at, number = self.locate(record)
        return self.open(at)[number]

    def blocks(self, records: Ints) -> Generator[memoryview | Rows]:
        """Yields the data of records, their CRC compared; faster than one by one.

        Yields:
            The data of the next record; or of several as uint8 ``(record, byte)``, where they lie one after
            the other in a plain file and have one size.

        Raises:
            CorruptRecord: the next record is damaged; with file, record and byte.
        """
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
                yield from files.read_range(number, end - first)

    def where(self, record: int) -> str:
        """Returns file and number of a record, for messages."""
        at, number = self.locate(record)
        return f"{self.shards[at].name}, record {number}"

    @property
    def fingerprint(self) -> str:
        """A digest of the shards' names, counts and, where known, checksums."""
        return digest([(s.name.rpartition("/")[2], s.crc32c) for s in self.shards], self.starts.tolist())

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
                index = self._index(self.shards[at])
                if index.record_size and index.records:
                    whole = np.frombuffer(map_file(index.path), np.uint8, index.records * index.record_size)
                    self._rows[at] = whole.reshape(index.records, index.record_size)
                found = self._open[at] = RecordFiles([index])
        finally:
            lock.release()
        return found

    def _open_another(self, after: int) -> None:
        for at in range(after + 1, len(self.shards)):
            if self._open[at] is None and not self._locks[at].locked():
                with suppress(Exception):  # told to whoever needs that shard
                    self.open(at)
                return

    def _index(self, shard: Shard) -> FileIndex:
        path = shard.name
        if is_url(path):
            path = str(
                fetch(
                    shard.name,
                    root=self._root,
                    size_bytes=shard.stored_bytes,
                    crc32c=shard.crc32c,
                    offline=self._offline,
                )
            )
        size = storage.stat(path).size_bytes
        if shard.stored_bytes is not None and size != shard.stored_bytes:
            raise CountMismatch(
                f"{shard.name}: has {size} bytes, its manifest says {shard.stored_bytes}; it was cut short "
                "or "
                "replaced: copy the export again"
            )
        try:
            inflate = must_be_inflated(path)
            index = (
                self._inflated(path) if inflate else index_file(path, spool_folder="", members=shard.members)
            )
        except CorruptRecord as error:
            raise CorruptRecord(error.what, file=shard.name, record=error.record, byte=error.byte) from None
        if shard.records is not None and index.records != shard.records:
            raise CountMismatch(
                f"{shard.name}: has {index.records} records, its manifest says {shard.records}; copy the "
                "export again"
            )
        return dataclasses.replace(index, name=shard.name)

    def _inflated(self, path: str) -> FileIndex:
        """Returns the index of a plain copy of a gzip file, which is made once and kept."""
        stat = os.stat(path)
        folder = cache_root(self._root) / "inflated"
        key = short_digest(os.path.realpath(path), stat.st_size, stat.st_mtime_ns)
        copy = folder / f"{key}-{Path(path).name.removesuffix('.gz')}"
        if not copy.exists():
            with locked(copy):
                if not copy.exists():
                    # made under a name of its own, so that what is killed leaves no half copy behind
                    part = folder / f"part-{uuid.uuid4().hex[:8]}"
                    try:
                        spooled = index_file(path, spool_folder=str(part))
                        os.replace(spooled.path, copy)
                    finally:
                        shutil.rmtree(part, ignore_errors=True)
                    return dataclasses.replace(spooled, path=str(copy))
        return dataclasses.replace(index_file(str(copy), spool_folder=str(folder)), path=str(copy))

    def _start(self) -> None:
        self._open: list[RecordFiles | None] = [None] * len(self.shards)
        # of plain files of records of one size: the framed records
        self._rows: list[Rows | None] = [None] * len(self.shards)
        self._locks = [threading.Lock() for _ in self.shards]

    def __getstate__(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("shards", "starts", "_root", "_offline")}

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
