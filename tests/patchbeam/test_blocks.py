"""Read blocks: every patch in exactly one, in runs of consecutive patches, bounded in bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchbeam.blocks import RUN_BYTES, BlockGrid, layout_blocks
from patchbeam.patches import PatchGrid, Window


@st.composite
def layouts(draw: st.DrawFn) -> tuple[BlockGrid, int, int, tuple[int, int] | None]:
    size = (draw(st.integers(1, 40)), draw(st.integers(1, 40)))
    patches = PatchGrid(
        width=draw(st.integers(size[0], 600)),
        height=draw(st.integers(size[1], 600)),
        patch_width_height=size,
        kernel_width_height=(draw(st.integers(1, 9)), draw(st.integers(1, 9))),
        edge=draw(st.sampled_from(["drop", "pad"])),
    )
    pixel_bytes = draw(st.integers(1, 40))
    budget = draw(st.integers(1, 1 << 20))
    source = draw(st.sampled_from([None, (256, 256), (512, 16), (600, 1), (16, 16)]))
    blocks = layout_blocks(
        patches,
        pixel_bytes=pixel_bytes,
        patch_record_bytes=draw(st.integers(1, RUN_BYTES)),
        budget_bytes=budget,
        source_block_width_height=source,
    )
    return blocks, pixel_bytes, budget, source


@given(layouts())
def test_every_patch_is_in_one_run(made: tuple) -> None:
    blocks = made[0]
    patches = blocks.patches
    runs = [(block, run) for block in range(blocks.count) for run in blocks.runs(block)]
    covered = [index for _, run in runs for index in range(run.first, run.first + run.count)]
    assert sorted(covered) == list(range(patches.count))
    assert all(1 <= run.count <= blocks.run_patches for _, run in runs)
    for _, run in runs:  # of one patch row
        assert patches.row_col(run.first)[0] == patches.row_col(run.first + run.count - 1)[0]


@given(layouts())
def test_a_block_holds_its_patches_with_their_margins(made: tuple) -> None:
    blocks = made[0]
    for block in {0, blocks.count // 2, blocks.count - 1}:
        window = blocks.window(block)
        for run in blocks.runs(block):
            for index in (run.first, run.first + run.count - 1):
                assert blocks.patches.stored_window(index).intersection(
                    window
                ) == blocks.patches.stored_window(index)


@given(layouts())
def test_blocks_keep_to_the_budget(made: tuple) -> None:
    blocks, pixel_bytes, budget, _ = made
    window = blocks.window(0)
    assert blocks.columns_rows == (1, 1) or window.width * window.height * pixel_bytes <= budget


def test_blocks_follow_the_sources_blocks() -> None:
    patches = PatchGrid(width=4096, height=4096, patch_width_height=(256, 256))
    blocks = layout_blocks(
        patches,
        pixel_bytes=8,
        patch_record_bytes=1 << 20,
        budget_bytes=8 * 512 * 4096,
        source_block_width_height=(512, 512),
    )
    assert blocks.columns_rows == (16, 2)  # whole width, each row of source blocks read once
    assert blocks.window(1) == Window(0, 512, 4096, 512)
    assert blocks.count == 8


def test_the_whole_grid_in_one_block_when_it_fits() -> None:
    patches = PatchGrid(width=100, height=90, patch_width_height=(10, 10), kernel_width_height=(4, 4))
    blocks = layout_blocks(
        patches, pixel_bytes=1, patch_record_bytes=1, budget_bytes=1 << 20, source_block_width_height=None
    )
    assert blocks.count == 1
    assert blocks.window(0) == Window(-2, -2, 104, 94)
