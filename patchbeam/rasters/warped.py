"""A file off the grid's lattice, brought onto it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from odc.geo.geobox import GeoBox

from patchbeam import counts
from patchbeam.elements import Array, Mask
from patchbeam.rasters.coordinates import PixelMap, cut
from patchbeam.rasters.footprints import Placement
from patchbeam.rasters.gather import Piece, bilinear, halves, inside, nearest
from patchbeam.rasters.handles import Handles
from patchbeam.rasters.masks import nodata_valid
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

_NOT_SHRINKING = 1.05
"""Pixels of the file under one of the grid up to which GDAL's kernels keep their own width."""


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
        self.seen_map = self.map
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
        self.seen_map = PixelMap(self.seen, self.grid, self.placement.turn)
        self.shrink = self.shrink[0] / across, self.shrink[1] / down

    def read(self, indexes: Sequence[int], rect: Rect) -> Iterator[Piece]:
        """Yields rectangles of the grid, their values and validity, both ``(band, row, col)``.

        Raises:
            ReadFailed: the file cannot be read.
        """
        counts.add("warps")
        most = MAX_SOURCE_PIXELS // len(indexes)

        if self.resampling == "nearest":
            yield from self._nearest(indexes, rect, most)
            return

        def load(need: Rect) -> tuple[Array, Mask | None]:
            return self._load(indexes, need)

        if self.resampling == "bilinear" and max(self.shrink) <= _NOT_SHRINKING:
            yield from bilinear(self.seen_map, rect, load, most)
            return
        for tile in _tiles(rect):
            for at, values, valid in self._kernel(indexes, tile):
                part = at.meet(rect)
                if not part.empty:
                    where = part.slices(at)
                    yield part, values[where], None if valid is None else valid[where]

    def _nearest(self, indexes: Sequence[int], rect: Rect, most: int) -> Iterator[Piece]:
        # what is done to each pixel for itself waits until it is known which are wanted
        plain = replace(self.file, nodata=(None,) * len(self.file.nodata))

        def load(need: Rect) -> tuple[Array, Mask | None]:
            return read_piece(self.handles.get(self.file.path), plain, indexes, need, nodata=None)

        for at, values, valid in nearest(self.map, rect, load, most):
            own = nodata_valid(values, self.file, indexes, self.nodata)
            if own is not None:
                valid = own if valid is None else valid & own
            yield at, self._mixable(values, indexes), valid

    def _kernel(self, indexes: Sequence[int], tile: Rect) -> Iterator[Piece]:
        x, y = self.seen_map.centres(tile)
        held = inside(x, y, self.seen_map.size)
        if not held.any():
            return
        need = self._reach(x[held], y[held])
        if _too_much(need, indexes) and tile.width * tile.height > 1:
            for half in halves(tile):
                yield from self._kernel(indexes, half)
            return
        values, valid = self._load(indexes, need)
        source = cut(self.seen_map.file_transform, need, self.file.crs_wkt)
        target = cut(self.map.to_world, tile, self.grid.crs)
        shrink = snapped(self.shrink[0]), snapped(self.shrink[1])
        warped, good = resample(
            values, valid, source, target, self.resampling, shrink, covered=bool(held.all())
        )
        yield tile, warped, held & good

    def _load(self, indexes: Sequence[int], need: Rect) -> tuple[Array, Mask | None]:
        """Reads the file, or its overview, by numbers that can be mixed."""
        dataset = self.handles.get(self.file.path, self.level)
        values, valid = read_piece(dataset, self.seen, indexes, need, nodata=self.nodata)
        return self._mixable(values, indexes), valid

    def _mixable(self, values: Array, indexes: Sequence[int]) -> Array:
        """Returns values in the type in which they are to be mixed."""
        if self.scaled:
            return unscaled(values, self.file, indexes, np.dtype(np.float64))
        if self.dtype.kind == "f" and values.dtype != self.dtype:
            # A floating point band of whole numbers: fractions between them are wanted
            return values.astype(np.result_type(values.dtype, self.dtype))
        return values

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


def _too_much(need: Rect, indexes: Sequence[int]) -> bool:
    return need.width * need.height * len(indexes) > MAX_SOURCE_PIXELS


def _tiles(rect: Rect) -> Iterator[Rect]:
    for top in range(rect.top // TILE * TILE, rect.bottom, TILE):
        for left in range(rect.left // TILE * TILE, rect.right, TILE):
            yield Rect(left, top, left + TILE, top + TILE)
