"""Predictions as records that the image import takes: one Example a patch, in the order given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np

from patchbeam.data.errors import DataError
from patchbeam.errors import JobError
from patchbeam.records.gzip import Profile
from patchbeam.records.layout import ExampleLayout, Feature, Kind
from patchbeam.records.tfrecord import write_records


def write_predictions(
    path: str | PathLike[str],
    batches: Iterable[Any],
    names: Sequence[str] | str,
    *,
    gzip: Profile | None = "indexed",
) -> int:
    """Writes what a model made of an unshuffled provider's batches, ready for ``patchbeam import-image``.

    Args:
        path: of the file, which is replaced.
        batches: arrays ``(patch, channel, row, col)``, or ``(patch, row, col)`` of one channel, or what NumPy
            makes such arrays of. uint8 is written as raw bytes, other integers as int64, the rest as float32.
        names: of the channels: the bands of the map.
        gzip: profile, or ``None`` for a plain file.

    Returns:
        Number of patches written.

    Raises:
        DataError: a batch has not as many channels as names.
        JobError: there are no names, or one is there twice.
    """
    given = (names,) if isinstance(names, str) else tuple(names)
    if not given or len(set(given)) != len(given):
        raise JobError(f"names: {list(given)}: give each channel a name of its own")
    return write_records(path, _records(batches, given), gzip)


def _records(batches: Iterable[Any], names: tuple[str, ...]) -> Iterator[memoryview]:
    patch = 0
    for batch in batches:
        values = np.asarray(batch)
        values = values[:, None] if values.ndim == 3 else values
        if values.ndim != 4 or values.shape[1] != len(names):
            raise DataError(
                f"patch {patch}: predictions of shape {np.asarray(batch).shape} for {len(names)} channels "
                f"({', '.join(names)}); give (patch, channel, row, col)"
            )
        kind: Kind = (
            "bytes" if values.dtype == np.uint8 else "int64" if values.dtype.kind in "iub" else "float"
        )
        dtype = {"bytes": "u1", "int64": "<i8", "float": "<f4"}[kind]
        length = values.shape[2] * values.shape[3]
        layout = ExampleLayout([Feature(name, kind, length) for name in names])
        for item in np.ascontiguousarray(values, dtype).reshape(len(values), len(names), length):
            yield memoryview(layout.encode(list(item)))[12:-4]
            patch += 1
