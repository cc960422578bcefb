"""Random access to the records of many files, as if they were one sequence.

Plain files are mapped (or read by range in Cloud Storage), members of indexed gzip files are inflated one
by one, and other gzip files have been inflated once into a plain copy.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from patchbeam import storage
from patchbeam.errors import CorruptRecord, ReadFailed
from patchbeam.pool import Pool, core_count
from patchbeam.records.gzip import inflate
from patchbeam.records.index import FileIndex, Ints, index_file
from patchbeam.records.tfrecord import check_data, record_offsets
from patchbeam.records.view import map_file

CACHE_BYTES = 32 << 20
"""Inflated members of several records that are kept for the next record."""

_OPEN_FILES = 128
_BATCH_BYTES = 8 << 20
_PART_BYTES = 1 << 20


class RecordFiles:
    """Records of many files by number; the data's CRC is compared on every read.

    Threads may share one. It pickles: the copy reads on its own, and leaves spools to the first.

    Attributes:
        files: where the records of each file lie, in order.
        counts: records of each file.
        starts: ``(files + 1,)`` number of the first record of each file, and of all.
    """

    def __init__(self, files: Sequence[FileIndex], *, check: bool = True) -> None:
        """Joins files that have been indexed; reads nothing. ``check`` compares CRCs on every read."""
        self.files = tuple(files)
        self.counts = [file.records for file in self.files]
        self.starts: Ints = np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)]).astype(np.int64)
        self._check = check
        self._spools: tuple[str, ...] = ()
        self._start()

    @classmethod
    def open(
        cls,
        names: Sequence[str],
        *,
        spool_folder: str,
        members: Sequence[tuple[Ints, Ints] | None] | None = None,
        threads: int | None = None,
        check: bool = True,
    ) -> RecordFiles:
        """Indexes files side by side.

        Args:
            names: local paths or ``gs://``, in order.
            spool_folder: where gzip files that cannot be sought are inflated to; only what
                :meth:`close` deletes again is put there.
            members: for each file, the sizes and records of its gzip members where they are known.
            threads: default: all cores.
            check: whether to compare the data of each record with its CRC.

        Raises:
            CorruptRecord: with file, record and byte.
            ReadFailed: a file cannot be read.
        """
        known = members if members is not None else [None] * len(names)
        done: list[FileIndex] = []

        def index(name: str, of: tuple[Ints, Ints] | None) -> FileIndex:
            found = index_file(name, spool_folder=spool_folder, members=of)
            done.append(found)
            return found

        try:
            with Pool(threads or core_count()) as pool:
                files = cls(list(pool.map(index, names, known)), check=check)
        except BaseException:
            for file in done:
                if file.spooled:
                    storage.delete(file.path)
            raise
        files._spools = tuple(file.path for file in files.files if file.spooled)
        return files

    def __len__(self) -> int:
        return int(self.starts[-1])

    def locate(self, record: int) -> tuple[int, int]:
        """Returns the position of the file that holds a record, and the record's number in it.

        Raises:
            IndexError: there is no such record.
        """
        if not 0 <= record < len(self):
            raise IndexError(f"record {record} is not in 0..{len(self) - 1}")
        number = int(np.searchsorted(self.starts, record, "right")) - 1
        return number, record - int(self.starts[number])

    def __getitem__(self, record: int) -> memoryview:
        """Returns the data of a record, without framing.

        Raises:
            IndexError: there is no such record; negative numbers count from none.
            CorruptRecord: it is damaged; with file, record and byte.
        """
        number, at = self.locate(record)
        file = self.files[number]
        unit = file.unit_of(at)
        if not file.gzip:
            framed = self._stored(number, file.start_of(unit), file.start_of(unit + 1))
            return self._checked(number, at, framed)
        data, offsets = self._member(number, unit)
        i = at - file.first_of(unit)
        return self._checked(number, at, data[int(offsets[i]) : int(offsets[i + 1])])

    def read_range(self, first: int, count: int, *, keep: bool = False) -> Iterator[memoryview]:
        """Yields the data of consecutive records; each stored byte is read once, each member inflated once.

        With ``keep`` inflated members stay, as far as there is room, for who reads on or again.

        Raises:
            IndexError: the range reaches past the last record.
            CorruptRecord: a record is damaged; with file, record and byte.
        """
        stop = first + count
        if count < 0 or first < 0 or stop > len(self):
            raise IndexError(f"records {first} to {stop} are not in 0..{len(self)}")
        while first < stop:
            number, at = self.locate(first)
            until = min(self.counts[number], at + stop - first)
            yield from self._read(number, at, until, keep)
            first += until - at

    def parts(self, first: int, count: int) -> list[tuple[int, int]]:
        """Cuts a range into ``(first, count)`` that are worth a thread each and share no gzip member."""
        found = []
        stop = first + count
        while first < stop:
            number, at = self.locate(first)
            file = self.files[number]
            unit = file.unit_of(at)
            last = file.unit_at(min(file.start_of(unit) + _PART_BYTES, file.size_bytes) - 1)
            until = min(file.first_of(max(unit, last) + 1), at + stop - first)
            found.append((first, until - at))
            first += until - at
        return found

    def release(self) -> None:
        """Forgets open files and inflated members; they are opened again when they are needed.

        Pages of mapped files count as a process's memory as long as they are mapped.
        """
        with self._lock:
            self._maps.clear()
            self._members.clear()
            self._members_bytes = 0

    def close(self) -> None:
        """Forgets open files and deletes the spools that :meth:`open` has made."""
        self.release()
        for path in self._spools:
            storage.delete(path)
        self._spools = ()

    def __enter__(self) -> RecordFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files, "check": self._check}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["files"], check=state["check"])  # type: ignore[misc]

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._maps: OrderedDict[int, memoryview] = OrderedDict()
        self._members: OrderedDict[tuple[int, int], tuple[memoryview, Ints]] = OrderedDict()
        self._members_bytes = 0

    def _read(self, number: int, at: int, until: int, keep: bool) -> Iterator[memoryview]:
        file = self.files[number]
        unit, last = file.unit_of(at), file.unit_of(until - 1) + 1
        while unit < last:
            begin = file.start_of(unit)
            whole = begin + _BATCH_BYTES >= file.size_bytes
            stop = last if whole else min(last, max(unit + 1, file.unit_at(begin + _BATCH_BYTES)))
            block = self._stored(number, begin, file.start_of(stop))
            for k in range(unit, stop):
                stored = block[file.start_of(k) - begin : file.start_of(k + 1) - begin]
                if not file.gzip:
                    yield self._checked(number, k, stored)
                    continue
                first = file.first_of(k)
                data, offsets = self._member(number, k) if keep else self._inflated(number, k, stored)
                for i in range(max(first, at), min(first + len(offsets) - 1, until)):
                    start, end = offsets[i - first : i - first + 2].tolist()
                    yield self._checked(number, i, data[start:end])
            unit = stop

    def _stored(self, number: int, start: int, stop: int) -> memoryview:
        path = self.files[number].path
        if storage.is_remote(path):
            data = memoryview(storage.read_bytes(path, start, stop - start))
        else:
            with self._lock:
                view = self._maps.get(number)
                if view is None:
                    view = self._maps[number] = map_file(path)
                    if len(self._maps) > _OPEN_FILES:
                        self._maps.popitem(last=False)
                else:
                    self._maps.move_to_end(number)
            data = view[start:stop]
        if len(data) != stop - start:
            raise ReadFailed(
                f"{path}: ends at byte {start + len(data)}, and had byte {stop - 1} when its records were "
                "counted; it was replaced in the meantime"
            )
        return data

    def _member(self, number: int, unit: int) -> tuple[memoryview, Ints]:
        key = number, unit
        with self._lock:
            found = self._members.get(key)
            if found is not None:
                self._members.move_to_end(key)
                return found
        file = self.files[number]
        found = self._inflated(
            number, unit, self._stored(number, file.start_of(unit), file.start_of(unit + 1))
        )
        if len(found[1]) > 2:  # of one record nothing is left for the next
            with self._lock:
                if key not in self._members:
                    self._members[key] = found
                    self._members_bytes += len(found[0])
                while self._members_bytes > CACHE_BYTES and len(self._members) > 1:
                    _, (old, _) = self._members.popitem(last=False)
                    self._members_bytes -= len(old)
        return found

    def _inflated(self, number: int, unit: int, stored: memoryview) -> tuple[memoryview, Ints]:
        file = self.files[number]
        first = file.first_of(unit)
        try:
            data = inflate(stored)
            offsets = record_offsets(data, first=first)
            expected = file.first_of(unit + 1) - first
            if len(offsets) - 1 != expected:
                raise CorruptRecord(
                    f"a gzip member says {expected} records and holds {len(offsets) - 1}", byte=0
                )
        except CorruptRecord as error:
            byte = self._byte_of(number, unit)
            raise CorruptRecord(
                f"gzip member at stored byte {file.start_of(unit)}: {error.what}",
                file=file.name,
                record=first if error.record is None else error.record,
                byte=None if byte is None else byte + (error.byte or 0),
            ) from None
        return memoryview(data), offsets

    def _checked(self, number: int, record: int, framed: memoryview) -> memoryview:
        if self._check:
            try:
                check_data(framed[12:-4], framed[-4:])
            except CorruptRecord as error:
                name, byte = self.files[number].name, self._byte_of_record(number, record)
                raise CorruptRecord(error.what, file=name, record=record, byte=byte) from None
        return framed[12:-4]

    def _byte_of_record(self, number: int, record: int) -> int | None:
        file = self.files[number]
        unit = file.unit_of(record)
        if not file.gzip:
            return file.start_of(unit)
        start = self._byte_of(number, unit)
        _, offsets = self._member(number, unit)
        return None if start is None else start + int(offsets[record - file.first_of(unit)])

    def _byte_of(self, number: int, unit: int) -> int | None:
        """First byte of a member in the uncompressed stream, from the trailers of those before it."""
        file = self.files[number]
        if storage.is_remote(file.path):
            return None  # a request a member
        ends = (file.start_of(k + 1) for k in range(unit))
        return sum(int.from_bytes(self._stored(number, end - 4, end), "little") for end in ends)
