"""One patch out of a block: views of the block's arrays, and what ``edge: pad`` masks in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from patchbeam.blocks import BlockGrid, Run
from patchbeam.elements import Array, BandPixels, Ints, Mask, PixelBlock
from patchbeam.pixels import default_for
from patchbeam.statistics import (
    Moments,
    is_short,
    measure_counts,
    measure_flat,
    measure_short,
    merge_all,
    valid_values,
)
from patchbeam.tally import Counts, count_buckets, count_classes, merge_counts, pack_counts


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """The stored pixels of one patch.

    Attributes:
        index: number of the patch.
        bands: one entry a band, ``(row, col)`` or ``(depth, row, col)``, margin included; views of the
            block's arrays except where ``edge: pad`` had to mask pixels.
        margin_width_height: margin in pixels, left and right, above and below.
    """

    index: int
    bands: tuple[BandPixels, ...]
    margin_width_height: tuple[int, int]


def cut_patch(blocks: BlockGrid, block: PixelBlock, index: int, defaults: Sequence[float]) -> Patch:
    """Cuts a patch out of its block.

    With ``edge: pad``, pixels of the patch proper that lie outside the grid are masked: they hold
    ``defaultValue``, 0 in the mask band. Margin pixels are left as they are, inside or outside the grid.

    Args:
        blocks: the read blocks.
        block: the block that holds the patch.
        index: number of the patch.
        defaults: what a masked pixel holds, one a band: ``defaultValue``, 0 for the mask band.
    """
    patches = blocks.patches
    rows, columns = _stored(blocks, block.block, index)
    # asked once, and not of each band whenever its mask is used
    whole = block.valid is not None and bool(block.valid[rows, columns].all())

    def valid(pixels: BandPixels) -> Mask | None:
        # where the block is valid an array band has one observation at least, perhaps not all
        if pixels.valid is None or (whole and pixels.valid.ndim == 2):
            return None
        return pixels.valid[..., rows, columns]

    bands = tuple(
        BandPixels(values=pixels.values[..., rows, columns], valid=valid(pixels)) for pixels in block.bands
    )
    if _inside(blocks, index) != patches.patch_width_height:
        bands = tuple(
            _padded(blocks, index, pixels, default) for pixels, default in zip(bands, defaults, strict=True)
        )
    return Patch(index, bands, patches.margin_width_height)


def kept_patches(blocks: BlockGrid, block: PixelBlock, run: Run, threshold: float) -> Ints:
    """Returns the patches of a run whose masked share, without margins, is at or under the threshold."""
    indices = np.arange(run.first, run.first + run.count, dtype=np.int64)
    if threshold >= 1:
        return indices
    width, height = blocks.patches.patch_width_height
    valid = [_valid_pixels(blocks, block, int(index)) for index in indices]
    share: np.ndarray[tuple[int], np.dtype[np.float64]] = (width * height - np.array(valid)) / (
        width * height
    )
    return indices[share <= threshold]


def masked_patches(blocks: BlockGrid, block: PixelBlock) -> int:
    """Returns how many patches of a block have a masked pixel, margins aside.

    Args:
        blocks: the read blocks.
        block: one of them, with its bands.
    """
    patches = blocks.patches
    column, row, columns, rows = blocks.extent(block.block)
    width, height = patches.patch_width_height
    whole: Mask = np.ones((rows, columns), np.bool_)
    if block.valid is not None:
        x, y = patches.margin_width_height
        inner = block.valid[y : y + rows * height, x : x + columns * width]
        whole = np.asarray(inner.reshape(rows, height, columns, width).all(axis=(1, 3)))
    # pixels beyond the grid are masked in the patches that reach over its edge
    whole[:, max(0, patches.width // width - column) :] = False
    whole[max(0, patches.height // height - row) :] = False
    return int(np.count_nonzero(~whole))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What is counted of a band beside its moments.

    Attributes:
        classes: each value; for types of at most 16 bits without sign.
        buckets: buckets of values, for percentiles.
    """

    classes: bool = False
    buckets: bool = False


_MOMENTS = Tally()
_TOGETHER = 1 << 18
"""Numbers measured in one call: a mebibyte as they are summed, which stays in the processor's cache."""


class Tallied(NamedTuple):
    """Statistics of one band of one patch, without the margin.

    Attributes:
        moments: without counts of values.
        classes: how often each value occurs, where that is asked for.
        buckets: how often each bucket occurs, where that is asked for.
    """

    moments: Moments
    classes: Counts | None = None
    buckets: Counts | None = None


