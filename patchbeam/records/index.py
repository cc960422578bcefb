"""Where the records of one file lie, found without keeping or decoding any of them.

Plain files are walked from header to header, indexed gzip files from member to member, and a gzip
file that cannot be sought is inflated once into a plain one (its *spool*), which is walked on the way.
"""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from patchbeam import storage
from patchbeam.errors import CorruptRecord
from patchbeam.records.gzip import iter_members, sniff
from patchbeam.records.inflate import inflated
from patchbeam.records.layout import FRAME_BYTES
from patchbeam.records.tfrecord import record_length
from patchbeam.records.view import REMOTE_BYTES, FileView, map_file

__all__ = ["FileIndex", "Ints", "index_file", "map_file"]

Ints = NDArray[np.int64]

_HEAD = 12
_ROWS = 1 << 16


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileIndex:
    """Where the records of one file lie. A *unit* is a record of a plain file, a member of a gzip file.

    Attributes:
        name: of the file, as given.
        path: of the file to read from: the same, or the spool of a gzip file that cannot be sought.
        size_bytes: of the file at ``path``.
        gzip: whether units are indexed gzip members.
        records: how many there are.
        record_size: bytes of every framed record where all are equal in a plain file, else 0.
        offsets: ``(units + 1,)`` where each unit starts and the last one ends; empty where
            ``record_size`` says it.
        firsts: ``(units + 1,)`` number of the first record of each member; empty for plain files.
    """

    name: str
    path: str
    size_bytes: int
    gzip: bool
    records: int
    record_size: int = 0
    offsets: Ints = field(default_factory=_none)
    firsts: Ints = field(default_factory=_none)

    @property
    def spooled(self) -> bool:
        """Whether the records are read from a copy that was made for it."""
        return self.path != self.name

    def unit_of(self, record: int) -> int:
        """Returns the unit that holds a record."""
        return int(np.searchsorted(self.firsts, record, "right")) - 1 if self.gzip else record

    def first_of(self, unit: int) -> int:
        """Returns the first record of a unit, or after the last unit the number of records."""
        return int(self.firsts[unit]) if self.gzip else unit

    def start_of(self, unit: int) -> int:
        """Returns the first byte of a unit in the file at ``path``, or after the last unit its end."""
        return unit * self.record_size if self.record_size else int(self.offsets[unit])

    def unit_at(self, byte: int) -> int:
        """Returns the unit that holds a byte of the file at ``path``."""
        if self.record_size:
            return byte // self.record_size
        return int(np.searchsorted(self.offsets, byte, "right")) - 1


def index_file(name: str, *, spool_folder: str, members: tuple[Ints, Ints] | None = None) -> FileIndex:
    """Finds the records of a file; their data is neither kept nor checked.

    Args:
        name: a local path or ``gs://``.
        spool_folder: where a gzip file that cannot be sought is inflated to.
        members: bytes and number of records of each member of an indexed gzip file where they are
            known; nothing of the file is then read.

    Raises:
        CorruptRecord: with the file, the number of the record and the byte of the uncompressed stream.
        ReadFailed: the file cannot be read.
    """
    size = storage.stat(name).size_bytes
    if members is not None:
        return _from_members(name, size, *members)
    view = FileView(name, size)
    try:
        form = sniff(bytes(view.at(0, _HEAD)))
        if form == "plain":
            return _walk_plain(name, view)
    except CorruptRecord as error:
        raise CorruptRecord(error.what, file=name, record=error.record, byte=error.byte) from None
    try:
        return _walk_members(name, view)
    except CorruptRecord:
        # Members of another tool among ours, or damage: the inflater tells which, and where.
        return _spool(name, storage.join(spool_folder, _spool_name(name)))


def _spool_name(name: str) -> str:
    # The attempt suffix keeps a repeated task off the file that the first one may still be read from.
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"spool-{digest}-{uuid.uuid4().hex[:8]}.tfrecord"


def _walk_plain(name: str, view: FileView) -> FileIndex:
    uniform = _uniform(view)
    if uniform:
        return FileIndex(
            name=name,
            path=name,
            size_bytes=view.size,
            gzip=False,
            records=view.size // uniform,
            record_size=uniform,
        )
    offsets = [0]
    position = 0
    while position < view.size:
        try:
            length = record_length(view.at(position, _HEAD), view.size - position - _HEAD)
        except CorruptRecord as error:
            raise CorruptRecord(error.what, record=len(offsets) - 1, byte=position) from None
        position += length + FRAME_BYTES
        offsets.append(position)
    return _plain(name, name, view.size, offsets)


