"""What all tiles of an import need, as one file under the temporary prefix: indexes, schema, order.

Workers read it once, so that the messages between stages hold nothing but tile numbers.
"""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

import numpy as np

from patchbeam import storage
from patchbeam.mosaic.layout import Ints
from patchbeam.mosaic.schema import InputBand, RecordSchema
from patchbeam.records.files import RecordFiles
from patchbeam.records.index import FileIndex
from patchbeam.retry import retrying

_PLAIN = ("name", "path", "size_bytes", "gzip", "records", "record_size")


def save_state(path: str, files: RecordFiles, schema: RecordSchema, order: Ints | None = None) -> None:
    """Writes the state.

    Args:
        path: local or ``gs://``.
        files: the records.
        schema: how they are read.
        order: as in :class:`~patchbeam.mosaic.decode.PatchSource`.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for i, file in enumerate(files.files):
        arrays[f"offsets{i}"], arrays[f"firsts{i}"] = file.offsets, file.firsts
    if order is not None:
        arrays["order"] = order
    head = {
        "files": [{name: getattr(file, name) for name in _PLAIN} for file in files.files],
        "schema": dataclasses.asdict(schema),
    }
    arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    target = io.BytesIO()
    np.savez(target, **arrays)  # type: ignore[arg-type]
    retrying(lambda: storage.write_atomic(path, target.getvalue()))


def load_state(path: str) -> tuple[RecordFiles, RecordSchema, Ints | None]:
    """Reads what :func:`save_state` wrote."""
    data = retrying(lambda: storage.read_bytes(path))
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        head = json.loads(arrays["head"].tobytes())
        files = [
            FileIndex(**plain, offsets=arrays[f"offsets{i}"], firsts=arrays[f"firsts{i}"])
            for i, plain in enumerate(head["files"])
        ]
        order = arrays.get("order")
    said = head["schema"]
    said["bands"] = tuple(InputBand(**band) for band in said["bands"])
    said["names"] = tuple(said["names"])
    return RecordFiles(files), RecordSchema(**said), order
