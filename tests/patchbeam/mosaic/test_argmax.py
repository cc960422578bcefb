"""The largest of several bands, against NumPy's argmax over a stack of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from patchbeam.mosaic.convert import Converter, largest
from patchbeam.mosaic.options import ImportOptions
from patchbeam.mosaic.schema import InputBand, RecordSchema

DTYPES = ("f4", "f8", "i8", "u1")


@given(st.data(), st.integers(2, 7), st.tuples(st.integers(1, 4), st.integers(1, 5)))
def test_it_is_the_argmax_of_a_stack(data: st.DataObject, count: int, shape: tuple[int, int]) -> None:
    finite = {"elements": {"allow_nan": False}}
    bands = [
        data.draw(npst.arrays(dtype, shape, **(finite if dtype[0] == "f" else {})))
        for dtype in (data.draw(st.sampled_from(DTYPES)) for _ in range(count))
    ]
    index, highest = largest(bands)
    stack = np.stack(bands)
    np.testing.assert_array_equal(index, stack.argmax(axis=0))
    np.testing.assert_array_equal(highest, stack.max(axis=0))
    assert index.dtype == np.uint8


def test_more_bands_than_a_byte_counts() -> None:
    random = np.random.default_rng(0)
    bands = list(random.random((300, 5, 7), np.float32))
    index, _ = largest(bands)
    assert index.max() > 255
    np.testing.assert_array_equal(index, np.argmax(bands, axis=0))


@given(
    npst.arrays(np.float32, (3, 3, 4), elements=st.sampled_from([np.nan, -np.inf, -1.0, 0.0, 0.5, np.inf]))
)
def test_nan_never_wins(stack: np.ndarray) -> None:
    schema = RecordSchema(
        bands=tuple(InputBand(name=n, feature=n, channel=0) for n in "abc"),
        depths={n: 1 for n in "abc"},
        mask=None,
        per_pixel=False,
        names=("class",),
        type="uint8",
        nodata=255,
        categorical=True,
    )
    out = np.full((1, 3, 4), 99, np.uint8)
    Converter(schema, ImportOptions(argmax=None)).convert(list(stack), None, out, lambda row, col: 0)
    missing = np.isnan(stack)
    due = np.where(missing, -np.inf, stack).argmax(axis=0)
    due[missing.all(axis=0)] = 255
    np.testing.assert_array_equal(out[0], due)


@pytest.mark.parametrize("bands", [[np.ones((2, 2)), np.ones((2, 2))]])
def test_of_equal_bands_the_first(bands: list[np.ndarray]) -> None:
    assert not largest(bands)[0].any()
