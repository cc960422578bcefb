"""From numbers to colours: percentile stretch, grey, the colours of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchbeam.class_colours import Colour, class_colours
from patchbeam.elements import Array, Mask
from patchbeam.look.canvas import MASKED
from patchbeam.look.png import Rgb
from patchbeam.manifest import ManifestClass

GAMMA = 1.5
"""Brightens what is dark: land is dark beside clouds and roofs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A linear scale from numbers to 0…1; what lies outside is cut off."""

    low: float
    high: float

    def __call__(self, values: Array) -> Array:
        """Returns float32 from 0 to 1; NaN becomes 0."""
        span = self.high - self.low
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (values.astype(np.float32) - np.float32(self.low)) / np.float32(span if span > 0 else 1)
        shown: Array = np.nan_to_num(np.clip(scaled, 0, 1), nan=0.0)
        return shown


def stretch_of(sample: Array, percentiles: tuple[float, float]) -> Stretch:
    """Returns the scale between two percentiles of a sample; numbers that are not finite do not count."""
    finite = sample[np.isfinite(sample)]
    if not finite.size:
        return Stretch(low=0.0, high=1.0)
    low, high = (float(n) for n in np.percentile(finite, percentiles))
    if not low < high:  # nearly all are one number: the extremes may still differ
        low, high = float(finite.min()), float(finite.max())
    if not low < high:  # 0 is black, and any other number not
        low, high = min(low, 0.0), max(high, 0.0)
    return Stretch(low=low, high=high)


class Classes:
    """Names and colours of the values of a class map.

    Attributes:
        entries: value, name and colour of each class, rising.
    """

    def __init__(self, classes: Sequence[ManifestClass]) -> None:
        """Gives classes without a colour one of a palette."""
        rising = sorted(classes, key=lambda entry: entry.value)
        colours = class_colours([_rgb(entry.colour) for entry in rising])
        self.entries: list[tuple[int, str, Colour]] = [
            (entry.value, entry.name or str(entry.value), colour)
            for entry, colour in zip(rising, colours, strict=True)
        ]
        self._values = np.array([value for value, _, _ in self.entries], np.int64)
        self._colours = np.array([colour for _, _, colour in self.entries] + [MASKED], np.uint8)

    def paint(self, values: Array) -> Rgb:
        """Returns the colours of values; what is no class is grey."""
        numbers = np.nan_to_num(values, nan=-1.0) if values.dtype.kind == "f" else values
        at = np.searchsorted(self._values, numbers)
        known = self._values[np.minimum(at, len(self._values) - 1)] == numbers
        painted: Rgb = self._colours[np.where(known, at, len(self._values))]
        return painted


def _rgb(text: str | None) -> Colour | None:
    return None if text is None else (int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Painter:
    """How the bands of a picture become colours.

    Attributes:
        bands: one, or three for red, green and blue.
        stretches: of each band; empty for a class map.
        classes: of a class map.
    """

    bands: tuple[str, ...]
    stretches: tuple[Stretch, ...] = ()
    classes: Classes | None = None

    def paint(self, bands: Sequence[Array], masked: Mask | None, width: int, height: int) -> Rgb:
        """Returns the picture of one patch.

        Args:
            bands: ``(row, col)`` each.
            masked: true where a pixel is not to be shown.
            width: of the picture.
            height: of the picture.
        """
        if self.classes is not None:
            picture = nearest(self.classes.paint(bands[0]), width, height)
        else:
            channels = [
                stretch(resized(band.astype(np.float32), width, height))
                for stretch, band in zip(self.stretches, bands, strict=True)
            ]
            lit = np.stack(channels * (3 // len(channels)), axis=-1)
            picture = (255 * lit ** np.float32(1 / GAMMA) + 0.5).astype(np.uint8)
        if masked is not None and masked.any():
            picture[nearest(masked, width, height)] = MASKED
        return picture


def resized(values: Array, width: int, height: int) -> Array:
    """Returns a picture in another size: means when it gets smaller, the nearest pixel when larger."""
    for axis, size in ((0, height), (1, width)):
        length = values.shape[axis]
        if size < length:
            edges = (np.arange(size, dtype=np.int64) * length) // size
            counts = np.diff(np.append(edges, length)).astype(np.float32)
            sums = np.add.reduceat(values, edges, axis=axis)
            values = sums / (counts[:, None] if axis == 0 else counts)
        elif size > length:
            values = values.take((np.arange(size) * length) // size, axis=axis)
    return values


def nearest(values: Array, width: int, height: int) -> Array:
    """Returns a picture in another size, each pixel one of those that were there."""
    rows = ((np.arange(height) + 0.5) * values.shape[0] / height).astype(np.int64)
    cols = ((np.arange(width) + 0.5) * values.shape[1] / width).astype(np.int64)
    chosen: Array = values[rows[:, None], cols]
    return chosen
