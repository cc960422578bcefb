"""Vector files by GDAL, through pyogrio's Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from patchbeam.errors import JobError, ReadFailed, nearest
from patchbeam.tables.columns import Column, column_of, json_kind, mixed
from patchbeam.tables.libraries import need_pyogrio, vector_errors
from patchbeam.tables.source import INDEX, TableSource

# Formats whose readers get to any row without reading the others.
_SEEKABLE = {"GPKG", "ESRI Shapefile"}

_Batch = tuple[pa.RecordBatch, pa.Array | None, pa.Array | None]


def _gdal_path(path: str) -> str:
    return f"/vsigs/{path[5:]}" if path.startswith("gs://") else path


def _choose_layer(path: str, layer: str | None) -> str:
    pyogrio = need_pyogrio()
    try:
        names = [str(name) for name, _ in pyogrio.list_layers(_gdal_path(path))]
    except vector_errors() as error:
        text = " ".join(str(error).split())
        raise JobError(
            f"features: {path}: not a table that can be read ({text[:200]}); give GeoJSON, GeoPackage, "
            "GeoParquet, "
            "Shapefile, FlatGeobuf or CSV"
        ) from None
    if layer is not None:
        if layer not in names:
            raise JobError(
                f"layer: {layer!r} is not in {path}; layers are {', '.join(names)}{nearest(layer, names)}"
            )
        return layer
    if len(names) > 1:
        raise JobError(f"features: {path} has {len(names)} layers; name one with layer: {', '.join(names)}")
    if not names:
        raise JobError(f"features: {path}: holds no layer; there is nothing to export")
    return names[0]


def open_ogr(path: str, *, layer: str | None, crs: str | None) -> TableSource:
    """Looks at a layer.

    Raises:
        JobError: as :func:`patchbeam.tables.readers.open_table`.
    """
    pyogrio = need_pyogrio()
    name = _choose_layer(path, layer)
    try:
        info = pyogrio.read_info(_gdal_path(path), layer=name, force_feature_count=True)
        with pyogrio.open_arrow(
            _gdal_path(path), layer=name, use_pyarrow=True, batch_size=1, datetime_as_string=True
        ) as (meta, reader):
            schema: pa.Schema = reader.schema
    except vector_errors() as error:
        raise JobError(
            f"features: {path}: layer {name!r} cannot be read: {error}; ogrinfo on it tells more"
        ) from None
    geometry = _geometry_name(meta, schema) if info["geometry_type"] is not None else None
    columns: list[Column] = []
    unheld = []
    for field in schema:
        if field.name in (geometry, _fid_name(meta)):
            continue
        column = column_of(field)
        if column is None:
            unheld.append((field.name, str(field.type)))
        else:
            columns.append(column)
    driver = str(info["driver"])
    names = {column.name: column for column in columns}
    id_column = INDEX if INDEX in names else None
    if id_column is None and driver.startswith("GeoJSON") and "id" in names and names["id"].kind == "text":
        # that is where GDAL puts the ids of GeoJSON features that are text
        id_column = "id"
    source = TableSource(
        path=path,
        format="ogr",
        driver=driver,
        layer=name,
        columns=tuple(columns),
        unheld=tuple(unheld),
        rows=int(info["features"]),
        geometry=geometry,
        geometry_type=str(info["geometry_type"] or "None"),
        crs=info["crs"] or crs,
        id_column=id_column,
        seekable=driver in _SEEKABLE,
    )
    _check_json(source)
    return source


def _fid_name(meta: dict[str, Any]) -> str:
    return str(meta["fid_column"] or "OGC_FID")


def _geometry_name(meta: dict[str, Any], schema: pa.Schema) -> str | None:
    name = meta["geometry_name"] or "wkb_geometry"
    return name if name in schema.names else None


def _check_json(source: TableSource) -> None:
    """Reads the properties that hold nested values once: their rows must agree."""
    nested = [column.name for column in source.columns if column.kind == "json"]
    if not nested:
        return
    seen: dict[str, tuple[str, str]] = {}
    at = 0
    for batch, _, _ in read(source, nested, False, 0, source.rows, 1 << 15):
        for name in nested:
            values = batch.column(name)
            values = values.storage if isinstance(values, pa.ExtensionArray) else values
            for row, text in enumerate(values.to_pylist()):
                if text is None:
                    continue
                kind = json_kind(text)
                first = seen.setdefault(name, (kind, text))
                if first[0] != kind:
                    raise mixed(name, first[1], text, f"feature {at + row}")
        at += batch.num_rows


def read(
    source: TableSource, columns: list[str], geometry: bool, first: int, rows: int, batch_rows: int
) -> Iterator[_Batch]:
    """Yields properties, feature numbers and geometries of consecutive features."""
    pyogrio = need_pyogrio()
    try:
        with pyogrio.open_arrow(
            _gdal_path(source.path),
            layer=source.layer,
            columns=columns,
            read_geometry=geometry,
            skip_features=first,
            return_fids=True,
            batch_size=batch_rows,
            use_pyarrow=True,
            datetime_as_string=True,
        ) as (meta, reader):
            fid, shape = _fid_name(meta), _geometry_name(meta, reader.schema)
            left = rows
            for whole in reader:
                batch = whole.slice(0, left)
                left -= batch.num_rows
                wkb = batch.column(shape) if geometry and shape is not None else None
                if isinstance(wkb, pa.ExtensionArray):
                    wkb = wkb.storage
                yield batch.select(columns), batch.column(fid) if fid in batch.schema.names else None, wkb
                if not left:
                    return
    except vector_errors() as error:
        raise ReadFailed(f"{source.path}: features from number {first} on cannot be read: {error}") from error
