"""GeoTIFF and the other rasters that GDAL reads."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
import rasterio
from numpy.typing import NDArray

from patchbeam.data.errors import DataError


def load_geotiff(file: BinaryIO, *, bands: tuple[int, ...] | None = None) -> NDArray[Any]:
    """Returns ``(band, row, col)``.

    Args:
        file: the raster.
        bands: numbers of the bands wanted, from 1; default all.

    Raises:
        DataError: it is no raster or has no such band.
    """
    try:
        # from memory: also what has no name on disk, and GDAL leaves no side files
        with rasterio.MemoryFile(file.read()) as memory, memory.open() as raster:
            found: NDArray[Any] = raster.read(None if bands is None else list(bands))
    except (rasterio.errors.RasterioError, IndexError, ValueError) as error:
        raise DataError(f"no raster that GDAL reads: {error}") from None
    return np.ascontiguousarray(found)
