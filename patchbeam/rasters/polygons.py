"""Polygons to pixels by GDAL's scanline rule, in coordinates of the whole grid.

A pixel belongs to a polygon when its centre is inside; where an edge passes through a centre, the last digit
of the crossing decides. GDAL counts pixels from the corner of the raster that it burns into, so that a window
and the whole grid can differ there. Here the crossings are those of the whole grid, whatever the window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from patchbeam.elements import Array
from patchbeam.rasters.floors import Floats
from patchbeam.rasters.pieces import Rect

Ints = NDArray[np.intp]
Spans = tuple[Ints, Ints, Ints, Ints]
"""Number of the polygon, row, first column and the column after the last."""

_POLYGONS = (3, 6)
_MOST_PIXELS = 1 << 22


def all_polygons(shapes: NDArray[Any]) -> bool:
    """Whether every geometry is a polygon or a multipolygon."""
    return bool(np.isin(shapely.get_type_id(shapes), _POLYGONS).all())


def fill_polygons(
    shapes: NDArray[Any], values: Array, rect: Rect, out: Array, *, mirrored: bool = False
) -> None:
    """Writes values where polygons lie, one after the other.

    Args:
        shapes: polygons and multipolygons in pixels of the grid; the rings of a polygon count
            together, even-odd.
        values: of each, in the type of ``out``.
        rect: pixels of the grid.
        out: ``(row, col)``, contiguous; pixels that no polygon covers keep what they hold.
        mirrored: whether rows run against the CRS's second axis, as on a north-up grid.
    """
    # the parts of a multipolygon are filled one by one
    polygons, of_shape = shapely.get_parts(shapes, return_index=True)
    values = values[of_shape]
    number, row, start, stop = spans(polygons, rect, mirrored)
    order = np.argsort(number, kind="stable")
    number, row, start, stop = number[order], row[order], start[order], stop[order]
    lengths = stop - start
    flat = out.reshape(-1)
    # a bounded number of pixels at a time, however often polygons cover each other
    chunk = np.cumsum(lengths) // _MOST_PIXELS
    for part in np.split(np.arange(len(lengths)), np.flatnonzero(np.diff(chunk)) + 1):
        n = lengths[part]
        begin = (row[part] - rect.top) * rect.width + start[part] - rect.left
        ends = np.cumsum(n)
        at = np.arange(int(n.sum())) + np.repeat(begin - (ends - n), n)
        # of several values for one pixel the last one stays
        flat[at] = np.repeat(values[number[part]], n)


def spans(polygons: NDArray[Any], rect: Rect, mirrored: bool = False) -> Spans:
    """Returns the runs of pixels of ``rect`` whose centres lie in polygons."""
    number, x1, y1, x2, y2 = _edges(polygons, mirrored)
    crossing = _crossings(number, x1, y1, x2, y2, rect)
    level = _level(number, x1, y1, x2, y2, rect)
    whole = [np.concatenate(pair) for pair in zip(crossing, level, strict=True)]
    start, stop = np.maximum(whole[2], rect.left), np.minimum(whole[3], rect.right)
    kept = start < stop
    return whole[0][kept], whole[1][kept], start[kept], stop[kept]


def _edges(polygons: NDArray[Any], mirrored: bool) -> tuple[Ints, Floats, Floats, Floats, Floats]:
    rings, of_polygon = shapely.get_rings(polygons, return_index=True)
    points, of_ring = shapely.get_coordinates(rings, return_index=True)
    edge = of_ring[:-1] == of_ring[1:]
    a, b = points[:-1][edge], points[1:][edge]
    ring = of_ring[:-1][edge]
    # GDAL turns all rings the same way round on the map, which decides what becomes of level edges
    doubled = np.bincount(ring, a[:, 0] * b[:, 1] - b[:, 0] * a[:, 1], minlength=len(rings))
    turn = ((doubled < 0) if mirrored else (doubled > 0))[ring][:, None]
    a, b = np.where(turn, b, a), np.where(turn, a, b)
    number = of_polygon[ring]
    return np.asarray(number, np.intp), a[:, 0], a[:, 1], b[:, 0], b[:, 1]


def _crossings(number: Ints, x1: Floats, y1: Floats, x2: Floats, y2: Floats, rect: Rect) -> Spans:
    """Runs between two crossings of a row's middle."""
    down = y1 < y2
    low, high = np.where(down, y1, y2), np.where(down, y2, y1)
    left, right = np.where(down, x1, x2), np.where(down, x2, x1)
    # rows whose middle is at or below the upper end, and above the lower one
    first = np.clip(np.ceil(low - 0.5), rect.top, rect.bottom).astype(np.intp)
    last = np.clip(np.ceil(high - 0.5), rect.top, rect.bottom).astype(np.intp)
    count = np.where(low < high, last - first, 0)
    edge = np.repeat(np.arange(len(count)), count)
    ends = np.cumsum(count)
    row = np.arange(len(edge)) - np.repeat(ends - count, count) + first[edge]
    low, high, left, right = low[edge], high[edge], left[edge], right[edge]
    # in the order of GDAL's own arithmetic
    x = (row + 0.5 - low) * (right - left) / (high - low) + left
    owner = number[edge]
    order = np.lexsort((x, row, owner))
    column = np.floor(x[order] + 0.5)
    column = np.clip(column, rect.left, rect.right).astype(np.intp)
    # rings are closed, so that each row of each polygon has an even number
    return owner[order][::2], row[order][::2], column[::2], column[1::2]


def _level(number: Ints, x1: Floats, y1: Floats, x2: Floats, y2: Floats, rect: Rect) -> Spans:
    """Runs along edges that lie on a row's middle and go left: GDAL fills these besides."""
    row = np.floor(y1)
    on = (y1 == y2) & (y1 == row + 0.5) & (x1 > x2) & (row >= rect.top) & (row < rect.bottom)
    start = np.clip(np.floor(x2[on] + 0.5), rect.left, rect.right).astype(np.intp)
    stop = np.clip(np.floor(x1[on] + 0.5), rect.left, rect.right).astype(np.intp)
    return number[on], row[on].astype(np.intp), start, stop
