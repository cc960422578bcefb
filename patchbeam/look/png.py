"""PNG files of RGB pixels, without a library for it. Specification: W3C PNG, third edition."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Rgb = NDArray[np.uint8]
"""uint8 ``(row, col, 3)``."""

_MAGIC = b"\x89PNG\r\n\x1a\n"
_STRIP_ROWS = 32
_NONE, _SUB, _UP, _PAETH = 0, 1, 2, 4


def png(pixels: Rgb, *, level: int = 6) -> bytes:
    """Returns a PNG file; with at most 256 colours it has a palette, which is smaller.

    Args:
        pixels: uint8 ``(row, col, 3)``.
        level: of the compression, 0 to 9.
    """
    height, width = pixels.shape[:2]
    packed = pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    seen = np.zeros(1 << 24, np.bool_)  # quicker than sorting millions of pixels
    seen[packed] = True
    colours = np.flatnonzero(seen)
    chunks = []
    if len(colours) <= 256:
        rows = np.searchsorted(colours, packed).astype(np.uint8)
        palette = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.uint8)
        chunks.append(_chunk(b"PLTE", palette.tobytes()))
        filtered = np.zeros((height, width + 1), np.uint8)
        filtered[:, 1:] = rows
        kind = 3
    else:
        filtered = np.empty((height, width * 3 + 1), np.uint8)
        above = np.zeros((1, width * 3), np.int16)
        for start in range(0, height, _STRIP_ROWS):
            rows = pixels[start : start + _STRIP_ROWS].reshape(-1, width * 3).astype(np.int16)
            _filter(np.concatenate([above, rows]), filtered[start : start + _STRIP_ROWS])
            above = rows[-1:]
        kind = 2
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    data = zlib.compress(filtered.tobytes(), level)
    return b"".join([_MAGIC, _chunk(b"IHDR", header), *chunks, _chunk(b"IDAT", data), _chunk(b"IEND", b"")])


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _filter(known: NDArray[np.int16], out: NDArray[np.uint8]) -> None:
    """Writes each row as differences, by the filter that makes them smallest (the specification's heuristic).

    Args:
        known: the row above and the rows, int16 ``(row, byte)``.
        out: for each row the filter's number and the differences.
    """
    rows, above = known[1:], known[:-1]
    left, corner = np.zeros_like(rows), np.zeros_like(rows)
    left[:, 3:] = rows[:, :-3]
    corner[:, 3:] = above[:, :-3]
    guess = left + above - corner
    to_left, to_above, to_corner = abs(guess - left), abs(guess - above), abs(guess - corner)
    paeth = np.where(
        (to_left <= to_above) & (to_left <= to_corner),
        left,
        np.where(to_above <= to_corner, above, corner),
    )
    kinds = np.array([_NONE, _SUB, _UP, _PAETH], np.uint8)
    candidates = np.stack([rows, rows - left, rows - above, rows - paeth]).astype(np.uint8)
    cost = np.minimum(candidates, np.uint8(0) - candidates).sum(axis=2, dtype=np.int64)
    best = cost.argmin(axis=0)
    out[:, 0] = kinds[best]
    out[:, 1:] = candidates[best, np.arange(len(rows))]
