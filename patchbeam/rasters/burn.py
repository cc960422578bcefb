"""A vector layer as a label source: what is burnt, and in which type; looked at before work starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from odc.geo.geobox import GeoBox
from pyproj import CRS
from pyproj.exceptions import CRSError

from patchbeam.elements import Array
from patchbeam.errors import SourceError, nearest
from patchbeam.rasters.files import RasterFile, size_and_time

_INTEGERS = ("uint8", "int16", "uint16", "int32", "uint32")
_PARQUET = (".parquet", ".geoparquet")
_SIDE = 256
_LARGEST_EXACT = 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """What a vector layer becomes on the export grid.

    Attributes:
        path: of the file.
        layer: in it; ``None`` for the only one.
        attribute: whose number is burnt; a feature without a number is not burnt.
        value: burnt for every feature, in the place of an attribute.
        background: of pixels that no feature covers; they are valid. ``None``: they are masked.
        all_touched: whether every pixel that a feature touches is burnt, and not only those whose centre is
            inside.
        order_by: attribute by which features are burnt, rising, so that the greatest lies on top; features
            without it are burnt first. ``None``: in the order of the layer, the last on top.
        crs_wkt: CRS of the layer.
        type: named type that holds every value.
        indexed: whether the file is asked for what meets a rectangle; others are read once, as a whole.
    """

    path: str
    layer: str | None = None
    attribute: str | None = None
    value: float | None = None
    background: float | None = 0
    all_touched: bool = False
    order_by: str | None = None
    crs_wkt: str = ""
    type: str = "uint8"
    indexed: bool = True

    @property
    def columns(self) -> list[str]:
        """Attributes that are needed."""
        return [name for name in dict.fromkeys((self.attribute, self.order_by)) if name is not None]


def open_vector(
    name: str,
    path: str,
    *,
    layer: str | None = None,
    attribute: str | None = None,
    value: float | None = None,
    background: float | None = 0,
    all_touched: bool = False,
    order_by: str | None = None,
    crs: str | None = None,
) -> Burn:
    """Looks at a layer: its CRS, its attributes, and the values that will be burnt.

    Args:
        name: key under ``sources``.
        path: GeoPackage, FlatGeobuf, Shapefile, GeoJSON, GeoParquet or what else GDAL reads.
        layer: see :class:`Burn`; so are the others.
        attribute: of numbers.
        value: with neither attribute nor value, 1.
        background: ``None`` for masked.
        all_touched: see :class:`Burn`.
        order_by: see :class:`Burn`.
        crs: takes the place of the layer's own.

    Raises:
        SourceError: the layer, an attribute or its values cannot be used.
    """
    key = f"sources.{name}"
    if attribute is not None and value is not None:
        raise SourceError(f"{key}: attribute and value both say what is burnt; keep one of them")
    if attribute is None and value is None:
        value = 1
    wanted = [column for column in dict.fromkeys((attribute, order_by)) if column is not None]
    if path.lower().endswith(_PARQUET):
        own, columns, rows = _parquet(path, wanted, key)
    else:
        own, columns, rows = _ogr(path, layer, wanted, key)
    if rows == 0:
        raise SourceError(f"{key}.vector: {path} holds no features; there is nothing to burn")
    given = crs or own
    if not given:
        raise SourceError(f"{key}.vector: {path} has no CRS; say it with crs: under the source")
    try:
        wkt = CRS.from_user_input(given).to_wkt()
    except CRSError as error:
        raise SourceError(f"{key}.crs: {given!r} is no CRS: {error}") from None
    for column in wanted:
        if columns[column].dtype.kind not in "iufb":
            raise SourceError(
                f"{key}.{'attribute' if column == attribute else 'orderBy'}: {column!r} of {path} holds no"
                " numbers, and pixels do; add a column of numbers, one a class"
            )
    values = np.array([value]) if attribute is None else columns[attribute]
    return Burn(
        path=path,
        layer=layer,
        attribute=attribute,
        value=value,
        background=background,
        all_touched=all_touched,
        order_by=order_by,
        crs_wkt=wkt,
        type=_type_of(values, background, f"{key}.{attribute or 'value'}"),
        indexed=path.lower().endswith((".gpkg", ".fgb", ".shp")),
    )


def stand_in(burn: Burn, name: str, grid: GeoBox | None = None) -> RasterFile:
    """Returns a header that stands for the layer burnt on a grid; without a grid, for its type alone."""
    width, height = (1, 1) if grid is None else (grid.width, grid.height)
    a, b, c, d, e, f = (1.0, 0.0, 0.0, 0.0, -1.0, 0.0) if grid is None else tuple(grid.affine)[:6]
    crs = burn.crs_wkt if grid is None or grid.crs is None else str(grid.crs.to_wkt())
    size_bytes, modified = size_and_time(burn.path)
    return RasterFile(
        path=burn.path,
        driver="vector",
        width=width,
        height=height,
        crs_wkt=crs,
        transform=(a, b, c, d, e, f),
        dtypes=(burn.type,),
        nodata=(None,),
        unusable_nodata=(None,),
        descriptions=(name,),
        alpha=None,
        has_mask=(False,),
        scales=(1.0,),
        offsets=(0.0,),
        block_shapes=((min(_SIDE, height), min(_SIDE, width)),),
        size_bytes=size_bytes,
        modified=modified,
    )


def _type_of(values: Array, background: float | None, key: str) -> str:
    """Returns the smallest type that holds every value: whole numbers from uint8 up, else floating point."""
    numbers = values.astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if background is not None:
        numbers = np.append(numbers, background)
    if numbers.size == 0:
        raise SourceError(f"{key}: no feature has a number there; name another attribute")
    low, high = float(numbers.min()), float(numbers.max())
    if (numbers == np.rint(numbers)).all():
        if max(abs(low), abs(high)) > _LARGEST_EXACT:
            raise SourceError(f"{key}: {low:.0f} to {high:.0f} is beyond 2**53; give smaller numbers")
        for name in _INTEGERS:
            limits = np.iinfo(name)
            if limits.min <= low and high <= limits.max:
                return name
        return "float64"
    with np.errstate(over="ignore"):
        return "float32" if (numbers.astype(np.float32) == numbers).all() else "float64"


def _ogr(
    path: str, layer: str | None, wanted: list[str], key: str
) -> tuple[str | None, dict[str, Array], int]:
    pyogrio = vector_library(path, key)
    try:
        layers = [str(row[0]) for row in pyogrio.list_layers(gdal_path(path))]
        if layer is not None and layer not in layers:
            raise SourceError(
                f"{key}.layer: {layer!r} is not in {path}{nearest(layer, layers)}; it has {', '.join(layers)}"
            )
        if layer is None and len(layers) > 1:
            raise SourceError(f"{key}.layer: {path} has {len(layers)} layers, {', '.join(layers)}; name one")
        info = pyogrio.read_info(gdal_path(path), layer=layer)
        for column in wanted:
            _check_column(column, [str(f) for f in info["fields"]], path, key)
        if not wanted:
            return info["crs"], {}, int(info["features"])
        meta, _, _, data = pyogrio.raw.read(gdal_path(path), layer=layer, columns=wanted, read_geometry=False)
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError) as error:
        raise SourceError(f"{key}.vector: {path} cannot be read: {error}; check its name") from None
    columns = dict(zip((str(f) for f in meta["fields"]), data, strict=True))
    return info["crs"], columns, len(data[0])


def _parquet(path: str, wanted: list[str], key: str) -> tuple[str | None, dict[str, Array], int]:
    table = read_parquet(path, wanted, key, geometry=False)
    columns = {name: table.column(name).to_numpy() for name in wanted}
    return parquet_crs(table), columns, int(table.num_rows)


def read_parquet(path: str, wanted: list[str], key: str, *, geometry: bool) -> Any:
    """Returns the columns of a GeoParquet file that are needed.

    Raises:
        SourceError: it cannot be read, or lacks a column.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise SourceError(
            f"{key}.vector: {path} is GeoParquet; install patchbeam[vector] to read it"
        ) from None
    try:
        schema = parquet.read_schema(path)
        for column in wanted:
            _check_column(column, schema.names, path, key)
        names = [*wanted, *([geometry_column(schema)] if geometry or not wanted else [])]
        return parquet.read_table(path, columns=names)
    except (pyarrow.ArrowException, OSError) as error:
        raise SourceError(f"{key}.vector: {path} cannot be read: {error}; check its name") from None


