"""Which patches are worth a record, by their pixels: shares of masked pixels and of classes.

Everything is counted over the patch without its margin, once a block on whole arrays. Pixels beyond the grid
(``edge: pad``) are masked, and every share is one of all pixels of the patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from patchbeam.blocks import BlockGrid
from patchbeam.elements import Array, BandPixels, Ints, Mask, PixelBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRule:
    """What ``keep`` of an image export says.

    Attributes:
        band: integer band of the export that holds the classes.
        classes: the values that count; ``None`` for every valid one.
        minimum: share of the patch's pixels that must be of these classes, from 0 to 1; 0 asks for one pixel.
    """

    band: str
    classes: tuple[int, ...] | None = None
    minimum: float = 0.0

    def to_mapping(self) -> dict[str, Any]:
        """Returns the rule as a job file holds it."""
        classes = None if self.classes is None else list(self.classes)
        return {"band": self.band, "classes": classes, "minimum": self.minimum}


def enough(counts: Ints, pixels: int, minimum: float) -> Mask:
    """Returns where a count reaches a share of the pixels, and is at least one."""
    found: Mask = (counts >= 1) & (counts / pixels >= minimum)
    return found


def is_class(values: Array, classes: Sequence[int]) -> Mask:
    """Returns where integers are one of some classes."""
    limits = np.iinfo(values.dtype)
    inside = [c for c in classes if limits.min <= c <= limits.max]
    if limits.max <= 0xFFFF and limits.min == 0:
        table = np.zeros(limits.max + 1, np.bool_)
        table[inside] = True
        return table[values]
    return np.isin(values, np.array(inside, values.dtype))


def kept_by_class(blocks: BlockGrid, block: PixelBlock, band: int, rule: KeepRule) -> Mask:
    """Returns for each patch of a block, ``(row, column)`` of patches, whether the rule keeps it."""
    pixels = proper(blocks, block.block, block.bands[band])
    width, height = blocks.patches.patch_width_height
    counted = pixels.valid
    if rule.classes is not None:
        wanted = is_class(pixels.values, rule.classes)
        counted = wanted if counted is None else wanted & counted
    elif counted is None:
        counted = np.ones(pixels.values.shape, np.bool_)
    return enough(by_patch(counted, width, height), width * height, rule.minimum)


def by_patch(counted: Mask, width: int, height: int) -> Ints:
    """Counts the true pixels of each patch: ``(row, col)`` of pixels to int64 ``(row, column)`` of patches.

    Pixels may lack at the right and at the bottom.
    """
    rows, columns = counted.shape
    down = np.add.reduceat(counted, np.arange(0, rows, height), axis=0, dtype=np.int64)
    found: Ints = np.add.reduceat(down, np.arange(0, columns, width), axis=1)
    return found


def proper(blocks: BlockGrid, block: int, pixels: BandPixels) -> BandPixels:
    """Returns the pixels of a block's patches without the margin, and without what lies beyond the grid."""
    patches = blocks.patches
    column, row, columns, rows = blocks.extent(block)
    (width, height), (x, y) = patches.patch_width_height, patches.margin_width_height
    right = min(columns * width, patches.width - column * width)
    bottom = min(rows * height, patches.height - row * height)
    inner = (..., slice(y, y + bottom), slice(x, x + right))
    return BandPixels(
        values=pixels.values[inner], valid=None if pixels.valid is None else pixels.valid[inner]
    )
