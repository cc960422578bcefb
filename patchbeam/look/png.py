"""PNG files of RGB pixels, without a library for it. Specification: W3C PNG, third edition."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Rgb = NDArray[np.uint8]
"""uint8 ``(row, col, 3)``."""

_MAGIC = b"\x89PNG\r\n\x1a\n"
_NONE, _SUB, _UP, _PAETH = 0, 1, 2, 4


def png(pixels: Rgb, *, level: int = 6) -> bytes:
    """Returns a PNG file; with at most 256 colours it has a palette, which is smaller.

    Args:
        pixels: uint8 ``(row, col, 3)``.
        level: of the compression, 0 to 9.
    """
    height, width = pixels.shape[:2]
    packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colours = np.unique(packed)
    chunks = []
    if len(colours) <= 256:
        rows = np.searchsorted(colours, packed).astype(np.uint8)
        palette = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.uint8)
        chunks.append(_chunk(b"PLTE", palette.tobytes()))
        filtered = np.zeros((height, width + 1), np.uint8)
        filtered[:, 1:] = rows
        kind = 3
    else:
        filtered = _filtered(np.ascontiguousarray(pixels))
        kind = 2
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    data = zlib.compress(filtered.tobytes(), level)
    return b"".join([_MAGIC, _chunk(b"IHDR", header), *chunks, _chunk(b"IDAT", data), _chunk(b"IEND", b"")])


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _filtered(pixels: Rgb) -> NDArray[np.uint8]:
    """Each row as differences, by the filter that makes them smallest (the specification's heuristic)."""
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, width * 3).astype(np.int16)
    left = np.zeros_like(rows)
    left[:, 3:] = rows[:, :-3]
    above = np.zeros_like(rows)
    above[1:] = rows[:-1]
    corner = np.zeros_like(rows)
    corner[1:, 3:] = rows[:-1, :-3]
    guess = left + above - corner
    to_left, to_above, to_corner = abs(guess - left), abs(guess - above), abs(guess - corner)
    paeth = np.where(
        (to_left <= to_above) & (to_left <= to_corner),
        left,
        np.where(to_above <= to_corner, above, corner),
    )
    kinds = np.array([_NONE, _SUB, _UP, _PAETH], np.uint8)
    candidates = np.stack([rows, rows - left, rows - above, rows - paeth]).astype(np.uint8)
    cost = np.abs(candidates.view(np.int8).astype(np.int16)).sum(axis=2, dtype=np.int64)
    best = cost.argmin(axis=0)
    out = np.empty((height, width * 3 + 1), np.uint8)
    out[:, 0] = kinds[best]
    out[:, 1:] = candidates[best, np.arange(height)]
    return out
