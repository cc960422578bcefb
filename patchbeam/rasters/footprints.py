"""Where the files of a source lie on the export grid, so that a window opens only those it touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from odc.geo.geobox import GeoBox
from shapely import Geometry, Polygon, STRtree, box, intersects

from patchbeam.grid import offsets_on
from patchbeam.rasters.coordinates import PixelMap
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.floors import Floats
from patchbeam.rasters.pieces import Rect

_SAMPLES = 33
_ROUGH_SAMPLES = 9
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
        outline: the same, as a polygon that fits closely; ``None`` where there is none.
    """

    number: int
    file: RasterFile
    turn: float
    offsets: tuple[int, int] | None
    shrink: tuple[float, float]
    bounds: tuple[float, float, float, float]
    outline: Geometry | None = None

    def touches(self, rect: Rect) -> bool:
        """Whether the file may hold a pixel of ``rect``."""
        left, top, right, bottom = self.bounds
        if left >= rect.right or right <= rect.left or top >= rect.bottom or bottom <= rect.top:
            return False
        if self.outline is None:
            return True
        return bool(intersects(self.outline, box(rect.left, rect.top, rect.right, rect.bottom)))

    @property
    def rect(self) -> Rect:
        """The file in pixels of the grid, for one on its lattice."""
        assert self.offsets is not None
        col, row = self.offsets
        return Rect(col, row, col + self.file.width, row + self.file.height)


class Footprints:
    """A spatial index of a source's files in pixels of the export grid.

    Made from bounds that are found for all files at once and may be too large; where exactly a file lies is
    worked out when a window first comes near it.
    """

    def __init__(self, files: Sequence[RasterFile], grid: GeoBox) -> None:
        self._files, self._grid = files, grid
        self._places: dict[int, list[Placement]] = {}
        numbers, bounds = _rough_bounds(files, grid)
        self._numbers = numbers
        self._tree = STRtree(box(*bounds.T))

    def of(self, number: int) -> list[Placement]:
        """Returns where one file lies."""
        if number not in self._places:
            self._places[number] = place(number, self._files[number], self._grid)
        return self._places[number]

    def near(self, rect: Rect) -> list[int]:
        """Returns the numbers of the files that may touch ``rect``, by their rough bounds."""
        found = self._tree.query(box(rect.left, rect.top, rect.right, rect.bottom))
        return sorted({int(n) for n in self._numbers[found]})

    def touching(self, rect: Rect) -> list[Placement]:
        """Returns the files that may hold a pixel of ``rect``, in list order."""
        return [p for number in self.near(rect) for p in self.of(number) if p.touches(rect)]


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
        outline = None
        if offsets is not None:
            col, row = offsets
            bounds = (float(col), float(row), float(col + file.width), float(row + file.height))
        else:
            bounds, outline = _bounds(file, grid, turn)
        # what is a turn away lies outside the grid and any margin of it
        if turn and (bounds[2] < -grid.width or bounds[0] > 2 * grid.width):
            continue
        shrink = (
            (1.0, 1.0) if offsets is not None else PixelMap(file, grid, turn).shrink(_common(bounds, grid))
        )
        placements.append(Placement(number, file, turn, offsets, shrink, bounds, outline))
    return placements


def _common(bounds: tuple[float, float, float, float], grid: GeoBox) -> Rect:
    """Returns where the file and the grid meet; the whole grid where they don't."""
    whole = Rect(0, 0, grid.width, grid.height)
    left, top, right, bottom = (round(v) for v in bounds)
    common = whole.meet(Rect(left, top, right, bottom))
    return whole if common.empty else common


def _bounds(
    file: RasterFile, grid: GeoBox, turn: float
) -> tuple[tuple[float, float, float, float], Geometry | None]:
    """Returns the file's bounds on the grid from a lattice of its points, and its outline.

    They are widened by the largest step between neighbouring points, which is more than any edge can
    bulge between them, and which takes in the whole width where the file holds a pole or is cut by
    the grid's antimeridian.
    """
    cols, rows = np.meshgrid(np.linspace(0, file.width, _SAMPLES), np.linspace(0, file.height, _SAMPLES))
    x, y = PixelMap(file, grid, turn).to_grid(cols, rows)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return (-_EVERYWHERE, -_EVERYWHERE, _EVERYWHERE, _EVERYWHERE), None
    wide, high = (_largest_step(v) + 1 for v in (x, y))
    bounds = float(x.min() - wide), float(y.min() - high), float(x.max() + wide), float(y.max() + high)
    return bounds, _outline(x, y)


def _outline(x: Floats, y: Floats) -> Geometry | None:
    """Returns a polygon round the points of a lattice, widened by more than its edges bulge.

    Where the lattice is folded or torn, as at a pole, there is none: its outline is then not its area's.
    """
    points = np.stack([x, y], axis=-1)
    edges = (points[0], points[:, -1], points[-1, ::-1], points[::-1, 0])
    bend = max(float(np.abs(np.diff(edge, 2, axis=0)).max()) for edge in edges)
    across, down = np.diff(points, axis=1)[:-1], np.diff(points, axis=0)[:, :-1]
    cells = across[..., 0] * down[..., 1] - across[..., 1] * down[..., 0]
    polygon = Polygon(np.concatenate([edge[:-1] for edge in edges]))
    area = float(np.abs(cells).sum())
    if not polygon.is_valid or not 0.95 * area <= polygon.area <= 1.05 * area:
        return None
    return polygon.buffer(bend + 1)


def _largest_step(values: Floats) -> float:
    return float(max(np.abs(np.diff(values, axis=axis)).max() for axis in (0, 1)))


def _rough_bounds(files: Sequence[RasterFile], grid: GeoBox) -> tuple[NDArray[np.int64], Floats]:
    """Returns numbers of files, and bounds of each in pixels of the grid; a file may occur more than once.

    One call of PROJ for all files of one CRS.
    """
    groups: dict[str, list[int]] = {}
    for number, file in enumerate(files):
        groups.setdefault(file.crs_wkt, []).append(number)
    all_numbers, all_bounds = [], []
    steps = np.linspace(0, 1, _ROUGH_SAMPLES)
    for members in groups.values():
        numbers = np.array(members, np.int64)
        map_ = PixelMap(files[members[0]], grid)
        size = np.array([(files[n].width, files[n].height) for n in members], np.float64)
        cols = size[:, 0, None, None] * steps[None, None, :]
        rows = size[:, 1, None, None] * steps[None, :, None]
        a, b, c, d, e, f = np.array([files[n].transform for n in members]).T[:, :, None, None]
        x, y = a * cols + b * rows + c, d * cols + e * rows + f
        turns = (0.0, -360.0, 360.0) if map_.same and map_.grid_turns else (0.0,)
        for turn in turns:
            col, row = map_.world_to_grid(x + turn, y)
            bounds = np.empty((len(members), 4))
            for k, v in enumerate((col, row)):
                with np.errstate(invalid="ignore"):
                    steps_of = [np.abs(np.diff(v, axis=axis)).max(axis=(1, 2)) for axis in (1, 2)]
                    wide = np.maximum(*steps_of) + 1
                    bounds[:, k], bounds[:, k + 2] = v.min(axis=(1, 2)) - wide, v.max(axis=(1, 2)) + wide
            lost = ~np.isfinite(bounds).all(axis=1)
            bounds[lost] = -_EVERYWHERE, -_EVERYWHERE, _EVERYWHERE, _EVERYWHERE
            all_numbers.append(numbers)
            all_bounds.append(bounds)
    return np.concatenate(all_numbers), np.concatenate(all_bounds)
