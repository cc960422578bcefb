"""Read blocks: rectangles of patches that are read at once.

A block is aligned to the sources' own blocks, so that each of those is decoded once (margins aside),
and bounded in bytes. The layout is a function of the job alone, never of workers or memory: it belongs
to the plan's fingerprint because statistics and stored bytes depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from patchbeam.patches import PatchGrid, Window

RUN_BYTES = 64 << 20
"""A run of encoded records is closed before it grows past this, or after one patch."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive patches of one patch row that are encoded together.

    Attributes:
        first: index of the first patch.
        count: number of patches.
    """

    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockGrid:
    """The read blocks of an export, numbered row-major.

    Attributes:
        patches: the patch grid.
        columns_rows: patches a block, across and down; those at the right and bottom edge are smaller.
        run_patches: patches a run at the most.
    """

    patches: PatchGrid
    columns_rows: tuple[int, int]
    run_patches: int

    @property
    def across(self) -> int:
        """Blocks a row."""
        return -(-self.patches.columns // self.columns_rows[0])

    @property
    def down(self) -> int:
        """Rows of blocks."""
        return -(-self.patches.rows // self.columns_rows[1])

    @property
    def count(self) -> int:
        """Blocks in all."""
        return self.across * self.down

    def extent(self, block: int) -> tuple[int, int, int, int]:
        """Returns first column, first row, columns and rows of a block, in patches."""
        row, column = divmod(block, self.across)
        first_column = column * self.columns_rows[0]
        first_row = row * self.columns_rows[1]
        return (
            first_column,
            first_row,
            min(self.columns_rows[0], self.patches.columns - first_column),
            min(self.columns_rows[1], self.patches.rows - first_row),
        )

    def window(self, block: int) -> Window:
        """Returns the pixels of a block in the export grid, margins included."""
        column, row, columns, rows = self.extent(block)
        width, height = self.patches.patch_width_height
        x, y = self.patches.margin_width_height
        return Window(column * width - x, row * height - y, columns * width + 2 * x, rows * height + 2 * y)

    def runs(self, block: int) -> Iterator[Run]:
        """Yields the runs of a block, row by row."""
        column, row, columns, rows = self.extent(block)
        for r in range(row, row + rows):
            for start in range(0, columns, self.run_patches):
                first = r * self.patches.columns + column + start
                yield Run(first, min(self.run_patches, columns - start))


def layout_blocks(
    patches: PatchGrid,
    *,
    pixel_bytes: int,
    patch_record_bytes: int,
    budget_bytes: int,
    source_block_width_height: tuple[int, int] | None,
) -> BlockGrid:
    """Chooses the block size.

    Args:
        patches: the patch grid.
        pixel_bytes: bytes of all bands of one pixel as read.
        patch_record_bytes: largest size of the records of one patch, framed, uncompressed.
        budget_bytes: what a block may take as read, margins included; one patch is the least.
        source_block_width_height: pixels of the main source's own blocks when it lies on the export
            grid, else ``None`` (warped: blocks are made near square, which keeps overlaps short).
    """
    width, height = patches.patch_width_height

    def fits(columns: int, rows: int) -> bool:
        margin_x, margin_y = patches.margin_width_height
        area = (columns * width + 2 * margin_x) * (rows * height + 2 * margin_y)
        return area * pixel_bytes <= budget_bytes

    if source_block_width_height is None:
        unit_columns = unit_rows = 1
        columns = rows = _grow(1, 1, max(patches.columns, patches.rows), lambda n: fits(n, n))
        columns, rows = min(columns, patches.columns), min(rows, patches.rows)
    else:
        block_width, block_height = source_block_width_height
        unit_columns = min(math.lcm(width, block_width) // width, patches.columns)
        unit_rows = min(math.lcm(height, block_height) // height, patches.rows)
        if not fits(unit_columns, unit_rows):
            unit_columns, unit_rows = _shrunk(unit_columns, unit_rows, fits)
        # the whole width first: runs are then long and stored pieces few
        columns = _grow(unit_columns, unit_columns, patches.columns, lambda n: fits(n, unit_rows))
        rows = unit_rows
    if columns >= patches.columns:
        columns = patches.columns
        rows = _grow(rows, unit_rows, patches.rows, lambda n: fits(columns, n))
    columns = _balanced(columns, unit_columns, patches.columns)
    rows = _balanced(min(rows, patches.rows), unit_rows, patches.rows)
    return BlockGrid(
        patches=patches,
        columns_rows=(columns, rows),
        run_patches=max(1, min(columns, RUN_BYTES // max(1, patch_record_bytes))),
    )


def _grow(start: int, step: int, limit: int, fits: object) -> int:
    """Returns the largest ``start + k·step`` that fits, capped at ``limit``; ``fits`` is monotone."""
    assert callable(fits)
    low, high = 0, max(0, -(-(limit - start) // step))
    while low < high:
        middle = (low + high + 1) // 2
        if fits(min(limit, start + middle * step)):
            low = middle
        else:
            high = middle - 1
    return min(limit, start + low * step)


def _shrunk(columns: int, rows: int, fits: object) -> tuple[int, int]:
    """Halves the longer side until the block fits or is one patch."""
    assert callable(fits)
    while not fits(columns, rows) and (columns, rows) != (1, 1):
        if columns >= rows:
            columns = max(1, columns // 2)
        else:
            rows = max(1, rows // 2)
    return columns, rows


def _balanced(size: int, unit: int, total: int) -> int:
    """Evens out block sizes, keeping their number and their multiple of ``unit``."""
    blocks = -(-total // size)
    even = -(-total // blocks)
    return min(total, -(-even // unit) * unit) if -(-even // unit) * unit <= size else size
