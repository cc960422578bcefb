"""Resampling that looks at one position at a time: nearest and, where nothing shrinks, bilinear.

What a pixel becomes is a function of its own position in the file, so that it cannot depend on the
window it is read by. The formulas, and where ties go, are those of GDAL's warper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from patchbeam.elements import Array, Mask
from patchbeam.rasters.coordinates import PixelMap
from patchbeam.rasters.floors import CELL, Floats
from patchbeam.rasters.pieces import Rect

Load = Callable[[Rect], tuple[Array, Mask | None]]
"""Reads a rectangle of the file: values ``(band, row, col)`` and validity, ``None`` when all are valid."""

Held = tuple[Rect, Array, "Mask | None"]
"""A rectangle of the file, its values ``(band, row, col)`` and validity, ``None`` when all are valid."""

Piece = tuple[Rect, Array, Mask | None]
"""A rectangle of the grid, its values ``(band, row, col)`` and validity, ``None`` when all are valid."""

Ints = NDArray[np.int32]
"""Columns or rows of a file, of which GDAL has no more, or pixels of the part of it that is in memory."""

SNAP = 1e-10
"""Pixels by which GDAL moves a position right and down before it takes the floor."""

_NOTHING = 1e-7
"""Weight below which a masked neighbour does not count: less than a float32 can show."""

_TILE_ROWS, _TILE_COLS = 2 * CELL, 8 * CELL
"""Pixels taken at a time. What is made of their positions stays in a core's cache, and so does what they take
of the file, which lies across its rows where the grid is turned: long strips would meet each row for a few
pixels only. Smaller ones would have threads wait for each other in the interpreter."""


def inside(x: Floats, y: Floats, size: tuple[int, int]) -> Mask:
    """Returns which positions lie in a file of ``size`` (width, height), its edges taken in, as in GDAL."""
    with np.errstate(invalid="ignore"):
        held: Mask = (x >= 0) & (y >= 0)
        held &= (x + SNAP <= size[0]) & (y + SNAP <= size[1])
    return held


def _all_inside(x: Floats, y: Floats, size: tuple[int, int]) -> bool:
    """Returns quickly whether all positions are :func:`inside`; not finite ones are not."""
    return bool(x.min() >= 0 and y.min() >= 0 and x.max() + SNAP <= size[0] and y.max() + SNAP <= size[1])


def nearest(map_: PixelMap, rect: Rect, load: Load, most: int) -> Iterator[Piece]:
    """Yields the pixels whose squares hold the centres of the grid's pixels.

    Args:
        map_: from the grid to the file.
        rect: pixels of the grid.
        load: reads the file.
        most: pixels of the file that may be loaded at a time.
    """
    if not map_.separable:
        yield from _by_tiles(map_, rect, load, most, _take_nearest)
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

    def load_filled(need: Rect) -> tuple[Array, Mask | None]:
        values, valid = load(need)
        # a neighbour that hardly counts must not be NaN
        return values if valid is None else np.where(valid, values, np.zeros((), values.dtype)), valid

    yield from _by_tiles(map_, rect, load_filled, most, _take_bilinear)


def _floor(position: Floats, size: int) -> Ints:
    """Returns the pixels that hold positions, all of which lie in the file."""
    whole = (position + SNAP).astype(np.int32)
    return np.minimum(whole, size - 1, out=whole)


def _take_axes(cols: Ints, rows: Ints, at: Rect, load: Load, most: int) -> Iterator[Piece]:
    need = _spanned(cols, rows)
    if need.width * need.height > most and at.width * at.height > 1:
        for half in halves(at):
            _, down, across = half.slices(at)
            yield from _take_axes(cols[across], rows[down], half, load, most)
        return
    values, valid = load(need)
    rows, cols = rows - need.top, cols - need.left
    good = None if valid is None else valid.take(rows, axis=1).take(cols, axis=2)
    yield at, values.take(rows, axis=1).take(cols, axis=2), good


class _Wide:
    """Reads at once what many tiles need: neighbours need much in common.

    Args:
        load: reads the file.
        around: pixels of the file that the tiles need, as far as is known.
    """

    def __init__(self, load: Load, around: Rect | None) -> None:
        self._load, self._around = load, around
        self._held: Held | None = None

    def __call__(self, need: Rect) -> Held:
        """Returns a rectangle that holds what is needed."""
        if self._held is None or not self._held[0].holds(need):
            self._held = None  # before the next one is read: one is in memory at a time
            at = self._around if self._around is not None and self._around.holds(need) else need
            self._held = at, *self._load(at)
        return self._held


_Take = Callable[
    [Floats, Floats, "Mask | None", tuple[int, int], _Wide, int], "tuple[Array, Mask | None] | None"
]
"""Takes positions that all lie in the file; the mask says which are wanted, ``None``: all."""


def _by_tiles(map_: PixelMap, rect: Rect, load: Load, most: int, take: _Take) -> Iterator[Piece]:
    positions = map_.over(rect)
    around = positions.around()
    if around is not None:
        around = around.meet(Rect(0, 0, *map_.size))
        if not around.empty and around.width * around.height > most:
            if max(rect.width, rect.height) > CELL:
                for half in halves(rect):
                    yield from _by_tiles(map_, half, load, most, take)
                return
            around = None
    wide = _Wide(load, around)
    for top in range(rect.top // _TILE_ROWS * _TILE_ROWS, rect.bottom, _TILE_ROWS):
        for left in range(rect.left // _TILE_COLS * _TILE_COLS, rect.right, _TILE_COLS):
            tile = Rect(left, top, left + _TILE_COLS, top + _TILE_ROWS).meet(rect)
            taken = None
            if take is _take_nearest:
                taken = _take_within(positions.whole(tile, SNAP), map_.size, wide, most)
            if taken is not None:
                yield tile, *taken
            else:
                yield from _by_parts(*positions.centres(tile), tile, map_.size, wide, most, take)


def _take_within(
    whole: Ints | None, size: tuple[int, int], load: _Wide, most: int
) -> tuple[Array, Mask | None] | None:
    """Takes pixels of which none is at the file's edge, where whole numbers do not tell if it is inside."""
    if whole is None or not Rect(1, 1, size[0] - 1, size[1] - 1).holds(_spanned(whole[0], whole[1])):
        return None
    return _take_whole(whole[0], whole[1], None, load, most)


