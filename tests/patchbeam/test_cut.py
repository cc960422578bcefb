"""Patches out of blocks: margins stay real, what pad adds is masked patch by patch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.blocks import BlockGrid, Run
from patchbeam.cut import Tally, cut_patch, kept_patches, tally
from patchbeam.elements import BandPixels, PixelBlock
from patchbeam.patches import PatchGrid


def whole_block(patches: PatchGrid, hidden: float = 0.0, seed: int = 0) -> tuple[BlockGrid, PixelBlock]:
    """All patches in one block; a pixel's value is its place in the block plus 1."""
    blocks = BlockGrid(patches=patches, columns_rows=(patches.columns, patches.rows), run_patches=99)
    window = blocks.window(0)
    values = np.arange(1, window.width * window.height + 1).reshape(window.height, window.width)
    valid = np.random.default_rng(seed).random(values.shape) >= hidden
    mask = None if valid.all() else valid
    bands = (
        BandPixels(values=values, valid=mask),
        BandPixels(values=np.stack([values, -values]), valid=None),
    )
    return blocks, PixelBlock(block=0, bands=bands, valid=mask)


@st.composite
def patch_grids(draw: st.DrawFn) -> PatchGrid:
    size = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    return PatchGrid(
        width=draw(st.integers(size[0], 13)),
        height=draw(st.integers(size[1], 13)),
        patch_width_height=size,
        kernel_width_height=(draw(st.integers(1, 6)), draw(st.integers(1, 6))),
        edge=draw(st.sampled_from(["drop", "pad"])),
    )


@given(patch_grids())
def test_every_pixel_of_every_patch(patches: PatchGrid) -> None:
    blocks, block = whole_block(patches)
    origin = blocks.window(0)
    for index in range(patches.count):
        patch = cut_patch(blocks, block, index, [-9.5, 0.0])
        stored, proper = patches.stored_window(index), patches.window(index)
        assert patch.bands[0].values.shape == (stored.height, stored.width)
        for row in range(stored.height):
            for col in range(stored.width):
                r, c = stored.row_off + row, stored.col_off + col
                in_patch = proper.row_off <= r < proper.row_stop and proper.col_off <= c < proper.col_stop
                masked = in_patch and (r >= patches.height or c >= patches.width)
                value = block.bands[0].values[r - origin.row_off, c - origin.col_off]
                assert patch.bands[0].values[row, col] == (-9 if masked else value)
                assert patch.bands[1].values[:, row, col].tolist() == ([0, 0] if masked else [value, -value])
                if masked:
                    assert patch.bands[0].valid is not None
                    assert not patch.bands[0].valid[row, col]
                    assert patch.bands[1].valid is not None
                    assert not patch.bands[1].valid[:, row, col].any()


def test_a_whole_patch_is_a_view() -> None:
    blocks, block = whole_block(PatchGrid(width=6, height=6, patch_width_height=(3, 3)))
    patch = cut_patch(blocks, block, 3, [0, 0])
    assert np.shares_memory(patch.bands[0].values, block.bands[0].values)


def test_padding_one_patch_leaves_its_neighbours_margin() -> None:
    # the column beyond the grid is masked in the second patch and margin of the first
    patches = PatchGrid(width=5, height=4, patch_width_height=(4, 4), kernel_width_height=(5, 1), edge="pad")
    blocks, block = whole_block(patches)
    first, second = (cut_patch(blocks, block, index, [0, 0]) for index in (0, 1))
    width = blocks.window(0).width
    assert first.bands[0].values[0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert first.bands[0].valid is None
    # margin of 2, one column of the grid, three beyond it, margin of 2 as it was read
    assert second.bands[0].values[0].tolist() == [5, 6, 7, 0, 0, 0, 11, 12]
    assert width == 12
    assert block.bands[0].values.min() == 1


@given(patch_grids(), st.sampled_from([0.0, 0.25, 0.5, 0.99, 1.0]), st.integers(0, 99))
def test_kept_patches_are_those_of_the_loop(patches: PatchGrid, threshold: float, seed: int) -> None:
    blocks, block = whole_block(patches, hidden=0.4, seed=seed)
    origin = blocks.window(0)
    expected = []
    for index in range(patches.count):
        w = patches.window(index)
        masked = 0
        for r in range(w.row_off, w.row_stop):
            for c in range(w.col_off, w.col_stop):
                outside = r >= patches.height or c >= patches.width
                hidden = block.valid is not None and not block.valid[r - origin.row_off, c - origin.col_off]
                masked += outside or hidden
        if masked / (w.width * w.height) <= threshold:
            expected.append(index)
    kept = [index for run in blocks.runs(0) for index in kept_patches(blocks, block, run, threshold).tolist()]
    assert kept == expected


def test_moments_leave_the_margin_out() -> None:
    patches = PatchGrid(width=6, height=3, patch_width_height=(3, 3), kernel_width_height=(2, 2))
    blocks, block = whole_block(patches)
    found = tally(cut_patch(blocks, block, 1, [0, 0]), [Tally(), Tally()])
    band, array = (one.moments for one in found)
    values = block.bands[0].values[1:4, 4:7]
    assert band.count == 9
    assert (band.minimum, band.maximum, band.mean) == (values.min(), values.max(), values.mean())
    assert array.count == 18
    assert array.mean == 0


@pytest.mark.parametrize("threshold", [1.0, 2.0])
def test_all_is_kept_at_one(threshold: float) -> None:
    blocks, block = whole_block(PatchGrid(width=4, height=4, patch_width_height=(2, 2)), hidden=1.0)
    assert kept_patches(blocks, block, Run(0, 4), threshold).tolist() == [0, 1, 2, 3]
