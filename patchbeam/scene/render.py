"""From ground and sky to the numbers in the bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.scene import spectra
from patchbeam.scene.landscape import Ground, Landscape
from patchbeam.scene.noise import LATTICE, Floats, Texture, salt_of
from patchbeam.scene.sky import Sky, outside_swath, wisps_of

Pixels = NDArray[Any]
REFLECTANCE_SCALE = 10_000
_NOISE = 12.0  # of the sensor, standard deviation
_ROWS = 64  # drawn at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window:
    """Finished pixels of one window.

    Attributes:
        dates: one array a date, ``(band, row, col)`` in the scene's type.
        classes: uint8 ``(row, col)``, index into :data:`patchbeam.scene.spectra.CLASSES`.
    """

    dates: list[Pixels]
    classes: NDArray[np.uint8]


class Renderer:
    """Draws any window of one scene.

    Args:
        width, height: size of the scene in pixels.
        bands: how many of :data:`patchbeam.scene.spectra.BANDS`.
        days: day of the year of each date.
        seed: what to draw.
        dtype: ``uint16`` (reflectance times 10,000, nodata 0) or ``float32`` (reflectance, nodata NaN).
        cloud_fraction: share of each date under clouds.
        nodata_fraction: share of the scene beyond the swath's edge.
        widest: the widest window that will be asked for, in pixels.
    """

    def __init__(
        self,
        *,
        width: int,
        height: int,
        bands: int,
        days: tuple[int, ...],
        seed: int,
        dtype: str,
        cloud_fraction: float,
        nodata_fraction: float,
        widest: int,
    ) -> None:
        largest = (_ROWS + 2 * LATTICE, widest + 2 * LATTICE)
        self._size = (width, height)
        self._bands = bands
        self._dtype = np.dtype(dtype)
        self._nodata_fraction = nodata_fraction
        self._land = Landscape(seed, width, height, largest=largest)
        wisps = wisps_of(seed, largest)
        self._skies = [Sky(seed, i, width, height, cloud_fraction, wisps=wisps) for i in range(len(days))]
        self._reflectance = [spectra.reflectances(bands, day) for day in days]
        self._vigour = spectra.vigour_response(bands)
        self._cloud = spectra.cloud_tops(bands)
        self._class_of = spectra.by_code([kind.land_class for kind in spectra.KINDS]).astype(np.uint8)
        self._noise = Texture(salt_of(seed, 60), period=503, strength=_NOISE, largest=largest)
        self._noise_by_date_band = [
            [
                (salt_of(seed, 61, date, band) % 503, salt_of(seed, 62, date, band) % 503)
                for band in range(bands)
            ]
            for date in range(len(days))
        ]

    def window(self, row: int, col: int, rows: int, cols: int) -> Window:
        """Draws the pixels from (``row``, ``col``) on; any window gives the same pixels."""
        dates = [np.empty((self._bands, rows, cols), self._dtype) for _ in self._skies]
        classes = np.empty((rows, cols), np.uint8)
        # On whole lattice cells, with two pixels more to the right and below: the blur looks one ahead,
        # and so do tracks. The smooth fields are had for the window at once, its pixels a few rows at a
        # time, so that their arrays stay in the processor's cache.
        top, left = row % LATTICE, col % LATTICE
        place = (row - top, col - left, top + rows + 2, left + cols + 2)
        survey = self._land.survey(*place)
        skies = [sky.survey(*place) for sky in self._skies]
        for first in range(0, top + rows, _ROWS):
            last = min(first + _ROWS, top + rows)
            part = slice(max(first - top, 0), last - top)
            ground = self._land.ground(survey.part(first, last - first + 2), last - first + 2)
            here = (row - top + first, col - left, last - first + 2, left + cols + 2)
            clouds = [
                sky.window(density, first, here) for sky, density in zip(self._skies, skies, strict=True)
            ]
            self._draw(
                row + part.start, col, ground, clouds, [date[:, part] for date in dates], classes[part]
            )
        return Window(dates=dates, classes=classes)

    def _draw(
        self,
        row: int,
        col: int,
        ground: Ground,
        clouds: list[tuple[Floats | None, Floats | None]],
        dates: list[Pixels],
        classes: NDArray[np.uint8],
    ) -> None:
        """Fills some rows of a window."""
        rows, cols = classes.shape
        # The ground may begin above and to the left, and goes on by two pixels.
        top, left = ground.code.shape[0] - 2 - rows, ground.code.shape[1] - 2 - cols
        inside = (slice(top, top + rows), slice(left, left + cols))
        classes[...] = self._class_of.take(ground.code[inside])
        beyond = outside_swath(
            row, col, rows, cols, width=self._size[0], height=self._size[1], share=self._nodata_fraction
        )
        if beyond is not None:
            classes[beyond] = 0
        for date, ((cover, shade), pixels) in enumerate(zip(clouds, dates, strict=True)):
            light = ground.light if shade is None else ground.light * (np.float32(1) - shade)
            glare = None if cover is None else np.float32(0.45) + np.float32(0.6) * cover
            for band in range(self._bands):
                value = self._reflectance[date][band].take(ground.code)
                value += ground.vigour * self._vigour[band]
                value *= light
                if cover is not None:
                    value += (self._cloud[band] * glare - value) * cover
                value = _blurred(value)[inside]
                down, along = self._noise_by_date_band[date][band]
                value += self._noise.window(row + down, col + along, rows, cols)
                self._finish(value, beyond, pixels[band])

    def _finish(self, value: Floats, beyond: NDArray[np.bool_] | None, out: Pixels) -> None:
        # A valid pixel is never 0, which stands for no data.
        np.clip(value, 1, REFLECTANCE_SCALE, out=value)
        if self._dtype == np.uint16:
            value += np.float32(0.5)
            out[...] = value
        else:
            np.multiply(value, np.float32(1 / REFLECTANCE_SCALE), out=out)
        if beyond is not None:
            out[beyond] = 0 if self._dtype == np.uint16 else np.nan


def _blurred(value: Floats) -> Floats:
    """Mean of each pixel with those right and below, as optics never show a boundary sharp.

    Args:
        value: float32 ``(row, col)``.

    Returns:
        float32, one row and one column less.
    """
    pairs = value[:, :-1] + value[:, 1:]
    total: Floats = pairs[:-1] + pairs[1:]
    total *= np.float32(0.25)
    return total
