"""Fewer colours, for small files: median cut (Heckbert 1982) over colours of five bits a channel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patchbeam.elements import Ints
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
    boxes: list[Ints] = [np.arange(len(bins))]
    spreads = [_spread(means, counts, boxes[0])]
    while len(boxes) < colours and max(spreads) > 0:
        largest = int(np.argmax(spreads))
        members = boxes[largest]
        axis = int(np.ptp(means[members], axis=0).argmax())
        members = members[np.argsort(means[members, axis], kind="stable")]
        half = int(np.searchsorted(np.cumsum(counts[members]), counts[members].sum() / 2))
        half = min(half + 1, len(members) - 1)
        boxes[largest] = np.sort(members[:half])
        boxes.append(np.sort(members[half:]))
        spreads[largest] = _spread(means, counts, boxes[largest])
        spreads.append(_spread(means, counts, boxes[-1]))
    box = np.empty(len(bins), np.int64)
    for number, members in enumerate(boxes):
        box[members] = number
    weights = np.bincount(box, counts)
    centres = np.stack([np.bincount(box, means[:, c] * counts) / weights for c in range(3)], axis=1)
    reduced: Rgb = np.rint(centres).astype(np.uint8)[box][inverse.reshape(pixels.shape[:2])]
    return reduced


def _spread(means: NDArray[np.float64], counts: Ints, members: Ints) -> float:
    """How much one colour more would help a box; 0 when it holds one colour."""
    if len(members) < 2:
        return 0.0
    return float(np.ptp(means[members], axis=0).max() ** 2 * counts[members].sum() ** 0.5)
