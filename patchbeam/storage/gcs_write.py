"""Writing objects: streamed uploads, uploads on a condition, composing on the side of the store."""

from __future__ import annotations

import errno
import io
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
from google.cloud.storage.retry import DEFAULT_RETRY

from patchbeam.errors import OutputExists, WriteFailed
from patchbeam.storage.base import (
    TEMPORARY,
    Buffer,
    Checksum,
    FileRange,
    FileStat,
    Piece,
    ReadChunks,
    as_bytes,
    is_remote,
    write_failed,
)
from patchbeam.storage.gcs_client import FAILURES, blob_of, error_number, names_of, reading, stat_of, writing

_UPLOAD_CHUNK = 16 << 20  # a multiple of 256 KiB, as resumable uploads ask for
_MOST_COMPOSED = 32  # objects a compose call takes
_THREADS = 8  # fewer than the connections that a client keeps


class _Stream(io.RawIOBase):
    """Buffers as a file that an upload reads from; counts and sums what passes."""

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        self._buffers = iter(buffers)
        self._left = np.zeros(0, np.uint8)
        self._head = b""
        self._position = 0
        self.sum = Checksum()

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def push_back(self, head: bytes) -> None:
        """Starts again with the bytes that the one read so far has given."""
        self._head, self._position = head, 0

    def read(self, size: int = -1) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            self._position += len(head)
            return head
        parts: list[bytes] = []
        wanted = size if size >= 0 else 1 << 62
        while wanted:
            if not self._left.size:
                data = next(self._buffers, None)
                if data is None:
                    break
                self._left = as_bytes(data)
                self.sum.add(self._left)
                continue
            taken, self._left = self._left[:wanted], self._left[wanted:]
            parts.append(taken.tobytes())  # a copy: the buffer may be used again by its owner
            wanted -= taken.size
        data = b"".join(parts)
        self._position += len(data)
        return data


def write_parts(path: str, buffers: Iterable[Buffer]) -> FileStat:
    """Uploads buffers as one object; no object is made when one of them fails."""
    stream = _Stream(buffers)
    first = stream.read(_UPLOAD_CHUNK)
    with writing(path):
        if len(first) < _UPLOAD_CHUNK:
            blob = blob_of(path)
            blob.upload_from_string(first, content_type="application/octet-stream", retry=DEFAULT_RETRY)
        else:
            blob = blob_of(path, chunk_size=_UPLOAD_CHUNK)
            stream.push_back(first)
            blob.upload_from_file(stream, content_type="application/octet-stream", retry=DEFAULT_RETRY)
        blob.reload()
    if blob.crc32c != stream.sum.text or int(blob.size) != stream.sum.size_bytes:
        raise WriteFailed(
            f"{path}: {stream.sum.size_bytes} bytes with CRC-32C {stream.sum.text} were sent, but the store "
            f"has {blob.size} with {blob.crc32c}; they were damaged on the way, or two jobs write this object"
        )
    return stat_of(blob)


def create_new(path: str, data: Buffer) -> None:
    """Uploads an object on the condition that there is none."""
    content = as_bytes(data).tobytes()
    try:
        blob_of(path).upload_from_string(
            content, content_type="application/octet-stream", if_generation_match=0, retry=DEFAULT_RETRY
        )
    except FAILURES as error:
        if error_number(error) != errno.EEXIST:
            raise write_failed(path, "create", error, error_number(error)) from error
        # Our own first try may have got there and only its answer been lost.
        with reading(path):
            there = blob_of(path).download_as_bytes(raw_download=True, retry=DEFAULT_RETRY)
        if there != content:
            raise OutputExists(f"{path}: exists already") from error


def concat(pieces: Sequence[Piece], destination: str, *, fetch: ReadChunks) -> FileStat:
    """Composes whole objects of the same bucket; the rest is uploaded for it under a temporary name."""
    bucket = names_of(destination)[0]
    folder = f"{destination.rpartition('/')[0]}/{TEMPORARY}{secrets.token_hex(8)}"
    made: list[str] = []

    def temporary() -> str:
        made.append(f"{folder}/{len(made)}")
        return made[-1]

    def stays(piece: Piece) -> bool:
        return isinstance(piece, str) and is_remote(piece) and names_of(piece)[0] == bucket

    if not any(stays(piece) for piece in pieces):
        return write_parts(destination, _contents(pieces, fetch))
    try:
        sources: list[str] = []
        pending: list[Piece] = []
        for piece in [*pieces, None]:
            if piece is not None and not stays(piece):
                pending.append(piece)
                continue
            if pending:  # neighbours that have to be uploaded go up as one object
                sources.append(temporary())
                write_parts(sources[-1], _contents(pending, fetch))
                pending = []
            if isinstance(piece, str):
                sources.append(piece)
        while len(sources) > _MOST_COMPOSED:
            groups = [sources[i : i + _MOST_COMPOSED] for i in range(0, len(sources), _MOST_COMPOSED)]
            sources = [group[0] if len(group) == 1 else _compose(group, temporary()) for group in groups]
        _compose(sources, destination)
        blob = blob_of(destination)
        with reading(destination, "look at"):
            blob.reload()
        return stat_of(blob)
    finally:
        with suppress(WriteFailed):  # what is left under a temporary name harms nobody
            delete_all(made)


def _contents(pieces: Sequence[Piece], fetch: ReadChunks) -> Iterator[Buffer]:
    for piece in pieces:
        if isinstance(piece, np.ndarray):
            yield piece
        elif isinstance(piece, FileRange):
            yield from fetch(piece.path, piece.start, piece.length)
        else:
            yield from fetch(piece, 0, None)


def _compose(sources: Sequence[str], destination: str) -> str:
    target = blob_of(destination)
    target.content_type = "application/octet-stream"
    with writing(destination, f"compose {len(sources)} objects from {sources[0]} to {sources[-1]}"):
        # Composing the same objects again gives the same one, so a retry needs no precondition.
        target.compose([blob_of(source) for source in sources], retry=DEFAULT_RETRY)
    return destination


def delete(path: str) -> None:
    """Deletes an object; none there is no error."""
    blob = blob_of(path)
    try:
        with writing(path, "delete"):
            blob.delete(retry=DEFAULT_RETRY)
    except WriteFailed as error:
        if error.errno != errno.ENOENT:
            raise


def delete_all(paths: Sequence[str]) -> None:
    """Deletes objects, several at a time."""
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(delete, paths):
            pass
