"""``.npy`` and ``.npz``; never pickles, which could run anything."""

from __future__ import annotations

import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.errors import DataError
from patchbeam.errors import nearest


def load_npy(file: BinaryIO) -> NDArray[Any]:
    """Returns the array of an ``.npy`` file.

    Raises:
        DataError: it is none, or holds Python objects.
    """
    try:
        found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"no array in the npy format: {error}") from None
    return found


def load_npz(file: BinaryIO, *, array: str | None = None) -> NDArray[Any]:
    """Returns one array of an ``.npz`` file.

    Args:
        file: the archive.
        array: its name; may be left out where there is only one.

    Raises:
        DataError: it is none, or has no such array.
    """
    try:
        with np.load(file, allow_pickle=False) as archive:
            names = list(archive.files)
            name = names[0] if array is None and len(names) == 1 else array
            if name not in names:
                asked = "several arrays, and none is named" if array is None else f"no array {array!r}"
                raise DataError(f"{asked}{nearest(array or '', names)}; it holds {', '.join(names)}")
            found: NDArray[Any] = archive[str(name)]
            return found
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"no archive of arrays in the npz format: {error}") from None
