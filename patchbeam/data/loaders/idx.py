"""IDX, the format of MNIST: two zero bytes, a type, the number of axes, big-endian sizes, values."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.errors import DataError

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""NumPy type of every type code."""

_PIECE = 1 << 20


def load_idx(file: BinaryIO) -> NDArray[Any]:
    """Returns the array, plain or gzip, in the machine's byte order.

    Raises:
        DataError: it is no IDX file, or has more or fewer bytes than its header says.
    """
    start = file.read(2)
    file.seek(-len(start), io.SEEK_CUR)
    try:
        return _read(gzip.GzipFile(fileobj=file) if start == b"\x1f\x8b" else file)
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"a damaged gzip file: {error}") from None


def _read(file: BinaryIO | gzip.GzipFile) -> NDArray[Any]:
    data = file.read(4)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in TYPES or not data[3]:
        raise DataError(
            f"no IDX file: it starts {data[:4].hex(' ')}; two zero bytes, a type code (08 to 0e) and the "
            "number of axes are due"
        )
    axes = data[3]
    sizes = file.read(4 * axes)
    start = 4 + 4 * axes
    if len(sizes) < 4 * axes:
        raise DataError(f"the header of {axes} axes takes {start} bytes and the file has {4 + len(sizes)}")
    shape = struct.unpack(f">{axes}I", sizes)
    dtype = np.dtype(TYPES[data[2]])
    due = math.prod(shape) * dtype.itemsize
    # no more than is due and one byte, in pieces: a header may claim anything, and a gzip file hold it
    values = bytearray()
    while len(values) <= due and (piece := file.read(min(_PIECE, due + 1 - len(values)))):
        values += piece
    if len(values) != due:
        have = f"more than the {start + due}" if len(values) > due else f"{start + len(values)}"
        raise DataError(f"{have} bytes, and the header's sizes {shape} make {start + due}")
    return np.frombuffer(values, dtype).astype(dtype.newbyteorder("=")).reshape(shape)
