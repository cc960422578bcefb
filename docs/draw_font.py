"""Draws the letters of the pictures that ``patchbeam look`` makes, once: ``patchbeam/look/font.npz``.

    python docs/draw_font.py

The typeface is Aileron by Sora Sagano (CC0), of which Pillow carries the ASCII letters.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import ImageFont

SIZES = {1: 11, 2: 20, 3: 30}
"""Of the font, for each scale: capitals are 8, 14 and 22 pixels high."""

ROWS = 12
"""Of a line, times the scale."""

BASELINE = {1: 9, 2: 17, 3: 25}
"""Rows above it, for each scale: what letters rise to."""

SHADES = 8
"""So that letters take few of the 256 colours of a palette."""

CHARACTERS = [chr(code) for code in range(32, 127)]


def main() -> None:
    """Writes the file."""
    tables: dict[str, np.ndarray] = {}
    for scale, size in SIZES.items():
        font = ImageFont.load_default(size)
        columns, starts = [], [0]
        for character in CHARACTERS:
            advance = max(1, round(font.getlength(character)))
            glyph = np.zeros((ROWS * scale, advance + 2), np.uint8)
            mask, (x, y) = font.getmask2(character, "L", anchor="ls")
            if mask.size[0] and mask.size[1]:
                shades = np.array(mask, np.uint8).reshape(mask.size[1], mask.size[0])
                top, left = BASELINE[scale] + y, max(0, x)
                assert top >= 0 and top + shades.shape[0] <= glyph.shape[0], character
                part = glyph[top : top + shades.shape[0], left : left + shades.shape[1]]
                part[:] = shades[: part.shape[0], : part.shape[1]]
            inked = np.flatnonzero(glyph.any(axis=0))
            if character == " ":
                advance += scale  # letters stand close, words should not
            wide = max(advance, int(inked[-1]) + 1 if len(inked) else 0)
            columns.append(glyph[:, :wide])
            starts.append(starts[-1] + wide)
        shades = np.concatenate(columns, axis=1).astype(np.float64) / 255 * (SHADES - 1)
        tables[f"shades{scale}"] = (np.rint(shades) * 255 / (SHADES - 1)).astype(np.uint8)
        tables[f"starts{scale}"] = np.array(starts, np.int32)
    path = Path(__file__).resolve().parent.parent / "patchbeam" / "look" / "font.npz"
    np.savez_compressed(path, **tables)
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
