"""PGM and PPM, plain and raw, of 8 and 16 bits (the Netpbm formats P2, P3, P5, P6)."""

from __future__ import annotations

import re
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.errors import DataError

# Numbers may be separated by any white space and by comments to the end of the line.
_GAP = rb"(?:\s|#[^\n\r]*[\n\r])+"
_HEADER = re.compile(rb"P([2356])" + _GAP + rb"(\d{1,10})" + _GAP + rb"(\d{1,10})" + _GAP + rb"(\d{1,10})\s")


def load_pnm(file: BinaryIO) -> NDArray[Any]:
    """Returns PGM as ``(row, col)`` and PPM as ``(channel, row, col)``, uint8 or uint16.

    Raises:
        DataError: it is none, or has not as many values as its header says.
    """
    data = file.read()
    head = _HEADER.match(data)
    if head is None:
        raise DataError(f"no PGM or PPM file: it starts {data[:8]!r}")
    kind, width, height, largest = (int(number) for number in head.groups())
    if not (width and height and 0 < largest < 1 << 16):
        raise DataError(f"a header of {width} × {height} pixels with values to {largest} is no PGM or PPM")
    channels = 3 if kind in (3, 6) else 1
    count = width * height * channels
    dtype = np.dtype("u1" if largest < 256 else ">u2")
    body = data[head.end() :]
    if kind > 3:
        if len(body) < count * dtype.itemsize:
            raise DataError(f"{len(body)} bytes of pixels where {count * dtype.itemsize} are due")
        values = np.frombuffer(body, dtype, count)
    else:
        words = re.sub(rb"#[^\n\r]*", b"", body).split()
        if len(words) < count:
            raise DataError(f"{len(words)} values where {count} are due")
        try:
            values = np.array(words[:count]).astype(np.int64)
        except ValueError as error:
            raise DataError(f"a value that is no number: {error}") from None
    if values.size and (int(values.max()) > largest or int(values.min()) < 0):
        raise DataError(f"a value of {int(values.max())}, and the header says {largest} is the largest")
    pixels = values.astype(dtype.newbyteorder("=")).reshape(height, width, channels)
    return pixels[..., 0] if channels == 1 else np.ascontiguousarray(np.moveaxis(pixels, -1, 0))
