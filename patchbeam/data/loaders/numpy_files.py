"""``.npy`` and ``.npz``; never pickles, which could run anything."""

from __future__ import annotations

from typing import Any, BinaryIO

from numpy.typing import NDArray

from patchbeam.data.errors import DataError
from patchbeam.errors import nearest
from patchbeam.npy import names_of_npz, read_npy, read_npz


def load_npy(file: BinaryIO) -> NDArray[Any]:
    """Returns the array of an ``.npy`` file.

    Raises:
        DataError: it is none, or holds Python objects.
    """
    try:
        return read_npy(file)
    except ValueError as error:
        raise DataError(f"no array in the npy format: {error}") from None


def load_npz(file: BinaryIO, *, array: str | None = None) -> NDArray[Any]:
    """Returns one array of an ``.npz`` file.

    Args:
        file: the archive.
        array: its name; may be left out where there is only one.

    Raises:
        DataError: it is none, or has no such array.
    """
    try:
        names = names_of_npz(file)
        name = names[0] if array is None and len(names) == 1 else array
        if name not in names:
            asked = "several arrays, and none is named" if array is None else f"no array {array!r}"
            raise DataError(f"{asked}{nearest(array or '', names)}; it holds {', '.join(names)}")
        return read_npz(file, str(name))
    except (ValueError, KeyError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"no archive of arrays in the npz format: {error}") from None
