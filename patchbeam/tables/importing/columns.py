"""Decoded records to Arrow columns, and to the geometry that some of them hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from patchbeam.tables.importing.decode import Part, Values
from patchbeam.tables.importing.infer import ImportColumn, Inferred

_ARROW: dict[str, Any] = {
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "text": pa.string(),
    "binary": pa.binary(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometryColumns:
    """Which features hold the geometry.

    Attributes:
        form: ``xy``, ``geojson`` or ``wkb``.
        names: x and y, or the one feature.
        crs: of the coordinates.
    """

    form: Literal["xy", "geojson", "wkb"]
    names: tuple[str, ...]
    crs: str


def find_geometry(found: Inferred, xy: tuple[str, str] | None, crs: str | None) -> GeometryColumns | None:
    """Returns the features that hold the geometry; ``None`` when there are none.

    Args:
        found: over all records.
        xy: features of x and y, when they are named; both are in the records.
        crs: of x and y; default EPSG:4326.
    """
    columns = found.columns
    if xy is not None:
        return GeometryColumns(form="xy", names=xy, crs=crs or "EPSG:4326")
    if ".geo" in columns and columns[".geo"].geojson:
        return GeometryColumns(form="geojson", names=(".geo",), crs="EPSG:4326")
    if "geometry" in columns and columns["geometry"].wkb:
        return GeometryColumns(form="wkb", names=("geometry",), crs="EPSG:4326")
    pair = ("longitude", "latitude")
    numbers = all(
        name in columns and columns[name].longest == 1 and "bytes" not in dict(columns[name].kinds)
        for name in pair
    )
    return GeometryColumns(form="xy", names=pair, crs=crs or "EPSG:4326") if numbers else None


def to_arrow(columns: Sequence[ImportColumn], parts: Sequence[Part], records: int) -> pa.RecordBatch:
    """Returns a batch of records as columns; a feature that a record has not is null."""
    arrays = [_column(column, parts, records) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


def arrow_schema(columns: Sequence[ImportColumn]) -> pa.Schema:
    """Returns the columns' types as Arrow's."""
    return pa.schema(
        [pa.field(c.name, pa.list_(_ARROW[c.type]) if c.many else _ARROW[c.type]) for c in columns]
    )


def _column(column: ImportColumn, parts: Sequence[Part], records: int) -> pa.Array:
    having = [(part.rows, part.values[column.name]) for part in parts if column.name in part.values]
    if column.type in ("text", "binary"):
        return _texts(column, having, records)
    dtype = np.dtype(column.type)
    absent = np.ones(records, np.bool_)
    if not column.many:
        numbers: NDArray[Any] = np.zeros(records, dtype)
        for rows, values in having:
            if values.numbers is not None and values.length:
                numbers[rows] = values.numbers[:, 0]
                absent[rows] = False
        return pa.array(numbers, mask=absent if absent.any() else None)
    lengths = np.zeros(records, np.int64)
    for rows, values in having:
        lengths[rows] = values.length
        absent[rows] = False
    starts = np.cumsum(lengths) - lengths
    flat: NDArray[Any] = np.empty(int(lengths.sum()), dtype)
    for rows, values in having:
        if values.numbers is not None:
            flat[starts[rows][:, None] + np.arange(values.length)] = values.numbers
    offsets = pa.array(np.concatenate([starts, [flat.size]]).astype(np.int32))
    mask = pa.array(absent) if absent.any() else None
    return pa.ListArray.from_arrays(offsets, pa.array(flat), mask=mask)


def _texts(column: ImportColumn, having: Sequence[tuple[Any, Values]], records: int) -> pa.Array:
    given: list[Any] = [None] * records
    for rows, values in having:
        for row, texts in zip(rows.tolist(), values.texts, strict=True):
            given[row] = texts if column.many else (texts[0] if texts else None)
    plain = pa.array(given, pa.list_(pa.binary()) if column.many else pa.binary())
    if column.type == "binary":
        return plain
    return plain.cast(pa.list_(pa.string()) if column.many else pa.string())


def geometry_wkb(geometry: GeometryColumns, batch: pa.RecordBatch) -> pa.Array:
    """Returns the geometry of each row as WKB; null where it has none."""
    if geometry.form == "wkb":
        return batch.column(geometry.names[0]).cast(pa.binary())
    if geometry.form == "geojson":
        texts = np.array(batch.column(geometry.names[0]).cast(pa.string()).to_pylist(), object)
        return pa.array(shapely.to_wkb(shapely.from_geojson(texts), byte_order=1), pa.binary())
    x, y = (batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in geometry.names)
    there = np.isfinite(x) & np.isfinite(y)
    points = np.full(len(x), None, object)
    points[there] = shapely.points(x[there], y[there])
    return pa.array(shapely.to_wkb(points, byte_order=1).tolist(), pa.binary())
