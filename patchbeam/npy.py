"""Arrays in the formats of NumPy, of files that need not be trusted.

``numpy.load`` takes the memory that a header asks for before it looks whether the file has the values; here
memory grows with what has come. Pickles, which could run anything, are never read.
"""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

MAX_ENTRY_BYTES = 1 << 32
"""Most bytes of one array of an archive once it is inflated."""

_WRONG = (OSError, ValueError, EOFError, KeyError, TypeError, IndexError, OverflowError, SyntaxError)
_DAMAGE = (*_WRONG, RuntimeError, tokenize.TokenError, struct.error, zlib.error, zipfile.BadZipFile)
_PIECE = 1 << 20


def read_npy(file: IO[bytes]) -> NDArray[Any]:
    """Returns the array that a file holds from where it stands.

    Raises:
        ValueError: it holds none, fewer values than its header says, or Python objects.
    """
    try:
        version = npy.read_magic(file)
        read: Callable[..., tuple[tuple[int, ...], bool, np.dtype[Any]]] = (
            npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        )
        shape, by_columns, dtype = read(file)
    except _DAMAGE as error:
        raise ValueError(f"no header of an array: {_line(error)}") from None
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never read")
    count = 1
    for size in shape:
        if size < 0:
            raise ValueError(f"an axis of {size} values")
        count *= size
    due = count * dtype.itemsize
    data = _take(file, due)
    if len(data) != due:
        raise ValueError(f"{len(data)} bytes of values, and the header's shape {shape} makes {due}")
    values = np.frombuffer(data, dtype, count) if due else np.zeros(count if count < 1 << 31 else -1, dtype)
    return values.reshape(shape, order="F" if by_columns else "C")


def read_npz(file: IO[bytes], name: str) -> NDArray[Any]:
    """Returns one array of an archive.

    Raises:
        KeyError: it has no array of that name.
        ValueError: it is no archive, or the array is damaged or too large.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            entry = archive.getinfo(f"{name}.npy")
            if entry.file_size > MAX_ENTRY_BYTES:
                raise ValueError(
                    f"{name} takes {entry.file_size} bytes once inflated, and no more than {MAX_ENTRY_BYTES} "
                    "are read of an archive; store it as an npy file"
                )
            with archive.open(entry) as opened:
                return read_npy(opened)
    except KeyError:
        raise
    except _DAMAGE as error:
        raise ValueError(_line(error)) from None


def names_of_npz(file: IO[bytes]) -> list[str]:
    """Returns the names of an archive's arrays, in order.

    Raises:
        ValueError: it is no archive.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except _DAMAGE as error:
        raise ValueError(_line(error)) from None


def _take(file: IO[bytes], size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        piece = file.read(min(_PIECE, size - len(data)))
        if not piece:
            break
        data += piece
    return data


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
