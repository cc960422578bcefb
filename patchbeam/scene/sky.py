"""Clouds and their shadows, and the edge of the swath."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patchbeam.scene.landscape import quantile, sample_points
from patchbeam.scene.noise import LATTICE, Field, Floats, Texture, draw_out, nodes, salt_of

# Shadows fall this many lattice steps below and right of their clouds: the sun is in the upper left.
_SHADOW_DOWN, _SHADOW_ALONG = 5, 7
_DARKEST = 0.55
_SOFT = 0.45  # density from the rim of a cloud to where nothing shines through

_PERIOD = 499


def wisps_of(seed: int, largest: tuple[int, int]) -> Texture:
    """Fine structure of clouds, for windows of at most ``largest`` rows and columns."""
    return Texture(salt_of(seed, 100), period=_PERIOD, smooth=12, strength=0.04, largest=largest)


class Sky:
    """The clouds of one date, fitted so that about the share asked for is covered.

    Args:
        seed: seed of the scene.
        date: number of the date; each has its own clouds.
        width, height: size of the scene in pixels.
        share: share of the scene under clouds, 0 to below 1.
        wisps: fine structure, from :func:`wisps_of`; all dates use the same.
    """

    def __init__(
        self, seed: int, date: int, width: int, height: int, share: float, *, wisps: Texture
    ) -> None:
        self._field = Field(salt=salt_of(seed, 100, date), largest=512, smallest=16, roughness=0.6)
        self._wisps = wisps
        self._moved = salt_of(seed, 101, date) % _PERIOD, salt_of(seed, 102, date) % _PERIOD
        self._floor: np.float32 | None = None
        if share > 0:
            self._floor = quantile(self._field.at(*sample_points(width, height)), 1 - share)

    def survey(self, row: int, col: int, rows: int, cols: int) -> tuple[Floats, Floats] | None:
        """Density of the clouds and of those that throw shadows on the pixels from (``row``, ``col``) on.

        Float32 ``(row, col)`` at lattice points; none without clouds. All four are in pixels, the first
        two multiples of eight.
        """
        if self._floor is None:
            return None
        down, along = nodes(row, rows), nodes(col, cols)
        return self._field.at(down, along), self._field.at(down - _SHADOW_DOWN, along - _SHADOW_ALONG)

    def window(
        self, survey: tuple[Floats, Floats] | None, first: int, place: tuple[int, int, int, int]
    ) -> tuple[Floats | None, Floats | None]:
        """How opaque clouds and how deep shadows are, 0 to 1, float32 ``(row, col)``; none where clear.

        Args:
            survey: density of a larger window.
            first: its pixel row that ``place`` begins with, a multiple of eight.
            place: row, column, rows and columns in pixels.
        """
        if survey is None:
            return None, None
        some = slice(first // LATTICE, first // LATTICE + len(nodes(first, place[2])))
        wisps = self._wisps.window(place[0] + self._moved[0], place[1] + self._moved[1], *place[2:])
        cover, shade = (self._thickness(density[some], wisps) for density in survey)
        if shade is not None:
            shade *= np.float32(_DARKEST)
        return cover, shade

    def _thickness(self, density: Floats, wisps: Floats) -> Floats | None:
        # The lattice tells that a window is clear, with room for the wisps.
        if self._floor is None or density.max() <= self._floor - np.float32(0.25):
            return None
        thick = draw_out(density, *wisps.shape)
        thick += wisps
        thick -= self._floor
        thick *= np.float32(1 / _SOFT)
        np.clip(thick, 0, 1, out=thick)
        # Fades in and out without a visible rim.
        faded: Floats = thick * thick * (np.float32(3) - thick * np.float32(2))
        return faded


def outside_swath(
    row: int, col: int, rows: int, cols: int, *, width: int, height: int, share: float
) -> NDArray[np.bool_] | None:
    """Which pixels lie beyond the swath's slanted edge, ``(row, col)``; none when all are inside.

    The edge cuts the lower-right corner off: about ``share`` of the scene, steep as orbits are.
    """
    if share <= 0:
        return None
    # A triangle with legs of `base` along the lower side and `rise` up the right one.
    base = width * min(1.0, (2 * share * 0.4) ** 0.5)
    rise = height * min(1.0, 2 * share * width / base)
    along = np.arange(col, col + cols)[None, :] - (width - base)
    up = height - np.arange(row, row + rows)[:, None]
    beyond: NDArray[np.bool_] = along * (rise / base) > up
    return beyond if beyond.any() else None
