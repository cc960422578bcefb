"""Weighted average of overlapping patches, one patch row at a time.

The accumulator holds the rows that a patch row reaches, margins included, and moves down with it: memory
is that of a strip, and every record is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from patchbeam.mosaic.decode import PatchPixels
from patchbeam.patches import PatchGrid, Window
from patchbeam.pool import Pool

Array = NDArray[Any]
Floats = NDArray[np.float64]


def weights(size: int, kind: Literal["mean", "hann"]) -> Floats:
    """Returns the weight of each of ``size`` positions across a stored patch.

    ``hann`` is the window sin²(π(i + ½)/size): nothing at the edges, but nowhere zero.
    """
    if kind == "mean":
        return np.ones(size)
    return np.asarray(np.sin(np.pi * (np.arange(size) + 0.5) / size) ** 2)


class Blender:
    """Adds up patches of one tile.

    Args:
        patches: the patch grid.
        tile: map pixels of the tile.
        bands: number of bands.
        kind: of the weights.
        pool: the threads to use.
    """

    def __init__(
        self, patches: PatchGrid, tile: Window, bands: int, kind: Literal["mean", "hann"], pool: Pool
    ) -> None:
        self._patches = patches
        self._tile = tile
        self._pool = pool
        width, height = patches.stored_width_height
        self._across, self._down = weights(width, kind), weights(height, kind)
        self._top = tile.row_off  # first map row that the accumulator holds
        self._sum = np.zeros((bands, 0, tile.width))
        self._weight = np.zeros((bands, 0, tile.width))

    def add_row(self, row: int, pixels: Sequence[PatchPixels]) -> None:
        """Adds the patches of a patch row; rows come from top to bottom."""
        height, margin = self._patches.patch_width_height[1], self._patches.margin_width_height[1]
        bottom = min((row + 1) * height + margin, self._tile.row_stop)
        self._grow(bottom - self._top)
        top = max(row * height - margin, self._top)
        # Threads take strips of rows: patches of a row overlap, rows do not.
        step = max(1, -(-(bottom - top) // self._pool.threads))
        strips = [(start, min(start + step, bottom)) for start in range(top, bottom, step)]

        def add(strip: tuple[int, int]) -> None:
            for patch in pixels:
                self._add(patch, *strip)

        for _ in self._pool.map(add, strips):
            pass

    def take(self, until: int) -> tuple[int, list[Floats]]:
        """Takes the finished rows out.

        Args:
            until: map row before which no more patch reaches.

        Returns:
            The first map row, and the average of each band; NaN where there is none.
        """
        start, count = self._top, max(0, until - self._top)
        self._grow(count)
        total, weight = self._sum[:, :count], self._weight[:, :count]
        with np.errstate(invalid="ignore", divide="ignore"):
            average = list(total / weight)
        self._sum, self._weight = self._sum[:, count:], self._weight[:, count:]
        self._top += count
        return start, average

    def _grow(self, rows: int) -> None:
        missing = rows - self._sum.shape[1]
        if missing > 0:
            more = np.zeros((self._sum.shape[0], missing, self._tile.width))
            self._sum = np.concatenate([self._sum, more], axis=1)
            self._weight = np.concatenate([self._weight, more], axis=1)

    def _add(self, patch: PatchPixels, top: int, bottom: int) -> None:
        stored = self._patches.stored_window(patch.patch)
        part = stored.intersection(Window(self._tile.col_off, top, self._tile.width, bottom - top))
        if part is None:
            return
        rows = slice(part.row_off - stored.row_off, part.row_stop - stored.row_off)
        cols = slice(part.col_off - stored.col_off, part.col_stop - stored.col_off)
        at_rows = slice(part.row_off - self._top, part.row_stop - self._top)
        at_cols = slice(part.col_off - self._tile.col_off, part.col_stop - self._tile.col_off)
        weight = self._down[rows, None] * self._across[None, cols]
        if patch.valid is not None:
            weight = weight * patch.valid[rows, cols]
        for b, values in enumerate(patch.bands):
            numbers, own = values[rows, cols], weight
            if numbers.dtype.kind == "f" and np.isnan(numbers.min()):
                missing = np.isnan(numbers)
                numbers, own = np.where(missing, 0, numbers), np.where(missing, 0, weight)
            self._sum[b, at_rows, at_cols] += own * numbers
            self._weight[b, at_rows, at_cols] += own
