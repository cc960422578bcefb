"""Whether a file is as long as its own header says, for formats whose missing end GDAL reads as zeros.

Most drivers fail at the first block beyond the end. Those of PNG, ENVI, PCRaster and classic NetCDF
fill in zeros instead, and a file that was cut short becomes an image with an empty lower part.
"""

from __future__ import annotations

import os
import struct
from typing import Any, BinaryIO

import numpy as np

from patchbeam.errors import SourceError
from patchbeam.rasters.netcdf3 import end_of_data

_PNG = b"\x89PNG\r\n\x1a\n"


def check_length(dataset: Any, path: str, where: str) -> None:
    """Refuses a local file that ends before its data do.

    Args:
        dataset: the open file.
        path: its name, for the message.
        where: key of the job file that names it, for the message.

    Raises:
        SourceError: it is cut short; names how long it should be.
    """
    check = _CHECKS.get(dataset.driver)
    if check is None:
        return
    # a part of a NetCDF file has a name of its own; GDAL lists the file first
    file_name = next(iter(dataset.files), path)
    if not os.path.isfile(file_name):
        return
    with open(file_name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        needed = check(file, size, dataset)
    if needed > size:
        raise SourceError(
            f"{where}: {path} is cut short or damaged: its data end at byte {needed} and the file has "
            f"{size}; fetch or write the file again"
        )


def _png(file: BinaryIO, size: int, _: Any) -> int:
    """The end of the ``IEND`` chunk (PNG specification, section 5.3), or one byte more than there is."""
    if file.read(8) != _PNG:
        return 0
    at = 8
    while True:
        file.seek(at)
        head = file.read(8)
        if len(head) < 8:
            return max(at + 12, size + 1)
        at += 12 + int.from_bytes(head[:4], "big")
        if head[4:] == b"IEND" or at > size:
            return at


def _envi(file: BinaryIO, _: int, dataset: Any) -> int:
    """Header offset and pixels; a compressed file is left to GDAL."""
    if file.read(2) == b"\x1f\x8b":
        return 0
    offset = dataset.tags(ns="ENVI").get("header_offset", "0").strip()
    pixel = sum(np.dtype(dtype).itemsize for dtype in dataset.dtypes)
    return int(dataset.width * dataset.height * pixel) + (int(offset) if offset.isdigit() else 0)


def _pcraster(file: BinaryIO, _: int, dataset: Any) -> int:
    """256 bytes of header, then cells; the low two bits of a cell's type are the logarithm of its size."""
    head = file.read(68)
    if len(head) < 68:
        return 256
    order = "<" if struct.unpack("<I", head[46:50])[0] == 1 else ">"
    cell = 1 << (struct.unpack(f"{order}H", head[66:68])[0] & 3)
    return 256 + int(dataset.width * dataset.height * cell)


def _netcdf(file: BinaryIO, size: int, _: Any) -> int:
    return end_of_data(file, size)


_CHECKS = {"PNG": _png, "ENVI": _envi, "PCRaster": _pcraster, "netCDF": _netcdf}
