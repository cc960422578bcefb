"""Paths of either kind: which side they are on, joined, split, listed."""

from __future__ import annotations

import os
from types import ModuleType

from patchbeam.storage import local
from patchbeam.storage.base import FileStat, is_remote


def side(path: str) -> ModuleType:
    """Returns the module that has the functions for a path; Cloud Storage's is imported when it is needed."""
    if not is_remote(path):
        return local
    from patchbeam.storage import gcs

    return gcs


def join(folder: str, *names: str) -> str:
    """Returns the path of a file in a folder, of either kind."""
    if not is_remote(folder):
        return os.path.join(folder, *names)
    return "/".join([folder.rstrip("/"), *(name.strip("/") for name in names)])


def split(path: str) -> tuple[str, str]:
    """Returns folder and name; joined they are the path again. The folder of ``name`` alone is ``""``."""
    if not is_remote(path):
        return os.path.split(path)
    folder, _, name = path.rpartition("/")
    return (path, "") if folder == "gs:/" else (folder, name)


def list_names(prefix: str) -> list[str]:
    """Returns the paths of the files that start with ``prefix``, sorted; not those in folders below.

    ``out/scene`` lists ``out/scene-00000.tfrecord.gz`` and also ``out/scene2.tif``, but not
    ``out/scene-parts/0``. Half-written files are left out; a folder that is not there holds none.

    Raises:
        ReadFailed: the folder cannot be listed.
    """
    names: list[str] = side(prefix).list_names(prefix)
    return names


def list_stats(prefix: str) -> dict[str, FileStat]:
    """Returns what :func:`list_names` lists, with what is known of each file without reading it.

    Raises:
        ReadFailed: the folder cannot be listed.
    """
    found: dict[str, FileStat] = side(prefix).list_stats(prefix)
    return found


def list_folders(prefix: str) -> list[str]:
    """Returns the folders whose path starts with ``prefix``, sorted; not those below them.

    Raises:
        ReadFailed: the folder cannot be listed.
    """
    folders: list[str] = side(prefix).list_folders(prefix)
    return folders


def exists(path: str) -> bool:
    """Returns whether there is a file (not a folder) at ``path``."""
    return bool(side(path).exists(path))
