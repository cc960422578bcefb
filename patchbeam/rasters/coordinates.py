"""From pixels of the export grid to pixels of a file, the same whatever window is asked for.

Within one CRS the two affine transforms are applied one after the other, in the order and with the
roundings of GDAL's own transformer, so that ties fall as they do there. Between CRSs, positions are
interpolated between those that PROJ gives (:mod:`patchbeam.rasters.cells`). Either way a position depends
on its pixel alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from affine import Affine
from odc.geo.geobox import GeoBox

from patchbeam.rasters import projector
from patchbeam.rasters.cells import Cells
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.floors import Floats
from patchbeam.rasters.pieces import Rect, surrounding


def _inverse(t: tuple[float, ...]) -> tuple[float, ...]:
    """Returns the inverse of (a, b, c, d, e, f), computed in the order of GDAL's GDALInvGeoTransform."""
    a, b, c, d, e, f = t
    if b == 0 and d == 0:
        return 1 / a, 0.0, -c / a, 0.0, 1 / e, -f / e
    scale = 1 / (a * e - b * d)
    return (
        e * scale,
        -b * scale,
        (b * f - c * e) * scale,
        -d * scale,
        a * scale,
        (-a * f + c * d) * scale,
    )


def _apply(t: tuple[float, ...], x: Floats, y: Floats) -> tuple[Floats, Floats]:
    a, b, c, d, e, f = t
    with np.errstate(invalid="ignore"):
        return c + x * a + y * b, f + x * d + y * e


