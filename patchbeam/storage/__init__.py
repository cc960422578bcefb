"""The one door to files: local paths and ``gs://bucket/name``.

Every function takes either kind of path. Failures are :class:`~patchbeam.errors.ReadFailed` and
:class:`~patchbeam.errors.WriteFailed`, whose message names the path and the reason and whose ``errno`` is
the system's (``ENOENT`` for an object that is not there). Files appear whole or not at all. Missing
folders are made when something is written. Cloud Storage's client is imported at the first ``gs://``
path; it honours ``STORAGE_EMULATOR_HOST``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from patchbeam.errors import JobError, ReadFailed
from patchbeam.storage import joining, steps
from patchbeam.storage.base import (
    CHUNK_BYTES,
    Buffer,
    FileRange,
    FileStat,
    Part,
    checked,
    crc32c_combine,
    crc32c_number,
    crc32c_text,
    is_remote,
    slices,
)
from patchbeam.storage.names import exists, join, list_folders, list_names, list_stats, side, split

__all__ = [
    "Buffer",
    "FileRange",
    "FileStat",
    "Part",
    "check_writable",
    "concat",
    "crc32c_combine",
    "crc32c_number",
    "crc32c_of",
    "crc32c_text",
    "create_new",
    "delete",
    "delete_tree",
    "exists",
    "free_bytes",
    "is_remote",
    "join",
    "list_folders",
    "list_names",
    "list_stats",
    "open_read",
    "read_bytes",
    "read_chunks",
    "rename",
    "split",
    "stat",
    "write_at",
    "write_atomic",
    "write_parts",
]


def stat(path: str) -> FileStat:
    """Returns size, time of change or etag, and in Cloud Storage the CRC-32C.

    Raises:
        ReadFailed: there is no such file (``errno`` is ``ENOENT``) or it cannot be looked at.
    """
    found: FileStat = side(path).stat(path)
    return found


def read_bytes(path: str, start: int = 0, length: int | None = None) -> bytes:
    """Returns ``length`` bytes from byte ``start``, or all that follow.

    At the end of the file there are fewer, and none past it; the caller knows how many it needs.

    Raises:
        ReadFailed: the file cannot be read.
    """
    if start < 0 or (length is not None and length < 0):
        raise ValueError(f"{path}: no range of {length} bytes from byte {start}")
    data: bytes = side(path).read_bytes(path, start, length)
    return data


def open_read(path: str) -> BinaryIO:
    """Returns a seekable binary file; a local one has a descriptor, so it can be mapped.

    Raises:
        ReadFailed: on opening, and from any read that fails later.
    """
    file: BinaryIO = side(path).open_read(path)
    return file


def read_chunks(path: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
    """Yields a range, or the rest, of a file in chunks of 8 MiB.

    Raises:
        ReadFailed: the file cannot be read, or ends before ``length`` bytes.
    """
    if length is None:
        length = max(0, stat(path).size_bytes - start)
    for begin, count in slices(start, length, CHUNK_BYTES):
        data = read_bytes(path, begin, count)
        if len(data) != count:
            raise ReadFailed(
                f"{path}: {length} bytes are wanted from byte {start}, but the file ends at byte "
                f"{begin + len(data)}; it was cut short or replaced"
            )
        yield data


def write_atomic(path: str, data: Buffer) -> FileStat:
    """Writes a file that appears whole or not at all, in the place of one that is there.

    Locally it is written beside its place and moved into it; the disk is not waited for.

    Raises:
        WriteFailed: it cannot be written; what was there before is untouched.
    """
    return write_parts(path, [data])


def create_new(path: str, data: Buffer) -> None:
    """Writes a file, whole at once, unless there is one already: of two writers one succeeds.

    Raises:
        OutputExists: there is one (also a ``FileExistsError``).
        WriteFailed: it cannot be written.
    """
    side(path).create_new(path, data)


def write_parts(path: str, buffers: Iterable[Buffer]) -> FileStat:
    """Writes buffers one after the other into a new file, as they come; it appears when all are in it.

    A buffer may be used again once the next one is asked for. What ``buffers`` raises goes through, and
    no file is left.

    Returns:
        size and CRC-32C of what was written.

    Raises:
        WriteFailed: it cannot be written, for instance because the disk is full.
    """
    written: FileStat = side(path).write_parts(path, buffers)
    return written


def write_at(path: str, start: int, data: Buffer) -> None:
    """Writes bytes into a local file from byte ``start`` on; what else it holds stays, none there is made.

    Unlike what the other functions write, the file is there while it is not whole.

    Raises:
        WriteFailed: they cannot be written; some of them may have been.
    """
    steps.write_at(path, start, data)


def concat(parts: Sequence[Part], destination: str, *, consume: bool = False, threads: int = 1) -> FileStat:
    """Joins parts (whole files, ranges of files, bytes) into one file that appears whole.

    Local parts are copied, and their checksum is taken on the way. In Cloud Storage whole objects of the
    same bucket are composed where they are, at most 32 a call and again over the results; ranges and bytes
    are uploaded.

    Args:
        parts: in order.
        destination: the new file; it may replace one.
        consume: a destination that is exactly one whole local file becomes that file, without a copy;
            the piece may be gone afterwards, or be the same file under two names.
        threads: that copy local parts.

    Returns:
        size of the new file; its ``crc32c`` where bytes were copied or the store reports it.

    Raises:
        ReadFailed: a part is missing, or a range reaches past the end of its file.
        WriteFailed: the destination cannot be written.
    """
    pieces = [checked(part) for part in parts]
    if is_remote(destination):
        from patchbeam.storage import gcs

        return gcs.concat(pieces, destination, fetch=read_chunks)
    return joining.concat(pieces, destination, consume=consume, fetch=read_chunks, threads=threads)


def rename(source: str, destination: str) -> None:
    """Moves a file over ``destination``; in Cloud Storage by a copy inside the store.

    Raises:
        JobError: one path is local and the other is not.
        WriteFailed: it cannot be moved.
    """
    if is_remote(source) != is_remote(destination):
        raise JobError(f"{source} cannot be renamed to {destination}: one of them is in Cloud Storage")
    side(source).rename(source, destination)


def delete(path: str) -> None:
    """Deletes a file; it is no error that there is none.

    Raises:
        WriteFailed: it cannot be deleted.
    """
    side(path).delete(path)


def delete_tree(folder: str) -> None:
    """Deletes a folder and everything in it; it is no error that there is none.

    Raises:
        ValueError: the folder is a whole bucket or disk, or holds the working folder.
        WriteFailed: something in it cannot be deleted.
    """
    side(folder).delete_tree(folder)


def free_bytes(folder: str) -> int | None:
    """Returns how many bytes can still be written in a folder, or where it would be made.

    ``None`` where that is not known: in Cloud Storage always.
    """
    free: int | None = side(folder).free_bytes(folder)
    return free


def check_writable(prefix: str) -> None:
    """Makes sure that files with this prefix can be written, by writing and deleting a small one.

    A folder that is missing is not made yet: the nearest one above it is tried.

    Raises:
        OutputUnusable: they cannot, and why: no permission, a file in the place of a folder, a read-only
            or full file system, no such bucket, no credentials.
    """
    side(prefix).check_writable(prefix)


def crc32c_of(path: str, *, threads: int = 1) -> str:
    """Returns the CRC-32C of a file's content in base64; a local file is read, Cloud Storage is asked.

    Args:
        path: the file.
        threads: that read a local file.

    Raises:
        ReadFailed: the file cannot be read.
    """
    return stat(path).crc32c or steps.crc32c_of(path, threads)
