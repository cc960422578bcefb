"""One rectangle of one file: its values in the file's type, and which of them the file calls valid."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rasterio.errors import RasterioError
from rasterio.windows import Window as FileWindow

from patchbeam import counts
from patchbeam.elements import Array, Mask
from patchbeam.errors import ReadFailed, SourceUnreadable
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.masks import file_valid


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle of pixels: columns ``left`` to ``right``, rows ``top`` to ``bottom``, ends excluded."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Columns; not positive when empty."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Rows; not positive when empty."""
        return self.bottom - self.top

    @property
    def empty(self) -> bool:
        """Whether no pixel is inside."""
        return self.width <= 0 or self.height <= 0

    def meet(self, other: Rect) -> Rect:
        """Returns what both hold; may be empty."""
        return Rect(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        )

    def moved(self, columns: int, rows: int) -> Rect:
        """Returns the rectangle moved right and down."""
        return Rect(self.left + columns, self.top + rows, self.right + columns, self.bottom + rows)

    def holds(self, other: Rect) -> bool:
        """Whether every pixel of the other is inside."""
        return self.meet(other) == other

    def slices(self, origin: Rect) -> tuple[slice, slice, slice]:
        """Returns the index of this rectangle in a ``(band, row, col)`` array that holds ``origin``."""
        return (
            slice(None),
            slice(self.top - origin.top, self.bottom - origin.top),
            slice(self.left - origin.left, self.right - origin.left),
        )


def surrounding(x: NDArray[np.float64], y: NDArray[np.float64]) -> Rect:
    """Returns the pixels round positions, those two pixels away taken in."""
    return Rect(
        math.floor(x.min()) - 2, math.floor(y.min()) - 2, math.ceil(x.max()) + 2, math.ceil(y.max()) + 2
    )


def read_piece(
    dataset: Any,
    header: RasterFile,
    indexes: Sequence[int],
    rect: Rect,
    *,
    nodata: float | None,
    out: Array | None = None,
    valid: Mask | None = None,
) -> tuple[Array, Mask | None]:
    """Reads a rectangle that lies inside the file.

    Args:
        dataset: the open file, or one of its overviews.
        header: its header.
        indexes: band numbers, all of one type.
        rect: in pixels of the dataset.
        nodata: takes the place of the file's own; ``None`` leaves it.
        out: written to when given: ``(band, row, col)`` of the file's type.
        valid: written to when given: the same shape.

    Returns:
        Values ``(band, row, col)`` in the file's type, and validity of the same shape; ``None`` when every
        pixel is valid and ``valid`` is not given.

    Raises:
        ReadFailed: GDAL cannot read or decode it.
    """
    window = FileWindow(rect.left, rect.top, rect.width, rect.height)
    try:
        values = dataset.read(list(indexes), window=window, out=out)
        counts.add("reads")
        return values, file_valid(dataset, header, indexes, window, values, nodata, valid)
    except RasterioError as e:
        cause = _cause(e)
        damaged = _UNDECODABLE.search(cause) is not None
        failure = (SourceUnreadable if damaged else ReadFailed)(
            f"{header.path}: bands {list(indexes)}, columns {rect.left} to {rect.right - 1}, rows {rect.top}"
            f" to {rect.bottom - 1} cannot be read: {cause}; fetch or write the file again"
        )
        # GDAL gives no number. A failed read may pass; bytes that cannot be decoded stay as they are.
        failure.errno = None if damaged else errno.EIO
        failure.source = header.path
        raise failure from e


_UNDECODABLE = re.compile("decod|corrupt|libjpeg|libpng|inflate|invalid", re.IGNORECASE)


def _cause(error: BaseException) -> str:
    """Returns what GDAL says of the block and, where that is another text, of the reason beneath."""
    # rasterio's own text says only that GDAL's says more
    chain = [error.__cause__ or error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    first, last = (" ".join(str(link).split()).rstrip(".") for link in (chain[0], chain[-1]))
    return first if last in first else f"{first} ({last})"


def unscaled(values: Array, header: RasterFile, indexes: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Returns ``values`` times scale plus offset, ``(band, row, col)``, in a floating point type."""
    scales = np.array([header.scales[i - 1] for i in indexes])[:, None, None]
    offsets = np.array([header.offsets[i - 1] for i in indexes])[:, None, None]
    return np.asarray(values * scales + offsets).astype(dtype, copy=False)
