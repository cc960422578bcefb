"""Resampling that looks at one position at a time: nearest and, where nothing shrinks, bilinear.

What a pixel becomes is a function of its own position in the file, so that it cannot depend on the
window it is read by. The formulas, and where ties go, are those of GDAL's warper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.elements import Array, Mask
from patchbeam.rasters.coordinates import CELL, Floats, PixelMap
from patchbeam.rasters.pieces import Rect

Load = Callable[[Rect], tuple[Array, Mask | None]]
"""Reads a rectangle of the file: values ``(band, row, col)`` and validity, ``None`` when all are valid."""

Piece = tuple[Rect, Array, Mask | None]
"""A rectangle of the grid, its values ``(band, row, col)`` and validity, ``None`` when all are valid."""

Ints = NDArray[np.intp]

SNAP = 1e-10
"""Pixels by which GDAL moves a position right and down before it takes the floor."""

_NOTHING = 1e-7
"""Weight below which a masked neighbour does not count: less than a float32 can show."""

_STRIP = 2 * CELL


def inside(x: Floats, y: Floats, size: tuple[int, int]) -> Mask:
    """Returns which positions lie in a file of ``size`` (width, height), its edges taken in, as in GDAL."""
    with np.errstate(invalid="ignore"):
        held: Mask = (x >= 0) & (y >= 0)
        held &= (x + SNAP <= size[0]) & (y + SNAP <= size[1])
    return held


def nearest(map_: PixelMap, rect: Rect, load: Load, most: int) -> Iterator[Piece]:
    """Yields the pixels whose squares hold the centres of the grid's pixels.

    Args:
        map_: from the grid to the file.
        rect: pixels of the grid.
        load: reads the file.
        most: pixels of the file that may be loaded at a time.
    """
    if not map_.separable:
        yield from _by_strips(map_, rect, load, most, _take_nearest)
        return
    x, y = (axis.ravel() for axis in map_.axes(rect))
    width, height = map_.size
    across = np.flatnonzero((x >= 0) & (x + SNAP <= width))
    down = np.flatnonzero((y >= 0) & (y + SNAP <= height))
    if across.size and down.size:
        cols, rows = _floor(x[across], width), _floor(y[down], height)
        at = Rect(int(across[0]), int(down[0]), int(across[-1]) + 1, int(down[-1]) + 1)
        yield from _take_axes(cols, rows, at.moved(rect.left, rect.top), load, most)


def bilinear(map_: PixelMap, rect: Rect, load: Load, most: int) -> Iterator[Piece]:
    """Yields values between the four pixels round each position; arguments as of :func:`nearest`.

    At the edge of the file, what is missing of the four does not count. A pixel is masked when one of
    those that count is.
    """
    yield from _by_strips(map_, rect, load, most, _take_bilinear)


def _floor(position: Floats, size: int) -> Ints:
    return np.minimum((position + SNAP).astype(np.intp), size - 1)


def _take_axes(cols: Ints, rows: Ints, at: Rect, load: Load, most: int) -> Iterator[Piece]:
    need = Rect(int(cols.min()), int(rows.min()), int(cols.max()) + 1, int(rows.max()) + 1)
    if need.width * need.height > most and at.width * at.height > 1:
        for half in halves(at):
            _, down, across = half.slices(at)
            yield from _take_axes(cols[across], rows[down], half, load, most)
        return
    values, valid = load(need)
    rows, cols = rows - need.top, cols - need.left
    good = None if valid is None else valid.take(rows, axis=1).take(cols, axis=2)
    yield at, values.take(rows, axis=1).take(cols, axis=2), good


_Take = Callable[[Floats, Floats, Mask, tuple[int, int], Load, int], "tuple[Array, Mask | None] | None"]


def _by_strips(map_: PixelMap, rect: Rect, load: Load, most: int, take: _Take) -> Iterator[Piece]:
    for top in range(rect.top // _STRIP * _STRIP, rect.bottom, _STRIP):
        strip = Rect(rect.left, top, rect.right, top + _STRIP).meet(rect)
        x, y = map_.centres(strip)
        yield from _by_parts(x, y, strip, map_.size, load, most, take)


def _by_parts(
    x: Floats, y: Floats, at: Rect, size: tuple[int, int], load: Load, most: int, take: _Take
) -> Iterator[Piece]:
    """Yields ``at`` whole, or in parts for which no more than ``most`` pixels have to be loaded."""
    held = inside(x, y, size)
    if not held.any():
        return
    taken = take(x, y, held, size, load, most)
    if taken is not None:
        yield at, *taken
        return
    for half in halves(at):
        _, down, across = half.slices(at)
        yield from _by_parts(x[down, across], y[down, across], half, size, load, most, take)


def _take_nearest(
    x: Floats, y: Floats, held: Mask, size: tuple[int, int], load: Load, most: int
) -> tuple[Array, Mask | None] | None:
    everywhere = bool(held.all())
    if not everywhere:
        # positions outside stand on one that is inside, so that nothing more is loaded for them
        first = np.argmax(held)
        x, y = np.where(held, x, x.flat[first]), np.where(held, y, y.flat[first])
    cols, rows = _floor(x, size[0]), _floor(y, size[1])
    need = Rect(int(cols.min()), int(rows.min()), int(cols.max()) + 1, int(rows.max()) + 1)
    if need.width * need.height > most and held.size > 1:
        return None
    values, valid = load(need)
    flat = (rows - need.top) * need.width + (cols - need.left)
    good = None if everywhere else np.broadcast_to(held, (len(values), *held.shape))
    if valid is not None:
        good = held & _flat(valid).take(flat, axis=1)
    return _flat(values).take(flat, axis=1), good


def _take_bilinear(
    x: Floats, y: Floats, held: Mask, size: tuple[int, int], load: Load, most: int
) -> tuple[Array, Mask | None] | None:
    if not held.all():
        first = np.argmax(held)
        x, y = np.where(held, x, x.flat[first]), np.where(held, y, y.flat[first])
    left, right, of_left = _pair(x, size[0])
    top, bottom, of_top = _pair(y, size[1])
    need = Rect(int(left.min()), int(top.min()), int(right.max()) + 1, int(bottom.max()) + 1)
    if need.width * need.height > most and held.size > 1:
        return None
    values, valid = load(need)
    corners = [
        ((row - need.top) * need.width + (col - need.left), of_row * of_col)
        for row, of_row in ((top, of_top), (bottom, 1 - of_top))
        for col, of_col in ((left, of_left), (right, 1 - of_left))
    ]
    good: Mask | None = None if held.all() else np.broadcast_to(held, (len(values), *held.shape))
    if valid is not None:
        values = np.where(valid, values, np.zeros((), values.dtype))
        good = np.broadcast_to(held, (len(values), *held.shape)).copy()
        for flat, weight in corners:
            good &= _flat(valid).take(flat, axis=1) | (weight <= _NOTHING)
    flats = [flat for flat, _ in corners]
    result = np.empty((len(values), *held.shape), values.dtype)
    for band, target in zip(_flat(values), result, strict=True):
        a, b, c, d = (band.take(flat).astype(np.float64) for flat in flats)
        upper, lower = a * of_left + b * (1 - of_left), c * of_left + d * (1 - of_left)
        mixed = upper * of_top + lower * (1 - of_top)
        target[...] = _rounded(mixed, values.dtype)
    return result, good


def _pair(position: Floats, size: int) -> tuple[Ints, Ints, Floats]:
    """Returns the two pixels whose centres enclose a position, and the weight of the first."""
    first = np.floor(position - 0.5)
    weight = 1.5 - (position - first)
    weight[(first < 0) | (first + 1 >= size)] = 1.0
    near = first.astype(np.intp)
    np.clip(near, 0, size - 1, out=near)
    return near, np.minimum(near + 1, size - 1), weight


def _rounded(values: Floats, dtype: np.dtype[Any]) -> Array:
    return (np.floor(values + 0.5) if dtype.kind != "f" else values).astype(dtype)


def _flat(values: Array) -> Array:
    return values.reshape(len(values), -1)


def halves(rect: Rect) -> tuple[Rect, Rect]:
    """Returns the two parts of a rectangle cut across its longer side."""
    if rect.width >= rect.height:
        middle = rect.left + rect.width // 2
        return Rect(rect.left, rect.top, middle, rect.bottom), Rect(middle, rect.top, rect.right, rect.bottom)
    middle = rect.top + rect.height // 2
    return Rect(rect.left, rect.top, rect.right, middle), Rect(rect.left, middle, rect.right, rect.bottom)
