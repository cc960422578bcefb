"""Ready-made sets: downloaded, verified, extracted, processed and published once; read from then on.

What is kept is the processed form, in ``ROOT/datasets/NAME/DIGEST``, where the digest is that of the
resources and of the way they are processed. Everything before is made beside it, under a lock, and moved
into place when it is whole: a process that is killed leaves nothing that looks finished, and a download
that broke off goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchbeam import storage
from patchbeam.data.cachedir import OFFLINE_VARIABLE, cache_root, is_offline, locked, short_digest
from patchbeam.data.errors import DataError, DownloadFailed, Offline
from patchbeam.data.extract import cache_unwritable, extract, remove
from patchbeam.data.remote import fetch
from patchbeam.errors import JobError, WriteFailed, nearest

_LOG = logging.getLogger(__name__)
_CHUNK = 1 << 20

Process = Callable[[Mapping[str, Path], Path], None]
"""``process(sources, target)``: of each resource its folder, or its file where it is no archive; and the
empty folder to fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A file that a set is made of.

    Attributes:
        name: of the file.
        urls: where it is; the later ones are mirrors, tried in turn.
        sha256: of the file, in hexadecimal; ``None`` where none is published: what comes first is kept
            in mind, and another file is refused later.
        size_bytes: of the file, where it is known.
        archive: whether it is extracted.
    """

    name: str
    urls: tuple[str, ...]
    sha256: str | None = None
    size_bytes: int | None = None
    archive: bool = True


def ensure(
    name: str,
    resources: Sequence[Resource],
    process: Process,
    *,
    version: str = "1",
    root: str | Path | None = None,
    url: str | None = None,
    digests: Mapping[str, str | None] | None = None,
    offline: bool | None = None,
) -> Path:
    """Returns the folder of a processed set, making it when it is not there.

    Args:
        name: of the set.
        resources: what it is made of.
        process: makes the processed form.
        version: of what ``process`` makes; another one is made anew.
        root: of the cache; default ``PATCHBEAM_CACHE``, else ``patchbeam`` in the user's cache folder.
        url: one's own mirror: the address of the folder that holds the files, or of the only one.
        digests: SHA-256 of files that are not those published; ``None`` for one that is not known.
        offline: whether nothing may be fetched; default what ``PATCHBEAM_OFFLINE`` says.

    Raises:
        Offline: something has to be fetched, and may not.
        DownloadFailed: a file cannot be fetched from anywhere, or is not what it should be.
        DataError: an archive is damaged or unsafe, or its content is not that of the set.
        WriteFailed: the cache cannot be written or is full.
    """
    wanted = [_own(resource, resources, url, digests) for resource in resources]
    base = cache_root(root) / "datasets" / name
    final = base / short_digest(name, version, [(r.name, r.sha256) for r in wanted])
    if final.is_dir():
        return final
    if is_offline(offline):
        raise Offline(
            f"{name}: not in the cache ({base}), and fetching is switched off; use it once without "
            f"offline and "
            f"with {OFFLINE_VARIABLE} unset, or copy the cache from where it was made"
        )
    with locked(final):
        if final.is_dir():  # another process has made it meanwhile
            return final
        # what killed processes have left; nobody else is here under the lock
        for left in base.glob(f"{final.name}.work-*"):
            remove(left)
        downloads = base / f"{final.name}.downloads"
        files = {resource.name: _fetched(resource, base, downloads) for resource in wanted}
        _make(name, wanted, files, process, final)
        remove(downloads)
    return final


def _make(
    name: str, resources: Sequence[Resource], files: Mapping[str, Path], process: Process, final: Path
) -> None:
    work = final.with_name(f"{final.name}.work-{uuid.uuid4().hex[:8]}")
    sources: dict[str, Path] = {}
    try:
        for number, resource in enumerate(resources):
            sources[resource.name] = files[resource.name]
            if resource.archive:
                sources[resource.name] = work / f"extracted-{number}"
                extract(files[resource.name], sources[resource.name])
        target = work / "processed"
        target.mkdir(parents=True)
        process(sources, target)
        about = {"name": name, "files": {resource.name: resource.sha256 for resource in resources}}
        (target / "about.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        os.replace(target, final)
    except OSError as error:
        if isinstance(error, WriteFailed) or error.errno is None or isinstance(error, FileNotFoundError):
            raise
        raise cache_unwritable(work, error) from error
    finally:
        remove(work)


def _own(
    resource: Resource,
    resources: Sequence[Resource],
    url: str | None,
    digests: Mapping[str, str | None] | None,
) -> Resource:
    names = [r.name for r in resources]
    for key in digests or {}:
        if key not in names:
            raise JobError(f"digests: no file {key!r}{nearest(key, names)}; files are {', '.join(names)}")
    if url is not None:
        alone = len(resources) == 1 and url.rpartition("/")[2] == resource.name
        resource = replace(resource, urls=(url if alone else f"{url.rstrip('/')}/{resource.name}",))
    if digests is not None and resource.name in digests:
        own = digests[resource.name]
        resource = replace(resource, sha256=None if own is None else own.lower(), size_bytes=None)
    return resource


def _fetched(resource: Resource, base: Path, downloads: Path) -> Path:
    """Fetches a file from the first address that has it."""
    free = storage.free_bytes(str(base))
    if free is not None and resource.size_bytes is not None and resource.size_bytes > free:
        raise WriteFailed(
            f"{base}: {free} bytes free, and {resource.name} has {resource.size_bytes}; make room, or "
            f"name another "
            "folder in PATCHBEAM_CACHE"
        )
    failures: list[str] = []
    for url in resource.urls:
        try:
            path = fetch(
                url,
                root=downloads,
                size_bytes=resource.size_bytes,
                sha256=resource.sha256,
                offline=False,
                tries=4 if url == resource.urls[-1] else 2,
            )
        except DownloadFailed as error:
            failures.append(str(error))
            _LOG.warning("%s", error)
            continue
        if resource.sha256 is None:
            _pin(resource, path, base, url)
        return path
    raise DownloadFailed(
        failures[0]
        if len(failures) == 1
        else f"{resource.name}: none of its {len(failures)} addresses gave it: " + "; ".join(failures)
    )


def _pin(resource: Resource, path: Path, base: Path, url: str) -> None:
    """Keeps the digest of a file that has none published, and refuses another one later."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    record = base / "pinned.json"
    with locked(record):
        pinned = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
        known = pinned.get(resource.name)
        if known is None:
            storage.write_atomic(
                str(record), json.dumps({**pinned, resource.name: digest.hexdigest()}, indent=2).encode()
            )
        elif known != digest.hexdigest():
            path.unlink()
            raise DataError(
                f"{url}: its SHA-256 is {digest.hexdigest()}, and when it was first fetched it was "
                f"{known}: the file "
                f"has been replaced; if that is right, delete {record}"
            )
