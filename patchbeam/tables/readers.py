"""Opens and reads tables: GeoPackage, GeoJSON, Shapefile, FlatGeobuf, GeoParquet, CSV; in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from patchbeam import storage
from patchbeam.errors import JobError
from patchbeam.tables import csvtable, ogr, parquet
from patchbeam.tables.source import FeatureBatch, TableSource

BATCH_ROWS = 1 << 15
"""Features read at once."""

_BY_ARROW = {".parquet": parquet, ".geoparquet": parquet, ".pq": parquet, ".csv": csvtable, ".tsv": csvtable}


def open_table(
    path: str,
    *,
    layer: str | None = None,
    xy: tuple[str, str] | None = None,
    crs: str | None = None,
    types: Mapping[str, str] | None = None,
    null_values: Sequence[str] = (),
) -> TableSource:
    """Looks at a table.

    Args:
        path: of the file, local or ``gs://``.
        layer: name of the layer, of a file that has several.
        xy: columns that hold x and y, of a table without geometry.
        crs: of the geometry, of a file that does not say it.
        types: column → ``string`` or ``number``, for CSV.
        null_values: texts that stand for null, for CSV; an empty field always does.

    Raises:
        JobError: the file is missing or is no table, has no features, or has several layers and none is
            named; a CSV column holds numbers and text.
    """
    if "://" not in path and not _there(path):
        raise JobError(f"features: {path}: there is no such file; check the path")
    module = _BY_ARROW.get(suffix_of(path), ogr)
    if (types or null_values) and module is not csvtable:
        raise JobError(f"types, nullValues: are for CSV, and {path} says its types itself; leave them out")
    if module is csvtable:
        source = csvtable.open_csv(path, xy=xy, crs=crs, types=types or {}, null_values=null_values)
    elif module is parquet:
        source = parquet.open_parquet(path, xy=xy, crs=crs)
    else:
        source = ogr.open_ogr(path, layer=layer, crs=crs)
    if layer is not None and source.layer is None:
        raise JobError(f"layer: {layer!r}: {path} is one table without layers; leave layer out")
    if not source.rows:
        what = f"layer {source.layer!r}" if source.layer else "the table"
        raise JobError(f"features: {path}: {what} is empty; there is nothing to export")
    return source


def suffix_of(path: str) -> str:
    """Returns the lower-case suffix of a path, with its dot."""
    name = storage.split(path)[1]
    return name[name.rfind(".") :].lower() if "." in name else ""


def _there(path: str) -> bool:
    import os

    return os.path.exists(path)


def read_batches(
    source: TableSource,
    columns: Sequence[str],
    *,
    ids: bool = False,
    geometry: bool = False,
    first: int = 0,
    rows: int | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[FeatureBatch]:
    """Reads features in source order, a batch at a time.

    Args:
        source: the table.
        columns: names of the properties wanted, in the order wanted.
        ids: whether feature ids are wanted.
        geometry: whether geometries are wanted.
        first: number of the first feature.
        rows: how many; ``None`` for all that follow.
        batch_rows: features a batch at the most.

    Raises:
        ReadFailed: the file cannot be read, or ends early.
    """
    count = source.rows - first if rows is None else rows
    wanted = list(dict.fromkeys(columns))
    if ids and source.id_column is not None:
        wanted = list(dict.fromkeys([*wanted, source.id_column]))
    if geometry and source.xy is not None:
        wanted = list(dict.fromkeys([*wanted, *source.xy]))
    module = {"ogr": ogr, "parquet": parquet, "csv": csvtable}[source.format]
    at = first
    for batch, fids, wkb in module.read(
        source, wanted, geometry and source.xy is None, first, count, batch_rows
    ):
        if ids:
            known = batch.column(source.id_column) if source.id_column is not None else fids
            if known is None:
                known = pa.array(np.arange(at, at + batch.num_rows))
            names = pc.cast(known, pa.string())
        if geometry and source.xy is not None:
            wkb = _points(*(batch.column(name) for name in source.xy))
        yield FeatureBatch(
            first=at,
            values=batch.select(list(columns)),
            ids=names if ids else None,
            wkb=wkb if geometry else None,
        )
        at += batch.num_rows
    if at != first + count:
        from patchbeam.errors import ReadFailed

        raise ReadFailed(
            f"{source.path}: {at - first} features came from feature {first} on and {count} are due; the "
            "file "
            "was changed meanwhile"
        )


def _points(x: pa.Array, y: pa.Array) -> pa.Array:
    """Returns WKB points; null where x or y is."""
    xs = pc.fill_null(x.cast(pa.float64()), float("nan")).to_numpy(zero_copy_only=False)
    ys = pc.fill_null(y.cast(pa.float64()), float("nan")).to_numpy(zero_copy_only=False)
    points = np.zeros(len(xs), [("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])
    points["order"], points["type"], points["x"], points["y"] = 1, 1, xs, ys
    data = pa.py_buffer(points.tobytes())
    wkb = pa.Array.from_buffers(pa.binary(21), len(xs), [None, data]).cast(pa.binary())
    there = np.isfinite(xs) & np.isfinite(ys)
    return wkb if there.all() else pc.if_else(pa.array(there), wkb, pa.scalar(None, pa.binary()))
