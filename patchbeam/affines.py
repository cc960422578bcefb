"""Affine arithmetic: pixel ↔ map coordinates, in an order of operations that keeps the digits.

Columns and rows count from the outer corner of pixel (0, 0), so that pixel centres are at halves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from affine import Affine
from numpy.typing import NDArray
from odc.geo.geobox import GeoBox

from patchbeam.errors import GridError

Affine6 = tuple[float, float, float, float, float, float]
Coords = NDArray[np.float64]
"""float64 ``(vertex, 2)``: x, y or column, row."""


def affine6(grid: GeoBox) -> Affine6:
    """Returns a grid's affine as ``[xScale, xShear, xTranslate, yShear, yScale, yTranslate]``."""
    a, b, c, d, e, f = (float(v) for v in grid.affine[:6])
    return a, b, c, d, e, f


def from_affine6(numbers: Sequence[float], key: str = "grid.crsTransform") -> Affine:
    """Returns the affine of ``[xScale, xShear, xTranslate, yShear, yScale, yTranslate]``.

    Raises:
        GridError: not six finite numbers, or singular: its pixels have no area.
    """
    if len(numbers) != 6:
        raise GridError(
            f"{key}: {list(numbers)} has {len(numbers)} numbers; give [xScale, xShear, xTranslate, yShear, "
            "yScale, yTranslate]"
        )
    for i, value in enumerate(numbers):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise GridError(f"{key}[{i}]: {value!r} is not a finite number")
    a, b, c, d, e, f = (float(v) for v in numbers)
    if not abs(a * e - b * d) > 1e-12 * (math.hypot(a, d) * math.hypot(b, e)):
        raise GridError(
            f"{key}: {list(numbers)} is singular: its pixels have no area; give scales that are not 0"
        )
    return Affine(a, b, c, d, e, f)


def to_xy(affine: Affine, pixels: Sequence[tuple[float, float]]) -> Coords:
    """Returns the x, y of columns, rows."""
    a, b, c, d, e, f = affine[:6]
    return np.array([(a * col + b * row + c, d * col + e * row + f) for col, row in pixels], np.float64)


def to_pixels(affine: Affine, points: Coords) -> Coords:
    """Returns the fractional columns, rows of x, y.

    The origin is taken off first: inverting the whole affine loses half of the digits when the
    origin is far from (0, 0).
    """
    a, b, c, d, e, f = affine[:6]
    x, y = points[:, 0] - c, points[:, 1] - f
    if b == 0 and d == 0:
        return np.stack([x / a, y / e], axis=1)
    determinant = a * e - b * d
    return np.stack([(e * x - b * y) / determinant, (a * y - d * x) / determinant], axis=1)


def starting_at(affine: Affine, col: int, row: int) -> Affine:
    """Returns the affine whose pixel (0, 0) is pixel (``col``, ``row``) of another."""
    a, b, c, d, e, f = affine[:6]
    return Affine(a, b, a * col + b * row + c, d, e, d * col + e * row + f)
