"""GeoParquet, and Parquet without geometry, by Arrow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyproj import CRS

from patchbeam import storage
from patchbeam.errors import JobError, ReadFailed
from patchbeam.tables.columns import Column, column_of
from patchbeam.tables.source import INDEX, TableSource
from patchbeam.tables.xy import check_xy

_Batch = tuple[pa.RecordBatch, pa.Array | None, pa.Array | None]


def _open(path: str) -> pq.ParquetFile:
    return pq.ParquetFile(storage.open_read(path), pre_buffer=False, buffer_size=1 << 20)


def open_parquet(path: str, *, xy: tuple[str, str] | None, crs: str | None) -> TableSource:
    """Looks at a file's footer.

    Raises:
        JobError: it is no Parquet file, or its geometry is held in another way than WKB.
    """
    try:
        with _open(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
            text = (file.metadata.metadata or {}).get(b"geo")
    except (pa.ArrowException, OSError) as error:
        raise JobError(
            f"features: {path}: not a Parquet file that can be read: {error}; write or fetch it again"
        ) from None
    geo: dict[str, Any] = json.loads(text) if text else {}
    primary = geo.get("primary_column")
    shapes = geo.get("columns", {})
    own: str | None = None
    kind = "None"
    if primary is not None:
        entry = shapes.get(primary, {})
        if entry.get("encoding", "WKB") != "WKB" or primary not in schema.names:
            raise JobError(
                f"features: {path}: geometry {primary!r} is encoded as {entry.get('encoding')}; write it "
                "as WKB"
            )
        own = _crs(entry, path)
        kinds = entry.get("geometry_types") or []
        kind = kinds[0] if len(kinds) == 1 else "Unknown"
    columns: list[Column] = []
    unheld = [(name, "geometry") for name in shapes if name != primary]
    for field in schema:
        if field.name in shapes:
            continue
        column = column_of(field)
        if column is None:
            unheld.append((field.name, str(field.type)))
        else:
            columns.append(column)
    names = [column.name for column in columns]
    places = check_xy(xy, names, path, required=False) if primary is None else None
    return TableSource(
        path=path,
        format="parquet",
        driver="GeoParquet" if geo else "Parquet",
        layer=None,
        columns=tuple(columns),
        unheld=tuple(unheld),
        rows=rows,
        geometry=primary,
        geometry_type=kind,
        xy=places,
        crs=own or crs or ("EPSG:4326" if places else None),
        id_column=INDEX if INDEX in names else None,
        seekable=True,
    )


def _crs(entry: dict[str, Any], path: str) -> str | None:
    # GeoParquet: no key means OGC:CRS84, null means that it is not known
    if "crs" not in entry:
        return "EPSG:4326"
    if entry["crs"] is None:
        return None
    try:
        return str(CRS.from_json_dict(entry["crs"]).to_wkt())
    except Exception as error:
        raise JobError(
            f"features: {path}: its CRS cannot be understood: {error}; write it again with a CRS of PROJJSON"
        ) from None


def read(
    source: TableSource, columns: list[str], geometry: bool, first: int, rows: int, batch_rows: int
) -> Iterator[_Batch]:
    """Yields properties and geometries of consecutive features, whole row groups, a batch at a time."""
    shape = source.geometry if geometry else None
    wanted = list(dict.fromkeys([*columns, *([shape] if shape else [])]))
    try:
        with _open(source.path) as file:
            counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            starts = np.concatenate([[0], np.cumsum(counts)])
            low = int(np.searchsorted(starts, first, "right")) - 1
            high = int(np.searchsorted(starts, first + rows, "left"))
            at = int(starts[low])
            if not wanted:  # rows without values still count
                yield from _empty(rows, batch_rows)
                return
            groups = list(range(low, high))
            for batch in file.iter_batches(batch_rows, row_groups=groups, columns=wanted, use_threads=False):
                begin, end = max(first - at, 0), min(first + rows - at, batch.num_rows)
                at += batch.num_rows
                if begin >= end:
                    continue
                part = batch.slice(begin, end - begin)
                wkb = part.column(shape) if shape is not None else None
                yield part.select(columns), None, wkb
    except (pa.ArrowException, OSError) as error:
        raise ReadFailed(f"{source.path}: features from number {first} on cannot be read: {error}") from error


def _empty(rows: int, batch_rows: int) -> Iterator[_Batch]:
    for start in range(0, rows, batch_rows):
        count = min(batch_rows, rows - start)
        blank = pa.RecordBatch.from_arrays([pa.nulls(count)], names=["_"])
        yield blank.select([]), None, None
