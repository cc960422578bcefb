"""Where the files of a source lie on the export grid, so that a window opens only those it touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from odc.geo.geobox import GeoBox
from shapely import STRtree, box

from patchbeam.grid import offsets_on
from patchbeam.rasters.coordinates import PixelMap
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.pieces import Rect

_SAMPLES = 33
_EVERYWHERE = 2.0**40


@dataclass(frozen=True, slots=True)
class Placement:
    """One file on the export grid.

    Attributes:
        number: of the file in its source.
        file: its header.
        turn: degrees of longitude by which it is moved, to meet a grid beyond the antimeridian.
        offsets: column and row of the grid where the file starts, when it lies on the grid's lattice;
            else ``None``.
        shrink: pixels of the file under one pixel of the grid, across and down.
        bounds: left, top, right, bottom in pixels of the grid; may be too large, never too small.
    """

    number: int
    file: RasterFile
    turn: float
    offsets: tuple[int, int] | None
    shrink: tuple[float, float]
    bounds: tuple[float, float, float, float]

    @property
    def rect(self) -> Rect:
        """The file in pixels of the grid, for one on its lattice."""
        assert self.offsets is not None
        col, row = self.offsets
        return Rect(col, row, col + self.file.width, row + self.file.height)


class Footprints:
    """A spatial index of a source's files in pixels of the export grid."""

    def __init__(self, files: Sequence[RasterFile], grid: GeoBox) -> None:
        self.placements = [p for number, file in enumerate(files) for p in place(number, file, grid)]
        self._tree = STRtree([box(*p.bounds) for p in self.placements])

    def touching(self, rect: Rect) -> list[Placement]:
        """Returns the files that may hold a pixel of ``rect``, in list order."""
        found = self._tree.query(box(rect.left, rect.top, rect.right, rect.bottom))
        return [self.placements[i] for i in sorted(int(i) for i in found)]


def place(number: int, file: RasterFile, grid: GeoBox) -> list[Placement]:
    """Returns where a file lies on the grid.

    Longitudes repeat: on a geographic grid that runs over the antimeridian (170 to 190 degrees, say) a
    file that is stored at -180 lies at 180, so a geographic file is also tried one turn east and west.
    """
    own = file.grid
    same = own.crs == grid.crs
    turns = (0.0, -360.0, 360.0) if same and grid.crs is not None and grid.crs.geographic else (0.0,)
    placements = []
    for turn in turns:
        a, b, c, d, e, f = file.transform
        moved = GeoBox(own.shape, Affine(a, b, c + turn, d, e, f), own.crs) if turn else own
        offsets = offsets_on(grid, moved)
        if offsets is not None:
            col, row = offsets
            bounds = (float(col), float(row), float(col + file.width), float(row + file.height))
        else:
            bounds = _bounds(file, grid, turn)
        # what is a turn away lies outside the grid and any margin of it
        if turn and (bounds[2] < -grid.width or bounds[0] > 2 * grid.width):
            continue
        shrink = (
            (1.0, 1.0) if offsets is not None else PixelMap(file, grid, turn).shrink(_common(bounds, grid))
        )
        placements.append(Placement(number, file, turn, offsets, shrink, bounds))
    return placements


def _common(bounds: tuple[float, float, float, float], grid: GeoBox) -> Rect:
    """Returns where the file and the grid meet; the whole grid where they don't."""
    whole = Rect(0, 0, grid.width, grid.height)
    left, top, right, bottom = (round(v) for v in bounds)
    common = whole.meet(Rect(left, top, right, bottom))
    return whole if common.empty else common


def _bounds(file: RasterFile, grid: GeoBox, turn: float) -> tuple[float, float, float, float]:
    """Returns the file's bounds on the grid from a lattice of its points.

    They are widened by the largest step between neighbouring points, which is more than any edge can
    bulge between them, and which takes in the whole width where the file holds a pole or is cut by
    the grid's antimeridian.
    """
    cols, rows = np.meshgrid(np.linspace(0, file.width, _SAMPLES), np.linspace(0, file.height, _SAMPLES))
    x, y = PixelMap(file, grid, turn).to_grid(cols, rows)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return -_EVERYWHERE, -_EVERYWHERE, _EVERYWHERE, _EVERYWHERE
    wide, high = (_largest_step(v) + 1 for v in (x, y))
    return (
        float(x.min() - wide),
        float(y.min() - high),
        float(x.max() + wide),
        float(y.max() + high),
    )


def _largest_step(values: NDArray[np.float64]) -> float:
    return float(max(np.abs(np.diff(values, axis=axis)).max() for axis in (0, 1)))