def _spanned(cols: Ints, rows: Ints) -> Rect:
    return Rect(int(cols.min()), int(rows.min()), int(cols.max()) + 1, int(rows.max()) + 1)


def _by_parts(
    x: Floats, y: Floats, at: Rect, size: tuple[int, int], load: _Wide, most: int, take: _Take
) -> Iterator[Piece]:
    """Yields ``at`` whole, or in parts for which no more than ``most`` pixels have to be loaded."""
    held = None
    if not _all_inside(x, y, size):
        held = inside(x, y, size)
        if not held.any():
            return
        if held.all():
            held = None
    stand_x, stand_y = x, y
    if held is not None:
        # positions outside stand on one that is inside, so that nothing more is loaded for them
        some = np.argmax(held)
        stand_x, stand_y = np.where(held, x, x.flat[some]), np.where(held, y, y.flat[some])
    taken = take(stand_x, stand_y, held, size, load, most)
    if taken is not None:
        yield at, *taken
        return
    for half in halves(at):
        _, down, across = half.slices(at)
        yield from _by_parts(x[down, across], y[down, across], half, size, load, most, take)


def _take_nearest(
    x: Floats, y: Floats, held: Mask | None, size: tuple[int, int], load: _Wide, most: int
) -> tuple[Array, Mask | None] | None:
    return _take_whole(_floor(x, size[0]), _floor(y, size[1]), held, load, most)


