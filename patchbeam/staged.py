"""The headers of many files as a file beside the export, so that messages hold its name and digest alone."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, overload

from patchbeam import storage
from patchbeam.errors import ReadFailed
from patchbeam.plan import ExportPlan
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.source import Source
from patchbeam.retry import retrying

FEW = 256
"""Files of a source whose headers travel in the messages themselves."""

_FIELDS = tuple(field.name for field in dataclasses.fields(RasterFile))
_loaded: dict[str, tuple[RasterFile, ...]] = {}
_lock = threading.Lock()


class StagedFiles(Sequence[RasterFile]):
    """Headers that are read from a file when they are first looked at, once a process.

    Pickles as the file's name, its digest and the number of headers.

    Args:
        path: the file, as :func:`stage_files` writes it.
        digest: SHA-256 of its bytes.
        length: headers in it.
    """

    def __init__(self, path: str, digest: str, length: int) -> None:
        self.path, self.digest, self.length = path, digest, length

    @property
    def files(self) -> tuple[RasterFile, ...]:
        """The headers.

        Raises:
            ReadFailed: the file is gone, or is not the one that was written.
        """
        with _lock:
            if self.digest not in _loaded:
                _loaded[self.digest] = _load(self.path, self.digest)
            return _loaded[self.digest]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> RasterFile: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[RasterFile]: ...

    def __getitem__(self, index: int | slice) -> RasterFile | Sequence[RasterFile]:
        return self.files[index]

    def __iter__(self) -> Iterator[RasterFile]:
        return iter(self.files)

    def __reduce__(self) -> tuple[Any, ...]:
        return StagedFiles, (self.path, self.digest, self.length)


def stage_catalogues(plan: ExportPlan, folder: str) -> ExportPlan:
    """Returns a plan whose sources of many files hold these by the name of a staged file.

    Args:
        plan: the export.
        folder: its temporary prefix.

    Raises:
        WriteFailed: a file cannot be written.
    """
    if all(len(source.files) <= FEW for source in plan.sources):
        return plan
    # it is the same export: nobody has to read all headers to check it again or to name its temporary files
    for name in ("fingerprint", "aligned", "blocks"):
        getattr(plan, name)
    staged = copy(plan)
    object.__setattr__(staged, "sources", tuple(_staged(source, folder) for source in plan.sources))
    return staged


def _staged(source: Source, folder: str) -> Source:
    if len(source.files) <= FEW:
        return source
    quality = source.quality
    if quality is not None:
        files = stage_files(quality.files, folder)
        quality = replace(quality, files=files)
    return replace(source, files=stage_files(source.files, folder), quality=quality)


def stage_files(files: Sequence[RasterFile], folder: str) -> StagedFiles:
    """Writes headers to a file under the temporary prefix; its name holds their digest.

    Raises:
        WriteFailed: it cannot be written.
    """
    rows = [[getattr(file, name) for name in _FIELDS] for file in files]
    text = json.dumps({"fields": _FIELDS, "files": rows}, separators=(",", ":"))
    data = gzip.compress(text.encode(), compresslevel=1, mtime=0)
    digest = hashlib.sha256(data).hexdigest()
    path = storage.join(folder, f"catalogue-{digest[:16]}.json.gz")
    retrying(lambda: storage.write_atomic(path, data))
    with _lock:
        _loaded[digest] = tuple(files)
    return StagedFiles(path, digest, len(files))


def _load(path: str, digest: str) -> tuple[RasterFile, ...]:
    data = retrying(lambda: storage.read_bytes(path))
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise ReadFailed(
            f"{path}: its digest is {found}, and the job's is {digest}: another job has written it; run one"
            " at a time"
        )
    document = json.loads(gzip.decompress(data))
    names = document["fields"]
    return tuple(
        RasterFile(**{name: _frozen(value) for name, value in zip(names, row, strict=True)})
        for row in document["files"]
    )


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
