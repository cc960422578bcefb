"""Bytes of a record file by place: a local file is mapped, a remote one read in large ranges."""

from __future__ import annotations

import mmap

from patchbeam import storage
from patchbeam.errors import ReadFailed

REMOTE_BYTES = 8 << 20
"""Fewest bytes of one request."""


def map_file(path: str) -> memoryview:
    """Returns a local file's bytes; the mapping lives as long as a view of it.

    Raises:
        ReadFailed: it cannot be opened or mapped.
    """
    with storage.open_read(path) as file:
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError:
            return memoryview(b"")  # an empty file cannot be mapped
        except OSError as error:
            raise ReadFailed(f"{path}: cannot be mapped into memory: {error}") from error


class FileView:
    """The bytes of a file whose size is known.

    Args:
        path: local or ``gs://``.
        size: bytes of the file.
    """

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self.size = size
        self._remote = storage.is_remote(path)
        self._start = 0
        self._kept = memoryview(b"") if self._remote else map_file(path)
        if not self._remote:
            self.size = len(self._kept)

    @property
    def whole(self) -> memoryview | None:
        """All bytes of a local file."""
        return None if self._remote else self._kept

    def at(self, position: int, length: int) -> memoryview:
        """Returns bytes of the file, fewer at its end."""
        at = position - self._start
        if self._remote and (at < 0 or at + length > len(self._kept)) and position < self.size:
            self._kept = memoryview(storage.read_bytes(self._path, position, max(length, REMOTE_BYTES)))
            self._start, at = position, 0
        return self._kept[at : at + length]
