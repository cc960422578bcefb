"""What stands above and below the picture: a title, the legend, a scale bar."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from odc.geo.geobox import GeoBox

from patchbeam.look.canvas import FAINT, INK, LINE, Canvas, line_height, text_width
from patchbeam.look.legend import Entry
from patchbeam.look.png import Rgb

_DEGREE_M = 111_195.0
"""Metres of a degree along a meridian, on the sphere with the earth's mean radius."""


def text_scale(width: int) -> int:
    """Returns by how much letters are enlarged in a picture of this width."""
    return 1 if width < 700 else 2 if width < 2400 else 3


def title_strip(width: int, left: str, right: str) -> Rgb:
    """Returns a line with a name at the left and facts at the right, where there is room."""
    scale = text_scale(width)
    canvas = Canvas(width, line_height(scale))
    end = canvas.text(0, 2 * scale, left, INK, scale)
    if end + 8 * scale + text_width(right, scale) <= width:
        canvas.text(width - text_width(right, scale), 2 * scale, right, FAINT, scale)
    return canvas.pixels


def legend_strip(entries: Sequence[Entry], width: int, pixel: float | None) -> Rgb:
    """Returns the legend and the scale bar.

    Args:
        entries: of the legend.
        width: of the picture.
        pixel: metres that a pixel of the picture stands for, ``None`` for no scale bar.
    """
    scale = text_scale(width)
    height, swatch = line_height(scale), 9 * scale
    right, bar, length_m = width, 0, 0.0
    if pixel:
        bar, length_m = scale_bar(pixel, width // 4)
        right -= max(bar, text_width(metres_text(length_m), scale)) + 8 * scale
    places: list[tuple[int, int]] = []
    x = y = 0
    for entry in entries:
        needed = text_width(entry.text, scale) + swatch + 5 * scale
        if x and x + needed > right:
            x, y = 0, y + height
        places.append((x, y))
        x += needed + 9 * scale
    canvas = Canvas(width, y + (height if not bar else height + 6 * scale))
    for entry, (x, y) in zip(entries, places, strict=True):
        _swatch(canvas, entry, x, y + scale, swatch)
        canvas.text(x + swatch + 5 * scale, y + scale, entry.text, INK, scale)
    if bar:
        canvas.fill(width - bar, 3 * scale, bar, scale, INK)
        canvas.fill(width - bar, 0, scale, 4 * scale, INK)
        canvas.fill(width - scale, 0, scale, 4 * scale, INK)
        text = metres_text(length_m)
        canvas.text(width - (bar + text_width(text, scale)) // 2, 6 * scale, text, INK, scale)
    return canvas.pixels


def _swatch(canvas: Canvas, entry: Entry, x: int, y: int, size: int) -> None:
    if entry.kind == "grey":
        shades = np.linspace(0, 255, size).astype(np.uint8)
        canvas.paste(x, y, np.broadcast_to(shades[None, :, None], (size, size, 3)))
    elif entry.kind == "hatch":
        canvas.hatch(x, y, size, size, (entry.colours[0], entry.colours[1]))
    elif entry.kind == "frame":
        canvas.outline(x, y, size, size, entry.colours[0], max(2, size // 5))
    else:
        canvas.fill(x, y, size, size, entry.colours[0])
    if entry.kind != "frame":
        canvas.outline(x, y, size, size, LINE)


def metres_text(length_m: float) -> str:
    """Returns a length in metres or kilometres."""
    return f"{length_m / 1000:g} km" if length_m >= 1000 else f"{length_m:g} m"


def scale_bar(pixel_m: float, most: int) -> tuple[int, float]:
    """Returns a bar of at most ``most`` pixels, and the round number of metres that it stands for."""
    room = pixel_m * most
    power = 10.0 ** math.floor(math.log10(room)) if room > 0 else 1.0
    length = max((n * power for n in (1, 2, 5) if n * power <= room), default=power)
    return max(1, round(length / pixel_m)), length


def pixel_metres(grid: GeoBox) -> float | None:
    """Returns about how many metres a pixel of a grid is wide, at its middle; ``None`` if not known."""
    a, _, _, d, e, f = tuple(grid.affine)[:6]
    size = math.hypot(a, d)
    if grid.crs is None:
        return None
    unit = float(grid.crs.proj.axis_info[0].unit_conversion_factor or 1)
    if not grid.crs.geographic:
        return size * unit
    x, y = grid.shape.x / 2, grid.shape.y / 2
    latitude = (d * x + e * y + f) * unit  # in radians
    metres = _DEGREE_M * math.degrees(unit)
    return math.hypot(a * math.cos(latitude), d) * metres
