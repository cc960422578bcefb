"""Contact sheets: some patches side by side, or all bands of one."""

from __future__ import annotations

import math

import numpy as np

from patchbeam.errors import JobError
from patchbeam.look.canvas import FAINT, INK, LINE, Canvas, line_height
from patchbeam.look.colours import Painter
from patchbeam.look.overview import MOST_ZOOM, draw_patch
from patchbeam.look.painter import make_painter
from patchbeam.look.png import Rgb
from patchbeam.look.strips import text_scale
from patchbeam.look.view import DROPPED, ExportView
from patchbeam.pool import Pool

_GAP = 10
_LEAST_THUMB = 24


def _thumbs(count: int, patch: tuple[int, int], size: int) -> tuple[int, tuple[int, int]]:
    """Returns columns, and the size of each picture."""
    square = max(1, min(count, math.ceil(math.sqrt(count * patch[1] / patch[0]))))
    # one column more where that leaves fewer empty places in the last row
    columns = min(square, min(square + 1, count), key=lambda n: (-count % n, n))
    room = (size - (columns - 1) * _GAP) / columns
    zoom = min(room / patch[0], MOST_ZOOM)
    if zoom > 1:
        zoom = int(zoom)
    return columns, (max(_LEAST_THUMB, int(patch[0] * zoom)), max(_LEAST_THUMB, int(patch[1] * zoom)))


def draw_sheet(
    view: ExportView, painter: Painter, *, count: int, size: int, margins: bool, pool: Pool
) -> Rgb:
    """Draws patches spread evenly over the export, each with its number.

    Args:
        view: the export.
        painter: bands and colours.
        count: how many patches.
        size: most pixels of the picture, across.
        margins: whether with their margins.
        pool: threads.
    """
    present = view.present
    chosen = present[np.unique(np.linspace(0, len(present) - 1, count).astype(np.int64))].tolist()
    shown = view.patches.stored_width_height if margins else view.patches.patch_width_height
    columns, tile = _thumbs(len(chosen), shown, size)
    scale = text_scale(columns * tile[0])
    height = tile[1] + line_height(scale) + _GAP // 2
    canvas = Canvas(columns * (tile[0] + _GAP) - _GAP, -(-len(chosen) // columns) * height)
    pictures = pool.map(lambda patch: draw_patch(view, painter, patch, tile, margins=margins), chosen)
    for position, (patch, picture) in enumerate(zip(chosen, pictures, strict=True)):
        row, column = divmod(position, columns)
        x, y = column * (tile[0] + _GAP), row * height
        canvas.paste(x, y, picture)
        canvas.outline(x, y, *tile, LINE)
        canvas.text(x, y + tile[1] + 2 * scale, f"#{patch}", FAINT, scale)
    return canvas.pixels


def draw_bands(
    view: ExportView, painter: Painter, *, patch: int, size: int, percentiles: tuple[float, float], pool: Pool
) -> Rgb:
    """Draws one patch with its margin: as in the overview, and each of its bands by itself.

    Args:
        view: the export.
        painter: bands and colours of the first picture.
        patch: its number.
        size: most pixels of the picture, across.
        percentiles: between which numbers of each band are stretched.
        pool: threads.

    Raises:
        JobError: there is no such patch, or it has no record.
    """
    if not 0 <= patch < view.patches.count:
        raise JobError(f"--patch: {patch} is not in 0..{view.patches.count - 1}")
    if view.first_record[patch] < 0:
        dropped = view.first_record[patch] == DROPPED
        what = "was dropped" if dropped else "is in a shard that is missing"
        raise JobError(f"--patch: {patch} {what}; patches {_ranges(view)} have records")
    painters = [
        make_painter(view, (band,), percentiles=percentiles, classes=False, pool=pool, sample=(patch,))
        for band in view.bands
    ]
    if len(painter.bands) == 3:
        painters.insert(0, painter)
    columns, tile = _thumbs(len(painters), view.patches.stored_width_height, size)
    scale = text_scale(columns * tile[0])
    height = tile[1] + line_height(scale) + _GAP
    canvas = Canvas(columns * (tile[0] + _GAP) - _GAP, -(-len(painters) // columns) * height - _GAP)
    for position, own in enumerate(painters):
        row, column = divmod(position, columns)
        x, y = column * (tile[0] + _GAP), row * height
        canvas.text(x, y + 2 * scale, " ".join(own.bands), INK, scale)
        picture = draw_patch(view, own, patch, tile, margins=True)
        canvas.paste(x, y + line_height(scale), picture)
        canvas.outline(x, y + line_height(scale), *tile, LINE)
    return canvas.pixels


def _ranges(view: ExportView) -> str:
    present = view.present
    if len(present) <= 8:
        return ", ".join(map(str, present.tolist())) or "none"
    return f"{', '.join(map(str, present[:6].tolist()))}, … {present[-1]}"
