"""From what an item says of an asset to a raster header, without opening the file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from pyproj import CRS
from pyproj.exceptions import CRSError, ProjError

from patchbeam.rasters.catalog.item import Item
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.masks import usable_nodata

_TYPES = frozenset(
    ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]
)
_BLOCK = 512
"""Side of the blocks supposed of a file that has not been opened; most cloud-optimised files have them."""


def assumed_header(item: Item, name: str, path: str, *, scales: bool) -> RasterFile | None:
    """Returns the header of an asset as the item tells it; ``None`` where it does not tell all.

    Args:
        item: with the projection and raster extensions (``proj:``, ``raster:``).
        name: key of the asset.
        path: of its file.
        scales: whether scale and offset must be known.
    """
    try:
        return _assumed(item, name, path, scales)
    except (TypeError, ValueError, OverflowError, AttributeError, KeyError, ProjError):
        return None  # what is told is not of its kind: the file itself is asked


def _assumed(item: Item, name: str, path: str, scales: bool) -> RasterFile | None:
    asset = item.assets[name]

    def told(*keys: str) -> Any:
        for key in keys:
            for place in (asset, item.properties):
                if place.get(key) is not None:
                    return place[key]
        return None

    crs = _crs(told("proj:code", "proj:epsg"), told("proj:wkt2"), told("proj:projjson"))
    shape, transform, bands = told("proj:shape"), told("proj:transform"), band_facts(asset)
    if crs is None or not bands or shape is None or transform is None:
        return None
    if len(shape) != 2 or len(transform) not in (6, 9) or any(b["data_type"] not in _TYPES for b in bands):
        return None
    if scales and any(b["scale"] is None and b["offset"] is None for b in bands):
        return None
    a, b, c, d, e, f = (float(v) for v in transform[:6])
    if a * e - b * d == 0 or not all(math.isfinite(v) for v in (a, b, c, d, e, f)):
        return None
    height, width = (int(n) for n in shape)
    if not 0 < height < 1 << 31 or not 0 < width < 1 << 31:
        return None
    types = tuple(b["data_type"] for b in bands)
    nodata = tuple(b["nodata"] for b in bands)
    usable = [usable_nodata(v, np.dtype(t)) for v, t in zip(nodata, types, strict=True)]
    block = min(_BLOCK, height), min(_BLOCK, width)
    return RasterFile(
        path=path,
        driver="GTiff",
        width=width,
        height=height,
        crs_wkt=crs,
        transform=(a, b, c, d, e, f),
        dtypes=types,
        nodata=tuple(v if ok else None for v, ok in zip(nodata, usable, strict=True)),
        unusable_nodata=tuple(None if ok else v for v, ok in zip(nodata, usable, strict=True)),
        descriptions=names_of(name, len(bands)),
        alpha=None,
        has_mask=(False,) * len(bands),
        scales=tuple(1.0 if b["scale"] is None else b["scale"] for b in bands),
        offsets=tuple(0.0 if b["offset"] is None else b["offset"] for b in bands),
        block_shapes=(block,) * len(bands),
        assumed=True,
        scaled=any(b["scale"] is not None or b["offset"] is not None for b in bands),
    )


def names_of(name: str, count: int) -> tuple[str, ...]:
    """Returns the band names of an asset: its key, numbered where it has several bands."""
    return (name,) if count == 1 else tuple(f"{name}_{i}" for i in range(1, count + 1))


def band_facts(asset: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns type, nodata, scale and offset of each band of an asset, ``None`` where they are not told.

    From ``raster:bands`` (STAC 1.0) or ``bands`` and the asset itself (STAC 1.1).
    """
    bands = asset.get("raster:bands") or asset.get("bands") or asset.get("eo:bands") or [{}]
    if not isinstance(bands, list | tuple):
        return []
    facts = []
    for band in bands:
        if not isinstance(band, Mapping):
            return []
        told = {**{k: v for k, v in asset.items() if v is not None}, **dict(band)}
        facts.append(
            {
                "data_type": told.get("data_type"),
                "nodata": _number(told.get("nodata")),
                "scale": _number(told.get("scale", told.get("raster:scale"))),
                "offset": _number(told.get("offset", told.get("raster:offset"))),
            }
        )
    return facts


def _number(value: Any) -> float | None:
    # STAC writes those that JSON lacks as texts: nan, inf, -inf
    if value is None or isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _crs(code: Any, wkt: Any, projjson: Any) -> str | None:
    for given in (code, wkt):
        if given is not None:
            return _wkt(given)
    return None if projjson is None else _wkt(CRS.from_json_dict(projjson).to_wkt())


@lru_cache(maxsize=256)
def _wkt(given: int | str) -> str | None:
    try:
        return str(CRS.from_user_input(given).to_wkt())
    except CRSError:
        return None
