"""A window becomes parts, one or more a thread, that share no source block where that can be had."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from patchbeam.rasters.floors import CELL
from patchbeam.rasters.footprints import Placement
from patchbeam.rasters.pieces import Rect

_SMALL = 1 << 16
"""Pixels below which a part is not worth a thread."""


def split_window(rect: Rect, threads: int, placements: Sequence[Placement]) -> list[Rect]:
    """Returns parts of ``rect`` that together are ``rect``.

    Cuts follow the rows of blocks of the first file on the grid's lattice; where one row of blocks
    covers the window, its columns of blocks; off the lattice, the cells of the position lattice.
    """
    if threads <= 1 or rect.width * rect.height < 2 * _SMALL:
        return [rect]
    step_rows = step_cols = CELL
    row = col = 0
    for p in placements:
        if p.offsets is not None:
            step_rows, step_cols = p.file.block_shapes[0]
            col, row = p.offsets
            break
    rows = _cuts(rect.top, rect.bottom, row, step_rows, threads)
    if len(rows) > 2:
        return [Rect(rect.left, a, rect.right, b) for a, b in pairwise(rows)]
    cols = _cuts(rect.left, rect.right, col, step_cols, threads)
    return [Rect(a, rect.top, b, rect.bottom) for a, b in pairwise(cols)]


def _cuts(start: int, stop: int, origin: int, step: int, parts: int) -> list[int]:
    """Returns ascending cuts from ``start`` to ``stop``, the inner ones at ``origin`` plus whole steps."""
    inner = set()
    for i in range(1, parts):
        cut = origin + round((start + (stop - start) * i / parts - origin) / step) * step
        if start < cut < stop:
            inner.add(cut)
    return [start, *sorted(inner), stop]
