"""Letters for the few words in a picture: Aileron (CC0), drawn beforehand in three sizes."""

from __future__ import annotations

import unicodedata
from functools import cache
from importlib.resources import files
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

HEIGHT = 12
"""Rows of a line, with what hangs below it, times the scale."""

_ALIKE = str.maketrans(
    {
        "–": "-", "—": "-", "×": "x", "…": "...", "’": "'", "ß": "ss", "ø": "o", "µ": "u", "·": ".",
        "ł": "l", "Ł": "L", "đ": "d", "æ": "ae", "Æ": "AE", "œ": "oe", "Ø": "O", "°": "o", "²": "2",
    }
)  # fmt: skip


def draw_text(text: str, scale: int = 1) -> NDArray[np.uint8]:
    """Returns a line of text, uint8 ``(12 · scale, columns)`` from 0, nothing, to 255, ink.

    Accents are left out, and characters without a likeness in ASCII become ``?``.

    Args:
        text: the line.
        scale: of the letters, 1 to 3.
    """
    plain = unicodedata.normalize("NFKD", text.translate(_ALIKE))
    glyphs = _glyphs(scale)
    drawn = [glyphs.get(c, glyphs["?"]) for c in plain if not unicodedata.combining(c)]
    return np.hstack(drawn) if drawn else np.zeros((HEIGHT * scale, 1), np.uint8)


@cache
def _glyphs(scale: int) -> dict[str, NDArray[np.uint8]]:
    with files("patchbeam.look").joinpath("font.npz").open("rb") as stream, np.load(stream) as tables:
        shades, starts = tables[f"shades{scale}"], tables[f"starts{scale}"].tolist()
    return {chr(32 + i): shades[:, start:end] for i, (start, end) in enumerate(pairwise(starts))}
