"""Noise that is a pure function of seed and absolute pixel position.

Only integer hashing, additions, multiplications and comparisons are used on pixels: they give the
same bits for any window, block size, thread count and processor, which library functions such as
``exp`` do not promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

# Smooth fields are known on a lattice of every eighth pixel and drawn out between.
LATTICE = 8


def mix(value: int) -> int:
    """Scrambles a 32-bit number (the finaliser of MurmurHash3); also wraps larger ones into 32 bits."""
    value &= 0xFFFFFFFF
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return value ^ (value >> 16)


def salt_of(*parts: int) -> int:
    """One 32-bit salt out of several whole numbers, their order counting."""
    salt = 0x2545F491
    for part in parts:
        salt = mix(salt * 31 + mix(part) + mix(part >> 32) * 7)
    return salt


def hashed(rows: Ints, cols: Ints, salt: int) -> Floats:
    """Uniform values in [-1, 1), float32 ``(row, col)``, for the grid of ``rows`` by ``cols``."""
    down = rows.astype(np.uint32) * np.uint32(0x9E3779B1) + np.uint32(salt)
    along = cols.astype(np.uint32) * np.uint32(0x85EBCA77)
    value: NDArray[np.uint32] = down[:, None] ^ along[None, :]
    value ^= value >> np.uint32(16)
    value *= np.uint32(0x85EBCA6B)
    value ^= value >> np.uint32(13)
    value *= np.uint32(0xC2B2AE35)
    value ^= value >> np.uint32(16)
    # 24 bits are what float32 holds exactly.
    result: Floats = (value >> np.uint32(8)).astype(np.float32)
    result *= np.float32(2.0**-23)
    result -= np.float32(1.0)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Fractal gradient noise, roughly within [-1, 1].

    Attributes:
        salt: which field; fields with different salts are independent.
        largest: size of the largest features in pixels, a power of two of at least 16.
        smallest: size of the smallest ones.
        roughness: strength of each octave over that of the next larger one.
    """

    salt: int
    largest: int
    smallest: int = 16
    roughness: float = 0.5

    def at(self, rows: Ints, cols: Ints) -> Floats:
        """Values at lattice points, float32 ``(row, col)``; ``rows`` and ``cols`` rise, in lattice steps."""
        total = np.zeros((len(rows), len(cols)), np.float32)
        spacing, weight, weights, octave = self.largest // LATTICE, 1.0, 0.0, 0
        while spacing * LATTICE >= self.smallest and spacing >= 2:
            salt = salt_of(self.salt, octave)
            # Each octave is moved by its own distance, so that their lattices never coincide.
            total += np.float32(weight) * _gradients(rows + salt % 4093, cols + salt % 8191, spacing, salt)
            weights += weight * weight
            spacing, weight, octave = spacing // 2, weight * self.roughness, octave + 1
        total *= np.float32(1.6 / weights**0.5)
        return total


def _gradients(rows: Ints, cols: Ints, spacing: int, salt: int) -> Floats:
    """One octave of gradient noise: the field is zero at the nodes and has a random slope there."""
    node_row, node_col = rows // spacing, cols // spacing
    down = ((rows % spacing) / spacing).astype(np.float32)[:, None]
    along = ((cols % spacing) / spacing).astype(np.float32)
    first_row, first_col = int(node_row[0]), int(node_col[0])
    nodes = (
        np.arange(first_row, int(node_row[-1]) + 2, dtype=np.int64),
        np.arange(first_col, int(node_col[-1]) + 2, dtype=np.int64),
    )
    slope_down, slope_along = hashed(*nodes, salt), hashed(*nodes, salt ^ 0x5BD1E995)
    node_row, node_col = node_row - first_row, node_col - first_col

    # Along the rows of nodes first, which are few: the slope down, and the height that the slope along gives.
    fade = _fade(along)
    fall = slope_down.take(node_col, axis=1) * (np.float32(1) - fade)
    fall += slope_down.take(node_col + 1, axis=1) * fade
    height = slope_along.take(node_col, axis=1) * (along * (np.float32(1) - fade))
    height += slope_along.take(node_col + 1, axis=1) * ((along - np.float32(1)) * fade)

    fade = _fade(down)
    above = fall.take(node_row, axis=0)
    above *= down
    above += height.take(node_row, axis=0)
    below = fall.take(node_row + 1, axis=0)
    below *= down - np.float32(1)
    below += height.take(node_row + 1, axis=0)
    below -= above
    below *= fade
    above += below
    return above


def _fade(t: Floats) -> Floats:
    """Runs smoothly from 0 to 1: 6t⁵ - 15t⁴ + 10t³."""
    faded: Floats = t * np.float32(6)
    faded -= np.float32(15)
    faded *= t
    faded += np.float32(10)
    for _ in range(3):
        faded *= t
    return faded


def nodes(start: int, count: int) -> Ints:
    """Lattice steps on one axis around ``count`` pixels from pixel ``start``, a multiple of eight."""
    return np.arange(start // LATTICE, start // LATTICE - (-count // LATTICE) + 1, dtype=np.int64)


def draw_out(lattice: Floats, rows: int, cols: int) -> Floats:
    """Pixels between lattice points by linear interpolation.

    Args:
        lattice: float32 ``(row, col)`` at lattice points, at least as many as :func:`nodes` gives.
        rows, cols: how many pixels from the first lattice point on.

    Returns:
        float32 ``(row, col)``; a fresh array.
    """
    steps = np.arange(LATTICE, dtype=np.float32) / np.float32(LATTICE)
    wide = np.diff(lattice, axis=1)[:, :, None] * steps
    wide += lattice[:, :-1, None]
    wide = wide.reshape(len(lattice), -1)[:, :cols]
    pixels: Floats = np.diff(wide, axis=0)[:, None, :] * steps[:, None]
    pixels += wide[:-1, None, :]
    return pixels.reshape(-1, cols)[:rows]


class Texture:
    """Fine noise of mean 0: a small tile, repeated.

    Several with periods that share no factor never repeat together within a scene.

    Args:
        salt: which noise.
        period: side of the tile in pixels.
        smooth: how often the noise is averaged with its neighbours.
        strength: standard deviation.
        largest: rows and columns of the largest window that will be asked for.
    """

    def __init__(
        self, salt: int, *, period: int, smooth: int = 0, strength: float = 1.0, largest: tuple[int, int]
    ) -> None:
        side = np.arange(period, dtype=np.int64)
        tile: Floats = np.zeros((period, period), np.float32)
        for i in range(3):  # three uniform ones: close to Gaussian, variance one
            tile += hashed(side, side, salt_of(salt, i))
        for _ in range(smooth):
            for axis in (0, 1):
                tile = np.roll(tile, 1, axis) + tile * np.float32(2) + np.roll(tile, -1, axis)
        # Exact: the variance of n passes of (1, 2, 1) is the central binomial coefficient of 4n, an axis.
        tile *= np.float32(strength / math.comb(4 * smooth, 2 * smooth))
        self._period = period
        rows, cols = largest
        self._tile = np.pad(tile, ((0, rows), (0, cols)), mode="wrap")
        self._tile.flags.writeable = False

    def window(self, row: int, col: int, rows: int, cols: int) -> Floats:
        """Noise from pixel (``row``, ``col``) on, float32 ``(row, col)``; a view, not to be written to."""
        row, col = row % self._period, col % self._period
        pixels: Floats = self._tile[row : row + rows, col : col + cols]
        return pixels
