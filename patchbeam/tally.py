"""Counts of values: class histograms, and percentiles with a bounded error.

Counts are whole numbers, so merging is exact in any order. They travel as short text, because most values
do not occur in most patches.

Percentiles come from counts of buckets. A bucket holds the numbers whose float32 forms share their upper 16
bits (sign, exponent and 7 bits of the fraction): from one power of 2 to the next there are 128 buckets, the
widest of which spans 1/128 of its lower end. The middle of a bucket is therefore within 1/256 of any number
in it. That is the idea of DDSketch (Masson, Rim and Lee 2019) with a key that costs one shift.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ints = NDArray[np.int64]

PERCENTILES = (1, 2, 5, 10, 25, 50, 75, 90, 95, 98, 99)
"""Those of a manifest."""

RELATIVE_ERROR = 0.004
"""Bound on the error of a percentile, as a share of it: 1/256 and what float32 rounds. Whole numbers below
256 are exact; numbers nearer to 0 than 1.2e-38 are as good as 0."""

_BUCKETS = 1 << 16
_LARGEST = np.finfo(np.float32).max


class Counts(NamedTuple):
    """How often values or buckets occur.

    Attributes:
        keys: the values, or the numbers of the buckets, rising.
        counts: how often each occurs, above 0.
    """

    keys: Ints
    counts: Ints

    @classmethod
    def of_dense(cls, dense: Array) -> Counts:
        """Takes those that occur out of counts from 0 on."""
        keys = np.flatnonzero(dense)
        return cls(keys, dense[keys])


def pack_counts(counts: Counts) -> str:
    """Returns counts as text: base64 of little-endian int64 pairs (key, count)."""
    pairs = np.stack([np.asarray(counts.keys, "<i8"), np.asarray(counts.counts, "<i8")], axis=1)
    return base64.b64encode(pairs.tobytes()).decode("ascii")


def unpack_counts(text: str) -> Counts:
    """Returns what :func:`pack_counts` packed."""
    pairs = np.frombuffer(base64.b64decode(text), "<i8").astype(np.int64).reshape(-1, 2)
    return Counts(pairs[:, 0], pairs[:, 1])


def merge_counts(parts: Sequence[Counts]) -> Counts:
    """Adds counts up; keys are below 2**16."""
    dense = np.zeros(_BUCKETS, np.int64)
    for keys, counts in parts:
        dense[keys] += counts
    return Counts.of_dense(dense)


def count_classes(values: Array) -> Counts:
    """Counts each value of a flat uint8 or uint16 array."""
    return Counts.of_dense(np.bincount(values))


def count_buckets(values: Array) -> Counts:
    """Counts the buckets of numbers, flat, without NaN."""
    if values.dtype == np.float64:
        # what float32 would make infinite goes with its largest number
        finite = np.isfinite(values)
        if not finite.all() or np.abs(values).max(initial=0) > _LARGEST:
            values = np.where(finite, np.clip(values, -_LARGEST, _LARGEST), values)
    return Counts.of_dense(np.bincount(_keys(values)))


def _keys(values: Array) -> Array:
    """The upper half of each number's float32."""
    single = np.ascontiguousarray(values, "<f4")
    return single.view("<u2")[1::2]


def bucket_percentiles(
    found: Counts, low: float, high: float, wanted: Sequence[float] = PERCENTILES, *, integers: bool
) -> list[float]:
    """Returns percentiles: the values of rank ``ceil(p / 100 · n)`` of the sorted values, within the bound.

    Args:
        found: counts of buckets, at least one.
        low: smallest value.
        high: largest value.
        wanted: percentages above 0 and at most 100.
        integers: whether only whole numbers occur.
    """
    # the order of buckets is that of numbers: negative ones fall as their bits rise
    half = _BUCKETS // 2
    by_value = np.argsort(np.where(found.keys >= half, -found.keys, found.keys))
    keys = found.keys[by_value]
    at = _ranks(found.counts[by_value], wanted)
    return [min(max(_middle(int(key), integers), low), high) for key in keys[at]]


def exact_percentiles(found: Counts, wanted: Sequence[float] = PERCENTILES) -> list[float]:
    """Returns percentiles as :func:`bucket_percentiles` does, from counts of values."""
    return [float(value) for value in found.keys[_ranks(found.counts, wanted)]]


def _ranks(counts: Ints, wanted: Sequence[float]) -> Ints:
    """Returns the positions at which the running sum reaches each percentage."""
    ends = np.cumsum(counts)
    ranks = [max(1, math.ceil(Fraction(str(p)) * int(ends[-1]) / 100)) for p in wanted]
    return np.searchsorted(ends, ranks)


def _middle(key: int, integers: bool) -> float:
    if key in (0, _BUCKETS // 2):
        return 0.0  # 0 is common, and what shares its bucket is next to it
    start, end = struct.unpack("<ff", struct.pack("<II", key << 16, (key << 16) | 0xFFFF))
    if math.isinf(start):
        return float(start)
    first, last = float(min(start, end)), float(max(start, end))
    if integers and math.ceil(first) <= math.floor(last):
        first, last = math.ceil(first), math.floor(last)
    return (first + last) / 2


def class_weights(counts: Ints) -> list[float]:
    """Returns for each class the weight that makes all classes count alike: n / (classes · its count)."""
    total = int(counts.sum())
    return [total / (len(counts) * n) for n in counts.tolist()]
