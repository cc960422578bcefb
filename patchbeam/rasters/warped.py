"""A file off the grid's lattice, brought onto it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from affine import Affine
from odc.geo.geobox import GeoBox

from patchbeam.elements import Array, Mask
from patchbeam.rasters.coordinates import PixelMap
from patchbeam.rasters.footprints import Placement
from patchbeam.rasters.handles import Handles
from patchbeam.rasters.pieces import Rect, read_piece, unscaled
from patchbeam.rasters.resample import RADIUS, resample, snapped

MAX_SOURCE_PIXELS = 1 << 24
"""Pixels of the file held at a time, all bands together; more are read in several goes."""

TILE = 256
"""Side of the tiles of the grid, counted from its pixel (0, 0), in which kernels are computed: whatever
window is asked for, a pixel comes out of the same computation."""

_AVERAGING = frozenset({"bilinear", "cubic", "cubic_spline", "lanczos", "average"})
"""Kernels for which an overview stands in for the full size when the grid is coarser: its pixels are
averages, or samples, of those beneath. The others ask for the pixels themselves."""

_SNAP = 1e-10
"""Pixels by which GDAL's nearest neighbour moves a position right and down before it takes the floor."""


class Warp:
    """Reads one file as if it lay on the grid."""

    def __init__(
        self,
        placement: Placement,
        grid: GeoBox,
        resampling: str,
        handles: Handles,
        nodata: float | None,
        dtype: np.dtype[Any],
        scaled: bool,
    ) -> None:
        self.placement, self.file, self.grid = placement, placement.file, grid
        self.resampling, self.handles, self.nodata = resampling, handles, nodata
        self.dtype, self.scaled = dtype, scaled
        self.map = PixelMap(placement.file, grid, placement.turn)
        self.shrink = placement.shrink
        self.level: int | None = None
        self.seen = self.file
        if resampling in _AVERAGING:
            self._use_overview()

    def _use_overview(self) -> None:
        """Takes the coarsest overview that is no coarser than the grid, if there is one."""
        factors = [f for f in self.file.overviews if f <= min(self.shrink)]
        if not factors:
            return
        level = self.file.overviews.index(max(factors))
        overview = self.handles.get(self.file.path, level)
        full = self.handles.get(self.file.path)
        # a mask without overviews of its own would be lost
        if overview.mask_flag_enums != full.mask_flag_enums:
            return
        across, down = self.file.width / overview.width, self.file.height / overview.height
        a, b, c, d, e, f = self.file.transform
        transform = (a * across, b * down, c, d * across, e * down, f)
        self.level = level
        self.seen = replace(self.file, width=overview.width, height=overview.height, transform=transform)
        self.shrink = self.shrink[0] / across, self.shrink[1] / down

    def read(self, indexes: Sequence[int], rect: Rect) -> Iterator[tuple[Rect, Array, Mask]]:
        """Yields rectangles of the grid, their values and validity, both ``(band, row, col)``.

        Raises:
            ReadFailed: the file cannot be read.
        """
        if self.resampling == "nearest":
            yield from self._nearest(indexes, rect)
            return
        for tile in _tiles(rect):
            for at, values, valid in self._kernel(indexes, tile):
                part = at.meet(rect)
                if not part.empty:
                    where = part.slices(at)
                    yield part, values[where], valid[where]

    def _kernel(self, indexes: Sequence[int], tile: Rect) -> Iterator[tuple[Rect, Array, Mask]]:
        x, y = self.map.centres(tile)
        inside = self._inside(x, y)
        if not inside.any():
            return
        across, down = self.seen.width / self.file.width, self.seen.height / self.file.height
        need = self._reach(x[inside] * across, y[inside] * down)
        if _too_much(need, indexes) and tile.width * tile.height > 1:
            for half in _halves(tile):
                yield from self._kernel(indexes, half)
            return
        dataset = self.handles.get(self.file.path, self.level)
        values, valid = read_piece(dataset, self.seen, indexes, need, nodata=self.nodata)
        if self.scaled:
            values = unscaled(values, self.file, indexes, np.dtype(np.float64))
        elif self.dtype.kind == "f" and values.dtype != self.dtype:
            # a floating point band of whole numbers: fractions between them are wanted
            values = values.astype(np.result_type(values.dtype, self.dtype))
        a, b, c, d, e, f = self.seen.transform
        corner = Affine(a, b, c + self.placement.turn, d, e, f) * Affine.translation(need.left, need.top)
        source = GeoBox((need.height, need.width), corner, self.file.crs_wkt)
        there = self.grid.affine * Affine.translation(tile.left, tile.top)
        target = GeoBox((tile.height, tile.width), there, self.grid.crs)
        shrink = snapped(self.shrink[0]), snapped(self.shrink[1])
        warped, good = resample(values, valid, source, target, self.resampling, shrink)
        yield tile, warped, good & inside

    def _inside(self, x: Array, y: Array) -> Mask:
        with np.errstate(invalid="ignore"):
            # the edges belong to the file, as in GDAL
            inside: Mask = (x >= 0) & (y >= 0)
            inside &= (x + _SNAP <= self.file.width) & (y + _SNAP <= self.file.height)
        return inside

    def _reach(self, x: Array, y: Array) -> Rect:
        """Returns the pixels of the file, or its overview, that a kernel needs at these positions."""
        radius = RADIUS.get(self.resampling, 1)
        wide, high = (math.ceil(radius * max(1.0, s)) + 2 for s in self.shrink)
        return Rect(
            math.floor(x.min()) - wide,
            math.floor(y.min()) - high,
            math.ceil(x.max()) + wide,
            math.ceil(y.max()) + high,
        ).meet(Rect(0, 0, self.seen.width, self.seen.height))

    def _nearest(self, indexes: Sequence[int], rect: Rect) -> Iterator[tuple[Rect, Array, Mask]]:
        x, y = self.map.centres(rect)
        yield from self._gather(indexes, rect, x, y, self._inside(x, y))

    def _gather(
        self, indexes: Sequence[int], rect: Rect, x: Array, y: Array, inside: Mask
    ) -> Iterator[tuple[Rect, Array, Mask]]:
        if not inside.any():
            return
        with np.errstate(invalid="ignore"):
            cols = np.where(inside, np.floor(x + _SNAP), 0).astype(np.int64)
            rows = np.where(inside, np.floor(y + _SNAP), 0).astype(np.int64)
        np.minimum(cols, self.file.width - 1, out=cols)
        np.minimum(rows, self.file.height - 1, out=rows)
        held_cols, held_rows = cols[inside], rows[inside]
        need = Rect(
            int(held_cols.min()), int(held_rows.min()), int(held_cols.max()) + 1, int(held_rows.max()) + 1
        )
        if _too_much(need, indexes) and rect.width * rect.height > 1:
            for half in _halves(rect):
                _, r, c = half.slices(rect)
                yield from self._gather(indexes, half, x[r, c], y[r, c], inside[r, c])
            return
        dataset = self.handles.get(self.file.path)
        values, valid = read_piece(dataset, self.file, indexes, need, nodata=self.nodata)
        flat = np.where(inside, (rows - need.top) * need.width + (cols - need.left), 0)
        taken = values.reshape(len(indexes), -1)[:, flat]
        if self.scaled:
            taken = unscaled(taken, self.file, indexes, np.dtype(np.float64))
        good = np.broadcast_to(inside, taken.shape)
        if valid is not None:
            good = good & valid.reshape(len(indexes), -1)[:, flat]
        yield rect, taken, good


def _halves(rect: Rect) -> tuple[Rect, Rect]:
    if rect.width >= rect.height:
        middle = rect.left + rect.width // 2
        return Rect(rect.left, rect.top, middle, rect.bottom), Rect(middle, rect.top, rect.right, rect.bottom)
    middle = rect.top + rect.height // 2
    return Rect(rect.left, rect.top, rect.right, middle), Rect(rect.left, middle, rect.right, rect.bottom)


def _too_much(need: Rect, indexes: Sequence[int]) -> bool:
    return need.width * need.height * len(indexes) > MAX_SOURCE_PIXELS


def _tiles(rect: Rect) -> Iterator[Rect]:
    for top in range(rect.top // TILE * TILE, rect.bottom, TILE):
        for left in range(rect.left // TILE * TILE, rect.right, TILE):
            yield Rect(left, top, left + TILE, top + TILE)
