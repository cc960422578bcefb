"""The patches of an export at their place on the map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from patchbeam.look.canvas import DROPPED as DROPPED_COLOURS
from patchbeam.look.canvas import MARGIN, Canvas, Colour
from patchbeam.look.canvas import MISSING as MISSING_COLOURS
from patchbeam.look.colours import Painter
from patchbeam.look.png import Rgb
from patchbeam.look.view import DROPPED, ExportView
from patchbeam.pool import Pool

SPLITS: tuple[Colour, ...] = ((38, 132, 255), (255, 139, 0), (171, 71, 188), (0, 150, 136), (229, 57, 53))
"""Outlines of the patches of each split, in order."""

_BATCH = 512
_LEAST_TILE = 3
_MOST_ZOOM = 3
_SMALL_PICTURE = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How patches are laid out.

    Attributes:
        columns: of tiles.
        rows: of tiles.
        tile: width and height of one in the picture.
        gap: pixels between tiles.
        every: of so many patches across and down only the first is shown.
    """

    columns: int
    rows: int
    tile: tuple[int, int]
    gap: int
    every: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture."""
        return (
            self.columns * (self.tile[0] + self.gap) - self.gap,
            self.rows * (self.tile[1] + self.gap) - self.gap,
        )

    def corner(self, column: int, row: int) -> tuple[int, int]:
        """Returns the upper left corner of a tile."""
        return column * (self.tile[0] + self.gap), row * (self.tile[1] + self.gap)


def lay_out(columns: int, rows: int, patch: tuple[int, int], size: int, *, gaps: bool = True) -> Tiling:
    """Lays patches out so that the picture is at most ``size`` pixels wide and high.

    Args:
        columns: patches across.
        rows: patches down.
        patch: pixels of a patch.
        size: most pixels of the picture.
        gaps: whether patches are set apart.
    """
    every = max(1, -(-max(columns, rows) * _LEAST_TILE // size))
    columns, rows = -(-columns // every), -(-rows // every)

    def scale(gap: int) -> float:
        return min(
            (size - (columns - 1) * gap) / (columns * patch[0]), (size - (rows - 1) * gap) / (rows * patch[1])
        )

    def tile(gap: int) -> tuple[int, int]:
        zoom = scale(gap)
        if zoom > 1:
            # small exports are enlarged by whole numbers, and not to the size of a screen
            zoom = min(zoom, max(1, _SMALL_PICTURE // max(columns * patch[0], rows * patch[1])), _MOST_ZOOM)
            zoom = max(1, int(zoom))
        return max(1, int(patch[0] * zoom)), max(1, int(patch[1] * zoom))

    gap = 0
    if gaps and columns * rows > 1:
        side = min(tile(0))
        gap = 0 if side < 6 else 1 if side < 48 else 2 if side < 96 else 3
    return Tiling(columns=columns, rows=rows, tile=tile(gap), gap=gap, every=every)


def draw_overview(
    view: ExportView, painter: Painter, *, size: int, margins: bool, gaps: bool, pool: Pool
) -> tuple[Rgb, Tiling]:
    """Draws all patches.

    Args:
        view: the export.
        painter: bands and colours.
        size: most pixels of the picture, across and down.
        margins: whether each patch is drawn with its margin and a line round what is inside.
        gaps: whether patches are set apart.
        pool: threads.
    """
    patches = view.patches
    shown = patches.stored_width_height if margins else patches.patch_width_height
    tiling = lay_out(patches.columns, patches.rows, shown, size, gaps=gaps)
    canvas = Canvas(*tiling.size)
    rows, cols = np.divmod(np.arange(tiling.columns * tiling.rows), tiling.columns)
    numbers = (rows * tiling.every * patches.columns + cols * tiling.every).tolist()

    def picture(n: int) -> Rgb:
        return draw_patch(view, painter, numbers[n], tiling.tile, margins=margins)

    width, height = tiling.tile
    for n, patch in enumerate(numbers):
        x, y = tiling.corner(int(cols[n]), int(rows[n]))
        if view.first_record[patch] < 0:
            dropped = view.first_record[patch] == DROPPED
            canvas.hatch(x, y, width, height, DROPPED_COLOURS if dropped else MISSING_COLOURS)
    with_records = [n for n, patch in enumerate(numbers) if view.first_record[patch] >= 0]
    for start in range(0, len(with_records), _BATCH):  # a pool takes all that it is given at once
        batch = with_records[start : start + _BATCH]
        for n, tile in zip(batch, pool.map(picture, batch), strict=True):
            x, y = tiling.corner(int(cols[n]), int(rows[n]))
            canvas.paste(x, y, tile)
            split = int(view.split_of[numbers[n]])
            if split >= 0:
                thick = 1 if min(tiling.tile) < 48 else 3
                canvas.outline(x, y, width, height, SPLITS[split % len(SPLITS)], thick)
    return canvas.pixels, tiling


def draw_patch(
    view: ExportView, painter: Painter, patch: int, tile: tuple[int, int], *, margins: bool
) -> Rgb:
    """Draws one patch.

    Args:
        view: the export.
        painter: bands and colours.
        patch: its number; it has a record.
        tile: width and height of the picture.
        margins: whether with its margin, and a line round what is inside.
    """
    step = 1
    if view.values.sequence:
        step = max(1, min(n // t for n, t in zip(view.patches.patch_width_height, tile, strict=True)))
    bands, masked = view.read(patch, painter.bands, step)
    if not margins:
        bands = [view.inner(band) for band in bands]
        masked = None if masked is None else view.inner(masked)
    picture = painter.paint(bands, masked, *tile)
    if margins and any(view.values.margin_width_height):
        outline_inside(picture, view)
    return picture


def outline_inside(picture: Rgb, view: ExportView) -> None:
    """Draws a line between a patch and its margin."""
    height, width = picture.shape[:2]
    across, down = (
        round(m * n / stored)
        for m, n, stored in zip(
            view.values.margin_width_height, (width, height), view.values.stored_width_height, strict=True
        )
    )
    canvas = Canvas(0, 0)
    canvas.pixels = picture
    canvas.outline(across, down, width - 2 * across, height - 2 * down, MARGIN, 1 if width < 400 else 2)
