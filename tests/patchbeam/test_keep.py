"""Shares of classes against a loop over patches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.blocks import BlockGrid
from patchbeam.elements import BandPixels, PixelBlock
from patchbeam.keep import KeepRule, is_class, kept_by_class
from patchbeam.patches import PatchGrid


@given(st.data())
def test_kept_patches_are_those_of_the_loop(data: Any) -> None:
    width, height = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    patches = PatchGrid(
        width=data.draw(st.integers(width, 14)),
        height=data.draw(st.integers(height, 14)),
        patch_width_height=(width, height),
        kernel_width_height=data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6))),
        edge=data.draw(st.sampled_from(["drop", "pad"])),
    )
    shape = data.draw(st.integers(1, patches.columns)), data.draw(st.integers(1, patches.rows))
    blocks = BlockGrid(patches=patches, columns_rows=shape, run_patches=3)
    rule = KeepRule(
        band="b",
        classes=data.draw(st.none() | st.lists(st.integers(-2, 6), min_size=1).map(tuple)),
        minimum=data.draw(st.sampled_from([0.0, 0.05, 0.25, 0.5, 1.0])),
    )
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    dtype = data.draw(st.sampled_from(["u1", "u2", "i2", "i4", "u8"]))
    block = data.draw(st.integers(0, blocks.count - 1))
    window = blocks.window(block)
    values = generator.integers(0, 5, (window.height, window.width)).astype(dtype)
    valid = data.draw(st.sampled_from([None, generator.random(values.shape) < 0.7]))
    pixels = PixelBlock(block=block, bands=(BandPixels(values=values, valid=valid),), valid=valid)
    found = kept_by_class(blocks, pixels, 0, rule)
    column, row, columns, rows = blocks.extent(block)
    assert found.shape == (rows, columns)
    for r in range(rows):
        for c in range(columns):
            w = patches.window((row + r) * patches.columns + column + c)
            count = 0
            for y in range(w.row_off, min(w.row_stop, patches.height)):
                for x in range(w.col_off, min(w.col_stop, patches.width)):
                    at = y - window.row_off, x - window.col_off
                    good = valid is None or valid[at]
                    count += bool(good and (rule.classes is None or int(values[at]) in rule.classes))
            assert found[r, c] == (count >= 1 and count / (width * height) >= rule.minimum)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i8"])
def test_a_class_that_the_type_has_not_is_nowhere(dtype: str) -> None:
    values = np.array([[0, 3], [4, 3]], dtype)
    assert is_class(values, [3, -1, 2**63 - 1, 70_000]).tolist() == [[False, True], [False, True]]
