"""Whole numbers below interpolated positions, for less than the positions cost.

A pixel that is looked up needs no more of a position than the pixel of the file in which it lies. A parabola
a row, in single precision, stands in for the interpolation. Where it cannot miss the next whole number it is
as good; the few pixels where it could are interpolated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int32]

CELL = 64
"""Pixels of the grid between two nodes."""

# Lagrange's weights of the nodes at -1, 0, 1, 2 for a pixel centre between nodes 0 and 1
_T = (np.arange(CELL) + 0.5) / CELL
WEIGHTS = np.stack(
    [
        -_T * (_T - 1) * (_T - 2) / 6,
        (_T + 1) * (_T - 1) * (_T - 2) / 2,
        -(_T + 1) * _T * (_T - 2) / 2,
        (_T + 1) * _T * (_T - 1) / 6,
    ]
)
"""``(node, pixel)``: what each of four nodes counts for the pixels of a cell."""

_SINGLE, _DOUBLE = float(np.finfo(np.float32).eps), float(np.finfo(np.float64).eps)

_FAR = 2.0**28
"""Positions further out are not squeezed into an int32."""


def floors(lines: Floats, cols: NDArray[np.intp], shift: float) -> Whole | None:
    """Returns the whole numbers below positions.

    Args:
        lines: positions at the nodes of each row, one before the first cell and two after the last one's
            first: ``(coordinate, row, node)``.
        cols: columns of the pixels wanted, one after the other; 0 is the first one of the first cell.
        shift: what is added to positions first.

    Returns:
        ``(coordinate, row, col)``; ``None`` where too many would have to be interpolated.
    """
    low, high = lines.min(axis=(1, 2), keepdims=True), lines.max(axis=(1, 2), keepdims=True)
    if not max(-low.min(), high.max()) < _FAR:
        return None
    # below all positions, interpolated ones too, so that what follows the point is cut off downward
    base = np.floor(1.125 * low - 0.125 * high) - 1
    (a, b, c), off = _parabolas(lines - base)
    at = (cols + 0.5).astype(np.float32)
    reach = at[-1] * (np.abs(b) + at[-1] * np.abs(c)) + np.abs(a)
    off += 4 * _SINGLE * (float(reach.max()) + off) + 64 * _DOUBLE * float(np.abs(lines).max())
    values = c.astype(np.float32) * at
    values += b.astype(np.float32)
    values *= at
    values += (a + (shift - off)).astype(np.float32)
    found = values.astype(np.int32)
    values += np.float32(2 * off)
    wrong = found != values.astype(np.int32)
    found += base.astype(np.int32)
    doubtful = np.flatnonzero(np.logical_or(wrong[0], wrong[1], out=wrong[0]))
    if doubtful.size > wrong[0].size // 16:
        return None
    row, col = np.divmod(doubtful, len(cols))
    cell, t = np.divmod(col + cols[0], CELL)
    # the terms that every position is the sum of, in their order
    exact = lines[:, row, cell] * WEIGHTS[0, t]
    for k in range(1, 4):
        exact += lines[:, row, cell + k] * WEIGHTS[k, t]
    found[:, row, col] = np.floor(exact + shift)
    return found


def _parabolas(known: Floats) -> tuple[tuple[Floats, Floats, Floats], float]:
    """Returns the parabola through three nodes of each row, and how far the interpolation may lie off it.

    Args:
        known: ``(coordinate, row, node)``; the second node is at column 0.

    Returns:
        The coefficients of ``a + b · col + c · col²``, each ``(coordinate, row, 1)``, and the distance.
    """
    nodes = (np.arange(known.shape[2]) - 1.0) * CELL
    p, q, r = 0, known.shape[2] // 2, known.shape[2] - 1
    first = (known[..., q : q + 1] - known[..., p : p + 1]) / (nodes[q] - nodes[p])
    second = (known[..., r : r + 1] - known[..., q : q + 1]) / (nodes[r] - nodes[q])
    c = (second - first) / (nodes[r] - nodes[p])
    b = first - c * (nodes[p] + nodes[q])
    a = known[..., p : p + 1] - nodes[p] * (b + c * nodes[p])
    left = known - (a + nodes * (b + nodes * c))
    # the interpolation of a parabola is the parabola; what is left of the nodes is interpolated with weights
    # whose sizes add up to 5/4 at the most
    return (a, b, c), 1.25 * float(np.abs(left).max())
