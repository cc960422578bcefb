"""Batches to one file: GeoParquet, Parquet, GeoPackage, GeoJSON or CSV, by its suffix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import shapely
from pyproj import CRS

from patchbeam.errors import JobError, WriteFailed, nearest
from patchbeam.storage.base import MAKE_ROOM
from patchbeam.tables.importing.columns import GeometryColumns, geometry_wkb
from patchbeam.tables.libraries import need_pyogrio

DRIVERS = {
    ".parquet": "Parquet",
    ".geoparquet": "Parquet",
    ".pq": "Parquet",
    ".gpkg": "GPKG",
    ".geojson": "GeoJSON",
    ".json": "GeoJSON",
    ".csv": "CSV",
}
"""Suffix → format."""

_BY_GDAL = {"GPKG", "GeoJSON"}
_NESTED = {"Parquet", "GeoJSON"}
_GEOMETRY = "geometry"


def driver_of(output: str, suffix: str) -> str:
    """Returns the format of a file by its suffix.

    Raises:
        JobError: the suffix is not known, or the format needs a library that is not installed.
    """
    if suffix not in DRIVERS:
        raise JobError(
            f"output: {output}: {suffix or 'no suffix'!r} does not say the format; end it in one of "
            f"{', '.join(DRIVERS)}{nearest(suffix, DRIVERS)}"
        )
    if DRIVERS[suffix] in _BY_GDAL:
        need_pyogrio()  # before any work
    return DRIVERS[suffix]


def write_table(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    path: str,
    driver: str,
    *,
    geometry: GeometryColumns | None,
    layer: str,
) -> None:
    """Writes a local file, a batch at a time.

    Args:
        batches: of ``schema``.
        schema: of the columns, those of the geometry included.
        path: of the new file.
        driver: its format, of :data:`DRIVERS`.
        geometry: the columns that hold the geometry. Columns of coordinates stay in the table; a column
            that holds whole geometries becomes the geometry.
        layer: name of the layer, where the format has layers.

    Raises:
        WriteFailed: the file cannot be written.
    """
    if geometry is not None and geometry.form != "xy" and driver != "CSV":
        schema = pa.schema([field for field in schema if field.name not in geometry.names])
    clash = geometry is not None and driver != "CSV" and _GEOMETRY in schema.names
    if clash:
        raise JobError(
            f"columns: a feature is called {_GEOMETRY!r}, as the column of the geometry is; leave it out "
            "with columns, "
            "or set geometry: false"
        )
    flat = pa.schema([_flat_field(field) for field in schema]) if driver not in _NESTED else schema
    shaped = flat if geometry is None or driver == "CSV" else flat.append(pa.field(_GEOMETRY, pa.binary()))

    def made() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            arrays = [_flat(_readable(batch, field.name, geometry, driver), field) for field in flat]
            if shaped is not flat and geometry is not None:
                arrays.append(geometry_wkb(geometry, batch))
            yield pa.RecordBatch.from_arrays(arrays, schema=shaped)

    try:
        if driver == "Parquet":
            _parquet(made(), shaped, path, geometry)
        elif driver == "CSV":
            _csv(made(), shaped, path)
        else:
            _vector(made(), shaped, path, driver, geometry, layer)
    except (pa.ArrowException, OSError, RuntimeError) as error:
        if isinstance(error, WriteFailed):
            raise
        raise WriteFailed(f"{path}: cannot be written: {error}; {MAKE_ROOM}") from error


def _readable(batch: pa.RecordBatch, name: str, geometry: GeometryColumns | None, driver: str) -> pa.Array:
    # CSV has no geometry of its own: GeoJSON text stays, WKB becomes WKT
    values = batch.column(name)
    if driver == "CSV" and geometry is not None and geometry.form == "wkb" and name in geometry.names:
        return pa.array(shapely.to_wkt(shapely.from_wkb(values.to_pylist())).tolist(), pa.string())
    return values


def _flat_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, pa.string()) if pa.types.is_list(field.type) else field


def _flat(values: pa.Array, field: pa.Field) -> pa.Array:
    """Lists as JSON text, for formats that have no lists."""
    if pa.types.is_list(values.type) and not pa.types.is_list(field.type):
        texts = [None if v is None else json.dumps(v, ensure_ascii=False) for v in values.to_pylist()]
        return pa.array(texts, pa.string())
    return values


def _parquet(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str, geometry: GeometryColumns | None
) -> None:
    if geometry is not None:
        # GeoParquet 1.1; no geometry_types means that any may occur
        entry = {
            "encoding": "WKB",
            "geometry_types": ["Point"] if geometry.form == "xy" else [],
            "crs": CRS.from_user_input(geometry.crs).to_json_dict(),
        }
        geo = {"version": "1.1.0", "primary_column": _GEOMETRY, "columns": {_GEOMETRY: entry}}
        schema = schema.with_metadata({"geo": json.dumps(geo)})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))


def _csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str) -> None:
    binary = [field.name for field in schema if pa.types.is_binary(field.type)]
    texts = pa.schema([pa.field(f.name, pa.string()) if f.name in binary else f for f in schema])
    with pcsv.CSVWriter(path, texts) as writer:
        for batch in batches:
            arrays = [
                pa.array([None if v is None else v.hex() for v in a.to_pylist()], pa.string())
                if pa.types.is_binary(a.type)
                else a
                for a in batch.columns
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=texts))


def _vector(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    path: str,
    driver: str,
    geometry: GeometryColumns | None,
    layer: str,
) -> None:
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    need_pyogrio().write_arrow(
        reader,
        path,
        layer=layer,
        driver=driver,
        geometry_name=_GEOMETRY if geometry is not None else None,
        geometry_type=None if geometry is None else ("Point" if geometry.form == "xy" else "Unknown"),
        crs=None if geometry is None else geometry.crs,
        # RFC 7946: longitude and latitude, whatever the coordinates were
        layer_options={"RFC7946": "YES"} if driver == "GeoJSON" else {},
    )
