"""What is known of a raster that is not a local file, so that one that has changed is noticed."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

from patchbeam import storage
from patchbeam.errors import ReadFailed

_TIMEOUT_S = 30.0
_WELL_KNOWN = Path(".config/gcloud/application_default_credentials.json")


def remote_version(path: str) -> tuple[int | None, str | None]:
    """Returns size in bytes and etag (or else the time of the last change) of a URL.

    Both are ``None`` where the server does not tell, and for paths that are no URLs.
    """
    if path.startswith("gs://"):
        try:
            stat = storage.stat(path)
        except ReadFailed:  # GDAL has opened it; what it may read, the client may be refused
            return None, None
        return stat.size_bytes, stat.modified
    if not path.startswith(("http://", "https://")):
        return None, None
    try:
        request = urllib.request.Request(path, method="HEAD")
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            length = answer.headers.get("Content-Length")
            changed = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
            return int(length) if length and length.isdigit() else None, changed
    except (OSError, urllib.error.URLError, ValueError):
        return None, None


def pass_credentials_on(path: str) -> None:
    """Names gcloud's default credentials to GDAL, which looks for them only where it is told to."""
    if not path.startswith("gs://"):
        return
    file = Path.home() / _WELL_KNOWN
    if file.is_file():
        os.environ.setdefault("GOOGLE_APPLICATION_CREDENTIALS", str(file))
