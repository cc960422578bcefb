"""How grids lie on each other: the pixels of one in those of another.

A *lattice* is a grid without its edges: the pixels of its affine, going on in every direction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import shapely
from affine import Affine
from odc.geo.geobox import GeoBox
from shapely import Geometry

from patchbeam.affines import Coords, starting_at, to_pixels
from patchbeam.crs import describe, longitude_period, same_crs
from patchbeam.errors import GridError
from patchbeam.outline import Unprojectable, grid_outline, grid_ring
from patchbeam.patches import MAX_SIDE, Window

SNAP_PIXELS = 1e-6
"""An edge this close to a pixel's edge, in pixels, counts as lying on it."""

ALIGNED_PIXELS = 1e-3
"""A grid whose pixels lie this close to those of another, in pixels, at all its corners is on its lattice.

Geotransforms are often rounded to ten digits or so, which moves the far corner of a large file by 1e-5
pixels. A thousandth never changes which pixel is nearest, and moves no value that could be seen.
"""


def padded(grid: GeoBox, window: Window) -> GeoBox:
    """Returns the grid of a window of another grid; the window may reach outside it."""
    affine = starting_at(grid.affine, window.col_off, window.row_off)
    return GeoBox((window.height, window.width), affine, grid.crs)


def snap_out(low: float, high: float) -> tuple[int, int]:
    """Returns the pixel edges at or outside a span in pixels; within 1e-6 counts as on the edge."""
    start, stop = round(low), round(high)
    if abs(start - low) > SNAP_PIXELS:
        start = math.floor(low)
    if abs(stop - high) > SNAP_PIXELS:
        stop = math.ceil(high)
    return start, stop


def window_on(affine: Affine, points: Coords) -> Window:
    """Returns the smallest window of a lattice that covers points, snapped outward."""
    pixels = to_pixels(affine, points)
    low, high = pixels.min(axis=0), pixels.max(axis=0)
    col, col_stop = snap_out(float(low[0]), float(high[0]))
    row, row_stop = snap_out(float(low[1]), float(high[1]))
    return Window(col, row, col_stop - col, row_stop - row)


def check_size(width: int, height: int, what: str) -> None:
    """Refuses a grid without pixels, or with more than GDAL can address.

    Raises:
        GridError: names ``what`` gives the grid.
    """
    if width < 1 or height < 1:
        raise GridError(
            f"{what}: gives a grid of {width} × {height} pixels: the region has no area, or is far smaller "
            "than a pixel; give a larger region or smaller pixels"
        )
    if width > MAX_SIDE or height > MAX_SIDE:
        raise GridError(
            f"{what}: gives a grid of {_count(width)} × {_count(height)} pixels, more than "
            f"{MAX_SIDE} a side; give larger pixels or a smaller region"
        )


def _count(pixels: int) -> str:
    return str(pixels) if pixels < 10**15 else f"1e{int(math.log10(pixels))}"


def turned(grid: GeoBox, turns: int) -> GeoBox:
    """Returns a geographic grid moved east by full turns."""
    period = longitude_period(grid.crs)
    if not turns or period is None:
        return grid
    a, b, c, d, e, f = grid.affine[:6]
    return GeoBox(grid.shape, Affine(a, b, c + turns * period, d, e, f), grid.crs)


def appearances(grid: GeoBox, other: GeoBox) -> tuple[GeoBox, ...]:
    """Returns the places where a raster appears on a grid of the same geographic CRS.

    A grid across the antimeridian runs past 180°, and a raster from 0 to 360 reaches past it as well, so
    one raster can appear on a grid up to three times, moved by full turns. Others appear once, as is.

    Returns:
        The raster's grid, as often as its longitudes overlap the grid's, in order from the west;
        as it is where none does or the CRS is another.
    """
    if longitude_period(grid.crs) is None or not same_crs(grid.crs, other.crs):
        return (other,)
    period = longitude_period(grid.crs) or 0.0
    west, east = _span(grid)
    low, high = _span(other)
    first = math.floor((west - high) / period) + 1
    last = math.ceil((east - low) / period) - 1
    return tuple(turned(other, turns) for turns in range(first, last + 1)) or (other,)


