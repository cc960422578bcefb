"""Archives to folders, trusting none of them.

An archive may name paths outside its folder, links, devices, or sizes that fill the disk. Only ordinary
files and folders below the target are made; everything else is refused, and what is there is left alone.
"""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from patchbeam import storage
from patchbeam.data.errors import DataError
from patchbeam.errors import WriteFailed

_CHUNK = 1 << 20
_WRONG = (ValueError, IndexError, KeyError, TypeError, OverflowError, RuntimeError, struct.error)
_DAMAGE = (*_WRONG, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


def extract(archive: Path, folder: Path) -> None:
    """Extracts a tar archive (plain, gzip, bzip2, xz) or a zip archive.

    Args:
        archive: the file; what it is shows in its content.
        folder: made where it is not there.

    Raises:
        DataError: it is no archive, is damaged, or holds what must not be: an absolute path, one that
            leads outside, a link, a device, one name twice.
        WriteFailed: the disk has not room enough, or cannot be written.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                _extract_zip(opened, archive, folder)
        else:
            with tarfile.open(archive) as tar:
                _extract_tar(tar, archive, folder)
    except DataError:
        raise
    except _DAMAGE as error:
        raise DataError(
            f"{archive.name}: no tar or zip archive, or a damaged one: {error}; "
            "delete it, and it is fetched again"
        ) from None
    except OSError as error:
        if isinstance(error, WriteFailed):
            raise
        if error.errno is None:  # gzip and bzip2 say so of damaged data
            raise DataError(
                f"{archive.name}: a damaged archive: {error}; delete it, and it is fetched again"
            ) from None
        raise cache_unwritable(folder, error) from error


def _extract_tar(tar: tarfile.TarFile, archive: Path, folder: Path) -> None:
    made = _Made(archive, folder)
    for entry in tar:
        if entry.isdir():
            made.folder(entry.name)
        elif entry.isreg():
            made.room(entry.size)
            source = tar.extractfile(entry)
            assert source is not None
            made.file(entry.name, source, entry.size)
        elif entry.type in (tarfile.XHDTYPE, tarfile.XGLTYPE):
            continue
        else:
            kind = "a link" if entry.islnk() or entry.issym() else "neither a file nor a folder"
            raise DataError(f"{archive.name}: {entry.name!r} is {kind}; only files and folders are extracted")


def _extract_zip(opened: zipfile.ZipFile, archive: Path, folder: Path) -> None:
    made = _Made(archive, folder)
    entries = opened.infolist()
    made.room(sum(entry.file_size for entry in entries))
    for entry in entries:
        mode = entry.external_attr >> 16
        if entry.is_dir():
            made.folder(entry.filename)
            continue
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise DataError(
                f"{archive.name}: {entry.filename!r} is no ordinary file; only files and folders are "
                f"extracted"
            )
        if entry.flag_bits & 1:
            raise DataError(f"{archive.name}: {entry.filename!r} is encrypted; give one that is not")
        with opened.open(entry) as source:
            made.file(entry.filename, source, entry.file_size)


class _Made:
    """Makes files and folders below a folder, and nowhere else."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self._archive = archive.name
        self._folder = folder
        self._names: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        parts = PurePosixPath(name.replace("\\", "/")).parts
        outside = not parts or parts[0] == "/" or ".." in parts or "\0" in name or ":" in parts[0]
        if outside:
            raise DataError(
                f"{self._archive}: it names {name!r}, which leads out of the folder it is extracted to; "
                f"nothing "
                "of it is used"
            )
        return self._folder.joinpath(*parts)

    def folder(self, name: str) -> None:
        if PurePosixPath(name).parts:
            self.path(name).mkdir(parents=True, exist_ok=True)

    def file(self, name: str, source: IO[bytes], size: int) -> None:
        path = self.path(name)
        folded = str(path).casefold()
        if folded in self._names:
            raise DataError(f"{self._archive}: {name!r} stands twice")
        self._names.add(folded)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = 0
        with open(path, "xb") as file:
            for chunk in _chunks(source):
                written += len(chunk)
                if written > size:
                    raise DataError(
                        f"{self._archive}: {name!r} is longer than the {size} bytes it is said to be"
                    )
                file.write(chunk)
        if written != size:
            raise DataError(f"{self._archive}: {name!r} has {written} of {size} bytes")

    def room(self, size: int) -> None:
        free = storage.free_bytes(str(self._folder))
        if free is not None and size > free:
            raise WriteFailed(
                f"{self._folder}: {free} bytes free, and {self._archive} needs {size} more; make room, or "
                f"name "
                "another folder in PATCHBEAM_CACHE"
            )


def _chunks(source: IO[bytes]) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK):
        yield chunk


def cache_unwritable(path: Path, error: OSError) -> WriteFailed:
    """Returns the error of a cache that cannot be written, with the system's number."""
    failure = WriteFailed(
        f"{path}: cannot be written: {error.strerror}; make room, or name another folder in PATCHBEAM_CACHE"
    )
    failure.errno = error.errno
    return failure


def remove(path: Path) -> None:
    """Removes a file or a folder with everything in it, if it is there; links are not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        path.unlink()