def _take_whole(
    cols: Ints, rows: Ints, held: Mask | None, load: _Wide, most: int
) -> tuple[Array, Mask | None] | None:
    """Takes pixels of the file; overwrites the numbers of their rows."""
    need = _spanned(cols, rows)
    if need.width * need.height > most and cols.size > 1:
        return None
    at, values, valid = load(need)
    flat = rows
    flat -= at.top
    flat *= at.width
    flat += cols
    flat -= at.left
    shape = len(values), *flat.shape
    good = None if held is None else np.broadcast_to(held, shape)
    if valid is not None:
        good = _flat(valid).take(flat, axis=1)
        if held is not None:
            good &= held
    return _flat(values).take(flat, axis=1), good


def _take_bilinear(
    x: Floats, y: Floats, held: Mask | None, size: tuple[int, int], load: _Wide, most: int
) -> tuple[Array, Mask | None] | None:
    left, right, of_left = _pair(x, size[0])
    top, bottom, of_top = _pair(y, size[1])
    need = Rect(int(left.min()), int(top.min()), int(right.max()) + 1, int(bottom.max()) + 1)
    if need.width * need.height > most and x.size > 1:
        return None
    at, values, valid = load(need)
    shape = len(values), *x.shape
    result = np.empty(shape, values.dtype)
    good = None if held is None else np.broadcast_to(held, shape)
    of_col, of_row = (of_left, 1 - of_left), (of_top, 1 - of_top)
    lines = [(line - at.top) * at.width - at.left for line in (top, bottom)]
    flats = [line + column for line in lines for column in (left, right)]
    if valid is not None:
        good = np.ones(shape, np.bool_) if good is None else good.copy()
        for flat, weight in zip(flats, [r * c for r in of_row for c in of_col], strict=True):
            good &= _flat(valid).take(flat, axis=1) | (weight <= _NOTHING)
    _mix(_flat(values), flats, of_col, of_row, result)
    return result, good


def _mix(
    bands: Array, flats: list[Ints], of_col: tuple[Floats, Floats], of_row: tuple[Floats, Floats], out: Array
) -> None:
    """Writes the weighted means of four pixels of each band."""
    shape = out.shape[1:]
    taken = np.empty(shape, bands.dtype)
    upper, lower, term = np.empty(shape), np.empty(shape), np.empty(shape)
    for band, target in zip(bands, out, strict=True):
        for k, mixed in enumerate((upper, lower)):
            # positions are within the window that was read, "clip" only spares numpy a copy
            np.multiply(band.take(flats[2 * k], out=taken, mode="clip"), of_col[0], out=mixed)
            np.multiply(band.take(flats[2 * k + 1], out=taken, mode="clip"), of_col[1], out=term)
            mixed += term
            mixed *= of_row[k]
        upper += lower
        if out.dtype.kind != "f":
            upper += 0.5
            np.floor(upper, out=upper)
        np.copyto(target, upper, casting="unsafe")


def _pair(position: Floats, size: int) -> tuple[Ints, Ints, Floats]:
    """Returns the two pixels whose centres enclose a position, and the weight of the first."""
    first = np.floor(position - 0.5)
    weight = 1.5 - (position - first)
    weight[(first < 0) | (first + 1 >= size)] = 1.0
    near = first.astype(np.int32)
    np.clip(near, 0, size - 1, out=near)
    return near, np.minimum(near + 1, size - 1), weight


def _flat(values: Array) -> Array:
    return values.reshape(len(values), -1)


def halves(rect: Rect) -> tuple[Rect, Rect]:
    """Returns the two parts of a rectangle cut across its longer side."""
    if rect.width >= rect.height:
        middle = rect.left + rect.width // 2
        return Rect(rect.left, rect.top, middle, rect.bottom), Rect(middle, rect.top, rect.right, rect.bottom)
    middle = rect.top + rect.height // 2
    return Rect(rect.left, rect.top, rect.right, middle), Rect(rect.left, middle, rect.right, rect.bottom)
