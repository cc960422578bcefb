"""A digest of all that is known of sources, so that a plan has another name when any of it changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.source import Source


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def sources_digest(sources: Iterable[Source]) -> str:
    """Returns a SHA-256 of what the job says of its sources and of every header, in hexadecimal.

    Every attribute counts, those that are added one day too: CRS and nodata that take the place of a
    file's own, quality bands, vector layers.
    """
    digest = hashlib.sha256()
    _feed(digest, tuple(sources))
    return digest.hexdigest()


def _feed(digest: _Digest, value: Any) -> None:
    if isinstance(value, Sequence) and not isinstance(value, str):
        digest.update(b"(%d" % len(value))
        for item in value:
            _feed(digest, item)
    elif is_dataclass(value) and not isinstance(value, RasterFile):
        for field in fields(value):
            digest.update(f"{field.name}=".encode())
            _feed(digest, getattr(value, field.name))
    else:
        # a header is flat, and there may be a hundred thousand of them
        digest.update(f"{value!r};".encode())
