"""A local file that appears whole or not at all, and fast copies into it."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from patchbeam.storage.base import (
    CHUNK_BYTES,
    TEMPORARY,
    Buffer,
    Checksum,
    FileRange,
    as_bytes,
    ended_early,
    read_failed,
    write_failed,
)

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

    def copy(self, part: FileRange | str) -> None:
        """Copies a range or a whole file inside the kernel where it can; no checksum is taken."""
        path = part if isinstance(part, str) else part.path
        with reading(path, "open"):
            source = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            if isinstance(part, str):
                with reading(path):
                    part = FileRange(path=path, start=0, length=os.fstat(source).st_size)
            with self._counted("write"):
                self._file.flush()
            done = 0
            while done < part.length:
                got = self._copy_some(source, part, done)
                if not got:
                    raise ended_early(part, done)
                done += got
                self.sum.size_bytes += got
        finally:
            os.close(source)

    def _copy_some(self, source: int, part: FileRange, done: int) -> int:
        start, wanted = part.start + done, min(part.length - done, 1 << 30)
        target = self._file.fileno()
        for copy in (_copy_file_range, _sendfile):
            try:
                if got := copy(source, target, wanted, start):
                    return got
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise write_failed(self.path, f"copy {wanted} bytes of {part.path}", error) from error
        with reading(part.path):
            data = os.pread(source, min(wanted, CHUNK_BYTES), start)
        with self._counted(f"write {len(data)} bytes"):
            self._file.write(data)
            self._file.flush()
        return len(data)


def _copy_file_range(source: int, target: int, count: int, start: int) -> int:
    if not hasattr(os, "copy_file_range"):
        return 0
    return os.copy_file_range(source, target, count, offset_src=start)


def _sendfile(source: int, target: int, count: int, start: int) -> int:
    if not hasattr(os, "sendfile"):
        return 0
    return os.sendfile(target, source, start, count)
