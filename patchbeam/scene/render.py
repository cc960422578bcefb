"""From ground and sky to the numbers in the bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.scene import spectra
from patchbeam.scene.landscape import Landscape
from patchbeam.scene.noise import LATTICE, Floats, Texture, salt_of
from patchbeam.scene.sky import Sky, outside_swath

Pixels = NDArray[Any]
REFLECTANCE_SCALE = 10_000
_NOISE = 12.0  # of the sensor, standard deviation


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
        widest += 3 * LATTICE
        self._size = (width, height)
        self._bands = bands
        self._dtype = np.dtype(dtype)
        self._nodata_fraction = nodata_fraction
        self._land = Landscape(seed, width, height, widest=widest)
        self._skies = [Sky(seed, i, width, height, cloud_fraction, widest=widest) for i in range(len(days))]
        self._reflectance = [spectra.reflectances(bands, day) for day in days]
        self._vigour = spectra.vigour_response(bands)
        self._cloud = spectra.cloud_tops(bands)
        self._class_of = spectra.by_code([kind.land_class for kind in spectra.KINDS]).astype(np.uint8)
        self._noise = Texture(salt_of(seed, 60), period=503, smooth=0, widest=widest)
        self._noise_by_date_band = [
            [
                (salt_of(seed, 61, date, band) % 503, salt_of(seed, 62, date, band) % 503)
                for band in range(bands)
            ]
            for date in range(len(days))
        ]

    def window(self, row: int, col: int, rows: int, cols: int) -> Window:
        """Draws the pixels from (``row``, ``col``) on; any window gives the same pixels."""
        # Drawn on whole lattice cells with two pixels more to the right and below: the blur looks one
        # ahead, and so do tracks.
        row0, col0 = row - row % LATTICE, col - col % LATTICE
        height = -(-(row + rows + 2 - row0) // LATTICE) * LATTICE
        width = -(-(col + cols + 2 - col0) // LATTICE) * LATTICE
        ground = self._land.window(row0, col0, height, width)
        top, left = row - row0, col - col0
        beyond = outside_swath(
            row, col, rows, cols, width=self._size[0], height=self._size[1], share=self._nodata_fraction
        )
        classes = self._class_of.take(ground.code[top : top + rows, left : left + cols])
        if beyond is not None:
            classes[beyond] = 0
        dates = []
        for date, sky in enumerate(self._skies):
            cover, shade = sky.window(row0, col0, height, width)
            light = ground.light if shade is None else ground.light * (np.float32(1) - shade)
            pixels = np.empty((self._bands, rows, cols), self._dtype)
            for band in range(self._bands):
                value = self._reflectance[date][band].take(ground.code)
                value += ground.vigour * self._vigour[band]
                value *= light
                if cover is not None:
                    value += (
                        self._cloud[band] * (np.float32(0.45) + np.float32(0.6) * cover) - value
                    ) * cover
                value = _blurred(value)[top : top + rows, left : left + cols]
                down, along = self._noise_by_date_band[date][band]
                value += self._noise.window(row + down, col + along, rows, cols) * np.float32(_NOISE)
                self._finish(value, beyond, pixels[band])
            dates.append(pixels)
        return Window(dates=dates, classes=classes)

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
    """Mean of each pixel with those right and below, as optics never show a boundary sharp."""
    pairs = value.copy()
    pairs[:, :-1] += value[:, 1:]
    pairs[:, -1] += value[:, -1]
    total = pairs.copy()
    total[:-1] += pairs[1:]
    total[-1] += pairs[-1]
    total *= np.float32(0.25)
    return total
