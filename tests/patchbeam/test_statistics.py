"""Statistics against NumPy, merged in any grouping; which numbers float32 rounds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from patchbeam.rounding import rounded_by_float32
from patchbeam.statistics import EMPTY, Moments, measure, merge_all

finite = st.floats(-1e6, 1e6, allow_nan=False, width=32)


@given(hnp.arrays(np.float32, st.integers(0, 40), elements=finite), st.integers(0, 2**32), st.integers(1, 5))
def test_parts_merged_are_the_whole(values: np.ndarray, seed: int, parts: int) -> None:
    valid = np.random.default_rng(seed).random(values.shape) < 0.7
    pieces = zip(np.array_split(values, parts), np.array_split(valid, parts), strict=True)
    merged = merge_all([measure(v, m) for v, m in pieces])
    kept = values[valid].astype(np.float64)
    assert merged.count == kept.size
    if kept.size:
        assert (merged.minimum, merged.maximum) == (kept.min(), kept.max())
        assert merged.mean == pytest.approx(kept.mean(), rel=1e-9, abs=1e-6)
        assert merged.std == pytest.approx(kept.std(), rel=1e-6, abs=1e-4)
    else:
        assert merged == EMPTY
        assert merged.std == 0


def test_the_order_of_merging_is_fixed() -> None:
    parts = [measure(np.array([v, v / 3], np.float64)) for v in (1e16, 1.0, -1e16, 3.0)]
    assert merge_all(parts) == parts[0].merge(parts[1]).merge(parts[2]).merge(parts[3])
    assert merge_all([]) == EMPTY
    assert EMPTY.merge(parts[0]) == parts[0] == parts[0].merge(EMPTY)


def test_a_large_mean_does_not_drown_the_deviation() -> None:
    values = np.array([1e9, 1e9 + 1, 1e9 + 2])
    merged = merge_all([measure(values[i : i + 1]) for i in range(3)])
    assert merged.std == pytest.approx(math.sqrt(2 / 3), rel=1e-6)


def test_nan_is_no_value_and_infinity_is() -> None:
    found = measure(np.array([np.nan, 1, np.inf]))
    assert (found.count, found.minimum, found.maximum, found.mean) == (2, 1, np.inf, np.inf)
    assert measure(np.array([np.nan])) == Moments()


@pytest.mark.parametrize("dtype", ["u1", "i8", "u8", "f4"])
def test_types_do_not_overflow(dtype: str) -> None:
    top = np.finfo(dtype).max if dtype == "f4" else np.iinfo(dtype).max
    found = measure(np.full(100, top, dtype))
    assert found.mean == pytest.approx(float(top))
    assert found.count == 100


@given(
    st.sampled_from(["u1", "i1", "u2", "i2"]), st.integers(1, 70_000), st.integers(0, 2**32), st.booleans()
)
def test_short_integers_are_summed_exactly(dtype: str, count: int, seed: int, wide: bool) -> None:
    limits = np.iinfo(dtype)
    low = limits.min if wide else limits.max - 3
    values = np.random.default_rng(seed).integers(low, limits.max, count, dtype, endpoint=True)
    found = measure(values)
    wholes = values.astype(object)
    total, squares = int(wholes.sum()), int((wholes * wholes).sum())
    assert (found.count, found.minimum, found.maximum) == (count, values.min(), values.max())
    assert found.mean == total / count
    assert found.m2 == float(Fraction(squares * count - total * total, count))


def test_integers_beyond_float64_stay_exact() -> None:
    found = measure(np.array([2**63 - 1, -(2**53) - 1, 5], np.int64)).merge(measure(np.array([7], np.int64)))
    assert (found.minimum, found.maximum) == (-(2**53) - 1, 2**63 - 1)
    assert measure(np.array([2**64 - 1], np.uint64)).maximum == 2**64 - 1


@given(hnp.arrays(st.sampled_from(["i4", "u4", "i8", "u8", "f8"]), st.integers(0, 30)), st.integers(0, 2**32))
def test_rounded_numbers_are_those_that_change(values: np.ndarray, seed: int) -> None:
    valid = np.random.default_rng(seed).random(values.shape) < 0.7
    with np.errstate(over="ignore", invalid="ignore"):
        stored = values.astype(np.float32)
    changed = 0
    for value, held, good in zip(values.tolist(), stored.tolist(), valid, strict=True):
        if isinstance(value, float) and not math.isfinite(value):
            continue
        same = math.isfinite(held) and Fraction(held) == Fraction(value)
        changed += bool(good) and not same
    assert rounded_by_float32(values, stored, valid) == changed


@pytest.mark.parametrize(
    ("value", "count"),
    [(2**24, 0), (2**24 + 1, 1), (-(2**24) - 1, 1), (2**24 + 2, 0), (-(2**63), 0), (2**63 - 1, 1), (0, 0)],
)
def test_integers_at_the_edge_of_float32(value: int, count: int) -> None:
    values = np.array([value, 5], np.int64)
    assert rounded_by_float32(values, values.astype(np.float32)) == count


def test_small_types_never_round() -> None:
    for dtype in ("u1", "i1", "u2", "i2", "f4"):
        values = np.array([1, 2], dtype)
        assert rounded_by_float32(values, values.astype(np.float32) + 1) == 0
