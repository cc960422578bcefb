"""Predictions as records that the image import takes: one Example a patch, in the order given."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

import numpy as np

from patchbeam.data.errors import DataError
from patchbeam.errors import JobError, OutputExists
from patchbeam.records.gzip import Profile
from patchbeam.records.layout import ExampleLayout, Feature, Kind
from patchbeam.records.tfrecord import write_records


def write_predictions(
    path: str | PathLike[str],
    batches: Iterable[Any],
    names: Sequence[str] | str,
    *,
    gzip: Profile | None = "indexed",
    overwrite: bool = False,
) -> int:
    """Writes what a model made of an unshuffled provider's batches, ready for ``patchbeam import-image``.

    Args:
        path: of the file, which appears when all batches have come.
        batches: arrays ``(patch, channel, row, col)``, or ``(patch, row, col)`` of one channel, or what NumPy
            makes such arrays of. uint8 is written as raw bytes, other integers as int64, the rest as float32.
        names: of the channels: the bands of the map.
        gzip: profile, or ``None`` for a plain file.
        overwrite: whether to replace a file that is there.

    Returns:
        Number of patches written.

    Raises:
        DataError: a batch has not as many channels as names.
        JobError: there are no names, or one is there twice.
        OutputExists: the file is there, and is not to be replaced.
    """
    given = (names,) if isinstance(names, str) else tuple(names)
    if not given or len(set(given)) != len(given):
        raise JobError(f"names: {list(given)}: give each channel a name of its own")
    if not overwrite and os.path.exists(path):
        raise OutputExists(
            f"{os.fspath(path)} is there already; give another path, or overwrite=True to replace it"
        )
    return write_records(path, _records(batches, given), gzip)


def _records(batches: Iterable[Any], names: tuple[str, ...]) -> Iterator[memoryview]:
    patch = 0
    for batch in batches:
        given = np.asarray(batch)
        values = given[:, None] if given.ndim == 3 else given
        if values.ndim != 4 or values.shape[1] != len(names):
            raise DataError(f"patch {patch}: {_misfit(given.shape, names)}")
        kind: Kind = (
            "bytes" if values.dtype == np.uint8 else "int64" if values.dtype.kind in "iub" else "float"
        )
        dtype = {"bytes": "u1", "int64": "<i8", "float": "<f4"}[kind]
        length = values.shape[2] * values.shape[3]
        layout = ExampleLayout([Feature(name, kind, length) for name in names])
        for item in np.ascontiguousarray(values, dtype).reshape(len(values), len(names), length):
            yield memoryview(layout.encode(list(item)))[12:-4]
            patch += 1


def _misfit(shape: tuple[int, ...], names: tuple[str, ...]) -> str:
    """What is wrong with a batch's shape, and what to do about it."""
    count = f"{len(names)} channel{'' if len(names) == 1 else 's'} ({', '.join(names)})"
    due = "(patch, row, col)" if len(names) == 1 else f"(patch, {len(names)}, row, col)"
    text = f"a batch of shape {shape} does not hold {count}; give {due}"
    if len(shape) == 4 and shape[3] == len(names):
        return f"{text}: the channels are last here, batch.transpose(0, 3, 1, 2) puts them first"
    if len(shape) == 4 and len(names) == 1:
        return f"{text}: one number a pixel, for instance batch.argmax(axis=1), or a name for each channel"
    if len(shape) == 2:
        return f"{text}: one patch alone is batch[None]"
    return text
