"""How much GDAL's block cache has to hold, by arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from patchbeam.rasters.files import RasterFile

SMALLEST = 16 << 20
"""Enough when windows follow the blocks."""

LARGEST = 512 << 20
"""Bound, whatever the blocks are."""


def row_of_blocks_bytes(file: RasterFile, width: int) -> int:
    """Returns the size of the blocks of all bands under one row of ``width`` pixels of a file."""
    total = 0
    for (rows, cols), dtype in zip(file.block_shapes, file.dtypes, strict=True):
        columns = min(-(-file.width // cols), -(-width // cols) + 1) * cols
        total += columns * rows * np.dtype(dtype).itemsize
    return total


def cache_size(read: Iterable[Sequence[RasterFile]], width: int, threads: int) -> int:
    """Returns the bytes of block cache with which no block is decoded twice within a window.

    Each thread walks along rows of blocks; two of them, for windows that begin inside a block.

    Args:
        read: files of which all pixels of a place are read together.
        width: columns of a window.
        threads: reading at the same time.
    """
    wanted = sum(sum(row_of_blocks_bytes(file, width) for file in files) for files in read)
    return min(max(2 * threads * wanted, SMALLEST), LARGEST)
