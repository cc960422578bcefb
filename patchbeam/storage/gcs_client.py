"""The connection to Cloud Storage, and what its failures mean."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.api_core.exceptions import GoogleAPICallError, GoogleAPIError
from google.auth.exceptions import GoogleAuthError
from google.cloud import storage
from requests.exceptions import RequestException

from patchbeam.errors import JobError
from patchbeam.storage.base import FileStat, read_failed, reason, write_failed


def _media_errors() -> tuple[type[Exception], ...]:
    # The errors of uploads and downloads lived in another package before version 3 of the client.
    try:
        from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
    except ImportError:
        from google.resumable_media.common import DataCorruption, InvalidResponse
    return InvalidResponse, DataCorruption


FAILURES: tuple[type[Exception], ...] = (GoogleAPIError, GoogleAuthError, RequestException, *_media_errors())
"""What the client raises when a request fails for good; it has tried again by then."""

_NUMBERS = {401: errno.EACCES, 403: errno.EACCES, 404: errno.ENOENT, 412: errno.EEXIST, 429: errno.EAGAIN}


def error_number(error: BaseException) -> int | None:
    """The error number of the system that says most nearly what an HTTP status does."""
    if isinstance(error, GoogleAuthError):
        return errno.EACCES
    code = getattr(error, "code", None)
    if not isinstance(error, GoogleAPICallError):
        code = getattr(getattr(error, "response", None), "status_code", None)
    return _NUMBERS.get(int(code), errno.EIO) if code is not None else errno.EIO


@contextmanager
def reading(path: str, what: str = "read") -> Iterator[None]:
    """Turns a failed request into a ``ReadFailed`` that names the object."""
    try:
        yield
    except FAILURES as error:
        raise read_failed(path, what, error, error_number(error)) from error


@contextmanager
def writing(path: str, what: str = "write") -> Iterator[None]:
    """Turns a failed request into a ``WriteFailed`` that names the object."""
    try:
        yield
    except FAILURES as error:
        raise write_failed(path, what, error, error_number(error)) from error


@functools.lru_cache(maxsize=4)
def _client_of(process: int, emulator: str | None) -> Any:
    # One a process: connections do not survive a fork.
    try:
        return storage.Client(project=os.environ.get("GOOGLE_CLOUD_PROJECT") or None)
    except GoogleAuthError as error:
        raise JobError(
            f"gs://: no credentials for Cloud Storage ({reason(error)}); run `gcloud auth "
            "application-default login`, or let GOOGLE_APPLICATION_CREDENTIALS name a key file"
        ) from error


def client() -> Any:
    """The client of this process."""
    return _client_of(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST"))


def names_of(path: str, *, whole_bucket: bool = False) -> tuple[str, str]:
    """Bucket and object name of a path."""
    bucket, _, name = path[len("gs://") :].partition("/")
    if not bucket or not (name or whole_bucket):
        raise JobError(f"{path}: names no object; give gs://bucket/name")
    return bucket, name


def blob_of(path: str, **options: Any) -> Any:
    """The object of a path; nothing is asked of the store."""
    bucket, name = names_of(path)
    return client().bucket(bucket).blob(name, **options)


def stat_of(blob: Any) -> FileStat:
    """What a blob whose metadata have been fetched says of itself."""
    return FileStat(size_bytes=int(blob.size), modified=str(blob.etag), crc32c=blob.crc32c)
