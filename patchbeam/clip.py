"""Which pixels of a grid have their centre inside a polygon.

Worked out row by row from where the outline crosses the line through the pixel centres, in double
precision; nothing is drawn, so no pixel on the outline is gained or lost to a rasteriser's rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from odc.geo.geobox import GeoBox
from shapely import Geometry

from patchbeam.affines import to_pixels
from patchbeam.errors import GridError
from patchbeam.patches import Window

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClipRegion:
    """A polygon laid on a grid, ready to mask any of its windows.

    Attributes:
        edges: float64 ``(edge, 4)``: column and row of the upper end, column and row of the lower, in
            pixels whose centres have whole numbers. Level edges are left out.
    """

    edges: NDArray[np.float64]

    @classmethod
    def on(cls, geometry: Geometry, grid: GeoBox) -> ClipRegion:
        """Lays a geometry in the grid's CRS on the grid.

        Raises:
            GridError: it has no polygon, so that nothing would be left.
        """
        polygons = [
            part
            for part in shapely.get_parts(shapely.union_all(shapely.make_valid(shapely.get_parts(geometry))))
            if part.geom_type in ("Polygon", "MultiPolygon")
        ]
        if not polygons:
            raise GridError(
                f"grid.clip: the region is a {geometry.geom_type} without area, so every pixel would be "
                "masked; give polygons or leave clip out"
            )
        rings = shapely.get_rings(polygons)
        points, ring = shapely.get_coordinates(rings, return_index=True)
        pixels = to_pixels(grid.affine, points) - 0.5
        ends = np.concatenate([pixels[:-1], pixels[1:]], axis=1)[ring[:-1] == ring[1:]]
        ends = ends[ends[:, 1] != ends[:, 3]]
        upward = ends[:, 1] > ends[:, 3]
        ends[upward] = ends[upward][:, [2, 3, 0, 1]]
        return cls(edges=ends)

    def mask(self, window: Window) -> Mask:
        """Returns bool ``(row, col)``: true where the pixel's centre is inside.

        A centre exactly on the outline belongs to the polygon right of it (or below, where the outline
        is level), so that of two polygons that share an edge exactly one has it.
        """
        x0, y0, x1, y1 = self.edges.T
        top, bottom = window.row_off, window.row_stop
        first = np.clip(np.ceil(y0), top, bottom).astype(np.int64)
        counts = np.clip(np.ceil(y1), top, bottom).astype(np.int64) - first
        edge = np.repeat(np.arange(len(counts)), counts)
        rows = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts) + first[edge]
        # Counted on the grid, not in the window: a margin pixel comes out as in the patch that owns it.
        x = x0[edge] + (rows - y0[edge]) * ((x1 - x0) / (y1 - y0))[edge]
        cols = np.clip(np.ceil(x) - window.col_off, 0, window.width).astype(np.int64)
        stride = window.width + 1
        crossings = np.bincount((rows - top) * stride + cols, minlength=window.height * stride)
        odd = (crossings.reshape(window.height, stride)[:, :-1] & 1).astype(np.bool_)
        inside: Mask = np.logical_xor.accumulate(odd, axis=1)
        return inside


def clip_mask(geometry: Geometry, grid: GeoBox, window: Window) -> Mask:
    """Returns bool ``(row, col)``: true where a pixel's centre is inside a geometry in the grid's CRS.

    For many windows of one grid, make a :class:`ClipRegion` once.

    Raises:
        GridError: the geometry has no polygon.
    """
    return ClipRegion.on(geometry, grid).mask(window)
