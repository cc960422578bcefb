"""A local file that appears whole or not at all, and copies into it whose checksum is taken on the way."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

import numpy as np
from crc32c import crc32c as crc_of

from patchbeam.pool import Pool
from patchbeam.storage.base import (
    TEMPORARY,
    Buffer,
    Checksum,
    FileRange,
    as_bytes,
    ended_early,
    read_failed,
    slices,
    write_failed,
)

_FILE_BUFFER = 1 << 20
_STEP = 1 << 20
"""Bytes that are read, summed and written while they are in the processor's cache."""

# What a kernel or file system says that cannot do what was asked, though a plainer way would work.
UNSUPPORTED = {
    errno.EXDEV,
    errno.ENOSYS,
    errno.EINVAL,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.EBADF,
    errno.EMLINK,
    errno.ETXTBSY,
}


@contextmanager
def reading(path: str, what: str = "read") -> Iterator[None]:
    """Turns an ``OSError`` into a ``ReadFailed`` that names the file."""
    try:
        yield
    except OSError as error:
        raise read_failed(path, what, error) from error


@contextmanager
def writing(path: str, what: str = "write") -> Iterator[None]:
    """Turns an ``OSError`` into a ``WriteFailed`` that names the file."""
    try:
        yield
    except OSError as error:
        raise write_failed(path, what, error) from error


class Replacing:
    """Writes a temporary file in the destination's folder; takes its place when all went well."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.sum = Checksum()
        folder = os.path.dirname(path)
        self._temporary = os.path.join(folder, f"{TEMPORARY}{secrets.token_hex(8)}.tmp")
        with writing(path, "create"):
            os.makedirs(folder or ".", exist_ok=True)
            self._file = open(self._temporary, "xb", _FILE_BUFFER)  # noqa: SIM115 - closed in __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with self._counted("write"):
                self._file.close()
            if kind is None:
                with writing(self.path, "put in place"):
                    os.replace(self._temporary, self.path)
        except OSError:
            if kind is None:
                raise
        finally:
            with suppress(OSError):
                os.unlink(self._temporary)

    @contextmanager
    def _counted(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            done = f"{what} (after {self.sum.size_bytes} bytes)"
            raise write_failed(self.path, done, error) from error

    def write(self, data: Buffer) -> None:
        """Adds bytes, and counts them into the checksum."""
        view = as_bytes(data)
        with self._counted(f"write {view.size} bytes"):
            self._file.write(view.data)
        self.sum.add(view)

    def copy(self, part: FileRange | str, pool: Pool | None = None) -> None:
        """Adds a range or a whole file, and counts it into the checksum.

        Args:
            part: what is copied.
            pool: threads that copy chunks of it side by side.
        """
        path = part if isinstance(part, str) else part.path
        with reading(path, "open"):
            source = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            if isinstance(part, str):
                with reading(path):
                    part = FileRange(path=path, start=0, length=os.fstat(source).st_size)
            with self._counted("write"):
                self._file.flush()
            whole, base = part, self.sum.size_bytes - part.start

            def work(chunk: tuple[int, int]) -> tuple[int, int]:
                return self._copy_chunk(source, whole, chunk, base), chunk[1]

            chunks = slices(part.start, part.length)
            for crc, length in map(work, chunks) if pool is None else pool.map(work, chunks):
                self.sum.add_sum(crc, length)
            with self._counted("write"):
                self._file.seek(self.sum.size_bytes)
        finally:
            os.close(source)

    def _copy_chunk(self, source: int, part: FileRange, chunk: tuple[int, int], base: int) -> int:
        """Copies some bytes to where they belong; returns their CRC-32C."""
        start, length = chunk
        buffer, crc, done = np.empty(min(length, _STEP), np.uint8), 0, 0
        while done < length:
            view = buffer[: length - done]
            with reading(part.path):
                got = os.preadv(source, [view.data], start + done)
            if not got:
                raise ended_early(part, start + done - part.start)
            view = view[:got]
            crc = crc_of(view, crc)
            written = 0
            while written < got:
                with self._counted(f"write {got} bytes"):
                    written += os.pwrite(
                        self._file.fileno(), view[written:].data, base + start + done + written
                    )
            done += got
        return crc
