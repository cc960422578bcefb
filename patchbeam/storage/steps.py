"""Bytes of local files a step at a time: read and summed, or put where they belong in a file that stands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
from crc32c import crc32c as crc_of
from numpy.typing import NDArray

from patchbeam.pool import Pool
from patchbeam.storage.base import (
    Buffer,
    Checksum,
    FileRange,
    as_bytes,
    ended_early,
    read_failed,
    slices,
    write_failed,
)

_STEP = 1 << 20
"""Bytes that are read, summed and written while they are in the processor's cache."""


def reading(path: str, what: str = "read") -> AbstractContextManager[None]:
    """Turns an ``OSError`` into a ``ReadFailed`` that names the file."""
    return _named(read_failed, path, what)


def writing(path: str, what: str = "write") -> AbstractContextManager[None]:
    """Turns an ``OSError`` into a ``WriteFailed`` that names the file."""
    return _named(write_failed, path, what)


@contextmanager
def _named(failed: Callable[[str, str, OSError], Exception], path: str, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise failed(path, what, error) from error


@contextmanager
def opened(path: str) -> Iterator[int]:
    """Opens a file to be read; gives its descriptor."""
    with reading(path, "open"):
        source = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        yield source
    finally:
        os.close(source)


def whole(source: int, path: str) -> FileRange:
    """Returns all that an open file holds."""
    with reading(path):
        return FileRange(path=path, start=0, length=os.fstat(source).st_size)


def read_steps(
    source: int, part: FileRange, start: int, length: int
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yields (offset, bytes) of some bytes of an open file, in order, in a buffer that is used again.

    Args:
        source: the descriptor.
        part: the range that is read in the end; an error names it.
        start: the first byte of it that is wanted here.
        length: number of bytes.

    Raises:
        ReadFailed: they cannot be read, or the file ends before.
    """
    buffer, done = np.empty(min(length, _STEP), np.uint8), 0
    while done < length:
        view = buffer[: length - done]
        with reading(part.path):
            got = os.preadv(source, [view.data], start + done)
        if not got:
            raise ended_early(part, start + done - part.start)
        yield start + done, view[:got]
        done += got


def put(target: int, data: NDArray[np.uint8], at: int) -> None:
    """Writes bytes where they belong in an open file; what fails is an ``OSError``."""
    done = 0
    while done < data.size:
        done += os.pwrite(target, data[done : done + (1 << 30)].data, at + done)


def write_at(path: str, start: int, data: Buffer) -> None:
    """Writes bytes from byte ``start`` of a file on, which is made when there is none."""
    with writing(path, "create"):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        target = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    view = as_bytes(data)
    try:
        with writing(path, f"write {view.size} bytes from byte {start} on"):
            put(target, view, start)
    finally:
        with writing(path):
            os.close(target)


def crc32c_of(path: str, threads: int) -> str:
    """Returns the CRC-32C of a file in base64; ``threads`` read chunks of it side by side."""
    total = Checksum()
    with opened(path) as source, Pool(threads) as pool:
        part = whole(source, path)

        def summed(chunk: tuple[int, int]) -> tuple[int, int]:
            crc = 0
            for _, data in read_steps(source, part, *chunk):
                crc = crc_of(data, crc)
            return crc, chunk[1]

        for crc, length in pool.map(summed, slices(0, part.length)):
            total.add_sum(crc, length)
    return total.text
