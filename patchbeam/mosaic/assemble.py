"""Patches to the array of one tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import JobError
from patchbeam.mosaic.blend import Blender
from patchbeam.mosaic.convert import Converter
from patchbeam.mosaic.decode import Part, PatchPixels, PatchSource
from patchbeam.mosaic.layout import MapLayout
from patchbeam.mosaic.options import Overlap
from patchbeam.patches import Window
from patchbeam.pool import Pool

Array = NDArray[Any]
Mask = NDArray[np.bool_]
ValidAt = Callable[[Window], Mask | None]
"""Map pixels → ``(row, col)``, false where the sources are masked."""


class Assembler:
    """Makes tiles. Each reads the records that it needs, and each of them once.

    Args:
        source: the patches.
        layout: where they lie.
        converter: numbers to pixels.
        bands: bands of the map.
        overlap: what becomes of margins.
        pool: the threads to use.
        valid_at: tells what is masked besides what the records say; ``None`` for nothing.
    """

    def __init__(
        self,
        source: PatchSource,
        layout: MapLayout,
        converter: Converter,
        *,
        bands: int,
        overlap: Overlap,
        pool: Pool,
        valid_at: ValidAt | None = None,
    ) -> None:
        self._source = source
        self._layout = layout
        self._patches = layout.patches
        self._converter = converter
        self._bands = bands
        self._overlap = overlap
        self._pool = pool
        self._valid_at = valid_at

    def tile(self, window: Window) -> tuple[Array, int]:
        """Returns the pixels of a tile, and how many patches begin in it.

        Args:
            window: map pixels of the tile.

        Returns:
            ``(band, row, col)`` in the map's type. A patch begins in the tile that holds its first
            pixel, so that over all tiles every patch is counted once.

        Raises:
            CorruptRecord: a record is damaged or of another form.
            EncodeError: a value does not fit the map's type.
        """
        shape = (self._bands, window.height, window.width)
        if self._layout.kept is None:
            out = np.empty(shape, self._converter.dtype)  # every pixel is covered
        else:
            out = np.full(shape, self._converter.fill_value(), self._converter.dtype)
        valid = None if self._valid_at is None else self._valid_at(window)
        if self._overlap == "discard":
            return out, self._discard(window, out, valid)
        return out, self._blend(window, out, valid)

    def _discard(self, window: Window, out: Array, valid: Mask | None) -> int:
        rows, cols = self._patches.patches_in(window)
        parts = [part for row in rows for part in self._source.parts(row, cols)]

        def place(part: Part) -> int:
            begun = 0
            for pixels in self._source.read(part):
                begun += self._place(pixels, window, out, valid)
            return begun

        return sum(self._pool.map(place, parts))

    def _place(self, pixels: PatchPixels, tile: Window, out: Array, valid: Mask | None) -> int:
        core = self._patches.window(pixels.patch)
        part = core.intersection(tile)
        if part is None:
            return 0
        x, y = self._patches.margin_width_height if pixels.with_margin else (0, 0)
        top, left = part.row_off - core.row_off + y, part.col_off - core.col_off + x
        own = slice(top, top + part.height), slice(left, left + part.width)
        at = _within(part, tile)
        both = None if valid is None else valid[at]
        if pixels.valid is not None:
            both = pixels.valid[own] if both is None else both & pixels.valid[own]
        self._converter.convert(
            [band[own] for band in pixels.bands], both, out[:, at[0], at[1]], lambda row, col: pixels.patch
        )
        return int((part.row_off, part.col_off) == (core.row_off, core.col_off))

    def _blend(self, window: Window, out: Array, valid: Mask | None) -> int:
        assert self._overlap != "discard"
        inputs = self._source.bands
        x, y = self._patches.margin_width_height
        rows, cols = self._patches.patches_in(window.buffered(x, y))
        blender = Blender(self._patches, window, inputs, self._overlap, self._pool)
        covered = np.zeros((window.height, window.width), np.bool_)
        begun = 0
        height = self._patches.patch_width_height[1]
        for row in rows:
            parts = self._source.parts(row, cols)
            read = [
                p
                for group in self._pool.map(lambda part: list(self._source.read(part)), parts)
                for p in group
            ]
            for pixels in read:
                self._need_margin(pixels)
                begun += self._cover(pixels, window, covered)
            blender.add_row(row, read)
            last = row == rows[-1]
            done = window.row_stop if last else min(window.row_stop, (row + 1) * height - y)
            start, bands = blender.take(done)
            count = bands[0].shape[0] if bands else 0
            if count:
                at = slice(start - window.row_off, start - window.row_off + count)
                there = covered[at] if valid is None else covered[at] & valid[at]
                self._converter.convert(bands, there, out[:, at], self._patch_at(window, start))
        return begun

    def _need_margin(self, pixels: PatchPixels) -> None:
        if not pixels.with_margin:
            width, height = self._patches.stored_width_height
            raise JobError(
                f"overlap: {{blend: {self._overlap}}}: the record of patch {pixels.patch} has no margin; "
                f"write predictions of {width} × {height} pixels, or use overlap: discard"
            )

    def _cover(self, pixels: PatchPixels, tile: Window, covered: Mask) -> int:
        # Marks the valid pixels of the patch itself; its margin covers nothing.
        core = self._patches.window(pixels.patch)
        part = core.intersection(tile)
        if part is None:
            return 0
        x, y = self._patches.margin_width_height
        top, left = part.row_off - core.row_off + y, part.col_off - core.col_off + x
        own = slice(top, top + part.height), slice(left, left + part.width)
        covered[_within(part, tile)] = True if pixels.valid is None else pixels.valid[own]
        return int((part.row_off, part.col_off) == (core.row_off, core.col_off))

    def _patch_at(self, tile: Window, first_row: int) -> Callable[[int, int], int]:
        width, height = self._patches.patch_width_height
        columns = self._patches.columns
        return lambda row, col: (first_row + row) // height * columns + (tile.col_off + col) // width


def _within(part: Window, tile: Window) -> tuple[slice, slice]:
    top, left = part.row_off - tile.row_off, part.col_off - tile.col_off
    return slice(top, top + part.height), slice(left, left + part.width)
