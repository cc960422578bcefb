"""Fewer colours, for small files: median cut (Heckbert 1982) over colours of five bits a channel."""

from __future__ import annotations

import numpy as np

from patchbeam.look.png import Rgb

_BITS = 5


def reduce_colours(pixels: Rgb, colours: int) -> Rgb:
    """Returns a picture with at most so many colours, each the mean of those that it stands for.

    Args:
        pixels: uint8 ``(row, col, 3)``.
        colours: 2 to 256.
    """
    coarse = (pixels >> (8 - _BITS)).astype(np.int64)
    packed = ((coarse[..., 0] << 2 * _BITS) | (coarse[..., 1] << _BITS) | coarse[..., 2]).reshape(-1)
    bins, inverse, counts = np.unique(packed, return_inverse=True, return_counts=True)
    sums = [np.bincount(inverse, pixels[..., channel].reshape(-1)) for channel in range(3)]
    means = np.stack(sums, axis=1) / counts[:, None]
    box = np.zeros(len(bins), np.int64)
    for new in range(1, colours):
        largest = _widest(means, counts, box, new)
        if largest is None:
            break
        members = np.flatnonzero(box == largest)
        axis = int(np.ptp(means[members], axis=0).argmax())
        members = members[np.argsort(means[members, axis], kind="stable")]
        half = int(np.searchsorted(np.cumsum(counts[members]), counts[members].sum() / 2))
        box[members[min(half + 1, len(members) - 1) :]] = new
    weights = np.bincount(box, counts)
    centres = np.stack([np.bincount(box, means[:, c] * counts) / weights for c in range(3)], axis=1)
    reduced: Rgb = np.rint(centres).astype(np.uint8)[box][inverse.reshape(pixels.shape[:2])]
    return reduced


def _widest(
    means: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    box: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    boxes: int,
) -> int | None:
    """The box where one more colour helps most, or ``None`` when each holds one colour."""
    spread = np.zeros(boxes)
    for number in range(boxes):
        inside = box == number
        if np.count_nonzero(inside) > 1:
            spread[number] = np.ptp(means[inside], axis=0).max() ** 2 * counts[inside].sum() ** 0.5
    return int(spread.argmax()) if spread.max() > 0 else None
