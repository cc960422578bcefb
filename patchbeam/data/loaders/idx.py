"""IDX, the format of MNIST: two zero bytes, a type, the number of axes, big-endian sizes, values."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.errors import DataError

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""NumPy type of every type code."""


def load_idx(file: BinaryIO) -> NDArray[Any]:
    """Returns the array, plain or gzip, in the machine's byte order.

    Raises:
        DataError: it is no IDX file, or has more or fewer bytes than its header says.
    """
    data = file.read()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"a damaged gzip file: {error}") from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in TYPES or not data[3]:
        raise DataError(
            f"no IDX file: it starts {data[:4].hex(' ')}; two zero bytes, a type code (08 to 0e) and the "
            f"number "
            "of axes are due"
        )
    axes = data[3]
    start = 4 + 4 * axes
    if len(data) < start:
        raise DataError(f"the header of {axes} axes takes {start} bytes and the file has {len(data)}")
    shape = struct.unpack_from(f">{axes}I", data, 4)
    dtype = np.dtype(TYPES[data[2]])
    due = start + math.prod(shape) * dtype.itemsize
    if len(data) != due:
        raise DataError(f"{len(data)} bytes, and the header's sizes {shape} make {due}")
    return np.frombuffer(data, dtype, offset=start).astype(dtype.newbyteorder("=")).reshape(shape)
