"""What the ``path`` of a source names: rasters, or a catalogue of scenes."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchbeam.errors import SourceError, short
from patchbeam.rasters.catalog import tables
from patchbeam.rasters.catalog.item import Item
from patchbeam.rasters.catalog.stac import load, read_items

_MAGIC = ("*", "?", "[")
_RASTERS = (".tif", ".tiff", ".jp2", ".vrt", ".img", ".nc", ".hdf", ".grib2", ".png", ".jpg")
_VECTORS = (".gpkg", ".shp", ".fgb")
_PARQUET = (".parquet", ".geoparquet")
_JSON = (".json", ".geojson")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a source's paths name; one of the two is empty.

    Attributes:
        paths: rasters, in order.
        items: scenes of catalogues, in the catalogue's order.
    """

    paths: tuple[str, ...] = ()
    items: tuple[Item, ...] = ()


def find_scenes(
    paths: Sequence[tuple[str, str]], key: str, matches: Callable[[str, str], list[str]] | None = None
) -> Found:
    """Returns the rasters or scenes that paths name.

    A path is a raster, a VRT, a pattern or a folder of them, a GDAL tile index (a vector file with a column
    ``location``), a STAC document (Item, ItemCollection, Collection, Catalog) or STAC GeoParquet.

    Args:
        paths: path and key of each, in the job's order.
        key: of the source.
        matches: lists what a pattern matches, given with its key; the default knows local ones.

    Raises:
        SourceError: nothing is there, a catalogue cannot be read, or catalogues and rasters are mixed.
    """
    rasters: list[str] = []
    items: list[Item] = []
    for path, where in paths:
        for name in _listed(path, where, matches or local_matches):
            found = _items(name, where)
            if found is None:
                rasters.append(name)
            else:
                items += found
    if rasters and items:
        raise SourceError(
            f"{key}.path: {items[0].where} is a catalogue and {rasters[0]} a raster; give them as two sources"
        )
    repeated = _repeated(rasters)
    if repeated is not None:
        raise SourceError(f"{key}.path: {repeated} stands twice; list each file once")
    return Found(paths=tuple(rasters), items=tuple(items))


def _repeated(paths: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            return path
        seen.add(path)
    return None


def _listed(path: str, key: str, matches: Callable[[str, str], list[str]]) -> list[str]:
    """Returns what a folder holds, in bytewise order; what a pattern matches otherwise."""
    if "://" in path or path.startswith("/vsi") or not os.path.isdir(path):
        return matches(path, key)
    names = [name for name in os.listdir(path) if name.lower().endswith(_RASTERS)]
    if not names and not _is_dataset(path):
        raise SourceError(f"{key}: the folder {path} holds no raster ({', '.join(_RASTERS)})")
    return sorted((os.path.join(path, name) for name in names), key=os.fsencode) or [path]


def local_matches(path: str, key: str) -> list[str]:
    """Returns the files that a pattern matches, in bytewise order; other paths as they are.

    Raises:
        SourceError: it matches none.
    """
    if not any(sign in path for sign in _MAGIC) or "://" in path or os.path.exists(path):
        return [path]
    found = [name for name in glob.glob(path, recursive=True) if not os.path.isdir(name)]
    if not found:
        raise SourceError(f"{key}: no file matches {path}; check the folder and the pattern")
    return sorted(found, key=os.fsencode)


def _is_dataset(folder: str) -> bool:
    """Whether GDAL takes a folder for one raster (Zarr, an Arc/Info grid)."""
    inside = set(os.listdir(folder))
    return bool(inside & {".zgroup", ".zarray", ".zmetadata", "zarr.json", "hdr.adf"})


def _items(path: str, key: str) -> list[Item] | None:
    """Returns the items of a catalogue, ``None`` for anything else."""
    name = path.lower()
    readers: dict[tuple[str, ...], Callable[[str, str], list[Item]]] = {
        _VECTORS: tables.read_vector,
        _PARQUET: tables.read_parquet,
    }
    for endings, read in readers.items():
        if name.endswith(endings) and (endings != _VECTORS or not _has_rasters(path)):
            return read(path, key)
    if not name.endswith(_JSON):
        return None
    document = load(path, key)
    items = read_items(document, path, key)
    if items is not None:
        return items
    return _index(document, path, key)


def _has_rasters(path: str) -> bool:
    """Whether a GeoPackage holds rasters: then it is one."""
    if not path.lower().endswith(".gpkg"):
        return False
    import rasterio
    from rasterio.errors import RasterioError

    try:
        with rasterio.open(path):
            return True
    except RasterioError:
        return False


def _index(document: Any, path: str, key: str) -> list[Item]:
    """Returns the items of a tile index in GeoJSON."""
    if isinstance(document, Mapping) and document.get("type") == "FeatureCollection":
        features = document.get("features")
        if not isinstance(features, list) or not features:
            raise SourceError(f"{key}: {path} holds no features; a catalogue has one a scene")
        told = [f.get("properties") for f in features if isinstance(f, Mapping)]
        rows = [dict(one) if isinstance(one, Mapping) else {} for one in told]
        return tables.index_items(rows, path, key)
    kind = document.get("type") if isinstance(document, Mapping) else type(document).__name__
    raise SourceError(
        f"{key}: {path} is JSON of type {short(kind)}; give a STAC Item, ItemCollection or Collection, or a"
        " tile index (features with a location)"
    )
