"""STAC items over generated rasters, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from rasterio.warp import transform_bounds

LEFT, TOP = 500_000, 5_000_000


def write_asset(path: Path, values: np.ndarray, col: int, size: float = 10.0, **profile: Any) -> Path:
    """A raster ``col`` metres east of the corner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = values if values.ndim == 3 else values[None]
    affine = Affine(size, 0, LEFT + col, 0, -size, TOP)
    with rasterio.open(
        path, "w", driver="GTiff", count=len(values), height=values.shape[1], width=values.shape[2],
        dtype=values.dtype, crs=profile.pop("crs", "EPSG:32633"), transform=affine, **profile,
    ) as file:  # fmt: skip
        file.write(values)
    return path


def asset(path: Path, href: str, *, complete: bool = True, **raster: Any) -> dict[str, Any]:
    """What an item says of a raster; with ``complete``, enough not to open it."""
    told: dict[str, Any] = {"href": href, "type": "image/tiff; application=geotiff"}
    with rasterio.open(path) as file:
        if complete:
            band = {"data_type": file.dtypes[0], **raster}
            if file.nodata is not None and "nodata" not in band:
                band["nodata"] = file.nodata
            told |= {
                "proj:epsg": file.crs.to_epsg(),
                "proj:shape": [file.height, file.width],
                "proj:transform": list(file.transform)[:6],
                "raster:bands": [band] * file.count,
            }
        elif raster:
            told["raster:bands"] = [raster]
    return told


def item(name: str, when: str, assets: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": name,
        "collection": "scenes",
        "geometry": {"type": "Point", "coordinates": [15, 45]},
        "bbox": [15, 45, 15, 45],
        "properties": {"datetime": when, **properties},
        "links": [],
        "assets": assets,
    }


def make(folder: Path, *, complete: bool = True, hrefs: str = "data/") -> list[dict[str, Any]]:
    """Five scenes of two bands and a class map, side by side with overlaps, one a month."""
    items = []
    for n in range(5):
        random = np.random.default_rng(n)
        red = random.integers(1, 3000, (40, 50)).astype("uint16")
        red[:, :4] = 0
        nir, scl = random.integers(1, 3000, (20, 25)).astype("uint16"), random.integers(0, 9, (20, 25))
        told = {}
        for key, values, size, nodata in (
            ("B04", red, 10, 0),
            ("B8A", nir, 20, None),
            ("SCL", scl.astype("uint8"), 20, 0),
        ):
            path = write_asset(folder / "data" / f"{n}_{key}.tif", values, 300 * n, size, nodata=nodata)
            told[key] = asset(path, f"{hrefs}{n}_{key}.tif", complete=complete)
        clouds = {"eo:cloud_cover": 10.0 * n, "tile": "odd" if n % 2 else "even"}
        items.append(item(f"s{n}", f"2024-0{n + 4}-15T10:00:00Z", told, **clouds))
    return items


def write_json(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def collection_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": items}


def degrees(path: Path) -> tuple[float, ...]:
    with rasterio.open(path) as file:
        return transform_bounds(file.crs, "EPSG:4326", *file.bounds)
