"""Geometries of a table: points, transforms, and the features that hold them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely
from numpy.typing import NDArray
from pyproj import Transformer

from patchbeam.crs import parse_crs, same_crs
from patchbeam.errors import EncodeError
from patchbeam.records.wire import Ints
from patchbeam.tables.columns import texts
from patchbeam.tables.entries import Entries, RaggedEntries, Rows, ScalarEntries

Floats = NDArray[np.float64]
GeometryForm = Literal["geojson", "wkb", "lonlat"]

GEOMETRY_KEYS: dict[str, tuple[str, ...]] = {
    "geojson": (".geo",),
    "wkb": ("geometry",),
    "lonlat": ("longitude", "latitude"),
}
"""Features that hold a geometry, always in longitude and latitude (EPSG:4326), by form."""

_POINT = np.dtype([("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])


@lru_cache(maxsize=8)
def _transformer(source: str, target: str) -> Transformer | None:
    if same_crs(parse_crs(source), parse_crs(target)):
        return None
    return Transformer.from_crs(source, target, always_xy=True)


def transform(x: Floats, y: Floats, source: str, target: str) -> tuple[Floats, Floats]:
    """Returns coordinates in another CRS; infinite where they have no place there."""
    transformer = _transformer(source, target)
    if transformer is None or not x.size:
        return x, y
    moved = transformer.transform(x, y)
    return np.asarray(moved[0], np.float64), np.asarray(moved[1], np.float64)


def points(wkb: pa.Array) -> tuple[Floats, Floats] | None:
    """Returns x and y of plain 2-D points, NaN for a null; ``None`` when some are anything else."""
    data, starts, sizes = texts(wkb)
    there = sizes > 0
    if not (sizes[there] == _POINT.itemsize).all():
        return None
    x, y = np.full(len(sizes), np.nan), np.full(len(sizes), np.nan)
    at = starts[there]
    if at.size:
        if (np.diff(at) == _POINT.itemsize).all():
            table = np.ndarray((at.size,), _POINT, data, int(at[0]))
        else:
            bytes_ = data[at[:, None] + np.arange(_POINT.itemsize)]
            table = np.ascontiguousarray(bytes_).view(_POINT)[:, 0]
        if not ((table["order"] == 1) & (table["type"] == 1)).all():
            return None
        x[there], y[there] = table["x"], table["y"]
    return x, y


def shapes(wkb: pa.Array) -> NDArray[Any]:
    """Returns geometries as shapely's, ``None`` for a null."""
    return np.asarray(shapely.from_wkb(np.array(wkb.to_pylist(), object)), object)


def moved(geometries: NDArray[Any], source: str, target: str) -> NDArray[Any]:
    """Returns geometries in another CRS, vertex by vertex, without their heights."""

    def move(coordinates: Floats) -> Floats:
        x, y = transform(coordinates[:, 0], coordinates[:, 1], source, target)
        return np.stack([x, y], axis=1)

    return np.asarray(shapely.transform(geometries, move), object)


def geometry_entries(
    form: GeometryForm, wkb: pa.Array, crs: str, place: Callable[[int], str]
) -> list[Entries]:
    """Returns the entries that hold geometries.

    Args:
        form: how they are held.
        wkb: the geometries.
        crs: their CRS.
        place: names a row, for errors.

    Raises:
        EncodeError: ``lonlat`` is asked for and a geometry is no point; names the row.
    """
    keys = GEOMETRY_KEYS[form]
    if form == "lonlat":
        found = points(wkb)
        if found is None:
            geometries = shapes(wkb)
            kinds = shapely.get_type_id(geometries)
            wrong = np.flatnonzero((kinds != 0) & (kinds != -1))
            if wrong.size:
                row = int(wrong[0])
                raise EncodeError(
                    f"{place(row)}: its geometry is a {geometries[row].geom_type}, and geometry: lonlat "
                    "holds points; "
                    "use geometry: geojson or wkb"
                )
            found = shapely.get_x(geometries), shapely.get_y(geometries)
        x, y = transform(*found, crs, "EPSG:4326")
        there = np.isfinite(x) & np.isfinite(y)
        rows: Rows = None if there.all() else np.flatnonzero(there).astype(np.int64)
        return [
            ScalarEntries(key, np.where(there, v, 0).astype(np.float32), rows)
            for key, v in zip(keys, (x, y), strict=True)
        ]
    if form == "wkb" and _transformer(crs, "EPSG:4326") is None:
        held = wkb
    else:
        geometries = moved(shapes(wkb), crs, "EPSG:4326")
        if form == "wkb":
            held = pa.array(shapely.to_wkb(geometries, byte_order=1), pa.binary())
        else:
            held = pa.array(shapely.to_geojson(geometries), pa.string())
    data, starts, sizes = texts(held)
    return [RaggedEntries(keys[0], "bytes", data, starts, sizes, present(held))]


def present(values: pa.Array) -> Ints | None:
    """Returns the rows that are not null; ``None`` when all are there."""
    if not values.null_count:
        return None
    return np.flatnonzero(np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))).astype(np.int64)
