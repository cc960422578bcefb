"""Sample points on a scene, as GeoJSON: something to sample rasters at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path

import numpy as np
import rasterio
from pyproj import Transformer

from patchbeam.errors import OutputExists

_SITES = ("Auwiese", "Bergfeld", "Čertův důl", "Dolní luka", "Eichenhain", "Grünau", "Höhe", "Jižní svah")


def check_points(scene: str | PathLike[str]) -> None:
    """Looks whether the points of a scene could be written, before the scene itself is.

    Args:
        scene: name of the scene, ``OUT.tif``.

    Raises:
        OutputExists: they are there already.
    """
    target = _target(scene)
    if target.exists():
        raise OutputExists(
            f"{target} is there already; give --overwrite (in Python overwrite=True) to replace it, or "
            "another name"
        )


def write_points(
    scene: str | PathLike[str],
    count: int,
    *,
    raster: str | PathLike[str] | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> str:
    """Writes random points inside a scene beside it, ``SCENE-points.geojson``, and returns the name.

    Each has a text, a date that is null now and then, a number and a list of two numbers.

    Args:
        scene: name of the scene, ``OUT.tif``.
        count: how many points.
        raster: the file that says where the scene lies; of a time series any of its dates;
            default: ``scene``.
        seed: decides where they lie.
        overwrite: whether a file that is there is replaced.

    Raises:
        OutputExists: there is one and ``overwrite`` is false.
    """
    target = _target(scene)
    if not overwrite:
        check_points(scene)
    with rasterio.open(fspath(scene if raster is None else raster)) as file:
        bounds, crs = file.bounds, file.crs.to_wkt()
    random = np.random.default_rng(seed)
    x = random.uniform(bounds.left, bounds.right, count)
    y = random.uniform(bounds.bottom, bounds.top, count)
    longitude, latitude = Transformer.from_crs(crs, "EPSG:4326", always_xy=True).transform(x, y)
    slope, aspect = random.uniform(0, 40, count), random.uniform(0, 360, count)

    def features() -> Iterator[str]:
        for i in range(count):
            properties = {
                "site": _SITES[i % len(_SITES)],
                "visited": None if i % 7 == 3 else f"2024-{i % 12 + 1:02d}-{i % 28 + 1:02d}",
                "slope": round(float(slope[i]), 2),
                "axes": [round(float(aspect[i]), 1), round(float(aspect[i]) / 2, 1)],
            }
            point = [round(float(longitude[i]), 7), round(float(latitude[i]), 7)]
            geometry = {"type": "Point", "coordinates": point}
            feature = {"type": "Feature", "id": i, "properties": properties, "geometry": geometry}
            yield json.dumps(feature, ensure_ascii=False)

    with open(target, "w", encoding="utf-8") as out:
        out.write('{"type": "FeatureCollection", "features": [\n')
        for i, text in enumerate(features()):
            out.write((",\n" if i else "") + text)
        out.write("\n]}\n")
    return str(target)


def _target(scene: str | PathLike[str]) -> Path:
    path = Path(fspath(scene))
    return path.with_name(f"{path.stem}-points.geojson")