class PixelMap:
    """Maps positions between the export grid and one file; both count from the corner of pixel (0, 0)."""

    def __init__(self, file: RasterFile, grid: GeoBox, turn: float = 0.0) -> None:
        self.size = file.width, file.height
        self.to_world = tuple(grid.affine)[:6]
        a, b, c, d, e, f = file.transform
        self.file_transform = a, b, c + turn, d, e, f
        self.to_pixel = _inverse(self.file_transform)
        own = file.grid.crs
        assert own is not None and grid.crs is not None
        self.same = own == grid.crs
        # columns depend on columns and rows on rows alone
        self.separable = self.same and not any((self.to_world[1], self.to_world[3], b, d))
        self.grid_crs, self.file_crs = str(grid.crs.to_wkt()), file.crs_wkt
        self.file_turns = bool(own.geographic)
        self.grid_turns = bool(grid.crs.geographic)
        self.grid_middle = float(
            _apply(self.to_world, np.array(grid.width / 2), np.array(grid.height / 2))[0]
        )
        self.file_middle = float(a * file.width / 2 + b * file.height / 2 + c)

    def to_grid(self, cols: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """Returns positions on the grid of positions in the file; infinite where there is none."""
        return self.world_to_grid(*_apply(self.file_transform, cols, rows))

    def world_to_grid(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Returns positions on the grid of places in the file's CRS; infinite where there is none."""
        x, y = self.reproject(x, y)
        if not self.same and self.grid_turns:
            x = _near(x, self.grid_middle)
        return self.in_pixels(x, y)

    def reproject(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Returns places in the grid's CRS of places in the file's; infinite where there is none."""
        if not self.same:
            return projector.transform(self.file_crs, self.grid_crs, x, y)
        return x, y

    def in_pixels(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Returns positions on the grid of places in the grid's CRS."""
        return _apply(_inverse(self.to_world), x, y)

    def to_file_world(self, cols: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """Returns places in the file's CRS of positions on the grid; infinite where there is none."""
        x, y = _apply(self.to_world, cols, rows)
        if not self.same:
            return projector.transform(self.grid_crs, self.file_crs, x, y)
        return x, y

    def exact(self, cols: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """Returns positions in the file of positions on the grid; infinite where there is none."""
        x, y = _apply(self.to_world, cols, rows)
        if not self.same:
            x, y = projector.transform(self.grid_crs, self.file_crs, x, y)
            if self.file_turns:
                x = _near(x, self.file_middle)
        return _apply(self.to_pixel, x, y)

    def centres(self, rect: Rect) -> tuple[Floats, Floats]:
        """Returns where the centres of the grid's pixels lie in the file.

        Args:
            rect: pixels of the grid.

        Returns:
            Columns and rows in the file, each ``(row, col)``; not finite where there is none.
        """
        return self.over(rect).centres(rect)

    def over(self, rect: Rect) -> Cells | Plane:
        """Returns what gives the centres of the pixels of a rectangle of the grid, a part of it at a time."""
        return Plane(self, rect) if self.same else Cells(self.exact, rect)

    def axes(self, rect: Rect) -> tuple[Floats, Floats]:
        """Returns what :meth:`centres` does, of one row and one column where the map is separable."""
        cols = np.arange(rect.left, rect.right, dtype=np.float64)[None, :] + 0.5
        rows = np.arange(rect.top, rect.bottom, dtype=np.float64)[:, None] + 0.5
        if self.separable:
            a, _, c, _, e, f = self.to_world
            g, _, h, _, k, m = self.to_pixel
            return h + (c + cols * a) * g, m + (f + rows * e) * k
        return self.exact(cols, rows)

    def shrink(self, rect: Rect) -> tuple[float, float]:
        """Returns the pixels of the file under one pixel of the grid, across and down, within ``rect``.

        The middle one of what a lattice of points shows; (1, 1) where no point can be mapped.
        """
        cols, rows = np.meshgrid(np.linspace(rect.left, rect.right, 9), np.linspace(rect.top, rect.bottom, 9))
        here = self.exact(cols, rows)
        east = self.exact(cols + 1, rows)
        south = self.exact(cols, rows + 1)
        factors = []
        with np.errstate(invalid="ignore"):
            for k in range(2):
                # so that turning alone shrinks nothing, as in GDAL: a sum would blur what is rotated
                step = np.hypot(east[k] - here[k], south[k] - here[k])
                step = step[np.isfinite(step)]
                factors.append(float(np.median(step)) if step.size else 1.0)
        return factors[0] or 1.0, factors[1] or 1.0


class Plane:
    """Positions of a rectangle of a grid in the file's own CRS.

    Args:
        map_: from the grid to the file.
        rect: pixels of the grid.
    """

    def __init__(self, map_: PixelMap, rect: Rect) -> None:
        self._map, self._rect = map_, rect

    def centres(self, part: Rect) -> tuple[Floats, Floats]:
        """Returns what :meth:`PixelMap.centres` does, of a part of the rectangle."""
        shape = (part.height, part.width)
        x, y = self._map.axes(part)
        return np.broadcast_to(x, shape), np.broadcast_to(y, shape)

    def whole(self, part: Rect, shift: float) -> None:
        """Returns ``None``: positions are to be had as cheaply as their whole numbers."""

    def around(self) -> Rect:
        """Returns the pixels of the file between the corners, where all positions lie."""
        return surrounding(
            *self._map.exact(
                np.array([[self._rect.left, self._rect.right]], np.float64),
                np.array([[self._rect.top], [self._rect.bottom]], np.float64),
            )
        )


def prepare(file: RasterFile, grid: GeoBox) -> None:
    """Begins in the background what takes longest when positions are first asked for; does not wait."""
    own = file.grid.crs
    if own is None or grid.crs is None or own == grid.crs:
        return
    mine, theirs = str(grid.crs.to_wkt()), file.crs_wkt
    projector.prepare(theirs, mine)
    projector.prepare(mine, theirs)


def cut(transform: tuple[float, ...], rect: Rect, crs: Any) -> GeoBox:
    """Returns the grid of some pixels of a larger one.

    Args:
        transform: (a, b, c, d, e, f) of the larger one.
        rect: the pixels.
        crs: of both.
    """
    a, b, _, d, e, _ = transform
    x, y = _apply(transform, np.array(float(rect.left)), np.array(float(rect.top)))
    return GeoBox((rect.height, rect.width), Affine(a, b, float(x), d, e, float(y)), crs)


def _near(longitude: Floats, middle: float) -> Floats:
    """Returns the same meridians, within half a turn of ``middle``."""
    with np.errstate(invalid="ignore"):
        turns = np.round((longitude - middle) / 360.0)
        return np.where(np.isfinite(longitude) & (turns != 0), longitude - 360.0 * turns, longitude)