def tally(patch: Patch, tallies: Sequence[Tally]) -> tuple[Tallied, ...]:
    """Returns the statistics of each band over the patch without its margin.

    Args:
        patch: the patch.
        tallies: what to count, one a band.
    """
    x, y = patch.margin_width_height
    height, width = patch.bands[0].values.shape[-2:]
    inner = (..., slice(y, height - y), slice(x, width - x))
    values = [pixels.values[inner] for pixels in patch.bands]
    together = _measured_together(patch, values, tallies)
    return tuple(
        together[b]
        if b in together
        else _tallied(valid_values(values[b], None if pixels.valid is None else pixels.valid[inner]), wanted)
        for b, (pixels, wanted) in enumerate(zip(patch.bands, tallies, strict=True))
    )


def _measured_together(patch: Patch, values: Sequence[Array], tallies: Sequence[Tally]) -> dict[int, Tallied]:
    """Measures several bands of short integers in one call where nothing is masked or counted beside.

    Threads wait for each other between calls of NumPy, whose time is therefore more than that of the sums.
    """
    alike: dict[tuple[Any, ...], list[int]] = {}
    for b, (pixels, wanted) in enumerate(zip(patch.bands, tallies, strict=True)):
        if pixels.valid is None and wanted == _MOMENTS and is_short(values[b].dtype) and values[b].size:
            alike.setdefault((values[b].dtype, values[b].shape), []).append(b)
    found: dict[int, Tallied] = {}
    for (_, shape), members in alike.items():
        at_once = max(1, _TOGETHER // math.prod(shape))
        for start in range(0, len(members), at_once):
            part = members[start : start + at_once]
            stacked = np.stack([values[b] for b in part]).reshape(len(part), -1)
            found |= {b: Tallied(m) for b, m in zip(part, measure_short(stacked), strict=True)}
    return found


def _tallied(values: Array, wanted: Tally) -> Tallied:
    classes = count_classes(values) if wanted.classes else None
    buckets = count_buckets(values) if wanted.buckets else None
    return Tallied(measure_flat(values) if classes is None else measure_counts(classes), classes, buckets)


def merge_tallied(parts: Sequence[Tallied]) -> Moments:
    """Merges the statistics of one band of several patches, in their order."""
    classes = [part.classes for part in parts if part.classes is not None]
    buckets = [part.buckets for part in parts if part.buckets is not None]
    return replace(
        merge_all([part.moments for part in parts]),
        classes=pack_counts(merge_counts(classes)) if classes else None,
        buckets=pack_counts(merge_counts(buckets)) if buckets else None,
    )


def _stored(blocks: BlockGrid, block: int, index: int) -> tuple[slice, slice]:
    patches = blocks.patches
    first_column, first_row, _, _ = blocks.extent(block)
    row, column = divmod(index, patches.columns)
    width, height = patches.stored_width_height
    left = (column - first_column) * patches.patch_width_height[0]
    top = (row - first_row) * patches.patch_width_height[1]
    return slice(top, top + height), slice(left, left + width)


def _inside(blocks: BlockGrid, index: int) -> tuple[int, int]:
    """Returns how many columns and rows of the patch without margin lie in the grid."""
    patches = blocks.patches
    row, column = divmod(index, patches.columns)
    width, height = patches.patch_width_height
    return min(width, patches.width - column * width), min(height, patches.height - row * height)


def _valid_pixels(blocks: BlockGrid, block: PixelBlock, index: int) -> int:
    columns, rows = _inside(blocks, index)
    if block.valid is None:
        return columns * rows
    x, y = blocks.patches.margin_width_height
    at_rows, at_columns = _stored(blocks, block.block, index)
    top, left = at_rows.start + y, at_columns.start + x
    return int(np.count_nonzero(block.valid[top : top + rows, left : left + columns]))


def _padded(blocks: BlockGrid, index: int, pixels: BandPixels, default: float) -> BandPixels:
    x, y = blocks.patches.margin_width_height
    width, height = blocks.patches.patch_width_height
    columns, rows = _inside(blocks, index)
    outside: Mask = np.zeros(pixels.values.shape, np.bool_)
    outside[..., y : y + height, x + columns : x + width] = True
    outside[..., y + rows : y + height, x : x + width] = True
    values = pixels.values.copy()
    values[outside] = default_for(values.dtype, default)
    return BandPixels(values=values, valid=~outside if pixels.valid is None else pixels.valid & ~outside)
