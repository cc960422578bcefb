"""GeoTIFFs that have just been written: whether they are whole.

GDAL holds blocks back until a file is closed, and says nothing of those that it then cannot write: on a full
disk a file can be cut short, or lack its directory, without an error.
"""

from __future__ import annotations

import errno

import rasterio
from rasterio._err import CPLE_BaseError
from rasterio.errors import RasterioError

from patchbeam.errors import SourceError, WriteFailed
from patchbeam.rasters.tiff import check_tiff
from patchbeam.storage.base import MAKE_ROOM

GDAL_FAILURES = (OSError, RasterioError, CPLE_BaseError)
"""What writing a raster can raise; rasterio hands some errors of GDAL on as they are."""

_CACHE_BYTES = 16 << 20


def check_written(path: str, name: str, *, reads: bool = False) -> None:
    """Refuses a GeoTIFF that is not whole.

    Args:
        path: of the file.
        name: of what is being written, for the message.
        reads: whether every block is read too: of a file that was written block by block, some in the
            middle can be lost. A copy that GDAL makes in one go can only be cut short.

    Raises:
        WriteFailed: its directory, or a block, lies beyond its end or cannot be read; ``errno`` is
            ``ENOSPC``.
        OSError: the system could not read it.
    """
    try:
        whole = check_tiff(path, name, large=True) is not None
        if whole and reads:
            _read_all(path)
    except (SourceError, *GDAL_FAILURES) as error:
        # a share that was away, or no descriptor left, says nothing of the file
        if isinstance(error, OSError) and error.errno is not None:
            raise
        whole = False
    if not whole:
        failure = WriteFailed(
            f"{name}: what was written of it is cut short, most likely because the disk is full; {MAKE_ROOM}"
        )
        failure.errno = errno.ENOSPC
        raise failure


def _read_all(path: str) -> None:
    # no block is read twice, and memory must not grow with the file
    with rasterio.Env(GDAL_CACHEMAX=_CACHE_BYTES), rasterio.open(path) as file:
        for _, window in file.block_windows(1):
            file.read(window=window)
