"""Splits by blocks of the patch grid, with a guard where the margins of two splits would overlap.

Neighbouring patches share pixels through their margins, and look alike without sharing any: a split
patch by patch lets the training set know the test set. The rule is section 9 of the format: fractions
apply to blocks; on one side of each border between two splits as many patches as margins reach over
belong to none.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import JobError

GUARDED = -1
"""In the place of a split's number: the patch belongs to none."""


def check_fractions(fractions: Mapping[str, float], key: str = "split") -> dict[str, float]:
    """Returns fractions as floats.

    Raises:
        JobError: there is none, one is not above 0, or they do not sum to 1.
    """
    found: dict[str, float] = {}
    for name, value in fractions.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise JobError(f"{key}.{name}: {value!r} is not a fraction above 0 and at most 1")
        found[name] = float(value)
    total = sum(found.values())
    if abs(total - 1) > 1e-9:
        raise JobError(
            f"{key}: the fractions {', '.join(map(str, found.values()))} sum to {total:g}, not to 1; "
            "give fractions that do"
        )
    return found


def largest_remainder(count: int, fractions: list[float]) -> list[int]:
    """Cuts ``count`` into whole sizes nearest to fractions; ties go to the earlier part."""
    # as written: 0.1 is a tenth here, not the double next to it
    exact = [count * Fraction(str(fraction)) for fraction in fractions]
    sizes = [int(share) for share in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda part: (sizes[part] - exact[part], part))
    for part in by_remainder[: count - sum(sizes)]:
        sizes[part] += 1
    return sizes


def guard_patches(margin: int, patch: int) -> int:
    """Returns over how many patches the margins (``kernelSize // 2``) on both sides of a border reach."""
    return -(-2 * margin // patch)


def split_blocks(
    columns_rows: tuple[int, int],
    fractions: list[float],
    block_order: NDArray[np.int64],
    *,
    block_columns_rows: tuple[int, int],
    guard_columns_rows: tuple[int, int],
) -> NDArray[np.int8]:
    """Assigns the patches of a grid to splits.

    Args:
        columns_rows: patches in a row, and rows of patches.
        fractions: of the splits.
        block_order: a permutation of the blocks' numbers, row by row: the first go to the first split.
        block_columns_rows: patches of a block across and down.
        guard_columns_rows: patches across and down within which two splits must not meet.

    Returns:
        int8 ``(patch,)`` in patch order: the number of the split, or ``GUARDED``: the patches at the left and
        upper borders of blocks, as far as the guard reaches.
    """
    columns, rows = columns_rows
    across, down = block_columns_rows
    blocks = np.empty(len(block_order), np.int8)
    sizes = largest_remainder(len(block_order), fractions)
    blocks[block_order] = np.repeat(np.arange(len(sizes), dtype=np.int8), sizes)
    in_row = block_count((columns, rows), block_columns_rows)[0]
    block_of = (np.arange(rows) // down)[:, None] * in_row + np.arange(columns) // across
    split = blocks[block_of]
    guarded = np.zeros(split.shape, bool)
    guard_columns, guard_rows = min(guard_columns_rows[0], columns - 1), min(guard_columns_rows[1], rows - 1)
    for d_row in range(guard_rows + 1):
        for d_col in range(guard_columns + 1):
            # Of two patches in blocks of different splits the one to the right and below is given up. Those
            # of a pair from upper right to lower left need no step of their own: at the corner above and left
            # stands a patch that differs from one of the two, in its row or in its column.
            further = split[d_row:, d_col:]
            guarded[d_row:, d_col:] |= further != split[: rows - d_row, : columns - d_col]
    split[guarded] = GUARDED
    flat: NDArray[np.int8] = split.reshape(-1)
    return flat


def shared_pixels(
    part_of: NDArray[np.integer[Any]], reach_columns_rows: tuple[int, int]
) -> tuple[int, int] | None:
    """Returns two patches of different splits that share a pixel, or ``None`` when there are none.

    Args:
        part_of: ``(row, column)`` of patches: the number of the split, or below 0 for none.
        reach_columns_rows: patches across and down over which margins reach; see :func:`guard_patches`.
    """
    rows, columns = part_of.shape
    reach_columns, reach_rows = min(reach_columns_rows[0], columns - 1), min(reach_columns_rows[1], rows - 1)
    for d_row in range(reach_rows + 1):
        for d_col in range(-reach_columns, reach_columns + 1):
            upper = part_of[: rows - d_row, max(0, -d_col) : columns - max(0, d_col)]
            lower = part_of[d_row:, max(0, d_col) : columns - max(0, -d_col)]
            found = np.argwhere((upper >= 0) & (lower >= 0) & (upper != lower))
            if len(found):
                row, column = found[0].tolist()
                first = row * columns + column + max(0, -d_col)
                return first, first + d_row * columns + d_col
    return None


def block_count(columns_rows: tuple[int, int], block_columns_rows: tuple[int, int]) -> tuple[int, int]:
    """Returns blocks in a row and rows of blocks; those at the right and the bottom may be smaller."""
    return -(-columns_rows[0] // block_columns_rows[0]), -(-columns_rows[1] // block_columns_rows[1])
