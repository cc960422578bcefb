"""From pixels of the export grid to pixels of a file, the same whatever window is asked for.

Within one CRS the two affine transforms are applied one after the other, in the order and with the
roundings of GDAL's own transformer, so that ties fall as they do there. Between CRSs, PROJ is asked at
the nodes of a lattice fixed to the grid's pixel (0, 0), and positions between them come from cubic
interpolation; in a cell where that misses PROJ's answer by more than :data:`TOLERANCE` pixels at any
of the points tried (a pole, the antimeridian, the edge of a projection's domain), PROJ is asked for
each pixel. A position therefore depends on its pixel alone.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from odc.geo.geobox import GeoBox
from pyproj import Transformer

from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.pieces import Rect

Floats = NDArray[np.float64]

CELL = 64
"""Pixels of the grid between two nodes."""

TOLERANCE = 1e-7
"""Pixels of the file by which an interpolated position may miss PROJ's."""

_local = threading.local()


def _transformer(source: str, target: str) -> Any:
    """Returns a transformer of this thread: they are not to be shared."""
    cache = getattr(_local, "transformers", None)
    if cache is None:
        cache = _local.transformers = {}
    key = source, target
    if key not in cache:
        cache[key] = Transformer.from_crs(source, target, always_xy=True)
    return cache[key]


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
            x, y = _transformer(self.file_crs, self.grid_crs).transform(x, y, errcheck=False)
        return np.asarray(x), np.asarray(y)

    def in_pixels(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Returns positions on the grid of places in the grid's CRS."""
        return _apply(_inverse(self.to_world), x, y)

    def to_file_world(self, cols: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """Returns places in the file's CRS of positions on the grid; infinite where there is none."""
        x, y = _apply(self.to_world, cols, rows)
        if not self.same:
            x, y = _transformer(self.grid_crs, self.file_crs).transform(x, y, errcheck=False)
        return np.asarray(x), np.asarray(y)

    def exact(self, cols: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """Returns positions in the file of positions on the grid; infinite where there is none."""
        x, y = _apply(self.to_world, cols, rows)
        if not self.same:
            x, y = _transformer(self.grid_crs, self.file_crs).transform(x, y, errcheck=False)
            if self.file_turns:
                x = _near(np.asarray(x), self.file_middle)
        return _apply(self.to_pixel, np.asarray(x), np.asarray(y))

    def centres(self, rect: Rect) -> tuple[Floats, Floats]:
        """Returns where the centres of the grid's pixels lie in the file.

        Args:
            rect: pixels of the grid.

        Returns:
            Columns and rows in the file, each ``(row, col)``; not finite where there is none.
        """
        if self.same:
            shape = (rect.height, rect.width)
            x, y = self.axes(rect)
            return np.broadcast_to(x, shape), np.broadcast_to(y, shape)
        return _Lattice(self, rect).centres()

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


# Lagrange's weights of the nodes at -1, 0, 1, 2 for a pixel centre between nodes 0 and 1
_T = (np.arange(CELL) + 0.5) / CELL
_WEIGHTS = np.stack(
    [
        -_T * (_T - 1) * (_T - 2) / 6,
        (_T + 1) * (_T - 1) * (_T - 2) / 2,
        -(_T + 1) * _T * (_T - 2) / 2,
        (_T + 1) * _T * (_T - 1) / 6,
    ]
)
_TRIED = (CELL // 2, CELL // 8, CELL - CELL // 8)


class _Lattice:
    """The cells that a rectangle touches, and the node positions round them."""

    def __init__(self, map_: PixelMap, rect: Rect) -> None:
        self.map, self.rect = map_, rect
        self.left, self.top = rect.left // CELL, rect.top // CELL
        self.across = -(-rect.right // CELL) - self.left
        self.down = -(-rect.bottom // CELL) - self.top
        cols = (self.left + np.arange(-1, self.across + 2, dtype=np.float64)) * CELL
        rows = (self.top + np.arange(-1, self.down + 2, dtype=np.float64)) * CELL
        self.nodes = map_.exact(*np.meshgrid(cols, rows))

    def centres(self) -> tuple[Floats, Floats]:
        shape = self.rect.height, self.rect.width
        x, y = np.empty(shape), np.empty(shape)
        bad = self.bad_cells()
        with np.errstate(invalid="ignore", over="ignore"):
            for j in range(self.down):
                top = (self.top + j) * CELL
                rows = slice(max(top, self.rect.top) - top, min(top + CELL, self.rect.bottom) - top)
                out = slice(top + rows.start - self.rect.top, top + rows.stop - self.rect.top)
                for nodes, target in ((self.nodes[0], x), (self.nodes[1], y)):
                    target[out] = self.row_of_cells(nodes, j, rows)
                for i in np.flatnonzero(bad[j]):
                    self.ask(int(i), j, x, y)
        return x, y

    def row_of_cells(self, nodes: Floats, j: int, rows: slice) -> Floats:
        weights = _WEIGHTS[:, rows]
        # summed term by term: a matrix product would round differently for windows of other sizes
        lines = weights[0][:, None] * nodes[j][None, :]
        for k in range(1, 4):
            lines += weights[k][:, None] * nodes[j + k][None, :]
        n = self.across
        values = lines[:, 0:n, None] * _WEIGHTS[0]
        term = np.empty_like(values)
        for k in range(1, 4):
            np.multiply(lines[:, k : k + n, None], _WEIGHTS[k], out=term)
            values += term
        start = self.rect.left - self.left * CELL
        return np.asarray(values.reshape(len(lines), n * CELL)[:, start : start + self.rect.width])

    def bad_cells(self) -> NDArray[np.bool_]:
        """Returns which cells, ``(down, across)``, cannot be interpolated."""
        bad = np.zeros((self.down, self.across), np.bool_)
        i, j = np.meshgrid(np.arange(self.across), np.arange(self.down))
        with np.errstate(invalid="ignore", over="ignore"):
            for n, at in enumerate(_TRIED):
                across = _TRIED[-n] if n else at
                cols = ((self.left + i) * CELL + across + 0.5).astype(np.float64)
                rows = ((self.top + j) * CELL + at + 0.5).astype(np.float64)
                for exact, nodes in zip(self.map.exact(cols, rows), self.nodes, strict=True):
                    guess = np.zeros(i.shape)
                    for k in range(4):
                        for m in range(4):
                            guess += _WEIGHTS[k, at] * _WEIGHTS[m, across] * nodes[j + k, i + m]
                    bad |= ~(np.abs(guess - exact) <= TOLERANCE * (1 + np.abs(exact) * 1e-6))
        return bad

    def ask(self, i: int, j: int, x: Floats, y: Floats) -> None:
        left, top = (self.left + i) * CELL, (self.top + j) * CELL
        cell = Rect(left, top, left + CELL, top + CELL).meet(self.rect)
        _, rows, cols = cell.slices(self.rect)
        points = np.meshgrid(
            np.arange(cell.left, cell.right, dtype=np.float64) + 0.5,
            np.arange(cell.top, cell.bottom, dtype=np.float64) + 0.5,
        )
        x[rows, cols], y[rows, cols] = self.map.exact(*points)