def offsets_on(grid: GeoBox, other: GeoBox, tolerance: float = ALIGNED_PIXELS) -> tuple[int, int] | None:
    """Returns the column and row of ``grid`` where ``other`` starts, when it lies on the same lattice.

    Then pixel (row, col) of ``other`` is pixel (row + row_off, col + col_off) of ``grid``, and it can be
    read as it is; a lattice that is turned, flipped or of another pixel size is another one. Longitudes
    count as they stand: see :func:`appearances` for rasters a full turn away.

    Args:
        grid: the grid to count pixels on.
        other: the raster's own grid.
        tolerance: how far, in pixels of ``grid``, each corner of ``other`` may lie from where a raster on
            the lattice would have it.

    Returns:
        ``(col_off, row_off)``, or ``None`` when the CRS or the lattice is another.
    """
    if not same_crs(grid.crs, other.crs):
        return None
    corners = to_pixels(grid.affine, grid_ring(other)[:4])
    if not np.isfinite(corners).all():
        return None
    col, row = (round(float(v)) for v in corners[0])
    width, height = other.width, other.height
    expected = np.array([(0, 0), (width, 0), (width, height), (0, height)]) + np.array([col, row])
    return (col, row) if np.abs(corners - expected).max() <= tolerance else None


def meets_any(grid: GeoBox, source_grids: Sequence[GeoBox]) -> bool:
    """Whether one of the rasters covers some of a grid, or cannot be drawn beside it and nothing is known."""
    return any(_overlap(grid, source) for source in source_grids)


def require_overlap(grid: GeoBox, source_grids: Sequence[GeoBox], key: str = "grid.region") -> None:
    """Refuses a grid that no source covers any of.

    Raises:
        GridError: gives the bounds of the grid and of all sources, in the grid's CRS where they have any.
    """
    if meets_any(grid, source_grids):
        return
    place = describe(grid.crs)
    try:
        bounds = shapely.union_all([_extent(source, grid) for source in source_grids]).bounds
    except GridError:
        bounds, place = grid_outline_bounds(source_grids[0]), describe(source_grids[0].crs)
    mine = f"{_rounded(grid_outline_bounds(grid))} in {describe(grid.crs)}"
    raise GridError(
        f"{key}: no source covers any of the grid: its bounds [xmin, ymin, xmax, ymax] are {mine}, the "
        f"sources' {_rounded(bounds)} in {place}; check grid.region, grid.regionCrs and grid.crs"
    )


def grid_outline_bounds(grid: GeoBox) -> tuple[float, float, float, float]:
    """Returns ``(xmin, ymin, xmax, ymax)`` of a grid's corners in its own CRS."""
    ring = grid_ring(grid)
    (xmin, ymin), (xmax, ymax) = ring.min(axis=0).tolist(), ring.max(axis=0).tolist()
    return xmin, ymin, xmax, ymax


def _overlap(grid: GeoBox, source: GeoBox) -> bool:
    # Either direction can fail (a global raster has no outline in UTM) or fold; one that meets is enough,
    # and where neither can be drawn nothing is known, so nothing is refused.
    known = False
    for one, other in ((grid, source), (source, grid)):
        try:
            mine, theirs = _extent(one, one), _extent(other, one)
        except Unprojectable:
            continue
        known = True
        if shapely.area(shapely.intersection(mine, theirs)) > 0:
            return True
    return not known


def _extent(grid: GeoBox, on: GeoBox) -> Geometry:
    """A grid's extent in the CRS of another, at each of the full turns at which it meets that one."""
    if on.crs is None:
        raise Unprojectable("grid: has no CRS")
    outline = shapely.make_valid(grid_outline(grid, on.crs, "grid"))
    period = longitude_period(on.crs)
    if period is None:
        return outline
    west, _, east, _ = outline.bounds
    low, high = _span(on)
    first, last = math.floor((low - east) / period) + 1, math.ceil((high - west) / period) - 1
    copies = [
        shapely.transform(outline, lambda xy, by=turns * period: xy + np.array([by, 0.0]))
        for turns in range(first, last + 1)
    ]
    return shapely.union_all(copies) if copies else outline


def _span(grid: GeoBox) -> tuple[float, float]:
    xmin, _, xmax, _ = grid_outline_bounds(grid)
    return xmin, xmax


def _rounded(bounds: Sequence[float]) -> list[float]:
    return [float(f"{v:.10g}") for v in bounds]
