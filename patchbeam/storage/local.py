"""Files of the local file system. Called through :mod:`patchbeam.storage`."""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, BinaryIO

from patchbeam.errors import OutputExists, OutputUnusable, ReadFailed
from patchbeam.storage.base import (
    TEMPORARY,
    Buffer,
    FileStat,
    read_failed,
    reason,
    write_failed,
)
from patchbeam.storage.replace import UNSUPPORTED, Replacing
from patchbeam.storage.steps import reading, writing


def list_names(prefix: str) -> list[str]:
    """Files of one folder whose path starts with ``prefix``, sorted."""
    folder, base = os.path.split(prefix)
    try:
        with os.scandir(folder or ".") as entries:
            names = [
                entry.name
                for entry in entries
                if entry.name.startswith(base) and not entry.name.startswith(TEMPORARY) and not entry.is_dir()
            ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise read_failed(folder or ".", "list", error) from error
    return sorted(prefix[: len(prefix) - len(base)] + name for name in names)


def list_stats(prefix: str) -> dict[str, FileStat]:
    """The files of :func:`list_names` and what is known of them, without those that go away meanwhile."""
    found = {}
    for path in list_names(prefix):
        try:
            found[path] = stat(path)
        except ReadFailed as error:
            if error.errno != errno.ENOENT:
                raise
    return found


def list_folders(prefix: str) -> list[str]:
    """Folders whose path starts with ``prefix``, sorted."""
    folder, base = os.path.split(prefix)
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry in entries if entry.name.startswith(base) and entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise read_failed(folder or ".", "list", error) from error
    return sorted(prefix[: len(prefix) - len(base)] + name for name in names)


def changed_at(path: str) -> float:
    """Time of the last change in seconds, by the clock of the file system."""
    with reading(path, "look at"):
        return os.stat(path).st_mtime


def touch(path: str) -> None:
    """Sets the time of the last change to now, by the clock of the file system."""
    with writing(path, "touch"):
        os.utime(path)


def exists(path: str) -> bool:
    """Whether there is a file at ``path``."""
    return os.path.isfile(path)


def stat(path: str) -> FileStat:
    """Size and time of the last change."""
    with reading(path, "look at"):
        found = os.stat(path)
    seconds, rest = divmod(found.st_mtime_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return FileStat(size_bytes=found.st_size, modified=f"{moment}.{rest:09d}Z")


def read_bytes(path: str, start: int, length: int | None) -> bytes:
    """Bytes from ``start``, fewer than ``length`` at the end of the file."""
    with reading(path), open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        wanted = max(0, size - start) if length is None else max(0, min(length, size - start))
        data = bytearray(wanted)
        view, done = memoryview(data), 0
        while done < wanted:
            got = os.preadv(file.fileno(), [view[done : done + (1 << 30)]], start + done)
            if not got:
                break
            done += got
        return bytes(data) if done == wanted else bytes(data[:done])


class _File(io.FileIO):
    """A file whose read errors name it."""

    def readinto(self, buffer: Any) -> int | None:
        with reading(str(self.name)):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with reading(str(self.name)):
            return super().readall()


def open_read(path: str) -> BinaryIO:
    """A seekable file; it has a descriptor, so it can be mapped."""
    with reading(path, "open"):
        return io.BufferedReader(_File(path), 256 << 10)


def write_parts(path: str, buffers: Iterable[Buffer]) -> FileStat:
    """Writes a new file from buffers; it appears when all of them are in it."""
    with Replacing(path) as target:
        for data in buffers:
            target.write(data)
    return replace(stat(path), crc32c=target.sum.text)


def create_new(path: str, data: Buffer) -> None:
    """Writes a file, whole at once, unless there is one already."""
    temporary = os.path.join(os.path.dirname(path), f"{TEMPORARY}{secrets.token_hex(8)}.new")
    write_parts(temporary, [data])
    try:
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            # No hard links here: create it empty first, so that only one of two writers goes on.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            os.replace(temporary, path)
    except FileExistsError as error:
        raise OutputExists(f"{path}: exists already") from error
    except OSError as error:
        raise write_failed(path, "create", error) from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def rename(source: str, destination: str) -> None:
    """Moves a file, over one that is there."""
    with writing(destination, "create"):
        os.makedirs(os.path.dirname(destination) or ".", exist_ok=True)
    try:
        os.replace(source, destination)
        # Two names of one file: the system then moves nothing and leaves both.
        if os.path.realpath(source) != os.path.realpath(destination):
            with suppress(FileNotFoundError):
                os.unlink(source)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise write_failed(destination, f"move {source} here", error) from error
        with Replacing(destination) as target:
            target.copy(source)
        delete(source)


def delete(path: str) -> None:
    """Deletes a file; none there is no error."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise write_failed(path, "delete", error) from error


def delete_tree(folder: str) -> None:
    """Deletes a folder with all that is in it; none there is no error."""
    real = os.path.realpath(folder)
    if not folder or os.path.realpath(os.curdir).startswith(os.path.join(real, "")) or os.path.ismount(real):
        raise ValueError(f"{folder!r} holds more than one job's files; it is not deleted")
    if real == os.path.realpath(os.curdir):
        raise ValueError(f"{folder!r} is the working folder; it is not deleted")

    def failed(_: object, path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
        # Another process that cleans up too may have been faster.
        if not isinstance(error[1], FileNotFoundError):
            raise write_failed(path, "delete", error[1]) from error[1]

    shutil.rmtree(folder.rstrip("/") or folder, onerror=failed)


def free_bytes(folder: str) -> int | None:
    """Bytes that can still be written in a folder, or where it would be made."""
    try:
        return shutil.disk_usage(_nearest_folder(folder)).free
    except OSError:
        return None


def _nearest_folder(folder: str) -> str:
    """The folder, or the nearest one above it that there is."""
    current = os.path.abspath(folder)
    while not os.path.lexists(current):
        current = os.path.dirname(current)
    return current


def check_writable(prefix: str) -> None:
    """Writes and deletes a small file where the outputs would go."""
    folder = os.path.dirname(prefix) or "."
    try:
        nearest = _nearest_folder(folder)
        if not os.path.isdir(nearest):
            kind = "a link to nothing" if os.path.islink(nearest) else "a file, not a folder"
            raise OutputUnusable(f"{prefix}: cannot write here: {nearest} is {kind}; choose another output")
        # as long as the longest name that comes of the prefix, which the file system may refuse
        name = f"{TEMPORARY}{secrets.token_hex(8)}.{os.path.basename(prefix)}.probe"
        probe = os.path.join(nearest, name)
        try:
            with open(probe, "xb") as file:
                file.write(b"probe")
        finally:
            with suppress(FileNotFoundError):
                os.unlink(probe)
    except OSError as error:
        if isinstance(error, OutputUnusable):
            raise
        raise OutputUnusable(
            f"{prefix}: cannot write in {nearest}: {reason(error)}; choose another output or make room there"
        ) from error
