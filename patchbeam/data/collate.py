"""From items to a batch: one array a modality, with the batch dimension in front."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from patchbeam.data.errors import DataError
from patchbeam.data.memory import MEMORY

Item = tuple[Any, ...]
Collate = Callable[[Sequence[Item]], Any]


def collate(
    items: Sequence[Item], *, names: Sequence[str] | None = None, indices: Sequence[int] | None = None
) -> tuple[Any, ...]:
    """Stacks items into a batch.

    Args:
        items: of equal number of modalities; at least one.
        names: of the modalities, for errors.
        indices: of the items, for errors.

    Returns:
        For each modality an array ``(item, …)``, new in memory; of texts and bytes a list. Values whose
        type has a ``collate`` class method are given to it.

    Raises:
        DataError: there are no items, or they differ in number of modalities, shape or type; names the
            item and the modality.
    """
    rows = _rows(items, indices)
    return tuple(_stack(rows, at, names, indices) for at in range(len(rows[0])))


def _rows(items: Sequence[Item], indices: Sequence[int] | None) -> list[Item]:
    rows = [item if isinstance(item, tuple) else (item,) for item in items]
    if not rows:
        raise DataError("a batch of no items; give at least one")
    for at, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise DataError(
                f"{_item(at, indices)} has {len(row)} modalities, {_item(0, indices)} has {len(rows[0])}; "
                "every item of a database has the same"
            )
    return rows


def _stack(rows: list[Item], at: int, names: Sequence[str] | None, indices: Sequence[int] | None) -> Any:
    values = [row[at] for row in rows]
    first = values[0]
    own = getattr(type(first), "collate", None)
    if callable(own):
        return own(values)
    if isinstance(first, str | bytes):
        return values
    arrays = [_array(value, place, at, names, indices) for place, value in enumerate(values)]
    shape, dtype = arrays[0].shape, arrays[0].dtype
    for place, array in enumerate(arrays):
        if array.shape != shape:
            raise DataError(
                f"{_item(place, indices)}, {_modality(at, names)}: shape {array.shape}, but "
                f"{_item(0, indices)} has {shape}; bring items to one shape with a transform, or give "
                "collate=pad_collate"
            )
        if array.dtype != dtype:
            raise DataError(
                f"{_item(place, indices)}, {_modality(at, names)}: type {array.dtype}, but "
                f"{_item(0, indices)} has {dtype}"
            )
    out = MEMORY.empty((len(arrays), *shape), dtype)
    return np.stack(arrays, out=out)


def _array(
    value: Any, place: int, at: int, names: Sequence[str] | None, indices: Sequence[int] | None
) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, numbers.Number | np.generic) or hasattr(value, "__array__"):
        return np.asarray(value)
    raise DataError(
        f"{_item(place, indices)}, {_modality(at, names)}: a {type(value).__name__} cannot be stacked; make "
        "it "
        "an array or a number with a transform, or give collate="
    )


def _item(place: int, indices: Sequence[int] | None) -> str:
    return f"item {place} of the batch" if indices is None else f"item {int(indices[place])}"


def _modality(at: int, names: Sequence[str] | None) -> str:
    return f"modality {at}" if names is None or at >= len(names) else f"modality {names[at]!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PadCollate:
    """Stacks items of unequal shape, padded at the end of every axis to the largest of the batch.

    Attributes:
        value: what is padded with.
        lengths: whether one more array follows for each modality that has axes: int64
            ``(item, axis)``, the shape of each item before padding.
    """

    value: float = 0
    lengths: bool = False

    def __call__(self, items: Sequence[Item]) -> tuple[Any, ...]:
        """Returns the padded batch.

        Raises:
            DataError: items differ in number of modalities, number of axes or type.
        """
        rows = _rows(items, None)
        out: list[Any] = []
        extents: list[Any] = []
        for at in range(len(rows[0])):
            if isinstance(rows[0][at], str | bytes):
                out.append([row[at] for row in rows])
                continue
            arrays = [_array(row[at], place, at, None, None) for place, row in enumerate(rows)]
            for place, array in enumerate(arrays):
                if array.ndim != arrays[0].ndim or array.dtype != arrays[0].dtype:
                    raise DataError(
                        f"item {place} of the batch, modality {at}: {array.dtype} with {array.ndim} axes, "
                        "but "
                        f"the first item has {arrays[0].dtype} with {arrays[0].ndim}"
                    )
            shapes = np.array([array.shape for array in arrays], np.int64).reshape(len(arrays), -1)
            padded = MEMORY.empty((len(arrays), *shapes.max(axis=0, initial=0).tolist()), arrays[0].dtype)
            padded[...] = self.value
            for place, array in enumerate(arrays):
                corner: tuple[Any, ...] = (place, *map(slice, array.shape))
                padded[corner] = array
            out.append(padded)
            if shapes.shape[1]:
                extents.append(shapes)
        return tuple(out + extents) if self.lengths else tuple(out)


pad_collate = PadCollate()
"""Pads with 0 and adds nothing; ``PadCollate(value=…, lengths=True)`` for the rest."""
