"""A file off the grid's lattice, brought onto it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from odc.geo.geobox import GeoBox

from patchbeam.elements import Array, Mask
from patchbeam.rasters.coordinates import PixelMap
from patchbeam.rasters.footprints import Placement
from patchbeam.rasters.handles import Handles
from patchbeam.rasters.pieces import Rect, read_piece, unscaled

MAX_SOURCE_PIXELS = 1 << 24
"""Pixels of the file held at a time, all bands together; more are read in several goes."""

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

    def read(self, indexes: Sequence[int], rect: Rect) -> Iterator[tuple[Rect, Array, Mask]]:
        """Yields rectangles of the grid, their values and validity, both ``(band, row, col)``.

        Raises:
            ReadFailed: the file cannot be read.
        """
        yield from self._nearest(indexes, rect)

    def _nearest(self, indexes: Sequence[int], rect: Rect) -> Iterator[tuple[Rect, Array, Mask]]:
        x, y = self.map.centres(rect)
        with np.errstate(invalid="ignore"):
            # the edges belong to the file, as in GDAL
            inside = (x >= 0) & (y >= 0)
            inside &= (x + _SNAP <= self.file.width) & (y + _SNAP <= self.file.height)
        yield from self._gather(indexes, rect, x, y, inside)

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
        if need.width * need.height * len(indexes) > MAX_SOURCE_PIXELS and rect.width * rect.height > 1:
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