def _uniform(view: FileView) -> int:
    """Size of the framed records when all headers of a local file are the same bytes, else 0."""
    whole = view.whole
    if whole is None or len(whole) < _HEAD:
        return 0
    try:
        size = record_length(whole[:_HEAD], len(whole) - _HEAD) + FRAME_BYTES
    except CorruptRecord:
        return 0  # the walk reports it in its place
    if len(whole) % size:
        return 0
    rows = np.frombuffer(whole, np.uint8).reshape(-1, size)[:, :_HEAD]
    same = all(bool((rows[at : at + _ROWS] == rows[0]).all()) for at in range(0, len(rows), _ROWS))
    return size if same else 0


def _plain(name: str, path: str, size: int, offsets: list[int]) -> FileIndex:
    starts = np.array(offsets, np.int64)
    sizes = np.diff(starts)
    if sizes.size and int(sizes.min()) == int(sizes.max()):
        return FileIndex(
            name=name,
            path=path,
            size_bytes=size,
            gzip=False,
            records=sizes.size,
            record_size=int(sizes[0]),
        )
    return FileIndex(name=name, path=path, size_bytes=size, gzip=False, records=sizes.size, offsets=starts)


def _walk_members(name: str, view: FileView) -> FileIndex:
    members = list(iter_members(view, name=name))
    sizes = np.array([member.size for member in members], np.int64)
    records = np.array([member.records for member in members], np.int64)
    return _from_members(name, view.size, sizes, records)


def _from_members(name: str, size: int, sizes: Ints, records: Ints) -> FileIndex:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(records, dtype=np.int64)])
    if int(offsets[-1]) != size:
        raise CorruptRecord(
            f"the file has {size} bytes and its index says {int(offsets[-1])}: it was cut short or replaced",
            file=name,
        )
    return FileIndex(
        name=name,
        path=name,
        size_bytes=size,
        gzip=True,
        records=int(firsts[-1]),
        offsets=offsets,
        firsts=firsts,
    )


def _spool(name: str, path: str) -> FileIndex:
    walk = _Walk()
    try:
        stat = storage.write_parts(path, walk.through(_inflated(name)))
        walk.end()
    except CorruptRecord as error:
        storage.delete(path)
        record, byte = walk.unfinished()
        raise CorruptRecord(error.what, file=name, record=record, byte=byte) from None
    return _plain(name, path, stat.size_bytes, walk.offsets)


def _inflated(name: str) -> Iterator[bytes]:
    raw = storage.open_read(name)
    with io.BufferedReader(raw, REMOTE_BYTES) if storage.is_remote(name) else raw as file:  # type: ignore[type-var]
        yield from inflated(file)


class _Walk:
    """Walks the record headers of a stream that passes by."""

    def __init__(self) -> None:
        self.offsets = [0]
        self._head = b""  # of a header that a chunk has cut
        self._next = 0  # where the next header starts
        self._seen = 0

    def through(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._add(chunk)
            yield chunk

    def _add(self, chunk: bytes) -> None:
        start = self._seen
        self._seen += len(chunk)
        while self._next < self._seen:
            at = self._next + len(self._head) - start
            head = self._head + chunk[at : at + _HEAD - len(self._head)]
            if len(head) < _HEAD:
                self._head = head
                break
            self._next += record_length(head) + FRAME_BYTES
            self._head = b""
            self.offsets.append(self._next)

    def end(self) -> None:
        """Refuses a stream that ends inside a record."""
        _, start = self.unfinished()
        if self._seen > start and not self._head:
            raise CorruptRecord(f"the data ends at byte {self._seen}, inside a record")
        if self._head:
            raise CorruptRecord(
                f"the data ends inside a record header, after {len(self._head)} of its {_HEAD} bytes"
            )

    def unfinished(self) -> tuple[int, int]:
        """Number and first byte of the first record that is not whole yet."""
        complete = len(self.offsets) - (2 if self._next > self._seen else 1)
        return complete, self.offsets[complete]
