"""Masked values, depths and the mask band of whole blocks."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam import pixels
from patchbeam.elements import BandPixels
from patchbeam.features import RecordBand
from patchbeam.pixels import default_for, fit_depth, stored_block


@pytest.mark.parametrize(
    ("dtype", "value", "held"),
    [
        ("u1", 3.9, 3),
        ("u1", -3.9, 0),
        ("i1", -3.9, -3),
        ("u1", 256, 255),
        ("u8", 1e30, 2**64 - 1),
        ("i8", -1e30, -(2**63)),
        ("u2", math.inf, 65535),
        ("i2", -math.inf, -32768),
        ("f4", 3.9, 3.9),
    ],
)
def test_default_for(dtype: str, value: float, held: float) -> None:
    found = default_for(np.dtype(dtype), value)
    assert found == held
    assert np.array(found).astype(dtype) == np.array(held).astype(dtype)


@given(
    st.integers(0, 5), st.integers(1, 6), st.booleans(), st.integers(0, 2**32), st.sampled_from([1, 1 << 20])
)
def test_fit_depth_is_the_loop(steps: int, depth: int, compact: bool, seed: int, at_a_time: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(1, 9, (steps, 2, 3)).astype("i4")
    valid = random.random(values.shape) < 0.6
    with patch.object(pixels, "_SORTED", at_a_time):
        fitted = fit_depth(BandPixels(values=values.copy(), valid=valid.copy()), depth, -7.5, compact=compact)
        own = fit_depth(BandPixels(values=values.copy(), valid=valid.copy()), None, -7.5, compact=compact)
    there = np.ones((depth, 2, 3), bool) if fitted.valid is None else fitted.valid
    for row in range(2):
        for col in range(3):
            pairs = list(zip(values[:, row, col].tolist(), valid[:, row, col].tolist(), strict=True))
            if compact:
                pairs = [pair for pair in pairs if pair[1]]
            pairs = [(value if good else -7, good) for value, good in pairs]
            full = (pairs + [(-7, False)] * depth)[:depth]
            assert fitted.values[:, row, col].tolist() == [value for value, _ in full]
            assert there[:, row, col].tolist() == [good for _, good in full]
            assert own.values[: len(pairs), row, col].tolist() == [value for value, _ in pairs]


def test_nothing_masked_is_nothing_copied() -> None:
    values = np.arange(6).reshape(2, 3)
    block = stored_block(
        0, [BandPixels(values=values)], [RecordBand(name="a", type="int64")], default=0, compact=[True]
    )
    assert block.bands[0].values is values
    assert block.valid is None
    assert block.bands[0].valid is None


def test_the_mask_band_and_clip() -> None:
    bands = [
        RecordBand(name="a", type="uint8"),
        RecordBand(name="s", type="int16", array=True, depth=2),
        RecordBand(name="ok", type="uint8"),
    ]
    a_valid = np.array([[True, False, True, True]])
    s_valid = np.array([[[True, True, False, False]], [[False, True, False, True]]])
    read = [
        BandPixels(values=np.full((1, 4), 5, "u1"), valid=a_valid),
        BandPixels(values=np.arange(8).reshape(2, 1, 4).astype("i2"), valid=s_valid),
    ]
    inside = np.array([[False, True, True, True]])
    block = stored_block(3, read, bands, default=99, compact=[True, True], inside=inside)
    assert block.block == 3
    assert block.bands[0].values.tolist() == [[99, 99, 5, 5]]
    assert block.bands[1].values.tolist() == [[[99, 1, 99, 7]], [[99, 5, 99, 99]]]
    # an array is masked where it is empty
    assert block.bands[2].values.tolist() == [[0, 0, 0, 1]]
    assert block.bands[2].values.dtype == np.uint8
    assert block.valid is not None
    assert block.valid.tolist() == [[False, False, False, True]]