def geometry_column(schema: Any) -> str:
    """Returns the name of the main geometry column of a GeoParquet schema."""
    import json

    told = json.loads((schema.metadata or {}).get(b"geo", b"{}"))
    return str(told.get("primary_column", "geometry"))


def parquet_crs(table: Any) -> str | None:
    """Returns the CRS of a GeoParquet table as WKT; longitude and latitude where the file is silent."""
    import json

    told = json.loads((table.schema.metadata or {}).get(b"geo", b"{}"))
    column = told.get("columns", {}).get(told.get("primary_column", "geometry"))
    if column is None:
        return None
    return "OGC:CRS84" if "crs" not in column else CRS.from_user_input(column["crs"]).to_wkt()


def vector_library(path: str, key: str) -> Any:
    """Returns pyogrio.

    Raises:
        SourceError: it is not installed.
    """
    try:
        import pyogrio
        import pyogrio.raw
    except ImportError:
        raise SourceError(f"{key}.vector: {path} needs pyogrio; install patchbeam[vector]") from None
    return pyogrio


def gdal_path(path: str) -> str:
    """Returns the path as GDAL's vector drivers take it."""
    for scheme, prefix in (("gs://", "/vsigs/"), ("s3://", "/vsis3/"), ("https://", "/vsicurl/https://")):
        if path.startswith(scheme):
            return prefix + path.removeprefix(scheme)
    return path


def _check_column(column: str, known: list[str], path: str, key: str) -> None:
    if column not in known:
        raise SourceError(
            f"{key}: {column!r} is not an attribute of {path}{nearest(column, known)}; it has"
            f" {', '.join(known) or 'none'}"
        )
