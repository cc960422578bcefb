"""Bands of one source that are read together, the pixels of their files, and where they go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from patchbeam.elements import Array, Mask
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.footprints import Placement
from patchbeam.rasters.pieces import Rect
from patchbeam.rasters.source import Source

BLOCK_SIDE = 256
"""Side of the tiles of a window where no block layout of a file suggests another."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layers:
    """Bands of one source that are read together, and where they go.

    Attributes:
        source: their source.
        number: of the one file that they come from, for a step of a series; ``None``: all files.
        indexes: band numbers, all of one type in each file.
        names: of the output bands, one an index.
        resampling: see :data:`patchbeam.rasters.source.RESAMPLINGS`.
        values: ``(band, row, col)`` in the output's type.
        valid: the same shape, false at first.
    """

    source: Source
    number: int | None
    indexes: tuple[int, ...]
    names: tuple[str, ...]
    resampling: str
    values: Array
    valid: Mask

    @property
    def compose(self) -> str:
        """How its files become one image; a step of a series has one file."""
        return self.source.compose if self.number is None else "first"

    def part(self, whole: Rect, part: Rect) -> Layers:
        """Returns the layers over a part of the rectangle that they cover."""
        at = part.slices(whole)
        return replace(self, values=self.values[at], valid=self.valid[at])

    def scaled(self, file: RasterFile) -> bool:
        """Whether scale and offset of a file are to be applied and change anything."""
        return self.source.unscale and any(
            file.scales[i - 1] != 1 or file.offsets[i - 1] != 0 for i in self.indexes
        )


def tiles(rect: Rect, placements: list[Placement], most: int) -> Iterator[Rect]:
    """Yields parts of ``rect`` of at most ``most`` pixels, or one pixel, that together are ``rect``.

    They follow the blocks of the first file on the grid's lattice, so that no block is decoded twice
    where ``most`` lets one block be held.
    """
    rows = cols = BLOCK_SIDE
    row = col = 0
    for placement in placements:
        if placement.offsets is not None:
            rows, cols = placement.file.block_shapes[0]
            col, row = placement.offsets
            break
    cols = min(cols, rect.width)
    if rows * cols > most:
        rows = max(1, most // cols)
        cols = min(cols, most)
    if rect.width * rows <= most:
        rows, cols = rows * (most // (rect.width * rows)), rect.width
        col = rect.left
    else:
        cols *= max(1, most // (rows * cols))
    for top in range(row + (rect.top - row) // rows * rows, rect.bottom, rows):
        for left in range(col + (rect.left - col) // cols * cols, rect.right, cols):
            yield Rect(left, top, left + cols, top + rows).meet(rect)


def work_type(layers: Layers, files: list[RasterFile]) -> np.dtype[np.generic]:
    """Returns the type that holds every number of the files' bands, scales applied where wanted."""
    if any(layers.scaled(file) for file in files):
        return np.dtype(np.float64)
    types = {file.dtypes[i - 1] for file in files for i in layers.indexes}
    if layers.values.dtype.kind == "f":
        types.add(layers.values.dtype.name)
    return np.result_type(*(np.dtype(t) for t in types))
