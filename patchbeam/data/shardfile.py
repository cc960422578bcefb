"""One shard of an export on disk: fetched, inflated into the cache where it cannot be sought, and indexed."""

from __future__ import annotations

import dataclasses
import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from patchbeam import storage
from patchbeam.data.cachedir import cache_root, locked, must_be_inflated, short_digest
from patchbeam.data.order import Ints
from patchbeam.data.remote import fetch, is_url
from patchbeam.errors import CorruptRecord, CountMismatch, PatchbeamError
from patchbeam.records.index import FileIndex, index_file


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shard:
    """One record file, and what its manifest says of it.

    Attributes:
        name: a local path or a URL.
        records: how many it holds, where that is known.
        stored_bytes: its size, where that is known.
        crc32c: of its bytes, in base64, where that is known.
        members: stored bytes and records of its gzip members, where they are known.
    """

    name: str
    records: int | None = None
    stored_bytes: int | None = None
    crc32c: str | None = None
    members: tuple[Ints, Ints] | None = None


def index_shard(shard: Shard, root: str | Path | None, offline: bool | None) -> FileIndex:
    """Returns where the records of a shard are; fetched where it is remote, and inflated where it must be.

    Args:
        shard: the file.
        root: of the cache.
        offline: whether nothing may be fetched.

    Raises:
        CorruptRecord: it is damaged; with file, record and byte.
        CountMismatch: it is not what its manifest says.
    """
    path = shard.name
    if is_url(path):
        path = str(
            fetch(
                shard.name,
                root=root,
                size_bytes=shard.stored_bytes,
                crc32c=shard.crc32c,
                offline=offline,
            )
        )
    size = storage.stat(path).size_bytes
    if shard.stored_bytes is not None and size != shard.stored_bytes:
        raise CountMismatch(
            f"{shard.name}: has {size} bytes, its manifest says {shard.stored_bytes}; it was cut short "
            "or replaced: copy the export again"
        )
    try:
        inflate = must_be_inflated(path)
        index = _inflated(path, root) if inflate else index_file(path, spool_folder="", members=shard.members)
    except CorruptRecord as error:
        raise CorruptRecord(error.what, file=shard.name, record=error.record, byte=error.byte) from None
    if shard.records is not None and index.records != shard.records:
        raise CountMismatch(
            f"{shard.name}: has {index.records} records, its manifest says {shard.records}; copy the "
            "export again"
        )
    return dataclasses.replace(index, name=shard.name)


def reads_in_order(shard: Shard, root: str | Path | None) -> bool:
    """Returns whether a shard is a local gzip file that cannot be sought and has no copy in the cache yet."""
    if is_url(shard.name):
        return False
    with suppress(PatchbeamError, OSError):  # told when the shard is opened
        return (
            shard.stored_bytes in (None, os.stat(shard.name).st_size)
            and must_be_inflated(shard.name)
            and not _copy_of(shard.name, root).exists()
        )
    return False


def _copy_of(path: str, root: str | Path | None) -> Path:
    """Returns where the plain copy of a gzip file is, or will be."""
    stat = os.stat(path)
    key = short_digest(os.path.realpath(path), stat.st_size, stat.st_mtime_ns)
    return cache_root(root) / "inflated" / f"{key}-{Path(path).name.removesuffix('.gz')}"


def _inflated(path: str, root: str | Path | None) -> FileIndex:
    """Returns the index of a plain copy of a gzip file, which is made once and kept."""
    copy = _copy_of(path, root)
    folder = copy.parent
    if not copy.exists():
        with locked(copy):
            if not copy.exists():
                # made under a name of its own, so that what is killed leaves no half copy behind
                part = folder / f"part-{uuid.uuid4().hex[:8]}"
                try:
                    spooled = index_file(path, spool_folder=str(part))
                    os.replace(spooled.path, copy)
                finally:
                    shutil.rmtree(part, ignore_errors=True)
                return dataclasses.replace(spooled, path=str(copy))
    return dataclasses.replace(index_file(str(copy), spool_folder=str(folder)), path=str(copy))
