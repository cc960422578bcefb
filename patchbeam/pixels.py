"""From pixels as read to pixels as stored: masked values, array depths, the mask band.

Runs once a block on whole arrays, so that encoding a patch is nothing but copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from patchbeam.elements import Array, BandPixels, Mask, PixelBlock
from patchbeam.features import RecordBand

_SORTED = 1 << 20
"""Numbers whose order is held at a time."""


def default_for(dtype: np.dtype[Any], value: float) -> int | float:
    """Returns ``defaultValue`` as a band of this type holds it.

    For integers the fraction is dropped and the value clamped to the type's range (Earth Engine's
    guide); for floats it is taken as it is.
    """
    if dtype.kind == "f":
        return value
    limits = np.iinfo(dtype)
    if math.isinf(value):
        return limits.max if value > 0 else limits.min
    return min(max(math.trunc(value), int(limits.min)), int(limits.max))


def fit_depth(pixels: BandPixels, depth: int | None, default: float, *, compact: bool) -> BandPixels:
    """Truncates or pads an array band to its depth.

    Args:
        pixels: ``(step, row, col)``.
        depth: steps wanted; ``None`` keeps all.
        default: ``defaultValue``.
        compact: whether masked observations drop out, so that valid ones move to the front.

    Returns:
        ``(depth, row, col)``, masked steps holding ``defaultValue``; ``valid`` says which steps are there.
    """
    values, valid = pixels.values, pixels.valid
    if compact and valid is not None:
        values, valid = _compacted(values, valid)
    steps = values.shape[0]
    if depth is not None and steps != depth:
        fitted = np.full((depth, *values.shape[1:]), default_for(values.dtype, default), values.dtype)
        present = np.zeros(fitted.shape, np.bool_)
        n = min(depth, steps)
        fitted[:n] = values[:n]
        present[:n] = True if valid is None else valid[:n]
        values, valid = fitted, present
    return _filled(values, valid, default)


def _compacted(values: Array, valid: Mask) -> tuple[Array, Mask]:
    """Moves the valid steps of each pixel to the front, in their order."""
    moved, there = np.empty_like(values), np.empty_like(valid, order="C")
    # a few rows at a time: an order is eight bytes a number, many times what small types take
    rows = max(1, _SORTED // max(1, values.shape[0] * values.shape[2]))
    for top in range(0, values.shape[1], rows):
        at = (slice(None), slice(top, top + rows))
        order = np.argsort(~valid[at], axis=0, kind="stable")
        moved[at] = np.take_along_axis(values[at], order, axis=0)
        there[at] = np.take_along_axis(valid[at], order, axis=0)
    return moved, there


def _filled(values: Array, valid: Mask | None, default: float) -> BandPixels:
    if valid is None or valid.all():
        return BandPixels(values=values)
    if not values.flags.writeable:
        values = values.copy()
    np.copyto(values, default_for(values.dtype, default), where=~valid, casting="unsafe")
    return BandPixels(values=values, valid=valid)


def _both(first: Mask, second: Mask) -> Mask:
    both: Mask = first & second
    return both


def stored_block(
    block: int,
    read: Sequence[BandPixels],
    bands: Sequence[RecordBand],
    *,
    default: float,
    compact: Sequence[bool],
    inside: Mask | None = None,
) -> PixelBlock:
    """Makes the stored form of a block.

    Args:
        block: number of the block.
        read: one entry a source band, ``(row, col)`` or ``(step, row, col)``; may be changed in place.
        bands: the record's bands; one more than ``read`` when the last is the mask band.
        default: ``defaultValue``.
        compact: for each band read, whether masked observations drop out of its arrays.
        inside: ``(row, col)``, false where ``clip`` masks every band; ``None`` for no clip.
    """
    stored: list[BandPixels] = []
    everywhere: Mask | None = inside
    present: Mask | None
    for pixels, band, dense in zip(read, bands[: len(read)], compact, strict=True):
        valid = pixels.valid
        if inside is not None:
            valid = np.broadcast_to(inside, pixels.values.shape) if valid is None else _both(valid, inside)
        if band.array:
            # an array is masked when it is empty: no observation is valid
            present = None if valid is None else np.logical_or.reduce(valid, axis=0)
            masked = BandPixels(values=pixels.values, valid=valid)
            stored.append(fit_depth(masked, band.depth, default, compact=dense))
        else:
            present = valid
            stored.append(_filled(pixels.values, valid, default))
        if present is not None:
            everywhere = present if everywhere is None else _both(everywhere, present)
    if everywhere is not None and everywhere.all():
        everywhere = None
    if len(bands) > len(read):
        shape = read[0].values.shape[-2:]
        flags = np.ones(shape, np.uint8) if everywhere is None else everywhere.astype(np.uint8)
        stored.append(BandPixels(values=flags))
    return PixelBlock(block=block, bands=tuple(stored), valid=everywhere)
