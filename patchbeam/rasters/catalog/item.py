"""One scene of a catalogue, and where its references lead."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from patchbeam.errors import SourceError

_REMOTE = ("http", "https", "gs", "s3", "az")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A STAC Item, or a row of a tile index.

    Attributes:
        id: its name, for messages and for the order.
        properties: what filters look at.
        assets: key → what the catalogue says of the file, ``href`` among it.
        where: path or URL of the document that it stands in; relative references start there.
        root: folder that relative references may not leave, with a slash at the end; ``None``: no limit.
    """

    id: str
    properties: Mapping[str, Any]
    assets: Mapping[str, Mapping[str, Any]]
    where: str
    root: str | None
    collection: str | None = field(default=None)


def folder_of(path: str) -> str:
    """Returns the folder of a document with a slash at its end, ``""`` where a path has none."""
    return path[: path.rfind("/") + 1]


def resolve(href: str, where: str, root: str | None, what: str) -> str:
    """Returns the path or URL that a reference leads to.

    Args:
        href: as the document has it.
        where: the document.
        root: folder that a relative reference may not leave; ``None``: no limit.
        what: begins the message.

    Raises:
        SourceError: it leaves the root, or is no reference to a file.
    """
    try:
        scheme = urlsplit(href).scheme
    except ValueError:  # brackets that are no address
        scheme = "?"
    remote = "://" in where
    if not href or href.startswith(("<", "/vsi")):
        raise SourceError(f"{what}: href {href!r} is no path or URL of a file; correct the catalogue")
    if scheme in _REMOTE:
        return href
    if scheme == "file":
        href = unquote(urlsplit(href).path)
    elif scheme or "://" in href:
        # also what GDAL takes for a driver's own name of something: NETCDF:, ZARR:, PG:
        raise SourceError(f"{what}: href {href!r} is of no kind that is read: {', '.join(_REMOTE)}, file")
    if href.startswith("/") and (scheme == "file" or not remote):
        if remote:
            raise SourceError(f"{what}: href {href!r} names a local file, and {where} is not local")
        target = posixpath.normpath(href)
    elif urlsplit(where).scheme in ("http", "https"):
        target = urljoin(where, href)
    elif remote:
        head, _, path = where.partition("://")
        start = "" if href.startswith("/") else posixpath.dirname(path)
        target = f"{head}://{posixpath.normpath(posixpath.join(start, href.lstrip('/')))}"
    else:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(where), href))
    # a path that begins with .. has left any folder that is given relatively
    left = target.startswith(("../", "/")) if root == "" else not target.startswith(root or "")
    if root is not None and left:
        raise SourceError(
            f"{what}: href {href!r} leads to {target}, outside of the catalogue's folder {root or '.'}; move"
            " the file there, give the catalogue by its root document, or give a tile index, whose paths may"
            " lead anywhere"
        )
    return target
