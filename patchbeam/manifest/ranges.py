"""Runs of patch numbers as ``(first, count)``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_ranges(indices: NDArray[Any]) -> NDArray[np.int64]:
    """Returns rising indices as ranges, int64 ``(range, [first, count])``.

    Raises:
        ValueError: the indices do not rise.
    """
    numbers = np.asarray(indices, np.int64).reshape(-1)
    if not numbers.size:
        return np.empty((0, 2), np.int64)
    steps = np.diff(numbers)
    if (steps <= 0).any():
        at = int(np.argmax(steps <= 0))
        raise ValueError(
            f"index {numbers[at + 1]} follows {numbers[at]}: indices must rise; sort them, each once"
        )
    starts = np.concatenate([[0], np.flatnonzero(steps != 1) + 1])
    counts = np.diff(np.append(starts, numbers.size))
    return np.stack([numbers[starts], counts], axis=1).astype(np.int64)


def from_ranges(ranges: Any) -> NDArray[np.int64]:
    """Returns the indices of ranges of ``(first, count)``, int64, in order."""
    pairs = np.asarray(ranges, np.int64).reshape(-1, 2)
    firsts, counts = pairs[:, 0], pairs[:, 1]
    before = np.cumsum(counts) - counts
    indices: NDArray[np.int64] = np.arange(int(counts.sum()), dtype=np.int64)
    indices += np.repeat(firsts - before, counts)
    return indices
