"""Statistics of valid pixels, exact to merge and the same whatever ran the job.

A partial holds count, extremes, mean and the sum of squared deviations (Chan, Golub and LeVeque 1979);
partials are merged in patch order, so that floating-point results depend on the plan alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.tally import Counts, merge_counts, pack_counts, unpack_counts

Array = NDArray[Any]
Mask = NDArray[np.bool_]


_WORD = 2**32 - 1
_ROWS = 64


@dataclass(frozen=True, slots=True)
class Moments:
    """Partial statistics of one band.

    Attributes:
        count: valid values.
        minimum: smallest value, an ``int`` in an integer band; ``inf`` when there is none.
        maximum: largest value likewise, ``-inf`` when there is none.
        mean: arithmetic mean.
        m2: sum of squared deviations from the mean.
        classes: how often each value occurs, as :func:`patchbeam.tally.pack_counts` packs it; ``None`` when
            that was not counted.
        buckets: how often each bucket of values occurs, likewise.
    """

    count: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf
    mean: float = 0.0
    m2: float = 0.0
    classes: str | None = None
    buckets: str | None = None

    @property
    def std(self) -> float:
        """Population standard deviation, 0 when there is no value."""
        return math.sqrt(self.m2 / self.count) if self.count else 0.0

    def merge(self, other: Moments) -> Moments:
        """Returns the statistics of both sets of values together, but for counts of values."""
        if not other.count:
            return self
        if not self.count:
            return other
        count = self.count + other.count
        delta = other.mean - self.mean
        return Moments(
            count,
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
            self.mean + delta * (other.count / count),
            self.m2 + other.m2 + delta * delta * (self.count * other.count / count),
        )


EMPTY = Moments()


def measure(values: Array, valid: Mask | None = None) -> Moments:
    """Returns the statistics of the valid values of one array; NaN never counts as a value.

    Args:
        values: numbers of any shape.
        valid: the same shape, true where a value counts; ``None`` for all.
    """
    return measure_flat(valid_values(values, valid))


def valid_values(values: Array, valid: Mask | None = None) -> Array:
    """Returns the values that count, flat."""
    if valid is not None and not valid.all():
        values = values[valid]
    flat = values.reshape(-1)
    if flat.dtype.kind == "f":
        missing = np.isnan(flat)
        if missing.any():
            flat = flat[~missing]
    return flat


def measure_flat(flat: Array) -> Moments:
    """Returns the statistics of flat numbers without NaN."""
    if not flat.size:
        return EMPTY
    if is_short(flat.dtype):
        return measure_short(flat[None])[0]
    low, high = flat.min(), flat.max()
    numbers = flat.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(numbers.mean())
        numbers -= mean
        # not np.dot: BLAS starts threads of its own, and sums in an order that depends on their number
        m2 = float(np.einsum("i,i->", numbers, numbers))
    # integers stay integers: float64 does not hold those above 2**53
    return Moments(int(flat.size), low.item(), high.item(), mean, m2)


def is_short(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of this type are integers of at most 16 bits."""
    return dtype.kind in "iu" and dtype.itemsize <= 2


def measure_short(bands: Array) -> list[Moments]:
    """Returns the statistics of each band of short integers, by sums of whole numbers: exact and fast.

    Args:
        bands: ``(band, number)``, one number at least.
    """
    lows, highs = bands.min(axis=1).tolist(), bands.max(axis=1).tolist()
    numbers = bands.astype(np.uint32)
    base = min(0, *lows)
    if base < 0:
        numbers -= np.uint32(base & _WORD)  # modulo 2**32: what is left is the distance from the least
    count, largest = bands.shape[1], max(highs) - base
    totals = _sums(numbers, largest)
    np.multiply(numbers, numbers, out=numbers)
    squares = _sums(numbers, largest * largest)
    return [
        Moments(count, low, high, (total + base * count) / count, (count * square - total * total) / count)
        for low, high, total, square in zip(lows, highs, totals, squares, strict=True)
    ]


def _sums(numbers: NDArray[np.uint32], largest: int) -> list[int]:
    """Returns the sum of each row of ``(band, number)``, where none is above ``largest``."""
    bands, count = numbers.shape
    # sums as uint32 keep to vector instructions; of as many numbers as can't overflow
    if largest * count <= _WORD:
        sums: list[int] = np.add.reduce(numbers, axis=1, dtype=np.uint32).tolist()
        return sums
    rows = 1 << (min(_ROWS, _WORD // largest).bit_length() - 1)
    whole = count // rows * rows
    partial = np.add.reduce(numbers[:, :whole].reshape(bands, rows, -1), axis=1, dtype=np.uint32)
    sums = partial.sum(axis=1, dtype=np.uint64).tolist()
    if whole == count:
        return sums
    rest = numbers[:, whole:].sum(axis=1, dtype=np.uint64).tolist()
    return [a + b for a, b in zip(sums, rest, strict=True)]


def measure_counts(found: Counts) -> Moments:
    """Returns the statistics of whole numbers from how often each occurs."""
    if not found.keys.size:
        return EMPTY
    count = int(found.counts.sum())
    mean = int(np.einsum("i,i->", found.keys, found.counts)) / count
    deviations = found.keys - mean
    m2 = float(np.einsum("i,i,i->", deviations, deviations, found.counts.astype(np.float64)))
    return Moments(count, int(found.keys[0]), int(found.keys[-1]), mean, m2)


def merge_all(parts: Sequence[Moments]) -> Moments:
    """Merges partials from left to right."""
    total = EMPTY
    for part in parts:
        total = total.merge(part)
    return replace(
        total,
        classes=_merged([part.classes for part in parts]),
        buckets=_merged([part.buckets for part in parts]),
    )


def _merged(texts: Sequence[str | None]) -> str | None:
    found = [unpack_counts(text) for text in texts if text is not None]
    return pack_counts(merge_counts(found)) if found else None
