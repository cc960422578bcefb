"""Burns what of a vector layer meets a window of the export grid.

Geometries are carried into pixels of the whole grid by the arithmetic of GDAL's rasteriser: a pixel comes
out as it does when the whole layer is burnt on the whole grid at once. Polygons are filled here; lines,
points and ``allTouched`` are GDAL's, on geometries moved by whole pixels. Vertices are reprojected and edges
stay straight between them, as rasterising a reprojected layer has it.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import shapely
from affine import Affine
from numpy.typing import NDArray
from odc.geo.geobox import GeoBox
from rasterio.errors import RasterioError
from rasterio.features import rasterize
from shapely import STRtree

from patchbeam.elements import Array, Mask
from patchbeam.errors import ReadFailed
from patchbeam.rasters.burn import Burn, gdal_path, geometry_column, read_parquet, stand_in, vector_library
from patchbeam.rasters.convert import convert
from patchbeam.rasters.coordinates import PixelMap
from patchbeam.rasters.floors import Floats
from patchbeam.rasters.layers import Layers
from patchbeam.rasters.pieces import Rect
from patchbeam.rasters.place_vector import box_in_layer
from patchbeam.rasters.polygons import all_polygons, fill_polygons

Shapes = NDArray[Any]
Features = tuple[Shapes, Array, Array]
"""Geometries, the value of each, and what orders them."""

_AROUND = 2
"""Pixels round a window in which a feature may lie that touches a pixel of it."""


def burn_into(layers: Layers, rect: Rect, burner: Burner) -> None:
    """Burns a rectangle of the grid into the layers, in their type.

    Raises:
        ReadFailed: the layer cannot be read, or a value does not fit.
    """
    values, valid = burner.burn(rect)
    for band, name in enumerate(layers.names):

        def place(row: int, col: int, name: str = name) -> str:
            return (
                f"band {name!r}, burnt from {burner.burn_.path}, pixel at column {rect.left + col}, row"
                f" {rect.top + row} of the grid"
            )

        layers.values[band] = convert(values, valid, layers.values.dtype, place)
        layers.valid[band] = True if valid is None else valid


class Burner:
    """A vector layer on the export grid.

    Args:
        burn: what is burnt.
        grid: the export grid.
    """

    def __init__(self, burn: Burn, grid: GeoBox) -> None:
        self.burn_, self.grid = burn, grid
        self._lock = threading.Lock()
        self._whole: tuple[Features, STRtree] | None = None
        # a map whose file CRS is the layer's: from there to pixels of the grid
        self._map = PixelMap(stand_in(burn, ""), grid)

    def burn(self, rect: Rect) -> tuple[Array, Mask | None]:
        """Returns values ``(row, col)`` and where they are valid, ``None`` for everywhere.

        Raises:
            ReadFailed: the layer cannot be read, or has no place on the grid.
        """
        burn = self.burn_
        shapes, values, order = self._near(rect)
        if burn.order_by is not None and len(order):
            # stable; those without a number come first
            by = np.argsort(np.where(np.isnan(order), -np.inf, order), kind="stable")
            shapes, values = shapes[by], values[by]
        shapes = self._in_pixels(shapes)
        left, top, right, bottom = shapely.bounds(shapes).T if len(shapes) else np.empty((4, 0))
        near = (left <= rect.right + 1) & (right >= rect.left - 1)
        near &= (top <= rect.bottom + 1) & (bottom >= rect.top - 1)
        shapes, numbers = shapes[near], values[near].astype(np.dtype(burn.type))
        size = rect.height, rect.width
        result = np.full(size, 0 if burn.background is None else burn.background, numbers.dtype)
        present = np.zeros(size, np.uint8) if burn.background is None else None
        self._paint(shapes, numbers, rect, result)
        if present is not None:
            self._paint(shapes, np.ones(len(shapes), np.uint8), rect, present)
        return result, None if present is None else present.astype(np.bool_)

    def _paint(self, shapes: Shapes, values: Array, rect: Rect, out: Array) -> None:
        if not len(shapes):
            return
        if not self.burn_.all_touched and all_polygons(shapes):
            a, b, _, d, e, _ = self._map.to_world
            fill_polygons(shapes, values, rect, out, mirrored=a * e - b * d < 0)
            return
        moved = shapely.transform(shapes, lambda xy: xy - np.array([rect.left, rect.top], np.float64))
        self._rasterize(list(zip(moved, values.tolist(), strict=True)), out)

    def _rasterize(self, shapes: list[tuple[Any, Any]], out: Array) -> None:
        try:
            rasterize(shapes, out=out, transform=Affine.identity(), all_touched=self.burn_.all_touched)
        except (RasterioError, ValueError) as error:
            raise ReadFailed(f"{self.burn_.path} cannot be burnt: {error}") from error

    def _in_pixels(self, shapes: Shapes) -> Shapes:
        """Returns geometries in pixels of the grid."""
        if not len(shapes):
            return shapes
        map_ = self._map
        there = shapes if map_.same else shapely.transform(shapes, _pairs(map_.reproject))
        bounds = shapely.bounds(there)
        lost = ~np.isfinite(bounds).all(axis=1)
        if lost.any():
            at = shapely.bounds(shapes[int(np.argmax(lost))]).tolist()
            raise ReadFailed(
                f"{self.burn_.path}: the feature with the bounds {at} has no place in the grid's CRS; clip"
                " the layer to the region"
            )
        if map_.grid_turns:
            # a whole geometry moves, so that none is torn
            turns = np.round(((bounds[:, 0] + bounds[:, 2]) / 2 - map_.grid_middle) / 360)
            if turns.any():
                by = np.repeat(turns * 360, shapely.get_num_coordinates(there))
                there = shapely.transform(there, lambda xy: np.stack([xy[:, 0] - by, xy[:, 1]], axis=1))
        return np.asarray(shapely.transform(there, _pairs(map_.in_pixels)))

    def _near(self, rect: Rect) -> Features:
        around = Rect(rect.left - _AROUND, rect.top - _AROUND, rect.right + _AROUND, rect.bottom + _AROUND)
        bounds = box_in_layer(self._map, around)
        if self.burn_.indexed:
            return self._read(bounds)
        with self._lock:
            if self._whole is None:
                features = self._read(None)
                self._whole = features, STRtree(features[0])
        features, tree = self._whole
        if bounds is None:
            return features
        found = np.sort(tree.query(shapely.box(*bounds)))
        return features[0][found], features[1][found], features[2][found]

    def _read(self, bounds: tuple[float, float, float, float] | None) -> Features:
        """Reads the features that meet bounds in the layer's CRS, in the order of the layer."""
        burn = self.burn_
        if burn.path.lower().endswith((".parquet", ".geoparquet")):
            table = read_parquet(burn.path, burn.columns, burn.path, geometry=True)
            wkb = table.column(geometry_column(table.schema)).to_numpy()
            columns = {name: table.column(name).to_numpy() for name in burn.columns}
        else:
            pyogrio = vector_library(burn.path, burn.path)
            try:
                meta, fids, wkb, data = pyogrio.raw.read(
                    gdal_path(burn.path),
                    layer=burn.layer,
                    columns=burn.columns,
                    bbox=bounds,
                    return_fids=True,
                )
            except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError) as error:
                failure = ReadFailed(f"{burn.path} cannot be read any more: {error}")
                failure.errno, failure.source = errno.EIO, burn.path
                raise failure from error
            columns = dict(zip((str(f) for f in meta["fields"]), data, strict=True))
            if burn.indexed:
                # an index gives features in an order of its own
                by = np.argsort(fids, kind="stable")
                wkb, columns = wkb[by], {name: column[by] for name, column in columns.items()}
        shapes = shapely.force_2d(shapely.from_wkb(wkb))
        values = np.full(len(shapes), burn.value) if burn.attribute is None else columns[burn.attribute]
        values = values.astype(np.float64)
        order = np.zeros(len(shapes)) if burn.order_by is None else columns[burn.order_by].astype(np.float64)
        usable = ~(shapely.is_missing(shapes) | shapely.is_empty(shapes)) & np.isfinite(values)
        return shapes[usable], values[usable], order[usable]


def _pairs(function: Callable[[Floats, Floats], tuple[Floats, Floats]]) -> Callable[[Floats], Floats]:
    """Returns a function of points ``(point, [x, y])`` from one of coordinates."""
    return lambda xy: np.stack(function(xy[:, 0].copy(), xy[:, 1].copy()), axis=1)
