"""A local file that appears whole or not at all, and copies into it whose checksum is taken on the way."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from crc32c import crc32c as crc_of

from patchbeam.pool import Pool
from patchbeam.storage.base import (
    TEMPORARY,
    Buffer,
    Checksum,
    FileRange,
    as_bytes,
    slices,
    write_failed,
)
from patchbeam.storage.steps import opened, put, read_steps, whole, writing

_FILE_BUFFER = 1 << 20
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
        with opened(path) as source:
            what = whole(source, path) if isinstance(part, str) else part
            with self._counted("write"):
                self._file.flush()
            base = self.sum.size_bytes - what.start

            def work(chunk: tuple[int, int]) -> tuple[int, int]:
                return self._copy_chunk(source, what, chunk, base), chunk[1]

            chunks = slices(what.start, what.length)
            for crc, length in map(work, chunks) if pool is None else pool.map(work, chunks):
                self.sum.add_sum(crc, length)
            with self._counted("write"):
                self._file.seek(self.sum.size_bytes)

    def _copy_chunk(self, source: int, part: FileRange, chunk: tuple[int, int], base: int) -> int:
        """Copies some bytes to where they belong; returns their CRC-32C."""
        crc = 0
        for offset, data in read_steps(source, part, *chunk):
            crc = crc_of(data, crc)
            with self._counted(f"write {data.size} bytes"):
                put(self._file.fileno(), data, base + offset)
        return crc
