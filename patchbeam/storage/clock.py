"""How long ago a file was changed, by the clock of the store alone: those of two machines may differ."""

from __future__ import annotations

import secrets

from patchbeam import storage
from patchbeam.storage.base import TEMPORARY, is_remote


def touch(path: str) -> None:
    """Makes a file one that has just been changed; its content stays.

    Raises:
        WriteFailed: there is no such file, or it cannot be written.
    """
    if is_remote(path):
        from patchbeam.storage import gcs

        gcs.touch(path)
    else:
        from patchbeam.storage import local

        local.touch(path)


def age_s(path: str) -> float:
    """Returns the seconds since a file was last changed.

    A small file is written beside it and deleted: its time is what the store calls now.

    Raises:
        ReadFailed: there is no such file.
        WriteFailed: nothing can be written there.
    """
    changed = _changed_at(path)
    probe = storage.join(storage.split(path)[0], f"{TEMPORARY}{secrets.token_hex(8)}.clock")
    storage.write_atomic(probe, b"now")
    try:
        return _changed_at(probe) - changed
    finally:
        storage.delete(probe)


def _changed_at(path: str) -> float:
    if is_remote(path):
        from patchbeam.storage import gcs

        return gcs.changed_at(path)
    from patchbeam.storage import local

    return local.changed_at(path)
