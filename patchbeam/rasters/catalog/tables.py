"""Catalogues that are tables: GDAL tile indexes and STAC GeoParquet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from patchbeam.errors import SourceError
from patchbeam.rasters.catalog.item import Item, folder_of

LOCATION = "location"
"""Column of a GDAL tile index that holds the path of a raster."""

ASSET = "data"
"""Key of the one asset that a row of a tile index has."""

_OF_THE_ITEM = frozenset(
    ["id", "geometry", "bbox", "links", "assets", "type", "stac_version", "stac_extensions", "collection"]
)


def index_items(rows: Iterable[Mapping[str, Any]], path: str, key: str) -> list[Item]:
    """Returns the items of a tile index, in its order.

    Raises:
        SourceError: it has no column ``location``, or a row has none there.
    """
    items = []
    for number, row in enumerate(rows, 1):
        column = next((name for name in row if name.lower() == LOCATION), None)
        if column is None:
            raise SourceError(
                f"{key}: {path} has no column {LOCATION!r}, which a tile index has, and is no STAC document;"
                f" its columns are {', '.join(row) or 'none'}"
            )
        location = row[column]
        if not isinstance(location, str) or not location:
            raise SourceError(f"{key}: {path}: row {number} has no {column}; write the index again")
        properties = {name: value for name, value in row.items() if name != column}
        items.append(
            Item(
                id=location,
                properties=properties,
                assets={ASSET: {"href": location}},
                where=path,
                root=None,
            )
        )
    return items


def read_vector(path: str, key: str) -> list[Item]:
    """Returns the items of a tile index in a vector file.

    Raises:
        SourceError: it cannot be read, or is no tile index.
    """
    try:
        import pyogrio
    except ImportError:
        raise SourceError(
            f"{key}: {path} is a vector file; install patchbeam[vector] to read tile indexes"
        ) from None
    try:
        meta, _, _, columns = pyogrio.raw.read(path, read_geometry=False)
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError) as error:
        raise SourceError(f"{key}: {path} cannot be read as a tile index: {error}") from None
    names = [str(name) for name in meta["fields"]]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if not rows:
        raise SourceError(f"{key}: {path} has no rows; a tile index has one a raster, with its {LOCATION}")
    return index_items(rows, path, key)


def read_parquet(path: str, key: str) -> list[Item]:
    """Returns the items of STAC GeoParquet, or of a tile index in GeoParquet.

    Raises:
        SourceError: it cannot be read, or is neither.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise SourceError(f"{key}: {path} is GeoParquet; install patchbeam[vector] to read it") from None
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise SourceError(f"{key}: {path} cannot be read as GeoParquet: {error}") from None
    table = table.drop_columns([n for n in ("geometry", "bbox", "links") if n in table.column_names])
    rows = table.to_pylist()
    if "assets" not in table.column_names:
        return index_items(rows, path, key)
    return [
        Item(
            id=str(row.get("id")),
            properties={k: v for k, v in row.items() if k not in _OF_THE_ITEM and v is not None},
            # a column of structs has every key in every row
            assets={k: a for k, a in dict(row["assets"] or {}).items() if a is not None},
            where=path,
            root=folder_of(path),
            collection=row.get("collection"),
        )
        for row in rows
    ]
