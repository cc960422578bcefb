"""Where fetched files and inflated copies are kept, and how they get there: whole, once, under a lock."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patchbeam import storage
from patchbeam.errors import WriteFailed
from patchbeam.records.gzip import HEADER_BYTES, member_size, sniff

ROOT_VARIABLE = "PATCHBEAM_CACHE"
OFFLINE_VARIABLE = "PATCHBEAM_OFFLINE"


def cache_root(root: str | Path | None = None) -> Path:
    """Returns the folder of everything kept.

    Args:
        root: a folder of one's own; else the environment's ``PATCHBEAM_CACHE``, else ``patchbeam`` in
            the user's cache folder.
    """
    named = root or os.environ.get(ROOT_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "patchbeam"


def is_offline(offline: bool | None) -> bool:
    """Returns whether nothing may be fetched: as given, else what ``PATCHBEAM_OFFLINE`` says."""
    return offline if offline is not None else os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of a file that is being made; other processes and threads wait.

    Raises:
        WriteFailed: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(path.with_name(f"{path.name}.lock"), "ab")  # noqa: SIM115  # closed below
    except OSError as error:
        raise WriteFailed(
            f"{path.parent}: the cache cannot be written ({error.strerror}); name another folder in "
            f"{ROOT_VARIABLE}"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def short_digest(*parts: object) -> str:
    """Returns a digest for a file name."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


def must_be_inflated(path: str) -> bool:
    """Returns whether a local file is gzip without indexed members, so that it cannot be sought."""
    with storage.open_read(path) as file:
        head = file.read(HEADER_BYTES)
    return sniff(head[:12]) == "gzip" and member_size(head) is None
