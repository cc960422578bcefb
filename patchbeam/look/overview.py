"""The patches of an export at their place on the map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchbeam.class_colours import Colour
from patchbeam.look.canvas import DROPPED as DROPPED_COLOURS
from patchbeam.look.canvas import MARGIN, Canvas
from patchbeam.look.canvas import MISSING as MISSING_COLOURS
from patchbeam.look.colours import Painter
from patchbeam.look.png import Rgb
from patchbeam.look.view import DROPPED, ExportView
from patchbeam.pool import Pool

SPLITS: tuple[Colour, ...] = ((38, 132, 255), (255, 139, 0), (171, 71, 188), (0, 150, 136), (229, 57, 53))
"""Outlines of the patches of each split, in order."""

COARSEST_LEVEL = 600
"""Levels of a page are halved while they stay at least so many pixels wide or high."""

MOST_ZOOM = 3
"""Pixels of a picture for one of a patch, at the most: nothing is seen better in larger ones."""

SMALL_PICTURE = 900
"""Side of the picture, in pixels, up to which few small patches are enlarged."""

_BATCH = 512
_LEAST_TILE = 3


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


def lay_out(
    columns: int,
    rows: int,
    patch: tuple[int, int],
    size: int,
    *,
    gaps: bool = True,
    enlarge: bool = True,
    step: int = 1,
) -> Tiling:
    """Lays patches out so that the picture is at most ``size`` pixels wide and high.

    Args:
        columns: patches across.
        rows: patches down.
        patch: pixels of a patch.
        size: most pixels of the picture.
        gaps: whether patches are set apart.
        enlarge: whether those of a small export are enlarged.
        step: where not all patches are shown, every so many or a multiple of it.
    """
    every = step * max(1, -(-max(columns, rows) * _LEAST_TILE // (size * step)))
    columns, rows = -(-columns // every), -(-rows // every)

    def scale(gap: int) -> float:
        return min(
            (size - (columns - 1) * gap) / (columns * patch[0]), (size - (rows - 1) * gap) / (rows * patch[1])
        )

    def tile(gap: int) -> tuple[int, int]:
        zoom = scale(gap)
        if zoom > 1 and not enlarge:
            zoom = 1
        elif zoom > 1:
            # small exports are enlarged by whole numbers, and not to the size of a screen
            zoom = min(zoom, max(1, SMALL_PICTURE // max(columns * patch[0], rows * patch[1])), MOST_ZOOM)
            zoom = max(1, int(zoom))
        return max(1, int(patch[0] * zoom)), max(1, int(patch[1] * zoom))

    gap = 0
    if gaps and columns * rows > 1:
        side = min(tile(0))
        gap = 0 if side < 6 else 1 if side < 48 else 2 if side < 96 else 3
    return Tiling(columns=columns, rows=rows, tile=tile(gap), gap=gap, every=every)


def lay_out_levels(view: ExportView, size: int) -> list[Tiling]:
    """Lays patches out in several sizes, the coarsest first, each twice as fine as the one before.

    Args:
        view: the export.
        size: most pixels of the finest; it is not finer than the records.
    """
    patches = view.patches
    across = (patches.columns, patches.rows, patches.patch_width_height)
    levels = [lay_out(*across, size, gaps=False, enlarge=False)]
    finest = max(levels[0].size)
    for power in range(1, 32):
        if finest >> power < COARSEST_LEVEL:
            break
        levels.insert(0, lay_out(*across, finest >> power, gaps=False, enlarge=False, step=levels[-1].every))
    return levels


def draw_overview(view: ExportView, painter: Painter, tiling: Tiling, *, margins: bool, pool: Pool) -> Rgb:
    """Draws all patches.

    Args:
        view: the export.
        painter: bands and colours.
        tiling: how patches are laid out.
        margins: whether each patch is drawn with its margin and a line round what is inside.
        pool: threads.
    """
    (picture,) = draw_levels(view, painter, [tiling], margins=margins, pool=pool)
    return picture


def draw_levels(
    view: ExportView, painter: Painter, tilings: Sequence[Tiling], *, margins: bool, pool: Pool
) -> list[Rgb]:
    """Draws all patches in several sizes, and reads each record once.

    Args:
        view: the export.
        painter: bands and colours.
        tilings: how patches are laid out; the last one shows every patch that another one shows.
        margins: whether each patch is drawn with its margin and a line round what is inside.
        pool: threads.
    """
    canvases = [Canvas(*tiling.size) for tiling in tilings]
    finest = tilings[-1]
    rows, cols = np.divmod(np.arange(finest.columns * finest.rows), finest.columns)
    rows, cols = rows * finest.every, cols * finest.every
    numbers = (rows * view.patches.columns + cols).tolist()

    def places(n: int) -> list[tuple[Canvas, Tiling, int, int]]:
        row, col = int(rows[n]), int(cols[n])
        return [
            (canvas, tiling, *tiling.corner(col // tiling.every, row // tiling.every))
            for canvas, tiling in zip(canvases, tilings, strict=True)
            if row % tiling.every == col % tiling.every == 0
        ]

    def pictures(n: int) -> list[Rgb]:
        tiles = [tiling.tile for _, tiling, _, _ in places(n)]
        return draw_tiles(view, painter, numbers[n], tiles, margins=margins)

    for n, patch in enumerate(numbers):
        if view.first_record[patch] < 0:
            dropped = view.first_record[patch] == DROPPED
            for canvas, tiling, x, y in places(n):
                canvas.hatch(x, y, *tiling.tile, DROPPED_COLOURS if dropped else MISSING_COLOURS)
    with_records = [n for n, patch in enumerate(numbers) if view.first_record[patch] >= 0]
    for start in range(0, len(with_records), _BATCH):  # a pool takes all that it is given at once
        batch = with_records[start : start + _BATCH]
        for n, drawn in zip(batch, pool.map(pictures, batch), strict=True):
            split = int(view.split_of[numbers[n]])
            for (canvas, tiling, x, y), picture in zip(places(n), drawn, strict=True):
                canvas.paste(x, y, picture)
                if split >= 0:
                    thick = 1 if min(tiling.tile) < 48 else 3
                    canvas.outline(x, y, *tiling.tile, SPLITS[split % len(SPLITS)], thick)
    return [canvas.pixels for canvas in canvases]


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
    (picture,) = draw_tiles(view, painter, patch, [tile], margins=margins)
    return picture


def draw_tiles(
    view: ExportView, painter: Painter, patch: int, tiles: Sequence[tuple[int, int]], *, margins: bool
) -> list[Rgb]:
    """Draws one patch in several sizes; arguments as of :func:`draw_patch`."""
    step = 1
    if view.values.sequence:
        step = max(
            1,
            min(
                n // max(t)
                for n, t in zip(view.patches.patch_width_height, zip(*tiles, strict=True), strict=True)
            ),
        )
    bands, masked = view.read(patch, painter.bands, step)
    if not margins:
        bands = [view.inner(band) for band in bands]
        masked = None if masked is None else view.inner(masked)
    if masked is not None and masked.any():
        view.masked_seen = True
    pictures = [painter.paint(bands, masked, *tile) for tile in tiles]
    if margins and any(view.values.margin_width_height):
        for picture in pictures:
            outline_inside(picture, view)
    return pictures


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
