"""Objects in Cloud Storage. Called through :mod:`patchbeam.storage`, which imports it when it is needed."""

from __future__ import annotations

import io
import secrets
from typing import Any, BinaryIO

from google.api_core.exceptions import GoogleAPICallError
from google.cloud.storage.retry import DEFAULT_RETRY

from patchbeam.errors import OutputUnusable, WriteFailed
from patchbeam.storage.base import CHUNK_BYTES, TEMPORARY, FileStat
from patchbeam.storage.gcs_client import blob_of, client, names_of, reading, stat_of, writing
from patchbeam.storage.gcs_write import concat, create_new, delete, delete_all, write_parts

__all__ = [
    "changed_at",
    "check_writable",
    "concat",
    "create_new",
    "delete",
    "delete_tree",
    "exists",
    "free_bytes",
    "list_folders",
    "list_names",
    "list_stats",
    "open_read",
    "read_bytes",
    "rename",
    "stat",
    "touch",
    "write_parts",
]


def list_names(prefix: str) -> list[str]:
    """Objects whose path starts with ``prefix``, without those past a further slash."""
    return sorted(list_stats(prefix))


def list_stats(prefix: str) -> dict[str, FileStat]:
    """The objects of :func:`list_names` with size, etag and CRC-32C, which the listing tells."""
    bucket, name = names_of(prefix, whole_bucket=True)
    with reading(prefix, "list"):
        blobs = list(client().list_blobs(bucket, prefix=name, delimiter="/"))
    return {
        f"gs://{bucket}/{blob.name}": stat_of(blob)
        for blob in blobs
        if not blob.name.endswith("/") and not blob.name.rpartition("/")[2].startswith(TEMPORARY)
    }


def list_folders(prefix: str) -> list[str]:
    """What objects share of their names up to the next slash."""
    bucket, name = names_of(prefix, whole_bucket=True)
    with reading(prefix, "list"):
        pages = client().list_blobs(bucket, prefix=name, delimiter="/")
        for _ in pages:  # the folders are known when all pages have been seen
            pass
    return sorted(f"gs://{bucket}/{folder.rstrip('/')}" for folder in pages.prefixes)


def changed_at(path: str) -> float:
    """Time of the last change in seconds, by the clock of the store."""
    blob = blob_of(path)
    with reading(path, "look at"):
        blob.reload()
    return float(blob.updated.timestamp())


def touch(path: str) -> None:
    """Uploads an object again as it is, unless another has come into its place meanwhile."""
    blob = blob_of(path)
    with writing(path, "touch"):
        blob.reload()
        generation = blob.generation
        data = blob.download_as_bytes(raw_download=True, if_generation_match=generation, retry=DEFAULT_RETRY)
        blob.upload_from_string(
            data,
            content_type="application/octet-stream",
            if_generation_match=generation,
            retry=DEFAULT_RETRY,
        )


def exists(path: str) -> bool:
    """Whether there is such an object."""
    with reading(path, "look at"):
        return bool(blob_of(path).exists())


def stat(path: str) -> FileStat:
    """Size, etag and CRC-32C."""
    blob = blob_of(path)
    with reading(path, "look at"):
        blob.reload()
    return stat_of(blob)


def _download(blob: Any, start: int, length: int | None) -> bytes:
    if length == 0:
        return b""
    end = None if length is None else start + length - 1
    try:
        # Raw: an object marked as gzip would else arrive inflated, with other offsets.
        return bytes(blob.download_as_bytes(start=start, end=end, raw_download=True, retry=DEFAULT_RETRY))
    except GoogleAPICallError as error:
        if error.code == 416:  # the range starts past the end
            return b""
        raise


def read_bytes(path: str, start: int, length: int | None) -> bytes:
    """Bytes from ``start``, fewer than ``length`` at the end of the object."""
    blob = blob_of(path)
    with reading(path):
        return _download(blob, start, length)


class _Object(io.RawIOBase):
    """One generation of an object as a file: one that is replaced meanwhile is never read as a mixture."""

    def __init__(self, path: str) -> None:
        self.name = path
        blob = blob_of(path)
        with reading(path, "open"):
            blob.reload()
        self._size = int(blob.size)
        self._blob = blob_of(path, generation=blob.generation)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"{self.name}: no byte {base + offset} to seek to")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._size - self._position))
        with reading(self.name):
            data = _download(self._blob, self._position, wanted)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)


def open_read(path: str) -> BinaryIO:
    """A seekable file over ranged requests of at least 8 MiB."""
    return io.BufferedReader(_Object(path), CHUNK_BYTES)


def rename(source: str, destination: str) -> None:
    """Copies an object inside the store and deletes the first."""
    origin, target = blob_of(source), blob_of(destination)
    with writing(destination, f"move {source} here"):
        token, _, _ = target.rewrite(origin, retry=DEFAULT_RETRY)
        while token is not None:  # large objects that change their place take several calls
            token, _, _ = target.rewrite(origin, token=token, retry=DEFAULT_RETRY)
    delete(source)


def delete_tree(folder: str) -> None:
    """Deletes all objects under a folder."""
    bucket, name = names_of(folder, whole_bucket=True)
    if not name.strip("/"):
        raise ValueError(f"{folder!r} is a whole bucket; it is not deleted")
    with writing(folder, "list"):
        names = [blob.name for blob in client().list_blobs(bucket, prefix=f"{name.rstrip('/')}/")]
    delete_all([f"gs://{bucket}/{name}" for name in names])


def free_bytes(folder: str) -> int | None:
    """Cloud Storage has no end."""
    return None


def check_writable(prefix: str) -> None:
    """Uploads and deletes a small object where the outputs would go."""
    bucket, name = names_of(prefix, whole_bucket=True)
    folder = name.rpartition("/")[0]
    probe = "/".join(
        part for part in (f"gs://{bucket}", folder, f"{TEMPORARY}{secrets.token_hex(8)}") if part
    )
    try:
        write_parts(probe, [b"probe"])
        delete(probe)
    except WriteFailed as error:
        raise OutputUnusable(
            f"{prefix}: cannot write here: {error}; check the bucket and its permissions"
        ) from error
