"""Where a raster lies: its CRS and geotransform, or what to do when it has none."""

from __future__ import annotations

import math
from typing import Any

from rasterio.crs import CRS
from rasterio.errors import CRSError

from patchbeam.errors import SourceError
from patchbeam.rasters.files import Transform


def crs_of(dataset: Any, path: str, key: str, crs: str | None) -> str:
    """Returns the CRS of an open dataset as WKT.

    Args:
        dataset: open.
        path: of it.
        key: where the job file names it.
        crs: takes the place of its own.

    Raises:
        SourceError: there is none, or it cannot be understood.
    """
    if crs is not None:
        try:
            return str(CRS.from_user_input(crs).to_wkt())
        except (CRSError, ValueError) as e:
            raise SourceError(f"{key}.crs: {crs!r} is not a CRS: {e}; give an EPSG:n code or WKT") from e
    if dataset.crs:
        try:
            return str(dataset.crs.to_wkt())
        except CRSError as e:
            raise SourceError(
                f"{key}: {path}: its CRS cannot be used: {e}; say it with crs: under the source"
            ) from e
    raise SourceError(
        f"{key}: {path} has no CRS; say it with crs: under the source, or write it into the file"
        " (gdal_edit.py -a_srs EPSG:n)"
    )


def transform_of(dataset: Any, path: str, key: str) -> Transform:
    """Returns the geotransform of an open dataset.

    The identity is what GDAL gives for a raster without one; it is taken for that.

    Raises:
        SourceError: there is none, or it cannot be inverted.
    """
    t = dataset.transform
    if t.is_identity:
        points = len(dataset.gcps[0])
        if points:
            raise SourceError(
                f"{key}: {path} has no geotransform, only {points} ground control points; gdalwarp makes it a"
                " georeferenced raster"
            )
        if dataset.rpcs:
            raise SourceError(
                f"{key}: {path} has no geotransform, only rational polynomial coefficients; gdalwarp -rpc"
                " makes it a georeferenced raster"
            )
        no_crs = "" if dataset.crs else " and no CRS"
        raise SourceError(
            f"{key}: {path} has no geotransform{no_crs}; write them into the file (gdal_edit.py -a_srs EPSG:n"
            " -a_ullr left top right bottom), or put a world file beside it"
        )
    values = (t.a, t.b, t.c, t.d, t.e, t.f)
    if not all(map(math.isfinite, values)) or t.a * t.e - t.b * t.d == 0:
        raise SourceError(
            f"{key}: {path}: its geotransform {values} cannot be inverted; write a right one into it"
        )
    return values
