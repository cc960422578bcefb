"""A local copy of a remote file, fetched once.

Fetched into a part file, compared with the size and checksum that are known, and only then moved into its
place, under a lock. A download that breaks off goes on where it was; later uses touch no network.
"""

from __future__ import annotations

import hashlib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

from crc32c import crc32c as crc_of

from patchbeam import storage
from patchbeam.data.cachedir import OFFLINE_VARIABLE, cache_root, is_offline, locked, short_digest
from patchbeam.data.errors import DownloadFailed, Offline
from patchbeam.errors import ReadFailed, WriteFailed

_CHUNK = 1 << 20
_TIMEOUT_S = 60
_PAUSE_S = 0.5


class NotThere(DownloadFailed):
    """The server says that there is no such file."""


def is_web(name: str) -> bool:
    """Returns whether a name is a web address."""
    return name.startswith(("https://", "http://"))


def is_url(name: str) -> bool:
    """Returns whether a name is a file that has to be fetched."""
    return is_web(name) or storage.is_remote(name)


def fetch(
    url: str,
    *,
    root: str | Path | None = None,
    size_bytes: int | None = None,
    crc32c: str | None = None,
    sha256: str | None = None,
    offline: bool | None = None,
    tries: int = 4,
) -> Path:
    """Returns the local copy of a remote file, fetching it when there is none yet.

    Args:
        url: ``gs://``, ``https://`` or ``http://``.
        root: of the cache.
        size_bytes: of the file, where it is known.
        crc32c: of the file, in base64, where it is known.
        sha256: of the file, in hexadecimal, where it is known.
        offline: whether nothing may be fetched; by default what ``PATCHBEAM_OFFLINE`` says.
        tries: how often to go on after a broken connection.

    Raises:
        Offline: it would have to be fetched.
        NotThere: there is no such file.
        DownloadFailed: it cannot be fetched, or is not the file that it should be.
        WriteFailed: the cache cannot be written or is full.
    """
    # The checksum is part of the place: a file that was replaced is another file.
    folder = cache_root(root) / "files" / short_digest(url, size_bytes, crc32c, sha256)
    path = folder / (url.rstrip("/").rpartition("/")[2] or "file")
    if path.exists():
        return path
    if is_offline(offline):
        raise Offline(
            f"{url}: not in the cache ({cache_root(root)}), and fetching is switched off; run once without "
            f"offline and with {OFFLINE_VARIABLE} unset, or copy the cache from where it was fetched"
        )
    with locked(path):
        if not path.exists():
            part = path.with_name(f"{path.name}.part")
            _download(url, part, tries)
            wrong = _wrong(part, size_bytes, crc32c, sha256)
            if wrong:
                part.unlink()
                raise DownloadFailed(f"{url}: {wrong}; it was damaged on the way, or replaced at its source")
            os.replace(part, path)
            _tag_path(part).unlink(missing_ok=True)
    return path


def _download(url: str, part: Path, tries: int) -> None:
    for left in reversed(range(tries)):
        try:
            source = _from_web(url, part) if is_web(url) else _from_store(url, part)
            for start, chunk in source:
                _append(part, start, chunk)
            return
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                raise NotThere(f"{url}: the server has no such file (status {error.code})") from None
            if error.code == 416:  # what is there is longer than the file: start again
                part.unlink(missing_ok=True)
            reason: Any = f"status {error.code} {error.reason}"
            permanent = error.code < 500 and error.code not in (408, 416, 429)
        except ReadFailed as error:
            if isinstance(error, FileNotFoundError) or error.errno == 2:
                raise NotThere(str(error)) from None
            reason, permanent = error, False
        except (urllib.error.URLError, HTTPException, ConnectionError, TimeoutError) as error:
            reason, permanent = getattr(error, "reason", error) or type(error).__name__, False
        if permanent or not left:
            raise DownloadFailed(
                f"{url}: cannot be fetched: {reason}; what has come is kept and the next try goes on there"
            ) from None
        time.sleep(_PAUSE_S * (tries - left))


def _append(part: Path, start: int, chunk: bytes) -> None:
    try:
        with open(part, "ab" if start else "wb") as file:
            file.write(chunk)
    except OSError as error:
        raise WriteFailed(
            f"{part}: cannot be written: {error.strerror}; make room, or name another folder in "
            "PATCHBEAM_CACHE"
        ) from error


def _from_store(url: str, part: Path) -> Iterator[tuple[int, bytes]]:
    known = storage.stat(url)
    have = _resumable(part, known.modified)
    if not have:
        _append(part, 0, b"")
        _tag_path(part).write_text(known.modified)
    for chunk in storage.read_chunks(url, have, known.size_bytes - have):
        yield have, chunk
        have += len(chunk)
    wrong = _wrong(part, known.size_bytes, known.crc32c, None)
    if wrong:
        part.unlink()
        raise DownloadFailed(f"{url}: {wrong}")


def _from_web(url: str, part: Path) -> Iterator[tuple[int, bytes]]:
    tag = _tag_path(part).read_text() if _tag_path(part).exists() else ""
    have = _resumable(part, tag)
    headers = {"User-Agent": "patchbeam", "Accept-Encoding": "identity"}
    if have:
        # a file that has changed in the meantime comes whole instead
        headers |= {"Range": f"bytes={have}-", "If-Range": tag}
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        if answer.status != 206:
            have = 0
            _append(part, 0, b"")
            _tag_path(part).write_text(_strong_tag(answer.headers))
        length = answer.headers.get("Content-Length")
        expected = None if length is None else have + int(length)
        while chunk := answer.read(_CHUNK):
            yield have, chunk
            have += len(chunk)
    if expected is not None and have != expected:
        raise ConnectionError(f"the connection ended after {have} of {expected} bytes")


def _strong_tag(headers: Any) -> str:
    tag = headers.get("ETag") or ""
    return headers.get("Last-Modified") or "" if tag.startswith("W/") or not tag else tag


def _resumable(part: Path, tag: str) -> int:
    """Bytes that are there of the same version of the file; 0 where that is not certain."""
    same = tag and _tag_path(part).exists() and _tag_path(part).read_text() == tag
    return part.stat().st_size if same and part.exists() else 0


def _tag_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.tag")


def _wrong(path: Path, size_bytes: int | None, crc32c: str | None, sha256: str | None) -> str | None:
    found = path.stat().st_size
    if size_bytes is not None and found != size_bytes:
        return f"{found} bytes came, {size_bytes} are due"
    if crc32c is not None or sha256 is not None:
        crc, digest = 0, hashlib.sha256()
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                if crc32c is not None:
                    crc = crc_of(chunk, crc)
                if sha256 is not None:
                    digest.update(chunk)
        if crc32c is not None and crc != storage.crc32c_number(crc32c):
            return f"its CRC-32C is {storage.crc32c_text(crc)}, not {crc32c}"
        if sha256 is not None and digest.hexdigest() != sha256.lower():
            return f"its SHA-256 is {digest.hexdigest()}, not {sha256}"
    return None
