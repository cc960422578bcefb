"""Gzip files that cannot be sought, read once from their start: inflated as their records are asked for.

Nothing is written to disk. Several threads take turns, in the order of what they ask for; a thread that waits
inflates the next file meanwhile, into memory, so that two threads read two files.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

from patchbeam.errors import CorruptRecord
from patchbeam.records.tfrecord import read_records

AHEAD_BYTES = 128 << 20
"""Most bytes of records that are inflated before they are asked for, over all files of a set."""
_STEP_BYTES = 1 << 20
# A batch that starts further ahead than so many of its size is no reading in order.
_GAP_BATCHES = 8


class Stream:
    """The records of one file, one after the other. One thread at a time moves it.

    Attributes:
        position: number of the record that is inflated next.
        ended: whether the file was read to its end, so that ``position`` is how many records it has.
        busy: whether a thread moves it.
        kept: records that were inflated before they were asked for.
        dropped: whether nothing more is to be kept.
    """

    def __init__(self, path: str, name: str) -> None:
        """Of the local file ``path``, called ``name`` in errors; opens it when its first record is needed."""
        self.position = 0
        self.ended = False
        self.busy = self.dropped = False
        self.kept: dict[int, bytes] = {}
        self._error: Exception | None = None
        self._records: Iterator[memoryview] | None = None
        self._path = path
        self._name = name

    def next(self) -> memoryview | None:
        """Returns the next record, good until the next call; ``None`` at the end.

        Raises:
            CorruptRecord: it is damaged; with file, record and byte. So does every later call.
        """
        if self._error is not None:
            raise _again(self._error)
        if self.ended:
            return None
        if self._records is None:
            self._records = read_records(self._path, name=self._name, reuse=True)
        try:
            data = next(self._records, None)
        except Exception as error:
            self._error, self._records = error, None
            raise _again(error) from None
        if data is None:
            self.ended, self._records = True, None
        else:
            self.position += 1
        return data

    @property
    def going(self) -> bool:
        """Whether there may be more to inflate."""
        return not self.ended and self._error is None


class InOrder:
    """The streams of a set of files, and who may move them. Threads share it.

    Attributes:
        streams: of the files that are being read in order, by their number.
    """

    def __init__(self, start: Callable[[int], Stream | None], count: int) -> None:
        """Of ``count`` files; ``start(at)`` makes the stream of a file, if it can be one."""
        self._start = start
        self._count = count
        self._begin()

    def _begin(self) -> None:
        self.streams: dict[int, Stream | None] = {}
        self._turn = threading.Condition()
        self._waiting: dict[int, list[int]] = {}
        self._kept_bytes = 0
        self._process = os.getpid()

    def take(self, at: int, first: int, count: int, *, last: bool) -> Generator[memoryview, None, int]:
        """Yields records of a file, from ``first``. Close it, so that the next thread gets its turn.

        Args:
            at: the file.
            first: number of the record in it.
            count: of records.
            last: whether the file has to end with them.

        Returns:
            How many there were: fewer than ``count`` where the file ends before (then its stream says so), is
            not read in order, or does not end where it should.

        Raises:
            CorruptRecord: the next record is damaged, or the end of the file; with file, record and byte.
        """
        stream = self._acquire(at, first, count)
        if stream is None:
            return 0
        try:
            for number in range(first, first + count):
                data = self._reach(stream, number)
                if data is None:
                    return number - first
                if last and number == first + count - 1:
                    data = memoryview(bytes(data))
                    if stream.position > number + 1 or stream.next() is not None:
                        return number - first
                yield data
            return count
        finally:
            with self._turn:
                stream.busy = False
                self._turn.notify_all()

    def _reach(self, stream: Stream, number: int) -> memoryview | None:
        while stream.position < number:
            if not self._keep(stream, number):
                return None
        with self._turn:
            kept = stream.kept.pop(number, None)
            if kept is not None:
                self._kept_bytes -= len(kept)
                return memoryview(kept)
        return stream.next() if stream.position == number else None

    def peek(self, at: int) -> bytes | None:
        """Returns the first record of a file, which stays there for who reads in order."""
        stream = self._acquire(at, 0, 1)
        if stream is None:
            return None
        try:
            if stream.position == 0:
                self._keep(stream, 1)
            return stream.kept.get(0)
        finally:
            with self._turn:
                stream.busy = False
                self._turn.notify_all()

    def drop(self, at: int) -> None:
        """Forgets the stream of a file."""
        with self._turn:
            stream = self.streams.get(at)
            self.streams[at] = None
            if stream is not None:
                self._kept_bytes -= sum(map(len, stream.kept.values()))
                stream.kept, stream.dropped = {}, True
            self._turn.notify_all()

    def _acquire(self, at: int, first: int, count: int) -> Stream | None:
        """Waits for the turn of who asks for record ``first`` of a file, and is useful meanwhile."""
        if self._process != os.getpid():
            self._begin()  # a forked process shares the place in open files with the one it comes from
        with self._turn:
            waiting = self._waiting.setdefault(at, [])
            waiting.append(first)
        try:
            while True:
                with self._turn:
                    stream = self._stream(at)
                    if stream is None:
                        return None
                    # while it is moved, a record may have been inflated and not be kept yet
                    if not stream.busy:
                        if not self._in_order(stream, first, count):
                            return None
                        if first == min(waiting):
                            stream.busy = True
                            return stream
                    ahead = self._ahead(at)
                    if ahead is None:
                        self._turn.wait()
                        continue
                try:
                    with suppress(Exception):  # told to whoever asks for that record
                        self._keep(ahead)
                finally:
                    with self._turn:
                        ahead.busy = False
                        self._turn.notify_all()
        finally:
            with self._turn:
                waiting.remove(first)
                self._turn.notify_all()

    def _in_order(self, stream: Stream, first: int, count: int) -> bool:
        return first in stream.kept or 0 <= first - stream.position <= _GAP_BATCHES * count

    def _stream(self, at: int) -> Stream | None:
        if at not in self.streams:
            self.streams[at] = self._start(at)
        return self.streams[at]

    def _ahead(self, after: int) -> Stream | None:
        """Returns the stream of a later file, now busy, that can be inflated meanwhile."""
        if self._kept_bytes > AHEAD_BYTES - _STEP_BYTES:
            return None
        for at in range(after + 1, self._count):
            stream = self._stream(at)
            if stream is None:
                return None
            if stream.going and not stream.busy:
                stream.busy = True
                return stream
        return None

    def _keep(self, stream: Stream, until: int | None = None) -> bool:
        """Inflates about a MiB of records, or up to a record; whether there was any, and room for it."""
        size = 0
        while size < _STEP_BYTES and stream.position != until:
            number = stream.position
            data = stream.next() if self._kept_bytes <= AHEAD_BYTES else None
            if data is None:
                break
            size += len(data)
            with self._turn:
                if not stream.dropped:
                    stream.kept[number] = bytes(data)
                    self._kept_bytes += len(data)
        return size > 0


def _again(error: Exception) -> Exception:
    """Returns an error for one more who asks, without what others have noted on it."""
    if isinstance(error, CorruptRecord):
        return CorruptRecord(error.what, file=error.file, record=error.record, byte=error.byte)
    return error
