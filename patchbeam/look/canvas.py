"""A picture in the making: rectangles, outlines, hatching, text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from patchbeam.class_colours import Colour
from patchbeam.look.font import HEIGHT, draw_text
from patchbeam.look.png import Rgb

BACKGROUND: Colour = (248, 248, 246)
INK: Colour = (58, 60, 64)
FAINT: Colour = (128, 130, 134)
LINE: Colour = (196, 197, 194)
MASKED: Colour = (203, 207, 211)
DROPPED: tuple[Colour, Colour] = ((236, 236, 233), (202, 203, 200))
MISSING: tuple[Colour, Colour] = ((252, 234, 230), (222, 118, 104))
MARGIN: Colour = (255, 214, 10)


class Canvas:
    """RGB pixels that are drawn on; what lies outside is cut off.

    Attributes:
        pixels: uint8 ``(row, col, 3)``.
    """

    def __init__(self, width: int, height: int) -> None:
        self.pixels: Rgb = np.empty((height, width, 3), np.uint8)
        self.pixels[:] = BACKGROUND

    def fill(self, x: int, y: int, width: int, height: int, colour: Colour) -> None:
        """Fills a rectangle."""
        self.pixels[max(0, y) : max(0, y + height), max(0, x) : max(0, x + width)] = colour

    def paste(self, x: int, y: int, picture: Rgb) -> None:
        """Puts a picture in its place."""
        target = self.pixels[y : y + picture.shape[0], x : x + picture.shape[1]]
        target[:] = picture[: target.shape[0], : target.shape[1]]

    def outline(self, x: int, y: int, width: int, height: int, colour: Colour, thick: int = 1) -> None:
        """Draws the border of a rectangle, inside it."""
        self.fill(x, y, width, thick, colour)
        self.fill(x, y + height - thick, width, thick, colour)
        self.fill(x, y, thick, height, colour)
        self.fill(x + width - thick, y, thick, height, colour)

    def hatch(self, x: int, y: int, width: int, height: int, colours: tuple[Colour, Colour]) -> None:
        """Fills a rectangle with slanted lines that run on from one rectangle to the next."""
        self.fill(x, y, width, height, colours[0])
        target = self.pixels[y : y + height, x : x + width]
        rows, cols = np.indices(target.shape[:2])
        period = 8 if min(width, height) >= 16 else 4
        target[(rows + y + cols + x) % period < period // 4] = colours[1]

    def text(self, x: int, y: int, text: str, colour: Colour = INK, scale: int = 1) -> int:
        """Writes a line from its upper left corner; returns where it ends."""
        ink = draw_text(text, scale)
        target = self.pixels[y : y + ink.shape[0], x : x + ink.shape[1]]
        share = ink[: target.shape[0], : target.shape[1], None].astype(np.float32) / 255
        target[:] = np.rint(target + share * (np.array(colour, np.float32) - target)).astype(np.uint8)
        return x + int(ink.shape[1])


def text_width(text: str, scale: int) -> int:
    """Returns the columns that a line of text takes."""
    return int(draw_text(text, scale).shape[1])


def line_height(scale: int) -> int:
    """Returns the rows from one line of text to the next."""
    return (HEIGHT + 1) * scale


def stack(parts: Sequence[Rgb], pad: int) -> Rgb:
    """Returns pictures one below the other on the background, with a border round all of them."""
    parts = [part for part in parts if part.size]
    width = max(part.shape[1] for part in parts) + 2 * pad
    canvas = Canvas(width, sum(part.shape[0] + pad for part in parts) + pad)
    y = pad
    for part in parts:
        canvas.paste(pad, y, part)
        y += part.shape[0] + pad
    return canvas.pixels
