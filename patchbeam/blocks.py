"""Read blocks: rectangles of patches that are read at once.

A block is aligned to the sources' own blocks, so that each of those is decoded once (margins aside),
and bounded in bytes. The layout is a function of the job alone, never of workers or memory: it belongs
to the plan's fingerprint because statistics and stored bytes depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from patchbeam.order import Ints
from patchbeam.patches import PatchGrid, Window
from patchbeam.selection import Parts, SampleRule, SplitRule, select_parts

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
        split: how patches are split; a run holds patches of one split only.
        sample: how patches are drawn.
    """

    patches: PatchGrid
    columns_rows: tuple[int, int]
    run_patches: int
    split: SplitRule | None = None
    sample: SampleRule | None = None

    @property
    def parts(self) -> Parts | None:
        """Of each patch its split, or -1 when its place keeps it out; ``None`` when all are in one."""
        return select_parts(self.split, self.sample, self.patches)

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
                yield from self._cut(Run(first, min(self.run_patches, columns - start)))

    def _cut(self, run: Run) -> Iterator[Run]:
        """Yields a run in parts that hold patches of one split each, and those of none on the way."""
        parts = None if self.split is None else self.parts
        if parts is None:
            yield run
            return
        own = parts[run.first : run.first + run.count]
        at = np.flatnonzero(own >= 0)
        starts = at[1:][own[at[1:]] != own[at[:-1]]].tolist()
        for start, end in pairwise([0, *starts, run.count]):
            yield Run(run.first + start, end - start)

    def chosen(self, run: Run, drawn: Parts | None = None) -> Ints:
        """Returns the patches of a run that their place lets through.

        Args:
            run: the run.
            drawn: in place of :attr:`parts`.
        """
        indices = np.arange(run.first, run.first + run.count, dtype=np.int64)
        parts = self.parts if drawn is None else drawn
        return indices if parts is None else indices[parts[indices] >= 0]

    def is_idle(self, block: int, drawn: Parts | None = None) -> bool:
        """Whether no patch of a block is let through, so that nothing of it need be read."""
        return all(not len(self.chosen(run, drawn)) for run in self.runs(block))


def layout_blocks(
    patches: PatchGrid,
    *,
    pixel_bytes: int,
    patch_record_bytes: int,
    budget_bytes: int,
    source_block_width_height: tuple[int, int] | None,
    split: SplitRule | None = None,
    sample: SampleRule | None = None,
) -> BlockGrid:
    """Chooses the block size.

    Args:
        patches: the patch grid.
        pixel_bytes: bytes of all bands of one pixel as read.
        patch_record_bytes: largest size of the records of one patch, framed, uncompressed.
        budget_bytes: what a block may take as read, margins included; one patch is the least.
        source_block_width_height: pixels of the main source's own blocks when it lies on the export
            grid, else ``None`` (warped: blocks are made near square, which keeps overlaps short).
        split: how patches are split.
        sample: how patches are drawn.
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
        split=split,
        sample=sample,
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
