"""Percentiles within their bound, histograms and moments as NumPy has them, merged in any grouping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.statistics import measure, measure_counts
from patchbeam.tally import (
    PERCENTILES,
    RELATIVE_ERROR,
    bucket_percentiles,
    class_weights,
    count_buckets,
    count_classes,
    exact_percentiles,
    merge_counts,
    pack_counts,
    unpack_counts,
)

TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]


def numbers(dtype: str, count: int, seed: int) -> np.ndarray:
    """Numbers of every size that the type has, ties included."""
    generator = np.random.default_rng(seed)
    if dtype.startswith("float"):
        scale = 10.0 ** generator.integers(-20, 20, count)
        values = generator.normal(size=count) * scale
    else:
        limits = np.iinfo(dtype)
        bits = generator.integers(0, limits.bits - (limits.min < 0), count)
        values = generator.integers(0, 2**62, count) >> (62 - bits)
        values = values * np.where(generator.random(count) < 0.5, 1, -1 if limits.min else 1)
    values = np.where(generator.random(count) < 0.1, 0, values)
    return values.astype(dtype)


@given(st.sampled_from(TYPES), st.integers(1, 3000), st.integers(0, 2**32))
def test_percentiles_are_within_the_bound(dtype: str, count: int, seed: int) -> None:
    values = numbers(dtype, count, seed)
    low, high = values.min().item(), values.max().item()
    integers = not dtype.startswith("float")
    found = bucket_percentiles(count_buckets(values), low, high, integers=integers)
    due = np.sort(values)[[max(1, -(-p * count // 100)) - 1 for p in PERCENTILES]].astype(np.float64)
    assert (due == np.percentile(values, PERCENTILES, method="inverted_cdf")).all()
    assert (np.abs(np.array(found) - due) <= RELATIVE_ERROR * np.abs(due)).all()
    if integers:
        small = np.abs(due) < 256
        assert (np.array(found)[small] == due[small]).all()
    if dtype == "uint8":
        assert exact_percentiles(count_classes(values)) == due.tolist()


def test_percentiles_of_what_float32_does_not_hold() -> None:
    huge = np.array([-1e300, -5.0, 2.0, 1e300, np.inf])
    found = bucket_percentiles(count_buckets(huge), -1e300, np.inf, (20, 40, 60, 100), integers=False)
    assert found[1:] == [pytest.approx(-5, rel=0.004), pytest.approx(2, rel=0.004), np.inf]
    assert found[0] < -1e38


@given(st.sampled_from(["uint8", "uint16"]), st.integers(0, 2000), st.integers(0, 2**32), st.integers(1, 6))
def test_counts_are_those_of_numpy_in_any_grouping(dtype: str, count: int, seed: int, parts: int) -> None:
    values = numbers(dtype, count, seed)
    keys, counts = np.unique(values, return_counts=True)
    found = merge_counts([count_classes(part) for part in np.array_split(values, parts)])
    assert (found.keys.tolist(), found.counts.tolist()) == (keys.tolist(), counts.tolist())
    again = unpack_counts(pack_counts(found))
    assert (again.keys.tolist(), again.counts.tolist()) == (keys.tolist(), counts.tolist())
    buckets = merge_counts([count_buckets(part) for part in np.array_split(values, parts)])
    assert pack_counts(buckets) == pack_counts(count_buckets(values))


@given(st.integers(1, 5000), st.integers(0, 2**32))
def test_moments_from_counts_are_those_of_numpy(count: int, seed: int) -> None:
    values = numbers("uint8", count, seed)
    found = measure_counts(count_classes(values))
    wide = values.astype(np.float64)
    assert (found.count, found.minimum, found.maximum) == (count, values.min(), values.max())
    assert found.mean == pytest.approx(wide.mean(), rel=1e-9)
    assert found.std == pytest.approx(wide.std(), rel=1e-9, abs=1e-12)
    assert isinstance(found.minimum, int)
    assert measure(values).count == count


def test_weights_make_classes_count_alike() -> None:
    counts = np.array([10, 30, 60])
    weights: Any = np.array(class_weights(counts))
    assert (weights * counts).tolist() == pytest.approx([100 / 3] * 3)
    assert (weights * counts).sum() == pytest.approx(100)
